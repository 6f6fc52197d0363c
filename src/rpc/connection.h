/* Connections and workers: the structures that the files of this folder share. */
#ifndef RPC_RPC_INTERNAL_H
#define RPC_RPC_INTERNAL_H

#include "rpc/adapt.h"
#include "rpc/rpc.h"
#include "rpc/wire.h"
#include "task/node.h"
#include "task/task.h"

#define RPC_WATCHED_MAX 64 /* the most connections whose slots a worker looks at */

struct rpc_worker;

/* The sizes that both sides have agreed on, as one of them sees them. */
struct rpc_geometry {
    uint32_t request_bytes, result_bytes;
    uint32_t in,
        out; /* number of slots for calls of the other side, and for this side's own: powers of two, or 0 */
};

/** The number of slots for a number of calls in flight. */
static inline uint32_t rpc_slots(uint32_t calls)
{
    return calls == 0 ? 0 : (uint32_t)base_power_of_two_from(base_min(calls, (uint32_t)TARN_RPC_CALLS_MAX));
}

/** The slot that a call takes. @param slots  a power of two */
static inline uint32_t rpc_slot_number(uint64_t sequence, uint32_t slots)
{
    return (uint32_t)sequence & (slots - 1);
}

/* ---- calls of this side ------------------------------------------------------------------------- */

enum rpc_slot_state { RPC_FREE, RPC_POSTED, RPC_SENT };

/* Room for one call of this side. */
struct rpc_slot {
    uint64_t sequence; /* number of the call that has the slot, or had it last */
    enum rpc_slot_state state;
    bool by_reply;
    bool was_poked; /* the callee was notified */
    bool must_poke; /* it is to be notified by the next round */
    bool
        must_check; /* the result comes by reply and the callee was not notified: the mark is to be READ once */
    bool has_reply;             /* the reply came before the request's WRITE was known to have completed */
    bool has_header;            /* the header in `answer` is proven, and the rest of the body is missing */
    struct tarn_rpc_call *call; /* the call; NULL: its caller has given it up */
    uint32_t looks;             /* number of READs that found nothing */
    uint32_t got;               /* bytes of the result's body that were fetched */
    uint64_t since_ns;          /* time at which pauses between looks began */
    uint64_t due_ns;            /* time of the next READ */
    struct rpc_header answer;
    uint8_t head[RPC_MARK_BYTES +
                 RPC_HEADER_BYTES]; /* the request's header; later the mark and header that were READ */
    struct iovec iov[2];
    /* Room for copies of the request and of the result that is fetched, for operations that outlive their call. Where
     * operations are copies by themselves only a request is copied, and only if it has to wait. */
    uint8_t *request, *result;
};

/* A round under way. */
struct rpc_round {
    bool
        in_flight; /* its operations were posted, and are not taken yet; without a pump the next goes on with it */
    uint32_t count; /* number of operations */
    uint32_t looks; /* number of READs that were copies, and have completed */
    int error;      /* error of those READs, or 0 */
    bool has_reads;
    bool has_rests;            /* it has READs of long results' rests, whose time depends on their length */
    uint64_t begin_ns;         /* beginning of the round; 0: it is not timed */
    uint64_t answered, posted; /* the caller's counts when the round began */
};

struct rpc_caller {
    struct rpc_slot *slots;     /* geometry.out slots */
    struct tarn_fabric_op *ops; /* the operations of a round, one for each slot */
    uint32_t *slots_of_ops;
    uint64_t next;         /* number that the next call with a slot gets */
    uint64_t oldest;       /* number of a call before which no slot is in use */
    uint32_t fetching;     /* number of slots that are SENT, by fetch, and waited for */
    uint32_t abandoned;    /* number of slots whose call was given up */
    uint32_t checking;     /* number of slots with must_check */
    uint32_t pokes;        /* number of slots with must_poke */
    uint64_t check_due_ns; /* time at which their marks are READ, if no reply comes before */
    bool pumping;          /* a task makes the round below */
    bool
        has_pump; /* a task that is runnable makes the next round; the others that wait leave it to that task */
    struct rpc_round round;
    bool notifies; /* requests notify, because the callee does not look by itself */
    bool always_notifies;
    bool reads_are_copies; /* TARN_FABRIC_SERVED_BY_SELF */
    uint32_t rounds;
    uint32_t idle_rounds;               /* consecutive rounds that brought nothing */
    struct tarn_rpc_call *first, *last; /* queue of calls without a slot */
    struct base_list parked;            /* of struct rpc_parked */
    struct rpc_adapt adapt;
    struct tarn_rpc_call_stats stats;
};

