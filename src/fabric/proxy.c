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

static void make_call(void *arg)
{
    struct fabric_call *call = arg;
    switch (call->kind) {
    case FABRIC_CALL_POST:
        tarn_fabric_post(call->connection, call->ops, call->count);
        return;
    case FABRIC_CALL_WAIT:
        call->result = tarn_fabric_wait(call->ops, call->count, call->deadline_ns);
        return;
    case FABRIC_CALL_AWAIT:
        call->result = tarn_fabric_await(call->ops, call->count, call->deadline_ns);
        return;
    case FABRIC_CALL_AWAIT_ANY:
        call->result = tarn_fabric_await_any(call->any_ops, call->count, call->deadline_ns, call->ret_index);
        return;
    case FABRIC_CALL_TEST:
        call->result = tarn_fabric_test(call->ops) ? 1 : 0;
        return;
    case FABRIC_CALL_POST_AND_WAIT:
        tarn_fabric_post(call->connection, call->ops, 1);
        call->result = tarn_fabric_wait(call->ops, 1, call->deadline_ns);
        return;
    case FABRIC_CALL_RECEIVE:
        call->result = tarn_fabric_receive(call->connection, call->data, call->room, call->deadline_ns,
                                           call->ret_message);
        return;
    case FABRIC_CALL_FENCE:
        call->result = tarn_fabric_fence(call->connection, call->deadline_ns);
        return;
    case FABRIC_CALL_DISCONNECT:
        tarn_fabric_disconnect(call->connection);
        return;
    }
}

int fabric_proxy(struct fabric_call call)
{
    int error;
    while ((error = fabric_run_on(call.connection->sched, make_call, &call)) == -ENOMEM)
        (void)task_sleep(RETRY_NS);
    base_assert(error == 0); /* a scheduler outlives its connections */
    return call.result;
}
