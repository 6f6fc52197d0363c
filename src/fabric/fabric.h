/*
 * fabric: what other layers may ask of it besides <tarn/fabric.h>, whose rules hold here: the table that providers
 * fill, the simulator's among them.
 */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include "base/base.h"
#include "task/node.h"
#include "task/sched.h"
#include "task/task.h"
#include <stdatomic.h>
#include <tarn/fabric.h>

struct fabric_provider;

/** How that is called. @return static. Any thread or task. */
const char *fabric_atomics_name(enum tarn_fabric_atomics atomics);

/** How that is called. @return static. Any thread or task. */
const char *fabric_served_by_name(enum tarn_fabric_served_by served_by);

/* How the owner gets at exported memory that is not plain memory. */
struct tarn_fabric_mem_operations {
    uint64_t (*load64)(const struct tarn_fabric_region *region, uint64_t offset);
    void (*store64)(struct tarn_fabric_region *region, uint64_t offset, uint64_t value);
    void (*copy_out)(const struct tarn_fabric_region *region, uint64_t offset, void *to, uint64_t bytes);
    void (*copy_in)(struct tarn_fabric_region *region, uint64_t offset, const void *from, uint64_t bytes);
};

/* Operations, first in, first out. They own nothing; all zero is empty. */
struct fabric_queue {
    struct tarn_fabric_op *first;
    struct tarn_fabric_op *last; /* undefined while there is no first */
};

/** Put one at the end that is in no queue. */
static inline void fabric_queue_push(struct fabric_queue *queue, struct tarn_fabric_op *op)
{
    op->next = NULL;
    if (queue->first == NULL)
        queue->first = op;
    else
        queue->last->next = op;
    queue->last = op;
}

/** Take out the first. @return NULL: there is none */
static inline struct tarn_fabric_op *fabric_queue_pop(struct fabric_queue *queue)
{
    struct tarn_fabric_op *op = queue->first;
    if (op != NULL)
        queue->first = op->next;
    return op;
}

/** Take out one that is in it, wherever. */
static inline void fabric_queue_remove(struct fabric_queue *queue, const struct tarn_fabric_op *op)
{
    struct tarn_fabric_op **at = &queue->first, *before = NULL;
    for (; *at != op; at = &before->next)
        before = *at;
    *at = op->next;
    if (queue->last == op)
        queue->last = before;
}

/** Move all to the end of another queue. */
static inline void fabric_queue_move_all(struct fabric_queue *queue, struct fabric_queue *from)
{
    for (struct tarn_fabric_op *op; (op = fabric_queue_pop(from)) != NULL;)
        fabric_queue_push(queue, op);
}

/*
 * The table that a provider fills; the simulator's is handed in through task_node_options.fabric. States are
 * the provider's own. What is common to all (checks of operations, counting, the first error) is done before
 * and after; see README, "Providers".
 */
struct fabric_provider {
    const char *name;

    /** @param provider_arg  the node's fabric_arg; of real ones what stands behind the colon, or NULL */
    int (*open)(struct tarn_node *node, void *provider_arg, struct tarn_fabric_info *ret_info,
                void **ret_state);
    void (*close)(void *state); /* every domain and listener is closed */

    /** As tarn_fabric_domain_open(), for checked options. */
    int (*domain_open)(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain);
    void (*domain_close)(void *domain); /* every region is freed, every connection disconnected */

    /** Fill memory, bytes, handle, mem and state. @param region  bytes and rights are checked */
    int (*region_alloc)(void *domain, struct tarn_fabric_region *region);

    /** The same with `memory`, which is the caller's. NULL: there is no such thing */
    int (*region_register)(void *domain, struct tarn_fabric_region *region);

    /** Memory of a domain's buffers is there, or gone. NULL: plain memory will do */
    int (*buffers_made)(void *domain, void *memory, uint64_t bytes, void **ret_state);
    void (*buffers_gone)(void *domain, void *state);

    /** When it returns, registered memory is the caller's alone. */
    void (*region_free)(void *domain, struct tarn_fabric_region *region);

    /** As the functions tarn_fabric_*() of these names. */
    int (*listen)(void *state, const char *address, void **ret_listener);
    void (*listener_close)(void *listener);
    int (*listener_wait)(void *listener, uint64_t deadline_ns, void **ret_incoming);
    uint32_t (*incoming_data)(const void *incoming, const void **ret_data);

