/* Buckets. */
#include "cache/cache_internal.h"
#include <errno.h>

_Static_assert(CACHE_BUCKET_RECORDS == CACHE_BUCKET_ENTRIES, "cache.h");

int cache_key_hash(const struct cache_partition *partition, const void *key, size_t key_len,
                   uint64_t *ret_hash)
{
    if (key_len == 0 || key_len > TARN_KEY_BYTES_MAX)
        return -EINVAL;
    uint64_t hash = base_hash64(key, key_len, partition->seed);
    if (cache_hash_partition(hash, partition->partitions) != partition->number)
        return -EXDEV;
    *ret_hash = hash;
    return 0;
}

void cache_look_among(const struct cache_partition *partition, const void *key, size_t key_len, uint64_t hash,
                      uint32_t mask, struct cache_place *ret_place)
{
    ret_place->hash = hash;
    ret_place->bucket = cache_bucket(partition, (uint32_t)hash);
    for (; mask != 0; mask &= mask - 1) {
        int slot = __builtin_ctz(mask);
        uint8_t *record = partition->log + cache_entry_place(cache_entry_load(&ret_place->bucket[slot]));
        cache_record_unpack(record, &ret_place->header);
        if (ret_place->header.key_len == key_len &&
            memcmp(record + CACHE_RECORD_HEADER_BYTES, key, key_len) == 0) {
            ret_place->slot = slot;
            ret_place->record = record;
            return;
        }
    }
    ret_place->slot = CACHE_NONE;
}

int cache_look(const struct cache_partition *partition, const void *key, size_t key_len,
               struct cache_place *ret_place)
{
    uint64_t hash;
    int error = cache_key_hash(partition, key, key_len, &hash);
    if (error != 0)
        return error;
    uint32_t mask = cache_bucket_match(cache_bucket(partition, (uint32_t)hash), hash);
    cache_look_among(partition, key, key_len, hash, mask, ret_place);
    return 0;
}

int cache_bucket_slot(const uint64_t *bucket, uint64_t place)
{
    for (int i = 0; i < CACHE_BUCKET_ENTRIES; i++) {
        uint64_t entry = cache_entry_load(&bucket[i]);
        if (entry != 0 && cache_entry_place(entry) == place)
            return i;
    }
    return CACHE_NONE;
}

uint64_t cache_buckets(const struct cache_partition *partition)
{
    return partition->buckets;
}

uint64_t cache_bucket_bytes_max(const struct cache_partition *partition)
{
    const uint64_t most = (uint64_t)TARN_KEY_BYTES_MAX + CACHE_VALUE_BYTES_MAX;
    return CACHE_BUCKET_ENTRIES * base_min((uint64_t)partition->record_bytes_max, most);
}

void cache_visit_bucket(struct cache_partition *partition, uint64_t bucket, uint64_t now_ns,
                        cache_visit_function *visit, void *arg)
{
    cache_enter(partition, now_ns);
    const uint64_t *entries =
        (const uint64_t *)(const void *)(partition->index + bucket * CACHE_BUCKET_BYTES);
    for (unsigned i = 0; i < CACHE_BUCKET_ENTRIES; i++) {
        const uint64_t entry = cache_entry_load(&entries[i]);
        struct cache_record header;
        if (entry == 0)
            continue;
        uint8_t *record = partition->log + cache_entry_place(entry);
        cache_record_unpack(record, &header);
        const struct tarn_record_info info = cache_record_info(&header);
        if (!cache_record_expired(&header, now_ns))
            visit(arg, record + CACHE_RECORD_HEADER_BYTES, header.key_len,
                  cache_record_value(record, &header), &info);
    }
    (void)cache_leave(partition, 0);
}

/* The larger the older: how far behind the tail a record begins. */
static uint64_t age_of(const struct cache_partition *partition, uint64_t entry)
{
    uint64_t place = cache_entry_place(entry);
    return place < partition->tail ? partition->tail - place : partition->tail + partition->log_bytes - place;
}

int cache_bucket_room(struct cache_partition *partition, uint64_t *bucket, uint64_t now_ns)
{
    int oldest = 0;
    uint64_t oldest_age = 0;
    for (int i = 0; i < CACHE_BUCKET_ENTRIES; i++) {
        uint64_t entry = cache_entry_load(&bucket[i]);
        if (entry == 0)
            return i;
        uint64_t age = age_of(partition, entry);
        if (age > oldest_age) {
            oldest = i;
            oldest_age = age;
        }
    }
    struct cache_place place = {.bucket = bucket, .slot = oldest};
    place.record = partition->log + cache_entry_place(cache_entry_load(&bucket[oldest]));
    cache_record_unpack(place.record, &place.header);
    cache_count_add(cache_record_expired(&place.header, now_ns) ? &partition->counters.reclaimed
                                                                : &partition->counters.evictions_index,
                    1);
    cache_record_remove(partition, &place);
    return oldest;
}
