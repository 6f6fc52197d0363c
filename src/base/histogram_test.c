/* Are percentiles within the promised precision, and merges whole while a writer adds? */
#include "base/testing.h"

#include "base/histogram.h"
#include "base/random.h"

#define VALUES 200000

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void assert_within_a_percent(uint64_t found, uint64_t exact)
{
    double error = (double)found - (double)exact;
    assert_true(error <= (double)exact * 0.01 && -error <= (double)exact * 0.01);
}

/* Values of all magnitudes from 1 ns to over an hour. */
static uint64_t draw(struct base_random *random)
{
    unsigned bits = 1 + (unsigned)base_random_below(random, 42);
    return base_random_below(random, UINT64_C(1) << bits) + 1;
}

static void test_percentiles_against_sorted_values(void **state base_unused)
{
    static const double percents[] = {0.001, 0.5, 1, 10, 25, 50, 75, 90, 99, 99.9, 99.99, 99.999};
    uint64_t *values = test_malloc(VALUES * sizeof(*values));
    struct base_histogram histogram;
    struct base_random random;
    base_random_init(&random, 42);
    base_histogram_reset(&histogram);
    double sum = 0;
    for (size_t i = 0; i < VALUES; i++) {
        values[i] = draw(&random);
        sum += (double)values[i];
        base_histogram_add(&histogram, values[i]);
    }
    qsort(values, VALUES, sizeof(*values), compare_u64);
    for (size_t i = 0; i < base_array_count(percents); i++) {
        /* VALUES / 100000 is whole, so the rank can be had in whole numbers. */
        uint64_t thousandths = (uint64_t)(percents[i] * 1000 + 0.5);
        size_t rank = thousandths * (VALUES / 100000);
        assert_within_a_percent(base_histogram_percentile(&histogram, percents[i]), values[rank - 1]);
    }
    assert_true(base_histogram_percentile(&histogram, 0) == values[0]);
    assert_true(base_histogram_percentile(&histogram, 100) == values[VALUES - 1]);
    assert_true(base_histogram_min(&histogram) == values[0]);
    assert_true(base_histogram_max(&histogram) == values[VALUES - 1]);
    double mean = base_histogram_mean(&histogram);
    assert_true(mean > sum / VALUES * 0.999999 && mean < sum / VALUES * 1.000001);
    assert_int_equal(base_histogram_count(&histogram), VALUES);
    test_free(values);
}

/* The middle one of three values is what the buckets say; the ends of all buckets are among those tried. */
static void test_both_ends_of_every_bucket(void **state base_unused)
{
    struct base_histogram histogram;
    for (unsigned bits = 0; bits < 42; bits++) {
        uint64_t begin = UINT64_C(1) << bits;
        uint64_t step = base_max(begin / 64, UINT64_C(1));
        for (uint64_t value = begin; value < 2 * begin; value += step) {
            uint64_t ends[] = {value, value + step - 1};
            for (size_t i = 0; i < 2; i++) {
                base_histogram_reset(&histogram);
                base_histogram_add(&histogram, 0);
                base_histogram_add(&histogram, ends[i]);
                base_histogram_add(&histogram, UINT64_MAX);
                assert_within_a_percent(base_histogram_percentile(&histogram, 50), ends[i]);
            }
        }
    }
}

static void test_small_values_are_exact(void **state base_unused)
{
    struct base_histogram histogram;
    base_histogram_reset(&histogram);
    for (uint64_t value = 0; value < 100; value++)
        base_histogram_add(&histogram, value);
    for (unsigned percent = 1; percent <= 100; percent++)
        assert_int_equal(base_histogram_percentile(&histogram, percent), percent - 1);
    assert_true(base_histogram_mean(&histogram) == 49.5);
}

static void test_empty(void **state base_unused)
{
    struct base_histogram histogram;
    base_histogram_reset(&histogram);
    base_histogram_add_count(&histogram, 5, 0);
    assert_int_equal(base_histogram_count(&histogram), 0);
    assert_int_equal(base_histogram_min(&histogram), 0);
    assert_int_equal(base_histogram_max(&histogram), 0);
    assert_int_equal(base_histogram_percentile(&histogram, 99), 0);
    assert_true(base_histogram_mean(&histogram) == 0);
}

static void test_beyond_the_range(void **state base_unused)
{
    struct base_histogram histogram;
    base_histogram_reset(&histogram);
    base_histogram_add_count(&histogram, UINT64_MAX, 4);
    assert_true(base_histogram_max(&histogram) == UINT64_MAX);
    assert_true(base_histogram_percentile(&histogram, 50) == UINT64_MAX);
    /* The sum is over 64 bits by then. */
    assert_true(base_histogram_mean(&histogram) == 0x1p64);
    for (int i = 0; i < 4; i++)
        base_histogram_add(&histogram, UINT64_MAX);
    assert_true(base_histogram_mean(&histogram) == 0x1p64);
}

static void test_merge_equals_adding(void **state base_unused)
{
    struct base_histogram all, parts[3];
    struct base_random random;
    base_random_init(&random, 7);
    base_histogram_reset(&all);
    for (size_t i = 0; i < 3; i++)
        base_histogram_reset(&parts[i]);
    for (size_t i = 0; i < 1000; i++) {
        uint64_t value = draw(&random);
        uint64_t count = base_random_below(&random, 5);
        base_histogram_add_count(&parts[i % 2], value, count);
        for (uint64_t j = 0; j < count; j++)
            base_histogram_add(&all, value);
    }
    for (size_t i = 1; i < 3; i++)
        base_histogram_merge(&parts[0], &parts[i]);
    assert_memory_equal(&parts[0], &all, sizeof(all));
}

static void test_json(void **state base_unused)
{
    struct base_histogram histogram;
    char text[512];
    base_histogram_reset(&histogram);
    for (uint64_t value = 1; value <= 100; value++)
        base_histogram_add(&histogram, value);
    const char *expected =
        "{\"count\":100,\"min\":1,\"mean\":50.5,\"p50\":50,\"p90\":90,\"p99\":99,\"p99.9\":100,"
        "\"p99.99\":100,\"p99.999\":100,\"max\":100}";
    assert_int_equal(base_histogram_print_json(&histogram, text, sizeof(text)), (int)strlen(expected));
    assert_string_equal(text, expected);
    assert_int_equal(base_histogram_print_json(&histogram, text, strlen(expected)), -ENOSPC);
    assert_int_equal(base_histogram_print_json(&histogram, text, strlen(expected) + 1),
                     (int)strlen(expected));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles_against_sorted_values),
        cmocka_unit_test(test_both_ends_of_every_bucket),
        cmocka_unit_test(test_small_values_are_exact),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_beyond_the_range),
        cmocka_unit_test(test_merge_equals_adding),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
