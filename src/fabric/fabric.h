/*
 * fabric: the functions for other layers, besides <tarn/fabric.h>, whose rules hold here; and the table that providers
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
struct fabric_watch;

/** The name of a kind of atomics, for people. @return static text. Any thread or task. */
const char *fabric_atomics_name(enum tarn_fabric_atomics atomics);

/** The name of a way of serving, for people. @return static text. Any thread or task. */
const char *fabric_served_by_name(enum tarn_fabric_served_by served_by);

/* The owner's access to exported memory that is not plain memory. */
struct tarn_fabric_mem_operations {
    uint64_t (*load64)(const struct tarn_fabric_region *region, uint64_t offset);
    void (*store64)(struct tarn_fabric_region *region, uint64_t offset, uint64_t value);
    void (*copy_out)(const struct tarn_fabric_region *region, uint64_t offset, void *to, uint64_t bytes);
    void (*copy_in)(struct tarn_fabric_region *region, uint64_t offset, const void *from, uint64_t bytes);

    /** Swap a word and return what it was; only called if the provider reports TARN_FABRIC_ATOMICS_MEMORY. */
    uint64_t (*cas64)(struct tarn_fabric_region *region, uint64_t offset, uint64_t compare, uint64_t operand);
    uint64_t (*faa64)(struct tarn_fabric_region *region, uint64_t offset, uint64_t add);
};

/* A queue of operations, first in, first out, which does not own them. All zero is empty. */
struct fabric_queue {
    struct tarn_fabric_op *first;
    struct tarn_fabric_op *last; /* the last operation; undefined while the queue is empty */
};

/** Append an operation that is in no queue. */
static inline void fabric_queue_push(struct fabric_queue *queue, struct tarn_fabric_op *op)
{
    op->next = NULL;
    if (queue->first == NULL)
        queue->first = op;
    else
        queue->last->next = op;
    queue->last = op;
}

/** Remove the first operation. @return NULL: the queue is empty */
static inline struct tarn_fabric_op *fabric_queue_pop(struct fabric_queue *queue)
{
    struct tarn_fabric_op *op = queue->first;
    if (op != NULL)
        queue->first = op->next;
    return op;
}

/** Remove an operation from any place of its queue. */
static inline void fabric_queue_remove(struct fabric_queue *queue, const struct tarn_fabric_op *op)
{
    struct tarn_fabric_op **at = &queue->first, *before = NULL;
    for (; *at != op; at = &before->next)
        before = *at;
    *at = op->next;
    if (queue->last == op)
        queue->last = before;
}

/** Move all operations to the end of another queue. */
static inline void fabric_queue_move_all(struct fabric_queue *queue, struct fabric_queue *from)
{
    for (struct tarn_fabric_op *op; (op = fabric_queue_pop(from)) != NULL;)
        fabric_queue_push(queue, op);
}

/* A client that wants to connect: a part of the provider's own object for it. */
struct tarn_fabric_incoming {
    struct base_list link;      /* the provider's: place in a listener's queue */
    struct tarn_fabric *fabric; /* set by fabric.c */
    const void *data;           /* the client's private data, in the provider's object */
    uint32_t data_bytes;
};

/*
 * The table that a provider fills; the simulator's is handed in through task_node_options.fabric. States are
 * the provider's own. fabric.c does for all of them, before and after these calls, the checks of operations, the
 * counting and the first error; see README, "Providers".
 */
struct fabric_provider {
    const char *name;

    /** @param provider_arg  the simulator's: the node's fabric_arg; a real one's: the URL's text behind the colon, or
     * NULL */
    int (*open)(struct tarn_node *node, void *provider_arg, struct tarn_fabric_info *ret_info,
                void **ret_state);
    void (*close)(void *state); /* every domain and listener is closed by then */

    /** As tarn_fabric_domain_open(), for checked options, whose bytes are whole pages. */
    int (*domain_open)(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain);
    void (*domain_close)(void *domain); /* every region is freed and every connection disconnected by then */

    /** Whether region_alloc() and region_register() take time that grows with the bytes, and region_free() for their
     * regions: then a thread calls them where a task asks for many. */
    bool regions_take_time, registering_takes_time;

