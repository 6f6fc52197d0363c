/*
 * Caches behind the interface. A partition has one owner at a time: the thread that holds its lock, which is never held
 * across a yield. Depots are depot.c's.
 */
#include "cache/cache.h"
#include "base/spin.h"
#include "kv/kv_internal.h"
#include <errno.h>
#include <string.h>

#define BATCH_KEYS 64 /* the most keys that are looked up while the lock is held once */

/* A partition with its lock, each in a cache line of its own. */
struct part {
    _Alignas(64) struct base_spin lock;
    struct cache_partition *partition;
};

struct kv_cache {
    struct tarn_kv kv;
    struct cache *cache;
    struct part *parts;
    uint32_t count;
    bool is_owned;
};

static struct kv_cache *cache_of(const struct tarn_kv *kv)
{
    return base_container_of(kv, struct kv_cache, kv);
}

static uint32_t number_of(const struct kv_cache *self, const void *key, size_t key_len)
{
    if (self->count == 1)
        return 0;
    return cache_partition_of(cache_seed(self->cache), self->count, key, key_len);
}

/* Lock the partition that a key belongs to. */
static struct part *enter_part(const struct kv_cache *self, const void *key, size_t key_len)
{
    struct part *part = &self->parts[number_of(self, key, key_len)];
    base_spin_lock(&part->lock);
    return part;
}

static void leave_part(struct part *part)
{
    base_spin_unlock(&part->lock);
}

static int cache_store_get(struct tarn_kv *kv, const void *key, size_t key_len, void *value,
                           size_t value_room, struct tarn_record_info *ret_info)
{
    struct part *part = enter_part(cache_of(kv), key, key_len);
    int error = cache_get(part->partition, key, key_len, CACHE_TIME_IF_NEEDED, value, value_room, ret_info);
    leave_part(part);
    return error;
}

/* Do the gets of one partition. @param numbers  the partition of each get; UINT32_MAX: it is done */
static void get_of_partition(struct kv_cache *self, uint32_t number, struct tarn_get *gets, uint32_t *numbers,
                             size_t count)
{
    struct tarn_get some[BATCH_KEYS];
    struct part *part = &self->parts[number];
    size_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] == number)
            some[taken++] = gets[i];
    }
    base_spin_lock(&part->lock);
    cache_get_many(part->partition, CACHE_TIME_IF_NEEDED, some, taken);
    base_spin_unlock(&part->lock);
    taken = 0;
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] != number)
            continue;
        gets[i] = some[taken++];
        numbers[i] = UINT32_MAX;
    }
}

static void get_few(struct kv_cache *self, struct tarn_get *gets, size_t count)
{
    uint32_t numbers[BATCH_KEYS];
    for (size_t i = 0; i < count; i++) /* an invalid key fails in any partition */
        numbers[i] = number_of(self, gets[i].key, gets[i].key_len);
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] != UINT32_MAX)
            get_of_partition(self, numbers[i], gets, numbers, count);
    }
}

static void get_many(struct tarn_kv *kv, struct tarn_get *gets, size_t count)
{
    for (size_t done = 0; done < count; done += BATCH_KEYS)
        get_few(cache_of(kv), gets + done, base_min(count - done, (size_t)BATCH_KEYS));
}

static int read_part(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t if_version,
                     uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                     struct tarn_record_info *ret_info)
{
    struct cache_found found = {.key = key, .key_len = key_len};
    struct part *part = enter_part(cache_of(kv), key, key_len);
    int error = cache_find(part->partition, CACHE_TIME_IF_NEEDED, &found);
    if (error == 0 && if_version != 0 && found.info.version != if_version)
        error = -ESTALE;
    if (error == 0) {
        const uint64_t left = found.info.value_bytes - base_min(offset, (uint64_t)found.info.value_bytes);
        *ret_bytes = base_min(left, (uint64_t)data_room);
        if (*ret_bytes > 0)
            memcpy(data, (const uint8_t *)found.value + offset, *ret_bytes);
        *ret_info = found.info;
    }
    leave_part(part);
    return error;
}

static int cache_store_put(struct tarn_kv *kv, const void *key, size_t key_len, const void *value,
                           size_t value_len, const struct tarn_put_options *options, uint64_t *ret_version)
{
    const uint64_t now_ns = task_wall(kv->node);
    struct part *part = enter_part(cache_of(kv), key, key_len);
    int error = cache_put(part->partition, key, key_len, value, value_len, options, now_ns, ret_version);
    leave_part(part);
    return error;
}

static int cache_store_delete(struct tarn_kv *kv, const void *key, size_t key_len)
{
    const uint64_t now_ns = task_wall(kv->node);
    struct part *part = enter_part(cache_of(kv), key, key_len);
    int error = cache_delete(part->partition, key, key_len, now_ns);
    leave_part(part);
    return error;
}

