/*
 * A store under load, to be killed, and a look at what is left; load.py beside this file judges.
 *
 *     crash_load run STORE MODE SEED     write, delete and read from threads and tasks until killed or, after
 * a SIGTERM, to a good end; tell every operation on standard output crash_load look STORE              tell
 * what each key holds: a line `KEY NUMBER` for each that is there
 *
 * An operation is told twice, as a struct event: when it begins and when it was acknowledged.
 */
#include "base/base.h"
#include "task/node.h"
#include "task/sched.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <tarn/depot.h>
#include <time.h>
#include <unistd.h>

enum {
    SCHEDS = 2,
    TASKS = 6,
    THREADS = 2,
    CLIENTS = TASKS + THREADS,
    KEYS = 30, /* of each client */
    VALUE_BYTES_MAX = 12000,
};

#define STORE_BYTES (UINT64_C(8) << 20) /* little, so that it is collected all the time */

/* format: as load.py reads it */
struct event {
    uint64_t time_ns;
    uint64_t key; /* client * KEYS + key of the client */
    uint64_t
        number; /* of the value, different for all that a client stores in a run; 0: deleted, or only read */
    uint32_t acknowledged;
    uint32_t writes;
};
_Static_assert(sizeof(struct event) == 32, "load.py reads it");

struct load {
    struct tarn_node *node;
    struct tarn_depot *depot;
    struct task_sched *scheds[SCHEDS];
    struct task_group group;
    uint64_t seed;
    uint64_t run; /* numbers begin with it */
    _Atomic uint32_t clients;
    int error; /* of opening in a task */
    struct task_shared_future opened;
    enum tarn_mode mode;
    const char *path;
};

static _Atomic bool stopping;

static void stop(int number)
{
    (void)number;
    atomic_store(&stopping, true);
}

