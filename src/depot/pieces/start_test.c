/*
 * What does a start make of values in pieces: do a checkpoint and what is replayed over it give what all
 * summaries give, whatever was on its way, dying or moved meanwhile; and are the summaries left alone when
 * nothing can come of them?
 */
#include "depot/pieces/testing.h"

/* The store is opened, larger, to write a checkpoint with every segment. */
static void open_with_checkpoints(struct testing_fixture *fixture)
{
    const struct tarn_depot_options options = {.create_bytes = 4 * TESTING_STORE_BYTES,
                                               .mode = fixture->mode,
                                               .checkpoint_rate_bytes = UINT64_C(1) << 30,
                                               .checkpoint_every_bytes = 1};
    assert_int_equal(testing_try_open(&fixture->store, &fixture->drive, &fixture->clock, &options), 0);
}

static int setup(void **state)
{
    struct testing_fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->clock.wall_ns = TESTING_BEGIN;
    fixture->mode = TARN_MODE_POWER;
    open_with_checkpoints(fixture);
    *state = fixture;
    return 0;
}

/* Of a value in some pieces. */
static uint64_t long_bytes(struct testing_fixture *fixture)
{
    return 2 * tarn_depot_whole_bytes_max(depot_of(fixture));
}

static uint64_t pieces_of(struct testing_fixture *fixture, uint64_t bytes)
{
    return (bytes - 1) / depot_of(fixture)->piece_bytes + 1;
}

static void turn(struct testing_fixture *fixture, uint32_t round)
{
    assert_int_equal(put_long(fixture, "turn", round, 3000), 0);
}

/* Write until two checkpoints are whole: the second was begun after the call. */
static void await_checkpoint(struct testing_fixture *fixture)
{
    uint64_t until = stats_of(fixture).checkpoints + 2;
    for (uint32_t i = 0; stats_of(fixture).checkpoints < until; i++) {
        assert_true(i < 100000);
        turn(fixture, i);
    }
}

/* The process has died when its drive was as in the copy. What is there is proven, and opened again. */
static void go_on_with(struct testing_fixture *fixture, struct testing_drive copy)
{
    depot_testing_close(&fixture->store);
    testing_drive_free(&fixture->drive);
    fixture->drive = copy;
    expect_sound(&fixture->drive);
    open_with_checkpoints(fixture);
    assert_true(stats_of(fixture).checkpoints_kept > 0); /* it was not rejected */
}

static void die(struct testing_fixture *fixture)
{
    go_on_with(fixture, testing_drive_copy(&fixture->drive));
}

/* Under "k" is a value, or nothing, and nothing else takes room but what turns. */
static void expect_all(struct testing_fixture *fixture, uint32_t seed, uint64_t bytes)
{
    if (bytes == 0)
        depot_testing_expect(&fixture->store, "k", NULL);
    else
        expect_long(fixture, "k", seed, bytes);
    bool whole = bytes <= tarn_depot_whole_bytes_max(depot_of(fixture));
    assert_int_equal(stats_of(fixture).pieces, whole ? 0 : pieces_of(fixture, bytes));
    assert_int_equal(testing_delete(&fixture->store, "k"), bytes == 0 ? -ENOENT : 0);
    assert_int_equal(testing_delete(&fixture->store, "turn"), 0);
    assert_int_equal(stats_of(fixture).live_bytes, 0);
    assert_int_equal(stats_of(fixture).pieces, 0);
}

/* Pieces are covered, and their head is written afterwards or never. */
static void what_is_on_its_way(void **state)
{
    struct testing_fixture *fixture = *state;
    const uint64_t bytes = long_bytes(fixture);
    for (int committed = 0; committed < 2; committed++) {
        struct tarn_depot_writer *writer = open_writer(fixture, TARN_LENGTH_UNKNOWN);
        fill(1, bytes);
        assert_int_equal(tarn_depot_writer_write(writer, given, bytes - 1000), 0);
        assert_true(stats_of(fixture).pieces > 1);
        await_checkpoint(fixture);
        fill(1, bytes);
        if (committed) {
            assert_int_equal(tarn_depot_writer_write(writer, given + bytes - 1000, 1000), 0);
            assert_int_equal(tarn_depot_writer_commit(writer, NULL), 0);
        }
        struct testing_drive copy = testing_drive_copy(&fixture->drive);
        if (!committed)
            tarn_depot_writer_abort(writer);
        go_on_with(fixture, copy);
        expect_all(fixture, 1, committed ? bytes : 0);
    }
}

/* A writer gives up, and nothing is written from then on: the last checkpoint serves, and names its pieces.
 */
static void what_was_given_up(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_depot_writer *writer = open_writer(fixture, TARN_LENGTH_UNKNOWN);
    fill(1, long_bytes(fixture));
    assert_int_equal(tarn_depot_writer_write(writer, given, long_bytes(fixture)), 0);
    await_checkpoint(fixture);
    tarn_depot_writer_abort(writer);
    die(fixture);
    expect_all(fixture, 0, 0);
}

/* A value is covered, by a checkpoint beside writers or by one of an end, and replaced or removed afterwards.
 */
static void what_dies_later(void **state)
{
    struct testing_fixture *fixture = *state;
    const uint64_t bytes = long_bytes(fixture), lengths[] = {bytes + 1, 100, 0};
    for (uint32_t i = 0; i < 2 * base_array_count(lengths); i++) {
        const uint64_t length = lengths[i / 2];
        assert_int_equal(put_long(fixture, "k", 1, bytes), 0);
        turn(fixture, i);
        if (i % 2 == 0)
            await_checkpoint(fixture);
        else
            testing_reopen(fixture);
        if (length > 0)
            assert_int_equal(put_long(fixture, "k", 2, length), 0);
        else
            assert_int_equal(testing_delete(&fixture->store, "k"), 0);
        die(fixture);
        expect_all(fixture, 2, length);
    }
}

