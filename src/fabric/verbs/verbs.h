/* The provider `verbs`: cards that speak InfiniBand verbs. For the files of this folder. */
#ifndef FABRIC_VERBS_VERBS_H
#define FABRIC_VERBS_VERBS_H

#include "fabric/bell.h"
#include "fabric/fabric_internal.h"
#include "fabric/service.h"
#include "fabric/verbs/ring.h"
#include "task/net.h"
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

struct verbs;
struct verbs_connection;

/* ---- device.c: the card ------------------------------------------------------------------------- */

/* The URL's options. */
struct verbs_options {
    char device[64]; /* the card's name; "": the first with a port that is up */
    int64_t port;    /* the port's number; 0: the first that is up */
    int64_t gid;     /* index in the port's table; -1: the first that stands for an IP address */
    int64_t traffic_class;
    uint64_t heartbeat_ns;
    bool
        whole_words; /* the operator knows that the card moves words whole, though it does not say so itself */
};

/* A card that this fabric has opened for itself alone: so its events concern no other fabric. */
struct verbs_device {
    struct ibv_context *context;
    uint8_t port;
    uint8_t gid;
    uint8_t max_reads; /* the most READs and atomics of a connection in flight, in each direction */
    bool has_address;  /* its GID is an IP address, from which connections are made */
    bool in_order;     /* the card promises that bytes land in order, and so that words land whole */
    struct sockaddr_storage address;
    enum ibv_atomic_cap atomics;
    uint32_t send_depth, receive_depth_max;
    uint32_t inline_bytes;
    uint32_t vectors, read_vectors; /* the most vectors of one request, and of one READ */
    uint32_t piece_bytes;           /* the most bytes of one request that is not copied */
};

/** Read the URL's text behind "verbs:". @return 0; -EINVAL (logged) */
base_must_check int verbs_options_read(struct base_log *log, const char *text,
                                       struct verbs_options *ret_options);

/** Open the device of the options, and read its limits. @return 0; -ENODEV and others (logged) */
base_must_check int verbs_device_open(struct base_log *log, const struct verbs_options *options,
                                      struct verbs_device *ret_device);

/**
 * Make a queue pair within the limits of the device that are known so far.
 *
 * @param context       for its events
 * @param inline_bytes  wanted, and then what the device gives
 * @return NULL: the device cannot make one of these sizes (errno)
 */
struct ibv_qp *verbs_queue_pair_make(const struct verbs_device *device, struct ibv_pd *pd, struct ibv_cq *cq,
                                     uint32_t receives, void *context, uint32_t *inline_bytes);

/* ---- domain.c: domains and regions --------------------------------------------------------------- */

struct verbs_domain {
    struct verbs *verbs;
    struct ibv_pd *pd;
    uint64_t identity; /* in every handle, with low bits that are 0 here */
    uint64_t charged_bytes;
    struct base_spin lock;      /* of what follows */
    uint64_t left_bytes[2];     /* bytes that regions may still take; [1]: those that peers may change */
    uint32_t regions_left;      /* number of regions that there may still be */
    uint64_t units;             /* units of device addresses given out, counted from a random number */
    struct verbs_local *locals; /* entries ordered by address */
    uint32_t locals_count, locals_room;
};

/** Members of struct fabric_provider, which says what each promises. */
int verbs_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain);
void verbs_domain_close(void *state);
int verbs_region_alloc(void *state, struct tarn_fabric_region *region);
void verbs_region_free(void *state, struct tarn_fabric_region *region);
int verbs_buffers_made(void *state, void *memory, uint64_t bytes, void **ret_state);
void verbs_buffers_gone(void *state, void *buffers);

/** Whether a handle can be of a domain's region. @param identity  the domain's */
bool verbs_handle_is_of(const struct tarn_fabric_handle *handle, uint64_t identity);

/** The device address of a handle's region. */
uint64_t verbs_handle_address(const struct tarn_fabric_handle *handle);

/** The rkey of a handle's region. */
uint32_t verbs_handle_rkey(const struct tarn_fabric_handle *handle);

/* ---- local.c: memory of this process that the device knows ------------------------------------------ */

