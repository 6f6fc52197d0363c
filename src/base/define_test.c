/* Do the arithmetic and the byte order of define.h hold at their edges, and does base_assert() abort? */
#include "base/testing.h"

#include "base/base.h"

struct outer {
    int before;
    struct base_list link;
};

static void test_container_of(void **state base_unused)
{
    struct outer outer;
    struct base_list *link = &outer.link;
    assert_ptr_equal(base_container_of(link, struct outer, link), &outer);
}

static void test_array_count(void **state base_unused)
{
    int array[17];
    _Static_assert(base_array_count(array) == 17, "usable in constant expressions");
    assert_int_equal(base_array_count(array), 17);
}

static int count_call(int *calls, int value)
{
    (*calls)++;
    return value;
}

static void test_min_max(void **state base_unused)
{
    assert_int_equal(base_min(3, 4), 3);
    assert_int_equal(base_max(-3, -4), -3);
    assert_true(base_max(UINT64_MAX, UINT64_C(1)) == UINT64_MAX);
    assert_true(base_min(0.5, 1.5) == 0.5);
    assert_int_equal(base_min(base_max(1, 2), base_min(7, 8)), 2);
    int calls = 0;
    assert_int_equal(base_max(count_call(&calls, 5), count_call(&calls, 6)), 6);
    assert_int_equal(calls, 2);
}

static void test_alignment(void **state base_unused)
{
    assert_int_equal(base_align_up(0, 4096), 0);
    assert_int_equal(base_align_up(1, 4096), 4096);
    assert_int_equal(base_align_up(4096, 4096), 4096);
    assert_int_equal(base_align_down(8191, 4096), 4096);
    assert_true(base_is_aligned(8192, 4096));
    assert_false(base_is_aligned(8200, 4096));
    assert_false(base_is_power_of_two(0));
    assert_true(base_is_power_of_two(1));
    assert_true(base_is_power_of_two(UINT64_C(1) << 63));
    assert_false(base_is_power_of_two(6));
}

static void test_byte_order(void **state base_unused)
{
    uint8_t bytes[9] = {0xff, 1, 2, 3, 4, 5, 6, 7, 8};
    assert_int_equal(base_load_le16(bytes + 1), 0x0201);
    assert_int_equal(base_load_le32(bytes + 1), 0x04030201);
    assert_true(base_load_le64(bytes + 1) == UINT64_C(0x0807060504030201));
    uint8_t copy[9] = {0xff};
    base_store_le64(copy + 1, UINT64_C(0x0807060504030201));
    assert_memory_equal(copy, bytes, 9);
    base_store_le32(copy + 1, 0x0a0b0c0d);
    assert_memory_equal(copy + 1, "\x0d\x0c\x0b\x0a\x05", 5);
    base_store_le16(copy + 1, 0x1122);
    assert_memory_equal(copy + 1, "\x22\x11\x0b", 3);
}

static void test_zero(void **state base_unused)
{
    uint8_t bytes[64] = {0};
    assert_true(base_is_zero(bytes, 0));
    for (size_t len = 1; len <= sizeof(bytes); len++) {
        assert_true(base_is_zero(bytes, len));
        for (size_t i = 0; i < len; i++) {
            bytes[i] = 1;
            assert_false(base_is_zero(bytes, len));
            assert_int_equal(base_is_zero(bytes + i + 1, len - i - 1), true);
            bytes[i] = 0;
        }
    }
}

static void assert_that(void *arg)
{
    base_assert(*(int *)arg == 1);
}

static void test_assert(void **state base_unused)
{
    int right = 1;
    int wrong = 2;
    assert_false(testing_aborts(assert_that, &right));
    assert_true(testing_aborts(assert_that, &wrong));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_container_of), cmocka_unit_test(test_array_count),
        cmocka_unit_test(test_min_max),      cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_byte_order),   cmocka_unit_test(test_zero),
        cmocka_unit_test(test_assert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
