/* Does an ordered store agree with a plain list, also after it was killed, full, flushed, or failed by its drive? */
#include "drive/memory_testing.h"
#include "tree/store.h"
#include <inttypes.h>
#include <pthread.h>

#define DRIVE_BYTES (UINT64_C(32) << 20)
#define UNIVERSE    700u
#define VALUE_MAX   3000u
#define BEGIN       (UINT64_C(1700000000) * BASE_NS_PER_SECOND)

struct fixture {
    struct testing_drive drive;
    struct testing_clock clock;
    struct tarn_node *node;
    struct tree_store *store;
    uint64_t memory_bytes;
    bool serve_damaged;
    struct base_random random;
    uint8_t got[VALUE_MAX], value[VALUE_MAX];
};

static int try_open(struct fixture *fixture)
{
    const struct tarn_depot_options depot = {
        .create_bytes = DRIVE_BYTES, .mode = TARN_MODE_POWER, .serve_damaged = fixture->serve_damaged};
    fixture->node = testing_node(&fixture->drive, &fixture->clock);
    int error =
        tree_store_open(fixture->node, "store",
                        &(struct tree_store_options){.depot = &depot, .memory_bytes = fixture->memory_bytes},
                        &fixture->store);
    if (error != 0)
        task_node_close(fixture->node);
    return error;
}

static struct fixture *open_fixture(uint64_t memory_bytes)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->memory_bytes = memory_bytes;
    fixture->clock.wall_ns = BEGIN;
    base_random_init(&fixture->random, memory_bytes);
    assert_int_equal(try_open(fixture), 0);
    return fixture;
}

static void end_store(struct fixture *fixture)
{
    const char *why = "";
    int error = tree_store_check(fixture->store, &why);
    if (error != 0)
        print_message("%s\n", why);
    assert_int_equal(error, 0);
    assert_int_equal(tree_store_close(fixture->store), 0);
    task_node_close(fixture->node); /* which asserts that all memory was given back */
}

/* Close a store, or have its process die, and open it again. */
static void open_again(struct fixture *fixture, bool killed)
{
    struct testing_drive copy = testing_drive_copy(&fixture->drive);
    end_store(fixture);
    if (killed) {
        testing_drive_free(&fixture->drive);
        fixture->drive = copy;
    } else {
        testing_drive_free(&copy);
    }
    assert_int_equal(try_open(fixture), 0);
}

static void close_fixture(struct fixture *fixture)
{
    end_store(fixture);
    testing_drive_free(&fixture->drive);
    free(fixture);
}

static struct tree_key key_of(const char *text)
{
    return (struct tree_key){.bytes = (const uint8_t *)text, .count = (uint32_t)strlen(text)};
}

static int put_text(struct fixture *fixture, const char *key, const char *value,
                    const struct tarn_put_options *options)
{
    static const struct tarn_put_options any = {0};
    return tree_store_put(fixture->store, key_of(key), value, strlen(value), options == NULL ? &any : options,
                          NULL);
}

static void expect_text(struct fixture *fixture, const char *key, const char *value)
{
    struct tarn_record_info info;
    int error = tree_store_get(fixture->store, key_of(key), fixture->got, sizeof(fixture->got), &info);
    assert_int_equal(error, value == NULL ? -ENOENT : 0);
    if (value != NULL) {
        assert_int_equal(info.value_bytes, strlen(value));
        assert_memory_equal(fixture->got, value, info.value_bytes);
    }
}

static struct tree_store_stats stats_of(struct fixture *fixture)
{
    struct tree_store_stats stats;
    tree_store_stats(fixture->store, &stats);
    return stats;
}

/* ---- a model ------------------------------------------------------------------------------------- */

/* Keys in their order, and what each should have. */
struct model {
    struct fixture *fixture;
    uint8_t keys[UNIVERSE][TREE_KEY_MAX];
    uint32_t lengths[UNIVERSE];
    bool present[UNIVERSE];
    uint64_t versions[UNIVERSE], expiries[UNIVERSE], rounds[UNIVERSE];
    uint32_t bytes[UNIVERSE];
    uint64_t round;
    uint32_t next; /* that a range is to show */
    uint32_t first, end;
    bool reverse;
};