struct verbs_local {
    const uint8_t *memory;
    uint64_t bytes;
    uint64_t address; /* the device address of its beginning */
    uint64_t reach;   /* the furthest end of this entry and all before it */
    uint32_t lkey;
    bool is_writable; /* the device may write there for this side's operations */
};

/** Enter memory into a domain's table. @return 0; -ENOMEM */
base_must_check int verbs_local_add(struct verbs_domain *domain, const struct verbs_local *local);

/** Remove memory from the table, and wait until the device uses it for no living connection any more: until all requests
 * with it are answered or given up. Yields. */
void verbs_local_remove(struct verbs_domain *domain, const struct ibv_mr *mr);

/**
 * Find a part of an operation's vectors in the table. The connection's lock is held.
 *
 * @param at, bytes    the part, within the operation's bytes
 * @param ret_vectors  the vectors in the device's form
 * @return number of vectors; 0: some memory is not registered, or there are too many
 */
uint32_t verbs_local_gather(struct verbs_domain *domain, const struct tarn_fabric_op *op, uint64_t at,
                            uint64_t bytes, struct ibv_sge *ret_vectors, uint32_t vectors_max);

/* ---- hello.c: what two sides tell each other ------------------------------------------------------ */

#define VERBS_HELLO_BYTES   24 /* bytes of a hello before its private data */
#define VERBS_REQUEST_BYTES 56 /* bytes that the connection manager carries with a request */
#define VERBS_REQUEST_DATA  32 /* the most private data of one request; more is sent in two */
#define VERBS_WELCOME_BYTES (VERBS_HELLO_BYTES + TARN_FABRIC_PRIVATE_BYTES_MAX)

enum verbs_hello_kind {
    VERBS_HELLO = 1, /* a whole hello */
    VERBS_PART,      /* the first bytes of private data; a VERBS_REST follows */
    VERBS_REST,      /* the hello without these bytes */
    VERBS_WELCOME,
    VERBS_REFUSAL,
    VERBS_GO_ON,         /* refuses a VERBS_PART, which the listener has kept */
    VERBS_OUT_OF_MEMORY, /* refuses for that reason */
};

/* A side's description of itself. README, "verbs", has the table. */
struct verbs_hello {
    enum verbs_hello_kind kind;
    uint32_t receive_count, receive_bytes;
    uint64_t domain;
    uint64_t nonce; /* equal in a VERBS_PART and a VERBS_REST that belong together */
    uint32_t data_bytes;
    uint8_t data[TARN_FABRIC_PRIVATE_BYTES_MAX];
};

/** Write a hello. @return its bytes: VERBS_REQUEST_BYTES, or with VERBS_WELCOME VERBS_WELCOME_BYTES */
uint8_t verbs_hello_save(const struct verbs_hello *hello, uint8_t *bytes);

/** Read a hello of any kind. @return 0; -EPROTO */
base_must_check int verbs_hello_load(const uint8_t *bytes, size_t count, struct verbs_hello *ret_hello);

/* ---- service.c: events, and the clock ---------------------------------------------------------------- */

struct verbs {
    struct tarn_node *node;
    struct verbs_options options;
    struct verbs_device device;
    struct rdma_event_channel *events;   /* the connection manager's events */
    struct ibv_comp_channel *completion; /* the events of completion queues whose users sleep */
    struct fabric_service service;
    struct fabric_source manager, sleepers, device_events; /* of these two, and of the device */
    struct fabric_source clock; /* a timer, which is set while there are connections */
    struct base_log_limit refusals;
    _Atomic uint64_t requests, doorbells, completions; /* counts since the start, of all connections */
    struct base_spin lock;                             /* of what follows */
    struct base_list connections;                      /* of struct verbs_connection */
};

/** Open the service's descriptors and start its thread. @return 0 or negative errno */
base_must_check int verbs_service_start(struct verbs *verbs);

/** End the service. Blocks as long as a thread takes to end. */
void verbs_service_stop(struct verbs *verbs);

/** Have the clock tick for a connection. */
void verbs_service_add(struct verbs_connection *connection);

/** Have the clock tick for a connection no more. */
void verbs_service_remove(struct verbs_connection *connection);

