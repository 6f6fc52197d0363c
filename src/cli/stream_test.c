/* Are lines cut as they came, and does each say what was written, or what is wrong with it? */
#include "base/testing.h"

#include "cli/stream.h"
#include "cli/text.h"
#include <tarn/depot.h>

enum { VALUE_MAX = 100 };

/* ---- lines --------------------------------------------------------------------------------------- */

/* Bytes that are read so many at a time; then an error, or the end. */
struct source {
    const char *text;
    size_t len;
    size_t at_once;
    int error;
};

static ssize_t read_source(void *arg, void *to, size_t room)
{
    struct source *source = arg;
    size_t bytes = base_min(base_min(source->len, source->at_once), room);
    if (bytes == 0)
        return source->error;
    memcpy(to, source->text, bytes);
    source->text += bytes;
    source->len -= bytes;
    return (ssize_t)bytes;
}

static void begin(struct cli_stream *stream, struct base_account *account, struct source *source)
{
    base_account_init(account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(cli_stream_init(stream, account, VALUE_MAX, read_source, source), 0);
}

static void end(struct cli_stream *stream, struct base_account *account)
{
    cli_stream_deinit(stream);
    base_account_deinit(account);
}

static void test_cuts_lines_wherever_the_bytes_were_cut(void **state)
{
    static const char text[] = "one\n\nthree, longer\r\n{\"a\":1}\nfive";
    static const char *const lines[] = {"one", "", "three, longer\r", "{\"a\":1}", "five"};
    (void)state;
    for (size_t at_once = 1; at_once < sizeof(text); at_once++) {
        struct source source = {.text = text, .len = sizeof(text) - 1, .at_once = at_once};
        struct cli_stream stream;
        struct base_account account;
        const char *line;
        size_t len;
        bool cut;
        begin(&stream, &account, &source);
        for (size_t i = 0; i < base_array_count(lines); i++) {
            assert_int_equal(cli_stream_next(&stream, &line, &len, &cut), 0);
            assert_int_equal(len, strlen(lines[i]));
            assert_memory_equal(line, lines[i], len);
            assert_int_equal(stream.line, i + 1);
            assert_int_equal(cut, i + 1 == base_array_count(lines));
        }
        assert_int_equal(stream.read_bytes, sizeof(text) - 1);
        assert_int_equal(cli_stream_next(&stream, &line, &len, &cut), -ENODATA);
        assert_int_equal(cli_stream_next(&stream, &line, &len, &cut), -ENODATA);
        end(&stream, &account);
    }
}

/* Of two lines the second is one byte too long, or just not. */
static void test_bounds_lines(void **state)
{
    (void)state;
    for (int longer = 0; longer <= 1; longer++) {
        struct cli_stream stream;
        struct base_account account;
        struct source source = {.at_once = 1000};
        const char *line;
        size_t len;
        bool cut;
        begin(&stream, &account, &source);
        assert_true(stream.room > cli_stream_line_bytes_max(VALUE_MAX));
        size_t bytes = 2 + stream.room + (size_t)longer;
        char *text = test_malloc(bytes);
        memset(text, 'x', bytes);
        text[1] = '\n';
        text[bytes - 1] = '\n';
        source.text = text;
        source.len = bytes;
        assert_int_equal(cli_stream_next(&stream, &line, &len, &cut), 0);
        assert_int_equal(len, 1);
        int outcome = cli_stream_next(&stream, &line, &len, &cut);
        assert_int_equal(outcome, longer == 0 ? 0 : -EMSGSIZE);
        assert_int_equal(stream.line, 2);
        if (longer == 0)
            assert_int_equal(len, bytes - 3);
        test_free(text);
        end(&stream, &account);
    }
}

static void test_tells_errors_of_reading(void **state)
{
    struct source source = {.text = "a\nb", .len = 3, .at_once = 3, .error = -EIO};
    struct cli_stream stream;
    struct base_account account;
    const char *line;
    size_t len;
    bool cut;
    (void)state;
    begin(&stream, &account, &source);
    assert_int_equal(cli_stream_next(&stream, &line, &len, &cut), 0);
    assert_int_equal(cli_stream_next(&stream, &line, &len, &cut), -EIO);
    end(&stream, &account);
    base_account_init(&account, 100);
    assert_int_equal(cli_stream_init(&stream, &account, VALUE_MAX, read_source, &source), -ENOMEM);
    base_account_deinit(&account);
}

/* ---- what they say ------------------------------------------------------------------------------- */

/* Memory for an item, of exactly its size. */
static void take_item(struct cli_stream_item *item)
{
    *item = (struct cli_stream_item){
        .key = test_malloc(TARN_KEY_BYTES_MAX), .value = test_malloc(VALUE_MAX), .value_room = VALUE_MAX};
}

static void free_item(struct cli_stream_item *item)
{
    test_free(item->key);
    test_free(item->value);
}

/* Parse a line that lies in memory of just its size. */
static int parse(const char *line, size_t len, struct cli_stream_item *item, const char **ret_why)
{
    char *copy = test_malloc(len + 1);
    memcpy(copy, line, len);
    int error = cli_stream_parse(copy, len, item, ret_why);
    test_free(copy);
    return error;
}

static void parse_well(const char *line, struct cli_stream_item *item)
{
    const char *why = NULL;
    assert_int_equal(parse(line, strlen(line), item, &why), 0);
    assert_null(why);
}

static void test_reads_records(void **state)
{
    struct cli_stream_item item;
    (void)state;
    take_item(&item);
    parse_well("{\"key\":\"a b\",\"version\":18446744073709551615,\"expiry_ms\":4102444800010,"
               "\"flags\":4294967295,\"note\":3,\"bytes\":3,\"value\":\"\\u00e9\\n\"}",
               &item);
    assert_int_equal(item.key_len, 3);
    assert_memory_equal(item.key, "a b", 3);
    assert_int_equal(item.value_len, 3);
    assert_memory_equal(item.value, "\xc3\xa9\n", 3);
    assert_true(item.version == UINT64_MAX);
    assert_true(item.expiry_ns == UINT64_C(4102444800010) * BASE_NS_PER_MS);
    assert_true(item.client_flags == UINT32_MAX);
    assert_int_equal(item.note, 3);
    assert_int_equal(item.kind, CLI_STREAM_RECORD);

    /* The least, in another order, with what nobody knows. */
    parse_well(" { \"value_hex\" : \"\", \"x\":{\"key\":[1,2,null]}, \"key_hex\":\"00fFAb\", \"keys\":0 } \r",
               &item);
    assert_int_equal(item.key_len, 3);
    assert_memory_equal(item.key, "\0\xff\xab", 3);
    assert_int_equal(item.value_len, 0);
    assert_true(item.version == 0 && item.expiry_ns == 0 && item.client_flags == 0 && item.note == 0);
    free_item(&item);
}

static void test_reads_the_end(void **state)
{
    struct cli_stream_item item;
    (void)state;
    take_item(&item);
    for (int damaged = 0; damaged <= 1; damaged++) {
        char text[100];
        struct base_json json;
        base_json_init_buffer(&json, text, sizeof(text));
        cli_stream_write_end(&json, UINT64_MAX, damaged == 1);
        assert_int_equal(base_json_finish(&json, NULL), 0);
        parse_well(text, &item);
        assert_true(item.kind == CLI_STREAM_END && item.records == UINT64_MAX);
        assert_int_equal(item.damaged, damaged);
    }
    free_item(&item);
}

static void test_reads_long_values(void **state)
{
    struct cli_stream_item item;
    (void)state;
    take_item(&item);
    parse_well("{\"long_key\":\"a\",\"version\":7,\"flags\":3,\"bytes\":4294967295}", &item);
    assert_true(item.kind == CLI_STREAM_LONG && item.value_bytes == UINT32_MAX && item.version == 7);
    assert_memory_equal(item.key, "a", item.key_len);
    parse_well("{\"bytes\":1,\"long_key_hex\":\"ff00\"}", &item);
    assert_true(item.kind == CLI_STREAM_LONG && item.key_len == 2);
    parse_well("{\"part\":32768,\"value\":\"abc\"}", &item);
    assert_true(item.kind == CLI_STREAM_PART && item.offset == 32768 && item.value_len == 3);
    parse_well("{\"part\":0,\"value_hex\":\"00\"}", &item);
    assert_true(item.kind == CLI_STREAM_PART && item.offset == 0 && item.value_len == 1);
    parse_well("{\"void\":true}", &item);
    assert_int_equal(item.kind, CLI_STREAM_VOID);
    free_item(&item);
}

/* A line, and a part of what is said about it. */
struct refused {
    const char *line;
    const char *why;
};

static void test_says_what_is_wrong(void **state)
{
    static const struct refused cases[] = {
        {"", "no JSON"},
        {"key value", "no JSON"},
        {"{\"key\":\"a\",\"value\":\"b\"} x", "no JSON"},
        {"[]", "no JSON object"},
        {"\"key\"", "no JSON object"},
        {"{}", "neither key nor key_hex"},
        {"{\"value\":\"b\"}", "neither key nor key_hex"},
        {"{\"key\":\"a\"}", "--values=none"},
        {"{\"key\":\"\",\"value\":\"b\"}", "1 to 65,535"},
        {"{\"key_hex\":\"\",\"value\":\"b\"}", "1 to 65,535"},
        {"{\"key\":7,\"value\":\"b\"}", "key is no string"},
        {"{\"key\":\"\xff\",\"value\":\"b\"}", "key_hex"},
        {"{\"key\":\"\\ud800\",\"value\":\"b\"}", "key_hex"},
        {"{\"key_hex\":\"0\",\"value\":\"b\"}", "hexadecimal"},
        {"{\"key_hex\":\"0g\",\"value\":\"b\"}", "hexadecimal"},
        {"{\"key_hex\":12,\"value\":\"b\"}", "hexadecimal"},
        {"{\"key\":\"a\",\"value_hex\":\"\\u0030\\u0030\"}", "hexadecimal"},
        {"{\"key\":\"a\",\"value\":null}", "value is no string"},
        {"{\"key\":\"a\",\"value\":\"\xc3\"}", "value_hex"},
        {"{\"key\":\"a\",\"value_hex\":\"x\"}", "hexadecimal"},
        {"{\"key\":\"a\",\"key\":\"b\",\"value\":\"\"}", "twice"},
        {"{\"key\":\"a\",\"key_hex\":\"61\",\"value\":\"\"}", "twice"},
        {"{\"key\":\"a\",\"value_hex\":\"61\",\"value\":\"a\"}", "twice"},
        {"{\"key\":\"a\",\"value\":\"\",\"version\":-1}", "version"},
        {"{\"key\":\"a\",\"value\":\"\",\"version\":18446744073709551616}", "version"},
        {"{\"key\":\"a\",\"value\":\"\",\"version\":\"1\"}", "version"},
        {"{\"key\":\"a\",\"value\":\"\",\"expiry_ms\":1e3}", "expiry_ms"},
        {"{\"key\":\"a\",\"value\":\"\",\"expiry_ms\":18446744073710}", "expiry_ms"},
        {"{\"key\":\"a\",\"value\":\"\",\"flags\":4294967296}", "flags"},
        {"{\"key\":\"a\",\"value\":\"\",\"note\":4}", "note"},
        {"{\"key\":\"a\",\"value\":\"\",\"bytes\":1.0}", "bytes are no number"},
        {"{\"key\":\"a\",\"value\":\"\",\"bytes\":1}", "not as many bytes"},
        {"{\"end\":false,\"records\":1}", "end is not true"},
        {"{\"end\":true}", "how many records"},
        {"{\"end\":true,\"records\":-1}", "records are no number"},
        {"{\"end\":true,\"records\":1,\"key\":\"a\"}", "has a key"},
        {"{\"end\":true,\"records\":1,\"damaged\":1}", "damaged"},
        {"{\"long_key\":\"a\"}", "how many bytes"},
        {"{\"long_key\":\"\",\"bytes\":1}", "1 to 65,535"},
        {"{\"long_key\":\"a\",\"long_key_hex\":\"61\",\"bytes\":1}", "twice"},
        {"{\"long_key\":\"a\",\"key\":\"a\",\"bytes\":1,\"value\":\"b\"}", "two things"},
        {"{\"part\":0}", "has none"},
        {"{\"part\":-1,\"value\":\"\"}", "part is no number"},
        {"{\"void\":1}", "void is not true"},
    };
    struct cli_stream_item item;
    (void)state;
    take_item(&item);
    for (size_t i = 0; i < base_array_count(cases); i++) {
        const char *why = NULL;
        assert_int_equal(parse(cases[i].line, strlen(cases[i].line), &item, &why), -EINVAL);
        if (strstr(why, cases[i].why) == NULL)
            fail_msg("%s: %s", cases[i].line, why);
    }
    free_item(&item);
}

static void test_refuses_every_cut(void **state)
{
    static const char line[] =
        "{\"key\":\"k\",\"version\":1,\"expiry_ms\":0,\"flags\":0,\"bytes\":1,\"value\":\"v\"}";
    struct cli_stream_item item;
    (void)state;
    take_item(&item);
    for (size_t len = 0; len < sizeof(line) - 1; len++) {
        const char *why = NULL;
        assert_int_equal(parse(line, len, &item, &why), -EINVAL);
        assert_non_null(why);
    }
    parse_well(line, &item);
    free_item(&item);
}

/* Keys and values as long as they may be, and a byte longer, each in both ways. */
static void test_bounds_keys_and_values(void **state)
{
    static char line[4 * (TARN_KEY_BYTES_MAX + VALUE_MAX)];
    static char bytes[2 * TARN_KEY_BYTES_MAX + 3];
    struct cli_stream_item item;
    (void)state;
    take_item(&item);
    memset(bytes, 'a', sizeof(bytes));
    for (unsigned i = 0; i < 16; i++) {
        bool long_key = (i & 1) != 0, long_value = (i & 2) != 0, hex_key = (i & 4) != 0,
             hex_value = (i & 8) != 0;
        int key_len = (TARN_KEY_BYTES_MAX + long_key) << hex_key, value_len = (VALUE_MAX + long_value)
                                                                              << hex_value;
        const char *why = "";
        int len = snprintf(line, sizeof(line), "{\"key%s\":\"%.*s\",\"value%s\":\"%.*s\"}",
                           hex_key ? "_hex" : "", key_len, bytes, hex_value ? "_hex" : "", value_len, bytes);
        int error = parse(line, (size_t)len, &item, &why);
        assert_int_equal(error, long_key || long_value ? -EINVAL : 0);
        if (long_key)
            assert_non_null(strstr(why, "65,535"));
        else if (long_value)
            assert_non_null(strstr(why, "larger"));
        else
            assert_true(item.key_len == TARN_KEY_BYTES_MAX && item.value_len == VALUE_MAX);
    }
    free_item(&item);
}

/* All that dump can write is read as it was: each byte alone, each after another, and characters. */
static void test_bytes_survive(void **state)
{
    struct base_account account;
    struct cli_text text;
    struct cli_stream_item item;
    (void)state;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(cli_text_init(&text, &account, VALUE_MAX), 0);
    take_item(&item);
    for (unsigned i = 0; i < 0x10000; i++) {
        const uint8_t bytes[] = {(uint8_t)i, (uint8_t)(i >> 8), 0xc3, 0xa9, '"'};
        size_t len = 1 + i % sizeof(bytes), value_len = i % (sizeof(bytes) + 1);
        char line[200];
        struct base_json json;
        base_json_init_buffer(&json, line, sizeof(line));
        base_json_object_begin(&json, NULL);
        cli_text_write_json(&text, &json, "key", bytes, len, false);
        cli_text_write_json(&text, &json, "value", bytes, value_len, i % 7 == 0);
        base_json_object_end(&json);
        assert_int_equal(base_json_finish(&json, NULL), 0);
        parse_well(line, &item);
        assert_true(item.key_len == len && memcmp(item.key, bytes, len) == 0);
        assert_true(item.value_len == value_len && memcmp(item.value, bytes, value_len) == 0);
    }
    free_item(&item);
    cli_text_deinit(&text);
    base_account_deinit(&account);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts_lines_wherever_the_bytes_were_cut),
        cmocka_unit_test(test_bounds_lines),
        cmocka_unit_test(test_tells_errors_of_reading),
        cmocka_unit_test(test_reads_records),
        cmocka_unit_test(test_reads_the_end),
        cmocka_unit_test(test_reads_long_values),
        cmocka_unit_test(test_says_what_is_wrong),
        cmocka_unit_test(test_refuses_every_cut),
        cmocka_unit_test(test_bounds_keys_and_values),
        cmocka_unit_test(test_bytes_survive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
