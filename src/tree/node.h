/*
 * A node of a tree as bytes: how it is laid out, read, checked and changed (README, "Nodes", has the table). All functions
 * work on an image in the caller's memory, which may be a copy that a READ has fetched; mega.c keeps nodes in memory that
 * other machines read. Pure functions: any thread.
 *
 * A function that changes a node, or reads its entries, expects an image that tree_node_check() has accepted, or one that
 * this file has made. Keys are unsigned bytes in the order of memcmp(), a shorter key before a longer one that begins with it.
 */
#ifndef TREE_NODE_H
#define TREE_NODE_H

#include "base/base.h"

#define TREE_NODE_BYTES     1024u /* of a unit, where nothing else is asked for */
#define TREE_NODE_BYTES_MIN 512u
#define TREE_NODE_BYTES_MAX 2048u
#define TREE_CLASSES        5u /* a node has 1, 2, 4, 8 or 16 units */
#define TREE_KEY_MAX        1024u
#define TREE_LEVELS_MAX     24u

/* ---- pointers ----------------------------------------------------------------------------------- */

/** Where a node is: its region's number << 32 | its first unit in the region << 4 | its class. 0: nowhere. */
typedef uint64_t tree_pointer;

/** Make a pointer. */
static inline tree_pointer tree_pointer_to(uint32_t region, uint32_t unit, uint32_t class_number)
{
    return (uint64_t)region << 32 | (uint64_t)unit << 4 | class_number;
}

/** The number of the region that has the node. */
static inline uint32_t tree_pointer_region(tree_pointer pointer)
{
    return (uint32_t)(pointer >> 32);
}

/** The first unit of the node, in its region. */
static inline uint32_t tree_pointer_unit(tree_pointer pointer)
{
    return (uint32_t)pointer >> 4;
}

/** The class of the node, as it was when the pointer was made. */
static inline uint32_t tree_pointer_class(tree_pointer pointer)
{
    return (uint32_t)pointer & 15;
}

/* ---- nodes -------------------------------------------------------------------------------------- */

/* A key, or a part of one. Borrowed. */
struct tree_key {
    const uint8_t *bytes;
    uint32_t count;
};

/* What a leaf has under a key. */
struct tree_value {
    uint64_t place; /* of the extent that has the record, or a pointer to the root of another meganode */
    uint64_t sum;   /* CRC-64 of the extent's bytes */
    uint32_t bytes; /* of the extent that are the record */
};

/* What else is true of a node. */
enum tree_node_flags {
    TREE_NODE_DEAD = 1, /* the node is in no tree any more: its reader begins again */
    TREE_NODE_LAST = 2, /* no node of its level has higher keys, so there is no high fence */
};

/* The beginning of a node. Heads of keys, slots and the heap follow. */
struct tree_node {
    uint64_t sum;          /* CRC-64 of the place, and of all that counts behind this word */
    uint64_t version;      /* the number of the change, of all of its meganode, by which it has come */
    tree_pointer right;    /* the next node of this level; 0: there is none */
    uint16_t count;        /* entries */
    uint8_t level;         /* 0: a leaf of its meganode */
    uint8_t flags;         /* enum tree_node_flags */
    uint16_t prefix_bytes; /* with which the low fence and all keys begin, and which entries leave out */
    uint16_t low_bytes;    /* of the low fence: the least key that may be here. 0: no key is less */
    uint16_t high_bytes;   /* of the high fence: all keys here are less */
    uint16_t heap;         /* where the heap begins: behind it are entries, then high fence, then low fence */
    uint16_t unused;       /* 0 */
    uint8_t class_number;  /* the node has as many bytes as a unit << this */
    uint8_t unit_shift;    /* a unit has 1 << this bytes */
};

#define TREE_NODE_OVERHEAD 8u /* bytes of an entry outside the heap */

/** Shows a record. @param key  until return @return 0 to go on; anything else ends the range with it */
typedef int tree_visit_function(void *arg, struct tree_key key, struct tree_value value);

/** Whether units may have this size. */
static inline bool tree_is_unit(uint32_t bytes)
{
    return bytes >= TREE_NODE_BYTES_MIN && bytes <= TREE_NODE_BYTES_MAX && (bytes & (bytes - 1)) == 0;
}

