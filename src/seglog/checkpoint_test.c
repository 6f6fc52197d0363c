/*
 * Is a checkpoint read back as it was written, is one that is damaged anywhere refused and the store opened
 * all the same, and is nothing named that was not written whole?
 */
#include "seglog/testing.h"

static const uint64_t payload_bytes = SEGLOG_SEGMENT_BYTES_MIN - TESTING_BLOCK_BYTES;

/* What a checkpoint is made of. */
static uint8_t byte_at(uint64_t at, uint64_t salt)
{
    return (uint8_t)((at * 2654435761u) >> 13 ^ at ^ salt);
}

struct source {
    uint64_t produced;
    uint64_t salt;
};

static void produce(void *arg, void *data, uint64_t bytes)
{
    struct source *source = arg;
    for (uint64_t i = 0; i < bytes; i++)
        ((uint8_t *)data)[i] = byte_at(source->produced + i, source->salt);
    source->produced += bytes;
}

static void expect_checkpoint(struct testing_log *log, uint64_t bytes, uint64_t salt)
{
    uint64_t found;
    seglog_checkpoint_find(log->log, &found);
    assert_int_equal(found, bytes);
    uint8_t *data = malloc(bytes);
    assert_non_null(data);
    assert_int_equal(seglog_checkpoint_read(log->log, data), 0);
    for (uint64_t i = 0; i < bytes; i++)
        assert_int_equal(data[i], byte_at(i, salt));
    free(data);
}

static void expect_none(struct testing_log *log)
{
    uint64_t found = 1;
    uint8_t data[1];
    seglog_checkpoint_find(log->log, &found);
    assert_int_equal(found, 0);
    assert_int_equal(seglog_checkpoint_read(log->log, data), -EBADMSG);
}

static int write_one(struct testing_log *log, uint64_t bytes, uint64_t salt)
{
    struct source source = {.salt = salt};
    int error = seglog_checkpoint_write(log->log, bytes, produce, &source);
    if (error == 0)
        assert_int_equal(source.produced, bytes);
    return error;
}

/* A store whose last session has ended with a checkpoint. */
static struct testing_drive store_with_checkpoint(uint64_t bytes, uint64_t salt)
{
    struct testing_drive drive = testing_store();
    struct testing_log log;
    testing_log_start(&log, &drive);
    assert_int_equal(seglog_stop(log.log), 0);
    assert_int_equal(write_one(&log, bytes, salt), 0);
    testing_log_close(&log);
    return drive;
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    const uint64_t sizes[] = {1,
                              4096,
                              65536,
                              65537,
                              payload_bytes - 1,
                              payload_bytes,
                              payload_bytes + 1,
                              3 * payload_bytes,
                              TESTING_SEGMENTS * payload_bytes};
    for (size_t i = 0; i < base_array_count(sizes); i++) {
        struct testing_drive drive = store_with_checkpoint(sizes[i], i);
        struct testing_log log;
        struct seglog_stats stats;
        testing_log_open(&log, &drive, true);
        expect_checkpoint(&log, sizes[i], i);
        seglog_stats(log.log, &stats);
        uint64_t segments = (sizes[i] + payload_bytes - 1) / payload_bytes;
        assert_int_equal(stats.segments_free, TESTING_SEGMENTS - segments);
        testing_log_close(&log);
        testing_log_open(&log, &drive, false);
        expect_checkpoint(&log, sizes[i], i);
        assert_int_equal(seglog_start(log.log, &testing_ops, NULL), 0);
        expect_none(&log); /* the session has begun */
        seglog_stats(log.log, &stats);
        assert_int_equal(stats.segments_free, TESTING_SEGMENTS);
        struct testing_drive killed = testing_drive_copy(&drive);
        assert_int_equal(seglog_stop(log.log), 0);
        testing_log_close(&log);
        testing_log_open(&log, &drive, true);
        expect_none(&log); /* this session has left none */
        testing_log_close(&log);
        testing_log_open(&log, &killed, true);
        expect_none(&log);
        seglog_stats(log.log, &stats);
        assert_int_equal(stats.segments_free, TESTING_SEGMENTS);
        assert_int_equal(log.lines.warns, 0);
        testing_log_close(&log);
        testing_drive_free(&drive);
        testing_drive_free(&killed);
    }
}

