/* Are keys drawn as asked for, and are values taken for those of their keys alone? */
#include "base/testing.h"

#include "bench/keys.h"
#include <math.h>

/* ---- which key ----------------------------------------------------------------------------------- */

/* Each rank has a key of its own. */
static void test_ranks_are_a_permutation(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 6, 7, 30, 64, 100, 210, 1000, 4097};
    for (size_t i = 0; i < base_array_count(counts); i++) {
        struct bench_keys keys;
        uint8_t seen[4097] = {0};
        bench_keys_init(&keys, counts[i], 0.5);
        for (uint64_t rank = 0; rank < counts[i]; rank++) {
            uint64_t number = bench_keys_of_rank(&keys, rank);
            assert_in_range(number, 0, counts[i] - 1);
            assert_int_equal(seen[number]++, 0);
        }
    }
}

/* The hundred most popular of a million are nowhere near each other. */
static void test_popular_keys_are_spread(void **state)
{
    (void)state;
    enum { COUNT = 1000000, POPULAR = 100, APART = COUNT / POPULAR / 4 };
    struct bench_keys keys;
    bench_keys_init(&keys, COUNT, 0.99);
    for (uint64_t a = 0; a < POPULAR; a++) {
        for (uint64_t b = 0; b < a; b++) {
            int64_t apart = (int64_t)bench_keys_of_rank(&keys, a) - (int64_t)bench_keys_of_rank(&keys, b);
            assert_true(apart > APART || apart < -APART);
        }
    }
}

/* Chi squared over 1,000 keys has mean 999 and standard deviation 45. */
static void test_uniform_draws_all_alike(void **state)
{
    (void)state;
    enum { COUNT = 1000, DRAWS = 200000 };
    struct bench_keys keys;
    struct base_random random;
    static uint32_t drawn[COUNT];
    memset(drawn, 0, sizeof(drawn));
    bench_keys_init(&keys, COUNT, 0);
    base_random_init(&random, 4);
    for (int i = 0; i < DRAWS; i++)
        drawn[bench_keys_draw(&keys, &random)]++;
    double squares = 0;
    const double expected = (double)DRAWS / COUNT;
    for (int i = 0; i < COUNT; i++)
        squares += (drawn[i] - expected) * (drawn[i] - expected) / expected;
    assert_true(squares > 999 - 4 * 45 && squares < 999 + 4 * 45);
}

static void assert_share(uint64_t count, uint64_t of, double expected, double tolerance)
{
    double share = (double)count / (double)of;
    if (fabs(share - expected) > expected * tolerance)
        print_error("share %g, expected %g\n", share, expected);
    assert_true(fabs(share - expected) <= expected * tolerance);
}

/* Of the key of rank k a share of 1 / k^0.99 / (sum of these). */
static void test_zipf_frequencies(void **state)
{
    (void)state;
    enum { COUNT = 10000, DRAWS = 1000000, FIRST = 10, MANY = 100 };
    struct bench_keys keys;
    struct base_random random;
    static uint32_t drawn[COUNT];
    memset(drawn, 0, sizeof(drawn));
    bench_keys_init(&keys, COUNT, 0.99);
    base_random_init(&random, 4);
    for (int i = 0; i < DRAWS; i++)
        drawn[bench_keys_draw(&keys, &random)]++;
    double sum = 0;
    for (int k = 1; k <= COUNT; k++)
        sum += pow(k, -0.99);
    uint64_t first = 0;
    uint64_t many = 0;
    double first_expected = 0;
    double many_expected = 0;
    for (int k = 1; k <= MANY; k++) {
        uint64_t count = drawn[bench_keys_of_rank(&keys, (uint64_t)k - 1)];
        if (k <= 2)
            assert_share(count, DRAWS, pow(k, -0.99) / sum, 0.02);
        first += k <= FIRST ? count : 0;
        first_expected += k <= FIRST ? pow(k, -0.99) / sum : 0;
        many += count;
        many_expected += pow(k, -0.99) / sum;
    }
    assert_share(first, DRAWS, first_expected, 0.05);
    assert_share(many, DRAWS, many_expected, 0.05);
}

/* ---- keys ---------------------------------------------------------------------------------------- */

