/*
 * Domains: two files, one that peers only read and one that they may also write. At the beginning of the first lies
 * the table of regions, in which peers look at every operation.
 */
#include "fabric/shm/shm.h"
#include <errno.h>

/*
 * format: an entry of the table of regions, of one machine's byte order; peers have it to read only
 *
 * | offset | bytes | meaning                                                    |
 * |--------|-------|------------------------------------------------------------|
 * | 0      | 8     | key: its low 16 bits are the entry's number; 0: no region  |
 * | 8      | 8     | where the region begins in its file                        |
 * | 16     | 8     | its length                                                 |
 * | 24     | 4     | rights                                                     |
 * | 28     | 4     | the file: enum shm_place                                   |
 */
struct shm_table_format {
    _Atomic uint64_t key;
    _Atomic uint64_t offset;
    _Atomic uint64_t bytes;
    _Atomic uint32_t rights;
    _Atomic uint32_t place;
};

_Static_assert(sizeof(struct shm_table_format) == 32, "an array in a file");

#define KEY_SLOT_BITS 16
#define KEY_SLOT_MASK ((UINT64_C(1) << KEY_SLOT_BITS) - 1)

_Static_assert(TARN_FABRIC_REGIONS_MAX <= KEY_SLOT_MASK + 1, "a key holds the number of its entry");

#define FILE_BYTES_MAX (UINT64_C(1) << 46) /* half of a process's address space */

/* A part of a file: a region, or free space. */
struct shm_extent {
    struct base_list link;
    uint64_t offset;
    uint64_t bytes;
    bool used;
    bool dirty;          /* was used before, and so may not be zero */
    uint64_t quarantine; /* > 0: free, but connections with lower numbers might still write there */
};

static struct shm_extent *extent_of(struct base_list *item)
{
    return base_container_of(item, struct shm_extent, link);
}

static struct base_account *account_of(const struct shm_domain *domain)
{
    return &domain->shm->node->memory;
}

/* ---- opening and closing ------------------------------------------------------------------------ */

static uint64_t table_bytes(uint32_t slots)
{
    return base_align_up(slots * sizeof(struct shm_table_format), BASE_PAGE_BYTES);
}

/* Begin with all of a file's room for regions as one free extent. */
static int add_extent(struct shm_domain *domain, enum shm_place place, uint64_t offset, uint64_t bytes)
{
    if (bytes == 0)
        return 0;
    struct shm_extent *extent = base_alloc(account_of(domain), sizeof(*extent));
    if (extent == NULL)
        return -ENOMEM;
    extent->offset = offset;
    extent->bytes = bytes;
    base_list_push_back(&domain->extents[place], &extent->link);
    return 0;
}

static void drop_parts(struct shm_domain *domain)
{
    for (unsigned place = 0; place < SHM_PLACES; place++) {
        struct base_list *item;
        while ((item = base_list_pop_front(&domain->extents[place])) != NULL)
            base_free(account_of(domain), extent_of(item), sizeof(struct shm_extent));
        shm_file_drop(&domain->files[place]);
    }
    base_account_give(account_of(domain), domain->charged_bytes);
    base_free(account_of(domain), domain, sizeof(*domain));
}

static int make_files(struct shm_domain *domain, uint64_t readable_bytes, uint64_t writable_bytes)
{
    uint64_t table = table_bytes(domain->table_slots);
    uint64_t writable_file =
        base_max(writable_bytes, (uint64_t)BASE_PAGE_BYTES); /* a file cannot be mapped without bytes */
    int error = base_account_take(account_of(domain), table + readable_bytes + writable_file);
    if (error != 0)
        return error;
    domain->charged_bytes = table + readable_bytes + writable_file;
    error = shm_file_make("tarn-readable", table + readable_bytes, true, &domain->files[SHM_READABLE]);
    if (error == 0)
        error = shm_file_make("tarn-writable", writable_file, false, &domain->files[SHM_WRITABLE]);
    if (error == 0)
        error = add_extent(domain, SHM_READABLE, table, readable_bytes);
    if (error == 0)
        error = add_extent(domain, SHM_WRITABLE, 0, writable_bytes);
    return error;
}

int shm_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain)
{
    struct shm *shm = state;
    if (options->readable_bytes > FILE_BYTES_MAX || options->writable_bytes > FILE_BYTES_MAX)
        return -EINVAL;
    struct shm_domain *domain = base_alloc(&shm->node->memory, sizeof(*domain));
    if (domain == NULL)
        return -ENOMEM;
    domain->shm = shm;
    domain->identity = task_rng(shm->node);
    domain->keys = task_rng(shm->node) >> KEY_SLOT_BITS;
    domain->table_slots = options->regions_max;
    domain->connections_begun = 1;
    task_mutex_init(&domain->lock);
    base_list_init(&domain->connections);
    for (unsigned place = 0; place < SHM_PLACES; place++) {
        base_list_init(&domain->extents[place]);
        domain->files[place].fd = -1;
    }
    int error = make_files(domain, base_align_up(options->readable_bytes, BASE_PAGE_BYTES),
                           base_align_up(options->writable_bytes, BASE_PAGE_BYTES));
    if (error != 0) {
        drop_parts(domain);
        return error;
    }
    domain->table = (struct shm_table_format *)domain->files[SHM_READABLE].memory;
    *ret_domain = domain;
    return 0;
}

