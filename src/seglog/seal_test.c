/*
 * What if sealing goes wrong? Cut off at any write, with any part of that write; memory or drive failing at
 * any point; reads that lie once. What one recovery has hidden must stay hidden, what was acknowledged must
 * stay.
 */
#include "seglog/testing.h"

#define SECTOR DRIVE_SECTOR_BYTES

/* An open segment with a torn write in its middle, and one whose summary is damaged. */
static struct testing_drive torn_store(void)
{
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment open, damaged;
    testing_segment_begin(&open, &drive, 3, 12);
    testing_segment_fill(&open, 1, 20, 900, 3);
    uint64_t torn = testing_segment_add(&open, 100, 9000);
    open.bytes[torn + 8000] ^= 1;
    testing_segment_end_write(&open);
    testing_segment_fill(&open, 20, 30, 1900, 2);
    testing_segment_begin(&damaged, &drive, 8, 11);
    testing_segment_fill(&damaged, 30, 60, 500, 4);
    testing_segment_summarize(&damaged, 0);
    damaged.bytes[damaged.superblock.segment_bytes - 3] ^= 1;
    testing_segment_end(&open);
    testing_segment_end(&damaged);
    return drive;
}

#define TORN_BEGIN 1
#define TORN_END   60

/* One opening to write, whatever comes of it. */
static int try_opening(struct testing_drive *drive)
{
    struct testing_log log;
    int error = testing_log_try_open(&log, drive, false);
    if (error == 0)
        testing_log_close(&log);
    return error;
}

/* The process dies at the n-th write, for every n, after any number of its sectors. */
static void sealing_may_be_cut_off_at_any_write(void **state)
{
    (void)state;
    struct testing_drive whole = torn_store();
    bool cut = true;
    unsigned writes = 0;
    for (uint64_t n = 1; cut; n++) {
        for (uint64_t sectors = 0; sectors < 20; sectors += 3) {
            struct testing_drive drive = testing_drive_copy(&whole);
            testing_drive_fail_at(&drive, DRIVE_WRITE, n, true);
            drive.partial_bytes = sectors * SECTOR;
            int error = try_opening(&drive);
            cut = error != 0;
            testing_drive_fail_at(&drive, DRIVE_WRITE, 0, false);
            if (cut)
                assert_true(error == -EIO || error == -EROFS);
            testing_expect_opened(&drive, TORN_BEGIN, TORN_END);
            testing_drive_free(&drive);
        }
        writes += cut;
    }
    assert_true(writes >= 5); /* the state, and for each segment records and summary */
    testing_drive_free(&whole);
}

/* Records are written again and flushed before the summary that vouches for them is written. */
static void the_summary_comes_after_a_flush(void **state)
{
    (void)state;
    struct testing_drive drive = torn_store();
    struct testing_drive before = testing_drive_copy(&drive);
    testing_drive_fail_at(&drive, DRIVE_FLUSH, 1, true);
    assert_int_equal(try_opening(&drive), -EIO);
    struct seglog_superblock_format superblock = testing_superblock(&drive);
    uint64_t end = superblock.data_offset + 4 * superblock.segment_bytes;
    assert_memory_equal(drive.bytes + end - TESTING_BLOCK_BYTES, before.bytes + end - TESTING_BLOCK_BYTES,
                        TESTING_BLOCK_BYTES);
    testing_drive_fail_at(&drive, DRIVE_FLUSH, 0, false);
    uint64_t durable_before = atomic_load(&drive.durable_writes),
             flushes_before = atomic_load(&drive.flushes);
    assert_int_equal(try_opening(&drive), 0);
    assert_int_equal(atomic_load(&drive.flushes) - flushes_before, 2);
    assert_int_equal(atomic_load(&drive.durable_writes) - durable_before, 3); /* the state, two summaries */
    testing_drive_free(&drive);
    testing_drive_free(&before);
}

/* Every accepted record's block goes to the drive again, even if nothing in it is wrong. */
static void what_is_accepted_is_written_again(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 0, 1);
    testing_segment_fill(&segment, 1, 30, 3000, 1);
    struct testing_log log;
    testing_log_open(&log, &drive, false);
    struct seglog_stats stats;
    seglog_stats(log.log, &stats);
    uint64_t state_bytes = 2 * segment.superblock.state_bytes, summary_bytes = TESTING_BLOCK_BYTES;
    assert_int_equal(stats.written_bytes,
                     base_align_up(segment.end, TESTING_BLOCK_BYTES) + state_bytes + summary_bytes);
    testing_log_close(&log);
    testing_segment_end(&segment);
    testing_drive_free(&drive);
}

