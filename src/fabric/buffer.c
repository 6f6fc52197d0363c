/*
 * Buffers: memory for the vectors of operations. A domain's pool has sizes that are powers of two; each size takes
 * slabs, each of which the provider registers once. Slabs stay; only when the pool is at its limit do slabs without a
 * buffer in use make room for another size.
 */
#include "fabric/fabric_internal.h"
#include <errno.h>

#define SMALLEST_SHIFT 9                     /* 512 bytes */
#define SLAB_BYTES     (UINT64_C(256) << 10) /* the least size of a slab */
#define DEFAULT_BYTES  (UINT64_C(16) << 20)
#define HUGE_BYTES     (UINT64_C(2) << 20)

_Static_assert(TARN_FABRIC_BYTES_MAX == UINT64_C(1) << (SMALLEST_SHIFT + FABRIC_BUFFER_SIZES - 1),
               "an operation fits into a buffer");

struct slab {
    struct base_list link; /* place in buffers.rooms; in no list when all of the slab's buffers are out */
    uint32_t size;         /* index of the buffers' size, below FABRIC_BUFFER_SIZES */
    uint32_t in_use;
    uint8_t *memory;
    uint64_t bytes;
    void *state; /* the provider's state of the slab */
    struct tarn_fabric_buffer *free;
    struct tarn_fabric_buffer buffers[];
};

static struct slab *slab_of(struct base_list *item)
{
    return base_container_of(item, struct slab, link);
}

static uint64_t bytes_of(uint32_t size)
{
    return UINT64_C(1) << (SMALLEST_SHIFT + size);
}

/* @return index of the smallest size that holds the bytes */
static uint32_t size_of(uint64_t bytes)
{
    uint32_t size = 0;
    while (bytes_of(size) < bytes)
        size++;
    return size;
}

static size_t header_bytes(const struct slab *slab)
{
    return sizeof(*slab) + slab->bytes / bytes_of(slab->size) * sizeof(struct tarn_fabric_buffer);
}

/* ---- slabs -------------------------------------------------------------------------------------- */

static void free_slab(struct tarn_fabric_domain *domain, struct slab *slab)
{
    struct base_account *account = &domain->fabric->node->memory;
    if (domain->fabric->provider->buffers_gone != NULL)
        domain->fabric->provider->buffers_gone(domain->state, slab->state);
    base_unmap(account, slab->memory, slab->bytes);
    base_free(account, slab, header_bytes(slab));
}

static int make_slab(struct tarn_fabric_domain *domain, uint32_t size, uint64_t bytes, struct slab **ret_slab)
{
    const struct fabric_provider *provider = domain->fabric->provider;
    struct base_account *account = &domain->fabric->node->memory;
    const struct slab sizes = {.size = size, .bytes = bytes};
    struct slab *slab = base_alloc(account, header_bytes(&sizes));
    if (slab == NULL)
        return -ENOMEM;
    slab->size = size;
    slab->bytes = bytes;
    slab->memory = base_map(account, bytes >= HUGE_BYTES ? HUGE_BYTES : BASE_PAGE_BYTES, bytes);
    int error = slab->memory == NULL ? -ENOMEM : 0;
    if (error == 0 && provider->buffers_made != NULL)
        error = provider->buffers_made(domain->state, slab->memory, bytes, &slab->state);
    if (error != 0) {
        base_unmap(account, slab->memory, bytes);
        base_free(account, slab, header_bytes(slab));
        return error;
    }
    for (uint64_t i = bytes / bytes_of(size); i-- > 0;) {
        struct tarn_fabric_buffer *buffer = &slab->buffers[i];
        *buffer = (struct tarn_fabric_buffer){.memory = slab->memory + i * bytes_of(size),
                                              .bytes = bytes_of(size),
                                              .domain = domain,
                                              .state = slab,
                                              .next = slab->free};
        slab->free = buffer;
    }
    *ret_slab = slab;
    return 0;
}

/* Reserve `bytes` of the pool's limit, if need be by taking out idle slabs, which are last in their lists. @return
 * whether the bytes were reserved */
static bool reserve_locked(struct fabric_buffers *buffers, uint64_t bytes, struct base_list *idle)
{
    base_spin_assert_held(&buffers->lock);
    for (uint32_t size = 0; size < FABRIC_BUFFER_SIZES; size++) {
        struct base_list *last;
        while (bytes > buffers->bytes_max - buffers->bytes &&
               (last = base_list_last(&buffers->rooms[size])) != NULL && slab_of(last)->in_use == 0) {
            base_list_remove(last);
            base_list_push_back(idle, last);
            buffers->bytes -= slab_of(last)->bytes;
        }
    }
    const bool fits = bytes <= buffers->bytes_max - buffers->bytes;
    buffers->bytes += fits ? bytes : 0;
    return fits;
}