void shm_domain_close(void *state)
{
    struct shm_domain *domain = state;
    struct base_list *item;
    shm_service_lock(&domain->shm->service);
    while ((item = base_list_first(&domain->connections)) != NULL)
        shm_ghost_end_locked(base_container_of(item, struct shm_connection, link));
    shm_service_unlock(&domain->shm->service);
    drop_parts(domain);
}

/* ---- extents ------------------------------------------------------------------------------------ */

/* The number of the oldest connection whose peer might still write, or of the next connection if there is none. */
static uint64_t oldest_connection(struct shm_domain *domain)
{
    shm_service_lock(&domain->shm->service);
    struct base_list *first = base_list_first(&domain->connections);
    uint64_t number = first == NULL ? domain->connections_begun
                                    : base_container_of(first, struct shm_connection, link)->number;
    shm_service_unlock(&domain->shm->service);
    return number;
}

static bool is_free(const struct shm_extent *extent)
{
    return !extent->used && extent->quarantine == 0;
}

/* End quarantines that are over, and merge free neighbours. */
static void tidy_extents(struct shm_domain *domain, enum shm_place place, uint64_t oldest)
{
    struct shm_extent *before = NULL;
    base_list_for_each_safe(item, &domain->extents[place]) {
        struct shm_extent *extent = extent_of(item);
        if (extent->quarantine <= oldest)
            extent->quarantine = 0;
        if (before != NULL && is_free(before) && is_free(extent)) {
            before->bytes += extent->bytes;
            before->dirty |= extent->dirty;
            base_list_remove(item);
            base_free(account_of(domain), extent, sizeof(*extent));
        } else {
            before = extent;
        }
    }
}

/* Take `bytes` of the first free extent that has them. @return 0; -ENOSPC; -ENOMEM */
static int take_extent(struct shm_domain *domain, enum shm_place place, uint64_t oldest, uint64_t bytes,
                       struct shm_extent **ret_extent)
{
    tidy_extents(domain, place, oldest);
    base_list_for_each(item, &domain->extents[place]) {
        struct shm_extent *extent = extent_of(item);
        if (!is_free(extent) || extent->bytes < bytes)
            continue;
        if (extent->bytes > bytes) {
            struct shm_extent *rest = base_alloc(account_of(domain), sizeof(*rest));
            if (rest == NULL)
                return -ENOMEM;
            rest->offset = extent->offset + bytes;
            rest->bytes = extent->bytes - bytes;
            rest->dirty = extent->dirty;
            base_list_insert_after(&extent->link, &rest->link);
            extent->bytes = bytes;
        }
        extent->used = true;
        *ret_extent = extent;
        return 0;
    }
    return -ENOSPC;
}

/* Have an extent's pages, all zero, so that a lack of memory is an error here and no signal later. @return 0 or
 * -ENOMEM */
static int touch_pages(const struct shm_file *file, struct shm_extent *extent)
{
    int error = fabric_populate(file->memory + extent->offset, extent->bytes, extent->dirty);
    extent->dirty = true; /* some pages may be there even if not all are */
    return error;
}

/* ---- regions ------------------------------------------------------------------------------------ */

/* @return the number of an entry without a region, or table_slots */
static uint32_t find_slot(const struct shm_domain *domain)
{
    uint32_t slot = 0;
    while (slot < domain->table_slots &&
           atomic_load_explicit(&domain->table[slot].key, memory_order_relaxed) != 0)
        slot++;
    return slot;
}

/* Enter a region into the table, where peers find it. */
static void publish_region(struct shm_domain *domain, uint32_t slot, struct tarn_fabric_region *region,
                           enum shm_place place, const struct shm_extent *extent)
{
    /* The order pairs with read_entry()'s: a reader that sees a field of this region sees that the key of the region
     * before it is gone. */
    struct shm_table_format *entry = &domain->table[slot];
    uint64_t key = 0;
    while (key >> KEY_SLOT_BITS == 0) /* after 2^48 regions */
        key = ++domain->keys << KEY_SLOT_BITS | slot;
    atomic_store_explicit(&entry->offset, extent->offset, memory_order_release);
    atomic_store_explicit(&entry->bytes, extent->bytes, memory_order_release);
    atomic_store_explicit(&entry->rights, region->handle.rights, memory_order_release);
    atomic_store_explicit(&entry->place, (uint32_t)place, memory_order_release);
    atomic_store(&entry->key, key);
    region->handle.domain = domain->identity;
    region->handle.key = key;
}