/* Segments of 4 MiB: several buffers in each. */
static void large_ones_go_through_several_buffers(void **state)
{
    (void)state;
    const struct seglog_format_options options = {.segment_bytes = UINT64_C(4) << 20,
                                                  .owner_kind = SEGLOG_OWNER_DEPOT};
    struct testing_drive drive = testing_store_of(UINT64_C(49) << 20, &options);
    struct testing_log log;
    const uint64_t bytes = 2 * ((UINT64_C(4) << 20) - TESTING_BLOCK_BYTES) + 1234567;
    testing_log_start(&log, &drive);
    assert_int_equal(seglog_stop(log.log), 0);
    assert_int_equal(write_one(&log, bytes, 5), 0);
    testing_log_close(&log);
    testing_log_open(&log, &drive, false);
    expect_checkpoint(&log, bytes, 5);
    testing_log_close(&log);
    testing_drive_free(&drive);
}

static void one_follows_another(void **state)
{
    (void)state;
    struct testing_drive drive = store_with_checkpoint(2 * payload_bytes, 0);
    for (uint64_t round = 1; round < 6; round++) {
        struct testing_log log;
        testing_log_start(&log, &drive);
        assert_int_equal(seglog_stop(log.log), 0);
        assert_int_equal(write_one(&log, round * payload_bytes, round), 0);
        testing_log_close(&log);
        testing_log_open(&log, &drive, true);
        expect_checkpoint(&log, round * payload_bytes, round);
        testing_log_close(&log);
    }
    testing_drive_free(&drive);
}

static void too_few_free_segments(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct testing_log log;
    testing_log_start(&log, &drive);
    assert_int_equal(seglog_stop(log.log), 0);
    assert_int_equal(write_one(&log, TESTING_SEGMENTS * payload_bytes + 1, 1), -ENOSPC);
    assert_int_equal(log.log->free_count, TESTING_SEGMENTS);
    assert_int_equal(write_one(&log, 2 * payload_bytes, 2), 0); /* a smaller one may follow */
    assert_false(base_list_is_linked(&log.log->segments[0].link));
    assert_true(base_list_first(&log.log->free) == &log.log->segments[2].link);
    testing_log_close(&log);
    testing_log_open(&log, &drive, true);
    expect_checkpoint(&log, 2 * payload_bytes, 2);
    testing_log_close(&log);
    testing_drive_free(&drive);
}

/* No stamp is on the drive before the state allows it. */
static void stamps_are_allowed_first(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct testing_log log;
    testing_log_start(&log, &drive);
    assert_int_equal(seglog_stop(log.log), 0);
    uint64_t bound = log.log->stamp_bound;
    log.log->stamp = bound - 2;                          /* one is left, and three are needed */
    testing_drive_fail_at(&drive, DRIVE_WRITE, 2, true); /* the state is written, and then nothing */
    assert_int_equal(write_one(&log, 3 * payload_bytes, 1), -EIO);
    assert_true(testing_state(&drive)->stamp_bound > bound);
    assert_int_equal(log.log->free_count, TESTING_SEGMENTS);
    testing_drive_fail_at(&drive, DRIVE_WRITE, 0, true);
    assert_int_equal(write_one(&log, 3 * payload_bytes, 1), 0);
    assert_true(log.log->stamp < testing_state(&drive)->stamp_bound);
    testing_log_close(&log);
    testing_log_open(&log, &drive, true);
    expect_checkpoint(&log, 3 * payload_bytes, 1);
    testing_log_close(&log);
    testing_drive_free(&drive);
}

/* Killed before the session's end is durable: the segments are whole, and nothing names them. */
static void what_is_not_named_is_none(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct testing_log log;
    testing_log_start(&log, &drive);
    assert_int_equal(seglog_stop(log.log), 0);
    assert_int_equal(write_one(&log, 2 * payload_bytes, 1), 0);
    struct testing_drive killed = testing_drive_copy(&drive);
    testing_log_close(&log);
    for (int read_only = 1; read_only >= 0; read_only--) {
        testing_log_open(&log, &killed, read_only != 0);
        expect_none(&log);
        assert_int_equal(log.log->free_count, TESTING_SEGMENTS);
        assert_int_equal(log.lines.warns, 0);
        testing_log_close(&log);
    }
    testing_log_start(&log, &killed); /* and the segments are used again */
    assert_int_equal(testing_state(&killed)->freed_stamps[0], 1);
    assert_int_equal(testing_state(&killed)->freed_stamps[1], 2);
    assert_int_equal(testing_state(&killed)->freed_stamps[2], 0);
    assert_int_equal(seglog_stop(log.log), 0);
    assert_int_equal(write_one(&log, TESTING_SEGMENTS * payload_bytes, 2), 0);
    testing_log_close(&log);
    testing_log_open(&log, &killed, true);
    expect_checkpoint(&log, TESTING_SEGMENTS * payload_bytes, 2);
    testing_log_close(&log);
    testing_drive_free(&drive);
    testing_drive_free(&killed);
}

