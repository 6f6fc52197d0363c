/*
 * Does a store take what it says it has room for, for ever: a full one that deletes, fills and empties
 * again, one at 95 % that is overwritten, the capacity that it tells, whatever the over-provisioning?
 */
#include "depot/testing.h"

#define SECOND      BASE_NS_PER_SECOND
#define BEGIN       TESTING_BEGIN
#define KEYS_MAX    20000
#define VALUE_BYTES 40000

struct fixture {
    struct testing_fixture base;
    struct base_random random;
    uint32_t versions[KEYS_MAX]; /* of each key, how often it was stored; 0: it is not there */
    uint32_t sizes[KEYS_MAX];
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    testing_fixture_begin(&fixture->base, TARN_MODE_DEVICE);
    base_random_init(&fixture->random, 4);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    testing_fixture_end(&fixture->base);
    free(fixture);
    return 0;
}

static struct tarn_depot_stats stats_of(struct fixture *fixture)
{
    struct tarn_depot_stats stats;
    tarn_depot_stats(fixture->base.store.depot, &stats);
    return stats;
}

static void fill(uint32_t key, uint32_t version, char *value, uint32_t bytes)
{
    memset(value, (int)(key * 7 + version), bytes);
    if (bytes >= 8) {
        memcpy(value, &key, 4);
        memcpy(value + bytes - 4, &version, 4);
    }
}

static int put(struct fixture *fixture, uint32_t key, uint32_t bytes)
{
    static char value[VALUE_BYTES];
    uint32_t version = fixture->versions[key] + 1;
    fill(key, version, value, bytes);
    int error = tarn_depot_put(fixture->base.store.depot, &key, sizeof(key), value, bytes, NULL, NULL);
    if (error == 0) {
        fixture->versions[key] = version;
        fixture->sizes[key] = bytes;
    }
    return error;
}

static int remove_key(struct fixture *fixture, uint32_t key)
{
    int error = tarn_depot_delete(fixture->base.store.depot, &key, sizeof(key));
    if (error == 0)
        fixture->versions[key] = 0;
    return error;
}

static void check(struct fixture *fixture, uint32_t keys)
{
    static char found[VALUE_BYTES], value[VALUE_BYTES];
    for (uint32_t key = 0; key < keys; key++) {
        struct tarn_record_info info;
        int error = tarn_depot_get(fixture->base.store.depot, &key, sizeof(key), found, sizeof(found), &info);
        assert_int_equal(error, fixture->versions[key] == 0 ? -ENOENT : 0);
        if (error != 0)
            continue;
        assert_int_equal(info.value_bytes, fixture->sizes[key]);
        fill(key, fixture->versions[key], value, info.value_bytes);
        assert_memory_equal(found, value, info.value_bytes);
    }
}

/* Store keys until there is no more room. @return how many */
static uint32_t fill_up(struct fixture *fixture, uint32_t bytes)
{
    uint32_t keys = 0;
    int error = 0;
    while (error == 0 && keys < KEYS_MAX) {
        error = put(fixture, keys, bytes);
        keys += error == 0;
    }
    assert_int_equal(error, -ENOSPC);
    return keys;
}

static void a_full_store_refuses_and_loses_nothing(void **state)
{
    struct fixture *fixture = *state;
    uint32_t keys = fill_up(fixture, 3000);
    struct tarn_depot_stats stats = stats_of(fixture);
    assert_int_equal(stats.records, keys);
    assert_true(stats.live_bytes <= stats.capacity_bytes);
    assert_true(stats.live_bytes >= stats.capacity_bytes / 10 * 9); /* it was really full */
    for (int round = 0; round < 2; round++) {
        check(fixture, keys + 1);
        assert_int_equal(put(fixture, keys, 3000), -ENOSPC);
        assert_int_equal(put(fixture, 0, VALUE_BYTES), -ENOSPC);
        testing_reopen(&fixture->base);
    }
    assert_int_equal(remove_key(fixture, 0), 0);
    assert_int_equal(put(fixture, keys, 2000), 0); /* there is room again at once */
    check(fixture, keys + 1);
    assert_int_equal(tarn_depot_flush_all(fixture->base.store.depot, BEGIN + SECOND), 0);
    fixture->base.clock.wall_ns = BEGIN + SECOND;
    memset(fixture->versions, 0, sizeof(fixture->versions));
    check(fixture, keys + 1);
    (void)fill_up(fixture, 3000);
}

