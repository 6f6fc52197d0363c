/* A command line under construction, for what runs beside Tarn: fio, servers. */
#ifndef BENCH_COMMAND_H
#define BENCH_COMMAND_H

#include "base/base.h"

enum {
    BENCH_COMMAND_ARGUMENTS_MAX = 40,
    BENCH_COMMAND_TEXT_ROOM = 8192, /* of all arguments */
};

/* Empty where it is all zero. */
struct bench_command {
    char
        *arguments[BENCH_COMMAND_ARGUMENTS_MAX + 1]; /* pointers into text; the one behind the last is NULL */
    size_t count;
    char text[BENCH_COMMAND_TEXT_ROOM];
    size_t used;
    bool full; /* an argument had no room, and was left out with all after it: not to be run */
};

/** Add an argument, as a printf format; the first is the program. */
void bench_command_add(struct bench_command *command, const char *format, ...) base_printf_like(2, 3);

#endif
