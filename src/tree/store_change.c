/* An ordered store of one process: changing records, and removing those that have expired. */
#include "seglog/seglog_format.h"
#include "tree/store_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define SWEEP_EVERY     16u /* new keys, before some records are looked at */
#define SWEEP_RECORDS   64u /* that are looked at then */
#define SWEEPS_FOR_ROOM 64u /* so often, where there is no room */

/* ---- records that have expired -------------------------------------------------------------------- */

/* Looking for records that have expired, with the lock held. */
struct sweep {
    struct tree_store *store;
    uint64_t now_ns;
    uint32_t left; /* records that are still to be looked at */
    bool has_met;  /* one that has expired: it is where the sweep goes on */
};

static int look_at(void *arg, struct tree_key key, struct tree_value value)
{
    struct sweep *sweep = arg;
    struct tree_store *store = sweep->store;
    const struct tree_record *record = tree_record_at(store, value.place);
    memcpy(store->sweep_key, key.bytes, key.count);
    store->sweep_count = key.count;
    if (sweep->left == 0)
        return 1;
    sweep->left--;
    sweep->has_met = record->version != 0 && tree_record_has_expired(record, sweep->now_ns);
    return sweep->has_met;
}

/* Remove the record where the sweep goes on, unless somebody changes it just now. The depot removes its own. */
static void remove_expired(struct tree_store *store, struct tree_key key)
{
    struct tree_value value;
    struct task_mutex *mutex = tree_store_key_lock(store, key);
    if (!task_mutex_lock_try(mutex))
        return;
    const int error = tree_mega_delete(store->mega, key, &value);
    base_assert(error == 0);
    tree_store_give_extent(store, value.place);
    atomic_fetch_add_explicit(&store->reclaimed, 1, memory_order_relaxed);
    task_mutex_unlock(mutex);
}

/* Look at some records, and remove those that have expired. @return whether the end was met */
static bool sweep_some(struct tree_store *store)
{
    struct sweep sweep = {.store = store, .now_ns = task_wall(store->node), .left = SWEEP_RECORDS};
    uint8_t buffer[TREE_KEY_MAX];
    int outcome;
    tree_store_lock(store);
    do {
        const struct tree_key from = {.bytes = buffer, .count = store->sweep_count};
        memcpy(buffer, store->sweep_key, store->sweep_count);
        sweep.has_met = false;
        outcome = tree_mega_range(store->mega, from.count == 0 ? NULL : &from, NULL, look_at, &sweep);
        if (sweep.has_met)
            remove_expired(store, (struct tree_key){.bytes = store->sweep_key, .count = store->sweep_count});
    } while (sweep.has_met && sweep.left > 0);
    if (outcome == 0)
        store->sweep_count = 0;
    tree_store_unlock(store);
    return outcome == 0;
}

/* There is no room: see whether something has expired. What is left is looked at next time. */
static void sweep_for_room(struct tree_store *store)
{
    for (uint32_t i = 0; i < SWEEPS_FOR_ROOM && !sweep_some(store); i++)
        continue;
}

/* ---- changing ------------------------------------------------------------------------------------- */

/* An expiry as the depot has it, so that it is the same after the next opening. */
static uint64_t expiry_as_kept(uint64_t expiry_ns)
{
    return seglog_expiry_pack(expiry_ns) * SEGLOG_EXPIRY_UNIT_NS;
}

void tree_change_begin(struct tree_store *store, struct tree_key key, struct tree_change *ret_change)
{
    struct tree_value value;
    *ret_change = (struct tree_change){.key = key, .is_new = true};
    tree_store_lock_shared(store);
    if (tree_mega_get(store->mega, key, &value) == 0) {
        const struct tree_record *record = tree_record_at(store, value.place);
        ret_change->is_new = false;
        ret_change->place = value.place;
        ret_change->old_bytes = value.bytes;
        ret_change->old = tree_record_is_visible(record, tree_record_now(store, record)) ? record : NULL;
    }
    tree_store_unlock(store);
}

/* Begin to change a key: take its lock, and look what is there, which nobody else changes or frees until it is given back. */
static struct task_mutex *begin_change(struct tree_store *store, struct tree_key key,
                                       struct tree_change *ret_change)
{
    struct task_mutex *mutex = tree_store_key_lock(store, key);
    tree_store_flush_if_due(store);
    task_mutex_lock_firmly(mutex);
    tree_change_begin(store, key, ret_change);
    return mutex;
}