static struct tree_key model_key(const struct model *model, uint32_t i)
{
    return (struct tree_key){.bytes = model->keys[i], .count = model->lengths[i]};
}

static void fill(uint8_t *value, uint32_t bytes, uint64_t round)
{
    for (uint32_t i = 0; i < bytes; i++)
        value[i] = (uint8_t)((round + i * 7u) % 253u);
}

static bool is_there(const struct model *model, uint32_t i)
{
    return model->present[i] &&
           (model->expiries[i] == 0 || model->expiries[i] > task_wall(model->fixture->node));
}

/* Short keys and long ones, with much in common. */
static void make_keys(struct model *model)
{
    for (uint32_t i = 0; i < UNIVERSE; i++) {
        const uint32_t tail = i % 9 == 0 ? 900 : i % 3 == 0 ? 40 : 0;
        int count =
            snprintf((char *)model->keys[i], TREE_KEY_MAX, "%s/%06" PRIu32, i < 300 ? "a" : "user", i * 3);
        memset(model->keys[i] + count, 'x', tail);
        model->lengths[i] = (uint32_t)count + tail;
    }
}

static void expect_key(struct model *model, uint32_t i)
{
    struct fixture *fixture = model->fixture;
    struct tarn_record_info info;
    int error =
        tree_store_get(fixture->store, model_key(model, i), fixture->got, sizeof(fixture->got), &info);
    assert_int_equal(error, is_there(model, i) ? 0 : -ENOENT);
    if (error != 0)
        return;
    fill(fixture->value, model->bytes[i], model->rounds[i]);
    assert_true(info.version == model->versions[i] && info.expiry_ns == model->expiries[i]);
    assert_int_equal(info.value_bytes, model->bytes[i]);
    assert_int_equal(info.client_flags, (uint32_t)model->rounds[i]);
    assert_memory_equal(fixture->got, fixture->value, info.value_bytes);
}

static int visit_in_order(void *arg, const void *key, size_t key_len, const void *value,
                          const struct tarn_record_info *info)
{
    struct model *model = arg;
    if (model->reverse)
        while (model->next > model->first && !is_there(model, model->next - 1))
            model->next--;
    else
        while (model->next < model->end && !is_there(model, model->next))
            model->next++;
    assert_int_equal(model->next != (model->reverse ? model->first : model->end), 1);
    const uint32_t i = model->reverse ? --model->next : model->next++;
    assert_int_equal(key_len, model->lengths[i]);
    assert_memory_equal(key, model->keys[i], key_len);
    assert_int_equal(info->value_bytes, model->bytes[i]);
    fill(model->fixture->value, model->bytes[i], model->rounds[i]);
    assert_memory_equal(value, model->fixture->value, model->bytes[i]);
    return 0;
}

static void expect_range(struct model *model)
{
    struct base_random *random = &model->fixture->random;
    uint32_t first = (uint32_t)base_random_below(random, UNIVERSE),
             end = (uint32_t)base_random_below(random, UNIVERSE);
    uint64_t count = 0;
    if (first > end)
        first ^= end, end ^= first, first ^= end;
    for (uint32_t i = first; i < end; i++)
        count += is_there(model, i);
    for (unsigned way = 0; way < 4; way++) {
        const struct tree_key from = model_key(model, first), below = model_key(model, end);
        const uint64_t limit = way < 2 ? 0 : 1 + base_random_below(random, UNIVERSE);
        const struct tree_store_range range = {
            .from = &from, .below = &below, .reverse = way % 2 == 1, .limit = limit};
        model->first = first;
        model->end = end;
        model->reverse = range.reverse;
        model->next = range.reverse ? end : first;
        assert_int_equal(tree_store_range(model->fixture->store, &range, visit_in_order, model), 0);
        uint64_t shown = 0;
        for (uint32_t i = range.reverse ? model->next : first; i < (range.reverse ? end : model->next); i++)
            shown += is_there(model, i);
        assert_int_equal(shown, limit == 0 ? count : base_min(count, limit));
    }
}