/* @return the error of reading; -ENOENT: opening has found that there is none */
static int read_damaged(struct testing_drive *drive)
{
    struct testing_log log;
    uint64_t bytes;
    testing_log_open(&log, drive, false);
    seglog_checkpoint_find(log.log, &bytes);
    int error = -ENOENT;
    if (bytes == 0) {
        assert_int_equal(log.log->free_count, TESTING_SEGMENTS);
        assert_non_null(strstr(log.lines.warn, "checkpoint is damaged"));
    } else {
        uint8_t *data = malloc(bytes);
        assert_non_null(data);
        error = seglog_checkpoint_read(log.log, data);
        free(data);
    }
    assert_int_equal(seglog_start(log.log, &testing_ops, NULL), 0);
    assert_int_equal(log.log->free_count, TESTING_SEGMENTS);
    assert_int_equal(seglog_stop(log.log), 0);
    testing_log_close(&log);
    return error;
}

static void damage_costs_only_time(void **state)
{
    (void)state;
    struct testing_drive whole = store_with_checkpoint(3 * payload_bytes - 100, 1);
    uint64_t first = testing_superblock(&whole).data_offset;
    for (uint64_t segment = 0; segment < 3; segment++) {
        uint64_t at = first + segment * SEGLOG_SEGMENT_BYTES_MIN;
        const struct {
            uint64_t byte;
            int error;
        } cases[] = {{at + 17, -ENOENT},
                     {at + 45, -ENOENT},
                     {at + 70, 0}, /* behind the header there is nothing */
                     {at + TESTING_BLOCK_BYTES, -EBADMSG},
                     {at + 70000, -EBADMSG},
                     {at + SEGLOG_SEGMENT_BYTES_MIN - 101, -EBADMSG}};
        for (size_t i = 0; i < base_array_count(cases); i++) {
            struct testing_drive drive = testing_drive_copy(&whole);
            drive.bytes[cases[i].byte] ^= 1;
            assert_int_equal(read_damaged(&drive), cases[i].error);
            testing_drive_free(&drive);
        }
    }
    testing_drive_free(&whole);
}

/* Change a header of the chain, with a good check. */
static void change_link(struct testing_drive *drive, uint32_t number,
                        void (*change)(struct seglog_segment_format *header))
{
    struct seglog_superblock_format superblock = testing_superblock(drive);
    struct seglog_segment_format *header =
        (void *)(drive->bytes + superblock.data_offset + number * superblock.segment_bytes);
    change(header);
    seglog_segment_seal(header, superblock.check_seed);
}

static void link_to_itself(struct seglog_segment_format *header)
{
    header->next_segment = header->segment;
    header->next_stamp = header->stamp;
}

static void link_to_nothing(struct seglog_segment_format *header)
{
    header->next_segment = SEGLOG_NO_SEGMENT;
}

static void link_too_far(struct seglog_segment_format *header)
{
    header->next_segment = TESTING_SEGMENTS;
}

static void link_to_another_stamp(struct seglog_segment_format *header)
{
    header->next_stamp++;
}

static void link_of_another_session(struct seglog_segment_format *header)
{
    header->session++;
}

static void impossible_chains_are_none(void **state)
{
    (void)state;
    void (*const changes[])(struct seglog_segment_format * header) = {
        link_to_itself, link_to_nothing, link_too_far, link_to_another_stamp, link_of_another_session};
    for (size_t i = 0; i < base_array_count(changes); i++) {
        struct testing_drive drive = store_with_checkpoint(3 * payload_bytes, 1);
        change_link(&drive, 1, changes[i]);
        assert_int_equal(read_damaged(&drive), -ENOENT);
        testing_drive_free(&drive);
    }
    struct testing_drive drive = store_with_checkpoint(3 * payload_bytes, 1);
    change_link(&drive, 2, link_to_itself); /* the last has no next */
    assert_int_equal(read_damaged(&drive), -ENOENT);
    testing_drive_free(&drive);
}

static void the_state_must_name_it_right(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 5; wrong++) {
        struct testing_drive drive = store_with_checkpoint(2 * payload_bytes, 1);
        struct seglog_state_format *newest = testing_state(&drive);
        newest->checkpoint_stamp += wrong == 0;
        newest->checkpoint_segment += wrong == 1;
        newest->checkpoint_bytes -= wrong == 2 ? 1 : 0;
        newest->checkpoint_check += wrong == 3;
        newest->freed_stamps[1] =
            wrong == 4 ? newest->checkpoint_stamp + 1 : 0; /* a segment of it was freed */
        testing_state_seal(&drive);
        assert_int_equal(read_damaged(&drive), wrong == 2 || wrong == 3 ? -EBADMSG : -ENOENT);
        testing_drive_free(&drive);
    }
}

/* ---- faults -------------------------------------------------------------------------------------------- */