static void test_keys(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, 1, 15, 16, 0xabcdef, BENCH_KEYS_MAX - 1};
    char key[BENCH_KEY_BYTES];
    uint64_t number;
    for (size_t i = 0; i < base_array_count(numbers); i++) {
        bench_key(numbers[i], key);
        assert_int_equal(bench_key_read(key, sizeof(key), &number), 0);
        assert_int_equal(number, numbers[i]);
    }
    bench_key(0xabc, key);
    assert_memory_equal(key, "bench-0000000abc", sizeof(key));
    static const char *const others[] = {"",
                                         "bench-0000000ab",
                                         "bench-0000000abcd",
                                         "bench_0000000abc",
                                         "bench-0000000ABC",
                                         "bench-000000 abc",
                                         "bench-0000000abg"};
    number = 7;
    for (size_t i = 0; i < base_array_count(others); i++)
        assert_int_equal(bench_key_read(others[i], strlen(others[i]), &number), -EBADMSG);
    assert_int_equal(number, 7);
}

/* ---- values -------------------------------------------------------------------------------------- */

enum { VALUE_BYTES = 100 };

static int open_values(void **state)
{
    static struct base_account account;
    static struct bench_values values;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    *state = &values;
    return bench_values_open(&account, VALUE_BYTES, &values);
}

static int close_values(void **state)
{
    struct bench_values *values = *state;
    bench_values_close(values);
    base_account_deinit(values->account);
    return 0;
}

/* Look at a value in two pieces. */
static bool check_split(const struct bench_values *values, uint64_t number, const uint8_t *value,
                        size_t split, bool whole)
{
    struct bench_value_check check;
    bench_value_check_begin(&check, number, whole);
    if (!bench_value_check_bytes(values, &check, value, split))
        return false;
    if (split == VALUE_BYTES)
        return true;
    bool right = bench_value_check_bytes(values, &check, value + split, VALUE_BYTES - split);
    assert_true(!right || check.position == VALUE_BYTES);
    return right;
}

static void test_values_tell_whose_they_are(void **state)
{
    const struct bench_values *values = *state;
    uint8_t value[VALUE_BYTES];
    bench_value(values, 77, 5, value);
    for (size_t split = 0; split <= VALUE_BYTES; split++) {
        assert_true(check_split(values, 77, value, split, true));
        assert_true(check_split(values, 77, value, split, false));
        assert_false(check_split(values, 78, value, split, false));
    }
}

/* Any wrong byte is seen when the value is looked at whole; at its ends always. */
static void test_damaged_values(void **state)
{
    const struct bench_values *values = *state;
    uint8_t value[VALUE_BYTES];
    for (size_t i = 0; i < VALUE_BYTES; i++) {
        bench_value(values, 77, 5, value);
        value[i] ^= 1;
        bool end = i < BENCH_VALUE_HEAD_BYTES || i >= VALUE_BYTES - BENCH_VALUE_TAIL_BYTES;
        for (size_t split = 0; split <= VALUE_BYTES; split++) {
            assert_false(check_split(values, 77, value, split, true));
            assert_int_equal(check_split(values, 77, value, split, false), !end);
        }
    }
    /* the beginning of one generation and the end of another */
    uint8_t other[VALUE_BYTES];
    bench_value(values, 77, 5, value);
    bench_value(values, 77, 6, other);
    memcpy(value + VALUE_BYTES / 2, other + VALUE_BYTES / 2, VALUE_BYTES - VALUE_BYTES / 2);
    assert_false(check_split(values, 77, value, 50, false));
}

static void test_values_without_memory(void **state)
{
    (void)state;
    struct base_account account;
    struct bench_values values;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    base_account_fail_at(&account, 1);
    assert_int_equal(bench_values_open(&account, VALUE_BYTES, &values), -ENOMEM);
    base_account_deinit(&account);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_are_a_permutation),
        cmocka_unit_test(test_popular_keys_are_spread),
        cmocka_unit_test(test_uniform_draws_all_alike),
        cmocka_unit_test(test_zipf_frequencies),
        cmocka_unit_test(test_keys),
        cmocka_unit_test_setup_teardown(test_values_tell_whose_they_are, open_values, close_values),
        cmocka_unit_test_setup_teardown(test_damaged_values, open_values, close_values),
        cmocka_unit_test(test_values_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
