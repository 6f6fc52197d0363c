/* A child that serves over the fabric, and the thread that asks it: beginning, measuring, end. */
#include "lab/server.h"
#include "lab/usage.h"

#include "bench/world.h"
#include <errno.h>
#include <unistd.h>

#define PATIENCE_NS (60 * BASE_NS_PER_SECOND) /* it may fill a store first */

static bool is_shm(const struct lab_server *server)
{
    return strncmp(server->url, "shm", 3) == 0;
}

/* @return as lab_child_stop() */
static int end_child(struct lab_server *server)
{
    int error = lab_child_stop(&server->child);
    if (is_shm(server))
        (void)unlink(server->address);
    return error;
}

int lab_server_start(struct lab_server *server, struct bench *bench, const char *url,
                     int (*function)(void *arg), void *arg)
{
    uint16_t port = 0;
    int answer;
    *server = (struct lab_server){.bench = bench, .url = url};
    int error = lab_find_port(&port); /* of shm a number for the name */
    if (error == 0) {
        (void)snprintf(server->address, sizeof(server->address),
                       is_shm(server) ? "/tmp/tarn-bench-%u" : "127.0.0.1:%u", port);
        error = lab_child_start(&server->child, &bench->machine, 1, function, arg);
    }
    if (error != 0)
        return bench_fail(bench, error, "start a server of %s", url);
    error = lab_child_call(&server->child, "", 0, &answer, sizeof(answer), PATIENCE_NS);
    if (error == 0 && answer == 0)
        return 0;
    (void)end_child(server);
    return bench_fail(bench, error != 0 ? error : answer, "a server of %s", url);
}

int lab_server_stop(struct lab_server *server)
{
    int error = end_child(server);
    return error == 0 ? 0 : bench_fail(server->bench, error, "the end of a server of %s", server->url);
}

int lab_client_run(struct bench *bench, const char *url,
                   int (*function)(void *arg, struct tarn_node *node, struct tarn_fabric *fabric), void *arg)
{
    struct tarn_fabric *fabric;
    struct tarn_node *node;
    int error = bench_node_open(bench, TASK_ENGINE_AUTO, &node);
    if (error != 0)
        return error;
    bench_pin(&bench->machine, 0);
    error = tarn_fabric_open(node, url, &fabric);
    if (error == 0) {
        error = function(arg, node, fabric);
        tarn_fabric_close(fabric);
    }
    bench_unpin(&bench->machine);
    task_node_close(node);
    return error;
}
