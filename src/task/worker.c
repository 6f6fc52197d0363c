/* Workers: how they are started, sleep, are woken and stopped. */
#include "task/worker.h"
#include "task/thread.h"

void task_worker_init(struct task_worker *worker)
{
    base_spin_init(&worker->lock);
}

/* ---- sleeping -------------------------------------------------------------------------------------- */

void task_worker_poke(struct task_worker *worker)
{
    base_spin_lock(&worker->lock);
    worker->poked = true;
    if (worker->wait != NULL)
        (void)task_wait_wake(worker->wait, 0);
    worker->wait = NULL;
    base_spin_unlock(&worker->lock);
}

bool task_worker_sleep_until(struct task_worker *worker, uint64_t when_ns)
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

bool task_worker_await(struct task_worker *worker, uint64_t when_ns)
{
    while (!task_worker_stops(worker) && task_now() < when_ns)
        task_worker_sleep_until(worker, when_ns);
    return !task_worker_stops(worker);
}

/* ---- its life -------------------------------------------------------------------------------------- */

bool task_worker_stops(const struct task_worker *worker)
{
    /* Pairs with the release in task_worker_stop(). */
    return atomic_load_explicit(&worker->stopping, memory_order_acquire);
}

static void run_task(void *arg)
{
    struct task_worker *worker = arg;
    atomic_store_explicit(&worker->self, (uintptr_t)task_self(), memory_order_relaxed);
    worker->run(worker->arg);
    task_mutex_unlock(&worker->alive);
}

static void *run_thread(void *arg)
{
    struct task_worker *worker = arg;
    atomic_store_explicit(&worker->self, (uintptr_t)pthread_self(), memory_order_relaxed);
    worker->run(worker->arg);
    task_mutex_unlock(&worker->alive);
    return NULL;
}

int task_worker_start(struct task_worker *worker, const char *name, void (*run)(void *arg), void *arg)
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

void task_worker_stop(struct task_worker *worker)
{
    if (!worker->running)
        return;
    /* Pairs with the acquire in task_worker_stops(). */
    atomic_store_explicit(&worker->stopping, true, memory_order_release);
    task_worker_poke(worker);
    task_mutex_lock_firmly(&worker->alive);
    if (worker->is_thread)
        (void)pthread_join(worker->thread, NULL);
    task_group_join_firmly(&worker->group);
    worker->running = false;
}

bool task_worker_is_self(const struct task_worker *worker)
{
    if (worker->is_thread != (task_self() == NULL))
        return false;
    uintptr_t self = worker->is_thread ? (uintptr_t)pthread_self() : (uintptr_t)task_self();
    /* relaxed: the worker sees what it has stored itself, all others something else */
    return self == atomic_load_explicit(&worker->self, memory_order_relaxed);
}
