/* Lines of the log: fields, levels, limits, and the escaping that keeps a line one line. */
#include "base/log.h"

#include <stdatomic.h>
#include <time.h>

#include "base/units.h"
#include "base/utf8.h"

/* Text under construction. Room is kept back for an event's quote, the mark, a quote, a newline and a zero.
 */
struct text {
    char *buffer;
    size_t used;
    size_t room;
    bool cut;
};

#define KEPT_BACK_BYTES (1 + sizeof(BASE_LOG_CUT_MARK) - 1 + 3)

/* Longest escape of a single byte, and longest character. */
#define UNIT_BYTES_MAX 4

static void put_unit(struct text *text, const char *unit, size_t bytes)
{
    if (text->cut || text->used + bytes + KEPT_BACK_BYTES > text->room) {
        text->cut = true;
        return;
    }
    memcpy(text->buffer + text->used, unit, bytes);
    text->used += bytes;
}

static void put_string(struct text *text, const char *string)
{
    for (; *string != '\0'; string++)
        put_unit(text, string, 1);
}

/* Into the room that is kept back. */
static void put_last(struct text *text, const char *string)
{
    while (*string != '\0')
        text->buffer[text->used++] = *string++;
    text->buffer[text->used] = '\0';
}

/*
 * Characters above ASCII that end or reorder lines on some terminals: the C1 controls, the line and paragraph
 * separators, and the marks of text direction.
 */
static bool is_disruptive(const uint8_t *c, size_t bytes)
{
    if (bytes == 2)
        return c[0] == 0xc2 && c[1] < 0xa0;
    if (bytes != 3 || c[0] != 0xe2)
        return false;
    return (c[1] == 0x80 && ((c[2] >= 0xa8 && c[2] <= 0xae) || c[2] == 0x8e || c[2] == 0x8f)) ||
           (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9);
}

/* Put the character at the start of some bytes, or the escape of the first of them; say how many it was. */
static size_t put_escaped(struct text *text, const uint8_t *from, size_t len)
{
    static const char *const names[] = {['\n'] = "\\n", ['\r'] = "\\r", ['\t'] = "\\t"};
    size_t bytes = base_utf8_char_bytes(from, len);
    uint8_t c = from[0];
    if (c < base_array_count(names) && names[c] != NULL) {
        put_unit(text, names[c], 2);
        return 1;
    }
    if (bytes == 0 || c < 0x20 || c == 0x7f || is_disruptive(from, bytes)) {
        static const char digits[] = "0123456789abcdef";
        put_unit(text, (const char[UNIT_BYTES_MAX]){'\\', 'x', digits[c >> 4], digits[c & 15]}, 4);
        return 1;
    }
    put_unit(text, (const char *)from, bytes);
    return bytes;
}

static void put_quoted(struct text *text, const uint8_t *from, size_t len)
{
    put_unit(text, "\"", 1);
    for (size_t i = 0; i < len && !text->cut;) {
        if (from[i] == '"' || from[i] == '\\') {
            put_unit(text, (const char[]){'\\', (char)from[i]}, 2);
            i++;
        } else {
            i += put_escaped(text, from + i, len - i);
        }
    }
    put_last(text, text->cut ? BASE_LOG_CUT_MARK "\"" : "\"");
}

/* Fields are quoted already where they must be: keep quotes and backslashes, and close a quote that is cut.
 */
static void put_fields(struct text *text, const uint8_t *from, size_t len)
{
    bool in_quotes = false;
    for (size_t i = 0; i < len && !text->cut;) {
        bool escapes =
            in_quotes && from[i] == '\\' && i + 1 < len && (from[i + 1] == '"' || from[i + 1] == '\\');
        if (escapes) {
            put_unit(text, (const char *)from + i, 2);
            i += 2;
            continue;
        }
        bool is_quote = from[i] == '"';
        i += put_escaped(text, from + i, len - i);
        if (is_quote && !text->cut)
            in_quotes = !in_quotes;
    }
    if (text->cut)
        put_last(text, in_quotes ? BASE_LOG_CUT_MARK "\"" : BASE_LOG_CUT_MARK);
}

const char *base_log_quote(char *buffer, size_t room, const void *text, size_t len)
{
    base_assert(room >= 8);
    struct text quoted = {.buffer = buffer, .room = room};
    put_quoted(&quoted, text, len);
    return buffer;
}

const char *base_log_level_name(enum base_log_level level)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    base_assert((size_t)level < base_array_count(names));
    return names[level];
}

/* The line of base_log_format; `suppressed_count` is a field of its own if it is not 0. */
static size_t format_line(char *buffer, size_t room, uint64_t wall_ns, enum base_log_level level,
                          const char *event, uint64_t suppressed_count, const char *format, va_list args)
    base_printf_like(7, 0);

static size_t format_line(char *buffer, size_t room, uint64_t wall_ns, enum base_log_level level,
                          const char *event, uint64_t suppressed_count, const char *format, va_list args)
{
    base_assert(room >= BASE_LOG_ROOM_MIN);
    struct text text = {.buffer = buffer, .room = base_min(room, (size_t)BASE_LOG_LINE_BYTES)};
    char piece[BASE_LOG_LINE_BYTES]; /* fields that do not fit in it do not fit in the line either */
    time_t seconds = (time_t)(wall_ns / BASE_NS_PER_SECOND);
    struct tm when;
    gmtime_r(&seconds, &when);
    size_t len = strftime(piece, sizeof(piece), "%Y-%m-%dT%H:%M:%S", &when);
    snprintf(piece + len, sizeof(piece) - len,
             ".%03uZ level=%s event=", (unsigned)(wall_ns / BASE_NS_PER_MS % 1000),
             base_log_level_name(level));
    put_string(&text, piece);
    put_quoted(&text, (const uint8_t *)event, strlen(event));
    if (suppressed_count != 0 && !text.cut) {
        snprintf(piece, sizeof(piece), " suppressed=%llu", (unsigned long long)suppressed_count);
        put_string(&text, piece);
    }
    format += strspn(format, " ");
    if (format[0] != '\0' && !text.cut) {
        int fields_bytes = vsnprintf(piece, sizeof(piece), format, args);
        put_unit(&text, " ", 1);
        put_fields(&text, (const uint8_t *)piece, fields_bytes < 0 ? 0 : strlen(piece));
    }
    put_last(&text, "\n");
    return text.used;
}