/* A torn record that was hidden turns out whole later, and the summary of the sealing is damaged then. */
static void sealed_stays_sealed(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 0, 1);
    testing_segment_fill(&segment, 1, 5, 3000, 1);
    uint64_t begin = segment.position;
    testing_segment_fill(&segment, 5, 8, 3000, 1);
    struct testing_drive whole = testing_drive_copy(&drive);
    memset(segment.bytes + begin, 0xee, 3 * TESTING_BLOCK_BYTES); /* not there at the first opening */
    testing_expect_opened(&drive, 1, 5);
    uint64_t offset = segment.superblock.data_offset;
    memcpy(drive.bytes + offset + begin, whole.bytes + offset + begin, 3 * TESTING_BLOCK_BYTES);
    testing_expect_opened(&drive, 1, 5); /* the summary decides */
    uint64_t end = offset + segment.superblock.segment_bytes;
    uint64_t entries = end - seglog_summary_bytes(4, TESTING_BLOCK_BYTES);
    drive.bytes[entries + 70] ^= 1;
    testing_expect_opened(&drive, 1, 5); /* and so does its trailer */
    struct testing_log log;
    drive.bytes[end - sizeof(struct seglog_trailer_format) + 20] ^=
        1; /* another stamp: it says nothing any more */
    testing_log_open(&log, &drive, true);
    assert_int_equal(log.log->segments[0].entry_count, 7);
    testing_log_close(&log);
    testing_segment_end(&segment);
    testing_drive_free(&drive);
    testing_drive_free(&whole);
}

/* Its trailer says that nothing is in it. */
static void a_sealed_trailer_may_bound_all(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 0, 1);
    testing_segment_fill(&segment, 1, 9, 3000, 1);
    testing_segment_summarize(&segment, SEGLOG_SUMMARY_SEALED);
    struct seglog_trailer_format *trailer =
        (void *)(segment.bytes + segment.superblock.segment_bytes - sizeof(*trailer));
    trailer->end = 0;
    testing_expect_opened(&drive, 0, 0);
    testing_segment_end(&segment);
    testing_drive_free(&drive);
}

/* A summary that was not sealed says nothing about the end when it is damaged. */
static void a_damaged_summary_bounds_nothing(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 0, 1);
    testing_segment_fill(&segment, 1, 9, 3000, 1);
    testing_segment_summarize(&segment, 0);
    struct seglog_trailer_format *trailer =
        (void *)(segment.bytes + segment.superblock.segment_bytes - sizeof(*trailer));
    trailer->end = 5000;
    testing_expect_opened(&drive, 1, 9);
    testing_segment_end(&segment);
    testing_drive_free(&drive);
}

/* ---- faults --------------------------------------------------------------------------------------- */

static void the_nth_allocation_fails(void **state)
{
    (void)state;
    struct testing_drive whole = torn_store();
    for (int read_only = 0; read_only < 2; read_only++) {
        bool failed = true;
        unsigned failures = 0;
        for (uint64_t n = 1; failed; n++) {
            struct testing_drive drive = testing_drive_copy(&whole);
            struct testing_log log;
            testing_drive_start(&log, &drive);
            const struct seglog_options options = {.owner_kind = SEGLOG_OWNER_DEPOT,
                                                   .read_only = read_only != 0};
            base_account_fail_at(&log.node->memory, n);
            int error = seglog_open(log.node, log.drive, &options, &log.log);
            base_account_fail_at(&log.node->memory, 0);
            failed = error != 0;
            if (failed)
                assert_int_equal(error, -ENOMEM);
            else
                assert_int_equal(seglog_close(log.log), 0);
            testing_drive_stop(&log); /* asserts that nothing is leaked */
            testing_expect_opened(&drive, TORN_BEGIN, TORN_END);
            testing_drive_free(&drive);
            failures += failed;
        }
        assert_true(failures >= 10);
    }
    testing_drive_free(&whole);
}

