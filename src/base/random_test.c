/* Are numbers those of the seed, in their bounds, and spread as they should be? */
#include "base/testing.h"

#include <math.h>

#include "base/random.h"

/* Seeds are written in failing runs: what they give must never change. */
static void test_known_numbers(void **state base_unused)
{
    /* xoshiro256++ from the state 1, 2, 3, 4, as its authors' program prints it. */
    struct base_random random = {{1, 2, 3, 4}};
    assert_true(base_random_u64(&random) == UINT64_C(41943041));
    assert_true(base_random_u64(&random) == UINT64_C(58720359));
    assert_true(base_random_u64(&random) == UINT64_C(3588806011781223));
    assert_true(base_random_u64(&random) == UINT64_C(3591011842654386));
    /* splitmix64 from 0. */
    base_random_init(&random, 0);
    assert_true(random.state[0] == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(random.state[1] == UINT64_C(0x6e789e6aa1b965f4));
}

static void test_below_is_even(void **state base_unused)
{
    struct base_random random;
    base_random_init(&random, 5);
    unsigned counts[7] = {0};
    for (int i = 0; i < 70000; i++) {
        uint64_t value = base_random_below(&random, 7);
        assert_true(value < 7);
        counts[value]++;
    }
    for (size_t i = 0; i < 7; i++)
        assert_in_range(counts[i], 9500, 10500);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(base_random_below(&random, 1), 0);
        /* Two thirds of all words: without drawing again the lower half would come twice as often. */
        assert_true(base_random_below(&random, UINT64_C(3) << 62) < UINT64_C(3) << 62);
    }
    unsigned low = 0;
    for (int i = 0; i < 30000; i++)
        low += base_random_below(&random, UINT64_C(3) << 62) % 3 == 0;
    assert_in_range(low, 9500, 10500);
}

static void test_double(void **state base_unused)
{
    struct base_random random;
    base_random_init(&random, 6);
    double sum = 0;
    for (int i = 0; i < 100000; i++) {
        double value = base_random_double(&random);
        assert_true(value >= 0 && value < 1);
        sum += value;
    }
    assert_true(sum > 49500 && sum < 50500);
}

static void test_fill(void **state base_unused)
{
    struct base_random random, again;
    uint8_t bytes[32], expected[32];
    for (size_t len = 0; len <= 24; len++) {
        base_random_init(&random, len);
        base_random_init(&again, len);
        memset(bytes, 0xee, sizeof(bytes));
        base_random_fill(&random, bytes, len);
        for (size_t i = 0; i < 24; i += 8)
            base_store_le64(expected + i, base_random_u64(&again));
        assert_memory_equal(bytes, expected, len);
        assert_int_equal(bytes[len], 0xee);
    }
}

static void test_fork(void **state base_unused)
{
    struct base_random a, b;
    base_random_init(&a, 9);
    base_random_init(&b, 9);
    struct base_random child_a = base_random_fork(&a);
    struct base_random child_b = base_random_fork(&b);
    struct base_random sister = base_random_fork(&b);
    uint64_t first = base_random_u64(&child_a);
    assert_true(first == base_random_u64(&child_b));
    assert_true(first != base_random_u64(&sister));
    assert_true(base_random_u64(&a) != base_random_u64(&child_a));
}

static void test_zipf_frequencies(void **state base_unused)
{
    static const double thetas[] = {0, 0.5, 0.99};
    enum { ITEMS = 1000, DRAWS = 400000 };
    struct base_random random;
    base_random_init(&random, 10);
    for (size_t t = 0; t < base_array_count(thetas); t++) {
        struct base_random_zipf zipf;
        unsigned counts[ITEMS] = {0};
        base_random_zipf_init(&zipf, ITEMS, thetas[t]);
        double zeta = 0;
        for (int i = 1; i <= ITEMS; i++)
            zeta += 1 / pow(i, thetas[t]);
        for (int i = 0; i < DRAWS; i++) {
            uint64_t rank = base_random_zipf_rank(&zipf, &random);
            assert_true(rank < ITEMS);
            counts[rank]++;
        }
        /* Ranks 0 and 1 are exact; the first tenth together is near, as the method approximates. */
        double first = DRAWS / zeta;
        assert_true(fabs(counts[0] - first) < 6 * sqrt(first));
        double second = DRAWS / pow(2, thetas[t]) / zeta;
        assert_true(fabs(counts[1] - second) < 6 * sqrt(second));
        double tenth = 0, tenth_expected = 0;
        for (int i = 0; i < ITEMS / 10; i++) {
            tenth += counts[i];
            tenth_expected += first / pow(i + 1, thetas[t]);
        }
        assert_true(fabs(tenth - tenth_expected) < 0.05 * tenth_expected);
    }
}

static void test_zipf_of_few_and_of_many(void **state base_unused)
{
    struct base_random random;
    struct base_random_zipf zipf;
    base_random_init(&random, 11);
    for (uint64_t items = 1; items <= 3; items++) {
        base_random_zipf_init(&zipf, items, 0.99);
        for (int i = 0; i < 1000; i++) {
            assert_true(base_random_zipf_rank(&zipf, &random) < items);
            assert_true(base_random_zipf_scattered(&zipf, &random) < items);
        }
    }
    /* The integral in place of most terms: compare with the whole sum. */
    base_random_zipf_init(&zipf, 1000000, 0.99);
    double zeta = 0;
    for (int i = 1000000; i > 0; i--)
        zeta += pow(i, -0.99);
    assert_true(fabs(zipf.zeta_items - zeta) < 1e-9 * zeta);
    base_random_zipf_init(&zipf, UINT64_C(1000000000000), 0.99);
    uint64_t max = 0;
    for (int i = 0; i < 10000; i++)
        max = base_max(max, base_random_zipf_rank(&zipf, &random));
    assert_true(max > UINT64_C(500000000000) && max < UINT64_C(1000000000000));
}

static void below_nothing(void *arg)
{
    base_random_below(arg, 0);
}

static void test_below_nothing_aborts(void **state base_unused)
{
    struct base_random random;
    base_random_init(&random, 1);
    assert_true(testing_aborts(below_nothing, &random));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_numbers),
        cmocka_unit_test(test_below_is_even),
        cmocka_unit_test(test_double),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_zipf_frequencies),
        cmocka_unit_test(test_zipf_of_few_and_of_many),
        cmocka_unit_test(test_below_nothing_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
