/* Pins: segments that somebody goes on to read are not freed. README, "Pins". */
#include "seglog/seglog_internal.h"

#define EVERYTHING    UINT64_MAX
#define SPARE_PARTS   2 /* of what neither lives nor is kept back, one is made room of */
#define ROOM_WAIT_NS  (10 * BASE_NS_PER_SECOND)
#define ROOM_STALL_NS BASE_NS_PER_SECOND /* without a segment more */
#define ROOM_LOOK_NS  (10 * BASE_NS_PER_MS)

/* ---- room ------------------------------------------------------------------------------------------ */

static uint32_t free_count(struct seglog *log)
{
    base_spin_lock(&log->lock);
    uint32_t count = log->free_count;
    base_spin_unlock(&log->lock);
    return count;
}

/* The segments for `bytes`, at most as many as live records leave. */
static uint32_t segments_for(const struct seglog *log, uint64_t bytes)
{
    uint64_t space = seglog_record_space(log);
    uint64_t most = seglog_spare_segments(log) / SPARE_PARTS;
    return (uint32_t)base_min(bytes / space + (bytes % space != 0), most);
}

void seglog_room_make(struct seglog *log, uint64_t bytes)
{
    if (log->cache || !log->started)
        return;
    uint32_t wanted = segments_for(log, bytes), count = free_count(log), highest = count;
    uint64_t begin_ns = task_now(), since_ns = begin_ns;
    atomic_fetch_add_explicit(&log->wanted_segments, wanted, memory_order_relaxed);
    while (count < SEGLOG_KEPT_DATA + 1 + wanted && task_now() - since_ns < ROOM_STALL_NS &&
           task_now() - begin_ns < ROOM_WAIT_NS && !seglog_failed(log)) {
        seglog_poke(log);
        (void)task_sleep(ROOM_LOOK_NS);
        count = free_count(log);
        if (count > highest) {
            highest = count;
            since_ns = task_now();
        }
    }
    atomic_fetch_sub_explicit(&log->wanted_segments, wanted, memory_order_relaxed);
}

/* ---- pins ------------------------------------------------------------------------------------------ */

void seglog_pin(struct seglog *log)
{
    base_spin_lock(&log->lock);
    atomic_store(&log->pinned_below, EVERYTHING);
    base_spin_unlock(&log->lock);
}

void seglog_pin_end(struct seglog *log)
{
    base_spin_lock(&log->lock);
    if (atomic_load(&log->pinned_below) == EVERYTHING) /* else it was given up meanwhile */
        atomic_store(&log->pinned_below, log->stamp + 1);
    base_spin_unlock(&log->lock);
}

bool seglog_is_pinned(const struct seglog *log)
{
    /* A reader asks afterwards: this was 0 before the memory that it has read could be written to. */
    return atomic_load(&log->pinned_below) != 0;
}

void seglog_unpin(struct seglog *log)
{
    base_spin_lock(&log->lock);
    atomic_store(&log->pinned_below, 0);
    log->grants++; /* what the collector has emptied for nothing until now says nothing any more */
    base_spin_unlock(&log->lock);
    seglog_space_chance(log);
}

bool seglog_pin_give_up(struct seglog *log)
{
    if (!seglog_is_pinned(log))
        return false;
    seglog_unpin(log);
    return true;
}
