/* Proving the segments: each header and summary, and every record whole. */
#include "depot/check/check_internal.h"
#include <errno.h>
#include <inttypes.h>

/* The ends of a segment, as they are on the drive. */
struct frame {
    uint32_t segment;
    bool header_good;
    bool summary_good;
    struct seglog_segment_format header;
    struct seglog_trailer_format trailer;
};

struct segments {
    struct depot_check *check;
    uint8_t *block;   /* block_bytes */
    uint8_t *summary; /* summary_bytes */
    uint64_t summary_bytes;
    uint32_t segment; /* whose records are looked at */
    bool sealed;      /* a recovery has decided what is in it */
    /* the batch of which a record was met, and its last one not yet */
    struct seglog_batch_format batch; /* id 0: none; number: of the next record */
    uint64_t batch_grain;             /* where that is */
    bool batch_damaged;               /* its other records are not where they are looked for */
};

/* ---- reading a frame -------------------------------------------------------------------------------- */

static uint64_t segment_offset(const struct depot_check *check, uint32_t segment)
{
    return check->superblock->data_offset + segment * check->superblock->segment_bytes;
}

static int read_header(struct segments *segments, struct frame *frame)
{
    struct depot_check *check = segments->check;
    int error = depot_check_read(check, segment_offset(check, frame->segment), segments->block,
                                 check->superblock->block_bytes);
    frame->header_good = error == 0 && seglog_segment_parse(segments->block, check->superblock->check_seed,
                                                            frame->segment, &frame->header) == 0;
    return error;
}

/* The summary that lies there, whatever its stamp. */
static int read_summary(struct segments *segments, struct frame *frame)
{
    struct depot_check *check = segments->check;
    const struct seglog_superblock_format *superblock = check->superblock;
    uint64_t end = segment_offset(check, frame->segment) + superblock->segment_bytes;
    int error =
        depot_check_read(check, end - superblock->block_bytes, segments->block, superblock->block_bytes);
    if (error != 0)
        return error;
    const uint8_t *bytes = segments->block + superblock->block_bytes - sizeof(frame->trailer);
    uint64_t stamp = base_load_le64(bytes + offsetof(struct seglog_trailer_format, stamp));
    if (seglog_trailer_parse(bytes, superblock, stamp, &frame->trailer) != 0)
        return 0;
    uint64_t summary_bytes = seglog_summary_bytes(frame->trailer.entries, superblock->block_bytes);
    for (unsigned reading = 0; error == 0 && !frame->summary_good && reading < SEGLOG_READ_TRIES; reading++) {
        error = drive_read(check->drive, end - summary_bytes, segments->summary, summary_bytes);
        check->report.bytes_read += summary_bytes;
        frame->summary_good =
            error == 0 && seglog_summary_verify(segments->summary, &frame->trailer, superblock) == 0;
    }
    return error;
}

/* ---- what it proves --------------------------------------------------------------------------------- */

/* That stamps differ and were issued is proven by the opening of the log. */
static void check_header(struct depot_check *check, const struct frame *frame)
{
    const struct seglog_segment_format *header = &frame->header;
    if (header->session == 0 || header->session > check->state->session)
        depot_check_fault(check, DEPOT_INVARIANT_SESSION,
                          "segment %" PRIu32 " is of session %" PRIu64 ", which has not begun",
                          frame->segment, header->session);
    if (header->first_sequence > check->state->sequence_bound)
        depot_check_fault(check, DEPOT_INVARIANT_SEQUENCE,
                          "segment %" PRIu32 " begins with sequence %" PRIu64 ", which was never issued",
                          frame->segment, header->first_sequence);
}

/* A summary is durable before the session ends in good order, and before the next one begins. */
static void check_summary(struct depot_check *check, const struct frame *frame)
{
    const struct seglog_trailer_format *trailer = &frame->trailer;
    if (!frame->summary_good || trailer->stamp != frame->header.stamp) {
        bool proven =
            (check->state->flags & SEGLOG_STATE_ENDED) != 0 || frame->header.session < check->state->session;
        check->report.segments_unsealed++;
        if (proven)
            depot_check_fault(check, DEPOT_INVARIANT_SUMMARY, "the summary of segment %" PRIu32 " is damaged",
                              frame->segment);
        return;
    }
    bool sealed = (trailer->flags & SEGLOG_SUMMARY_SEALED) != 0;
    if (trailer->session < frame->header.session || trailer->session > check->state->session + 1 ||
        sealed != (trailer->session > frame->header.session))
        depot_check_fault(check, DEPOT_INVARIANT_SUMMARY,
                          "the summary of segment %" PRIu32 " is of session %" PRIu64
                          ", its header of %" PRIu64,
                          frame->segment, trailer->session, frame->header.session);
}

