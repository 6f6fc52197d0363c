/* Does every length come back, and is what is not base64 refused? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/base.h"
#include "memcache/base64.h"

static void test_known_texts(void **state base_unused)
{
    static const char *const pairs[][2] = {{"f", "Zg=="},         {"fo", "Zm8="},
                                           {"foo", "Zm9v"},       {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < base_array_count(pairs); i++) {
        char text[16], back[16];
        size_t bytes = strlen(pairs[i][0]);
        assert_int_equal(memcache_base64_encode(pairs[i][0], bytes, text), strlen(pairs[i][1]));
        assert_int_equal(memcache_base64_len(bytes), strlen(pairs[i][1]));
        assert_memory_equal(text, pairs[i][1], strlen(pairs[i][1]));
        assert_int_equal(memcache_base64_decode(text, strlen(pairs[i][1]), back), bytes);
        assert_memory_equal(back, pairs[i][0], bytes);
    }
}

static void test_all_bytes_in_place(void **state base_unused)
{
    struct base_random random;
    base_random_init(&random, 1);
    for (size_t bytes = 1; bytes < 300; bytes++) {
        uint8_t data[300];
        char text[404];
        for (size_t i = 0; i < bytes; i++)
            data[i] = (uint8_t)base_random_u64(&random);
        size_t len = memcache_base64_encode(data, bytes, text);
        assert_int_equal(len, memcache_base64_len(bytes));
        assert_int_equal(memcache_base64_decode(text, len, text), bytes);
        assert_memory_equal(text, data, bytes);
    }
}

static void test_refusals(void **state base_unused)
{
    static const char *const wrong[] = {"",       "Z",    "Zg",   "Zg=",  "====", "=AAA", "Z===", "Zg==Zg==",
                                        "Zm9v\n", "Zh==", "Zm9=", "Zm 9", "Zm9-", "Z=9v", "Zm=v", "Zm9\xff"};
    for (size_t i = 0; i < base_array_count(wrong); i++) {
        char back[16];
        assert_int_equal(memcache_base64_decode(wrong[i], strlen(wrong[i]), back), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_texts),
        cmocka_unit_test(test_all_bytes_in_place),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
