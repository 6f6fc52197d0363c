/* Depots behind the interface: each function is the depot's. */
#include "depot/depot.h"
#include "kv/kv_internal.h"
#include <errno.h>

struct kv_depot {
    struct tarn_kv kv;
    struct tarn_depot *depot;
    bool is_owned;
};

static struct tarn_depot *depot_of(const struct tarn_kv *kv)
{
    return base_container_of(kv, struct kv_depot, kv)->depot;
}

static int depot_store_get(struct tarn_kv *kv, const void *key, size_t key_len, void *value,
                           size_t value_room, struct tarn_record_info *ret_info)
{
    return tarn_depot_get(depot_of(kv), key, key_len, value, value_room, ret_info);
}

static void get_many(struct tarn_kv *kv, struct tarn_get *gets, size_t count)
{
    tarn_depot_get_many(depot_of(kv), gets, count);
}

static int read_part(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t if_version,
                     uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                     struct tarn_record_info *ret_info)
{
    return tarn_depot_read(depot_of(kv), key, key_len, if_version, offset, data, data_room, ret_bytes,
                           ret_info);
}

static int depot_store_put(struct tarn_kv *kv, const void *key, size_t key_len, const void *value,
                           size_t value_len, const struct tarn_put_options *options, uint64_t *ret_version)
{
    return tarn_depot_put(depot_of(kv), key, key_len, value, value_len, options, ret_version);
}

static int depot_store_delete(struct tarn_kv *kv, const void *key, size_t key_len)
{
    return tarn_depot_delete(depot_of(kv), key, key_len);
}

static int depot_store_scan(struct tarn_kv *kv, tarn_scan_function *visit, void *arg)
{
    return tarn_depot_scan(depot_of(kv), visit, arg);
}

static int depot_store_write_batch(struct tarn_kv *kv, struct tarn_batch_item *items, size_t count)
{
    return tarn_depot_write_batch(depot_of(kv), items, count);
}

_Static_assert(KV_IN_PIECES == DEPOT_IN_PIECES, "a depot's gets are handed on as they are");

/* ---- for front ends -------------------------------------------------------------------------------- */

static uint64_t whole_bytes_max(const struct tarn_kv *kv, size_t key_len)
{
    (void)key_len; /* a depot has room for the longest key */
    return tarn_depot_whole_bytes_max(depot_of(kv));
}

static int depot_store_update(struct tarn_kv *kv, const void *key, size_t key_len,
                              tarn_update_function *decide, void *arg, uint64_t *ret_version)
{
    return tarn_depot_update(depot_of(kv), key, key_len, decide, arg, ret_version);
}

static int depot_store_touch(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t expiry_ns)
{
    return tarn_depot_touch(depot_of(kv), key, key_len, expiry_ns);
}

static int depot_store_flush(struct tarn_kv *kv, uint64_t when_ns)
{
    return tarn_depot_flush_all(depot_of(kv), when_ns);
}

static size_t get_each(struct tarn_kv *kv, struct tarn_get *gets, size_t count, const struct kv_room *room,
                       kv_get_function *visit, void *arg)
{
    const struct depot_room its_room = {.bytes = room->bytes,
                                        .extra_bytes = room->extra_bytes,
                                        .lease_bytes = room->lease_bytes,
                                        .lease_from = room->lease_from};
    return depot_get_each(depot_of(kv), gets, count, &its_room, visit, arg);
}

static void depot_store_stats(const struct tarn_kv *kv, struct kv_stats *ret_stats)
{
    struct tarn_depot_stats all;
    tarn_depot_stats(depot_of(kv), &all);
    *ret_stats = (struct kv_stats){.records = all.records,
                                   .live_bytes = all.live_bytes,
                                   .capacity_bytes = all.capacity_bytes,
                                   .index_bytes = all.index_bytes,
                                   .gets_expired = all.gets_expired,
                                   .gets_flushed = all.gets_flushed,
                                   .evictions = all.evictions,
                                   .reclaimed = all.reclaimed};
}

/* ---- opening and closing ---------------------------------------------------------------------------- */

static int depot_store_close(struct tarn_kv *kv)
{
    struct kv_depot *self = base_container_of(kv, struct kv_depot, kv);
    int error = self->is_owned ? tarn_depot_close(self->depot) : 0;
    base_free(&kv->node->memory, self, sizeof(*self));
    return error;
}

static const struct kv_operations operations = {.get = depot_store_get,
                                                .get_many = get_many,
                                                .read = read_part,
                                                .put = depot_store_put,
                                                .delete = depot_store_delete,
                                                .scan = depot_store_scan,
                                                .write_batch = depot_store_write_batch,
                                                .close = depot_store_close,
                                                .whole_bytes_max = whole_bytes_max,
                                                .update = depot_store_update,
                                                .touch = depot_store_touch,
                                                .flush = depot_store_flush,
                                                .get_each = get_each,
                                                .stats = depot_store_stats};

int kv_wrap_depot(struct tarn_node *node, struct tarn_depot *depot, struct tarn_kv **ret_kv)
{
    struct kv_depot *self = base_alloc(&node->memory, sizeof(*self));
    if (self == NULL)
        return -ENOMEM;
    self->kv = (struct tarn_kv){.operations = &operations,
                                .node = node,
                                .info = {.kind = kv_kind_depot,
                                         .abilities = TARN_KV_SCANS | TARN_KV_RANGES | TARN_KV_VERSIONS |
                                                      TARN_KV_BATCHES |
                                                      (depot_is_cache(depot) ? 0 : TARN_KV_DURABLE),
                                         .partitions = 1,
                                         .value_bytes_max = tarn_depot_value_bytes_max(depot),
                                         .whole_bytes_max = tarn_depot_whole_bytes_max(depot)}};
    self->depot = depot;
    *ret_kv = &self->kv;
    return 0;
}

struct tarn_depot *kv_depot_of(const struct tarn_kv *kv)
{
    return kv->operations == &operations ? depot_of(kv) : NULL;
}

int kv_depot_open(struct tarn_node *node, const char *path, const struct tarn_depot_options *options,
                  const struct depot_opening *opening, struct tarn_kv **ret_kv)
{
    struct tarn_depot *depot;
    struct tarn_kv *kv;
    int error = depot_open(node, path, options, opening, &depot);
    if (error != 0)
        return error;
    error = kv_wrap_depot(node, depot, &kv);
    if (error != 0) {
        (void)tarn_depot_close(depot);
        return error;
    }
    base_container_of(kv, struct kv_depot, kv)->is_owned = true;
    *ret_kv = kv;
    return 0;
}
