/*
 * Recovery: which segments are live, by their headers and by what stands at their ends: a trailer, or a copy of the
 * header. What one of the two proves is used, and a damaged header is put back.
 */
#include "seglog/scan_internal.h"
#include <errno.h>
#include <inttypes.h>

/* What is known of a segment whose header is being read. Its end may tell something else. */
enum known { KNOWN_NOTHING, KNOWN_LIVE, KNOWN_DEAD };

/* A header, or the end of a segment, on its way. */
struct scan_header {
    struct drive_request request;
    struct iovec iov;
    uint32_t segment;
    enum known known;
    bool again; /* the second reading */
    uint8_t first[sizeof(struct seglog_segment_format)];
};

uint64_t scan_headers_bytes(void)
{
    return SCAN_HEADERS_AT_ONCE * sizeof(struct scan_header);
}

static uint64_t trailer_stamp(const uint8_t *trailer)
{
    return base_load_le64(trailer + offsetof(struct seglog_trailer_format, stamp));
}

/* @return false: it is there already */
static bool add_stamp(struct scan_recovery *recovery, uint64_t stamp)
{
    uint64_t mask = recovery->stamps_count - 1;
    uint64_t at = base_hash64(&stamp, sizeof(stamp), 0) & mask;
    while (recovery->stamps[at] != 0) {
        if (recovery->stamps[at] == stamp)
            return false;
        at = (at + 1) & mask;
    }
    recovery->stamps[at] = stamp;
    return true;
}

/* Take a segment as live; whether its checkpoint is whole is seen later. */
static int take_live(struct scan_recovery *recovery, uint32_t number,
                     const struct seglog_segment_format *header)
{
    uint64_t stamp = header->stamp;
    struct seglog *log = recovery->log;
    struct seglog_segment *segment = &log->segments[number];
    if (stamp >= log->state->stamp_bound)
        return seglog_refuse_segment(
            log, number,
            "it is newer than the state, of which an old copy was found: restore the "
            "store from a dump",
            -EUCLEAN);
    if (!add_stamp(recovery, stamp))
        return seglog_refuse_segment(
            log, number, "two segments have the same stamp: restore the store from a dump", -EUCLEAN);
    segment->stamp = stamp;
    segment->session = header->session;
    segment->stream = header->stream;
    if (header->kind == SEGLOG_SEGMENT_RECORDS) {
        segment->state = SEGLOG_STATE_CLOSED;
    } else if (header->kind == SEGLOG_SEGMENT_CHECKPOINT) {
        segment->state = SEGLOG_STATE_CHECKPOINT; /* unless there is more of it missing */
        segment->place = header->stream;
        segment->part_count = header->part_count;
        segment->checkpoint_stamp = header->checkpoint_stamp;
    } else {
        segment->freed_stamp = stamp;
    }
    return 0;
}

/* @return whether these bytes are the header of a live segment */
static bool is_live(const struct scan_recovery *recovery, uint32_t number, const uint8_t *bytes,
                    struct seglog_segment_format *ret_header)
{
    const struct seglog *log = recovery->log;
    return seglog_segment_parse(bytes, log->superblock.check_seed, number, ret_header) == 0 &&
           ret_header->stamp > log->segments[number].freed_stamp;
}

int scan_take_headerless(struct scan_recovery *recovery, uint32_t number,
                         const struct seglog_segment_format *header)
{
    recovery->log->segments[number].headerless = true;
    return take_live(recovery, number, header);
}

int scan_put_header(struct scan_recovery *recovery, uint32_t number,
                    const struct seglog_segment_format *header)
{
    struct seglog *log = recovery->log;
    const uint64_t offset = seglog_segment_offset(log, number);
    uint8_t *block = recovery->headers + SCAN_HEADERS_AT_ONCE * recovery->header_bytes;
    if (log->read_only)
        return 0;
    int error = seglog_drive_read(log->drive, offset, block, recovery->header_bytes);
    if (error == 0) {
        memcpy(block, header, sizeof(*header));
        seglog_segment_seal((struct seglog_segment_format *)(void *)block, log->superblock.check_seed);
        error = drive_write(log->drive, offset, block, recovery->header_bytes, true);
        seglog_count_write(log, recovery->header_bytes);
    }
    return error == 0 ? 0 : seglog_refuse_segment(log, number, "its header cannot be written again", error);
}

