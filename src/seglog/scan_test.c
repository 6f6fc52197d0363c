/*
 * Does opening find every record that was written whole, and nothing else? Segments with and without
 * summaries, torn and damaged anywhere, stale ones, reads that lie, sealings that are cut off.
 */
#include "seglog/testing.h"
#include "task/testing.h"

#define SECTOR DRIVE_SECTOR_BYTES

static struct seglog_segment_info info_of(struct testing_log *log, uint32_t segment)
{
    struct seglog_segment_info info;
    seglog_segment_info(log->log, segment, &info);
    return info;
}

/* ---- what is live -------------------------------------------------------------------------------- */

static void a_fresh_store_is_all_free(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct testing_log log;
    struct seglog_stats stats;
    testing_log_open(&log, &drive, false);
    seglog_stats(log.log, &stats);
    assert_int_equal(stats.segments, TESTING_SEGMENTS);
    assert_int_equal(stats.segments_free, TESTING_SEGMENTS);
    assert_int_equal(stats.session, 1);
    assert_string_equal(info_of(&log, 3).state, "free");
    testing_log_close(&log);
    testing_drive_free(&drive);
}

static void a_clean_summary_is_believed_and_nothing_else_read(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 2, 5);
    testing_segment_fill(&segment, 10, 30, 3000, 4);
    testing_segment_summarize(&segment, 0);
    segment.bytes[TESTING_BLOCK_BYTES + 3] ^= 1; /* the record is damaged: who reads it will see */
    struct testing_log log;
    testing_log_open(&log, &drive, false);
    struct testing_found found;
    testing_find(log.log, &found);
    testing_expect_exactly(&found, 10, 30);
    struct seglog_segment_info info = info_of(&log, 2);
    assert_string_equal(info.state, "closed");
    assert_int_equal(info.stamp, 5);
    assert_int_equal(info.session, 1);
    assert_int_equal(info.entries, 20);
    assert_int_equal(info.used_bytes, segment.end);
    assert_int_equal(info.stream, 1);
    assert_false(info.sealed);
    assert_int_equal(log.log->segments[2].highest_sequence, 29);
    assert_int_equal(log.lines.warns, 0);
    struct seglog_stats stats;
    seglog_stats(log.log, &stats);
    assert_int_equal(stats.segments_free, TESTING_SEGMENTS - 1);
    assert_true(atomic_load(&drive.read_bytes) <
                segment.superblock.segment_bytes + 40 * TESTING_BLOCK_BYTES * 2);
    testing_log_close(&log);
    testing_segment_end(&segment);
    testing_drive_free(&drive);
}

static void freed_segments_stay_gone(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment old, live;
    testing_segment_begin(&old, &drive, 1, 7);
    testing_segment_fill(&old, 1, 5, 100, 1);
    testing_segment_summarize(&old, 0);
    testing_segment_begin(&live, &drive, 4, 8);
    testing_segment_fill(&live, 5, 9, 100, 1);
    testing_segment_summarize(&live, 0);
    struct seglog_state_format *newest = testing_state(&drive);
    newest->freed_stamps[1] = 7;
    newest->freed_stamps[4] = 7;
    testing_state_seal(&drive);
    testing_expect_opened(&drive, 5, 9);
    testing_segment_end(&old);
    testing_segment_end(&live);
    testing_drive_free(&drive);
}

/* A segment that is used again: behind the new records lie whole old ones. */
static void stale_records_do_not_fit_on(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment old, new;
    testing_segment_begin(&old, &drive, 1, 7);
    testing_segment_fill(&old, 100, 120, 1000, 1);
    testing_segment_summarize(&old, 0);
    testing_state(&drive)->freed_stamps[1] = 7;
    testing_state_seal(&drive);
    testing_segment_begin(&new, &drive, 1, 9);
    testing_segment_fill(&new, 200, 203, 1000, 1);
    struct testing_log log;
    testing_log_open(&log, &drive, true);
    assert_int_equal(log.lines.warns, 0); /* an ordinary tail */
    testing_log_close(&log);
    testing_expect_opened(&drive, 200, 203);
    testing_segment_end(&old);
    testing_segment_end(&new);
    testing_drive_free(&drive);
}