    /** Fill memory, bytes, handle, mem and state. @param region  bytes and rights are checked */
    int (*region_alloc)(void *domain, struct tarn_fabric_region *region);

    /** As region_alloc(), with the caller's `memory`. @return also -EOPNOTSUPP: it cannot export this memory, which
     * registers_any says that it never returns */
    int (*region_register)(void *domain, struct tarn_fabric_region *region);
    bool registers_any;

    /** As fabric_region_adopt(). NULL: region_register() takes any memory */
    int (*region_adopt)(void *domain, struct tarn_fabric_region *region);

    /** Learn that memory for this side's operations is there, a domain's buffers or a caller's, or is about to go. NULL:
     * plain memory will do */
    int (*buffers_made)(void *domain, void *memory, uint64_t bytes, void **ret_state);
    void (*buffers_gone)(void *domain, void *state);

    /** Have the pages touched of memory for this side's operations alone, which is mapped. NULL: fabric_region_populate() */
    int (*touch)(void *domain, struct tarn_fabric_region *region);

    /** Free a region; when this returns, no peer has access to registered memory any more. */
    void (*region_free)(void *domain, struct tarn_fabric_region *region);

    /** As the functions tarn_fabric_*() of these names. */
    int (*listen)(void *state, const char *address, void **ret_listener);
    void (*listener_close)(void *listener);
    int (*listener_wait)(void *listener, uint64_t deadline_ns, struct tarn_fabric_incoming **ret_incoming);

    /** Accept; `incoming` is used up also on failure. @param owner  for fabric_connection_name(), _data() and _fail() */
    int (*accept)(struct tarn_fabric_incoming *incoming, void *domain,
                  const struct tarn_fabric_connect_options *options, struct tarn_fabric_connection *owner,
                  void **ret_connection);
    void (*reject)(struct tarn_fabric_incoming *incoming, int error);

    /** As tarn_fabric_connect(). @param owner  as for accept() */
    int (*connect)(void *domain, const char *address, const struct tarn_fabric_connect_options *options,
                   uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection);

    /** As fabric_peer_is_there(), of a connection that lives. NULL: READs that have completed tell that */
    bool (*peer_is_there)(void *connection);

    /** Start a checked operation of a live connection; fabric_op_finish() is called once for it: in this call, in
     * wait(), in receive(), or in fail(). Sets `trip` if its fence makes it wait for the answers to all before it. */
    void (*post)(void *connection, struct tarn_fabric_op *op);

    /** Carry out, within the call, an operation that its user is about to wait for. @return false: it failed or must
     * wait for others, and has had no effect; then it is handed to post(). NULL: the provider has no such short way */
    bool (*run)(void *connection, struct tarn_fabric_op *op);

    /** Have a part of a peer's region fetched into the processor's cache, if it is there to be loaded. NULL: it never is */
    void (*prefetch)(void *connection, const struct tarn_fabric_handle *handle, uint64_t offset,
                     uint64_t bytes);

    /** Send what post() has kept back, because the whole batch was handed over. NULL: post() keeps nothing back. */
    void (*posted)(void *connection);

    /** Finish completed operations. NULL: the provider does that without being asked */
    void (*progress)(void *connection);

    /** Wait until an operation has finished. @return 0; -ETIMEDOUT or -ECANCELED: it has not */
    int (*wait)(void *connection, struct tarn_fabric_op *op, uint64_t deadline_ns);

    /** Take a place, until fabric_bell_remove(), at the bell that rings when posted operations have finished, or progress()
     * would finish some. @return whether it would at once */
    bool (*watch)(void *connection, struct fabric_watch *watch);

    /** As tarn_fabric_receive(). */
    int (*receive)(void *connection, void *data, uint32_t room, uint64_t deadline_ns,
                   struct tarn_fabric_message *ret_message);

    /** End a connection that has failed with tarn_fabric_error(): tell the peer, and finish all posted operations with
     * that error. Called by the connection's user, perhaps several times. */
    void (*fail)(void *connection);

    /** As tarn_fabric_fence(), for a failed connection. */
    int (*fence)(void *connection, uint64_t deadline_ns);

    /** As tarn_fabric_disconnect(); no operation is posted or in flight. */
    void (*disconnect)(void *connection);

