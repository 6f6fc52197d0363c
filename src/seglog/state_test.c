/*
 * Does the state say what it must after any end: which generation counts, what a write adds to it, what its
 * bounds promise, when collected segments become free?
 */
#include "seglog/testing.h"

/* The slot of a pair, in the drive's bytes. */
static struct seglog_state_format *slot_of(struct testing_drive *drive, uint64_t slot)
{
    struct seglog_superblock_format superblock = testing_superblock(drive);
    return (void *)(drive->bytes + seglog_state_slot_offset(&superblock, slot));
}

/* ---- loading ---------------------------------------------------------------------------------------- */

/* Slots with these generations, 0 for a damaged one. */
static struct testing_drive store_with(const uint64_t generations[SEGLOG_STATE_SLOTS])
{
    struct testing_drive drive = testing_store();
    struct seglog_superblock_format superblock = testing_superblock(&drive);
    for (uint64_t i = 0; i < SEGLOG_STATE_SLOTS; i++) {
        struct seglog_state_format *slot = slot_of(&drive, i);
        memset(slot, 0, superblock.state_bytes);
        slot->generation = generations[i];
        slot->sequence_bound = 1000 + generations[i];
        slot->stamp_bound = 5;
        seglog_state_seal(slot, &superblock);
        slot->check += generations[i] == 0;
    }
    return drive;
}

static void the_newest_good_slot_counts(void **state)
{
    (void)state;
    static const struct {
        uint64_t generations[SEGLOG_STATE_SLOTS];
        uint64_t newest;
    } cases[] = {
        {{4, 4, 3, 3}, 4}, {{4, 4, 5, 5}, 5}, {{4, 4, 5, 0}, 5}, {{4, 4, 0, 5}, 5}, {{4, 4, 0, 0}, 4},
        {{0, 4, 0, 0}, 4}, {{4, 0, 0, 0}, 4}, {{0, 0, 0, 7}, 7}, {{6, 4, 5, 5}, 6}, {{4, 6, 5, 5}, 6},
    };
    for (size_t i = 0; i < base_array_count(cases); i++) {
        struct testing_drive drive = store_with(cases[i].generations);
        struct testing_drive before = testing_drive_copy(&drive);
        struct testing_log log;
        struct seglog_stats stats;
        testing_log_open(&log, &drive, true);
        seglog_stats(log.log, &stats);
        assert_int_equal(stats.generation, cases[i].newest);
        assert_int_equal(seglog_sequence_next(log.log), 1000 + cases[i].newest);
        testing_log_close(&log);
        assert_memory_equal(before.bytes, drive.bytes, drive.size);
        testing_log_open(&log, &drive, false); /* heals its pair, and leaves the other alone */
        testing_log_close(&log);
        uint64_t pair = cases[i].newest % 2;
        assert_int_equal(slot_of(&drive, 2 * pair)->generation, cases[i].newest);
        assert_memory_equal(slot_of(&drive, 2 * pair), slot_of(&drive, 2 * pair + 1), 4096);
        assert_memory_equal(slot_of(&drive, 2 - 2 * pair), slot_of(&before, 2 - 2 * pair), 2 * 4096);
        testing_drive_free(&drive);
        testing_drive_free(&before);
    }
}

static void without_a_good_slot_it_is_refused(void **state)
{
    (void)state;
    static const uint64_t none[SEGLOG_STATE_SLOTS] = {0, 0, 0, 0};
    struct testing_drive drive = store_with(none);
    testing_expect_refused(&drive, -EUCLEAN, "copies of its state are damaged");
    testing_drive_free(&drive);
}

/* A slot that cannot be read does not hide its twin, and a pair that cannot be read is no reason for an older
 * one. */
static void unreadable_slots(void **state)
{
    (void)state;
    static const uint64_t generations[SEGLOG_STATE_SLOTS] = {4, 4, 5, 5};
    for (uint64_t bad = 0; bad < 6; bad++) {
        struct testing_drive drive = store_with(generations);
        uint64_t begin = bad < 4 ? bad : 2 * (bad - 4), count = bad < 4 ? 1 : 2;
        testing_drive_fail_at(&drive, DRIVE_READ, 1, true);
        drive.fail_begin = 8192 + begin * 4096;
        drive.fail_end = drive.fail_begin + count * 4096;
        struct testing_log log;
        int error = testing_log_try_open(&log, &drive, true);
        assert_int_equal(error, bad < 4 ? 0 : -EIO);
        if (error == 0) {
            assert_int_equal(seglog_sequence_next(log.log), 1005);
            testing_log_close(&log);
        }
        testing_drive_free(&drive);
    }
}

