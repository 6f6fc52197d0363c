/* The hot tier alone: what comes in, what stays, what goes, memory that is asked back, readers beside writers. */
#include "base/testing.h"
#include "base/testing_slow.h"
#include "depot/hot/hot.h"
#include "depot/hot/hot_internal.h"
#include "depot/hot/testing.h"
#include <pthread.h>

#define MIB (UINT64_C(1) << 20)

struct fixture {
    struct base_account account;
    struct depot_hot *hot;
};

static void open_tier(struct fixture *fixture, uint64_t cap_bytes, uint64_t bytes_max, uint64_t spare_bytes)
{
    const struct depot_hot_options options = {.bytes_max = bytes_max, .spare_bytes = spare_bytes};
    base_account_init(&fixture->account, cap_bytes);
    assert_int_equal(depot_hot_open(&fixture->account, &options, &fixture->hot), 0);
}

static void close_tier(struct fixture *fixture)
{
    testing_hot_validate(fixture->hot);
    depot_hot_close(fixture->hot);
    assert_int_equal(base_account_used(&fixture->account), 0);
    base_account_deinit(&fixture->account);
}

/* The bytes of a record tell its place. */
static void fill(uint8_t *bytes, size_t len, uint64_t grain, uint64_t stamp)
{
    uint64_t word = grain * 31 + stamp;
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(word >> 8 * (i % 8));
}

static void add(struct depot_hot *hot, uint64_t grain, uint64_t stamp, size_t len, bool favoured)
{
    uint8_t *bytes = test_malloc(len);
    fill(bytes, len, grain, stamp);
    const struct depot_hot_part parts[] = {{bytes, len / 3}, {NULL, 0}, {bytes + len / 3, len - len / 3}};
    depot_hot_add(hot, grain, stamp, parts, 3, favoured);
    test_free(bytes);
}

/* Whether it is there; if it is, it is right. */
static bool has(struct depot_hot *hot, uint64_t grain, uint64_t stamp, size_t len, bool counts)
{
    struct depot_hot_found found;
    if (!depot_hot_find(hot, grain, stamp, counts, &found))
        return false;
    uint8_t *bytes = test_malloc(len);
    fill(bytes, len, grain, stamp);
    assert_true(found.room >= len && found.room < len + HOT_UNIT_BYTES);
    assert_memory_equal(found.record, bytes, len);
    test_free(bytes);
    depot_hot_unpin(found.page);
    return true;
}

static void test_a_place_is_grain_and_stamp(void **state)
{
    (void)state;
    struct fixture fixture;
    open_tier(&fixture, BASE_ACCOUNT_UNLIMITED, 16 * MIB, 0);
    add(fixture.hot, 1, 7, 100, false);
    assert_true(has(fixture.hot, 1, 7, 100, true));
    assert_false(has(fixture.hot, 1, 8, 100, true));
    assert_false(has(fixture.hot, 2, 7, 100, true));
    add(fixture.hot, 1, 8, 60, false); /* the segment has another stamp now */
    assert_false(has(fixture.hot, 1, 7, 100, true));
    assert_true(has(fixture.hot, 1, 8, 60, true));
    const uint64_t far = (UINT64_C(1) << 40) - 1;
    add(fixture.hot, far, 7, 41, false);
    assert_true(has(fixture.hot, far, 7, 41, true));
    (void)depot_hot_drop(fixture.hot, 1);
    assert_false(has(fixture.hot, 1, 8, 60, true));
    close_tier(&fixture);
}

static void test_long_records_stay_away(void **state)
{
    (void)state;
    struct fixture fixture;
    open_tier(&fixture, BASE_ACCOUNT_UNLIMITED, 64 * MIB, 0);
    add(fixture.hot, 1, 1, DEPOT_HOT_RECORD_BYTES_DEFAULT, false);
    add(fixture.hot, 2, 1, DEPOT_HOT_RECORD_BYTES_DEFAULT + 1, false);
    assert_true(has(fixture.hot, 1, 1, DEPOT_HOT_RECORD_BYTES_DEFAULT, true));
    assert_false(has(fixture.hot, 2, 1, DEPOT_HOT_RECORD_BYTES_DEFAULT + 1, true));
    close_tier(&fixture);
}

