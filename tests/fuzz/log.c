/*
 * Any bytes as event, field and quoted value: a line has one newline, at its end, and is printable UTF-8; a
 * quoted value is one value, and says exactly what was put in.
 */
#include <stdlib.h>

#include "base/base.h"
#include "base/utf8.h"

#define WALL_NS UINT64_C(1767323045678000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_printable(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t bytes = base_utf8_char_bytes((const uint8_t *)text + i, len - i);
        base_assert(bytes > 0);
        base_assert(bytes > 1 || ((uint8_t)text[i] >= 0x20 && text[i] != 0x7f));
        i += bytes;
    }
}

static unsigned hex_digit(char c)
{
    base_assert((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'));
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* The byte at the start of a quoted text, and how many it takes there. */
static uint8_t unquote_one(const char *text, size_t *ret_bytes)
{
    *ret_bytes = 1;
    base_assert(text[0] != '"');
    if (text[0] != '\\')
        return (uint8_t)text[0];
    *ret_bytes = text[1] == 'x' ? 4 : 2;
    switch (text[1]) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'x':
        return (uint8_t)(hex_digit(text[2]) << 4 | hex_digit(text[3]));
    default:
        base_assert(text[1] == '"' || text[1] == '\\');
        return (uint8_t)text[1];
    }
}

/* A quoted text is the beginning of the original, whole or marked as cut. */
static void check_quoted(const char *quoted, size_t room, const uint8_t *original, size_t len)
{
    size_t end = strnlen(quoted, room) - 1;
    base_assert(end >= 1 && end + 1 < room);
    base_assert(quoted[0] == '"' && quoted[end] == '"');
    check_printable(quoted, end + 1);
    size_t at = 1;
    size_t matched = 0;
    while (at < end && matched < len) {
        size_t bytes;
        if (unquote_one(quoted + at, &bytes) != original[matched])
            break;
        at += bytes;
        matched++;
    }
    if (matched == len && at == end)
        return;
    /* What is left is the mark, of which dots of the original may have matched a part. */
    size_t mark = strlen(BASE_LOG_CUT_MARK);
    base_assert(end >= 1 + mark && strncmp(quoted + end - mark, BASE_LOG_CUT_MARK, mark) == 0);
    base_assert(at >= end - mark);
}

static size_t format(char *buffer, size_t room, const char *event, const char *fields, ...)
    base_printf_like(4, 5);

static size_t format(char *buffer, size_t room, const char *event, const char *fields, ...)
{
    va_list args;
    va_start(args, fields);
    size_t len = base_log_format(buffer, room, WALL_NS, BASE_LOG_WARN, event, fields, args);
    va_end(args);
    return len;
}

static void check_line(const char *line, size_t len, size_t room)
{
    base_assert(len > 0 && len < room && len < BASE_LOG_LINE_BYTES);
    base_assert(line[len] == '\0' && line[len - 1] == '\n');
    base_assert(memchr(line, '\n', len) == line + len - 1);
    check_printable(line, len - 1);
}

/* Outside of quotes, the line of a quoted value has no other key than the writer's own. */
static void check_keys(const char *line)
{
    char keys[64] = "";
    bool in_quotes = false;
    for (; *line != '\0'; line++) {
        if (in_quotes && *line == '\\' && line[1] != '\0')
            line++;
        else if (*line == '"')
            in_quotes = !in_quotes;
        else if (!in_quotes && *line == '=')
            strncat(keys, line - 1, 2);
    }
    base_assert(!in_quotes);
    base_assert(strncmp("l=t=v=", keys, strlen(keys)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    size_t line_room = BASE_LOG_ROOM_MIN + (size_t)data[0] * 5;
    size_t quoted_room = 8 + (size_t)data[1] * 3;
    size_t len = size - 2;
    size_t event_len = base_min(len, (size_t)data[2]);
    /* Each in memory of exactly its size. */
    char *line = malloc(line_room);
    char *quoted = malloc(quoted_room);
    uint8_t *bytes = malloc(len);
    memcpy(bytes, data + 2, len);
    char *event = strndup((const char *)bytes, event_len);
    char *text = strndup((const char *)bytes + event_len, len - event_len);

    base_log_quote(quoted, quoted_room, bytes, len);
    check_quoted(quoted, quoted_room, bytes, len);
    check_line(line, format(line, line_room, event, "raw=%s", text), line_room);
    check_line(line, format(line, line_room, text, "%s", event), line_room);
    check_line(line, format(line, line_room, event, "v=%s", quoted), line_room);
    check_keys(line);

    free(text);
    free(event);
    free(bytes);
    free(quoted);
    free(line);
    return 0;
}
