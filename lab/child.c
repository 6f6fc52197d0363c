/* Children: forking a process for one side of a measurement, and its channel. */
#include "lab/child.h"
#include "lab/command.h"

#include "task/task.h"
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define STOP_PATIENCE_NS (20 * BASE_NS_PER_SECOND)

static int write_all(int channel, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    while (bytes > 0) {
        ssize_t written = send(channel, from, bytes, MSG_NOSIGNAL);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return -EPIPE;
        from += written;
        bytes -= (size_t)written;
    }
    return 0;
}

static int read_all(int channel, void *data, size_t bytes)
{
    uint8_t *to = data;
    while (bytes > 0) {
        ssize_t got = recv(channel, to, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -EPIPE;
        to += got;
        bytes -= (size_t)got;
    }
    return 0;
}

/*
 * Become a child: no descriptor of the parent's is kept, so that every channel has two ends only. If the
 * parent is dead already the channel has ended, and so will the child.
 */
static _Noreturn void run_child(const struct bench_machine *machine, int core, int channel,
                                int (*function)(void *arg), void *arg)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        _exit(1);
    if (channel != LAB_CHILD_CHANNEL && dup2(channel, LAB_CHILD_CHANNEL) < 0)
        _exit(1);
    if (close_range(LAB_CHILD_CHANNEL + 1, ~0U, 0) != 0)
        _exit(1);
    (void)malloc_trim(0); /* memory that the parent has freed would hide what this process takes */
    bench_pin(machine, core);
    int status = function(arg);
    (void)fflush(NULL);
    _exit(status);
}

int lab_child_start(struct lab_child *child, const struct bench_machine *machine, int core,
                    int (*function)(void *arg), void *arg)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -errno;
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        run_child(machine, core, ends[1], function, arg);
    int error = pid < 0 ? -errno : 0;
    (void)close(ends[1]);
    if (error != 0)
        (void)close(ends[0]);
    else
        *child = (struct lab_child){.pid = pid, .channel = ends[0]};
    return error;
}

/* Wait until there is something to read, or the other end has closed. */
static int wait_readable(int channel, uint64_t patience_ns)
{
    uint64_t until_ns = task_now() + patience_ns;
    for (;;) {
        uint64_t now_ns = task_now();
        if (now_ns >= until_ns)
            return -ETIMEDOUT;
        struct pollfd poll_one = {.fd = channel, .events = POLLIN};
        int ready =
            poll(&poll_one, 1, (int)base_min((until_ns - now_ns) / BASE_NS_PER_MS + 1, UINT64_C(60000)));
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return -errno;
    }
}

int lab_child_call(struct lab_child *child, const void *request, size_t request_bytes, void *ret_answer,
                   size_t answer_bytes, uint64_t patience_ns)
{
    int error = write_all(child->channel, request, request_bytes);
    if (error == 0)
        error = wait_readable(child->channel, patience_ns);
    return error != 0 ? error : read_all(child->channel, ret_answer, answer_bytes);
}

int lab_child_stop(struct lab_child *child)
{
    (void)shutdown(child->channel, SHUT_WR);
    if (wait_readable(child->channel, STOP_PATIENCE_NS) != 0)
        (void)kill(child->pid, SIGKILL);
    int error = lab_process_wait(child->pid);
    (void)close(child->channel);
    *child = (struct lab_child){.channel = -1};
    return error;
}

void lab_child_pause(const struct lab_child *child)
{
    (void)kill(child->pid, SIGSTOP);
}

void lab_child_resume(const struct lab_child *child)
{
    (void)kill(child->pid, SIGCONT);
}

int lab_child_receive(void *ret_request, size_t bytes)
{
    return read_all(LAB_CHILD_CHANNEL, ret_request, bytes);
}

int lab_child_answer(const void *answer, size_t bytes)
{
    return write_all(LAB_CHILD_CHANNEL, answer, bytes);
}
