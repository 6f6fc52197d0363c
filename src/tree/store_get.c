/* An ordered store of one process: getting records, and going through ranges of them. */
#include "tree/store_internal.h"
#include <errno.h>
#include <string.h>

#define GROUP       64u                  /* gets that are done while the lock is held once */
#define BATCH_BYTES (UINT64_C(64) << 10) /* of a range, copied while the lock is held once */
#define ROW_BYTES   UINT64_C(2048)       /* of it, for each record that is wanted, where these are few */

/* ---- getting -------------------------------------------------------------------------------------- */

/* The record of a value, if it can be seen. @return NULL: it cannot */
static const struct tree_record *see(struct tree_store *store, struct tree_value value)
{
    const struct tree_record *record = value.place == 0 ? NULL : tree_record_at(store, value.place);
    if (record == NULL || tree_record_is_visible(record, tree_record_now(store, record)))
        return record;
    if (record->version != 0)
        atomic_fetch_add_explicit(&store->expired, 1, memory_order_relaxed);
    return NULL;
}

/* Find a key that can be seen, with the lock held. @return NULL: there is none */
static const struct tree_record *find_record(struct tree_store *store, struct tree_key key,
                                             struct tree_value *ret_value)
{
    if (key.count == 0 || key.count > TREE_KEY_MAX || tree_mega_get(store->mega, key, ret_value) != 0)
        return NULL;
    return see(store, *ret_value);
}

/* Copy a value. @return 0; -ENOBUFS */
static int copy_value(const struct tree_record *record, uint32_t bytes, void *value, size_t room)
{
    if (bytes > room)
        return -ENOBUFS;
    if (bytes > 0)
        memcpy(value, record->value, bytes);
    return 0;
}

int tree_store_get(struct tree_store *store, struct tree_key key, void *value, size_t value_room,
                   struct tarn_record_info *ret_info)
{
    struct tree_value found;
    tree_store_flush_if_due(store);
    tree_store_lock_shared(store);
    const struct tree_record *record = find_record(store, key, &found);
    int error = -ENOENT;
    if (record != NULL) {
        *ret_info = tree_record_info(record, found.bytes);
        error = copy_value(record, found.bytes, value, value_room);
    }
    tree_store_unlock(store);
    return error;
}

/* @return whether it is a key; if not, the get has its error */
static bool check_get(struct tarn_get *get)
{
    get->error = get->key_len == 0 || get->key_len > TARN_KEY_BYTES_MAX ? -EINVAL
                 : get->key_len > TREE_KEY_MAX                          ? -ENOENT
                                                                        : 0;
    return get->error == 0;
}

static void get_group(struct tree_store *store, struct tarn_get *gets, size_t count)
{
    struct tree_key keys[GROUP];
    struct tree_value values[GROUP];
    uint32_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        if (check_get(&gets[i]))
            keys[taken++] = (struct tree_key){.bytes = gets[i].key, .count = (uint32_t)gets[i].key_len};
    }
    tree_store_lock_shared(store);
    tree_mega_get_many(store->mega, keys, taken, values);
    for (uint32_t i = 0; i < taken; i++)
        __builtin_prefetch(values[i].place == 0 ? NULL : tree_record_at(store, values[i].place));
    taken = 0;
    for (size_t i = 0; i < count; i++) {
        if (gets[i].error != 0)
            continue;
        const struct tree_value found = values[taken++];
        const struct tree_record *record = see(store, found);
        if (record == NULL) {
            gets[i].error = -ENOENT;
            continue;
        }
        gets[i].info = tree_record_info(record, found.bytes);
        gets[i].error = copy_value(record, found.bytes, gets[i].value, gets[i].value_room);
    }
    tree_store_unlock(store);
}

void tree_store_get_many(struct tree_store *store, struct tarn_get *gets, size_t count)
{
    tree_store_flush_if_due(store);
    for (size_t done = 0; done < count; done += GROUP)
        get_group(store, gets + done, base_min(count - done, (size_t)GROUP));
}

int tree_store_read(struct tree_store *store, struct tree_key key, uint64_t if_version, uint64_t offset,
                    void *data, size_t data_room, size_t *ret_bytes, struct tarn_record_info *ret_info)
{
    struct tree_value found;
    tree_store_flush_if_due(store);
    tree_store_lock_shared(store);
    const struct tree_record *record = find_record(store, key, &found);
    int error = record == NULL ? -ENOENT : if_version != 0 && record->version != if_version ? -ESTALE : 0;
    if (error == 0) {
        *ret_bytes = base_min(found.bytes - base_min(offset, (uint64_t)found.bytes), (uint64_t)data_room);
        if (*ret_bytes > 0)
            memcpy(data, record->value + offset, *ret_bytes);
        *ret_info = tree_record_info(record, found.bytes);
    }
    tree_store_unlock(store);
    return error;
}

size_t tree_store_show(struct tree_store *store, struct tarn_get *gets, size_t count,
                       tree_show_function *show, void *arg)
{
    size_t shown = 0;
    bool taken = true;
    tree_store_flush_if_due(store);
    for (; shown < count && taken; shown += taken) {
        struct tarn_get *get = &gets[shown];
        const struct tree_record *record = NULL;
        struct tree_value found;
        const bool is_key = check_get(get);
        tree_store_lock_shared(store);
        if (is_key) {
            record = find_record(store, (struct tree_key){.bytes = get->key, .count = (uint32_t)get->key_len},
                                 &found);
            get->error = record == NULL ? -ENOENT : 0;
        }
        if (record != NULL)
            get->info = tree_record_info(record, found.bytes);
        taken = show(arg, get, record == NULL ? NULL : record->value);
        tree_store_unlock(store);
    }
    return shown;
}

