/*
 * If the n-th allocation or the n-th request fails, for every n, is the error a documented one, is what
 * was acknowledged there, what was rejected not, and is nothing leaked?
 */
#include "depot/testing.h"
#include "task/sched.h"

#define KEYS     14
#define PAIR     12 /* this one and the next are written together */
#define LONG_KEY 4  /* its values are in pieces */
#define LONG     90000

/* What a client knows of a key. */
struct known {
    char acknowledged[16]; /* "" for none */
    char uncertain[16];    /* of a write that failed with -EIO; "" for none */
    bool uncertain_delete;
};

/* A client and its store. */
struct client {
    struct testing_drive drive;
    struct testing_store store;
    struct known known[KEYS];
    uint64_t failures;
};

/* A value as it is stored: a long one has the text at its beginning and its end. */
static size_t make_value(int key, const char *text, char value[LONG])
{
    size_t len = strlen(text);
    (void)memcpy(value, text, len);
    if (key != LONG_KEY)
        return len;
    memset(value + len, text[0], LONG - len);
    (void)memcpy(value + LONG - len, text, len);
    return LONG;
}

static void forget(struct known *known)
{
    known->uncertain[0] = '\0';
    known->uncertain_delete = false;
}

/* What the answer to a write tells of a key. */
static void note_put(struct client *client, int key, const char *value, int error)
{
    struct known *known = &client->known[key];
    if (error == 0) {
        (void)snprintf(known->acknowledged, sizeof(known->acknowledged), "%s", value);
        forget(known);
        return;
    }
    base_assert(error == -ENOSPC || error == -EROFS || error == -EIO || error == -ENOMEM);
    client->failures++;
    if (error == -EIO)
        (void)snprintf(known->uncertain, sizeof(known->uncertain), "%s", value);
}

static void put(struct client *client, int key, const char *value)
{
    char name[16];
    static char whole[LONG];
    (void)snprintf(name, sizeof(name), "%d", key);
    int error = tarn_depot_put(client->store.depot, name, strlen(name), whole, make_value(key, value, whole),
                               NULL, NULL);
    note_put(client, key, value, error);
}

static void put_pair(struct client *client, const char *value)
{
    struct tarn_batch_item items[2];
    char names[2][16];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%d", PAIR + i);
        items[i] = (struct tarn_batch_item){
            .key = names[i], .key_len = strlen(names[i]), .value = value, .value_len = strlen(value)};
    }
    int error = tarn_depot_write_batch(client->store.depot, items, 2);
    for (int i = 0; i < 2; i++)
        note_put(client, PAIR + i, value, error);
}

static void remove_key(struct client *client, int key)
{
    struct known *known = &client->known[key];
    char name[16];
    (void)snprintf(name, sizeof(name), "%d", key);
    int error = testing_delete(&client->store, name);
    if (error == 0) {
        known->acknowledged[0] = '\0';
        forget(known);
        return;
    }
    base_assert(error == -ENOENT || error == -EROFS || error == -EIO);
    client->failures += error != -ENOENT;
    if (error == -EIO)
        known->uncertain_delete = true;
}

/* @param restarted  what was uncertain may have happened */
static void check(struct client *client, bool restarted)
{
    char of_pair[2][16] = {"", ""};
    bool pair_read = true;
    for (int key = 0; key < KEYS; key++) {
        const struct known *known = &client->known[key];
        static char whole[LONG], expected[LONG];
        char name[16], value[16] = "";
        struct tarn_record_info info = {.value_bytes = 0};
        (void)snprintf(name, sizeof(name), "%d", key);
        int error = tarn_depot_get(client->store.depot, name, strlen(name), whole, sizeof(whole), &info);
        if (error == -EIO) {
            client->failures++;
            pair_read = pair_read && key < PAIR;
            continue;
        }
        base_assert(error == 0 || error == -ENOENT);
        if (error == 0) { /* "first", "second", "last", as far as it is one of them, and whole */
            const char *const texts[] = {"first", "second", "last"};
            for (size_t i = 0; i < base_array_count(texts); i++) {
                if (make_value(key, texts[i], expected) == info.value_bytes &&
                    memcmp(whole, expected, info.value_bytes) == 0)
                    (void)snprintf(value, sizeof(value), "%s", texts[i]);
            }
            base_assert(value[0] != '\0');
        }
        bool is_acknowledged = strcmp(value, known->acknowledged) == 0;
        bool may_be = restarted && ((known->uncertain[0] != '\0' && strcmp(value, known->uncertain) == 0) ||
                                    (known->uncertain_delete && value[0] == '\0'));
        base_assert(is_acknowledged || may_be);
        if (key >= PAIR)
            memcpy(of_pair[key - PAIR], value, sizeof(value));
    }
    base_assert(!pair_read || strcmp(of_pair[0], of_pair[1]) == 0);
}

