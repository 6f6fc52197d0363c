/* The log: room, records, eviction of the oldest. */
#include "cache/cache_internal.h"

#define BOUNCE_BYTES 512

/* ---- stores --------------------------------------------------------------------------------------------- */

/* Move bytes within exported memory: from the end that does not overwrite what is still to be moved. */
static void move_within(struct cache_partition *partition, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    uint8_t bounce[BOUNCE_BYTES];
    bool backwards = to > from;
    for (uint64_t done = 0; done < bytes;) {
        uint64_t part = base_min(bytes - done, (uint64_t)BOUNCE_BYTES);
        uint64_t at = backwards ? bytes - done - part : done;
        memcpy(bounce, from + at, part);
        tarn_fabric_mem_copy_in(partition->region, (uint64_t)(to + at - partition->memory), bounce, part);
        done += part;
    }
}

void cache_copy_in(struct cache_partition *partition, uint8_t *to, const void *from, uint64_t bytes)
{
    if (bytes == 0)
        return;
    if (base_likely(partition->region == NULL))
        memmove(to, from, bytes);
    else if (cache_in_log(partition, from))
        move_within(partition, to, from, bytes);
    else
        tarn_fabric_mem_copy_in(partition->region, (uint64_t)(to - partition->memory), from, bytes);
}

/* ---- room ----------------------------------------------------------------------------------------------- */

/* Ask for the bucket of the record that goes next. Inlined: gcc takes a function that only prefetches for one without
 * effect, and leaves its calls out. */
static inline __attribute__((always_inline)) void prefetch_victim(const struct cache_partition *partition)
{
    if (partition->has_older) {
        uint32_t hash_low = base_load_le32(partition->log + partition->head + 4);
        __builtin_prefetch(cache_bucket(partition, hash_low), 1);
    }
}

/* Take out what lies at the head. */
static void evict_oldest(struct cache_partition *partition, uint64_t now_ns)
{
    struct cache_place place = {.record = partition->log + partition->head};
    cache_record_unpack(place.record, &place.header);
    if (!place.header.killed) {
        place.bucket = cache_bucket(partition, place.header.hash_low);
        place.slot = cache_bucket_slot(place.bucket, partition->head);
        base_assert(place.slot != CACHE_NONE);
        cache_count_add(cache_record_expired(&place.header, now_ns) ? &partition->counters.reclaimed
                                                                    : &partition->counters.evictions_log,
                        1);
        cache_record_remove(partition, &place);
    }
    partition->head += cache_record_space(&place.header);
    if (partition->head == partition->end)
        partition->has_older = false;
}

/* @return the place of so many bytes that nothing leads to; the tail is behind them */
static uint64_t make_room(struct cache_partition *partition, uint64_t bytes, uint64_t now_ns)
{
    if (partition->tail + bytes > partition->log_bytes) {
        while (partition->has_older)
            evict_oldest(partition, now_ns);
        partition->end = partition->tail;
        partition->head = partition->tail = 0;
        partition->has_older = true;
    }
    while (partition->has_older && partition->head < partition->tail + bytes)
        evict_oldest(partition, now_ns);
    uint64_t place = partition->tail;
    partition->tail += bytes;
    return place;
}

/* ---- records -------------------------------------------------------------------------------------------- */

bool cache_record_fits(const struct cache_partition *partition, uint64_t key_len, uint64_t value_len)
{
    return value_len <= CACHE_VALUE_BYTES_MAX &&
           CACHE_RECORD_HEADER_BYTES + key_len + value_len <= partition->record_bytes_max;
}

void cache_record_kill(struct cache_partition *partition, uint8_t *record, uint64_t space_bytes)
{
    uint8_t *mark = record + CACHE_RECORD_MARK_WORD * sizeof(uint64_t);
    cache_store64(partition, mark, BASE_LITTLE_ENDIAN(64, base_load_le64(mark) | CACHE_RECORD_KILLED));
    cache_count_add(&partition->counters.records, UINT64_MAX);
    cache_count_add(&partition->counters.live_bytes, -space_bytes);
}

void cache_record_remove(struct cache_partition *partition, const struct cache_place *place)
{
    cache_store64(partition, &place->bucket[place->slot], 0);
    cache_record_kill(partition, place->record, cache_record_space(&place->header));
}

/* The checksum of a record whose key and value are there; of what nobody reads there is none. */
static uint32_t checksum_of(const struct cache_partition *partition, const uint8_t *record,
                            const struct cache_record *header, const uint64_t words[CACHE_RECORD_WORDS])
{
    if (base_likely(partition->region == NULL))
        return CACHE_CHECKSUM_NONE;
    return cache_record_checksum(partition->salt, (uint64_t)(record - partition->log), words,
                                 record + CACHE_RECORD_HEADER_BYTES,
                                 (uint64_t)header->key_len + header->value_len);
}

