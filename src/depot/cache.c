/* Cache mode: what is evicted, what was hit, and room that others have to leave. README, "Cache mode". */
#include "depot/depot_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* Evictions for one place in the index, before its key is refused. */
#define EVICTIONS_MAX 64

/* ---- what the log's service asks ------------------------------------------------------------------- */

static uint32_t lock_of(const struct seglog_entry_format *entry)
{
    return entry->hash[1] % DEPOT_KEY_LOCKS;
}

static void unlock(struct tarn_depot *depot, uint32_t lock)
{
    if (--depot->renewing[lock] == 0)
        task_mutex_unlock(&depot->key_locks[lock]);
}

/* Several of one batch may have one lock, which is taken once. */
bool depot_cache_renew(void *owner, const struct seglog_entry_format *entry, uint64_t grain)
{
    struct tarn_depot *depot = owner;
    uint32_t lock = lock_of(entry);
    if (depot->renewing[lock] == 0 && !task_mutex_lock_try(&depot->key_locks[lock]))
        return false;
    depot->renewing[lock]++;
    if (depot_index_has(&depot->index, entry->hash[0], grain))
        return true;
    unlock(depot, lock);
    return false;
}

void depot_cache_renewed(void *owner, const struct seglog_entry_format *entry, uint64_t grain,
                         const struct seglog_place *place)
{
    struct tarn_depot *depot = owner;
    if (place != NULL) {
        /* the key lock was held since it was seen there */
        base_assert(depot_index_replace(&depot->index, entry->hash[0], grain, place->grain,
                                        depot_grains(depot, place->bytes)));
        depot_count_moved(depot, entry, place);
        base_counter_add(&depot->reinsertions, 1);
    }
    unlock(depot, lock_of(entry));
}

void depot_cache_evicted(void *owner, const struct seglog_entry_format *entry, uint64_t grain)
{
    struct tarn_depot *depot = owner;
    uint64_t word, expiry_ns = seglog_expiry_ns(entry->expiry);
    bool piece = (entry->kind & SEGLOG_MARK_PIECE) != 0;
    if (piece && depot_index_has(&depot->index, entry->hash[0], grain))
        depot_pieces_evicted(depot, entry);
    if (!depot_index_take(&depot->index, entry->hash[0], grain, &word))
        return;
    atomic_fetch_sub_explicit(&depot->live_bytes, seglog_footprint(depot->log, entry->bytes),
                              memory_order_relaxed);
    if (piece)
        atomic_fetch_sub_explicit(&depot->pieces, 1, memory_order_relaxed);
    else if (expiry_ns != 0 && task_wall(depot->node) >= expiry_ns)
        base_counter_add(&depot->reclaimed, 1);
    else
        base_counter_add(depot_index_is_hit(word) ? &depot->evictions_hit : &depot->evictions_unhit, 1);
}

/* ---- places ---------------------------------------------------------------------------------------- */

int depot_place_make(struct tarn_depot *depot, uint32_t tries)
{
    int error = depot_growth_now(depot);
    if (error == 0 || !depot->cache || tries >= EVICTIONS_MAX)
        return error;
    error = seglog_evict(depot->log);
    if (error != -EAGAIN && error != -ENOSPC)
        return error;
    /* others are about to publish what they have written, or the segments in which all of it lies are not to be ended
     * just now */
    (void)task_sleep(BASE_NS_PER_MS);
    return 0;
}

/* ---- at the beginning ------------------------------------------------------------------------------- */

struct age {
    uint64_t highest_sequence;
    uint32_t entries;
};

static int compare_ages(const void *a, const void *b)
{
    uint64_t left = ((const struct age *)a)->highest_sequence;
    uint64_t right = ((const struct age *)b)->highest_sequence;
    return left < right ? -1 : left > right;
}

/* @param ages  of all segments, changed @return what lies above the segments that go */
static uint64_t find_limit(struct age *ages, uint32_t count, uint32_t eighths)
{
    uint64_t all = 0, gone = 0;
    uint32_t next = 0;
    qsort(ages, count, sizeof(*ages), compare_ages);
    for (uint32_t i = 0; i < count; i++)
        all += ages[i].entries;
    while (next < count && gone * 8 < all * eighths)
        gone += ages[next++].entries;
    return next == 0 ? 0 : ages[next - 1].highest_sequence + 1;
}

int depot_cache_shed(struct tarn_depot *depot, uint32_t eighths, uint64_t *ret_sequence)
{
    struct base_account *account = &depot->node->memory;
    uint32_t count = seglog_segment_count(depot->log);
    struct age *ages = base_alloc(account, count * sizeof(*ages));
    if (ages == NULL)
        return -ENOMEM;
    for (uint32_t segment = 0; segment < count; segment++) {
        struct seglog_segment_info info;
        seglog_segment_info(depot->log, segment, &info);
        ages[segment] = (struct age){.highest_sequence = info.entries == 0 ? 0 : info.highest_sequence,
                                     .entries = info.entries};
    }
    *ret_sequence = find_limit(ages, count, eighths);
    base_free(account, ages, count * sizeof(*ages));
    seglog_horizon_raise(depot->log, *ret_sequence);
    base_warn(&depot->node->log, "the index of the cache has too little memory: its oldest records go",
              "path=%s eighths=%" PRIu32, drive_name(depot->drive), eighths);
    return 0;
}