static void work(struct client *client)
{
    for (int key = 0; key < PAIR; key++)
        put(client, key, "first");
    put_pair(client, "first");
    check(client, false);
    put_pair(client, "second");
    for (int key = 0; key < PAIR; key += 2)
        put(client, key, "second");
    for (int key = 0; key < PAIR; key += 3)
        remove_key(client, key);
    check(client, false);
}

/* One life of a store, and what goes wrong in it. */
struct life {
    struct client *client;
    struct task_sched *sched;
    enum tarn_mode mode;
    void (*arm)(struct client *client, uint64_t n);
    bool (*disarm)(struct client *client);
    uint64_t n;
    bool happened;
};

static void run_life(void *arg)
{
    struct life *life = arg;
    struct client *client = life->client;
    const struct tarn_depot_options options = {.create_bytes = TESTING_STORE_BYTES,
                                               .mode = life->mode,
                                               .scrub_rate_bytes = UINT64_C(1) << 40,
                                               .hot_bytes = life->n % 2 == 0 ? TARN_HOT_OFF : 0};
    life->arm(client, life->n);
    int error = tarn_depot_open(client->store.node, "store", &options, &client->store.depot);
    if (error == 0) {
        work(client);
        error = tarn_depot_close(client->store.depot);
        client->failures += error != 0;
        base_assert(error == 0 || error == -EIO || error == -EROFS);
    } else {
        client->failures++;
        base_assert(error == -ENOMEM || error == -EIO);
    }
    life->happened = life->disarm(client);
    task_sched_stop(life->sched);
}

/*
 * One life of the store with one thing going wrong. It is led by a task, so that the service of the store is
 * a task beside it, and the same n is the same request every time. @return whether it did
 */
static bool live(struct client *client, enum tarn_mode mode, void (*arm)(struct client *client, uint64_t n),
                 bool (*disarm)(struct client *client), uint64_t n)
{
    struct life life = {.client = client, .mode = mode, .arm = arm, .disarm = disarm, .n = n};
    const struct task_sched_options options = {.buffers_count = 64};
    client->store.node = testing_node(&client->drive, NULL);
    assert_int_equal(task_sched_open(client->store.node, &options, &life.sched), 0);
    assert_int_equal(task_spawn(life.sched, NULL, "life", run_life, &life), 0);
    task_sched_run(life.sched);
    task_sched_close(life.sched);
    task_node_close(client->store.node); /* asserts that nothing is leaked */
    return life.happened;
}

/* @param failures_min  so many of them must be told to somebody, of what is tried again */
static void for_every_n(enum tarn_mode mode, enum drive_op op, bool fail_on, uint64_t failures_min,
                        void (*arm)(struct client *client, uint64_t n), bool (*disarm)(struct client *client))
{
    bool happened = true;
    uint64_t failures = 0;
    for (uint64_t n = 1; happened; n++) {
        struct client client = {.drive = {.fail_op = op, .fail_on = fail_on}};
        happened = live(&client, mode, arm, disarm, n);
        assert_true(happened || client.failures == 0);
        failures += client.failures > 0;
        depot_testing_open(&client.store, &client.drive, NULL, mode);
        check(&client, true);
        memset(client.known, 0, sizeof(client.known)); /* from here on all is certain again */
        for (int key = 0; key < KEYS; key++)
            put(&client, key, "last");
        check(&client, false);
        depot_testing_close(&client.store);
        testing_drive_free(&client.drive);
        assert_true(n < 1000);
    }
    assert_true(failures >= failures_min);
}

/* ---- allocations --------------------------------------------------------------------------------- */

static void arm_account(struct client *client, uint64_t n)
{
    base_account_fail_at(&client->store.node->memory, n);
}

static bool disarm_account(struct client *client)
{
    bool happened = atomic_load(&client->store.node->memory.fail_at) == 0;
    base_account_fail_at(&client->store.node->memory, 0);
    return happened;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for_every_n(TARN_MODE_POWER, DRIVE_READ, false, 10, arm_account, disarm_account);
}