/* What is asked for stays while others that nobody asks for pass by, several times the memory. */
static void test_what_is_asked_for_stays(void **state)
{
    (void)state;
    struct fixture fixture;
    uint32_t kept = 0;
    open_tier(&fixture, BASE_ACCOUNT_UNLIMITED, 4 * MIB, 64 * MIB); /* that much is left in any case */
    for (uint64_t grain = 1; grain <= 200; grain++)
        add(fixture.hot, grain, 1, 1000, false);
    for (uint64_t at = 0; at < 40000; at++) {
        uint64_t asked = 1 + at / 10 % 200;
        if (at % 10 == 0 && !has(fixture.hot, asked, 1, 1000, true))
            add(fixture.hot, asked, 1, 1000, false); /* it was read from the drive */
        add(fixture.hot, 1000 + at, 1, 1000, false);
    }
    for (uint64_t grain = 1; grain <= 200; grain++)
        kept += has(fixture.hot, grain, 1, 1000, false);
    assert_true(kept > 190);
    struct depot_hot_stats stats;
    depot_hot_stats(fixture.hot, &stats);
    assert_true(stats.bytes <= 4 * MIB && stats.bytes > 3 * MIB);
    assert_true(stats.evictions > 30000 && stats.additions > 40200);
    close_tier(&fixture);
}

/* A place that comes back soon after its trial needs no other one. */
static void test_what_comes_back_is_favoured(void **state)
{
    (void)state;
    struct fixture fixture;
    open_tier(&fixture, BASE_ACCOUNT_UNLIMITED, 4 * MIB, 0);
    uint64_t grain = 1;
    for (; has(fixture.hot, 1, 1, 500, false) || grain == 1; grain++)
        add(fixture.hot, grain, 1, 500, false);
    add(fixture.hot, 1, 1, 500, false);
    for (uint64_t end = grain + 6000; grain < end; grain++) /* less than the main queue holds */
        add(fixture.hot, grain, 1, 500, false);
    assert_true(has(fixture.hot, 1, 1, 500, false));
    assert_true(depot_hot_drop(fixture.hot, 1));
    assert_false(depot_hot_drop(fixture.hot, 1));
    close_tier(&fixture);
}

static void test_memory_goes_to_others(void **state)
{
    (void)state;
    struct fixture fixture;
    const uint64_t cap_bytes = 32 * MIB;
    open_tier(&fixture, cap_bytes, cap_bytes, 2 * MIB);
    for (uint64_t grain = 1; grain < 100000; grain++)
        add(fixture.hot, grain, 1, 1000, false);
    struct depot_hot_stats stats;
    depot_hot_stats(fixture.hot, &stats);
    assert_in_range(stats.bytes, 28 * MIB, 30 * MIB);
    assert_true(base_account_left(&fixture.account) > 31 * MIB); /* but for what describes pages */
    assert_true(base_account_unused(&fixture.account) >= 2 * MIB);
    assert_false(fixture.account.above_warning);
    uint64_t taken = 0;
    while (base_account_take(&fixture.account, MIB) == 0)
        taken += MIB;
    assert_true(taken >= 30 * MIB);
    testing_hot_validate(fixture.hot);
    depot_hot_stats(fixture.hot, &stats);
    assert_true(stats.bytes < 2 * MIB);
    for (uint64_t grain = 1; grain < 1000; grain++) /* nothing is left to be borrowed */
        add(fixture.hot, grain, 1, 1000, false);
    base_account_give(&fixture.account, taken);
    for (uint64_t grain = 1; grain < 100000; grain++)
        add(fixture.hot, grain, 1, 1000, false);
    depot_hot_stats(fixture.hot, &stats);
    assert_in_range(stats.bytes, 28 * MIB, 30 * MIB);
    assert_int_not_equal(base_account_take(&fixture.account, cap_bytes),
                         0); /* in vain: nothing is returned for it */
    depot_hot_stats(fixture.hot, &stats);
    assert_in_range(stats.bytes, 28 * MIB, 30 * MIB);
    close_tier(&fixture);
}

/* What somebody reads is not written over, nor returned. */
static void test_pinned_pages_stay(void **state)
{
    (void)state;
    struct fixture fixture;
    struct depot_hot_found found;
    uint8_t bytes[1000];
    open_tier(&fixture, BASE_ACCOUNT_UNLIMITED, 2 * MIB, 0);
    add(fixture.hot, 1, 1, sizeof(bytes), false);
    fill(bytes, sizeof(bytes), 1, 1);
    assert_true(depot_hot_find(fixture.hot, 1, 1, false, &found));
    assert_true(depot_hot_keep(found.page));
    for (uint64_t grain = 2; grain < 20000; grain++)
        add(fixture.hot, grain, 1, sizeof(bytes), grain % 2 == 0);
    assert_false(has(fixture.hot, 1, 1, sizeof(bytes), false));
    while (depot_hot_give_back(fixture.hot)) {
    }
    assert_memory_equal(found.record, bytes, sizeof(bytes));
    assert_true(atomic_load(&fixture.hot->parts[0].pages) == 1);
    depot_hot_unkeep(found.page);
    assert_true(depot_hot_give_back(fixture.hot));
    assert_false(depot_hot_give_back(fixture.hot));
    close_tier(&fixture);
}

