/* Is exactly what is JSON accepted, and does a look into it find what is there? */
#include "base/testing.h"

#include "base/base.h"

static int parse(const char *text, struct base_json_value *ret_value)
{
    return base_json_parse(text, strlen(text), ret_value);
}

static void test_accepts_json(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{}",
        "[]",
        " [ ] ",
        "0",
        "-0.5e+10",
        "1E9",
        "true",
        "false",
        "null",
        "\"\"",
        "\"\\u00e9\\n\\\\\"",
        "{\"a\": [1, {\"b\": null}], \"c\" : \"}\" }",
        "[[[[]]]]",
        "\t\r\n1\n",
    };
    for (size_t i = 0; i < base_array_count(good); i++) {
        struct base_json_value value;
        assert_int_equal(parse(good[i], &value), 0);
    }
}

static void test_refuses_what_is_none(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "{\"a\":1,}",
        "01",
        "1.",
        ".5",
        "-",
        "1e",
        "+1",
        "tru",
        "nullx",
        "\"",
        "\"\\x\"",
        "\"\n\"",
        "\"\\u12g4\"",
        "[1]]",
        "{} {}",
        "[\"a\"",
        "nan",
        "{\"a\":1 \"b\":2}",
        "'a'",
        "\"\\",
        "\"\\u12",
    };
    for (size_t i = 0; i < base_array_count(bad); i++) {
        struct base_json_value value = {NULL, NULL};
        assert_int_equal(parse(bad[i], &value), -EINVAL);
        assert_null(value.begin);
    }
}

/* Every beginning of a good text is refused, and none is read beyond its end. */
static void test_refuses_every_cut(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1.5e3,true,null,\"x\\u0041\"],\"b\":{\"c\":-1}}";
    for (size_t len = 0; len < sizeof(text) - 1; len++) {
        char *copy = test_malloc(len + 1);
        memcpy(copy, text, len);
        struct base_json_value value;
        assert_int_equal(base_json_parse(copy, len, &value), -EINVAL);
        test_free(copy);
    }
}

static void test_bounds_the_depth(void **state)
{
    (void)state;
    char text[2 * (BASE_JSON_DEPTH_MAX + 1)];
    struct base_json_value value;
    memset(text, '[', BASE_JSON_DEPTH_MAX);
    memset(text + BASE_JSON_DEPTH_MAX, ']', BASE_JSON_DEPTH_MAX);
    assert_int_equal(base_json_parse(text, 2 * (size_t)BASE_JSON_DEPTH_MAX, &value), 0);
    memset(text, '[', BASE_JSON_DEPTH_MAX + 1);
    memset(text + BASE_JSON_DEPTH_MAX + 1, ']', BASE_JSON_DEPTH_MAX + 1);
    assert_int_equal(base_json_parse(text, sizeof(text), &value), -EINVAL);
}

static void test_finds(void **state)
{
    (void)state;
    struct base_json_value all;
    struct base_json_value value;
    struct base_json_value inner;
    double number = 0;
    assert_int_equal(parse("{\"jobs\": [10, {\"read\" : {\"iops\": 2.5}}], \"jo\": -3, \"empty\":{}}", &all),
                     0);
    assert_int_equal(base_json_member(all, "jo", &value), 0);
    assert_int_equal(base_json_number(value, &number), 0);
    assert_true(number == -3);
    assert_int_equal(base_json_member(all, "jobs", &value), 0);
    assert_int_equal(base_json_element(value, 2, &inner), -ENOENT);
    assert_int_equal(base_json_element(value, 1, &inner), 0);
    assert_int_equal(base_json_member(inner, "read", &inner), 0);
    assert_int_equal(base_json_member(inner, "iops", &inner), 0);
    assert_int_equal(base_json_number(inner, &number), 0);
    assert_true(number == 2.5);
    assert_int_equal(base_json_member(all, "job", &inner), -ENOENT);
    assert_int_equal(base_json_member(value, "read", &inner), -ENOENT); /* an array */
    assert_int_equal(base_json_element(all, 0, &inner), -ENOENT);       /* an object */
    assert_int_equal(base_json_number(all, &number), -EINVAL);
    assert_int_equal(base_json_member(all, "empty", &value), 0);
    assert_int_equal(base_json_member(value, "x", &inner), -ENOENT);
}

