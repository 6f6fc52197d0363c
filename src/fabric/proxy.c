/*
 * Work on another scheduler. So a plain thread uses a scheduler's connection: a task of that scheduler makes its call,
 * while the thread waits.
 */
#include "fabric/fabric_internal.h"
#include <errno.h>

/* A function that runs on a scheduler while its caller waits. */
struct errand {
    task_function *function;
    void *arg;
    struct task_shared_future over;
};

static void run_errand(void *arg)
{
    struct errand *errand = arg;
    errand->function(errand->arg);
    task_shared_future_set(&errand->over, 0);
}

int fabric_run_on(struct task_sched *sched, task_function *function, void *arg)
{
    struct errand errand = {.function = function, .arg = arg};
    int value = 0;
    task_shared_future_init(&errand.over);
    int error = task_spawn(sched, NULL, "fabric", run_errand, &errand);
    if (error != 0)
        return error;
    while (task_shared_future_wait(&errand.over, TASK_FOREVER, &value) != 0)
        continue; /* wait on, even when cancelled: the other task uses this memory */
    return 0;
}

/* ---- calls -------------------------------------------------------------------------------------- */

#define RETRY_NS UINT64_C(1000000) /* pause before the next attempt when there is no memory for the message */

/* A call of a public function, with the thread's arguments. */
struct proxy_call {
    struct tarn_fabric_connection *connection;
    struct tarn_fabric_op *ops;
    struct tarn_fabric_op *const *set; /* instead of `ops`: of tarn_fabric_await_any() */
    uint32_t count;
    uint32_t *ret_index;
    void *data;
    uint32_t room;
    uint64_t deadline_ns;
    struct tarn_fabric_message *message;
    int result;
};

static void run_call(struct task_sched *sched, task_function *function, struct proxy_call *call)
{
    int error;
    while ((error = fabric_run_on(sched, function, call)) == -ENOMEM)
        (void)task_sleep(RETRY_NS);
    base_assert(error == 0); /* a scheduler outlives its connections */
}

static void post_call(void *arg)
{
    struct proxy_call *call = arg;
    tarn_fabric_post(call->connection, call->ops, call->count);
}

static void run_wait(void *arg)
{
    struct proxy_call *call = arg;
    call->result = tarn_fabric_wait(call->ops, call->count, call->deadline_ns);
}

static void run_await(void *arg)
{
    struct proxy_call *call = arg;
    call->result = tarn_fabric_await(call->ops, call->count, call->deadline_ns);
}

static void await_any(void *arg)
{
    struct proxy_call *call = arg;
    call->result = tarn_fabric_await_any(call->set, call->count, call->deadline_ns, call->ret_index);
}

static void run_test(void *arg)
{
    struct proxy_call *call = arg;
    call->result = tarn_fabric_test(call->ops);
}

static void post_and_wait(void *arg)
{
    post_call(arg);
    run_wait(arg);
}

static void receive_call(void *arg)
{
    struct proxy_call *call = arg;
    call->result =
        tarn_fabric_receive(call->connection, call->data, call->room, call->deadline_ns, call->message);
}

static void run_fence(void *arg)
{
    struct proxy_call *call = arg;
    call->result = tarn_fabric_fence(call->connection, call->deadline_ns);
}

static void run_disconnect(void *arg)
{
    struct proxy_call *call = arg;
    tarn_fabric_disconnect(call->connection);
}

void fabric_proxy_post(struct tarn_fabric_connection *connection, struct tarn_fabric_op *ops, uint32_t count)
{
    run_call(connection->sched, post_call,
             &(struct proxy_call){.connection = connection, .ops = ops, .count = count});
}

int fabric_proxy_wait(struct tarn_fabric_op *ops, uint32_t count, uint64_t deadline_ns)
{
    struct proxy_call call = {.ops = ops, .count = count, .deadline_ns = deadline_ns};
    run_call(ops[0].connection->sched, run_wait, &call);
    return call.result;
}

int fabric_proxy_await(struct tarn_fabric_op *ops, uint32_t count, uint64_t deadline_ns)
{
    struct proxy_call call = {.ops = ops, .count = count, .deadline_ns = deadline_ns};
    run_call(ops[0].connection->sched, run_await, &call);
    return call.result;
}

int fabric_proxy_await_any(struct tarn_fabric_op *const *ops, uint32_t count, uint64_t deadline_ns,
                           uint32_t *ret_index)
{
    struct proxy_call call = {.set = ops, .count = count, .deadline_ns = deadline_ns, .ret_index = ret_index};
    run_call(ops[0]->connection->sched, await_any, &call);
    return call.result;
}

bool fabric_proxy_test(struct tarn_fabric_op *op)
{
    struct proxy_call call = {.ops = op};
    run_call(op->connection->sched, run_test, &call);
    return call.result != 0;
}

int fabric_proxy_post_and_wait(struct tarn_fabric_connection *connection, struct tarn_fabric_op *op,
                               uint64_t deadline_ns)
{
    struct proxy_call call = {.connection = connection, .ops = op, .count = 1, .deadline_ns = deadline_ns};
    run_call(connection->sched, post_and_wait, &call);
    return call.result;
}

int fabric_proxy_receive(struct tarn_fabric_connection *connection, void *data, uint32_t room,
                         uint64_t deadline_ns, struct tarn_fabric_message *ret_message)
{
    struct proxy_call call = {.connection = connection,
                              .data = data,
                              .room = room,
                              .deadline_ns = deadline_ns,
                              .message = ret_message};
    run_call(connection->sched, receive_call, &call);
    return call.result;
}

int fabric_proxy_fence(struct tarn_fabric_connection *connection, uint64_t deadline_ns)
{
    struct proxy_call call = {.connection = connection, .deadline_ns = deadline_ns};
    run_call(connection->sched, run_fence, &call);
    return call.result;
}

void fabric_proxy_disconnect(struct tarn_fabric_connection *connection)
{
    run_call(connection->sched, run_disconnect, &(struct proxy_call){.connection = connection});
}
