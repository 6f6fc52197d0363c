/*
 * Logging. A call is one line, whatever the bytes it is given:
 *
 *   2026-01-02T03:04:05.678Z level=info event="server started" port=11211
 *
 * The caller writes the fields as a printf format ("port=%u"). Control characters, bytes that are not UTF-8,
 * and characters that break or reorder lines are escaped everywhere. A value that strangers choose goes
 * through base_log_quote first, so that it cannot pose as other fields. Time and destination are functions:
 * base has neither clock nor file. Any thread.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdarg.h>
#include <stdio.h>

#include "base/define.h"
#include "base/spin.h"

/** Longest line that base_log_write makes, with newline and terminating zero; longer ones are cut. */
#define BASE_LOG_LINE_BYTES 1024

/** Least room that base_log_format needs. */
#define BASE_LOG_ROOM_MIN 128

/** What stands at the end of a line or a quoted value that was cut off. */
#define BASE_LOG_CUT_MARK "..."

enum base_log_level {
    BASE_LOG_ERROR, /* something is lost or refused for good */
    BASE_LOG_WARN,  /* somebody should look */
    BASE_LOG_INFO,  /* start, stop, state changes */
    BASE_LOG_DEBUG, /* for the developer */
};

/**
 * Takes a finished line. Any thread, possibly several at once.
 *
 * @param line, len  ends with its only newline; a zero byte follows; borrowed until return
 */
typedef void base_log_sink_function(void *arg, enum base_log_level level, const char *line, size_t len);

struct base_log {
    _Atomic int level; /* lines above it are not written */
    base_log_sink_function *sink;
    void *sink_arg;
    base_clock_function *clock; /* civil time: nanoseconds since 1970 UTC */
    void *clock_arg;
};

/** Lets through a number of lines in each interval, and counts the rest. */
struct base_log_limit {
    struct base_spin lock;
    uint32_t lines_max;
    uint32_t lines; /* in the present interval */
    uint64_t interval_ns;
    uint64_t begin_ns; /* of the present interval */
    uint64_t suppressed_count;
};

/**
 * A state in which one request after the other is refused, such as a full store. However many are, the log gets a line
 * when the state begins, and one when it has ended. It has ended when something was accepted and the last refusal is
 * BASE_LOG_SPELL_QUIET_NS ago, so that a state that comes and goes with every request is one state. All zero is ready
 * for use.
 */
struct base_log_spell {
    _Atomic bool lasts;
    struct base_spin lock;  /* of what follows */
    uint64_t refused_count; /* since the state began */
    uint64_t begin_ns;
    uint64_t last_ns; /* of the last refusal */
};

#define BASE_LOG_SPELL_QUIET_NS UINT64_C(3000000000)

/**
 * Make a log.
 *
 * @param sink, sink_arg    where lines go; called without a lock
 * @param clock, clock_arg  civil time, nanoseconds since 1970 UTC
 */
void base_log_init(struct base_log *log, enum base_log_level level, base_log_sink_function *sink,
                   void *sink_arg, base_clock_function *clock, void *clock_arg);

/**
 * A sink that writes to a FILE, in one call for each line, and flushes.
 *
 * @param arg  FILE *
 */
void base_log_sink_file(void *arg, enum base_log_level level, const char *line, size_t len);

/**
 * Change which lines are written. Any thread.
 */
void base_log_set_level(struct base_log *log, enum base_log_level level);

/**
 * Whether lines of a level are written.
 *
 * @param log  NULL writes nothing
 */
bool base_log_enabled(const struct base_log *log, enum base_log_level level);

/**
 * "error", "warn", "info" or "debug".
 */
const char *base_log_level_name(enum base_log_level level);

/**
 * Write a line, if its level is on. Use the macros below.
 *
 * @param log     NULL writes nothing
 * @param event   what happened; it is quoted
 * @param format  fields as "key=value key=value"; spaces in front are left out
 */
void base_log_write(struct base_log *log, enum base_log_level level, const char *event, const char *format,
                    ...) base_printf_like(4, 5);

/**
 * Write a line, unless its limit is used up; the first line after some were left out has
 * the field suppressed=COUNT.
 *
 * @param log     NULL writes nothing
 * @param limit   shared by the lines that it limits together; outlives the call
 * @param event   what happened; it is quoted
 * @param format  fields as "key=value key=value"; spaces in front are left out
 */
