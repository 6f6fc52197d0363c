/*
 * For the tests of this layer and those above: run a function in a task of a fresh node with some
 * schedulers, each in a thread of its own, and close everything afterwards (which asserts that every
 * byte was given back).
 */
#include "task/testing.h"

void task_testing_true(bool holds, const char *text, const char *file, int line)
{
    if (!holds && gettid() != getpid())
        (void)fprintf(stderr, "%s:%d: %s does not hold\n", file, line, text);
    _assert_true(holds, text, file, line);
}

void task_testing_equal(uintmax_t a, uintmax_t b, const char *file, int line)
{
    if (a != b && gettid() != getpid())
        (void)fprintf(stderr, "%s:%d: %" PRIdMAX " != %" PRIdMAX "\n", file, line, (intmax_t)a, (intmax_t)b);
    _assert_int_equal(a, b, file, line);
}

/** First task of task_testing_run(): the test's function, then the end. */
static void task_testing_main(void *arg)
{
    struct task_testing *testing = arg;
    testing->function(testing);
    for (int i = 0; i < TASK_TESTING_SCHEDS; i++)
        task_sched_stop(testing->scheds[i]);
}

void task_testing_run(const struct task_node_options *node_options,
                      const struct task_sched_options *sched_options, task_function *function, void *arg)
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
