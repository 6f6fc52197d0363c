/*
 * Do tasks of several schedulers and plain threads share one store: groups that gather and fill up,
 * conditions that decide once, a flush, the collector, growth and scans among writes, a failure that reaches
 * all?
 */
#include "depot/testing.h"
#include "task/testing.h"
#include <pthread.h>

#define TASKS   24
#define THREADS 3
#define ROUNDS  40

/* cmocka's asserts jump, which only the test's own thread may do. */
#define REQUIRE(condition) base_assert(condition)

struct shared {
    struct testing_drive drive;
    struct tarn_depot *depot;
    void (*body)(struct shared *shared, uint32_t number);
    _Atomic uint32_t workers;
    _Atomic uint64_t done;
    _Atomic uint64_t failed;
    uint64_t value_bytes;
    uint64_t store_bytes; /* 0: 64 MiB */
    enum tarn_mode mode;
    bool one_scheduler;            /* and no threads */
    struct tarn_depot_stats stats; /* in the end */
    struct task_group group;
};

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
    const struct tarn_depot_options options = {
        .create_bytes = shared->store_bytes == 0 ? UINT64_C(64) << 20 : shared->store_bytes,
        .mode = shared->mode,
        .checkpoint_rate_bytes = UINT64_C(1) << 30, /* one after the other */
        .checkpoint_every_bytes = 1,
        .hot_bytes =
            shared->mode == TARN_MODE_POWER ? 1 : 0, /* a tier that turns over, or one that keeps all */
    };
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
    tarn_depot_stats(shared->depot, &shared->stats);
    int error = tarn_depot_close(shared->depot);
    REQUIRE(atomic_load(&shared->failed) > 0 ? error == -EROFS || error == -EIO : error == 0);
}

