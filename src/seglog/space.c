/*
 * Space: free segments, reservations and the callers that wait for one, live bytes of each segment. README, "Space", has
 * the argument why the holder of a reservation finds a free segment.
 */
#include "seglog/length.h"
#include "seglog/seglog_internal.h"
#include <errno.h>

/* One who waits for a reservation, on its stack. */
struct waiter {
    struct task_wait wait;
    struct seglog_stream *stream;
    enum seglog_space space;
    uint64_t cost_bytes;
};

/* ---- footprints and capacity -------------------------------------------------------------------- */

uint64_t seglog_footprint(const struct seglog *log, uint64_t bytes)
{
    uint64_t space = seglog_record_space(log);
    uint64_t length = seglog_length_rounded(seglog_padded(log, bytes) >> log->grain_shift);
    uint64_t own = (length << log->grain_shift) + sizeof(struct seglog_entry_format);
    return own < space ? space / (space / own) : own;
}

uint64_t seglog_capacity(const struct seglog *log)
{
    uint64_t kept = log->cache ? SEGLOG_KEPT_DATA : log->stream_count + SEGLOG_KEPT_DATA + 1;
    const uint64_t all = seglog_segment_count(log), segments = all > kept ? all - kept : 0;
    uint64_t space = seglog_record_space(log);
    uint64_t percent = 100 - log->over_provisioning_percent;
    return base_max(log->cache ? segments * space : segments * space / 100 * percent, space);
}

uint64_t seglog_spare_segments(const struct seglog *log)
{
    uint64_t living = atomic_load_explicit(&log->live_bytes, memory_order_relaxed) +
                      atomic_load_explicit(&log->tombstone_bytes, memory_order_relaxed);
    uint64_t taken = living / seglog_record_space(log) + log->stream_count + SEGLOG_KEPT_DATA + 1;
    uint64_t all = seglog_segment_count(log);
    return all - base_min(all, taken);
}

/* ---- what reservations need ---------------------------------------------------------------------- */

/*
 * How many segments a stream may have to take until all its reservations are used, however they are ordered.
 * A cost is twice what its record may take (padding and summary included), since what does not fit in the
 * rest of a segment leaves that rest empty: with costs C and a rest of R, k segments are taken only if C > R
 * + (k - 1) * space, and none if C <= 2 * R.
 */
static uint64_t needed_segments(const struct seglog_stream *stream, uint64_t reserved_bytes)
{
    uint64_t space = seglog_record_space(stream->log);
    if (reserved_bytes <= 2 * stream->room_bytes)
        return 0;
    return (reserved_bytes - stream->room_bytes + space - 1) / space - stream->switched;
}

static void update_needed_locked(struct seglog_stream *stream)
{
    base_spin_assert_held(&stream->log->lock);
    struct seglog *log = stream->log;
    uint64_t needed = needed_segments(stream, stream->reserved_bytes);
    log->needed += needed - stream->needed;
    stream->needed = needed;
}

static uint64_t kept_for(enum seglog_space space)
{
    return space == SEGLOG_SPACE_DATA ? SEGLOG_KEPT_DATA : SEGLOG_KEPT_COLLECTOR;
}

/* Whether a reservation may be granted: it needs no segment that is not there, or none at all. */
static bool is_granted_locked(const struct seglog_stream *stream, enum seglog_space space,
                              uint64_t cost_bytes)
{
    base_spin_assert_held(&stream->log->lock);
    const struct seglog *log = stream->log;
    uint64_t needed = needed_segments(stream, stream->reserved_bytes + cost_bytes);
    return needed == stream->needed ||
           log->needed - stream->needed + needed + kept_for(space) <= log->free_count;
}

/* Whether it could not be granted even if there were no others. */
static bool is_hopeless_locked(const struct seglog_stream *stream, enum seglog_space space,
                               uint64_t cost_bytes)
{
    base_spin_assert_held(&stream->log->lock);
    uint64_t needed = needed_segments(stream, cost_bytes);
    const struct seglog *log = stream->log;
    return needed > 0 && needed + kept_for(space) > log->free_count + log->discarding;
}

static void reserve_locked(struct seglog_stream *stream, uint64_t cost_bytes)
{
    base_spin_assert_held(&stream->log->lock);
    stream->reserved_bytes += cost_bytes;
    update_needed_locked(stream);
}

/* ---- waiting for room ---------------------------------------------------------------------------- */

static struct waiter *waiter_of(struct base_list *item)
{
    return base_container_of(base_container_of(item, struct task_wait, link), struct waiter, wait);
}

