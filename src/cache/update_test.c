/* Are changes that depend on what is there decided and done as one, and numbers counted as memcached does? */
#include "cache/testing.h"

enum { SMALL = 8192 };

/* ---- update ------------------------------------------------------------------------------------------------ */

/* What a decision is told to say, and what it was shown. */
struct order {
    struct tarn_update update;
    int result;
    bool shown;
    struct tarn_record_info info;
    char value[64];
};

static int obey(void *arg, const struct tarn_record_info *old, const void *value, struct tarn_update *update)
{
    struct order *order = arg;
    order->shown = old != NULL;
    if (old != NULL) {
        order->info = *old;
        memcpy(order->value, value, old->value_bytes);
        order->value[old->value_bytes] = '\0';
    }
    *update = order->update;
    return order->result;
}

static int give(struct testing_cache *testing, const char *key, struct order *order, uint64_t *ret_version)
{
    return cache_update(testing->partition, key, strlen(key), obey, order, TESTING_NOW, ret_version);
}

static void test_update_makes_and_replaces(void **state)
{
    struct testing_cache testing;
    uint64_t version = 0, second = 0;
    testing_begin(&testing, SMALL, *(bool *)*state);
    struct order order = {.update = {.value = "one", .value_len = 3, .client_flags = 8, .note = 1}};
    assert_int_equal(give(&testing, "k", &order, &version), 0);
    assert_false(order.shown);
    cache_testing_expect(&testing, "k", "one");
    order.update = (struct tarn_update){.value = "two!", .value_len = 4};
    assert_int_equal(give(&testing, "k", &order, &second), 0);
    assert_true(order.shown);
    assert_string_equal(order.value, "one");
    assert_int_equal(order.info.version, version);
    assert_int_equal(order.info.client_flags, 8);
    assert_int_equal(order.info.note, 1);
    assert_true(second > version);
    cache_testing_expect(&testing, "k", "two!");
    order.update.version = 77;
    assert_int_equal(give(&testing, "k", &order, &second), 0);
    assert_int_equal(second, 77);
    cache_testing_end(&testing);
}

static void test_update_keeps_and_removes(void **state)
{
    struct testing_cache testing;
    uint64_t version = 0, second = 5;
    testing_begin(&testing, SMALL, *(bool *)*state);
    struct order order = {.update = {.keep = true}};
    assert_int_equal(give(&testing, "k", &order, &version), -EINVAL); /* nothing is there */
    order.update = (struct tarn_update){.remove = true};
    assert_int_equal(give(&testing, "k", &order, &version), 0);
    assert_int_equal(
        testing_put_with(&testing, "k", "v", (struct tarn_put_options){.client_flags = 1}, &version), 0);
    order.update = (struct tarn_update){.keep = true,
                                        .value = "x",
                                        .value_len = 1,
                                        .client_flags = 2,
                                        .note = 3,
                                        .expiry_ns = TESTING_NOW + TESTING_SECOND,
                                        .version = version};
    assert_int_equal(give(&testing, "k", &order, &second), 0);
    assert_int_equal(second, version);
    cache_testing_expect(&testing, "k", "v");
    order.result = -ECANCELED;
    assert_int_equal(give(&testing, "k", &order, &second), -ECANCELED);
    assert_int_equal(order.info.version, version);
    assert_int_equal(order.info.client_flags, 2);
    assert_int_equal(order.info.note, 3);
    assert_int_equal(order.info.expiry_ns, TESTING_NOW + TESTING_SECOND);
    order.result = 0;
    order.update.version = 0;
    assert_int_equal(give(&testing, "k", &order, &second), 0);
    assert_true(second > version);
    order.update = (struct tarn_update){.remove = true};
    second = 5;
    assert_int_equal(give(&testing, "k", &order, &second), 0);
    assert_int_equal(second, 5);
    cache_testing_expect(&testing, "k", NULL);
    assert_int_equal(testing_stats(&testing).deletes, 1);
    cache_testing_end(&testing);
}

static void test_update_refuses_and_changes_nothing(void **state)
{
    struct testing_cache testing;
    static char large[SMALL];
    testing_begin(&testing, SMALL, *(bool *)*state);
    assert_int_equal(cache_testing_put(&testing, "k", "v"), 0);
    struct order order = {.update = {.value = large, .value_len = sizeof(large)}};
    assert_int_equal(give(&testing, "k", &order, NULL), -EMSGSIZE);
    order.update.value_len = SIZE_MAX;
    assert_int_equal(give(&testing, "k", &order, NULL), -EMSGSIZE);
    order.update = (struct tarn_update){.value = "x", .value_len = 1, .note = TARN_NOTE_MAX + 1};
    assert_int_equal(give(&testing, "k", &order, NULL), -EINVAL);
    order.result = 17;
    assert_int_equal(give(&testing, "k", &order, NULL), 17);
    assert_int_equal(give(&testing, "", &order, NULL), -EINVAL);
    cache_testing_expect(&testing, "k", "v");
    cache_testing_end(&testing);
}

/* ---- append ------------------------------------------------------------------------------------------------- */