/*
 * A header that is none, and no summary either. The log may know the segment all the same, by the copy of the header
 * that an open segment has at its end. If nothing in it was acknowledged, the header's write was cut off.
 */
static uint64_t check_without_frame(struct depot_check *check, const struct frame *frame)
{
    struct seglog_segment_info info;
    seglog_segment_info(check->log, frame->segment, &info);
    if (info.stamp <= check->state->freed_stamps[frame->segment]) {
        check->report.segments_free++;
        return 0;
    }
    check->report.segments_unsealed++;
    if (info.headerless)
        depot_check_fault(check, DEPOT_INVARIANT_HEADER,
                          "segment %" PRIu32 " is known under stamp %" PRIu64
                          ", but has no header of that stamp",
                          frame->segment, info.stamp);
    return info.stamp;
}

/* @return the stamp under which its records count; 0: there are none */
static uint64_t check_frame(struct depot_check *check, const struct frame *frame)
{
    uint64_t freed_stamp = check->state->freed_stamps[frame->segment];
    uint64_t header_stamp = frame->header_good ? frame->header.stamp : 0;
    if (frame->summary_good && frame->trailer.stamp > base_max(freed_stamp, header_stamp)) {
        depot_check_fault(check, DEPOT_INVARIANT_HEADER,
                          "segment %" PRIu32 " has a summary of stamp %" PRIu64
                          ", but no header of that stamp",
                          frame->segment, frame->trailer.stamp);
        return frame->trailer.stamp;
    }
    if (header_stamp <= freed_stamp)
        return check_without_frame(check, frame);
    check_header(check, frame);
    if (frame->header.kind != SEGLOG_SEGMENT_RECORDS)
        return 0;
    check_summary(check, frame);
    return header_stamp;
}

/* ---- records ---------------------------------------------------------------------------------------- */

static void check_numbers(struct depot_check *check, uint64_t grain, const struct seglog_entry_format *entry,
                          const struct seglog_record_format *header, const uint8_t *key)
{
    const struct seglog_superblock_format *superblock = check->superblock;
    bool tombstone = (header->kind & SEGLOG_KIND_MASK) == SEGLOG_TOMBSTONE;
    if (tombstone != (header->version == 0))
        depot_check_fault(check, DEPOT_INVARIANT_VERSION, "the %s at grain %" PRIu64 " has version %" PRIu64,
                          tombstone ? "tombstone" : "value", grain, header->version);
    uint64_t birth = tombstone ? base_load_le64(key + header->key_bytes) : 0;
    if (birth >= check->state->stamp_bound)
        depot_check_fault(check, DEPOT_INVARIANT_VERSION,
                          "the tombstone at grain %" PRIu64 " was born at stamp %" PRIu64
                          ", which was never issued",
                          grain, birth);
    if ((entry->kind & SEGLOG_MARKS_PIECES) != 0) {
        if (entry->superseded == 0 || entry->superseded >= header->sequence)
            depot_check_fault(check, DEPOT_INVARIANT_PIECES,
                              "the record at grain %" PRIu64 " is of value %" PRIu64 ", which began later",
                              grain, entry->superseded);
        return;
    }
    bool inside = entry->superseded >= superblock->data_offset / superblock->grain_bytes &&
                  entry->superseded < superblock->store_bytes / superblock->grain_bytes;
    if (entry->superseded != 0 && !inside)
        depot_check_fault(check, DEPOT_INVARIANT_SUPERSEDED,
                          "the record at grain %" PRIu64 " superseded one at %" PRIu64
                          ", which is no record's place",
                          grain, entry->superseded);
}

/* The batch that was being met ends before its last record. */
static void end_batch(struct segments *segments)
{
    if (segments->batch.id != 0)
        depot_check_fault(segments->check, DEPOT_INVARIANT_BATCH,
                          "batch %" PRIu64 " in segment %" PRIu32 " has no record %" PRIu32,
                          segments->batch.id, segments->segment, segments->batch.number);
    segments->batch.id = 0;
    segments->batch_damaged = false;
}