static void end_wait_locked(struct seglog *log, struct waiter *waiter, int result)
{
    base_spin_assert_held(&log->lock);
    base_list_remove(&waiter->wait.link);
    /* Pairs with the load in seglog_settle(). */
    atomic_fetch_sub(&log->space_waiting, 1);
    base_assert(task_wait_wake(&waiter->wait, result));
}

/* Let in, in order, who waits. Tombstones come first: they wait for less. */
static void admit_locked(struct seglog *log)
{
    base_spin_assert_held(&log->lock);
    for (int space = SEGLOG_SPACE_DELETE; space >= SEGLOG_SPACE_DATA; space--) {
        struct base_list *first;
        while ((first = base_list_first(&log->space_waiters[space])) != NULL) {
            struct waiter *waiter = waiter_of(first);
            if (!is_granted_locked(waiter->stream, waiter->space, waiter->cost_bytes))
                return;
            reserve_locked(waiter->stream, waiter->cost_bytes);
            log->grants++;
            end_wait_locked(log, waiter, 0);
        }
    }
}

static bool nobody_waits_locked(const struct seglog *log, enum seglog_space space)
{
    base_spin_assert_held(&log->lock);
    return base_list_empty(&log->space_waiters[SEGLOG_SPACE_DELETE]) &&
           (space == SEGLOG_SPACE_DELETE || base_list_empty(&log->space_waiters[SEGLOG_SPACE_DATA]));
}

/* Whether there is a pin or a checkpoint, which the service gives up before it refuses a writer. */
static bool could_give_up_locked(const struct seglog *log)
{
    base_spin_assert_held(&log->lock);
    bool kept = false;
    for (uint32_t i = 0; i < SEGLOG_CHECKPOINTS_KEPT; i++)
        kept = kept || log->checkpoints.kept[i].count > 0;
    return kept || seglog_is_pinned(log);
}

/* Whether the collector looked and found nothing, and would find nothing now, whatever is given up. */
static bool is_exhausted_locked(struct seglog *log)
{
    base_spin_assert_held(&log->lock);
    return log->no_space_at == atomic_load(&log->chances) + 1 &&
           task_wall(log->node) < log->no_space_until_ns && !could_give_up_locked(log);
}

/* Grant, refuse, or queue. @return 0; -EAGAIN (queued); -ENOSPC; -EROFS */
static int try_reserve_locked(struct seglog *log, struct waiter *waiter)
{
    base_spin_assert_held(&log->lock);
    if (seglog_failed(log))
        return -EROFS;
    if (nobody_waits_locked(log, waiter->space) &&
        is_granted_locked(waiter->stream, waiter->space, waiter->cost_bytes)) {
        reserve_locked(waiter->stream, waiter->cost_bytes);
        return 0;
    }
    bool hopeless = is_hopeless_locked(waiter->stream, waiter->space, waiter->cost_bytes);
    if (seglog_service_is_self(log) || (hopeless && is_exhausted_locked(log)))
        return -ENOSPC;
    task_wait_init(&waiter->wait);
    base_list_push_back(&log->space_waiters[waiter->space], &waiter->wait.link);
    atomic_fetch_add(&log->space_waiting, 1); /* pairs with the load in seglog_settle() */
    return -EAGAIN;
}

/* @param bytes  that are placed at once, with their entries */
static int reserve(struct seglog *log, enum seglog_space space, uint64_t bytes,
                   struct seglog_reservation *ret_reservation)
{
    uint32_t stream = seglog_stream_of_caller(log);
    struct waiter waiter = {
        .stream = &log->streams[stream],
        .space = space,
        .cost_bytes = 2 * (bytes + log->superblock.block_bytes),
    };
    base_spin_lock(&log->lock);
    int error = try_reserve_locked(log, &waiter);
    base_spin_unlock(&log->lock);
    if (error == -EAGAIN) {
        seglog_poke(log);
        error = task_wait_park_firmly(&waiter.wait);
    }
    if (error == 0)
        *ret_reservation = (struct seglog_reservation){.cost_bytes = waiter.cost_bytes, .stream = stream};
    return error;
}

int seglog_reserve(struct seglog *log, enum seglog_space space, uint64_t bytes,
                   struct seglog_reservation *ret_reservation)
{
    if (bytes > log->superblock.record_bytes_max)
        return -EMSGSIZE;
    return reserve(log, space, seglog_batch_bytes(log, bytes), ret_reservation);
}

uint64_t seglog_batch_bytes(const struct seglog *log, uint64_t bytes)
{
    return seglog_padded(log, bytes) + sizeof(struct seglog_entry_format);
}

