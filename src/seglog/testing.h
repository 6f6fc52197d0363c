/*
 * For the tests of this layer and those above: a drive in memory whose bytes can be looked at, copied and
 * damaged, that fails when it is told to; a clock that stands still; nodes on both; segments that are made by
 * hand.
 */
#ifndef SEGLOG_TESTING_H
#define SEGLOG_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/base.h"
#include "drive/drive.h"
#include "seglog/seglog_internal.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* What a failing request does besides. */
enum testing_lie {
    TESTING_TRUTH,    /* it returns -EIO; a write has written `partial_bytes` before */
    TESTING_NOISE,    /* a read succeeds, with wrong bytes */
    TESTING_ZEROS,    /* a read succeeds, with zeros */
    TESTING_CHANGING, /* a read succeeds, with wrong bytes that are others each time */
};

struct testing_drive {
    uint8_t *bytes;
    uint64_t size;
    uint32_t physical_block_bytes; /* 0: 512 */
    bool exists;                   /* was made before */
    bool device;
    _Atomic uint64_t fail_at; /* the n-th request from now fails, and … */
    bool fail_on;             /* … all after it; or */
    enum testing_lie lie;     /* … it lies */
    enum drive_op fail_op;    /* only requests of this kind count */
    uint64_t fail_begin;      /* only those that touch these bytes; both 0: all */
    uint64_t fail_end;
    uint64_t partial_bytes;
    void (*in_write)(void *arg); /* called while a write is on its way, once */
    void *in_write_arg;
    _Atomic uint64_t reads, writes, flushes, durable_writes;
    _Atomic uint64_t read_bytes;
};

struct testing_clock {
    _Atomic uint64_t wall_ns;
    _Atomic uint64_t monotonic_ns;
};

/* Counts lines, and keeps the last of each kind. One thread. */
struct testing_lines {
    unsigned errors, warns, infos;
    char error[BASE_LOG_LINE_BYTES];
    char warn[BASE_LOG_LINE_BYTES];
    char info[BASE_LOG_LINE_BYTES];
};

/* ---- the drive ---------------------------------------------------------------------------------- */

static inline int testing_drive_open(struct tarn_node *node, void *arg, const char *path,
                                     const struct drive_options *options, struct drive_info *ret_info,
                                     void **ret_state)
{
    struct testing_drive *drive = arg;
    (void)node;
    (void)path;
    if (!drive->exists && options->create_bytes == 0)
        return -ENOENT;
    bool created = !drive->exists;
    if (created) {
        drive->size = options->create_bytes;
        drive->bytes = calloc(1, drive->size);
        assert_non_null(drive->bytes);
        drive->exists = true;
    }
    *ret_info = (struct drive_info){
        .provider = "testing",
        .bytes = drive->size,
        .logical_block_bytes = 512,
        .physical_block_bytes = drive->physical_block_bytes == 0 ? 512 : drive->physical_block_bytes,
        .memory_alignment_bytes = 512,
        .direct = true,
        .created = created,
        .device = drive->device,
    };
    *ret_state = drive;
    return 0;
}

static inline void testing_drive_close(void *state)
{
    (void)state;
}

static inline bool testing_drive_fails(struct testing_drive *drive, const struct drive_request *request)
{
    if (request->op != drive->fail_op || atomic_load(&drive->fail_at) == 0)
        return false;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < request->iov_count; i++)
        bytes += request->iov[i].iov_len;
    if (drive->fail_end != 0 &&
        (request->offset >= drive->fail_end || request->offset + bytes <= drive->fail_begin))
        return false;
    if (atomic_load(&drive->fail_at) == 1 && drive->fail_on)
        return true;
    return atomic_fetch_sub(&drive->fail_at, 1) == 1;
}

static inline void testing_drive_move(struct testing_drive *drive, const struct drive_request *request,
                                      uint64_t bytes_max)
{
    uint64_t offset = request->offset;
    for (uint32_t i = 0; i < request->iov_count; i++) {
        const struct iovec *iov = &request->iov[i];
        uint64_t bytes = base_min((uint64_t)iov->iov_len, bytes_max);
        if (request->op == DRIVE_READ)
            memcpy(iov->iov_base, drive->bytes + offset, bytes);
        else
            memcpy(drive->bytes + offset, iov->iov_base, bytes);
        offset += bytes;
        bytes_max -= bytes;
    }
    if (request->op == DRIVE_READ)
        atomic_fetch_add(&drive->read_bytes, offset - request->offset);
}

