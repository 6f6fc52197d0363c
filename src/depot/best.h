/*
 * best: of each key the record that counts, found while the summaries of a log pass by: the one with the
 * highest sequence; of equal ones the tombstone, then the copy in the oldest segment (the other is what a
 * collection that was cut off has written, so that its segments are free without moving anything).
 *
 * Beside a checkpoint only the entries pass by that it is not about (seglog_visit_uncovered()): each value
 * among them is later than all of its key that are covered, or a copy of the last one.
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
    uint64_t grain : DEPOT_ADDRESS_BITS_MAX; /* 0: none */
    uint64_t size : DEPOT_SIZE_BITS;
    uint64_t kind : 2;
    uint64_t big : 8;   /* SEGLOG_MARK_PIECE, SEGLOG_MARK_HEAD or 0 */
    uint64_t marks : 2; /* the caller's; stay when an equal copy takes the place */
    uint64_t seen : 2;  /* the caller's; stays whatever takes the place */
};
_Static_assert(sizeof(struct depot_best) == 32, "two to a line of the processor's cache");

struct depot_best_ops {
    /** Whether a record is known to be damaged: an equal copy counts instead, wherever it lies. NULL: none
     * is. */
    bool (*damaged)(void *arg, uint64_t grain);
    /** Whether meet() may be called for several keys at once, by several tasks or threads, and does not yield. */
    bool shared;

    /**
     * An entry has passed by, in each of the passes only those of its part. NULL: nothing to do.
     *
     * @param before  what was the best of the key until then; grain 0: nothing
     * @param best    what is now; `marks` and `seen` may be set
     * @return 0; an error ends it. May yield.
     */
    int (*meet)(void *arg, const struct depot_best *before, struct depot_best *best,
                const struct seglog_entry_format *entry, uint64_t grain);

    /** Whether take() is to be called for it. NULL: always. */
    bool (*wants)(const void *arg, const struct depot_best *best);

    /** Before the first take() of a pass: about this many calls of it follow, in this pass and the remaining ones.
     * NULL: nothing to do. */
    void (*expect)(void *arg, uint64_t count);

    /** It will be taken soon: its place may be brought into the processor's cache. NULL: nothing to do. */
    void (*soon)(const void *arg, const struct depot_best *best);

    /** What counts, once for each key. @return 0; an error ends it. */
    int (*take)(void *arg, const struct depot_best *best);

    /**
     * Beside a checkpoint: before any is taken, of each key what counts among the entries that the checkpoint
     * is not about. It may seglog_doubt() where else the key may lie. NULL: there is no checkpoint, all
     * entries pass by.
     */
    void (*look)(void *arg, const struct depot_best *best);

    /** Of a segment that was doubted, a covered entry whose key has a later one, or an equal one. */
    void (*stale)(void *arg, const struct seglog_entry_format *entry, uint64_t grain);
};

/**
 * Find them all.
 *
 * @param entries     of all summaries that pass by
 * @param ret_passes  how often the summaries have passed by; also set on failure
 * @return 0; -ENOMEM; the drive's error, or of seglog_visit(); the caller's. Yields.
 */
base_must_check int depot_best_find(struct tarn_node *node, struct seglog *log, uint64_t entries,
                                    const struct depot_best_ops *ops, void *arg, uint32_t *ret_passes);

#endif