/* Have room for a record, and an entry of its key, which nobody sees yet. @return 0; -ENOSPC, -ENOMEM: nothing was changed */
static int make_room(struct tree_store *store, const struct tree_change *change, uint32_t bytes,
                     struct tree_record **ret_record)
{
    int error = 0;
    while (error == 0) {
        struct tree_memory *full;
        tree_store_lock(store);
        error = tree_store_make_record(store, change->is_new ? &change->key : NULL, bytes, ret_record, &full);
        const uint64_t full_bytes = full->bytes;
        tree_store_unlock(store);
        if (error != -ENOSPC)
            return error;
        error = tree_store_take_memory(store, full, full_bytes);
    }
    return error;
}

void tree_change_end(struct tree_store *store, const struct tree_change *change, struct tree_record *record,
                     uint32_t bytes, uint64_t version)
{
    struct tree_record header = *record;
    struct tree_value before = {.place = tree_record_place(store, record)};
    header.version = version;
    const struct tree_value value = tree_store_seal(store, record, &header, bytes);
    int error = 0;
    tree_memory_store64(&store->record_memory, tree_record_offset(store, &record->version), version);
    if (version != 0)
        error = tree_mega_put(store->mega, change->key, value, &before);
    else if (change->is_new)
        error = tree_mega_delete(store->mega, change->key, &before);
    base_assert(error == 0); /* neither needs room */
    if (version == 0 || !change->is_new)
        tree_store_give_extent(store, before.place);
}

void tree_change_remove(struct tree_store *store, const struct tree_change *change)
{
    struct tree_value value;
    const int error = tree_mega_delete(store->mega, change->key, &value);
    base_assert(error == 0);
    tree_store_give_extent(store, value.place);
}

/* Say that there is no room, as seldom as the log says such things. @return error */
static int refuse_record(struct tree_store *store, int error)
{
    base_error_limited(&store->node->log, &store->full_limit, "an ordered store has no room for a record",
                       "memory=%" PRIu64 " remedy=\"give it more memory, or remove records\"",
                       store->memory_bytes);
    return error;
}

int tree_change_prepare(struct tree_store *store, const struct tree_change *change,
                        const struct tarn_update *update, struct tree_record **ret_record)
{
    struct tree_record *record;
    const uint32_t bytes = (uint32_t)update->value_len;
    if (update->value_len > tree_store_value_bytes_max(store))
        return -EMSGSIZE;
    int error = make_room(store, change, bytes, &record);
    if (error != 0) {
        sweep_for_room(store);
        error = make_room(store, change, bytes, &record);
    }
    if (error != 0)
        return refuse_record(store, error);
    const struct tree_record header = {.expiry_ns = expiry_as_kept(update->expiry_ns),
                                       .client_flags = update->client_flags,
                                       .note = update->note};
    tree_memory_write(&store->record_memory, tree_record_offset(store, &record->expiry_ns), &header.expiry_ns,
                      sizeof(header) - offsetof(struct tree_record, expiry_ns));
    tree_memory_write(&store->record_memory, tree_record_offset(store, record->value), update->value, bytes);
    *ret_record = record;
    return 0;
}

/* Store a value in place of what is there. @return as tarn_depot_put(); -ENOMEM */
static int write_record(struct tree_store *store, const struct tree_change *change,
                        const struct tarn_update *update, uint64_t *ret_version)
{
    struct tree_record *record;
    const uint32_t bytes = (uint32_t)update->value_len;
    const struct tarn_put_options options = {.expiry_ns = update->expiry_ns,
                                             .version = update->version,
                                             .client_flags = update->client_flags,
                                             .note = update->note};
    uint64_t version = 0;
    int error = tree_change_prepare(store, change, update, &record);
    if (error != 0)
        return error;
    error = tarn_depot_put(store->depot, change->key.bytes, change->key.count, record->value, bytes, &options,
                           &version);
    tree_store_lock(store);
    tree_change_end(store, change, record, bytes, error == 0 ? version : 0);
    tree_store_unlock(store);
    if (error == 0 && ret_version != NULL)
        *ret_version = version;
    return error;
}

/* Remove the record that is there. */
static int remove_record(struct tree_store *store, const struct tree_change *change)
{
    int error = tarn_depot_delete(store->depot, change->key.bytes, change->key.count);
    if (error != 0 && error != -ENOENT) /* that it is not there means that it has expired meanwhile */
        return error;
    tree_store_lock(store);
    tree_change_remove(store, change);
    tree_store_unlock(store);
    return error;
}

