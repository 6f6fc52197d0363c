/* What a meganode is for the files of this folder. */
#ifndef TREE_MEGA_INTERNAL_H
#define TREE_MEGA_INTERNAL_H

#include "tree/mega.h"

#define ROOT          0u  /* the unit at which the root is */
#define FETCHED_LINES 16u /* of a node that is about to be searched: all of most */

/* A node on the way to a leaf. */
struct mega_step {
    uint32_t unit;
    uint32_t entry; /* under which the way goes on */
};

/* Room for a node that is changed, and for what becomes of it. */
struct mega_images {
    struct tree_node *node, *left, *right;
};

struct tree_mega {
    struct base_account *account;
    const struct tree_memory *memory;
    const uint8_t *extents;
    uint32_t region, unit_bytes;
    uint32_t units;                             /* that it takes */
    uint32_t units_max;                         /* that the memory has */
    uint64_t *used;                             /* a bit for each unit that a node has */
    uint32_t next_unit;                         /* from which on free ones are looked for */
    uint64_t changes;                           /* nodes that were written since it was opened */
    struct tree_node *scratch;                  /* a node's image, between two calls of other functions */
    struct mega_images images[TREE_LEVELS_MAX]; /* of each depth … */
    uint32_t image_count;                       /* … of these */
    uint64_t keys, nodes, units_used, splits, merges, moves;
};

/** The node at a unit, as the owner sees it. */
static inline const struct tree_node *mega_node(const struct tree_mega *mega, uint32_t unit)
{
    return (const struct tree_node *)(const void *)(mega->memory->memory + (uint64_t)unit * mega->unit_bytes);
}

/** Bring what will be looked at first into the processor's cache, all at the same time. */
static inline void mega_fetch_node(const struct tree_node *node)
{
    for (uint32_t line = 0; line < FETCHED_LINES; line++)
        __builtin_prefetch((const uint8_t *)node + line * 64u);
}

/** Bytes of a bitmap that has a bit for each unit. */
static inline size_t mega_bitmap_bytes(const struct tree_mega *mega)
{
    return (mega->units_max + 63) / 64 * sizeof(uint64_t);
}

/** Whether the bit of a unit is set. */
static inline bool mega_has_bit(const uint64_t *bitmap, uint32_t unit)
{
    return (bitmap[unit / 64] >> unit % 64 & 1) != 0;
}

/** A child of an inner node. */
static inline const struct tree_node *mega_child(const struct tree_mega *mega, const struct tree_node *node,
                                                 uint32_t entry)
{
    const struct tree_node *child = mega_node(mega, tree_pointer_unit(tree_node_child(node, entry)));
    mega_fetch_node(child);
    return child;
}

/** The leaf in which a key of the meganode's range is, or would be. */
static inline const struct tree_node *mega_leaf_of(const struct tree_mega *mega, struct tree_key key)
{
    const struct tree_node *node = mega_node(mega, ROOT);
    while (node->level > 0)
        node = mega_child(mega, node, tree_node_child_of(node, key));
    return node;
}

/** The node of a level that has the greatest keys below one: ranges.c. @param below  in the meganode's range, and above its
 * beginning; NULL: all keys are below @return its unit */
uint32_t mega_find_below(const struct tree_mega *mega, const struct tree_key *below, uint32_t level);

#endif
