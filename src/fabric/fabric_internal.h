/* The insides of fabrics, for the files of this folder. */
#ifndef FABRIC_FABRIC_INTERNAL_H
#define FABRIC_FABRIC_INTERNAL_H

#include "fabric/fabric.h"
#include "fabric/lanes.h"

#define FABRIC_NAME_BYTES 64 /* room for a peer's name, as the log shows it */

/* For the steps of an operation that takes a few nanoseconds in all: a call of each would take as long. */
#define FABRIC_INLINE inline __attribute__((always_inline))

struct tarn_fabric {
    struct tarn_node *node;
    const struct fabric_provider *provider;
    void *state; /* the provider's state, as in all structures of this file */
    struct tarn_fabric_info info;
    struct base_log_limit failures;                         /* limits the lines about failed connections */
    struct task_mutex lock;                                 /* of what follows */
    struct base_list connections;                           /* of struct tarn_fabric_connection */
    struct tarn_fabric_counters past[TARN_FABRIC_TAGS_MAX]; /* counts of connections that have ended */
};

#define FABRIC_BUFFER_SIZES 22 /* powers of two, from 512 bytes to TARN_FABRIC_BYTES_MAX */

/* The pool of a domain's buffers. */
struct fabric_buffers {
    struct base_spin lock; /* protects all fields but bytes_max */
    uint64_t bytes_max;
    uint64_t bytes; /* bytes of all slabs */
    struct base_list
        rooms[FABRIC_BUFFER_SIZES]; /* slabs with a free buffer, by size; wholly free slabs are at the end */
};

struct tarn_fabric_domain {
    struct tarn_fabric *fabric;
    void *state;
    _Atomic uint32_t users; /* number of regions and connections of the domain */
    struct fabric_buffers buffers;
};

struct tarn_fabric_listener {
    struct tarn_fabric *fabric;
    void *state;
};

struct tarn_fabric_connection {
    struct base_list link; /* place in fabric.connections */
    struct tarn_fabric *fabric;
    struct tarn_fabric_domain *domain;
    void *state;
    struct task_sched *sched; /* the scheduler whose tasks use the connection; NULL: plain threads do */
    _Atomic int error;        /* the error that ended the connection, set once; 0: it lives */
    char name[FABRIC_NAME_BYTES];
    uint8_t data[TARN_FABRIC_PRIVATE_BYTES_MAX]; /* the peer's private data */
    uint32_t data_bytes;
    struct tarn_fabric_counters
        counters[TARN_FABRIC_TAGS_MAX]; /* counts by tag; the connection's user writes them */
};

/** Whether rights let peers change a region: it is charged to its domain's writable bytes, others to the readable. */
static inline bool fabric_may_change(uint32_t rights)
{
    return (rights & (TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP)) != 0;
}

/** Whether an operation is a message, and takes a credit. */
static inline bool fabric_op_takes_credit(const struct tarn_fabric_op *op)
{
    return op->kind == TARN_FABRIC_SEND || op->kind == TARN_FABRIC_WRITE_NOTIFY;
}

/** Whether the peer answers an operation with bytes, or with a word's old value. */
static inline bool fabric_op_is_answered(const struct tarn_fabric_op *op)
{
    return op->kind == TARN_FABRIC_READ || op->kind == TARN_FABRIC_CAS || op->kind == TARN_FABRIC_FAA;
}

/**
 * Copy between a buffer and a part of an operation's vectors.
 *
 * @param at, bytes  the part, within the operation's bytes
 * @param scatter    copy into the vectors; otherwise out of them
 */
void fabric_op_copy(const struct tarn_fabric_op *op, uint64_t at, uint8_t *buffer, uint64_t bytes,
                    bool scatter);

/* ---- buffer.c: memory for operations --------------------------------------------------------------- */

/** Make an empty pool. @param bytes  0: the default */
void fabric_buffers_open(struct tarn_fabric_domain *domain, uint64_t bytes);

/** Free the pool; all buffers were put back. */
void fabric_buffers_close(struct tarn_fabric_domain *domain);

/* ---- populate.c ---------------------------------------------------------------------------------- */

