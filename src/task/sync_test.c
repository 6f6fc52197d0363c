/* Do futures, mutexes, semaphores and channels keep their word, among tasks, schedulers and threads? */
#include "task/testing.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static int spawn_everywhere(struct task_testing *testing, struct task_group *group, int count,
                            task_function *function, void *arg)
{
    task_group_init(group);
    for (int i = 0; i < count; i++) {
        int error = task_spawn(testing->scheds[i % TASK_TESTING_SCHEDS], group, "worker", function, arg);
        if (error != 0)
            return error;
    }
    return 0;
}

/* ---- futures ------------------------------------------------------------------------------------ */

static void set_later(void *arg)
{
    task_yield();
    task_future_set(arg, 42);
}

static void wait_for_future(void *arg)
{
    (void)arg;
    struct task_future future;
    struct task_group group;
    int value = 0;
    task_future_init(&future);
    task_group_init(&group);
    assert_int_equal(task_future_wait(&future, task_now() + 1000000, &value), -ETIMEDOUT);
    assert_int_equal(task_future_wait(&future, 0, &value), -ETIMEDOUT); /* a deadline long past */
    assert_int_equal(value, 0);
    assert_int_equal(task_spawn(NULL, &group, "setter", set_later, &future), 0);
    assert_int_equal(task_future_wait(&future, TASK_FOREVER, &value), 0);
    assert_int_equal(value, 42);
    assert_int_equal(task_future_wait(&future, TASK_FOREVER, &value), 0); /* as often as one likes */
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
}

static void a_future_is_waited_for(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, wait_for_future, NULL);
}

static void *set_shared(void *arg)
{
    task_shared_future_set(arg, -7);
    return NULL;
}

static void wait_shared(void *arg)
{
    int value = 0;
    assert_int_equal(task_shared_future_wait(arg, TASK_FOREVER, &value), 0);
    assert_int_equal(value, -7);
}

/* The future is on the stack: whoever sets it must not touch it once a waiter has returned. */
static void shared_future_rounds(void *arg)
{
    struct task_testing *testing = arg;
    for (int round = 0; round < 200; round++) {
        struct task_shared_future future;
        struct task_group group;
        pthread_t thread;
        int value = 0;
        task_shared_future_init(&future);
        assert_int_equal(spawn_everywhere(testing, &group, 5, wait_shared, &future), 0);
        assert_int_equal(pthread_create(&thread, NULL, set_shared, &future), 0);
        assert_int_equal(task_shared_future_wait(&future, TASK_FOREVER, &value), 0);
        assert_int_equal(value, -7);
        assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static void a_shared_future_crosses_threads(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, shared_future_rounds, NULL);
    struct task_shared_future future;
    int value;
    task_shared_future_init(&future);
    assert_int_equal(task_shared_future_wait(&future, task_now() + 1000000, &value), -ETIMEDOUT);
    task_shared_future_set(&future, 1);
    assert_int_equal(task_shared_future_wait(&future, TASK_FOREVER, &value), 0);
}

/* ---- groups ------------------------------------------------------------------------------------- */

struct nested {
    struct task_group outer, inner;
    unsigned ended; /* tasks of the inner group */
};

static void end_in_a_while(void *arg)
{
    struct nested *nested = arg;
    assert_int_equal(task_sleep(2000000), 0);
    nested->ended++;
}

static void join_when_cancelled(void *arg)
{
    struct nested *nested = arg;
    assert_int_equal(task_sleep_until(TASK_FOREVER), -ECANCELED);
    assert_int_equal(task_group_join(&nested->inner, TASK_FOREVER), -ECANCELED);
    task_group_join_firmly(&nested->inner);
    assert_int_equal(nested->ended, 2);
    task_group_join_firmly(&nested->inner); /* an empty one */
}

static void join_firmly(void *arg)
{
    struct nested nested = {.ended = 0};
    (void)arg;
    task_group_init(&nested.outer);
    task_group_init(&nested.inner);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(task_spawn(NULL, &nested.inner, "inner", end_in_a_while, &nested), 0);
    assert_int_equal(task_spawn(NULL, &nested.outer, "outer", join_when_cancelled, &nested), 0);
    task_yield();
    task_group_cancel(&nested.outer);
    assert_int_equal(task_group_join(&nested.outer, TASK_FOREVER), 0);
}

static void a_cancelled_task_joins_firmly(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, join_firmly, NULL);
}

