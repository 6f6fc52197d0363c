#include "bench/memcache_server.h"

#include "bench/memory_group.h"
#include "task/task.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    SECONDS_CONNECT = 5,
    SECONDS_ANSWER = 5,
    OUTPUT_ROOM = 4096,
    STATS_ROOM = 16 << 10,
    STEP_MS = 20,
    FAILED_TO_START = 127,
};

#define START_PATIENCE_NS (300 * BASE_NS_PER_SECOND) /* a store's file is written once first */
#define STOP_PATIENCE_NS  (60 * BASE_NS_PER_SECOND)

/* ---- addresses ----------------------------------------------------------------------------------- */

static int read_unix(const char *path, struct bench_memcache_address *ret_address)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(address.sun_path))
        return -EINVAL;
    memcpy(address.sun_path, path, len);
    *ret_address = (struct bench_memcache_address){.bytes = sizeof(address)};
    memcpy(&ret_address->address, &address, sizeof(address));
    return 0;
}

int bench_memcache_address_read(const char *text, struct bench_memcache_address *ret_address)
{
    static const char unix_prefix[] = "unix:";
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char host[256];
    if (strncmp(text, unix_prefix, sizeof(unix_prefix) - 1) == 0)
        return read_unix(text + sizeof(unix_prefix) - 1, ret_address);
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || (size_t)(colon - text) >= sizeof(host))
        return -EINVAL;
    uint64_t port;
    if (base_parse_u64(colon + 1, &port) != 0 || port < 1 || port > UINT16_MAX)
        return -EINVAL;
    size_t begin = text[0] == '[' && colon[-1] == ']' ? 1 : 0;
    (void)snprintf(host, sizeof(host), "%.*s", (int)((size_t)(colon - text) - 2 * begin), text + begin);
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return -ENOENT;
    *ret_address = (struct bench_memcache_address){.bytes = found->ai_addrlen};
    memcpy(&ret_address->address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

struct bench_memcache_address bench_memcache_address_of_port(uint16_t port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    struct bench_memcache_address address = {.bytes = sizeof(to)};
    memcpy(&address.address, &to, sizeof(to));
    return address;
}

int bench_memcache_connect(const struct bench_memcache_address *address)
{
    const struct timeval patience = {.tv_sec = SECONDS_CONNECT};
    const int on = 1;
    bool tcp = address->address.ss_family != AF_UNIX;
    int fd = socket(address->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0 &&
        (!tcp || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0) &&
        connect(fd, (const struct sockaddr *)&address->address, address->bytes) == 0)
        return fd;
    int error = errno == EINPROGRESS || errno == EAGAIN ? -ETIMEDOUT : -errno;
    (void)close(fd);
    return error;
}

/* ---- talking to it ------------------------------------------------------------------------------- */

/* Connect, send some text and receive until what has come ends with `end`. */
static int ask(const struct bench_memcache_address *address, const char *text, const char *end,
               char *ret_answer, size_t room)
{
    const struct timeval patience = {.tv_sec = SECONDS_ANSWER};
    int fd = bench_memcache_connect(address);
    if (fd < 0)
        return fd;
    size_t len = 0;
    int error = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
        send(fd, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text))
        error = -EPIPE;
    while (error == 0) {
        ssize_t got = recv(fd, ret_answer + len, room - 1 - len, 0);
        if (got <= 0) {
            error = got == 0 ? -EPIPE : errno == EAGAIN ? -ETIMEDOUT : -errno;
            break;
        }
        len += (size_t)got;
        ret_answer[len] = '\0';
        if (len >= strlen(end) && strcmp(ret_answer + len - strlen(end), end) == 0)
            break;
        if (len == room - 1)
            error = -EBADMSG;
    }
    (void)close(fd);
    return error;
}

size_t bench_memcache_find_stat(const char *answer, const char *name, const char **ret_value)
{
    char begin[128];
    int len = snprintf(begin, sizeof(begin), "STAT %s ", name);
    for (const char *line = answer; *line != '\0'; line += strspn(line, "\r\n")) {
        if (strncmp(line, begin, (size_t)len) == 0) {
            *ret_value = line + len;
            return strcspn(line + len, "\r\n");
        }
        line += strcspn(line, "\r\n");
    }
    return 0;
}

int bench_memcache_stat(const struct bench_memcache_address *address, const char *name, uint64_t *ret_value)
{
    char answer[STATS_ROOM];
    const char *value;
    int error = ask(address, "stats\r\n", "END\r\n", answer, sizeof(answer));
    if (error != 0)
        return error;
    size_t len = bench_memcache_find_stat(answer, name, &value);
    if (len == 0)
        return -ENOENT;
    return base_parse_u64_len(value, len, ret_value) == 0 ? 0 : -EBADMSG;
}

/* Whether it serves: a server may accept before it does. */
static int greet(const struct bench_memcache_server *server)
{
    char answer[BENCH_MEMCACHE_LINE_ROOM];
    bool resp = server->protocol == BENCH_MEMCACHE_RESP;
    int error =
        ask(&server->address, resp ? "*1\r\n$4\r\nPING\r\n" : "version\r\n", "\r\n", answer, sizeof(answer));
    if (error != 0)
        return error;
    return strncmp(answer, resp ? "+PONG" : "VERSION ", 5) == 0 ? 0 : -EAGAIN;
}

/* ---- a process ----------------------------------------------------------------------------------- */

bool bench_memcache_is_installed(const char *program)
{
    char path[BENCH_MEMCACHE_PATH_ROOM];
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
    struct bench_memcache_server *server = arg;
    if (server->memory_group != NULL) {
        int error = bench_memory_group_join(server->memory_group);
        if (error != 0) {
            (void)dprintf(BENCH_CHILD_CHANNEL, "%s/cgroup.procs: %s\n", server->memory_group,
                          strerror(-error));
            return FAILED_TO_START;
        }
    }
    if (dup2(BENCH_CHILD_CHANNEL, STDOUT_FILENO) < 0 || dup2(BENCH_CHILD_CHANNEL, STDERR_FILENO) < 0 ||
        fcntl(BENCH_CHILD_CHANNEL, F_SETFD, FD_CLOEXEC) != 0)
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
static int wait_until_it_answers(struct bench_memcache_server *server, struct output *output)
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
void bench_memcache_server_ask_to_stop(struct bench_memcache_server *server)
{
    if (!server->running || server->asked)
        return;
    server->asked = true;
    (void)kill(server->child.pid, SIGTERM);
}

/* Stop it, without a word. @return 0; -ECHILD (it failed, or had to be killed) */
static int end_process(struct bench_memcache_server *server, struct output *output)
{
    bench_memcache_server_ask_to_stop(server);
    if (!listen_to(server->child.channel, task_now() + STOP_PATIENCE_NS, output))
        (void)kill(server->child.pid, SIGKILL);
    server->running = false;
    return bench_child_stop(&server->child);
}

int bench_memcache_server_start(struct bench_memcache_server *server)
{
    struct bench *bench = server->bench;
    struct output output = {.len = 0};
    if (server->command.full)
        return bench_fail(bench, -E2BIG, "start %s", server->name);
    int error = bench_child_start(&server->child, &bench->machine, 0, become, server);
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

int bench_memcache_server_stop(struct bench_memcache_server *server)
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

int bench_memcache_usage_read(pid_t pid, struct bench_memcache_usage *ret_usage)
{
    struct bench_memcache_usage usage = {0};
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