/* ---- listener.c ---------------------------------------------------------------------------------- */

/* The kind of object that an id of the connection manager belongs to; the first member of such objects. */
enum verbs_what { VERBS_LISTENER, VERBS_CONNECTION };

/** Read an address of IP. @return 0; -EINVAL */
base_must_check int verbs_address_read(const char *text, struct net_address *ret_address);

/** Check that the connection manager has chosen the fabric's device for an id. @return 0; -ENODEV (logged) */
base_must_check int verbs_check_device(struct verbs *verbs, const struct rdma_cm_id *id);

/** Handle an event of a listener: a client wants to connect. In the service's thread. */
void verbs_listener_event(struct rdma_cm_event *event);

/** Members of struct fabric_provider, which says what each promises. */
int verbs_listen(void *state, const char *address, void **ret_listener);
void verbs_listener_close(void *state);
int verbs_listener_wait(void *state, uint64_t deadline_ns, struct tarn_fabric_incoming **ret_incoming);
void verbs_reject(struct tarn_fabric_incoming *client, int error);

/* ---- connections --------------------------------------------------------------------------------- */

/* The steps of the connection manager, in their order. */
enum verbs_step {
    VERBS_BEGUN,
    VERBS_RESOLVED, /* the address is resolved */
    VERBS_ROUTED,
    VERBS_ANSWERED,
    VERBS_MET,
    VERBS_OVER,
};

/* A work request in flight. */
struct verbs_flight {
    struct tarn_fabric_op *op; /* its operation; NULL: a control message or a probe */
    uint64_t at;               /* offset of its bytes in the operation */
    uint64_t ring_end;         /* end of the ring's part that is free when this request is done */
    const uint8_t *memory;     /* the copy's place in the ring */
    uint32_t bytes;
    bool last;      /* it is the operation's last piece */
    bool into;      /* its bytes are copied out of the ring when it is done */
    bool is_direct; /* it uses the operation's own memory */
};

/* A message that waits for its receiver. */
struct verbs_arrival {
    uint32_t slot;
    struct tarn_fabric_message message;
};

/*
 * A connection, and before that a client that wants one. The lock guards all that changes. Only the connection's user
 * posts and finishes operations; the service's thread also polls for completions, probes, and reports the end.
 */
struct verbs_connection {
    enum verbs_what what;
    struct tarn_fabric_incoming incoming; /* while it is a client's, in a listener's list */
    struct base_list link;                /* place in verbs.connections */
    struct verbs *verbs;
    struct verbs_domain *domain;
    struct tarn_fabric_connection *owner; /* the public object; NULL: not yet made */
    struct rdma_cm_id *id;
    struct verbs_hello hello; /* the other side's hello */
    struct fabric_bell bell;

    struct base_spin lock;
    enum verbs_step step;
    int step_error; /* the error that ended the meeting; 0: none */
    int error;      /* the error that ended the connection; 0: it lives */
    const char *doing;
    struct tarn_fabric_op *culprit; /* the operation whose failure ended the connection, or NULL */
    bool is_live;                   /* the connection is made, and its user hears of its end */
    bool is_told;                   /* the connection manager knows of the end */

    struct ibv_cq *cq;
    struct ibv_qp *qp; /* the queue pair; NULL: not yet made, or destroyed */
    struct ibv_mr *mr;
    uint8_t *memory; /* registered memory: the slots, then the ring */
    uint64_t memory_bytes;
    bool heard; /* a completion was fetched since the last tick of the clock */
    uint32_t silent_beats;
    bool probed; /* a probe is in flight */

    /* sending: the ring of copies, and that of flights */
    struct verbs_ring ring;
    struct verbs_flight *flights;
    uint64_t posted,
        done_count;  /* work requests posted, and done, since the beginning; the difference is in flight */
    bool has_failed; /* a request has failed: none counts as done any more */
    struct fabric_queue waiting; /* operations that are not wholly posted */
    struct fabric_queue done;    /* operations that are done, for their user to finish */
    uint64_t part;               /* bytes of the first waiting operation that are posted */
    uint64_t writes_end;         /* one more than the number of the last request that sends bytes */
    uint64_t answers_end;        /* the same of the last that gets bytes, or the value of a word */
    uint32_t credit;

