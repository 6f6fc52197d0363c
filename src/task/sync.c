/*
 * Futures, mutex, semaphore and channel: a spin lock, a list of waits, and hand-over. The caller that
 * makes something available gives it to the first waiter under the lock; a waiter that was not woken (its
 * deadline or a cancellation came first) takes itself out of the list under the same lock, so no
 * wake-up goes to a wait that has ended.
 */
#include "task/sched_internal.h"
#include "task/task.h"
#include <errno.h>

/* Wake the first waiter whose wait has not ended otherwise. The lock of the waiters is held. @return whether there was one */
static bool wake_first(struct base_list *waiters, int32_t result)
{
    struct base_list *first;
    while ((first = base_list_pop_front(waiters)) != NULL) {
        if (task_wait_wake(base_container_of(first, struct task_wait, link), result))
            return true;
    }
    return false;
}

static void wake_all(struct base_list *waiters, int32_t result)
{
    while (wake_first(waiters, result)) {
    }
}

/*
 * Park in a list; the caller has taken the lock and found nothing to take. The lock is free on return.
 *
 * @return the waker's result; or -ETIMEDOUT, -ECANCELED: no longer in the list
 */
static int park_unlock(struct base_spin *lock, struct base_list *waiters, uint64_t deadline_ns)
{
    struct task_wait wait;
    task_wait_init(&wait);
    base_list_push_back(waiters, &wait.link);
    base_spin_unlock(lock);
    int result = task_wait_park(&wait, deadline_ns);
    base_spin_lock(lock);
    if (base_list_is_linked(&wait.link))
        base_list_remove(&wait.link);
    base_spin_unlock(lock);
    return result;
}

/* ---- futures ---------------------------------------------------------------------------------- */

void task_future_init(struct task_future *future)
{
    base_list_init(&future->waiters);
    future->set = false;
}

void task_future_set(struct task_future *future, int value)
{
    base_assert(!future->set);
    future->value = value;
    future->set = true;
    wake_all(&future->waiters, 0);
}

int task_future_wait(struct task_future *future, uint64_t deadline_ns, int *ret_value)
{
    if (!future->set) {
        struct task_wait wait;
        task_wait_init(&wait);
        base_list_push_back(&future->waiters, &wait.link);
        int result = task_wait_park(&wait, deadline_ns);
        if (base_list_is_linked(&wait.link))
            base_list_remove(&wait.link);
        if (result != 0)
            return result;
    }
    *ret_value = future->value;
    return 0;
}

void task_shared_future_init(struct task_shared_future *future)
{
    base_spin_init(&future->lock);
    base_list_init(&future->waiters);
    future->set = false;
}

void task_shared_future_set(struct task_shared_future *future, int value)
{
    base_spin_lock(&future->lock);
    base_assert(!future->set);
    future->value = value;
    future->set = true;
    wake_all(&future->waiters, 0);
    base_spin_unlock(&future->lock);
}

int task_shared_future_wait(struct task_shared_future *future, uint64_t deadline_ns, int *ret_value)
{
    base_spin_lock(&future->lock);
    if (future->set) {
        base_spin_unlock(&future->lock);
    } else {
        int result = park_unlock(&future->lock, &future->waiters, deadline_ns);
        if (result != 0)
            return result;
    }
    *ret_value = future->value;
    return 0;
}

/* ---- mutex ------------------------------------------------------------------------------------ */

void task_mutex_init(struct task_mutex *mutex)
{
    base_spin_init(&mutex->lock);
    base_list_init(&mutex->waiters);
    mutex->held = false;
}

int task_mutex_lock(struct task_mutex *mutex, uint64_t deadline_ns)
{
    base_spin_lock(&mutex->lock);
    if (mutex->held)
        return park_unlock(&mutex->lock, &mutex->waiters, deadline_ns); /* handed over: it stays held */
    mutex->held = true;
    base_spin_unlock(&mutex->lock);
    return 0;
}

void task_mutex_lock_firmly(struct task_mutex *mutex)
{
    base_spin_lock(&mutex->lock);
    if (!mutex->held) {
        mutex->held = true;
        base_spin_unlock(&mutex->lock);
        return;
    }
    struct task_wait wait;
    task_wait_init(&wait);
    base_list_push_back(&mutex->waiters, &wait.link);
    base_spin_unlock(&mutex->lock);
    (void)task_wait_park_firmly(&wait);
}

