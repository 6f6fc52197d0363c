/* Does a back end decide conditions exactly where several tasks and threads change the same nodes? */
#include "base/testing_slow.h"
#include "cluster/conformance_testing.h"
#include <pthread.h>

#define THREADS 3
#define SCHEDS  2
#define TASKS   6
#define WORKERS (THREADS + TASKS)
#define ROUNDS  (TESTING_SLOW ? 8 : 30)

struct crowd {
    struct cluster *cluster;
    void (*body)(struct crowd *crowd, uint32_t worker);
    _Atomic uint32_t workers;
};

static void work_in_task(void *arg)
{
    struct crowd *crowd = arg;
    crowd->body(crowd, atomic_fetch_add(&crowd->workers, 1));
}

static void *work_in_thread(void *arg)
{
    work_in_task(arg);
    return NULL;
}

/* Run a body in plain threads and in tasks of two schedulers at once. */
static void run_crowd(struct cluster_testing *testing, void (*body)(struct crowd *crowd, uint32_t worker))
{
    struct crowd crowd = {.cluster = testing->cluster, .body = body};
    struct task_sched *scheds[SCHEDS];
    struct task_group group;
    pthread_t threads[THREADS];
    task_group_init(&group);
    for (int i = 0; i < SCHEDS; i++)
        assert_int_equal(task_sched_open(testing->node, NULL, &scheds[i]), 0);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(task_spawn(scheds[i % SCHEDS], &group, "worker", work_in_task, &crowd), 0);
    for (int i = 0; i < SCHEDS; i++)
        assert_int_equal(task_sched_start(scheds[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work_in_thread, &crowd), 0);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < SCHEDS; i++) {
        task_sched_stop(scheds[i]);
        task_sched_join(scheds[i]);
        task_sched_close(scheds[i]);
    }
}

/* @return a number that a node holds; 0: there is none */
static uint64_t number_of(struct cluster *cluster, const char *path, int64_t *ret_version)
{
    uint64_t number = 0;
    uint32_t bytes = sizeof(number);
    const int error = cluster_get(cluster, path, &number, sizeof(number), &bytes, ret_version);
    assert_true((error == 0 || error == -ENOENT) && bytes == sizeof(number));
    if (error == -ENOENT)
        *ret_version = CLUSTER_ABSENT;
    return number;
}

/* Two counters, raised together if both are as they were. */
static void count_both(struct crowd *crowd, uint32_t worker)
{
    static const char *const paths[2][2] = {{"/count/a", "/count/b"}, {"/count/b", "/count/a"}};
    for (uint32_t round = 0; round < ROUNDS;) {
        uint64_t numbers[2];
        struct cluster_change changes[2];
        for (int i = 0; i < 2; i++) {
            const char *path = paths[worker % 2][i];
            numbers[i] = number_of(crowd->cluster, path, &changes[i].if_version) + 1;
            changes[i] = (struct cluster_change){.path = path,
                                                 .data = &numbers[i],
                                                 .bytes = sizeof(numbers[i]),
                                                 .if_version = changes[i].if_version};
        }
        const int error = cluster_multi(crowd->cluster, 0, changes, 2);
        assert_true(error == 0 || error == -EAGAIN);
        assert_true(error != 0 || numbers[0] == numbers[1]);
        round += error == 0;
    }
}

static void no_update_is_lost(void **state)
{
    struct cluster_testing *testing = *state;
    int64_t versions[2];
    run_crowd(testing, count_both);
    assert_int_equal(number_of(testing->cluster, "/count/a", &versions[0]), WORKERS * ROUNDS);
    assert_int_equal(number_of(testing->cluster, "/count/b", &versions[1]), WORKERS * ROUNDS);
    assert_true(versions[0] == WORKERS * ROUNDS - 1 && versions[1] == versions[0]);
}

