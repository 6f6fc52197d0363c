/* Is every line one line of printable text, whatever strangers send, and are limits kept? */
#include "base/testing.h"

#include <pthread.h>

#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "base/utf8.h"

/* 2026-01-02T03:04:05.678Z */
#define WHEN_NS (UINT64_C(1767323045) * BASE_NS_PER_SECOND + 678 * BASE_NS_PER_MS + 999999)

struct capture {
    struct base_log log;
    uint64_t now_ns;
    unsigned lines;
    char line[BASE_LOG_LINE_BYTES];
};

static uint64_t capture_clock(void *arg)
{
    return ((struct capture *)arg)->now_ns;
}

static void capture_line(void *arg, enum base_log_level level base_unused, const char *line, size_t len)
{
    struct capture *capture = arg;
    assert_int_equal(line[len], '\0');
    assert_int_equal(strlen(line), len);
    memcpy(capture->line, line, len + 1);
    capture->lines++;
}

static void capture_init(struct capture *capture, enum base_log_level level)
{
    memset(capture, 0, sizeof(*capture));
    capture->now_ns = WHEN_NS;
    base_log_init(&capture->log, level, capture_line, capture, capture_clock, capture);
}

static void test_a_line(void **state base_unused)
{
    struct capture capture;
    capture_init(&capture, BASE_LOG_INFO);
    base_info(&capture.log, "server started", "port=%u name=%s", 11211u, "a");
    assert_string_equal(capture.line,
                        "2026-01-02T03:04:05.678Z level=info event=\"server started\" port=11211 name=a\n");
    base_error(&capture.log, "gone");
    assert_string_equal(capture.line, "2026-01-02T03:04:05.678Z level=error event=\"gone\"\n");
    capture.now_ns = 0;
    base_warn(&capture.log, "begin");
    assert_string_equal(capture.line, "1970-01-01T00:00:00.000Z level=warn event=\"begin\"\n");
    capture.now_ns = UINT64_MAX;
    base_warn(&capture.log, "end");
    assert_string_equal(capture.line, "2554-07-21T23:34:33.709Z level=warn event=\"end\"\n");
}

static int evaluate(int *evaluated)
{
    return ++*evaluated;
}

static void test_levels(void **state base_unused)
{
    struct capture capture;
    int evaluated = 0;
    capture_init(&capture, BASE_LOG_WARN);
    base_info(&capture.log, "x", "n=%d", evaluate(&evaluated));
    assert_int_equal(evaluated, 0);
    base_warn(&capture.log, "x", "n=%d", evaluate(&evaluated));
    assert_int_equal(evaluated, 1);
    assert_int_equal(capture.lines, 1);
    base_log_set_level(&capture.log, BASE_LOG_DEBUG);
    base_debug(&capture.log, "x");
    assert_int_equal(capture.lines, 2);
    base_log_set_level(&capture.log, BASE_LOG_ERROR);
    base_log_write(&capture.log, BASE_LOG_WARN, "x", "%s", "");
    assert_int_equal(capture.lines, 2);
    base_error(NULL, "x");
}

static void test_nothing_injects_a_line(void **state base_unused)
{
    struct capture capture;
    capture_init(&capture, BASE_LOG_INFO);
    base_info(&capture.log, "a\nb \"c\" \\", "x=%s y=%s", "1\n2026 level=error\r\x1b[31m",
              "\x7f\xc3\x28\xff");
    assert_string_equal(capture.line, "2026-01-02T03:04:05.678Z level=info event=\"a\\nb \\\"c\\\" \\\\\" "
                                      "x=1\\n2026 level=error\\r\\x1b[31m y=\\x7f\\xc3(\\xff\n");
    /* Letters beyond ASCII stay; C1 controls, line separators and marks of direction do not. */
    base_info(&capture.log, "t", "x=%s",
              "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80|\xc2\x85|\xe2\x80\xa8|\xe2\x80\xae|\xe2\x81\xa6");
    assert_non_null(strstr(capture.line, "x=\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80|\\xc2\\x85|\\xe2\\x80\\xa8|"
                                         "\\xe2\\x80\\xae|\\xe2\\x81\\xa6\n"));
}

