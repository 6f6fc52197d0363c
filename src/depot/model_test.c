/*
 * Do many random operations agree with a plain map, through clean ends, deaths and full drives?
 */
#include "depot/testing.h"

#define KEYS        64
#define VALUE_BYTES 2000
#define STEPS       120000
#define SECOND      BASE_NS_PER_SECOND
#define BEGIN       (UINT64_C(1700000000) * SECOND)

struct expected {
    bool there;
    uint32_t value_bytes;
    uint8_t fill;
    uint64_t expiry_ns;
    uint64_t version;
    uint32_t flags;
};

struct model {
    struct testing_drive drive;
    struct testing_clock clock;
    struct testing_store store;
    struct base_random random;
    struct expected expected[KEYS];
    uint64_t flush_when_ns;
    uint64_t full;
    uint64_t reopened;
};

static uint64_t below(struct model *model, uint64_t n)
{
    return base_random_below(&model->random, n);
}

/* Keys of many lengths, the longest of two blocks. */
static size_t key_of(uint64_t number, char *key)
{
    size_t len = number % 8 == 7 ? 5000 + number : 4 + number % 40;
    memset(key, 'k', len);
    memcpy(key, &number, 4);
    return len;
}

/* A delayed flush takes what was stored before its moment, as soon as that has come. */
static void apply_time(struct model *model)
{
    uint64_t now_ns = model->clock.wall_ns;
    bool flush = model->flush_when_ns != 0 && now_ns >= model->flush_when_ns;
    for (int key = 0; key < KEYS; key++) {
        struct expected *expected = &model->expected[key];
        if ((flush && expected->version < model->flush_when_ns) ||
            (expected->expiry_ns != 0 && now_ns >= expected->expiry_ns))
            expected->there = false;
    }
    if (flush)
        model->flush_when_ns = 0;
}

static void do_put(struct model *model, uint64_t number)
{
    char key[6000], value[VALUE_BYTES];
    size_t key_len = key_of(number, key);
    struct expected *expected = &model->expected[number];
    uint64_t expiries[] = {0, 0, 0, model->clock.wall_ns + 1 + below(model, 20 * SECOND), 1};
    struct tarn_put_options options = {
        .condition = (enum tarn_put_condition)below(model, 4),
        .if_version = below(model, 2) == 0 ? expected->version : below(model, 1000),
        .expiry_ns = expiries[below(model, base_array_count(expiries))],
        .client_flags = (uint32_t)base_random_u64(&model->random),
    };
    uint32_t value_bytes = (uint32_t)below(model, VALUE_BYTES);
    uint8_t fill = (uint8_t)below(model, 256);
    uint64_t version = 0;
    memset(value, fill, value_bytes);
    int error = tarn_depot_put(model->store.depot, key, key_len, value, value_bytes, &options, &version);
    int wanted = 0;
    if (options.condition == TARN_PUT_IF_ABSENT)
        wanted = expected->there ? -EEXIST : 0;
    else if (options.condition != TARN_PUT_ANY && !expected->there)
        wanted = -ENOENT;
    else if (options.condition == TARN_PUT_IF_VERSION && options.if_version != expected->version)
        wanted = -EEXIST;
    if (wanted == 0 && error == -ENOSPC) {
        model->full++;
        return;
    }
    assert_int_equal(error, wanted);
    if (error != 0)
        return;
    assert_true(version > expected->version);
    *expected = (struct expected){.there = true,
                                  .value_bytes = value_bytes,
                                  .fill = fill,
                                  .expiry_ns = options.expiry_ns,
                                  .version = version,
                                  .flags = options.client_flags};
    apply_time(model);
}

static void do_delete(struct model *model, uint64_t number)
{
    char key[6000];
    int error = tarn_depot_delete(model->store.depot, key, key_of(number, key));
    if (error == -ENOSPC) {
        model->full++;
        return;
    }
    assert_int_equal(error, model->expected[number].there ? 0 : -ENOENT);
    model->expected[number].there = false;
}

