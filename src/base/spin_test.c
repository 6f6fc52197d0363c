/* Does the lock exclude, and does its assertion notice that it is not held? */
#include "base/testing.h"

#include <pthread.h>

#include "base/spin.h"

#define THREADS 4
#define ROUNDS  50000

static void test_try(void **state base_unused)
{
    struct base_spin spin;
    base_spin_init(&spin);
    assert_true(base_spin_lock_try(&spin));
    assert_false(base_spin_lock_try(&spin));
    base_spin_unlock(&spin);
    base_spin_lock(&spin);
    assert_false(base_spin_lock_try(&spin));
    base_spin_unlock(&spin);
    assert_true(base_spin_lock_try(&spin));
}

static void assert_held(void *arg)
{
    base_spin_assert_held(arg);
}

static void test_assert_held(void **state base_unused)
{
    struct base_spin spin;
    base_spin_init(&spin);
    assert_true(testing_aborts(assert_held, &spin));
    base_spin_lock(&spin);
    base_spin_assert_held(&spin);
    base_spin_unlock(&spin);
    assert_true(testing_aborts(assert_held, &spin));
}

struct shared {
    struct base_spin spin;
    uint64_t counter; /* plain: only the lock keeps it right */
};

static void *count_up(void *arg)
{
    struct shared *shared = arg;
    for (int i = 0; i < ROUNDS; i++) {
        base_spin_lock(&shared->spin);
        shared->counter++;
        base_spin_unlock(&shared->spin);
    }
    return NULL;
}

static void test_exclusion(void **state base_unused)
{
    struct shared shared = {0};
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, &shared), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(shared.counter, THREADS * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_try),
        cmocka_unit_test(test_assert_held),
        cmocka_unit_test(test_exclusion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
