/*
 * ahead: what an opening reads all over the drive is read and verified by some workers, ahead of the caller, who
 * gets it item by item in order. README, "Reading ahead".
 */
#ifndef SEGLOG_AHEAD_INTERNAL_H
#define SEGLOG_AHEAD_INTERNAL_H

#include "seglog/seglog_format.h"
#include "task/worker.h"

#define SEGLOG_AHEAD_WORKERS 3
#define SEGLOG_AHEAD_ITEMS   (SEGLOG_AHEAD_WORKERS + 2) /* one is the caller's, one waits for it */
#define SEGLOG_AHEAD_END     UINT32_MAX

/* What was read. */
struct seglog_ahead_item {
    uint32_t number;
    uint8_t *memory;
    int error;
    struct seglog_trailer_format trailer; /* of a summary */
    uint64_t bytes;                       /* of a checkpoint's part: the payload behind its header */
    bool ready;
};

struct seglog_ahead_ops {
    /** The first item from a number on. @return its number; SEGLOG_AHEAD_END: there is none. Called with a lock held,
     * by all of them. */
    uint32_t (*next)(const void *arg, uint32_t from);
    /** Read an item into its memory and verify it. By any of them, several at once. Yields. @return its error */
    int (*fetch)(const void *arg, struct seglog_ahead_item *item);
};

struct seglog_ahead_worker {
    struct task_worker worker;
    struct seglog_ahead *ahead;
};

struct seglog_ahead {
    struct seglog *log;
    const struct seglog_ahead_ops *ops;
    const void *arg;
    uint64_t item_bytes;
    struct base_spin lock; /* of what follows, but for the items' contents */
    uint32_t next;         /* where the next item is looked for */
    uint64_t begun;        /* items that were given to workers */
    uint64_t
        done; /* that the caller has done with: the number of the next one modulo item_count is its place */
    struct task_wait *wait; /* the caller waits for that */
    bool held;              /* the caller has it */
    uint32_t item_count;
    uint32_t worker_count;
    struct seglog_ahead_item items[SEGLOG_AHEAD_ITEMS];
    struct seglog_ahead_worker workers[SEGLOG_AHEAD_WORKERS];
};

/**
 * Begin. As many workers are started, and as much memory is taken, as there is work, and plenty of memory; the
 * caller alone can do it, with memory for one item.
 *
 * @param arg          for the functions of the table, which the caller must not change before the end
 * @param item_bytes  the longest item
 * @return 0; -ENOMEM
 */
base_must_check int seglog_ahead_init(struct seglog_ahead *ahead, struct seglog *log,
                                      const struct seglog_ahead_ops *ops, const void *arg,
                                      uint64_t item_bytes);

/** The next item, which is the caller's until the next call. @return NULL: there are no more. Yields. */
struct seglog_ahead_item *seglog_ahead_next(struct seglog_ahead *ahead);

/** End, wherever it is. Yields. */
void seglog_ahead_deinit(struct seglog_ahead *ahead);

#endif
