/*
 * What loads an echo server: one thread around epoll on a core of its own, which it does not leave while it
 * measures. Messages of an open loop go to the connections in turn, so that which echo belongs to which
 * intended start follows from counting: the k-th echo of connection c of n is message k * n + c.
 */
#include "lab/echo.h"

#include "task/task.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 512,
    ROOM_BYTES = 16 << 10,
    WARM_UP_SHARE = 10, /* a tenth of the time comes before what counts */
};

#define PATIENCE_NS (10 * BASE_NS_PER_SECOND) /* for an echo */
#define SLEEP_NS    BASE_NS_PER_MS            /* at most, where there is one core for both sides */

struct connection {
    int fd;
    uint32_t number;
    uint32_t received_bytes; /* of the echo that is arriving */
    uint64_t owed_bytes;     /* of messages that the socket did not take yet */
    uint64_t answered;       /* echoes in this run */
    uint64_t begin_ns;       /* closed loop: of the message that is on its way */
};

struct load {
    struct base_account account;
    struct base_random random;
    int epoll;
    struct connection *connections;
    uint32_t connections_max;
    uint32_t count;
    const struct lab_echo_request *request;
    struct lab_echo_answer *answer;
    uint64_t count_from_ns; /* of a run: warm by then */
    uint64_t end_ns;
    uint64_t outstanding; /* messages without their echo */
    uint8_t message[ROOM_BYTES];
    uint8_t room[ROOM_BYTES];
};

/* ---- connections ------------------------------------------------------------------------------- */

