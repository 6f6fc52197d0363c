/*
 * For the tests of this layer and those above: run a function in a task of a fresh node with some
 * schedulers, each in a thread of its own, and close everything afterwards (which asserts that every
 * byte was given back).
 */
#ifndef TASK_TESTING_H
#define TASK_TESTING_H

#include "base/testing.h"

#include "task/node.h"
#include "task/sched.h"
#include "task/task.h"
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define TASK_TESTING_SCHEDS 3

/*
 * Assertions for other threads than the one that runs the tests, and so for tasks of their schedulers: cmocka knows only
 * that one, and a failure elsewhere would end the program without a word. These print it first.
 */
void task_testing_true(bool holds, const char *text, const char *file, int line);

/** Assert that two numbers are equal, as task_testing_true() does. */
void task_testing_equal(uintmax_t a, uintmax_t b, const char *file, int line);

#undef assert_true
#undef assert_false
#undef assert_non_null
#undef assert_int_equal
#define assert_true(holds)     task_testing_true((holds) != 0, #holds, __FILE__, __LINE__)
#define assert_false(holds)    task_testing_true((holds) == 0, "!(" #holds ")", __FILE__, __LINE__)
#define assert_non_null(what)  task_testing_true((what) != NULL, #what, __FILE__, __LINE__)
#define assert_int_equal(a, b) task_testing_equal((uintmax_t)(a), (uintmax_t)(b), __FILE__, __LINE__)

struct task_testing {
    struct tarn_node *node;
    struct task_sched *scheds[TASK_TESTING_SCHEDS];
    task_function *function; /* gets this struct */
    void *arg;               /* the test's */
};

/** Run `function` as a task of scheds[0]; the defaults where options are NULL. */
void task_testing_run(const struct task_node_options *node_options,
                      const struct task_sched_options *sched_options, task_function *function, void *arg);

#endif
