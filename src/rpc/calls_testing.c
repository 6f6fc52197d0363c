/* For the tests of calls: a service, a server of it, its clients, and calls that must succeed. */
#include "rpc/calls_testing.h"
#include <unistd.h>

/* ---- a service ---------------------------------------------------------------------------------- */

/* The result is the request, each byte one more. */
static int testing_echo(void *arg, struct tarn_rpc_request *request)
{
    struct testing_service *service = arg;
    const uint8_t *from = request->data;
    uint8_t *to = request->result;
    service->echoes++;
    request->result_bytes = base_min(request->bytes, request->room);
    for (uint32_t i = 0; i < request->result_bytes; i++)
        to[i] = (uint8_t)(from[i] + 1);
    request->epoch++;
    request->lease_ms++;
    return 0;
}

/* The same in a while, which the first byte says. */
static int testing_echo_later(void *arg, struct tarn_rpc_request *request)
{
    const uint8_t *from = request->data;
    if (request->bytes > 0)
        (void)task_sleep(from[0] % 7 * UINT64_C(20000));
    return testing_echo(arg, request);
}

static int testing_fail(void *arg, struct tarn_rpc_request *request)
{
    (void)arg;
    memcpy(request->result, "ask there", 9);
    request->result_bytes = 9;
    return -ESTALE;
}

static int testing_nap(void *arg, struct tarn_rpc_request *request)
{
    struct testing_service *service = arg;
    (void)request;
    service->naps++;
    do
        (void)task_sleep(service->nap_ns);
    while (service->nobody_wakes);
    return 0;
}

/* Short, but not quick: nothing else of its worker goes on meanwhile. */
static int testing_busy(void *arg, struct tarn_rpc_request *request)
{
    const struct testing_service *service = arg;
    const uint64_t until_ns = task_now() + service->nap_ns;
    (void)request;
    while (task_now() < until_ns)
        continue;
    return 0;
}

/* Nothing of its worker goes on until the test says so. */
static int testing_stuck(void *arg, struct tarn_rpc_request *request)
{
    struct testing_service *service = arg;
    (void)request;
    service->stuck++;
    while (service->nobody_wakes)
        (void)usleep(100);
    service->stuck--;
    return 0;
}

/* Ask the caller's own service for an echo, and answer that. */
static int testing_call_back(void *arg, struct tarn_rpc_request *request)
{
    struct tarn_rpc_call call = {.method = ECHO,
                                 .request = request->data,
                                 .request_bytes = request->bytes,
                                 .result = request->result,
                                 .room = request->room};
    (void)arg;
    int error = tarn_rpc_call(request->connection, &call);
    request->result_bytes = error == 0 ? call.result_bytes : 0;
    return error;
}

static const struct tarn_rpc_method testing_methods[METHODS] = {
    [ECHO] = {.name = "echo", .function = testing_echo, .is_short = true},
    [ECHO_LATER] = {.name = "echo_later", .function = testing_echo_later},
    [FAIL] = {.name = "fail", .function = testing_fail, .is_short = true},
    [NAP] = {.name = "nap", .function = testing_nap},
    [BUSY] = {.name = "busy", .function = testing_busy, .is_short = true},
    [STUCK] = {.name = "stuck", .function = testing_stuck, .is_short = true},
    [CALL_BACK] = {.name = "call_back", .function = testing_call_back},
};

/* ---- a server and its clients ------------------------------------------------------------------- */

void testing_serve(struct testing_fabric *testing, struct testing_calls *calls,
                   const struct tarn_rpc_serve_options *options)
{
    struct tarn_node *node = testing->node;
    memset(calls, 0, sizeof(*calls));
    calls->testing = testing;
    calls->service =
        (struct tarn_rpc_service){.methods = testing_methods, .count = METHODS, .arg = &calls->counts};
    if (node->sched_count > 1)
        assert_int_equal(rpc_serve(testing->fabric, testing->address, &calls->service, options,
                                   &node->scheds[1], TASK_TESTING_SCHEDS - 1, &calls->server),
                         0);
    else
        assert_int_equal(
            tarn_rpc_serve(testing->fabric, testing->address, &calls->service, options, &calls->server), 0);
}

struct tarn_rpc_connection *testing_client(struct testing_calls *calls,
                                           const struct tarn_rpc_connect_options *options)
{
    struct tarn_rpc_connection *connection;
    assert_int_equal(tarn_rpc_connect(testing_clients(calls->testing), calls->testing->address, options,
                                      TESTING_LATE, &connection),
                     0);
    return connection;
}

void testing_calls_open(struct testing_fabric *testing, struct testing_calls *calls,
                        const struct tarn_rpc_connect_options *options)
{
    testing_serve(testing, calls, NULL);
    calls->connection = testing_client(calls, options);
}

void testing_calls_close(struct testing_calls *calls)
{
    if (calls->connection != NULL)
        tarn_rpc_disconnect(calls->connection);
    tarn_rpc_server_close(calls->server);
}

void testing_call_init(struct testing_call *one, uint32_t method, uint32_t bytes, uint64_t round)
{
    memset(one, 0, sizeof(*one));
    testing_fill(one->request, bytes, round);
    one->call = (struct tarn_rpc_call){.method = method,
                                       .request = one->request,
                                       .request_bytes = bytes,
                                       .result = one->result,
                                       .room = sizeof(one->result),
                                       .epoch = round,
                                       .lease_ms = (uint32_t)round};
}

void testing_call_check(const struct testing_call *one)
{
    assert_true(one->call.finished && one->call.may_have_run);
    assert_int_equal(one->call.error, 0);
    assert_int_equal(one->call.result_bytes, one->call.request_bytes);
    for (uint32_t i = 0; i < one->call.request_bytes; i++)
        assert_int_equal(one->result[i], (uint8_t)(one->request[i] + 1));
    assert_int_equal(one->call.answer_epoch, one->call.epoch + 1);
    assert_int_equal(one->call.answer_lease_ms, one->call.lease_ms + 1);
}

void testing_expect_echo(struct tarn_rpc_connection *connection, uint32_t method, uint32_t bytes,
                         uint64_t round)
{
    struct testing_call one;
    testing_call_init(&one, method, bytes, round);
    assert_int_equal(tarn_rpc_call(connection, &one.call), 0);
    testing_call_check(&one);
}

int testing_plain_call(struct tarn_rpc_connection *connection, uint32_t method, uint64_t deadline_ns,
                       struct tarn_rpc_call *ret_call)
{
    *ret_call = (struct tarn_rpc_call){.method = method, .deadline_ns = deadline_ns};
    return tarn_rpc_call(connection, ret_call);
}

const struct tarn_rpc_connect_options testing_ways[TESTING_WAYS] = {
    {.way = TARN_RPC_FETCH},
    {.way = TARN_RPC_FETCH, .fetch_bytes = 16, .calls = 1},
    {.way = TARN_RPC_REPLY},
    {.way = TARN_RPC_REPLY, .calls = 1},
    {.way = TARN_RPC_ADAPTIVE, .calls = 3},
};

void testing_each_way(struct testing_fabric *testing, void (*function)(struct testing_calls *calls))
{
    for (unsigned i = 0; i < base_array_count(testing_ways); i++) {
        struct testing_calls calls;
        testing_calls_open(testing, &calls, &testing_ways[i]);
        function(&calls);
        testing_calls_close(&calls);
    }
}