static int mend_header(struct scan_recovery *recovery, uint32_t number,
                       const struct seglog_segment_format *header)
{
    int error = scan_take_headerless(recovery, number, header);
    return error == 0 ? scan_put_header(recovery, number, header) : error;
}

/*
 * A segment whose header is damaged, and whose end may tell of it. Where a whole summary is there, or a copy of the
 * header, with a stamp that was not freed, the segment is live.
 */
static int take_by_end(struct scan_recovery *recovery, uint32_t number, const uint8_t *end)
{
    struct seglog *log = recovery->log;
    struct seglog_segment_format header;
    struct seglog_trailer_format trailer;
    if (is_live(recovery, number, end, &header)) {
        base_warn(&log->node->log,
                  "the header of a segment is damaged, or was never written: its copy is used",
                  "path=%s segment=%" PRIu32 " stamp=%" PRIu64, drive_name(log->drive), number, header.stamp);
        return mend_header(recovery, number, &header);
    }
    if (recovery->summary == NULL)
        recovery->summary = drive_memory_alloc(log->node, log->drive, seglog_summary_memory_bytes(log));
    if (recovery->summary == NULL)
        return scan_refuse_memory(log);
    int error = seglog_summary_find(log, number, 0, recovery->summary, &trailer);
    if (error != 0 && error != -EUCLEAN)
        return seglog_refuse_segment(log, number, "its summary cannot be read", error);
    if (error != 0 || trailer.stamp <= log->segments[number].freed_stamp)
        return 0;
    base_warn(&log->node->log, "the header of a segment is damaged, its summary is used",
              "path=%s segment=%" PRIu32 " stamp=%" PRIu64, drive_name(log->drive), number, trailer.stamp);
    header = (struct seglog_segment_format){.kind = SEGLOG_SEGMENT_RECORDS,
                                            .stamp = trailer.stamp,
                                            .segment = number,
                                            .session = trailer.session,
                                            .stream = SEGLOG_NO_STREAM};
    if ((trailer.flags & SEGLOG_SUMMARY_SEALED) != 0 && header.session > 0)
        header.session--; /* that of the records was an earlier one */
    return mend_header(recovery, number, &header);
}

/*
 * The header has told something, or, in two readings, nothing. Does the segment's end agree?
 *
 * @param bytes  header_bytes of memory, with the end
 */
static int look_at_end(struct scan_recovery *recovery, struct scan_header *read, const uint8_t *bytes)
{
    const struct seglog *log = recovery->log;
    struct seglog_segment *segment = &log->segments[read->segment];
    const uint8_t *last = bytes + recovery->header_bytes - sizeof(struct seglog_trailer_format);
    struct seglog_segment_format header;
    struct seglog_trailer_format trailer;
    uint64_t stamp = trailer_stamp(last);
    bool trailing =
        stamp > segment->freed_stamp && seglog_trailer_parse(last, &log->superblock, stamp, &trailer) == 0;
    if (read->known == KNOWN_LIVE) {
        segment->endless = !trailing || stamp != segment->stamp;
        return 0;
    }
    if (!trailing && !is_live(recovery, read->segment, last, &header))
        return 0;
    read->known = KNOWN_LIVE;
    return take_by_end(recovery, read->segment, last);
}

static uint64_t end_offset(const struct scan_recovery *recovery, uint32_t number)
{
    return seglog_segment_offset(recovery->log, number) + recovery->log->superblock.segment_bytes -
           recovery->header_bytes;
}

/* One that differs from reading to reading: alone, until two agree. */
static int read_header_alone(struct scan_recovery *recovery, struct scan_header *read)
{
    struct seglog *log = recovery->log;
    uint8_t *bytes = recovery->headers + SCAN_HEADERS_AT_ONCE * recovery->header_bytes;
    struct seglog_readings readings = {.count = 0};
    struct seglog_segment_format header;
    int error = -EIO;
    for (int try = 0; try < SEGLOG_READ_TRIES; try++) {
        error = seglog_drive_read(log->drive, seglog_segment_offset(log, read->segment), bytes,
                                  recovery->header_bytes);
        if (error != 0)
            break;
        if (is_live(recovery, read->segment, bytes, &header)) {
            read->known = KNOWN_LIVE;
            return take_live(recovery, read->segment, &header);
        }
        if (seglog_readings_agree(&readings, bytes, sizeof(header))) {
            read->known = KNOWN_DEAD;
            return 0;
        }
        error = -EIO;
    }
    return seglog_refuse_segment(log, read->segment, "the drive does not return its header twice", error);
}

