/*
 * Do many random operations agree with a plain map, through clean ends, deaths, growth, collection and full
 * drives, and does the checker find nothing?
 *
 *     depot_model_test [OPERATIONS [SEED]]
 */
#include "depot/testing.h"

#define BIG_KEYS    200
#define TINY_KEYS   12000
#define KEYS        (BIG_KEYS + TINY_KEYS)
#define BATCH       300
#define BATCH_ITEMS 8
#define LONG_KEYS   16 /* of the big ones: their values may be in pieces */
#define LONG_BYTES  180000
#define VALUE_BYTES 20000
#define KEY_BYTES   6000
#define STORE_BYTES (UINT64_C(4) << 20)
#define OPERATIONS  (TESTING_SLOW ? 30000 : 100000)
#define CHECK_EVERY (OPERATIONS / 10)
#define SECOND      BASE_NS_PER_SECOND
#define ENTRIES     131072 /* of an index that is larger than need be */
#define BEGIN       TESTING_BEGIN

struct expected {
    bool there;
    uint8_t fill;
    uint32_t value_bytes;
    uint32_t flags;
    uint64_t expiry_ns;
    uint64_t version;
};

struct model {
    struct testing_drive drive;
    struct testing_clock clock;
    struct testing_store store;
    struct base_random random;
    enum tarn_mode mode;
    struct expected expected[KEYS];
    uint64_t flush_when_ns;
    uint64_t operations;
    uint64_t full, killed, checked, grown, collections; /* how often that happened */
    uint64_t in_pieces;                                 /* values that were stored so */
    uint64_t batches, refused;                          /* that were stored, and that were not */
    uint64_t records_max;
    char key[KEY_BYTES];
    char value[LONG_BYTES];
    char found[LONG_BYTES];
    char keys[BATCH_ITEMS][KEY_BYTES];
    bool seen[KEYS];
    struct tarn_depot_snapshot *snapshot; /* NULL: none is open */
    struct expected past[KEYS];           /* at its moment */
    uint64_t looked_back, cancelled;      /* snapshots that were read to their ends, and others */
    uint64_t shrunk;
};

static uint64_t below(struct model *model, uint64_t n)
{
    return base_random_below(&model->random, n);
}

/* Keys of many lengths, the longest of two blocks. The tiny ones are for their number. */
static size_t fill_key(struct model *model, uint64_t number)
{
    size_t len = number >= BIG_KEYS ? 4 : number % 16 == 7 ? 5000 + number : 5 + number % 40;
    memset(model->key, 'k', len);
    memcpy(model->key, &number, 4);
    return len;
}

static uint64_t key_number(const void *key)
{
    uint32_t number;
    memcpy(&number, key, sizeof(number));
    return number;
}

/* A delayed flush takes everything as soon as its moment has come. */
static void apply_time(struct model *model)
{
    uint64_t now_ns = atomic_load(&model->clock.wall_ns);
    bool flush = model->flush_when_ns != 0 && now_ns >= model->flush_when_ns;
    for (int key = 0; key < KEYS; key++) {
        struct expected *expected = &model->expected[key];
        if (flush || (expected->expiry_ns != 0 && now_ns >= expected->expiry_ns))
            expected->there = false;
    }
    if (flush)
        model->flush_when_ns = 0;
}

static void pass_time(struct model *model, uint64_t ns)
{
    atomic_fetch_add(&model->clock.wall_ns, ns);
    apply_time(model);
}

/* Only what is really full may say so. @return whether it did */
static bool is_full(struct model *model, int error, uint64_t bytes)
{
    if (error != -ENOSPC)
        return false;
    struct tarn_depot_stats stats;
    tarn_depot_stats(model->store.depot, &stats);
    assert_true((stats.live_bytes + bytes) / 9 >= stats.capacity_bytes / 10);
    model->full++;
    return true;
}

static uint64_t round_expiry(uint64_t expiry_ns)
{
    return (expiry_ns + SEGLOG_EXPIRY_UNIT_NS - 1) / SEGLOG_EXPIRY_UNIT_NS * SEGLOG_EXPIRY_UNIT_NS;
}

static uint64_t draw_expiry(struct model *model, uint64_t number)
{
    if (number >= BIG_KEYS && below(model, 8) != 0)
        return 0;
    uint64_t now_ns = atomic_load(&model->clock.wall_ns);
    const uint64_t expiries[] = {0, 0, 0, 0, 0, now_ns + 1 + below(model, 60 * SECOND), 1};
    return expiries[below(model, base_array_count(expiries))];
}

