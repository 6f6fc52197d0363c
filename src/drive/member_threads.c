/*
 * Hands: a thread for each member of a stripe, so that a plain thread, in whose call a request is done, need
 * not go from member to member with what takes a device's time. They begin when a plain thread wants them
 * first.
 */
#include "drive/stripe.h"
#include "task/thread.h"
#include <errno.h>

enum { HANDS_NONE, HANDS_BEGIN, HANDS_READY, HANDS_IMPOSSIBLE };

int drive_hands_init(struct drive_stripe *stripe)
{
    stripe->hands = base_alloc(&stripe->node->memory, stripe->count * sizeof(*stripe->hands));
    if (stripe->hands == NULL)
        return -ENOMEM;
    /* under the simulator there are no threads, and nobody's time is saved */
    atomic_init(&stripe->hands_state, stripe->node->options.engine == NULL ? HANDS_NONE : HANDS_IMPOSSIBLE);
    return 0;
}

static struct drive_request *next_request(struct drive_hand *hand)
{
    while (task_semaphore_wait(&hand->work, TASK_FOREVER) != 0) {
    }
    base_spin_lock(&hand->lock);
    struct base_list *link = base_list_pop_front(&hand->requests);
    base_spin_unlock(&hand->lock);
    return link == NULL ? NULL : base_container_of(link, struct drive_request, io.link);
}

static void *run_hand(void *arg)
{
    struct drive_hand *hand = arg;
    struct drive_request *request;
    while ((request = next_request(hand)) != NULL)
        drive_post(hand->member, request);
    return NULL;
}

/* End the first of them. */
static void end_hands(struct drive_stripe *stripe, uint32_t count)
{
    for (uint32_t place = 0; place < count; place++)
        task_semaphore_post(&stripe->hands[place].work);
    for (uint32_t place = 0; place < count; place++)
        (void)pthread_join(stripe->hands[place].thread, NULL); /* they are idle: it takes no time */
}

/* @return whether all have begun */
static bool start_hands(struct drive_stripe *stripe)
{
    int error = 0;
    uint32_t place = 0;
    for (; place < stripe->count && error == 0; place++) {
        struct drive_hand *hand = &stripe->hands[place];
        hand->member = stripe->members[place].drive;
        task_semaphore_init(&hand->work, 0);
        base_spin_init(&hand->lock);
        base_list_init(&hand->requests);
        error = task_thread_start(&hand->thread, "tarn-stripe", run_hand, hand);
    }
    if (error != 0)
        end_hands(stripe, place - 1);
    return error == 0;
}

bool drive_hands_ready(struct drive_stripe *stripe)
{
    /* acquire: pairs with the store below, hands are there before they are ready */
    int state = atomic_load_explicit(&stripe->hands_state, memory_order_acquire);
    if (state != HANDS_NONE ||
        !atomic_compare_exchange_strong_explicit(&stripe->hands_state, &state, HANDS_BEGIN,
                                                 memory_order_acquire, memory_order_acquire))
        return state == HANDS_READY;
    bool ready = start_hands(stripe);
    atomic_store_explicit(&stripe->hands_state, ready ? HANDS_READY : HANDS_IMPOSSIBLE, memory_order_release);
    return ready;
}

void drive_hands_deinit(struct drive_stripe *stripe)
{
    if (stripe->hands == NULL)
        return;
    if (atomic_load_explicit(&stripe->hands_state, memory_order_acquire) == HANDS_READY)
        end_hands(stripe, stripe->count);
    base_free(&stripe->node->memory, stripe->hands, stripe->count * sizeof(*stripe->hands));
}

void drive_hand_over(struct drive_stripe *stripe, uint32_t place, struct drive_request *request)
{
    struct drive_hand *hand = &stripe->hands[place];
    base_spin_lock(&hand->lock);
    base_list_push_back(&hand->requests, &request->io.link);
    base_spin_unlock(&hand->lock);
    task_semaphore_post(&hand->work);
}
