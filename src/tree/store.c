/* An ordered store of one process: opening, memory, flushing, and what it tells. */
#include "base/checksum.h"
#include "depot/depot.h"
#include "tree/store_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#define ROOM_MAX (UINT64_C(64) << 30) /* of nodes and records */

/* ---- memory --------------------------------------------------------------------------------------- */

int tree_store_make_record(struct tree_store *store, const struct tree_key *new_key, uint32_t value_bytes,
                           struct tree_record **ret_record, struct tree_memory **ret_full)
{
    static const struct tree_record none = {.version = 0};
    const uint64_t offset = tree_extents_take(store->extents, sizeof(none) + (uint64_t)value_bytes);
    *ret_full = &store->record_memory;
    if (offset == 0)
        return -ENOSPC;
    struct tree_record *record = (struct tree_record *)(void *)(store->record_memory.memory + offset);
    tree_memory_write(&store->record_memory, offset, &none, sizeof(none));
    const struct tree_value value = {.place = tree_record_place(store, record), .bytes = value_bytes};
    struct tree_value before;
    *ret_full = &store->node_memory;
    int error = new_key == NULL ? 0 : tree_mega_put(store->mega, *new_key, value, &before);
    if (error == 0)
        *ret_record = record;
    else
        tree_extents_give(store->extents, offset);
    return error;
}

