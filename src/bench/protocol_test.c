/* Is every right answer read, however it is cut, and every other one refused? */
#include "base/testing.h"

#include "bench/protocol.h"
#include <errno.h>

enum { VALUE_BYTES = 40, KEYS = 3, TEXT_ROOM = 1024 };

struct fixture {
    struct base_account account;
    struct bench_values values;
    struct bench_parser parser;
    char text[TEXT_ROOM]; /* an answer */
    size_t len;
};

static const uint64_t numbers[KEYS] = {0x11, 0x22, 0x33};

static int open_fixture(void **state)
{
    static struct fixture fixture;
    base_account_init(&fixture.account, BASE_ACCOUNT_UNLIMITED);
    *state = &fixture;
    return bench_values_open(&fixture.account, VALUE_BYTES, &fixture.values);
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    bench_values_close(&fixture->values);
    base_account_deinit(&fixture->account);
    return 0;
}

/* ---- requests ------------------------------------------------------------------------------------ */

static void test_gets(void **state)
{
    (void)state;
    static const char text_one[] = "get bench-0000000011\r\n";
    static const char text_three[] = "get bench-0000000011 bench-0000000022 bench-0000000033\r\n";
    static const char resp_one[] = "*2\r\n$3\r\nGET\r\n$16\r\nbench-0000000011\r\n";
    static const char resp_three[] = "*4\r\n$4\r\nMGET\r\n$16\r\nbench-0000000011\r\n$16\r\n"
                                     "bench-0000000022\r\n$16\r\nbench-0000000033\r\n";
    char to[TEXT_ROOM];
    assert_int_equal(bench_write_get(BENCH_PROTOCOL_TEXT, numbers, 1, to), sizeof(text_one) - 1);
    assert_memory_equal(to, text_one, sizeof(text_one) - 1);
    assert_int_equal(bench_write_get(BENCH_PROTOCOL_TEXT, numbers, 3, to), sizeof(text_three) - 1);
    assert_memory_equal(to, text_three, sizeof(text_three) - 1);
    assert_int_equal(bench_write_get(BENCH_PROTOCOL_RESP, numbers, 1, to), sizeof(resp_one) - 1);
    assert_memory_equal(to, resp_one, sizeof(resp_one) - 1);
    assert_int_equal(bench_write_get(BENCH_PROTOCOL_RESP, numbers, 3, to), sizeof(resp_three) - 1);
    assert_memory_equal(to, resp_three, sizeof(resp_three) - 1);
}

static void check_set(const struct fixture *fixture, enum bench_protocol protocol, const char *head)
{
    char to[TEXT_ROOM];
    uint8_t value[VALUE_BYTES];
    size_t len = strlen(head);
    bench_value(&fixture->values, 0x22, 9, value);
    assert_int_equal(bench_write_set(protocol, &fixture->values, 0x22, 9, to), len + VALUE_BYTES + 2);
    assert_memory_equal(to, head, len);
    assert_memory_equal(to + len, value, VALUE_BYTES);
    assert_memory_equal(to + len + VALUE_BYTES, "\r\n", 2);
}

static void test_sets(void **state)
{
    check_set(*state, BENCH_PROTOCOL_TEXT, "set bench-0000000022 0 0 40\r\n");
    check_set(*state, BENCH_PROTOCOL_RESP, "*3\r\n$3\r\nSET\r\n$16\r\nbench-0000000022\r\n$40\r\n");
}

static void test_requests_fit_their_room(void **state)
{
    const struct fixture *fixture = *state;
    static uint64_t many[100];
    static char to[8192];
    for (int protocol = BENCH_PROTOCOL_TEXT; protocol <= BENCH_PROTOCOL_RESP; protocol++) {
        for (uint32_t count = 1; count <= 100; count++)
            assert_true(bench_write_get((enum bench_protocol)protocol, many, count, to) <=
                        bench_request_room(count, 0));
        assert_true(bench_write_set((enum bench_protocol)protocol, &fixture->values, 1, 1, to) <=
                    bench_request_room(1, VALUE_BYTES));
    }
}

