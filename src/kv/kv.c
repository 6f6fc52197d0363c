/* The public functions: the checks that are the same for every kind of store, and the call of its own function. */
#include "depot/depot.h"
#include "kv/remote.h"
#include <errno.h>
#include <string.h>

const char kv_kind_depot[] = "depot", kv_kind_cache[] = "cache", kv_kind_hash[] = "hash",
           kv_kind_tree[] = "tree";

static bool is_key(size_t key_len)
{
    return key_len > 0 && key_len <= TARN_KEY_BYTES_MAX;
}

int kv_open(struct tarn_node *node, const char *url, const struct tarn_kv_options *options,
            const struct depot_opening *opening, struct tarn_kv **ret_kv)
{
    static const struct tarn_kv_options defaults = {0};
    struct kv_url parts;
    int error = kv_url_read(&node->log, url, &parts);
    if (error != 0)
        return error;
    if (options == NULL)
        options = &defaults;
    switch (parts.scheme) {
    case KV_FILE:
        return kv_depot_open(node, parts.path, options->depot, opening, ret_kv);
    case KV_CACHE:
        return kv_cache_open(node, &parts, ret_kv);
    case KV_HASH:
        return kv_hash_open(node, &parts, options, ret_kv);
    case KV_TREE:
        return kv_open_tree(node, parts.tree_path, parts.memory_bytes, options->depot, opening, ret_kv);
    default:
        return kv_servers_open(node, &parts, options, ret_kv);
    }
}

int tarn_kv_open(struct tarn_node *node, const char *url, const struct tarn_kv_options *options,
                 struct tarn_kv **ret_kv)
{
    return kv_open(node, url, options, NULL, ret_kv);
}

int tarn_kv_close(struct tarn_kv *kv)
{
    return kv->operations->close(kv);
}

void tarn_kv_info(const struct tarn_kv *kv, struct tarn_kv_info *ret_info)
{
    *ret_info = kv->info;
}

int tarn_kv_get(struct tarn_kv *kv, const void *key, size_t key_len, void *value, size_t value_room,
                struct tarn_record_info *ret_info)
{
    struct tarn_record_info info;
    if (!is_key(key_len))
        return -EINVAL;
    int error = kv->operations->get(kv, key, key_len, value, value_room, &info);
    if (ret_info != NULL && (error == 0 || error == -ENOBUFS))
        *ret_info = info;
    return error;
}

void tarn_kv_get_many(struct tarn_kv *kv, struct tarn_get *gets, size_t count)
{
    kv->operations->get_many(kv, gets, count);
}

int tarn_kv_read(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t if_version, uint64_t offset,
                 void *data, size_t data_room, size_t *ret_bytes, struct tarn_record_info *ret_info)
{
    struct tarn_record_info info;
    if (!is_key(key_len))
        return -EINVAL;
    int error = kv->operations->read(kv, key, key_len, if_version, offset, data, data_room, ret_bytes, &info);
    if (error == 0 && ret_info != NULL)
        *ret_info = info;
    return error;
}

int tarn_kv_put(struct tarn_kv *kv, const void *key, size_t key_len, const void *value, size_t value_len,
                const struct tarn_put_options *options, uint64_t *ret_version)
{
    static const struct tarn_put_options any = {0};
    if (options == NULL)
        options = &any;
    if (kv_put_check(key_len, options) != 0)
        return -EINVAL;
    if (value_len > kv->info.value_bytes_max)
        return -EMSGSIZE;
    return kv->operations->put(kv, key, key_len, value, value_len, options, ret_version);
}

int tarn_kv_delete(struct tarn_kv *kv, const void *key, size_t key_len)
{
    return is_key(key_len) ? kv->operations->delete (kv, key, key_len) : -EINVAL;
}

int tarn_kv_scan(struct tarn_kv *kv, tarn_scan_function *visit, void *arg)
{
    return kv->operations->scan == NULL ? -EOPNOTSUPP : kv->operations->scan(kv, visit, arg);
}

int tarn_kv_range(struct tarn_kv *kv, const struct tarn_kv_range *range, tarn_scan_function *visit, void *arg)
{
    if (kv->operations->range == NULL)
        return -EOPNOTSUPP;
    return kv->operations->range(kv, range, visit, arg);
}

int tarn_kv_write_batch(struct tarn_kv *kv, struct tarn_batch_item *items, size_t count)
{
    return kv->operations->write_batch == NULL ? -EOPNOTSUPP : kv->operations->write_batch(kv, items, count);
}

/* ---- for front ends -------------------------------------------------------------------------------- */

bool kv_is_local(const struct tarn_kv *kv)
{
    return kv->operations->update != NULL;
}

bool kv_shows_under_lock(const struct tarn_kv *kv)
{
    return kv->operations->shows_under_lock;
}

uint64_t kv_whole_bytes_max(const struct tarn_kv *kv, size_t key_len)
{
    return kv->operations->whole_bytes_max(kv, key_len);
}

int kv_update(struct tarn_kv *kv, const void *key, size_t key_len, tarn_update_function *decide, void *arg,
              uint64_t *ret_version)
{
    if (!kv_is_local(kv))
        return -EOPNOTSUPP;
    return is_key(key_len) ? kv->operations->update(kv, key, key_len, decide, arg, ret_version) : -EINVAL;
}

int kv_touch(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t expiry_ns)
{
    if (!kv_is_local(kv))
        return -EOPNOTSUPP;
    return is_key(key_len) ? kv->operations->touch(kv, key, key_len, expiry_ns) : -EINVAL;
}

int kv_flush(struct tarn_kv *kv, uint64_t when_ns)
{
    return kv_is_local(kv) ? kv->operations->flush(kv, when_ns) : -EOPNOTSUPP;
}

size_t kv_get_each(struct tarn_kv *kv, struct tarn_get *gets, size_t count, const struct kv_room *room,
                   kv_get_function *visit, void *arg)
{
    return kv->operations->get_each(kv, gets, count, room, visit, arg);
}

bool kv_lease_keep(struct tarn_lease *lease)
{
    return lease->pool != NULL && depot_lease_keep(lease);
}

void kv_lease_end(struct tarn_lease *lease)
{
    tarn_depot_lease_end(lease);
}

int kv_stats(const struct tarn_kv *kv, struct kv_stats *ret_stats)
{
    if (!kv_is_local(kv))
        return -EOPNOTSUPP;
    kv->operations->stats(kv, ret_stats);
    return 0;
}

void kv_leave(struct tarn_kv *kv)
{
    if (kv->operations->leave != NULL)
        kv->operations->leave(kv);
}
