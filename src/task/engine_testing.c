/* For tests that run with each engine. The test's state names it; one that does not work here is skipped. */
#include "task/engine_testing.h"

const enum task_engine_choice engine_testing_choices[] = {TASK_ENGINE_URING, TASK_ENGINE_AIO};

enum task_engine_choice engine_testing_choice(void **state)
{
    enum task_engine_choice choice = *(const enum task_engine_choice *)*state;
    const char *reason;
    if (choice == TASK_ENGINE_URING && task_uring_probe(&reason) != 0)
        skip();
    return choice;
}

void engine_testing_run(void **state, const struct task_sched_options *options, task_function *function,
                        void *arg)
{
    struct task_node_options node_options = {.log_level = BASE_LOG_ERROR,
                                             .engine_choice = engine_testing_choice(state)};
    task_testing_run(&node_options, options, function, arg);
}

void engine_testing_need_descriptors(rlim_t count)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur >= count)
        return;
    limit.rlim_cur = count;
    if (limit.rlim_max < count || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        skip();
}

int engine_testing_do(struct task_io io)
{
    struct net_call call = {.io = io};
    return net_call_run(&call, TASK_FOREVER);
}
