/* What a fabric cannot be faster than: two threads and a cache line, two processes and a socket. */
#include "lab/echo.h"
#include "lab/fabric.h"

#include "task/task.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- a cache line -------------------------------------------------------------------------------- */

#define LINE_END UINT64_MAX

struct line {
    _Alignas(BASE_CACHE_LINE_BYTES) _Atomic uint64_t word; /* even: it is the other's turn */
    uint8_t rest[BASE_CACHE_LINE_BYTES - sizeof(uint64_t)];
    const struct bench *bench;
};

static void *line_answerer(void *arg)
{
    struct line *line = arg;
    uint64_t seen = 0, word;
    bench_pin(&line->bench->machine, 1);
    for (;;) {
        while ((word = atomic_load_explicit(&line->word, memory_order_acquire)) == seen) {
        }
        if (word == LINE_END)
            return NULL;
        seen = word + 1;
        atomic_store_explicit(&line->word, seen, memory_order_release);
    }
}

int lab_fabric_line(void *arg, struct bench_sample *sample)
{
    const struct lab_fabric_job *job = arg;
    struct line line = {.bench = job->bench};
    pthread_t thread;
    int error = -pthread_create(&thread, NULL, line_answerer, &line);
    if (error != 0)
        return error;
    bench_pin(&job->bench->machine, 0);
    uint64_t begin_ns = task_now(), until_ns = begin_ns + job->bench->options.duration_ns, word = 0, now_ns;
    do {
        for (uint32_t i = 0; i < lab_fabric_batch(job); i++) {
            atomic_store_explicit(&line.word, ++word, memory_order_release);
            while (atomic_load_explicit(&line.word, memory_order_acquire) != word + 1) {
            }
            word++;
        }
        now_ns = task_now();
    } while (now_ns < until_ns);
    atomic_store(&line.word, LINE_END);
    (void)pthread_join(thread, NULL);
    bench_unpin(&job->bench->machine);
    sample->operations = word / 2;
    sample->elapsed_ns = now_ns - begin_ns;
    return 0;
}

/* ---- a socket ------------------------------------------------------------------------------------ */

enum { CHUNK_BYTES = 256 << 10 };

/* What goes there and back for one operation: what has to, and no header. */
struct exchange {
    uint64_t request_bytes;
    uint64_t answer_bytes;
};

static struct exchange exchange_of(const struct lab_fabric_job *job)
{
    return (struct exchange){.request_bytes = job->op == LAB_FABRIC_READ ? LAB_FABRIC_BYTES_MIN : job->bytes,
                             .answer_bytes = job->op == LAB_FABRIC_WRITE ? LAB_FABRIC_BYTES_MIN : job->bytes};
}

/* Move what can be moved now. @return bytes; 0: none; negative errno, the end of the other side too */
static int64_t move(int fd, bool out, uint8_t *chunk, uint64_t bytes)
{
    size_t len = base_min(bytes, (uint64_t)CHUNK_BYTES);
    ssize_t moved =
        out ? send(fd, chunk, len, MSG_DONTWAIT | MSG_NOSIGNAL) : recv(fd, chunk, len, MSG_DONTWAIT);
    if (moved > 0)
        return moved;
    if (moved < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return moved == 0 ? -EPIPE : -errno;
}

struct socket_server {
    struct exchange exchange;
    uint8_t chunk[CHUNK_BYTES];
};

static int listen_anywhere(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, bytes) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
        return -errno;
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* In the child: tells its port, and answers until the other side closes. */
static int answer_socket(void *arg)
{
    struct socket_server *server = arg;
    struct lab_echo_state state = {.error = 0};
    int on = 1, listener = listen_anywhere(&state.port);
    state.error = base_min(listener, 0);
    if (lab_child_answer(&state, sizeof(state)) != 0 || listener < 0)
        return 0;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    uint64_t unanswered = 0, pending = 0;
    for (;;) {
        int64_t moved = move(fd, false, server->chunk, CHUNK_BYTES);
        if (moved < 0)
            return 0;
        unanswered += (uint64_t)moved;
        pending += unanswered / server->exchange.request_bytes * server->exchange.answer_bytes;
        unanswered %= server->exchange.request_bytes;
        moved = pending > 0 ? move(fd, true, server->chunk, pending) : 0;
        if (moved < 0)
            return 0;
        pending -= (uint64_t)moved;
    }
}

static int connect_port(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0)
        return fd;
    int error = -errno;
    (void)close(fd);
    return error;
}

static int ask_socket(const struct lab_fabric_job *job, int fd, uint8_t *chunk, struct bench_sample *sample)
{
    const struct exchange exchange = exchange_of(job);
    uint64_t begin_ns = task_now(), until_ns = begin_ns + job->bench->options.duration_ns, now_ns = begin_ns;
    uint64_t begun = 0, done = 0, unsent = 0, received = 0;
    for (uint64_t look = 0; now_ns < until_ns; look++) {
        uint64_t more = job->depth - (begun - done);
        begun += more;
        unsent += more * exchange.request_bytes;
        int64_t moved = unsent > 0 ? move(fd, true, chunk, unsent) : 0;
        if (moved < 0)
            return (int)moved;
        unsent -= (uint64_t)moved;
        moved = move(fd, false, chunk, CHUNK_BYTES);
        if (moved < 0)
            return (int)moved;
        received += (uint64_t)moved;
        done += received / exchange.answer_bytes;
        received %= exchange.answer_bytes;
        if (moved > 0 || look % 64 == 0)
            now_ns = task_now();
    }
    sample->operations = done;
    sample->elapsed_ns = now_ns - begin_ns;
    return 0;
}

/* Ask a child, which tells the port that it listens on. */
static int ask_child(const struct lab_fabric_job *job, int (*serve)(void *arg), struct bench_sample *sample)
{
    struct lab_child child;
    struct lab_echo_state state = {.error = 0};
    struct socket_server *server = base_alloc(job->bench->account, sizeof(*server));
    if (server == NULL)
        return -ENOMEM;
    server->exchange = exchange_of(job);
    int error = lab_child_start(&child, &job->bench->machine, 1, serve, server);
    if (error == 0) {
        bench_pin(&job->bench->machine, 0);
        error = lab_child_call(&child, "", 0, &state, sizeof(state), 10 * BASE_NS_PER_SECOND);
        if (error == 0)
            error = state.error;
        int fd = error == 0 ? connect_port(state.port) : error;
        error = fd < 0 ? fd : ask_socket(job, fd, server->chunk, sample);
        if (fd >= 0)
            (void)close(fd);
        bench_unpin(&job->bench->machine);
        int ended = lab_child_stop(&child);
        error = error != 0 ? error : ended;
    }
    base_free(job->bench->account, server, sizeof(*server));
    return error;
}

int lab_fabric_socket(void *arg, struct bench_sample *sample)
{
    return ask_child(arg, answer_socket, sample);
}

int lab_fabric_epoll(void *arg, struct bench_sample *sample)
{
    return ask_child(arg, lab_echo_epoll, sample);
}
