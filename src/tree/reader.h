/*
 * A reader of a tree: it finds keys by READs of nodes alone, while the owner changes the tree (Cell §2.3; README, "Reading
 * the tree"). It knows nothing of how bytes are fetched: a function that the caller gives does that.
 *
 * Threading: one call at a time for each reader. Calls yield where that function does.
 */
#ifndef TREE_READER_H
#define TREE_READER_H

#include "base/base.h"
#include "tree/cache.h"
#include "tree/node.h"

/**
 * Fetch bytes of a region. Words may be of different moments of the call.
 *
 * @param memory  aligned to 8
 * @return 0; -ERANGE: they are not all in the region; any other error ends the reader's call with it
 */
typedef int tree_read_function(void *arg, uint32_t region, uint64_t offset, void *memory, uint32_t bytes);

struct tree_reader_options {
    struct base_account *account; /* which pays for the memory of a few nodes */
    tree_read_function *read;
    void *arg;           /* for `read` */
    uint32_t region;     /* that has the root */
    uint32_t unit_bytes; /* 0: TREE_NODE_BYTES */
    struct tree_cache
        *cache; /* which several readers of one thread or scheduler may have. NULL: there is none */
};

struct tree_reader_stats {
    uint64_t reads;    /* calls of `read` */
    uint64_t torn;     /* of these, those that brought no whole node */
    uint64_t rights;   /* right links that were followed while a key was looked for */
    uint64_t cached;   /* nodes that were taken from the cache */
    uint64_t restarts; /* at the root, because a node was another one by then */
};

struct tree_reader;

/** Make a reader. @return 0; -EINVAL (unit_bytes); -ENOMEM */
base_must_check int tree_reader_open(const struct tree_reader_options *options,
                                     struct tree_reader **ret_reader);

/** Free a reader. */
void tree_reader_close(struct tree_reader *reader);

/**
 * Find a key.
 *
 * @param key  1 to TREE_KEY_MAX bytes, borrowed until return
 * @return 0; -ENOENT; -EBUSY (the tree changes too fast, or what is there is none); what `read` returned
 */
base_must_check int tree_reader_get(struct tree_reader *reader, struct tree_key key,
                                    struct tree_value *ret_value);

/**
 * Show keys in their order: each that is there from beginning to end, once, and none twice.
 *
 * @param from   the first, or the least that is not less; NULL: the first of all
 * @param below  the end: no key that is not less; NULL: there is none
 * @return 0; what `visit` returned; as tree_reader_get()
 */
base_must_check int tree_reader_range(struct tree_reader *reader, const struct tree_key *from,
                                      const struct tree_key *below, tree_visit_function *visit, void *arg);

/** Tell what was done since it was made. */
void tree_reader_stats(const struct tree_reader *reader, struct tree_reader_stats *ret_stats);

#endif
