/*
 * Eviction: how a cache makes room. The segment whose highest sequence is the lowest is freed with all that
 * it holds, but for a share of what was hit, which is written again first. README, "Eviction", has why
 * nothing old comes back.
 */
#include "seglog/collect_internal.h"
#include <errno.h>
#include <inttypes.h>

#define RENEWALS_AT_ONCE 64 /* whose keys are locked while one write is waited for */
#define RENEWAL_PASSES   3  /* over a victim: what others have locked the first time may be free the next */
#define DROPS_AT_ONCE    1024
#define SHARE_PARTS      2 /* of a segment, one is for what is written again */

/* An open segment is ended when what has been written since its first record is such a part of all that is
 * above the horizon; fewer parts where there are few segments. */
#define AGE_PARTS          8
#define SEGMENTS_OF_A_PART 16

/* ---- choosing -------------------------------------------------------------------------------------- */

struct oldest {
    uint32_t segment;
    uint64_t highest_sequence;
    bool pinned; /* there is one that cannot be evicted yet */
};

static void look_at(const struct seglog *log, uint32_t number, struct oldest *oldest)
{
    const struct seglog_segment *segment = &log->segments[number];
    if (segment->state != SEGLOG_STATE_CLOSED || atomic_load(&segment->pending) > 0) {
        oldest->pinned =
            oldest->pinned || segment->state == SEGLOG_STATE_CLOSED || segment->state == SEGLOG_STATE_CLOSING;
        return;
    }
    if (oldest->segment != SEGLOG_NO_SEGMENT && segment->highest_sequence >= oldest->highest_sequence)
        return;
    oldest->segment = number;
    oldest->highest_sequence = segment->highest_sequence;
}

/* @return 0; -EAGAIN; -ENOSPC */
static int choose_closed(struct seglog *log, uint32_t *ret_segment)
{
    struct oldest oldest = {.segment = SEGLOG_NO_SEGMENT};
    for (uint32_t begin = 0; begin < seglog_segment_count(log); begin += SEGLOG_SEGMENTS_AT_ONCE) {
        uint32_t end = base_min(begin + SEGLOG_SEGMENTS_AT_ONCE, seglog_segment_count(log));
        base_spin_lock(&log->lock);
        for (uint32_t i = begin; i < end; i++)
            look_at(log, i, &oldest);
        base_spin_unlock(&log->lock);
    }
    *ret_segment = oldest.segment;
    if (oldest.segment != SEGLOG_NO_SEGMENT)
        return 0;
    return oldest.pinned ? -EAGAIN : -ENOSPC;
}

/* End open segments with records below a sequence, unless reservations count on them. @return how many; or an
 * error */
static int end_open_segments(struct seglog *log, uint64_t below_sequence)
{
    int ended = 0;
    for (uint32_t i = 0; i < log->stream_count; i++) {
        struct seglog_stream *stream = &log->streams[i];
        base_spin_lock(&stream->lock);
        bool ends = stream->open_summary != NULL &&
                    log->segments[stream->open_summary->segment].lowest_sequence < below_sequence;
        base_spin_unlock(&stream->lock);
        int error = ends ? seglog_stream_end_segment(stream, true) : -EBUSY;
        if (error != 0 && error != -EBUSY)
            return error;
        ended += error == 0;
    }
    int error = ended > 0 ? seglog_close_segments(log) : 0;
    return error == 0 ? ended : error;
}

/*
 * The sequences of a segment shall be near to each other: what lies below the horizon in a segment that is
 * not evicted is lost in a crash. So those that fill slowly do not stay open for long, and one that is older
 * than all that are closed comes first.
 */
static uint64_t age_limit(struct seglog *log, uint32_t victim)
{
    uint64_t parts = base_max(seglog_segment_count(log) / SEGMENTS_OF_A_PART, 1U);
    uint64_t next = seglog_sequence_next(log);
    base_spin_lock(&log->lock);
    uint64_t horizon = base_max(log->horizon_sequence, log->segments[victim].highest_sequence + 1);
    base_spin_unlock(&log->lock);
    return horizon >= next ? horizon : next - (next - horizon) / base_min(parts, (uint64_t)AGE_PARTS);
}

/* @return 0; -EAGAIN; -ENOSPC; -EIO; -EROFS */
static int choose(struct seglog *log, uint32_t *ret_segment)
{
    int error = choose_closed(log, ret_segment);
    if (error != 0)
        return error;
    int ended = end_open_segments(log, age_limit(log, *ret_segment));
    return ended > 0 ? choose_closed(log, ret_segment) : ended;
}

/* ---- writing again --------------------------------------------------------------------------------- */

