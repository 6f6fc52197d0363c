/*
 * For the tests of this layer: logs on a drive in memory, with an owner to whom all is right; segments that
 * are made by hand; what an opening finds.
 */
#include "seglog/testing.h"

/* ---- logs --------------------------------------------------------------------------------------- */

void testing_drive_start(struct testing_log *log, struct testing_drive *drive)
{
    memset(&log->lines, 0, sizeof(log->lines));
    log->log = NULL;
    log->node = testing_node_with_lines(drive, NULL, &log->lines);
    assert_int_equal(
        drive_open(log->node, "store", &(struct drive_options){.direct = DRIVE_DIRECT_AUTO}, &log->drive), 0);
}

void testing_drive_stop(struct testing_log *log)
{
    drive_close(log->drive);
    task_node_close(log->node);
}

int testing_format(struct testing_drive *drive, const struct seglog_format_options *options)
{
    struct testing_log log;
    testing_drive_start(&log, drive);
    int error = seglog_format(log.node, log.drive, options);
    testing_drive_stop(&log);
    return error;
}

int testing_log_try_open(struct testing_log *log, struct testing_drive *drive, bool read_only)
{
    testing_drive_start(log, drive);
    const struct seglog_options options = {.owner_kind = SEGLOG_OWNER_DEPOT, .read_only = read_only};
    int error = seglog_open(log->node, log->drive, &options, &log->log);
    if (error != 0)
        testing_drive_stop(log);
    return error;
}

void testing_log_open(struct testing_log *log, struct testing_drive *drive, bool read_only)
{
    assert_int_equal(testing_log_try_open(log, drive, read_only), 0);
}

void testing_log_close(struct testing_log *log)
{
    assert_int_equal(seglog_close(log->log), 0);
    testing_drive_stop(log);
}

enum seglog_verdict testing_judge(void *owner, const struct seglog_entry_format *entry, uint64_t grain)
{
    (void)owner;
    (void)entry;
    (void)grain;
    return SEGLOG_LIVE;
}

bool testing_moved(void *owner, const struct seglog_entry_format *entry, uint64_t grain,
                   const struct seglog_place *place)
{
    (void)owner;
    (void)entry;
    (void)grain;
    (void)place;
    return true;
}

void testing_service(void *owner)
{
    (void)owner;
}

const struct seglog_owner_ops testing_ops = {
    .judge = testing_judge, .moved = testing_moved, .service = testing_service};

void testing_log_start(struct testing_log *log, struct testing_drive *drive)
{
    testing_log_open(log, drive, false);
    assert_int_equal(seglog_start(log->log, &testing_ops, NULL), 0);
}

void testing_log_stop(struct testing_log *log)
{
    assert_int_equal(seglog_stop(log->log), 0);
    testing_log_close(log);
}

void testing_log_close_failed(struct testing_log *log)
{
    assert_int_equal(seglog_stop(log->log), -EROFS);
    assert_int_equal(seglog_close(log->log), -EROFS);
    testing_drive_stop(log);
}

struct testing_drive testing_store_of(uint64_t bytes, const struct seglog_format_options *options)
{
    static const struct seglog_format_options defaults = {.owner_kind = SEGLOG_OWNER_DEPOT};
    struct testing_drive drive = testing_drive_new(bytes);
    assert_int_equal(testing_format(&drive, options == NULL ? &defaults : options), 0);
    return drive;
}

struct testing_drive testing_store(void)
{
    return testing_store_of(TESTING_STORE_BYTES, NULL);
}

/* ---- stores made by hand ------------------------------------------------------------------------- */

struct seglog_superblock_format testing_superblock(const struct testing_drive *drive)
{
    struct seglog_superblock_format superblock;
    const char *wrong;
    assert_int_equal(seglog_superblock_parse(drive->bytes, &superblock, &wrong), 0);
    return superblock;
}

struct seglog_state_format *testing_state(struct testing_drive *drive)
{
    struct seglog_superblock_format superblock = testing_superblock(drive);
    struct seglog_state_format *newest = NULL;
    for (uint64_t slot = 0; slot < SEGLOG_STATE_SLOTS; slot++) {
        struct seglog_state_format *state =
            (void *)(drive->bytes + seglog_state_slot_offset(&superblock, slot));
        if (seglog_state_verify(state, &superblock) == 0 &&
            (newest == NULL || state->generation > newest->generation))
            newest = state;
    }
    assert_non_null(newest);
    return newest;
}

