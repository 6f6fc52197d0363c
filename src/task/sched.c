/* A scheduler: its run queue, its inbox for other threads' messages, its turns and its sleep. */
#include "task/sched.h"
#include "base/heap.h"
#include "task/sched_internal.h"
#include "task/stack.h"
#include "task/thread.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    ROUND_TASKS_MAX = 256, /* the most tasks that run between two looks at the engine */
    TASKS_MAX = 4096,
    BUFFERS_COUNT = 1024,
    BUFFER_BYTES = 4096,
    RING_ENTRIES = 1024,
    TRIM_INTERVAL_NS = 1000000000,
    SPAWN_RETRY_NS = 10000000, /* the pause before a task from elsewhere that found no stack is tried again */
};

/*
 * The one piece of state outside a node: the scheduler whose code this thread runs. A task never
 * changes its thread, so the address may be kept across switches.
 */
static _Thread_local struct task_sched *thread_sched __attribute__((tls_model("initial-exec")));

/* Count by one. A counter has one writer, and any thread may read it. */
static void count_one(uint64_t *counter)
{
    __atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

struct task_sched *task_thread_sched(void)
{
    return thread_sched;
}

struct task_sched *task_sched_self(void)
{
    return thread_sched;
}

struct task *task_self(void)
{
    return thread_sched == NULL ? NULL : thread_sched->current;
}

bool task_is_thread(void)
{
    return thread_sched == NULL || thread_sched->options.thread_personality;
}

const char *task_name(void)
{
    struct task *self = task_self();
    return self == NULL ? "thread" : self->name;
}

static bool drain_inbox(struct task_sched *sched, struct task_message *left_behind);

static void run_stop(struct task_message *message)
{
    (void)message; /* its arrival is enough: the loop looks at `stopping` */
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void fill_options(struct task_sched_options *options, const struct task_sched_options *given)
{
    if (given != NULL)
        *options = *given;
    if (options->stack_bytes == 0)
        options->stack_bytes = TASK_STACK_BYTES;
    options->stack_bytes = (uint32_t)base_align_up(options->stack_bytes, BASE_PAGE_BYTES);
    if (options->tasks_max == 0)
        options->tasks_max = TASKS_MAX;
    if (options->buffers_count == 0)
        options->buffers_count = BUFFERS_COUNT;
    if (options->buffer_bytes == 0)
        options->buffer_bytes = BUFFER_BYTES;
    if (options->ring_entries == 0)
        options->ring_entries = RING_ENTRIES;
}

/* Find the scheduler's place in its node. @return 0 or -EUSERS */
static int join_node(struct task_sched *sched, struct tarn_node *node)
{
    int error = -EUSERS;
    base_spin_lock(&node->lock);
    for (uint32_t i = 0; i < TASK_SCHEDS_MAX && error != 0; i++) {
        if (node->scheds[i] != NULL)
            continue;
        node->scheds[i] = sched;
        sched->index = i;
        node->sched_count++;
        sched->random = base_random_fork(&node->random);
        error = 0;
    }
    base_spin_unlock(&node->lock);
    return error;
}

static void leave_node(struct task_sched *sched)
{
    base_spin_lock(&sched->node->lock);
    sched->node->scheds[sched->index] = NULL;
    sched->node->sched_count--;
    base_spin_unlock(&sched->node->lock);
}

static int open_parts(struct task_sched *sched)
{
    const struct task_sched_options *options = &sched->options;
    struct base_account *account = &sched->node->memory;
    int error = task_stacks_open(account, options->stack_bytes, options->tasks_max, TASK_GUARD_INSTALL,
                                 &sched->stacks);
    if (error != 0)
        return error;
    error = base_buffer_pool_init(&sched->buffers, account, options->buffer_bytes, options->buffers_count);
    if (error != 0)
        goto close_stacks;
    error = task_engine_open(sched);
    if (error == 0)
        return 0;
    base_buffer_pool_deinit(&sched->buffers);
close_stacks:
    task_stacks_close(sched->stacks);
    return error;
}

int task_sched_open(struct tarn_node *node, const struct task_sched_options *options,
                    struct task_sched **ret_sched)
{
    struct task_sched *sched = base_alloc_aligned(&node->memory, _Alignof(struct task_sched), sizeof(*sched));
    if (sched == NULL)
        return -ENOMEM;
    sched->node = node;
    sched->stop.run = run_stop;
    base_list_init(&sched->pollers);
    fill_options(&sched->options, options);
    int error = join_node(sched, node);
    if (error != 0)
        goto free_sched;
    if (options != NULL && options->name != NULL)
        (void)snprintf(sched->name, sizeof(sched->name), "%s", options->name);
    else
        (void)snprintf(sched->name, sizeof(sched->name), "sched%" PRIu32, sched->index);
    error = open_parts(sched);
    if (error != 0)
        goto leave;
    *ret_sched = sched;
    return 0;
leave:
    leave_node(sched);
free_sched:
    base_free(&node->memory, sched, sizeof(*sched));
    return error;
}

static void close_pollers(struct task_sched *sched)
{
    struct base_list *first;
    while ((first = base_list_pop_front(&sched->pollers)) != NULL) {
        struct task_poller *poller = base_container_of(first, struct task_poller, link);
        poller->closed(poller);
    }
}

static void close_parts(struct task_sched *sched)
{
    close_pollers(sched);
    sched->engine_ops->close(sched->engine);
    net_sched_close(sched);
    base_buffer_pool_deinit(&sched->buffers);
    task_stacks_close(sched->stacks);
    leave_node(sched);
    base_free(&sched->node->memory, sched, sizeof(*sched));
}

void task_sched_close(struct task_sched *sched)
{
    base_assert(sched->stats.tasks == 0);
    struct task_sched *before = thread_sched;
    thread_sched = sched;
    (void)drain_inbox(sched, TASK_INBOX_CLOSED);
    task_drop_queued(sched);
    thread_sched = before;
    close_parts(sched);
}

void task_sched_abandon(struct task_sched *sched)
{
    base_assert(sched != thread_sched);
    sched->engine_ops->close(sched->engine);
    task_stacks_close(sched->stacks);
    leave_node(sched);
}

/* ---- messages from elsewhere ------------------------------------------------------------------ */

bool task_sched_post(struct task_sched *sched, struct task_message *message)
{
    struct task_message *head = atomic_load_explicit(&sched->inbox, memory_order_relaxed);
    do {
        if (head == TASK_INBOX_CLOSED)
            return false;
        message->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&sched->inbox, &head, message, memory_order_seq_cst,
                                                    memory_order_relaxed));
    /*
     * Pairs with idle(): it stores `sleeping`, then looks at the inbox; here the inbox is stored, then
     * `sleeping` looked at. In the one order of the four, one of the two sees the other. A thread that finds
     * messages before its own has no need to look: the first of them did.
     */
    if (head == NULL && atomic_load_explicit(&sched->sleeping, memory_order_seq_cst) &&
        atomic_exchange_explicit(&sched->sleeping, false, memory_order_seq_cst)) {
        atomic_fetch_add_explicit(&sched->wakes, 1, memory_order_relaxed);
        sched->engine_ops->wake(sched->engine);
    }
    return true;
}

/* Run the messages that others have posted, oldest first, and leave the inbox open or closed. */
static bool drain_inbox(struct task_sched *sched, struct task_message *left_behind)
{
    if (left_behind == NULL && atomic_load_explicit(&sched->inbox, memory_order_relaxed) == NULL)
        return false;
    struct task_message *newest = atomic_exchange_explicit(&sched->inbox, left_behind, memory_order_acquire);
    if (newest == TASK_INBOX_CLOSED)
        return false;
    struct task_message *oldest = NULL;
    while (newest != NULL) {
        struct task_message *older = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = older;
    }
    bool worked = oldest != NULL;
    while (oldest != NULL) {
        struct task_message *message = oldest;
        oldest = message->next; /* run() may free it */
        message->run(message);
    }
    return worked;
}

/* ---- switching -------------------------------------------------------------------------------- */

void task_make_runnable(struct task *task)
{
    base_fifo_push(&task->sched->runnable, &task->run_link);
}

/* The next task of this round, or NULL: back to the scheduler. */
static struct task *next_task(struct task_sched *sched)
{
    if (sched->budget == 0 || base_fifo_empty(&sched->runnable))
        return NULL;
    sched->budget--;
    struct task *task = base_container_of(base_fifo_pop(&sched->runnable), struct task, run_link);
    sched->current = task;
    count_one(&sched->switches);
    return task;
}

void task_switch_away(struct task_sched *sched)
{
    struct task *self = sched->current;
    if (base_unlikely(task_overran(self))) {
        base_error(&sched->node->log, "stack overflow",
                   "task=%s stack_bytes=%" PRIu32 " hint=\"raise the stack size\"", self->name,
                   sched->options.stack_bytes);
        base_assert_failed("stack overflow", __FILE__, __LINE__);
    }
    struct task *next = next_task(sched);
    if (next == self)
        return;
    if (next == NULL)
        sched->current = NULL;
    task_context_switch(&self->context, next == NULL ? &sched->context : &next->context, false);
}

void task_switch_away_last(struct task_sched *sched)
{
    struct task *self = sched->current;
    struct task *next = next_task(sched);
    if (next == NULL)
        sched->current = NULL;
    task_context_switch(&self->context, next == NULL ? &sched->context : &next->context, true);
    __builtin_unreachable();
}

/* ---- the loop --------------------------------------------------------------------------------- */

static bool expire_timers(struct task_sched *sched)
{
    struct base_heap_node *first = base_heap_min(&sched->timers);
    if (first == NULL)
        return false;
    bool worked = false;
    uint64_t now_ns = task_now();
    while (first != NULL && first->key <= now_ns) {
        base_heap_remove(&sched->timers, first);
        task_interrupt(base_container_of(first, struct task, timer), -ETIMEDOUT);
        worked = true;
        first = base_heap_min(&sched->timers);
    }
    return worked;
}

/* @return number of completions that the pollers have handed out */
static uint32_t poll_pollers(struct task_sched *sched)
{
    uint32_t count = 0;
    base_list_for_each_safe(item, &sched->pollers) {
        struct task_poller *poller = base_container_of(item, struct task_poller, link);
        count += poller->poll(poller);
    }
    return count;
}

static bool pollers_may_sleep(struct task_sched *sched)
{
    base_list_for_each(item, &sched->pollers) {
        struct task_poller *poller = base_container_of(item, struct task_poller, link);
        if (!poller->may_sleep(poller))
            return false;
    }
    return true;
}

static bool run_round(struct task_sched *sched)
{
    bool worked = false;
    struct task *first = sched->current;
    if (base_likely(first == NULL)) { /* otherwise the last round was preempted, and goes on */
        count_one(&sched->stats.rounds);
        worked |= drain_inbox(sched, NULL);
        worked |= task_start_queued(sched);
        worked |= net_sched_retry(sched);
        worked |= expire_timers(sched);
        sched->budget = ROUND_TASKS_MAX;
        first = next_task(sched);
    }
    if (first != NULL) {
        task_context_switch(&sched->context, &first->context, false);
        worked = true;
        if (base_unlikely(sched->current != NULL))
            return true;
    }
    worked |= poll_pollers(sched) > 0;
    worked |= sched->engine_ops->poll(sched->engine, 0) > 0;
    return worked;
}

bool task_sched_runnable(const struct task_sched *sched)
{
    struct task_message *newest = atomic_load_explicit(&sched->inbox, memory_order_relaxed);
    if (!base_fifo_empty(&sched->runnable) || (newest != NULL && newest != TASK_INBOX_CLOSED))
        return true;
    return !base_fifo_empty(&sched->spawn_queue) && sched->stats.tasks < sched->options.tasks_max;
}

uint64_t task_sched_next_timer(const struct task_sched *sched)
{
    const struct base_heap_node *first = base_heap_min(&sched->timers);
    return first == NULL ? TASK_FOREVER : first->key;
}

/*
 * Give back stacks that are not needed, after a pause at least: load that comes and goes would map them
 * again at once.
 *
 * @return moment at which more may be given back, TASK_FOREVER for never
 */
static uint64_t trim_stacks(struct task_sched *sched)
{
    if (base_likely(!task_stacks_excess(sched->stacks)))
        return TASK_FOREVER;
    uint64_t now_ns = task_now();
    if (now_ns >= sched->trim_ns) {
        sched->trim_ns = now_ns + TRIM_INTERVAL_NS;
        task_stacks_trim(sched->stacks);
        return TASK_FOREVER;
    }
    return sched->trim_ns;
}

/* Sleep in the kernel until a request completes, a timer is due or another thread posts a message. */
static void sleep_idle(struct task_sched *sched)
{
    uint64_t trim_ns = trim_stacks(sched);
    atomic_store_explicit(&sched->sleeping, true, memory_order_seq_cst); /* pairs with task_sched_post() */
    if (atomic_load_explicit(&sched->inbox, memory_order_seq_cst) == NULL && pollers_may_sleep(sched)) {
        uint64_t next_ns = base_min(task_sched_next_timer(sched), trim_ns);
        bool queued = !base_fifo_empty(&sched->spawn_queue) || net_sched_waits(sched);
        uint64_t now_ns = next_ns == TASK_FOREVER && !queued ? 0 : task_now();
        if (queued)
            next_ns = base_min(next_ns, now_ns + SPAWN_RETRY_NS);
        if (next_ns > now_ns) {
            count_one(&sched->stats.sleeps);
            (void)sched->engine_ops->poll(sched->engine,
                                          next_ns == TASK_FOREVER ? TASK_FOREVER : next_ns - now_ns);
        }
    }
    atomic_store_explicit(&sched->sleeping, false, memory_order_relaxed);
}

/* Whether the scheduler has ended; closes its inbox if so. */
static bool has_ended(struct task_sched *sched)
{
    if (base_likely(!atomic_load_explicit(&sched->stopping, memory_order_acquire)) ||
        sched->stats.tasks > 0 || !base_fifo_empty(&sched->spawn_queue))
        return false;
    struct task_message *empty = NULL;
    return atomic_compare_exchange_strong(&sched->inbox, &empty, TASK_INBOX_CLOSED);
}

/* Become the thread's scheduler; the first time, tell the engine that this is its thread. */
static struct task_sched *enter_sched(struct task_sched *sched)
{
    struct task_sched *before = thread_sched;
    thread_sched = sched;
    if (!sched->begun) {
        task_context_adopt_thread(&sched->context);
        int error = sched->engine_ops->begin(sched->engine);
        base_assert(error == 0);
        sched->begun = true;
    }
    return before;
}

void task_sched_run(struct task_sched *sched)
{
    base_assert(thread_sched == NULL);
    struct task_sched *before = enter_sched(sched);
    uint64_t spin_until_ns = 0;
    while (!has_ended(sched)) {
        if (run_round(sched)) {
            spin_until_ns = 0;
            continue;
        }
        if (sched->options.spin_ns > 0) {
            uint64_t now_ns = task_now();
            if (spin_until_ns == 0)
                spin_until_ns = now_ns + sched->options.spin_ns;
            if (now_ns < spin_until_ns)
                continue;
        }
        sleep_idle(sched);
    }
    thread_sched = before;
}

void task_sched_preempt(struct task_sched *sched)
{
    base_assert(thread_sched == sched && sched->current != NULL);
    task_context_switch(&sched->current->context, &sched->context, false);
}

bool task_sched_step(struct task_sched *sched)
{
    struct task_sched *before = enter_sched(sched);
    bool worked = run_round(sched);
    thread_sched = before;
    return worked;
}

static void *run_thread(void *arg)
{
    struct task_sched *sched = arg;
    task_sched_run(sched);
    return NULL;
}

int task_sched_start(struct task_sched *sched)
{
    return task_thread_start(&sched->thread, sched->name, run_thread, sched);
}

void task_sched_join(struct task_sched *sched)
{
    (void)pthread_join(sched->thread, NULL);
}

void task_sched_stop(struct task_sched *sched)
{
    if (!atomic_exchange_explicit(&sched->stopping, true, memory_order_release))
        (void)task_sched_post(sched, &sched->stop);
}

/* ---- what it is and has done ------------------------------------------------------------------ */

struct tarn_node *task_sched_node(const struct task_sched *sched)
{
    return sched->node;
}

const char *task_sched_engine_name(const struct task_sched *sched)
{
    return sched->engine_ops->name;
}

uint32_t task_sched_index(const struct task_sched *sched)
{
    return sched->index;
}

struct base_buffer_pool *task_sched_buffers(struct task_sched *sched)
{
    return &sched->buffers;
}

void task_io_post(struct task_sched *sched, struct task_io *io)
{
    sched->engine_ops->post(sched->engine, io);
}

void task_io_cancel(struct task_sched *sched, struct task_io *io)
{
    sched->engine_ops->cancel(sched->engine, io);
}

void task_poller_add(struct task_sched *sched, struct task_poller *poller)
{
    base_list_push_back(&sched->pollers, &poller->link);
}

void task_poller_remove(struct task_poller *poller)
{
    base_list_remove(&poller->link);
}

int task_sched_wake_descriptor(const struct task_sched *sched)
{
    return sched->engine_ops->wake_descriptor == NULL ? -1
                                                      : sched->engine_ops->wake_descriptor(sched->engine);
}

void task_sched_stats(const struct task_sched *sched, struct task_sched_stats *ret_stats)
{
    const struct task_sched_stats *stats = &sched->stats;
    *ret_stats = (struct task_sched_stats){
        .switches = __atomic_load_n(&sched->switches, __ATOMIC_RELAXED),
        .spawned = __atomic_load_n(&stats->spawned, __ATOMIC_RELAXED),
        .tasks = __atomic_load_n(&stats->tasks, __ATOMIC_RELAXED),
        .tasks_peak = __atomic_load_n(&stats->tasks_peak, __ATOMIC_RELAXED),
        .stacks = task_stacks_mapped(sched->stacks),
        .sleeps = __atomic_load_n(&stats->sleeps, __ATOMIC_RELAXED),
        .wakes = atomic_load_explicit(&sched->wakes, memory_order_relaxed),
        .rounds = __atomic_load_n(&stats->rounds, __ATOMIC_RELAXED),
    };
}

uint64_t task_sched_stack_peak_bytes(struct task_sched *sched)
{
    return task_stacks_peak_bytes(sched->stacks);
}

bool task_fault_is_overflow(const void *address, char *ret_text, size_t room)
{
    struct task *self = task_self();
    if (self == NULL || !task_stacks_in_guard(thread_sched->stacks, self, address))
        return false;
    /* no stdio in a signal handler */
    const char *parts[] = {"stack overflow in task '", self->name, "': raise the stack size\n"};
    size_t length = 0;
    for (size_t i = 0; i < base_array_count(parts); i++) {
        for (const char *c = parts[i]; *c != '\0' && length + 1 < room; c++)
            ret_text[length++] = *c;
    }
    if (room > 0)
        ret_text[length] = '\0';
    return true;
}