/* Each page of a value is told from the others. */
static void fill_value(struct model *model, uint8_t fill, uint32_t bytes)
{
    memset(model->value, fill, bytes);
    for (uint32_t at = 0; at < bytes; at += 4096)
        model->value[at] = (char)(fill + 1 + at / 4096);
}

static struct expected draw_value(struct model *model, uint64_t number)
{
    uint32_t longest =
        number >= BIG_KEYS ? 9 : (uint32_t)base_min(UINT64_C(1) << below(model, 24), VALUE_BYTES);
    if (number < LONG_KEYS && below(model, 2) == 0)
        longest = LONG_BYTES;
    struct expected drawn = {
        .there = true,
        .value_bytes = (uint32_t)below(model, longest),
        .fill = (uint8_t)below(model, 256),
        .expiry_ns = draw_expiry(model, number),
        .flags = (uint32_t)base_random_u64(&model->random),
    };
    fill_value(model, drawn.fill, drawn.value_bytes);
    return drawn;
}

/* ---- operations --------------------------------------------------------------------------------- */

static void store(struct model *model, uint64_t number, const struct expected *stored, uint64_t version)
{
    struct expected *expected = &model->expected[number];
    assert_true(version != 0 && version != expected->version);
    *expected = *stored;
    model->in_pieces += stored->value_bytes > tarn_depot_whole_bytes_max(model->store.depot);
    expected->expiry_ns = round_expiry(stored->expiry_ns);
    expected->version = version;
    apply_time(model);
}

/* What a condition makes of what there is. */
static int judge(const struct expected *expected, const struct tarn_put_options *options)
{
    if (options->condition == TARN_PUT_IF_ABSENT)
        return expected->there ? -EEXIST : 0;
    if (options->condition != TARN_PUT_ANY && !expected->there)
        return -ENOENT;
    return options->condition == TARN_PUT_IF_VERSION && options->if_version != expected->version ? -EEXIST
                                                                                                 : 0;
}

static struct tarn_put_options draw_options(struct model *model, uint64_t number,
                                            const struct expected *drawn)
{
    return (struct tarn_put_options){
        .condition = below(model, 2) == 0 ? TARN_PUT_ANY : (enum tarn_put_condition)below(model, 4),
        .if_version = below(model, 2) == 0 ? model->expected[number].version : below(model, 1000),
        .expiry_ns = drawn->expiry_ns,
        .client_flags = drawn->flags,
    };
}

static void do_put(struct model *model, uint64_t number)
{
    const struct expected *expected = &model->expected[number];
    const struct expected drawn = draw_value(model, number);
    size_t key_len = fill_key(model, number);
    const struct tarn_put_options options = draw_options(model, number, &drawn);
    uint64_t version = 0;
    int error = tarn_depot_put(model->store.depot, model->key, key_len, model->value, drawn.value_bytes,
                               &options, &version);
    int wanted = judge(expected, &options);
    if (wanted == 0 && is_full(model, error, key_len + drawn.value_bytes))
        return;
    assert_int_equal(error, wanted);
    if (error == 0)
        store(model, number, &drawn, version);
}

static void do_delete(struct model *model, uint64_t number)
{
    int error = tarn_depot_delete(model->store.depot, model->key, fill_key(model, number));
    assert_int_equal(error, model->expected[number].there ? 0 : -ENOENT);
    model->expected[number].there = false;
}

/* One item of a batch, whose value goes where there is room. */
struct drawn_item {
    uint64_t number;
    struct expected drawn;
    struct tarn_put_options options;
};

static void draw_item(struct model *model, uint32_t i, struct drawn_item *drawn, char *value,
                      struct tarn_batch_item *item)
{
    drawn->drawn = draw_value(model, drawn->number);
    drawn->drawn.value_bytes = (uint32_t)below(model, base_min(drawn->drawn.value_bytes, 8000U) + 1);
    drawn->options = draw_options(model, drawn->number, &drawn->drawn);
    if (below(model, 4) != 0) /* one that fails refuses all */
        drawn->options.condition = TARN_PUT_ANY;
    fill_value(model, drawn->drawn.fill, drawn->drawn.value_bytes);
    memcpy(value, model->value, drawn->drawn.value_bytes);
    *item = (struct tarn_batch_item){.key = model->keys[i],
                                     .key_len = fill_key(model, drawn->number),
                                     .value = value,
                                     .value_len = drawn->drawn.value_bytes,
                                     .options = &drawn->options,
                                     .remove = below(model, 4) == 0};
    memcpy(model->keys[i], model->key, item->key_len);
}

