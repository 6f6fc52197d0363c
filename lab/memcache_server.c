/* Measured servers as children: starting and stopping them, and reading what they have used. */
#include "lab/memcache_server.h"

#include "lab/memory_group.h"
#include "task/task.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    OUTPUT_ROOM = 4096,
    STEP_MS = 20,
    FAILED_TO_START = 127,
};

#define START_PATIENCE_NS (300 * BASE_NS_PER_SECOND) /* a store's file is written once first */
#define STOP_PATIENCE_NS  (60 * BASE_NS_PER_SECOND)

/* Whether it serves: a server may accept before it does. */
static int greet(const struct lab_memcache_server *server)
{
    char answer[BENCH_PROTOCOL_LINE_ROOM];
    bool resp = server->protocol == BENCH_PROTOCOL_RESP;
    int error = memcache_client_ask(&server->address, resp ? "*1\r\n$4\r\nPING\r\n" : "version\r\n", "\r\n",
                                    answer, sizeof(answer));
    if (error != 0)
        return error;
    return strncmp(answer, resp ? "+PONG" : "VERSION ", 5) == 0 ? 0 : -EAGAIN;
}

/* ---- a process ----------------------------------------------------------------------------------- */

bool lab_memcache_is_installed(const char *program)
{
    char path[LAB_MEMCACHE_PATH_ROOM];
    const char *folder = getenv("PATH");
    if (strchr(program, '/') != NULL || folder == NULL)
        return access(program, X_OK) == 0;
    for (;;) {
        size_t len = strcspn(folder, ":");
        (void)snprintf(path, sizeof(path), "%.*s/%s", (int)base_min(len, sizeof(path)), folder, program);
        if (access(path, X_OK) == 0)
            return true;
        if (folder[len] == '\0')
            return false;
        folder += len + 1;
    }
}

/* The child: becomes the server. What it prints goes to the channel, which so ends when it does. */
static int become(void *arg)
{
    struct lab_memcache_server *server = arg;
    if (server->memory_group != NULL) {
        int error = lab_memory_group_join(server->memory_group);
        if (error != 0) {
            (void)dprintf(LAB_CHILD_CHANNEL, "%s/cgroup.procs: %s\n", server->memory_group, strerror(-error));
            return FAILED_TO_START;
        }
    }
    if (dup2(LAB_CHILD_CHANNEL, STDOUT_FILENO) < 0 || dup2(LAB_CHILD_CHANNEL, STDERR_FILENO) < 0 ||
        fcntl(LAB_CHILD_CHANNEL, F_SETFD, FD_CLOEXEC) != 0)
        return FAILED_TO_START;
    (void)execvp(server->command.arguments[0], server->command.arguments);
    (void)fprintf(stderr, "%s: %s\n", server->command.arguments[0], strerror(errno));
    return FAILED_TO_START;
}

/* The end of what it has said, for a message. */
struct output {
    char text[OUTPUT_ROOM + 1];
    size_t len;
};

/*
 * Take what it says, for so long.
 *
 * @param output  may be NULL
 * @return whether it has ended
 */
static bool listen_to(int channel, uint64_t until_ns, struct output *output)
{
    for (;;) {
        char piece[512];
        uint64_t now_ns = task_now();
        struct pollfd poll_one = {.fd = channel, .events = POLLIN};
        int ms = now_ns >= until_ns ? 0 : (int)((until_ns - now_ns) / BASE_NS_PER_MS) + 1;
        int ready = poll(&poll_one, 1, ms);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return false;
        ssize_t got = recv(channel, piece, sizeof(piece), 0);
        if (got <= 0)
            return true;
        if (output == NULL)
            continue;
        size_t kept = base_min(output->len, OUTPUT_ROOM - sizeof(piece));
        memmove(output->text, output->text + (output->len - kept), kept);
        memcpy(output->text + kept, piece, (size_t)got);
        output->len = kept + (size_t)got;
        output->text[output->len] = '\0';
    }
}

/* @return 0; negative errno, its output in `output` */
static int wait_until_it_answers(struct lab_memcache_server *server, struct output *output)
{
    uint64_t until_ns = task_now() + START_PATIENCE_NS;
    for (;;) {
        if (listen_to(server->child.channel, task_now() + STEP_MS * BASE_NS_PER_MS, output))
            return -ECHILD;
        if (greet(server) == 0)
            return 0;
        if (task_now() > until_ns)
            return -ETIMEDOUT;
    }
}

/* Only once: to be asked twice is an order to some. */
void lab_memcache_server_ask_to_stop(struct lab_memcache_server *server)
{
    if (!server->running || server->asked)
        return;
    server->asked = true;
    (void)kill(server->child.pid, SIGTERM);
}

/* Stop it, without a word. @return 0; -ECHILD (it failed, or had to be killed) */
static int end_process(struct lab_memcache_server *server, struct output *output)
{
    lab_memcache_server_ask_to_stop(server);
    if (!listen_to(server->child.channel, task_now() + STOP_PATIENCE_NS, output))
        (void)kill(server->child.pid, SIGKILL);
    server->running = false;
    return lab_child_stop(&server->child);
}

int lab_memcache_server_start(struct lab_memcache_server *server)
{
    struct bench *bench = server->bench;
    struct output output = {.len = 0};
    if (server->command.full)
        return bench_fail(bench, -E2BIG, "start %s", server->name);
    int error = lab_child_start(&server->child, &bench->machine, 0, become, server);
    if (error != 0)
        return bench_fail(bench, error, "start %s", server->name);
    server->running = true;
    server->asked = false;
    error = wait_until_it_answers(server, &output);
    if (error == 0)
        return 0;
    (void)end_process(server, &output);
    if (output.len > 0)
        (void)fprintf(bench->err, "%s%s", output.text, output.text[output.len - 1] == '\n' ? "" : "\n");
    if (error == -ECHILD)
        return bench_fail(bench, error, "%s ended instead of serving", server->name);
    return bench_fail(bench, error, "%s does not serve", server->name);
}

int lab_memcache_server_stop(struct lab_memcache_server *server)
{
    struct output output = {.len = 0};
    if (!server->running)
        return 0;
    int error = end_process(server, &output);
    if (error == 0)
        return 0;
    (void)fputs(output.text, server->bench->err);
    return bench_fail(server->bench, error, "%s did not end as it should", server->name);
}

/* ---- what it has used ---------------------------------------------------------------------------- */

int lab_memcache_usage_read(pid_t pid, struct lab_memcache_usage *ret_usage)
{
    struct lab_memcache_usage usage = {0};
    char path[128];
    (void)snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
    int error = bench_number_read(path, "read_bytes: ", &usage.read_bytes);
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *folder = error == 0 ? opendir(path) : NULL;
    if (folder == NULL)
        return error != 0 ? error : -errno;
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        uint64_t ns = 0;
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%.32s/schedstat", (int)pid, entry->d_name);
        if (bench_number_read(path, "", &ns) == 0) /* else it has just ended */
            usage.processor_ns += ns;
    }
    (void)closedir(folder);
    *ret_usage = usage;
    return 0;
}