/* Where the first piece of the value of "k" lies. */
static uint64_t first_grain(struct testing_fixture *fixture)
{
    struct tarn_depot *depot = depot_of(fixture);
    struct depot_key key = depot_key_of(depot, "k", 1);
    struct depot_record record;
    assert_int_equal(depot_find(depot, &key, DEPOT_WANT_KEY, false, &record), 0);
    depot_record_release(&record);
    key = depot_piece_key(depot, record.pieces.id, 0);
    assert_int_equal(depot_find(depot, &key, DEPOT_WANT_KEY, false, &record), 0);
    depot_record_release(&record);
    return record.grain;
}

/* Pieces lie among what dies, and are moved after the checkpoint, which names where they were. */
static void what_is_moved_later(void **state)
{
    enum { KEYS_MOVING = 400 };
    struct testing_fixture *fixture = *state;
    const uint64_t bytes = long_bytes(fixture);
    char key[16];
    struct tarn_depot_writer *writer = open_writer(fixture, bytes);
    for (uint64_t at = 0, part; at < bytes; at += part) {
        part = base_min(bytes - at, (uint64_t)depot_of(fixture)->piece_bytes);
        fill(1, bytes);
        assert_int_equal(tarn_depot_writer_write(writer, given + at, part), 0);
        for (uint32_t i = 0; i < 10; i++)
            turn(fixture, i);
    }
    assert_int_equal(tarn_depot_writer_commit(writer, NULL), 0);
    testing_reopen(fixture); /* without checkpoints but the one of the end */
    uint64_t grain = first_grain(fixture);
    for (uint32_t i = 0; first_grain(fixture) == grain; i++) {
        assert_true(i < 100000);
        (void)snprintf(key, sizeof(key), "%u", i * 7919 % KEYS_MOVING);
        assert_int_equal(put_long(fixture, key, i, 3000), 0);
    }
    die(fixture);
    expect_long(fixture, "k", 1, bytes);
    assert_int_equal(stats_of(fixture).pieces, pieces_of(fixture, bytes));
    assert_int_equal(testing_delete(&fixture->store, "k"), 0);
    assert_int_equal(stats_of(fixture).pieces, 0);
}

/* Many at once, over and over, with ends of both kinds. */
static void what_turns_and_turns(void **state)
{
    enum { COUNT = 3, ROUNDS = TESTING_SLOW ? 24 : 60 };
    struct testing_fixture *fixture = *state;
    const char *const keys[COUNT] = {"a", "b", "c"};
    uint64_t lengths[COUNT] = {0};
    uint32_t seeds[COUNT] = {0};
    struct base_random random;
    base_random_init(&random, 1);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        uint32_t i = (uint32_t)base_random_below(&random, COUNT);
        lengths[i] = 1 + base_random_below(&random, long_bytes(fixture));
        seeds[i] = round;
        assert_int_equal(put_long(fixture, keys[i], round, lengths[i]), 0);
        if (round == 1 || base_random_below(&random, 3) == 0)
            await_checkpoint(fixture);
        for (uint32_t k = 0; k < 40; k++)
            turn(fixture, k);
        if (round % 4 == 0)
            die(fixture);
        if (round % 6 == 0) {
            depot_testing_close(&fixture->store);
            open_with_checkpoints(fixture);
        }
        for (i = 0; i < COUNT; i++) {
            if (lengths[i] > 0)
                expect_long(fixture, keys[i], seeds[i], lengths[i]);
        }
    }
}

/*
 * What a segment's summary says is damaged. A start that does not look at it leaves it; one that has to know
 * which pieces count finds it damaged, and writes it again.
 */
static void a_clean_end_spares_the_summaries(void **state)
{
    struct testing_fixture *fixture = *state;
    const uint64_t bytes = long_bytes(fixture);
    assert_int_equal(put_long(fixture, "k", 1, bytes), 0);
    turn(fixture, 1);
    depot_testing_close(&fixture->store);
    const struct place place = find_records(&fixture->drive, SEGLOG_VALUE);
    const uint64_t at = (uint64_t)(place.summary - fixture->drive.bytes);
    memset(fixture->drive.bytes + at, 0, sizeof(place.trailer));
    open_with_checkpoints(fixture);
    expect_long(fixture, "k", 1, bytes);
    assert_int_equal(stats_of(fixture).pieces, pieces_of(fixture, bytes));
    assert_true(base_is_zero(fixture->drive.bytes + at, sizeof(place.trailer)));
    assert_int_equal(put_long(fixture, "other", 2, bytes), 0);
    fixture->drive = depot_testing_end(&fixture->store, &fixture->drive, true);
    open_with_checkpoints(fixture);
    assert_false(base_is_zero(fixture->drive.bytes + at, sizeof(place.trailer)));
    expect_long(fixture, "other", 2, bytes);
    assert_int_equal(testing_delete(&fixture->store, "other"), 0);
    expect_all(fixture, 1, bytes);
}

int main(void)
{
#define START(name) cmocka_unit_test_setup_teardown(name, setup, testing_teardown)
    const struct CMUnitTest tests[] = {
        START(what_is_on_its_way),  START(what_was_given_up),    START(what_dies_later),
        START(what_is_moved_later), START(what_turns_and_turns), START(a_clean_end_spares_the_summaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
