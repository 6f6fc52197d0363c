/* The insides of the cache: for this folder. */
#ifndef CACHE_CACHE_INTERNAL_H
#define CACHE_CACHE_INTERNAL_H

#include "cache/cache.h"
#include "cache/layout.h"

#include <stdatomic.h>

#define CACHE_NEVER UINT64_MAX
#define CACHE_NONE  (-1)

/* Written by the owner alone, so that others read whole numbers: cache_stats(). */
struct cache_counters {
    uint64_t gets, hits, expired, puts, in_place, deletes, touches, evictions_log, evictions_index, reclaimed,
        flushes, records, live_bytes;
};

struct cache_partition {
    /* what does not change */
    struct tarn_node *node;
    uint8_t *index, *log;
    uint64_t seed;
    uint64_t buckets, log_bytes;
    struct tarn_fabric_region *region; /* exported; NULL: nobody else sees the memory */
    uint8_t *memory;
    uint64_t memory_bytes;
    uint32_t salt, number, partitions;
    uint32_t record_bytes_max;

    /* what does; the log: README, invariant 3 */
    uint64_t tail, head, end;
    bool has_older; /* pass: head and end mean something */
    _Atomic bool busy;
    uint64_t version;  /* the last one given out */
    uint64_t flush_ns; /* CACHE_NEVER: none is ordered */
    struct cache_counters counters;
} __attribute__((aligned(2 * BASE_CACHE_LINE_BYTES)));

struct cache {
    struct tarn_node *node;
    uint64_t seed;
    uint32_t count;
    struct cache_partition partitions[];
};

/* Where a key is, or could be. */
struct cache_place {
    uint64_t hash;
    uint64_t *bucket;
    int slot; /* CACHE_NONE: the key is not there; what follows means nothing */
    uint8_t *record;
    struct cache_record header;
};

/* ---- counting, entering ------------------------------------------------------------------------------- */

/** By the owner: others may read it meanwhile. */
static inline void cache_count_add(uint64_t *counter, uint64_t count)
{
    __atomic_store_n(counter, *counter + count, __ATOMIC_RELAXED);
}

/** Make all entries none. */
void cache_index_clear(struct cache_partition *partition);

/** Carry out a flush whose time has come. */
void cache_flush_now(struct cache_partition *partition);

/** A function of the partition begins … */
static inline void cache_enter(struct cache_partition *partition, uint64_t now_ns)
{
    base_assert(
        !atomic_load_explicit(&partition->busy, memory_order_relaxed)); /* one owner, one call at a time */
    atomic_store_explicit(&partition->busy, true, memory_order_relaxed);
    if (base_unlikely(now_ns >= partition->flush_ns))
        cache_flush_now(partition);
}

/** … and ends. @return result */
static inline int cache_leave(struct cache_partition *partition, int result)
{
    atomic_store_explicit(&partition->busy, false, memory_order_relaxed);
    return result;
}

/* ---- stores -------------------------------------------------------------------------------------------- */

/** Whether an address is in the log. */
static inline bool cache_in_log(const struct cache_partition *partition, const void *address)
{
    return (uintptr_t)address - (uintptr_t)partition->log < partition->log_bytes;
}

/** Store an aligned word, little-endian already. */
static inline void cache_store64(struct cache_partition *partition, void *to, uint64_t word)
{
    if (base_unlikely(partition->region != NULL))
        tarn_fabric_mem_store64(partition->region, (uint64_t)((uint8_t *)to - partition->memory), word);
    else
        memcpy(to, &word, sizeof(word));
}

/** What was stored before is seen before what is stored after. */
static inline void cache_fence(const struct cache_partition *partition)
{
    if (base_unlikely(partition->region != NULL))
        tarn_fabric_mem_fence();
}

/** Copy bytes into the log, from anywhere: out of the log, too, and overlapping. */
void cache_copy_in(struct cache_partition *partition, uint8_t *to, const void *from, uint64_t bytes);

/* ---- index --------------------------------------------------------------------------------------------- */

/** The bucket that a hash's low half says. */
static inline uint64_t *cache_bucket(const struct cache_partition *partition, uint32_t hash_low)
{
    return (uint64_t *)(void *)(partition->index +
                                cache_hash_bucket(hash_low, partition->buckets) * CACHE_BUCKET_BYTES);
}

/** Slots of a bucket whose entries have a hash's tag, a bit each. */
static inline uint32_t cache_bucket_match(const uint64_t *bucket, uint64_t hash)
{
    uint32_t tag = cache_hash_tag(hash), mask = 0;
    for (unsigned i = 0; i < CACHE_BUCKET_ENTRIES; i++)
        mask |= (uint32_t)(cache_entry_tag(cache_entry_load(&bucket[i])) == tag) << i;
    return mask;
}

/** The slot whose entry leads to a place. @return CACHE_NONE: there is none */
int cache_bucket_slot(const uint64_t *bucket, uint64_t place);

/**
 * Check a key and hash it.
 *
 * @return 0; -EINVAL; -EXDEV
 */
int cache_key_hash(const struct cache_partition *partition, const void *key, size_t key_len,
                   uint64_t *ret_hash) base_must_check;

/** Look for a key, expired or not. @param mask  cache_bucket_match() of its bucket */
void cache_look_among(const struct cache_partition *partition, const void *key, size_t key_len, uint64_t hash,
                      uint32_t mask, struct cache_place *ret_place);

/** Hash a key and look for it. @return 0; -EINVAL; -EXDEV */
int cache_look(const struct cache_partition *partition, const void *key, size_t key_len,
               struct cache_place *ret_place) base_must_check;

/** Whether what was looked for is there by now. */
static inline bool cache_is_there(const struct cache_place *place, uint64_t now_ns)
{
    return place->slot != CACHE_NONE && !cache_record_expired(&place->header, now_ns);
}

/** A slot for one more entry: a free one, or the oldest's, whose record is evicted. */
int cache_bucket_room(struct cache_partition *partition, uint64_t *bucket, uint64_t now_ns);

/* ---- log ----------------------------------------------------------------------------------------------- */

/** Where a record's value lies. */
static inline uint8_t *cache_record_value(uint8_t *record, const struct cache_record *header)
{
    return record + CACHE_RECORD_HEADER_BYTES + header->key_len;
}

/** Kill a record: it does not count any more. Its entry is the caller's. */
void cache_record_kill(struct cache_partition *partition, uint8_t *record, uint64_t space_bytes);

/** Store a header's words over those of a record that stays, whose checksum follows. */
void cache_record_change(struct cache_partition *partition, uint8_t *record, struct cache_record *header);

/** A value of two parts, of which one may lie in the partition. */
struct cache_value {
    const void *parts[2];
    uint64_t bytes[2];
};

/** Whether a record of that size is one that the partition takes. */
bool cache_record_fits(const struct cache_partition *partition, uint64_t key_len, uint64_t value_len);

/**
 * Store a record in the place of what was found, or where nothing was.
 *
 * @param place   of cache_look(): nothing has changed since
 * @param header  version, expiry, flags, note of the new one; the rest is filled in
 * @param value   together short enough: cache_record_fits()
 */
void cache_record_store(struct cache_partition *partition, const struct cache_place *place, const void *key,
                        size_t key_len, struct cache_record *header, const struct cache_value *value,
                        uint64_t now_ns);

/** Take a record out that was found. */
void cache_record_remove(struct cache_partition *partition, const struct cache_place *place);

/** A version that was never given out; or, if it is not 0, `version`. */
static inline uint64_t cache_version(struct cache_partition *partition, uint64_t version)
{
    return version != 0 ? version : ++partition->version;
}

#endif
