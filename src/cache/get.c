/* Reading: one key, or many with all misses of the processor's cache at once. */
#include "cache/cache_internal.h"
#include <errno.h>

#define BATCH            64
#define AHEAD            ((size_t)16) /* how many are between two stages */
#define PREFETCHED_LINES 4            /* of a record at most: the processor goes on by itself */

/* ---- what time it is --------------------------------------------------------------------------------------- */

/* Ask the clock, if nobody has yet: that takes as long as to look up a key. */
static uint64_t time_of(const struct cache_partition *partition, uint64_t *inout_now_ns)
{
    if (*inout_now_ns == CACHE_TIME_IF_NEEDED)
        *inout_now_ns = task_wall(partition->node);
    return *inout_now_ns;
}

static void enter(struct cache_partition *partition, uint64_t *inout_now_ns)
{
    cache_enter(partition,
                partition->flush_ns == CACHE_NEVER ? CACHE_TIME_IF_NEEDED : time_of(partition, inout_now_ns));
}

/* ---- one ------------------------------------------------------------------------------------------------- */

/* What became of a get; the caller counts gets and hits. */
static int show(struct cache_partition *partition, const struct cache_place *place, uint64_t *inout_now_ns,
                struct cache_found *found)
{
    if (place->slot == CACHE_NONE)
        return -ENOENT;
    if (place->header.expiry != 0 && cache_record_expired(&place->header, time_of(partition, inout_now_ns))) {
        cache_count_add(&partition->counters.expired, 1);
        return -ENOENT;
    }
    found->value = cache_record_value(place->record, &place->header);
    found->info = cache_record_info(&place->header);
    return 0;
}

int cache_find(struct cache_partition *partition, uint64_t now_ns, struct cache_found *found)
{
    struct cache_place place;
    enter(partition, &now_ns);
    int error = cache_look(partition, found->key, found->key_len, &place);
    if (error == 0) {
        error = show(partition, &place, &now_ns, found);
        cache_count_add(&partition->counters.gets, 1);
        cache_count_add(&partition->counters.hits, error == 0);
    }
    found->error = error;
    return cache_leave(partition, error);
}

/* Copy out what was found. @return as cache_get() */
static int copy_out(const struct cache_found *found, void *value, size_t value_room,
                    struct tarn_record_info *ret_info)
{
    if (found->error != 0)
        return found->error;
    if (ret_info != NULL)
        *ret_info = found->info;
    if (found->info.value_bytes > value_room)
        return -ENOBUFS;
    if (found->info.value_bytes > 0)
        memcpy(value, found->value, found->info.value_bytes);
    return 0;
}

int cache_get(struct cache_partition *partition, const void *key, size_t key_len, uint64_t now_ns,
              void *value, size_t value_room, struct tarn_record_info *ret_info)
{
    struct cache_found found = {.key = key, .key_len = key_len};
    if (cache_find(partition, now_ns, &found) != 0)
        return found.error;
    return copy_out(&found, value, value_room, ret_info);
}

/* ---- many ------------------------------------------------------------------------------------------------ */

/* Inlined: gcc takes a function that only prefetches for one without effect, and leaves its calls out. */
static inline __attribute__((always_inline)) void prefetch_record(const struct cache_partition *partition,
                                                                  uint64_t entry)
{
    const uint8_t *record = partition->log + cache_entry_place(entry);
    uintptr_t first = (uintptr_t)record / BASE_CACHE_LINE_BYTES;
    uintptr_t bytes = (uintptr_t)cache_length_of_class(cache_entry_class(entry)) * CACHE_GRAIN_BYTES;
    uintptr_t last = ((uintptr_t)record + bytes - 1) / BASE_CACHE_LINE_BYTES;
    for (uintptr_t i = 0; i <= base_min(last - first, (uintptr_t)PREFETCHED_LINES - 1); i++)
        __builtin_prefetch(record + i * BASE_CACHE_LINE_BYTES);
}

