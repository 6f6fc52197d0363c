/* Connections for calls, and workers: what the parts of this layer share. */
#ifndef RPC_RPC_INTERNAL_H
#define RPC_RPC_INTERNAL_H

#include "rpc/adapt.h"
#include "rpc/rpc.h"
#include "rpc/wire.h"
#include "task/node.h"
#include "task/task.h"

#define RPC_WATCHED_MAX 64 /* connections whose slots a worker looks at */

struct rpc_worker;

/* What both sides have agreed on, as one of them sees it. */
struct rpc_geometry {
    uint32_t request_bytes, result_bytes;
    uint32_t in, out; /* slots for calls of the other side, and for one's own: powers of two, or 0 */
};

/** How many slots a number of calls gets. */
static inline uint32_t rpc_slots(uint32_t calls)
{
    return calls == 0 ? 0 : base_power_of_two_from(base_min(calls, (uint32_t)TARN_RPC_CALLS_MAX));
}

/** Which slot a call has. @param slots  a power of two */
static inline uint32_t rpc_slot_number(uint64_t sequence, uint32_t slots)
{
    return (uint32_t)sequence & (slots - 1);
}

/* ---- calls of this side ------------------------------------------------------------------------- */

enum rpc_slot_state { RPC_FREE, RPC_POSTED, RPC_SENT };

/* Room for one call of this side. */
struct rpc_slot {
    uint64_t sequence; /* of the call that has it, or had it */
    enum rpc_slot_state state;
    bool by_reply;
    bool was_poked;             /* the callee was told to look */
    bool must_check;            /* by reply, and not notified: its mark is to be READ once */
    bool has_reply;             /* it came before the request's WRITE was known to have completed */
    bool has_header;            /* `answer` is proven: the rest of the body is missing */
    struct tarn_rpc_call *call; /* NULL: nobody waits for it any more */
    uint32_t looks;             /* READs that found nothing */
    uint32_t got;               /* bytes of the result's body */
    uint64_t since_ns;          /* of many looks: when that was noted */
    uint64_t due_ns;            /* of the next READ */
    struct rpc_header answer;
    uint8_t
        head[RPC_MARK_BYTES + RPC_HEADER_BYTES]; /* of the request; then mark and header of what was READ */
    struct iovec iov[2];
};

/* A round under way. */
struct rpc_round {
    uint32_t count; /* of operations */
    uint32_t looks; /* READs that were copies, and are over */
    int error;      /* of those */
    bool has_reads;
    bool has_rests;            /* of long results, which take as long as they are */
    uint64_t begin_ns;         /* 0: it is not timed */
    uint64_t answered, posted; /* calls when it began */
};

struct rpc_caller {
    struct rpc_slot *slots;     /* geometry.out */
    struct tarn_fabric_op *ops; /* of a round, a slot each */
    uint32_t *slots_of_ops;
    uint64_t next;         /* number of the next call that takes a slot */
    uint64_t oldest;       /* no slot before this one's is in use */
    uint32_t fetching;     /* slots that are SENT, by fetch, and waited for */
    uint32_t abandoned;    /* and not waited for */
    uint32_t checking;     /* that must_check */
    uint64_t check_due_ns; /* when their marks are READ, if nothing is heard until then */
    bool pumping;          /* somebody makes a round: this one */
    struct rpc_round round;
    bool notifies; /* the callee does not look by itself */
    bool always_notifies;
    bool reads_are_copies; /* TARN_FABRIC_SERVED_BY_SELF */
    uint32_t rounds;
    uint32_t idle_rounds;               /* on end */
    struct tarn_rpc_call *first, *last; /* calls without a slot */
    struct base_list parked;            /* of struct rpc_parked */
    struct rpc_adapt adapt;
    struct tarn_rpc_call_stats stats;
};

/* ---- calls of the other side -------------------------------------------------------------------- */

/* Room for one of them. */
struct rpc_incoming {
    struct tarn_rpc_connection *connection;
    uint64_t sequence;
    uint64_t taken_ns;
    const struct tarn_rpc_method *method;
    bool is_running;
    bool by_reply;
    bool is_posted;  /* a reply, in `op` */
    uint8_t *data;   /* copy of the request's body */
    uint8_t *answer; /* header, body */
    struct tarn_rpc_request request;
    struct tarn_fabric_op op;
    struct iovec iov;
};

struct rpc_callee {
    const struct tarn_rpc_service *service; /* NULL: nothing may be called */
    struct rpc_incoming *slots;             /* geometry.in */
    uint64_t next;                          /* the next to be taken */
    uint64_t marked;                        /* number whose mark is stored, 0: none */
    uint64_t unwhole_since_ns;              /* 0: what was seen of `next` was whole */
    bool by_reply;                          /* how the latest result was asked for */
    uint32_t running;
    struct task_group methods;
};

/* ---- connections -------------------------------------------------------------------------------- */

struct tarn_rpc_connection {
    struct base_list link;         /* rpc_worker.connections */
    struct base_list pending_link; /* rpc_worker.pending */
    struct tarn_node *node;
    struct task_sched *sched;  /* NULL: of a plain thread */
    struct rpc_worker *worker; /* NULL: of a client */
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region;
    struct tarn_fabric_connection *fabric;
    struct tarn_fabric_handle peer;
    struct rpc_geometry geometry;
    uint32_t worker_place, workers;
    uint64_t charged_bytes; /* of slots and copies */
    uint8_t *memory;
    struct task_group group; /* the task that receives */
    int error;               /* what it died of */
    bool is_watched;
    bool is_used; /* since the clock's hand has passed */
    struct rpc_caller caller;
    struct rpc_callee callee;
};

