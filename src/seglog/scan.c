/*
 * Recovery: which segments are live, and what is in them. A segment is what its header says; a valid summary
 * proves all of it; the others are sealed (seal.c).
 */
#include "seglog/ahead_internal.h"
#include "seglog/checkpoint_internal.h"
#include "seglog/scan_internal.h"
#include <errno.h>
#include <inttypes.h>

int seglog_refuse_segment(struct seglog *log, uint32_t segment, const char *why, int error)
{
    base_error(&log->node->log, "a segment is not opened, and so the store is not, to lose nothing",
               "path=%s segment=%" PRIu32 " offset=%" PRIu64 " why=\"%s\" error=\"%s\"",
               drive_name(log->drive), segment, seglog_segment_offset(log, segment), why,
               strerrordesc_np(-error));
    return error;
}

int scan_refuse_memory(const struct seglog *log)
{
    base_error(&log->node->log, "there is too little memory to open the store", "path=%s",
               drive_name(log->drive));
    return -ENOMEM;
}

/* ---- summaries ----------------------------------------------------------------------------------- */

uint64_t seglog_summary_memory_bytes(const struct seglog *log)
{
    return seglog_summary_bytes(seglog_entries_max(&log->superblock), log->superblock.block_bytes);
}

static uint64_t trailer_stamp(const uint8_t *trailer)
{
    return base_load_le64(trailer + offsetof(struct seglog_trailer_format, stamp));
}

/*
 * Read a summary once.
 *
 * @param stamp           0: any
 * @param ret_trailer     magic 0: there is none
 * @param ret_read_bytes  of `memory`: what the verdict is about
 * @return 0; -EUCLEAN; the drive's error
 */
static int read_summary(struct seglog *log, uint32_t segment, uint64_t stamp, uint8_t *memory,
                        struct seglog_trailer_format *ret_trailer, uint64_t *ret_read_bytes)
{
    const struct seglog_superblock_format *superblock = &log->superblock;
    uint64_t end = seglog_segment_offset(log, segment) + superblock->segment_bytes;
    uint64_t bytes = superblock->block_bytes;
    int error = 0;
    ret_trailer->magic = 0;
    *ret_read_bytes = 0;
    for (int part = 0; part < 2; part++) { /* the last block tells how long it is */
        error = seglog_drive_read(log->drive, end - bytes, memory, bytes);
        if (error != 0)
            return error;
        *ret_read_bytes = bytes;
        const uint8_t *trailer = memory + bytes - sizeof(*ret_trailer);
        ret_trailer->magic = 0;
        error = seglog_trailer_parse(trailer, superblock, stamp == 0 ? trailer_stamp(trailer) : stamp,
                                     ret_trailer);
        if (error != 0)
            return error;
        uint64_t summary_bytes = seglog_summary_bytes(ret_trailer->entries, superblock->block_bytes);
        if (summary_bytes == bytes)
            return seglog_summary_verify(memory, ret_trailer, superblock);
        bytes = summary_bytes;
    }
    return -EUCLEAN; /* the two readings do not agree about its length */
}

int seglog_summary_find(struct seglog *log, uint32_t segment, uint64_t stamp, void *memory,
                        struct seglog_trailer_format *ret_trailer)
{
    struct seglog_readings readings = {.count = 0};
    uint64_t read_bytes;
    int error = -EIO;
    for (int try = 0; try < SEGLOG_READ_TRIES; try++) {
        error = read_summary(log, segment, stamp, memory, ret_trailer, &read_bytes);
        if (error == 0)
            return 0;
        if (error != -EUCLEAN)
            return error;
        if (seglog_readings_agree(&readings, memory, read_bytes))
            return -EUCLEAN;
        error = -EIO;
    }
    return error;
}

int seglog_summary_read(struct seglog *log, uint32_t segment, void *memory,
                        const struct seglog_entry_format **ret_entries, uint32_t *ret_count)
{
    struct seglog_trailer_format trailer;
    int error = seglog_summary_find(log, segment, log->segments[segment].stamp, memory, &trailer);
    if (error != 0)
        return error;
    *ret_entries = memory;
    *ret_count = trailer.entries;
    return 0;
}

uint64_t seglog_lowest_sequence(const struct seglog_entry_format *entries, uint32_t count)
{
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++)
        lowest = base_min(lowest, entries[i].sequence);
    return lowest;
}

static void fill_from_trailer(struct seglog_segment *segment, const struct seglog_trailer_format *trailer)
{
    segment->entry_count = trailer->entries;
    segment->end = trailer->end;
    segment->highest_sequence = trailer->highest_sequence;
    segment->sealed = (trailer->flags & SEGLOG_SUMMARY_SEALED) != 0;
}