/* Of a batch all records stand one behind the other, and the last one says how many; where a recovery has decided,
 * some of them may have been damaged, and that is told otherwise. */
static void check_batch(struct segments *segments, const struct seglog_entry_format *entry, uint64_t grain,
                        const struct seglog_record_format *header, const uint8_t *record)
{
    struct seglog_batch_format batch;
    if (segments->sealed)
        return;
    if ((header->kind & SEGLOG_MARKS_BATCH) == 0) {
        end_batch(segments);
        return;
    }
    memcpy(&batch, record + sizeof(*header), sizeof(batch));
    if (batch.number == 0) {
        end_batch(segments);
        segments->batch = (struct seglog_batch_format){.id = header->sequence};
        segments->batch_grain = grain;
    } else if (segments->batch_damaged) {
        return;
    }
    bool last = (header->kind & SEGLOG_MARK_COMMIT) != 0;
    bool right = segments->batch.id == batch.id && segments->batch.number == batch.number &&
                 segments->batch_grain == grain && batch.count == (last ? batch.number + 1 : 0);
    if (!right)
        depot_check_fault(segments->check, DEPOT_INVARIANT_BATCH,
                          "the record at grain %" PRIu64 " is not in its place of batch %" PRIu64, grain,
                          batch.id);
    const uint32_t grain_bytes = segments->check->superblock->grain_bytes;
    segments->batch.id = right && !last ? batch.id : 0;
    segments->batch.number = batch.number + 1;
    segments->batch_grain = grain + base_align_up(entry->bytes, grain_bytes) / grain_bytes;
}

static void check_record(void *arg, const struct seglog_entry_format *entry, uint64_t grain, int error,
                         const struct seglog_record_format *header, const uint8_t *record)
{
    struct segments *segments = arg;
    struct depot_check *check = segments->check;
    check->entries++;
    if (error != 0) {
        segments->batch.id = 0; /* that is told already */
        segments->batch_damaged = true;
        depot_check_fault(check, DEPOT_INVARIANT_RECORD,
                          "the record at grain %" PRIu64 ", in segment %" PRIu32 ", is damaged", grain,
                          segments->segment);
        return;
    }
    const uint8_t *key = record + sizeof(*header) + seglog_extension_bytes(header->kind);
    check_numbers(check, grain, entry, header, key);
    check_batch(segments, entry, grain, header, record);
}

/* ---- all of them ------------------------------------------------------------------------------------ */

/* The log, too, says when a frame is damaged: that was told already. */
static int check_segment(struct segments *segments, uint32_t segment)
{
    struct depot_check *check = segments->check;
    struct frame frame = {.segment = segment};
    int error = read_header(segments, &frame);
    if (error == 0)
        error = read_summary(segments, &frame);
    if (error != 0)
        return error;
    check->stamps[segment] = check_frame(check, &frame);
    if (check->stamps[segment] == 0)
        return 0;
    segments->segment = segment;
    struct seglog_segment_info info;
    seglog_segment_info(check->log, segment, &info);
    segments->sealed = info.sealed;
    check->report.bytes_read += check->superblock->segment_bytes;
    error = seglog_check_segment(check->log, segment, check_record, segments);
    end_batch(segments);
    return error == -EUCLEAN ? 0 : error;
}

static int check_each(struct segments *segments)
{
    struct depot_check *check = segments->check;
    const uint32_t count = check->superblock->segment_count;
    int error = 0;
    check->report.segments = count;
    for (uint32_t segment = 0; error == 0 && segment < count; segment++) {
        error = check_segment(segments, segment);
        if (check->progress != NULL)
            check->progress(check->arg, (segment + 1) * check->superblock->segment_bytes,
                            count * check->superblock->segment_bytes);
    }
    return error;
}

int depot_check_segments(struct depot_check *check)
{
    const struct seglog_superblock_format *superblock = check->superblock;
    struct base_account *account = &check->node->memory;
    struct segments segments = {.check = check};
    segments.summary_bytes = seglog_summary_bytes(seglog_entries_max(superblock), superblock->block_bytes);
    segments.block = drive_memory_alloc(check->node, check->drive, superblock->block_bytes);
    segments.summary = drive_memory_alloc(check->node, check->drive, segments.summary_bytes);
    int error = segments.block == NULL || segments.summary == NULL ? -ENOMEM : check_each(&segments);
    base_free(account, segments.block, superblock->block_bytes);
    base_free(account, segments.summary, segments.summary_bytes);
    return error;
}