static void store_key(struct model *model, uint32_t i, uint64_t version)
{
    model->present[i] = true;
    model->versions[i] = version;
    model->rounds[i] = model->round;
}

static int decide_longer(void *arg, const struct tarn_record_info *old, const void *value,
                         struct tarn_update *update)
{
    struct model *model = arg;
    if (old == NULL)
        return -ENOENT;
    assert_non_null(value);
    update->value = model->fixture->value;
    update->value_len = base_min(old->value_bytes + 1, VALUE_MAX);
    update->client_flags = (uint32_t)model->round;
    return 0;
}

/* Do one thing to a key, and to what it should have. */
static void change_key(struct model *model, uint32_t i)
{
    struct fixture *fixture = model->fixture;
    const struct tree_key key = model_key(model, i);
    const bool was_there = is_there(model, i);
    uint64_t version = 0;
    model->round++;
    const uint64_t choice = base_random_below(&fixture->random, 12);
    if (choice < 6) {
        const struct tarn_put_options options = {
            .condition = choice == 1   ? TARN_PUT_IF_ABSENT
                         : choice == 2 ? TARN_PUT_IF_PRESENT
                         : choice == 3 ? TARN_PUT_IF_VERSION
                                       : TARN_PUT_ANY,
            .if_version = model->versions[i] + (choice == 3 && model->round % 2 == 0),
            .expiry_ns = choice == 5 ? task_wall(fixture->node) + BASE_NS_PER_SECOND : 0,
            .client_flags = (uint32_t)model->round};
        const int wanted = choice == 1   ? (was_there ? -EEXIST : 0)
                           : choice == 2 ? (was_there ? 0 : -ENOENT)
                           : choice == 3 ? (!was_there              ? -ENOENT
                                            : model->round % 2 == 0 ? -EEXIST
                                                                    : 0)
                                         : 0;
        const uint32_t bytes = (uint32_t)base_random_below(&fixture->random, i % 5 == 0 ? VALUE_MAX : 60);
        fill(fixture->value, bytes, model->round);
        assert_int_equal(tree_store_put(fixture->store, key, fixture->value, bytes, &options, &version),
                         wanted);
        if (wanted != 0)
            return;
        store_key(model, i, version);
        model->bytes[i] = bytes;
        model->expiries[i] = options.expiry_ns;
    } else if (choice < 9) {
        assert_int_equal(tree_store_delete(fixture->store, key), was_there ? 0 : -ENOENT);
        model->present[i] = false;
    } else if (choice == 9) {
        const uint64_t expiry_ns = task_wall(fixture->node) + 5 * BASE_NS_PER_SECOND;
        assert_int_equal(tree_store_touch(fixture->store, key, expiry_ns), was_there ? 0 : -ENOENT);
        if (was_there)
            model->expiries[i] = expiry_ns;
    } else {
        const uint32_t bytes = base_min(model->bytes[i] + 1, VALUE_MAX);
        fill(fixture->value, bytes, model->round);
        assert_int_equal(tree_store_update(fixture->store, key, decide_longer, model, &version),
                         was_there ? 0 : -ENOENT);
        if (was_there) {
            store_key(model, i, version);
            model->bytes[i] = bytes;
        }
    }
}

static void agrees_with_a_model(void **state)
{
    struct fixture *fixture = open_fixture(0);
    struct model *model = calloc(1, sizeof(*model));
    (void)state;
    assert_non_null(model);
    model->fixture = fixture;
    make_keys(model);
    for (uint32_t step = 0; step < (TESTING_SLOW ? 4000 : 20000); step++) {
        const uint32_t i = (uint32_t)base_random_below(&fixture->random, UNIVERSE);
        change_key(model, i);
        expect_key(model, i);
        if (step % 50 == 0)
            atomic_fetch_add(&fixture->clock.wall_ns, 100 * BASE_NS_PER_MS);
        if (step % 200 == 0)
            expect_range(model);
        if (step % 2000 == 1999)
            open_again(fixture, step % 4000 == 1999);
        for (uint32_t k = 0; k < UNIVERSE && step % 1000 == 999; k++)
            expect_key(model, k);
    }
    free(model);
    close_fixture(fixture);
}

