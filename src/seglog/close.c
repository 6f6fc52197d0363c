/*
 * Closing segments: the summary of one that has ended is written when everything else in it is durable, so
 * that a valid summary proves the whole segment.
 */
#include "seglog/seglog_internal.h"
#include <errno.h>

/* ---- when it expires ----------------------------------------------------------------------------- */

#define ENDS_BUCKETS 64

static uint64_t entry_expiry(const struct seglog_entry_format *entry)
{
    return (entry->kind & SEGLOG_KIND_MASK) == SEGLOG_VALUE ? seglog_expiry_ns(entry->expiry) : 0;
}

/*
 * In two passes: the range of all moments, then footprints by parts of it. A part counts as expired when it
 * has ended.
 */
void seglog_segment_note_ends(struct seglog *log, struct seglog_segment *segment,
                              const struct seglog_entry_format *entries, uint32_t count)
{
    uint64_t first_ns = UINT64_MAX, last_ns = 0, all_bytes = 0, ended_bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t expiry_ns = entry_expiry(&entries[i]);
        all_bytes += seglog_footprint(log, entries[i].bytes);
        if (expiry_ns != 0) {
            first_ns = base_min(first_ns, expiry_ns);
            last_ns = base_max(last_ns, expiry_ns);
        }
    }
    uint64_t buckets[ENDS_BUCKETS] = {0};
    uint64_t width_ns = last_ns == 0 ? 1 : (last_ns - first_ns) / ENDS_BUCKETS + 1;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t expiry_ns = entry_expiry(&entries[i]);
        if (expiry_ns != 0)
            buckets[(expiry_ns - first_ns) / width_ns] += seglog_footprint(log, entries[i].bytes);
    }
    for (uint32_t part = 0; part < SEGLOG_ENDS; part++)
        segment->ends_ns[part] = UINT64_MAX;
    uint32_t part = 0;
    for (uint32_t bucket = 0; bucket < ENDS_BUCKETS; bucket++) {
        ended_bytes += buckets[bucket];
        while (part < SEGLOG_ENDS && ended_bytes * SEGLOG_ENDS >= all_bytes * (part + 1) && ended_bytes > 0)
            segment->ends_ns[part++] = first_ns + (bucket + 1) * width_ns;
    }
    segment->ends_known = true;
}

/* ---- memory of summaries ------------------------------------------------------------------------- */

void seglog_summary_give(struct seglog *log, struct seglog_summary *summary)
{
    base_spin_lock(&log->lock);
    summary->segment = SEGLOG_NO_SEGMENT;
    summary->count = 0;
    struct base_list *first = base_list_pop_front(&log->summary_waiters);
    base_list_push_back(&log->summaries_free, &summary->link);
    if (first != NULL)
        base_assert(task_wait_wake(base_container_of(first, struct task_wait, link), 0));
    base_spin_unlock(&log->lock);
}

int seglog_summary_take(struct seglog *log, struct seglog_summary **ret_summary)
{
    for (;;) {
        struct task_wait wait;
        base_spin_lock(&log->lock);
        struct base_list *first = base_list_pop_front(&log->summaries_free);
        bool closable = !base_list_empty(&log->closing);
        bool waits = first == NULL && !closable && !seglog_failed(log);
        if (waits) { /* all that are not of open segments are being written by others */
            task_wait_init(&wait);
            base_list_push_back(&log->summary_waiters, &wait.link);
        }
        base_spin_unlock(&log->lock);
        if (first != NULL) {
            *ret_summary = base_container_of(first, struct seglog_summary, link);
            return 0;
        }
        int error = 0;
        if (waits)
            error = task_wait_park_firmly(&wait);
        else
            error = closable ? seglog_close_segments(log) : -EROFS;
        if (error != 0)
            return -EROFS;
    }
}

/* ---- closing ------------------------------------------------------------------------------------- */

void seglog_segment_ended(struct seglog_stream *stream)
{
    struct seglog *log = stream->log;
    struct seglog_summary *summary = stream->open_summary;
    if (summary == NULL)
        return;
    base_assert(stream->tail_position == stream->head_position);
    struct seglog_segment *segment = &log->segments[summary->segment];
    stream->open_summary = NULL;
    /* relaxed: a caller that still sees the stream finds under its lock that the segment is not open */
    atomic_store_explicit(&segment->open_stream, 0, memory_order_relaxed);
    base_spin_lock(&log->lock);
    segment->state = SEGLOG_STATE_CLOSING;
    segment->stream = stream->number;
    base_list_push_back(&log->closing, &summary->link);
    base_spin_unlock(&log->lock);
    seglog_poke(log);
}

static void note_closed(struct seglog *log, const struct seglog_summary *summary,
                        const struct seglog_trailer_format *trailer)
{
    struct seglog_segment *segment = &log->segments[summary->segment];
    seglog_segment_note_ends(log, segment, (const void *)summary->memory, summary->count);
    base_spin_lock(&log->lock);
    segment->entry_count = trailer->entries;
    segment->end = trailer->end;
    segment->highest_sequence = trailer->highest_sequence;
    segment->state = SEGLOG_STATE_CLOSED;
    base_spin_unlock(&log->lock);
}

static int close_segment(struct seglog *log, struct seglog_summary *summary)
{
    const struct seglog_superblock_format *superblock = &log->superblock;
    struct seglog_trailer_format trailer = {
        .stamp = log->segments[summary->segment].stamp,
        .session = log->session,
        .entries = summary->count,
        .end = summary->end,
    };
    uint64_t bytes = seglog_summary_bytes(summary->count, superblock->block_bytes);
    uint64_t offset = seglog_segment_offset(log, summary->segment) + superblock->segment_bytes - bytes;
    seglog_summary_seal(summary->memory, &trailer, superblock);
    int error = drive_write(log->drive, offset, summary->memory, bytes, true);
    seglog_count_write(log, bytes);
    if (error != 0) {
        seglog_fail(log, "a summary", offset, error);
        return -EIO;
    }
    note_closed(log, summary, &trailer);
    seglog_summary_give(log, summary);
    seglog_space_chance(log);
    return 0;
}

int seglog_close_segments(struct seglog *log)
{
    struct base_list claimed;
    base_list_init(&claimed);
    if (seglog_failed(log))
        return -EROFS;
    base_spin_lock(&log->lock);
    base_list_move_all(&claimed, &log->closing);
    base_spin_unlock(&log->lock);
    if (base_list_empty(&claimed))
        return 0;
    int error = seglog_flush_behind(log);
    struct base_list *first;
    while ((first = base_list_pop_front(&claimed)) != NULL) {
        if (error == 0)
            error = close_segment(log, base_container_of(first, struct seglog_summary, link));
    }
    return error;
}
