/*
 * What a check tells of a store that is sound, whatever has happened to it: nothing; and what becomes of a
 * check when the drive or the memory fails.
 */
#include "depot/check/testing.h"

#include "base/random.h"

/* ---- sound stores ---------------------------------------------------------------------------------- */

static void a_sound_store_has_no_faults(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        struct testing_drive drive = made_store(killed != 0);
        struct testing_drive before = testing_drive_copy(&drive);
        struct told told;
        struct depot_check_report report;
        assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
        assert_int_equal(told.all, 0);
        assert_int_equal(report.faults, 0);
        assert_int_equal(report.records, KEYS - REMOVED);
        assert_int_equal(report.tombstones, REMOVED);
        assert_int_equal(report.superseded, OVERWRITTEN + REMOVED);
        assert_int_equal(report.segments, (TESTING_STORE_BYTES - 65536) / SEGLOG_SEGMENT_BYTES_MIN);
        assert_int_equal(report.segments_unsealed > 0, killed);
        assert_true(report.segments_free > 0 && report.segments_free < report.segments);
        assert_true(report.bytes_read > 0);
        assert_true(told.of > 0 && told.done == told.of);
        assert_memory_equal(drive.bytes, before.bytes, drive.size);
        struct tarn_node *node = testing_node(&drive, NULL);
        assert_int_equal(depot_check(node, "store", true, NULL, NULL, NULL, &report), 0);
        task_node_close(node);
        testing_drive_free(&before);
        testing_drive_free(&drive);
    }
}

static void an_empty_store_is_sound(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct tarn_node *node = testing_node(&drive, NULL);
    const struct tarn_format_options options = {.create_bytes = TESTING_STORE_BYTES, .grain_bytes = 32};
    assert_int_equal(tarn_depot_format(node, "store", &options), 0);
    task_node_close(node);
    struct told told;
    struct depot_check_report report;
    assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
    assert_int_equal(report.faults + told.all, 0);
    assert_int_equal(report.segments_free, report.segments);
    /* formatting that was cut before one of the copies */
    memset(drive.bytes, 0, SEGLOG_SUPERBLOCK_BYTES);
    expect_sound(&drive);
    testing_drive_free(&drive);
}

static void flushed_records_do_not_count(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_clock clock = {.wall_ns = 1000 * BASE_NS_PER_SECOND};
    struct testing_store store;
    struct told told;
    struct depot_check_report report;
    depot_testing_open(&store, &drive, &clock, TARN_MODE_POWER);
    for (int i = 0; i < KEYS; i++)
        put_number(&store, i, 0);
    assert_int_equal(tarn_depot_flush_all(store.depot, 0), 0);
    put_number(&store, 1, 1);
    put_number(&store, 2, 1);
    assert_int_equal(testing_delete(&store, "key2"), 0);
    assert_int_equal(tarn_depot_flush_all(store.depot, 2000 * BASE_NS_PER_SECOND), 0);
    depot_testing_close(&store);
    assert_int_equal(depot_testing_check(&drive, &clock, &told, &report), 0);
    assert_int_equal(report.faults, 0);
    assert_int_equal(report.records, 1);
    assert_int_equal(report.tombstones, 1);
    assert_int_equal(report.superseded, KEYS + 1);
    atomic_store(&clock.wall_ns, 2000 * BASE_NS_PER_SECOND);
    assert_int_equal(depot_testing_check(&drive, &clock, &told, &report), 0);
    assert_int_equal(report.faults, 0);
    assert_int_equal(report.records + report.tombstones, 0);
    assert_int_equal(report.superseded, KEYS + 3);
    testing_drive_free(&drive);
}

/* ---- an end at every write -------------------------------------------------------------------------- */

static void run_sessions(struct testing_drive *drive, struct base_random *random, enum tarn_mode mode,
                         unsigned steps)
{
    for (unsigned session = 0; session < 4; session++) {
        struct testing_store store;
        depot_testing_open(&store, drive, NULL, mode);
        for (unsigned step = 0; step < steps; step++) {
            int number = (int)base_random_below(random, 40);
            char key[16];
            (void)snprintf(key, sizeof(key), "key%d", number);
            if (base_random_below(random, 4) == 0)
                (void)testing_delete(&store, key);
            else
                put_number(&store, number, (int)step);
        }
        depot_testing_close(&store);
    }
}

/*
 * Sessions one after the other, and an end within every so-manieth write of all: what is left is sound, and
 * so it is when it was opened again, also when that was cut off in turn.
 */