static void test_quote(void **state base_unused)
{
    char buffer[64];
    assert_string_equal(base_log_quote(buffer, sizeof(buffer), NULL, 0), "\"\"");
    assert_string_equal(base_log_quote(buffer, sizeof(buffer), "a b", 3), "\"a b\"");
    assert_string_equal(base_log_quote(buffer, sizeof(buffer), "a\" x=\"\\\t\0\x80", 10),
                        "\"a\\\" x=\\\"\\\\\\t\\x00\\x80\"");
    /* Cut between characters, never inside an escape. */
    assert_string_equal(base_log_quote(buffer, 8, "abcdefgh", 8), "\"...\"");
    assert_string_equal(base_log_quote(buffer, 14, "abcde\xc3\xa4", 7), "\"abcde...\"");
    assert_string_equal(base_log_quote(buffer, 12, "abc\nabc", 7), "\"abc...\"");
}

/* A line is text in UTF-8 without control characters, of one newline at the end. */
static void assert_clean(const char *line, size_t len, size_t room)
{
    assert_true(len > 0 && len < room);
    assert_int_equal(line[len], '\0');
    assert_int_equal(line[len - 1], '\n');
    const uint8_t *text = (const uint8_t *)line;
    for (size_t i = 0; i < len - 1;) {
        size_t bytes = base_utf8_char_bytes(text + i, len - i);
        assert_true(bytes > 0);
        assert_true(bytes > 1 || (text[i] >= 0x20 && text[i] != 0x7f));
        i += bytes;
    }
}

static size_t format_into(char *buffer, size_t room, const char *event, const char *format, ...)
    base_printf_like(4, 5);

static size_t format_into(char *buffer, size_t room, const char *event, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t len = base_log_format(buffer, room, WHEN_NS, BASE_LOG_DEBUG, event, format, args);
    va_end(args);
    return len;
}

static void test_cut_lines(void **state base_unused)
{
    char buffer[BASE_LOG_LINE_BYTES + 100];
    char text[3000];
    for (size_t room = BASE_LOG_ROOM_MIN; room <= sizeof(buffer); room++) {
        memset(buffer, 'Z', sizeof(buffer));
        memset(text, 'a', sizeof(text));
        text[sizeof(text) - 1] = '\0';
        assert_clean(buffer, format_into(buffer, room, "e", "x=%s", text), room);
        assert_non_null(strstr(buffer, "aa...\n"));
        /* Two-byte characters, and a quote that the cut must close. */
        for (size_t i = 0; i + 2 < sizeof(text); i += 2)
            memcpy(text + i, "\xc3\xa4", 2);
        assert_clean(buffer, format_into(buffer, room, "e", "x=\"%s\"", text), room);
        assert_non_null(strstr(buffer, "\xc3\xa4...\"\n"));
        assert_clean(buffer, format_into(buffer, room, text, "x=%d", 1), room);
        assert_non_null(strstr(buffer, "...\"\n"));
        if (room < sizeof(buffer))
            assert_int_equal(buffer[room], 'Z');
    }
}

static void test_random_bytes(void **state base_unused)
{
    struct base_random random;
    base_random_init(&random, 12);
    for (int round = 0; round < 20000; round++) {
        char bytes[200], quoted[300], line[400];
        size_t len = base_random_below(&random, sizeof(bytes));
        base_random_fill(&random, bytes, sizeof(bytes));
        bytes[len] = '\0';
        base_log_quote(quoted, 8 + base_random_below(&random, sizeof(quoted) - 8), bytes, len);
        size_t room = BASE_LOG_ROOM_MIN + base_random_below(&random, sizeof(line) - BASE_LOG_ROOM_MIN);
        assert_clean(line, format_into(line, room, bytes, "raw=%s quoted=%s", bytes, quoted), room);
    }
}

static void test_limit(void **state base_unused)
{
    struct capture capture;
    struct base_log_limit limit;
    capture_init(&capture, BASE_LOG_INFO);
    base_log_limit_init(&limit, 2, BASE_NS_PER_SECOND);
    for (int i = 0; i < 10; i++)
        base_warn_limited(&capture.log, &limit, "slow", "n=%d", i);
    assert_int_equal(capture.lines, 2);
    assert_null(strstr(capture.line, "suppressed"));
    capture.now_ns += BASE_NS_PER_SECOND - 1;
    base_error_limited(&capture.log, &limit, "slow");
    assert_int_equal(capture.lines, 2);
    capture.now_ns += 1;
    base_info_limited(&capture.log, &limit, "slow", "n=%d", 11);
    assert_int_equal(capture.lines, 3);
    assert_non_null(strstr(capture.line, " event=\"slow\" suppressed=9 n=11\n"));
    base_warn_limited(&capture.log, &limit, "slow", "n=%d", 12);
    assert_null(strstr(capture.line, "suppressed"));
    base_warn_limited(&capture.log, &limit, "slow", "n=%d", 13);
    assert_int_equal(capture.lines, 4);
    /* A clock set back by a day must not silence the log for a day. */
    capture.now_ns -= UINT64_C(86400) * BASE_NS_PER_SECOND;
    base_warn_limited(&capture.log, &limit, "slow", "n=%d", 14);
    assert_int_equal(capture.lines, 5);
    base_warn_limited(NULL, &limit, "slow", "n=%d", 15);
}

