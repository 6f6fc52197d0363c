/*
 * Is a checkpoint read back as it was written, is one that is damaged anywhere refused and the one before it
 * used, does it cover what was settled and nothing else, and does it give way to who needs its space?
 */
#include "seglog/checkpoint_internal.h"
#include "seglog/collect_testing.h"

static const uint64_t payload_bytes =
    SEGLOG_SEGMENT_BYTES_MIN - TESTING_BLOCK_BYTES - sizeof(struct seglog_part_format);

/* Of the owner's, what fits into so many segments beside what the checkpoint begins with. */
static uint64_t bytes_of_segments(uint64_t segments, uint64_t store_segments)
{
    return segments * payload_bytes - sizeof(struct seglog_coverage_format) -
           store_segments * sizeof(struct seglog_cover_format);
}

/* ---- an owner that writes so many bytes ------------------------------------------------------------ */

struct owner {
    uint64_t bytes;
    uint64_t salt;
    uint64_t told_bytes; /* what it says that it will write; 0: the truth */
    int error;           /* after half of them */
};

static uint8_t byte_at(uint64_t at, uint64_t salt)
{
    return (uint8_t)((at * 2654435761u) >> 13 ^ at ^ salt);
}

static int write_bytes(void *arg, struct seglog_checkpoint *checkpoint)
{
    const struct owner *owner = arg;
    uint8_t data[1000];
    int error = 0;
    for (uint64_t at = 0; error == 0 && at < owner->bytes;) {
        uint64_t now = base_min(owner->bytes - at, 1 + at % sizeof(data));
        for (uint64_t i = 0; i < now; i++)
            data[i] = byte_at(at + i, owner->salt);
        error = seglog_checkpoint_put(checkpoint, data, now);
        at += now;
        if (at >= owner->bytes / 2 && owner->error != 0)
            return owner->error;
    }
    return error;
}

static uint64_t tell_bytes(void *arg)
{
    const struct owner *owner = arg;
    return owner->told_bytes == 0 ? owner->bytes : owner->told_bytes;
}

static const struct seglog_owner_ops owner_ops = {.judge = testing_judge,
                                                  .moved = testing_moved,
                                                  .checkpoint = write_bytes,
                                                  .checkpoint_bytes = tell_bytes,
                                                  .service = testing_service};

/* A session that changes something and leaves a checkpoint, or not. @return what writing it returned */
static int run_session(struct testing_drive *drive, struct owner *owner)
{
    struct testing_log log;
    testing_log_open(&log, drive, false);
    assert_int_equal(seglog_start(log.log, &owner_ops, owner), 0);
    atomic_fetch_add(&log.log->appended_bytes, 1); /* as if */
    assert_int_equal(seglog_stop(log.log), 0);
    int error = seglog_checkpoint_write(log.log);
    testing_log_close(&log);
    return error;
}

struct expected {
    const struct owner *owner;
    uint64_t at;
};

static int compare(void *arg, const void *data, uint64_t bytes)
{
    struct expected *expected = arg;
    for (uint64_t i = 0; i < bytes; i++)
        assert_int_equal(((const uint8_t *)data)[i], byte_at(expected->at + i, expected->owner->salt));
    expected->at += bytes;
    return 0;
}

static void expect_checkpoint(struct testing_log *log, const struct owner *owner)
{
    struct expected expected = {.owner = owner};
    assert_true(seglog_checkpoint_found(log->log));
    assert_int_equal(seglog_checkpoint_read(log->log, compare, &expected), 0);
    assert_int_equal(expected.at, owner->bytes);
}

/* ---- writing and reading ---------------------------------------------------------------------------- */

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    const uint64_t sizes[] = {
        1, bytes_of_segments(1, TESTING_SEGMENTS) - 1, bytes_of_segments(1, TESTING_SEGMENTS),
        bytes_of_segments(1, TESTING_SEGMENTS) + 1, bytes_of_segments(3, TESTING_SEGMENTS)};
    for (size_t i = 0; i < base_array_count(sizes); i++) {
        struct testing_drive drive = testing_store();
        struct owner owner = {.bytes = sizes[i], .salt = i};
        struct testing_log log;
        struct seglog_stats stats;
        assert_int_equal(run_session(&drive, &owner), 0);
        testing_log_open(&log, &drive, true);
        expect_checkpoint(&log, &owner);
        seglog_stats(log.log, &stats);
        uint64_t segments = i < 3 ? 1 : i == 3 ? 2 : 3;
        assert_int_equal(stats.segments_free, TESTING_SEGMENTS - segments);
        testing_log_close(&log);
        /* the next session keeps it, and a crash finds it again */
        testing_log_open(&log, &drive, false);
        expect_checkpoint(&log, &owner);
        assert_int_equal(seglog_start(log.log, &owner_ops, &owner), 0);
        struct testing_drive killed = testing_drive_copy(&drive);
        assert_int_equal(seglog_stop(log.log), 0);
        uint64_t written_bytes = log.log->written_bytes;
        assert_int_equal(seglog_checkpoint_write(log.log), 0); /* nothing has changed */
        assert_int_equal(log.log->written_bytes, written_bytes);
        testing_log_close(&log);
        for (int which = 0; which < 2; which++) {
            testing_log_open(&log, which == 0 ? &drive : &killed, true);
            expect_checkpoint(&log, &owner);
            assert_int_equal(log.lines.warns, 0);
            testing_log_close(&log);
        }
        testing_drive_free(&drive);
        testing_drive_free(&killed);
    }
}

