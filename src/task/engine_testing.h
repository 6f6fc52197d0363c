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

extern const enum task_engine_choice engine_testing_choices[];

/** The engine that the test's state names; leaves the test where it does not work. */
enum task_engine_choice engine_testing_choice(void **state);

/** task_testing_run() with the engine that the test's state names. */
void engine_testing_run(void **state, const struct task_sched_options *options, task_function *function,
                        void *arg);

/** Allow so many descriptors; leaves the test where that is not permitted. */
void engine_testing_need_descriptors(rlim_t count);

/** Post a request on the calling task's scheduler and wait for it. @return its result */
int engine_testing_do(struct task_io io);

#endif