/* ---- writing ---------------------------------------------------------------------------------------- */

static void a_session_begins_and_ends(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    for (uint64_t session = 1; session < 4; session++) {
        struct testing_log log;
        testing_log_start(&log, &drive);
        const struct seglog_state_format *running = testing_state(&drive);
        assert_int_equal(running->session, session);
        assert_int_equal(running->flags, 0);
        struct seglog_stats stats;
        seglog_stats(log.log, &stats);
        assert_int_equal(stats.session, session);
        assert_int_equal(stats.generation, running->generation);
        assert_true(stats.state_writes >= 2);
        testing_log_stop(&log);
        assert_int_equal(testing_state(&drive)->session, session);
        assert_int_equal(testing_state(&drive)->flags, SEGLOG_STATE_ENDED);
    }
    struct testing_log log; /* who only opens, or reads, begins none */
    testing_log_open(&log, &drive, false);
    testing_log_close(&log);
    testing_log_open(&log, &drive, true);
    testing_log_close(&log);
    assert_int_equal(testing_state(&drive)->session, 3);
    assert_int_equal(testing_state(&drive)->flags, SEGLOG_STATE_ENDED);
    testing_drive_free(&drive);
}

/* How often a drive is flushed until a session has begun. @param fails  the first time fails, and with it the start */
static uint64_t flushes_of_start(struct testing_drive *drive, bool fails)
{
    struct testing_log log;
    const uint64_t flushes = drive->flushes, session = testing_state(drive)->session;
    testing_log_open(&log, drive, false);
    testing_drive_fail_at(drive, DRIVE_FLUSH, fails ? 1 : 0, false);
    const int error = seglog_start(log.log, &testing_ops, NULL);
    assert_int_equal(error, fails ? -EIO : 0);
    assert_int_equal(testing_state(drive)->session, fails ? session : session + 1);
    const uint64_t made = drive->flushes - flushes;
    testing_log_close(&log);
    return made;
}

/* What a process that was killed has left may be in the drive's cache alone: a summary counts as durable then. */
static void what_a_killed_process_left_is_flushed(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct testing_log log;
    testing_log_start(&log, &drive);
    struct testing_drive killed = testing_drive_copy(&drive);
    testing_log_stop(&log);
    assert_int_equal(flushes_of_start(&drive, false), 0);
    (void)flushes_of_start(&killed, true);
    assert_true(flushes_of_start(&killed, false) > 0);
    testing_drive_free(&killed);
    testing_drive_free(&drive);
}

/* At each moment of a state's write, with any part of it: the one before or the new one, never neither. */
static void a_write_may_be_cut_off(void **state)
{
    (void)state;
    for (uint64_t sectors = 0; sectors <= 16; sectors++) {
        struct testing_drive drive = testing_store();
        struct testing_log log;
        testing_log_start(&log, &drive);
        uint64_t generation = testing_state(&drive)->generation;
        testing_drive_fail_at(&drive, DRIVE_WRITE, 1, true);
        drive.partial_bytes = sectors * DRIVE_SECTOR_BYTES;
        assert_int_equal(seglog_flush_point_set(log.log, 1, 0), -EIO);
        assert_true(seglog_failed(log.log));
        assert_non_null(strstr(log.lines.error, "takes no more"));
        assert_int_equal(seglog_flush_point_set(log.log, 1, 0), -EROFS);
        assert_int_equal(seglog_wall_note(log.log, UINT64_MAX, UINT64_MAX), -EROFS);
        struct seglog_points points;
        seglog_points(log.log, &points);
        assert_int_equal(points.flush_sequence, 0); /* what is not durable is not told */
        testing_log_close_failed(&log);
        testing_drive_fail_at(&drive, DRIVE_WRITE, 0, true);
        testing_log_open(&log, &drive, true);
        struct seglog_stats stats;
        seglog_stats(log.log, &stats);
        seglog_points(log.log, &points);
        assert_int_equal(stats.generation, points.flush_sequence == 1 ? generation + 1 : generation);
        assert_int_equal(points.flush_sequence, sectors == 0 ? 0 : 1);
        testing_log_close(&log);
        testing_drive_free(&drive);
    }
}