/* seglog_move_wants() of a victim: what was hit, as long as its share lasts. */
static bool wants(struct seglog *log, struct seglog_collector *collector,
                  const struct seglog_entry_format *entry, uint64_t grain, enum seglog_move_kind *ret_kind)
{
    *ret_kind = SEGLOG_MOVE_VALUE;
    return collector->share_bytes > 0 && (entry->kind & SEGLOG_KIND_MASK) == SEGLOG_VALUE &&
           log->ops->judge(log->owner, entry, grain) == SEGLOG_HIT;
}

/* Append one, whose key is locked. @return 0; -ENOSPC (no segment for it); -EIO; -EROFS */
static int append_renewal(struct seglog *log, struct seglog_move *move,
                          const struct seglog_record_format *header, const uint8_t *record)
{
    struct seglog_draft draft = seglog_move_draft(move, header, record);
    int error = seglog_sequence_draw(log, &draft.sequence);
    draft.superseded = move->grain;
    if (error == 0)
        error = seglog_append_to(&log->streams[SEGLOG_RELOCATION], 0, &draft, 1, &move->place);
    if (error == 0)
        atomic_fetch_add_explicit(&log->moved_bytes, seglog_padded(log, move->place.bytes),
                                  memory_order_relaxed);
    return error;
}

/*
 * Write one of the planned again, if it can be had. What cannot be read is evicted like the rest.
 *
 * @param ret_appended  whether it has a place now, and its key is locked
 */
static int begin_renewal(struct seglog *log, struct seglog_collector *collector, uint64_t window_begin,
                         struct seglog_move *move, bool *ret_appended)
{
    struct seglog_record_format header;
    uint64_t footprint = seglog_footprint(log, move->entry.bytes);
    *ret_appended = false;
    if (footprint > collector->share_bytes) {
        collector->share_bytes = 0;
        return 0;
    }
    const uint8_t *record = seglog_move_record(log, collector, window_begin, move, &header);
    if (record == NULL)
        return 0;
    if (!log->ops->renew(log->owner, &move->entry, move->grain)) {
        collector->refused++;
        return 0;
    }
    int error = append_renewal(log, move, &header, record);
    if (error == 0) {
        collector->share_bytes -= footprint;
        *ret_appended = true;
        return 0;
    }
    log->ops->renewed(log->owner, &move->entry, move->grain, NULL);
    if (error == -ENOSPC) /* others have reserved what is free */
        collector->share_bytes = 0;
    return error == -ENOSPC ? 0 : error;
}

/* Wait for what was appended, and publish it. */
static int end_renewals(struct seglog *log, const struct seglog_move *moves, uint32_t count, int error)
{
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = seglog_wait(log, &moves[i].place);
    for (uint32_t i = 0; i < count; i++) {
        const struct seglog_move *move = &moves[i];
        log->ops->renewed(log->owner, &move->entry, move->grain, error == 0 ? &move->place : NULL);
        if (error == 0)
            seglog_live_moved(log, move->grain, move->entry.bytes);
        seglog_settle(log, &move->place, error == 0);
    }
    return error;
}

/* Read what is planned, and write it again, some at once. */
static int renew_window(struct seglog *log, struct seglog_collector *collector, uint64_t begin, uint64_t end)
{
    struct seglog_move *planned = &collector->moves[collector->count];
    /* what cannot be read in one piece is read record by record */
    (void)!drive_read(log->drive, begin, collector->window, end - begin);
    int error = 0;
    for (uint32_t next = 0; error == 0 && next < collector->planned;) {
        uint32_t first = next, count = 0;
        for (; error == 0 && count < RENEWALS_AT_ONCE && next < collector->planned; next++) {
            struct seglog_move move = planned[next]; /* its slot, or one before it, is used again */
            bool appended;
            error = begin_renewal(log, collector, begin, &move, &appended);
            if (appended)
                planned[first + count++] = move;
        }
        error = end_renewals(log, &planned[first], count, error);
    }
    return error;
}

static int pass_over(struct seglog *log, struct seglog_collector *collector, uint32_t segment,
                     const struct seglog_entry_format *entries, uint32_t count)
{
    int error = 0;
    collector->refused = 0;
    for (uint32_t next = 0; error == 0 && next < count;) {
        uint64_t begin, end;
        next = seglog_move_plan(log, collector, segment, entries, count, next, wants, &begin, &end);
        if (collector->planned > 0)
            error = renew_window(log, collector, begin, end);
        if (error == 0 && task_worker_stops(&log->service.worker))
            error = -ECANCELED;
        if (error == 0 && !seglog_service_chores(log))
            error = -EROFS;
    }
    return error;
}

