/*
 * The moment that a checkpoint is about: a place in every stream, such that everything before it is settled
 * when the checkpoint begins to be written, and everything behind it is replayed. README, "Checkpoints".
 */
#include "seglog/checkpoint_internal.h"
#include "seglog/collect_internal.h"
#include <errno.h>

/* ---- the cut --------------------------------------------------------------------------------------- */

/* All streams at once: a writer that has seen a record settled, and appends then, is not before a cut that the
 * record is behind. */
static void cut_streams(struct seglog *log)
{
    struct seglog_checkpoints *checkpoints = &log->checkpoints;
    for (uint32_t i = 0; i < log->stream_count; i++)
        base_spin_lock(&log->streams[i].lock);
    checkpoints->cut_number++;
    for (uint32_t i = 0; i < log->stream_count; i++) {
        struct seglog_stream *stream = &log->streams[i];
        bool open = stream->open_summary != NULL;
        checkpoints->cut_segments[i] = open ? stream->open_summary->segment : SEGLOG_NO_SEGMENT;
        checkpoints->cut_grains[i] =
            (uint32_t)((stream->head_position - stream->segment_position) >> log->grain_shift);
        stream->cut_phase = !stream->cut_phase;
    }
    for (uint32_t i = log->stream_count; i-- > 0;)
        base_spin_unlock(&log->streams[i].lock);
}

static bool is_drained(const struct seglog *log)
{
    uint32_t unsettled = 0;
    for (uint32_t i = 0; i < log->stream_count; i++) {
        const struct seglog_stream *stream = &log->streams[i];
        /* Pairs with the subtraction in seglog_settle(): what was settled is published; and either this sees
         * it, or the service is poked. */
        unsettled += atomic_load(&stream->unsettled[!stream->cut_phase]);
    }
    return unsettled == 0;
}

/* ---- what is covered ------------------------------------------------------------------------------- */

static void cover(struct seglog_cover_format *cover, const struct seglog_segment *segment, uint32_t grain)
{
    bool proven = grain == SEGLOG_COVERED_WHOLLY && segment->state == SEGLOG_STATE_CLOSED;
    *cover = (struct seglog_cover_format){.stamp = segment->stamp, .grain = grain};
    if (!proven)
        return;
    uint64_t tombstone_bytes = atomic_load_explicit(&segment->tombstone_bytes, memory_order_relaxed);
    cover->flags = SEGLOG_COVER_PROVEN | (segment->sealed ? SEGLOG_COVER_SEALED : 0U);
    cover->entries = segment->entry_count;
    cover->end = segment->end;
    cover->highest_sequence = segment->highest_sequence;
    cover->lowest_sequence = segment->lowest_sequence;
    cover->tombstone_bytes = tombstone_bytes > UINT64_MAX / 2 ? 0 : tombstone_bytes;
}

static void cover_locked(struct seglog *log, uint32_t number)
{
    base_spin_assert_held(&log->lock);
    const struct seglog_checkpoints *checkpoints = &log->checkpoints;
    const struct seglog_segment *segment = &log->segments[number];
    checkpoints->covers[number] = (struct seglog_cover_format){.stamp = 0};
    switch (segment->state) {
    case SEGLOG_STATE_CLOSING:
    case SEGLOG_STATE_CLOSED:
    case SEGLOG_STATE_COLLECTING:
    case SEGLOG_STATE_BAD:
        if (segment->cut_number != checkpoints->cut_number)
            cover(&checkpoints->covers[number], segment, SEGLOG_COVERED_WHOLLY);
        break;
    default: /* what is open was cut, or begun since */
        break;
    }
}

/* After the cut, and before anything is collected. */
static void fill_covers(struct seglog *log)
{
    const struct seglog_checkpoints *checkpoints = &log->checkpoints;
    for (uint32_t begin = 0; begin < seglog_segment_count(log); begin += SEGLOG_SEGMENTS_AT_ONCE) {
        uint32_t end = base_min(begin + SEGLOG_SEGMENTS_AT_ONCE, seglog_segment_count(log));
        base_spin_lock(&log->lock);
        for (uint32_t i = begin; i < end; i++)
            cover_locked(log, i);
        base_spin_unlock(&log->lock);
    }
    for (uint32_t i = 0; i < log->stream_count; i++) {
        uint32_t number = checkpoints->cut_segments[i];
        if (number != SEGLOG_NO_SEGMENT) /* it may be closed by now: covered up to the cut all the same */
            cover(&checkpoints->covers[number], &log->segments[number], checkpoints->cut_grains[i]);
    }
}

/* ---- the checkpointer asks, the service makes it ---------------------------------------------------- */

bool seglog_cut_serve(struct seglog *log)
{
    struct seglog_checkpoints *checkpoints = &log->checkpoints;
    uint32_t cut = atomic_load(&checkpoints->cut);
    if (cut == SEGLOG_CUT_WANTED && seglog_failed(log)) { /* the caller that asked looks at that, too */
        atomic_store(&checkpoints->cut, SEGLOG_CUT_DONE);
        task_worker_poke(&checkpoints->worker);
        return false;
    }
    /* A copy that nobody wants and that has no tombstone yet would be covered as if it had. */
    if (cut == SEGLOG_CUT_WANTED && log->collector->unburied == 0) {
        cut_streams(log);
        cut = SEGLOG_CUT_DRAINING;
        atomic_store(&checkpoints->cut, cut);
    }
    if (cut != SEGLOG_CUT_DRAINING)
        return false;
    if (!is_drained(log))
        return true;
    fill_covers(log);
    atomic_store(&checkpoints->cut, SEGLOG_CUT_DONE);
    task_worker_poke(&checkpoints->worker);
    return false;
}

int seglog_cut(struct seglog *log)
{
    struct seglog_checkpoints *checkpoints = &log->checkpoints;
    atomic_store(&checkpoints->cut, SEGLOG_CUT_WANTED);
    seglog_poke(log);
    for (;;) {
        uint32_t cut = atomic_load(&checkpoints->cut);
        bool stops = task_worker_stops(&checkpoints->worker);
        /* one that was made is waited for: the service is at it */
        if (cut == SEGLOG_CUT_DONE ||
            (stops && cut == SEGLOG_CUT_WANTED &&
             atomic_compare_exchange_strong(&checkpoints->cut, &cut, SEGLOG_CUT_NONE))) {
            atomic_store(&checkpoints->cut, SEGLOG_CUT_NONE);
            return cut == SEGLOG_CUT_DONE && !seglog_failed(log) ? 0 : -ECANCELED;
        }
        task_worker_sleep_until(&checkpoints->worker, TASK_FOREVER);
    }
}

void seglog_cut_stopped(struct seglog *log)
{
    cut_streams(log);
    base_assert(is_drained(log));
    fill_covers(log);
}
