/*
 * A plain thread that uses a scheduler's connection: a task of that scheduler makes its call, while the thread waits.
 */
#include "fabric/fabric_internal.h"
#include <errno.h>

#define RETRY_NS UINT64_C(1000000) /* when there is no memory to ask the scheduler with */

/* A call, by the thread's arguments. */
struct proxy_call {
    struct tarn_fabric_connection *connection;
    struct tarn_fabric_op *ops;
    uint32_t count;
    void *data;
    uint32_t room;
    uint64_t deadline_ns;
    struct tarn_fabric_message *message;
    int result;
};

bool fabric_needs_proxy(const struct tarn_fabric_connection *connection)
{
    return connection->sched != NULL && task_is_thread();
}

static void run(struct task_sched *sched, task_function *function, struct proxy_call *call)
{
    struct task_group group;
    int error;
    task_group_init(&group);
    while ((error = task_spawn(sched, &group, "fabric-proxy", function, call)) == -ENOMEM)
        (void)task_sleep(RETRY_NS);
    base_assert(error == 0); /* a scheduler outlives its connections */
    base_assert(task_group_join(&group, TASK_FOREVER) == 0);
}

static void post(void *arg)
{
    struct proxy_call *call = arg;
    tarn_fabric_post(call->connection, call->ops, call->count);
}

static void wait(void *arg)
{
    struct proxy_call *call = arg;
    call->result = tarn_fabric_wait(call->ops, call->count, call->deadline_ns);
}

static void post_and_wait(void *arg)
{
    post(arg);
    wait(arg);
}

static void receive(void *arg)
{
    struct proxy_call *call = arg;
    call->result =
        tarn_fabric_receive(call->connection, call->data, call->room, call->deadline_ns, call->message);
}

static void fence(void *arg)
{
    struct proxy_call *call = arg;
    call->result = tarn_fabric_fence(call->connection, call->deadline_ns);
}

static void disconnect(void *arg)
{
    struct proxy_call *call = arg;
    tarn_fabric_disconnect(call->connection);
}

void fabric_proxy_post(struct tarn_fabric_connection *connection, struct tarn_fabric_op *ops, uint32_t count)
{
    run(connection->sched, post, &(struct proxy_call){.connection = connection, .ops = ops, .count = count});
}

int fabric_proxy_wait(struct tarn_fabric_op *ops, uint32_t count, uint64_t deadline_ns)
{
    struct proxy_call call = {.ops = ops, .count = count, .deadline_ns = deadline_ns};
    run(ops[0].connection->sched, wait, &call);
    return call.result;
}

int fabric_proxy_post_and_wait(struct tarn_fabric_connection *connection, struct tarn_fabric_op *op,
                               uint64_t deadline_ns)
{
    struct proxy_call call = {.connection = connection, .ops = op, .count = 1, .deadline_ns = deadline_ns};
    run(connection->sched, post_and_wait, &call);
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
    run(connection->sched, receive, &call);
    return call.result;
}

int fabric_proxy_fence(struct tarn_fabric_connection *connection, uint64_t deadline_ns)
{
    struct proxy_call call = {.connection = connection, .deadline_ns = deadline_ns};
    run(connection->sched, fence, &call);
    return call.result;
}

void fabric_proxy_disconnect(struct tarn_fabric_connection *connection)
{
    run(connection->sched, disconnect, &(struct proxy_call){.connection = connection});
}