/* ---- right answers ------------------------------------------------------------------------------- */

static void clear(struct fixture *fixture)
{
    fixture->len = 0;
}

static void say_bytes(struct fixture *fixture, const void *bytes, size_t count)
{
    assert_true(count <= sizeof(fixture->text) - fixture->len);
    memcpy(fixture->text + fixture->len, bytes, count);
    fixture->len += count;
}

static void say(struct fixture *fixture, const char *text)
{
    say_bytes(fixture, text, strlen(text));
}

/* @param line  what announces it */
static void say_value(struct fixture *fixture, const char *line, uint64_t number)
{
    uint8_t value[VALUE_BYTES];
    bench_value(&fixture->values, number, 5, value);
    say(fixture, line);
    say_bytes(fixture, value, sizeof(value));
    say(fixture, "\r\n");
}

/* Read what was said in pieces that end at `first` and at `second`. @return as bench_parse() */
static int read_split(struct fixture *fixture, size_t first, size_t second, size_t *ret_used)
{
    const size_t ends[] = {first, second, fixture->len};
    size_t done = 0;
    int result = 0;
    for (size_t i = 0; i < base_array_count(ends) && result == 0; i++) {
        if (ends[i] == done)
            continue;
        size_t used = 0;
        result = bench_parse(&fixture->parser, fixture->text + done, ends[i] - done, &used);
        done += used;
        assert_true(result != 0 || done == ends[i]);
    }
    *ret_used = done;
    return result;
}

static void begin(struct fixture *fixture, enum bench_protocol protocol, bool set, uint32_t keys)
{
    bench_parser_init(&fixture->parser, protocol, &fixture->values);
    bench_parser_expect(&fixture->parser, set, numbers, keys);
}

/* What was said is an answer however it is cut in three, and ends where it ends. */
static void expect_answer(struct fixture *fixture, enum bench_protocol protocol, bool set, uint32_t keys,
                          uint32_t hits)
{
    size_t len = fixture->len;
    for (size_t first = 0; first <= len; first++) {
        for (size_t second = first; second <= len; second++) {
            size_t used;
            begin(fixture, protocol, set, keys);
            int result = read_split(fixture, first, second, &used);
            if (result != 1)
                print_error("%zu %zu: %d %s\n", first, second, result, fixture->parser.wrong);
            assert_int_equal(result, 1);
            assert_int_equal(used, len);
            assert_int_equal(fixture->parser.hits, hits);
        }
    }
    say(fixture, "VALUE of the next"); /* is left alone */
    size_t used;
    begin(fixture, protocol, set, keys);
    assert_int_equal(read_split(fixture, 0, 0, &used), 1);
    assert_int_equal(used, len);
    clear(fixture);
}

static void test_text_answers(void **state)
{
    struct fixture *fixture = *state;
    clear(fixture);
    say(fixture, "STORED\r\n");
    expect_answer(fixture, BENCH_PROTOCOL_TEXT, true, 1, 0);
    say(fixture, "END\r\n");
    expect_answer(fixture, BENCH_PROTOCOL_TEXT, false, 1, 0);
    say_value(fixture, "VALUE bench-0000000011 0 40\r\n", 0x11);
    say(fixture, "END\r\n");
    expect_answer(fixture, BENCH_PROTOCOL_TEXT, false, 1, 1);
    say_value(fixture, "VALUE bench-0000000022 0 40\r\n", 0x22);
    say(fixture, "END\r\n");
    expect_answer(fixture, BENCH_PROTOCOL_TEXT, false, 3, 1);
    say_value(fixture, "VALUE bench-0000000011 0 40\r\n", 0x11);
    say_value(fixture, "VALUE bench-0000000033 0 40\r\n", 0x33);
    say(fixture, "END\r\n");
    expect_answer(fixture, BENCH_PROTOCOL_TEXT, false, 3, 2);
}

