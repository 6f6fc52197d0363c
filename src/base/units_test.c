/* Is every size and duration read and written exactly, and everything else refused? */
#include "base/testing.h"

#include "base/random.h"
#include "base/units.h"

#define UNTOUCHED 4711

struct parsing {
    const char *text;
    int result;
    uint64_t value;
};

static void check(int (*parse)(const char *, uint64_t *), const struct parsing *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = UNTOUCHED;
        int result = parse(cases[i].text, &value);
        if (result != cases[i].result || value != (result == 0 ? cases[i].value : UNTOUCHED))
            fail_msg("\"%s\" gave %d, %llu", cases[i].text, result, (unsigned long long)value);
    }
}

static void test_parse_u64(void **state base_unused)
{
    static const struct parsing cases[] = {
        {"0", 0, 0},
        {"007", 0, 7},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", -ERANGE, 0},
        {"99999999999999999999999", -ERANGE, 0},
        {"99999999999999999999999x", -EINVAL, 0},
        {"", -EINVAL, 0},
        {" 1", -EINVAL, 0},
        {"1 ", -EINVAL, 0},
        {"+1", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"0x10", -EINVAL, 0},
        {"1.0", -EINVAL, 0},
    };
    check(base_parse_u64, cases, base_array_count(cases));
    uint64_t value = 0;
    assert_int_equal(base_parse_u64_len("12345", 3, &value), 0);
    assert_int_equal(value, 123);
    assert_int_equal(base_parse_u64_len("1", 0, &value), -EINVAL);
    assert_int_equal(base_parse_u64_len("1\0", 2, &value), -EINVAL);
}

static void test_parse_size(void **state base_unused)
{
    static const struct parsing cases[] = {
        {"0", 0, 0},
        {"512", 0, 512},
        {"512B", 0, 512},
        {"64k", 0, 65536},
        {"1M", 0, 1 << 20},
        {"1MiB", 0, 1 << 20},
        {"1mib", 0, 1 << 20},
        {"1MB", 0, 1000000},
        {"10G", 0, UINT64_C(10) << 30},
        {"3TB", 0, UINT64_C(3000000000000)},
        {"16383P", 0, UINT64_C(16383) << 50},
        {"16384P", -ERANGE, 0},
        {"18446744073709551616B", -ERANGE, 0},
        {"18446744073709551616X", -EINVAL, 0},
        {"1 M", -EINVAL, 0},
        {"1.5G", -EINVAL, 0},
        {"M", -EINVAL, 0},
        {"1Mi", -EINVAL, 0},
        {"1Mx", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"", -EINVAL, 0},
    };
    check(base_parse_size, cases, base_array_count(cases));
}

static void test_parse_duration(void **state base_unused)
{
    static const struct parsing cases[] = {
        {"0", 0, 0},
        {"0s", 0, 0},
        {"17ns", 0, 17},
        {"5us", 0, 5000},
        {"10ms", 0, 10000000},
        {"2s", 0, UINT64_C(2000000000)},
        {"3m", 0, UINT64_C(180000000000)},
        {"1h", 0, UINT64_C(3600000000000)},
        {"7d", 0, UINT64_C(604800000000000)},
        {"213503d", 0, UINT64_C(213503) * 86400 * BASE_NS_PER_SECOND},
        {"213504d", -ERANGE, 0},
        {"5", -EINVAL, 0},
        {"5S", -EINVAL, 0},
        {"5 s", -EINVAL, 0},
        {"s", -EINVAL, 0},
        {"1h30m", -EINVAL, 0},
        {"", -EINVAL, 0},
    };
    check(base_parse_duration, cases, base_array_count(cases));
}

struct formatting {
    uint64_t value;
    const char *for_people;
    const char *exact;
};

static void test_format_size(void **state base_unused)
{
    static const struct formatting cases[] = {
        {0, "0 B", "0B"},
        {1023, "1023 B", "1023B"},
        {1024, "1.00 KiB", "1K"},
        {1536, "1.50 KiB", "1536B"},
        {1023 * 1024, "1023 KiB", "1023K"},
        {1048575, "1.00 MiB", "1048575B"},
        {UINT64_C(10) << 30, "10.0 GiB", "10G"},
        {UINT64_C(1536) << 20, "1.50 GiB", "1536M"},
        {UINT64_C(1) << 60, "1024 PiB", "1024P"},
        {UINT64_MAX, "16384 PiB", "18446744073709551615B"},
    };
    char text[BASE_UNITS_ROOM];
    for (size_t i = 0; i < base_array_count(cases); i++) {
        assert_string_equal(base_format_size(text, sizeof(text), cases[i].value), cases[i].for_people);
        assert_string_equal(base_format_size_exact(text, sizeof(text), cases[i].value), cases[i].exact);
    }
    assert_string_equal(base_format_size(text, 4, 1023), "102");
}

static void test_format_duration(void **state base_unused)
{
    static const struct formatting cases[] = {
        {0, "0 ns", "0s"},
        {999, "999 ns", "999ns"},
        {1500, "1.50 us", "1500ns"},
        {1500000, "1.50 ms", "1500us"},
        {999600, "1.00 ms", "999600ns"},
        {UINT64_C(999600000), "1.00 s", "999600us"},
        {15 * BASE_NS_PER_SECOND, "15.0 s", "15s"},
        {60 * BASE_NS_PER_SECOND, "1m00s", "1m"},
        {3599 * BASE_NS_PER_SECOND, "59m59s", "3599s"},
        {7500 * BASE_NS_PER_SECOND, "2h05m", "125m"},
        {UINT64_C(90000) * BASE_NS_PER_SECOND, "1d01h", "25h"},
        {UINT64_MAX, "213503d23h", "18446744073709551615ns"},
    };
    char text[BASE_UNITS_ROOM];
    for (size_t i = 0; i < base_array_count(cases); i++) {
        assert_string_equal(base_format_duration(text, sizeof(text), cases[i].value), cases[i].for_people);
        assert_string_equal(base_format_duration_exact(text, sizeof(text), cases[i].value), cases[i].exact);
    }
}

static void test_exact_forms_are_read_back(void **state base_unused)
{
    struct base_random random;
    base_random_init(&random, 2);
    for (int i = 0; i < 20000; i++) {
        char text[BASE_UNITS_ROOM];
        uint64_t value = base_random_u64(&random) >> base_random_below(&random, 64);
        value <<= base_random_below(&random, (uint64_t)__builtin_clzll(value | 1) + 1);
        uint64_t back = ~value;
        assert_int_equal(base_parse_size(base_format_size_exact(text, sizeof(text), value), &back), 0);
        assert_true(back == value);
        back = ~value;
        assert_int_equal(base_parse_duration(base_format_duration_exact(text, sizeof(text), value), &back),
                         0);
        assert_true(back == value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_u64),       cmocka_unit_test(test_parse_size),
        cmocka_unit_test(test_parse_duration),  cmocka_unit_test(test_format_size),
        cmocka_unit_test(test_format_duration), cmocka_unit_test(test_exact_forms_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