size_t base_log_format(char *buffer, size_t room, uint64_t wall_ns, enum base_log_level level,
                       const char *event, const char *format, va_list args)
{
    return format_line(buffer, room, wall_ns, level, event, 0, format, args);
}

void base_log_init(struct base_log *log, enum base_log_level level, base_log_sink_function *sink,
                   void *sink_arg, base_clock_function *clock, void *clock_arg)
{
    base_assert(sink != NULL && clock != NULL);
    atomic_init(&log->level, (int)level);
    log->sink = sink;
    log->sink_arg = sink_arg;
    log->clock = clock;
    log->clock_arg = clock_arg;
}

void base_log_sink_file(void *arg, enum base_log_level level base_unused, const char *line, size_t len)
{
    FILE *file = arg;
    /* Nobody could be told of a failure. */
    if (fwrite(line, 1, len, file) == len)
        fflush(file);
}

void base_log_set_level(struct base_log *log, enum base_log_level level)
{
    atomic_store_explicit(&log->level, (int)level, memory_order_relaxed);
}

bool base_log_enabled(const struct base_log *log, enum base_log_level level)
{
    return log != NULL && (int)level <= atomic_load_explicit(&log->level, memory_order_relaxed);
}

void base_log_write(struct base_log *log, enum base_log_level level, const char *event, const char *format,
                    ...)
{
    if (!base_log_enabled(log, level))
        return;
    char line[BASE_LOG_LINE_BYTES];
    va_list args;
    va_start(args, format);
    size_t len = format_line(line, sizeof(line), log->clock(log->clock_arg), level, event, 0, format, args);
    va_end(args);
    log->sink(log->sink_arg, level, line, len);
}

void base_log_write_limited(struct base_log *log, struct base_log_limit *limit, enum base_log_level level,
                            const char *event, const char *format, ...)
{
    if (!base_log_enabled(log, level))
        return;
    uint64_t now_ns = log->clock(log->clock_arg);
    uint64_t suppressed_count;
    if (!base_log_limit_allow(limit, now_ns, &suppressed_count))
        return;
    char line[BASE_LOG_LINE_BYTES];
    va_list args;
    va_start(args, format);
    size_t len = format_line(line, sizeof(line), now_ns, level, event, suppressed_count, format, args);
    va_end(args);
    log->sink(log->sink_arg, level, line, len);
}

void base_log_limit_init(struct base_log_limit *limit, uint32_t lines_max, uint64_t interval_ns)
{
    base_assert(lines_max > 0);
    *limit = (struct base_log_limit){.lines_max = lines_max, .interval_ns = interval_ns};
    base_spin_init(&limit->lock);
}

bool base_log_limit_allow(struct base_log_limit *limit, uint64_t now_ns, uint64_t *ret_suppressed_count)
{
    base_spin_lock(&limit->lock);
    /* A clock that was set back gives a difference beyond any interval. */
    if (now_ns - limit->begin_ns >= limit->interval_ns) {
        limit->begin_ns = now_ns;
        limit->lines = 0;
    }
    bool allowed = limit->lines < limit->lines_max;
    if (allowed) {
        limit->lines++;
        *ret_suppressed_count = limit->suppressed_count;
        limit->suppressed_count = 0;
    } else {
        limit->suppressed_count++;
    }
    base_spin_unlock(&limit->lock);
    return allowed;
}

bool base_log_spell_note(const struct base_log *log, struct base_log_spell *spell)
{
    const uint64_t now_ns = log->clock(log->clock_arg);
    base_spin_lock(&spell->lock);
    const bool begins = !atomic_load_explicit(&spell->lasts, memory_order_relaxed);
    if (begins) {
        spell->begin_ns = now_ns;
        spell->refused_count = 0;
        atomic_store_explicit(&spell->lasts, true, memory_order_relaxed);
    }
    spell->refused_count++;
    spell->last_ns = now_ns;
    base_spin_unlock(&spell->lock);
    return begins;
}

bool base_log_spell_ended(const struct base_log *log, struct base_log_spell *spell, bool at_once,
                          uint64_t *ret_refused_count, uint64_t *ret_lasted_ns)
{
    if (base_likely(!atomic_load_explicit(&spell->lasts, memory_order_relaxed)))
        return false;
    const uint64_t now_ns = log->clock(log->clock_arg);
    base_spin_lock(&spell->lock);
    /* A clock that was set back gives a difference beyond any time of quiet. */
    const bool ended = atomic_load_explicit(&spell->lasts, memory_order_relaxed) &&
                       (at_once || now_ns - spell->last_ns >= BASE_LOG_SPELL_QUIET_NS);
    if (ended) {
        atomic_store_explicit(&spell->lasts, false, memory_order_relaxed);
        *ret_refused_count = spell->refused_count;
        *ret_lasted_ns = spell->last_ns < spell->begin_ns ? 0 : spell->last_ns - spell->begin_ns;
    }
    base_spin_unlock(&spell->lock);
    return ended;
}