static void test_resp_answers(void **state)
{
    struct fixture *fixture = *state;
    clear(fixture);
    say(fixture, "+OK\r\n");
    expect_answer(fixture, BENCH_PROTOCOL_RESP, true, 1, 0);
    say(fixture, "$-1\r\n");
    expect_answer(fixture, BENCH_PROTOCOL_RESP, false, 1, 0);
    say_value(fixture, "$40\r\n", 0x11);
    expect_answer(fixture, BENCH_PROTOCOL_RESP, false, 1, 1);
    say(fixture, "*3\r\n");
    say_value(fixture, "$40\r\n", 0x11);
    say(fixture, "$-1\r\n");
    say_value(fixture, "$40\r\n", 0x33);
    expect_answer(fixture, BENCH_PROTOCOL_RESP, false, 3, 2);
    say(fixture, "*3\r\n$-1\r\n$-1\r\n$-1\r\n");
    expect_answer(fixture, BENCH_PROTOCOL_RESP, false, 3, 0);
}

/* One parser reads one answer after the other. */
static void test_answers_in_a_row(void **state)
{
    struct fixture *fixture = *state;
    clear(fixture);
    say_value(fixture, "VALUE bench-0000000011 0 40\r\n", 0x11);
    say(fixture, "END\r\nSTORED\r\nEND\r\n");
    begin(fixture, BENCH_PROTOCOL_TEXT, false, 2);
    size_t used;
    size_t done = 0;
    assert_int_equal(bench_parse(&fixture->parser, fixture->text, fixture->len, &used), 1);
    assert_int_equal(fixture->parser.hits, 1);
    done += used;
    bench_parser_expect(&fixture->parser, true, numbers, 1);
    assert_int_equal(bench_parse(&fixture->parser, fixture->text + done, fixture->len - done, &used), 1);
    done += used;
    bench_parser_expect(&fixture->parser, false, numbers, 1);
    assert_int_equal(bench_parse(&fixture->parser, fixture->text + done, fixture->len - done, &used), 1);
    assert_int_equal(fixture->parser.hits, 0);
    assert_int_equal(done + used, fixture->len);
}

/* ---- wrong answers ------------------------------------------------------------------------------- */

/* What was said is refused however it is cut, for a reason that has this in it. */
static void expect_wrong(struct fixture *fixture, enum bench_protocol protocol, bool set, uint32_t keys,
                         const char *reason)
{
    for (size_t first = 0; first <= fixture->len; first++) {
        size_t used;
        begin(fixture, protocol, set, keys);
        assert_int_equal(read_split(fixture, first, first, &used), -EBADMSG);
        const char *wrong = fixture->parser.wrong;
        if (wrong == NULL || strstr(wrong, reason) == NULL)
            fail_msg("'%s' lacks '%s'", wrong == NULL ? "nothing" : wrong, reason);
    }
    clear(fixture);
}

static void test_text_errors(void **state)
{
    static const char *const lines[] = {"ERROR",
                                        "SERVER_ERROR out of memory storing object",
                                        "NOT_STORED",
                                        "CLIENT_ERROR bad data chunk",
                                        "stored",
                                        "STORED ",
                                        ""};
    struct fixture *fixture = *state;
    clear(fixture);
    for (size_t i = 0; i < base_array_count(lines); i++) {
        for (int set = 0; set <= 1; set++) {
            say(fixture, lines[i]);
            say(fixture, "\r\n");
            expect_wrong(fixture, BENCH_PROTOCOL_TEXT, set, 1, lines[i]);
        }
    }
    say(fixture, "END\r\n");
    expect_wrong(fixture, BENCH_PROTOCOL_TEXT, true, 1, "a set was answered with 'END'");
    say(fixture, "STORED\r\n");
    expect_wrong(fixture, BENCH_PROTOCOL_TEXT, false, 1, "a get was answered with 'STORED'");
    say(fixture, "END\n");
    expect_wrong(fixture, BENCH_PROTOCOL_TEXT, false, 1, "END?");
    say_bytes(fixture, "a\0b\n", 4);
    expect_wrong(fixture, BENCH_PROTOCOL_TEXT, false, 1, "'a?b?'");
}

