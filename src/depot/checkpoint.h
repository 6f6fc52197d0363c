/*
 * checkpoint: what the depot writes into a checkpoint of the log, and how that is read. depot_format.h has
 * the bytes.
 */
#ifndef DEPOT_CHECKPOINT_H
#define DEPOT_CHECKPOINT_H

#include "depot/depot_format.h"
#include "seglog/seglog.h"

struct depot_checkpoint_ops {
    /** What it begins with. NULL: nothing to do. @return 0; an error ends it */
    int (*begin)(void *arg, const struct depot_checkpoint_format *head);

    /** The next entries that are covered, in the order of depot_index_next(): each lies in the log. @return
     * 0; an error ends it */
    int (*take)(void *arg, const struct depot_index_item *items, uint32_t count);
};

/**
 * Read the log's newest checkpoint.
 *
 * @param index      knows the widths
 * @param ret_head   what it began with
 * @param ret_bytes  that were read, also on failure; may be NULL
 * @return 0; -EINVAL (it contradicts itself); as seglog_checkpoint_read(); what the table's functions
 * returned. Yields.
 */
base_must_check int depot_checkpoint_read(struct seglog *log, const struct depot_index *index,
                                          const struct depot_checkpoint_ops *ops, void *arg,
                                          struct depot_checkpoint_format *ret_head, uint64_t *ret_bytes);

/** checkpoint() of struct seglog_owner_ops. */
base_must_check int depot_checkpoint(void *owner, struct seglog_checkpoint *checkpoint);

/** checkpoint_bytes() of struct seglog_owner_ops. */
uint64_t depot_checkpoint_bytes(void *owner);

#endif
