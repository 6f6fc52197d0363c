/* `tarn-lab hash` as a user runs it: all that it measures get what was put, and are in its results. */
#include "lab/memcache_server.h"
#include "lab/testing.h"

static bool has_two_cores(void)
{
    struct bench_machine machine;
    bench_machine_read(&machine);
    return bench_has_two_cores(&machine);
}

static void stores_are_measured(void **state)
{
    struct run run;
    (void)state;
    if (!has_two_cores())
        skip();
    LAB_RUN(&run, "hash", "--json", "--duration=1ms", "--repeats=1", "--records=3000", "--sizes=32,1K",
            "--peers=floor,mutex,lmdb", "--seed=7");
    assert_success(&run);
    assert_int_equal(count_of(run.out, "\"bench\":\"hash\""), 2 * (1 + 2 * 3)); /* inserts; by distribution */
    assert_int_equal(count_of(run.out, "\"growing\""), 2);
    assert_int_equal(count_of(run.out, "\"floor\""), 12);
    assert_int_equal(count_of(run.out, "\"mutex\""), 12);
    assert_int_equal(count_of(run.out, "\"lmdb\""), 12);
    free_run(&run);
}

static void servers_are_measured(void **state)
{
    struct run run;
    (void)state;
    if (!has_two_cores() || !lab_memcache_is_installed("memcached") ||
        !lab_memcache_is_installed("redis-server"))
        skip();
    LAB_RUN(&run, "hash", "--json", "--duration=150ms", "--repeats=1", "--records=200", "--only=get-many",
            "--distribution=zipf", "--peers=memcached,redis",
            "--seed=7"); /* long enough to be served on a busy machine */
    assert_success(&run);
    assert_int_equal(count_of(run.out, "\"memcached\""), 1);
    assert_int_equal(count_of(run.out, "\"redis\""), 1);
    free_run(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_are_measured),
        cmocka_unit_test(servers_are_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
