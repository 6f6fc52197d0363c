/* Is what is written JSON, whatever strings and numbers it holds? */
#include "base/testing.h"

#include <math.h>

#include "base/json.h"
#include "base/random.h"

static void write_everything(struct base_json *json)
{
    base_json_object_begin(json, NULL);
    base_json_string(json, "text", "a\"b\\c\n\x01\x7f\xc3\xa4\xff!");
    base_json_string(json, "none", NULL);
    base_json_array_begin(json, "list");
    base_json_u64(json, NULL, UINT64_MAX);
    base_json_i64(json, NULL, INT64_MIN);
    base_json_array_begin(json, NULL);
    base_json_array_end(json);
    base_json_object_begin(json, NULL);
    base_json_object_end(json);
    base_json_bool(json, NULL, true);
    base_json_array_end(json);
    base_json_bool(json, "no", false);
    base_json_object_begin(json, "k\"");
    base_json_double(json, "d", 0.1);
    base_json_double(json, "e", 1e300);
    base_json_double(json, "n", NAN);
    base_json_double(json, "i", -INFINITY);
    base_json_object_end(json);
    base_json_object_end(json);
}

static const char everything[] =
    "{\"text\":\"a\\\"b\\\\c\\u000a\\u0001\\u007f\xc3\xa4\xef\xbf\xbd!\",\"none\":null,"
    "\"list\":[18446744073709551615,-9223372036854775808,[],{},true],\"no\":false,"
    "\"k\\\"\":{\"d\":0.1,\"e\":1e+300,\"n\":null,\"i\":null}}";

static void test_buffer(void **state base_unused)
{
    char text[512];
    struct base_json json;
    size_t bytes = 0;
    base_json_init_buffer(&json, text, sizeof(text));
    write_everything(&json);
    assert_int_equal(base_json_finish(&json, &bytes), 0);
    assert_string_equal(text, everything);
    assert_int_equal(bytes, strlen(everything));
}

static void test_every_smaller_buffer(void **state base_unused)
{
    for (size_t room = 1; room <= sizeof(everything); room++) {
        char *text = malloc(room); /* of exactly this size, for the address sanitizer */
        struct base_json json;
        base_json_init_buffer(&json, text, room);
        write_everything(&json);
        assert_int_equal(base_json_finish(&json, NULL), room < sizeof(everything) ? -ENOSPC : 0);
        assert_true(strnlen(text, room) < room);
        assert_memory_equal(text, everything, strlen(text));
        free(text);
    }
}

static void test_file(void **state base_unused)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    struct base_json json;
    base_json_init_file(&json, file);
    write_everything(&json);
    assert_int_equal(base_json_finish(&json, &bytes), 0);
    fclose(file);
    assert_string_equal(text, everything);
    free(text);
    file = fopen("/dev/full", "w");
    assert_non_null(file);
    setvbuf(file, NULL, _IONBF, 0);
    base_json_init_file(&json, file);
    base_json_bool(&json, NULL, true);
    assert_int_equal(base_json_finish(&json, NULL), -EIO);
    fclose(file);
}

static void test_doubles_are_read_back(void **state base_unused)
{
    struct base_random random;
    base_random_init(&random, 4);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = base_random_u64(&random);
        double value;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value))
            continue;
        char text[64];
        struct base_json json;
        base_json_init_buffer(&json, text, sizeof(text));
        base_json_double(&json, NULL, value);
        assert_int_equal(base_json_finish(&json, NULL), 0);
        double back = strtod(text, NULL);
        assert_memory_equal(&back, &value, sizeof(value));
    }
}

static void finish_open(void *arg)
{
    struct base_json json;
    base_json_init_buffer(&json, arg, 16);
    base_json_array_begin(&json, NULL);
    if (base_json_finish(&json, NULL) != 0)
        exit(1);
}

static void omit_key(void *arg)
{
    struct base_json json;
    base_json_init_buffer(&json, arg, 16);
    base_json_object_begin(&json, NULL);
    base_json_bool(&json, NULL, true);
}

static void end_the_wrong_one(void *arg)
{
    struct base_json json;
    base_json_init_buffer(&json, arg, 16);
    base_json_object_begin(&json, NULL);
    base_json_array_end(&json);
}

static void write_two_values(void *arg)
{
    struct base_json json;
    base_json_init_buffer(&json, arg, 16);
    base_json_bool(&json, NULL, true);
    base_json_bool(&json, NULL, true);
}

static void test_misuse_aborts(void **state base_unused)
{
    char text[16];
    assert_true(testing_aborts(finish_open, text));
    assert_true(testing_aborts(omit_key, text));
    assert_true(testing_aborts(end_the_wrong_one, text));
    assert_true(testing_aborts(write_two_values, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffer),        cmocka_unit_test(test_every_smaller_buffer),
        cmocka_unit_test(test_file),          cmocka_unit_test(test_doubles_are_read_back),
        cmocka_unit_test(test_misuse_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