/** Make one, with a domain and its region, in the size of `geometry`. @param export_bytes  as of rpc_connect() @return 0;
 * -ENOMEM; what the fabric says */
base_must_check int rpc_connection_make(struct tarn_fabric *fabric, const struct rpc_geometry *geometry,
                                        const struct tarn_rpc_service *service, uint64_t export_bytes,
                                        struct tarn_rpc_connection **ret_connection);

/** What to say of it when connecting or accepting. */
void rpc_connection_greet(const struct tarn_rpc_connection *connection, struct rpc_hello *ret_hello);

/** Take what the other side has said. @return 0; -EPROTO: its region is too small, or it grants more than was asked */
base_must_check int rpc_connection_meet(struct tarn_rpc_connection *connection,
                                        const struct rpc_hello *hello);

/** The options with which to connect or accept. @param bytes  room for the hello, RPC_HELLO_BYTES */
void rpc_connection_options(const struct tarn_rpc_connection *connection, uint8_t *bytes,
                            struct tarn_fabric_connect_options *ret_options);

/** Receive messages until the connection dies. In a task of its own. Yields. */
void rpc_connection_receive(struct tarn_rpc_connection *connection);

/** Do what a message says. @return 0; -EPROTO */
base_must_check int rpc_connection_hear(struct tarn_rpc_connection *connection,
                                        const struct tarn_fabric_message *message);

/** It is dead: calls fail, at once or when the round is over. */
void rpc_connection_died(struct tarn_rpc_connection *connection, int error);

/** Free it, when nobody uses it and no method of it runs. Yields. */
void rpc_connection_free(struct tarn_rpc_connection *connection);

/** Where the slot of a request begins, in the region of the side that sees the geometry so. */
uint64_t rpc_request_offset(const struct rpc_geometry *geometry, uint64_t sequence);

/** Of a result that is fetched. */
uint64_t rpc_result_offset(const struct rpc_geometry *geometry, uint64_t sequence);

/** Of a result by reply. */
uint64_t rpc_reply_offset(const struct rpc_geometry *geometry, uint64_t sequence);

/** The same, as the other side sees it. */
struct rpc_geometry rpc_geometry_of_peer(const struct rpc_geometry *geometry);

/** Bytes of a region. */
uint64_t rpc_region_bytes(const struct rpc_geometry *geometry);

/* ---- callers ------------------------------------------------------------------------------------ */

/** A reply is said to be there. @return 0; -EPROTO: it is not whole, or not asked for */
base_must_check int rpc_caller_take_reply(struct tarn_rpc_connection *connection, uint32_t slot);

/** Have one of those who are parked make rounds, if there is something to do and nobody does. */
void rpc_caller_hand_on(struct tarn_rpc_connection *connection);

/** End all calls with what the connection died of. */
void rpc_caller_fail(struct tarn_rpc_connection *connection);

/* ---- callees ------------------------------------------------------------------------------------ */

/** What a look at a connection found. */
struct rpc_found {
    uint32_t taken;
    bool is_left; /* something is there that cannot be taken yet: to be looked at again soon */
};

/** Take requests that are there, and run them. May end the connection. Never yields. */
struct rpc_found rpc_callee_serve(struct tarn_rpc_connection *connection);

/** Whether the next request is there, or a part of it. */
bool rpc_callee_has_next(const struct tarn_rpc_connection *connection);

/** Store the mark of the next number. @return whether its request is there by now */
bool rpc_callee_mark(struct tarn_rpc_connection *connection);

/** Take the mark of the next number away: somebody looks again. */
void rpc_callee_unmark(struct tarn_rpc_connection *connection);

/* ---- workers ------------------------------------------------------------------------------------ */

/* Counters of a worker, of one writer. */
struct rpc_worker_counters {
    _Atomic uint64_t connections, watched, requests, fetched, replied, late, unwhole, sleeps, notified, moved,
        memory_bytes, changes;
};

/* Of a method of a worker, of one writer. */
struct rpc_method_counters {
    _Atomic uint64_t calls, errors, service_ns;
};

struct rpc_worker {
    struct tarn_rpc_server *server;
    struct task_sched *sched;
    uint32_t place;
    struct base_list connections;
    struct base_list pending; /* connections that are not watched, and might have a request */
    struct tarn_rpc_connection *watched[RPC_WATCHED_MAX];
    struct tarn_fabric_word words[RPC_WATCHED_MAX];
    uint32_t watched_count;
    uint32_t hand;    /* of the clock */
    uint64_t pass_ns; /* when it began its latest pass */
    uint32_t running; /* methods that are not short */
    uint32_t running_max;
    uint64_t spin_ns;
    uint64_t idle_since_ns; /* 0: something was taken since it looked */
    bool watches;           /* connections at all */
    uint64_t short_ns;      /* what a short method took lately */
    uint32_t shorts;
    bool is_looking; /* at `words`, of watched connections */
    bool is_asleep;
    bool stops;
    struct task_semaphore wake;
    struct task_group group; /* its task, and those of connections */
    struct rpc_worker_counters counters;
    struct rpc_method_counters *methods; /* of the service, by number */
};

/** Add to a counter of its only writer. */
static inline void rpc_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/** Take from it. */
static inline void rpc_uncount(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) - n,
                          memory_order_relaxed);
}

/** A worker's task: looks and serves until it is stopped. */
void rpc_worker_run(void *arg);

/** A message has come for a connection: look at it, and at the others if the worker sleeps. */
void rpc_worker_notified(struct tarn_rpc_connection *connection);

/** Look at a connection no more. Yields: until the worker does not. */
void rpc_worker_forget(struct tarn_rpc_connection *connection);

/** End its sleep. */
void rpc_worker_wake(struct rpc_worker *worker);

#endif