/* ---- memory, time, and drives that fail ----------------------------------------------------------- */

/* What was refused is nowhere, what was stored is there, and what is removed makes room. */
static void a_full_one_refuses(void **state)
{
    struct fixture *fixture = open_fixture(8 << 20);
    char key[16];
    unsigned count = 0;
    int error;
    (void)state;
    memset(fixture->value, 'v', sizeof(fixture->value));
    fixture->value[VALUE_MAX - 1] = '\0';
    while ((error = put_text(fixture, (snprintf(key, sizeof(key), "%06u", count), key),
                             (const char *)fixture->value, NULL)) == 0)
        count++;
    assert_int_equal(error, -ENOSPC);
    assert_in_range(count, 1000, 2 << 10);
    expect_text(fixture, key, NULL);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < count; i++)
            expect_text(fixture, (snprintf(key, sizeof(key), "%06u", i), key), (const char *)fixture->value);
        assert_int_equal(stats_of(fixture).records, count);
        open_again(fixture, true);
    }
    assert_int_equal(tree_store_delete(fixture->store, key_of("000003")), 0);
    assert_int_equal(put_text(fixture, "z", (const char *)fixture->value, NULL), 0);
    assert_int_equal(put_text(fixture, "zz", (const char *)fixture->value, NULL), -ENOSPC);
    expect_text(fixture, "zz", NULL);
    close_fixture(fixture);
}

/* What has expired is removed from memory before anything is refused, and as new keys come. */
static void what_has_expired_makes_room(void **state)
{
    struct fixture *fixture = open_fixture(8 << 20);
    char key[16];
    (void)state;
    memset(fixture->value, 'v', 1000);
    for (unsigned i = 0; i < 40000; i++) {
        const struct tarn_put_options options = {.expiry_ns = fixture->clock.wall_ns + BASE_NS_PER_SECOND};
        (void)snprintf(key, sizeof(key), "%06u", (unsigned)(i * 7919u % 100000u));
        assert_int_equal(tree_store_put(fixture->store, key_of(key), fixture->value, 1000, &options, NULL),
                         0);
        if (i % 1000 == 999)
            atomic_fetch_add(&fixture->clock.wall_ns, BASE_NS_PER_SECOND);
    }
    assert_true(stats_of(fixture).reclaimed > 30000);
    close_fixture(fixture);
}

/* An order for later is kept by the store, and carried out when its moment has come, also after another opening. */
static void a_flush_comes_when_it_is_due(void **state)
{
    struct fixture *fixture = open_fixture(0);
    (void)state;
    assert_int_equal(put_text(fixture, "a", "1", NULL), 0);
    assert_int_equal(tree_store_flush(fixture->store, 0), 0);
    expect_text(fixture, "a", NULL);
    assert_int_equal(put_text(fixture, "a", "2", NULL), 0);
    assert_int_equal(tree_store_flush(fixture->store, BEGIN + BASE_NS_PER_SECOND), 0);
    expect_text(fixture, "a", "2");
    open_again(fixture, true);
    expect_text(fixture, "a", "2");
    assert_int_equal(put_text(fixture, "b", "3", NULL), 0);
    atomic_fetch_add(&fixture->clock.wall_ns, BASE_NS_PER_SECOND);
    expect_text(fixture, "a", NULL);
    expect_text(fixture, "b", NULL);
    assert_int_equal(put_text(fixture, "b", "4", NULL), 0);
    expect_text(fixture, "b", "4");
    open_again(fixture, true);
    expect_text(fixture, "a", NULL);
    expect_text(fixture, "b", "4");
    close_fixture(fixture);
}

