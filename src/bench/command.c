#include "bench/command.h"

#include <stdarg.h>
#include <stdio.h>

void bench_command_add(struct bench_command *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = sizeof(command->text) - command->used;
    int len = vsnprintf(command->text + command->used, room, format, args);
    va_end(args);
    command->full =
        command->full || len < 0 || (size_t)len >= room || command->count == BENCH_COMMAND_ARGUMENTS_MAX;
    if (command->full)
        return;
    command->arguments[command->count++] = command->text + command->used;
    command->used += (size_t)len + 1;
}