static void impossible_segments_are_refused(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment, twin;
    testing_segment_begin(&segment, &drive, 1, TESTING_STAMP_BOUND);
    testing_expect_refused(&drive, -EUCLEAN, "newer than the state");
    testing_segment_end(&segment);
    testing_segment_begin(&segment, &drive, 1, TESTING_STAMP_BOUND - 1);
    testing_segment_begin(&twin, &drive, 3, TESTING_STAMP_BOUND - 1);
    testing_expect_refused(&drive, -EUCLEAN, "same stamp");
    testing_segment_end(&twin);
    testing_segment_begin(&twin, &drive, 3, 4);
    (void)testing_segment_add(&twin, TESTING_SEQUENCE_BOUND, 10);
    testing_segment_summarize(&twin, 0);
    testing_expect_refused(&drive, -EUCLEAN, "newer than the state");
    testing_segment_end(&segment);
    testing_segment_end(&twin);
    testing_drive_free(&drive);
}

/* ---- segments without a summary ------------------------------------------------------------------- */

static void an_open_segment_is_sealed(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 0, 1);
    testing_segment_fill(&segment, 1, 40, 700, 3);
    struct testing_log log;
    testing_log_open(&log, &drive, false);
    struct seglog_segment_info info = info_of(&log, 0);
    assert_true(info.sealed);
    assert_int_equal(info.entries, 39);
    assert_int_equal(info.used_bytes, segment.end);
    assert_int_equal(log.log->segments[0].highest_sequence, 39);
    assert_non_null(strstr(log.lines.info, "sealed=1 sealed_records=39"));
    const struct seglog_entry_format *entries;
    uint32_t count;
    void *memory = drive_memory_alloc(log.node, log.drive, seglog_summary_memory_bytes(log.log));
    assert_int_equal(seglog_summary_read(log.log, 0, memory, &entries, &count), 0);
    assert_int_equal(count, 39);
    assert_memory_equal(entries, segment.entries, count * sizeof(*entries));
    base_free(&log.node->memory, memory, seglog_summary_memory_bytes(log.log));
    testing_log_close(&log);
    testing_expect_opened(&drive, 1, 40);
    testing_segment_end(&segment);
    testing_drive_free(&drive);
}

/* The second write is on the drive up to each of its sectors; what follows is old. */
static void tails_are_torn_at_every_sector(void **state)
{
    (void)state;
    struct testing_drive whole = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &whole, 0, 1);
    testing_segment_fill(&segment, 1, 4, 900, 3);
    uint64_t begin = segment.position;
    uint64_t ends[8];
    for (uint64_t i = 0; i < base_array_count(ends); i++) {
        (void)testing_segment_add(&segment, 4 + i, 900);
        ends[i] = segment.end;
    }
    testing_segment_end_write(&segment);
    uint64_t offset = (uint64_t)(segment.bytes - whole.bytes);
    for (uint64_t cut = begin; cut <= segment.position; cut += SECTOR) {
        struct testing_drive drive = testing_drive_copy(&whole);
        memset(drive.bytes + offset + cut, 0x77, segment.position - cut);
        uint64_t expected = 4;
        for (size_t i = 0; i < base_array_count(ends); i++)
            expected += ends[i] <= cut;
        testing_expect_opened(&drive, 1, expected);
        testing_drive_free(&drive);
    }
    testing_segment_end(&segment);
    testing_drive_free(&whole);
}