/* ---- requests ------------------------------------------------------------------------------------ */

static void arm_drive(struct client *client, uint64_t n)
{
    atomic_store(&client->drive.fail_at, n);
}

/* fail_at stays 1 where all after the n-th fail: the failures tell. */
static bool disarm_drive(struct client *client)
{
    uint64_t left = atomic_exchange(&client->drive.fail_at, 0);
    return client->drive.fail_on ? client->failures > 0 : left == 0;
}

static void every_read_may_fail(void **state)
{
    (void)state;
    for_every_n(TARN_MODE_POWER, DRIVE_READ, false, 0, arm_drive, disarm_drive);
    for_every_n(TARN_MODE_POWER, DRIVE_READ, true, 5, arm_drive, disarm_drive);
}

static void every_write_may_fail(void **state)
{
    (void)state;
    for_every_n(TARN_MODE_POWER, DRIVE_WRITE, false, 10, arm_drive, disarm_drive);
    for_every_n(TARN_MODE_POWER, DRIVE_WRITE, true, 10, arm_drive, disarm_drive);
    for_every_n(TARN_MODE_DEVICE, DRIVE_WRITE, false, 10, arm_drive, disarm_drive);
}

static void every_flush_may_fail(void **state)
{
    (void)state;
    for_every_n(TARN_MODE_POWER, DRIVE_FLUSH, false, 1, arm_drive, disarm_drive);
    for_every_n(TARN_MODE_DEVICE, DRIVE_FLUSH, false, 1, arm_drive, disarm_drive);
}

/* ---- after a failed write ------------------------------------------------------------------------ */

static void a_failed_write_ends_writing_only(void **state)
{
    (void)state;
    struct testing_drive drive = {.fail_op = DRIVE_WRITE};
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    assert_int_equal(depot_testing_put(&store, "a", "v"), 0);
    assert_false(depot_failed(store.depot));
    atomic_store(&drive.fail_at, 1);
    assert_int_equal(depot_testing_put(&store, "a", "lost"), -EIO);
    assert_true(depot_failed(store.depot));
    assert_int_equal(depot_testing_put(&store, "a", "refused"), -EROFS);
    assert_int_equal(depot_testing_put(&store, "b", "refused"), -EROFS);
    assert_int_equal(testing_delete(&store, "a"), -EROFS);
    assert_int_equal(tarn_depot_touch(store.depot, "a", 1, 0), -EROFS);
    assert_int_equal(tarn_depot_flush_all(store.depot, 0), -EROFS);
    depot_testing_expect(&store, "a", "v");
    int error = tarn_depot_close(store.depot);
    assert_true(error == -EROFS || error == -EIO);
    task_node_close(store.node);
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    depot_testing_expect(&store, "a", "v");
    assert_int_equal(depot_testing_put(&store, "a", "again"), 0);
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

/* A drive that is gone from a moment on: nobody waits for ever, reads fail, and it comes back as it was. */
static void a_drive_may_be_lost(void **state)
{
    (void)state;
    struct testing_drive drive = {.fail_op = DRIVE_WRITE, .fail_on = true};
    struct testing_store store;
    char value[3000] = "";
    depot_testing_open(&store, &drive, NULL, TARN_MODE_ASYNC);
    assert_int_equal(depot_testing_put(&store, "a", "v"), 0);
    depot_testing_close(&store);
    depot_testing_open(&store, &drive, NULL, TARN_MODE_ASYNC);
    atomic_store(&drive.fail_at, 1);
    int error = 0;
    for (int i = 0; i < 10000 && error == 0; i++)
        error = tarn_depot_put(store.depot, &i, sizeof(i), value, sizeof(value), NULL, NULL);
    assert_true(error == -EIO || error == -EROFS);
    depot_testing_expect(&store, "a", "v");
    error = tarn_depot_close(store.depot);
    assert_true(error == -EIO || error == -EROFS);
    task_node_close(store.node);
    atomic_store(&drive.fail_at, 0);
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    depot_testing_expect(&store, "a", "v");
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_read_may_fail),
        cmocka_unit_test(every_write_may_fail),
        cmocka_unit_test(every_flush_may_fail),
        cmocka_unit_test(a_failed_write_ends_writing_only),
        cmocka_unit_test(a_drive_may_be_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
