/* Reading all of a segment, to check that the drive still holds its records. Repairs are the owner's. */
#include "seglog/seglog_internal.h"
#include <errno.h>
#include <inttypes.h>

#define WINDOW_BYTES (UINT64_C(1) << 20) /* and the largest record */

struct check {
    struct seglog *log;
    uint32_t segment;
    uint64_t record_seed;
    uint8_t *window;
    uint64_t window_room;
    uint64_t window_begin; /* bytes from the segment's beginning */
    uint64_t window_end;
    uint64_t narrow_end; /* up to here a large read has failed: records are read one by one */
    seglog_check_function *visit;
    void *arg;
};

/* Have a record in the window, if it can be read. */
static bool fetch(struct check *check, uint64_t begin, uint64_t end)
{
    if (begin >= check->window_begin && end <= check->window_end)
        return true;
    const struct seglog_superblock_format *superblock = &check->log->superblock;
    check->window_begin = base_align_down(begin, superblock->block_bytes);
    check->window_end = begin < check->narrow_end ? base_align_up(end, superblock->block_bytes)
                                                  : check->window_begin + check->window_room;
    check->window_end = base_min(check->window_end, superblock->segment_bytes);
    int error = seglog_drive_read(check->log->drive,
                                  seglog_segment_offset(check->log, check->segment) + check->window_begin,
                                  check->window, check->window_end - check->window_begin);
    if (error != 0)
        check->narrow_end = base_max(check->narrow_end, check->window_end);
    return error == 0;
}

/* Whether the record is there, whole, and the one that the entry tells of. */
static bool is_right(const struct check *check, const struct seglog_entry_format *entry, uint64_t grain,
                     const uint8_t *record, struct seglog_record_format *ret_header)
{
    const struct seglog_superblock_format *superblock = &check->log->superblock;
    if (seglog_record_verify(record, entry->bytes, check->record_seed, grain, superblock, ret_header) != 0 ||
        !seglog_entry_tells_of(entry, ret_header))
        return false;
    struct base_hash128 hash = seglog_record_hash(ret_header, record, superblock->hash_seed);
    struct seglog_entry_format told = *entry;
    seglog_entry_take_pieces(&told, record + sizeof(*ret_header));
    return hash.low == entry->hash[0] && hash.high == entry->hash[1] &&
           told.superseded == entry->superseded && told.number == entry->number;
}

/* A read may return damaged bytes, or fail: what is not right is read again. */
static void check_record(struct check *check, const struct seglog_entry_format *entry)
{
    uint64_t begin = (uint64_t)entry->grain << check->log->grain_shift;
    uint64_t grain = seglog_entry_grain(check->log, check->segment, entry);
    struct seglog_record_format header;
    for (int try = 0; try < SEGLOG_READ_TRIES; try++) {
        const bool fetched = fetch(check, begin, begin + entry->bytes);
        const uint8_t *record = check->window + (begin - check->window_begin);
        if (fetched && is_right(check, entry, grain, record, &header)) {
            check->visit(check->arg, entry, grain, 0, &header, record);
            return;
        }
        check->window_end = check->window_begin; /* nothing of it is believed */
    }
    check->visit(check->arg, entry, grain, -EBADMSG, NULL, NULL);
}

static int tell_visitor(const struct check *check, const char *why, int error)
{
    base_error(&check->log->node->log, "a segment is damaged",
               "path=%s segment=%" PRIu32 " offset=%" PRIu64 " why=\"%s\"", drive_name(check->log->drive),
               check->segment, seglog_segment_offset(check->log, check->segment), why);
    return error;
}

static int check_header(struct check *check)
{
    const struct seglog *log = check->log;
    struct seglog_segment_format header;
    for (int try = 0; try < SEGLOG_READ_TRIES; try++) {
        int error = seglog_drive_read(log->drive, seglog_segment_offset(log, check->segment), check->window,
                                      log->superblock.block_bytes);
        if (error != 0)
            return error;
        if (seglog_segment_parse(check->window, log->superblock.check_seed, check->segment, &header) == 0 &&
            header.stamp == log->segments[check->segment].stamp)
            return 0;
    }
    return tell_visitor(check, "its header is damaged", -EUCLEAN);
}

static int check_records(struct check *check, void *summary)
{
    struct seglog *log = check->log;
    const struct seglog_segment *segment = &log->segments[check->segment];
    const struct seglog_entry_format *entries = segment->unsealed_entries;
    uint32_t count = segment->entry_count;
    int header_error = check_header(check), error = 0;
    if (header_error != 0 && header_error != -EUCLEAN)
        return header_error;
    if (entries == NULL) {
        error = seglog_summary_read(log, check->segment, summary, &entries, &count);
        if (error != 0)
            return tell_visitor(check, "its summary cannot be read any more", error);
    }
    for (uint32_t i = 0; i < count; i++)
        check_record(check, &entries[i]);
    return header_error;
}

int seglog_check_segment(struct seglog *log, uint32_t segment, seglog_check_function *visit, void *arg)
{
    const struct seglog_superblock_format *superblock = &log->superblock;
    base_assert(segment < superblock->segment_count);
    if (log->segments[segment].state != SEGLOG_STATE_CLOSED)
        return 0;
    struct check check = {
        .log = log,
        .segment = segment,
        .record_seed = seglog_record_seed(superblock->check_seed, log->segments[segment].stamp),
        .window_room = base_align_up(WINDOW_BYTES + superblock->record_bytes_max, superblock->block_bytes),
        .visit = visit,
        .arg = arg,
    };
    uint64_t summary_bytes = seglog_summary_memory_bytes(log);
    void *summary = drive_memory_alloc(log->node, log->drive, summary_bytes);
    check.window = drive_memory_alloc(log->node, log->drive, check.window_room);
    int error = summary == NULL || check.window == NULL ? -ENOMEM : check_records(&check, summary);
    base_free(&log->node->memory, summary, summary_bytes);
    base_free(&log->node->memory, check.window, check.window_room);
    return error;
}
