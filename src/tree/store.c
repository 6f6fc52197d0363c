/* An ordered store of one process: opening, memory, flushing, and what it tells. */
#include "base/checksum.h"
#include "depot/depot.h"
#include "tree/store_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#define NODE_REGION 1u
#define ROOM_MAX    (UINT64_C(64) << 30) /* of nodes, and of extents */
#define STEP_BYTES  (UINT64_C(4) << 20)  /* in which memory is charged, and nodes get more */

/* ---- memory --------------------------------------------------------------------------------------- */

struct tree_value tree_store_seal(const struct tree_store *store, const struct tree_record *record,
                                  const struct tree_record *header, uint32_t bytes)
{
    const uint64_t place = tree_record_place(store, record);
    uint64_t sum = base_crc64(0, &place, sizeof(place));
    sum = base_crc64(sum, header, sizeof(*header));
    sum = base_crc64(sum, record->value, bytes);
    return (struct tree_value){.place = place, .sum = sum, .bytes = bytes};
}

/* Charge the node for what extents take now. @return 0; -ENOMEM */
static int charge_extents(struct tree_store *store)
{
    const uint64_t bytes = base_align_up(tree_extents_top(store->extents), STEP_BYTES);
    if (bytes <= store->extent_bytes)
        return 0;
    int error = base_account_take(&store->node->memory, bytes - store->extent_bytes);
    if (error == 0)
        store->extent_bytes = bytes;
    return error;
}

int tree_store_take_record(struct tree_store *store, uint64_t value_bytes, struct tree_record **ret_record)
{
    const uint64_t offset = tree_extents_take(store->extents, sizeof(**ret_record) + value_bytes,
                                              store->memory_bytes - store->node_bytes);
    if (offset == 0)
        return -ENOSPC;
    if (charge_extents(store) != 0) {
        tree_extents_give(store->extents, offset);
        return -ENOMEM;
    }
    *ret_record = (struct tree_record *)(void *)(store->extent_memory + offset);
    memset(*ret_record, 0, sizeof(**ret_record));
    return 0;
}

/* Let nodes take more, with the lock held. @return 0; -ENOSPC, -ENOMEM: there is no more */
static int grow_nodes(struct tree_store *store)
{
    const uint64_t bytes = store->node_bytes + STEP_BYTES;
    if (bytes > store->room_bytes || bytes + tree_extents_top(store->extents) > store->memory_bytes)
        return -ENOSPC;
    int error = base_account_take(&store->node->memory, STEP_BYTES);
    if (error == 0) {
        store->node_bytes = bytes;
        tree_mega_grow(store->mega, bytes);
    }
    return error;
}

int tree_store_put_key(struct tree_store *store, struct tree_key key, struct tree_value value,
                       struct tree_value *ret_before)
{
    int error = tree_mega_put(store->mega, key, value, ret_before);
    while (error == -ENOSPC && (error = grow_nodes(store)) == 0)
        error = tree_mega_put(store->mega, key, value, ret_before);
    return error;
}

/* ---- all records ---------------------------------------------------------------------------------- */

/* Forget all records. All key locks are held. */
static void forget_all(struct tree_store *store)
{
    store->gone_sequence = depot_gone_sequence(store->depot);
    tree_store_lock(store);
    tree_mega_clear(store->mega);
    tree_extents_clear(store->extents);
    store->sweep_count = 0;
    tree_store_unlock(store);
}

/* Have the depot carry out an order, or note it, and forget what it has forgotten: it may have carried out by itself one whose
 * moment has come. All key locks are held, so that no change is between the two. */
static int order_flush(struct tree_store *store, uint64_t when_ns)
{
    int error = tarn_depot_flush_all(store->depot, when_ns);
    if (depot_gone_sequence(store->depot) != store->gone_sequence)
        forget_all(store);
    atomic_store(&store->flush_when_ns, depot_flush_when(store->depot));
    return error;
}

/* Carry out the order that has come, if there is one, and then another. @param when_ns  NULL: there is no other */
static int flush_records(struct tree_store *store, const uint64_t *when_ns)
{
    for (uint32_t i = 0; i < KEY_LOCKS; i++)
        task_mutex_lock_firmly(&store->key_locks[i]);
    const uint64_t pending_ns = atomic_load(&store->flush_when_ns);
    if (pending_ns != 0 && pending_ns <= task_wall(store->node) && order_flush(store, pending_ns) != 0) {
        forget_all(store); /* it is durable that this was ordered: the next opening carries it out */
        atomic_store(&store->flush_when_ns, 0);
    }
    int error = when_ns == NULL ? 0 : order_flush(store, *when_ns);
    for (uint32_t i = 0; i < KEY_LOCKS; i++)
        task_mutex_unlock(&store->key_locks[i]);
    return error;
}

int tree_store_flush(struct tree_store *store, uint64_t when_ns)
{
    return flush_records(store, &when_ns);
}