static int renew_hits(struct seglog *log, struct seglog_collector *collector, uint32_t segment,
                      const struct seglog_entry_format *entries, uint32_t count)
{
    collector->share_bytes = seglog_record_space(log) / SHARE_PARTS;
    int error = pass_over(log, collector, segment, entries, count);
    for (int pass = 1; error == 0 && collector->refused > 0 && pass < RENEWAL_PASSES; pass++)
        error = pass_over(log, collector, segment, entries, count);
    return error;
}

/* ---- the victim ------------------------------------------------------------------------------------ */

/* One durable write says that the segment is freed, and that what is not above it is gone. */
static int mark(struct seglog *log, uint32_t number)
{
    struct seglog_segment *segment = &log->segments[number];
    base_spin_lock(&log->lock);
    log->horizon_sequence = base_max(log->horizon_sequence, segment->highest_sequence + 1);
    segment->state = SEGLOG_STATE_EVICTED;
    base_spin_unlock(&log->lock);
    return seglog_state_write(log, NULL);
}

/* Now that nobody can see them again, whatever happens, nobody shall see them any more. */
static void drop_records(struct seglog *log, uint32_t segment, const struct seglog_entry_format *entries,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if ((entries[i].kind & SEGLOG_KIND_MASK) == SEGLOG_VALUE)
            log->ops->evicted(log->owner, &entries[i], seglog_entry_grain(log, segment, &entries[i]));
        if (i % DROPS_AT_ONCE == DROPS_AT_ONCE - 1)
            task_yield();
    }
}

static void give_back(struct seglog *log, uint32_t number)
{
    struct seglog_segment *segment = &log->segments[number];
    base_spin_lock(&log->lock);
    seglog_live_reset(log, segment);
    atomic_store(&log->pinned_below, 0); /* its reader has to do without it */
    seglog_segment_freed_locked(log, segment);
    base_spin_unlock(&log->lock);
    atomic_fetch_add_explicit(&log->collections, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&log->evictions, 1, memory_order_relaxed);
    seglog_space_freed(log);
}

int seglog_evict_segment(struct seglog *log, uint32_t segment)
{
    struct seglog_collector *collector = log->collector;
    const struct seglog_entry_format *entries;
    uint32_t count;
    seglog_victim_set_state(log, segment, SEGLOG_STATE_COLLECTING);
    if (seglog_summary_read(log, segment, collector->summary, &entries, &count) != 0) {
        if (!log->segments[segment].damaged) /* else the scrubber has said so */
            base_error(&log->node->log, "a segment cannot be evicted: its space is lost",
                       "path=%s segment=%" PRIu32 " why=\"its summary cannot be read\"",
                       drive_name(log->drive), segment);
        seglog_victim_set_state(log, segment, SEGLOG_STATE_BAD);
        return 0;
    }
    int error = renew_hits(log, collector, segment, entries, count);
    if (error == 0)
        error = seglog_sync(log); /* what was written again, and whatever made the rest dead */
    if (error != 0) {
        seglog_victim_set_state(log, segment, SEGLOG_STATE_CLOSED);
        return error;
    }
    error = mark(log, segment);
    if (error != 0)
        return error; /* the next opening sees whether it is freed */
    drop_records(log, segment, entries, count);
    give_back(log, segment);
    return 0;
}

int seglog_evict_oldest(struct seglog *log)
{
    uint32_t segment;
    int error = choose(log, &segment);
    return error == 0 ? seglog_evict_segment(log, segment) : error;
}

/* ---- on demand ------------------------------------------------------------------------------------- */

int seglog_evict(struct seglog *log)
{
    struct task_wait wait;
    base_assert(log->cache && !seglog_service_is_self(log));
    base_spin_lock(&log->lock);
    bool failed = seglog_failed(log); /* seglog_wake_all() comes with the lock, after that was set */
    if (!failed) {
        task_wait_init(&wait);
        base_list_push_back(&log->evict_waiters, &wait.link);
    }
    base_spin_unlock(&log->lock);
    if (failed)
        return -EROFS;
    seglog_poke(log);
    return task_wait_park_firmly(&wait);
}

void seglog_evict_for_waiters(struct seglog *log)
{
    struct base_list waiters;
    base_list_init(&waiters);
    base_spin_lock(&log->lock);
    base_list_move_all(&waiters, &log->evict_waiters);
    base_spin_unlock(&log->lock);
    if (base_list_empty(&waiters))
        return;
    int error = seglog_evict_oldest(log);
    if (error == -ENOSPC) { /* all that there is lies in open segments */
        int ended = end_open_segments(log, UINT64_MAX);
        error = ended < 0 ? ended : -ENOSPC;
        if (ended > 0)
            error = seglog_evict_oldest(log);
    }
    struct base_list *first;
    while ((first = base_list_pop_front(&waiters)) != NULL)
        base_assert(task_wait_wake(base_container_of(first, struct task_wait, link), error));
}