/* ---- summaries, read ahead ----------------------------------------------------------------------- */

/* Of which segments, and which of their entries. */
enum scope { SCOPE_UNKNOWN, SCOPE_ALL, SCOPE_GONE, SCOPE_UNCOVERED, SCOPE_DOUBTED };

struct summaries {
    struct seglog *log;
    enum scope scope;
    uint64_t gone_sequence;
    seglog_visit_function *visit; /* what is done with one */
    void *visit_arg;
};

static bool is_meant(const struct summaries *summaries, const struct seglog_segment *segment)
{
    switch (summaries->scope) {
    case SCOPE_UNKNOWN: /* the checkpoint does not vouch for it; or it does in part, another one when it was read */
        return !segment->vouched && (!segment->summary_read || segment->covered_grain > 0);
    case SCOPE_ALL:
        return true;
    case SCOPE_GONE:
        return segment->lowest_sequence < summaries->gone_sequence;
    case SCOPE_UNCOVERED:
        return segment->covered_grain != SEGLOG_COVERED_WHOLLY;
    case SCOPE_DOUBTED:
        return segment->doubted;
    }
    return false;
}

static uint32_t next_summary(const void *arg, uint32_t from)
{
    const struct summaries *summaries = arg;
    for (uint32_t i = from; i < summaries->log->superblock.segment_count; i++) {
        const struct seglog_segment *segment = &summaries->log->segments[i];
        if (segment->state == SEGLOG_STATE_CLOSED && is_meant(summaries, segment))
            return i;
    }
    return SEGLOG_AHEAD_END;
}

static int fetch_summary(const void *arg, struct seglog_ahead_item *item)
{
    const struct summaries *summaries = arg;
    const struct seglog_segment *segment = &summaries->log->segments[item->number];
    if (segment->unsealed_entries != NULL)
        return 0; /* they are in memory */
    return seglog_summary_find(summaries->log, item->number, segment->stamp, item->memory, &item->trailer);
}

/* Take the next summary, and report progress. @return NULL: there are no more */
static const struct seglog_ahead_item *take_summary(struct seglog_ahead *ahead)
{
    struct seglog *log = ahead->log;
    const struct seglog_ahead_item *item = seglog_ahead_next(ahead);
    if (item != NULL)
        seglog_progress(log, "reading summaries", "segments", item->number, log->superblock.segment_count);
    return item;
}

static const struct seglog_ahead_ops summary_ops = {.next = next_summary, .fetch = fetch_summary};

/* ---- recovery ------------------------------------------------------------------------------------ */

/* Whether a segment must have had a summary: its session has ended, in good order or because the next began. */
static bool had_summary(const struct seglog *log, const struct seglog_segment *segment)
{
    return (log->state->flags & SEGLOG_STATE_ENDED) != 0 || segment->session < log->state->session;
}

/* A segment whose summary does not verify: an open one, a torn summary, or damage. */
static int recover_unproven(struct scan_recovery *recovery, uint32_t number,
                            const struct seglog_trailer_format *trailer)
{
    struct seglog *log = recovery->log;
    const struct seglog_segment *segment = &log->segments[number];
    const bool had_one = had_summary(log, segment);
    uint64_t limit = UINT64_MAX;
    int error = 0;
    if (trailer->magic != 0) {
        base_warn(&log->node->log, "the summary of a segment is cut off or damaged, its records are read",
                  "path=%s segment=%" PRIu32, drive_name(log->drive), number);
        /* What an earlier recovery hid stays hidden. */
        if ((trailer->flags & SEGLOG_SUMMARY_SEALED) != 0)
            limit = trailer->end;
    } else if (had_one) {
        base_warn(&log->node->log, "the summary of a segment is missing, its records are read",
                  "path=%s segment=%" PRIu32, drive_name(log->drive), number);
    }
    if (segment->missing) {
        const struct seglog_segment_format header = scan_missing_header(log, number);
        error = scan_put_header(recovery, number, &header);
    }
    if (error == 0)
        error = seglog_salvage_segment(&recovery->salvage, number, had_one, limit);
    /* where as many are found as a damaged summary tells, it is none of them that it has lost */
    bool all = trailer->magic != 0 && trailer->entries == segment->entry_count;
    log->summaries_damaged += had_one;
    log->summaries_unsure += had_one && !all;
    return error;
}

