/*
 * Where the time goes: does each stage count the requests that pass it, and no others? Do stages add up to
 * the whole? Is one request in N measured, wherever it stands in a batch? May it be read, and forgotten,
 * while others count?
 */
#include "depot/testing.h"
#include "task/testing.h"
#include <pthread.h>

#define BIT(stage) (UINT32_C(1) << TARN_STAGE_##stage)

#define LOOKED  BIT(INDEX)
#define FETCHED (BIT(READ) | BIT(VERIFY))
#define ALLOWED (BIT(ROOM) | BIT(LOCK))
#define WRITTEN (BIT(APPEND) | BIT(COMMIT) | BIT(WRITE) | BIT(FLUSH))

/* ---- which stages ------------------------------------------------------------------------------------ */

static uint64_t count_of(struct tarn_depot *depot, enum tarn_stage stage)
{
    struct tarn_latency latency;
    assert_int_equal(tarn_depot_latency(depot, stage, &latency), 0);
    return latency.count;
}

static int do_put_new(struct testing_store *store)
{
    return depot_testing_put(store, "new", "value");
}

static int do_replace(struct testing_store *store)
{
    return depot_testing_put(store, "there", "another");
}

static int do_put_if_present(struct testing_store *store)
{
    const struct tarn_put_options options = {.condition = TARN_PUT_IF_PRESENT};
    return tarn_depot_put(store->depot, "absent", 6, "v", 1, &options, NULL);
}

static int do_get(struct testing_store *store)
{
    char value[16];
    return tarn_depot_get(store->depot, "there", 5, value, sizeof(value), NULL);
}

static int do_get_absent(struct testing_store *store)
{
    char value[16];
    return tarn_depot_get(store->depot, "absent", 6, value, sizeof(value), NULL);
}

static int do_get_many(struct testing_store *store)
{
    char value[16];
    struct tarn_get get = {.key = "there", .key_len = 5, .value = value, .value_room = sizeof(value)};
    tarn_depot_get_many(store->depot, &get, 1);
    return get.error;
}

static int do_touch(struct testing_store *store)
{
    return tarn_depot_touch(store->depot, "there", 5, 0);
}

static int keep_it(void *arg, const struct tarn_record_info *old, const void *value,
                   struct tarn_update *update)
{
    (void)arg;
    update->value = value;
    update->value_len = old->value_bytes;
    return 0;
}

static int do_update(struct testing_store *store)
{
    return tarn_depot_update(store->depot, "there", 5, keep_it, NULL, NULL);
}

static int do_delete(struct testing_store *store)
{
    return testing_delete(store, "there");
}

static int do_delete_absent(struct testing_store *store)
{
    return testing_delete(store, "absent");
}

static int do_wait(struct testing_store *store)
{
    depot_queued(store->depot, 1000);
    return 0;
}

static int pass_on(void *arg, const void *key, size_t key_len, const void *value,
                   const struct tarn_record_info *info)
{
    (void)arg;
    (void)key;
    (void)key_len;
    (void)value;
    (void)info;
    return 0;
}

static int do_scan(struct testing_store *store)
{
    return tarn_depot_scan(store->depot, pass_on, NULL);
}

static int do_batch(struct testing_store *store)
{
    struct tarn_batch_item items[] = {{.key = "there", .key_len = 5, .value = "", .value_len = 0},
                                      {.key = "new", .key_len = 3, .value = "", .value_len = 0}};
    return tarn_depot_write_batch(store->depot, items, base_array_count(items));
}

struct operation {
    int (*run)(struct testing_store *store);
    int outcome;
    uint32_t stages; /* a bit for each that it passes */
};

static const struct operation operations[] = {
    {do_put_new, 0, ALLOWED | LOOKED | WRITTEN | BIT(PUT)},
    {do_replace, 0, ALLOWED | LOOKED | FETCHED | WRITTEN | BIT(PUT)},
    {do_put_if_present, -ENOENT, ALLOWED | LOOKED | BIT(PUT)},
    {do_get, 0, LOOKED | FETCHED | BIT(GET)},
    {do_get_absent, -ENOENT, LOOKED | BIT(GET)},
    {do_get_many, 0, LOOKED | FETCHED | BIT(GET)},
    {do_touch, 0, ALLOWED | LOOKED | FETCHED | WRITTEN | BIT(TOUCH)},
    {do_update, 0, ALLOWED | LOOKED | FETCHED | WRITTEN | BIT(UPDATE)},
    {do_delete, 0, ALLOWED | LOOKED | FETCHED | WRITTEN | BIT(DELETE)},
    {do_delete_absent, -ENOENT, ALLOWED | LOOKED | BIT(DELETE)},
    {do_batch, 0, ALLOWED | LOOKED | FETCHED | WRITTEN | BIT(BATCH)},
    {do_wait, 0, BIT(QUEUE)},
    {do_scan, 0, 0},
};