static void test_text_wrong_values(void **state)
{
    static const struct {
        const char *line;
        uint64_t value_of;
        const char *reason;
    } answers[] = {
        {"VALUE bench-0000000044 0 40\r\n", 0x44, "not asked for"},
        {"VALUE bench-0000000011 0 40\r\n", 0x22, "value of another key"},
        {"VALUE bench-0000000011 0 41\r\n", 0x11, "another length"},
        {"VALUE bench-0000000011 0 4\r\n", 0x11, "another length"},
        {"VALUE bench-0000000011 1 40\r\n", 0x11, "other flags"},
        {"VALUE bench-0000000011 0 40 7\r\n", 0x11, "another length"},
        {"VALUE bench_0000000011 0 40\r\n", 0x11, "answered with"},
        {"VALUE  bench-0000000011 0 40\r\n", 0x11, "answered with"},
        {"VALUE \r\n", 0x11, "answered with"},
        {"value bench-0000000011 0 40\r\n", 0x11, "answered with"},
    };
    struct fixture *fixture = *state;
    clear(fixture);
    for (size_t i = 0; i < base_array_count(answers); i++) {
        say_value(fixture, answers[i].line, answers[i].value_of);
        say(fixture, "END\r\n");
        expect_wrong(fixture, BENCH_PROTOCOL_TEXT, false, 3, answers[i].reason);
    }
    /* one twice, or in another order than asked for */
    for (int i = 0; i < 2; i++) {
        say_value(fixture, "VALUE bench-0000000022 0 40\r\n", 0x22);
        say_value(fixture, i == 0 ? "VALUE bench-0000000022 0 40\r\n" : "VALUE bench-0000000011 0 40\r\n",
                  i == 0 ? 0x22 : 0x11);
        expect_wrong(fixture, BENCH_PROTOCOL_TEXT, false, 3, "not asked for, or not there");
    }
}

/* A value that is longer or shorter than it says. */
static void test_value_ends(void **state)
{
    static const char *const ends[] = {"x\r\n", "\n", "\rx", "END\r\n"};
    struct fixture *fixture = *state;
    uint8_t value[VALUE_BYTES];
    clear(fixture);
    bench_value(&fixture->values, 0x11, 5, value);
    for (size_t i = 0; i < base_array_count(ends); i++) {
        for (int protocol = BENCH_PROTOCOL_TEXT; protocol <= BENCH_PROTOCOL_RESP; protocol++) {
            say(fixture, protocol == BENCH_PROTOCOL_TEXT ? "VALUE bench-0000000011 0 40\r\n" : "$40\r\n");
            say_bytes(fixture, value, sizeof(value));
            say(fixture, ends[i]);
            expect_wrong(fixture, (enum bench_protocol)protocol, false, 1, "does not end where it should");
        }
    }
}

static void test_resp_errors(void **state)
{
    static const struct {
        const char *text;
        bool set;
        uint32_t keys;
    } answers[] = {
        {"-ERR unknown command\r\n", false, 1},
        {"-OOM command not allowed\r\n", true, 1},
        {"+OK\r\n", false, 1},
        {"$-1\r\n", true, 1},
        {"+QUEUED\r\n", true, 1},
        {"*2\r\n", false, 3},
        {"$40\r\n", false, 3},
        {"$41\r\n", false, 1},
        {"$4\r\n", false, 1},
        {"*3\r\n:1\r\n", false, 3},
        {"*1\r\n", false, 1},
    };
    struct fixture *fixture = *state;
    clear(fixture);
    for (size_t i = 0; i < base_array_count(answers); i++) {
        say(fixture, answers[i].text);
        expect_wrong(fixture, BENCH_PROTOCOL_RESP, answers[i].set, answers[i].keys, "was answered with");
    }
    say(fixture, "*3\r\n$-1\r\n");
    say_value(fixture, "$40\r\n", 0x33);
    expect_wrong(fixture, BENCH_PROTOCOL_RESP, false, 3, "value of another key");
}