#define RPC_LOOKS_AT_ONCE      16    /* READs without a pause between them, where they load a card */
#define RPC_LOOKS_AT_ONCE_COPY 64    /* the same, where READs are copies by the caller */
#define RPC_CHECK_AFTER_NS     20000 /* if a reply has not come by then, the mark is READ */

/** READs of a slot without a pause between them. */
static inline uint32_t rpc_looks_at_once(const struct rpc_caller *caller)
{
    return caller->reads_are_copies ? RPC_LOOKS_AT_ONCE_COPY : RPC_LOOKS_AT_ONCE;
}

/* ---- calls of the other side -------------------------------------------------------------------- */

/* Room for one call of the other side. */
struct rpc_incoming {
    struct tarn_rpc_connection *connection;
    uint64_t sequence;
    uint64_t taken_ns;
    const struct tarn_rpc_method *method;
    bool is_running;
    bool by_reply;
    bool is_posted;  /* the reply in `op` is in flight */
    uint8_t *data;   /* copy of the request's body */
    uint8_t *answer; /* the answer: header, then body */
    struct tarn_rpc_request request;
    struct tarn_fabric_op op;
    struct iovec iov;
};

struct rpc_callee {
    const struct tarn_rpc_service *service; /* the methods; NULL: this side cannot be called */
    struct rpc_incoming *slots;             /* geometry.in slots */
    uint64_t next;                          /* number of the next request to be taken */
    uint64_t marked;                        /* number whose mark is stored; 0: none */
    uint64_t unwhole_since_ns; /* time since which the next request has been incomplete; 0: it is not */
    bool by_reply;             /* the latest result was wanted by reply */
    uint32_t running;
    struct task_group methods;
};

/* ---- shares of a server's memory ------------------------------------------------------------------ */

#define RPC_SMALL_SHARE                                                                                      \
    65536 /* bytes that a connection may have out of the reserve, besides its task's stack */

/* A part of the memory, and how much of it is used. */
struct rpc_pot {
    uint64_t bytes, used_bytes;
};

/* The memory that a server's connections share. */
struct rpc_shares {
    struct base_spin lock;
    struct rpc_pot reserve; /* for small shares alone */
    struct rpc_pot spare;   /* for whatever is more */
    struct base_list
        holders; /* connections that have some of the spare, by age, but for those that were asked for it */
};

/* What a connection has of it. */
struct rpc_share {
    struct base_list link; /* rpc_shares.holders */
    uint64_t reserve_bytes, spare_bytes;
    uint64_t granted_ns;
};

/**
 * Take the share of a new connection: one slot, and more only out of what is spare.
 *
 * @param asked  the geometry that its other side asks for
 * @return 0; -ENOMEM: not even one slot can be had
 */
base_must_check int rpc_shares_take(struct rpc_shares *shares, const struct rpc_geometry *asked,
                                    bool reads_take_time, struct rpc_geometry *ret_granted,
                                    struct rpc_share *ret_share);

/** Begin without connections. */
void rpc_shares_init(struct rpc_shares *shares, uint64_t memory_bytes);

/** From now on a connection may be asked for what it has. */
void rpc_shares_hold(struct rpc_shares *shares, struct tarn_rpc_connection *connection);

/** It may not be asked any more. */
void rpc_shares_let_go(struct rpc_shares *shares, struct tarn_rpc_connection *connection);

/** Give a share back. */
void rpc_shares_give(struct rpc_shares *shares, const struct rpc_share *share);

/** Have the connection that has had more than a small share for longest give it back. @param needed  even if half of the
 * memory for such shares is spare */
void rpc_shares_want(struct rpc_shares *shares, bool needed);

/* ---- connections -------------------------------------------------------------------------------- */

struct tarn_rpc_connection {
    struct base_list link;         /* rpc_worker.connections */
    struct base_list pending_link; /* rpc_worker.pending */
    struct tarn_node *node;
    struct task_sched *sched;  /* the scheduler whose tasks use the connection; NULL: a plain thread does */
    struct rpc_worker *worker; /* the worker that serves it; NULL: a client's connection */
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region;
    struct tarn_fabric_connection *fabric;
    struct tarn_fabric_handle peer;
    struct rpc_geometry geometry;
    uint32_t worker_place, workers;
    uint64_t charged_bytes; /* bytes of slots and copies, charged to the node */
    uint8_t *memory;
    struct task_group group; /* the task that receives messages */
    int error;               /* the error that ended the connection; 0: it lives */
    bool is_watched;
    bool is_used;           /* it has had a request since the clock's hand has passed */
    bool is_wanted_back;    /* the server needs its memory: it ends with the calls that are under way */
    struct rpc_share share; /* of the server's memory */
    struct rpc_caller caller;
    struct rpc_callee callee;
};

