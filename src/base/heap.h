/*
 * An intrusive pairing heap of nodes with a 64-bit key. Equal keys leave in the order in which they came, so
 * a run is the same each time. It owns nothing, allocates nothing and does not recurse. One owner, no lock.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include "base/define.h"

/** All zero is a node in no heap. */
struct base_heap_node {
    uint64_t key;
    uint64_t order; /* of insertion, decides between equal keys */
    struct base_heap_node *child;
    struct base_heap_node *next; /* sibling */
    struct base_heap_node
        *prev; /* sibling before, parent of a first child, itself for the root, NULL outside */
};

/** All zero is an empty heap. */
struct base_heap {
    struct base_heap_node *root;
    uint64_t orders; /* insertions so far */
    size_t count;
};

/**
 * Make an empty heap.
 */
void base_heap_init(struct base_heap *heap);

/**
 * Insert a node that is in no heap. O(1).
 *
 * @param node  stays where it is, and its key unchanged, until removed
 */
void base_heap_insert(struct base_heap *heap, struct base_heap_node *node, uint64_t key);

/**
 * Take any node of this heap out of it. Amortised O(log n).
 */
void base_heap_remove(struct base_heap *heap, struct base_heap_node *node);

/**
 * Take out the node with the smallest key, of several the one inserted first. Amortised O(log n).
 *
 * @return the node; NULL if the heap is empty
 */
struct base_heap_node *base_heap_pop(struct base_heap *heap);

/**
 * The node that base_heap_pop would take; NULL if the heap is empty. O(1).
 */
static inline struct base_heap_node *base_heap_min(const struct base_heap *heap)
{
    return heap->root;
}

/**
 * Whether a node, zeroed before its first use, is in a heap.
 */
static inline bool base_heap_is_linked(const struct base_heap_node *node)
{
    return node->prev != NULL;
}

#endif