bool task_mutex_lock_try(struct task_mutex *mutex)
{
    base_spin_lock(&mutex->lock);
    bool taken = !mutex->held;
    if (taken)
        mutex->held =
            true; /* never written while another holds it, who may read it: task_mutex_assert_held() */
    base_spin_unlock(&mutex->lock);
    return taken;
}

void task_mutex_unlock(struct task_mutex *mutex)
{
    base_spin_lock(&mutex->lock);
    base_assert(mutex->held);
    if (!wake_first(&mutex->waiters, 0))
        mutex->held = false;
    base_spin_unlock(&mutex->lock);
}

/* ---- semaphore -------------------------------------------------------------------------------- */

void task_semaphore_init(struct task_semaphore *semaphore, uint64_t count)
{
    base_spin_init(&semaphore->lock);
    base_list_init(&semaphore->waiters);
    semaphore->count = count;
}

int task_semaphore_wait(struct task_semaphore *semaphore, uint64_t deadline_ns)
{
    base_spin_lock(&semaphore->lock);
    if (semaphore->count == 0)
        return park_unlock(&semaphore->lock, &semaphore->waiters, deadline_ns);
    semaphore->count--;
    base_spin_unlock(&semaphore->lock);
    return 0;
}

bool task_semaphore_wait_try(struct task_semaphore *semaphore)
{
    base_spin_lock(&semaphore->lock);
    bool taken = semaphore->count > 0;
    if (taken)
        semaphore->count--;
    base_spin_unlock(&semaphore->lock);
    return taken;
}

void task_semaphore_post(struct task_semaphore *semaphore)
{
    base_spin_lock(&semaphore->lock);
    if (!wake_first(&semaphore->waiters, 0))
        semaphore->count++;
    base_spin_unlock(&semaphore->lock);
}

/* ---- channel ---------------------------------------------------------------------------------- */

int task_channel_init(struct task_channel *channel, struct base_account *account, uint32_t capacity)
{
    base_assert(capacity > 0);
    void **items = base_alloc(account, capacity * sizeof(*items));
    if (items == NULL)
        return -ENOMEM;
    base_spin_init(&channel->lock);
    base_list_init(&channel->senders);
    base_list_init(&channel->receivers);
    channel->items = items;
    channel->capacity = capacity;
    channel->head = 0;
    channel->count = 0;
    channel->closed = false;
    channel->account = account;
    return 0;
}

void task_channel_deinit(struct task_channel *channel)
{
    base_assert(base_list_empty(&channel->senders) && base_list_empty(&channel->receivers));
    base_free(channel->account, channel->items, channel->capacity * sizeof(*channel->items));
}

/*
 * A woken sender or receiver looks again, because another may have been quicker. No wake-up is lost when a
 * woken caller gives up: it was woken with the lock held, and looks once more before it gives up.
 */
int task_channel_send(struct task_channel *channel, void *item, uint64_t deadline_ns)
{
    int result = 0;
    base_spin_lock(&channel->lock);
    while (!channel->closed && channel->count == channel->capacity) {
        if (result != 0) {
            base_spin_unlock(&channel->lock);
            return result;
        }
        result = park_unlock(&channel->lock, &channel->senders, deadline_ns);
        base_spin_lock(&channel->lock);
    }
    if (channel->closed) {
        base_spin_unlock(&channel->lock);
        return -EPIPE;
    }
    channel->items[(channel->head + channel->count) % channel->capacity] = item;
    channel->count++;
    (void)wake_first(&channel->receivers, 0);
    base_spin_unlock(&channel->lock);
    return 0;
}

int task_channel_receive(struct task_channel *channel, uint64_t deadline_ns, void **ret_item)
{
    int result = 0;
    base_spin_lock(&channel->lock);
    while (channel->count == 0) {
        if (channel->closed || result != 0) {
            base_spin_unlock(&channel->lock);
            return result != 0 ? result : -EPIPE;
        }
        result = park_unlock(&channel->lock, &channel->receivers, deadline_ns);
        base_spin_lock(&channel->lock);
    }
    *ret_item = channel->items[channel->head];
    channel->head = (channel->head + 1) % channel->capacity;
    channel->count--;
    (void)wake_first(&channel->senders, 0);
    base_spin_unlock(&channel->lock);
    return 0;
}

void task_channel_close(struct task_channel *channel)
{
    base_spin_lock(&channel->lock);
    channel->closed = true;
    wake_all(&channel->senders, 0);
    wake_all(&channel->receivers, 0);
    base_spin_unlock(&channel->lock);
}
