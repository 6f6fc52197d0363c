/*
 * Much damage at once, also in stores that are full, and in caches: is each key there with its newest value,
 * or told as lost and not there?
 */
#include "depot/repair_testing.h"

enum { MANY = 300, FULL_BYTES = 3000 };

static void key_of(int number, char key[16])
{
    (void)snprintf(key, 16, "k%d", number);
}

/* A value tells of which key and version it is. */
static void put_version(struct testing_store *store, int number, int version, size_t bytes)
{
    char key[16], value[FULL_BYTES] = "";
    key_of(number, key);
    (void)snprintf(value, sizeof(value), "value %d of %d", version, number);
    assert_int_equal(tarn_depot_put(store->depot, key, strlen(key), value, bytes, NULL, NULL), 0);
}

/* @return whether it is there, with that version */
static bool has_version(struct testing_store *store, int number, int version)
{
    char key[16], value[FULL_BYTES], expected[FULL_BYTES];
    key_of(number, key);
    int error = tarn_depot_get(store->depot, key, strlen(key), value, sizeof(value), NULL);
    if (error == -ENOENT)
        return false;
    assert_int_equal(error, 0);
    (void)snprintf(expected, sizeof(expected), "value %d of %d", version, number);
    assert_string_equal(value, expected);
    return true;
}

/* ---- anywhere --------------------------------------------------------------------------------------- */

/* Each key was stored several times; of three one was deleted at last. */
static struct testing_drive store_of_many(struct base_random *random)
{
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_DEVICE);
    for (int version = 0; version < 3; version++) {
        for (int i = 0; i < MANY; i++)
            put_version(&store, i, version, 30 + base_random_below(random, 400));
    }
    for (int i = 0; i < MANY; i += 3) {
        char key[16];
        key_of(i, key);
        assert_int_equal(testing_delete(&store, key), 0);
    }
    depot_testing_close(&store);
    return drive;
}

/* Of a segment either its header, or its summary, or some of its records: what is told by none of them
 * cannot be told. */
static void damage_segment(struct testing_drive *drive, uint32_t number, struct base_random *random)
{
    struct place place;
    if (!look_at(drive, number, SEGLOG_SEGMENT_RECORDS, &place) || place.summary == NULL)
        return;
    uint64_t summary_bytes = seglog_summary_bytes(place.trailer.entries, place.superblock.block_bytes);
    switch (base_random_below(random, 4)) {
    case 0:
        break;
    case 1:
        place.segment[base_random_below(random, sizeof(struct seglog_segment_format))] ^= 1;
        break;
    case 2:
        place.summary[base_random_below(random, summary_bytes)] ^= 1;
        break;
    default:
        for (uint64_t i = base_random_below(random, 20); i < 20; i++) {
            uint64_t begin = sizeof(struct seglog_segment_format);
            uint64_t at = begin + base_random_below(random, place.trailer.end - begin);
            memset(place.segment + at, 0xa5,
                   base_min(base_random_below(random, 600), place.trailer.end - at));
        }
    }
}

static void expect_versions(struct testing_drive *drive, uint64_t lost)
{
    struct testing_store store;
    depot_testing_open(&store, drive, NULL, TARN_MODE_POWER);
    for (int i = 0; i < MANY; i++) {
        bool there = has_version(&store, i, 2);
        assert_false(there && i % 3 == 0);
        lost -= !there && i % 3 != 0;
    }
    assert_int_equal(lost, 0);
    *drive = depot_testing_end(&store, drive, true);
}

static void what_is_not_there_was_told(void **state)
{
    (void)state;
    uint64_t all_lost = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct base_random random;
        struct losses losses;
        base_random_init(&random, seed);
        struct testing_drive drive = store_of_many(&random);
        for (uint32_t i = 0; i < depot_testing_superblock(&drive).segment_count; i++)
            damage_segment(&drive, i, &random);
        assert_int_equal(testing_repair(&drive, &losses), 0);
        expect_sound(&drive);
        expect_versions(&drive, losses.report.lost);
        expect_versions(&drive, losses.report.lost);
        expect_sound(&drive);
        all_lost += losses.report.lost;
        testing_drive_free(&drive);
    }
    assert_true(all_lost > 100);
}

