/* Are objects handed out once, taken back, and counted, and does no memory mean no object? */
#include "base/testing.h"

#include "base/pool.h"

#ifdef TESTING_ADDRESS_SANITIZED
#include <sanitizer/asan_interface.h>

static void test_free_objects_are_poisoned(void **state base_unused)
{
    struct base_account account;
    struct base_pool pool;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    base_pool_init(&pool, &account, 64, 0, 2, 2);
    uint8_t *object = base_pool_get(&pool);
    assert_int_equal(__asan_address_is_poisoned(object), 0);
    assert_int_equal(__asan_address_is_poisoned(object + 63), 0);
    assert_int_equal(__asan_address_is_poisoned(object + 64), 1);
    base_pool_put(&pool, object);
    assert_int_equal(__asan_address_is_poisoned(object), 1);
    assert_int_equal(__asan_address_is_poisoned(object + 63), 1);
    base_pool_deinit(&pool);
    base_account_deinit(&account);
}
#endif

static void test_limit_and_reuse(void **state base_unused)
{
    struct base_account account;
    struct base_pool pool;
    void *objects[10];
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    base_pool_init(&pool, &account, 24, 0, 10, 4);
    assert_int_equal(base_account_used(&account), 0);
    for (size_t i = 0; i < 10; i++) {
        objects[i] = base_pool_get(&pool);
        assert_non_null(objects[i]);
        assert_int_equal((uintptr_t)objects[i] % _Alignof(max_align_t), 0);
        memset(objects[i], (int)i, 24);
    }
    assert_null(base_pool_get(&pool));
    assert_int_equal(pool.in_use, 10);
    for (size_t i = 0; i < 10; i++) {
        for (size_t j = 0; j < 24; j++)
            assert_int_equal(((uint8_t *)objects[i])[j], i);
    }
    uint64_t used = base_account_used(&account);
    base_pool_put(&pool, objects[3]);
    base_pool_put(&pool, objects[7]);
    assert_ptr_equal(base_pool_get(&pool), objects[7]);
    assert_ptr_equal(base_pool_get(&pool), objects[3]);
    for (size_t i = 0; i < 10; i++)
        base_pool_put(&pool, objects[i]);
    assert_int_equal(pool.in_use, 0);
    assert_int_equal(pool.peak, 10);
    assert_int_equal(base_account_used(&account), used);
    base_pool_deinit(&pool);
    base_account_deinit(&account);
}

static void test_alignment_and_tiny_objects(void **state base_unused)
{
    struct base_account account;
    struct base_pool pool;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    base_pool_init(&pool, &account, 1, 128, 5, 2);
    void *objects[5];
    for (size_t i = 0; i < 5; i++) {
        objects[i] = base_pool_get(&pool);
        assert_non_null(objects[i]);
        assert_int_equal((uintptr_t)objects[i] % 128, 0);
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(objects[i], objects[j]);
    }
    for (size_t i = 0; i < 5; i++)
        base_pool_put(&pool, objects[i]);
    base_pool_deinit(&pool);
    base_account_deinit(&account);
}

static void test_reserve(void **state base_unused)
{
    struct base_account account;
    struct base_pool pool;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    base_pool_init(&pool, &account, 64, 0, 100, 8);
    assert_int_equal(base_pool_reserve(&pool, 20), 0);
    base_account_fail_at(&account, 1);
    void *objects[24];
    for (size_t i = 0; i < 24; i++) {
        objects[i] = base_pool_get(&pool);
        assert_non_null(objects[i]);
    }
    assert_null(base_pool_get(&pool));
    assert_int_equal(base_pool_reserve(&pool, 24), 0);
    base_account_fail_at(&account, 2);
    assert_int_equal(base_pool_reserve(&pool, 100), -ENOMEM);
    assert_int_equal(pool.objects, 32);
    assert_int_equal(base_pool_reserve(&pool, 100), 0);
    assert_int_equal(pool.objects, 100);
    for (size_t i = 0; i < 24; i++)
        base_pool_put(&pool, objects[i]);
    base_pool_deinit(&pool);
    base_account_deinit(&account);
}

static void test_huge_objects_fail_cleanly(void **state base_unused)
{
    struct base_account account;
    struct base_pool pool;
    base_account_init(&account, 1 << 20);
    base_pool_init(&pool, &account, SIZE_MAX / 8, 0, 100, 100);
    assert_null(base_pool_get(&pool));
    base_pool_deinit(&pool);
    base_account_deinit(&account);
}

static void deinit_pool(void *arg)
{
    base_pool_deinit(arg);
}

static void test_lost_object_aborts(void **state base_unused)
{
    struct base_account account;
    struct base_pool pool;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    base_pool_init(&pool, &account, 16, 0, 2, 2);
    void *object = base_pool_get(&pool);
    assert_non_null(object);
    assert_true(testing_aborts(deinit_pool, &pool));
    base_pool_put(&pool, object);
    base_pool_deinit(&pool);
    base_account_deinit(&account);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef TESTING_ADDRESS_SANITIZED
        cmocka_unit_test(test_free_objects_are_poisoned),
#endif
        cmocka_unit_test(test_limit_and_reuse),
        cmocka_unit_test(test_alignment_and_tiny_objects),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_huge_objects_fail_cleanly),
        cmocka_unit_test(test_lost_object_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
