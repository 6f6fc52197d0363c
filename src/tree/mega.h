/*
 * A meganode at its owner: one region with a B-link tree of nodes (Cell §2.2), which the owner changes and all machines
 * read. Its root is at the region's first unit, always. A leaf has values, or, in a meganode above others, pointers to the
 * roots of these.
 *
 * Threading: all calls by the scheduler that owns the region, one at a time; none yields. So a call sees the tree as the
 * one before left it, and only readers of other machines see it in between (README, "Changing the tree").
 */
#ifndef TREE_MEGA_H
#define TREE_MEGA_H

#include "base/base.h"
#include "tree/memory.h"
#include "tree/node.h"

struct tree_mega_options {
    struct base_account *account;     /* which pays for what the owner has beside the region */
    const struct tree_memory *memory; /* the region's, of which it takes what is taken */
    const uint8_t *
        extents; /* the memory in which all places lie: ranges fetch records into the cache. NULL: they do not */
    uint32_t region;     /* its number, not 0 */
    uint32_t unit_bytes; /* 0: TREE_NODE_BYTES */
};

struct tree_mega_stats {
    uint64_t keys;
    uint64_t nodes;      /* of all levels */
    uint64_t units;      /* of the region */
    uint64_t units_used; /* by these nodes */
    uint64_t splits;     /* since it was opened, and so on */
    uint64_t merges;
    uint64_t moves; /* of nodes to larger places, for keys that are long */
    uint32_t levels;
};

struct tree_mega;

/**
 * Make an empty meganode in a region, whatever is there.
 *
 * @return 0; -EINVAL (unit_bytes is no power of two from TREE_NODE_BYTES_MIN to _MAX, or there are fewer than 64 units, or more than a pointer can tell); -ENOMEM
 */
base_must_check int tree_mega_open(const struct tree_mega_options *options, struct tree_mega **ret_mega);

/** Forget all keys, which needs no memory. Readers of other machines that are on their way begin again. */
void tree_mega_clear(struct tree_mega *mega);

/** Free what the owner has. The region stays as it is. */
void tree_mega_close(struct tree_mega *mega);

/** More of its memory is taken now. */
void tree_mega_grow(struct tree_mega *mega);

/** Find a key. @param key  1 to TREE_KEY_MAX bytes; so in all calls @return 0; -ENOENT */
base_must_check int tree_mega_get(const struct tree_mega *mega, struct tree_key key,
                                  struct tree_value *ret_value);

/** Find many keys: their nodes are fetched into the cache at the same time. @param ret_values  place 0: there is no such key */
void tree_mega_get_many(const struct tree_mega *mega, const struct tree_key *keys, uint32_t count,
                        struct tree_value *ret_values);

/**
 * Put a value under a key.
 *
 * @param value       its place is not 0
 * @param ret_before  what it replaces; place 0: nothing
 * @return 0; -ENOSPC (the meganode has no room); -ENOMEM; nothing was changed then. Neither happens where the key was there
 */
base_must_check int tree_mega_put(struct tree_mega *mega, struct tree_key key, struct tree_value value,
                                  struct tree_value *ret_before);

/** Remove a key, which needs no memory. @param ret_before  what it had @return 0; -ENOENT */
base_must_check int tree_mega_delete(struct tree_mega *mega, struct tree_key key,
                                     struct tree_value *ret_before);

/**
 * Show keys in their order. `visit` changes nothing.
 *
 * @param from   the first, or the least that is not less; NULL: the first of all
 * @param below  the end: no key that is not less; NULL: there is none
 * @return 0; what `visit` returned
 */
base_must_check int tree_mega_range(const struct tree_mega *mega, const struct tree_key *from,
                                    const struct tree_key *below, tree_visit_function *visit, void *arg);

/** The same from the last key below `below` down to `from`. */
base_must_check int tree_mega_range_down(const struct tree_mega *mega, const struct tree_key *from,
                                         const struct tree_key *below, tree_visit_function *visit, void *arg);

/**
 * Look at all nodes: each is whole, its range is what its parent says, its right link leads to the next of its level, and
 * no unit is in two nodes, or lost.
 *
 * @param ret_why  static text; the first thing that is not so
 * @return 0; -EUCLEAN; -ENOMEM
 */
base_must_check int tree_mega_check(const struct tree_mega *mega, const char **ret_why);

/** Tell what there is. */
void tree_mega_stats(const struct tree_mega *mega, struct tree_mega_stats *ret_stats);

#endif