static void test_file_sink(void **state base_unused)
{
    struct capture capture;
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    capture_init(&capture, BASE_LOG_INFO);
    base_log_init(&capture.log, BASE_LOG_INFO, base_log_sink_file, file, capture_clock, &capture);
    base_info(&capture.log, "a");
    base_info(&capture.log, "b");
    assert_string_equal(text, "2026-01-02T03:04:05.678Z level=info event=\"a\"\n"
                              "2026-01-02T03:04:05.678Z level=info event=\"b\"\n");
    fclose(file);
    free(text);
}

#define THREADS 4
#define ROUNDS  5000

struct counted {
    struct base_log_limit limit;
    _Atomic uint64_t allowed;
    _Atomic uint64_t suppressed;
};

static void *ask(void *arg)
{
    struct counted *counted = arg;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t suppressed = 0;
        if (base_log_limit_allow(&counted->limit, (uint64_t)i, &suppressed)) {
            counted->allowed++;
            counted->suppressed += suppressed;
        }
    }
    return NULL;
}

static void test_limit_counts_every_line(void **state base_unused)
{
    struct counted counted = {0};
    pthread_t threads[THREADS];
    base_log_limit_init(&counted.limit, 3, 100);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &counted), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    uint64_t total = counted.allowed + counted.suppressed + counted.limit.suppressed_count;
    assert_int_equal(total, THREADS * ROUNDS);
}

static void test_spell(void **state base_unused)
{
    struct capture capture;
    struct base_log_spell spell = {.refused_count = 0};
    uint64_t refused = 77, lasted_ns = 77;
    capture_init(&capture, BASE_LOG_INFO);
    assert_false(base_log_spell_ended(&capture.log, &spell, false, &refused, &lasted_ns));
    assert_false(base_log_spell_ended(&capture.log, &spell, true, &refused, &lasted_ns));
    for (uint64_t round = 0; round < 2; round++) {
        assert_true(base_log_spell_note(&capture.log, &spell));
        for (uint64_t i = 1; i < 100 + round; i++) { /* with something accepted in between */
            capture.now_ns += BASE_LOG_SPELL_QUIET_NS - 1;
            assert_false(base_log_spell_ended(&capture.log, &spell, false, &refused, &lasted_ns));
            assert_false(base_log_spell_note(&capture.log, &spell));
        }
        assert_int_equal(refused, round == 0 ? 77 : 100);
        capture.now_ns += BASE_LOG_SPELL_QUIET_NS;
        assert_true(base_log_spell_ended(&capture.log, &spell, false, &refused, &lasted_ns));
        assert_int_equal(refused, 100 + round);
        assert_int_equal(lasted_ns, (99 + round) * (BASE_LOG_SPELL_QUIET_NS - 1));
        assert_false(base_log_spell_ended(&capture.log, &spell, true, &refused, &lasted_ns));
    }
    assert_true(base_log_spell_note(&capture.log, &spell));
    capture.now_ns -= BASE_NS_PER_SECOND; /* the clock is set back */
    assert_true(base_log_spell_ended(&capture.log, &spell, false, &refused, &lasted_ns));
    assert_true(base_log_spell_note(&capture.log, &spell));
    assert_true(base_log_spell_ended(&capture.log, &spell, true, &refused, &lasted_ns));
    assert_int_equal(refused, 1);
    assert_int_equal(lasted_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_nothing_injects_a_line),
        cmocka_unit_test(test_quote),
        cmocka_unit_test(test_cut_lines),
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_file_sink),
        cmocka_unit_test(test_spell),
        cmocka_unit_test(test_limit_counts_every_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
