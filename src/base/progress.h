/*
 * A progress bar for people. It is silent unless the stream is a terminal and the work has lasted for a
 * second; then it redraws at most ten times a second, without colour, in one line, however narrow the terminal is. What
 * else is printed there covers it. One owner.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdio.h>

#include "base/define.h"

struct base_progress {
    FILE *file;
    const char *label;
    const char *unit; /* NULL: bytes */
    uint64_t total;   /* 0: not known */
    base_clock_function *clock;
    void *clock_arg;
    uint64_t begin_ns;
    uint64_t drawn_ns; /* of the last drawing; 0 if there was none */
    bool silent;
};

/** Whether bars are drawn on a stream: a terminal, if TERM does not say that it cannot wipe a line. */
bool base_progress_suits(FILE *file);

/**
 * Begin. Draws nothing yet.
 *
 * @param file              usually stderr
 * @param label             borrowed until done
 * @param unit              "keys"; NULL for bytes, shown as sizes; borrowed until done
 * @param total             amount of the whole; 0 if not known
 * @param clock, clock_arg  monotonic time
 */
void base_progress_init(struct base_progress *progress, FILE *file, const char *label, const char *unit,
                        uint64_t total, base_clock_function *clock, void *clock_arg);

/**
 * Say how much is done, as often as you like.
 *
 * @param done  of the whole, not since the last call
 */
void base_progress_update(struct base_progress *progress, uint64_t done);

/** End: what was drawn is wiped. */
void base_progress_end(struct base_progress *progress);

/**
 * The line that would be drawn: label, percent, amount, rate, time left. For base_progress_update, and tests.
 *
 * @param buffer, room  128 suffices for short labels; cut off, and always terminated, if less
 * @param elapsed_ns    since the beginning
 * @return buffer
 */
const char *base_progress_format(const struct base_progress *progress, char *buffer, size_t room,
                                 uint64_t done, uint64_t elapsed_ns);

#endif