uint64_t seglog_batch_bytes_max(const struct seglog *log)
{
    return base_min(base_min(seglog_record_space(log) / 4, SEGLOG_BATCH_BYTES_MAX),
                    (uint64_t)log->superblock.record_bytes_max);
}

int seglog_reserve_batch(struct seglog *log, enum seglog_space space, uint64_t bytes,
                         struct seglog_reservation *ret_reservation)
{
    return bytes > seglog_batch_bytes_max(log) ? -EMSGSIZE : reserve(log, space, bytes, ret_reservation);
}

void seglog_release(struct seglog *log, struct seglog_reservation *reservation)
{
    if (reservation->cost_bytes == 0)
        return;
    struct seglog_stream *stream = &log->streams[reservation->stream];
    base_spin_lock(&log->lock);
    base_assert(stream->reserved_bytes >= reservation->cost_bytes);
    stream->reserved_bytes -= reservation->cost_bytes;
    update_needed_locked(stream);
    admit_locked(log);
    base_spin_unlock(&log->lock);
    reservation->cost_bytes = 0;
    seglog_space_chance(log); /* the stream's segment may be ended now */
}

uint64_t seglog_space_placed(struct seglog_stream *stream, uint64_t cost_bytes, uint64_t room_bytes)
{
    struct seglog *log = stream->log;
    base_spin_lock(&log->lock);
    uint64_t stamp = log->stamp;
    base_assert(stream->reserved_bytes >= cost_bytes);
    stream->reserved_bytes -= cost_bytes;
    stream->room_bytes = room_bytes;
    stream->switched = false;
    update_needed_locked(stream);
    admit_locked(log);
    base_spin_unlock(&log->lock);
    return stamp;
}

void seglog_space_switched(struct seglog_stream *stream)
{
    struct seglog *log = stream->log;
    base_spin_lock(&log->lock);
    stream->switched = true;
    update_needed_locked(stream);
    base_spin_unlock(&log->lock);
}

bool seglog_space_forgo(struct seglog_stream *stream)
{
    struct seglog *log = stream->log;
    base_spin_lock(&log->lock);
    uint64_t room_bytes = stream->room_bytes;
    stream->room_bytes = 0;
    uint64_t needed = log->needed - stream->needed + needed_segments(stream, stream->reserved_bytes);
    bool may = stream->reserved_bytes == 0 || (log->cache && needed + SEGLOG_KEPT_DATA <= log->free_count);
    if (may)
        update_needed_locked(stream);
    else
        stream->room_bytes = room_bytes;
    base_spin_unlock(&log->lock);
    return may;
}

/* ---- free segments ------------------------------------------------------------------------------- */

bool seglog_space_spare(struct seglog *log)
{
    base_spin_lock(&log->lock);
    bool spare = log->free_count > log->needed;
    base_spin_unlock(&log->lock);
    return spare;
}

/* @return false: the bound of stamps has to be raised first */
static bool take_segment(struct seglog *log, uint32_t *ret_segment)
{
    base_spin_lock(&log->lock);
    if (log->stamp + 1 >= log->stamp_bound) {
        base_spin_unlock(&log->lock);
        return false;
    }
    struct base_list *first = base_list_pop_front(&log->free);
    base_assert(first != NULL && log->free_count > 0);
    struct seglog_segment *segment = base_container_of(first, struct seglog_segment, link);
    log->free_count--;
    segment->discardable = false;
    segment->stamp = ++log->stamp;
    segment->session = log->session;
    segment->state = SEGLOG_STATE_OPEN;
    segment->highest_sequence = 0;
    segment->lowest_sequence = UINT64_MAX;
    segment->entry_count = 0;
    segment->end = 0;
    segment->stream = SEGLOG_NO_STREAM;
    segment->sealed = false;
    segment->ends_known = false;
    segment->damaged = false;
    seglog_live_reset(log, segment);
    base_spin_unlock(&log->lock);
    *ret_segment = (uint32_t)(segment - log->segments);
    return true;
}

int seglog_segment_take(struct seglog *log, uint32_t *ret_segment)
{
    while (!take_segment(log, ret_segment)) {
        int error = seglog_state_write(log, NULL);
        if (error != 0)
            return error;
    }
    return seglog_failed(log) ? -EROFS : 0;
}

/*
 * Those that can be discarded are at the end of the list, all others before them: segments are taken from its
 * front, where those are put that were discarded.
 */
void seglog_segment_freed_locked(struct seglog *log, struct seglog_segment *segment)
{
    base_spin_assert_held(&log->lock);
    segment->state = SEGLOG_STATE_FREE;
    segment->discardable = true;
    base_list_push_back(&log->free, &segment->link);
    log->free_count++;
}