/* Segments of 4 MiB: several parts in each, the last of which is shorter. */
static void large_ones_have_several_parts(void **state)
{
    (void)state;
    const struct seglog_format_options options = {.segment_bytes = UINT64_C(4) << 20,
                                                  .owner_kind = SEGLOG_OWNER_DEPOT};
    struct testing_drive drive = testing_store_of(UINT64_C(49) << 20, &options);
    struct owner owner = {.bytes = 2 * (UINT64_C(4) << 20) + 1234567, .salt = 5};
    struct testing_log log;
    assert_int_equal(run_session(&drive, &owner), 0);
    testing_log_open(&log, &drive, false);
    expect_checkpoint(&log, &owner);
    assert_int_equal(log.log->checkpoints.kept[0].part_count, 10);
    assert_int_equal(log.log->checkpoints.kept[0].count, 3);
    testing_log_close(&log);
    testing_drive_free(&drive);
}

/* Two are kept; the older gives way when the next is written. */
static void one_follows_another(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct owner owners[6];
    for (uint64_t round = 0; round < 6; round++) {
        struct testing_log log;
        owners[round] = (struct owner){.bytes = round % 3 * payload_bytes + 100, .salt = round};
        assert_int_equal(run_session(&drive, &owners[round]), 0);
        testing_log_open(&log, &drive, true);
        expect_checkpoint(&log, &owners[round]);
        assert_int_equal(log.log->checkpoints.kept[1].count > 0, round > 0);
        if (round > 0) {
            assert_int_equal(seglog_checkpoint_reject(log.log), 0);
            expect_checkpoint(&log, &owners[round - 1]);
            assert_int_equal(seglog_checkpoint_reject(log.log), 0);
            assert_false(seglog_checkpoint_found(log.log));
            assert_int_equal(log.log->free_count, TESTING_SEGMENTS);
        }
        testing_log_close(&log);
    }
    testing_drive_free(&drive);
}

static void too_few_free_segments(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct owner large = {.bytes = TESTING_SEGMENTS * payload_bytes, .salt = 1};
    struct owner small = {.bytes = 2 * payload_bytes, .salt = 2};
    struct owner liar = {.bytes = 4 * payload_bytes, .salt = 3, .told_bytes = 100};
    struct owner failing = {.bytes = payload_bytes, .salt = 4, .error = -ENOMEM};
    struct testing_log log;
    assert_int_equal(run_session(&drive, &large), -ENOSPC);
    assert_int_equal(run_session(&drive, &small), 0);
    assert_int_equal(run_session(&drive, &liar), -ENOSPC);
    assert_int_equal(run_session(&drive, &failing), -ENOMEM);
    testing_log_open(&log, &drive, true);
    expect_checkpoint(&log, &small);
    assert_int_equal(log.log->free_count, TESTING_SEGMENTS - log.log->checkpoints.kept[0].count);
    testing_log_close(&log);
    testing_drive_free(&drive);
}

/* ---- damage ----------------------------------------------------------------------------------------- */

/* @return whether the newest is still used; the one before must be, if it is not */
static bool newest_is_used(struct testing_drive *drive, const struct owner *newest,
                           const struct owner *before)
{
    struct testing_log log;
    testing_log_open(&log, drive, false);
    struct expected expected = {.owner = newest};
    bool used = seglog_checkpoint_found(log.log) &&
                log.log->checkpoints.kept[0].count == newest->bytes / payload_bytes + 1;
    int error = used ? seglog_checkpoint_read(log.log, compare, &expected) : 0;
    if (error != 0) {
        assert_int_equal(error, -EBADMSG);
        assert_int_equal(seglog_checkpoint_reject(log.log), 0);
        used = false;
    }
    if (!used)
        expect_checkpoint(&log, before);
    assert_int_equal(seglog_start(log.log, &owner_ops, (void *)(uintptr_t)newest), 0);
    assert_int_equal(seglog_stop(log.log), 0);
    testing_log_close(&log);
    return used;
}

