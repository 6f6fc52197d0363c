/* Tasks: spawning, groups, the life of a task from its first to its last switch. */
#include "task/task.h"
#include "task/sched_internal.h"
#include "task/stack.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define BACK_OFF_FIRST_NS (2 * BASE_NS_PER_US)
#define BACK_OFF_MAX_NS   BASE_NS_PER_MS

/* A task to be started on another scheduler. */
struct spawn_request {
    struct task_message message;
    struct base_fifo_node link; /* in the target's spawn_queue */
    struct task_group *group;
    task_function *function;
    void *arg;
    struct tarn_node *node;
    struct task_sched *sched;
    char name[TASK_NAME_MAX];
};

static void set_counter(uint64_t *counter, uint64_t value)
{
    __atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

/* ---- groups ----------------------------------------------------------------------------------- */

void task_group_init(struct task_group *group)
{
    base_spin_init(&group->lock);
    base_list_init(&group->members);
    base_list_init(&group->joiners);
    group->running = 0;
    group->cancelled = false;
}

/* Count a task that is about to start. @return 0 or -ECANCELED */
static int group_enter(struct task_group *group)
{
    if (group == NULL)
        return 0;
    base_spin_lock(&group->lock);
    int error = group->cancelled ? -ECANCELED : 0;
    if (error == 0)
        group->running++;
    base_spin_unlock(&group->lock);
    return error;
}

/*
 * Make a task a member, so that it can be cancelled.
 *
 * @param counted  group_enter() was called for it
 * @return 0 or -ECANCELED
 */
static int group_add(struct task_group *group, struct task *task, bool counted)
{
    task->group = group;
    if (group == NULL)
        return 0;
    base_spin_lock(&group->lock);
    bool cancelled = group->cancelled;
    if (cancelled && !counted) {
        base_spin_unlock(&group->lock);
        return -ECANCELED;
    }
    base_list_push_back(&group->members, &task->group_link);
    atomic_store_explicit(&task->cancelled, cancelled, memory_order_relaxed);
    if (!counted)
        group->running++;
    base_spin_unlock(&group->lock);
    return 0;
}

/* A task has ended (or, with task NULL, was counted but never started). The group may be gone on return. */
static void group_leave(struct task_group *group, struct task *task)
{
    if (group == NULL)
        return;
    base_spin_lock(&group->lock);
    if (task != NULL)
        base_list_remove(&task->group_link);
    if (--group->running > 0) {
        base_spin_unlock(&group->lock);
        return;
    }
    /* Once unlocked, a joiner that looks may find the group empty and free it: take them all out first. */
    struct base_list joiners;
    base_list_init(&joiners);
    base_list_move_all(&joiners, &group->joiners);
    struct base_list *first;
    while ((first = base_list_pop_front(&joiners)) != NULL)
        (void)task_wait_wake(base_container_of(first, struct task_wait, link), 0);
    base_spin_unlock(&group->lock);
}

/* Enter the joiners of a group. @return false: none of its tasks is running */
static bool begin_join(struct task_group *group, struct task_wait *wait)
{
    task_wait_init(wait);
    base_spin_lock(&group->lock);
    const bool must_wait = group->running != 0;
    if (must_wait)
        base_list_push_back(&group->joiners, &wait->link);
    base_spin_unlock(&group->lock);
    return must_wait;
}

void task_group_join_firmly(struct task_group *group)
{
    struct task_wait wait;
    if (!begin_join(group, &wait))
        return;
    (void)task_wait_park_firmly(&wait);
    base_spin_lock(&group->lock); /* waits until group_leave() has let go of the group */
    base_spin_unlock(&group->lock);
}

int task_group_join(struct task_group *group, uint64_t deadline_ns)
{
    struct task_wait wait;
    if (!begin_join(group, &wait))
        return 0;
    int result = task_wait_park(&wait, deadline_ns);
    base_spin_lock(&group->lock); /* also waits until group_leave() has let go of the group */
    if (result != 0 && base_list_is_linked(&wait.link))
        base_list_remove(&wait.link);
    base_spin_unlock(&group->lock);
    return result;
}

static void run_cancel(struct task_message *message)
{
    struct task *task = base_container_of(message, struct task, cancel);
    atomic_store_explicit(&task->cancel_posted, false, memory_order_relaxed);
    if (task->ended)
        task_stacks_put(task->sched->stacks, task);
    else
        task_interrupt(task, -ECANCELED);
}

void task_group_cancel(struct task_group *group)
{
    base_spin_lock(&group->lock);
    group->cancelled = true;
    base_list_for_each(item, &group->members) {
        struct task *task = base_container_of(item, struct task, group_link);
        atomic_store_explicit(&task->cancelled, true, memory_order_relaxed);
        /* the member's own scheduler ends its wait: only there the task cannot end at the same time */
        if (!atomic_exchange_explicit(&task->cancel_posted, true, memory_order_relaxed))
            (void)task_sched_post(task->sched, &task->cancel);
    }
    base_spin_unlock(&group->lock);
}

bool task_cancelled(void)
{
    struct task *self = task_self();
    return self != NULL && atomic_load_explicit(&self->cancelled, memory_order_relaxed);
}

/* ---- the life of a task ------------------------------------------------------------------------ */

static void run_wake(struct task_message *message)
{
    task_make_runnable(base_container_of(message, struct task, wake));
}

_Noreturn static void task_main(void *arg)
{
    task_context_begin();
    struct task *self = arg;
    struct task_sched *sched = self->sched;
    self->function(self->arg);
    group_leave(self->group, self);
    set_counter(&sched->stats.tasks, sched->stats.tasks - 1);
    /*
     * The stack may go back to the pool before it is left: only this thread takes stacks, and it does so
     * after the switch. A cancellation that is under way still needs the task.
     */
    self->ended = true;
    if (!atomic_load_explicit(&self->cancel_posted, memory_order_relaxed))
        task_stacks_put(sched->stacks, self);
    task_switch_away_last(sched);
}

static void task_entry(void *arg)
{
    task_main(arg);
}

/* Start a task on the calling thread's scheduler. @return 0, -ENOMEM or, if not counted before, -ECANCELED */
static int start_task(struct task_sched *sched, struct task_group *group, bool counted, const char *name,
                      task_function *function, void *arg)
{
    struct task *task = task_stacks_get(sched->stacks);
    if (task == NULL)
        return -ENOMEM;
    size_t stack_bytes;
    void *bottom = task_stacks_bottom(sched->stacks, task, &stack_bytes);
    task_context_make(&task->context, bottom, stack_bytes, task_entry, task);
    task->sched = sched;
    task->wait = NULL;
    task->wake.run = run_wake;
    task->cancel.run = run_cancel;
    task->timer = (struct base_heap_node){0};
    task->function = function;
    task->arg = arg;
    task->ended = false;
    atomic_store_explicit(&task->cancelled, false, memory_order_relaxed);
    size_t length = strnlen(name, TASK_NAME_MAX - 1);
    memcpy(task->name, name, length);
    task->name[length] = '\0';
    if (group_add(group, task, counted) != 0) {
        task_stacks_put(sched->stacks, task);
        return -ECANCELED;
    }
    set_counter(&sched->stats.spawned, sched->stats.spawned + 1);
    set_counter(&sched->stats.tasks, sched->stats.tasks + 1);
    if (sched->stats.tasks > sched->stats.tasks_peak)
        set_counter(&sched->stats.tasks_peak, sched->stats.tasks);
    task_make_runnable(task);
    return 0;
}

static void free_request(struct spawn_request *request)
{
    base_free(&request->node->memory, request, sizeof(*request));
}

static void run_spawn(struct task_message *message)
{
    struct spawn_request *request = base_container_of(message, struct spawn_request, message);
    base_fifo_push(&request->sched->spawn_queue, &request->link);
}

bool task_start_queued(struct task_sched *sched)
{
    bool started = false;
    struct base_fifo_node *first;
    while ((first = base_fifo_first(&sched->spawn_queue)) != NULL) {
        struct spawn_request *request = base_container_of(first, struct spawn_request, link);
        if (start_task(sched, request->group, true, request->name, request->function, request->arg) != 0)
            break;
        (void)base_fifo_pop(&sched->spawn_queue);
        free_request(request);
        started = true;
    }
    return started;
}

void task_drop_queued(struct task_sched *sched)
{
    struct base_fifo_node *first;
    while ((first = base_fifo_pop(&sched->spawn_queue)) != NULL) {
        struct spawn_request *request = base_container_of(first, struct spawn_request, link);
        group_leave(request->group, NULL);
        free_request(request);
    }
}

static int spawn_elsewhere(struct task_sched *sched, struct task_group *group, const char *name,
                           task_function *function, void *arg)
{
    struct tarn_node *node = sched->node;
    if (atomic_load_explicit(&sched->stopping, memory_order_acquire))
        return -ESHUTDOWN;
    struct spawn_request *request = base_alloc(&node->memory, sizeof(*request));
    if (request == NULL)
        return -ENOMEM;
    request->message.run = run_spawn;
    request->group = group;
    request->function = function;
    request->arg = arg;
    request->node = node;
    request->sched = sched;
    (void)snprintf(request->name, sizeof(request->name), "%s", name);
    if (task_sched_post(sched, &request->message))
        return 0;
    free_request(request);
    return -ESHUTDOWN;
}

int task_spawn(struct task_sched *sched, struct task_group *group, const char *name, task_function *function,
               void *arg)
{
    struct task_sched *own = task_thread_sched();
    if (sched == NULL)
        sched = own;
    base_assert(sched != NULL);
    if (sched == own)
        return start_task(sched, group, false, name, function, arg);
    int error = group_enter(group);
    if (error != 0)
        return error;
    error = spawn_elsewhere(sched, group, name, function, arg);
    if (error != 0)
        group_leave(group, NULL);
    return error;
}

void task_charge(uint64_t ns)
{
    const struct task_sched *own = task_thread_sched();
    if (own != NULL && own->node->clock.charge != NULL)
        own->node->clock.charge(own->node->clock.arg, ns);
}

void task_yield(void)
{
    struct task *self = task_self();
    if (self == NULL) {
        (void)sched_yield();
        return;
    }
    task_make_runnable(self);
    task_switch_away(self->sched);
}

int task_sleep_until(uint64_t when_ns)
{
    struct task_wait wait;
    task_wait_init(&wait);
    int result = task_wait_park(&wait, when_ns);
    return result == -ETIMEDOUT ? 0 : result;
}

int task_sleep(uint64_t duration_ns)
{
    uint64_t now_ns = task_now();
    return task_sleep_until(duration_ns < TASK_FOREVER - now_ns ? now_ns + duration_ns : TASK_FOREVER);
}

int task_back_off(uint64_t *pause_ns, uint64_t deadline_ns)
{
    const uint64_t now_ns = task_now();
    if (now_ns >= deadline_ns)
        return -ETIMEDOUT;
    *pause_ns = *pause_ns == 0 ? BACK_OFF_FIRST_NS : base_min(2 * *pause_ns, BACK_OFF_MAX_NS);
    return task_sleep_until(base_min(deadline_ns, now_ns + *pause_ns)) == 0 ? 0 : -ECANCELED;
}