/* A store on a device that has to be flushed, all requests measured. */
static void open_flushed(struct testing_store *store, struct testing_drive *drive, enum tarn_mode mode)
{
    const struct tarn_depot_options options = {.mode = mode, .measure_interval = 1};
    *drive = testing_made_store(0, TARN_MODE_POWER, false);
    drive->device = true;
    assert_int_equal(testing_try_open(store, drive, NULL, &options), 0);
    assert_int_equal(depot_testing_put(store, "there", "value"), 0);
}

static void each_counts_what_passes(void **state)
{
    (void)state;
    uint32_t passed = 0;
    for (size_t i = 0; i < base_array_count(operations); i++) {
        const struct operation *operation = &operations[i];
        struct testing_drive drive;
        struct testing_store store;
        open_flushed(&store, &drive, TARN_MODE_POWER);
        tarn_depot_forget_latency(store.depot);
        assert_int_equal(operation->run(&store), operation->outcome);
        for (unsigned stage = 0; stage < TARN_STAGE_COUNT; stage++) {
            bool passes = (operation->stages >> stage & 1) != 0;
            if (count_of(store.depot, (enum tarn_stage)stage) != passes)
                fail_msg("operation %zu, stage %s", i, tarn_stage_name((enum tarn_stage)stage));
        }
        passed |= operation->stages;
        depot_testing_close(&store);
        testing_drive_free(&drive);
    }
    assert_int_equal(passed, (UINT32_C(1) << TARN_STAGE_COUNT) - 1); /* no stage was left out */
}