/* A summary that can be read may be one whose write has failed. */
static int write_again(struct seglog *log, const struct seglog_ahead_item *item)
{
    uint64_t bytes = seglog_summary_bytes(item->trailer.entries, log->superblock.block_bytes);
    uint64_t end = seglog_segment_offset(log, item->number) + log->superblock.segment_bytes;
    if (log->read_only)
        return 0;
    seglog_count_write(log, bytes);
    return drive_write(log->drive, end - bytes, item->memory, bytes, true);
}

static int take_records(struct scan_recovery *recovery, const struct seglog_ahead_item *item)
{
    struct seglog *log = recovery->log;
    struct seglog_segment *segment = &log->segments[item->number];
    if (item->error == -EUCLEAN) {
        recovery->salvage.entries = (void *)item->memory;
        return recover_unproven(recovery, item->number, &item->trailer);
    }
    if (item->error != 0)
        return seglog_refuse_segment(log, item->number, "its summary cannot be read", item->error);
    if (item->trailer.highest_sequence >= log->state->sequence_bound)
        return seglog_refuse_segment(log, item->number,
                                     "its records are newer than the state: restore the store from a dump",
                                     -EUCLEAN);
    /* the opening that has sealed it never began its session */
    int error = item->trailer.session > log->state->session ? write_again(log, item) : 0;
    if (error != 0)
        return seglog_refuse_segment(log, item->number, "its summary cannot be written again", error);
    fill_from_trailer(segment, &item->trailer);
    segment->lowest_sequence = seglog_lowest_sequence((const void *)item->memory, item->trailer.entries);
    recovery->summary_records += item->trailer.entries;
    return 0;
}

/* How many of a segment's entries the checkpoint is about: the first ones. */
static uint32_t covered_count(const struct seglog_segment *segment, const struct seglog_entry_format *entries,
                              uint32_t count)
{
    uint32_t covered = 0;
    if (segment->covered_grain == SEGLOG_COVERED_WHOLLY)
        return count;
    while (covered < count && entries[covered].grain < segment->covered_grain)
        covered++;
    return covered;
}

static uint64_t covered_tombstones(const struct seglog *log, const struct seglog_segment *segment,
                                   const struct seglog_entry_format *entries)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < covered_count(segment, entries, segment->entry_count); i++) {
        if ((entries[i].kind & SEGLOG_KIND_MASK) == SEGLOG_TOMBSTONE)
            bytes += seglog_footprint(log, entries[i].bytes);
    }
    return bytes;
}

static int recover_segment(struct scan_recovery *recovery, const struct seglog_ahead_item *item)
{
    struct seglog_segment *segment = &recovery->log->segments[item->number];
    const struct seglog_entry_format *entries = segment->unsealed_entries;
    int error = 0;
    if (entries == NULL) {
        error = take_records(recovery, item);
        entries = (const void *)item->memory;
    }
    if (error != 0)
        return error;
    segment->summary_read = true;
    segment->covered_tombstone_bytes = covered_tombstones(recovery->log, segment, entries);
    return 0;
}

/* The segment with the highest stamp below one of those that nothing proves. @return SEGLOG_NO_SEGMENT: there is none */
static uint32_t newest_unproven(const struct seglog *log, uint64_t below_stamp)
{
    uint32_t newest = SEGLOG_NO_SEGMENT;
    for (uint32_t i = 0; i < log->superblock.segment_count; i++) {
        const struct seglog_segment *segment = &log->segments[i];
        if (segment->unproven && segment->stamp < below_stamp &&
            (newest == SEGLOG_NO_SEGMENT || segment->stamp > log->segments[newest].stamp))
            newest = i;
    }
    return newest;
}

/* Of a segment that only a checkpoint knows all is there if as many records are found. */
static int survey_unproven(struct scan_recovery *recovery, uint32_t number)
{
    struct seglog *log = recovery->log;
    const struct seglog_segment *segment = &log->segments[number];
    const struct seglog_cover_format *cover = &log->checkpoints.covers[number];
    int error = seglog_salvage_survey(&recovery->salvage, number, had_summary(log, segment));
    bool whole = (cover->flags & SEGLOG_COVER_PROVEN) != 0 && cover->entries <= segment->entry_count;
    if (error == 0 && segment->missing && !whole)
        error = seglog_loss_note(log, number, log->state->sequence_bound,
                                 "the header and the end of a segment are both damaged");
    return error;
}

/*
 * Segments that nothing proves, the newest first: each tells where the one before it in its stream ends. All are read
 * before anything is written, and what is missing is durable before what tells of it is sealed.
 */
