/* Requests, and a strict reader of answers, in memcached's text and in redis' RESP; and echoes. */
#include "bench/protocol.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    HEAD_ROOM = 64, /* all of a request but keys and value */
    KEY_ROOM = BENCH_KEY_BYTES + 16,
    SHOWN_MAX = 120, /* characters of an answer in a message */
};

/* ---- requests ------------------------------------------------------------------------------------ */

size_t bench_request_room(uint32_t key_count, uint32_t value_bytes)
{
    return HEAD_ROOM + base_max((size_t)key_count * KEY_ROOM, (size_t)KEY_ROOM + value_bytes);
}

static char *add(char *to, const char *text, size_t len)
{
    memcpy(to, text, len);
    return to + len;
}

#define ADD(to, text) add(to, text, sizeof(text) - 1)

static char *add_number(char *to, uint64_t number)
{
    char digits[20];
    size_t i = sizeof(digits);
    do
        digits[--i] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return add(to, digits + i, sizeof(digits) - i);
}

static char *add_key(char *to, uint64_t number)
{
    bench_key(number, to);
    return to + BENCH_KEY_BYTES;
}

static char *add_resp_key(char *to, uint64_t number)
{
    to = add_key(ADD(to, "$16\r\n"), number);
    return ADD(to, "\r\n");
}

_Static_assert(BENCH_KEY_BYTES == 16, "add_resp_key()");

size_t bench_write_get(enum bench_protocol protocol, const uint64_t *numbers, uint32_t key_count, char *to)
{
    char *at = to;
    if (protocol == BENCH_PROTOCOL_TEXT) {
        at = ADD(at, "get");
        for (uint32_t i = 0; i < key_count; i++)
            at = add_key(ADD(at, " "), numbers[i]);
        at = ADD(at, "\r\n");
    } else {
        at = ADD(add_number(ADD(at, "*"), (uint64_t)key_count + 1), "\r\n");
        at = key_count == 1 ? ADD(at, "$3\r\nGET\r\n") : ADD(at, "$4\r\nMGET\r\n");
        for (uint32_t i = 0; i < key_count; i++)
            at = add_resp_key(at, numbers[i]);
    }
    return (size_t)(at - to);
}

size_t bench_write_set(enum bench_protocol protocol, const struct bench_values *values, uint64_t number,
                       uint64_t generation, char *to)
{
    char *at = to;
    if (protocol == BENCH_PROTOCOL_ECHO) {
        bench_value(values, number, generation, (uint8_t *)to);
        return values->bytes;
    }
    if (protocol == BENCH_PROTOCOL_TEXT)
        at = ADD(add_key(ADD(at, "set "), number), " 0 0 ");
    else
        at = ADD(add_resp_key(ADD(at, "*3\r\n$3\r\nSET\r\n"), number), "$");
    at = ADD(add_number(at, values->bytes), "\r\n");
    bench_value(values, number, generation, (uint8_t *)at);
    at = ADD(at + values->bytes, "\r\n");
    return (size_t)(at - to);
}

/* ---- answers ------------------------------------------------------------------------------------- */

void bench_parser_init(struct bench_parser *parser, enum bench_protocol protocol,
                       const struct bench_values *values)
{
    *parser = (struct bench_parser){.protocol = protocol, .values = values};
    const char *format = protocol == BENCH_PROTOCOL_TEXT ? " 0 %" PRIu32 : "$%" PRIu32;
    int len = snprintf(parser->value_end, sizeof(parser->value_end), format, values->bytes);
    base_assert(len > 0 && (size_t)len < sizeof(parser->value_end));
    parser->value_end_len = (size_t)len;
}

/* A value of the key at parser->next follows. */
static void expect_value(struct bench_parser *parser)
{
    bool whole = parser->values_seen++ % BENCH_PROTOCOL_WHOLE_EACH == 0;
    bench_value_check_begin(&parser->check, parser->numbers[parser->next], whole);
    parser->place = BENCH_PARSER_AT_VALUE;
}

void bench_parser_expect(struct bench_parser *parser, bool set, const uint64_t *numbers, uint32_t key_count)
{
    parser->set = set;
    parser->header = false;
    parser->numbers = numbers;
    parser->key_count = key_count;
    parser->next = 0;
    parser->hits = 0;
    parser->place = BENCH_PARSER_AT_LINE;
    parser->line_len = 0;
    if (parser->protocol == BENCH_PROTOCOL_ECHO)
        expect_value(parser);
}

static int wrong(struct bench_parser *parser, const char *format, ...) base_printf_like(2, 3);

static int wrong(struct bench_parser *parser, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(parser->wrong, sizeof(parser->wrong), format, args);
    va_end(args);
    return -EBADMSG;
}

/* What a server said instead of what was expected; bytes that are no text are not shown as they are. */
static int wrong_line(struct bench_parser *parser, const char *line, size_t len)
{
    char shown[SHOWN_MAX + 1];
    size_t count = base_min(len, (size_t)SHOWN_MAX);
    for (size_t i = 0; i < count; i++)
        shown[i] = '?';
    for (size_t i = 0; i < count; i++) {
        if (line[i] >= ' ' && line[i] <= '~')
            shown[i] = line[i];
    }
    shown[count] = '\0';
    return wrong(parser, "a %s was answered with '%s'", parser->set ? "set" : "get", shown);
}

static bool line_is(const char *line, size_t len, const char *text)
{
    return len == strlen(text) && memcmp(line, text, len) == 0;
}

/* "VALUE key flags bytes". Keys come in the order in which they were asked for, without those that are
 * missing. */
