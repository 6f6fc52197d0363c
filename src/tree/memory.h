/*
 * Memory of an ordered store: a range of addresses, of which it takes one step after the other. Other machines may read what
 * is taken: each step is a region of a fabric then, in every domain with which it is shared, and the store writes there by
 * the fabric's functions.
 *
 * Threading: one call at a time that prepares, shares or ends sharing; nobody writes while it is shared, or not any more.
 */
#ifndef TREE_MEMORY_H
#define TREE_MEMORY_H

#include "base/base.h"
#include "tree/record.h"
#include <string.h>
#include <tarn/fabric.h>

#define TREE_SHARES_MAX 8u /* domains with which it is shared */

/* The regions of a memory in one domain. */
struct tree_share {
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *regions[TREE_STEPS_MAX]; /* of the steps that are taken */
};

struct tree_memory {
    struct base_account *account;
    uint8_t *memory;
    uint64_t room_bytes; /* addresses */
    uint64_t step_bytes;
    uint64_t bytes;                             /* that are taken, from the beginning on */
    struct tree_share *shares[TREE_SHARES_MAX]; /* NULL: none */
    struct tarn_fabric_region *const
        *regions; /* by which it is written, one for each step; NULL: plain memory */
};

/** How large steps are, so that there are not too many. @param bytes  of the memory */
uint64_t tree_memory_step(uint64_t bytes);

/** Have addresses, and take the first step. @param room_bytes  some steps @return 0; -ENOMEM */
base_must_check int tree_memory_open(struct base_account *account, uint64_t room_bytes, uint64_t step_bytes,
                                     struct tree_memory *ret_memory);

/** Give back addresses that are not shared any more. All zero: there are none. */
void tree_memory_close(struct tree_memory *memory);

/** Prepare the next step, so that it is taken when the caller adds it to `bytes`, in whose users' sight. @return 0; -ENOSPC
 * (there are no more addresses); -ENOMEM; as fabric_region_adopt(). Yields if it is shared. */
base_must_check int tree_memory_prepare(struct tree_memory *memory);

/** Share it with a domain that has room for TREE_STEPS_MAX regions. @return 0; -ENOSPC (with too many); -ENOMEM; as
 * fabric_region_adopt(). Yields. */
base_must_check int tree_memory_share(struct tree_memory *memory, struct tarn_fabric_domain *domain);

/** End sharing it with a domain, if it is. Yields. */
void tree_memory_unshare(struct tree_memory *memory, const struct tarn_fabric_domain *domain);

/** The regions in a domain. @return NULL: it is not shared with it */
const struct tree_share *tree_memory_share_of(const struct tree_memory *memory,
                                              const struct tarn_fabric_domain *domain);

/** Write where other machines may read. Within what is taken. */
void tree_memory_write_shared(const struct tree_memory *memory, uint64_t offset, const void *from,
                              uint64_t bytes);

/** Write. Within what is taken. */
static inline void tree_memory_write(const struct tree_memory *memory, uint64_t offset, const void *from,
                                     uint64_t bytes)
{
    if (memory->regions != NULL)
        tree_memory_write_shared(memory, offset, from, bytes);
    else if (bytes > 0)
        memcpy(memory->memory + offset, from, bytes);
}

/** Write a word. */
static inline void tree_memory_store64(const struct tree_memory *memory, uint64_t offset, uint64_t word)
{
    if (memory->regions != NULL)
        tree_memory_write_shared(memory, offset, &word, sizeof(word));
    else
        *(uint64_t *)(void *)(memory->memory + offset) = word;
}

#endif