int shm_region_alloc(void *state, struct tarn_fabric_region *region)
{
    struct shm_domain *domain = state;
    const uint32_t changing = TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP;
    enum shm_place place = (region->handle.rights & changing) != 0 ? SHM_WRITABLE : SHM_READABLE;
    struct shm_extent *extent;
    uint64_t oldest = oldest_connection(domain);
    task_mutex_lock_firmly(&domain->lock);
    int error = take_extent(domain, place, oldest, region->bytes, &extent);
    task_mutex_unlock(&domain->lock);
    if (error != 0)
        return error;
    error = touch_pages(&domain->files[place], extent); /* it is this caller's alone */
    task_mutex_lock_firmly(&domain->lock);
    uint32_t slot = find_slot(domain);
    if (error == 0 && slot == domain->table_slots)
        error = -ENOSPC;
    region->memory = domain->files[place].memory + extent->offset;
    region->state = extent;
    if (error == 0)
        publish_region(domain, slot, region, place, extent);
    else
        extent->used = false;
    task_mutex_unlock(&domain->lock);
    return error;
}

void shm_region_free(void *state, struct tarn_fabric_region *region)
{
    struct shm_domain *domain = state;
    struct shm_extent *extent = region->state;
    task_mutex_lock_firmly(&domain->lock);
    atomic_store(&domain->table[region->handle.key & KEY_SLOT_MASK].key, 0);
    task_mutex_unlock(&domain->lock);
    shm_service_lock(&domain->shm->service);
    uint64_t next = domain->connections_begun; /* connections made from now on do not find the key */
    shm_service_unlock(&domain->shm->service);
    task_mutex_lock_firmly(&domain->lock);
    extent->quarantine = next;
    extent->used = false;
    task_mutex_unlock(&domain->lock);
}

/* ---- the peer's --------------------------------------------------------------------------------- */

int shm_peer_domain_take(const struct shm_hello *hello, const int *fds, struct shm_peer_domain *ret_peer)
{
    struct shm_peer_domain peer = {.identity = hello->identity, .table_slots = hello->table_slots};
    if (hello->table_slots == 0 || hello->table_slots > TARN_FABRIC_REGIONS_MAX ||
        hello->bytes[SHM_READABLE] < table_bytes(hello->table_slots))
        return -EPROTO;
    int error =
        shm_file_take(fds[SHM_READABLE], hello->bytes[SHM_READABLE], false, &peer.files[SHM_READABLE]);
    if (error != 0)
        return error;
    error = shm_file_take(fds[SHM_WRITABLE], hello->bytes[SHM_WRITABLE], true, &peer.files[SHM_WRITABLE]);
    if (error != 0) {
        shm_file_drop(&peer.files[SHM_READABLE]);
        return error;
    }
    *ret_peer = peer;
    return 0;
}

void shm_peer_domain_drop(struct shm_peer_domain *peer)
{
    for (unsigned place = 0; place < SHM_PLACES; place++) {
        if (peer->files[place].memory != NULL)
            shm_file_drop(&peer->files[place]);
    }
}

/* Copy an entry that its owner may change meanwhile. @return whether it was of that key all the time */
static bool read_entry(const struct shm_table_format *entry, uint64_t key, uint64_t *ret_offset,
                       uint64_t *ret_bytes, uint32_t *ret_rights, uint32_t *ret_place)
{
    if (atomic_load(&entry->key) != key)
        return false;
    *ret_offset = atomic_load_explicit(&entry->offset, memory_order_acquire);
    *ret_bytes = atomic_load_explicit(&entry->bytes, memory_order_acquire);
    *ret_rights = atomic_load_explicit(&entry->rights, memory_order_acquire);
    *ret_place = atomic_load_explicit(&entry->place, memory_order_acquire);
    return atomic_load(&entry->key) == key;
}

bool shm_find(struct shm_peer_domain *peer, uint64_t key)
{
    const struct shm_table_format *table = (const struct shm_table_format *)peer->files[SHM_READABLE].memory;
    const uint64_t slot = key & KEY_SLOT_MASK;
    uint64_t offset, bytes;
    uint32_t rights, place;
    if (key >> KEY_SLOT_BITS == 0 || slot >= peer->table_slots ||
        !read_entry(&table[slot], key, &offset, &bytes, &rights, &place))
        return false;
    /* The checks below hold unless the peer's table is rubbish. */
    if (place >= SHM_PLACES)
        return false;
    const struct shm_file *file = &peer->files[place];
    if (offset > file->bytes || bytes > file->bytes - offset || !base_is_aligned(offset, BASE_PAGE_BYTES))
        return false;
    if (place == SHM_READABLE)
        rights &= (uint32_t)TARN_FABRIC_MAY_READ;
    peer->sights[key % SHM_SIGHTS] = (struct shm_sight){.key = key,
                                                        .key_now = &table[slot].key,
                                                        .memory = file->memory + offset,
                                                        .bytes = bytes,
                                                        .rights = rights};
    return true;
}