static uint64_t now(void)
{
    struct timespec time;
    base_assert(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return (uint64_t)time.tv_sec * BASE_NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

/* ---- values ------------------------------------------------------------------------------------- */

/* Everything in a value follows from key and number, its length too. */
static size_t fill_value(uint64_t key, uint64_t number, uint8_t *value)
{
    struct base_random random;
    base_random_init(&random, number << 16 | key);
    size_t bytes = sizeof(number) + base_random_below(&random, UINT64_C(1) << base_random_below(&random, 14));
    bytes = base_min(bytes, (size_t)VALUE_BYTES_MAX);
    base_random_fill(&random, value, bytes);
    memcpy(value, &number, sizeof(number));
    return bytes;
}

/* @return the number; 0 if the value is not one that was ever written */
static uint64_t read_value(uint64_t key, const uint8_t *value, size_t bytes)
{
    uint8_t *expected = malloc(VALUE_BYTES_MAX);
    uint64_t number = 0;
    base_assert(expected != NULL);
    if (bytes >= sizeof(number)) {
        memcpy(&number, value, sizeof(number));
        if (fill_value(key, number, expected) != bytes || memcmp(expected, value, bytes) != 0)
            number = 0;
    }
    free(expected);
    return number;
}

/* ---- clients ------------------------------------------------------------------------------------ */

static void tell(uint64_t key, uint64_t number, bool writes, bool acknowledged)
{
    const struct event event = {
        .time_ns = now(), .key = key, .number = number, .acknowledged = acknowledged, .writes = writes};
    if (write(STDOUT_FILENO, &event, sizeof(event)) != (ssize_t)sizeof(event))
        _exit(1); /* nobody listens */
}

static void do_one(struct load *load, struct base_random *random, uint64_t client, uint64_t number,
                   uint8_t *value)
{
    uint64_t key = client * KEYS + base_random_below(random, KEYS);
    uint64_t choice = base_random_below(random, 10);
    int error;
    if (choice < 2) {
        struct tarn_record_info info;
        error = tarn_depot_get(load->depot, &key, sizeof(key), value, VALUE_BYTES_MAX, &info);
        uint64_t found = error == 0 ? read_value(key, value, info.value_bytes) : 0;
        base_assert(error == -ENOENT || (error == 0 && found != 0));
        tell(key, found, false, true);
        return;
    }
    bool deletes = choice < 4;
    tell(key, deletes ? 0 : number, true, false);
    if (deletes)
        error = tarn_depot_delete(load->depot, &key, sizeof(key));
    else
        error =
            tarn_depot_put(load->depot, &key, sizeof(key), value, fill_value(key, number, value), NULL, NULL);
    base_assert(error == 0 || (deletes && error == -ENOENT));
    tell(key, deletes ? 0 : number, true, true);
}

static void run_client(void *arg)
{
    struct load *load = arg;
    uint64_t client = atomic_fetch_add(&load->clients, 1);
    struct base_random random;
    uint8_t *value = malloc(VALUE_BYTES_MAX);
    base_assert(value != NULL);
    base_random_init(&random, load->seed << 8 | client);
    for (uint64_t count = 1; !atomic_load(&stopping); count++) {
        do_one(load, &random, client, load->run << 32 | count, value);
        if (base_random_below(&random, 64) == 0)
            (void)task_sleep(base_random_below(&random, 2 * BASE_NS_PER_MS));
    }
    free(value);
}

static void *run_thread(void *arg)
{
    run_client(arg);
    return NULL;
}

/* ---- the program -------------------------------------------------------------------------------- */

static void open_store(void *arg)
{
    struct load *load = arg;
    const struct tarn_depot_options options = {.create_bytes = STORE_BYTES, .mode = load->mode};
    load->error = tarn_depot_open(load->node, load->path, &options, &load->depot);
    task_shared_future_set(&load->opened, 0);
}

static void start(struct load *load, bool in_task)
{
    const struct task_node_options options = {.log_level = BASE_LOG_WARN};
    int opened;
    base_assert(task_node_open(&options, &load->node) == 0);
    for (int i = 0; i < SCHEDS; i++) {
        base_assert(task_sched_open(load->node, NULL, &load->scheds[i]) == 0);
        base_assert(task_sched_start(load->scheds[i]) == 0);
    }
    task_group_init(&load->group);
    task_shared_future_init(&load->opened);
    if (in_task)
        base_assert(task_spawn(load->scheds[0], NULL, "open", open_store, load) == 0);
    else
        open_store(load);
    base_assert(task_shared_future_wait(&load->opened, TASK_FOREVER, &opened) == 0);
}

static int finish(struct load *load)
{
    int error = tarn_depot_close(load->depot);
    for (int i = 0; i < SCHEDS; i++)
        task_sched_stop(load->scheds[i]);
    for (int i = 0; i < SCHEDS; i++)
        task_sched_join(load->scheds[i]);
    for (int i = 0; i < SCHEDS; i++)
        task_sched_close(load->scheds[i]);
    task_node_close(load->node);
    return error;
}

static int run(struct load *load)
{
    pthread_t threads[THREADS];
    start(load, load->seed % 2 == 0);
    if (load->error != 0) {
        (void)fprintf(stderr, "open: %s\n", strerrordesc_np(-load->error));
        return 1;
    }
    for (int i = 0; i < TASKS; i++)
        base_assert(task_spawn(load->scheds[i % SCHEDS], &load->group, "client", run_client, load) == 0);
    for (int i = 0; i < THREADS; i++)
        base_assert(pthread_create(&threads[i], NULL, run_thread, load) == 0);
    base_assert(task_group_join(&load->group, TASK_FOREVER) == 0);
    for (int i = 0; i < THREADS; i++)
        base_assert(pthread_join(threads[i], NULL) == 0);
    return finish(load) == 0 ? 0 : 1;
}

struct looking {
    uint64_t visited;
    uint64_t found;
};

static int visit(void *arg, const void *key, size_t key_len, const void *value,
                 const struct tarn_record_info *info)
{
    struct looking *looking = arg;
    uint64_t number;
    base_assert(key_len == sizeof(number));
    memcpy(&number, key, sizeof(number));
    base_assert(number < (uint64_t)CLIENTS * KEYS);
    base_assert(read_value(number, value, info->value_bytes) != 0);
    looking->visited++;
    return 0;
}

static int look(struct load *load)
{
    struct looking looking = {.visited = 0};
    uint8_t *value = malloc(VALUE_BYTES_MAX);
    base_assert(value != NULL);
    load->mode = TARN_MODE_POWER;
    start(load, false);
    if (load->error != 0) {
        (void)fprintf(stderr, "open: %s\n", strerrordesc_np(-load->error));
        return 1;
    }
    for (uint64_t key = 0; key < (uint64_t)CLIENTS * KEYS; key++) {
        struct tarn_record_info info;
        int error = tarn_depot_get(load->depot, &key, sizeof(key), value, VALUE_BYTES_MAX, &info);
        base_assert(error == 0 || error == -ENOENT);
        if (error != 0)
            continue;
        looking.found++;
        (void)printf("%" PRIu64 " %" PRIu64 "\n", key, read_value(key, value, info.value_bytes));
    }
    base_assert(tarn_depot_scan(load->depot, visit, &looking) == 0);
    base_assert(looking.visited == looking.found);
    free(value);
    return finish(load) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {
        [TARN_MODE_POWER] = "power", [TARN_MODE_DEVICE] = "device", [TARN_MODE_ASYNC] = "async"};
    struct load load = {.path = argc > 2 ? argv[2] : NULL};
    if (argc == 3 && strcmp(argv[1], "look") == 0)
        return look(&load);
    if (argc != 5 || strcmp(argv[1], "run") != 0) {
        (void)fputs("usage: crash_load run STORE MODE SEED | crash_load look STORE\n", stderr);
        return 2;
    }
    for (size_t i = 0; i < base_array_count(modes); i++) {
        if (strcmp(argv[3], modes[i]) == 0)
            load.mode = (enum tarn_mode)i;
    }
    load.seed = strtoull(argv[4], NULL, 10);
    load.run = load.seed & UINT32_MAX;
    const struct sigaction action = {.sa_handler = stop};
    base_assert(sigaction(SIGTERM, &action, NULL) == 0);
    return run(&load);
}
