/*
 * For the tests of this layer and those above: run a function in a task of a fresh node with some
 * schedulers, each in a thread of its own, and close everything afterwards (which asserts that every
 * byte was given back).
 */
#ifndef TASK_TESTING_H
#define TASK_TESTING_H

#include "task/node.h"
#include "task/sched.h"
#include "task/task.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define TASK_TESTING_SCHEDS 3

struct task_testing {
    struct tarn_node *node;
    struct task_sched *scheds[TASK_TESTING_SCHEDS];
    task_function *function; /* gets this struct */
    void *arg;               /* the test's */
};

/** First task of task_testing_run(): the test's function, then the end. */
static inline void task_testing_main(void *arg)
{
    struct task_testing *testing = arg;
    testing->function(testing);
    for (int i = 0; i < TASK_TESTING_SCHEDS; i++)
        task_sched_stop(testing->scheds[i]);
}

/** Run `function` as a task of scheds[0]; the defaults where options are NULL. */
static inline void task_testing_run(const struct task_node_options *node_options,
                                    const struct task_sched_options *sched_options, task_function *function,
                                    void *arg)
{
    struct task_testing testing = {.function = function, .arg = arg};
    struct task_node_options quiet = {.log_level = BASE_LOG_ERROR};
    assert_int_equal(task_node_open(node_options == NULL ? &quiet : node_options, &testing.node), 0);
    for (int i = 0; i < TASK_TESTING_SCHEDS; i++)
        assert_int_equal(task_sched_open(testing.node, sched_options, &testing.scheds[i]), 0);
    assert_int_equal(task_spawn(testing.scheds[0], NULL, "test", task_testing_main, &testing), 0);
    for (int i = 0; i < TASK_TESTING_SCHEDS; i++)
        assert_int_equal(task_sched_start(testing.scheds[i]), 0);
    for (int i = 0; i < TASK_TESTING_SCHEDS; i++)
        task_sched_join(testing.scheds[i]);
    for (int i = 0; i < TASK_TESTING_SCHEDS; i++)
        task_sched_close(testing.scheds[i]);
    task_node_close(testing.node);
}

#endif