static void the_nth_request_fails(void **state)
{
    (void)state;
    static const enum drive_op ops[] = {DRIVE_READ, DRIVE_WRITE, DRIVE_FLUSH};
    struct testing_drive whole = torn_store();
    for (int kind = 0; kind < 6; kind++) {
        bool fail_on = kind % 2 != 0, armed = true;
        for (uint64_t n = 1; armed; n++) {
            struct testing_drive drive = testing_drive_copy(&whole);
            testing_drive_fail_at(&drive, ops[kind / 2], n, fail_on);
            int error = try_opening(&drive);
            assert_true(error == 0 || error == -EIO || error == -EROFS);
            armed = fail_on ? error != 0 : atomic_load(&drive.fail_at) == 0;
            if (!fail_on && ops[kind / 2] == DRIVE_READ)
                assert_int_equal(error, 0); /* a read is tried again */
            testing_drive_fail_at(&drive, DRIVE_READ, 0, false);
            testing_expect_opened(&drive, TORN_BEGIN, TORN_END);
            testing_drive_free(&drive);
        }
    }
    testing_drive_free(&whole);
}

static void expect_good(void *arg, const struct seglog_entry_format *entry, uint64_t grain, int error,
                        const struct seglog_record_format *header, const uint8_t *record)
{
    uint64_t *count = arg;
    (void)entry;
    (void)grain;
    (void)header;
    (void)record;
    assert_int_equal(error, 0);
    (*count)++;
}

/* Headers, summaries and records are on the drive as they should be. */
static void expect_whole(struct testing_drive *drive)
{
    struct testing_log log;
    uint64_t count = 0;
    testing_log_open(&log, drive, true);
    for (uint32_t i = 0; i < TESTING_SEGMENTS; i++)
        assert_int_equal(seglog_check_segment(log.log, i, expect_good, &count), 0);
    assert_int_equal(count, TORN_END - TORN_BEGIN);
    testing_log_close(&log);
}

/* A read that returns damaged bytes once hides nothing: for each read of the opening, and each of its parts.
 */
static void expect_lies_are_seen_through(struct testing_drive *whole, enum testing_lie lie, uint64_t begin,
                                         uint64_t end)
{
    bool lied = true;
    for (uint64_t n = 1; lied; n++) {
        struct testing_drive drive = testing_drive_copy(whole);
        struct testing_log log;
        struct testing_found found;
        testing_drive_lie_at(&drive, lie, n, begin, end);
        testing_log_open(&log, &drive, false);
        lied = atomic_load(&drive.fail_at) == 0;
        testing_drive_lie_at(&drive, lie, 0, 0, 0);
        testing_find(log.log, &found);
        testing_expect_exactly(&found, TORN_BEGIN, TORN_END);
        testing_log_close(&log);
        expect_whole(&drive);
        testing_drive_free(&drive);
    }
}

static void reads_may_lie_once(void **state)
{
    (void)state;
    static const enum testing_lie lies[] = {TESTING_NOISE, TESTING_ZEROS};
    struct testing_drive whole = torn_store();
    struct seglog_superblock_format superblock = testing_superblock(&whole);
    for (size_t i = 0; i < base_array_count(lies); i++) {
        expect_lies_are_seen_through(&whole, lies[i], 0, whole.size);
        uint64_t open = superblock.data_offset + 3 * superblock.segment_bytes;
        for (uint64_t at = open; at < open + 30 * TESTING_BLOCK_BYTES; at += (TESTING_SLOW ? 7 : 1) * SECTOR)
            expect_lies_are_seen_through(&whole, lies[i], at, at + SECTOR);
        uint64_t end = superblock.data_offset + 9 * superblock.segment_bytes;
        for (uint64_t at = end - TESTING_BLOCK_BYTES; at < end; at += SECTOR)
            expect_lies_are_seen_through(&whole, lies[i], at, at + SECTOR);
    }
    testing_drive_free(&whole);
}

