/* The provider `verbs`: cards that speak InfiniBand verbs. For the files of this folder. */
#ifndef FABRIC_VERBS_VERBS_H
#define FABRIC_VERBS_VERBS_H

#include "fabric/bell.h"
#include "fabric/fabric_internal.h"
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

struct verbs;
struct verbs_connection;

/* ---- device.c: the card ------------------------------------------------------------------------- */

/* What the URL says. */
struct verbs_options {
    char device[64]; /* "": the first with a port that is up */
    uint32_t port;   /* 0: the first that is up */
    int64_t gid;     /* of the port's table; -1: the first that routers and switches know as an address */
    int64_t traffic_class;
    uint64_t heartbeat_ns;
};

/* A card that was opened, by us alone: its events are no other fabric's. */
struct verbs_device {
    struct ibv_context *context;
    uint8_t port;
    uint8_t gid;
    uint8_t max_reads; /* READs and atomics in flight of a connection, either way */
    bool has_address;  /* its GID is an IP address: what we connect from */
    bool in_order;     /* it says that bytes land in order, and so words do whole */
    int numa_node;     /* -1: unknown */
    struct sockaddr_storage address;
    enum ibv_atomic_cap atomics;
    uint32_t send_depth, receive_depth_max;
    uint32_t inline_bytes;
    uint32_t vectors, read_vectors; /* of one request */
    uint32_t piece_bytes;           /* of one request that is not copied */
};

/** Read what follows "verbs:". @return 0; -EINVAL (logged) */
base_must_check int verbs_options_read(struct base_log *log, const char *text,
                                       struct verbs_options *ret_options);

/** Open the device that the options say, and ask it what it can. @return 0; -ENODEV and others (logged) */
base_must_check int verbs_device_open(struct base_log *log, const struct verbs_options *options,
                                      struct verbs_device *ret_device);

/** Close. */
void verbs_device_close(struct verbs_device *device);

/* ---- domain.c: domains and regions --------------------------------------------------------------- */

enum verbs_place { VERBS_READABLE, VERBS_WRITABLE, VERBS_PLACES };

struct verbs_domain {
    struct verbs *verbs;
    struct ibv_pd *pd;
    uint64_t identity; /* in every handle */
    uint64_t bytes_max[VERBS_PLACES];
    struct base_spin lock; /* of what follows */
    uint64_t bytes[VERBS_PLACES];
    uint32_t regions, regions_max;
    uint64_t units;             /* of device addresses given out so far, from a random number on */
    struct verbs_local *locals; /* by address */
    uint32_t locals_count, locals_room;
};

/** Members of struct fabric_provider, which says what each promises. */
int verbs_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain);
void verbs_domain_close(void *state);
int verbs_region_alloc(void *state, struct tarn_fabric_region *region);
void verbs_region_free(void *state, struct tarn_fabric_region *region);
int verbs_region_register(void *state, struct tarn_fabric_region *region);
int verbs_buffers_made(void *state, void *memory, uint64_t bytes, void **ret_state);
void verbs_buffers_gone(void *state, void *buffers);

/** Whether a handle's key can be one. */
bool verbs_key_is_possible(uint64_t key);

/** What a handle's key says: where the region begins for its device. */
uint64_t verbs_key_address(uint64_t key);

/** And its device's name for it. */
uint32_t verbs_key_rkey(uint64_t key);

/* ---- local.c: memory of this process that the device knows ------------------------------------------ */

struct verbs_local {
    const uint8_t *memory;
    uint64_t bytes;
    uint64_t address; /* where it begins for the device */
    uint32_t lkey;
    bool is_writable; /* by the device, for us */
};

/** Enter some into a domain's table. @return 0; -ENOMEM */
base_must_check int verbs_local_add(struct verbs_domain *domain, const struct verbs_local *local);

/** Take it out, and wait until the device does nothing with it for a connection that lives: until the requests that
 * were handed over are answered, or given up. Yields. */
void verbs_local_remove(struct verbs_domain *domain, const struct verbs_local *local);

/** Free the table, which is empty. */
void verbs_local_drop(struct verbs_domain *domain);

/**
 * Find a part of an operation's vectors there; with the connection's lock.
 *
 * @param at, bytes    the part, within the operation's bytes
 * @param ret_vectors  for the device
 * @return how many of them; 0: some of it is unknown to the device, or they are too many
 */
uint32_t verbs_local_gather(struct verbs_domain *domain, const struct tarn_fabric_op *op, uint64_t at,
                            uint64_t bytes, struct ibv_sge *ret_vectors, uint32_t vectors_max);

/* ---- hello.c: what two sides tell each other ------------------------------------------------------ */

#define VERBS_HELLO_BYTES   24 /* before private data */
#define VERBS_REQUEST_BYTES 56 /* what the connection manager carries with a request */
#define VERBS_REQUEST_DATA  32 /* of private data in one request; more comes in two */
#define VERBS_WELCOME_BYTES (VERBS_HELLO_BYTES + TARN_FABRIC_PRIVATE_BYTES_MAX)

