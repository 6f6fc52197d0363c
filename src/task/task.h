/*
 * task: tasks with stacks of their own, the schedulers that run them, and everything they wait for.
 *
 * Threading: a task belongs to the scheduler it was spawned on for all its life, and a scheduler
 * is run by one thread. What may be called from any thread or task says so; the rest is for the
 * scheduler's own tasks.
 * Yielding: a function that may suspend its caller says *Yields.* In a task it switches to another
 * task, in a plain thread it blocks the thread, under the simulator it lets virtual time pass.
 * Waiting: every wait has a deadline in nanoseconds of task_now(), TASK_FOREVER for none. It ends
 * by being woken, by the deadline (-ETIMEDOUT) or, in a task, by cancellation (-ECANCELED).
 * Errors: negative errno; output arguments stay untouched on failure.
 */
#ifndef TASK_TASK_H
#define TASK_TASK_H

#include "base/base.h"
#include "base/buffer.h"
#include "base/list.h"
#include "base/spin.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TASK_FOREVER  UINT64_MAX
#define TASK_NAME_MAX 24

struct tarn_node;
struct task;
struct task_sched;

typedef void task_function(void *arg);

/* ---- time and the caller ------------------------------------------------------------------- */

/**
 * Monotonic time of the caller's world: the processor's clock, or virtual time under the simulator.
 *
 * @return nanoseconds; only differences mean anything. Any thread or task.
 */
uint64_t task_now(void);

/**
 * Charge the running task with processor time, where time is virtual: its scheduler's time moves on by as much, while
 * other schedulers go on, so that the task's next step happens that much later for all. Where time is real this does
 * nothing. Any thread or task; a plain thread is charged nothing.
 *
 * @param ns  from a constant with a source, at a point that has a name: see src/sim/README.md, "The speed model"
 */
void task_charge(uint64_t ns);

/**
 * The running task, or NULL in a plain thread. A task of the plain-thread personality (the
 * simulator's stand-in for a thread) is a task here: its code runs on a scheduler.
 */
struct task *task_self(void);

/**
 * Whether the caller must be treated as a plain thread: no scheduler of its own to submit to, no
 * per-scheduler pools. True in plain threads and in tasks of the plain-thread personality.
 */
bool task_is_thread(void);

/** The scheduler that runs the caller, or NULL in a plain thread. */
struct task_sched *task_sched_self(void);

/** Name of the running task; "thread" in a plain thread. Never NULL, valid while the task lives. */
const char *task_name(void);

/* ---- the one wait-and-wake primitive -------------------------------------------------------- */

/*
 * One wait of one caller, on the caller's stack. It ends exactly once: by task_wait_wake(), by its
 * deadline, or by cancellation, whichever changes `state` first. After a wait that was not ended by
 * a waker, the waiter takes itself out of the waker's reach (under the waker's lock) before it
 * returns. Everything in Tarn that waits is built on this; task/README.md shows the transitions.
 */
struct task_wait {
    struct base_list link; /* place in the queue in which the waker looks; the waiter uses it as it likes */
    struct task *task;     /* NULL: a plain thread, which sleeps on `state` */
    _Atomic int32_t state; /* TASK_WAITING, then the result */
};

#define TASK_WAITING INT32_MIN

/** Prepare a wait of the calling task or thread. Its memory must live until the wait has ended. */
void task_wait_init(struct task_wait *wait);

/**
 * Sleep until the wait ends.
 *
 * @return the waker's result, or -ETIMEDOUT, or -ECANCELED (the task's group was cancelled)
 *
 * Yields. Called once for a wait, by the caller of task_wait_init().
 */
int task_wait_park(struct task_wait *wait, uint64_t deadline_ns);

/**
 * Sleep until a waker ends the wait, without deadline or cancellation: for waits whose waker holds
 * memory of the waiter. Yields.
 */
int task_wait_park_firmly(struct task_wait *wait);