void tree_store_sweep_sometimes(struct tree_store *store, const struct tree_change *change)
{
    if (change->is_new &&
        atomic_fetch_add_explicit(&store->new_keys, 1, memory_order_relaxed) % SWEEP_EVERY == 0)
        (void)sweep_some(store);
}

/* @return whether a put is to be done; 0: yes */
static int check_condition(const struct tree_change *change, const struct tarn_put_options *options)
{
    const struct tree_record *old = change->old;
    switch (options->condition) {
    case TARN_PUT_IF_ABSENT:
        return old == NULL ? 0 : -EEXIST;
    case TARN_PUT_IF_PRESENT:
        return old == NULL ? -ENOENT : 0;
    case TARN_PUT_IF_VERSION:
        return old == NULL ? -ENOENT : old->version == options->if_version ? 0 : -EEXIST;
    default:
        return 0;
    }
}

int tree_store_put(struct tree_store *store, struct tree_key key, const void *value, size_t value_len,
                   const struct tarn_put_options *options, uint64_t *ret_version)
{
    struct tree_change change;
    if (key.count > TREE_KEY_MAX)
        return -EMSGSIZE;
    const struct tarn_update update = {.value = value,
                                       .value_len = value_len,
                                       .expiry_ns = options->expiry_ns,
                                       .version = options->version,
                                       .client_flags = options->client_flags,
                                       .note = options->note};
    struct task_mutex *mutex = begin_change(store, key, &change);
    int error = check_condition(&change, options);
    if (error == 0)
        error = write_record(store, &change, &update, ret_version);
    task_mutex_unlock(mutex);
    if (error == 0)
        tree_store_sweep_sometimes(store, &change);
    return error;
}

int tree_store_delete(struct tree_store *store, struct tree_key key)
{
    struct tree_change change;
    if (key.count > TREE_KEY_MAX)
        return -ENOENT;
    struct task_mutex *mutex = begin_change(store, key, &change);
    int error = change.old == NULL ? -ENOENT : remove_record(store, &change);
    task_mutex_unlock(mutex);
    return error;
}

int tree_store_update(struct tree_store *store, struct tree_key key, tarn_update_function *decide, void *arg,
                      uint64_t *ret_version)
{
    struct tree_change change;
    if (key.count > TREE_KEY_MAX)
        return -EMSGSIZE;
    struct task_mutex *mutex = begin_change(store, key, &change);
    const struct tree_record *old = change.old;
    struct tarn_record_info info = {.version = 0};
    if (old != NULL)
        info = tree_record_info(old, change.old_bytes);
    struct tarn_update update = {
        .expiry_ns = info.expiry_ns, .client_flags = info.client_flags, .note = info.note};
    int error = decide(arg, old == NULL ? NULL : &info, old == NULL ? NULL : old->value, &update);
    if (error == 0 && update.keep) {
        error = old == NULL ? -EINVAL : 0;
        update.value = old == NULL ? NULL : old->value;
        update.value_len = info.value_bytes;
    }
    if (error == 0 && update.remove) {
        error = old == NULL ? 0 : remove_record(store, &change);
        error = error == -ENOENT ? 0 : error; /* it has expired meanwhile */
    } else if (error == 0) {
        error = update.note > TARN_NOTE_MAX ? -EINVAL : write_record(store, &change, &update, ret_version);
    }
    task_mutex_unlock(mutex);
    return error;
}

int tree_store_touch(struct tree_store *store, struct tree_key key, uint64_t expiry_ns)
{
    struct tree_change change;
    struct tree_value value;
    if (key.count > TREE_KEY_MAX)
        return -ENOENT;
    struct task_mutex *mutex = begin_change(store, key, &change);
    int error = change.old == NULL
                    ? -ENOENT
                    : tarn_depot_touch(store->depot, change.key.bytes, change.key.count, expiry_ns);
    if (error == 0) {
        struct tree_record *record = tree_record_at(store, change.place);
        struct tree_record header = *record;
        header.expiry_ns = expiry_as_kept(expiry_ns);
        value = tree_store_seal(store, record, &header, change.old_bytes);
        tree_store_lock(store);
        tree_memory_store64(&store->record_memory, tree_record_offset(store, &record->expiry_ns),
                            header.expiry_ns);
        error = tree_mega_put(store->mega, key, value, &value);
        base_assert(error == 0); /* the key is there */
        tree_store_unlock(store);
    }
    task_mutex_unlock(mutex);
    return error;
}