enum verbs_hello_kind {
    VERBS_HELLO = 1, /* all of it */
    VERBS_PART,      /* the first bytes of private data; a VERBS_REST follows */
    VERBS_REST,      /* all but them */
    VERBS_WELCOME,
    VERBS_REFUSAL,
    VERBS_GO_ON, /* refuses a VERBS_PART, and remembers it */
};

/* What a side says of itself. README, "verbs", has the table. */
struct verbs_hello {
    enum verbs_hello_kind kind;
    uint32_t receive_count, receive_bytes;
    uint64_t domain;
    uint64_t nonce; /* of PART and REST: which belong together */
    uint32_t data_bytes;
    uint8_t data[TARN_FABRIC_PRIVATE_BYTES_MAX];
};

/** Write one. @return its bytes: VERBS_REQUEST_BYTES, or with VERBS_WELCOME VERBS_WELCOME_BYTES */
uint8_t verbs_hello_save(const struct verbs_hello *hello, uint8_t *bytes);

/** Read one of whatever kind. @return 0; -EPROTO */
base_must_check int verbs_hello_load(const uint8_t *bytes, size_t count, struct verbs_hello *ret_hello);

/* ---- service.c: the thread that watches descriptors ------------------------------------------------ */

struct verbs {
    struct tarn_node *node;
    struct verbs_options options;
    struct verbs_device device;
    struct rdma_event_channel *events;   /* of the connection manager */
    struct ibv_comp_channel *completion; /* of completion queues whose users sleep */
    int wake;                            /* an eventfd: there are connections, or the end has come */
    pthread_t thread;
    struct base_log_limit refusals;
    _Atomic uint64_t requests, doorbells, completions; /* handed to the device; of all connections */
    struct base_spin lock;                             /* of what follows */
    struct base_list connections;                      /* of struct verbs_connection */
    bool closing;
};

/** Start the thread, with all descriptors open. @return 0 or negative errno */
base_must_check int verbs_service_start(struct verbs *verbs);

/** End it. Blocks for as long as a thread takes to end. */
void verbs_service_stop(struct verbs *verbs);

/** From now on the clock ticks for a connection. */
void verbs_service_add(struct verbs_connection *connection);

/** It does so no more. */
void verbs_service_remove(struct verbs_connection *connection);

/* ---- listener.c ---------------------------------------------------------------------------------- */

/* What an id of the connection manager is; the first member of what it belongs to. */
enum verbs_what { VERBS_LISTENER, VERBS_CONNECTION };

/** Read an address. @return 0; -EINVAL */
base_must_check int verbs_address_read(const char *text, struct sockaddr_storage *ret_address);

/** Whether an id has come to the fabric's device. @return 0; -ENODEV (logged) */
base_must_check int verbs_check_device(struct verbs *verbs, const struct rdma_cm_id *id);

/** Of the service: somebody wants to connect. */
void verbs_listener_event(struct rdma_cm_event *event);

/** Members of struct fabric_provider, which says what each promises. */
int verbs_listen(void *state, const char *address, void **ret_listener);
void verbs_listener_close(void *state);
int verbs_listener_wait(void *state, uint64_t deadline_ns, void **ret_incoming);
uint32_t verbs_incoming_data(const void *state, const void **ret_data);
void verbs_reject(void *state);

/* ---- connections --------------------------------------------------------------------------------- */

/* How far the connection manager has come, in this order. */
enum verbs_step {
    VERBS_BEGUN,
    VERBS_RESOLVED, /* the address */
    VERBS_ROUTED,
    VERBS_ANSWERED,
    VERBS_MET,
    VERBS_OVER,
};

/* A work request on its way. */
struct verbs_flight {
    struct tarn_fabric_op *op; /* NULL: our own */
    uint64_t at;               /* in the operation's bytes */
    uint64_t ring_end;         /* what is before it in the ring is free when this is done */
    const uint8_t *memory;     /* what was read */
    uint32_t bytes;
    bool last;      /* of the operation */
    bool into;      /* bytes are to be copied out when it is done */
    bool is_direct; /* from or into the operation's own memory */
};

/* A message that waits for its receiver. */
struct verbs_arrival {
    uint32_t slot;
    uint32_t bytes;
    uint32_t value;
    bool notified;
};

/*
 * A connection, and before that somebody who wants one. The lock guards all that changes; only the connection's user
 * posts and finishes operations, the service's thread looks for completions too, probes, and tells of the end.
 */
struct verbs_connection {
    enum verbs_what what;
    struct base_list link; /* verbs.connections, or a listener's */
    struct verbs *verbs;
    struct verbs_domain *domain;
    struct tarn_fabric_connection *owner; /* NULL: not yet */
    struct rdma_cm_id *id;
    struct verbs_hello hello; /* the other side's */
    struct fabric_bell bell;

    struct base_spin lock;
    enum verbs_step step;
    int step_error; /* why it is over */
    uint8_t answer[VERBS_WELCOME_BYTES];
    uint32_t answer_bytes;
    int error; /* what it died of */
    const char *doing;
    struct tarn_fabric_op *culprit; /* the operation that it died of */
    bool is_added;                  /* the clock ticks for it; guarded by verbs.lock */
    bool is_live;                   /* there is a connection: its user learns of the end */
    bool is_told;                   /* the connection manager was told of the end */

