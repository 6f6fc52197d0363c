/* Pollers: looked at once a round, they end a sleep by the engine's descriptor, forbid one, and learn of the
 * end. */
#include "task/engine_testing.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

/* Something that a thread completes and only the scheduler can fetch. */
struct source {
    struct task_poller poller;
    _Atomic unsigned done; /* by the thread */
    unsigned fetched;
    bool busy; /* the scheduler may not sleep */
    unsigned polls, asked, closed;
    struct task_wait *waiter;
};

static struct source *source_of(struct task_poller *poller)
{
    return base_container_of(poller, struct source, poller);
}

static uint32_t source_poll(struct task_poller *poller)
{
    struct source *source = source_of(poller);
    unsigned done = atomic_load(&source->done), count = done - source->fetched;
    source->polls++;
    source->fetched = done;
    if (count > 0 && source->waiter != NULL) {
        struct task_wait *waiter = source->waiter;
        source->waiter = NULL;
        assert_true(task_wait_wake(waiter, 0));
    }
    return count;
}

static bool source_may_sleep(struct task_poller *poller)
{
    struct source *source = source_of(poller);
    source->asked++;
    return !source->busy && atomic_load(&source->done) == source->fetched;
}

static void source_closed(struct task_poller *poller)
{
    struct source *source = source_of(poller);
    assert_false(base_list_is_linked(&poller->link));
    source->closed++;
}

static const struct task_poller operations = {
    .poll = source_poll, .may_sleep = source_may_sleep, .closed = source_closed};

static void wait_for_source(struct source *source)
{
    struct task_wait wait;
    task_wait_init(&wait);
    source->waiter = &wait;
    assert_int_equal(task_wait_park_firmly(&wait), 0);
}

/* ---- waking ------------------------------------------------------------------------------------ */

#define ROUNDS 3000

struct completer {
    struct source *source;
    int descriptor;
    _Atomic bool go;
};

static void *complete_in_thread(void *arg)
{
    struct completer *completer = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        while (!atomic_exchange(&completer->go, false))
            sched_yield();
        if (i % 64 == 0)
            (void)task_sleep(2 * UINT64_C(1000000)); /* the scheduler is asleep by then */
        atomic_fetch_add(&completer->source->done, 1);
        assert_int_equal(eventfd_write(completer->descriptor, 1), 0);
    }
    return NULL;
}

/* No completion is lost between the last look and the sleep: the test would hang. */
static void complete_and_wait(void *arg)
{
    struct task_testing *testing = arg;
    struct source source = {.poller = operations};
    struct completer completer = {.source = &source,
                                  .descriptor = task_sched_wake_descriptor(task_sched_self())};
    struct task_sched_stats before, after;
    pthread_t thread;
    assert_true(completer.descriptor >= 0);
    task_poller_add(task_sched_self(), &source.poller);
    task_sched_stats(testing->scheds[0], &before);
    assert_int_equal(pthread_create(&thread, NULL, complete_in_thread, &completer), 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        atomic_store(&completer.go, true);
        wait_for_source(&source);
        assert_int_equal(source.fetched, i + 1);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    task_sched_stats(testing->scheds[0], &after);
    assert_true(after.sleeps - before.sleeps >= ROUNDS / 64);
    task_poller_remove(&source.poller);
    unsigned polls = source.polls;
    task_yield();
    assert_int_equal(source.polls, polls);
    assert_int_equal(source.closed, 0);
}

static void a_poller_ends_a_sleep(void **state)
{
    engine_testing_run(state, NULL, complete_and_wait, NULL);
}

/* ---- staying awake ----------------------------------------------------------------------------- */

static void stay_awake(void *arg)
{
    struct task_testing *testing = arg;
    struct source source = {.poller = operations, .busy = true};
    struct task_sched_stats before, after;
    task_poller_add(task_sched_self(), &source.poller);
    task_sched_stats(testing->scheds[0], &before);
    do /* it is asked all the time, but the machine may be busy with others */
        assert_int_equal(task_sleep(20 * UINT64_C(1000000)), 0);
    while (source.polls <= 100 || source.asked <= 100);
    task_sched_stats(testing->scheds[0], &after);
    assert_int_equal(after.sleeps, before.sleeps);
    source.busy = false;
    assert_int_equal(task_sleep(20 * UINT64_C(1000000)), 0);
    task_sched_stats(testing->scheds[0], &after);
    assert_true(after.sleeps > before.sleeps);
    task_poller_remove(&source.poller);
}

static void a_poller_forbids_sleep(void **state)
{
    engine_testing_run(state, NULL, stay_awake, NULL);
}

/* ---- the end of a scheduler -------------------------------------------------------------------- */

static void add_two(void *arg)
{
    struct task_testing *testing = arg;
    struct source *sources = testing->arg;
    task_poller_add(task_sched_self(), &sources[0].poller);
    task_poller_add(task_sched_self(), &sources[1].poller);
    task_poller_add(task_sched_self(), &sources[2].poller);
    task_poller_remove(&sources[1].poller);
}

static void a_poller_learns_of_the_end(void **state)
{
    struct source sources[3] = {{.poller = operations}, {.poller = operations}, {.poller = operations}};
    engine_testing_run(state, NULL, add_two, sources);
    assert_int_equal(sources[0].closed, 1);
    assert_int_equal(sources[1].closed, 0);
    assert_int_equal(sources[2].closed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ENGINE_TESTS(a_poller_ends_a_sleep),
        ENGINE_TESTS(a_poller_forbids_sleep),
        ENGINE_TESTS(a_poller_learns_of_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
