/*
 * What clients see of damage that scrubbing has found: an error, never a miss or an older value, over
 * restarts too, until the key is stored again; in a cache a miss.
 */
#include "depot/testing.h"

#define RATE (UINT64_C(1) << 34)

struct fixture {
    struct testing_drive drive;
    struct testing_store store;
    bool cache;
};

static void open_store(struct fixture *fixture, uint64_t rate_bytes)
{
    const struct tarn_depot_options options = {
        .create_bytes = TESTING_STORE_BYTES, .cache = fixture->cache, .scrub_rate_bytes = rate_bytes};
    assert_int_equal(testing_try_open(&fixture->store, &fixture->drive, NULL, &options), 0);
}

/* Keys 0 to 99 and "lost", which has an older value too; nothing is open any more. */
static void make(struct fixture *fixture, bool cache)
{
    *fixture = (struct fixture){.cache = cache};
    open_store(fixture, 0);
    testing_put_keys(&fixture->store, 0, 30, "value");
    assert_int_equal(depot_testing_put(&fixture->store, "lost", "what was there first"), 0);
    testing_put_keys(&fixture->store, 30, 60, "value");
    assert_int_equal(depot_testing_put(&fixture->store, "lost", "what is there now"), 0);
    testing_put_keys(&fixture->store, 60, 100, "value");
    depot_testing_close(&fixture->store);
}

static void unmake(struct fixture *fixture)
{
    depot_testing_close(&fixture->store);
    testing_drive_free(&fixture->drive);
}

/* Where the last record of "lost" has its value. */
static uint8_t *value_of(struct fixture *fixture)
{
    static const char text[] = "what is there now";
    uint8_t *found = NULL;
    for (uint64_t at = 0; at + sizeof(text) <= fixture->drive.size; at++) {
        if (memcmp(fixture->drive.bytes + at, text, sizeof(text) - 1) == 0) {
            assert_null(found);
            found = fixture->drive.bytes + at;
        }
    }
    assert_non_null(found);
    return found;
}

static struct tarn_depot_stats stats_of(struct fixture *fixture)
{
    struct tarn_depot_stats stats;
    tarn_depot_stats(fixture->store.depot, &stats);
    return stats;
}

static int get_lost(struct fixture *fixture)
{
    char value[100];
    return tarn_depot_get(fixture->store.depot, "lost", 4, value, sizeof(value), NULL);
}

/* The first pass has been over all of it, and what it found was set aside. */
static void open_and_await_bad(struct fixture *fixture, uint32_t segments_bad)
{
    open_store(fixture, RATE);
    while (stats_of(fixture).scrub_passes == 0 || stats_of(fixture).segments_bad < segments_bad)
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    assert_int_equal(stats_of(fixture).scrub_damaged, segments_bad);
    assert_int_equal(stats_of(fixture).segments_bad, segments_bad);
    assert_true(stats_of(fixture).scrub_bytes > 100);
    assert_true(stats_of(fixture).scrub_segments > 0);
}

static void expect_lost(struct fixture *fixture)
{
    assert_int_equal(get_lost(fixture), -EBADMSG);
    testing_expect_keys(&fixture->store, 0, 100, "value");
    assert_int_equal(stats_of(fixture).records, 101);
}

static void a_damaged_value_is_an_error_until_it_is_stored_again(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        struct fixture fixture;
        make(&fixture, false);
        value_of(&fixture)[2] ^= 1;
        for (int life = 0; life < 3; life++) {
            open_and_await_bad(&fixture, 1);
            expect_lost(&fixture);
            fixture.drive = depot_testing_end(&fixture.store, &fixture.drive, killed != 0);
        }
        open_and_await_bad(&fixture, 1);
        assert_int_equal(depot_testing_put(&fixture.store, "lost", "found"), 0);
        fixture.drive = depot_testing_end(&fixture.store, &fixture.drive, killed != 0);
        open_and_await_bad(&fixture, 0); /* nothing refers to what is damaged any more */
        depot_testing_expect(&fixture.store, "lost", "found");
        testing_expect_keys(&fixture.store, 0, 100, "value");
        unmake(&fixture);
    }
}

static void a_damaged_value_may_be_deleted(void **state)
{
    (void)state;
    struct fixture fixture;
    make(&fixture, false);
    value_of(&fixture)[2] ^= 1;
    open_and_await_bad(&fixture, 1);
    assert_int_equal(testing_delete(&fixture.store, "lost"), 0);
    fixture.drive = depot_testing_end(&fixture.store, &fixture.drive, true);
    open_and_await_bad(&fixture, 0);
    depot_testing_expect(&fixture.store, "lost", NULL);
    unmake(&fixture);
}

static void behind_a_damaged_header_the_key_cannot_be_told(void **state)
{
    (void)state;
    struct fixture fixture;
    make(&fixture, false);
    value_of(&fixture)[-10] ^= 1; /* the key stands between */
    open_and_await_bad(&fixture, 1);
    expect_lost(&fixture);
    assert_int_equal(depot_testing_put(&fixture.store, "lost", "found"), -EBADMSG);
    assert_int_equal(testing_delete(&fixture.store, "lost"), -EBADMSG);
    unmake(&fixture);
}

static void in_a_cache_it_is_a_miss(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        struct fixture fixture;
        make(&fixture, true);
        value_of(&fixture)[2] ^= 1;
        open_store(&fixture, RATE);
        while (stats_of(&fixture).evicted_segments == 0)
            assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        assert_int_equal(stats_of(&fixture).scrub_damaged, 1);
        while (get_lost(&fixture) == -EBADMSG) /* the segment is counted when all of it is dropped */
            assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        depot_testing_expect(&fixture.store, "lost", NULL);
        fixture.drive = depot_testing_end(&fixture.store, &fixture.drive, killed != 0);
        open_and_await_bad(&fixture, 0);
        depot_testing_expect(&fixture.store, "lost", NULL);
        assert_int_equal(depot_testing_put(&fixture.store, "lost", "found"), 0);
        depot_testing_expect(&fixture.store, "lost", "found");
        unmake(&fixture);
    }
}

static void without_a_rate_nothing_is_counted(void **state)
{
    (void)state;
    struct fixture fixture;
    make(&fixture, false);
    open_store(&fixture, 0);
    struct tarn_depot_stats stats = stats_of(&fixture);
    assert_int_equal(stats.scrub_passes + stats.scrub_bytes + stats.scrub_segments + stats.scrub_ended_ns, 0);
    unmake(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_value_is_an_error_until_it_is_stored_again),
        cmocka_unit_test(a_damaged_value_may_be_deleted),
        cmocka_unit_test(behind_a_damaged_header_the_key_cannot_be_told),
        cmocka_unit_test(in_a_cache_it_is_a_miss),
        cmocka_unit_test(without_a_rate_nothing_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