/* Different keys at once. */
static void do_write_batch(struct model *model, uint64_t number)
{
    struct tarn_depot *depot = model->store.depot;
    struct tarn_batch_item items[BATCH_ITEMS];
    struct drawn_item drawn[BATCH_ITEMS];
    uint32_t count = 1 + (uint32_t)below(model, BATCH_ITEMS);
    uint64_t bytes = 0, step = 1 + below(model, BIG_KEYS);
    int wanted = 0;
    for (uint32_t i = 0; i < count; i++) {
        drawn[i].number = (number + i * step) % KEYS;
        draw_item(model, i, &drawn[i], model->found + i * LONG_BYTES / BATCH_ITEMS, &items[i]);
        bytes += tarn_depot_batch_bytes(depot, items[i].key_len, items[i].remove ? 8 : items[i].value_len);
        wanted = wanted != 0 ? wanted : judge(&model->expected[drawn[i].number], &drawn[i].options);
    }
    if (bytes > tarn_depot_batch_bytes_max(depot))
        wanted = -E2BIG;
    int error = tarn_depot_write_batch(depot, items, count);
    model->batches += error == 0;
    model->refused += wanted != 0;
    if (wanted == 0 && is_full(model, error, bytes))
        return;
    assert_int_equal(error, wanted);
    for (uint32_t i = 0; i < count && error == 0; i++) {
        struct expected *expected = &model->expected[drawn[i].number];
        if (!items[i].remove) {
            store(model, drawn[i].number, &drawn[i].drawn, items[i].version);
            continue;
        }
        assert_int_equal(items[i].version, expected->there ? expected->version : 0);
        expected->there = false;
    }
}

static void do_touch(struct model *model, uint64_t number)
{
    uint64_t expiry_ns = draw_expiry(model, number);
    size_t key_len = fill_key(model, number);
    int error = tarn_depot_touch(model->store.depot, model->key, key_len, expiry_ns);
    if (is_full(model, error, key_len + model->expected[number].value_bytes))
        return;
    assert_int_equal(error, model->expected[number].there ? 0 : -ENOENT);
    if (error == 0)
        model->expected[number].expiry_ns = round_expiry(expiry_ns);
    apply_time(model);
}

static void do_flush_all(struct model *model)
{
    bool later = below(model, 2) == 0;
    uint64_t when_ns = later ? atomic_load(&model->clock.wall_ns) + 1 + below(model, 10 * SECOND) : 0;
    assert_int_equal(tarn_depot_flush_all(model->store.depot, when_ns), 0);
    model->flush_when_ns = when_ns;
    for (int key = 0; key < KEYS && !later; key++)
        model->expected[key].there = false;
}

static void expect_record(struct model *model, const struct expected *expected, int error,
                          const struct tarn_record_info *info, const void *value)
{
    assert_int_equal(error, expected->there ? 0 : -ENOENT);
    if (error != 0)
        return;
    assert_int_equal(info->value_bytes, expected->value_bytes);
    assert_int_equal(info->version, expected->version);
    assert_int_equal(info->expiry_ns, expected->expiry_ns);
    assert_int_equal(info->client_flags, expected->flags);
    fill_value(model, expected->fill, info->value_bytes);
    if (value != NULL)
        assert_memory_equal(value, model->value, info->value_bytes);
}

static void expect_found(struct model *model, uint64_t number, int error, const struct tarn_record_info *info,
                         const void *value)
{
    expect_record(model, &model->expected[number], error, info, value);
}

static void do_read(struct model *model, uint64_t number)
{
    const struct expected *expected = &model->expected[number];
    struct tarn_record_info info;
    uint64_t offset = below(model, (uint64_t)expected->value_bytes + 100), bytes = below(model, LONG_BYTES);
    size_t read = 0;
    bool other = below(model, 8) == 0;
    uint64_t version = other ? expected->version + 1 : below(model, 2) * expected->version;
    int error = tarn_depot_read(model->store.depot, model->key, fill_key(model, number), version, offset,
                                model->found, bytes, &read, &info);
    if (expected->there && other) {
        assert_int_equal(error, -ESTALE);
        return;
    }
    expect_found(model, number, error, &info, NULL);
    if (error != 0)
        return;
    uint64_t rest = expected->value_bytes - base_min(offset, (uint64_t)expected->value_bytes);
    assert_int_equal(read, base_min(bytes, rest));
    if (read > 0)
        assert_memory_equal(model->found, model->value + offset, read);
}