/**
 * End a wait.
 *
 * @param result  what task_wait_park() returns; not TASK_WAITING
 * @return true if this call ended the wait; false if its deadline or a cancellation was first
 *
 * Any thread or task. The wait's memory may be gone when this returns true.
 */
bool task_wait_wake(struct task_wait *wait, int32_t result);

/* ---- tasks and groups ----------------------------------------------------------------------- */

/*
 * Tasks that are joined and cancelled as one. In the caller's memory, which must live until
 * task_group_join() has returned 0. Members may run on several schedulers.
 */
struct task_group {
    struct base_spin lock;
    struct base_list members; /* of struct task */
    struct base_list joiners; /* of struct task_wait */
    uint64_t running;
    bool cancelled;
};

/** An empty group. */
void task_group_init(struct task_group *group);

/**
 * Wait until no task of the group is running.
 *
 * @return 0; -ETIMEDOUT; -ECANCELED (the caller's own group was cancelled: its members still run)
 *
 * Yields. Any thread or task that is not a member.
 */
base_must_check int task_group_join(struct task_group *group, uint64_t deadline_ns);

/** Wait until no task of the group is running, without deadline or cancellation. Yields. Any thread or task that is not a
 * member. */
void task_group_join_firmly(struct task_group *group);

/**
 * Ask every member, present and future, to end: their waits return -ECANCELED, except firm ones.
 * Returns at once; join afterwards. Any thread or task.
 */
void task_group_cancel(struct task_group *group);

/**
 * Start a task.
 *
 * @param sched  the scheduler that runs it; NULL: the caller's own
 * @param group  the group that joins and cancels it; NULL: none
 * @param name   borrowed until return; cut to TASK_NAME_MAX - 1 characters
 * @return 0; -ENOMEM (no stack: the scheduler's limit or the memory cap is reached; when `sched` is
 *         another scheduler, only its message could not be had); -ESHUTDOWN (the scheduler stops);
 *         -ECANCELED (the group is cancelled)
 *
 * Any thread or task. On another scheduler a task that finds no stack waits in a queue for one.
 */
base_must_check int task_spawn(struct task_sched *sched, struct task_group *group, const char *name,
                               task_function *function, void *arg);

/** Let every other runnable task of this scheduler run first. In a plain thread: sched_yield(). Yields. */
void task_yield(void);

/**
 * Sleep until a moment of task_now(). Yields. Any thread or task.
 *
 * @return 0 when it has come; -ECANCELED
 */
int task_sleep_until(uint64_t when_ns);

/** Sleep for a time. Yields. Any thread or task. @return 0; -ECANCELED */
int task_sleep(uint64_t duration_ns);

/**
 * Sleep between two looks at something that others change: 2 us the first time, and longer each time, up to a millisecond. Yields. Any
 * thread or task.
 *
 * @param pause_ns  how long the last one was; 0 at first
 * @return 0; -ETIMEDOUT: the deadline has passed, and it did not sleep; -ECANCELED
 */
base_must_check int task_back_off(uint64_t *pause_ns, uint64_t deadline_ns);

/** Whether the running task was asked to end. False in plain threads. */
bool task_cancelled(void);

/* ---- futures -------------------------------------------------------------------------------- */

/* A value to come, within one scheduler: plain memory, no atomic operation. */
struct task_future {
    struct base_list waiters; /* of struct task_wait */
    bool set;
    int value;
};

/** A future without a value. */
void task_future_init(struct task_future *future);

/** Give the value, once, from a task or callback of the scheduler whose tasks wait. */
void task_future_set(struct task_future *future, int value);

/**
 * Wait for the value. Tasks of one scheduler only. Yields.
 *
 * @param ret_value  the value
 * @return 0; -ETIMEDOUT; -ECANCELED
 */
base_must_check int task_future_wait(struct task_future *future, uint64_t deadline_ns, int *ret_value);