/* Writes in flight may have landed out of order: a hole does not hide what is behind it. */
static void records_behind_holes_are_found(void **state)
{
    (void)state;
    static const uint8_t fillings[] = {0, 0x5a};
    for (size_t i = 0; i < base_array_count(fillings); i++) {
        struct testing_drive drive = testing_bounded_store();
        struct testing_segment segment;
        testing_segment_begin(&segment, &drive, 5, 1);
        testing_segment_fill(&segment, 1, 4, 900, 3);
        memset(segment.bytes + segment.position, fillings[i], 3 * TESTING_BLOCK_BYTES);
        segment.position += 3 * TESTING_BLOCK_BYTES;
        testing_segment_fill(&segment, 4, 8, 900, 2);
        struct testing_log log;
        testing_log_open(&log, &drive, true);
        assert_int_equal(log.lines.warns, fillings[i] == 0 ? 0 : 1);
        testing_log_close(&log);
        testing_expect_opened(&drive, 1, 8);
        testing_segment_end(&segment);
        testing_drive_free(&drive);
    }
}

/* Every bit that is wrong in one record costs that record, and what shares its last block. */
static void damaged_records_are_left_out(void **state)
{
    (void)state;
    struct testing_drive whole = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &whole, 0, 1);
    testing_segment_fill(&segment, 1, 3, 5000, 1);
    uint64_t at = testing_segment_add(&segment, 3, 5000), end = segment.end;
    testing_segment_end_write(&segment);
    testing_segment_fill(&segment, 4, 7, 5000, 1);
    uint64_t offset = (uint64_t)(segment.bytes - whole.bytes);
    for (uint64_t byte = at; byte < end; byte += byte < at + 41 ? 1 : 499) {
        struct testing_drive drive = testing_drive_copy(&whole);
        drive.bytes[offset + byte] ^= 0x10;
        struct testing_log log;
        testing_log_open(&log, &drive, false);
        struct testing_found found;
        testing_find(log.log, &found);
        assert_int_equal(found.count, 5);
        assert_int_equal(found.times[3], 0);
        assert_int_equal(log.lines.warns, 1);
        assert_non_null(strstr(log.lines.warn, "left out"));
        testing_log_close(&log);
        testing_drive_free(&drive);
    }
    testing_segment_end(&segment);
    testing_drive_free(&whole);
}

static void what_is_hidden_is_wiped(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 0, 1);
    (void)testing_segment_add(&segment, 1, 100);
    uint64_t torn = testing_segment_add(&segment, 2, 100);
    segment.bytes[torn + 60] ^= 1;
    const uint64_t behind = testing_segment_add(&segment, 3, 100); /* whole, in the block of a torn one */
    struct testing_found found;
    struct testing_log log;
    testing_log_open(&log, &drive, false);
    testing_find(log.log, &found);
    testing_log_close(&log);
    for (uint64_t sequence = 0; sequence < TESTING_SEQUENCES; sequence++)
        assert_int_equal(found.times[sequence], sequence == 1 || sequence == 3);
    for (uint64_t byte = torn; byte < behind; byte++)
        assert_int_equal(segment.bytes[byte], 0);
    assert_memory_equal(segment.bytes, &segment.header, sizeof(segment.header));
    testing_segment_end(&segment);
    testing_drive_free(&drive);
}

static void records_above_the_bound_are_not_accepted(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 0, 1);
    testing_segment_fill(&segment, TESTING_SEQUENCE_BOUND - 2, TESTING_SEQUENCE_BOUND, 100, 1);
    (void)testing_segment_add(&segment, TESTING_SEQUENCE_BOUND, 100);
    testing_expect_opened(&drive, TESTING_SEQUENCE_BOUND - 2, TESTING_SEQUENCE_BOUND);
    testing_segment_end(&segment);
    testing_drive_free(&drive);
}

static void a_segment_without_records_is_sealed_empty(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 0, 1);
    struct testing_log log;
    for (int read_only = 1; read_only >= 0; read_only--) {
        testing_log_open(&log, &drive, read_only != 0);
        assert_string_equal(info_of(&log, 0).state, "closed");
        assert_true(info_of(&log, 0).sealed);
        assert_int_equal(info_of(&log, 0).entries, 0);
        testing_log_close(&log);
    }
    testing_expect_opened(&drive, 0, 0);
    testing_segment_end(&segment);
    testing_drive_free(&drive);
}