static void do_get(struct model *model, uint64_t number)
{
    struct tarn_record_info info;
    size_t room = below(model, 8) == 0 ? below(model, 100) : LONG_BYTES;
    if (below(model, 4) == 0) {
        do_read(model, number);
        return;
    }
    int error =
        tarn_depot_get(model->store.depot, model->key, fill_key(model, number), model->found, room, &info);
    bool fits = error != -ENOBUFS;
    assert_true(fits || info.value_bytes > room);
    expect_found(model, number, fits ? error : 0, &info, fits ? model->found : NULL);
}

static void do_get_many(struct model *model)
{
    enum { COUNT = 6 };
    struct tarn_get gets[COUNT];
    uint32_t keys[COUNT];
    for (int i = 0; i < COUNT; i++) {
        keys[i] = BIG_KEYS + (uint32_t)below(model, TINY_KEYS);
        gets[i] = (struct tarn_get){
            .key = &keys[i], .key_len = 4, .value = model->found + 100 * i, .value_room = 100};
    }
    tarn_depot_get_many(model->store.depot, gets, COUNT);
    for (int i = 0; i < COUNT; i++)
        expect_found(model, keys[i], gets[i].error, &gets[i].info, gets[i].value);
}

struct update {
    struct model *model;
    uint64_t number;
    struct expected drawn;
    int answer;
    bool remove, keep;
};

static int decide(void *arg, const struct tarn_record_info *old, const void *value,
                  struct tarn_update *update)
{
    struct update *own = arg;
    expect_found(own->model, own->number, old == NULL ? -ENOENT : 0, old, value);
    own->drawn = draw_value(own->model, own->number);
    update->value = own->model->value;
    update->value_len = own->drawn.value_bytes;
    update->expiry_ns = own->drawn.expiry_ns;
    update->client_flags = own->drawn.flags;
    update->remove = own->remove;
    if (own->keep && old != NULL) {
        own->drawn.value_bytes = old->value_bytes;
        own->drawn.fill = own->model->expected[own->number].fill;
        update->keep = true;
    }
    return own->answer;
}

static void do_update(struct model *model, uint64_t number)
{
    struct update update = {.model = model, .number = number, .remove = below(model, 4) == 0};
    update.keep = below(model, 4) == 0;
    update.answer = below(model, 4) == 0 ? -ECHILD : 0;
    uint64_t version = 0;
    size_t key_len = fill_key(model, number);
    int error = tarn_depot_update(model->store.depot, model->key, key_len, decide, &update, &version);
    if (update.answer == 0 && is_full(model, error, key_len + update.drawn.value_bytes))
        return;
    assert_int_equal(error, update.answer);
    if (error != 0)
        return;
    if (update.remove)
        model->expected[number].there = false;
    else
        store(model, number, &update.drawn, version);
}

/* Many of the tiny keys come or go, so that the index grows. */
static void do_batch(struct model *model)
{
    bool remove = below(model, 8) == 0;
    for (int i = 0; i < BATCH; i++) {
        uint64_t number = BIG_KEYS + below(model, TINY_KEYS);
        if (remove)
            do_delete(model, number);
        else
            do_put(model, number);
    }
    model->operations += BATCH;
}

/* Long values until there is no more room; then most of them go. */
static void do_fill(struct model *model)
{
    uint64_t full = model->full, key = 0;
    for (; key < BIG_KEYS && model->full == full; key++) {
        size_t key_len = fill_key(model, key);
        const struct expected filled = {.there = true, .value_bytes = VALUE_BYTES, .fill = (uint8_t)key};
        uint64_t version = 0;
        fill_value(model, filled.fill, VALUE_BYTES);
        int error = tarn_depot_put(model->store.depot, model->key, key_len, model->value, VALUE_BYTES, NULL,
                                   &version);
        if (is_full(model, error, key_len + VALUE_BYTES))
            break;
        assert_int_equal(error, 0);
        store(model, key, &filled, version);
    }
    for (uint64_t emptied = 0; emptied < key; emptied += 1 + below(model, 3))
        do_delete(model, emptied);
}

/* ---- all keys ----------------------------------------------------------------------------------- */