/* Add a slab of a size. */
static int add_slab(struct tarn_fabric_domain *domain, uint32_t size)
{
    struct fabric_buffers *buffers = &domain->buffers;
    const uint64_t bytes = base_max(bytes_of(size), SLAB_BYTES);
    struct base_list idle, *item;
    struct slab *slab = NULL;
    base_list_init(&idle);
    base_spin_lock(&buffers->lock);
    const bool fits = reserve_locked(buffers, bytes, &idle);
    base_spin_unlock(&buffers->lock);
    while ((item = base_list_pop_front(&idle)) != NULL)
        free_slab(domain, slab_of(item));
    if (!fits)
        return -ENOSPC;
    int error = make_slab(domain, size, bytes, &slab);
    base_spin_lock(&buffers->lock);
    if (error == 0)
        base_list_push_back(&buffers->rooms[size], &slab->link);
    else
        buffers->bytes -= bytes;
    base_spin_unlock(&buffers->lock);
    return error;
}

/* ---- the pool ----------------------------------------------------------------------------------- */

void fabric_buffers_open(struct tarn_fabric_domain *domain, uint64_t bytes)
{
    struct fabric_buffers *buffers = &domain->buffers;
    const uint64_t most = INT64_MAX & ~(SLAB_BYTES - 1);
    base_spin_init(&buffers->lock);
    buffers->bytes_max = bytes == 0 ? DEFAULT_BYTES : base_align_up(base_min(bytes, most), SLAB_BYTES);
    for (uint32_t size = 0; size < FABRIC_BUFFER_SIZES; size++)
        base_list_init(&buffers->rooms[size]);
}

void fabric_buffers_close(struct tarn_fabric_domain *domain)
{
    struct fabric_buffers *buffers = &domain->buffers;
    struct base_list *item;
    for (uint32_t size = 0; size < FABRIC_BUFFER_SIZES; size++) {
        while ((item = base_list_pop_front(&buffers->rooms[size])) != NULL) {
            base_assert(slab_of(item)->in_use == 0);
            buffers->bytes -= slab_of(item)->bytes;
            free_slab(domain, slab_of(item));
        }
    }
    base_assert(buffers->bytes == 0); /* all buffers were put back */
}

/* @return a free buffer of the size; NULL: there is none */
static struct tarn_fabric_buffer *take_buffer(struct fabric_buffers *buffers, uint32_t size)
{
    struct tarn_fabric_buffer *buffer = NULL;
    base_spin_lock(&buffers->lock);
    struct base_list *first = base_list_first(&buffers->rooms[size]);
    if (first != NULL) {
        struct slab *slab = slab_of(first);
        buffer = slab->free;
        slab->free = buffer->next;
        buffer->next = buffer; /* marks the buffer as out */
        slab->in_use++;
        base_list_remove(first);
        if (slab->free != NULL)
            base_list_push_front(&buffers->rooms[size], first);
    }
    base_spin_unlock(&buffers->lock);
    return buffer;
}

int tarn_fabric_buffer_get(struct tarn_fabric_domain *domain, uint64_t bytes,
                           struct tarn_fabric_buffer **ret_buffer)
{
    if (bytes == 0 || bytes > TARN_FABRIC_BYTES_MAX)
        return -EINVAL;
    const uint32_t size = size_of(bytes);
    struct tarn_fabric_buffer *buffer;
    while ((buffer = take_buffer(&domain->buffers, size)) == NULL) {
        int error = add_slab(domain, size);
        if (error != 0)
            return error;
    }
    *ret_buffer = buffer;
    return 0;
}

void tarn_fabric_buffer_put(struct tarn_fabric_buffer *buffer)
{
    struct fabric_buffers *buffers = &buffer->domain->buffers;
    struct slab *slab = buffer->state;
    base_spin_lock(&buffers->lock);
    base_assert(buffer->next == buffer); /* a buffer that is put back must be out */
    if (slab->free != NULL)
        base_list_remove(&slab->link);
    buffer->next = slab->free;
    slab->free = buffer;
    slab->in_use--;
    if (slab->in_use == 0)
        base_list_push_back(&buffers->rooms[slab->size], &slab->link);
    else
        base_list_push_front(&buffers->rooms[slab->size], &slab->link);
    base_spin_unlock(&buffers->lock);
}