void tree_store_flush_if_due(struct tree_store *store)
{
    const uint64_t when_ns = atomic_load_explicit(&store->flush_when_ns, memory_order_acquire);
    if (base_unlikely(when_ns != 0) && task_wall(store->node) >= when_ns)
        (void)flush_records(store, NULL);
}

/* ---- opening -------------------------------------------------------------------------------------- */

struct loading {
    struct tree_store *store;
    const struct depot_opening *opening;
    uint64_t done, all;
};

/* Read a value that a scan does not show whole. */
static int read_long(struct tree_store *store, struct tree_key key, const struct tarn_record_info *info,
                     struct tree_record *record)
{
    uint64_t at = 0;
    int error = 0;
    while (error == 0 && at < info->value_bytes) {
        size_t got;
        error = tarn_depot_read(store->depot, key.bytes, key.count, info->version, at, record->value + at,
                                info->value_bytes - at, &got, NULL);
        at += error == 0 ? got : 0;
    }
    return error;
}

static int load_record(void *arg, const void *key_bytes, size_t key_len, const void *value,
                       const struct tarn_record_info *info)
{
    struct loading *loading = arg;
    struct tree_store *store = loading->store;
    const struct tree_key key = {.bytes = key_bytes, .count = (uint32_t)key_len};
    struct tree_value before;
    struct tree_record *record;
    if (key_len > TREE_KEY_MAX)
        return -EMSGSIZE;
    int error = tree_store_take_record(store, info->value_bytes, &record);
    if (error != 0)
        return error;
    record->version = info->version;
    record->expiry_ns = info->expiry_ns;
    record->client_flags = info->client_flags;
    record->note = info->note;
    if (value == NULL)
        error = read_long(store, key, info, record);
    else if (info->value_bytes > 0)
        memcpy(record->value, value, info->value_bytes);
    if (error == 0)
        error = tree_store_put_key(store, key, tree_store_seal(store, record, record, info->value_bytes),
                                   &before);
    loading->done++;
    if (loading->opening != NULL && loading->opening->progress != NULL && loading->done % 1024 == 0)
        loading->opening->progress(loading->opening->progress_arg, "ordering records", "records",
                                   loading->done, base_max(loading->done, loading->all));
    return error;
}

/* Have in memory what the depot has. */
static int load(struct tree_store *store, const struct depot_opening *opening)
{
    struct loading loading = {.store = store, .opening = opening};
    struct tarn_depot_stats stats;
    tarn_depot_stats(store->depot, &stats);
    loading.all = stats.records;
    struct tarn_depot_snapshot *snapshot; /* it is scanned in the order of the drive */
    int error = tarn_depot_snapshot_open(store->depot, 0, &snapshot);
    if (error == 0) {
        error = tarn_depot_snapshot_scan(snapshot, load_record, &loading);
        tarn_depot_snapshot_close(snapshot);
    }
    const bool has_begun = loading.done > 0; /* else what lacks memory may be the snapshot, or its scan */
    return (error == -ENOMEM && !has_begun) || error == -ECANCELED
               ? tarn_depot_scan(store->depot, load_record, &loading)
               : error;
}

/* Say why a store cannot be opened. @return error */
static int refuse_store(const struct tree_store *store, const char *path, int error)
{
    const char *remedy = "its records need more memory: say memory=SIZE, or give the process more";
    if (error == -EBADMSG || error == -EIO)
        remedy = "records are damaged: look with tarn check, and mend it with tarn check --repair";
    else if (error == -EMSGSIZE)
        remedy = "it has a key of more than 1,024 bytes: serve it as a depot";
    else if (error == -EINVAL)
        remedy = "it is a cache, which evicts records: an ordered store keeps all";
    base_error(&store->node->log, "cannot open an ordered store",
               "path=%s memory=%" PRIu64 " reason=\"%s\" remedy=\"%s\"", path, store->memory_bytes,
               strerror(-error), remedy);
    return error;
}