int tree_store_take_memory(struct tree_store *store, struct tree_memory *memory, uint64_t full_bytes)
{
    int error = 0;
    task_mutex_lock_firmly(&store->taking);
    if (memory->bytes == full_bytes) {
        const uint64_t bytes = store->node_memory.bytes + store->record_memory.bytes + memory->step_bytes;
        error = bytes > store->memory_bytes ? -ENOSPC : tree_memory_prepare(memory);
        tree_store_lock(store);
        memory->bytes += error == 0 ? memory->step_bytes : 0;
        tree_mega_grow(store->mega);
        tree_store_unlock(store);
    }
    task_mutex_unlock(&store->taking);
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

/* See that nobody changes anything. */
static void lock_all_keys(struct tree_store *store)
{
    for (uint32_t i = 0; i < KEY_LOCKS; i++)
        task_mutex_lock_firmly(&store->key_locks[i]);
}

static void unlock_all_keys(struct tree_store *store)
{
    for (uint32_t i = 0; i < KEY_LOCKS; i++)
        task_mutex_unlock(&store->key_locks[i]);
}

/* Carry out the order that has come, if there is one, and then another. @param when_ns  NULL: there is no other */
static int flush_records(struct tree_store *store, const uint64_t *when_ns)
{
    lock_all_keys(store);
    const uint64_t pending_ns = atomic_load(&store->flush_when_ns);
    if (pending_ns != 0 && pending_ns <= task_wall(store->node) && order_flush(store, pending_ns) != 0) {
        forget_all(store); /* it is durable that this was ordered: the next opening carries it out */
        atomic_store(&store->flush_when_ns, 0);
    }
    const bool comes_later = when_ns != NULL && *when_ns > task_wall(store->node);
    int error = when_ns == NULL                                     ? 0
                : comes_later && store->node_memory.regions != NULL ? -EOPNOTSUPP
                                                                    : order_flush(store, *when_ns);
    unlock_all_keys(store);
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

/* ---- sharing -------------------------------------------------------------------------------------- */

int tree_store_share(struct tree_store *store, struct tarn_fabric_domain *domain)
{
    lock_all_keys(store);
    int error = atomic_load(&store->flush_when_ns) != 0 ? -EBUSY : 0;
    if (error == 0)
        error = tree_memory_share(&store->node_memory, domain);
    if (error == 0) {
        error = tree_memory_share(&store->record_memory, domain);
        if (error != 0)
            tree_memory_unshare(&store->node_memory, domain);
    }
    unlock_all_keys(store);
    return error;
}

void tree_store_unshare(struct tree_store *store, const struct tarn_fabric_domain *domain)
{
    lock_all_keys(store);
    tree_memory_unshare(&store->node_memory, domain);
    tree_memory_unshare(&store->record_memory, domain);
    unlock_all_keys(store);
}

uint32_t tree_store_handles(struct tree_store *store, const struct tarn_fabric_domain *domain,
                            uint32_t region, uint32_t first, struct tarn_fabric_handle *ret_handles,
                            uint32_t room)
{
    const struct tree_memory *memory =
        region == TREE_NODE_REGION ? &store->node_memory : &store->record_memory;
    uint32_t count = 0;
    tree_store_lock_shared(store); /* no step is taken meanwhile */
    const struct tree_share *share = tree_memory_share_of(memory, domain);
    const uint64_t steps = memory->bytes / memory->step_bytes;
    while (share != NULL && count < room && first + (uint64_t)count < steps) {
        ret_handles[count] = share->regions[first + count]->handle;
        count++;
    }
    tree_store_unlock(store);
    return count;
}

uint64_t tree_store_step_bytes(const struct tree_store *store)
{
    return store->node_memory.step_bytes;
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

/* Have a record, and its key's entry. Nobody else is there. */
static int load_value(struct tree_store *store, struct tree_key key, const void *value,
                      const struct tarn_record_info *info)
{
    struct tree_record *record = NULL;
    struct tree_memory *full;
    struct tree_value before;
    int error;
    while ((error = tree_store_make_record(store, NULL, info->value_bytes, &record, &full)) == -ENOSPC) {
        error = tree_store_take_memory(store, full, full->bytes);
        if (error != 0)
            return error;
    }
    record->version = info->version;
    record->expiry_ns = info->expiry_ns;
    record->client_flags = info->client_flags;
    record->note = info->note;
    if (value == NULL)
        error = read_long(store, key, info, record);
    else if (info->value_bytes > 0)
        memcpy(record->value, value, info->value_bytes);
    if (error != 0)
        return error;
    const struct tree_value sealed = tree_store_seal(store, record, record, info->value_bytes);
    while ((error = tree_mega_put(store->mega, key, sealed, &before)) == -ENOSPC) {
        error = tree_store_take_memory(store, &store->node_memory, store->node_memory.bytes);
        if (error != 0)
            return error;
    }
    return error;
}

static int load_record(void *arg, const void *key_bytes, size_t key_len, const void *value,
                       const struct tarn_record_info *info)
{
    struct loading *loading = arg;
    const struct tree_key key = {.bytes = key_bytes, .count = (uint32_t)key_len};
    if (key_len > TREE_KEY_MAX)
        return -EMSGSIZE;
    int error = load_value(loading->store, key, value, info);
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

static int open_memory(struct tree_store *store)
{
    struct base_account *account = &store->node->memory;
    const uint64_t step = tree_memory_step(store->memory_bytes);
    const uint64_t room = store->memory_bytes = base_align_down(store->memory_bytes, step);
    int error = tree_memory_open(account, room, step, &store->node_memory);
    if (error == 0)
        error = tree_memory_open(account, room, step, &store->record_memory);
    if (error == 0)
        error = tree_extents_open(account, &store->record_memory, &store->extents);
    const struct tree_mega_options options = {.account = account,
                                              .memory = &store->node_memory,
                                              .extents = store->record_memory.memory,
                                              .region = TREE_NODE_REGION};
    return error != 0 ? error : tree_mega_open(&options, &store->mega);
}

static void free_store(struct tree_store *store)
{
    struct base_account *account = &store->node->memory;
    if (store->mega != NULL)
        tree_mega_close(store->mega);
    tree_extents_close(store->extents);
    tree_memory_close(&store->node_memory);
    tree_memory_close(&store->record_memory);
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
    init_lock(&store->lock);
    task_mutex_init(&store->taking);
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
    int error = open_memory(store); /* before a file is made */
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
