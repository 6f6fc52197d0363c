/* Does a counter know all that several threads have counted, wherever they ran? */
#include "base/testing.h"

#include <pthread.h>

#include "base/counter.h"

#define THREADS 4
#define ROUNDS  50000

static void *count_up(void *arg)
{
    struct base_counter *counter = arg;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        base_counter_add(counter, i % 3);
        if (i % 1000 == 0)
            (void)sched_yield();
    }
    return NULL;
}

static void test_nothing_is_missing(void **state base_unused)
{
    static struct base_counter counter;
    pthread_t threads[THREADS];
    uint64_t expected = 0;
    for (uint64_t i = 0; i < ROUNDS; i++)
        expected += THREADS * (i % 3);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, &counter), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(base_counter_sum(&counter), expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_is_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
