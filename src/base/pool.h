/*
 * A pool of equal objects: taken from the account in slabs up to a limit, kept until deinit, handed out from
 * a free list. One owner, no lock. Under AddressSanitizer a free object is poisoned.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/account.h"

struct base_pool_free;
struct base_pool_slab;

struct base_pool {
    struct base_account *account;
    struct base_pool_free *free;
    struct base_pool_slab *slabs;
    size_t object_bytes; /* rounded up to the alignment */
    size_t alignment;
    size_t objects_max;
    size_t grow_by;
    size_t objects; /* in slabs, used or not */
    size_t in_use;
    size_t peak; /* largest in_use so far */
};

/**
 * Make an empty pool; it takes no memory yet.
 *
 * @param account       outlives the pool
 * @param object_bytes  at least 1
 * @param alignment     a power of two; 0 means that of any type
 * @param objects_max   limit of objects
 * @param grow_by       objects in a slab, at least 1
 */
void base_pool_init(struct base_pool *pool, struct base_account *account, size_t object_bytes,
                    size_t alignment, size_t objects_max, size_t grow_by);

/**
 * Free all slabs. Every object must be back: one in use is asserted against.
 */
void base_pool_deinit(struct base_pool *pool);

/**
 * Take slabs now, so that this number of objects can be handed out later without any allocation.
 *
 * @param objects  at most objects_max
 * @return 0; -ENOMEM (what was taken so far stays in the pool)
 */
int base_pool_reserve(struct base_pool *pool, size_t objects) base_must_check;

/**
 * Hand out an object. Its contents are undefined.
 *
 * @return the object, to be put back; NULL if the limit or the account is reached
 */
void *base_pool_get(struct base_pool *pool) base_must_check;

/**
 * Take an object back.
 *
 * @param object  from base_pool_get of this pool
 */
void base_pool_put(struct base_pool *pool, void *object);

#endif