static int recover_all_unproven(struct scan_recovery *recovery)
{
    struct seglog *log = recovery->log;
    const struct seglog_state_format *state = log->state;
    struct seglog_ahead_item item = {.error = 0};
    uint32_t number = newest_unproven(log, UINT64_MAX);
    int error = 0;
    if (number != SEGLOG_NO_SEGMENT && recovery->summary == NULL)
        recovery->summary = drive_memory_alloc(log->node, log->drive, seglog_summary_memory_bytes(log));
    if (number != SEGLOG_NO_SEGMENT && recovery->summary == NULL)
        return scan_refuse_memory(log);
    recovery->salvage.entries = (void *)recovery->summary;
    for (; error == 0 && number != SEGLOG_NO_SEGMENT;
         number = newest_unproven(log, log->segments[number].stamp))
        error = survey_unproven(recovery, number);
    uint64_t known = base_max(state->loss_sequence, base_max(state->flush_sequence, state->horizon_sequence));
    if (error == 0 && !log->read_only && seglog_loss_sequence(log) > known)
        error = seglog_state_loss_write(log);
    while (error == 0 && (number = newest_unproven(log, UINT64_MAX)) != SEGLOG_NO_SEGMENT) {
        log->segments[number].unproven = false;
        item.number = number;
        item.memory = recovery->summary;
        item.error =
            seglog_summary_find(log, number, log->segments[number].stamp, item.memory, &item.trailer);
        error = recover_segment(recovery, &item);
    }
    return error;
}

/* What the checkpoint does not vouch for. */
static int recover_unknown(struct scan_recovery *recovery)
{
    struct seglog *log = recovery->log;
    const struct summaries summaries = {.log = log, .scope = SCOPE_UNKNOWN};
    const struct seglog_ahead_item *item;
    struct seglog_ahead ahead;
    int error = seglog_ahead_init(&ahead, log, &summary_ops, &summaries, seglog_summary_memory_bytes(log));
    if (error != 0)
        return scan_refuse_memory(log);
    while (error == 0 && (item = take_summary(&ahead)) != NULL) {
        struct seglog_segment *segment = &log->segments[item->number];
        segment->unproven = item->error == -EUCLEAN && segment->unsealed_entries == NULL;
        if (!segment->unproven)
            error = recover_segment(recovery, item);
    }
    seglog_ahead_deinit(&ahead);
    return error == 0 ? recover_all_unproven(recovery) : error;
}

static int recover_segments(struct scan_recovery *recovery)
{
    struct seglog *log = recovery->log;
    int error = scan_read_headers(recovery);
    if (error == 0)
        seglog_checkpoints_find(log);
    if (error == 0)
        error = scan_check_missing(recovery);
    for (uint32_t i = 0; error == 0 && i < log->superblock.segment_count; i++) {
        struct seglog_segment *segment = &log->segments[i];
        recovery->live_segments += segment->state == SEGLOG_STATE_CLOSED;
        if (segment->state == SEGLOG_STATE_FREE) {
            base_list_push_back(&log->free, &segment->link);
            log->free_count++;
        }
    }
    return error == 0 ? recover_unknown(recovery) : error;
}

static int take_memory(struct scan_recovery *recovery)
{
    struct seglog *log = recovery->log;
    struct base_account *memory = &log->node->memory;
    recovery->header_bytes =
        base_max((uint64_t)SEGLOG_BLOCK_BYTES_MIN, (uint64_t)drive_info(log->drive)->logical_block_bytes);
    recovery->stamps_count = 64;
    while (recovery->stamps_count < UINT64_C(2) * log->superblock.segment_count)
        recovery->stamps_count *= 2;
    recovery->reads = base_alloc(memory, scan_headers_bytes());
    recovery->headers =
        drive_memory_alloc(log->node, log->drive, (SCAN_HEADERS_AT_ONCE + 1) * recovery->header_bytes);
    recovery->stamps = base_alloc(memory, recovery->stamps_count * sizeof(uint64_t));
    bool whole = recovery->reads != NULL && recovery->headers != NULL && recovery->stamps != NULL;
    return whole ? 0 : -ENOMEM;
}

static void free_memory(struct scan_recovery *recovery)
{
    struct seglog *log = recovery->log;
    struct base_account *memory = &log->node->memory;
    base_free(memory, recovery->reads, scan_headers_bytes());
    base_free(memory, recovery->headers, (SCAN_HEADERS_AT_ONCE + 1) * recovery->header_bytes);
    base_free(memory, recovery->stamps, recovery->stamps_count * sizeof(uint64_t));
    base_free(memory, recovery->summary, seglog_summary_memory_bytes(log));
    seglog_salvage_deinit(&recovery->salvage);
}

