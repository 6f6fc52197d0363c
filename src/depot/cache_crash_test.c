/*
 * A cache that is cut off at a state that frees a segment: before it, torn, and right after it. Whatever was
 * shown as gone is gone, and what is found is what was stored last.
 */
#include "depot/check/testing.h"

enum { CRASH_KEYS = 1000, CRASH_OPS = 5000, VALUE_BYTES_MAX = 6000 };

/* What an operation has made of a key, acknowledged or seen. */
struct step {
    uint32_t key;
    uint32_t value; /* 0: nothing */
};

struct history {
    struct testing_drive drive;
    struct testing_recording recording;
    struct testing_store store;
    struct base_random random;
    struct step steps[CRASH_OPS];
};

static void open_cache(struct testing_store *store, struct testing_drive *drive, bool cache)
{
    const struct tarn_depot_options options = {
        .create_bytes = TESTING_STORE_BYTES, .mode = TARN_MODE_DEVICE, .cache = cache};
    assert_int_equal(testing_try_open(store, drive, NULL, &options), 0);
}

static uint32_t find(struct testing_store *store, uint32_t key)
{
    uint32_t values[VALUE_BYTES_MAX / sizeof(uint32_t)];
    int error = tarn_depot_get(store->depot, &key, sizeof(key), values, sizeof(values), NULL);
    assert_true(error == 0 || error == -ENOENT);
    return error == 0 ? values[0] : 0;
}

/* A value is the number of its step, from 1. */
static void do_one(struct history *history, uint32_t number)
{
    uint32_t values[VALUE_BYTES_MAX / sizeof(uint32_t)] = {number + 1};
    uint32_t key = (uint32_t)base_random_below(&history->random, CRASH_KEYS);
    struct step *step = &history->steps[number];
    step->key = key;
    switch (base_random_below(&history->random, 8)) {
    case 0:
        assert_in_range(-tarn_depot_delete(history->store.depot, &key, sizeof(key)), 0, ENOENT);
        break; /* it is gone, whatever the answer is */
    case 1:
    case 2:
    case 3:
        step->value = find(&history->store, key);
        break;
    default:
        step->value = number + 1;
        assert_int_equal(
            tarn_depot_put(history->store.depot, &key, sizeof(key), values,
                           sizeof(uint32_t) + base_random_below(&history->random, VALUE_BYTES_MAX - 4), NULL,
                           NULL),
            0);
    }
    atomic_store(&history->recording.mark, number + 1);
}

/* What was there after `done` steps; of the next one nobody knows. */
static void expect(const struct history *history, struct testing_store *store, uint64_t done)
{
    uint32_t values[CRASH_KEYS] = {0};
    for (uint64_t i = 0; i < done; i++)
        values[history->steps[i].key] = history->steps[i].value;
    for (uint32_t key = 0; key < CRASH_KEYS; key++) {
        uint32_t value = find(store, key);
        bool next =
            done < CRASH_OPS && history->steps[done].key == key && value == history->steps[done].value;
        if (value != 0 && value != values[key] && !next)
            fail_msg("key %u holds %u after %lu steps, and not %u", key, value, (unsigned long)done,
                     values[key]);
    }
}

/* @param cut  the bytes of a drive whose power went */
static void try_cut(const struct history *history, struct testing_drive *cut, uint64_t done, bool cache)
{
    struct testing_drive drive = testing_drive_copy(cut);
    struct testing_store store;
    struct told told;
    struct depot_check_report report;
    open_cache(&store, &drive, cache);
    expect(history, &store, done);
    depot_testing_close(&store);
    assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
    assert_int_equal(report.faults, 0);
    testing_drive_free(&drive);
}

static void try_all_cuts(const struct history *history, struct testing_drive *drive)
{
    const uint64_t data_offset = depot_testing_superblock(drive).data_offset;
    struct base_random random;
    uint32_t states = 0;
    base_random_init(&random, 3);
    for (size_t i = 0; i < history->recording.count; i++) {
        const struct testing_write *write = &history->recording.writes[i];
        bool frees = write->offset < data_offset && ++states % (TESTING_SLOW ? 11 : 1) == 0;
        if (frees) {
            struct testing_drive torn = testing_drive_copy(drive);
            try_cut(history, drive, write->mark, states % 2 == 0);
            testing_write_tear(write, &torn, &random);
            try_cut(history, &torn, write->mark, states % 3 == 0);
            testing_drive_free(&torn);
        }
        testing_write_play(write, drive);
        if (frees)
            try_cut(history, drive, write->mark, states % 2 != 0);
    }

    assert_true(states > 100);
}

static void cuts_at_evictions_bring_nothing_back(void **state)
{
    static struct history history;
    (void)state;
    base_random_init(&history.random, 1);
    open_cache(&history.store, &history.drive, true);
    depot_testing_close(&history.store);
    struct testing_drive replayed = testing_drive_copy(&history.drive);
    history.drive.recording = &history.recording;
    open_cache(&history.store, &history.drive, true);
    for (uint32_t number = 0; number < CRASH_OPS; number++)
        do_one(&history, number);
    depot_testing_close(&history.store);
    try_all_cuts(&history, &replayed);
    testing_recording_free(&history.recording);
    testing_drive_free(&history.drive);
    testing_drive_free(&replayed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_at_evictions_bring_nothing_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
