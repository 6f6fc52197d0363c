/* Fixed pools of equal objects, cut from slabs that an account is charged for. */
#include "base/pool.h"

#include <errno.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef WITH_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes)   ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

/* Lies at the start of each free object. */
struct base_pool_free {
    struct base_pool_free *next;
};

/* Lies at the start of each slab; the objects follow at their alignment. */
struct base_pool_slab {
    struct base_pool_slab *next;
    size_t bytes;
};

static size_t slab_header_bytes(const struct base_pool *pool)
{
    return base_align_up(sizeof(struct base_pool_slab), pool->alignment);
}

static void push_free(struct base_pool *pool, void *object)
{
    struct base_pool_free *free_object = object;
    free_object->next = pool->free;
    pool->free = free_object;
    ASAN_POISON_MEMORY_REGION(object, pool->object_bytes);
}

static int add_slab(struct base_pool *pool)
{
    size_t objects = base_min(pool->grow_by, pool->objects_max - pool->objects);
    size_t header_bytes = slab_header_bytes(pool);
    size_t bytes;
    if (__builtin_mul_overflow(objects, pool->object_bytes, &bytes) ||
        __builtin_add_overflow(bytes, header_bytes, &bytes))
        return -ENOMEM;
    struct base_pool_slab *slab = base_alloc_aligned(pool->account, pool->alignment, bytes);
    if (slab == NULL)
        return -ENOMEM;
    slab->bytes = bytes;
    slab->next = pool->slabs;
    pool->slabs = slab;
    pool->objects += objects;
    /* Backwards, so that objects are handed out in the order of their addresses. */
    for (size_t i = objects; i-- > 0;)
        push_free(pool, (uint8_t *)slab + header_bytes + i * pool->object_bytes);
    return 0;
}

void base_pool_init(struct base_pool *pool, struct base_account *account, size_t object_bytes,
                    size_t alignment, size_t objects_max, size_t grow_by)
{
    if (alignment == 0)
        alignment = _Alignof(max_align_t);
    alignment = base_max(alignment, _Alignof(struct base_pool_slab));
    base_assert(account != NULL && object_bytes > 0 && grow_by > 0 && base_is_power_of_two(alignment));
    base_assert(object_bytes <= PTRDIFF_MAX - alignment);
    *pool = (struct base_pool){
        .account = account,
        .object_bytes = base_align_up(base_max(object_bytes, sizeof(struct base_pool_free)), alignment),
        .alignment = alignment,
        .objects_max = objects_max,
        .grow_by = grow_by,
    };
}

void base_pool_deinit(struct base_pool *pool)
{
    base_assert(pool->in_use == 0);
    while (pool->slabs != NULL) {
        struct base_pool_slab *slab = pool->slabs;
        pool->slabs = slab->next;
        ASAN_UNPOISON_MEMORY_REGION(slab, slab->bytes);
        base_free(pool->account, slab, slab->bytes);
    }
    pool->free = NULL;
    pool->objects = 0;
}

int base_pool_reserve(struct base_pool *pool, size_t objects)
{
    base_assert(objects <= pool->objects_max);
    while (pool->objects < objects) {
        int error = add_slab(pool);
        if (error != 0)
            return error;
    }
    return 0;
}

void *base_pool_get(struct base_pool *pool)
{
    if (base_unlikely(pool->free == NULL) && (pool->objects == pool->objects_max || add_slab(pool) != 0))
        return NULL;
    struct base_pool_free *object = pool->free;
    ASAN_UNPOISON_MEMORY_REGION(object, pool->object_bytes);
    pool->free = object->next;
    pool->in_use++;
    pool->peak = base_max(pool->peak, pool->in_use);
    return object;
}

void base_pool_put(struct base_pool *pool, void *object)
{
    base_assert(object != NULL && pool->in_use > 0);
    pool->in_use--;
    push_free(pool, object);
}
