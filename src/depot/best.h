/*
 * best: of each key the record that counts, found while the summaries of a log pass by: the one with the
 * highest sequence; of equal ones the tombstone, then the copy in the oldest segment (the other is what a
 * collection that was cut off has written, so that its segments are free without moving anything).
 *
 * A table holds the best of each 128-bit hash; where it would be too large, the summaries pass by several
 * times, a part of the keys each time. Places and parts are chosen by a hash that nobody knows beforehand.
 */
#ifndef DEPOT_BEST_H
#define DEPOT_BEST_H

#include "depot/depot_internal.h"

struct depot_best {
    uint64_t hash[2];
    uint64_t sequence;
    uint64_t grain; /* 0: none */
    uint32_t bytes;
    uint8_t kind;
    bool marked; /* the caller's; stays when an equal copy takes the place */
};

struct depot_best_ops {
    /**
     * An entry has passed by, in each of the passes only those of its part. NULL: nothing to do.
     *
     * @param before  what was the best of the key until then; grain 0: nothing
     * @param best    what is now; `marked` may be set
     * @return 0; an error ends it. May yield.
     */
    int (*meet)(void *arg, const struct depot_best *before, struct depot_best *best,
                const struct seglog_entry_format *entry, uint64_t grain);

    /** What counts, once for each key. @return 0; an error ends it. */
    int (*take)(void *arg, const struct depot_best *best);
};

/**
 * Find them all.
 *
 * @param entries     of all summaries
 * @param ret_passes  how often the summaries have passed by; also set on failure
 * @return 0; -ENOMEM; the drive's error, or of seglog_visit(); the caller's. Yields.
 */
base_must_check int depot_best_find(struct tarn_node *node, struct seglog *log, uint64_t entries,
                                    const struct depot_best_ops *ops, void *arg, uint32_t *ret_passes);

#endif