/* An order that has come is carried out though another one takes its place; one that has not is replaced. */
static void a_flush_that_is_due_is_not_replaced(void **state)
{
    struct fixture *fixture = open_fixture(0);
    (void)state;
    assert_int_equal(put_text(fixture, "a", "1", NULL), 0);
    assert_int_equal(tree_store_flush(fixture->store, BEGIN + BASE_NS_PER_SECOND), 0);
    assert_int_equal(tree_store_flush(fixture->store, BEGIN + 2 * BASE_NS_PER_SECOND), 0);
    atomic_fetch_add(&fixture->clock.wall_ns, BASE_NS_PER_SECOND);
    expect_text(fixture, "a", "1");
    atomic_fetch_add(&fixture->clock.wall_ns, BASE_NS_PER_SECOND);
    assert_int_equal(tree_store_flush(fixture->store, BEGIN + 3 * BASE_NS_PER_SECOND), 0);
    expect_text(fixture, "a", NULL);
    assert_int_equal(put_text(fixture, "b", "2", NULL), 0);
    open_again(fixture, true);
    expect_text(fixture, "a", NULL);
    expect_text(fixture, "b", "2");
    close_fixture(fixture);
}

/* A store whose drive has failed is sound, but does not close in good order; it is opened on the drive, which works again. */
static void open_after_failure(struct fixture *fixture)
{
    const char *why;
    assert_int_equal(tree_store_check(fixture->store, &why), 0);
    assert_true(tree_store_close(fixture->store) < 0);
    task_node_close(fixture->node);
    atomic_store(&fixture->drive.fail_at, 0);
    fixture->drive.fail_on = false;
    assert_int_equal(try_open(fixture), 0);
}

/* A write that fails is not shown, and what was there stays. */
static void what_fails_is_not_shown(void **state)
{
    struct fixture *fixture = open_fixture(0);
    (void)state;
    assert_int_equal(put_text(fixture, "a", "1", NULL), 0);
    fixture->drive.fail_on = true;
    fixture->drive.fail_op = DRIVE_WRITE;
    atomic_store(&fixture->drive.fail_at, 1);
    assert_true(put_text(fixture, "a", "2", NULL) < 0);
    assert_true(put_text(fixture, "b", "2", NULL) < 0);
    assert_true(tree_store_delete(fixture->store, key_of("a")) < 0);
    assert_true(tree_store_touch(fixture->store, key_of("a"), BEGIN + 1) < 0);
    expect_text(fixture, "a", "1");
    expect_text(fixture, "b", NULL);
    open_after_failure(fixture);
    expect_text(fixture, "a", "1");
    expect_text(fixture, "b", NULL);
    close_fixture(fixture);
}

/* Where acknowledged records are missing of which nobody can tell the keys, a key that is not found may be one of them: no
 * tree is made of that, though a depot may be served so. */
static void what_may_be_lost_is_refused(void **state)
{
    struct fixture *fixture = open_fixture(0);
    const struct tarn_depot_options serving = {.mode = TARN_MODE_POWER, .serve_damaged = true};
    struct tarn_depot *depot;
    char key[16];
    (void)state;
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(
            put_text(fixture, (snprintf(key, sizeof(key), "%u", i), key), i == 10 ? "is lost" : "kept", NULL),
            0);
    struct testing_drive copy = testing_drive_copy(&fixture->drive);
    end_store(fixture);
    testing_drive_free(&fixture->drive);
    fixture->drive = copy;
    uint8_t *lost = memmem(copy.bytes, copy.size, "is lost", 7);
    assert_non_null(lost);
    const uint64_t block = base_align_down((uint64_t)(lost - copy.bytes), (uint64_t)4096);
    uint8_t *end = memmem(copy.bytes + block, 4096, "Grup", 4);
    assert_non_null(end);
    *lost ^= 1;
    *end ^= 1;
    fixture->serve_damaged = true;
    assert_int_equal(try_open(fixture), -EUCLEAN);
    fixture->node = testing_node(&fixture->drive, &fixture->clock);
    assert_int_equal(tarn_depot_open(fixture->node, "store", &serving, &depot), 0);
    assert_int_equal(tarn_depot_close(depot), 0);
    task_node_close(fixture->node);
    testing_drive_free(&fixture->drive);
    free(fixture);
}