/* Without conditions none is refused, and each counts. */
static void store_both(struct crowd *crowd, uint32_t worker)
{
    static const char *const paths[2][2] = {{"/pair/a", "/pair/b"}, {"/pair/b", "/pair/a"}};
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint64_t number = worker * ROUNDS + round;
        struct cluster_change changes[2];
        for (int i = 0; i < 2; i++)
            changes[i] = (struct cluster_change){.path = paths[worker % 2][i],
                                                 .data = &number,
                                                 .bytes = sizeof(number),
                                                 .if_version = CLUSTER_ANY};
        assert_int_equal(cluster_multi(crowd->cluster, 0, changes, 2), 0);
    }
}

static void pairs_stay_together(void **state)
{
    struct cluster_testing *testing = *state;
    int64_t versions[2];
    run_crowd(testing, store_both);
    assert_int_equal(number_of(testing->cluster, "/pair/a", &versions[0]),
                     number_of(testing->cluster, "/pair/b", &versions[1]));
    assert_true(versions[0] == WORKERS * ROUNDS - 1 && versions[1] == versions[0]);
}

/* All lead one after the other; what is stored under an epoch is never followed by what an older one stored. */
static void lead_and_store(struct crowd *crowd, uint32_t worker)
{
    uint64_t last_epoch = 0, last_number = 0;
    int64_t version;
    (void)worker;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t epoch;
        assert_int_equal(cluster_lead(crowd->cluster, TASK_FOREVER, &epoch), 0);
        assert_true(epoch > last_epoch);
        last_epoch = epoch;
        for (uint32_t i = 0; i < 3; i++) {
            const int error =
                cluster_put(crowd->cluster, epoch, "/epoch", &epoch, sizeof(epoch), CLUSTER_ANY);
            assert_true(error == 0 || error == -EPERM);
            const uint64_t number = number_of(crowd->cluster, "/epoch", &version);
            assert_true(number >= last_number && (error != 0 || number >= epoch));
            last_number = number;
        }
    }
}

static void deposed_leaders_store_nothing(void **state)
{
    struct cluster_testing *testing = *state;
    run_crowd(testing, lead_and_store);
    const uint64_t epoch = cluster_testing_lead(testing);
    assert_true(epoch > WORKERS * ROUNDS);
}

/* ---- watching ----------------------------------------------------------------------------------- */

static void *watch_in_thread(void *arg)
{
    struct cluster *cluster = arg;
    struct cluster_member members[CLUSTER_MEMBERS_MAX] = {0};
    uint32_t count;
    uint64_t seen = 0;
    while (!members[0].leads) {
        assert_int_equal(cluster_watch(cluster, &seen, TASK_FOREVER), 0);
        assert_int_equal(cluster_members(cluster, members, &count), 0);
    }
    return NULL;
}

static void watchers_are_woken(void **state)
{
    struct cluster_testing *testing = *state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, watch_in_thread, testing->cluster), 0);
    (void)cluster_testing_lead(testing);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void watch_until_cancelled(void *arg)
{
    uint64_t seen = 0;
    assert_int_equal(cluster_watch(arg, &seen, TASK_FOREVER), 0);
    assert_int_equal(cluster_watch(arg, &seen, TASK_FOREVER), -ECANCELED);
}

static void watchers_can_be_cancelled(void **state)
{
    struct cluster_testing *testing = *state;
    struct task_sched *sched;
    struct task_group group;
    task_group_init(&group);
    assert_int_equal(task_sched_open(testing->node, NULL, &sched), 0);
    assert_int_equal(task_spawn(sched, &group, "watcher", watch_until_cancelled, testing->cluster), 0);
    assert_int_equal(task_sched_start(sched), 0);
    task_group_cancel(&group);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    task_sched_stop(sched);
    task_sched_join(sched);
    task_sched_close(sched);
    (void)cluster_testing_lead(testing); /* nobody is there to be woken */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_testing_setup, cluster_testing_teardown)
static const struct CMUnitTest tests[] = {
    TEST(no_update_is_lost),  TEST(pairs_stay_together),       TEST(deposed_leaders_store_nothing),
    TEST(watchers_are_woken), TEST(watchers_can_be_cancelled),
};
const struct testing_suite cluster_contention = TESTING_SUITE(tests);