/* Everything can be deleted from a full store, whatever that takes, and the room is there again. */
static void a_full_store_empties_and_fills_a_hundred_times(void **state)
{
    struct fixture *fixture = *state;
    for (int round = 0; round < 100; round++) {
        uint32_t bytes = round % 10 == 9 ? 100 : 2000 + (uint32_t)base_random_below(&fixture->random, 4000);
        uint32_t keys = fill_up(fixture, bytes);
        struct tarn_depot_stats stats = stats_of(fixture);
        assert_true(stats.live_bytes + 8000 >= stats.capacity_bytes); /* it does not shrink */
        if (round % 20 == 0)
            check(fixture, keys);
        for (uint32_t key = 0; key < keys; key++)
            assert_int_equal(remove_key(fixture, key), 0);
        if (round % 20 == 0)
            check(fixture, keys);
        assert_int_equal(stats_of(fixture).records, 0);
        if (round % 25 == 24)
            testing_reopen(&fixture->base);
    }
}

/* At 95 % of what it says it holds, a store is overwritten ten times over. */
static void an_almost_full_store_is_overwritten(void **state)
{
    struct fixture *fixture = *state;
    uint64_t capacity = stats_of(fixture).capacity_bytes, written = 0;
    uint32_t keys = 0;
    while (stats_of(fixture).live_bytes < capacity / 100 * 95)
        assert_int_equal(put(fixture, keys++, 900), 0);
    struct tarn_depot_stats before = stats_of(fixture);
    while (written < 10 * capacity) {
        uint32_t key = (uint32_t)base_random_below(&fixture->random, keys);
        assert_int_equal(put(fixture, key, 900), 0);
        written += 1000;
    }
    struct tarn_depot_stats stats = stats_of(fixture);
    assert_int_equal(stats.live_bytes, before.live_bytes);
    assert_true(stats.collections > before.collections + stats.segments);
    assert_true(stats.moved_bytes > 0);
    check(fixture, keys);
    testing_reopen(&fixture->base);
    check(fixture, keys);
    assert_int_equal(stats_of(fixture).live_bytes, before.live_bytes);
}

/* Close the store, and open it with so much over-provisioning. */
static void reopen_with(struct fixture *fixture, uint32_t percent, bool cache)
{
    const struct tarn_depot_options options = {
        .mode = TARN_MODE_DEVICE, .cache = cache, .over_provisioning_percent = percent};
    depot_testing_close(&fixture->base.store);
    assert_int_equal(
        testing_try_open(&fixture->base.store, &fixture->base.drive, &fixture->base.clock, &options), 0);
}

static void over_provisioning_has_bounds(void **state)
{
    struct fixture *fixture = *state;
    const uint32_t bad[] = {1, TARN_OVER_PROVISIONING_MIN - 1, TARN_OVER_PROVISIONING_MAX + 1, 100,
                            UINT32_MAX};
    uint64_t capacity = stats_of(fixture).capacity_bytes;
    reopen_with(fixture, 7, false);
    assert_int_equal(stats_of(fixture).capacity_bytes, capacity);
    reopen_with(fixture, TARN_OVER_PROVISIONING_MIN, false);
    assert_in_range(stats_of(fixture).capacity_bytes, capacity / 93 * 97, capacity / 93 * 97 + 97);
    reopen_with(fixture, TARN_OVER_PROVISIONING_MAX, false);
    assert_in_range(stats_of(fixture).capacity_bytes, capacity / 93 * 25, capacity / 93 * 25 + 25);
    reopen_with(fixture, 0, true);
    uint64_t cache_capacity = stats_of(fixture).capacity_bytes;
    reopen_with(fixture, 50, true); /* a cache has none */
    assert_int_equal(stats_of(fixture).capacity_bytes, cache_capacity);
    for (size_t i = 0; i < base_array_count(bad); i++) {
        const struct tarn_depot_options options = {.over_provisioning_percent = bad[i]};
        struct tarn_depot *none = NULL;
        assert_int_equal(tarn_depot_open(fixture->base.store.node, "other", &options, &none), -EINVAL);
        assert_null(none);
    }
}

/* What an earlier opening let in is served, replaced and deleted, though it is more than there is room for.
 */