static void points_are_durable_and_never_go_back(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    testing_state_bound(&drive, 100, 10);
    struct testing_log log;
    struct seglog_points points;
    testing_log_start(&log, &drive);
    assert_int_equal(seglog_flush_point_set(log.log, 50, 777), 0);
    assert_int_equal(seglog_wall_note(log.log, 1000, 1000), 0);
    for (int round = 0; round < 2; round++) {
        seglog_points(log.log, &points);
        assert_int_equal(points.flush_sequence, 50);
        assert_int_equal(points.flush_when_ns, 777);
        assert_int_equal(points.wall_ns, 1000);
        assert_int_equal(points.horizon_sequence, 0);
        if (round == 0) {
            testing_log_stop(&log);
            testing_log_start(&log, &drive);
        }
    }
    uint64_t writes = atomic_load(&log.log->state_writes);
    assert_int_equal(seglog_wall_note(log.log, 1000, 1000), 0); /* it says so already */
    assert_int_equal(seglog_wall_note(log.log, 3, 3), 0);
    assert_int_equal(atomic_load(&log.log->state_writes), writes);
    assert_int_equal(seglog_flush_point_set(log.log, 20, 0), 0);
    seglog_points(log.log, &points);
    assert_int_equal(points.flush_sequence, 50);
    assert_int_equal(points.flush_when_ns, 0);
    assert_int_equal(points.wall_ns, 1000);
    testing_log_stop(&log);
    testing_drive_free(&drive);
}

/* ---- sequences and stamps ---------------------------------------------------------------------------- */

static void no_sequence_is_drawn_twice(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    uint64_t last = 0;
    for (int round = 0; round < 4; round++) {
        struct testing_log log;
        testing_log_start(&log, &drive);
        for (int i = 0; i < 100; i++) {
            uint64_t sequence;
            assert_int_equal(seglog_sequence_draw(log.log, &sequence), 0);
            assert_true(sequence > last);
            assert_true(sequence < testing_state(&drive)->sequence_bound);
            last = sequence;
        }
        assert_int_equal(seglog_sequence_next(log.log), last + 1);
        struct testing_drive killed = testing_drive_copy(&drive);
        testing_log_stop(&log);
        if (round % 2 == 0) { /* the process dies instead */
            testing_drive_free(&drive);
            drive = killed;
        } else {
            testing_drive_free(&killed);
        }
    }
    testing_drive_free(&drive);
}

static void a_used_up_block_is_extended_first(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct testing_log log;
    uint64_t sequence;
    testing_log_start(&log, &drive);
    seglog_service_stop(log.log); /* it would extend them, too */
    uint64_t bound = testing_state(&drive)->sequence_bound;
    assert_int_equal(bound, 1 + SEGLOG_SEQUENCE_BLOCK);
    assert_int_equal(testing_state(&drive)->stamp_bound, 1 + SEGLOG_STAMP_BLOCK);
    atomic_store(&log.log->sequence, bound - 1);
    assert_int_equal(seglog_sequence_draw(log.log, &sequence), 0);
    assert_int_equal(sequence, bound - 1);
    assert_int_equal(testing_state(&drive)->sequence_bound, bound);
    assert_int_equal(seglog_sequence_draw(log.log, &sequence), 0);
    assert_int_equal(sequence, bound);
    assert_int_equal(testing_state(&drive)->sequence_bound, bound + SEGLOG_SEQUENCE_BLOCK);
    atomic_store(&log.log->sequence, bound + SEGLOG_SEQUENCE_BLOCK);
    testing_drive_fail_at(&drive, DRIVE_WRITE, 1, true);
    sequence = 77;
    assert_int_equal(seglog_sequence_draw(log.log, &sequence), -EIO);
    assert_int_equal(sequence, 77);
    assert_int_equal(seglog_sequence_draw(log.log, &sequence), -EROFS);
    testing_log_close_failed(&log);
    testing_drive_free(&drive);
}

static void stamps_go_on_from_the_bound(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    testing_state_bound(&drive, 100, 500);
    struct testing_log log;
    testing_log_open(&log, &drive, false);
    assert_int_equal(log.log->stamp, 499);
    assert_int_equal(log.log->stamp_bound, 500); /* so none is issued before the session's first state */
    assert_int_equal(seglog_start(log.log, &testing_ops, NULL), 0);
    assert_int_equal(log.log->stamp_bound, 500 + SEGLOG_STAMP_BLOCK);
    assert_int_equal(testing_state(&drive)->stamp_bound, 500 + SEGLOG_STAMP_BLOCK);
    testing_log_stop(&log);
    assert_int_equal(testing_state(&drive)->stamp_bound, 500 + SEGLOG_STAMP_BLOCK);
    testing_drive_free(&drive);
}