static int read_value_line(struct bench_parser *parser, const char *line, size_t len)
{
    static const char begin[] = "VALUE ";
    const size_t key_at = sizeof(begin) - 1;
    const size_t end_at = key_at + BENCH_KEY_BYTES;
    uint64_t number;
    if (len < end_at || memcmp(line, begin, key_at) != 0 ||
        bench_key_read(line + key_at, BENCH_KEY_BYTES, &number) != 0)
        return wrong_line(parser, line, len);
    if (len - end_at != parser->value_end_len ||
        memcmp(line + end_at, parser->value_end, parser->value_end_len) != 0)
        return wrong(
            parser, "the value of key %" PRIu64 " has other flags or another length than '%s': '%.*s'",
            number, parser->value_end + 1, (int)base_min(len - end_at, (size_t)SHOWN_MAX), line + end_at);
    while (parser->next < parser->key_count && parser->numbers[parser->next] != number)
        parser->next++;
    if (parser->next == parser->key_count)
        return wrong(parser, "there was a value of key %" PRIu64 ", which was not asked for, or not there",
                     number);
    expect_value(parser);
    return 0;
}

/* @return as bench_parse() */
static int read_text_line(struct bench_parser *parser, const char *line, size_t len)
{
    if (parser->set)
        return line_is(line, len, "STORED") ? 1 : wrong_line(parser, line, len);
    return line_is(line, len, "END") ? 1 : read_value_line(parser, line, len);
}

static int end_resp_key(struct bench_parser *parser)
{
    parser->next++;
    return parser->next == parser->key_count ? 1 : 0;
}

/* @return as bench_parse() */
static int read_resp_line(struct bench_parser *parser, const char *line, size_t len)
{
    if (parser->set)
        return line_is(line, len, "+OK") ? 1 : wrong_line(parser, line, len);
    if (parser->key_count > 1 && !parser->header) {
        char expected[16];
        (void)snprintf(expected, sizeof(expected), "*%" PRIu32, parser->key_count);
        parser->header = true;
        return line_is(line, len, expected) ? 0 : wrong_line(parser, line, len);
    }
    if (line_is(line, len, "$-1"))
        return end_resp_key(parser);
    if (!line_is(line, len, parser->value_end))
        return wrong_line(parser, line, len);
    expect_value(parser);
    return 0;
}

/*
 * Take the next line, which may have begun in an earlier piece.
 *
 * @return 1 (the answer is complete); 0 (it goes on, or the line does); -EBADMSG
 */
static int read_line(struct bench_parser *parser, const char *data, size_t bytes, size_t *ret_used)
{
    const char *end = memchr(data, '\n', bytes);
    size_t used = end == NULL ? bytes : (size_t)(end - data) + 1;
    const char *line = data;
    size_t len = used;
    if (end == NULL || parser->line_len > 0) {
        if (used > sizeof(parser->line) - parser->line_len)
            return wrong(parser, "an answer has a line of more than %d bytes", BENCH_PROTOCOL_LINE_ROOM);
        memcpy(parser->line + parser->line_len, data, used);
        parser->line_len += used;
        line = parser->line;
        len = parser->line_len;
    }
    *ret_used = used;
    if (end == NULL)
        return 0;
    parser->line_len = 0;
    if (len < 2 || line[len - 2] != '\r')
        return wrong_line(parser, line, len);
    len -= 2;
    return parser->protocol == BENCH_PROTOCOL_TEXT ? read_text_line(parser, line, len)
                                                   : read_resp_line(parser, line, len);
}

/* @return as bench_parse() */
static int read_value(struct bench_parser *parser, const char *data, size_t bytes, size_t *ret_used)
{
    size_t used = base_min(bytes, (size_t)(parser->values->bytes - parser->check.position));
    if (!bench_value_check_bytes(parser->values, &parser->check, (const uint8_t *)data, used))
        return wrong(parser, "key %" PRIu64 " has the value of another key, or a damaged one",
                     parser->check.number);
    *ret_used = used;
    if (parser->check.position < parser->values->bytes)
        return 0;
    parser->place = BENCH_PARSER_AT_VALUE_END;
    return parser->protocol == BENCH_PROTOCOL_ECHO;
}

/* CR LF, of which line_len bytes have been seen. @return as bench_parse() */
static int read_value_end(struct bench_parser *parser, const char *data, size_t *ret_used)
{
    if (data[0] != "\r\n"[parser->line_len])
        return wrong(parser, "the value of key %" PRIu64 " does not end where it should",
                     parser->check.number);
    *ret_used = 1;
    if (++parser->line_len < 2)
        return 0;
    parser->line_len = 0;
    parser->place = BENCH_PARSER_AT_LINE;
    parser->hits++;
    if (parser->protocol == BENCH_PROTOCOL_RESP)
        return end_resp_key(parser);
    parser->next++;
    return 0;
}

int bench_parse(struct bench_parser *parser, const char *data, size_t bytes, size_t *ret_used)
{
    size_t done = 0;
    int result = 0;
    while (done < bytes && result == 0) {
        size_t used = 0;
        switch (parser->place) {
        case BENCH_PARSER_AT_LINE:
            result = read_line(parser, data + done, bytes - done, &used);
            break;
        case BENCH_PARSER_AT_VALUE:
            result = read_value(parser, data + done, bytes - done, &used);
            break;
        case BENCH_PARSER_AT_VALUE_END:
            result = read_value_end(parser, data + done, &used);
            break;
        }
        done += used;
    }
    if (result >= 0)
        *ret_used = done;
    return result;
}