/* Addresses of which only what is used is charged, and huge pages where there are any. */
static uint8_t *map_addresses(struct base_account *account, uint64_t bytes)
{
    uint8_t *memory = base_map_part(account, STEP_BYTES, bytes, STEP_BYTES);
    if (memory != NULL)
        (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

static int map_memory(struct tree_store *store)
{
    struct base_account *account = &store->node->memory;
    store->nodes.memory = map_addresses(account, store->room_bytes);
    store->nodes.bytes = store->room_bytes;
    store->node_bytes = store->nodes.memory == NULL ? 0 : STEP_BYTES;
    store->extent_memory = map_addresses(account, store->room_bytes);
    store->extent_bytes = store->extent_memory == NULL ? 0 : STEP_BYTES;
    if (store->nodes.memory == NULL || store->extent_memory == NULL)
        return -ENOMEM;
    const struct tree_mega_options options = {.account = account,
                                              .memory = &store->nodes,
                                              .extents = store->extent_memory,
                                              .region = NODE_REGION,
                                              .bytes = STEP_BYTES};
    int error = tree_extents_open(account, store->extent_memory, store->room_bytes, &store->extents);
    return error != 0 ? error : tree_mega_open(&options, &store->mega);
}

static void free_store(struct tree_store *store)
{
    struct base_account *account = &store->node->memory;
    if (store->mega != NULL)
        tree_mega_close(store->mega);
    tree_extents_close(store->extents);
    base_unmap_part(account, store->nodes.memory, store->room_bytes, store->node_bytes);
    base_unmap_part(account, store->extent_memory, store->room_bytes, store->extent_bytes);
    (void)pthread_rwlock_destroy(&store->lock);
    base_free(account, store, sizeof(*store));
}

static void init_lock(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attributes;
    int error = pthread_rwlockattr_init(&attributes);
    if (error == 0) /* readers let writers go first, and never take it twice */
        error = pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    if (error == 0)
        error = pthread_rwlock_init(lock, &attributes);
    base_assert(error == 0);
    (void)pthread_rwlockattr_destroy(&attributes);
}

static struct tree_store *make_store(struct tarn_node *node, uint64_t memory_bytes)
{
    struct tree_store *store = base_alloc(&node->memory, sizeof(*store));
    if (store == NULL)
        return NULL;
    store->node = node;
    store->memory_bytes = memory_bytes == 0 ? base_account_left(&node->memory) : memory_bytes;
    store->memory_bytes = base_min(base_max(store->memory_bytes, TREE_STORE_BYTES_MIN), ROOM_MAX);
    store->room_bytes = base_align_up(store->memory_bytes, STEP_BYTES);
    init_lock(&store->lock);
    for (uint32_t i = 0; i < KEY_LOCKS; i++)
        task_mutex_init(&store->key_locks[i]);
    return store;
}

int tree_store_open(struct tarn_node *node, const char *path, const struct tree_store_options *options,
                    struct tree_store **ret_store)
{
    struct tree_store *store = make_store(node, options->memory_bytes);
    struct tarn_depot_options depot = {0};
    if (store == NULL)
        return -ENOMEM;
    if (options->depot != NULL)
        depot = *options->depot;
    depot.hot_bytes = TARN_HOT_OFF; /* all records are in memory here */
    depot.serve_damaged = false;    /* of a key that is missing nobody could tell that it may be lost */
    int error = map_memory(store);  /* before a file is made */
    if (error != 0)
        (void)refuse_store(store, path, error);
    else
        error = depot_open(node, path, &depot, options->opening, &store->depot);
    if (error != 0) {
        free_store(store);
        return error;
    }
    atomic_store(&store->flush_when_ns, depot_flush_when(store->depot));
    store->gone_sequence = depot_gone_sequence(store->depot);
    error = depot_is_cache(store->depot) ? -EINVAL : load(store, options->opening);
    if (error != 0) {
        (void)refuse_store(store, path, error);
        (void)tree_store_close(store);
        return error;
    }
    *ret_store = store;
    return 0;
}

int tree_store_close(struct tree_store *store)
{
    int error = tarn_depot_close(store->depot);
    free_store(store);
    return error;
}

/* ---- what it tells -------------------------------------------------------------------------------- */

uint64_t tree_store_value_bytes_max(const struct tree_store *store)
{
    return tarn_depot_value_bytes_max(store->depot);
}

uint64_t tree_store_whole_bytes_max(const struct tree_store *store)
{
    return tarn_depot_whole_bytes_max(store->depot);
}

void tree_store_stats(struct tree_store *store, struct tree_store_stats *ret_stats)
{
    struct tree_mega_stats mega;
    tree_store_lock_shared(store);
    tree_mega_stats(store->mega, &mega);
    *ret_stats = (struct tree_store_stats){.records = mega.keys,
                                           .record_bytes = tree_extents_used(store->extents),
                                           .node_bytes = mega.units_used * (uint64_t)TREE_NODE_BYTES,
                                           .memory_bytes = store->memory_bytes};
    tree_store_unlock(store);
    ret_stats->expired = atomic_load_explicit(&store->expired, memory_order_relaxed);
    ret_stats->reclaimed = atomic_load_explicit(&store->reclaimed, memory_order_relaxed);
}

static int check_record(void *arg, struct tree_key key, struct tree_value value)
{
    const struct tree_store *store = arg;
    const struct tree_record *record = tree_record_at(store, value.place);
    (void)key;
    return record->version == 0 || tree_store_seal(store, record, record, value.bytes).sum == value.sum
               ? 0
               : -EUCLEAN;
}

int tree_store_check(struct tree_store *store, const char **ret_why)
{
    tree_store_lock_shared(store);
    int error = tree_mega_check(store->mega, ret_why);
    if (error == 0)
        error = tree_extents_check(store->extents, ret_why);
    if (error == 0) {
        error = tree_mega_range(store->mega, NULL, NULL, check_record, store);
        if (error != 0)
            *ret_why = "a record is damaged";
    }
    tree_store_unlock(store);
    return error;
}
