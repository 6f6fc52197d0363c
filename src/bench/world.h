/*
 * A node with one or two schedulers for the time of a measurement: the first runs in the calling thread,
 * the second in one of its own.
 */
#ifndef BENCH_WORLD_H
#define BENCH_WORLD_H

#include "bench/bench.h"
#include "task/node.h"
#include "task/sched.h"
#include "task/task.h"

#define BENCH_WORLD_SCHEDS_MAX 2

struct bench_world {
    const struct bench *bench;
    struct tarn_node *node;
    struct task_sched *scheds[BENCH_WORLD_SCHEDS_MAX];
    uint32_t sched_count;
    task_function *function; /* gets this struct */
    void *arg;               /* the function's */
    int error;               /* the function's outcome */
};

/* How to make it; zero is a default everywhere. */
struct bench_world_options {
    enum task_engine_choice engine;
    uint32_t sched_count;
    struct task_sched_options sched;
    const void *drives; /* as in struct task_node_options, with its argument */
    void *drives_arg;
    uint64_t memory_bytes; /* as there; 0: no limit */
};

/**
 * Run a function as a task of the first scheduler, each scheduler on a core of its own, and close everything
 * after it has returned; other tasks must have ended then.
 *
 * @return the function's world->error; -ENOTSUP (no such engine here); -ENOMEM
 *
 * Blocks. Plain threads only.
 */
base_must_check int bench_world_run(const struct bench *bench, const struct bench_world_options *options,
                                    task_function *function, void *arg);

/**
 * Run a function in tasks of the calling task's scheduler, and wait for the end of all.
 *
 * @return 0; -ENOMEM: some were not begun. Yields.
 */
base_must_check int bench_tasks_run(uint32_t count, task_function *function, void *arg);

/** Make the node of a run: its seed, errors only in the log. @return as task_node_open() */
base_must_check int bench_node_open(const struct bench *bench, enum task_engine_choice engine,
                                    struct tarn_node **ret_node);

#endif