/* ---- mutex -------------------------------------------------------------------------------------- */

struct guarded {
    struct task_mutex mutex;
    uint64_t value; /* plain: only the mutex keeps it right */
    bool inside;
    uint64_t taken;
};

enum { MUTEX_ROUNDS = 2000 };

static void increment(void *arg)
{
    struct guarded *guarded = arg;
    for (uint64_t i = 0; i < MUTEX_ROUNDS; i++) {
        if (i % 3 == 0) {
            int error = task_mutex_lock(&guarded->mutex, task_now() + 1000000);
            if (error == -ETIMEDOUT)
                continue;
            assert_int_equal(error, 0);
        } else {
            task_mutex_lock_firmly(&guarded->mutex);
        }
        assert_false(guarded->inside);
        guarded->inside = true;
        uint64_t value = guarded->value;
        if (i % 5 == 0)
            task_yield(); /* held across a yield */
        guarded->value = value + 1;
        guarded->inside = false;
        __atomic_add_fetch(&guarded->taken, 1, __ATOMIC_RELAXED);
        task_mutex_unlock(&guarded->mutex);
    }
}

static void *increment_thread(void *arg)
{
    increment(arg);
    return NULL;
}

static void contend(void *arg)
{
    struct task_testing *testing = arg;
    struct guarded guarded = {0};
    struct task_group group;
    pthread_t thread;
    task_mutex_init(&guarded.mutex);
    assert_int_equal(pthread_create(&thread, NULL, increment_thread, &guarded), 0);
    assert_int_equal(spawn_everywhere(testing, &group, 9, increment, &guarded), 0);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(guarded.value, guarded.taken);
    assert_true(guarded.taken > MUTEX_ROUNDS * 6); /* the firm ones at least */
    assert_true(task_mutex_lock_try(&guarded.mutex));
    assert_false(task_mutex_lock_try(&guarded.mutex));
    assert_int_equal(task_mutex_lock(&guarded.mutex, task_now() + 1000000), -ETIMEDOUT);
    task_mutex_unlock(&guarded.mutex);
    assert_true(task_mutex_lock_try(&guarded.mutex));
    task_mutex_unlock(&guarded.mutex);
}

static void a_mutex_excludes(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, contend, NULL);
}

struct queue_of_lockers {
    struct task_mutex mutex;
    int order[8];
    int count;
};

static void lock_in_order(void *arg)
{
    struct queue_of_lockers *queue = arg;
    int number = queue->count++;
    task_mutex_lock_firmly(&queue->mutex);
    queue->order[queue->count++ - 8] = number;
    task_mutex_unlock(&queue->mutex);
}

static void first_come_first_served(void *arg)
{
    (void)arg;
    struct queue_of_lockers queue = {0};
    struct task_group group;
    task_mutex_init(&queue.mutex);
    task_group_init(&group);
    assert_true(task_mutex_lock_try(&queue.mutex));
    for (int i = 0; i < 8; i++)
        assert_int_equal(task_spawn(NULL, &group, "locker", lock_in_order, &queue), 0);
    task_yield();
    assert_int_equal(queue.count, 8);
    task_mutex_unlock(&queue.mutex);
    assert_false(task_mutex_lock_try(&queue.mutex)); /* it was handed over */
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(queue.order[i], i);
}

static void a_mutex_is_fair(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, first_come_first_served, NULL);
}

