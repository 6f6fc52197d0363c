/* A command line under construction, for what runs beside Tarn: fio, servers. */
#ifndef LAB_COMMAND_H
#define LAB_COMMAND_H

#include "base/base.h"
#include <sys/types.h>

enum {
    LAB_COMMAND_ARGUMENTS_MAX = 40,
    LAB_COMMAND_TEXT_ROOM = 8192, /* of all arguments */
};

/* Empty where it is all zero. */
struct lab_command {
    char *arguments[LAB_COMMAND_ARGUMENTS_MAX + 1]; /* pointers into text; the one behind the last is NULL */
    size_t count;
    char text[LAB_COMMAND_TEXT_ROOM];
    size_t used;
    bool quiet; /* what it says on standard error is dropped */
    bool full;  /* an argument had no room, and was left out with all after it: not to be run */
};

/** Add an argument, as a printf format; the first is the program. */
void lab_command_add(struct lab_command *command, const char *format, ...) base_printf_like(2, 3);

/** Add Tarn's program as the first. @param program  NULL: the tarn in the folder of this program */
void lab_command_add_tarn(struct lab_command *command, const char *program);

/**
 * Run it to its end, where this thread may run, and collect what it prints.
 *
 * @param until_ns  when it is killed
 * @return 0; -ENOENT (there is no such program); -ECHILD (it ended otherwise than with status 0); -ETIMEDOUT;
 *         -EFBIG (more than `room`); negative errno
 */
base_must_check int lab_command_run(struct lab_command *command, uint64_t until_ns, char *text, size_t room,
                                    size_t *ret_len);

/** Start it; what it prints is dropped. @return 0; as lab_command_run() */
base_must_check int lab_command_start(struct lab_command *command, pid_t *ret_pid);

/** Wait for the end of one that was started; it is killed at `until_ns`. */
void lab_command_end(pid_t pid, uint64_t until_ns);

/** Wait for the end of a process. @return 0; -ECHILD (it ended otherwise than with status 0) */
int lab_process_wait(pid_t pid);

#endif