/* Two readings that agree vouch for what they read, and for nothing behind it. */
static void each_window_is_read_until_it_agrees(void **state)
{
    (void)state;
    const struct seglog_format_options options = {.segment_bytes = UINT64_C(8) << 20,
                                                  .owner_kind = SEGLOG_OWNER_DEPOT};
    struct testing_drive drive = testing_store_of(UINT64_C(100) << 20, &options);
    testing_state_bound(&drive, TESTING_SEQUENCE_BOUND, TESTING_STAMP_BOUND);
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 1, 1);
    testing_segment_fill(&segment, 1, 120, 60000, 3);
    uint64_t begin = (uint64_t)(segment.bytes - drive.bytes);
    for (uint32_t i = 3; i < 119; i += 9) {
        uint64_t at = begin + base_align_down(segment.entries[i].grain * UINT64_C(64), DRIVE_SECTOR_BYTES);
        struct testing_log log;
        struct testing_found found;
        testing_drive_lie_at(&drive, TESTING_ZEROS, 1, at, at + DRIVE_SECTOR_BYTES);
        testing_log_open(&log, &drive, true);
        assert_int_equal(atomic_load(&drive.fail_at), 0);
        testing_find(log.log, &found);
        testing_expect_exactly(&found, 1, 120);
        testing_log_close(&log);
    }
    testing_segment_end(&segment);
    testing_drive_free(&drive);
}

/* What lies between header, records and grains goes as well. */
static void padding_is_wiped(void **state)
{
    (void)state;
    const struct seglog_format_options options = {.grain_bytes = 512, .owner_kind = SEGLOG_OWNER_DEPOT};
    struct testing_drive drive = testing_store_of(TESTING_STORE_BYTES, &options);
    testing_state_bound(&drive, TESTING_SEQUENCE_BOUND, TESTING_STAMP_BOUND);
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 1, 1);
    memset(segment.bytes + 64, 0xaa, 512 - 64);
    testing_segment_fill(&segment, 1, 5, 100, 10);
    for (uint32_t i = 0; i < 4; i++)
        memset(segment.bytes + 512 * (i + 1) + segment.entries[i].bytes, 0xaa,
               512 - segment.entries[i].bytes);
    struct testing_log log;
    testing_log_open(&log, &drive, false);
    testing_log_close(&log);
    for (uint64_t byte = 64; byte < TESTING_BLOCK_BYTES; byte++) {
        uint64_t within = byte % 512, record = byte / 512;
        bool of_record = record >= 1 && record <= 4 && within < segment.entries[record - 1].bytes;
        assert_true(of_record || segment.bytes[byte] == 0);
    }
    testing_expect_opened(&drive, 1, 5);
    testing_segment_end(&segment);
    testing_drive_free(&drive);
}

/* A drive whose bytes change from reading to reading is not believed at all. */
static void a_drive_that_always_lies_is_refused(void **state)
{
    (void)state;
    struct testing_drive drive = torn_store();
    struct seglog_superblock_format superblock = testing_superblock(&drive);
    uint64_t begin = superblock.data_offset + 3 * superblock.segment_bytes;
    static const uint64_t places[] = {0, 9 * TESTING_BLOCK_BYTES};
    for (size_t i = 0; i < base_array_count(places); i++) {
        struct testing_drive before = testing_drive_copy(&drive);
        drive.lie = TESTING_CHANGING;
        drive.fail_op = DRIVE_READ;
        drive.fail_on = true;
        drive.fail_begin = begin + places[i];
        drive.fail_end = begin + places[i] + SECTOR;
        atomic_store(&drive.fail_at, 1);
        assert_int_equal(try_opening(&drive), -EIO);
        struct testing_log log;
        assert_int_equal(testing_log_try_open(&log, &drive, true), -EIO);
        assert_non_null(strstr(log.lines.error, "twice") != NULL ? log.lines.error : NULL);
        atomic_store(&drive.fail_at, 0);
        testing_expect_opened(&drive, TORN_BEGIN, TORN_END);
        testing_drive_free(&drive);
        drive = before;
    }
    testing_drive_free(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sealing_may_be_cut_off_at_any_write),
        cmocka_unit_test(the_summary_comes_after_a_flush),
        cmocka_unit_test(what_is_accepted_is_written_again),
        cmocka_unit_test(sealed_stays_sealed),
        cmocka_unit_test(a_sealed_trailer_may_bound_all),
        cmocka_unit_test(a_damaged_summary_bounds_nothing),
        cmocka_unit_test(the_nth_allocation_fails),
        cmocka_unit_test(the_nth_request_fails),
        cmocka_unit_test(reads_may_lie_once),
        cmocka_unit_test(each_window_is_read_until_it_agrees),
        cmocka_unit_test(padding_is_wiped),
        cmocka_unit_test(a_drive_that_always_lies_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