/* ---- without room ----------------------------------------------------------------------------------- */

/* @return how many keys it has been given */
static int fill(struct testing_drive *drive, bool cache)
{
    const struct tarn_depot_options options = {.create_bytes = TESTING_STORE_BYTES, .cache = cache};
    struct testing_store store;
    int keys = 0;
    assert_int_equal(testing_try_open(&store, drive, NULL, &options), 0);
    for (int error = 0; error == 0 && keys < 2000; keys += error == 0) {
        char key[16], value[FULL_BYTES] = "";
        key_of(keys, key);
        (void)snprintf(value, sizeof(value), "value 0 of %d", keys);
        error = tarn_depot_put(store.depot, key, strlen(key), value, sizeof(value), NULL, NULL);
        assert_true(error == 0 || error == -ENOSPC);
    }
    depot_testing_close(&store);
    return keys;
}

static uint64_t count_keys(struct testing_drive *drive, int keys)
{
    struct testing_store store;
    uint64_t found = 0;
    depot_testing_open(&store, drive, NULL, TARN_MODE_POWER);
    for (int i = 0; i < keys; i++)
        found += has_version(&store, i, 0);
    depot_testing_close(&store);
    return found;
}

/* One record of each segment of a full store is damaged: each is emptied into the room that the one before
 * has left. */
static void full_stores_are_repaired(void **state)
{
    (void)state;
    for (int cache = 0; cache < 2; cache++) {
        struct testing_drive drive = {.size = 0};
        struct testing_drive copy;
        struct losses losses;
        struct place place;
        int keys = fill(&drive, cache != 0);
        assert_int_equal(keys == 2000, cache != 0);
        copy = testing_drive_copy(&drive);
        uint64_t before = count_keys(&copy, keys);
        testing_drive_free(&copy);
        uint32_t damaged = 0;
        for (uint32_t i = 0; i < depot_testing_superblock(&drive).segment_count; i++) {
            if (!look_at(&drive, i, SEGLOG_SEGMENT_RECORDS, &place) || place.trailer.entries < 3)
                continue;
            record_at(&place, 2)[50] ^= 1;
            damaged++;
        }
        assert_true(damaged > 5);
        assert_int_equal(testing_repair(&drive, &losses), 0);
        assert_int_equal(losses.report.segments, damaged);
        assert_in_range(losses.report.lost, 1, damaged);
        expect_sound(&drive);
        assert_int_equal(count_keys(&drive, keys), before - losses.report.lost);
        testing_drive_free(&drive);
    }
}

/* ---- what is over ----------------------------------------------------------------------------------- */

/* What has expired, or was flushed, is not lost if it cannot be read. */
static void what_is_over_is_not_told_as_lost(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_clock clock = {.wall_ns = TESTING_BEGIN};
    struct testing_store store;
    struct losses losses;
    const struct tarn_put_options expiring = {.expiry_ns = TESTING_BEGIN + BASE_NS_PER_SECOND};
    depot_testing_open(&store, &drive, &clock, TARN_MODE_POWER);
    assert_int_equal(depot_testing_put(&store, "flushed", NEW_TEXT), 0);
    assert_int_equal(tarn_depot_flush_all(store.depot, 0), 0);
    assert_int_equal(depot_testing_put(&store, "lost", OLD_TEXT), 0);
    assert_int_equal(tarn_depot_put(store.depot, "lost", 4, NEW_TEXT, strlen(NEW_TEXT), &expiring, NULL), 0);
    testing_put_keys(&store, 0, 100, "value");
    depot_testing_close(&store);
    uint8_t *first = testing_find_text(&drive, NEW_TEXT, NULL);
    testing_find_text(&drive, NEW_TEXT, first + 1)[1] ^= 1;
    first[1] ^= 1;
    assert_int_equal(testing_repair(&drive, &losses), 0); /* by the machine's clock, which is later */
    assert_int_equal(losses.report.lost, 0);
    assert_true(losses.report.segments > 0);
    testing_expect_repaired(&drive);
    testing_drive_free(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_there_was_told),
        cmocka_unit_test(full_stores_are_repaired),
        cmocka_unit_test(what_is_over_is_not_told_as_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