static void run(struct shared *shared)
{
    const struct task_node_options options = {.drives = &testing_provider,
                                              .drives_arg = &shared->drive,
                                              .log_level = BASE_LOG_ERROR,
                                              .log_sink = testing_sink};
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

/* While a few writes are in flight, all others of the scheduler come and join the next group. */
static void writers_gather_in_groups(void **state)
{
    (void)state;
    struct shared shared = {.body = own_keys, .value_bytes = 300, .one_scheduler = true};
    run(&shared);
    assert_true(atomic_load(&shared.drive.writes) * 2 < TASKS * ROUNDS);
    testing_drive_free(&shared.drive);
}

static void writers_do_not_mix_up(void **state)
{
    (void)state;
    struct shared shared = {.body = own_keys, .value_bytes = 300};
    run(&shared);
    struct testing_store store;
    depot_testing_open(&store, &shared.drive, NULL, TARN_MODE_POWER);
    struct tarn_depot_stats stats;
    tarn_depot_stats(store.depot, &stats);
    assert_int_equal(stats.records, (TASKS + THREADS) * 4); /* of the five each deletes one last */
    depot_testing_close(&store);
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

/* Nothing is lost that they count, each in every one of his rounds. */
static void expect_all_counted(void (*body)(struct shared *shared, uint32_t number))
{
    struct shared shared = {.body = body};
    run(&shared);
    struct testing_store store;
    depot_testing_open(&store, &shared.drive, NULL, TARN_MODE_POWER);
    uint64_t count = 0;
    assert_int_equal(tarn_depot_get(store.depot, "counter", 7, &count, sizeof(count), NULL), 0);
    assert_int_equal(count, (TASKS + THREADS) * ROUNDS);
    depot_testing_close(&store);
    testing_drive_free(&shared.drive);
}

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
    expect_all_counted(count_up);
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

/* ---- collection and growth meanwhile ------------------------------------------------------------- */

/* Each worker's keys are overwritten, removed and read while the collector moves everybody's. */
static void churn(struct shared *shared, uint32_t number)
{
    struct base_random random;
    uint32_t held[8] = {0}, sizes[8] = {0};
    char *value = malloc(shared->value_bytes), *found = malloc(shared->value_bytes);
    REQUIRE(value != NULL && found != NULL);
    base_random_init(&random, number);
    for (uint32_t round = 1; round <= 4 * ROUNDS; round++) {
        uint32_t slot = (uint32_t)base_random_below(&random, base_array_count(held));
        const uint32_t key[2] = {number, slot};
        struct tarn_record_info info;
        int error = tarn_depot_get(shared->depot, key, sizeof(key), found, shared->value_bytes, &info);
        REQUIRE(error == (held[slot] == 0 ? -ENOENT : 0));
        if (held[slot] != 0) {
            memset(value, (int)(held[slot] + number), sizes[slot]);
            REQUIRE(info.value_bytes == sizes[slot] && info.client_flags == held[slot]);
            REQUIRE(memcmp(found, value, sizes[slot]) == 0);
        }
        if (base_random_below(&random, 4) == 0) {
            error = tarn_depot_delete(shared->depot, key, sizeof(key));
            REQUIRE(error == (held[slot] == 0 ? -ENOENT : 0));
            held[slot] = 0;
            continue;
        }
        const struct tarn_put_options options = {.client_flags = round};
        sizes[slot] = (uint32_t)base_random_below(&random, shared->value_bytes);
        held[slot] = round;
        memset(value, (int)(round + number), sizes[slot]);
        REQUIRE(tarn_depot_put(shared->depot, key, sizeof(key), value, sizes[slot], &options, NULL) == 0);
    }
    free(value);
    free(found);
    atomic_fetch_add(&shared->done, 1);
}

static void the_collector_goes_among_writes(void **state)
{
    (void)state;
    const enum tarn_mode modes[] = {TARN_MODE_POWER, TARN_MODE_DEVICE, TARN_MODE_ASYNC};
    for (size_t i = 0; i < base_array_count(modes); i++) {
        struct shared shared = {
            .body = churn, .value_bytes = 6000, .store_bytes = UINT64_C(3) << 20, .mode = modes[i]};
        run(&shared);
        assert_true(shared.stats.collections > 10);
        testing_drive_free(&shared.drive);
    }
}

static void grow(struct shared *shared, uint32_t number)
{
    for (uint32_t i = 0; i < 1200; i++) {
        const uint32_t key[2] = {number, i};
        uint32_t found[2] = {0};
        REQUIRE(tarn_depot_put(shared->depot, key, sizeof(key), key, sizeof(key), NULL, NULL) == 0);
        const uint32_t earlier[2] = {number, i / 2};
        REQUIRE(tarn_depot_get(shared->depot, earlier, sizeof(earlier), found, sizeof(found), NULL) == 0);
        REQUIRE(memcmp(found, earlier, sizeof(found)) == 0);
    }
    atomic_fetch_add(&shared->done, 1);
}

static void the_index_grows_among_writes(void **state)
{
    (void)state;
    struct shared shared = {.body = grow, .mode = TARN_MODE_DEVICE};
    run(&shared);
    assert_int_equal(shared.stats.records, (TASKS + THREADS) * 1200);
    assert_true(shared.stats.index_entries >= 4 * 8192);
    testing_drive_free(&shared.drive);
}

/* One in three keys stays. The index becomes larger than it has to be, and smaller, all the while. */
static void resize(struct shared *shared, uint32_t number)
{
    for (uint32_t i = 0; i < 1200; i++) {
        const uint32_t key[2] = {number, i}, earlier[2] = {number, i / 6 * 3};
        uint32_t found[2] = {0};
        uint64_t bytes;
        REQUIRE(tarn_depot_put(shared->depot, key, sizeof(key), key, sizeof(key), NULL, NULL) == 0);
        REQUIRE(tarn_depot_get(shared->depot, earlier, sizeof(earlier), found, sizeof(found), NULL) == 0);
        REQUIRE(memcmp(found, earlier, sizeof(found)) == 0);
        if (i % 3 != 0)
            REQUIRE(tarn_depot_delete(shared->depot, key, sizeof(key)) == 0);
        if (i % 64 != number)
            continue;
        int error = tarn_depot_shrink_index(shared->depot, &bytes);
        REQUIRE(error == 0 || error == -EBUSY || error == -EAGAIN);
        REQUIRE(depot_grow_index(shared->depot, 65536) == 0);
    }
    atomic_fetch_add(&shared->done, 1);
}

static void the_index_shrinks_among_writes(void **state)
{
    (void)state;
    struct shared shared = {.body = resize, .mode = TARN_MODE_ASYNC};
    run(&shared);
    assert_int_equal(shared.stats.records, (TASKS + THREADS) * 400);
    testing_drive_free(&shared.drive);
}

/* One key that all read and write, in updates that count; each is seen once. */
static int add_one(void *arg, const struct tarn_record_info *old, const void *value,
                   struct tarn_update *update)
{
    uint64_t *count = arg;
    *count = 0;
    if (old != NULL)
        memcpy(count, value, sizeof(*count));
    ++*count;
    update->value = count;
    update->value_len = sizeof(*count);
    return 0;
}

static void update_all(struct shared *shared, uint32_t number)
{
    (void)number;
    uint64_t before = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t count, found = 0;
        REQUIRE(tarn_depot_update(shared->depot, "counter", 7, add_one, &count, NULL) == 0);
        REQUIRE(tarn_depot_get(shared->depot, "counter", 7, &found, sizeof(found), NULL) == 0);
        REQUIRE(found >= count && count > before);
        before = count;
    }
    atomic_fetch_add(&shared->done, 1);
}

static void updates_are_whole(void **state)
{
    (void)state;
    expect_all_counted(update_all);
}

static int count_visit(void *arg, const void *key, size_t key_len, const void *value,
                       const struct tarn_record_info *info)
{
    uint32_t *visits = arg;
    (void)value;
    (void)info;
    if (key_len == 4 && memcmp(key, "rest", 4) == 0)
        ++*visits;
    return 0;
}

/* Scans see what is at rest, once, while others write; fetches of many keys go beside them. */
static void look_around(struct shared *shared, uint32_t number)
{
    char key[32], values[3][8];
    int key_len = snprintf(key, sizeof(key), "%u", number);
    for (uint32_t round = 0; round < ROUNDS / 4; round++) {
        uint32_t visits = 0;
        if (number == 0)
            REQUIRE(tarn_depot_put(shared->depot, "rest", 4, "v", 1, NULL, NULL) == 0);
        REQUIRE(tarn_depot_put(shared->depot, key, (size_t)key_len, "value", 5, NULL, NULL) == 0);
        struct tarn_get gets[3];
        for (size_t i = 0; i < 3; i++)
            gets[i] = (struct tarn_get){.key = i == 1 ? "none" : key,
                                        .key_len = i == 1 ? 4 : (size_t)key_len,
                                        .value = values[i],
                                        .value_room = sizeof(values[i])};
        tarn_depot_get_many(shared->depot, gets, 3);
        REQUIRE(gets[0].error == 0 && gets[1].error == -ENOENT && gets[2].error == 0);
        if (number != 0) {
            REQUIRE(tarn_depot_scan(shared->depot, count_visit, &visits) == 0);
            REQUIRE(visits <= 1);
        }
        REQUIRE(tarn_depot_delete(shared->depot, key, (size_t)key_len) == 0);
    }
    atomic_fetch_add(&shared->done, 1);
}

static void scans_go_among_writes(void **state)
{
    (void)state;
    struct shared shared = {.body = look_around, .mode = TARN_MODE_DEVICE};
    run(&shared);
    assert_int_equal(shared.stats.records, 1);
    testing_drive_free(&shared.drive);
}

/* ---- values in pieces ------------------------------------------------------------------------------ */

enum { LONG_KEYS = 3, LONG_MAX = 150000, LONG_ROUNDS = TESTING_SLOW ? 8 : 30 };

/* One value is full of one byte, which its length follows from: a mixture of two shows. */
static size_t long_bytes(uint8_t seed)
{
    return seed % 4 == 0 ? 1000 + (size_t)seed : 61400 + 300 * (size_t)seed;
}

static void expect_one_value(const uint8_t *bytes, size_t begin, size_t count, uint32_t value_bytes)
{
    for (size_t i = 0; i < count; i++)
        REQUIRE(bytes[i] == bytes[0] && begin + count <= value_bytes);
    REQUIRE(count == 0 || long_bytes(bytes[0]) == value_bytes);
}

static void read_in_two(struct shared *shared, const char *key, uint8_t *found)
{
    struct tarn_record_info info;
    size_t first, second;
    int error = tarn_depot_read(shared->depot, key, 1, 0, 0, found, 40000, &first, &info);
    if (error == 0)
        error = tarn_depot_read(shared->depot, key, 1, info.version, first, found + first, LONG_MAX, &second,
                                &info);
    REQUIRE(error == 0 || error == -ENOENT || error == -ESTALE);
    if (error == 0)
        expect_one_value(found, 0, first + second, info.value_bytes);
}

/* Many are under way at once, for which there may be no room. @return error, if nothing else is wrong */
static int unless_full(int error)
{
    REQUIRE(error == 0 || error == -ENOSPC || error == -ESTALE);
    return error;
}

static void write_bit_by_bit(struct shared *shared, const char *key, const uint8_t *value, size_t bytes,
                             bool give_up)
{
    struct tarn_depot_writer *writer;
    uint64_t told = give_up ? TARN_LENGTH_UNKNOWN : bytes;
    int error = unless_full(tarn_depot_writer_open(shared->depot, key, 1, NULL, told, &writer));
    if (error != 0)
        return;
    for (size_t at = 0; at < bytes && error == 0; at += 10000)
        error = unless_full(tarn_depot_writer_write(writer, value + at, base_min(bytes - at, (size_t)10000)));
    if (give_up || error != 0)
        tarn_depot_writer_abort(writer);
    else
        (void)unless_full(tarn_depot_writer_commit(writer, NULL));
}

static void long_values(struct shared *shared, uint32_t number)
{
    uint8_t *value = malloc(LONG_MAX), *found = malloc(2 * LONG_MAX);
    struct base_random random;
    base_random_init(&random, number);
    REQUIRE(value != NULL && found != NULL);
    for (int round = 0; round < LONG_ROUNDS; round++) {
        const char key[] = {(char)('a' + base_random_below(&random, LONG_KEYS)), '\0'};
        uint8_t seed = (uint8_t)base_random_below(&random, 250);
        struct tarn_record_info info;
        memset(value, seed, LONG_MAX);
        uint64_t what = base_random_below(&random, 12);
        if (what < 3) {
            (void)unless_full(tarn_depot_put(shared->depot, key, 1, value, long_bytes(seed), NULL, NULL));
        } else if (what < 6) {
            write_bit_by_bit(shared, key, value, long_bytes(seed), what == 5);
        } else if (what < 8) {
            read_in_two(shared, key, found);
        } else if (what == 8 && base_random_below(&random, 4) == 0) {
            REQUIRE(tarn_depot_flush_all(shared->depot, 0) == 0);
        } else if (what == 9) {
            int error = tarn_depot_delete(shared->depot, key, 1);
            REQUIRE(error == 0 || error == -ENOENT);
        } else {
            int error = tarn_depot_get(shared->depot, key, 1, found, LONG_MAX, &info);
            REQUIRE(error == 0 || error == -ENOENT);
            if (error == 0)
                expect_one_value(found, 0, info.value_bytes, info.value_bytes);
        }
    }
    free(value);
    free(found);
    atomic_fetch_add(&shared->done, 1);
}

/* On few keys, with the collector among them: nobody sees a mixture, and nothing is left of what was given
 * up. */
static void long_values_do_not_mix(void **state)
{
    (void)state;
    struct shared shared = {.body = long_values, .store_bytes = UINT64_C(7) << 20};
    run(&shared);
    assert_true(shared.stats.records <= LONG_KEYS);
    struct testing_store store;
    depot_testing_open(&store, &shared.drive, NULL, TARN_MODE_POWER);
    assert_true(tarn_depot_whole_bytes_max(store.depot) < long_bytes(1));
    for (int i = 0; i < LONG_KEYS; i++) {
        const char key[] = {(char)('a' + i), '\0'};
        int error = testing_delete(&store, key);
        assert_true(error == 0 || error == -ENOENT);
    }
    struct tarn_depot_stats stats;
    tarn_depot_stats(store.depot, &stats);
    assert_true(stats.records == 0 && stats.pieces == 0 && stats.live_bytes == 0);
    depot_testing_close(&store);
    testing_drive_free(&shared.drive);
}

/* ---- the store grows ----------------------------------------------------------------------------- */

#define GROWN_BYTES (UINT64_C(12) << 20)

/* One lets it grow, in steps from few segments to many; the others fill it, so that there is always somebody who is
 * refused, or for whom the collector makes room. */
static void grow_among_writes(struct shared *shared, uint32_t number)
{
    if (number != 0) {
        churn(shared, number);
        return;
    }
    while (shared->drive.size < GROWN_BYTES) {
        struct tarn_depot_growth growth;
        struct tarn_depot_stats stats;
        shared->drive.size += UINT64_C(300) << 10; /* two segments and a bit */
        REQUIRE(tarn_depot_extend(shared->depot, &growth) == 0);
        REQUIRE(growth.after_bytes > growth.before_bytes);
        tarn_depot_stats(shared->depot, &stats);
        REQUIRE(stats.drive_bytes == growth.after_bytes);
        (void)task_sleep(BASE_NS_PER_MS);
    }
    atomic_fetch_add(&shared->done, 1);
}

static void the_store_grows_among_writes(void **state)
{
    (void)state;
    static const enum tarn_mode modes[] = {TARN_MODE_POWER, TARN_MODE_DEVICE, TARN_MODE_ASYNC};
    for (size_t i = 0; i < base_array_count(modes); i++) {
        struct shared shared = {.body = grow_among_writes,
                                .value_bytes = 6000,
                                .store_bytes = UINT64_C(3) << 20,
                                .mode = modes[i],
                                .drive = testing_drive_new(UINT64_C(3) << 20)};
        testing_drive_keep_room(&shared.drive, GROWN_BYTES + (UINT64_C(1) << 20), 0xee);
        run(&shared);
        assert_true(shared.stats.drive_bytes > GROWN_BYTES - (UINT64_C(1) << 20));
        testing_drive_free(&shared.drive);
    }
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
        cmocka_unit_test(writers_gather_in_groups),
        cmocka_unit_test(writers_do_not_mix_up),
        cmocka_unit_test(writers_wait_for_room),
        cmocka_unit_test(conditions_decide_once),
        cmocka_unit_test(flushes_go_among_writes),
        cmocka_unit_test(the_collector_goes_among_writes),
        cmocka_unit_test(the_index_grows_among_writes),
        cmocka_unit_test(the_index_shrinks_among_writes),
        cmocka_unit_test(updates_are_whole),
        cmocka_unit_test(scans_go_among_writes),
        cmocka_unit_test(a_failure_reaches_all),
        cmocka_unit_test(long_values_do_not_mix),
        cmocka_unit_test(the_store_grows_among_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
