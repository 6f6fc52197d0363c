/*
 * The node: the one object that everything of a Tarn instance hangs from. There are no globals, so
 * a thousand nodes can live in one process; the simulator makes its nodes with clocks and drives
 * of its own, and the layers above cannot tell.
 */
#ifndef TASK_NODE_H
#define TASK_NODE_H

#include "base/account.h"
#include "base/log.h"
#include "base/random.h"
#include "base/spin.h"
#include <stdatomic.h>
#include <stdint.h>

struct task_engine_ops;
struct task_sched;
struct tarn_node;

#define TASK_SCHEDS_MAX 256

/* The source of time. Both clocks count nanoseconds. */
struct task_clock {
    uint64_t (*monotonic)(void *arg);
    uint64_t (*wall)(void *arg); /* since 1970-01-01 UTC; may jump */
    void (*charge)(void *arg,
                   uint64_t ns); /* does what task_charge() promises; NULL: time passes by itself */
    void *arg;
};

enum task_engine_choice {
    TASK_ENGINE_AUTO, /* io_uring if the kernel has and allows it, else Linux AIO and epoll */
    TASK_ENGINE_URING,
    TASK_ENGINE_AIO,
};

struct task_node_options {
    const struct task_clock *clock; /* the source of time; NULL: the machine's */
    const struct task_engine_ops
        *engine;        /* the simulator's engine; NULL: a real one, as `engine_choice` says */
    void *engine_arg;   /* the argument of engine->open */
    const void *drives; /* the table by which `drive` opens drives; NULL: real drives */
    void *drives_arg;
    const void *fabric; /* the table by which `fabric` opens fabrics; NULL: real ones */
    void *fabric_arg;
    const void *cluster; /* a back end more, by which `cluster` joins; NULL: the real ones alone */
    void *cluster_arg;
    enum task_engine_choice engine_choice;
    bool
        warn_without_uring; /* log as a warning what io_uring lacks: for nodes that live long enough for it to matter */
    uint64_t memory_bytes; /* the most memory that the node takes, in bytes; 0: no limit */
    uint64_t seed;         /* seed of task_rng(); 0: one from the kernel */
    enum base_log_level log_level;
    base_log_sink_function *log_sink; /* the receiver of log lines; NULL: standard error */
    void *log_arg;
};

struct tarn_node {
    struct base_account memory;
    struct base_log log;
    struct task_clock clock;
    struct task_node_options options;
    _Atomic uint64_t
        wall_high_ns; /* the latest civil time that task_wall() has returned, which it never goes below */
    struct base_spin lock; /* protects the fields below */
    struct base_random random;
    struct task_sched *scheds[TASK_SCHEDS_MAX];
    uint32_t sched_count;
    uint64_t files_used;   /* one bit for each number of an open task_file */
    uint64_t files_opened; /* number of task_files opened since the start; the generation of the next one */
    uint64_t boot;         /* the result of task_boot(); never changes */
    const struct task_engine_ops
        *engine; /* the engine of the next scheduler; NULL until task_engine_choose() was called */
    _Atomic bool uring_complained; /* the warning that io_uring lacks something was written */
};

/**
 * Make a node.
 *
 * @return 0; -ENOMEM; an error of the kernel's random source. Any thread.
 */
base_must_check int task_node_open(const struct task_node_options *options, struct tarn_node **ret_node);

/** Free a node whose schedulers, drives and stores are closed and whose memory was all given back (asserted).
 */
void task_node_close(struct tarn_node *node);

/**
 * The number of this boot of the kernel: a store that was written in the same boot has not lost power since.
 * @return 0: not known, as with drives that are not the machine's. Any thread or task.
 */
static inline uint64_t task_boot(const struct tarn_node *node)
{
    return node->boot;
}

/**
 * Civil time that never goes back: the clock's, or the latest result so far if the clock was set
 * back. @return nanoseconds since 1970-01-01 UTC. Any thread or task.
 */
uint64_t task_wall(struct tarn_node *node);

/** Raise the high-water mark of civil time, for a store that kept it across a restart. */
void task_wall_raise(struct tarn_node *node, uint64_t wall_ns);

/** 64 random bits (not for secrets under the simulator): the scheduler's generator, or the node's. Any thread
 * or task. */
uint64_t task_rng(struct tarn_node *node);

/**
 * Random bytes that are fit for secrets: the kernel's, or those of the generator of a node that was opened with a seed.
 *
 * @return 0; an error of the kernel's source. Any thread or task.
 */
base_must_check int task_random_bytes(struct tarn_node *node, void *bytes, size_t count);

#endif