static void lock_cancelled(void *arg)
{
    struct guarded *guarded = arg;
    assert_int_equal(task_mutex_lock(&guarded->mutex, TASK_FOREVER), -ECANCELED);
    guarded->taken++;
}

static void cancel_lockers(void *arg)
{
    (void)arg;
    struct guarded guarded = {0};
    struct task_group group;
    task_mutex_init(&guarded.mutex);
    task_group_init(&group);
    task_mutex_lock_firmly(&guarded.mutex);
    for (int i = 0; i < 5; i++)
        assert_int_equal(task_spawn(NULL, &group, "locker", lock_cancelled, &guarded), 0);
    task_yield();
    task_group_cancel(&group);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    assert_int_equal(guarded.taken, 5);
    task_mutex_unlock(&guarded.mutex);
    assert_true(task_mutex_lock_try(&guarded.mutex)); /* nobody who gave up has got it */
    task_mutex_unlock(&guarded.mutex);
}

static void waiting_for_a_mutex_is_cancelled(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, cancel_lockers, NULL);
}

/* ---- semaphore ------------------------------------------------------------------------------------ */

struct permits {
    struct task_semaphore semaphore;
    int64_t inside;
    int64_t inside_max;
};

static void use_permit(void *arg)
{
    struct permits *permits = arg;
    for (int i = 0; i < 500; i++) {
        int error =
            task_semaphore_wait(&permits->semaphore, task_now() + (i % 4 == 0 ? 100000 : 10000000000));
        if (error == -ETIMEDOUT)
            continue;
        assert_int_equal(error, 0);
        int64_t inside = __atomic_add_fetch(&permits->inside, 1, __ATOMIC_RELAXED);
        assert_true(inside <= 3);
        if (i % 2 == 0)
            task_yield();
        __atomic_sub_fetch(&permits->inside, 1, __ATOMIC_RELAXED);
        task_semaphore_post(&permits->semaphore);
    }
}

static void share_permits(void *arg)
{
    struct task_testing *testing = arg;
    struct permits permits = {0};
    struct task_group group;
    task_semaphore_init(&permits.semaphore, 3);
    assert_int_equal(spawn_everywhere(testing, &group, 12, use_permit, &permits), 0);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    for (int i = 0; i < 3; i++)
        assert_true(task_semaphore_wait_try(&permits.semaphore)); /* none lost */
    assert_false(task_semaphore_wait_try(&permits.semaphore));    /* none made */
    assert_int_equal(task_semaphore_wait(&permits.semaphore, task_now() + 1000), -ETIMEDOUT);
}

static void a_semaphore_counts(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, share_permits, NULL);
}

/* ---- channel --------------------------------------------------------------------------------------- */

enum { ITEMS = 2000, SENDERS = 4 };

struct traffic {
    struct task_channel channel;
    uint64_t received;
    uint8_t seen[SENDERS * ITEMS];
    int sender_number;
};

static void send_items(void *arg)
{
    struct traffic *traffic = arg;
    uintptr_t first = (uintptr_t)__atomic_fetch_add(&traffic->sender_number, 1, __ATOMIC_RELAXED) * ITEMS;
    for (uintptr_t i = 0; i < ITEMS; i++)
        assert_int_equal(task_channel_send(&traffic->channel, &traffic->seen[first + i], TASK_FOREVER), 0);
}

static void receive_items(void *arg)
{
    struct traffic *traffic = arg;
    for (;;) {
        void *item;
        int error = task_channel_receive(&traffic->channel, task_now() + 1000000, &item);
        if (error == -ETIMEDOUT)
            continue;
        if (error == -EPIPE)
            break;
        assert_int_equal(error, 0);
        __atomic_add_fetch((uint8_t *)item, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&traffic->received, 1, __ATOMIC_RELAXED);
    }
}

static void *receive_thread(void *arg)
{
    receive_items(arg);
    return NULL;
}