/* The smallest records there are, as many as fit with their summary. */
static void a_full_segment_is_sealed(void **state)
{
    (void)state;
    static const uint32_t grains[] = {32, 64, 512};
    for (size_t i = 0; i < base_array_count(grains); i++) {
        const struct seglog_format_options options = {.grain_bytes = grains[i],
                                                      .owner_kind = SEGLOG_OWNER_DEPOT};
        struct testing_drive drive = testing_store_of(TESTING_STORE_BYTES, &options);
        testing_state_bound(&drive, TESTING_SEQUENCE_BOUND, TESTING_STAMP_BOUND);
        struct testing_segment segment;
        testing_segment_begin(&segment, &drive, 11, 1);
        const struct seglog_superblock_format *superblock = &segment.superblock;
        while (segment.position + SEGLOG_RECORD_BYTES_MIN + 3 +
                   seglog_summary_bytes(segment.count + UINT64_C(1), superblock->block_bytes) <=
               superblock->segment_bytes)
            (void)testing_segment_add(&segment, segment.count + 1, 0);
        assert_true(segment.count <= seglog_entries_max(superblock));
        testing_expect_opened(&drive, 1, segment.count + 1);
        testing_segment_end(&segment);
        testing_drive_free(&drive);
    }
}

static void records_without_room_for_a_summary_are_refused(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 0, 1);
    while (segment.position + 5000 < segment.superblock.segment_bytes)
        (void)testing_segment_add(&segment, segment.count + 1, 4900);
    testing_expect_refused(&drive, -EUCLEAN, "no room for their summary");
    testing_segment_end(&segment);
    testing_drive_free(&drive);
}

/* One record more needs a second block for the summary, and that is taken. */
static void the_last_record_leaves_room_for_itself(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        struct testing_drive drive = testing_bounded_store();
        struct testing_segment segment;
        testing_segment_begin(&segment, &drive, 0, 1);
        testing_segment_fill(&segment, 1, 85, 100, 100); /* 84: all that one block can name */
        uint64_t room = segment.superblock.segment_bytes - 2 * TESTING_BLOCK_BYTES - segment.position;
        (void)testing_segment_add(&segment, 85, (uint32_t)room - 42 + (over != 0));
        if (over == 0)
            testing_expect_opened(&drive, 1, 86);
        else
            testing_expect_refused(&drive, -EUCLEAN, "no room for their summary");
        testing_segment_end(&segment);
        testing_drive_free(&drive);
    }
}

/* Records larger than what is read at once, and records across the edges of what is read at once. */
static void large_segments_are_read_in_windows(void **state)
{
    (void)state;
    const struct seglog_format_options options = {.segment_bytes = UINT64_C(8) << 20,
                                                  .owner_kind = SEGLOG_OWNER_DEPOT};
    struct testing_drive whole = testing_store_of(UINT64_C(100) << 20, &options);
    testing_state_bound(&whole, TESTING_SEQUENCE_BOUND, TESTING_STAMP_BOUND);
    struct testing_segment segment;
    testing_segment_begin(&segment, &whole, 1, 1);
    assert_int_equal(segment.superblock.record_bytes_max, SEGLOG_RECORD_BYTES_MAX);
    uint32_t value_bytes_max = SEGLOG_RECORD_BYTES_MAX - 41;
    (void)testing_segment_add(&segment, 1, 1000);
    (void)testing_segment_add(&segment, 2, value_bytes_max);
    (void)testing_segment_add(&segment, 3, value_bytes_max);
    testing_segment_fill(&segment, 4, 40, 12345, 1);
    testing_segment_fill(&segment, 40, 44, 300001, 2);
    (void)testing_segment_add(&segment, 44, value_bytes_max - 12345);
    struct testing_log log;
    testing_log_open(&log, &whole, true);
    struct testing_found found;
    testing_find(log.log, &found);
    testing_expect_exactly(&found, 1, 45);
    testing_log_close(&log);
    struct testing_drive before = testing_drive_copy(&whole);
    segment.bytes[64 + segment.entries[0].bytes] = 9; /* padding of the first window that is not zero */
    testing_log_open(&log, &whole, false);
    testing_find(log.log, &found);
    testing_expect_exactly(&found, 1, 45);
    testing_log_close(&log);
    uint64_t offset = segment.superblock.data_offset + segment.superblock.segment_bytes;
    assert_memory_equal(before.bytes + offset, whole.bytes + offset,
                        segment.end); /* written again as it was */
    testing_segment_end(&segment);
    testing_drive_free(&before);
    testing_drive_free(&whole);
}