/* Wrong bytes, within the part of the drive that lies. */
static inline void testing_drive_lie(struct testing_drive *drive, const struct drive_request *request)
{
    uint64_t begin = drive->fail_end == 0 ? 0 : drive->fail_begin;
    uint64_t end = drive->fail_end == 0 ? UINT64_MAX : drive->fail_end;
    uint64_t offset = request->offset;
    int changing = (int)(atomic_load(&drive->reads) % 251) + 1;
    int byte = drive->lie == TESTING_ZEROS ? 0 : drive->lie == TESTING_NOISE ? 0xdb : changing;
    for (uint32_t i = 0; i < request->iov_count; i++) {
        const struct iovec *iov = &request->iov[i];
        uint64_t from = base_max(offset, begin), to = base_min(offset + iov->iov_len, end);
        if (from < to)
            memset((uint8_t *)iov->iov_base + (from - offset), byte, to - from);
        offset += iov->iov_len;
    }
}

static inline void testing_drive_post(void *state, struct drive_request *request)
{
    struct testing_drive *drive = state;
    bool fails = testing_drive_fails(drive, request);
    if (fails && drive->lie == TESTING_TRUTH) {
        if (request->op == DRIVE_WRITE && atomic_load(&drive->fail_at) <= 1)
            testing_drive_move(drive, request, drive->partial_bytes);
        drive->partial_bytes = 0;
        drive_finish_now(request, -EIO);
        return;
    }
    if (task_self() != NULL && request->op != DRIVE_FLUSH)
        task_yield(); /* a drive takes its time, and others run meanwhile */
    testing_drive_move(drive, request, UINT64_MAX);
    void (*in_write)(void *arg) = drive->in_write;
    if (request->op == DRIVE_WRITE && in_write != NULL) {
        drive->in_write = NULL;
        in_write(drive->in_write_arg);
    }
    if (fails)
        testing_drive_lie(drive, request);
    atomic_fetch_add(request->op == DRIVE_READ    ? &drive->reads
                     : request->op == DRIVE_WRITE ? &drive->writes
                                                  : &drive->flushes,
                     1);
    if (request->op == DRIVE_WRITE && request->durable)
        atomic_fetch_add(&drive->durable_writes, 1);
    drive_finish_now(request, 0);
}

static const struct drive_provider testing_provider = {
    .name = "testing", .open = testing_drive_open, .close = testing_drive_close, .post = testing_drive_post};

/** Another drive with the same bytes: what is there if the process dies now. */
static inline struct testing_drive testing_drive_copy(const struct testing_drive *drive)
{
    struct testing_drive copy = {.size = drive->size,
                                 .exists = drive->exists,
                                 .device = drive->device,
                                 .physical_block_bytes = drive->physical_block_bytes};
    copy.bytes = malloc(drive->size);
    assert_non_null(copy.bytes);
    memcpy(copy.bytes, drive->bytes, drive->size);
    return copy;
}

/** A drive of zeros. */
static inline struct testing_drive testing_drive_new(uint64_t bytes)
{
    struct testing_drive drive = {.size = bytes, .exists = true, .bytes = calloc(1, bytes)};
    assert_non_null(drive.bytes);
    return drive;
}

static inline void testing_drive_free(struct testing_drive *drive)
{
    free(drive->bytes);
    *drive = (struct testing_drive){.size = 0};
}

/** Have the n-th request of a kind from now fail. @param n  0: none */
static inline void testing_drive_fail_at(struct testing_drive *drive, enum drive_op op, uint64_t n,
                                         bool fail_on)
{
    drive->fail_op = op;
    drive->fail_on = fail_on;
    drive->lie = TESTING_TRUTH;
    drive->fail_begin = drive->fail_end = 0;
    atomic_store(&drive->fail_at, n);
}

/** Have the n-th read from now that touches some bytes return others for them. */
static inline void testing_drive_lie_at(struct testing_drive *drive, enum testing_lie lie, uint64_t n,
                                        uint64_t begin, uint64_t end)
{
    drive->fail_op = DRIVE_READ;
    drive->fail_on = false;
    drive->lie = lie;
    drive->fail_begin = begin;
    drive->fail_end = end;
    atomic_store(&drive->fail_at, n);
}

/* ---- nodes -------------------------------------------------------------------------------------- */

static inline uint64_t testing_wall(void *arg)
{
    struct testing_clock *clock = arg;
    return atomic_load(&clock->wall_ns);
}

static inline uint64_t testing_monotonic(void *arg)
{
    struct testing_clock *clock = arg;
    return atomic_fetch_add(&clock->monotonic_ns, 1000);
}

