/*
 * A worker: a task or a thread of the log's own, which sleeps when there is nothing to do. The service is
 * one, the scrubber another.
 */
#ifndef SEGLOG_WORKER_INTERNAL_H
#define SEGLOG_WORKER_INTERNAL_H

#include "base/base.h"
#include "task/task.h"
#include <pthread.h>
#include <stdatomic.h>

struct seglog_worker {
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
    void (*run)(void *arg);  /* until seglog_worker_stops() */
    void *arg;
};

/** Prepare one that may be poked before it is started. */
void seglog_worker_init(struct seglog_worker *worker);

/**
 * Start it: a task on the caller's scheduler when called by a task, else a thread.
 *
 * @param name  of the task and the thread; 15 letters at most, not copied
 * @return 0; -ENOMEM; pthread_create's error
 */
base_must_check int seglog_worker_start(struct seglog_worker *worker, const char *name,
                                        void (*run)(void *arg), void *arg);

/** Wake it, wait for its end, if it runs. Yields. */
void seglog_worker_stop(struct seglog_worker *worker);

/** Wake it, or have it not sleep the next time. */
void seglog_worker_poke(struct seglog_worker *worker);

/** Sleep until poked, or until a moment; not at all if poked since the last time. By the worker. Yields.
 * @return whether poked */
bool seglog_worker_sleep_until(struct seglog_worker *worker, uint64_t when_ns);

/** Whether it is to end. */
bool seglog_worker_stops(const struct seglog_worker *worker);

/** Whether the caller is the worker. */
bool seglog_worker_is_self(const struct seglog_worker *worker);

#endif