/* ---- damaged summaries and headers ----------------------------------------------------------------- */

/* A summary that is wrong anywhere proves nothing: the records are read. */
static void damaged_summaries_are_made_again(void **state)
{
    (void)state;
    struct testing_drive whole = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &whole, 0, 1);
    testing_segment_fill(&segment, 1, 100, 300, 5);
    testing_segment_summarize(&segment, 0);
    uint64_t end = segment.superblock.data_offset + segment.superblock.segment_bytes;
    uint64_t begin = end - seglog_summary_bytes(99, TESTING_BLOCK_BYTES);
    uint64_t entries_end = begin + 99 * sizeof(struct seglog_entry_format);
    uint64_t trailer = end - sizeof(struct seglog_trailer_format);
    for (uint64_t byte = begin; byte < end; byte += byte < trailer ? 397 : 1) {
        if (byte > entries_end && byte < trailer)
            continue; /* zeros that nothing is made of */
        struct testing_drive drive = testing_drive_copy(&whole);
        drive.bytes[byte] ^= 4;
        testing_expect_opened(&drive, 1, 100);
        testing_drive_free(&drive);
    }
    testing_segment_end(&segment);
    testing_drive_free(&whole);
}

/* A summary whose check is right and whose content is not: somebody made it. */
static void impossible_summaries_are_not_believed(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 6; wrong++) {
        struct testing_drive drive = testing_bounded_store();
        struct testing_segment segment;
        testing_segment_begin(&segment, &drive, 0, 1);
        testing_segment_fill(&segment, 1, 5, 300, 5);
        struct seglog_entry_format *entries = segment.entries;
        struct seglog_entry_format second = entries[1];
        entries[1].grain -= wrong == 0;    /* overlaps */
        entries[1].sequence *= wrong != 1; /* there is no sequence 0 */
        entries[0].grain = wrong == 2 ? 0 : entries[0].grain;
        entries[1].bytes = wrong == 3 ? 40 : entries[1].bytes;
        entries[3].bytes += wrong == 4; /* behind the end */
        entries[1].kind = wrong == 5 ? 3 : entries[1].kind;
        testing_segment_summarize(&segment, 0);
        entries[1] = second;
        struct testing_log log;
        testing_log_open(&log, &drive, true);
        assert_true(info_of(&log, 0).sealed);
        testing_log_close(&log);
        testing_expect_opened(&drive, 1, 5);
        testing_segment_end(&segment);
        testing_drive_free(&drive);
    }
}

