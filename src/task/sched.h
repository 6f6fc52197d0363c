/*
 * Schedulers: objects that a thread runs (the simulator steps many from one thread). Each has its
 * run queue, timers, stacks, buffers and one engine, and shares none of them.
 */
#ifndef TASK_SCHED_H
#define TASK_SCHED_H

#include "base/buffer.h"
#include "base/list.h"
#include "task/context.h"
#include "task/task.h"
#include <pthread.h>

/* A task's stack, where the options name no other size. */
#if defined(TASK_ASAN) || defined(TASK_TSAN)
#define TASK_STACK_BYTES (256U << 10)
#else
#define TASK_STACK_BYTES (64U << 10)
#endif

struct task_sched_options {
    const char *name;        /* the thread's name, also in the log; NULL: "sched" and a number */
    uint64_t spin_ns;        /* nanoseconds that an idle scheduler looks for work before it sleeps */
    uint32_t stack_bytes;    /* size of each task's stack; 0: TASK_STACK_BYTES */
    uint32_t tasks_max;      /* the most tasks alive at once; 0: 4,096 */
    uint32_t buffers_count;  /* number of buffers in the scheduler's pool; 0: 1,024 */
    uint32_t buffer_bytes;   /* size of each buffer; 0: 4,096 */
    uint32_t ring_entries;   /* entries of the engine's submission queue; 0: 1,024 */
    bool thread_personality; /* its tasks are treated as plain threads, for the simulator */
};

/* Statistics of a scheduler since it was opened; any thread may read them, and its own thread reads them exactly. */
struct task_sched_stats {
    uint64_t switches; /* number of times that a task got the processor */
    uint64_t spawned;
    uint64_t tasks; /* tasks alive now */
    uint64_t tasks_peak;
    uint64_t stacks; /* stacks mapped now, in use or pooled */
    uint64_t sleeps; /* number of times that it slept in the kernel */
    uint64_t wakes;  /* number of times that another thread woke it from such a sleep */
    uint64_t rounds;
};

/**
 * Make a scheduler of a node and its engine.
 *
 * @param options  NULL: the defaults
 * @return 0; -ENOMEM; -EUSERS (TASK_SCHEDS_MAX); the engine's error (logged with what to do).
 *         Any thread; one thread at a time opens and closes schedulers of a node.
 */
base_must_check int task_sched_open(struct tarn_node *node, const struct task_sched_options *options,
                                    struct task_sched **ret_sched);

/** Free a scheduler that no thread runs and that has no tasks (asserted). */
void task_sched_close(struct task_sched *sched);

/**
 * Free a scheduler together with its tasks, as a power cut would: nothing is unwound, and what the
 * tasks held is not given back. For the simulator only.
 */
void task_sched_abandon(struct task_sched *sched);

/**
 * Run the scheduler in the calling thread until task_sched_stop() was called and its last task has
 * ended. A scheduler that was never stopped may be run again.
 */
void task_sched_run(struct task_sched *sched);

/** Run it in a thread of its own; task_sched_join() waits for the end. @return as
 * task_thread_start() */
base_must_check int task_sched_start(struct task_sched *sched);

/** Wait for the thread of task_sched_start() after task_sched_stop(). Plain threads only: blocks. */
void task_sched_join(struct task_sched *sched);

/**
 * End it when its tasks have ended: from now on nothing can be spawned on it from elsewhere.
 * Tasks that must end for that are the caller's to cancel. Any thread or task.
 */
void task_sched_stop(struct task_sched *sched);

/**
 * Run one round: the tasks that are runnable now, due timers, one look at the engine; never sleeps.
 * For the simulator, which decides when each scheduler runs.
 *
 * @return true if a task ran or a message was handled
 */
bool task_sched_step(struct task_sched *sched);

/**
 * Take the processor from the running task and its scheduler, as an operating system may at any instruction: the round
 * is over, and the next one goes on in the same task. For the simulator only; a task of the scheduler that
 * task_sched_step() runs.
 */
void task_sched_preempt(struct task_sched *sched);

/** Whether a round would do something now. */
bool task_sched_runnable(const struct task_sched *sched);

/** The moment of its next timer, TASK_FOREVER if none. */
uint64_t task_sched_next_timer(const struct task_sched *sched);

/** Its node. */
struct tarn_node *task_sched_node(const struct task_sched *sched);

/** Its engine's name: "uring", "aio" or the simulator's. */
const char *task_sched_engine_name(const struct task_sched *sched);

/** Its place in node->scheds. */
uint32_t task_sched_index(const struct task_sched *sched);

/** Its buffers, for its own tasks only. */
struct base_buffer_pool *task_sched_buffers(struct task_sched *sched);

/** What it has done. Any thread. */
void task_sched_stats(const struct task_sched *sched, struct task_sched_stats *ret_stats);

/**
 * The deepest use that any stack of this scheduler ever had, in bytes: measured by the pages and words
 * that were touched. Slow (asks the kernel); for its own thread, or when no thread runs it.
 */
uint64_t task_sched_stack_peak_bytes(struct task_sched *sched);

/**
 * For a handler of memory faults: whether `address` lies in the guard below the running task's
 * stack, which then overflowed.
 *
 * @param ret_text  a sentence that names the task, written only if true. Async-signal-safe.
 */
bool task_fault_is_overflow(const void *address, char *ret_text, size_t room);

/* A function to run on a scheduler's own stack, soon; the memory is the caller's until it runs. */
struct task_message {
    struct task_message *next;
    void (*run)(struct task_message *message); /* must not yield */
};

/**
 * Have a message run by a scheduler; one that is not running yet keeps it until it does or is closed.
 *
 * @return false: the scheduler has ended, the message will not run. Any thread or task.
 */
bool task_sched_post(struct task_sched *sched, struct task_message *message);

/*
 * A source of completions that a scheduler polls once a round, besides the engine: those that only their owner
 * can fetch. It is in the owner's memory from task_poller_add() to task_poller_remove() or closed(). Its
 * functions run on the scheduler's own stack and must not yield; poll() may post, and take the poller out.
 */
struct task_poller {
    struct base_list link; /* the scheduler's */

    /** Send posted requests and hand out completions. @return number of completions */
    uint32_t (*poll)(struct task_poller *poller);

    /** The scheduler is about to sleep. @return whether it may: then every completion from now on writes to
     * task_sched_wake_descriptor() */
    bool (*may_sleep)(struct task_poller *poller);

    /** The scheduler is being closed, by any thread: the poller was taken out and belongs to its owner again. */
    void (*closed)(struct task_poller *poller);
};

/** Have a poller polled from now on. The scheduler's own tasks and callbacks. */
void task_poller_add(struct task_sched *sched, struct task_poller *poller);

/** Have a poller polled no more. The scheduler's own tasks and callbacks. */
void task_poller_remove(struct task_poller *poller);

/** The engine's eventfd: a write to it ends the scheduler's sleep, or the next one. @return -1: the
 * engine has none (the simulator's) */
int task_sched_wake_descriptor(const struct task_sched *sched);

#endif
