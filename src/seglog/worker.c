/* Workers: how they are started, sleep, are woken and stopped. */
#include "seglog/worker_internal.h"
#include "task/thread.h"

void seglog_worker_init(struct seglog_worker *worker)
{
    base_spin_init(&worker->lock);
}

/* ---- sleeping -------------------------------------------------------------------------------------- */

void seglog_worker_poke(struct seglog_worker *worker)
{
    base_spin_lock(&worker->lock);
    worker->poked = true;
    if (worker->wait != NULL)
        (void)task_wait_wake(worker->wait, 0);
    worker->wait = NULL;
    base_spin_unlock(&worker->lock);
}

bool seglog_worker_sleep_until(struct seglog_worker *worker, uint64_t when_ns)
{
    struct task_wait wait;
    base_spin_lock(&worker->lock);
    bool poked = worker->poked;
    if (!poked) {
        task_wait_init(&wait);
        worker->wait = &wait;
    }
    worker->poked = false;
    base_spin_unlock(&worker->lock);
    if (poked)
        return true;
    (void)task_wait_park(&wait, when_ns);
    base_spin_lock(&worker->lock);
    poked = worker->poked;
    worker->wait = NULL;
    worker->poked = false;
    base_spin_unlock(&worker->lock);
    return poked;
}

/* ---- its life -------------------------------------------------------------------------------------- */

bool seglog_worker_stops(const struct seglog_worker *worker)
{
    /* Pairs with the release in seglog_worker_stop(). */
    return atomic_load_explicit(&worker->stopping, memory_order_acquire);
}

static void run_task(void *arg)
{
    struct seglog_worker *worker = arg;
    atomic_store_explicit(&worker->self, (uintptr_t)task_self(), memory_order_relaxed);
    worker->run(worker->arg);
    task_mutex_unlock(&worker->alive);
}

static void *run_thread(void *arg)
{
    struct seglog_worker *worker = arg;
    atomic_store_explicit(&worker->self, (uintptr_t)pthread_self(), memory_order_relaxed);
    worker->run(worker->arg);
    task_mutex_unlock(&worker->alive);
    return NULL;
}

int seglog_worker_start(struct seglog_worker *worker, const char *name, void (*run)(void *arg), void *arg)
{
    worker->run = run;
    worker->arg = arg;
    worker->is_thread = task_self() == NULL;
    task_mutex_init(&worker->alive);
    base_assert(task_mutex_lock_try(&worker->alive)); /* for the worker, which gives it back */
    task_group_init(&worker->group);
    int error = worker->is_thread ? task_thread_start(&worker->thread, name, run_thread, worker)
                                  : task_spawn(task_sched_self(), &worker->group, name, run_task, worker);
    worker->running = error == 0;
    return error;
}

void seglog_worker_stop(struct seglog_worker *worker)
{
    if (!worker->running)
        return;
    /* Pairs with the acquire in seglog_worker_stops(). */
    atomic_store_explicit(&worker->stopping, true, memory_order_release);
    seglog_worker_poke(worker);
    task_mutex_lock_firmly(&worker->alive);
    if (worker->is_thread)
        (void)pthread_join(worker->thread, NULL);
    while (task_group_join(&worker->group, TASK_FOREVER) != 0)
        task_yield(); /* the caller was cancelled; the worker is in its last steps */
    worker->running = false;
}

bool seglog_worker_is_self(const struct seglog_worker *worker)
{
    if (worker->is_thread != (task_self() == NULL))
        return false;
    uintptr_t self = worker->is_thread ? (uintptr_t)pthread_self() : (uintptr_t)task_self();
    /* relaxed: the worker sees what it has stored itself, all others something else */
    return self == atomic_load_explicit(&worker->self, memory_order_relaxed);
}
