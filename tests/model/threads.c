/*
 * Are the answers of one store to real threads, and to tasks of several schedulers, those of some order? Each
 * run lets them work on few keys, records what was asked and answered, and checks every key's history.
 *
 *     model_threads [RUNS [SEED]]      of each kind
 */
#include "depot/testing.h"
#include "sim/history.h"
#include "sim/linear.h"
#include "task/testing.h"
#include <pthread.h>
#include <unistd.h>

#define KEYS        5
#define THREADS     4
#define TASKS       8 /* on the schedulers but the first, where the service is */
#define CLIENTS     (THREADS + TASKS)
#define OPERATIONS  200 /* of each */
#define RUNS        3
#define VALUE_BYTES 6000

/* cmocka's asserts jump, which only the test's own thread may do. */
#define REQUIRE(condition) base_assert(condition)

/* What a client asks for. Values are numbers, different for every put and update. */
enum kind { GET, PUT, PUT_IF_ABSENT, PUT_IF_PRESENT, PUT_IF_VERSION, UPDATE, DELETE, KINDS };

struct run {
    struct testing_drive drive; /* memory, or */
    const char *path;           /* a file; NULL: memory */
    enum tarn_mode mode;
    uint64_t hot_bytes;
    uint64_t seed;
    struct tarn_depot *depot;
    struct base_account account;
    struct sim_history history;
    uint64_t expected[(CLIENTS + 2) * OPERATIONS]; /* of a PUT_IF_VERSION, by its value: the one to replace */
    _Atomic uint32_t clients;
    _Atomic uint32_t done;
    struct tarn_depot_stats stats;
    struct sim_history_record *records; /* while they are checked */
};

struct client {
    struct run *run;
    uint32_t number;
    uint32_t asked;
    struct base_random random;
    uint64_t known_value[KEYS]; /* that a get found, and its version */
    uint64_t known_version[KEYS];
    char value[VALUE_BYTES];
    char found[VALUE_BYTES];
};