    /** Ends the incoming in any case. @param owner  for fabric_connection_name() and _fail() */
    int (*accept)(void *incoming, void *domain, const struct tarn_fabric_connect_options *options,
                  struct tarn_fabric_connection *owner, void **ret_connection);
    void (*reject)(void *incoming);

    /** As tarn_fabric_connect() and tarn_fabric_peer_data(). @param owner  as for accept() */
    int (*connect)(void *domain, const char *address, const struct tarn_fabric_connect_options *options,
                   uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection);
    uint32_t (*peer_data)(const void *connection, const void **ret_data);

    /** Start a checked operation of a live connection; fabric_op_finish() is called once for it: now, in
     * wait(), in receive(), or in fail(). */
    void (*post)(void *connection, struct tarn_fabric_op *op);

    /** The same for one that is waited for at once: do it here and now. @return false: it failed, or is to wait for
     * others, and nothing of it was done; then it is handed to post(). NULL: there is no such short way */
    bool (*run)(void *connection, struct tarn_fabric_op *op);

    /** All of a batch was handed to post(): what it keeps back may go now. NULL: it keeps nothing back. */
    void (*posted)(void *connection);

    /** Finish what has completed. NULL: the provider does that without being asked */
    void (*progress)(void *connection);

    /** Wait until it is finished. @return 0; -ETIMEDOUT; -ECANCELED: it is not */
    int (*wait)(void *connection, struct tarn_fabric_op *op, uint64_t deadline_ns);

    /** As tarn_fabric_receive(). */
    int (*receive)(void *connection, void *data, uint32_t room, uint64_t deadline_ns,
                   struct tarn_fabric_message *ret_message);

    /** The connection has failed, for the reason that tarn_fabric_error() has: tell the peer, and finish with it
     * what was posted. By the connection's user; may be called again. */
    void (*fail)(void *connection);

    /** Of a failed connection, as tarn_fabric_fence(). */
    int (*fence)(void *connection, uint64_t deadline_ns);

    /** As tarn_fabric_disconnect(): nothing is posted any more. */
    void (*disconnect)(void *connection);

    /** As tarn_fabric_wait_any(). NULL: by looking again and again. */
    int (*wait_any)(void *state, const struct tarn_fabric_word *words, uint32_t count, uint64_t deadline_ns,
                    uint32_t *ret_index);
};

/** For providers: an operation has its result; an error kills the connection. By the connection's user. */
void fabric_op_finish(struct tarn_fabric_op *op, int32_t result);

/** For providers: what the peer is called. Before anything can fail. */
void fabric_connection_name(struct tarn_fabric_connection *connection, const char *name);

/**
 * For providers: the connection dies of an error, unless it is dead.
 *
 * @param what  was being done, for the log
 * @return whether this was the first. Any thread.
 */
bool fabric_connection_fail(struct tarn_fabric_connection *connection, const char *what, int error);

/* ---- for layers above --------------------------------------------------------------------------- */

/** The node of a fabric. */
struct tarn_node *fabric_node(const struct tarn_fabric *fabric);

/** Whether tarn_fabric_region_register() may succeed. */
bool fabric_registers(const struct tarn_fabric *fabric);

/** Post an operation that moves bytes and wait for it: without a detour where it can be carried out at once. @return as
 * tarn_fabric_wait(). Yields. */
base_must_check int fabric_run(struct tarn_fabric_connection *connection, struct tarn_fabric_op *op,
                               uint64_t deadline_ns);

/** Whether a posted operation has finished; never waits. By the connection's user. */
bool fabric_op_is_finished(const struct tarn_fabric_op *op);

/** Run a function in a task of a scheduler and wait for its end. @return 0; -ENOMEM, -ESHUTDOWN: it did not run.
 * Yields. */
base_must_check int fabric_run_on(struct task_sched *sched, task_function *function, void *arg);

/** End a connection of the caller's scheduler, as an operation that fails would: its receiver gets the error. Never waits. */
void fabric_connection_end(struct tarn_fabric_connection *connection, const char *what, int error);

#endif
