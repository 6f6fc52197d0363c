/*
 * A store under load, to be killed, and looks at what is left; load.py beside this file judges, and so do the scripts of
 * tests/damage.
 *
 *     crash_load run STORE MODE SEED BYTES [cache]
 *         write, delete and read, one key or a batch at a time, from threads and tasks until killed or, after a
 *         SIGTERM, to a good end; tell every operation on standard output
 *     crash_load look
 *         for each line `HOW STORE` on standard input, tell what is there, and then `end`. HOW is `check`, `repair`,
 *         or how the store is opened: `read`, `write`, or `put=KEY` (to write, and that key is stored first); perhaps
 *         with `,cache` or `,damaged` behind it, or `,make=BYTES`: what a killed maker left empty or blank becomes a
 *         store
 *
 * An operation is told twice, as a struct event for each of its keys: when it begins and when it was acknowledged.
 *
 * A look tells these lines, in which ERROR is the name of an errno value, or 0:
 *
 *     open ERROR       of the opening; nothing but lines of the log follows a refusal
 *     KEY NUMBER       what a get of the key returns: the number of the value, 0 if it is one that was never stored
 *     KEY ERROR        ... or that it fails. No line: there is no such key
 *     visit KEY NUMBER what a scan shows of the key
 *     scan ERROR       of the scan
 *     close ERROR
 *     check ERROR      of the check; if 0, the number of faults follows
 *     put ERROR        of the put
 *     repair ERROR     of the repair; if 0, the number of lost records follows
 *     log LINE         what the store warns of meanwhile
 */
#include "base/base.h"
#include "depot/depot.h"
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
    KEYS = 30,     /* of each client */
    KEYS_LONG = 2, /* of them, that may hold long values */
    BATCH_MAX = 5,
    VALUE_BYTES_MAX = 12000,
    LONG_BYTES_MIN = 70000, /* in pieces, in a store of 4 MiB */
    LONG_BYTES_MAX = 100000,
};

#define PUT_NUMBER 1 /* of the value that a look stores: no run's */

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
    struct tarn_depot_options options;
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

static bool is_long(uint64_t key, uint64_t number)
{
    return key % KEYS < KEYS_LONG && number % 8 == 0;
}

/* Everything in a value follows from key and number, its length too. */
static size_t fill_value(uint64_t key, uint64_t number, uint8_t *value)
{
    struct base_random random;
    base_random_init(&random, number << 16 | key);
    size_t bytes = sizeof(number) + base_random_below(&random, UINT64_C(1) << base_random_below(&random, 14));
    bytes = base_min(bytes, (size_t)VALUE_BYTES_MAX);
    if (is_long(key, number))
        bytes = LONG_BYTES_MIN + base_random_below(&random, LONG_BYTES_MAX - LONG_BYTES_MIN);
    base_random_fill(&random, value, bytes);
    memcpy(value, &number, sizeof(number));
    return bytes;
}