static uint64_t now(void)
{
    struct timespec time;
    REQUIRE(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return (uint64_t)time.tv_sec * BASE_NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

/* ---- clients ------------------------------------------------------------------------------------ */

/* A value's number stands at its beginning and at its end; its length follows from it. */
static size_t fill_value(uint64_t number, char *value)
{
    size_t bytes = 16 + number * 977 % (VALUE_BYTES - 16);
    memset(value, (int)number, bytes);
    memcpy(value, &number, sizeof(number));
    memcpy(value + bytes - sizeof(number), &number, sizeof(number));
    return bytes;
}

static uint64_t read_value(const char *value, size_t bytes)
{
    char expected[VALUE_BYTES];
    uint64_t number;
    REQUIRE(bytes >= sizeof(number));
    memcpy(&number, value, sizeof(number));
    REQUIRE(fill_value(number, expected) == bytes && memcmp(value, expected, bytes) == 0);
    return number;
}

static int64_t ask(struct client *client, enum kind kind, uint64_t key, uint64_t argument)
{
    int64_t index =
        sim_history_invoke(&client->run->history, client->number, (uint32_t)kind, key, argument, now());
    REQUIRE(index >= 0);
    return index;
}

static void hear(struct client *client, int64_t index, int error, uint64_t result)
{
    sim_history_return(&client->run->history, client->number, index, error, result, now());
}

static void get(struct client *client, uint64_t key)
{
    struct tarn_record_info info;
    int64_t index = ask(client, GET, key, 0);
    int error = tarn_depot_get(client->run->depot, &key, sizeof(key), client->found, VALUE_BYTES, &info);
    REQUIRE(error == 0 || error == -ENOENT);
    uint64_t number = error == 0 ? read_value(client->found, info.value_bytes) : 0;
    hear(client, index, error, number);
    if (error == 0) {
        client->known_value[key] = number;
        client->known_version[key] = info.version;
    }
}

static void put(struct client *client, enum kind kind, uint64_t key, uint64_t number)
{
    static const enum tarn_put_condition conditions[] = {[PUT] = TARN_PUT_ANY,
                                                         [PUT_IF_ABSENT] = TARN_PUT_IF_ABSENT,
                                                         [PUT_IF_PRESENT] = TARN_PUT_IF_PRESENT,
                                                         [PUT_IF_VERSION] = TARN_PUT_IF_VERSION};
    struct run *run = client->run;
    const struct tarn_put_options options = {.condition = conditions[kind],
                                             .if_version = client->known_version[key]};
    run->expected[number] = client->known_value[key];
    size_t bytes = fill_value(number, client->value);
    int64_t index = ask(client, kind, key, number);
    int error = tarn_depot_put(run->depot, &key, sizeof(key), client->value, bytes, &options, NULL);
    REQUIRE(error == 0 || (kind != PUT && (error == -EEXIST || error == -ENOENT)));
    hear(client, index, error, 0);
}

struct update {
    struct client *client;
    uint64_t number;
    uint64_t found;
};

static int decide(void *arg, const struct tarn_record_info *old, const void *value,
                  struct tarn_update *update)
{
    struct update *own = arg;
    own->found = old == NULL ? 0 : read_value(value, old->value_bytes);
    update->value = own->client->value;
    update->value_len = fill_value(own->number, own->client->value);
    return 0;
}

static void do_one(struct client *client)
{
    enum kind kind = (enum kind)base_random_below(&client->random, KINDS);
    uint64_t key = base_random_below(&client->random, KEYS);
    uint64_t number = (uint64_t)client->number * OPERATIONS + ++client->asked;
    struct update update = {.client = client, .number = number};
    if (kind == PUT_IF_VERSION && client->known_value[key] == 0)
        kind = GET;
    if (kind == GET) {
        get(client, key);
    } else if (kind == DELETE) {
        int64_t index = ask(client, kind, key, 0);
        int error = tarn_depot_delete(client->run->depot, &key, sizeof(key));
        REQUIRE(error == 0 || error == -ENOENT);
        hear(client, index, error, 0);
    } else if (kind == UPDATE) {
        int64_t index = ask(client, kind, key, number);
        REQUIRE(tarn_depot_update(client->run->depot, &key, sizeof(key), decide, &update, NULL) == 0);
        hear(client, index, 0, update.found);
    } else {
        put(client, kind, key, number);
    }
}

static void run_client(void *arg)
{
    struct run *run = arg;
    struct client *client = calloc(1, sizeof(*client)); /* stacks of tasks are small */
    REQUIRE(client != NULL);
    client->run = run;
    client->number = atomic_fetch_add(&run->clients, 1);
    base_random_init(&client->random, run->seed << 8 | client->number);
    for (int i = 0; i < OPERATIONS - 1; i++)
        do_one(client);
    free(client);
    atomic_fetch_add(&run->done, 1);
}

static void *run_thread(void *arg)
{
    run_client(arg);
    return NULL;
}

/* ---- a run -------------------------------------------------------------------------------------- */

static void open_store(struct run *run, struct tarn_node *node)
{
    const struct tarn_depot_options options = {.create_bytes = TESTING_STORE_BYTES,
                                               .mode = run->mode,
                                               .checkpoint_rate_bytes = UINT64_C(1) << 30,
                                               .checkpoint_every_bytes = 1,
                                               .hot_bytes = run->hot_bytes};
    const char *path = run->path == NULL ? "store" : run->path;
    REQUIRE(tarn_depot_open(node, path, &options, &run->depot) == 0);
}

/* Read every key, when all have ended. */
static void read_all(struct run *run, uint32_t number)
{
    struct client *client = calloc(1, sizeof(*client));
    REQUIRE(client != NULL);
    client->run = run;
    client->number = number;
    for (uint64_t key = 0; key < KEYS; key++)
        get(client, key);
    free(client);
}

static void run_all(void *arg)
{
    struct task_testing *testing = arg;
    struct run *run = testing->arg;
    pthread_t threads[THREADS];
    struct task_group group;
    task_group_init(&group);
    open_store(run, testing->node);
    for (int i = 0; i < TASKS; i++)
        REQUIRE(task_spawn(testing->scheds[1 + i % (TASK_TESTING_SCHEDS - 1)], &group, "client", run_client,
                           run) == 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, run_thread, run) == 0);
    REQUIRE(task_group_join(&group, TASK_FOREVER) == 0);
    while (atomic_load(&run->done) < CLIENTS)
        REQUIRE(task_sleep(BASE_NS_PER_MS) == 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    read_all(run, CLIENTS);
    tarn_depot_stats(run->depot, &run->stats);
    REQUIRE(tarn_depot_close(run->depot) == 0);
    open_store(run, testing->node);
    read_all(run, CLIENTS + 1);
    REQUIRE(tarn_depot_close(run->depot) == 0);
}

/* ---- checking ----------------------------------------------------------------------------------- */

/* What a key holds after an operation did what it did. @return whether it can have done that */
static bool happens(const struct run *run, const struct sim_history_record *record, uint64_t *held)
{
    switch ((enum kind)record->operation) {
    case GET:
        return *held == record->result;
    case DELETE:
        if ((record->error == 0) != (*held != 0))
            return false;
        *held = 0;
        return true;
    case UPDATE:
        if (*held != record->result)
            return false;
        break;
    case PUT_IF_ABSENT:
        if (record->error == -EEXIST)
            return *held != 0;
        if (record->error != 0 || *held != 0)
            return false;
        break;
    case PUT_IF_PRESENT:
        if (record->error == -ENOENT)
            return *held == 0;
        if (record->error != 0 || *held == 0)
            return false;
        break;
    case PUT_IF_VERSION:
        if (record->error == -ENOENT)
            return *held == 0;
        if (record->error == -EEXIST)
            return *held != 0 && *held != run->expected[record->argument];
        if (*held != run->expected[record->argument])
            return false;
        break;
    default:
        break;
    }
    *held = record->argument;
    return true;
}

static uint32_t apply(void *arg, uint64_t number, const void *state, void *ret_states)
{
    const struct run *run = arg;
    uint64_t held;
    memcpy(&held, state, sizeof(held));
    if (!happens(run, &run->records[number], &held))
        return 0;
    memcpy(ret_states, &held, sizeof(held));
    return 1;
}

static void explain(void *arg, const void *state)
{
    uint64_t held;
    (void)arg;
    memcpy(&held, state, sizeof(held));
    print_error("before it the key may have held %llu\n", (unsigned long long)held);
}

static void check_key(struct run *run, uint64_t key, size_t count, struct sim_linear_op *ops)
{
    const struct sim_linear_model model = {
        .state_bytes = sizeof(uint64_t), .apply = apply, .explain = explain, .arg = run};
    const uint64_t empty = 0;
    uint64_t number = 0;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const struct sim_history_record *record = &run->records[i];
        if (record->key == key)
            ops[used++] = (struct sim_linear_op){.begin_ns = record->invoke_ns,
                                                 .end_ns = record->return_ns,
                                                 .number = i,
                                                 .read = record->operation == GET || record->error != 0};
    }
    int error = sim_linear_check(&run->account, &model, ops, used, &empty, &number);
    if (error == -EINVAL) {
        const struct sim_history_record *bad = &run->records[number];
        print_error("seed %llu key %llu: operation %u of client %u with %llu returned %d, %llu: no order "
                    "explains it\n",
                    (unsigned long long)run->seed, (unsigned long long)key, bad->operation, bad->client,
                    (unsigned long long)bad->argument, bad->error, (unsigned long long)bad->result);
    }
    assert_int_equal(error, 0);
}

static void check(struct run *run)
{
    size_t count = sim_history_count(&run->history);
    struct sim_linear_op *ops = calloc(count, sizeof(*ops));
    run->records = calloc(count, sizeof(*run->records));
    assert_true(ops != NULL && run->records != NULL);
    assert_int_equal(sim_history_merge(&run->history, run->records, count), count);
    for (uint64_t key = 0; key < KEYS; key++)
        check_key(run, key, count, ops);
    free(run->records);
    free(ops);
}

/* ---- all kinds of runs -------------------------------------------------------------------------- */

/* A tier that turns over, one that keeps all, and none. */
static const uint64_t hot_bytes[] = {1, 0, TARN_HOT_OFF};

static void one_run(const char *path, enum tarn_mode mode, uint64_t seed, uint64_t *collections)
{
    struct run *run = calloc(1, sizeof(*run));
    assert_non_null(run);
    run->path = path;
    run->mode = mode;
    run->hot_bytes = hot_bytes[seed / 3 % base_array_count(hot_bytes)]; /* each with each mode */
    run->seed = seed;
    base_account_init(&run->account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(sim_history_init(&run->history, &run->account, CLIENTS + 2, OPERATIONS), 0);
    const struct task_node_options options = {.drives = path == NULL ? &testing_provider : NULL,
                                              .drives_arg = &run->drive,
                                              .log_level = BASE_LOG_ERROR};
    task_testing_run(&options, NULL, run_all, run);
    check(run);
    *collections += run->stats.collections;
    sim_history_deinit(&run->history);
    base_account_deinit(&run->account);
    testing_drive_free(&run->drive);
    free(run);
}

static uint64_t argument_or(const char *text, uint64_t otherwise)
{
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void run_kind(void **state, const char *path)
{
    const char *const *arguments = *state;
    uint64_t runs = argument_or(arguments[0], RUNS);
    uint64_t seed = argument_or(arguments[0] == NULL ? NULL : arguments[1], 1);
    uint64_t collections = 0;
    for (uint64_t i = 0; i < runs; i++) {
        one_run(path, (enum tarn_mode)(i % 3), seed + i, &collections);
        if (path != NULL)
            assert_int_equal(unlink(path), 0);
    }
    assert_true(collections > 0);
}

static void histories_on_memory_have_an_order(void **state)
{
    run_kind(state, NULL);
}

static void histories_on_a_file_have_an_order(void **state)
{
    char folder[] = "./model-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/store", folder);
    run_kind(state, path);
    assert_int_equal(rmdir(folder), 0);
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(histories_on_memory_have_an_order, argv + 1),
        cmocka_unit_test_prestate(histories_on_a_file_have_an_order, argv + 1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
