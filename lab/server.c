/* A child that serves over the fabric, and the thread that asks it: beginning, measuring, end. Also command lines. */
#include "lab/server.h"
#include "lab/usage.h"

#include "bench/world.h"
#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#define PATIENCE_NS (60 * BASE_NS_PER_SECOND) /* it may fill a store first */

bool lab_server_is_shm(const struct lab_server *server)
{
    return strncmp(server->url, "shm", 3) == 0;
}

/* The child. It ends with its channel. */
static int serve(void *arg)
{
    struct lab_server *server = arg;
    struct tarn_fabric *fabric;
    struct tarn_node *node;
    int request;
    if (server->roams)
        bench_unpin(&server->bench->machine);
    int error = bench_node_open(server->bench, TASK_ENGINE_AUTO, &node);
    if (error == 0)
        error = tarn_fabric_open(node, server->url, &fabric);
    if (error == 0)
        error = server->begin(server, node, fabric);
    if (lab_child_answer(&error, sizeof(error)) != 0 || error != 0)
        return 0;
    if (server->obey != NULL)
        server->obey(server);
    while (lab_child_receive(&request, sizeof(request)) == 0)
        continue;
    return server->end(server) == 0 ? 0 : 1;
}

/* @return as lab_child_stop() */
static int end_child(struct lab_server *server)
{
    int error = lab_child_stop(&server->child);
    if (lab_server_is_shm(server))
        (void)unlink(server->address);
    return error;
}

int lab_server_start(struct lab_server *server)
{
    uint16_t port = 0;
    int answer;
    int error = lab_find_port(&port); /* of shm a number for the name */
    if (error == 0) {
        (void)snprintf(server->address, sizeof(server->address),
                       lab_server_is_shm(server) ? "/tmp/tarn-bench-%u" : "127.0.0.1:%u", port);
        error = lab_child_start(&server->child, &server->bench->machine, 1, serve, server);
    }
    if (error != 0)
        return bench_fail(server->bench, error, "start a server of %s", server->url);
    error = lab_child_call(&server->child, "", 0, &answer, sizeof(answer), PATIENCE_NS);
    if (error == 0 && answer == 0)
        return 0;
    (void)end_child(server);
    return bench_fail(server->bench, error != 0 ? error : answer, "a server of %s", server->url);
}

int lab_server_stop(struct lab_server *server)
{
    int error = end_child(server);
    return error == 0 ? 0 : bench_fail(server->bench, error, "the end of a server of %s", server->url);
}

int lab_client_run(const struct lab_server *server,
                   int (*function)(void *arg, struct tarn_node *node, struct tarn_fabric *fabric), void *arg)
{
    struct tarn_fabric *fabric;
    struct tarn_node *node;
    int error = bench_node_open(server->bench, TASK_ENGINE_AUTO, &node);
    if (error != 0)
        return error;
    bench_pin(&server->bench->machine, 0);
    error = tarn_fabric_open(node, server->url, &fabric);
    if (error == 0) {
        error = function(arg, node, fabric);
        tarn_fabric_close(fabric);
    }
    bench_unpin(&server->bench->machine);
    task_node_close(node);
    return error;
}

void lab_command_add_words(struct lab_command *command, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    command->full = command->full || len < 0 || (size_t)len >= sizeof(text);
    char *rest = NULL;
    for (const char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        lab_command_add(command, "%s", word);
}
