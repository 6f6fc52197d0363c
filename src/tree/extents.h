/*
 * Room for extents, which have records, in one memory: pieces of any size, found in constant time by two levels of sizes
 * (Masmano and others, "TLSF", 2004). What is freed is one with free neighbours at once. Of the memory only what lies below the
 * *top* was ever used; the top goes up where no free piece fits, and down again.
 *
 * Threading: one call at a time for each memory. None yields.
 */
#ifndef TREE_EXTENTS_H
#define TREE_EXTENTS_H

#include "tree/memory.h"
#include "tree/record.h"

#define TREE_EXTENT_BYTES_MAX (UINT64_C(1) << 33) /* of a piece */

struct tree_extents;

/**
 * Begin without pieces.
 *
 * @param account  pays for what is kept beside the memory
 * @param memory   of which it takes what is taken; outlives the allocator
 * @return 0; -ENOMEM
 */
base_must_check int tree_extents_open(struct base_account *account, const struct tree_memory *memory,
                                      struct tree_extents **ret_extents);

/** Take all pieces back. */
void tree_extents_clear(struct tree_extents *extents);

/** Free what is kept beside the memory. */
void tree_extents_close(struct tree_extents *extents);

/**
 * Take a piece.
 *
 * @param bytes  1 to TREE_EXTENT_BYTES_MAX
 * @return its offset in the memory, a multiple of TREE_EXTENT_ALIGNMENT, not 0; 0: there is no room in what is taken
 */
uint64_t tree_extents_take(struct tree_extents *extents, uint64_t bytes);

/** Give a piece back. @param offset  of tree_extents_take() */
void tree_extents_give(struct tree_extents *extents, uint64_t offset);

/** Where the memory ends that is used now. */
uint64_t tree_extents_top(const struct tree_extents *extents);

/** Bytes of the pieces that are taken, with what each costs beside its own. */
uint64_t tree_extents_used(const struct tree_extents *extents);

/** Look at all pieces, taken and free ones. @param ret_why  static text; the first thing that is wrong @return 0; -EUCLEAN */
base_must_check int tree_extents_check(const struct tree_extents *extents, const char **ret_why);

#endif
