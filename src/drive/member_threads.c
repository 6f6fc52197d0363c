/*
 * Member threads: one for each member of a stripe. A plain thread's request is done within its call; so that
 * the call need not wait for one member's device after the other, these threads wait for all at the same time. They
 * are started when a plain thread first needs them.
 */
#include "drive/stripe.h"
#include "task/thread.h"
#include <errno.h>

enum { THREADS_NONE, THREADS_BEGIN, THREADS_READY, THREADS_IMPOSSIBLE };

int drive_member_threads_init(struct drive_stripe *stripe)
{
    stripe->threads = base_alloc(&stripe->node->memory, stripe->count * sizeof(*stripe->threads));
    if (stripe->threads == NULL)
        return -ENOMEM;
    /* the simulator has no threads, and they would save no time there */
    atomic_init(&stripe->threads_state,
                stripe->node->options.engine == NULL ? THREADS_NONE : THREADS_IMPOSSIBLE);
    return 0;
}

static struct drive_request *next_request(struct drive_member_thread *thread)
{
    while (task_semaphore_wait(&thread->work, TASK_FOREVER) != 0) {
    }
    base_spin_lock(&thread->lock);
    struct base_list *item = base_list_pop_front(&thread->requests);
    base_spin_unlock(&thread->lock);
    return item == NULL ? NULL : base_container_of(item, struct drive_request, io.link);
}

static void *run_member_thread(void *arg)
{
    struct drive_member_thread *thread = arg;
    struct drive_request *request;
    while ((request = next_request(thread)) != NULL)
        drive_post(thread->member, request);
    return NULL;
}

/* End the first `count` threads. */
static void end_threads(struct drive_stripe *stripe, uint32_t count)
{
    for (uint32_t place = 0; place < count; place++)
        task_semaphore_post(&stripe->threads[place].work);
    for (uint32_t place = 0; place < count; place++)
        (void)pthread_join(stripe->threads[place].thread, NULL); /* the threads are idle: they end at once */
}

/* @return whether all threads were started */
static bool start_threads(struct drive_stripe *stripe)
{
    int error = 0;
    uint32_t place = 0;
    for (; place < stripe->count && error == 0; place++) {
        struct drive_member_thread *thread = &stripe->threads[place];
        thread->member = stripe->members[place].drive;
        task_semaphore_init(&thread->work, 0);
        base_spin_init(&thread->lock);
        base_list_init(&thread->requests);
        error = task_thread_start(&thread->thread, "tarn-stripe", run_member_thread, thread);
    }
    if (error != 0)
        end_threads(stripe, place - 1);
    return error == 0;
}

bool drive_member_threads_ready(struct drive_stripe *stripe)
{
    /* acquire: pairs with the store below, before which the threads were started */
    int state = atomic_load_explicit(&stripe->threads_state, memory_order_acquire);
    if (state != THREADS_NONE ||
        !atomic_compare_exchange_strong_explicit(&stripe->threads_state, &state, THREADS_BEGIN,
                                                 memory_order_acquire, memory_order_acquire))
        return state == THREADS_READY;
    bool ready = start_threads(stripe);
    atomic_store_explicit(&stripe->threads_state, ready ? THREADS_READY : THREADS_IMPOSSIBLE,
                          memory_order_release);
    return ready;
}

void drive_member_threads_deinit(struct drive_stripe *stripe)
{
    if (stripe->threads == NULL)
        return;
    if (atomic_load_explicit(&stripe->threads_state, memory_order_acquire) == THREADS_READY)
        end_threads(stripe, stripe->count);
    base_free(&stripe->node->memory, stripe->threads, stripe->count * sizeof(*stripe->threads));
}

void drive_member_post(struct drive_stripe *stripe, uint32_t place, struct drive_request *request)
{
    struct drive_member_thread *thread = &stripe->threads[place];
    base_spin_lock(&thread->lock);
    base_list_push_back(&thread->requests, &request->io.link);
    base_spin_unlock(&thread->lock);
    task_semaphore_post(&thread->work);
}