static void more_over_provisioning_loses_nothing(void **state)
{
    struct fixture *fixture = *state;
    uint32_t keys = fill_up(fixture, 3000), new_key = keys + 1;
    reopen_with(fixture, 40, false);
    struct tarn_depot_stats stats = stats_of(fixture);
    assert_true(stats.live_bytes > stats.capacity_bytes / 60 * 90);
    check(fixture, keys + 1);
    assert_int_equal(put(fixture, new_key, 1), -ENOSPC);
    assert_int_equal(put(fixture, 0, 6000), -ENOSPC);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t key = 0; key < keys; key++)
            assert_int_equal(put(fixture, key, 3000), 0); /* of the same length, as often as one likes */
    }
    assert_true(stats_of(fixture).collections > 0);
    assert_int_equal(tarn_depot_touch(fixture->base.store.depot, &(uint32_t){1}, 4, BEGIN + 1000 * SECOND),
                     0);
    check(fixture, keys + 1);
    uint32_t deleted = 0;
    while (put(fixture, new_key, 3000) == -ENOSPC)
        assert_int_equal(remove_key(fixture, deleted++), 0);
    assert_in_range(deleted, keys / 4, keys / 2);
    stats = stats_of(fixture);
    assert_true(stats.live_bytes <= stats.capacity_bytes);
    check(fixture, keys + 2);
    reopen_with(fixture, 0, false); /* and back */
    assert_int_equal(put(fixture, keys, 3000), 0);
    check(fixture, keys + 2);
}

/* Fill a store to what it takes and replace it all a few times over. @return bytes moved for each that was
 * stored, in percent */
static uint64_t moved_percent(struct fixture *fixture, uint32_t percent)
{
    const uint32_t bytes = 900;
    reopen_with(fixture, percent, false);
    uint32_t keys = fill_up(fixture, bytes);
    uint64_t moved = stats_of(fixture).moved_bytes, stored = 0;
    for (uint32_t i = 0; i < 6 * keys; i++) {
        assert_int_equal(put(fixture, (uint32_t)base_random_below(&fixture->random, keys), bytes), 0);
        stored += bytes;
    }
    check(fixture, keys);
    moved = (stats_of(fixture).moved_bytes - moved) * 100 / stored;
    for (uint32_t key = 0; key < keys; key++)
        assert_int_equal(remove_key(fixture, key), 0);
    return moved;
}

static void over_provisioning_is_what_collection_costs_less_by(void **state)
{
    struct fixture *fixture = *state;
    uint64_t least = moved_percent(fixture, TARN_OVER_PROVISIONING_MIN);
    uint64_t usual = moved_percent(fixture, 0);
    uint64_t half = moved_percent(fixture, 50);
    print_message("moved for each 100 bytes: %ju with 3 %%, %ju with 7 %%, %ju with 50 %%\n",
                  (uintmax_t)least, (uintmax_t)usual, (uintmax_t)half);
    assert_true(half < usual / 2);
    assert_true(usual <= least);
}

/* Values of all lengths, with some that never die among many that do. */
static void cold_among_hot(void **state)
{
    struct fixture *fixture = *state;
    const uint32_t cold = 60, keys = 120;
    uint64_t collections = 0;
    for (uint32_t key = 0; key < cold; key++)
        assert_int_equal(put(fixture, key, 8000), 0);
    for (int i = 0; i < 3000; i++) {
        uint32_t key = cold + (uint32_t)base_random_below(&fixture->random, keys - cold);
        uint32_t bytes = (uint32_t)base_random_below(&fixture->random, 6000);
        int error =
            base_random_below(&fixture->random, 4) == 0 ? remove_key(fixture, key) : put(fixture, key, bytes);
        assert_true(error == 0 || error == -ENOENT);
        if (i % 1000 == 999) {
            collections += stats_of(fixture).collections;
            testing_reopen(&fixture->base);
        }
    }
    check(fixture, keys);
    assert_true(collections > 0);
}

/* What has expired is room, without anybody deleting it. */
static void expired_records_are_room(void **state)
{
    struct fixture *fixture = *state;
    char value[2000] = "";
    uint32_t kept = 50;
    for (uint32_t key = 0; key < kept; key++)
        assert_int_equal(put(fixture, key, 2000), 0);
    for (int i = 0; i < 5000; i++) {
        uint32_t key = kept + (uint32_t)i;
        const struct tarn_put_options options = {.expiry_ns = fixture->base.clock.wall_ns + SECOND};
        assert_int_equal(tarn_depot_put(fixture->base.store.depot, &key, sizeof(key), value, sizeof(value),
                                        &options, NULL),
                         0);
        fixture->base.clock.wall_ns += SECOND / 100;
    }
    check(fixture, kept);
    testing_reopen(&fixture->base);
    check(fixture, kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_full_store_refuses_and_loses_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_store_empties_and_fills_a_hundred_times, setup, teardown),
        cmocka_unit_test_setup_teardown(an_almost_full_store_is_overwritten, setup, teardown),
        cmocka_unit_test_setup_teardown(over_provisioning_has_bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(more_over_provisioning_loses_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(over_provisioning_is_what_collection_costs_less_by, setup, teardown),
        cmocka_unit_test_setup_teardown(cold_among_hot, setup, teardown),
        cmocka_unit_test_setup_teardown(expired_records_are_room, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