/** Make a connection with its domain and region, for a geometry. @param export_bytes  as in rpc_connect() @return 0;
 * -ENOMEM; the fabric's errors */
base_must_check int rpc_connection_make(struct tarn_fabric *fabric, const struct rpc_geometry *geometry,
                                        const struct tarn_rpc_service *service, uint64_t export_bytes,
                                        struct tarn_rpc_connection **ret_connection);

/** Fill in the hello with which a connection connects or accepts. */
void rpc_connection_greet(const struct tarn_rpc_connection *connection, struct rpc_hello *ret_hello);

/** Take the other side's hello. @return 0; -EPROTO: its region is too small, or it grants more than was asked for */
base_must_check int rpc_connection_meet(struct tarn_rpc_connection *connection,
                                        const struct rpc_hello *hello);

/** Fill in the options with which a connection connects or accepts. @param bytes  room for the hello, RPC_HELLO_BYTES */
void rpc_connection_options(const struct tarn_rpc_connection *connection, uint8_t *bytes,
                            struct tarn_fabric_connect_options *ret_options);

/** Receive messages until the connection ends. Run in a task of its own. Yields. */
void rpc_connection_receive(struct tarn_rpc_connection *connection);

/** Carry out a message. @return 0; -EPROTO */
base_must_check int rpc_connection_hear(struct tarn_rpc_connection *connection,
                                        const struct tarn_fabric_message *message);

/** Take the end of a connection: its calls fail, at once or when the round is over. */
void rpc_connection_died(struct tarn_rpc_connection *connection, int error);

/** Free a connection, once no task uses it and none of its methods runs. Yields. */
void rpc_connection_free(struct tarn_rpc_connection *connection);

/** Offset of a request's slot, in the region of the side whose geometry this is. */
uint64_t rpc_request_offset(const struct rpc_geometry *geometry, uint64_t sequence);

/** Offset of the slot of a result that is fetched. */
uint64_t rpc_result_offset(const struct rpc_geometry *geometry, uint64_t sequence);

/** Offset of the slot of a result by reply. */
uint64_t rpc_reply_offset(const struct rpc_geometry *geometry, uint64_t sequence);

/** The same geometry as the other side sees it. */
struct rpc_geometry rpc_geometry_of_peer(const struct rpc_geometry *geometry);

/** Bytes of all memory of a connection. @param reads_take_time  READs are no copies by the caller */
uint64_t rpc_connection_bytes(const struct rpc_geometry *geometry, bool reads_take_time);

/** Have a connection end with the last of the calls that are under way; further ones fail. */
void rpc_connection_leave(struct tarn_rpc_connection *connection);

/** Bytes of a region. */
uint64_t rpc_region_bytes(const struct rpc_geometry *geometry);

/* ---- callers ------------------------------------------------------------------------------------ */

/** Take a reply that a message has announced. @return 0; -EPROTO: it is not whole, or was not wanted */
base_must_check int rpc_caller_take_reply(struct tarn_rpc_connection *connection, uint32_t slot);

/** Make one of the parked tasks the pump, if there is something to do and no pump. */
void rpc_caller_hand_on(struct tarn_rpc_connection *connection);

/** End the calls that have no slot yet; none of them has run. */
void rpc_caller_drop_queue(struct tarn_rpc_connection *connection, int error);

/** End all calls with the connection's error. */
void rpc_caller_fail(struct tarn_rpc_connection *connection);

/** The slot of a call of this side. */
static inline struct rpc_slot *rpc_slot_of(struct tarn_rpc_connection *connection, uint64_t sequence)
{
    return &connection->caller.slots[rpc_slot_number(sequence, connection->geometry.out)];
}

/** Finish the call of a slot with its proven result. @param error  0, or why the result could not be taken */
void rpc_caller_finish_slot(struct tarn_rpc_connection *connection, struct rpc_slot *slot, int error);

/** Stop waiting for the mark of a slot's call. */
void rpc_caller_check_no_more(struct rpc_caller *caller, struct rpc_slot *slot);

/** Tell the adaptive choice the time. */
void rpc_caller_note_time(struct tarn_rpc_connection *connection, uint64_t now_ns);

/* ---- rounds ------------------------------------------------------------------------------------- */