/* What an asynchronous write has left in memory is not read from the drive, and nobody waits for a flush. */
static void memory_is_no_drive(void **state)
{
    (void)state;
    struct testing_drive drive;
    struct testing_store store;
    open_flushed(&store, &drive, TARN_MODE_ASYNC);
    tarn_depot_forget_latency(store.depot);
    assert_int_equal(do_get(&store), 0);
    assert_int_equal(count_of(store.depot, TARN_STAGE_READ), 0);
    assert_int_equal(count_of(store.depot, TARN_STAGE_VERIFY), 1);
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

static void stages_add_up(void **state)
{
    (void)state;
    struct testing_drive drive;
    struct testing_store store;
    uint64_t sum_ns = 0;
    struct tarn_latency latency;
    open_flushed(&store, &drive, TARN_MODE_POWER);
    tarn_depot_forget_latency(store.depot);
    for (int i = 0; i < 20; i++)
        assert_int_equal(do_replace(&store), 0);
    for (enum tarn_stage stage = TARN_STAGE_ROOM; stage <= TARN_STAGE_COMMIT; stage++) {
        assert_int_equal(tarn_depot_latency(store.depot, stage, &latency), 0);
        assert_int_equal(latency.count, 20);
        assert_true(latency.min_ns <= latency.p50_ns && latency.p50_ns <= latency.p90_ns &&
                    latency.p90_ns <= latency.p99_ns && latency.p99_ns <= latency.p999_ns &&
                    latency.p999_ns <= latency.max_ns && latency.sum_ns >= latency.max_ns);
        sum_ns += latency.sum_ns;
    }
    assert_int_equal(tarn_depot_latency(store.depot, TARN_STAGE_PUT, &latency), 0);
    assert_true(sum_ns > 0 && sum_ns <= latency.sum_ns);
    assert_int_equal(tarn_depot_latency(store.depot, TARN_STAGE_COUNT, &latency), -EINVAL);
    assert_null(tarn_stage_name(TARN_STAGE_COUNT));
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

/* ---- which requests ---------------------------------------------------------------------------------- */

#define BATCH   32
#define BATCHES 4000

/* Of batches as long as the interval each place is met about as often; all told one request in so many. */
static void any_place_of_a_batch(void **state)
{
    const struct testing_fixture *fixture = *state;
    struct tarn_depot *depot = fixture->store.depot;
    uint32_t met[BATCH] = {0}, all = 0;
    assert_int_equal(depot_measure_interval(depot), BATCH);
    for (int i = 0; i < BATCHES * BATCH; i++) {
        bool measured = depot_measures(depot);
        met[i % BATCH] += measured;
        all += measured;
    }
    assert_in_range(all, BATCHES * 8 / 10, BATCHES * 12 / 10);
    for (int i = 0; i < BATCH; i++)
        assert_in_range(met[i], BATCHES / BATCH / 2, BATCHES / BATCH * 2);
}

static void interval_may_change(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    depot_testing_expect(store, "a", NULL);
    depot_measure(store->depot, 1);
    assert_int_equal(count_of(store->depot, TARN_STAGE_GET), 0);
    for (int i = 0; i < 40; i++)
        depot_testing_expect(store, "a", NULL);
    assert_int_equal(count_of(store->depot, TARN_STAGE_GET), 40);
    depot_measure(store->depot, 1000000);
    for (int i = 0; i < 40; i++)
        depot_testing_expect(store, "a", NULL);
    assert_true(count_of(store->depot, TARN_STAGE_GET) <= 1);
}

/* ---- beside each other ------------------------------------------------------------------------------- */

#define TASKS   8
#define THREADS 2
#define GETS    (TESTING_SLOW ? 200 : 2000)

struct crowd {
    struct testing_drive drive;
    struct tarn_depot *depot;
    struct task_group group;
    _Atomic uint32_t threads_done;
};

static void get_often(void *arg)
{
    struct crowd *crowd = arg;
    char value[16];
    for (int i = 0; i < GETS; i++) {
        base_assert(tarn_depot_get(crowd->depot, "absent", 6, value, sizeof(value), NULL) == -ENOENT);
        if (!task_is_thread() && i % 16 == 0)
            task_yield();
    }
}

static void *get_in_thread(void *arg)
{
    struct crowd *crowd = arg;
    get_often(arg);
    atomic_fetch_add(&crowd->threads_done, 1);
    return NULL;
}

/* Schedulers and threads count, nothing is lost, and who reads meanwhile sees it grow. */
static void run_crowd(void *arg)
{
    struct task_testing *testing = arg;
    struct crowd *crowd = testing->arg;
    const struct tarn_depot_options options = {
        .create_bytes = TESTING_STORE_BYTES, .measure_interval = 1, .hot_bytes = TARN_HOT_OFF};
    pthread_t threads[THREADS];
    uint64_t before = 0;
    task_group_init(&crowd->group);
    assert_int_equal(tarn_depot_open(testing->node, "store", &options, &crowd->depot), 0);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(
            task_spawn(testing->scheds[i % TASK_TESTING_SCHEDS], &crowd->group, "getter", get_often, crowd),
            0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, get_in_thread, crowd), 0);
    while (before < (uint64_t)(TASKS + THREADS) * GETS) {
        uint64_t count = count_of(crowd->depot, TARN_STAGE_GET);
        assert_true(count >= before);
        before = count;
        (void)task_sleep(BASE_NS_PER_MS / 10);
    }
    assert_int_equal(task_group_join(&crowd->group, TASK_FOREVER), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(count_of(crowd->depot, TARN_STAGE_GET), (TASKS + THREADS) * GETS);
    assert_int_equal(count_of(crowd->depot, TARN_STAGE_INDEX), (TASKS + THREADS) * GETS);
    tarn_depot_forget_latency(crowd->depot);
    assert_int_equal(count_of(crowd->depot, TARN_STAGE_GET), 0);
    assert_int_equal(tarn_depot_close(crowd->depot), 0);
}

static void read_live(void **state)
{
    (void)state;
    struct crowd crowd = {.depot = NULL};
    const struct task_node_options options = {.drives = &testing_provider,
                                              .drives_arg = &crowd.drive,
                                              .log_level = BASE_LOG_ERROR,
                                              .log_sink = testing_sink};
    task_testing_run(&options, NULL, run_crowd, &crowd);
    testing_drive_free(&crowd.drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_counts_what_passes),
        cmocka_unit_test(memory_is_no_drive),
        cmocka_unit_test(stages_add_up),
        cmocka_unit_test_setup_teardown(any_place_of_a_batch, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(interval_may_change, testing_setup, testing_teardown),
        cmocka_unit_test(read_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
