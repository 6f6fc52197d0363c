/*
 * Nodes that a reader has seen, so that it need not READ them again (Cell §2.3): those above the leaves, the latest used
 * ones. What they say may be old: it leads to a node that proves itself, or to one that does not fit, and then the reader
 * begins again without the cache. So nothing tells a cache what has changed.
 *
 * Threading: one call at a time for each cache. Nothing yields.
 */
#ifndef TREE_CACHE_H
#define TREE_CACHE_H

#include "tree/node.h"

struct tree_cache;

/** Make an empty cache. @param bytes_max  the most that nodes take, charged as they come @return 0; -ENOMEM */
base_must_check int tree_cache_open(struct base_account *account, uint64_t bytes_max,
                                    struct tree_cache **ret_cache);

/** Free a cache. NULL does nothing. */
void tree_cache_close(struct tree_cache *cache);

/** Find a node. @return NULL: it is not there; else valid until the next call */
const struct tree_node *tree_cache_find(struct tree_cache *cache, tree_pointer pointer);

/** Keep a node that has proved itself, in place of what was kept of its place; without memory it is not kept. */
void tree_cache_put(struct tree_cache *cache, tree_pointer pointer, const struct tree_node *node);

/** Forget a node, if it is there. */
void tree_cache_drop(struct tree_cache *cache, tree_pointer pointer);

/** Bytes that nodes take now. */
uint64_t tree_cache_bytes(const struct tree_cache *cache);

#endif