static void what_cannot_be_a_tree_is_refused(void **state)
{
    struct fixture *fixture = open_fixture(0);
    static uint8_t key[TREE_KEY_MAX + 1];
    const struct tree_key longer = {.bytes = key, .count = sizeof(key)};
    const struct tarn_depot_options options = {.mode = TARN_MODE_POWER};
    struct tarn_depot *depot;
    struct tarn_record_info info;
    (void)state;
    assert_int_equal(tree_store_put(fixture->store, longer, "v", 1, &(struct tarn_put_options){0}, NULL),
                     -EMSGSIZE);
    assert_int_equal(tree_store_get(fixture->store, longer, fixture->got, 1, &info), -ENOENT);
    assert_int_equal(tree_store_delete(fixture->store, longer), -ENOENT);
    assert_int_equal(
        tree_store_range(fixture->store, &(struct tree_store_range){.from = &longer}, NULL, NULL), -EINVAL);
    end_store(fixture);
    fixture->node = testing_node(&fixture->drive, &fixture->clock);
    assert_int_equal(tarn_depot_open(fixture->node, "store", &options, &depot), 0);
    assert_int_equal(tarn_depot_put(depot, key, sizeof(key), "v", 1, NULL, NULL), 0);
    assert_int_equal(tarn_depot_close(depot), 0);
    task_node_close(fixture->node);
    assert_int_equal(try_open(fixture), -EMSGSIZE);
    testing_drive_free(&fixture->drive);
    free(fixture);
}

/* ---- several keys at once -------------------------------------------------------------------------- */

static struct tarn_batch_item item_of(const char *key, const char *value)
{
    return (struct tarn_batch_item){
        .key = key, .key_len = strlen(key), .value = value, .value_len = value == NULL ? 0 : strlen(value)};
}

static struct tarn_batch_item removal_of(const char *key)
{
    struct tarn_batch_item item = item_of(key, NULL);
    item.remove = true;
    return item;
}

/* All of it is there after a kill, or nothing where it was refused, or has failed, or had no room. */
static void batches_are_all_or_nothing(void **state)
{
    static const struct tarn_put_options absent = {.condition = TARN_PUT_IF_ABSENT};
    struct fixture *fixture = open_fixture(0);
    (void)state;
    assert_int_equal(put_text(fixture, "a", "1", NULL), 0);
    assert_int_equal(put_text(fixture, "b", "2", NULL), 0);
    struct tarn_batch_item items[] = {item_of("a", "3"), removal_of("b"), item_of("c", "4"), removal_of("d")};
    assert_int_equal(tree_store_write_batch(fixture->store, items, 4), 0);
    for (int times = 0; times < 2; times++) {
        expect_text(fixture, "a", "3");
        expect_text(fixture, "b", NULL);
        expect_text(fixture, "c", "4");
        open_again(fixture, true);
    }
    items[0] = item_of("new", "5");
    items[1] = item_of("a", "6");
    items[2] = item_of("c", "7");
    items[2].options = &absent;
    assert_int_equal(tree_store_write_batch(fixture->store, items, 3), -EEXIST);
    assert_true(items[0].error == -ECANCELED && items[1].error == -ECANCELED && items[2].error == -EEXIST);
    items[2].options = NULL;
    items[2].value = fixture->value;
    items[2].value_len = SIZE_MAX;
    assert_int_equal(tree_store_write_batch(fixture->store, items, 3), -E2BIG);
    assert_true(items[0].error == -E2BIG && items[2].error == -E2BIG);
    items[2] = item_of("new", "8");
    assert_int_equal(tree_store_write_batch(fixture->store, items, 3), -EINVAL);
    expect_text(fixture, "new", NULL);
    expect_text(fixture, "a", "3");
    expect_text(fixture, "c", "4");
    fixture->drive.fail_on = true;
    fixture->drive.fail_op = DRIVE_WRITE;
    atomic_store(&fixture->drive.fail_at, 1);
    assert_true(tree_store_write_batch(fixture->store, items, 2) < 0);
    expect_text(fixture, "new", NULL);
    expect_text(fixture, "a", "3");
    open_after_failure(fixture);
    expect_text(fixture, "a", "3");
    close_fixture(fixture);
}