    /** As tarn_fabric_wait_any(). NULL: fabric.c polls the words. */
    int (*wait_any)(void *state, const struct tarn_fabric_word *words, uint32_t count, uint64_t deadline_ns,
                    uint32_t *ret_index);
};

/** For providers: give an operation its result; an error ends the connection. Called by the connection's user. */
void fabric_op_finish(struct tarn_fabric_op *op, int32_t result);

/** Have the kernel provide all pages of mapped memory of a region that is being made, as fabric_populate(); its maker may
 * watch: the bytes are counted part by part. */
base_must_check int fabric_region_populate(const struct tarn_fabric_region *region, uint8_t *memory);

/** For providers whose regions take time, but no thread (the simulator's): tell the caller, in its task, how many bytes
 * of the region that it makes are done. */
void fabric_region_progress(const struct tarn_fabric_region *region, uint64_t done_bytes);

/** For providers: set the peer's name for the log, before the connection can fail. */
void fabric_connection_name(struct tarn_fabric_connection *connection, const char *name);

/** For providers: set the peer's private data, before accept() or connect() returns. */
void fabric_connection_data(struct tarn_fabric_connection *connection, const void *data, uint32_t bytes);

/**
 * For providers: end a connection with an error, unless it has ended.
 *
 * @param what  the step that failed, for the log
 * @return whether this was the connection's first error. Any thread.
 */
bool fabric_connection_fail(struct tarn_fabric_connection *connection, const char *what, int error);

/* ---- for layers above --------------------------------------------------------------------------- */

/** The node of a fabric. */
struct tarn_node *fabric_node(const struct tarn_fabric *fabric);

/** Whether tarn_fabric_region_register() takes any memory. */
bool fabric_registers(const struct tarn_fabric *fabric);

/**
 * Register the caller's memory with any provider. shm: its pages become a file's, which peers map: what they hold stays
 * there, also after tarn_fabric_region_free(), when peers that had it mapped may go on to read what is written there.
 * Domains of one fabric that adopt the same memory share that file.
 *
 * @param memory, bytes  whole pages that the caller has mapped, and that nobody writes to until the call returns; they may
 *                       be read
 * @param rights         TARN_FABRIC_MAY_READ
 * @return as tarn_fabric_region_register(). Yields, as that.
 */
base_must_check int fabric_region_adopt(struct tarn_fabric_domain *domain, void *memory, uint64_t bytes,
                                        uint32_t rights, struct tarn_fabric_region **ret_region);

/** Post an operation that moves bytes and wait for it; the provider's run() carries it out at once where it can. @return
 * as tarn_fabric_wait(). Yields. */
base_must_check int fabric_run(struct tarn_fabric_connection *connection, struct tarn_fabric_op *op,
                               uint64_t deadline_ns);

/**
 * Carry out an operation at once, where its provider can do so without waiting: as if it had been posted and waited for. It is one of a
 * batch, of which the first is a trip.
 *
 * @return false: nothing was done. Never waits.
 */
base_must_check bool fabric_try(struct tarn_fabric_connection *connection, struct tarn_fabric_op *op,
                                bool is_first);

/** Have a part of a peer's region fetched into the cache, if fabric_try() loads it from there: several fetches take the time of one. Never
 * waits. @return false: it does not load */
bool fabric_prefetch(const struct tarn_fabric_connection *connection, const struct tarn_fabric_handle *handle,
                     uint64_t offset, uint64_t bytes);

/** Run a function in a task of a scheduler and wait for its end. @return 0; -ENOMEM, -ESHUTDOWN: it did not run.
 * Yields. */
base_must_check int fabric_run_on(struct task_sched *sched, task_function *function, void *arg);

/**
 * Whether a connection lives, and its peer's process has not begun to end: then its memory was the peer's, and not what a
 * process has left behind, when READs that have completed took place. shm alone needs to be asked, whose READs need no peer.
 */
bool fabric_peer_is_there(const struct tarn_fabric_connection *connection);

/** End a connection of the caller's scheduler, as a failing operation would: its receiver gets the error. Never waits. */
void fabric_connection_end(struct tarn_fabric_connection *connection, const char *what, int error);

#endif