/* The header of a closed segment is damaged: its summary tells the stamp. */
static void a_summary_stands_in_for_its_header(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment, free_one;
    testing_segment_begin(&segment, &drive, 6, 9);
    testing_segment_fill(&segment, 1, 20, 300, 5);
    testing_segment_summarize(&segment, 0);
    segment.bytes[20] ^= 1;
    testing_segment_begin(&free_one, &drive, 7, 3); /* freed, and its header damaged as well: it stays so */
    testing_segment_fill(&free_one, 30, 40, 300, 5);
    testing_segment_summarize(&free_one, 0);
    free_one.bytes[20] ^= 1;
    struct seglog_state_format *newest = testing_state(&drive);
    newest->freed_stamps[6] = 8;
    newest->freed_stamps[7] = 3;
    testing_state_seal(&drive);
    struct testing_log log;
    testing_log_open(&log, &drive, true);
    assert_int_equal(log.lines.warns, 1);
    assert_non_null(strstr(log.lines.warn, "header of a segment is damaged"));
    assert_int_equal(info_of(&log, 6).stream, SEGLOG_NO_STREAM);
    assert_int_equal(info_of(&log, 6).stamp, 9);
    assert_string_equal(info_of(&log, 7).state, "free");
    testing_log_close(&log);
    testing_expect_opened(&drive, 1, 20);
    testing_segment_end(&segment);
    testing_segment_end(&free_one);
    testing_drive_free(&drive);
}

static void the_header_of_another_segment_is_none(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 6, 9);
    testing_segment_fill(&segment, 1, 20, 300, 5);
    memcpy(segment.bytes + segment.superblock.segment_bytes, segment.bytes, segment.superblock.segment_bytes);
    testing_expect_opened(&drive, 1, 20); /* and its records are not at home in 7 */
    segment.header.kind = 4;
    seglog_segment_seal(&segment.header, segment.superblock.check_seed);
    memcpy(segment.bytes, &segment.header, sizeof(segment.header));
    testing_segment_end(&segment);
    struct testing_log log;
    testing_log_open(&log, &drive, true);
    assert_string_equal(info_of(&log, 6).state, "closed"); /* by its summary */
    assert_int_equal(log.lines.warns, 1);
    testing_log_close(&log);
    testing_drive_free(&drive);
}

/* ---- visiting ------------------------------------------------------------------------------------- */

/* What the owner's function returns ends the visit. */
static int stop_at_five(void *arg, uint32_t segment, uint64_t stamp,
                        const struct seglog_entry_format *entries, uint32_t count)
{
    unsigned *calls = arg;
    (*calls)++;
    assert_int_equal(stamp, segment + UINT64_C(1));
    assert_int_equal(count, 1);
    return entries[0].sequence == 5 ? 77 : 0;
}

static void a_visit_goes_in_order_and_may_end(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    for (uint32_t i = 0; i < 8; i++) {
        struct testing_segment segment;
        testing_segment_begin(&segment, &drive, i, i + 1);
        (void)testing_segment_add(&segment, i + 1, 10);
        testing_segment_end(&segment);
    }
    for (int read_only = 1; read_only >= 0; read_only--) {
        struct testing_log log;
        unsigned calls = 0;
        testing_log_open(&log, &drive, read_only != 0);
        assert_int_equal(seglog_visit(log.log, stop_at_five, &calls), 77);
        assert_int_equal(calls, 5);
        testing_log_close(&log);
    }
    testing_drive_free(&drive);
}

/* A summary that one reading has damaged is read again, and not made again. */
static void lies_about_a_summary_are_seen_through(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 0, 1);
    testing_segment_fill(&segment, 1, 120, 300, 5);
    testing_segment_summarize(&segment, 0);
    uint64_t end = segment.superblock.data_offset + segment.superblock.segment_bytes;
    uint64_t begin = end - seglog_summary_bytes(segment.count, TESTING_BLOCK_BYTES);
    for (uint64_t at = begin; at < end; at += DRIVE_SECTOR_BYTES) {
        for (uint64_t n = 1; n < 3; n++) {
            struct testing_log log;
            testing_drive_lie_at(&drive, TESTING_NOISE, n, at, at + DRIVE_SECTOR_BYTES);
            testing_log_open(&log, &drive, true);
            assert_false(info_of(&log, 0).sealed);
            testing_log_close(&log);
        }
    }
    testing_segment_end(&segment);
    testing_drive_free(&drive);
}