static void end_within_writes(enum tarn_mode mode, unsigned steps, size_t each, uint64_t seed)
{
    struct testing_drive drive = {.size = 0};
    struct testing_recording recording = {.count = 0}, again = {.count = 0};
    struct testing_store store;
    struct base_random random;
    base_random_init(&random, seed);
    depot_testing_open(&store, &drive, NULL, mode);
    depot_testing_close(&store);
    struct testing_drive now = testing_drive_copy(&drive);
    drive.recording = &recording;
    run_sessions(&drive, &random, mode, steps);
    for (size_t i = 0; i < recording.count; i++) {
        const struct testing_write *write = &recording.writes[i];
        if (i % each == 0) {
            struct testing_drive end = testing_drive_copy(&now);
            testing_write_tear(write, &end, &random);
            expect_sound(&end);
            struct testing_drive twice = testing_drive_copy(&end);
            end.recording = &again;
            depot_testing_open(&store, &end, NULL, mode);
            put_number(&store, 1, 1);
            depot_testing_close(&store);
            end.recording = NULL;
            expect_sound(&end);
            size_t cut = base_random_below(&random, again.count);
            for (size_t j = 0; j < cut; j++)
                testing_write_play(&again.writes[j], &twice);
            testing_write_tear(&again.writes[cut], &twice, &random);
            expect_sound(&twice);
            testing_recording_free(&again);
            again = (struct testing_recording){.count = 0};
            testing_drive_free(&twice);
            testing_drive_free(&end);
        }
        testing_write_play(write, &now);
    }
    assert_true(recording.count > 4 * each);
    testing_recording_free(&recording);
    testing_drive_free(&now);
    testing_drive_free(&drive);
}

static void no_end_leaves_faults(void **state)
{
    (void)state;
    end_within_writes(TARN_MODE_POWER, 20, TESTING_SLOW ? 3 : 1, 1);
    end_within_writes(TARN_MODE_DEVICE, 20, TESTING_SLOW ? 3 : 1, 2);
    end_within_writes(TARN_MODE_POWER, 1500, TESTING_SLOW ? 131 : 41, 3); /* with the collector at work */
}

/* ---- what fails meanwhile ----------------------------------------------------------------------------- */

static void a_drive_that_lies_once_is_asked_again(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    struct told told;
    struct depot_check_report report;
    drive.reads = 0;
    expect_sound(&drive);
    uint64_t reads = drive.reads;
    for (uint64_t n = 1; n <= reads; n++) {
        drive.fail_at = n;
        drive.fail_op = DRIVE_READ;
        drive.lie = TESTING_NOISE;
        drive.reads = 0;
        assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
        assert_int_equal(told.all, 0);
        assert_true(drive.reads >= reads); /* equal: it was read twice in any case */
        assert_int_equal(drive.fail_at, 0);
    }
    testing_drive_free(&drive);
}

static void every_read_may_fail(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    struct told told;
    drive.reads = 0;
    expect_sound(&drive);
    uint64_t reads = drive.reads, failed = 0;
    for (uint64_t n = 1; n <= reads; n++) {
        struct depot_check_report report = {.faults = 77};
        drive.fail_at = n;
        drive.fail_op = DRIVE_READ;
        int error = depot_testing_check(&drive, NULL, &told, &report);
        assert_true(error == 0 || error == -EIO); /* the log reads some things again */
        assert_int_equal(told.all, 0);
        assert_int_equal(report.faults, error == 0 ? 0 : 77);
        failed += error != 0;
    }
    assert_true(failed > reads / 4);
    testing_drive_free(&drive);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_ASYNC);
    for (int i = 0; i < 4000; i++) { /* more than the smallest table takes at once */
        char key[16];
        (void)snprintf(key, sizeof(key), "%d", i);
        assert_int_equal(depot_testing_put(&store, key, ""), 0);
    }
    depot_testing_close(&store);
    bool smaller = false;
    for (uint64_t n = 1;; n++) {
        struct told told = {.all = 0};
        struct depot_check_report report = {.faults = 77};
        struct tarn_node *node = testing_node(&drive, NULL);
        base_account_fail_at(&node->memory, n);
        int error = depot_check(node, "store", false, testing_tell, NULL, &told, &report);
        bool over = atomic_load(&node->memory.fail_at) != 0;
        base_account_fail_at(&node->memory, 0);
        task_node_close(node);
        assert_true(error == 0 || error == -ENOMEM);
        assert_int_equal(told.all, 0);
        assert_int_equal(report.faults, error == 0 ? 0 : 77);
        if (error == 0)
            assert_int_equal(report.records + report.superseded, 4000);
        smaller = smaller || (error == 0 && !over); /* with a smaller table, in several passes */
        if (over)
            break;
    }
    assert_true(smaller);
    testing_drive_free(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_store_has_no_faults),
        cmocka_unit_test(an_empty_store_is_sound),
        cmocka_unit_test(flushed_records_do_not_count),
        cmocka_unit_test(no_end_leaves_faults),
        cmocka_unit_test(a_drive_that_lies_once_is_asked_again),
        cmocka_unit_test(every_read_may_fail),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
