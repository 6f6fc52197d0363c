/* The insides of schedulers and tasks, for the files of this folder. */
#ifndef TASK_SCHED_INTERNAL_H
#define TASK_SCHED_INTERNAL_H

#include "base/heap.h"
#include "base/list.h"
#include "base/random.h"
#include "task/context.h"
#include "task/engine.h"
#include "task/node.h"
#include "task/sched.h"
#include "task/task.h"

/*
 * A task. It lies at the top of its own stack, at an offset that differs from stack to stack, so
 * that the hot lines of many tasks do not fall in the same cache sets.
 */
struct task {
    struct base_fifo_node run_link; /* run queue, or the pool of free tasks */
    struct task_context context;
    struct task_sched *sched;
    const uint64_t *guard_word;  /* at the bottom of a stack without a guard page, else NULL */
    struct task_wait *wait;      /* the cancellable wait that it is parked in, or NULL */
    struct task_message wake;    /* the message by which another thread makes the task runnable */
    struct task_message cancel;  /* the message by which another thread ends the task's wait */
    struct base_heap_node timer; /* the deadline of its wait; linked while it is parked with a deadline */
    task_function *function;
    void *arg;
    struct task_group *group;
    struct base_list group_link;
    _Atomic bool cancelled;
    _Atomic bool cancel_posted; /* `cancel` is in the inbox: the task may not be reused */
    bool ended;                 /* the task has ended, but is kept until `cancel` has run */
    uint32_t stack_number;      /* the number by which stack.c finds the stack */
    char name[TASK_NAME_MAX];
};

struct task_sched {
    /* touched at every switch */
    struct task *current; /* NULL: the scheduler's own stack runs */
    struct base_fifo runnable;
    uint32_t budget; /* number of tasks that may still run in this round */
    uint64_t switches;
    struct task_context context; /* of the scheduler's own stack */

    struct base_heap timers; /* of struct task, by deadline of its wait */
    const struct task_engine_ops *engine_ops;
    struct task_engine *engine;
    struct tarn_node *node;
    uint64_t trim_ns;             /* moment before which no stacks are given back again */
    struct task_stacks *stacks;   /* stack.c */
    struct base_fifo spawn_queue; /* tasks spawned from elsewhere that wait for a stack */
    struct base_list pollers;     /* of struct task_poller */
    struct base_buffer_pool buffers;
    struct base_random random;
    struct net_sched *net; /* the scheduler's sockets (net.c); made with its first connection */
    struct task_sched_options options;
    struct task_sched_stats stats;
    uint32_t index;
    bool begun; /* the engine knows the thread that runs the scheduler */
    char name[TASK_NAME_MAX];
    pthread_t thread;

    /* written by others */
    _Alignas(64) _Atomic(struct task_message *) inbox; /* a stack, newest first */
    _Atomic bool sleeping;                             /* pairs with inbox: see task_sched_post() */
    _Atomic bool stopping;
    struct task_message stop; /* the message of task_sched_stop(), posted once */
    _Atomic uint64_t wakes;
};

#define TASK_GUARD_WORD_VALUE UINT64_C(0x5ac3d1e96b2f8047)

/** Whether a task has grown beyond a stack that has no guard page. */
static inline bool task_overran(const struct task *task)
{
    return task->guard_word != NULL && *task->guard_word != TASK_GUARD_WORD_VALUE;
}

/* What stands in `inbox` when the scheduler has ended. */
#define TASK_INBOX_CLOSED ((struct task_message *)1)

/** The scheduler whose code the calling thread runs now, or NULL. */
struct task_sched *task_thread_sched(void);

/** Append a task that is not queued to its run queue. Own thread only. */
void task_make_runnable(struct task *task);

/** Leave the running task and run the next; returns when the task was made runnable and its turn came. */
void task_switch_away(struct task_sched *sched);

/** Leave a task that has ended, for ever. */
_Noreturn void task_switch_away_last(struct task_sched *sched);

/** End the wait of a parked task of the calling scheduler, if it has one that may end so. */
void task_interrupt(struct task *task, int32_t result);

/** Start tasks that were spawned from elsewhere, as far as there are stacks. @return whether one was started
 */
bool task_start_queued(struct task_sched *sched);

/** Refuse the tasks that are still in the spawn queue. */
void task_drop_queued(struct task_sched *sched);

/** Whether sockets wait for a stack, a descriptor or memory; net.c. */
bool net_sched_waits(const struct task_sched *sched);

/** Try again for the sockets that net_sched_waits() means, if their pause is over. @return whether a task was started */
bool net_sched_retry(struct task_sched *sched);

/** Close the connections that a scheduler still has. Its engine is closed already. */
void net_sched_close(struct task_sched *sched);

#endif
