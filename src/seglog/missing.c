/*
 * Recovery: what is missing. Segments that a checkpoint or the state of a good end knows of, and that neither header nor
 * end tells of; acknowledged records of which nobody can tell the keys.
 */
#include "seglog/scan_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define BOTH_DAMAGED "the header and the end of a segment are both damaged"

static bool may_lack_records(const struct seglog *log)
{
    return log->cache || log->serve_damaged;
}

int seglog_loss_note(struct seglog *log, uint32_t segment, uint64_t below_sequence, const char *why)
{
    char where[32] = "unknown";
    if (segment != SEGLOG_NO_SEGMENT)
        (void)snprintf(where, sizeof(where), "%" PRIu32, segment);
    const char *what =
        "acknowledged records are missing, so the store is not opened: restore it from a dump; or "
        "open it with --damaged=serve, and keys that may be among them answer with an error; or "
        "give them up with tarn check --repair";
    if (log->cache)
        what = "acknowledged records are missing: all that the cache holds is given up";
    else if (log->serve_damaged)
        what = "acknowledged records are missing: keys that may be among them answer with an error";
    base_error(&log->node->log, what, "path=%s segment=%s why=\"%s\"", drive_name(log->drive), where, why);
    if (!may_lack_records(log))
        return -EUCLEAN;
    atomic_store_explicit(&log->loss_sequence, base_max(seglog_loss_sequence(log), below_sequence),
                          memory_order_relaxed);
    log->summaries_unsure++;
    return 0;
}

struct seglog_segment_format scan_missing_header(const struct seglog *log, uint32_t number)
{
    return (struct seglog_segment_format){.kind = SEGLOG_SEGMENT_RECORDS,
                                          .stamp = log->checkpoints.covers[number].stamp,
                                          .segment = number,
                                          .session = log->state->session,
                                          .stream = SEGLOG_NO_STREAM};
}

/*
 * A checkpoint knows a segment under a stamp that was not freed, and neither header nor end tells of it. With the
 * stamp its records can be read all the same; whether they are all of them, recover_unproven() sees.
 */
static int check_covered(struct scan_recovery *recovery)
{
    struct seglog *log = recovery->log;
    int error = 0;
    for (uint32_t i = 0; error == 0 && i < log->superblock.segment_count; i++) {
        if (!log->segments[i].missing)
            continue;
        const struct seglog_segment_format header = scan_missing_header(log, i);
        base_error(&log->node->log, "a segment is missing: its header and its end are both damaged",
                   "path=%s segment=%" PRIu32 " stamp=%" PRIu64, drive_name(log->drive), i, header.stamp);
        error = may_lack_records(log) ? scan_take_headerless(recovery, i, &header)
                                      : seglog_loss_note(log, i, log->state->sequence_bound, BOTH_DAMAGED);
    }
    return error;
}

/* The last session told at its good end which segments it left. */
static int check_closed(struct scan_recovery *recovery)
{
    struct seglog *log = recovery->log;
    const struct seglog_state_format *state = log->state;
    uint64_t stamps = 0;
    uint32_t count = 0;
    if (state->closed_count == 0 || (state->flags & SEGLOG_STATE_ENDED) == 0)
        return 0;
    for (uint32_t i = 0; i < log->superblock.segment_count; i++) {
        const struct seglog_segment *segment = &log->segments[i];
        bool there = segment->state == SEGLOG_STATE_CLOSED;
        count += there;
        stamps += there ? segment->stamp : 0;
    }
    uint32_t missing = state->closed_count - 1 - count;
    if (missing == 0 || missing > state->closed_count)
        return 0;
    if (missing == 1)
        base_error(&log->node->log, "a segment is missing: its header and its end are both damaged",
                   "path=%s stamp=%" PRIu64, drive_name(log->drive), state->closed_stamps - stamps);
    else
        base_error(&log->node->log, "segments are missing: their headers and their ends are both damaged",
                   "path=%s segments=%" PRIu32, drive_name(log->drive), missing);
    return seglog_loss_note(log, SEGLOG_NO_SEGMENT, state->sequence_bound, BOTH_DAMAGED);
}

int scan_check_missing(struct scan_recovery *recovery)
{
    struct seglog *log = recovery->log;
    const struct seglog_state_format *state = log->state;
    int error = state->loss_sequence <= base_max(state->flush_sequence, state->horizon_sequence)
                    ? 0
                    : seglog_loss_note(log, SEGLOG_NO_SEGMENT, state->loss_sequence,
                                       "an earlier opening has found it");
    if (error == 0)
        error = check_covered(recovery);
    return error == 0 ? check_closed(recovery) : error;
}