static void damage_costs_only_time(void **state)
{
    (void)state;
    struct testing_drive whole = testing_store();
    struct owner before = {.bytes = 500, .salt = 1}, newest = {.bytes = 2 * payload_bytes + 500, .salt = 2};
    assert_int_equal(run_session(&whole, &before), 0);
    assert_int_equal(run_session(&whole, &newest), 0);
    struct testing_log log;
    testing_log_open(&log, &whole, true);
    uint32_t segments[3];
    memcpy(segments, log.log->checkpoints.kept[0].segments, sizeof(segments));
    testing_log_close(&log);
    uint64_t first = testing_superblock(&whole).data_offset;
    for (uint64_t place = 0; place < 3; place++) {
        uint64_t at = first + segments[place] * SEGLOG_SEGMENT_BYTES_MIN;
        const struct {
            uint64_t byte;
            bool used;
        } cases[] = {{at + 17, false},
                     {at + 42, false},
                     {at + 70, true}, /* behind the header there is nothing */
                     {at + TESTING_BLOCK_BYTES + 9, false},
                     {at + TESTING_BLOCK_BYTES + 24, false},
                     {at + TESTING_BLOCK_BYTES + 28, false},
                     {at + TESTING_BLOCK_BYTES + 100, false}};
        for (size_t i = 0; i < base_array_count(cases); i++) {
            struct testing_drive drive = testing_drive_copy(&whole);
            drive.bytes[cases[i].byte] ^= 1;
            assert_int_equal(newest_is_used(&drive, &newest, &before), cases[i].used);
            testing_drive_free(&drive);
        }
    }
    testing_drive_free(&whole);
}

/* Headers with a good check that are not of this checkpoint. */
static void impossible_headers(void **state)
{
    (void)state;
    struct testing_drive whole = testing_store();
    struct owner before = {.bytes = 500, .salt = 1}, newest = {.bytes = 2 * payload_bytes + 500, .salt = 2};
    assert_int_equal(run_session(&whole, &before), 0);
    assert_int_equal(run_session(&whole, &newest), 0);
    struct seglog_superblock_format superblock = testing_superblock(&whole);
    struct testing_log log;
    testing_log_open(&log, &whole, true);
    const uint32_t number = log.log->checkpoints.kept[0].segments[1];
    const uint32_t zero = log.log->checkpoints.kept[0].segments[0];
    testing_log_close(&log);
    for (int wrong = 0; wrong < 6; wrong++) {
        struct testing_drive drive = testing_drive_copy(&whole);
        struct seglog_segment_format *header =
            (void *)(drive.bytes + superblock.data_offset +
                     (wrong < 4 ? number : zero) * superblock.segment_bytes);
        header->stream += wrong == 0 ? 1 : 0; /* its place */
        header->stream -= wrong == 1 ? 1 : 0;
        header->checkpoint_stamp += wrong == 2;
        header->kind = wrong == 3 ? SEGLOG_SEGMENT_OLD_CHECKPOINT : header->kind;
        header->part_count = wrong == 4 ? 0 : wrong == 5 ? UINT32_MAX : header->part_count;
        seglog_segment_seal(header, superblock.check_seed);
        assert_false(newest_is_used(&drive, &newest, &before));
        testing_drive_free(&drive);
    }
    testing_drive_free(&whole);
}

/* Cut or failing at each write: nothing is found, or the one before. */
static void what_is_not_whole_is_none(void **state)
{
    (void)state;
    struct owner before = {.bytes = 500, .salt = 1}, newest = {.bytes = 2 * payload_bytes + 500, .salt = 2};
    for (uint64_t n = 1;; n++) {
        struct testing_drive drive = testing_store();
        struct testing_log log;
        assert_int_equal(run_session(&drive, &before), 0);
        testing_log_open(&log, &drive, false);
        assert_int_equal(seglog_start(log.log, &owner_ops, &newest), 0);
        atomic_fetch_add(&log.log->appended_bytes, 1);
        assert_int_equal(seglog_stop(log.log), 0);
        testing_drive_fail_at(&drive, DRIVE_WRITE, n, true);
        int error = seglog_checkpoint_write(log.log);
        testing_drive_fail_at(&drive, DRIVE_WRITE, 0, true);
        struct testing_drive cut = testing_drive_copy(&drive);
        (void)!seglog_close(log.log);
        testing_drive_stop(&log);
        testing_log_open(&log, &cut, true);
        expect_checkpoint(&log, error == 0 ? &newest : &before);
        testing_log_close(&log);
        testing_drive_free(&drive);
        testing_drive_free(&cut);
        if (error == 0) {
            assert_int_equal(n, 7); /* three parts, and three headers */
            break;
        }
        assert_int_equal(error, -EIO);
    }
}

