/*
 * A store with a hot tier: is the drive left alone, and is every answer the one that the drive would give, whatever
 * becomes of keys, segments, memory and the tier itself?
 */
#include "base/testing.h"
#include "depot/depot_internal.h"
#include "depot/hot/hot_internal.h"
#include "depot/hot/testing.h"
#include "depot/testing.h"
#include "depot/warm.h"

#define MIB (UINT64_C(1) << 20)

static int setup_store(void **state, uint64_t hot_bytes)
{
    struct testing_fixture *fixture = test_calloc(1, sizeof(*fixture));
    const struct tarn_depot_options options = {.create_bytes = TESTING_STORE_BYTES, .hot_bytes = hot_bytes};
    atomic_store(&fixture->clock.wall_ns, TESTING_BEGIN);
    fixture->mode = TARN_MODE_POWER;
    assert_int_equal(testing_try_open(&fixture->store, &fixture->drive, &fixture->clock, &options), 0);
    *state = fixture;
    return 0;
}

static int setup_large(void **state)
{
    return setup_store(state, 64 * MIB);
}

static int setup_small(void **state)
{
    return setup_store(state, 1);
}

static int teardown(void **state)
{
    struct testing_fixture *fixture = *state;
    if (fixture->store.depot->hot != NULL)
        testing_hot_validate(fixture->store.depot->hot);
    depot_testing_close(&fixture->store);
    testing_drive_free(&fixture->drive);
    test_free(fixture);
    return 0;
}

static struct tarn_depot_stats stats_now(const struct testing_fixture *fixture)
{
    struct tarn_depot_stats stats;
    tarn_depot_stats(fixture->store.depot, &stats);
    return stats;
}

/* ---- the drive is left alone ---------------------------------------------------------------------- */

static void what_was_written_is_not_read(void **state)
{
    struct testing_fixture *fixture = *state;
    testing_put_keys(&fixture->store, 0, 200, "some value");
    testing_expect_keys(&fixture->store, 0, 200, "some value");
    struct tarn_depot_stats stats = stats_now(fixture);
    assert_int_equal(stats.reads, 0);
    assert_int_equal(stats.hot_hits, 200);
    assert_int_equal(stats.hot_misses, 0);
    assert_int_equal(stats.hot_records, 200);
    /* What is written again finds the old ones without the drive, too, and they go: but for a few, and for more where the
     * collector was put off while it held a lock. */
    uint64_t reads = 200;
    for (int round = 0; round < 100 && (reads >= 20 || stats.hot_records < 180 || stats.hot_records > 260);
         round++) {
        uint64_t before = stats_now(fixture).reads;
        testing_put_keys(&fixture->store, 0, 200, "another");
        testing_expect_keys(&fixture->store, 0, 200, "another");
        stats = stats_now(fixture);
        reads = stats.reads - before;
    }
    assert_true(reads < 20);
    assert_in_range(stats.hot_records, 180, 260);
}

/* After a restart it is empty: each record is read once. */
static void what_was_read_is_not_read_again(void **state)
{
    struct testing_fixture *fixture = *state;
    testing_put_keys(&fixture->store, 0, 100, "some value");
    depot_testing_close(&fixture->store);
    const struct tarn_depot_options options = {.hot_bytes = 64 * MIB};
    assert_int_equal(testing_try_open(&fixture->store, &fixture->drive, &fixture->clock, &options), 0);
    assert_int_equal(stats_now(fixture).hot_records, 0);
    for (int round = 0; round < 3; round++) {
        testing_expect_keys(&fixture->store, 0, 100, "some value");
        assert_int_equal(stats_now(fixture).reads, 100);
    }
    assert_int_equal(stats_now(fixture).hot_misses, 100);
    assert_int_equal(stats_now(fixture).hot_hits, 200);
}

static int count_record(void *arg, const void *key, size_t key_len, const void *value,
                        const struct tarn_record_info *info)
{
    (void)key, (void)key_len, (void)value, (void)info;
    ++*(uint32_t *)arg;
    return 0;
}