static void a_lie_or_failure_of_one_read_does_not_matter(void **state)
{
    (void)state;
    struct testing_drive drive = store_with_checkpoint(3 * payload_bytes, 1);
    for (uint64_t lie = 0; lie < 2; lie++) {
        uint64_t plain = 0; /* reads that it takes when nothing goes wrong */
        bool armed = true;
        for (uint64_t n = 0; armed; n++) {
            struct testing_log log;
            testing_drive_fail_at(&drive, DRIVE_READ, n, false);
            drive.lie = lie == 0 ? TESTING_TRUTH : TESTING_NOISE;
            atomic_store(&drive.reads, 0);
            testing_log_open(&log, &drive, true);
            expect_checkpoint(&log, 3 * payload_bytes, 1);
            armed = atomic_load(&drive.fail_at) == 0;
            plain = n == 0 ? atomic_load(&drive.reads) : plain;
            assert_true(n == 0 || !armed || atomic_load(&drive.reads) >= plain + lie); /* read again */
            testing_drive_fail_at(&drive, DRIVE_READ, 0, false);
            testing_log_close(&log);
        }
    }
    testing_drive_free(&drive);
}

static void writing_fails_cleanly(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 5; n++) {
        struct testing_drive drive = testing_store();
        struct testing_log log;
        testing_log_start(&log, &drive);
        assert_int_equal(seglog_stop(log.log), 0);
        if (n < 5)
            testing_drive_fail_at(&drive, n == 4 ? DRIVE_FLUSH : DRIVE_WRITE, n == 4 ? 1 : n, false);
        else
            base_account_fail_at(&log.node->memory, 1);
        assert_int_equal(write_one(&log, 3 * payload_bytes, 1), n < 5 ? -EIO : -ENOMEM);
        assert_int_equal(log.log->free_count, TESTING_SEGMENTS);
        assert_true(n == 5 || log.log->segments[2].freed_stamp == 3); /* what stands in it is gone */
        if (n == 4) { /* after a flush that failed nothing is written any more */
            assert_int_equal(seglog_close(log.log), -EIO);
            testing_drive_stop(&log);
        } else {
            testing_log_close(&log);
        }
        testing_log_open(&log, &drive, true);
        expect_none(&log);
        testing_log_close(&log);
        testing_drive_free(&drive);
    }
}

static void reading_fails_cleanly(void **state)
{
    (void)state;
    struct testing_drive drive = store_with_checkpoint(3 * payload_bytes, 1);
    struct testing_log log;
    uint8_t *data = malloc(3 * payload_bytes);
    assert_non_null(data);
    testing_log_open(&log, &drive, true);
    base_account_fail_at(&log.node->memory, 1);
    assert_int_equal(seglog_checkpoint_read(log.log, data), -ENOMEM);
    testing_drive_fail_at(&drive, DRIVE_READ, 1, true);
    assert_int_equal(seglog_checkpoint_read(log.log, data), -EIO);
    testing_drive_fail_at(&drive, DRIVE_READ, 0, true);
    assert_int_equal(seglog_checkpoint_read(log.log, data), 0);
    testing_log_close(&log);
    free(data);
    testing_drive_free(&drive);
}

static void only_a_good_end_may_leave_one(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct testing_log log;
    testing_log_start(&log, &drive);
    assert_int_equal(write_one(&log, 100, 1), -EROFS); /* not stopped */
    assert_int_equal(seglog_close(log.log), 0);        /* which stops it */
    testing_drive_stop(&log);
    assert_int_equal(testing_state(&drive)->flags, SEGLOG_STATE_ENDED);
    testing_log_start(&log, &drive);
    assert_int_equal(seglog_stop(log.log), 0);
    seglog_fail(log.log, "a test", 0, -EIO);
    assert_int_equal(write_one(&log, 100, 1), -EROFS);
    assert_int_equal(seglog_close(log.log), -EROFS);
    testing_drive_stop(&log);
    assert_int_equal(testing_state(&drive)->flags, 0);
    testing_drive_free(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(large_ones_go_through_several_buffers),
        cmocka_unit_test(one_follows_another),
        cmocka_unit_test(too_few_free_segments),
        cmocka_unit_test(stamps_are_allowed_first),
        cmocka_unit_test(what_is_not_named_is_none),
        cmocka_unit_test(damage_costs_only_time),
        cmocka_unit_test(impossible_chains_are_none),
        cmocka_unit_test(the_state_must_name_it_right),
        cmocka_unit_test(a_lie_or_failure_of_one_read_does_not_matter),
        cmocka_unit_test(writing_fails_cleanly),
        cmocka_unit_test(reading_fails_cleanly),
        cmocka_unit_test(only_a_good_end_may_leave_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