/** How many bytes the largest node has. */
static inline uint32_t tree_image_bytes(uint32_t unit_bytes)
{
    return unit_bytes << (TREE_CLASSES - 1);
}

/** How many bytes a node has. */
static inline uint32_t tree_node_bytes(const struct tree_node *node)
{
    return UINT32_C(1) << (node->unit_shift + node->class_number);
}

/**
 * Make an empty node.
 *
 * @param unit_bytes    a power of two
 * @param low           the low fence
 * @param high          the high fence; NULL: none, TREE_NODE_LAST
 * @return false: the fences take more than half of it
 */
base_must_check bool tree_node_init(struct tree_node *node, uint32_t unit_bytes, uint32_t class_number,
                                    uint32_t level, struct tree_key low, const struct tree_key *high);

/** Give a changed node its version, and its sum. @param self  where it will be; its class does not count */
void tree_node_seal(struct tree_node *node, tree_pointer self, uint64_t version);

/**
 * Find out whether bytes of unknown origin are the node of a place, whole and well-formed.
 *
 * @param bytes       of the image; aligned to 8
 * @param unit_bytes  of the tree's units
 * @return 0; -EAGAIN: it is torn, or none; -EMSGSIZE: as far as can be seen it is whole, and has more bytes than these
 */
base_must_check int tree_node_check(const void *image, uint32_t bytes, uint32_t unit_bytes,
                                    tree_pointer self);

/** The low fence; the prefix is its beginning. */
struct tree_key tree_node_low(const struct tree_node *node);

/** The high fence, of a node that is not TREE_NODE_LAST. */
struct tree_key tree_node_high(const struct tree_node *node);

/** The end of its range, as tree_node_init() takes it. @param ret_high  the high fence, if there is one @return it; NULL:
 * TREE_NODE_LAST */
const struct tree_key *tree_node_end(const struct tree_node *node, struct tree_key *ret_high);

/** Whether a key is below the node's range (-1), in it (0), or at or above its end (1). */
int tree_node_compare(const struct tree_node *node, struct tree_key key);

/** Find a key of the node's range. @param ret_found  whether the entry has this key @return the first entry whose key is not less */
uint32_t tree_node_find(const struct tree_node *node, struct tree_key key, bool *ret_found);

/** The entry of an inner node under which a key of its range is. */
uint32_t tree_node_child_of(const struct tree_node *node, struct tree_key key);

/** Copy a whole key. @param buffer  TREE_KEY_MAX bytes */
struct tree_key tree_node_key(const struct tree_node *node, uint32_t entry, uint8_t *buffer);

/** What a leaf has under a key. */
struct tree_value tree_node_value(const struct tree_node *node, uint32_t entry);

/** The child of an inner node. */
tree_pointer tree_node_child(const struct tree_node *node, uint32_t entry);

/**
 * Show the keys of a leaf, from an entry on.
 *
 * @param below       no key that is not less; NULL: all
 * @param ret_is_end  such a key was met
 * @return 0; what `visit` returned
 */
base_must_check int tree_node_show(const struct tree_node *leaf, uint32_t entry, const struct tree_key *below,
                                   tree_visit_function *visit, void *arg, bool *ret_is_end);

/** Bytes of the node that fences and entries take. */
uint32_t tree_node_used(const struct tree_node *node);

/**
 * Add an entry, whose key the node does not have.
 *
 * @param entry  tree_node_find() has named; of a new node also its number of entries, in order
 * @param key    in the node's range
 * @param value  of an inner node only its place counts: the child
 * @return false: there is no room, and nothing was changed
 */
base_must_check bool tree_node_insert(struct tree_node *node, uint32_t entry, struct tree_key key,
                                      struct tree_value value);

/** Change what is under a key. */
void tree_node_replace(struct tree_node *node, uint32_t entry, struct tree_value value);

/** Remove an entry. */
void tree_node_remove(struct tree_node *node, uint32_t entry);

/** Compare two keys, as memcmp() does. */
int tree_key_compare(struct tree_key a, struct tree_key b);

/** How many bytes two keys have in common at their beginning. */
uint32_t tree_key_common(struct tree_key a, struct tree_key b);

#endif