int seglog_recover(struct seglog *log)
{
    struct scan_recovery recovery = {.log = log, .salvage = {.log = log}};
    uint64_t begin_ns = task_now();
    int error = take_memory(&recovery);
    if (error != 0)
        error = scan_refuse_memory(log);
    else
        error = recover_segments(&recovery);
    const struct seglog_salvage *salvage = &recovery.salvage;
    if (error == 0)
        base_info(&log->node->log, "store recovered",
                  "path=%s segments=%" PRIu64 " free=%" PRIu32 " records=%" PRIu64 " sealed=%" PRIu64
                  " sealed_records=%" PRIu64 " skipped_bytes=%" PRIu64 " ms=%" PRIu64,
                  drive_name(log->drive), recovery.live_segments, log->free_count,
                  recovery.summary_records + salvage->records, salvage->segments, salvage->records,
                  salvage->skipped_bytes, (task_now() - begin_ns) / BASE_NS_PER_MS);
    free_memory(&recovery);
    return error;
}

int seglog_recover_unknown(struct seglog *log)
{
    struct scan_recovery recovery = {.log = log, .salvage = {.log = log}};
    int error = recover_unknown(&recovery);
    free_memory(&recovery);
    return error;
}

/* ---- what is in it ------------------------------------------------------------------------------- */

static int visit_segment(const struct summaries *summaries, const struct seglog_ahead_item *item)
{
    struct seglog *log = summaries->log;
    const struct seglog_segment *segment = &log->segments[item->number];
    const struct seglog_entry_format *entries = segment->unsealed_entries;
    uint32_t count = segment->entry_count;
    if (entries == NULL) {
        if (item->error != 0)
            return seglog_refuse_segment(log, item->number, "its summary cannot be read any more",
                                         item->error);
        entries = (const void *)item->memory;
        count = item->trailer.entries;
    }
    uint32_t covered = covered_count(segment, entries, count);
    if (summaries->scope == SCOPE_DOUBTED)
        count = covered;
    uint32_t first = summaries->scope == SCOPE_UNCOVERED ? covered : 0;
    return summaries->visit(summaries->visit_arg, item->number, segment->stamp, entries + first,
                            count - first);
}

/* The worker that has read a summary also visits it. */
static int fetch_and_visit(const void *arg, struct seglog_ahead_item *item)
{
    item->error = fetch_summary(arg, item);
    return visit_segment(arg, item);
}

static int visit_segments(struct seglog *log, enum scope scope, bool shared, seglog_visit_function *visit,
                          void *arg)
{
    static const struct seglog_ahead_ops shared_ops = {.next = next_summary, .fetch = fetch_and_visit};
    const struct summaries summaries = {.log = log,
                                        .scope = scope,
                                        .gone_sequence = seglog_gone_sequence(log),
                                        .visit = visit,
                                        .visit_arg = arg};
    const struct seglog_ahead_item *item;
    struct seglog_ahead ahead;
    int result = seglog_ahead_init(&ahead, log, shared ? &shared_ops : &summary_ops, &summaries,
                                   seglog_summary_memory_bytes(log));
    if (result != 0)
        return result;
    while (result == 0 && (item = take_summary(&ahead)) != NULL)
        result = shared ? item->error : visit_segment(&summaries, item);
    seglog_ahead_deinit(&ahead);
    return result;
}

int seglog_visit(struct seglog *log, seglog_visit_function *visit, void *arg)
{
    return visit_segments(log, SCOPE_ALL, false, visit, arg);
}

int seglog_visit_gone(struct seglog *log, seglog_visit_function *visit, void *arg)
{
    return visit_segments(log, SCOPE_GONE, false, visit, arg);
}

int seglog_visit_uncovered(struct seglog *log, seglog_visit_function *visit, void *arg)
{
    return visit_segments(log, SCOPE_UNCOVERED, false, visit, arg);
}

int seglog_visit_shared(struct seglog *log, bool uncovered, seglog_visit_function *visit, void *arg)
{
    return visit_segments(log, uncovered ? SCOPE_UNCOVERED : SCOPE_ALL, true, visit, arg);
}

int seglog_visit_doubted(struct seglog *log, seglog_visit_function *visit, void *arg)
{
    int result = visit_segments(log, SCOPE_DOUBTED, false, visit, arg);
    for (uint32_t i = 0; i < log->superblock.segment_count; i++)
        log->segments[i].doubted = false;
    return result;
}