/* Scans find what is there, and bring nothing in. */
static void scans_bring_nothing_in(void **state)
{
    struct testing_fixture *fixture = *state;
    uint32_t count = 0;
    testing_put_keys(&fixture->store, 0, 100, "some value");
    depot_testing_close(&fixture->store);
    const struct tarn_depot_options options = {.hot_bytes = 64 * MIB};
    assert_int_equal(testing_try_open(&fixture->store, &fixture->drive, &fixture->clock, &options), 0);
    assert_int_equal(tarn_depot_scan(fixture->store.depot, count_record, &count), 0);
    assert_int_equal(count, 100);
    assert_int_equal(stats_now(fixture).hot_records, 0);
    assert_int_equal(stats_now(fixture).hot_hits + stats_now(fixture).hot_misses, 0);
}

/* ---- warming -------------------------------------------------------------------------------------- */

#define WARMED 400
#define SLACK                                                                                                \
    100 /* records that are not kept, as another thread works on the tier, for long if the machine is busy */

/* Keys, of which the first `asked` were asked for, are closed and opened again. Nothing is warmed beside that: a record is not
 * kept while another thread works on the tier. */
static void restart_with(struct testing_fixture *fixture, const struct tarn_depot_options *before,
                         const struct tarn_depot_options *after, int keys, int asked, const char *value)
{
    depot_testing_close(&fixture->store);
    assert_int_equal(testing_try_open(&fixture->store, &fixture->drive, &fixture->clock, before), 0);
    depot_warming_stop(fixture->store.depot);
    testing_put_keys(&fixture->store, 0, keys, value);
    for (int i = 0; i < 3; i++)
        testing_expect_keys(&fixture->store, 0, asked, value);
    depot_testing_close(&fixture->store);
    assert_int_equal(testing_try_open(&fixture->store, &fixture->drive, &fixture->clock, after), 0);
}

static void restart(struct testing_fixture *fixture, const struct tarn_depot_options *before,
                    const struct tarn_depot_options *after)
{
    restart_with(fixture, before, after, 1000, WARMED, "some value");
}

/* What was asked for is in memory again, and nothing else is. Reading it counts as no get. */
static void what_was_hot_is_read_back(void **state)
{
    struct testing_fixture *fixture = *state;
    const struct tarn_depot_options options = {.hot_bytes = 64 * MIB,
                                               .hot_warm_rate_bytes = UINT64_C(1) << 40};
    for (int round = 0; round < 2; round++) { /* the second time, marks of the first one are there */
        restart(fixture, &options, &options);
        depot_warming_wait(fixture->store.depot);
        struct tarn_depot_stats stats = stats_now(fixture);
        assert_in_range(stats.hot_records, WARMED - SLACK, WARMED + SLACK);
        assert_int_equal(stats.hot_hits + stats.hot_misses, 0);
        testing_expect_keys(&fixture->store, 0, WARMED, "some value");
        assert_in_range(stats_now(fixture).hot_misses, 0, SLACK);
        testing_expect_keys(&fixture->store, WARMED, 1000, "some value");
        assert_in_range(stats_now(fixture).hot_misses, 1000 - WARMED - SLACK, 1000 - WARMED + SLACK);
        assert_in_range(stats_now(fixture).hot_warmed, WARMED - SLACK, WARMED + SLACK);
    }
}

/* Who did not ask for it when the store was closed, or does not when it is opened, has an empty tier. */
static void nothing_is_read_back_unasked(void **state)
{
    struct testing_fixture *fixture = *state;
    const struct tarn_depot_options without = {.hot_bytes = 64 * MIB},
                                    with = {.hot_bytes = 64 * MIB, .hot_warm_rate_bytes = UINT64_C(1) << 40},
                                    off = {.hot_bytes = TARN_HOT_OFF, .hot_warm_rate_bytes = 1};
    restart(fixture, &with, &without);
    assert_int_equal(stats_now(fixture).reads, 0);
    restart(fixture, &with, &off);
    assert_int_equal(stats_now(fixture).reads, 0);
    testing_expect_keys(&fixture->store, 0, WARMED, "some value");
}

/* At a byte a second the first reads are the last before it is closed; closing does not wait for more. */
static void the_rate_holds(void **state)
{
    struct testing_fixture *fixture = *state;
    const struct tarn_depot_options options = {.hot_bytes = 64 * MIB, .hot_warm_rate_bytes = 1};
    restart(fixture, &options, &options);
    while (stats_now(fixture).hot_warmed == 0)
        task_yield();
    testing_expect_keys(&fixture->store, 0, WARMED, "some value");
    assert_true(stats_now(fixture).hot_warmed <= 8);
}