static inline void testing_sink(void *arg, enum base_log_level level, const char *line, size_t len)
{
    struct testing_lines *lines = arg;
    if (lines == NULL)
        return;
    if (level > BASE_LOG_INFO)
        return;
    bool error = level == BASE_LOG_ERROR, warn = level == BASE_LOG_WARN;
    memcpy(error ? lines->error : warn ? lines->warn : lines->info, line, len + 1);
    *(error ? &lines->errors : warn ? &lines->warns : &lines->infos) += 1;
}

/** A node on a drive in memory. @param clock, lines  may be NULL */
static inline struct tarn_node *
testing_node_with_lines(struct testing_drive *drive, struct testing_clock *clock, struct testing_lines *lines)
{
    const struct task_clock task_clock = {.monotonic = testing_monotonic, .wall = testing_wall, .arg = clock};
    const struct task_node_options options = {
        .clock = clock == NULL ? NULL : &task_clock,
        .drives = &testing_provider,
        .drives_arg = drive,
        .log_level = BASE_LOG_DEBUG,
        .log_sink = testing_sink,
        .log_arg = lines,
    };
    struct tarn_node *node;
    assert_int_equal(task_node_open(&options, &node), 0);
    return node;
}

static inline struct tarn_node *testing_node(struct testing_drive *drive, struct testing_clock *clock)
{
    return testing_node_with_lines(drive, clock, NULL);
}

/* ---- logs --------------------------------------------------------------------------------------- */

#define TESTING_SEGMENTS    SEGLOG_SEGMENTS_MIN
#define TESTING_BLOCK_BYTES SEGLOG_BLOCK_BYTES_MIN
#define TESTING_STORE_BYTES (6 * UINT64_C(4096) + TESTING_SEGMENTS * SEGLOG_SEGMENT_BYTES_MIN)

/* A log on a node of its own. */
struct testing_log {
    struct tarn_node *node;
    struct drive *drive;
    struct seglog *log;
    struct testing_lines lines;
};

/** A node with its drive open, and no log yet. */
static inline void testing_drive_start(struct testing_log *log, struct testing_drive *drive)
{
    memset(&log->lines, 0, sizeof(log->lines));
    log->log = NULL;
    log->node = testing_node_with_lines(drive, NULL, &log->lines);
    assert_int_equal(
        drive_open(log->node, "store", &(struct drive_options){.direct = DRIVE_DIRECT_AUTO}, &log->drive), 0);
}

/** Close both; asserts that no memory is leaked. */
static inline void testing_drive_stop(struct testing_log *log)
{
    drive_close(log->drive);
    task_node_close(log->node);
}

static inline int testing_format(struct testing_drive *drive, const struct seglog_format_options *options)
{
    struct testing_log log;
    testing_drive_start(&log, drive);
    int error = seglog_format(log.node, log.drive, options);
    testing_drive_stop(&log);
    return error;
}

/** @return what the opening said; everything is closed again if that is not 0 */
static inline int testing_log_try_open(struct testing_log *log, struct testing_drive *drive, bool read_only)
{
    testing_drive_start(log, drive);
    const struct seglog_options options = {.owner_kind = SEGLOG_OWNER_DEPOT, .read_only = read_only};
    int error = seglog_open(log->node, log->drive, &options, &log->log);
    if (error != 0)
        testing_drive_stop(log);
    return error;
}

static inline void testing_log_open(struct testing_log *log, struct testing_drive *drive, bool read_only)
{
    assert_int_equal(testing_log_try_open(log, drive, read_only), 0);
}

/** Close a log that was not started. */
static inline void testing_log_close(struct testing_log *log)
{
    assert_int_equal(seglog_close(log->log), 0);
    testing_drive_stop(log);
}

/** A small formatted drive. @param options  NULL: the defaults */
static inline struct testing_drive testing_store_of(uint64_t bytes,
                                                    const struct seglog_format_options *options)
{
    static const struct seglog_format_options defaults = {.owner_kind = SEGLOG_OWNER_DEPOT};
    struct testing_drive drive = testing_drive_new(bytes);
    assert_int_equal(testing_format(&drive, options == NULL ? &defaults : options), 0);
    return drive;
}

static inline struct testing_drive testing_store(void)
{
    return testing_store_of(TESTING_STORE_BYTES, NULL);
}

/* ---- stores made by hand ------------------------------------------------------------------------- */

static inline struct seglog_superblock_format testing_superblock(const struct testing_drive *drive)
{
    struct seglog_superblock_format superblock;
    const char *wrong;
    assert_int_equal(seglog_superblock_parse(drive->bytes, &superblock, &wrong), 0);
    return superblock;
}