/* ---- ranges --------------------------------------------------------------------------------------- */

/* A record of a batch. Key and value follow. */
struct row {
    struct tarn_record_info info;
    uint32_t key_bytes;
    bool has_value;
    uint8_t bytes[];
};

/* Records of a range, copied while the lock is held. */
struct batch {
    struct tree_store *store;
    uint64_t now_ns;
    uint8_t *memory;
    uint64_t room, used;
    uint64_t needed; /* bytes of a record for which there is no room even alone; 0: there is none */
    uint64_t left;   /* records that are still wanted */
    const struct tree_key *met; /* the last one of the batch before; NULL: there was none */
};

static int copy_row(void *arg, struct tree_key key, struct tree_value value)
{
    struct batch *batch = arg;
    const struct tree_record *record = tree_record_at(batch->store, value.place);
    if (!tree_record_is_visible(record, batch->now_ns) ||
        (batch->met != NULL && tree_key_compare(*batch->met, key) == 0))
        return 0;
    const bool is_whole = value.bytes <= tree_store_whole_bytes_max(batch->store);
    const uint64_t bytes =
        base_align_up(sizeof(struct row) + key.count + (is_whole ? value.bytes : 0), _Alignof(struct row));
    if (batch->left == 0 || bytes > batch->room - batch->used) {
        batch->needed = batch->left > 0 && batch->used == 0 ? bytes : 0;
        return 1;
    }
    struct row *row = (struct row *)(void *)(batch->memory + batch->used);
    *row = (struct row){
        .info = tree_record_info(record, value.bytes), .key_bytes = key.count, .has_value = is_whole};
    memcpy(row->bytes, key.bytes, key.count);
    if (is_whole && value.bytes > 0)
        memcpy(row->bytes + key.count, record->value, value.bytes);
    batch->used += bytes;
    batch->left--;
    return 0;
}

/* Have memory for a batch. @return 0; -ENOMEM */
static int make_batch_room(struct batch *batch, uint64_t bytes)
{
    struct base_account *account = &batch->store->node->memory;
    base_free(account, batch->memory, batch->room);
    batch->room = bytes;
    batch->memory = base_alloc(account, bytes);
    if (batch->memory == NULL)
        batch->room = 0;
    return batch->memory == NULL ? -ENOMEM : 0;
}

static uint64_t row_bytes(const struct row *row)
{
    return base_align_up(sizeof(*row) + row->key_bytes + (row->has_value ? row->info.value_bytes : 0),
                         _Alignof(struct row));
}

/* Show the rows of a batch. @param ret_last  the key of the last one */
static int show_rows(const struct batch *batch, tarn_scan_function *visit, void *arg,
                     struct tree_key *ret_last)
{
    int outcome = 0;
    for (uint64_t at = 0; at < batch->used && outcome == 0;) {
        const struct row *row = (const struct row *)(const void *)(batch->memory + at);
        *ret_last = (struct tree_key){.bytes = row->bytes, .count = row->key_bytes};
        outcome = visit(arg, row->bytes, row->key_bytes, row->has_value ? row->bytes + row->key_bytes : NULL,
                        &row->info);
        at += row_bytes(row);
    }
    return outcome;
}

/* @return whether the end of the range was met */
static bool fill_batch(struct tree_store *store, const struct tree_store_range *range, struct batch *batch)
{
    const struct tree_key *from = range->from, *below = range->below;
    if (batch->met != NULL && range->reverse)
        below = batch->met;
    else if (batch->met != NULL)
        from = batch->met;
    batch->used = batch->needed = 0;
    batch->now_ns = task_wall(store->node);
    tree_store_lock_shared(store);
    const int outcome = range->reverse ? tree_mega_range_down(store->mega, from, below, copy_row, batch)
                                       : tree_mega_range(store->mega, from, below, copy_row, batch);
    tree_store_unlock(store);
    return outcome == 0;
}

static bool is_key_or_none(const struct tree_key *key)
{
    return key == NULL || key->count <= TREE_KEY_MAX;
}

int tree_store_range(struct tree_store *store, const struct tree_store_range *range,
                     tarn_scan_function *visit, void *arg)
{
    uint8_t key[TREE_KEY_MAX];
    struct tree_key last = {.bytes = key};
    struct batch batch = {.store = store, .left = range->limit == 0 ? UINT64_MAX : range->limit};
    bool is_end = false;
    tree_store_flush_if_due(store);
    if (!is_key_or_none(range->from) || !is_key_or_none(range->below))
        return -EINVAL;
    if (range->from != NULL && range->below != NULL && tree_key_compare(*range->from, *range->below) >= 0)
        return 0;
    int outcome = make_batch_room(&batch, base_min(batch.left, BATCH_BYTES / ROW_BYTES) * ROW_BYTES);
    while (outcome == 0 && !is_end) {
        is_end = fill_batch(store, range, &batch) || batch.left == 0;
        if (batch.used > 0) {
            outcome = show_rows(&batch, visit, arg, &last);
            memcpy(key, last.bytes, last.count);
            last.bytes = key;
            batch.met = &last;
        } else if (batch.needed > 0) {
            outcome = make_batch_room(&batch, batch.needed);
        }
        if (!is_end)
            task_yield();
    }
    base_free(&store->node->memory, batch.memory, batch.room);
    return outcome;
}