/* ---- how far it is -------------------------------------------------------------------------------- */

/* A clock that the test moves. */
static uint64_t read_now(void *arg)
{
    return atomic_load((_Atomic uint64_t *)arg);
}

struct patience {
    _Atomic uint64_t now_ns;
    struct testing_lines lines;
};

/* A line each five seconds, and none before. */
static void wait_for_lines(void *arg)
{
    const struct task_testing *testing = arg;
    struct patience *patience = testing->arg;
    const struct seglog_options options = {.owner_kind = SEGLOG_OWNER_DEPOT, .read_only = true};
    struct drive *drive;
    struct seglog *log;
    assert_int_equal(
        drive_open(testing->node, "store", &(struct drive_options){.direct = DRIVE_DIRECT_AUTO}, &drive), 0);
    assert_int_equal(seglog_open(testing->node, drive, &options, &log), 0);
    const char *what = "counting sheep", *line = patience->lines.info;
    for (uint64_t done = 10; done < 30; done += 10) {
        unsigned before = patience->lines.infos;
        seglog_progress(log, what, "sheep", done, 40);
        assert_int_equal(patience->lines.infos, before);
        atomic_fetch_add(&patience->now_ns, 5 * BASE_NS_PER_SECOND);
        seglog_progress(log, what, "sheep", done, 40);
        assert_int_equal(patience->lines.infos, before + 1);
        assert_non_null(strstr(line, "work=\"counting sheep\""));
        assert_non_null(
            strstr(line, done == 10 ? "percent=25 done=10 sheep=40" : "percent=50 done=20 sheep=40"));
    }
    assert_int_equal(seglog_close(log), 0);
    drive_close(drive);
}

static void a_long_opening_tells_in_the_log_how_far_it_is(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct patience patience = {.now_ns = BASE_NS_PER_SECOND};
    const struct task_clock clock = {.monotonic = read_now, .wall = read_now, .arg = &patience.now_ns};
    const struct task_node_options options = {.clock = &clock,
                                              .drives = &testing_provider,
                                              .drives_arg = &drive,
                                              .log_level = BASE_LOG_INFO,
                                              .log_sink = testing_sink,
                                              .log_arg = &patience.lines};
    task_testing_run(&options, NULL, wait_for_lines, &patience);
    testing_drive_free(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fresh_store_is_all_free),
        cmocka_unit_test(a_clean_summary_is_believed_and_nothing_else_read),
        cmocka_unit_test(freed_segments_stay_gone),
        cmocka_unit_test(stale_records_do_not_fit_on),
        cmocka_unit_test(impossible_segments_are_refused),
        cmocka_unit_test(an_open_segment_is_sealed),
        cmocka_unit_test(tails_are_torn_at_every_sector),
        cmocka_unit_test(records_behind_holes_are_found),
        cmocka_unit_test(damaged_records_are_left_out),
        cmocka_unit_test(what_is_hidden_is_wiped),
        cmocka_unit_test(records_above_the_bound_are_not_accepted),
        cmocka_unit_test(a_segment_without_records_is_sealed_empty),
        cmocka_unit_test(a_full_segment_is_sealed),
        cmocka_unit_test(records_without_room_for_a_summary_are_refused),
        cmocka_unit_test(the_last_record_leaves_room_for_itself),
        cmocka_unit_test(large_segments_are_read_in_windows),
        cmocka_unit_test(lies_about_a_summary_are_seen_through),
        cmocka_unit_test(damaged_summaries_are_made_again),
        cmocka_unit_test(impossible_summaries_are_not_believed),
        cmocka_unit_test(a_summary_stands_in_for_its_header),
        cmocka_unit_test(the_header_of_another_segment_is_none),
        cmocka_unit_test(a_visit_goes_in_order_and_may_end),
        cmocka_unit_test(a_long_opening_tells_in_the_log_how_far_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