static void test_append_on_both_sides(void **state)
{
    struct testing_cache testing;
    struct tarn_record_info info;
    uint64_t version = 0, second = 0;
    testing_begin(&testing, SMALL, *(bool *)*state);
    assert_int_equal(cache_append(testing.partition, "k", 1, "x", 1, false, TESTING_NOW, NULL), -ENOENT);
    const struct tarn_put_options options = {
        .client_flags = 9, .expiry_ns = TESTING_NOW + TESTING_SECOND, .note = 2};
    assert_int_equal(testing_put_with(&testing, "k", "middle", options, &version), 0);
    assert_int_equal(cache_append(testing.partition, "k", 1, " end", 4, false, TESTING_NOW, &second), 0);
    assert_true(second > version);
    cache_testing_expect(&testing, "k", "middle end");
    assert_int_equal(cache_append(testing.partition, "k", 1, "begin ", 6, true, TESTING_NOW, NULL), 0);
    cache_testing_expect(&testing, "k", "begin middle end");
    assert_int_equal(cache_append(testing.partition, "k", 1, "", 0, true, TESTING_NOW, NULL), 0);
    cache_testing_expect(&testing, "k", "begin middle end");
    assert_int_equal(cache_get(testing.partition, "k", 1, TESTING_NOW, NULL, 0, &info), -ENOBUFS);
    assert_int_equal(info.client_flags, 9);
    assert_int_equal(info.expiry_ns, options.expiry_ns);
    assert_int_equal(info.note, 0); /* what was joined is new */
    cache_testing_end(&testing);
}

/* A value grows until it is as long as can be, while the log goes round: the old one lies where the new one goes. */
static void test_append_until_it_is_full(void **state)
{
    struct testing_cache testing;
    static char value[SMALL];
    testing_begin(&testing, SMALL, *(bool *)*state);
    size_t most = cache_value_bytes_max(testing.partition, 1);
    for (int in_front = 0; in_front < 2; in_front++) {
        memset(value, 0, sizeof(value));
        assert_int_equal(cache_testing_put(&testing, "k", ""), 0);
        for (size_t len = 0; len < most; len++) {
            char next = (char)('a' + len % 26);
            if (in_front == 0) {
                value[len] = next;
            } else {
                memmove(value + 1, value, len);
                value[0] = next;
            }
            assert_int_equal(
                cache_append(testing.partition, "k", 1, &next, 1, in_front == 1, TESTING_NOW, NULL), 0);
            cache_testing_expect(&testing, "k", value);
        }
        assert_int_equal(cache_append(testing.partition, "k", 1, "x", 1, false, TESTING_NOW, NULL),
                         -EMSGSIZE);
        assert_int_equal(cache_append(testing.partition, "k", 1, "x", SIZE_MAX, false, TESTING_NOW, NULL),
                         -EMSGSIZE);
        cache_testing_expect(&testing, "k", value);
    }
    cache_testing_end(&testing);
}

/* ---- numbers ------------------------------------------------------------------------------------------------- */

static void expect_count(struct testing_cache *testing, const char *before, bool down, uint64_t delta,
                         int error, const char *after)
{
    struct cache_count count = {.delta = delta, .down = down, .number = 1};
    const struct tarn_put_options options = {.client_flags = 4, .expiry_ns = TESTING_NOW + TESTING_SECOND};
    uint64_t version;
    assert_int_equal(testing_put_with(testing, "n", before, options, &version), 0);
    assert_int_equal(cache_count(testing->partition, "n", 1, TESTING_NOW, &count), error);
    cache_testing_expect(testing, "n", error == 0 ? after : before);
    if (error != 0) {
        assert_int_equal(count.number, 1);
        return;
    }
    struct tarn_record_info info;
    assert_int_equal(cache_get(testing->partition, "n", 1, TESTING_NOW, NULL, 0, &info), -ENOBUFS);
    assert_true(info.version > version);
    assert_int_equal(info.version, count.version);
    assert_int_equal(info.client_flags, 4);
    assert_int_equal(info.expiry_ns, options.expiry_ns);
    assert_int_equal(count.number, strtoull(after, NULL, 10));
}

static void test_numbers(void **state)
{
    struct testing_cache testing;
    struct cache_count count = {.delta = 1};
    testing_begin(&testing, SMALL, *(bool *)*state);
    assert_int_equal(cache_count(testing.partition, "n", 1, TESTING_NOW, &count), -ENOENT);
    expect_count(&testing, "5", false, 1, 0, "6");
    expect_count(&testing, "9", false, 1, 0, "10");
    expect_count(&testing, "10", true, 1, 0, "9 ");
    expect_count(&testing, "9 ", false, 1, 0, "10");
    expect_count(&testing, "100", true, 99, 0, "1  ");
    expect_count(&testing, "5", true, 6, 0, "0");
    expect_count(&testing, "007", false, 0, 0, "7  ");
    expect_count(&testing, "  7", false, 1, 0, "8  ");
    expect_count(&testing, "7 apples", false, 1, 0, "8       ");
    expect_count(&testing, "18446744073709551615", false, 1, 0, "0                   ");
    expect_count(&testing, "18446744073709551615", false, 0, 0, "18446744073709551615");
    expect_count(&testing, "1", false, UINT64_MAX, 0, "0");
    expect_count(&testing, "18446744073709551616", false, 1, -EDOM, NULL);
    expect_count(&testing, "99999999999999999999", true, 1, -EDOM, NULL);
    expect_count(&testing, "", false, 1, -EDOM, NULL);
    expect_count(&testing, "   ", false, 1, -EDOM, NULL);
    expect_count(&testing, "-1", false, 1, -EDOM, NULL);
    expect_count(&testing, "x", false, 1, -EDOM, NULL);
    expect_count(&testing, "7apples", false, 1, -EDOM, NULL);
    expect_count(&testing, "1                                                               ", false, 1, 0,
                 "2                                                               ");
    expect_count(&testing, "1                                                                ", false, 1,
                 -EDOM, NULL);
    cache_testing_end(&testing);
}

int main(void)
{
    TESTING_WAYS;
    const struct CMUnitTest tests[] = {
        EACH_WAY(test_update_makes_and_replaces),
        EACH_WAY(test_update_keeps_and_removes),
        EACH_WAY(test_update_refuses_and_changes_nothing),
        EACH_WAY(test_append_on_both_sides),
        EACH_WAY(test_append_until_it_is_full),
        EACH_WAY(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