static void a_lie_or_failure_of_one_read_does_not_matter(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct owner owner = {.bytes = 2 * payload_bytes, .salt = 1};
    assert_int_equal(run_session(&drive, &owner), 0);
    for (int lie = 0; lie < 2; lie++) {
        bool armed = true;
        for (uint64_t n = 1; armed; n++) {
            struct testing_log log;
            testing_drive_fail_at(&drive, DRIVE_READ, n, false);
            drive.lie = lie == 0 ? TESTING_TRUTH : TESTING_NOISE;
            testing_log_open(&log, &drive, true);
            expect_checkpoint(&log, &owner);
            armed = atomic_load(&drive.fail_at) == 0;
            testing_drive_fail_at(&drive, DRIVE_READ, 0, false);
            testing_log_close(&log);
        }
    }
    testing_drive_free(&drive);
}

static void only_a_good_end_may_leave_one(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct owner owner = {.bytes = 100};
    struct testing_log log;
    testing_log_open(&log, &drive, false);
    assert_int_equal(seglog_start(log.log, &owner_ops, &owner), 0);
    assert_int_equal(seglog_checkpoint_write(log.log), -EROFS); /* not stopped */
    assert_int_equal(seglog_stop(log.log), 0);
    seglog_fail(log.log, "a test", 0, -EIO);
    assert_int_equal(seglog_checkpoint_write(log.log), -EROFS);
    assert_int_equal(seglog_close(log.log), -EROFS);
    testing_drive_stop(&log);
    testing_drive_free(&drive);
}

/* ---- while running ---------------------------------------------------------------------------------- */

/* What a copy of the drive says, opened: of each key's newest record, whether the checkpoint is about it. */
struct copy {
    const struct run *run;
    struct seglog *log;
    uint64_t named[RUN_KEYS_MAX]; /* grains, by the checkpoint */
    uint64_t named_count;
    uint64_t newest[RUN_KEYS_MAX]; /* grains, by the summaries; 0: none, or a tombstone */
    uint64_t sequences[RUN_KEYS_MAX];
    uint64_t uncovered;
};

static int take_named(void *arg, const void *data, uint64_t bytes)
{
    struct copy *copy = arg;
    assert_int_equal(bytes % 8, 0);
    memcpy(&copy->named[copy->named_count], data, bytes);
    copy->named_count += bytes / 8;
    return 0;
}

static int take_newest(void *arg, uint32_t segment, uint64_t stamp, const struct seglog_entry_format *entries,
                       uint32_t count)
{
    struct copy *copy = arg;
    (void)stamp;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t number = run_number(copy->run, &entries[i]);
        bool value = (entries[i].kind & SEGLOG_KIND_MASK) == SEGLOG_VALUE;
        if (entries[i].sequence < copy->sequences[number] ||
            (entries[i].sequence == copy->sequences[number] && value))
            continue;
        copy->sequences[number] = entries[i].sequence;
        copy->newest[number] = value ? seglog_entry_grain(copy->log, segment, &entries[i]) : 0;
    }
    return 0;
}

static int count_uncovered(void *arg, uint32_t segment, uint64_t stamp,
                           const struct seglog_entry_format *entries, uint32_t count)
{
    struct copy *copy = arg;
    (void)stamp;
    for (uint32_t i = 0; i < count; i++)
        assert_false(seglog_is_covered(copy->log, seglog_entry_grain(copy->log, segment, &entries[i])));
    copy->uncovered += count;
    return 0;
}

