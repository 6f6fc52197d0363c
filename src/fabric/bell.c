/*
 * Sleeping until a condition holds. A task first looks at the condition for a moment, unless other tasks could run; then
 * its scheduler looks once a round, and arms the bell (asks the other side to ring it) only before it sleeps in the
 * kernel. A plain thread spins for a while and then sleeps. For a rare condition the bell is armed at once.
 */
#include "fabric/bell.h"
#include <errno.h>

#define SPIN_NS              UINT64_C(20000) /* how long a plain thread spins: longer than a short answer takes */
#define LOOKS_BETWEEN_CLOCKS 64
#define LOOKS_OF_TASK                                                                                        \
    400 /* looks while no other task can run: an answer often comes sooner than a change of tasks and back */

struct waiter {
    struct fabric_watch watch;
    struct task_wait wait;
    struct task_poller poller; /* looks at the condition once a round; a task's alone */
    const struct fabric_condition *condition;
};

void fabric_bell_init(struct fabric_bell *bell)
{
    base_spin_init(&bell->lock);
    base_list_init(&bell->waiters);
}

void fabric_bell_ring_locked(struct fabric_bell *bell)
{
    base_spin_assert_held(&bell->lock);
    /* a sleeper takes itself out of the list, with the lock held */
    base_list_for_each(item, &bell->waiters)
        (void)task_wait_wake(base_container_of(item, struct fabric_watch, link)->wait, 0);
}

void fabric_bell_ring(struct fabric_bell *bell)
{
    base_spin_lock(&bell->lock);
    fabric_bell_ring_locked(bell);
    base_spin_unlock(&bell->lock);
}

/* Take a place, and unlock. */
static void add_and_unlock(struct fabric_bell *bell, struct fabric_watch *watch)
{
    watch->bell = bell;
    base_list_push_back(&bell->waiters, &watch->link);
    base_spin_unlock(&bell->lock);
}

void fabric_bell_add(struct fabric_bell *bell, struct fabric_watch *watch)
{
    base_spin_lock(&bell->lock);
    add_and_unlock(bell, watch);
}

void fabric_bell_remove(struct fabric_watch *watch)
{
    base_spin_lock(&watch->bell->lock); /* a ring that is under way has finished once this lock is ours */
    base_list_remove(&watch->link);
    base_spin_unlock(&watch->bell->lock);
}

int fabric_bell_sleep_locked(struct fabric_bell *bell, uint64_t deadline_ns)
{
    struct task_wait wait;
    struct fabric_watch watch = {.wait = &wait};
    task_wait_init(&wait);
    base_spin_assert_held(&bell->lock);
    add_and_unlock(bell, &watch);
    int result = task_wait_park(&wait, deadline_ns);
    base_spin_lock(&bell->lock);
    base_list_remove(&watch.link);
    return result;
}

void fabric_bell_sleep_firmly_locked(struct fabric_bell *bell)
{
    struct task_wait wait;
    struct fabric_watch watch = {.wait = &wait};
    task_wait_init(&wait);
    base_spin_assert_held(&bell->lock);
    add_and_unlock(bell, &watch);
    (void)task_wait_park_firmly(&wait);
    base_spin_lock(&bell->lock);
    base_list_remove(&watch.link);
}

static bool is_ready(const struct fabric_condition *condition)
{
    return condition->ready(condition->arg);
}

/* Ask the other side to ring. @return whether the condition holds after all: then the bell may never ring for it */
static bool arm_condition(const struct fabric_condition *condition)
{
    if (condition->arm != NULL)
        condition->arm(condition->arg);
    return is_ready(condition);
}

static uint32_t poll_condition(struct task_poller *poller)
{
    struct waiter *waiter = base_container_of(poller, struct waiter, poller);
    return is_ready(waiter->condition) && task_wait_wake(&waiter->wait, 0) ? 1 : 0;
}

/* Arm the bell before the scheduler sleeps; the bell then wakes the task, and with it the scheduler. */
static bool may_sleep(struct task_poller *poller)
{
    return !arm_condition(base_container_of(poller, struct waiter, poller)->condition);
}

static void free_poller(struct task_poller *poller)
{
    (void)poller; /* only the simulator closes a scheduler that has a waiting task */
}

/* Let a plain thread look for a moment. @return whether the condition holds */
static bool spin_on_condition(const struct fabric_condition *condition, uint64_t deadline_ns)
{
    uint64_t until_ns = base_min(task_now() + SPIN_NS, deadline_ns);
    do {
        for (unsigned i = 0; i < LOOKS_BETWEEN_CLOCKS; i++) {
            if (is_ready(condition))
                return true;
        }
    } while (task_now() < until_ns);
    return false;
}

/* Let a task look for less than a microsecond, if its scheduler has nothing else to run. @return whether it holds */
static bool look_at_condition(struct task_sched *sched, const struct fabric_condition *condition)
{
    for (unsigned i = 0; i < LOOKS_OF_TASK && !task_sched_runnable(sched); i++) {
        if (is_ready(condition))
            return true;
    }
    return false;
}

/* Sleep once: until the bell rings or the condition holds. @return 0; -ETIMEDOUT; -ECANCELED */
static int sleep_once(struct fabric_bell *bell, const struct fabric_condition *condition,
                      uint64_t deadline_ns)
{
    struct waiter waiter = {
        .watch.wait = &waiter.wait,
        .condition = condition,
        .poller = {.poll = poll_condition, .may_sleep = may_sleep, .closed = free_poller}};
    struct task_sched *sched = task_sched_self();
    task_wait_init(&waiter.wait);
    fabric_bell_add(bell, &waiter.watch);
    const bool polls = sched != NULL && !condition->is_rare;
    if (polls)
        task_poller_add(sched, &waiter.poller);
    else if (arm_condition(condition))
        (void)task_wait_wake(&waiter.wait, 0); /* it holds already: end the wait before it begins */
    int result = task_wait_park(&waiter.wait, deadline_ns);
    if (polls)
        task_poller_remove(&waiter.poller);
    fabric_bell_remove(&waiter.watch);
    return result;
}

int fabric_bell_wait(struct fabric_bell *bell, const struct fabric_condition *condition, uint64_t deadline_ns)
{
    struct task_sched *sched = task_sched_self();
    if (is_ready(condition))
        return 0;
    if (!condition->is_rare &&
        (sched != NULL ? look_at_condition(sched, condition) : spin_on_condition(condition, deadline_ns)))
        return 0;
    while (!is_ready(condition)) {
        int error = sleep_once(bell, condition, deadline_ns);
        if (error != 0)
            return is_ready(condition) ? 0 : error;
    }
    return 0;
}