/* ---- threads ------------------------------------------------------------------------------------- */

enum { WRITERS = 3, OWN_KEYS = 40, ROUNDS = TESTING_SLOW ? 60 : 400 };

struct crowd {
    struct fixture *fixture;
    _Atomic unsigned next, done;
};

/* Each writer counts its own keys up; nobody else changes them. */
static void *count_keys(void *arg)
{
    struct crowd *crowd = arg;
    const unsigned own = atomic_fetch_add(&crowd->next, 1);
    const struct tarn_put_options any = {0};
    for (unsigned round = 1; round <= ROUNDS; round++) {
        for (unsigned i = 0; i < OWN_KEYS; i++) {
            char key[16];
            unsigned found = 0;
            struct tarn_record_info info;
            (void)snprintf(key, sizeof(key), "%03u-%u", i, own);
            int error = tree_store_get(crowd->fixture->store, key_of(key), &found, sizeof(found), &info);
            base_assert(error == 0 ? found == round - 1 : error == -ENOENT && (round - 1) % 10 == 0);
            error = tree_store_put(crowd->fixture->store, key_of(key), &round, sizeof(round), &any, NULL);
            base_assert(error == 0);
            if (round % 10 == 0)
                base_assert(tree_store_delete(crowd->fixture->store, key_of(key)) == 0);
        }
    }
    atomic_fetch_add(&crowd->done, 1);
    return NULL;
}

struct last {
    char key[16];
    bool reverse;
    unsigned shown;
};

static int expect_order(void *arg, const void *key, size_t key_len, const void *value,
                        const struct tarn_record_info *info)
{
    struct last *last = arg;
    char text[16];
    base_assert(key_len < sizeof(text) && value != NULL && info->value_bytes == sizeof(unsigned));
    memcpy(text, key, key_len);
    text[key_len] = '\0';
    base_assert(last->shown == 0 ||
                (last->reverse ? strcmp(text, last->key) < 0 : strcmp(text, last->key) > 0));
    memcpy(last->key, text, sizeof(text));
    last->shown++;
    return 0;
}

static void threads_agree(void **state)
{
    struct fixture *fixture = open_fixture(0);
    struct crowd crowd = {.fixture = fixture};
    pthread_t threads[WRITERS];
    unsigned shown = 0;
    (void)state;
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_keys, &crowd), 0);
    while (atomic_load(&crowd.done) < WRITERS) {
        struct last last = {.reverse = shown % 2 == 1};
        const struct tree_store_range range = {.reverse = last.reverse};
        assert_int_equal(tree_store_range(fixture->store, &range, expect_order, &last), 0);
        shown += last.shown + 1;
    }
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(shown > 0);
    close_fixture(fixture);
}

enum { ACCOUNTS = 12, SUM = 1000 * ACCOUNTS, TRANSFERS = TESTING_SLOW ? 300 : 2000 };

static struct tree_key account_key(char *text, unsigned number)
{
    (void)snprintf(text, 16, "account %02u", number);
    return key_of(text);
}

/* Read an account, on whose present value an item depends from now on. @return its value */
static unsigned read_account(struct fixture *fixture, unsigned number, char *text,
                             struct tarn_put_options *ret_options, struct tarn_batch_item *ret_item)
{
    unsigned value = 0;
    struct tarn_record_info info;
    const struct tree_key key = account_key(text, number);
    const int error = tree_store_get(fixture->store, key, &value, sizeof(value), &info);
    base_assert(error == 0 || error == -ENOENT);
    *ret_options =
        error == 0 ? (struct tarn_put_options){.condition = TARN_PUT_IF_VERSION, .if_version = info.version}
                   : (struct tarn_put_options){.condition = TARN_PUT_IF_ABSENT};
    *ret_item = (struct tarn_batch_item){
        .key = key.bytes, .key_len = key.count, .check = true, .options = ret_options};
    return error == 0 ? value : 0;
}

