/*
 * The io_uring engine: one ring for a scheduler's files, sockets and wake-ups.
 *
 * A request is in exactly one place: in `backlog` (no submission entry was free), in the ring (its
 * entry or the kernel has it), in `starved` (a receive that found no buffer) or in `finished` (it has
 * its result and waits to be handed out). A request in the ring that is to be cancelled is also in
 * `cancels` until the next submission; then both it and its cancellation have to come back before it is
 * handed out for the last time, so that neither can meet memory that is used for something else.
 */
#ifndef TASK_URING_URING_H
#define TASK_URING_URING_H

#include "task/engine_internal.h"
#include "task/sched_internal.h"
#include <liburing.h>

#define URING_SETUP_FLAGS                                                                                    \
    (IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |                     \
     IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CQSIZE)

/*
 * The number that a completion carries: the address of its request; the address and a bit for the
 * cancellation of that request; zero for a wake-up.
 */
enum { URING_WAKE = 0, URING_CANCEL_BIT = 1 };

/* The group of provided buffers that receives take from, and the region that the arena is registered as. */
enum { URING_BUFFER_GROUP = 0, URING_ARENA_REGION = 0 };

/* The buffers that the kernel has: a ring in shared memory, and the buffer behind each identifier in it. */
struct uring_buffers {
    struct io_uring_buf_ring *ring;
    struct base_buffer **lent; /* the buffer of each identifier; NULL: the kernel does not have it */
    uint16_t *unused;          /* a stack of identifiers */
    uint32_t unused_count;
    uint32_t entries; /* number of entries of the ring, a power of two */
};

struct task_engine {
    struct io_uring ring;
    struct task_sched *sched;
    struct tarn_node *node;
    struct base_buffer_pool *pool;
    struct uring_buffers buffers;
    struct msghdr *headers; /* one for each submission entry, kept until that entry is submitted */
    uint64_t generations
        [TASK_FILES_MAX]; /* generation of the file in each slot of the file table; 0: the slot is empty */
    struct base_list backlog;
    struct base_list cancels;
    struct base_list starved;
    struct base_list finished;
    int wake_fd;
    uint32_t files_unsent; /* requests for files that were posted and not yet submitted */
    bool wake_armed;
    bool has_file_table;
};

/**
 * Make and register the ring of buffers.
 *
 * @return 0; -ENOMEM; the kernel's error
 */
base_must_check int uring_buffers_open(struct task_engine *engine);

/** Take all buffers back, after the kernel's ring was closed. */
void uring_buffers_close(struct task_engine *engine);

/** Lend the kernel the buffers that the pool can spare. */
void uring_buffers_fill(struct task_engine *engine);

/** Number of buffers that the kernel has. */
static inline uint32_t uring_buffers_lent(const struct task_engine *engine)
{
    return engine->buffers.entries - engine->buffers.unused_count;
}

/** The buffer that a completion names, no longer lent. */
struct base_buffer *uring_buffers_take(struct task_engine *engine, uint32_t identifier);

/** Make the engine; task_engine_ops.open. */
base_must_check int uring_open(struct task_sched *sched, void *arg, struct task_engine **ret_engine);

/** Enable the ring for the calling thread alone; task_engine_ops.begin. */
base_must_check int uring_begin(struct task_engine *engine);

/** Close the ring, also with requests in flight; task_engine_ops.close. */
void uring_close(struct task_engine *engine);

#endif
