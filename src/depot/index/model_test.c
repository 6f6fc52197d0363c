/* Do random operations agree with a plain array, through growth, shrinking and whatever the processor has? */
#include "depot/index/testing.h"

static struct depot_index_item items[DEPOT_INDEX_BATCH_MAX];

/* ---- model -------------------------------------------------------------------------------------- */

enum { MODEL_KEYS = 60000 };

struct model_key {
    uint64_t hash;
    uint64_t address;  /* 0: absent */
    uint32_t reserved; /* places held */
};

struct model {
    struct fixture fixture;
    const struct depot_index_widths *widths;
    struct base_random random;
    struct model_key *keys;
    uint64_t next_address;
    uint64_t present;
    uint64_t reserved;
    uint64_t halved, turned; /* how often */
};

/* Many are at home about the ends of regions, and some pairs have equal hashes. */
static void model_open(struct model *model, const struct depot_index_widths *widths, uint64_t seed)
{
    *model = (struct model){.widths = widths, .next_address = 1};
    open_index(&model->fixture, widths);
    base_random_init(&model->random, seed);
    model->keys = test_calloc(MODEL_KEYS, sizeof(*model->keys));
    for (uint64_t i = 0; i < MODEL_KEYS; i++) {
        uint64_t hash = base_random_u64(&model->random);
        if (i % 512 == 5)
            hash = (hash & ~(uint64_t)8191) | ((8192 - 48 + base_random_below(&model->random, 64)) % 8192);
        if (i % 16 == 1)
            hash = model->keys[i - 1].hash;
        model->keys[i].hash = hash;
    }
}

static void model_close(struct model *model)
{
    for (uint64_t i = 0; i < MODEL_KEYS; i++) {
        for (; model->keys[i].reserved > 0; model->keys[i].reserved--)
            depot_index_cancel(&model->fixture.index, model->keys[i].hash);
    }
    assert_int_equal(depot_index_count(&model->fixture.index), model->present);
    test_free(model->keys);
    close_index(&model->fixture);
}

static void model_compare_key(struct model *model, uint64_t i)
{
    struct depot_index_view view;
    const struct model_key *key = &model->keys[i];
    depot_index_find(&model->fixture.index, key->hash, &view);
    const struct model_key *pair = i % 16 < 2 ? &model->keys[i ^ 1] : NULL;
    assert_int_equal(view.count, (key->address != 0) + (pair != NULL && pair->address != 0));
    assert_int_equal(depot_index_has(&model->fixture.index, key->hash, base_max(key->address, (uint64_t)1)),
                     key->address != 0);
    for (uint32_t k = 0; k < view.count; k++) {
        uint64_t address = depot_index_address(&model->fixture.index, view.words[k]);
        assert_true(address == key->address || (pair != NULL && address == pair->address));
        assert_int_equal(depot_index_grains(&model->fixture.index, view.words[k]), 1 + address % 31);
    }
}

/* Reserve with growth where it is asked for. */
static void model_reserve(struct model *model, struct model_key *key)
{
    struct depot_index *index = &model->fixture.index;
    int result = depot_index_reserve(index, key->hash);
    if (result == -EAGAIN) {
        bool turned = depot_index_shrink_turn(index);
        while (depot_index_grow_step(index, 1)) {
        }
        if (!turned)
            assert_int_equal(depot_index_grow_begin(index), 0);
        model->turned += turned;
        result = depot_index_reserve(index, key->hash);
    }
    assert_int_equal(result, 0);
    key->reserved++;
    model->reserved++;
}

static void model_change(struct model *model, struct model_key *key)
{
    struct depot_index *index = &model->fixture.index;
    uint64_t address = model->next_address++;
    if (key->address == 0 && key->reserved > 0) {
        depot_index_publish(index, key->hash, address, 1 + address % 31);
        key->reserved--;
        model->reserved--;
        model->present++;
        key->address = address;
    } else if (key->address == 0) {
        model_reserve(model, key);
    } else if (base_random_below(&model->random, 4) == 0) {
        assert_true(depot_index_remove(index, key->hash, key->address));
        model->present--;
        key->address = 0;
    } else {
        assert_true(depot_index_replace(index, key->hash, key->address, address, 1 + address % 31));
        key->address = address;
    }
}

static void model_cancel(struct model *model, struct model_key *key)
{
    if (key->reserved == 0)
        return;
    depot_index_cancel(&model->fixture.index, key->hash);
    key->reserved--;
    model->reserved--;
}

static void model_clear(struct model *model)
{
    depot_index_clear(&model->fixture.index);
    for (uint64_t i = 0; i < MODEL_KEYS; i++)
        model->keys[i].address = 0;
    model->present = 0;
}

/* Let it be of another size, a step at a time: at least a quarter full now and then, and seldom most of it. */
static void model_resize(struct model *model)
{
    struct depot_index *index = &model->fixture.index;
    int more = depot_index_shrink_step(index, 1);
    if (more == -ECANCELED)
        (void)depot_index_grow_step(index, 1 + (uint32_t)base_random_below(&model->random, 3));
    else if (more == 0 && base_random_below(&model->random, 8) == 0)
        model->halved += depot_index_shrink_begin(index) == 0;
    else if (more == 0 && base_random_below(&model->random, 16) == 0 &&
             depot_index_capacity(index) < 4 * MODEL_KEYS)
        assert_int_equal(depot_index_grow_begin(index), 0);
}

static void model_step(struct model *model, uint64_t step)
{
    uint64_t i = base_random_below(&model->random, MODEL_KEYS);
    switch (base_random_below(&model->random, 16)) {
    case 0:
        model_cancel(model, &model->keys[i]);
        break;
    case 1:
        model_reserve(model, &model->keys[i]);
        break;
    default:
        model_change(model, &model->keys[i]);
    }
    model_compare_key(model, i);
    if (step % 250 == 0)
        model_resize(model);
    if (step % 20000 == 0) {
        validate(&model->fixture);
        assert_int_equal(depot_index_count(&model->fixture.index), model->present + model->reserved);
    }
    if (step == 220000)
        model_clear(model);
}

static void model_compare_all(struct model *model)
{
    struct depot_index_cursor cursor = {0};
    uint64_t given = 0;
    for (uint64_t i = 0; i < MODEL_KEYS; i++)
        model_compare_key(model, i);
    while (!cursor.end)
        given += depot_index_next(&model->fixture.index, &cursor, items);
    assert_int_equal(given, model->present);
}

static void agrees_with_an_array(void **state)
{
    (void)state;
    const struct depot_index_widths *all[] = {&small, &medium, &large};
    for (uint64_t i = 0; i < base_array_count(all); i++) {
        struct model model;
        model_open(&model, all[i], i + 1);
        if (i == 1)
            model.fixture.index.has_wide_vectors = false; /* as on a processor that has none */
        for (uint64_t step = 0; step < 300000; step++)
            model_step(&model, step);
        model_compare_all(&model);
        assert_true(depot_index_capacity(&model.fixture.index) >= 65536); /* it did grow */
        assert_true(model.halved > 3);
        model_close(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
