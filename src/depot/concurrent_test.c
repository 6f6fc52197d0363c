/*
 * Do tasks of several schedulers and plain threads share one store: groups that gather and fill up,
 * conditions that decide once, a flush among writes, a failure that reaches all?
 */
#include "depot/testing.h"
#include "task/testing.h"
#include <pthread.h>

#define TASKS   24
#define THREADS 3
#define ROUNDS  40

struct shared {
    struct testing_drive drive;
    struct tarn_depot *depot;
    void (*body)(struct shared *shared, uint32_t number);
    _Atomic uint32_t workers;
    _Atomic uint64_t done;
    _Atomic uint64_t failed;
    uint64_t value_bytes;
    bool one_scheduler; /* and no threads */
    struct task_group group;
};

/* cmocka's asserts jump, which only the test's own thread may do. */
#define REQUIRE(condition) base_assert(condition)

static void worker(void *arg)
{
    struct shared *shared = arg;
    shared->body(shared, atomic_fetch_add(&shared->workers, 1));
}

static void *thread(void *arg)
{
    worker(arg);
    return NULL;
}

static void run_workers(void *arg)
{
    struct task_testing *testing = arg;
    struct shared *shared = testing->arg;
    const struct tarn_depot_options options = {.create_bytes = UINT64_C(64) << 20};
    const uint32_t thread_count = shared->one_scheduler ? 0 : THREADS;
    pthread_t threads[THREADS];
    task_group_init(&shared->group);
    assert_int_equal(tarn_depot_open(testing->node, "store", &options, &shared->depot), 0);
    for (int i = 0; i < TASKS; i++) {
        struct task_sched *sched = testing->scheds[shared->one_scheduler ? 0 : i % TASK_TESTING_SCHEDS];
        assert_int_equal(task_spawn(sched, &shared->group, "worker", worker, shared), 0);
    }
    for (uint32_t i = 0; i < thread_count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread, shared), 0);
    assert_int_equal(task_group_join(&shared->group, TASK_FOREVER), 0);
    /* the threads need this scheduler for nothing */
    while (atomic_load(&shared->done) < TASKS + thread_count)
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    for (uint32_t i = 0; i < thread_count; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    int error = tarn_depot_close(shared->depot);
    assert_int_equal(error, atomic_load(&shared->failed) > 0 ? -EROFS : 0);
}

static void run(struct shared *shared)
{
    const struct task_node_options options = {.drives = &testing_provider,
                                              .drives_arg = &shared->drive,
                                              .log_level = BASE_LOG_ERROR,
                                              .log_sink = testing_quiet};
    task_testing_run(&options, NULL, run_workers, shared);
}

/* ---- each its own keys --------------------------------------------------------------------------- */

static void own_keys(struct shared *shared, uint32_t number)
{
    uint64_t bytes = shared->value_bytes;
    char key[32], *value = malloc(bytes), *found = malloc(bytes);
    REQUIRE(value != NULL && found != NULL);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        int key_len = snprintf(key, sizeof(key), "%u/%u", number, round % 5);
        memset(value, (int)(number * 31 + round), bytes);
        REQUIRE(tarn_depot_put(shared->depot, key, (size_t)key_len, value, bytes, NULL, NULL) == 0);
        REQUIRE(tarn_depot_get(shared->depot, key, (size_t)key_len, found, bytes, NULL) == 0);
        REQUIRE(memcmp(value, found, bytes) == 0);
        if (round % 7 == 0)
            REQUIRE(tarn_depot_delete(shared->depot, key, (size_t)key_len) == 0);
    }
    free(value);
    free(found);
    atomic_fetch_add(&shared->done, 1);
}

/* While the leader waits for its write, all others of its scheduler come and join the next group. */
static void writers_gather_in_groups(void **state)
{
    (void)state;
    struct shared shared = {.body = own_keys, .value_bytes = 300, .one_scheduler = true};
    run(&shared);
    assert_true(atomic_load(&shared.drive.writes) * 4 < TASKS * ROUNDS);
    testing_drive_free(&shared.drive);
}

static void writers_do_not_mix_up(void **state)
{
    (void)state;
    struct shared shared = {.body = own_keys, .value_bytes = 300};
    run(&shared);
    struct testing_store store;
    testing_open(&store, &shared.drive, NULL, TARN_MODE_POWER);
    struct tarn_depot_stats stats;
    tarn_depot_stats(store.depot, &stats);
    assert_int_equal(stats.records, (TASKS + THREADS) * 4); /* of the five each deletes one last */
    testing_close(&store);
    testing_drive_free(&shared.drive);
}