/* A tier with less memory than there was takes what fits, and evicts nothing. */
static void less_memory_is_filled_and_no_more(void **state)
{
    struct testing_fixture *fixture = *state;
    const struct tarn_depot_options large = {.hot_bytes = 64 * MIB, .hot_warm_rate_bytes = UINT64_C(1) << 40},
                                    small = {.hot_bytes = 1, .hot_warm_rate_bytes = UINT64_C(1) << 40};
    char value[1000];
    memset(value, 'x', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    restart_with(fixture, &large, &small, 200, 200, value);
    depot_warming_wait(fixture->store.depot);
    testing_expect_keys(&fixture->store, 0, 200, value);
    assert_in_range(stats_now(fixture).hot_warmed, 20, 100);
}

/* ---- every answer is the drive's -------------------------------------------------------------------- */

static void all_properties_come_along(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_depot *depot = fixture->store.depot;
    const struct tarn_put_options options = {
        .expiry_ns = TESTING_BEGIN + 5 * BASE_NS_PER_SECOND, .version = 77, .client_flags = 12345, .note = 2};
    struct tarn_batch_item items[] = {
        {.key = "b1", .key_len = 2, .value = "first", .value_len = 5, .options = &options},
        {.key = "b2", .key_len = 2, .value = "second", .value_len = 6}};
    struct tarn_record_info hot, cold;
    char value[16];
    assert_int_equal(tarn_depot_put(depot, "k", 1, "value", 5, &options, NULL), 0);
    assert_int_equal(tarn_depot_write_batch(depot, items, 2), 0);
    for (int i = 0; i < 2; i++) {
        const char *key = i == 0 ? "k" : "b1";
        uint64_t reads = stats_now(fixture).reads;
        assert_int_equal(tarn_depot_get(depot, key, strlen(key), value, sizeof(value), &hot), 0);
        assert_int_equal(stats_now(fixture).reads, reads);
        assert_memory_equal(value, i == 0 ? "value" : "first", 5);
        while (depot_hot_give_back(depot->hot)) {
        }
        assert_int_equal(tarn_depot_get(depot, key, strlen(key), value, sizeof(value), &cold), 0);
        assert_int_equal(stats_now(fixture).reads, reads + 1);
        assert_int_equal(hot.version, 77);
        assert_int_equal(cold.version, 77);
        assert_true(hot.expiry_ns == cold.expiry_ns && hot.client_flags == cold.client_flags &&
                    hot.value_bytes == cold.value_bytes && hot.note == cold.note);
        assert_int_equal(tarn_depot_write_batch(depot, items, 2), 0);
    }
    atomic_store(&fixture->clock.wall_ns, TESTING_BEGIN + 6 * BASE_NS_PER_SECOND);
    assert_int_equal(tarn_depot_get(depot, "k", 1, value, sizeof(value), NULL), -ENOENT);
    assert_int_equal(tarn_depot_get(depot, "b2", 2, value, sizeof(value), NULL), 0);
}

static void what_is_gone_is_not_found(void **state)
{
    struct testing_fixture *fixture = *state;
    assert_int_equal(depot_testing_put(&fixture->store, "a", "1"), 0);
    assert_int_equal(depot_testing_put(&fixture->store, "b", "2"), 0);
    depot_testing_expect(&fixture->store, "a", "1");
    assert_int_equal(testing_delete(&fixture->store, "a"), 0);
    depot_testing_expect(&fixture->store, "a", NULL);
    assert_int_equal(tarn_depot_flush_all(fixture->store.depot, 0), 0);
    depot_testing_expect(&fixture->store, "b", NULL);
    assert_int_equal(depot_testing_put(&fixture->store, "b", "3"), 0);
    depot_testing_expect(&fixture->store, "b", "3");
}

/* Segments are collected and written again many times, with records that stay among them. */
static void segments_are_used_again(void **state)
{
    struct testing_fixture *fixture = *state;
    char key[16], value[2000];
    for (int round = 0; round < 400; round++) {
        for (int i = 0; i < 8; i++) {
            (void)snprintf(key, sizeof(key), "k%d", (round * 8 + i) % 97);
            (void)snprintf(value, sizeof(value), "%*d", 100 + (round * 31 + i) % 1800, round * 8 + i);
            assert_int_equal(depot_testing_put(&fixture->store, key, value), 0);
            depot_testing_expect(&fixture->store, key, value);
        }
        (void)snprintf(key, sizeof(key), "stays%d", round % 20);
        if (round < 20)
            assert_int_equal(depot_testing_put(&fixture->store, key, key), 0);
        depot_testing_expect(&fixture->store, key, key);
        if (round % 50 == 0)
            testing_hot_validate(fixture->store.depot->hot);
    }
    assert_true(stats_now(fixture).collections > 2 * stats_now(fixture).segments);
}

/* Put 50 keys, have the collector move them out of their segment, and @return how many are then read from the drive */
static uint64_t reads_of_moved(struct testing_fixture *fixture, int begin)
{
    char value[3000];
    memset(value, 'x', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    testing_put_keys(&fixture->store, begin, begin + 50, "it stays");
    testing_expect_keys(&fixture->store, begin, begin + 50, "it stays");
    struct tarn_depot_stats before = stats_now(fixture), now = before;
    while (now.collections < before.collections + 2 * before.segments) {
        assert_int_equal(depot_testing_put(&fixture->store, "churn", value), 0);
        now = stats_now(fixture);
    }
    assert_true(now.moved_bytes >= before.moved_bytes + 50 * 64);
    testing_expect_keys(&fixture->store, begin, begin + 50, "it stays");
    return stats_now(fixture).reads - now.reads;
}

/*
 * What the collector moves is hot at its new place: the drive is not read for it. A record whose part of the tier is
 * locked at that moment is left out; where the holder of the lock was put off, that may be many, so there are several tries.
 */
static void moved_records_stay_hot(void **state)
{
    uint64_t reads = 50;
    for (int i = 0; i < 20 && reads >= 10; i++)
        reads = reads_of_moved(*state, 50 * i);
    assert_true(reads < 10);
}

/* A value on loan stays as it was, though its key is replaced and its page emptied. */
static void leases_stay(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_depot *depot = fixture->store.depot;
    struct tarn_lease lease;
    assert_int_equal(depot_testing_put(&fixture->store, "k", "on loan"), 0);
    assert_int_equal(tarn_depot_lease(depot, "k", 1, 0, 3, &lease, NULL), 0);
    assert_int_equal(base_account_used(&depot->leases), 0); /* no buffer is needed for it */
    assert_int_equal(depot_testing_put(&fixture->store, "k", "another"), 0);
    while (depot_hot_give_back(depot->hot)) {
    }
    testing_put_keys(&fixture->store, 0, 2000, "fills the tier");
    assert_int_equal(lease.bytes, 4);
    assert_memory_equal(lease.data, "loan", 4);
    tarn_depot_lease_end(&lease);
    depot_testing_expect(&fixture->store, "k", "another");
}

/* A header in memory that has changed is not believed: the drive has it right. */
static void changed_memory_is_not_believed(void **state)
{
    struct testing_fixture *fixture = *state;
    struct depot_hot *hot = fixture->store.depot->hot;
    assert_int_equal(depot_testing_put(&fixture->store, "k", "value"), 0);
    struct hot_front *front = NULL;
    for (uint32_t i = 0; i < hot->part_count && front == NULL; i++) {
        if (hot->parts[i].open[HOT_TRIAL] != HOT_NO_PAGE)
            front = (void *)(hot->memory + (uint64_t)hot->parts[i].open[HOT_TRIAL] * hot->page_bytes);
    }
    assert_non_null(front);
    front->record[9] ^= 4;
    depot_testing_expect(&fixture->store, "k", "value");
    assert_int_equal(stats_now(fixture).reads, 1);
    depot_testing_expect(&fixture->store, "k", "value");
    assert_int_equal(stats_now(fixture).reads, 1);
}

/* Of a long value only the head is kept. */
static void pieces_stay_away(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_depot *depot = fixture->store.depot;
    size_t bytes = 2 * depot->whole_bytes_max + 100; /* the last piece is short */
    uint8_t *value = test_calloc(bytes, 1);
    assert_int_equal(tarn_depot_put(depot, "long", 4, value, bytes, NULL, NULL), 0);
    assert_true(stats_now(fixture).pieces > 2);
    assert_int_equal(stats_now(fixture).hot_records, 1);
    memset(value, 1, bytes);
    assert_int_equal(tarn_depot_get(depot, "long", 4, value, bytes, NULL), 0);
    assert_true(base_is_zero(value, bytes));
    assert_int_equal(stats_now(fixture).hot_records, 1);
    test_free(value);
}

/* Where there are not so many addresses, the store works without a tier. */
static void it_works_without_one(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    const struct tarn_depot_options options = {.create_bytes = TESTING_STORE_BYTES,
                                               .hot_bytes = UINT64_C(1) << 60};
    assert_int_equal(testing_try_open(&store, &drive, NULL, &options), 0);
    assert_null(store.depot->hot);
    assert_int_equal(depot_testing_put(&store, "k", "value"), 0);
    depot_testing_expect(&store, "k", "value");
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

/* ---- memory ------------------------------------------------------------------------------------------ */

/* The index grows from nothing to its most, the tier makes way, and no put is refused before. */
static void the_index_comes_first(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    const struct task_node_options node_options = {.drives = &testing_provider,
                                                   .drives_arg = &drive,
                                                   .memory_bytes = 64 * MIB,
                                                   .log_sink = testing_sink};
    const struct tarn_depot_options options = {.create_bytes = 64 * MIB, .mode = TARN_MODE_ASYNC};
    struct testing_store store;
    uint64_t least = UINT64_MAX, most = 0, number;
    int error = 0;
    assert_int_equal(task_node_open(&node_options, &store.node), 0);
    assert_int_equal(tarn_depot_open(store.node, "store", &options, &store.depot), 0);
    for (number = 0; error == 0 && number < 400000; number++) {
        error = tarn_depot_put(store.depot, &number, sizeof(number), "v", 1, NULL, NULL);
        if (number % 10000 != 0)
            continue;
        struct tarn_depot_stats stats;
        tarn_depot_stats(store.depot, &stats);
        most = base_max(most, stats.hot_bytes);
        least = number > 200000 ? base_min(least, stats.hot_bytes) : least;
        assert_true(base_account_used(&store.node->memory) <= 64 * MIB);
        testing_hot_validate(store.depot->hot);
    }
    assert_true(error == 0 || error == -ENOSPC);
    struct tarn_depot_stats stats;
    tarn_depot_stats(store.depot, &stats);
    print_message("%lu records, index %lu KiB, hot %lu to %lu KiB\n", (unsigned long)stats.records,
                  (unsigned long)stats.index_bytes >> 10, (unsigned long)least >> 10,
                  (unsigned long)most >> 10);
    assert_true(stats.index_bytes > 4 * MIB); /* it grew, several times */
    assert_true(least < most);
    for (uint64_t i = 0; i < number - 1; i += 1000) {
        char value[4];
        assert_int_equal(tarn_depot_get(store.depot, &i, sizeof(i), value, sizeof(value), NULL), 0);
    }
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

#define HOT_TEST(name)                                                                                       \
    cmocka_unit_test_setup_teardown(name, setup_large, teardown),                                            \
        cmocka_unit_test_setup_teardown(name, setup_small, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_not_read, setup_large, teardown),
        cmocka_unit_test_setup_teardown(what_was_read_is_not_read_again, setup_large, teardown),
        cmocka_unit_test_setup_teardown(scans_bring_nothing_in, setup_large, teardown),
        cmocka_unit_test_setup_teardown(what_was_hot_is_read_back, setup_large, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_read_back_unasked, setup_large, teardown),
        cmocka_unit_test_setup_teardown(the_rate_holds, setup_large, teardown),
        cmocka_unit_test_setup_teardown(less_memory_is_filled_and_no_more, setup_large, teardown),
        HOT_TEST(all_properties_come_along),
        HOT_TEST(what_is_gone_is_not_found),
        HOT_TEST(segments_are_used_again),
        cmocka_unit_test_setup_teardown(moved_records_stay_hot, setup_large, teardown),
        HOT_TEST(leases_stay),
        HOT_TEST(changed_memory_is_not_believed),
        cmocka_unit_test_setup_teardown(pieces_stay_away, setup_large, teardown),
        cmocka_unit_test(it_works_without_one),
        cmocka_unit_test(the_index_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