    struct ibv_cq *cq;
    struct ibv_qp *qp; /* NULL: not yet, or destroyed */
    struct ibv_mr *mr;
    uint8_t *memory; /* of slots, then of the ring */
    uint64_t memory_bytes;
    uint64_t seen; /* completions */
    uint64_t seen_at_beat;
    uint32_t silent_beats;
    bool probed; /* one is on its way */

    /* sending: a ring of registered memory, and of flights */
    uint8_t *ring;
    uint64_t ring_bytes, ring_head, ring_tail;
    struct verbs_flight *flights;
    uint64_t posted, done_count; /* work requests; the difference is in flight */
    uint64_t flushed;            /* number behind the last that has failed */
    uint64_t bye;                /* number of the last, 0: not said */
    struct fabric_queue waiting; /* to be posted */
    struct fabric_queue done;    /* for their user to finish */
    uint64_t part;               /* bytes of the first waiting that are posted */
    uint32_t flying;             /* operations that are wholly posted, and not done */
    uint32_t credit;

    /* receiving */
    bool messages_are_rare;
    uint32_t slots, slot_bytes, receive_count, receive_bytes;
    uint32_t unposted_count; /* slots that were received from */
    uint32_t *unposted;
    uint32_t owed; /* slots posted again that the other side does not know of */
    struct verbs_arrival *arrivals;
    uint32_t arrivals_first, arrivals_count;
};

/* ---- queue.c: work requests and completions; with the connection's lock ------------------------------ */

#define VERBS_PIECE_BYTES 32768 /* of one work request that is copied */
#define VERBS_DIRECT_BYTES                                                                                   \
    (1U << 20) /* of one that is not: so long a connection looks silent. As long as the longest message */
#define VERBS_RING_BYTES 131072 /* at least, for copies */
#define VERBS_SPARE      4      /* work requests that are for ourselves */
#define VERBS_CONTROL_SLOTS                                                                                  \
    24 /* receives for what is no message: at most 18 tell of credit, one is the last */
#define VERBS_INLINE_MAX 256

/** It dies of an error, unless it is dead. */
void verbs_die_locked(struct verbs_connection *connection, int error, const char *doing);

/** Take what has completed. */
void verbs_poll_locked(struct verbs_connection *connection);

/** Post what can be posted. */
void verbs_pump_locked(struct verbs_connection *connection);

/** Post the receive of a slot. @return 0 or negative errno */
base_must_check int verbs_post_receive_locked(struct verbs_connection *connection, uint32_t slot);

/** Post all slots that were received from, and tell the other side soon. */
void verbs_give_back_locked(struct verbs_connection *connection, bool tell);

/** Whether the other side should be told at once: it has no more credit left than that. So what is told doubles what
 * it has, and few such tellings wait for one that does not look. */
bool verbs_owes_credit_locked(const struct verbs_connection *connection);

/** Say that we leave. */
void verbs_say_bye_locked(struct verbs_connection *connection);

/** See whether the other side is there: a WRITE of nothing. */
void verbs_probe_locked(struct verbs_connection *connection);

/* ---- connect.c, connection.c ----------------------------------------------------------------------- */

/** Have all that is in flight come to an end, and with it the device's hold of memory. */
void verbs_connection_stop(struct verbs_connection *connection);

/** Have the connection manager tell the peer of the end. */
void verbs_connection_tell(struct verbs_connection *connection);

/** Destroy the queue pair: the peer can do nothing here any more. */
void verbs_connection_cut(struct verbs_connection *connection);

/** Make one that has nothing yet. @return NULL: no memory */
struct verbs_connection *verbs_connection_make(struct verbs *verbs);

/** Free it and all it has; nobody knows it any more but the connection manager. Blocks shortly. */
void verbs_connection_free(struct verbs_connection *connection);

/** Of the service: the connection manager has come further. */
void verbs_connection_event(struct verbs_connection *connection, const struct rdma_cm_event *event);

/** Of the service: it is lost. */
void verbs_connection_lose(struct verbs_connection *connection, int error, const char *doing);

/** Of the service: a tick. */
void verbs_connection_beat(struct verbs_connection *connection);

/** Members of struct fabric_provider, which says what each promises. */
int verbs_accept(void *incoming, void *state, const struct tarn_fabric_connect_options *options,
                 struct tarn_fabric_connection *owner, void **ret_connection);
int verbs_connect(void *state, const char *address, const struct tarn_fabric_connect_options *options,
                  uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection);
uint32_t verbs_peer_data(const void *state, const void **ret_data);
void verbs_post(void *state, struct tarn_fabric_op *op);
void verbs_posted(void *state);
void verbs_progress(void *state);
int verbs_wait(void *state, struct tarn_fabric_op *op, uint64_t deadline_ns);
int verbs_receive(void *state, void *data, uint32_t room, uint64_t deadline_ns,
                  struct tarn_fabric_message *ret_message);
void verbs_fail(void *state);
int verbs_fence(void *state, uint64_t deadline_ns);
void verbs_disconnect(void *state);

#endif
