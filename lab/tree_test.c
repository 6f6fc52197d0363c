/* `tarn-lab tree` as a user runs it: all that it measures find what was put, in order, and are in its results. */
#include "lab/testing.h"

static void ordered_stores_are_measured(void **state)
{
    struct run run;
    (void)state;
    LAB_RUN(&run, "tree", "--json", "--duration=1ms", "--repeats=1", "--records=3000", "--seed=7");
    assert_success(&run);
    assert_int_equal(count_of(run.out, "\"bench\":\"tree\""),
                     3 * 2); /* search, scan, insert; one thread, two */
    assert_int_equal(count_of(run.out, "\"tarn\""), 6);
    assert_int_equal(count_of(run.out, "\"rocksdb\""), 6);
    assert_int_equal(count_of(run.out, "\"lmdb\""), 6);
    assert_int_equal(count_of(run.out, "\"wiredtiger\""), 6);
    free_run(&run);
}

static void it_is_measured_alone(void **state)
{
    struct run run;
    (void)state;
    LAB_RUN(&run, "tree", "--json", "--duration=1ms", "--repeats=1", "--records=1000", "--only=scan",
            "--scan=2000", "--threads=3", "--peers=none", "--seed=7");
    assert_success(&run);
    assert_int_equal(count_of(run.out, "\"bench\":\"tree\""), 1);
    assert_int_equal(count_of(run.out, "\"rocksdb\""), 0);
    free_run(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordered_stores_are_measured),
        cmocka_unit_test(it_is_measured_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