/* Each key once, and as it is written. @return its number */
static uint64_t note_seen(struct model *model, const void *key, size_t key_len)
{
    uint64_t number = key_number(key);
    assert_true(number < KEYS && !model->seen[number]);
    assert_int_equal(key_len, fill_key(model, number));
    assert_memory_equal(key, model->key, key_len);
    model->seen[number] = true;
    return number;
}

static int visit(void *arg, const void *key, size_t key_len, const void *value,
                 const struct tarn_record_info *info)
{
    struct model *model = arg;
    expect_found(model, note_seen(model, key, key_len), 0, info, value);
    return 0;
}

static void check_all(struct model *model)
{
    memset(model->seen, 0, sizeof(model->seen));
    assert_int_equal(tarn_depot_scan(model->store.depot, visit, model), 0);
    for (uint64_t key = 0; key < KEYS; key++)
        assert_int_equal(model->seen[key], model->expected[key].there);
    for (uint64_t key = 0; key < BIG_KEYS; key++)
        do_get(model, key);
}

/* ---- snapshots ---------------------------------------------------------------------------------- */

static int visit_past(void *arg, const void *key, size_t key_len, const void *value,
                      const struct tarn_record_info *info)
{
    struct model *model = arg;
    expect_record(model, &model->past[note_seen(model, key, key_len)], 0, info, value);
    return 0;
}

static void close_snapshot(struct model *model)
{
    if (model->snapshot != NULL)
        tarn_depot_snapshot_close(model->snapshot);
    model->snapshot = NULL;
}

/* One is opened, looked at among other operations, and scanned at last. */
static void do_look_back(struct model *model, uint64_t number)
{
    struct tarn_record_info info;
    int error = 0;
    memset(model->seen, 0, sizeof(model->seen));
    if (model->snapshot == NULL) {
        uint64_t room = below(model, 8) == 0 ? STORE_BYTES / 8 : 0;
        assert_int_equal(tarn_depot_snapshot_open(model->store.depot, room, &model->snapshot), 0);
        memcpy(model->past, model->expected, sizeof(model->past));
    } else if (below(model, 3) == 0) {
        error = tarn_depot_snapshot_scan(model->snapshot, visit_past, model);
        assert_true(error == 0 || error == -ECANCELED);
        for (uint64_t key = 0; key < KEYS && error == 0; key++)
            assert_int_equal(model->seen[key], model->past[key].there);
        close_snapshot(model);
        model->looked_back += error == 0;
    } else {
        error = tarn_depot_snapshot_get(model->snapshot, model->key, fill_key(model, number), model->found,
                                        LONG_BYTES, &info);
        if (error != -ECANCELED)
            expect_record(model, &model->past[number], error, &info, model->found);
        else
            close_snapshot(model);
    }
    model->cancelled += error == -ECANCELED;
}

/* The index becomes larger than it has to be, or as small as it may. */
static void resize(struct model *model)
{
    struct tarn_depot *depot = model->store.depot;
    struct tarn_depot_stats stats;
    uint64_t bytes = 0;
    bool grows = below(model, 2) == 0;
    if (!grows)
        assert_int_equal(tarn_depot_shrink_index(depot, &bytes), 0);
    tarn_depot_stats(depot, &stats);
    for (; grows && stats.index_entries < ENTRIES; tarn_depot_stats(depot, &stats))
        assert_int_equal(depot_grow_index(depot, ENTRIES), 0);
    assert_true(stats.index_entries >= stats.records + stats.pieces);
    model->shrunk += bytes > 0;
}

static void open_store(struct model *model)
{
    static const uint64_t hot_bytes[] = {1, UINT64_C(64) << 20,
                                         0}; /* a tier that turns over, one that keeps all, none */
    const struct tarn_depot_options options = {
        .create_bytes = STORE_BYTES,
        .mode = (enum tarn_mode)below(model, 3),
        .checkpoint_rate_bytes = UINT64_C(1) << 30, /* one after the other */
        .checkpoint_every_bytes = 1,
        .hot_bytes = hot_bytes[below(model, base_array_count(hot_bytes))],
        .hot_warm_rate_bytes = model->checked % 2 << 30,
    };
    model->mode = options.mode;
    assert_int_equal(testing_try_open(&model->store, &model->drive, &model->clock, &options), 0);
    /* the store may know of a later time: it notes it somewhat ahead */
    uint64_t known_ns = task_wall(model->store.node);
    assert_true(known_ns <= atomic_load(&model->clock.wall_ns) + SECOND);
    atomic_store(&model->clock.wall_ns, known_ns);
    apply_time(model);
}

