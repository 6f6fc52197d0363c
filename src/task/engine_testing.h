/* For tests that run with each engine. The test's state names it; one that does not work here is skipped. */
#ifndef TASK_ENGINE_TESTING_H
#define TASK_ENGINE_TESTING_H

#include "task/engine_internal.h"
#include "task/net_internal.h"
#include "task/testing.h"
#include <errno.h>
#include <sys/resource.h>

#define ENGINE_TEST(test, engine, choice)                                                                    \
    {                                                                                                        \
        .name = #test "/" engine, .test_func = (test), .initial_state = (void *)(uintptr_t)(choice)          \
    }

/* The test's entries in the table of tests, one for each engine. */
#define ENGINE_TESTS(test)                                                                                   \
    ENGINE_TEST(test, "uring", &engine_testing_choices[0]),                                                  \
        ENGINE_TEST(test, "aio", &engine_testing_choices[1])

static base_unused const enum task_engine_choice engine_testing_choices[] = {TASK_ENGINE_URING,
                                                                             TASK_ENGINE_AIO};

/** The engine that the test's state names; leaves the test where it does not work. */
static inline enum task_engine_choice engine_testing_choice(void **state)
{
    enum task_engine_choice choice = *(const enum task_engine_choice *)*state;
    const char *reason;
    if (choice == TASK_ENGINE_URING && task_uring_probe(&reason) != 0)
        skip();
    return choice;
}

/** task_testing_run() with the engine that the test's state names. */
static inline void engine_testing_run(void **state, const struct task_sched_options *options,
                                      task_function *function, void *arg)
{
    struct task_node_options node_options = {.log_level = BASE_LOG_ERROR,
                                             .engine_choice = engine_testing_choice(state)};
    task_testing_run(&node_options, options, function, arg);
}

/** Allow so many descriptors; leaves the test where that is not permitted. */
static inline void engine_testing_need_descriptors(rlim_t count)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur >= count)
        return;
    limit.rlim_cur = count;
    if (limit.rlim_max < count || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        skip();
}

/** Post a request on the calling task's scheduler and wait for it. @return its result */
static inline int engine_testing_do(struct task_io io)
{
    struct net_call call = {.io = io};
    return net_call_run(&call, TASK_FOREVER);
}

#endif
