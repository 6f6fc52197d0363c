/* Tarn's echo server: a handler on one scheduler, whose thread has the core; the main thread answers. */
#include "lab/echo.h"
#include "lab/usage.h"

#include "bench/world.h"
#include "task/net.h"
#include <errno.h>

enum {
    ROOM_BYTES = 4096,      /* read at once */
    CONNECTIONS_SPARE = 16, /* accepted beyond those that are measured */
    CLOSING_MS_MAX = 10000, /* what connections may take to close */
};

struct server {
    const struct lab_echo_server *options;
    struct tarn_node *node;
    struct task_sched *sched;
    struct net_listener *listener;
    struct lab_echo_state state;
};

static void ready(struct net_connection *connection)
{
    uint8_t bytes[ROOM_BYTES];
    ssize_t got;
    while ((got = net_read_try(connection, bytes, sizeof(bytes))) > 0) {
        if (net_write(connection, bytes, (size_t)got, TASK_FOREVER) != 0)
            break;
    }
    if (got != -EAGAIN)
        net_close(connection);
}

static void closed(struct net_connection *connection)
{
    (void)connection;
}

static const struct net_handler handler = {.ready = ready, .closed = closed, .task_name = "echo"};

static int find_port(struct server *server)
{
    char text[NET_ADDRESS_TEXT_MAX];
    uint64_t port;
    net_listener_address(server->listener, text, sizeof(text));
    const char *colon = strrchr(text, ':');
    if (colon == NULL || base_parse_u64(colon + 1, &port) != 0)
        return -EINVAL;
    server->state.port = (uint16_t)port;
    return 0;
}

static int open_server(struct server *server)
{
    uint32_t connections_max = server->options->options->connections + CONNECTIONS_SPARE;
    struct task_sched_options options = {.name = "echo", .spin_ns = server->options->options->spin_ns};
    int error = bench_node_open(server->options->bench, server->options->options->engine, &server->node);
    if (error == 0)
        error = task_sched_open(server->node, &options, &server->sched);
    if (error == 0)
        error = net_listen(server->sched, "127.0.0.1:0", &server->sched, 1, &handler, NULL, NULL,
                           connections_max, &server->listener);
    if (error == 0)
        error = find_port(server);
    if (error == 0)
        (void)snprintf(server->state.engine, sizeof(server->state.engine), "%s",
                       task_sched_engine_name(server->sched));
    return error == 0 ? task_sched_start(server->sched) : error;
}

/* A task: end everything on the scheduler, then itself. */
static void finish(void *arg)
{
    struct server *server = arg;
    net_listener_close(server->listener);
    net_shutdown_all(server->sched);
    for (int ms = 0; ms < CLOSING_MS_MAX && net_connection_count(server->sched) > 0; ms++)
        (void)task_sleep(BASE_NS_PER_MS);
    task_sched_stop(server->sched);
}

int lab_echo_tarn(void *arg)
{
    struct server server = {.options = arg};
    char byte;
    server.state.error = open_server(&server);
    if (server.state.error != 0)
        return lab_child_answer(&server.state, sizeof(server.state)) == 0 ? 0 : 1;
    do {
        server.state.error = lab_usage_read(&server.state.usage);
    } while (lab_child_answer(&server.state, sizeof(server.state)) == 0 && lab_child_receive(&byte, 1) == 0);
    if (task_spawn(server.sched, NULL, "finish", finish, &server) != 0)
        return 1;
    task_sched_join(server.sched);
    task_sched_close(server.sched);
    task_node_close(server.node);
    return 0;
}
