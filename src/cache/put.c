/* Changing: put, delete, touch, flush. */
#include "cache/cache_internal.h"
#include <errno.h>

static const struct tarn_put_options unconditional = {.condition = TARN_PUT_ANY};

/* @return 0: the condition holds; -EEXIST; -ENOENT */
static int judge(const struct tarn_put_options *options, const struct cache_place *place, bool is_there)
{
    switch (options->condition) {
    case TARN_PUT_ANY:
        return 0;
    case TARN_PUT_IF_ABSENT:
        return is_there ? -EEXIST : 0;
    case TARN_PUT_IF_PRESENT:
        return is_there ? 0 : -ENOENT;
    case TARN_PUT_IF_VERSION:
        if (!is_there)
            return -ENOENT;
        return place->header.version == options->if_version ? 0 : -EEXIST;
    }
    return -EINVAL;
}

static int put_record(struct cache_partition *partition, const void *key, size_t key_len,
                      const struct cache_value *value, const struct tarn_put_options *options,
                      uint64_t now_ns, uint64_t *ret_version)
{
    struct cache_place place;
    int error = cache_look(partition, key, key_len, &place);
    if (error == 0)
        error = judge(options, &place, cache_is_there(&place, now_ns));
    if (error == 0 && !cache_record_fits(partition, key_len, value->bytes[0]))
        error = -EMSGSIZE;
    if (error == 0 && options->note > TARN_NOTE_MAX)
        error = -EINVAL;
    if (error != 0)
        return error;
    struct cache_record header = {.version = cache_version(partition, options->version),
                                  .expiry = cache_expiry_pack(options->expiry_ns),
                                  .client_flags = options->client_flags,
                                  .note = options->note};
    cache_record_store(partition, &place, key, key_len, &header, value, now_ns);
    if (ret_version != NULL)
        *ret_version = header.version;
    return 0;
}

int cache_put(struct cache_partition *partition, const void *key, size_t key_len, const void *value,
              size_t value_len, const struct tarn_put_options *options, uint64_t now_ns,
              uint64_t *ret_version)
{
    const struct cache_value one = {.parts = {value}, .bytes = {value_len}};
    cache_enter(partition, now_ns);
    return cache_leave(partition,
                       put_record(partition, key, key_len, &one, options == NULL ? &unconditional : options,
                                  now_ns, ret_version));
}

/* Look for what must be there. @return 0; -ENOENT; -EINVAL; -EXDEV */
static int look_for(struct cache_partition *partition, const void *key, size_t key_len, uint64_t now_ns,
                    struct cache_place *ret_place)
{
    int error = cache_look(partition, key, key_len, ret_place);
    if (error == 0 && !cache_is_there(ret_place, now_ns))
        error = -ENOENT;
    return error;
}

int cache_delete(struct cache_partition *partition, const void *key, size_t key_len, uint64_t now_ns)
{
    struct cache_place place;
    cache_enter(partition, now_ns);
    int error = look_for(partition, key, key_len, now_ns, &place);
    if (error == 0) {
        cache_record_remove(partition, &place);
        cache_count_add(&partition->counters.deletes, 1);
    }
    return cache_leave(partition, error);
}

int cache_touch(struct cache_partition *partition, const void *key, size_t key_len, uint64_t expiry_ns,
                uint64_t now_ns)
{
    struct cache_place place;
    cache_enter(partition, now_ns);
    int error = look_for(partition, key, key_len, now_ns, &place);
    if (error == 0) {
        place.header.expiry = cache_expiry_pack(expiry_ns);
        cache_record_change(partition, place.record, &place.header);
        cache_count_add(&partition->counters.touches, 1);
    }
    return cache_leave(partition, error);
}

/* ---- flush ------------------------------------------------------------------------------------------------ */

void cache_index_clear(struct cache_partition *partition)
{
    uint64_t words = partition->buckets * CACHE_BUCKET_ENTRIES;
    uint64_t *entries = (uint64_t *)(void *)partition->index;
    if (partition->region == NULL) {
        memset(entries, 0, words * sizeof(*entries));
        return;
    }
    for (uint64_t i = 0; i < words; i++) {
        if (entries[i] != 0)
            cache_store64(partition, &entries[i], 0);
    }
}

void cache_flush_now(struct cache_partition *partition)
{
    cache_index_clear(partition);
    partition->flush_ns = CACHE_NEVER;
    partition->tail = 0;
    partition->has_older = false;
    cache_count_add(&partition->counters.records, -partition->counters.records);
    cache_count_add(&partition->counters.live_bytes, -partition->counters.live_bytes);
    cache_count_add(&partition->counters.flushes, 1);
}

void cache_flush(struct cache_partition *partition, uint64_t when_ns, uint64_t now_ns)
{
    cache_enter(partition, now_ns);
    if (when_ns <= now_ns)
        cache_flush_now(partition);
    else
        partition->flush_ns = when_ns;
    (void)cache_leave(partition, 0);
}