static void do_touch(struct model *model, uint64_t number)
{
    char key[6000];
    uint64_t expiry_ns = below(model, 3) == 0 ? 0 : model->clock.wall_ns + 1 + below(model, 20 * SECOND);
    int error = tarn_depot_touch(model->store.depot, key, key_of(number, key), expiry_ns);
    if (error == -ENOSPC) {
        model->full++;
        return;
    }
    assert_int_equal(error, model->expected[number].there ? 0 : -ENOENT);
    if (error == 0)
        model->expected[number].expiry_ns = expiry_ns;
}

static void do_flush_all(struct model *model)
{
    bool later = below(model, 2) == 0;
    uint64_t when_ns = later ? model->clock.wall_ns + 1 + below(model, 10 * SECOND) : 0;
    int error = tarn_depot_flush_all(model->store.depot, when_ns);
    if (error == -ENOSPC) {
        model->full++;
        return;
    }
    assert_int_equal(error, 0);
    model->flush_when_ns = when_ns;
    for (int key = 0; key < KEYS && !later; key++)
        model->expected[key].there = false;
}

static void check_key(struct model *model, uint64_t number)
{
    char key[6000], value[VALUE_BYTES], filled[VALUE_BYTES];
    const struct expected *expected = &model->expected[number];
    struct tarn_record_info info;
    int error = tarn_depot_get(model->store.depot, key, key_of(number, key), value, sizeof(value), &info);
    assert_int_equal(error, expected->there ? 0 : -ENOENT);
    if (error != 0)
        return;
    assert_int_equal(info.value_bytes, expected->value_bytes);
    assert_int_equal(info.version, expected->version);
    assert_int_equal(info.expiry_ns, expected->expiry_ns);
    assert_int_equal(info.client_flags, expected->flags);
    memset(filled, expected->fill, info.value_bytes);
    assert_memory_equal(value, filled, info.value_bytes);
}

static void check_all(struct model *model)
{
    for (uint64_t key = 0; key < KEYS; key++)
        check_key(model, key);
}

static void open_store(struct model *model)
{
    const struct tarn_depot_options options = {
        .create_bytes = UINT64_C(4) << 20,
        .mode = below(model, 2) == 0 ? TARN_MODE_POWER : TARN_MODE_DEVICE,
    };
    assert_int_equal(testing_try_open(&model->store, &model->drive, &model->clock, &options), 0);
}

/* The end of the process, in good order or not, and another one. */
static void restart(struct model *model)
{
    bool killed = below(model, 2) == 0;
    struct testing_drive copy = testing_drive_copy(&model->drive);
    testing_close(&model->store);
    if (killed) {
        testing_drive_free(&model->drive);
        model->drive = copy;
    } else {
        testing_drive_free(&copy);
    }
    open_store(model);
    model->reopened++;
    check_all(model);
}

/* A full store never has room again: begin with another one, which is empty. */
static void begin_anew(struct model *model)
{
    check_all(model);
    restart(model);
    testing_close(&model->store);
    testing_drive_free(&model->drive);
    memset(model->expected, 0, sizeof(model->expected));
    model->flush_when_ns = 0;
    model->full = 0;
    open_store(model);
}

static void step(struct model *model)
{
    uint64_t number = below(model, KEYS);
    uint64_t what = below(model, 1000);
    if (what < 400)
        do_put(model, number);
    else if (what < 500)
        do_delete(model, number);
    else if (what < 600)
        do_touch(model, number);
    else if (what < 602)
        do_flush_all(model);
    else if (what < 604)
        restart(model);
    else if (what < 700)
        model->clock.wall_ns += below(model, SECOND);
    else
        check_key(model, number);
    apply_time(model);
    if (model->full > 50)
        begin_anew(model);
}

static void agrees_with_a_map(void **state)
{
    (void)state;
    struct model *model = calloc(1, sizeof(*model));
    assert_non_null(model);
    model->clock.wall_ns = BEGIN;
    base_random_init(&model->random, 20260101);
    open_store(model);
    for (int i = 0; i < STEPS; i++)
        step(model);
    check_all(model);
    assert_true(model->reopened > 50);
    testing_close(&model->store);
    testing_drive_free(&model->drive);
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_a_map)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