/** The newest slot of the state, in the drive's bytes. Once it is changed, it is none until it is sealed. */
static inline struct seglog_state_format *testing_state(struct testing_drive *drive)
{
    struct seglog_superblock_format superblock = testing_superblock(drive);
    struct seglog_state_format *newest = NULL;
    for (uint64_t slot = 0; slot < SEGLOG_STATE_SLOTS; slot++) {
        struct seglog_state_format *state =
            (void *)(drive->bytes + superblock.state_offset + slot * superblock.state_bytes);
        if (seglog_state_verify(state, &superblock) == 0 &&
            (newest == NULL || state->generation > newest->generation))
            newest = state;
    }
    assert_non_null(newest);
    return newest;
}

/** After changing what testing_state() returned: seal it, and make its twin equal. */
static inline void testing_state_seal(struct testing_drive *drive)
{
    struct seglog_superblock_format superblock = testing_superblock(drive);
    for (uint64_t pair = 0; pair < 2; pair++) {
        uint8_t *slot = drive->bytes + superblock.state_offset + 2 * pair * superblock.state_bytes;
        struct seglog_state_format *state = (void *)slot;
        if (state->generation % 2 != pair || state->generation == 0)
            continue;
        seglog_state_seal(state, &superblock);
        memcpy(slot + superblock.state_bytes, slot, superblock.state_bytes);
    }
}

/** Let the newest state allow sequences and stamps below these. */
static inline void testing_state_bound(struct testing_drive *drive, uint64_t sequence_bound,
                                       uint64_t stamp_bound)
{
    struct seglog_state_format *state = testing_state(drive);
    state->sequence_bound = sequence_bound;
    state->stamp_bound = stamp_bound;
    state->session = base_max(state->session, UINT64_C(1));
    state->flags = 0;
    testing_state_seal(drive);
}

/* A segment that is being made by hand. */
struct testing_segment {
    struct testing_drive *drive;
    struct seglog_superblock_format superblock;
    struct seglog_segment_format header;
    uint8_t *bytes;    /* in the drive's */
    uint64_t position; /* of the next record, from the segment's beginning */
    uint64_t end;      /* of the last */
    uint32_t count;
    struct seglog_entry_format *entries;
};

static inline void testing_segment_begin(struct testing_segment *segment, struct testing_drive *drive,
                                         uint32_t number, uint64_t stamp)
{
    *segment = (struct testing_segment){.drive = drive, .superblock = testing_superblock(drive)};
    segment->header = (struct seglog_segment_format){
        .stamp = stamp,
        .session = 1,
        .segment = number,
        .kind = SEGLOG_SEGMENT_RECORDS,
        .stream = 1,
        .first_sequence = 1,
    };
    seglog_segment_seal(&segment->header, segment->superblock.check_seed);
    segment->bytes =
        drive->bytes + segment->superblock.data_offset + number * segment->superblock.segment_bytes;
    memcpy(segment->bytes, &segment->header, sizeof(segment->header));
    segment->position = seglog_segment_header_bytes(segment->superblock.grain_bytes);
    segment->end = segment->position;
    segment->entries = calloc(seglog_entries_max(&segment->superblock), sizeof(*segment->entries));
    assert_non_null(segment->entries);
}

/** Put a record at the position, whose key is its sequence in decimal. @return where it lies in the segment
 */
static inline uint64_t testing_segment_add(struct testing_segment *segment, uint64_t sequence,
                                           uint32_t value_bytes)
{
    uint64_t at = segment->position;
    uint64_t grain_bytes = segment->superblock.grain_bytes;
    uint64_t grain = ((uint64_t)(segment->bytes - segment->drive->bytes) + at) / grain_bytes;
    char key[24];
    uint16_t key_bytes = (uint16_t)snprintf(key, sizeof(key), "%llu", (unsigned long long)sequence);
    struct seglog_record_format header = {
        .sequence = sequence,
        .version = sequence,
        .value_bytes = value_bytes,
        .key_bytes = key_bytes,
        .kind = SEGLOG_VALUE,
        .expiry = {(uint8_t)sequence},
        .client_flags = 7,
    };
    uint64_t bytes = seglog_record_bytes(header.kind, key_bytes, value_bytes);
    uint8_t *record = segment->bytes + at, *value = record + sizeof(header) + key_bytes;
    memcpy(record + sizeof(header), key, key_bytes);
    memset(value, (int)(sequence | 1), value_bytes);
    header.body_check =
        seglog_body_check(key, key_bytes, value, value_bytes, segment->superblock.check_seed, sequence);
    seglog_record_seal(&header, seglog_record_seed(segment->superblock.check_seed, segment->header.stamp),
                       grain);
    memcpy(record, &header, sizeof(header));
    struct base_hash128 hash = base_hash128(key, key_bytes, segment->superblock.hash_seed);
    segment->entries[segment->count++] = (struct seglog_entry_format){
        .hash = {hash.low, hash.high},
        .sequence = sequence,
        .grain = (uint32_t)(at / grain_bytes),
        .bytes = (uint32_t)bytes,
        .kind = header.kind,
        .expiry = {(uint8_t)sequence},
    };
    segment->end = at + bytes;
    segment->position = base_align_up(segment->end, grain_bytes);
    return at;
}