/* A line that never ends takes no room without a bound. */
static void test_endless_line(void **state)
{
    struct fixture *fixture = *state;
    size_t used;
    int result = 0;
    int sent = 0;
    begin(fixture, BENCH_PROTOCOL_TEXT, false, 1);
    for (; sent < 2 * BENCH_PROTOCOL_LINE_ROOM && result == 0; sent++)
        result = bench_parse(&fixture->parser, "x", 1, &used);
    assert_int_equal(result, -EBADMSG);
    assert_int_equal(sent, BENCH_PROTOCOL_LINE_ROOM + 1);
    assert_non_null(strstr(fixture->parser.wrong, "more than 256 bytes"));
}

/* Each 64th value, the first among them, is looked at whole; the others at their ends. */
static void test_damage_in_the_middle(void **state)
{
    struct fixture *fixture = *state;
    clear(fixture);
    say_value(fixture, "VALUE bench-0000000011 0 40\r\n", 0x11);
    fixture->text[strlen("VALUE bench-0000000011 0 40\r\n") + 20] ^= 1;
    say(fixture, "END\r\n");
    begin(fixture, BENCH_PROTOCOL_TEXT, false, 1);
    for (int seen = 0; seen <= 2 * BENCH_PROTOCOL_WHOLE_EACH; seen++) {
        size_t used;
        fixture->parser.values_seen = (uint64_t)seen;
        bench_parser_expect(&fixture->parser, false, numbers, 1);
        assert_int_equal(bench_parse(&fixture->parser, fixture->text, fixture->len, &used),
                         seen % BENCH_PROTOCOL_WHOLE_EACH == 0 ? -EBADMSG : 1);
    }
}

/* An echo is the value that was sent, in pieces of any size, and nothing else. */
static void test_echoes(void **state)
{
    struct fixture *fixture = *state;
    struct bench_parser *parser = &fixture->parser;
    size_t used = 0;
    bench_parser_init(parser, BENCH_PROTOCOL_ECHO, &fixture->values);
    assert_int_equal(bench_write_set(BENCH_PROTOCOL_ECHO, &fixture->values, numbers[1], 5, fixture->text),
                     VALUE_BYTES);
    for (size_t cut = 1; cut < VALUE_BYTES; cut++) {
        bench_parser_expect(parser, true, &numbers[1], 1);
        assert_int_equal(bench_parse(parser, fixture->text, cut, &used), 0);
        assert_int_equal(used, cut);
        assert_int_equal(bench_parse(parser, fixture->text + cut, TEXT_ROOM - cut, &used), 1);
        assert_int_equal(used, VALUE_BYTES - cut);
    }
    bench_parser_expect(parser, true, &numbers[0], 1);
    assert_int_equal(bench_parse(parser, fixture->text, VALUE_BYTES, &used), -EBADMSG);
    bench_parser_init(parser, BENCH_PROTOCOL_ECHO, &fixture->values);
    fixture->text[20] ^= 1;
    bench_parser_expect(parser, true, &numbers[1], 1);
    assert_int_equal(bench_parse(parser, fixture->text, VALUE_BYTES, &used), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gets),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_requests_fit_their_room),
        cmocka_unit_test(test_text_answers),
        cmocka_unit_test(test_resp_answers),
        cmocka_unit_test(test_answers_in_a_row),
        cmocka_unit_test(test_text_errors),
        cmocka_unit_test(test_text_wrong_values),
        cmocka_unit_test(test_value_ends),
        cmocka_unit_test(test_resp_errors),
        cmocka_unit_test(test_endless_line),
        cmocka_unit_test(test_damage_in_the_middle),
        cmocka_unit_test(test_echoes),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