static void close_store(struct model *model)
{
    struct tarn_depot_stats stats;
    close_snapshot(model);
    tarn_depot_stats(model->store.depot, &stats);
    model->records_max = base_max(model->records_max, stats.records);
    model->grown += stats.index_entries > 8192;
    model->collections += stats.collections;
    depot_testing_close(&model->store);
}

static void print_fault(void *arg, unsigned invariant, const char *sentence)
{
    (void)arg;
    print_error("invariant %u: %s\n", invariant, sentence);
}

/* The store is proven as it lies on the drive. */
static void check_store(struct model *model)
{
    struct depot_check_report report;
    struct tarn_node *node = testing_node(&model->drive, &model->clock);
    assert_int_equal(depot_check(node, "store", false, print_fault, NULL, NULL, &report), 0);
    task_node_close(node);
    assert_int_equal(report.faults, 0);
    model->checked++;
}

/* The end of the process, in good order or not, and another one. */
static void restart(struct model *model)
{
    bool killed = model->mode != TARN_MODE_ASYNC && below(model, 2) == 0;
    struct testing_drive copy = testing_drive_copy(&model->drive);
    close_store(model);
    if (killed) {
        testing_drive_free(&model->drive);
        model->drive = copy;
        model->killed++;
    } else {
        testing_drive_free(&copy);
    }
    if (model->operations / CHECK_EVERY > model->checked)
        check_store(model);
    open_store(model);
    check_all(model);
}

static void step(struct model *model)
{
    uint64_t number = below(model, KEYS);
    if (below(model, 2) == 0)
        number = below(model, BIG_KEYS);
    uint64_t what = below(model, 10000);
    if (what < 3500)
        do_put(model, number);
    else if (what < 4300)
        do_delete(model, number);
    else if (what < 5000)
        do_touch(model, number);
    else if (what < 5500)
        do_update(model, number);
    else if (what < 5600)
        do_get_many(model);
    else if (what < 5601 && below(model, 3) == 0)
        do_flush_all(model);
    else if (what < 5610 || model->operations / CHECK_EVERY > model->checked)
        restart(model);
    else if (what < 5690)
        do_batch(model);
    else if (what < 5695)
        do_fill(model);
    else if (what < 5950)
        do_write_batch(model, number);
    else if (what < 6150)
        pass_time(model, below(model, SECOND));
    else if (what < 6200)
        do_look_back(model, number);
    else if (what < 6260)
        resize(model);
    else
        do_get(model, number);
    model->operations++;
}

static uint64_t argument_or(const char *text, uint64_t otherwise)
{
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void agrees_with_a_map(void **state)
{
    const char *const *arguments = *state;
    uint64_t operations = argument_or(arguments[0], OPERATIONS);
    struct model *model = calloc(1, sizeof(*model));
    assert_non_null(model);
    atomic_store(&model->clock.wall_ns, BEGIN);
    base_random_init(&model->random, argument_or(arguments[0] == NULL ? NULL : arguments[1], 20260101));
    open_store(model);
    while (model->operations < operations)
        step(model);
    check_all(model);
    close_store(model);
    check_store(model);
    print_message("at most %llu records, %llu operations, %llu deaths, %llu checks, %llu segments collected, "
                  "%llu times full, %llu snapshots, %llu cancelled, %llu shrinks\n",
                  (unsigned long long)model->records_max, (unsigned long long)model->operations,
                  (unsigned long long)model->killed, (unsigned long long)model->checked,
                  (unsigned long long)model->collections, (unsigned long long)model->full,
                  (unsigned long long)model->looked_back, (unsigned long long)model->cancelled,
                  (unsigned long long)model->shrunk);
    assert_true(model->looked_back > (TESTING_SLOW ? 2 : 8) && model->cancelled > 0);
    assert_true(model->shrunk > (TESTING_SLOW ? 2 : 10));
    assert_true(model->killed > 2 && model->checked > 5 && model->collections > 50);
    assert_true(model->in_pieces > (TESTING_SLOW ? 20 : 100));
    assert_true(model->batches > (TESTING_SLOW ? 100 : 400));
    assert_true(model->refused > (TESTING_SLOW ? 10 : 50));
    assert_true(operations < 100000 || (model->grown > 0 && model->full > 0));
    testing_drive_free(&model->drive);
    free(model);
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(agrees_with_a_map, argv + 1)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