/** Whether any slot needs READs. */
bool rpc_round_needs_reads(const struct rpc_caller *caller);

/** Whether a round would have something to do, now or later. */
bool rpc_round_has_work(struct tarn_rpc_connection *connection);

/** The time at which a round has something to do. @return 0: now; TASK_FOREVER: nothing but calls that are posted */
uint64_t rpc_round_due(struct tarn_rpc_connection *connection);

/** Go on with the round that is in flight, or begin one: post all operations that are due. Makes the caller the pump.
 * @return false: there is nothing to do */
bool rpc_round_resume(struct tarn_rpc_connection *connection);

/**
 * End a round that was resumed: wait for it, and take its results. The caller is no pump any more. Yields.
 *
 * @param ret_is_better  whether a call has ended, or began, or its callee is to be notified at once
 * @return 0; -ETIMEDOUT, -ECANCELED: it is in flight
 */
base_must_check int rpc_round_end(struct tarn_rpc_connection *connection, uint64_t until_ns,
                                  bool *ret_is_better);

/** Copy what operations in flight still need of the memory of calls, so that a call may end. */
void rpc_round_detach(struct tarn_rpc_connection *connection);

/** Resume and end a round, if there is something to do. Yields. @return as rpc_round_end() */
base_must_check int rpc_round_make(struct tarn_rpc_connection *connection, uint64_t until_ns,
                                   bool *ret_is_better);

/* ---- callees ------------------------------------------------------------------------------------ */

/** The result of a look at a connection. */
struct rpc_found {
    uint32_t taken;
    bool is_left; /* a request cannot be taken yet, and is to be looked at again soon */
};

/** Take the requests that have come, and run them. May end the connection. Never yields. */
struct rpc_found rpc_callee_serve(struct tarn_rpc_connection *connection);

/** Whether the next request, or a part of it, has come. */
bool rpc_callee_has_next(const struct tarn_rpc_connection *connection);

/** Store the mark of the next number. @return whether its request has come by now */
bool rpc_callee_mark(struct tarn_rpc_connection *connection);

/** Take the mark of the next number away, because a task looks again. */
void rpc_callee_unmark(struct tarn_rpc_connection *connection);

/* ---- workers ------------------------------------------------------------------------------------ */

/* A worker's counters; it is their only writer. */
struct rpc_worker_counters {
    _Atomic uint64_t connections, watched, requests, fetched, replied, late, unwhole, sleeps, notified, moved,
        memory_bytes, changes;
};

/* A worker's counters of one method; it is their only writer. */
struct rpc_method_counters {
    _Atomic uint64_t calls, errors, service_ns;
};

struct rpc_worker {
    struct tarn_rpc_server *server;
    struct task_sched *sched;
    uint32_t place;
    struct base_list connections;
    struct base_list pending; /* connections that are not watched and may have a request */
    struct tarn_rpc_connection *watched[RPC_WATCHED_MAX];
    struct tarn_fabric_word words[RPC_WATCHED_MAX];
    uint32_t watched_count;
    uint32_t hand;    /* place of the clock's hand among the watched connections */
    uint64_t pass_ns; /* time at which the hand began its latest pass */
    uint32_t running; /* number of running methods that are not short */
    uint32_t running_max;
    uint64_t spin_ns;
    uint64_t idle_since_ns; /* time since which no request was taken; 0: the last look took one */
    bool watches;           /* whether it watches connections at all */
    uint64_t short_ns;      /* time that a short method took lately */
    uint32_t shorts;
    bool is_looking; /* the worker looks at `words`, those of watched connections */
    bool is_asleep;
    bool stops;
    struct task_semaphore wake;
    struct task_group group; /* its task, and those that receive for its connections */
    struct rpc_worker_counters counters;
    struct rpc_method_counters *methods; /* counters of the service's methods, by number */
};

/** Add to a counter; called by its only writer. */
static inline void rpc_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/** Subtract from a counter; called by its only writer. */
static inline void rpc_uncount(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) - n,
                          memory_order_relaxed);
}

/** Run a worker: look and serve until it is stopped. */
void rpc_worker_run(void *arg);

/** Have the worker look at a connection for which a message has come; if it sleeps, it looks at all. */
void rpc_worker_notified(struct tarn_rpc_connection *connection);

/** Have the worker forget a connection. Yields until it looks at it no more. */
void rpc_worker_forget(struct tarn_rpc_connection *connection);

/** End a worker's sleep. */
void rpc_worker_wake(struct rpc_worker *worker);

#endif
