/* calls: a process serves a counter; another one, which it starts,
 * adds to it. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <tarn/rpc.h>
#include <unistd.h>

enum { ADD };

static const char address[] = "calls.socket";

/* The request is how much to add; the result, what the counter was
 * before. */
static int add(void *arg, struct tarn_rpc_request *request)
{
    uint64_t *counter = arg, more;
    if (request->bytes != sizeof(more))
        return -1;
    memcpy(&more, request->data, sizeof(more));
    memcpy(request->result, counter, sizeof(*counter));
    request->result_bytes = sizeof(*counter);
    *counter += more;
    return 0;
}

static const struct tarn_rpc_method methods[] = {
    [ADD] = {.name = "add", .function = add, .is_short = true}};

static int use(struct tarn_fabric *fabric)
{
    const uint64_t until = tarn_now_ns() + 10000000000u;
    struct tarn_rpc_connection *server;
    uint64_t more = 1, before = 0;
    struct tarn_rpc_call call = {.method = ADD,
                                 .request = &more,
                                 .request_bytes = sizeof(more),
                                 .result = &before,
                                 .room = sizeof(before),
                                 .deadline_ns = until};

    while (tarn_rpc_connect(fabric, address, NULL, until, &server) !=
           0) { /* until it listens */
        if (tarn_now_ns() > until)
            return 1;
    }
    int error = 0;
    for (more = 1; more <= 1000 && error == 0; more++)
        error = tarn_rpc_call(server, &call);
    printf("before the last call: %llu\n", (unsigned long long)before);
    tarn_rpc_disconnect(server);
    return error != 0;
}

int main(void)
{
    /* before there is a node: its threads stay in one process */
    pid_t child = fork();
    uint64_t counter = 0;
    const struct tarn_rpc_service service = {
        .methods = methods, .count = 1, .arg = &counter};
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    struct tarn_rpc_server *server;
    int status = 0, failed = 0;

    if (child < 0 || tarn_node_open(NULL, &node) != 0 ||
        tarn_fabric_open(node, "shm:", &fabric) != 0)
        return 1;
    if (child == 0) {
        failed = use(fabric);
    } else {
        if (tarn_rpc_serve(fabric, address, &service, NULL, &server) !=
            0)
            return 1;
        failed = waitpid(child, &status, 0) != child || status != 0;
        tarn_rpc_server_close(server);
        printf("in the end: %llu\n", (unsigned long long)counter);
    }
    tarn_fabric_close(fabric);
    tarn_node_close(node);
    return failed;
}