static int send_all(int fd, const uint8_t *data, size_t bytes)
{
    return send(fd, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes ? 0 : -EPIPE;
}

/* See that what comes back is what was sent; the socket still blocks. */
static int try_echo(struct load *load, int fd)
{
    uint8_t echo[LAB_ECHO_BYTES];
    base_random_fill(&load->random, load->message, sizeof(echo));
    int error = send_all(fd, load->message, sizeof(echo));
    if (error != 0)
        return error;
    if (recv(fd, echo, sizeof(echo), MSG_WAITALL) != sizeof(echo))
        return -EPIPE;
    return memcmp(echo, load->message, sizeof(echo)) == 0 ? 0 : -EBADMSG;
}

static int connect_one(struct load *load, struct connection *connection)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons(load->request->port)};
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int error = connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
                        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0
                    ? -errno
                    : try_echo(load, fd);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = connection};
    if (error == 0 && epoll_ctl(load->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        error = -errno;
    if (error != 0) {
        (void)close(fd);
        return error;
    }
    *connection = (struct connection){.fd = fd, .number = load->count};
    return 0;
}

static int connect_all(struct load *load)
{
    if (load->request->connections > load->connections_max)
        return -EINVAL;
    int error = 0;
    while (error == 0 && load->count < load->request->connections) {
        error = connect_one(load, &load->connections[load->count]);
        if (error == 0)
            load->count++;
    }
    return error;
}

/* ---- what both loops do ------------------------------------------------------------------------ */

static void begin_run(struct load *load)
{
    uint64_t warm_up_ns = load->request->duration_ns / WARM_UP_SHARE;
    load->count_from_ns = task_now() + warm_up_ns;
    load->end_ns = load->count_from_ns + load->request->duration_ns;
    load->answer->elapsed_ns = load->request->duration_ns;
    load->outstanding = 0;
    for (uint32_t i = 0; i < load->count; i++) {
        load->connections[i].received_bytes = 0;
        load->connections[i].owed_bytes = 0;
        load->connections[i].answered = 0;
    }
}

/* Send what is owed, as far as the socket takes it; the rest goes when an echo has come. */
static int send_owed(struct load *load, struct connection *connection)
{
    size_t bytes = base_min(connection->owed_bytes, (uint64_t)ROOM_BYTES);
    ssize_t sent = send(connection->fd, load->message, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return errno == EAGAIN ? 0 : -errno;
    connection->owed_bytes -= (uint64_t)sent;
    return 0;
}

/* Send one message more. */
static int send_message(struct load *load, struct connection *connection)
{
    connection->owed_bytes += LAB_ECHO_BYTES;
    load->outstanding++;
    return send_owed(load, connection);
}

/*
 * Read all that has come on one connection. A read that does not fill the room has emptied it, and the next
 * arrival is a new edge.
 *
 * @return whole echoes that this completed; negative errno
 */
static int receive(struct load *load, struct connection *connection)
{
    uint64_t bytes = connection->received_bytes;
    ssize_t got;
    do {
        got = recv(connection->fd, load->room, ROOM_BYTES, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return -EPIPE;
        bytes += got < 0 ? 0 : (uint64_t)got;
    } while (got == ROOM_BYTES);
    uint64_t echoes = bytes / LAB_ECHO_BYTES;
    connection->received_bytes = (uint32_t)(bytes % LAB_ECHO_BYTES);
    if (echoes > load->outstanding)
        return -EBADMSG;
    load->outstanding -= echoes;
    return (int)echoes;
}

static void count_echo(struct load *load, uint64_t begin_ns, uint64_t now_ns)
{
    load->answer->all++;
    if (now_ns >= load->count_from_ns && now_ns < load->end_ns)
        load->answer->operations++;
    if (begin_ns >= load->count_from_ns && begin_ns < load->end_ns)
        base_histogram_add(&load->answer->latency, now_ns - begin_ns);
}

static int wait_events(struct load *load, struct epoll_event *events)
{
    const struct timespec timeout = {.tv_nsec = load->request->spin ? 0 : (long)SLEEP_NS};
    int count = epoll_pwait2(load->epoll, events, EVENTS_MAX, &timeout, NULL);
    return count < 0 && errno != EINTR ? -errno : count;
}

/* ---- closed loop: a message on each connection, the next when its echo has come ----------------- */

static int handle_closed(struct load *load, struct connection *connection)
{
    int echoes = receive(load, connection);
    if (echoes <= 0)
        return echoes;
    uint64_t now_ns = task_now();
    count_echo(load, connection->begin_ns, now_ns);
    if (now_ns >= load->end_ns)
        return 0;
    connection->begin_ns = now_ns;
    return send_message(load, connection);
}

static int run_closed(struct load *load)
{
    struct epoll_event events[EVENTS_MAX];
    int error = 0;
    begin_run(load);
    for (uint32_t i = 0; i < load->count && error == 0; i++) {
        load->connections[i].begin_ns = task_now();
        error = send_message(load, &load->connections[i]);
    }
    while (error == 0 && load->outstanding > 0) {
        int count = wait_events(load, events);
        for (int i = 0; i < count && error == 0; i++)
            error = handle_closed(load, events[i].data.ptr);
        if (count < 0)
            error = count;
        else if (count == 0 && task_now() > load->end_ns + PATIENCE_NS)
            error = -ETIMEDOUT;
    }
    return error;
}

/* ---- open loop: messages at their times, whether echoes come or not ----------------------------- */

static int handle_open(struct load *load, const struct bench_schedule *schedule,
                       struct connection *connection)
{
    int echoes = receive(load, connection);
    if (echoes < 0)
        return echoes;
    uint64_t now_ns = task_now();
    for (int i = 0; i < echoes; i++) {
        uint64_t number = connection->answered++ * load->count + connection->number;
        count_echo(load, bench_schedule_at(schedule, number), now_ns);
    }
    return connection->owed_bytes > 0 ? send_owed(load, connection) : 0;
}

static int run_open(struct load *load)
{
    struct epoll_event events[EVENTS_MAX];
    int error = 0;
    begin_run(load);
    const struct bench_schedule schedule = {.start_ns = task_now(), .rate = load->request->rate};
    uint64_t total = bench_schedule_due(&schedule, load->end_ns);
    uint64_t next = 0;
    while (error == 0 && (next < total || load->outstanding > 0)) {
        uint64_t now_ns = task_now();
        uint64_t due = base_min(bench_schedule_due(&schedule, now_ns), total);
        for (; next < due && error == 0; next++)
            error = send_message(load, &load->connections[next % load->count]);
        int count = wait_events(load, events);
        for (int i = 0; i < count && error == 0; i++)
            error = handle_open(load, &schedule, events[i].data.ptr);
        if (count < 0)
            error = count;
        else if (now_ns > load->end_ns + PATIENCE_NS)
            error = -ETIMEDOUT;
    }
    return error;
}

/* ---- requests ---------------------------------------------------------------------------------- */

static int answer_one(struct load *load)
{
    load->answer->operations = 0;
    load->answer->all = 0;
    base_histogram_reset(&load->answer->latency);
    if (load->request->order == LAB_ECHO_CONNECT)
        return connect_all(load);
    return load->request->rate == 0 ? run_closed(load) : run_open(load);
}

int lab_echo_load(void *arg)
{
    const struct lab_echo_server *options = arg;
    struct lab_echo_request request;
    struct lab_echo_answer answer;
    struct load load = {.request = &request, .answer = &answer, .connections_max = options->connections_max};
    base_account_init(&load.account, BASE_ACCOUNT_UNLIMITED);
    base_random_init(&load.random, options->bench->options.seed);
    size_t bytes = load.connections_max * sizeof(*load.connections);
    load.connections = base_alloc(&load.account, bytes);
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (load.connections == NULL || load.epoll < 0)
        return 1;
    while (lab_child_receive(&request, sizeof(request)) == 0) {
        answer.error = answer_one(&load);
        if (lab_child_answer(&answer, sizeof(answer)) != 0)
            break;
    }
    for (uint32_t i = 0; i < load.count; i++)
        (void)close(load.connections[i].fd);
    (void)close(load.epoll);
    base_free(&load.account, load.connections, bytes);
    base_account_deinit(&load.account);
    return 0;
}