bool seglog_discard_take(struct seglog *log, uint32_t *ret_segment)
{
    bool taken = false;
    base_spin_lock(&log->lock);
    struct base_list *last = base_list_last(&log->free);
    uint64_t least = log->needed + SEGLOG_KEPT_DATA + 1; /* one more can still be promised meanwhile */
    if (last != NULL && log->free_count > least && nobody_waits_locked(log, SEGLOG_SPACE_DATA)) {
        struct seglog_segment *segment = base_container_of(last, struct seglog_segment, link);
        taken = segment->discardable;
        *ret_segment = (uint32_t)(segment - log->segments);
    }
    if (taken) {
        base_list_remove(last);
        log->free_count--;
        log->discarding++;
    }
    base_spin_unlock(&log->lock);
    return taken;
}

void seglog_discarded(struct seglog *log, uint32_t number, bool done)
{
    struct seglog_segment *segment = &log->segments[number];
    base_spin_lock(&log->lock);
    segment->discardable = !done;
    if (done)
        base_list_push_front(&log->free, &segment->link);
    else
        base_list_push_back(&log->free, &segment->link);
    log->free_count++;
    log->discarding--;
    admit_locked(log);
    base_spin_unlock(&log->lock);
}

void seglog_space_freed(struct seglog *log)
{
    base_spin_lock(&log->lock);
    admit_locked(log);
    base_spin_unlock(&log->lock);
}

void seglog_space_exhausted(struct seglog *log, const struct seglog_exhaustion *exhaustion, bool all)
{
    base_spin_lock(&log->lock);
    log->quiet_at = exhaustion->chances + 1;
    log->no_space_until_ns = exhaustion->until_ns;
    if (exhaustion->pressed)
        log->no_space_at = exhaustion->chances + 1;
    const bool is_seen = exhaustion->in_vain || exhaustion->chances == atomic_load(&log->chances);
    const bool is_over = exhaustion->pressed && is_seen && !could_give_up_locked(log);
    for (int space = 0; space < 2 && (all || is_over); space++) {
        base_list_for_each_safe(item, &log->space_waiters[space]) {
            struct waiter *waiter = waiter_of(item);
            if (all || is_hopeless_locked(waiter->stream, waiter->space, waiter->cost_bytes))
                end_wait_locked(log, waiter, -ENOSPC);
        }
    }
    admit_locked(log); /* callers that waited behind them */
    base_spin_unlock(&log->lock);
}

bool seglog_space_short(struct seglog *log)
{
    base_spin_lock(&log->lock);
    bool waits = !nobody_waits_locked(log, SEGLOG_SPACE_DATA);
    uint32_t wanted = atomic_load_explicit(&log->wanted_segments, memory_order_relaxed);
    bool few = log->free_count <= SEGLOG_KEPT_DATA + 1 + log->stream_count - 1 + wanted;
    bool quiet =
        log->quiet_at == atomic_load(&log->chances) + 1 && task_wall(log->node) < log->no_space_until_ns;
    bool is_short = waits || (few && !quiet);
    base_spin_unlock(&log->lock);
    return is_short && !seglog_failed(log);
}

void seglog_wake_all(struct seglog *log)
{
    if (log->streams == NULL)
        return;
    base_spin_lock(&log->lock);
    for (int space = 0; space < 2; space++) {
        base_list_for_each_safe(item, &log->space_waiters[space]) {
            end_wait_locked(log, waiter_of(item), -EROFS);
        }
    }
    struct base_list *first;
    while ((first = base_list_pop_front(&log->summary_waiters)) != NULL ||
           (first = base_list_pop_front(&log->evict_waiters)) != NULL)
        base_assert(task_wait_wake(base_container_of(first, struct task_wait, link), -EROFS));
    base_spin_unlock(&log->lock);
    seglog_poke(log);
}

/* ---- what lives ---------------------------------------------------------------------------------- */

/*
 * Counters of footprints are exact when everybody has told what he did. They are changed without a lock, so
 * that a death may be counted before the life; and a death that is told late may come after its segment was
 * freed, and taken again. Then a counter is below zero for a while (a number near 2^64), until
 * seglog_live_reset().
 */
static void count_live(struct seglog *log, struct seglog_segment *segment, uint64_t footprint)
{
    atomic_fetch_add_explicit(&segment->live_bytes, footprint, memory_order_relaxed);
    atomic_fetch_add_explicit(&log->live_bytes, footprint, memory_order_relaxed);
}