void base_log_write_limited(struct base_log *log, struct base_log_limit *limit, enum base_log_level level,
                            const char *event, const char *format, ...) base_printf_like(5, 6);

/**
 * Make a limit.
 *
 * @param lines_max    lines in an interval, at least 1
 * @param interval_ns  length of an interval
 */
void base_log_limit_init(struct base_log_limit *limit, uint32_t lines_max, uint64_t interval_ns);

/**
 * Ask a limit for one line.
 *
 * @param now_ns                civil time; if it goes back, a new interval begins
 * @param ret_suppressed_count  how many were refused since the last that was allowed; set only if allowed
 * @return whether the line may be written
 */
bool base_log_limit_allow(struct base_log_limit *limit, uint64_t now_ns, uint64_t *ret_suppressed_count)
    base_must_check;

/**
 * Note a refusal. Any thread.
 *
 * @param log  whose clock is used
 * @return whether the state begins with it: then the caller writes a line
 */
bool base_log_spell_note(const struct base_log *log, struct base_log_spell *spell) base_must_check;

/**
 * Whether a state has ended, now that something was accepted: then the caller writes a line. Any thread; costs nothing
 * where nothing was refused.
 *
 * @param at_once            do not wait for quiet: nothing will be asked any more
 * @param ret_refused_count  in all that time; set only if it has ended, like the next
 * @param ret_lasted_ns      from the first refusal to the last
 */
bool base_log_spell_ended(const struct base_log *log, struct base_log_spell *spell, bool at_once,
                          uint64_t *ret_refused_count, uint64_t *ret_lasted_ns) base_must_check;

/**
 * Make a line: exactly one newline, at its end, then a zero byte; no control characters; valid UTF-8.
 *
 * @param buffer, room  at least BASE_LOG_ROOM_MIN; a longer line is cut, and ends in the mark
 * @param wall_ns       nanoseconds since 1970 UTC
 * @param event         what happened; it is quoted
 * @param format, args  fields as "key=value key=value"; spaces in front are left out
 * @return length of the line without the zero byte
 */
size_t base_log_format(char *buffer, size_t room, uint64_t wall_ns, enum base_log_level level,
                       const char *event, const char *format, va_list args) base_printf_like(6, 0);

/**
 * Put any bytes in double quotes, with quotes, backslashes, control characters and what is not UTF-8 escaped
 * (\" \\ \n \r \t \xNN), so that they are one value in a line or a message.
 *
 * @param buffer, room  at least 8; a longer text is cut, and ends in the mark and the quote
 * @param text, len     any bytes; may be NULL if len is 0
 * @return buffer
 */
const char *base_log_quote(char *buffer, size_t room, const void *text, size_t len);

/*
 * The macros for lines: (log, event) or (log, event, format, ...). The format is a literal, and the arguments
 * are evaluated only if the level is on.
 */
#define BASE_LOG_AT(log, level, event, ...)                                                                  \
    (base_log_enabled((log), (level)) ? base_log_write((log), (level), (event), " " __VA_ARGS__) : (void)0)
#define BASE_LOG_LIMITED_AT(log, limit, level, event, ...)                                                   \
    (base_log_enabled((log), (level))                                                                        \
         ? base_log_write_limited((log), (limit), (level), (event), " " __VA_ARGS__)                         \
         : (void)0)

#define base_error(log, ...) BASE_LOG_AT(log, BASE_LOG_ERROR, __VA_ARGS__)
#define base_warn(log, ...)  BASE_LOG_AT(log, BASE_LOG_WARN, __VA_ARGS__)
#define base_info(log, ...)  BASE_LOG_AT(log, BASE_LOG_INFO, __VA_ARGS__)
#define base_debug(log, ...) BASE_LOG_AT(log, BASE_LOG_DEBUG, __VA_ARGS__)

/* The same with a limit: (log, limit, event) or (log, limit, event, format, ...). */
#define base_error_limited(log, limit, ...) BASE_LOG_LIMITED_AT(log, limit, BASE_LOG_ERROR, __VA_ARGS__)
#define base_warn_limited(log, limit, ...)  BASE_LOG_LIMITED_AT(log, limit, BASE_LOG_WARN, __VA_ARGS__)
#define base_info_limited(log, limit, ...)  BASE_LOG_LIMITED_AT(log, limit, BASE_LOG_INFO, __VA_ARGS__)

#endif