/* @return the number; 0 if the value is not one that was ever written */
static uint64_t read_value(uint64_t key, const uint8_t *value, size_t bytes)
{
    uint8_t *expected = malloc(LONG_BYTES_MAX);
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

static void read_one(struct load *load, uint64_t key, uint8_t *value)
{
    struct tarn_record_info info;
    int error = tarn_depot_get(load->depot, &key, sizeof(key), value, LONG_BYTES_MAX, &info);
    uint64_t found = error == 0 ? read_value(key, value, info.value_bytes) : 0;
    base_assert(error == -ENOENT || (error == 0 && found != 0));
    tell(key, found, false, true);
}

static void write_one(struct load *load, uint64_t key, uint64_t number, uint8_t *value)
{
    int error;
    tell(key, number, true, false);
    if (number == 0)
        error = tarn_depot_delete(load->depot, &key, sizeof(key));
    else
        error =
            tarn_depot_put(load->depot, &key, sizeof(key), value, fill_value(key, number, value), NULL, NULL);
    base_assert(error == 0 || (number == 0 && error == -ENOENT));
    tell(key, number, true, true);
}

/* Some of the client's keys, from this one on, each of which is given a value or removed. */
static void write_batch(struct load *load, struct base_random *random, uint64_t first, uint64_t number,
                        uint8_t *value)
{
    struct tarn_batch_item items[BATCH_MAX];
    uint64_t keys[BATCH_MAX], numbers[BATCH_MAX];
    size_t count = 0, used = 0;
    for (uint64_t key = first; key < (first / KEYS + 1) * KEYS && count < BATCH_MAX; key++) {
        if (is_long(key, number) || base_random_below(random, 2) == 0)
            continue;
        keys[count] = key;
        numbers[count] = base_random_below(random, 4) == 0 ? 0 : number;
        items[count] = (struct tarn_batch_item){.key = &keys[count],
                                                .key_len = sizeof(key),
                                                .value = value + used,
                                                .remove = numbers[count] == 0};
        if (numbers[count] != 0)
            used += items[count].value_len = fill_value(key, number, value + used);
        count++;
    }
    if (count == 0 || used > LONG_BYTES_MIN / 4)
        return;
    for (size_t i = 0; i < count; i++)
        tell(keys[i], numbers[i], true, false);
    base_assert(tarn_depot_write_batch(load->depot, items, count) == 0);
    for (size_t i = 0; i < count; i++)
        tell(keys[i], numbers[i], true, true);
}

static void do_one(struct load *load, struct base_random *random, uint64_t client, uint64_t number,
                   uint8_t *value)
{
    uint64_t key = client * KEYS + base_random_below(random, KEYS);
    uint64_t choice = base_random_below(random, 10);
    if (choice < 2)
        read_one(load, key, value);
    else if (choice < 3)
        write_batch(load, random, key, number, value);
    else
        write_one(load, key, choice < 5 ? 0 : number, value);
}

static void run_client(void *arg)
{
    struct load *load = arg;
    uint64_t client = atomic_fetch_add(&load->clients, 1);
    struct base_random random;
    uint8_t *value = malloc(LONG_BYTES_MAX);
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
    load->error = tarn_depot_open(load->node, load->path, &load->options, &load->depot);
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

static void finish(struct load *load)
{
    for (int i = 0; i < SCHEDS; i++)
        task_sched_stop(load->scheds[i]);
    for (int i = 0; i < SCHEDS; i++)
        task_sched_join(load->scheds[i]);
    for (int i = 0; i < SCHEDS; i++)
        task_sched_close(load->scheds[i]);
    task_node_close(load->node);
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
    int error = tarn_depot_close(load->depot);
    finish(load);
    return error == 0 ? 0 : 1;
}

/* ---- looks -------------------------------------------------------------------------------------- */

static const char *name(int error)
{
    return error == 0 ? "0" : strerrorname_np(-error);
}

static void tell_log(void *arg, enum base_log_level level, const char *line, size_t len)
{
    (void)arg;
    (void)level;
    (void)printf("log %.*s", (int)len, line);
}

static int visit(void *arg, const void *key, size_t key_len, const void *value,
                 const struct tarn_record_info *info)
{
    uint64_t number;
    (void)arg;
    base_assert(key_len == sizeof(number));
    memcpy(&number, key, sizeof(number));
    if (value != NULL) /* it is not in pieces */
        (void)printf("visit %" PRIu64 " %" PRIu64 "\n", number, read_value(number, value, info->value_bytes));
    return 0;
}

static void look_at_keys(struct load *load)
{
    uint8_t *value = malloc(LONG_BYTES_MAX);
    base_assert(value != NULL);
    for (uint64_t key = 0; key < (uint64_t)CLIENTS * KEYS; key++) {
        struct tarn_record_info info;
        int error = tarn_depot_get(load->depot, &key, sizeof(key), value, LONG_BYTES_MAX, &info);
        if (error == 0)
            (void)printf("%" PRIu64 " %" PRIu64 "\n", key, read_value(key, value, info.value_bytes));
        else if (error != -ENOENT)
            (void)printf("%" PRIu64 " %s\n", key, name(error));
    }
    free(value);
    (void)printf("scan %s\n", name(tarn_depot_scan(load->depot, visit, NULL)));
}

static void check(struct load *load)
{
    struct depot_check_report report;
    int error = depot_check(load->node, load->path, false, NULL, NULL, NULL, &report);
    (void)printf("check %s %" PRIu64 "\n", name(error), error == 0 ? report.faults : 0);
}

static void repair(struct load *load)
{
    struct depot_repair_report report;
    int error = depot_repair(load->node, load->path, false, NULL, NULL, NULL, &report);
    (void)printf("repair %s %" PRIu64 "\n", name(error), error == 0 ? report.lost : 0);
}

static void put_first(struct load *load, uint64_t key)
{
    uint8_t value[VALUE_BYTES_MAX];
    size_t bytes = fill_value(key, PUT_NUMBER, value);
    (void)printf("put %s\n", name(tarn_depot_put(load->depot, &key, sizeof(key), value, bytes, NULL, NULL)));
}

static void look(const char *how, const char *path)
{
    const char *make = strstr(how, ",make="), *key = strstr(how, "put=");
    struct load load = {
        .path = path,
        .options = {.create_bytes = make != NULL ? strtoull(make + strlen(",make="), NULL, 10) : 0,
                    .read_only = strncmp(how, "read", 4) == 0,
                    .cache = strstr(how, ",cache") != NULL,
                    .serve_damaged = strstr(how, ",damaged") != NULL}};
    const struct task_node_options options = {.log_level = BASE_LOG_WARN, .log_sink = tell_log};
    base_assert(task_node_open(&options, &load.node) == 0);
    if (strcmp(how, "check") == 0) {
        check(&load);
    } else if (strcmp(how, "repair") == 0) {
        repair(&load);
    } else {
        int error = tarn_depot_open(load.node, path, &load.options, &load.depot);
        (void)printf("open %s\n", name(error));
        if (error == 0 && key != NULL)
            put_first(&load, strtoull(key + strlen("put="), NULL, 10));
        if (error == 0) {
            look_at_keys(&load);
            (void)printf("close %s\n", name(tarn_depot_close(load.depot)));
        }
    }
    task_node_close(load.node);
    (void)printf("end\n");
    (void)fflush(stdout);
}

static int look_at_all(void)
{
    char line[4096], how[32], path[4000];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (sscanf(line, "%31s %3999[^\n]", how, path) != 2)
            return 2;
        look(how, path);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {
        [TARN_MODE_POWER] = "power", [TARN_MODE_DEVICE] = "device", [TARN_MODE_ASYNC] = "async"};
    struct load load = {.path = argc > 2 ? argv[2] : NULL};
    if (argc == 2 && strcmp(argv[1], "look") == 0)
        return look_at_all();
    if (argc < 6 || argc > 7 || strcmp(argv[1], "run") != 0) {
        (void)fputs("usage: crash_load run STORE MODE SEED BYTES [cache] | crash_load look\n", stderr);
        return 2;
    }
    for (size_t i = 0; i < base_array_count(modes); i++) {
        if (strcmp(argv[3], modes[i]) == 0)
            load.options.mode = (enum tarn_mode)i;
    }
    load.seed = strtoull(argv[4], NULL, 10);
    load.run = load.seed & UINT32_MAX;
    load.options.create_bytes = strtoull(argv[5], NULL, 10);
    load.options.cache = argc == 7;
    load.options.hot_bytes = load.seed % 2; /* a tier that turns over, or one that keeps all */
    const struct sigaction action = {.sa_handler = stop};
    base_assert(sigaction(SIGTERM, &action, NULL) == 0);
    return run(&load);
}