/* A value that counts and is covered is named, and of such a key nothing else that is covered. */
static void expect_names(const struct run *run, struct testing_drive *drive)
{
    struct copy *copy = calloc(1, sizeof(*copy));
    struct testing_log log;
    assert_non_null(copy);
    testing_log_open(&log, drive, true);
    copy->run = run;
    copy->log = log.log;
    if (seglog_checkpoint_found(log.log)) {
        assert_int_equal(seglog_checkpoint_read(log.log, take_named, copy), 0);
        assert_int_equal(copy->named_count, RUN_KEYS_MAX);
        assert_int_equal(seglog_visit(log.log, take_newest, copy), 0);
        assert_int_equal(seglog_visit_uncovered(log.log, count_uncovered, copy), 0);
        for (uint32_t number = 0; number < RUN_KEYS_MAX; number++) {
            if (copy->newest[number] != 0 && seglog_is_covered(log.log, copy->newest[number]))
                assert_int_equal(copy->named[number], copy->newest[number]);
        }
    }
    testing_log_close(&log);
    free(copy);
}

#define PATIENCE_NS (60 * BASE_NS_PER_SECOND) /* for threads that do not get a processor */

static void written_meanwhile(struct run *run)
{
    const uint64_t end_ns = task_now() + PATIENCE_NS;
    for (uint32_t i = 0; i < 3000 || (run_stats(run).checkpoints <= 3 && task_now() < end_ns); i++) {
        assert_int_equal(run_put(run, i * 7 % 40, 2000), 0);
        if (i % 11 == 0)
            assert_int_equal(run_delete(run, i % 40), 0);
        if (i % 50 == 0) {
            struct testing_drive copy = testing_drive_copy(&run->drive.base);
            expect_names(run, &copy);
            testing_drive_free(&copy);
        }
    }
    const struct seglog_stats stats = run_stats(run);
    assert_true(stats.checkpoints > 3);
    assert_true(stats.collections > 3);
    assert_true(stats.checkpoints_kept > 0);
}

static void run_with_checkpoints(uint64_t segments, void (*test)(struct run *run))
{
    struct run *run = run_new(SEGLOG_POWER, segments);
    run->checkpoint_rate_bytes = UINT64_C(1) << 30;
    run->checkpoint_every_bytes = 1;
    run_and_free(run, test);
}

static void checkpoints_beside_writers_and_the_collector(void **state)
{
    (void)state;
    run_with_checkpoints(40, written_meanwhile);
}

/* Values that leave room for nothing else: checkpoints are given up, and nobody is told that there is none.
 */
static void filled(struct run *run)
{
    for (uint32_t i = 0; i < 400; i++)
        assert_int_equal(run_put(run, i % 10, 2000), 0);
    const uint64_t end_ns = task_now() + PATIENCE_NS;
    for (uint32_t i = 0; run_stats(run).checkpoints_kept == 0; i++) {
        assert_true(task_now() < end_ns);
        assert_int_equal(run_put(run, i % 10, 2000), 0);
    }
    uint32_t number = 0;
    while (atomic_load(&run->live_bytes) + seglog_footprint(run->log, 8000) < seglog_capacity(run->log))
        assert_int_equal(run_put(run, number++, 7900), 0);
    assert_true(number > 100);
    for (uint32_t i = 0; i < 300; i++)
        assert_int_equal(run_put(run, i % number, 7900), 0);
}

static void space_is_given_back(void **state)
{
    (void)state;
    run_with_checkpoints(40, filled);
}

/* What the end of a session has left in a small store does not make collection dearer in the next. */
static void left(struct run *run)
{
    for (uint32_t i = 0; i < 60; i++)
        assert_int_equal(run_put(run, i % 20, 3000), 0);
    assert_int_equal(seglog_stop(run->log), 0);
    assert_int_equal(seglog_checkpoint_write(run->log), 0);
    assert_int_equal(seglog_close(run->log), 0);
    run_open_log(run);
    assert_int_equal(seglog_start(run->log, &run_ops, run), 0);
    assert_int_equal(run_stats(run).checkpoints_kept, 1);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(run_put(run, i % 20, 3000), 0);
    assert_true(run_stats(run).collections > 0);
    assert_int_equal(run_stats(run).checkpoints_kept, 0);
}

static void what_is_left_makes_way(void **state)
{
    (void)state;
    run_in_a_thread(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN, left);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(large_ones_have_several_parts),
        cmocka_unit_test(one_follows_another),
        cmocka_unit_test(too_few_free_segments),
        cmocka_unit_test(damage_costs_only_time),
        cmocka_unit_test(impossible_headers),
        cmocka_unit_test(what_is_not_whole_is_none),
        cmocka_unit_test(a_lie_or_failure_of_one_read_does_not_matter),
        cmocka_unit_test(only_a_good_end_may_leave_one),
        cmocka_unit_test(checkpoints_beside_writers_and_the_collector),
        cmocka_unit_test(space_is_given_back),
        cmocka_unit_test(what_is_left_makes_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