/* A value to come, across schedulers and threads. */
struct task_shared_future {
    struct base_spin lock;
    struct base_list waiters;
    bool set;
    int value;
};

/** A shared future without a value. */
void task_shared_future_init(struct task_shared_future *future);

/**
 * Give the value, once. Any thread or task. The future may be gone when this returns: a waiter
 * that has seen the value owns the memory again.
 */
void task_shared_future_set(struct task_shared_future *future, int value);

/** Wait for the value. Yields. Any thread or task. @return 0; -ETIMEDOUT; -ECANCELED */
base_must_check int task_shared_future_wait(struct task_shared_future *future, uint64_t deadline_ns,
                                            int *ret_value);

/* ---- mutex, semaphore, channel: any thread or task ------------------------------------------- */

/* A lock that may be held across a yield. First come, first served: it is handed to the next waiter. */
struct task_mutex {
    struct base_spin lock;
    struct base_list waiters;
    bool held;
};

/** An open mutex. */
void task_mutex_init(struct task_mutex *mutex);

/** Take the lock. Yields. @return 0; -ETIMEDOUT; -ECANCELED: not taken */
base_must_check int task_mutex_lock(struct task_mutex *mutex, uint64_t deadline_ns);

/** Take the lock, without deadline or cancellation. Yields. */
void task_mutex_lock_firmly(struct task_mutex *mutex);

/** Take the lock if it is free. Never waits. */
bool task_mutex_lock_try(struct task_mutex *mutex);

/** Give the lock back, to the first waiter if there is one. Any task or thread may call it. */
void task_mutex_unlock(struct task_mutex *mutex);

/** Abort unless the lock is held. A function whose name ends in _locked begins with it. */
static inline void task_mutex_assert_held(const struct task_mutex *mutex)
{
    base_assert(mutex->held);
}

/* A counted permit, first come, first served. */
struct task_semaphore {
    struct base_spin lock;
    struct base_list waiters;
    uint64_t count;
};

/** A semaphore with `count` permits. */
void task_semaphore_init(struct task_semaphore *semaphore, uint64_t count);

/** Take one permit. Yields. @return 0; -ETIMEDOUT; -ECANCELED: none taken */
base_must_check int task_semaphore_wait(struct task_semaphore *semaphore, uint64_t deadline_ns);

/** Take one permit if there is one and no caller waits for one. Never waits. */
bool task_semaphore_wait_try(struct task_semaphore *semaphore);

/** Give one permit. */
void task_semaphore_post(struct task_semaphore *semaphore);

/* A bounded queue of pointers between any number of senders and receivers. */
struct task_channel {
    struct base_spin lock;
    struct base_list senders;
    struct base_list receivers;
    void **items; /* a ring of `capacity` slots */
    uint32_t capacity;
    uint32_t head;
    uint32_t count;
    bool closed;
    struct base_account *account;
};

/**
 * An empty channel.
 *
 * @param capacity  slots, 1 or more
 * @return 0; -ENOMEM
 */
base_must_check int task_channel_init(struct task_channel *channel, struct base_account *account,
                                      uint32_t capacity);

/** Free the slots. No caller may be waiting; pointers that were not received are forgotten. */
void task_channel_deinit(struct task_channel *channel);

/** Send a pointer. Yields while the channel is full. @return 0; -EPIPE (closed); -ETIMEDOUT; -ECANCELED */
base_must_check int task_channel_send(struct task_channel *channel, void *item, uint64_t deadline_ns);

/** Receive a pointer. Yields while it is empty. @return 0; -EPIPE (closed and empty); -ETIMEDOUT; -ECANCELED
 */
base_must_check int task_channel_receive(struct task_channel *channel, uint64_t deadline_ns, void **ret_item);

/** Close for senders: waiting ones get -EPIPE, and receivers still take the pointers that are there. */
void task_channel_close(struct task_channel *channel);

#endif