static uint8_t *header_memory(const struct scan_recovery *recovery, const struct scan_header *read)
{
    return recovery->headers + (size_t)(read - recovery->reads) * recovery->header_bytes;
}

static void post_read(struct scan_recovery *recovery, struct scan_header *read, uint64_t offset)
{
    read->iov = (struct iovec){.iov_base = header_memory(recovery, read), .iov_len = recovery->header_bytes};
    read->request = (struct drive_request){
        .op = DRIVE_READ,
        .offset = offset,
        .iov = &read->iov,
        .iov_count = 1,
        .region = -1,
    };
    drive_post(recovery->log->drive, &read->request);
}

/* Only a live header proves itself, a dead one is read twice. */
static int look_at_header(struct scan_recovery *recovery, struct scan_header *read)
{
    struct seglog_segment_format header;
    const uint8_t *bytes = header_memory(recovery, read);
    if (is_live(recovery, read->segment, bytes, &header)) {
        read->known = KNOWN_LIVE;
        return take_live(recovery, read->segment, &header);
    }
    if (!read->again) {
        memcpy(read->first, bytes, sizeof(read->first));
        return 0;
    }
    if (memcmp(read->first, bytes, sizeof(read->first)) != 0)
        return read_header_alone(recovery, read);
    read->known = KNOWN_DEAD;
    return 0;
}

/* What tells of nothing live is read once more. */
enum round { ROUND_HEADERS, ROUND_HEADERS_AGAIN, ROUND_ENDS, ROUND_ENDS_AGAIN, ROUNDS };

static int look_at_read(struct scan_recovery *recovery, struct scan_header *read, enum round round,
                        int result)
{
    if (round >= ROUND_ENDS) /* one that cannot be read tells nothing */
        return result == 0 ? look_at_end(recovery, read, header_memory(recovery, read)) : 0;
    return result == 0 ? look_at_header(recovery, read) : read_header_alone(recovery, read);
}

/* Read the headers of some segments at once. All requests are waited for, whatever happens. */
static int read_batch(struct scan_recovery *recovery, uint32_t begin, uint32_t count)
{
    int error = 0;
    for (uint32_t i = 0; i < count; i++) {
        recovery->reads[i].segment = begin + i;
        recovery->reads[i].known = KNOWN_NOTHING;
    }
    for (enum round round = ROUND_HEADERS; error == 0 && round < ROUNDS; round++) {
        bool posted[SCAN_HEADERS_AT_ONCE];
        int results[SCAN_HEADERS_AT_ONCE];
        for (uint32_t i = 0; i < count; i++) {
            struct scan_header *read = &recovery->reads[i];
            read->again = round == ROUND_HEADERS_AGAIN;
            posted[i] =
                round == ROUND_ENDS || read->known == (round < ROUND_ENDS ? KNOWN_NOTHING : KNOWN_DEAD);
            if (posted[i])
                post_read(recovery, read,
                          round < ROUND_ENDS ? seglog_segment_offset(recovery->log, begin + i)
                                             : end_offset(recovery, begin + i));
        }
        for (uint32_t i = 0; i < count; i++)
            results[i] = posted[i] ? drive_wait(&recovery->reads[i].request, TASK_FOREVER) : 0;
        for (uint32_t i = 0; error == 0 && i < count; i++) {
            if (posted[i])
                error = look_at_read(recovery, &recovery->reads[i], round, results[i]);
        }
    }
    return error;
}

int scan_read_headers(struct scan_recovery *recovery)
{
    struct seglog *log = recovery->log;
    uint32_t segment_count = log->superblock.segment_count;
    for (uint32_t i = 0; i < segment_count; i++) {
        struct seglog_segment *segment = &log->segments[i];
        segment->freed_stamp = log->state->freed_stamps[i];
        segment->stamp = segment->freed_stamp;
        segment->state = SEGLOG_STATE_FREE;
        base_list_init(&segment->link);
    }
    int error = 0;
    for (uint32_t begin = 0; error == 0 && begin < segment_count; begin += SCAN_HEADERS_AT_ONCE) {
        seglog_progress(log, "reading headers", "segments", begin, segment_count);
        error = read_batch(recovery, begin, base_min(segment_count - begin, (uint32_t)SCAN_HEADERS_AT_ONCE));
    }
    return error;
}