/* ---- freeing ------------------------------------------------------------------------------------------ */

static struct testing_drive store_with_segments(uint32_t count)
{
    struct testing_drive drive = testing_bounded_store();
    for (uint32_t i = 0; i < count; i++) {
        struct testing_segment segment;
        testing_segment_begin(&segment, &drive, i, i + 10);
        (void)testing_segment_add(&segment, i + 1, 10);
        testing_segment_summarize(&segment, 0);
        testing_segment_end(&segment);
    }
    return drive;
}

static void collect(struct seglog *log, uint32_t segment)
{
    base_spin_lock(&log->lock);
    log->segments[segment].state = SEGLOG_STATE_COLLECTED;
    base_spin_unlock(&log->lock);
}

static void collected_segments_are_free_when_it_is_durable(void **state)
{
    (void)state;
    struct testing_drive drive = store_with_segments(5);
    struct testing_log log;
    testing_log_start(&log, &drive);
    uint32_t free_before = log.log->free_count;
    collect(log.log, 1);
    collect(log.log, 3);
    assert_int_equal(seglog_state_write(log.log, NULL), 0);
    assert_int_equal(log.log->free_count, free_before + 2);
    assert_int_equal(log.log->segments[1].state, SEGLOG_STATE_FREE);
    assert_true(base_list_last(&log.log->free) == &log.log->segments[3].link);
    const struct seglog_state_format *newest = testing_state(&drive);
    assert_int_equal(newest->freed_stamps[0], 0);
    assert_int_equal(newest->freed_stamps[1], 11);
    assert_int_equal(newest->freed_stamps[3], 13);
    assert_memory_equal(log.log->state, newest, 4096); /* memory has it as well */
    collect(log.log, 4);
    testing_drive_fail_at(&drive, DRIVE_WRITE, 1, true);
    assert_int_equal(seglog_state_write(log.log, NULL), -EIO);
    assert_int_equal(log.log->segments[4].state, SEGLOG_STATE_COLLECTED); /* it may live after a restart */
    assert_int_equal(log.log->free_count, free_before + 2);
    testing_log_close_failed(&log);
    testing_drive_fail_at(&drive, DRIVE_WRITE, 0, true);
    struct testing_found found;
    testing_log_open(&log, &drive, false);
    testing_find(log.log, &found);
    assert_int_equal(found.count, 3);
    assert_int_equal(found.times[2] + found.times[4], 0);
    testing_log_close(&log);
    testing_drive_free(&drive);
}

static void collect_2(void *arg)
{
    struct seglog *log = arg;
    collect(log, 2);
}

/* A segment that is collected while a state is on its way waits for the next. */
static void what_is_collected_meanwhile_waits(void **state)
{
    (void)state;
    struct testing_drive drive = store_with_segments(5);
    struct testing_log log;
    testing_log_start(&log, &drive);
    collect(log.log, 1);
    testing_drive_do_in_write(&drive, collect_2, log.log);
    assert_int_equal(seglog_state_write(log.log, NULL), 0);
    assert_int_equal(log.log->segments[1].state, SEGLOG_STATE_FREE);
    assert_int_equal(log.log->segments[2].state, SEGLOG_STATE_COLLECTED);
    assert_int_equal(testing_state(&drive)->freed_stamps[2], 0);
    assert_int_equal(seglog_state_write(log.log, NULL), 0);
    assert_int_equal(log.log->segments[2].state, SEGLOG_STATE_FREE);
    assert_int_equal(testing_state(&drive)->freed_stamps[2], 12);
    testing_log_stop(&log);
    testing_drive_free(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_good_slot_counts),
        cmocka_unit_test(without_a_good_slot_it_is_refused),
        cmocka_unit_test(unreadable_slots),
        cmocka_unit_test(a_session_begins_and_ends),
        cmocka_unit_test(what_a_killed_process_left_is_flushed),
        cmocka_unit_test(a_write_may_be_cut_off),
        cmocka_unit_test(points_are_durable_and_never_go_back),
        cmocka_unit_test(no_sequence_is_drawn_twice),
        cmocka_unit_test(a_used_up_block_is_extended_first),
        cmocka_unit_test(stamps_go_on_from_the_bound),
        cmocka_unit_test(collected_segments_are_free_when_it_is_durable),
        cmocka_unit_test(what_is_collected_meanwhile_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