/* A few records fill a group, and the others queue for room. */
static void writers_wait_for_room(void **state)
{
    (void)state;
    struct shared shared = {.body = own_keys, .value_bytes = 40000};
    run(&shared);
    testing_drive_free(&shared.drive);
}

/* ---- one key for all ----------------------------------------------------------------------------- */

static void count_up(struct shared *shared, uint32_t number)
{
    (void)number;
    for (uint32_t round = 0; round < ROUNDS;) {
        uint64_t count = 0;
        struct tarn_record_info info;
        struct tarn_put_options options = {.condition = TARN_PUT_IF_ABSENT};
        int error = tarn_depot_get(shared->depot, "counter", 7, &count, sizeof(count), &info);
        REQUIRE(error == 0 || error == -ENOENT);
        if (error == 0)
            options = (struct tarn_put_options){.condition = TARN_PUT_IF_VERSION, .if_version = info.version};
        count++;
        error = tarn_depot_put(shared->depot, "counter", 7, &count, sizeof(count), &options, NULL);
        REQUIRE(error == 0 || error == -EEXIST);
        round += error == 0;
    }
    atomic_fetch_add(&shared->done, 1);
}

static void conditions_decide_once(void **state)
{
    (void)state;
    struct shared shared = {.body = count_up};
    run(&shared);
    struct testing_store store;
    testing_open(&store, &shared.drive, NULL, TARN_MODE_POWER);
    uint64_t count = 0;
    assert_int_equal(tarn_depot_get(store.depot, "counter", 7, &count, sizeof(count), NULL), 0);
    assert_int_equal(count, (TASKS + THREADS) * ROUNDS);
    testing_close(&store);
    testing_drive_free(&shared.drive);
}

/* ---- flushes among writes ------------------------------------------------------------------------- */

/* After its own flush nobody finds what he put before it, and always what he put after. */
static void flush_now_and_then(struct shared *shared, uint32_t number)
{
    char key[32], found[1];
    int key_len = snprintf(key, sizeof(key), "%u", number);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        REQUIRE(tarn_depot_put(shared->depot, key, (size_t)key_len, "v", 1, NULL, NULL) == 0);
        if (round % 8 == number % 8) {
            REQUIRE(tarn_depot_flush_all(shared->depot, 0) == 0);
            REQUIRE(tarn_depot_get(shared->depot, key, (size_t)key_len, found, 1, NULL) == -ENOENT);
        }
        int error = tarn_depot_get(shared->depot, key, (size_t)key_len, found, 1, NULL);
        REQUIRE(error == 0 || error == -ENOENT);
    }
    atomic_fetch_add(&shared->done, 1);
}

static void flushes_go_among_writes(void **state)
{
    (void)state;
    struct shared shared = {.body = flush_now_and_then};
    run(&shared);
    testing_drive_free(&shared.drive);
}

/* ---- failure ------------------------------------------------------------------------------------- */

static void write_until_it_fails(struct shared *shared, uint32_t number)
{
    char key[32], value[16], found[16];
    int key_len = snprintf(key, sizeof(key), "%u", number), error = 0;
    uint32_t acknowledged = 0;
    for (uint32_t round = 1; error == 0; round++) {
        memset(value, 0, sizeof(value));
        memcpy(value, &round, sizeof(round));
        error = tarn_depot_put(shared->depot, key, (size_t)key_len, value, sizeof(value), NULL, NULL);
        acknowledged = error == 0 ? round : acknowledged;
    }
    REQUIRE(error == -EIO || error == -EROFS);
    atomic_fetch_add(&shared->failed, 1);
    error = tarn_depot_get(shared->depot, key, (size_t)key_len, found, sizeof(found), NULL);
    REQUIRE(error == (acknowledged > 0 ? 0 : -ENOENT));
    REQUIRE(acknowledged == 0 || memcmp(found, &acknowledged, sizeof(acknowledged)) == 0);
    atomic_fetch_add(&shared->done, 1);
}

static void a_failure_reaches_all(void **state)
{
    (void)state;
    struct shared shared = {.body = write_until_it_fails, .drive = {.fail_op = DRIVE_WRITE, .fail_at = 100}};
    run(&shared);
    assert_int_equal(atomic_load(&shared.failed), TASKS + THREADS);
    testing_drive_free(&shared.drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writers_gather_in_groups), cmocka_unit_test(writers_do_not_mix_up),
        cmocka_unit_test(writers_wait_for_room),    cmocka_unit_test(conditions_decide_once),
        cmocka_unit_test(flushes_go_among_writes),  cmocka_unit_test(a_failure_reaches_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