static int add_value(void *arg, struct base_json_value name, struct base_json_value value)
{
    double number;
    if (name.end - name.begin != 1 || base_json_number(value, &number) != 0)
        return -EBADMSG;
    *(double *)arg = *(double *)arg * 10 + number;
    return 0;
}

static void test_visits_in_order(void **state)
{
    (void)state;
    struct base_json_value all;
    double digits = 0;
    assert_int_equal(parse("{\"a\":1 , \"b\":2,\"c\":3}", &all), 0);
    assert_int_equal(base_json_visit(all, add_value, &digits), 0);
    assert_true(digits == 123);
    assert_int_equal(parse("{\"a\":1,\"long\":2}", &all), 0);
    assert_int_equal(base_json_visit(all, add_value, &digits), -EBADMSG);
    assert_int_equal(parse("[1]", &all), 0);
    assert_int_equal(base_json_visit(all, add_value, &digits), -ENOENT);
}

/* A string of a text, and what it stands for; NULL: it is none of Unicode. */
struct text_case {
    const char *json;
    const char *text;
    size_t bytes;
};

static void test_tells_what_strings_stand_for(void **state)
{
    (void)state;
    static const struct text_case cases[] = {
        {"\"\"", "", 0},
        {"\"a b\"", "a b", 3},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
        {"\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac", 6},
        {"\"\\u0000x\"", "\0x", 2},
        {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80", 4},
        {"\"\\uDBFF\\uDFFF\"", "\xf4\x8f\xbf\xbf", 4},
        {"\"gr\xc3\xbc\x7f\"", "gr\xc3\xbc\x7f", 5},
        {"\"\\ud83d\"", NULL, 0},
        {"\"\\ud83dx\"", NULL, 0},
        {"\"\\ud83d\\n\\n\\n\"", NULL, 0},
        {"\"\\ud83d\\ud83d\"", NULL, 0},
        {"\"\\ude00\\ud83d\"", NULL, 0},
        {"\"\xff\"", NULL, 0},
        {"\"\xc3\"", NULL, 0},
        {"\"\xed\xa0\x80\"", NULL, 0},
        {"17", NULL, 0},
        {"null", NULL, 0},
        {"[\"a\"]", NULL, 0},
    };
    for (size_t i = 0; i < base_array_count(cases); i++) {
        const struct text_case *each = &cases[i];
        struct base_json_value value;
        size_t bytes = 99;
        char *text = test_malloc(each->bytes + 1);
        assert_int_equal(parse(each->json, &value), 0);
        if (each->text == NULL) {
            char room[16];
            assert_int_equal(base_json_text(value, room, sizeof(room), &bytes), -EINVAL);
            assert_int_equal(bytes, 99);
        } else {
            assert_int_equal(base_json_text(value, text, each->bytes, &bytes), 0);
            assert_int_equal(bytes, each->bytes);
            assert_memory_equal(text, each->text, bytes);
        }
        test_free(text);
    }
}

static void test_texts_have_room(void **state)
{
    (void)state;
    struct base_json_value value;
    size_t bytes = 99;
    char text[6];
    assert_int_equal(parse("\"ab\\u20ac!\"", &value), 0);
    for (size_t room = 0; room < sizeof(text); room++) {
        assert_int_equal(base_json_text(value, text, room, &bytes), -ENOBUFS);
        assert_int_equal(bytes, 99);
    }
    assert_int_equal(base_json_text(value, text, sizeof(text), &bytes), 0);
    assert_memory_equal(text, "ab\xe2\x82\xac!", sizeof(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts_json),
        cmocka_unit_test(test_refuses_what_is_none),
        cmocka_unit_test(test_refuses_every_cut),
        cmocka_unit_test(test_bounds_the_depth),
        cmocka_unit_test(test_finds),
        cmocka_unit_test(test_visits_in_order),
        cmocka_unit_test(test_tells_what_strings_stand_for),
        cmocka_unit_test(test_texts_have_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
