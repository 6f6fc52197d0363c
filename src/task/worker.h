/*
 * A worker: a task or a thread that does something in the background, and sleeps when there is nothing to do. A log's
 * service is one, its scrubber another.
 */
#ifndef TASK_WORKER_H
#define TASK_WORKER_H

#include "base/base.h"
#include "task/task.h"
#include <pthread.h>
#include <stdatomic.h>

struct task_worker {
    struct base_spin lock;  /* of the next two */
    bool poked;             /* there is something to do */
    struct task_wait *wait; /* it sleeps */
    _Atomic bool stopping;
    _Atomic bool running;
    bool is_thread;
    pthread_t thread;
    _Atomic uintptr_t self; /* the task or the pthread_t that runs it */
    struct task_group group;
    struct task_mutex alive; /* held until its end */
    void (*run)(void *arg);  /* until task_worker_stops() */
    void *arg;
};

/** Prepare one that may be poked before it is started. */
void task_worker_init(struct task_worker *worker);

/**
 * Start it: a task on the caller's scheduler when called by a task, else a thread.
 *
 * @param name  of the task and the thread; 15 letters at most, not copied
 * @return 0; -ENOMEM; pthread_create's error
 */
base_must_check int task_worker_start(struct task_worker *worker, const char *name, void (*run)(void *arg),
                                      void *arg);

/** Wake it, wait for its end, if it runs. Yields. */
void task_worker_stop(struct task_worker *worker);

/** Wake it, or have it not sleep the next time. */
void task_worker_poke(struct task_worker *worker);

/** Sleep until poked, or until a moment; not at all if poked since the last time. By the worker. Yields.
 * @return whether poked */
bool task_worker_sleep_until(struct task_worker *worker, uint64_t when_ns);

/** Sleep until a moment, however often it is poked. By the worker. Yields. @return false: it is to end */
bool task_worker_await(struct task_worker *worker, uint64_t when_ns);

/**
 * The moment at which a worker that keeps to a rate may go on.
 *
 * @param due_ns      that moment as it was before
 * @param begin_ns    when it began to read or write some bytes
 * @param rate_bytes  a second, at most
 */
static inline uint64_t task_worker_due(uint64_t due_ns, uint64_t begin_ns, uint64_t bytes,
                                       uint64_t rate_bytes)
{
    return base_max(due_ns, begin_ns) + bytes * BASE_NS_PER_SECOND / rate_bytes;
}

/** Whether it is to end. */
bool task_worker_stops(const struct task_worker *worker);

/** Whether the caller is the worker. */
bool task_worker_is_self(const struct task_worker *worker);

#endif