/* ---- all keys --------------------------------------------------------------------------------------- */

#define BUCKETS_AT_ONCE 64 /* buckets that are scanned before other tasks get their turn */

/* The records of one bucket, copied while the lock is held. */
struct bucket {
    struct {
        const uint8_t *key; /* the key; the value follows it */
        size_t key_len;
        struct tarn_record_info info;
    } records[CACHE_BUCKET_RECORDS];
    uint32_t count;
    uint64_t used;
    uint8_t *copy;
};

static void copy_record(void *arg, const void *key, size_t key_len, const void *value,
                        const struct tarn_record_info *info)
{
    struct bucket *bucket = arg;
    uint8_t *to = bucket->copy + bucket->used;
    memcpy(to, key, key_len);
    if (info->value_bytes > 0)
        memcpy(to + key_len, value, info->value_bytes);
    bucket->records[bucket->count].key = to;
    bucket->records[bucket->count].key_len = key_len;
    bucket->records[bucket->count++].info = *info;
    bucket->used += key_len + info->value_bytes;
}

/* @return the result of `visit` */
static int scan_bucket(struct kv_cache *self, struct part *part, uint64_t number, struct bucket *bucket,
                       tarn_scan_function *visit, void *arg)
{
    int outcome = 0;
    bucket->count = 0;
    bucket->used = 0;
    const uint64_t now_ns = task_wall(self->kv.node);
    base_spin_lock(&part->lock);
    cache_visit_bucket(part->partition, number, now_ns, copy_record, bucket);
    base_spin_unlock(&part->lock);
    for (uint32_t i = 0; i < bucket->count && outcome == 0; i++) {
        const uint8_t *key = bucket->records[i].key;
        const size_t key_len = bucket->records[i].key_len;
        outcome = visit(arg, key, key_len, key + key_len, &bucket->records[i].info);
    }
    return outcome;
}

/* Scan bucket by bucket. A key never changes its bucket, so one that is there from beginning to end is seen once. */
static int cache_store_scan(struct tarn_kv *kv, tarn_scan_function *visit, void *arg)
{
    struct kv_cache *self = cache_of(kv);
    const uint64_t copy_bytes = cache_bucket_bytes_max(self->parts[0].partition);
    struct bucket bucket = {.copy = base_alloc(&kv->node->memory, copy_bytes)};
    int outcome = bucket.copy == NULL ? -ENOMEM : 0;
    for (uint32_t i = 0; i < self->count && outcome == 0; i++) {
        const uint64_t buckets = cache_buckets(self->parts[i].partition);
        for (uint64_t number = 0; number < buckets && outcome == 0; number++) {
            outcome = scan_bucket(self, &self->parts[i], number, &bucket, visit, arg);
            if (number % BUCKETS_AT_ONCE == 0)
                task_yield();
        }
    }
    base_free(&kv->node->memory, bucket.copy, copy_bytes);
    return outcome;
}

/* ---- for front ends -------------------------------------------------------------------------------- */

static uint64_t whole_bytes_max(const struct tarn_kv *kv, size_t key_len)
{
    return cache_value_bytes_max(cache_of(kv)->parts[0].partition,
                                 key_len); /* all partitions have the same limit */
}

static int cache_store_update(struct tarn_kv *kv, const void *key, size_t key_len,
                              tarn_update_function *decide, void *arg, uint64_t *ret_version)
{
    const uint64_t now_ns = task_wall(kv->node);
    struct part *part = enter_part(cache_of(kv), key, key_len);
    int error = cache_update(part->partition, key, key_len, decide, arg, now_ns, ret_version);
    leave_part(part);
    return error;
}

static int cache_store_touch(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t expiry_ns)
{
    const uint64_t now_ns = task_wall(kv->node);
    struct part *part = enter_part(cache_of(kv), key, key_len);
    int error = cache_touch(part->partition, key, key_len, expiry_ns, now_ns);
    leave_part(part);
    return error;
}

static int cache_store_flush(struct tarn_kv *kv, uint64_t when_ns)
{
    struct kv_cache *self = cache_of(kv);
    const uint64_t now_ns = task_wall(kv->node);
    for (uint32_t i = 0; i < self->count; i++) {
        base_spin_lock(&self->parts[i].lock);
        cache_flush(self->parts[i].partition, when_ns, now_ns);
        base_spin_unlock(&self->parts[i].lock);
    }
    return 0;
}

