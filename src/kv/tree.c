/* Ordered stores behind the interface: each function is the store's. */
#include "kv/kv_internal.h"
#include "tree/store.h"

struct kv_tree {
    struct tarn_kv kv;
    struct tree_store *store;
};

static struct tree_store *store_of(const struct tarn_kv *kv)
{
    return base_container_of(kv, struct kv_tree, kv)->store;
}

static struct tree_key key_of(const void *key, size_t key_len)
{
    return (struct tree_key){.bytes = key, .count = (uint32_t)key_len};
}

static int tree_kv_get(struct tarn_kv *kv, const void *key, size_t key_len, void *value, size_t value_room,
                       struct tarn_record_info *ret_info)
{
    return tree_store_get(store_of(kv), key_of(key, key_len), value, value_room, ret_info);
}

static void get_many(struct tarn_kv *kv, struct tarn_get *gets, size_t count)
{
    tree_store_get_many(store_of(kv), gets, count);
}

static int read_part(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t if_version,
                     uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                     struct tarn_record_info *ret_info)
{
    return tree_store_read(store_of(kv), key_of(key, key_len), if_version, offset, data, data_room, ret_bytes,
                           ret_info);
}

static int tree_kv_put(struct tarn_kv *kv, const void *key, size_t key_len, const void *value,
                       size_t value_len, const struct tarn_put_options *options, uint64_t *ret_version)
{
    return tree_store_put(store_of(kv), key_of(key, key_len), value, value_len, options, ret_version);
}

static int tree_kv_delete(struct tarn_kv *kv, const void *key, size_t key_len)
{
    return tree_store_delete(store_of(kv), key_of(key, key_len));
}

static int tree_kv_range(struct tarn_kv *kv, const struct tarn_kv_range *range, tarn_scan_function *visit,
                         void *arg)
{
    const struct tree_key from = key_of(range->from, range->from_len),
                          below = key_of(range->below, range->below_len);
    const struct tree_store_range its_range = {.from = range->from_len == 0 ? NULL : &from,
                                               .below = range->below_len == 0 ? NULL : &below,
                                               .reverse = range->reverse,
                                               .limit = range->limit};
    return tree_store_range(store_of(kv), &its_range, visit, arg);
}

static int tree_kv_scan(struct tarn_kv *kv, tarn_scan_function *visit, void *arg)
{
    return tree_kv_range(kv, &(struct tarn_kv_range){.limit = 0}, visit, arg);
}

static int tree_kv_write_batch(struct tarn_kv *kv, struct tarn_batch_item *items, size_t count)
{
    return tree_store_write_batch(store_of(kv), items, count);
}

/* ---- for front ends -------------------------------------------------------------------------------- */

static uint64_t whole_bytes_max(const struct tarn_kv *kv, size_t key_len)
{
    (void)key_len; /* a record has room for the longest key */
    return tree_store_whole_bytes_max(store_of(kv));
}

static int tree_kv_update(struct tarn_kv *kv, const void *key, size_t key_len, tarn_update_function *decide,
                          void *arg, uint64_t *ret_version)
{
    return tree_store_update(store_of(kv), key_of(key, key_len), decide, arg, ret_version);
}

static int tree_kv_touch(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t expiry_ns)
{
    return tree_store_touch(store_of(kv), key_of(key, key_len), expiry_ns);
}

static int tree_kv_flush(struct tarn_kv *kv, uint64_t when_ns)
{
    return tree_store_flush(store_of(kv), when_ns);
}

/* Whom values are shown to. */
struct showing {
    kv_get_function *visit;
    void *arg;
    uint64_t whole_bytes_max;
};

static bool show_value(void *arg, struct tarn_get *get, const void *value)
{
    const struct showing *showing = arg;
    struct tarn_lease lease = {.data = NULL};
    if (get->error == 0 && get->info.value_bytes > showing->whole_bytes_max)
        get->error = KV_IN_PIECES; /* so that nobody waits for the lock while it is copied */
    if (get->error == 0) {
        lease.data = value;
        lease.bytes = get->info.value_bytes;
    }
    return showing->visit(showing->arg, get, &lease);
}

static size_t get_each(struct tarn_kv *kv, struct tarn_get *gets, size_t count, const struct kv_room *room,
                       kv_get_function *visit, void *arg)
{
    struct showing showing = {.visit = visit, .arg = arg, .whole_bytes_max = kv->info.whole_bytes_max};
    (void)room;
    return tree_store_show(store_of(kv), gets, count, show_value, &showing);
}

static void tree_kv_stats(const struct tarn_kv *kv, struct kv_stats *ret_stats)
{
    struct tree_store_stats all;
    tree_store_stats(store_of(kv), &all);
    *ret_stats = (struct kv_stats){.records = all.records,
                                   .live_bytes = all.record_bytes,
                                   .capacity_bytes = all.memory_bytes,
                                   .index_bytes = all.node_bytes,
                                   .gets_expired = all.expired,
                                   .reclaimed = all.reclaimed};
}

/* ---- opening and closing ---------------------------------------------------------------------------- */

static int tree_kv_close(struct tarn_kv *kv)
{
    struct kv_tree *self = base_container_of(kv, struct kv_tree, kv);
    int error = tree_store_close(self->store);
    base_free(&kv->node->memory, self, sizeof(*self));
    return error;
}

static const struct kv_operations operations = {.get = tree_kv_get,
                                                .get_many = get_many,
                                                .read = read_part,
                                                .put = tree_kv_put,
                                                .delete = tree_kv_delete,
                                                .scan = tree_kv_scan,
                                                .range = tree_kv_range,
                                                .write_batch = tree_kv_write_batch,
                                                .close = tree_kv_close,
                                                .whole_bytes_max = whole_bytes_max,
                                                .update = tree_kv_update,
                                                .touch = tree_kv_touch,
                                                .flush = tree_kv_flush,
                                                .shows_under_lock = true,
                                                .get_each = get_each,
                                                .stats = tree_kv_stats};

int kv_open_tree(struct tarn_node *node, const char *path, uint64_t memory_bytes,
                 const struct tarn_depot_options *options, const struct depot_opening *opening,
                 struct tarn_kv **ret_kv)
{
    const struct tree_store_options its_options = {
        .depot = options, .opening = opening, .memory_bytes = memory_bytes};
    struct kv_tree *self = base_alloc(&node->memory, sizeof(*self));
    if (self == NULL)
        return -ENOMEM;
    int error = tree_store_open(node, path, &its_options, &self->store);
    if (error != 0) {
        base_free(&node->memory, self, sizeof(*self));
        return error;
    }
    self->kv = (struct tarn_kv){.operations = &operations,
                                .node = node,
                                .info = {.kind = kv_kind_tree,
                                         .abilities = TARN_KV_DURABLE | TARN_KV_SCANS | TARN_KV_RANGES |
                                                      TARN_KV_VERSIONS | TARN_KV_ORDERED | TARN_KV_BATCHES,
                                         .partitions = 1,
                                         .value_bytes_max = tree_store_value_bytes_max(self->store),
                                         .whole_bytes_max = tree_store_whole_bytes_max(self->store)}};
    *ret_kv = &self->kv;
    return 0;
}

struct tree_store *kv_tree_of(const struct tarn_kv *kv)
{
    return kv->operations == &operations ? store_of(kv) : NULL;
}