static void change_account(struct tarn_batch_item *item, const unsigned *value)
{
    item->check = false;
    item->remove = *value == 0;
    item->value = value;
    item->value_len = sizeof(*value);
}

/* Transactions: some of one account goes to another, whose accounts are removed when they are empty. */
static void *transfer(void *arg)
{
    struct crowd *crowd = arg;
    struct base_random random;
    base_random_init(&random, atomic_fetch_add(&crowd->next, 1));
    for (unsigned done = 0; done < TRANSFERS;) {
        char texts[2][16];
        struct tarn_put_options options[2];
        struct tarn_batch_item items[2];
        const unsigned from = (unsigned)base_random_below(&random, ACCOUNTS),
                       to = (from + 1 + (unsigned)base_random_below(&random, ACCOUNTS - 1)) % ACCOUNTS;
        unsigned left = read_account(crowd->fixture, from, texts[0], &options[0], &items[0]);
        unsigned more = read_account(crowd->fixture, to, texts[1], &options[1], &items[1]);
        const unsigned amount = (unsigned)base_random_below(&random, left + 1);
        left -= amount;
        more += amount;
        change_account(&items[0], &left);
        change_account(&items[1], &more);
        const int error = tree_store_write_batch(crowd->fixture->store, items, 2);
        base_assert(error == 0 || error == -EEXIST || error == -ENOENT);
        done += error == 0;
    }
    atomic_fetch_add(&crowd->done, 1);
    return NULL;
}

/* A transaction that changes nothing: all accounts as they are at one moment. @return their sum; -1: others were faster */
static int sum_accounts(struct fixture *fixture)
{
    char texts[ACCOUNTS][16];
    struct tarn_put_options options[ACCOUNTS];
    struct tarn_batch_item items[ACCOUNTS];
    unsigned sum = 0;
    for (unsigned i = 0; i < ACCOUNTS; i++)
        sum += read_account(fixture, i, texts[i], &options[i], &items[i]);
    const int error = tree_store_write_batch(fixture->store, items, ACCOUNTS);
    base_assert(error == 0 || error == -EEXIST || error == -ENOENT);
    return error == 0 ? (int)sum : -1;
}

static void transactions_are_serialisable(void **state)
{
    struct fixture *fixture = open_fixture(0);
    struct crowd crowd = {.fixture = fixture};
    pthread_t threads[WRITERS];
    const char *why;
    char text[16];
    (void)state;
    for (unsigned i = 0; i < ACCOUNTS; i++) {
        const unsigned value = SUM / ACCOUNTS;
        const struct tarn_put_options any = {0};
        assert_int_equal(
            tree_store_put(fixture->store, account_key(text, i), &value, sizeof(value), &any, NULL), 0);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, transfer, &crowd), 0);
    while (atomic_load(&crowd.done) < WRITERS) {
        const int sum = sum_accounts(fixture);
        assert_true(sum == -1 || sum == SUM);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int times = 0; times < 2; times++) {
        assert_int_equal(sum_accounts(fixture), SUM);
        assert_int_equal(tree_store_check(fixture->store, &why), 0);
        open_again(fixture, true);
    }
    close_fixture(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_a_model),
                                       cmocka_unit_test(a_full_one_refuses),
                                       cmocka_unit_test(what_has_expired_makes_room),
                                       cmocka_unit_test(a_flush_comes_when_it_is_due),
                                       cmocka_unit_test(a_flush_that_is_due_is_not_replaced),
                                       cmocka_unit_test(what_fails_is_not_shown),
                                       cmocka_unit_test(what_may_be_lost_is_refused),
                                       cmocka_unit_test(what_cannot_be_a_tree_is_refused),
                                       cmocka_unit_test(batches_are_all_or_nothing),
                                       cmocka_unit_test(threads_agree),
                                       cmocka_unit_test(transactions_are_serialisable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
