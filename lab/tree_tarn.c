/* Tarn's tree, in memory alone. */
#include "lab/tree.h"

#include "base/checksum.h"
#include "tree/extents.h"
#include "tree/mega.h"
#include <errno.h>
#include <pthread.h>

enum { RECORD_BYTES = 192 }; /* of addresses, for a record in nodes and in extents, generously */

struct store {
    struct lab_ycsb_place *place;
    pthread_rwlock_t lock;
    struct tree_memory node_memory, extent_memory;
    struct tree_mega *mega;
    struct tree_extents *extents;
};

static int say_failure(const struct store *store, const char *what, int error)
{
    return lab_ycsb_say(store->place, error, "%s: %s", what, strerror(-error));
}

static int close_tree(void *arg)
{
    struct store *store = arg;
    if (store->mega != NULL)
        tree_mega_close(store->mega);
    tree_extents_close(store->extents);
    tree_memory_close(&store->node_memory);
    tree_memory_close(&store->extent_memory);
    (void)pthread_rwlock_destroy(&store->lock);
    return 0;
}

static int open_tree(struct lab_ycsb_place *place, bool sync, void *arg)
{
    struct store *store = arg;
    store->place = place;
    const uint64_t bytes =
        base_align_up(place->records_max * RECORD_BYTES + (UINT64_C(1) << 20), BASE_PAGE_BYTES);
    int error = sync ? -EINVAL : -pthread_rwlock_init(&store->lock, NULL);
    if (error == 0)
        error = tree_memory_open(place->account, bytes, bytes, &store->node_memory);
    if (error == 0)
        error = tree_memory_open(place->account, bytes, bytes, &store->extent_memory);
    if (error == 0)
        error = tree_extents_open(place->account, &store->extent_memory, &store->extents);
    const struct tree_mega_options options = {.account = place->account,
                                              .memory = &store->node_memory,
                                              .extents = store->extent_memory.memory,
                                              .region = TREE_NODE_REGION};
    if (error == 0)
        error = tree_mega_open(&options, &store->mega);
    if (error == 0)
        return 0;
    (void)close_tree(store);
    return say_failure(store, "open", error);
}

static const uint8_t *value_at(const struct store *store, uint64_t place)
{
    return store->extent_memory.memory + tree_place_offset(place);
}

static int get_record(void *session, const void *key, size_t key_bytes, void *value)
{
    struct store *store = session;
    struct tree_value found;
    (void)pthread_rwlock_rdlock(&store->lock);
    int error =
        tree_mega_get(store->mega, (struct tree_key){.bytes = key, .count = (uint32_t)key_bytes}, &found);
    if (error == 0 && found.bytes != store->place->value_bytes)
        error = -EBADMSG;
    if (error == 0)
        memcpy(value, value_at(store, found.place), found.bytes);
    (void)pthread_rwlock_unlock(&store->lock);
    return error;
}

static int put_record(void *session, const void *key, size_t key_bytes, const void *value)
{
    struct store *store = session;
    const uint32_t bytes = store->place->value_bytes;
    struct tree_value before = {.place = 0};
    int error = 0;
    (void)pthread_rwlock_wrlock(&store->lock);
    const uint64_t offset = tree_extents_take(store->extents, bytes);
    if (offset != 0) {
        const struct tree_value found = {
            .place = tree_place_of(offset), .sum = base_crc64(0, value, bytes), .bytes = bytes};
        memcpy(store->extent_memory.memory + offset, value, bytes);
        error = tree_mega_put(store->mega, (struct tree_key){.bytes = key, .count = (uint32_t)key_bytes},
                              found, &before);
    }
    const uint64_t unused = error == 0 ? tree_place_offset(before.place) : offset;
    if (unused != 0)
        tree_extents_give(store->extents, unused);
    (void)pthread_rwlock_unlock(&store->lock);
    if (offset == 0)
        error = -ENOSPC;
    return error == 0 ? 0 : say_failure(store, "put", error);
}

struct scan {
    const struct store *store;
    uint32_t left;
    lab_ycsb_show_function *show;
    void *arg;
};

static int show_record(void *arg, struct tree_key key, struct tree_value value)
{
    struct scan *scan = arg;
    scan->show(scan->arg, key.bytes, key.count, value_at(scan->store, value.place), value.bytes);
    return --scan->left == 0 ? 1 : 0;
}

static int scan_records(void *session, const void *key, size_t key_bytes, uint32_t count,
                        lab_ycsb_show_function *show, void *arg)
{
    struct store *store = session;
    const struct tree_key from = {.bytes = key, .count = (uint32_t)key_bytes};
    struct scan scan = {.store = store, .left = count, .show = show, .arg = arg};
    (void)pthread_rwlock_rdlock(&store->lock);
    int error = tree_mega_range(store->mega, &from, NULL, show_record, &scan);
    (void)pthread_rwlock_unlock(&store->lock);
    return error < 0 ? error : 0;
}

const struct lab_ycsb_engine lab_tree_tarn = {
    .name = "tarn",
    .store_bytes = sizeof(struct store),
    .open = open_tree,
    .close = close_tree,
    .get = get_record,
    .put = put_record,
    .scan = scan_records,
};