static void exchange(void *arg)
{
    struct task_testing *testing = arg;
    struct traffic *traffic = calloc(1, sizeof(*traffic));
    struct task_group senders;
    struct task_group receivers;
    pthread_t thread;
    assert_int_equal(task_channel_init(&traffic->channel, &testing->node->memory, 7), 0);
    assert_int_equal(spawn_everywhere(testing, &receivers, 4, receive_items, traffic), 0);
    assert_int_equal(pthread_create(&thread, NULL, receive_thread, traffic), 0);
    assert_int_equal(spawn_everywhere(testing, &senders, SENDERS, send_items, traffic), 0);
    assert_int_equal(task_group_join(&senders, TASK_FOREVER), 0);
    task_channel_close(&traffic->channel);
    assert_int_equal(task_group_join(&receivers, TASK_FOREVER), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(traffic->received, SENDERS * ITEMS);
    for (int i = 0; i < SENDERS * ITEMS; i++)
        assert_int_equal(traffic->seen[i], 1);
    task_channel_deinit(&traffic->channel);
    free(traffic);
}

static void a_channel_loses_and_doubles_nothing(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, exchange, NULL);
}

static void channel_edges(void *arg)
{
    struct task_testing *testing = arg;
    struct task_channel channel;
    int items[3];
    void *item = NULL;
    assert_int_equal(task_channel_init(&channel, &testing->node->memory, 2), 0);
    assert_int_equal(task_channel_receive(&channel, task_now() + 1000, &item), -ETIMEDOUT);
    assert_int_equal(task_channel_send(&channel, &items[0], TASK_FOREVER), 0);
    assert_int_equal(task_channel_send(&channel, &items[1], TASK_FOREVER), 0);
    assert_int_equal(task_channel_send(&channel, &items[2], task_now() + 1000), -ETIMEDOUT);
    task_channel_close(&channel);
    assert_int_equal(task_channel_send(&channel, &items[2], TASK_FOREVER), -EPIPE);
    assert_null(item);
    assert_int_equal(task_channel_receive(&channel, TASK_FOREVER, &item), 0);
    assert_ptr_equal(item, &items[0]);
    assert_int_equal(task_channel_receive(&channel, TASK_FOREVER, &item), 0);
    assert_ptr_equal(item, &items[1]);
    assert_int_equal(task_channel_receive(&channel, TASK_FOREVER, &item), -EPIPE);
    task_channel_deinit(&channel);
    base_account_fail_at(&testing->node->memory, 1);
    assert_int_equal(task_channel_init(&channel, &testing->node->memory, 2), -ENOMEM);
}

static void a_channel_is_bounded_and_closed(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, channel_edges, NULL);
}

/* Each pause is twice as long as the one before, up to a limit, and none begins after the deadline. */
static void pauses_become_longer(void **state)
{
    uint64_t pause_ns = 0, before_ns = 0;
    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        const uint64_t begin_ns = task_now();
        assert_int_equal(task_back_off(&pause_ns, TASK_FOREVER), 0);
        assert_true(task_now() - begin_ns >= pause_ns);
        assert_true(pause_ns > before_ns || pause_ns == BASE_NS_PER_MS);
        before_ns = pause_ns;
    }
    assert_int_equal(pause_ns, BASE_NS_PER_MS);
    assert_int_equal(task_back_off(&pause_ns, task_now()), -ETIMEDOUT);
    assert_int_equal(pause_ns, BASE_NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_future_is_waited_for),
        cmocka_unit_test(a_shared_future_crosses_threads),
        cmocka_unit_test(a_cancelled_task_joins_firmly),
        cmocka_unit_test(a_mutex_excludes),
        cmocka_unit_test(a_mutex_is_fair),
        cmocka_unit_test(waiting_for_a_mutex_is_cancelled),
        cmocka_unit_test(a_semaphore_counts),
        cmocka_unit_test(a_channel_loses_and_doubles_nothing),
        cmocka_unit_test(a_channel_is_bounded_and_closed),
        cmocka_unit_test(pauses_become_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
