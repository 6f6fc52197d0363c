/* Command lines: building one, and running it. */
#include "lab/command.h"

#include "task/task.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

void lab_command_add(struct lab_command *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = sizeof(command->text) - command->used;
    int len = vsnprintf(command->text + command->used, room, format, args);
    va_end(args);
    command->full =
        command->full || len < 0 || (size_t)len >= room || command->count == LAB_COMMAND_ARGUMENTS_MAX;
    if (command->full)
        return;
    command->arguments[command->count++] = command->text + command->used;
    command->used += (size_t)len + 1;
}

void lab_command_add_tarn(struct lab_command *command, const char *program)
{
    char self[4096];
    ssize_t len = program == NULL ? readlink("/proc/self/exe", self, sizeof(self) - 1) : -1;
    if (len < 0) {
        lab_command_add(command, "%s", program != NULL ? program : "tarn");
        return;
    }
    self[len] = '\0';
    const char *slash = strrchr(self, '/');
    lab_command_add(command, "%.*s/tarn", (int)(slash - self), self);
}

/* ---- running it ---------------------------------------------------------------------------------- */

/* Start it with its standard output there. @param output  -1: nowhere, and errors neither */
static int spawn(struct lab_command *command, int output, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0)
        return -error;
    error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0 && output >= 0)
        error = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (error == 0 && output < 0)
        error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (error == 0 && (output < 0 || command->quiet))
        error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (error == 0)
        error = posix_spawnp(ret_pid, command->arguments[0], &actions, NULL, command->arguments, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -error;
}

/* Read to the end. @return 0; -ETIMEDOUT; -EFBIG; negative errno */
static int read_output(int output, uint64_t until_ns, char *text, size_t room, size_t *ret_len)
{
    size_t len = 0;
    for (;;) {
        uint64_t now_ns = task_now();
        if (now_ns >= until_ns)
            return -ETIMEDOUT;
        struct pollfd poll_one = {.fd = output, .events = POLLIN};
        (void)poll(&poll_one, 1, (int)((until_ns - now_ns) / BASE_NS_PER_MS) + 1);
        if (poll_one.revents == 0)
            continue;
        ssize_t got = read(output, text + len, room - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        len += (size_t)got;
        if (len == room)
            return -EFBIG;
    }
    *ret_len = len;
    return 0;
}

int lab_process_wait(pid_t pid)
{
    int status = 0;
    pid_t ended;
    do
        ended = waitpid(pid, &status, 0);
    while (ended < 0 && errno == EINTR);
    return ended < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0 ? -ECHILD : 0;
}

int lab_command_run(struct lab_command *command, uint64_t until_ns, char *text, size_t room, size_t *ret_len)
{
    int ends[2];
    pid_t pid = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    int error = spawn(command, ends[1], &pid);
    (void)close(ends[1]);
    if (error != 0) {
        (void)close(ends[0]);
        return error;
    }
    base_assert(pid > 0);
    error = read_output(ends[0], until_ns, text, room, ret_len);
    (void)close(ends[0]);
    if (error != 0)
        (void)kill(pid, SIGKILL);
    int status = lab_process_wait(pid);
    return error != 0 ? error : status;
}

int lab_command_start(struct lab_command *command, pid_t *ret_pid)
{
    return spawn(command, -1, ret_pid);
}

void lab_command_end(pid_t pid, uint64_t until_ns)
{
    while (task_now() < until_ns) {
        pid_t ended = waitpid(pid, NULL, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR))
            return;
        (void)task_sleep(BASE_NS_PER_MS);
    }
    (void)kill(pid, SIGKILL);
    (void)lab_process_wait(pid);
}