/**
 * Have the kernel provide all pages of mapped memory. For large memory several threads do it, which have ended on
 * return. Blocks.
 *
 * @param memory  at the beginning of a page
 * @return 0; -ENOMEM
 */
base_must_check int fabric_populate(uint8_t *memory, uint64_t bytes);

/* ---- url.c: what stands behind the colon --------------------------------------------------------- */

#define FABRIC_HEARTBEAT_NS (1 * BASE_NS_PER_SECOND) /* the default of the URL's option */
#define FABRIC_BEATS_PROBE  4  /* ticks of silence after which the peer is probed; together one heartbeat */
#define FABRIC_BEATS_DEAD   10 /* ticks of silence after which the peer is given up */

/** Log the fault of an option. @return -EINVAL */
int fabric_url_complain(struct base_log *log, const char *option, const char *reason);

/** Cut the next option off a list with commas. @return 0; -ENOENT: there are no more; -EINVAL: it is longer than the room
 * (logged) */
base_must_check int fabric_url_next(struct base_log *log, const char **text, char *ret_option, size_t room);

/** The value of an option. @param name  the option's name with "=" @return NULL: it is another option */
const char *fabric_url_value(const char *option, const char *name);

/** Read an option's duration. @return 0; -EINVAL (logged) */
base_must_check int fabric_url_heartbeat(struct base_log *log, const char *option, const char *text,
                                         uint64_t *ret_ns);

/* ---- users ---------------------------------------------------------------------------------------- */

/** The scheduler whose task the caller is; NULL: a plain thread, or the simulator's stand-in for one. */
static inline struct task_sched *fabric_user_self(void)
{
    return task_is_thread() ? NULL : task_sched_self();
}

/** tarn_fabric_error(), inline. */
static inline int fabric_error_of(const struct tarn_fabric_connection *connection)
{
    return atomic_load_explicit(&connection->error, memory_order_acquire);
}

/* ---- proxy.c: what is to be done on another scheduler -------------------------------------------- */

/** Whether the caller is a plain thread and the connection a scheduler's: then the caller has a task make its call, by
 * fabric_proxy(). */
static inline bool fabric_needs_proxy(const struct tarn_fabric_connection *connection)
{
    if (base_likely(connection->sched == task_sched_self()))
        return false; /* `sched` is never one whose tasks are treated as plain threads */
    base_assert(task_is_thread());
    return connection->sched != NULL;
}

/* The public function that is called. */
enum fabric_call_kind {
    FABRIC_CALL_POST,
    FABRIC_CALL_WAIT, /* for operations whose connections are all of one scheduler, as the next two */
    FABRIC_CALL_AWAIT,
    FABRIC_CALL_AWAIT_ANY,
    FABRIC_CALL_TEST,
    FABRIC_CALL_POST_AND_WAIT, /* one operation, in one visit to the scheduler */
    FABRIC_CALL_RECEIVE,
    FABRIC_CALL_FENCE,
    FABRIC_CALL_DISCONNECT,
};

/* A call that a task is to make, with the arguments of that function. */
struct fabric_call {
    enum fabric_call_kind kind;
    struct tarn_fabric_connection *connection; /* always set: its scheduler makes the call */
    struct tarn_fabric_op *ops;
    struct tarn_fabric_op *const *any_ops; /* of AWAIT_ANY */
    uint32_t count;
    void *data;
    uint32_t room;
    uint64_t deadline_ns;
    struct tarn_fabric_message *ret_message;
    uint32_t *ret_index;
    int result; /* set by the task, if the function has one */
};

/** Have a task of the connection's scheduler make a call, and wait for it. @return its result; 0: it has none */
int fabric_proxy(struct fabric_call call);

/* ---- providers ----------------------------------------------------------------------------------- */

/** The provider `shm`: processes of this user on this host. */
extern const struct fabric_provider fabric_provider_shm;

/** The provider `tcp`: any host that a stream socket reaches. */
extern const struct fabric_provider fabric_provider_tcp;

/** The provider `verbs`: hosts with RDMA cards. */
extern const struct fabric_provider fabric_provider_verbs;

#endif
