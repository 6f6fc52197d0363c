/* Are medians, ratios and schedules what their definitions say? */
#include "base/testing.h"

#include "base/base.h"
#include "bench/statistics.h"

static void test_summary(void **state)
{
    (void)state;
    const double odd[] = {5, 1, 9};
    struct bench_summary summary = bench_summarize(odd, 3);
    assert_true(summary.median == 5 && summary.min == 1 && summary.max == 9);
    assert_true(odd[0] == 5 && odd[1] == 1 && odd[2] == 9);
    const double even[] = {4, 1, 3, 100};
    summary = bench_summarize(even, 4);
    assert_true(summary.median == 3.5 && summary.min == 1 && summary.max == 100);
    summary = bench_summarize(even, 1);
    assert_true(summary.median == 4 && summary.min == 4 && summary.max == 4);
}

static void summarize_nothing(void *arg)
{
    (void)bench_summarize(arg, 0);
}

static void test_summary_of_nothing_is_a_bug(void **state)
{
    (void)state;
    double value = 1;
    assert_true(testing_aborts(summarize_nothing, &value));
}

/* The pairs decide: a machine that is slow for one pair changes neither its ratio nor the median. */
static void test_ratios_are_of_pairs(void **state)
{
    (void)state;
    const double ours[] = {200, 20, 210};
    const double theirs[] = {100, 10, 100};
    struct bench_summary ratio = bench_summarize_ratios(ours, theirs, 3);
    assert_true(ratio.median == 2 && ratio.min == 2 && ratio.max == 2.1);
}

static void test_ratios_leave_zeros_out(void **state)
{
    (void)state;
    const double ours[] = {0, 30, 10};
    const double theirs[] = {10, 10, 0};
    struct bench_summary ratio = bench_summarize_ratios(ours, theirs, 3);
    assert_true(ratio.median == 3 && ratio.min == 3 && ratio.max == 3);
    ratio = bench_summarize_ratios(ours, theirs, 1);
    assert_true(ratio.median == 0 && ratio.min == 0 && ratio.max == 0);
    ratio = bench_summarize_ratios(ours, theirs, 0);
    assert_true(ratio.median == 0);
}

static void test_schedule_does_not_drift(void **state)
{
    (void)state;
    const struct bench_schedule thirds = {.start_ns = 1000, .rate = 3};
    assert_int_equal(bench_schedule_at(&thirds, 0), 1000);
    assert_int_equal(bench_schedule_at(&thirds, 1), 1000 + 333333333);
    assert_int_equal(bench_schedule_at(&thirds, 2), 1000 + 666666666);
    assert_int_equal(bench_schedule_at(&thirds, 3 * UINT64_C(1000000000)),
                     1000 + UINT64_C(1000000000000000000));
}

static void test_schedule_due(void **state)
{
    (void)state;
    const struct bench_schedule tens = {.start_ns = 500, .rate = 10};
    assert_int_equal(bench_schedule_due(&tens, 0), 0);
    assert_int_equal(bench_schedule_due(&tens, 499), 0);
    assert_int_equal(bench_schedule_due(&tens, 500), 1);
    assert_int_equal(bench_schedule_due(&tens, 500 + 99999999), 1);
    assert_int_equal(bench_schedule_due(&tens, 500 + 100000000), 2);
}

/* A number is due from its moment on, and not before. */
static void test_schedule_due_and_at_agree(void **state)
{
    (void)state;
    struct base_random random;
    base_random_init(&random, 42);
    for (int i = 0; i < 10000; i++) {
        const struct bench_schedule schedule = {.start_ns = 1 + base_random_below(&random, UINT64_C(1) << 40),
                                                .rate = 1 + base_random_below(&random, 1000000000)};
        uint64_t number = base_random_below(&random, schedule.rate * 1000);
        uint64_t when_ns = bench_schedule_at(&schedule, number);
        assert_true(bench_schedule_due(&schedule, when_ns) > number);
        assert_true(bench_schedule_due(&schedule, when_ns - 1) <= number);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_summary),
        cmocka_unit_test(test_summary_of_nothing_is_a_bug),
        cmocka_unit_test(test_ratios_are_of_pairs),
        cmocka_unit_test(test_ratios_leave_zeros_out),
        cmocka_unit_test(test_schedule_does_not_drift),
        cmocka_unit_test(test_schedule_due),
        cmocka_unit_test(test_schedule_due_and_at_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