static void count_tombstone(struct seglog *log, struct seglog_segment *segment, uint64_t footprint)
{
    atomic_fetch_add_explicit(&segment->tombstone_bytes, footprint, memory_order_relaxed);
    atomic_fetch_add_explicit(&log->tombstone_bytes, footprint, memory_order_relaxed);
}

void seglog_space_chance(struct seglog *log)
{
    atomic_fetch_add(&log->chances, 1);
    if (atomic_load(&log->space_waiting) > 0) /* pairs with the addition in try_reserve_locked() */
        seglog_poke(log);
}

/* Until now the collector may have moved what a user's tombstone removes, into a segment begun since its
 * birth. */
static void note_tombstone(struct seglog *log, struct seglog_segment *segment)
{
    base_spin_lock(&log->lock);
    segment->tombstone_stamp = log->stamp;
    base_spin_unlock(&log->lock);
}

void seglog_settle(struct seglog *log, const struct seglog_place *place, bool live)
{
    struct seglog_segment *segment = &log->segments[place->segment];
    uint64_t footprint = seglog_footprint(log, place->bytes);
    if (place->tombstone && place->stream != SEGLOG_RELOCATION)
        note_tombstone(log, segment);
    if (live && place->tombstone)
        count_tombstone(log, segment, footprint);
    else if (live)
        count_live(log, segment, footprint);
    /* Pairs with the load in checkpoint_cut.c. */
    if (atomic_fetch_sub(&log->streams[place->stream].unsettled[place->cut_phase], 1) == 1 &&
        atomic_load(&log->checkpoints.cut) == SEGLOG_CUT_DRAINING)
        seglog_poke(log);
    /* The count before is seen by the collector, which acquires `pending`. */
    uint32_t before = atomic_fetch_sub(&segment->pending, 1);
    base_assert(before > 0);
    if (before == 1)
        seglog_space_chance(log);
}

void seglog_live_moved(struct seglog *log, uint64_t grain, uint64_t bytes)
{
    count_live(log, &log->segments[seglog_segment_of(log, grain)], -seglog_footprint(log, bytes));
}

void seglog_live_remove(struct seglog *log, uint64_t grain, uint64_t bytes)
{
    seglog_live_moved(log, grain, bytes);
    seglog_space_chance(log);
}

static void add_alone(_Atomic uint64_t *sum, uint64_t bytes)
{
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + bytes, memory_order_relaxed);
}

uint64_t seglog_live_add(struct seglog *log, uint64_t grain, uint64_t bytes, bool tombstone)
{
    struct seglog_segment *segment = &log->segments[seglog_segment_of(log, grain)];
    uint64_t footprint = seglog_footprint(log, bytes);
    if (tombstone) {
        count_tombstone(log, segment, footprint);
    } else { /* nobody else does: without the processor's locks, which were most of loading an entry */
        add_alone(&segment->live_bytes, footprint);
        add_alone(&log->live_bytes, footprint);
    }
    return footprint;
}

void seglog_live_reset(struct seglog *log, struct seglog_segment *segment)
{
    uint64_t live_bytes = atomic_exchange(&segment->live_bytes, 0);
    uint64_t tombstone_bytes = atomic_exchange(&segment->tombstone_bytes, 0);
    atomic_fetch_sub_explicit(&log->live_bytes, live_bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&log->tombstone_bytes, tombstone_bytes, memory_order_relaxed);
}

void seglog_live_forget(struct seglog *log)
{
    for (uint32_t i = 0; i < seglog_segment_count(log); i++) {
        struct seglog_segment *segment = &log->segments[i];
        seglog_live_reset(log, segment);
        if (segment->state == SEGLOG_STATE_CLOSED && segment->covered_grain > 0)
            count_tombstone(log, segment, segment->covered_tombstone_bytes);
    }
}

void seglog_live_clear(struct seglog *log)
{
    for (uint32_t i = 0; i < seglog_segment_count(log); i++) {
        uint64_t live_bytes = atomic_exchange(&log->segments[i].live_bytes, 0);
        atomic_fetch_sub_explicit(&log->live_bytes, live_bytes, memory_order_relaxed);
    }
    seglog_space_chance(log);
}

uint64_t seglog_stamp_at(const struct seglog *log, uint64_t grain)
{
    if (grain < log->superblock.data_offset >> log->grain_shift ||
        grain >= seglog_store_bytes(log) >> log->grain_shift)
        return 0;
    /* acquire: pairs with the store in take_segment(), so that a caller that has met a record knows its segment's stamp
     */
    return atomic_load_explicit(&log->segments[seglog_segment_of(log, grain)].stamp, memory_order_acquire);
}