void cache_record_change(struct cache_partition *partition, uint8_t *record, struct cache_record *header)
{
    uint64_t words[CACHE_RECORD_WORDS];
    cache_record_pack(header, words);
    header->checksum = checksum_of(partition, record, header, words);
    cache_record_pack(header, words);
    for (unsigned i = 0; i < CACHE_RECORD_WORDS; i++)
        cache_store64(partition, record + i * sizeof(uint64_t), words[i]);
}

/* Key and value. What lies in the log goes first: the others may overwrite it. */
static void write_body(struct cache_partition *partition, uint8_t *record, const void *key, size_t key_len,
                       const struct cache_value *value)
{
    uint8_t *at = record + CACHE_RECORD_HEADER_BYTES + key_len;
    if (cache_in_log(partition, value->parts[1])) {
        cache_copy_in(partition, at + value->bytes[0], value->parts[1], value->bytes[1]);
        cache_copy_in(partition, at, value->parts[0], value->bytes[0]);
    } else {
        cache_copy_in(partition, at, value->parts[0], value->bytes[0]);
        cache_copy_in(partition, at + value->bytes[0], value->parts[1], value->bytes[1]);
    }
    cache_copy_in(partition, record + CACHE_RECORD_HEADER_BYTES, key, key_len);
}

/* @return whether the new record may be written over the old one: README, departure 3 */
static bool may_overwrite(const struct cache_partition *partition, const struct cache_place *place,
                          uint32_t grains)
{
    if (partition->region != NULL)
        return false;
    uint64_t space = cache_record_space(&place->header) / CACHE_GRAIN_BYTES;
    uint64_t at = (uint64_t)(place->record - partition->log);
    uint64_t behind =
        at < partition->tail ? partition->tail - at : partition->tail + partition->log_bytes - at;
    return grains <= space && space - grains <= CACHE_SLACK_GRAINS_MAX && behind <= partition->log_bytes / 2;
}

static void overwrite(struct cache_partition *partition, const struct cache_place *place, const void *key,
                      struct cache_record *header, const struct cache_value *value)
{
    header->slack = (uint32_t)(cache_record_space(&place->header) / CACHE_GRAIN_BYTES) -
                    cache_record_grains(header->key_len, header->value_len);
    write_body(partition, place->record, key, header->key_len, value);
    cache_record_change(partition, place->record, header);
    cache_count_add(&partition->counters.in_place, 1);
}

void cache_record_store(struct cache_partition *partition, const struct cache_place *place, const void *key,
                        size_t key_len, struct cache_record *header, const struct cache_value *value,
                        uint64_t now_ns)
{
    header->key_len = (uint32_t)key_len;
    header->value_len = (uint32_t)(value->bytes[0] + value->bytes[1]);
    header->hash_low = (uint32_t)place->hash;
    uint32_t grains = cache_record_grains(key_len, header->value_len);
    cache_count_add(&partition->counters.puts, 1);
    if (place->slot != CACHE_NONE && may_overwrite(partition, place, grains)) {
        overwrite(partition, place, key, header, value);
        return;
    }
    if (place->slot != CACHE_NONE)
        cache_record_kill(partition, place->record, cache_record_space(&place->header));
    uint64_t at = make_room(partition, (uint64_t)grains * CACHE_GRAIN_BYTES, now_ns);
    uint8_t *record = partition->log + at;
    int slot = place->slot != CACHE_NONE ? place->slot : cache_bucket_room(partition, place->bucket, now_ns);
    write_body(partition, record, key, key_len, value);
    uint64_t words[CACHE_RECORD_WORDS];
    cache_record_pack(header, words);
    uint32_t checksum = checksum_of(partition, record, header, words);
    cache_copy_in(partition, record, words, sizeof(words));
    cache_fence(partition);
    cache_store64(partition, &place->bucket[slot],
                  BASE_LITTLE_ENDIAN(64, cache_entry_pack(cache_hash_tag(place->hash), grains, at)));
    cache_fence(partition);
    if (checksum != CACHE_CHECKSUM_NONE)
        cache_store64(partition, record, words[0] | BASE_LITTLE_ENDIAN(64, (uint64_t)checksum));
    cache_count_add(&partition->counters.records, 1);
    cache_count_add(&partition->counters.live_bytes, (uint64_t)grains * CACHE_GRAIN_BYTES);
    prefetch_victim(partition);
}