/** A write ends here: what follows begins at a block. */
static inline void testing_segment_end_write(struct testing_segment *segment)
{
    segment->position = base_align_up(segment->position, segment->superblock.block_bytes);
}

/** Write a summary of the records so far. @param flags  of the trailer */
static inline void testing_segment_summarize(struct testing_segment *segment, uint32_t flags)
{
    struct seglog_trailer_format trailer = {
        .stamp = segment->header.stamp,
        .session = 1,
        .entries = segment->count,
        .end = (uint32_t)segment->end,
        .flags = flags,
    };
    uint64_t bytes = seglog_summary_bytes(segment->count, segment->superblock.block_bytes);
    uint8_t *summary = segment->bytes + segment->superblock.segment_bytes - bytes;
    memcpy(summary, segment->entries, segment->count * sizeof(*segment->entries));
    seglog_summary_seal(summary, &trailer, &segment->superblock);
}

static inline void testing_segment_end(struct testing_segment *segment)
{
    free(segment->entries);
    segment->entries = NULL;
}

/* ---- what an opening found ------------------------------------------------------------------------ */

#define TESTING_SEQUENCES 4096

/* Which sequences are in the summaries, and how often. */
struct testing_found {
    uint8_t times[TESTING_SEQUENCES];
    uint64_t count;
};

static inline int testing_found_visit(void *arg, uint32_t segment, uint64_t stamp,
                                      const struct seglog_entry_format *entries, uint32_t count)
{
    (void)segment;
    (void)stamp;
    struct testing_found *found = arg;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(entries[i].sequence < TESTING_SEQUENCES);
        found->times[entries[i].sequence]++;
        found->count++;
    }
    return 0;
}

static inline void testing_find(struct seglog *log, struct testing_found *ret_found)
{
    memset(ret_found, 0, sizeof(*ret_found));
    assert_int_equal(seglog_visit(log, testing_found_visit, ret_found), 0);
}

/* ---- openings ------------------------------------------------------------------------------------ */

#define TESTING_SEQUENCE_BOUND 3000
#define TESTING_STAMP_BOUND    1000

static inline struct testing_drive testing_bounded_store(void)
{
    struct testing_drive drive = testing_store();
    testing_state_bound(&drive, TESTING_SEQUENCE_BOUND, TESTING_STAMP_BOUND);
    return drive;
}

/* Records with these sequences, of some size, each write with `per_write` of them. */
static inline void testing_segment_fill(struct testing_segment *segment, uint64_t begin, uint64_t end,
                                        uint32_t value_bytes, uint64_t per_write)
{
    for (uint64_t sequence = begin; sequence < end; sequence++) {
        (void)testing_segment_add(segment, sequence, value_bytes);
        if ((sequence - begin + 1) % per_write == 0)
            testing_segment_end_write(segment);
    }
}

static inline void testing_expect_exactly(const struct testing_found *found, uint64_t begin, uint64_t end)
{
    for (uint64_t sequence = 0; sequence < TESTING_SEQUENCES; sequence++)
        assert_int_equal(found->times[sequence], sequence >= begin && sequence < end);
}

/* Open to read, then to write, then to read what that left: all three find the same. */
static inline void testing_expect_opened(struct testing_drive *drive, uint64_t begin, uint64_t end)
{
    static const bool read_only[] = {true, false, true};
    struct testing_found found;
    for (size_t i = 0; i < base_array_count(read_only); i++) {
        struct testing_drive before = testing_drive_copy(drive);
        struct testing_log log;
        testing_log_open(&log, drive, read_only[i]);
        testing_find(log.log, &found);
        testing_expect_exactly(&found, begin, end);
        testing_log_close(&log);
        if (read_only[i])
            assert_memory_equal(before.bytes, drive->bytes, drive->size);
        testing_drive_free(&before);
    }
}

static inline void testing_expect_refused(struct testing_drive *drive, int error, const char *why)
{
    for (int read_only = 0; read_only < 2; read_only++) {
        struct testing_log log;
        assert_int_equal(testing_log_try_open(&log, drive, read_only != 0), error);
        assert_non_null(strstr(log.lines.error, why));
    }
}

#endif
