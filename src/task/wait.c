/* The one wait-and-wake primitive: tasks switch, plain threads sleep on a futex. */
#include "task/sched_internal.h"
#include "task/task.h"
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(_Atomic int32_t) == 4, "the kernel sleeps on 32-bit words");

void task_wait_init(struct task_wait *wait)
{
    base_list_init(&wait->link);
    wait->task = task_self();
    atomic_init(&wait->state, TASK_WAITING);
}

/* End the wait if it has not ended yet. */
static bool settle_wait(struct task_wait *wait, int32_t result)
{
    int32_t expected = TASK_WAITING;
    /* release: the waiter, which loads with acquire, sees all that the waker did before */
    return atomic_compare_exchange_strong_explicit(&wait->state, &expected, result, memory_order_acq_rel,
                                                   memory_order_acquire);
}

static long call_futex(_Atomic int32_t *word, int operation, int32_t value, const struct timespec *deadline)
{
    return syscall(SYS_futex, word, operation, value, deadline, NULL, FUTEX_BITSET_MATCH_ANY);
}

static int park_thread(struct task_wait *wait, uint64_t deadline_ns)
{
    struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                                .tv_nsec = (long)(deadline_ns % 1000000000)};
    int32_t state;
    while ((state = atomic_load_explicit(&wait->state, memory_order_acquire)) == TASK_WAITING) {
        long error = call_futex(&wait->state, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, TASK_WAITING,
                                deadline_ns == TASK_FOREVER ? NULL : &deadline);
        if (error != 0 && errno == ETIMEDOUT && settle_wait(wait, -ETIMEDOUT))
            return -ETIMEDOUT;
    }
    return state;
}

int task_wait_park(struct task_wait *wait, uint64_t deadline_ns)
{
    struct task *self = wait->task;
    if (self == NULL)
        return park_thread(wait, deadline_ns);
    struct task_sched *sched = self->sched;
    base_assert(sched->current == self);
    if (atomic_load_explicit(&self->cancelled, memory_order_relaxed) && settle_wait(wait, -ECANCELED))
        return -ECANCELED;
    self->wait = wait;
    if (deadline_ns != TASK_FOREVER)
        base_heap_insert(&sched->timers, &self->timer, deadline_ns);
    /* The caller that ends the wait makes this task runnable, exactly once, even if it does so before the switch. */
    task_switch_away(sched);
    self->wait = NULL;
    if (base_heap_is_linked(&self->timer))
        base_heap_remove(&sched->timers, &self->timer);
    return atomic_load_explicit(&wait->state, memory_order_acquire);
}

int task_wait_park_firmly(struct task_wait *wait)
{
    struct task *self = wait->task;
    if (self == NULL)
        return park_thread(wait, TASK_FOREVER);
    base_assert(self->sched->current == self);
    task_switch_away(self->sched);
    return atomic_load_explicit(&wait->state, memory_order_acquire);
}

bool task_wait_wake(struct task_wait *wait, int32_t result)
{
    struct task *task = wait->task; /* the wait of a plain thread may be gone once it is settled */
    if (!settle_wait(wait, result))
        return false;
    if (task == NULL)
        (void)call_futex(&wait->state, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, 1, NULL);
    else if (task->sched == task_thread_sched())
        task_make_runnable(task);
    else
        (void)task_sched_post(task->sched, &task->wake);
    return true;
}

void task_interrupt(struct task *task, int32_t result)
{
    if (task->wait != NULL && settle_wait(task->wait, result))
        task_make_runnable(task);
}