    /* receiving */
    bool messages_are_rare;
    uint32_t slots, slot_bytes, receive_count, receive_bytes;
    uint32_t owed; /* number of slots posted again that the other side does not know of */
    /* a ring of `receive_count` places: messages, and before them those that were received and whose slots are not posted
     * again */
    struct verbs_arrival *arrivals;
    uint32_t arrivals_first, arrivals_count, unposted_count;
};

/* ---- queue.c: work requests and completions; with the connection's lock ------------------------------ */

#define VERBS_PIECE_BYTES 32768 /* the most bytes of a work request that is copied */
#define VERBS_DIRECT_BYTES                                                                                   \
    (1U                                                                                                      \
     << 20) /* the most bytes of one that is not copied: the longest message. A connection looks silent while it is sent */
#define VERBS_RING_BYTES 131072 /* the least size of the ring */
#define VERBS_SPARE      4      /* work requests kept free for control messages and probes */
#define VERBS_CONTROL_SLOTS                                                                                  \
    24 /* receives for control messages: at most 18 with credit and one with the end */
#define VERBS_INLINE_MAX 256

/** End a connection with an error, unless it has ended. */
void verbs_die_locked(struct verbs_connection *connection, int error, const char *doing);

/** Fetch completions. */
void verbs_poll_locked(struct verbs_connection *connection);

/** Post waiting operations, as far as credit, fences and room allow. */
void verbs_pump_locked(struct verbs_connection *connection);

/** Post the receive of a slot, unless the connection has ended; that it fails ends it. */
void verbs_post_receive_locked(struct verbs_connection *connection, uint32_t slot);

/** Post all received slots again. @param tell  send the credit at once */
void verbs_give_back_locked(struct verbs_connection *connection, bool tell);

/** Whether credit should be sent at once: the other side has no more left than this side could return. So each credit
 * message doubles its credit, and few of them queue up for a peer that does not receive. */
bool verbs_owes_credit_locked(const struct verbs_connection *connection);

/** Send the peer the end of this side. */
void verbs_say_bye_locked(struct verbs_connection *connection);

/** Probe the other side by an empty WRITE. */
void verbs_probe_locked(struct verbs_connection *connection);

/* ---- connect.c, connection.c ----------------------------------------------------------------------- */

/** Destroy the queue pair: the device uses no memory of requests in flight any more, and the peer can reach none. */
void verbs_connection_cut(struct verbs_connection *connection);

/** Make a connection without queue pair and memory. @return NULL: no memory */
struct verbs_connection *verbs_connection_make(struct verbs *verbs);

/** Free a connection that only the connection manager still knows. Blocks shortly. */
void verbs_connection_free(struct verbs_connection *connection);

/** Handle an event of the connection manager. In the service's thread. */
void verbs_connection_event(struct verbs_connection *connection, const struct rdma_cm_event *event);

/** End a connection that is lost. In the service's thread. */
void verbs_connection_lose(struct verbs_connection *connection, int error, const char *doing);

/** Count a tick of the clock. In the service's thread. */
void verbs_connection_beat(struct verbs_connection *connection);

/** Members of struct fabric_provider, which says what each promises. */
int verbs_accept(struct tarn_fabric_incoming *incoming, void *state,
                 const struct tarn_fabric_connect_options *options, struct tarn_fabric_connection *owner,
                 void **ret_connection);
int verbs_connect(void *state, const char *address, const struct tarn_fabric_connect_options *options,
                  uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection);
void verbs_post(void *state, struct tarn_fabric_op *op);
void verbs_posted(void *state);
void verbs_progress(void *state);
int verbs_wait(void *state, struct tarn_fabric_op *op, uint64_t deadline_ns);
bool verbs_watch(void *state, struct fabric_watch *watch);
int verbs_receive(void *state, void *data, uint32_t room, uint64_t deadline_ns,
                  struct tarn_fabric_message *ret_message);
void verbs_fail(void *state);
int verbs_fence(void *state, uint64_t deadline_ns);
void verbs_disconnect(void *state);

#endif