/* One of a batch on its way: hashed, then looked up in its bucket, then compared with its record. */
struct step {
    uint64_t hash;
    uint32_t mask;
    int error; /* of the key */
};

static void ask_for_bucket(const struct cache_partition *partition, const struct cache_found *found,
                           struct step *step)
{
    step->error = cache_key_hash(partition, found->key, found->key_len, &step->hash);
    if (step->error == 0)
        __builtin_prefetch(cache_bucket(partition, (uint32_t)step->hash));
}

static void ask_for_record(const struct cache_partition *partition, struct step *step)
{
    if (step->error != 0)
        return;
    const uint64_t *bucket = cache_bucket(partition, (uint32_t)step->hash);
    step->mask = cache_bucket_match(bucket, step->hash);
    if (step->mask != 0)
        prefetch_record(partition, cache_entry_load(&bucket[__builtin_ctz(step->mask)]));
}

/* @return whether it counts as a get */
static bool look_at_record(struct cache_partition *partition, uint64_t *inout_now_ns,
                           struct cache_found *found, const struct step *step)
{
    struct cache_place place;
    found->error = step->error;
    if (step->error != 0)
        return false;
    cache_look_among(partition, found->key, found->key_len, step->hash, step->mask, &place);
    found->error = show(partition, &place, inout_now_ns, found);
    return true;
}

/* Up to BATCH of them, like a conveyor: as many are asked for as the processor can have on their way. */
static void find_batch(struct cache_partition *partition, uint64_t *inout_now_ns, struct cache_found *found,
                       size_t count)
{
    struct step steps[BATCH];
    uint64_t gets = 0, hits = 0;
    for (size_t i = 0; i < count + 2 * AHEAD; i++) {
        size_t second = i - AHEAD, third = i - 2 * AHEAD; /* far too large before their time */
        if (i < count)
            ask_for_bucket(partition, &found[i], &steps[i]);
        if (second < count)
            ask_for_record(partition, &steps[second]);
        if (third < count && look_at_record(partition, inout_now_ns, &found[third], &steps[third])) {
            gets++;
            hits += found[third].error == 0;
        }
    }
    cache_count_add(&partition->counters.gets, gets);
    cache_count_add(&partition->counters.hits, hits);
}

void cache_prefetch(struct cache_partition *partition, const struct cache_found *found, size_t count)
{
    struct step steps[BATCH];
    cache_enter(partition, 0);
    count = base_min(count, (size_t)BATCH);
    for (size_t i = 0; i < count + AHEAD; i++) {
        size_t second = i - AHEAD;
        if (i < count)
            ask_for_bucket(partition, &found[i], &steps[i]);
        if (second < count)
            ask_for_record(partition, &steps[second]);
    }
    (void)cache_leave(partition, 0);
}

void cache_find_many(struct cache_partition *partition, uint64_t now_ns, struct cache_found *found,
                     size_t count)
{
    enter(partition, &now_ns);
    for (size_t done = 0; done < count; done += BATCH)
        find_batch(partition, &now_ns, found + done, base_min(count - done, (size_t)BATCH));
    (void)cache_leave(partition, 0);
}

void cache_get_many(struct cache_partition *partition, uint64_t now_ns, struct tarn_get *gets, size_t count)
{
    struct cache_found found[BATCH];
    enter(partition, &now_ns);
    for (size_t done = 0; done < count;) {
        size_t batch = base_min(count - done, (size_t)BATCH);
        for (size_t i = 0; i < batch; i++) {
            found[i].key = gets[done + i].key;
            found[i].key_len = gets[done + i].key_len;
        }
        find_batch(partition, &now_ns, found, batch);
        for (size_t i = 0; i < batch; i++, done++)
            gets[done].error = copy_out(&found[i], gets[done].value, gets[done].value_room, &gets[done].info);
    }
    (void)cache_leave(partition, 0);
}