static void test_leases_are_bounded(void **state)
{
    (void)state;
    struct fixture fixture;
    struct depot_hot_found found;
    open_tier(&fixture, BASE_ACCOUNT_UNLIMITED, 2 * MIB, 0);
    add(fixture.hot, 1, 1, 1000, false);
    uint32_t kept = 0;
    while (depot_hot_find(fixture.hot, 1, 1, true, &found) && depot_hot_keep(found.page))
        kept++;
    assert_int_equal(kept, fixture.hot->page_count / HOT_KEPT_SHARE);
    depot_hot_unpin(found.page);
    for (; kept > 0; kept--)
        depot_hot_unkeep(found.page);
    close_tier(&fixture);
}

/* Random operations of all lengths, in a tier that turns over, with memory taken and given meanwhile. */
static void test_random_operations(void **state)
{
    (void)state;
    struct fixture fixture;
    struct base_random random;
    base_random_init(&random, 1);
    open_tier(&fixture, 8 * MIB, 8 * MIB, MIB / 2);
    uint64_t taken = 0;
    for (uint32_t i = 0; i < 300000; i++) {
        uint64_t grain = 1 + base_random_below(&random, 20000), stamp = 1 + grain % 3;
        size_t len = 40 + grain % 97 * (grain % 11 == 0 ? 100 : 3);
        switch (base_random_below(&random, 8)) {
        case 0:
            (void)depot_hot_drop(fixture.hot, grain);
            break;
        case 1:
            if (base_random_below(&random, 100) == 0 && base_account_take(&fixture.account, MIB) == 0)
                taken += MIB;
            break;
        case 2:
            if (base_random_below(&random, 50) == 0 && taken > 0) {
                base_account_give(&fixture.account, MIB);
                taken -= MIB;
            }
            break;
        case 3:
            assert_false(has(fixture.hot, grain, stamp + 1, len, true));
            break;
        default:
            if (!has(fixture.hot, grain, stamp, len, true))
                add(fixture.hot, grain, stamp, len, false);
            break;
        }
        if (i % 30000 == 0)
            testing_hot_validate(fixture.hot);
    }
    base_account_give(&fixture.account, taken);
    close_tier(&fixture);
}

#define THREADS    4
#define OPERATIONS (TESTING_SLOW ? 20000 : 100000)

struct worker {
    pthread_t thread;
    struct fixture *fixture;
    uint64_t seed;
    uint64_t hits;
};

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct depot_hot *hot = worker->fixture->hot;
    struct base_random random;
    base_random_init(&random, worker->seed);
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        uint64_t below = base_random_below(&random, 4) == 0 ? 10000 : 500;
        uint64_t grain = 1 + base_random_below(&random, below);
        uint64_t stamp = 1 + base_random_below(&random, 2);
        size_t len = 40 + grain % 50 * 20;
        if (has(hot, grain, stamp, len, true))
            worker->hits++;
        else
            add(hot, grain, stamp, len, false);
        if (i % 64 == 0)
            (void)depot_hot_drop(hot, grain);
        if (i % 1000 == 0 && base_account_take(&worker->fixture->account, MIB) == 0)
            base_account_give(&worker->fixture->account, MIB);
    }
    return NULL;
}

/* Whatever is found is right, while pages are emptied, written over and returned beside the readers. */
static void test_threads(void **state)
{
    (void)state;
    struct fixture fixture;
    struct worker workers[THREADS];
    uint64_t hits = 0;
    open_tier(&fixture, 4 * MIB, 3 * MIB, MIB / 2);
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.fixture = &fixture, .seed = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        hits += workers[i].hits;
    }
    assert_true(hits > 0);
    close_tier(&fixture);
}

static void test_no_memory(void **state)
{
    (void)state;
    const struct depot_hot_options options = {.bytes_max = MIB};
    for (uint64_t n = 1;; n++) {
        struct base_account account;
        struct depot_hot *hot;
        base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
        base_account_fail_at(&account, n);
        int error = depot_hot_open(&account, &options, &hot);
        if (error == 0)
            depot_hot_close(hot);
        else
            assert_int_equal(error, -ENOMEM);
        base_account_deinit(&account);
        if (error == 0)
            break;
        assert_true(n < 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_place_is_grain_and_stamp),
        cmocka_unit_test(test_long_records_stay_away),
        cmocka_unit_test(test_what_is_asked_for_stays),
        cmocka_unit_test(test_what_comes_back_is_favoured),
        cmocka_unit_test(test_memory_goes_to_others),
        cmocka_unit_test(test_pinned_pages_stay),
        cmocka_unit_test(test_leases_are_bounded),
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