/* Find a key and show its value. @return as `visit` */
static bool show_value(struct kv_cache *self, struct tarn_get *get, uint64_t now_ns, kv_get_function *visit,
                       void *arg)
{
    struct cache_found found = {.key = get->key, .key_len = get->key_len};
    struct tarn_lease lease = {.data = NULL};
    struct part *part =
        enter_part(self, get->key, get->key_len); /* what is no key fails in whatever partition */
    get->error = cache_find(part->partition, now_ns, &found);
    if (get->error == 0) {
        get->info = found.info;
        lease.data = found.value;
        lease.bytes = found.info.value_bytes;
    }
    bool taken = visit(arg, get, &lease);
    leave_part(part);
    return taken;
}

static size_t get_each(struct tarn_kv *kv, struct tarn_get *gets, size_t count, const struct kv_room *room,
                       kv_get_function *visit, void *arg)
{
    const uint64_t now_ns = count == 1 ? CACHE_TIME_IF_NEEDED : task_wall(kv->node);
    size_t shown = 0;
    (void)room;
    while (shown < count && show_value(cache_of(kv), &gets[shown], now_ns, visit, arg))
        shown++;
    return shown;
}

static void cache_store_stats(const struct tarn_kv *kv, struct kv_stats *ret_stats)
{
    const struct kv_cache *self = cache_of(kv);
    *ret_stats = (struct kv_stats){.records = 0};
    for (uint32_t i = 0; i < self->count; i++) {
        struct cache_stats part;
        cache_stats(self->parts[i].partition, &part);
        ret_stats->records += part.records;
        ret_stats->live_bytes += part.live_bytes;
        ret_stats->capacity_bytes += part.log_bytes;
        ret_stats->index_bytes += part.index_bytes;
        ret_stats->gets_expired += part.expired;
        ret_stats->evictions += part.evictions_log + part.evictions_index;
        ret_stats->evictions_index += part.evictions_index;
        ret_stats->reclaimed += part.reclaimed;
        ret_stats->puts_in_place += part.in_place;
    }
}

/* ---- opening and closing ---------------------------------------------------------------------------- */

static void free_cache(struct kv_cache *self)
{
    struct base_account *account = &self->kv.node->memory;
    if (self->is_owned)
        cache_close(self->cache);
    base_free(account, self->parts, self->count * sizeof(self->parts[0]));
    base_free(account, self, sizeof(*self));
}

static int cache_store_close(struct tarn_kv *kv)
{
    free_cache(cache_of(kv));
    return 0;
}

static const struct kv_operations operations = {.get = cache_store_get,
                                                .get_many = get_many,
                                                .read = read_part,
                                                .put = cache_store_put,
                                                .delete = cache_store_delete,
                                                .scan = cache_store_scan,
                                                .close = cache_store_close,
                                                .whole_bytes_max = whole_bytes_max,
                                                .update = cache_store_update,
                                                .touch = cache_store_touch,
                                                .flush = cache_store_flush,
                                                .shows_under_lock = true,
                                                .get_each = get_each,
                                                .stats = cache_store_stats};

int kv_wrap_cache(struct tarn_node *node, struct cache *cache, struct tarn_kv **ret_kv)
{
    struct kv_cache *self = base_alloc(&node->memory, sizeof(*self));
    if (self == NULL)
        return -ENOMEM;
    self->kv.node = node;
    self->cache = cache;
    self->count = cache_partitions(cache);
    self->parts =
        base_alloc_aligned(&node->memory, _Alignof(struct part), self->count * sizeof(self->parts[0]));
    if (self->parts == NULL) {
        free_cache(self);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < self->count; i++)
        self->parts[i].partition = cache_partition(cache, i);
    const uint64_t longest = cache_value_bytes_max(self->parts[0].partition, 1);
    self->kv.operations = &operations;
    self->kv.info = (struct tarn_kv_info){.kind = kv_kind_cache,
                                          .abilities = TARN_KV_SCANS | TARN_KV_RANGES | TARN_KV_VERSIONS,
                                          .partitions = self->count,
                                          .value_bytes_max = longest,
                                          .whole_bytes_max = longest};
    *ret_kv = &self->kv;
    return 0;
}

int kv_cache_open(struct tarn_node *node, const struct kv_url *url, struct tarn_kv **ret_kv)
{
    const struct cache_options options = {.memory_bytes = url->memory_bytes,
                                          .partitions = (uint32_t)url->partitions,
                                          .item_bytes = (uint32_t)url->item_bytes};
    struct cache *cache;
    struct tarn_kv *kv;
    int error = cache_open(node, &options, &cache);
    if (error != 0)
        return error;
    error = kv_wrap_cache(node, cache, &kv);
    if (error != 0) {
        cache_close(cache);
        return error;
    }
    cache_of(kv)->is_owned = true;
    *ret_kv = kv;
    return 0;
}

const struct cache *kv_cache_of(const struct tarn_kv *kv)
{
    return kv->operations == &operations ? cache_of(kv)->cache : NULL;
}