void testing_state_seal(struct testing_drive *drive)
{
    struct seglog_superblock_format superblock = testing_superblock(drive);
    for (uint64_t pair = 0; pair < 2; pair++) {
        uint8_t *slot = drive->bytes + seglog_state_slot_offset(&superblock, 2 * pair);
        struct seglog_state_format *state = (void *)slot;
        if (state->generation % 2 != pair || state->generation == 0)
            continue;
        seglog_state_seal(state, &superblock);
        memcpy(slot + superblock.state_bytes, slot, superblock.state_bytes);
    }
}

void testing_state_bound(struct testing_drive *drive, uint64_t sequence_bound, uint64_t stamp_bound)
{
    struct seglog_state_format *state = testing_state(drive);
    state->sequence_bound = sequence_bound;
    state->stamp_bound = stamp_bound;
    state->session = base_max(state->session, UINT64_C(1));
    state->flags = 0;
    testing_state_seal(drive);
}

void testing_segment_begin(struct testing_segment *segment, struct testing_drive *drive, uint32_t number,
                           uint64_t stamp)
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

uint64_t testing_segment_add_marked(struct testing_segment *segment, uint64_t sequence, uint32_t value_bytes,
                                    uint8_t marks, const void *extension)
{
    uint64_t at = segment->position;
    uint64_t grain_bytes = segment->superblock.grain_bytes;
    uint64_t grain = ((uint64_t)(segment->bytes - segment->drive->bytes) + at) / grain_bytes;
    char front[40] = "", *key = front + seglog_extension_bytes(marks);
    uint16_t key_bytes = (uint16_t)snprintf(key, 24, "%llu", (unsigned long long)sequence);
    uint64_t front_bytes = seglog_extension_bytes(marks) + UINT64_C(1) * key_bytes;
    if (extension != NULL)
        memcpy(front, extension, seglog_extension_bytes(marks));
    struct seglog_record_format header = {
        .sequence = sequence,
        .version = sequence,
        .value_bytes = value_bytes,
        .key_bytes = key_bytes,
        .kind = SEGLOG_VALUE | marks,
        .expiry = {(uint8_t)sequence},
        .client_flags = 7,
    };
    uint64_t bytes = seglog_record_bytes(header.kind, key_bytes, value_bytes);
    uint8_t *record = segment->bytes + at, *value = record + sizeof(header) + front_bytes;
    memcpy(record + sizeof(header), front, front_bytes);
    memset(value, (int)(sequence | 1), value_bytes);
    header.body_check =
        seglog_body_check(front, front_bytes, value, value_bytes, segment->superblock.check_seed, sequence);
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

uint64_t testing_segment_add(struct testing_segment *segment, uint64_t sequence, uint32_t value_bytes)
{
    return testing_segment_add_marked(segment, sequence, value_bytes, 0, NULL);
}

void testing_segment_end_write(struct testing_segment *segment)
{
    segment->position = base_align_up(segment->position, segment->superblock.block_bytes);
}

void testing_segment_summarize(struct testing_segment *segment, uint32_t flags)
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

void testing_segment_end(struct testing_segment *segment)
{
    free(segment->entries);
    segment->entries = NULL;
}

/* ---- what an opening found ------------------------------------------------------------------------ */

static int testing_found_visit(void *arg, uint32_t segment, uint64_t stamp,
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

void testing_find(struct seglog *log, struct testing_found *ret_found)
{
    memset(ret_found, 0, sizeof(*ret_found));
    assert_int_equal(seglog_visit(log, testing_found_visit, ret_found), 0);
}

/* ---- openings ------------------------------------------------------------------------------------ */

struct testing_drive testing_bounded_store(void)
{
    struct testing_drive drive = testing_store();
    testing_state_bound(&drive, TESTING_SEQUENCE_BOUND, TESTING_STAMP_BOUND);
    return drive;
}

void testing_segment_fill(struct testing_segment *segment, uint64_t begin, uint64_t end, uint32_t value_bytes,
                          uint64_t per_write)
{
    for (uint64_t sequence = begin; sequence < end; sequence++) {
        (void)testing_segment_add(segment, sequence, value_bytes);
        if ((sequence - begin + 1) % per_write == 0)
            testing_segment_end_write(segment);
    }
}

void testing_expect_exactly(const struct testing_found *found, uint64_t begin, uint64_t end)
{
    for (uint64_t sequence = 0; sequence < TESTING_SEQUENCES; sequence++)
        assert_int_equal(found->times[sequence], sequence >= begin && sequence < end);
}

void testing_expect_opened(struct testing_drive *drive, uint64_t begin, uint64_t end)
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

void testing_expect_refused(struct testing_drive *drive, int error, const char *why)
{
    for (int read_only = 0; read_only < 2; read_only++) {
        struct testing_log log;
        assert_int_equal(testing_log_try_open(&log, drive, read_only != 0), error);
        assert_non_null(strstr(log.lines.error, why));
    }
}
