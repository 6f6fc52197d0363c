/* Does a meganode agree with a plain list of keys, whatever they look like, and do its nodes keep their invariants? */
#include "tree/testing.h"
#include <inttypes.h>

#define UNIVERSE 4000u
#define BYTES    (UINT64_C(8) << 20)

struct fixture {
    struct tree_testing tree;
    uint8_t keys[UNIVERSE][TREE_KEY_MAX]; /* in their order */
    uint32_t lengths[UNIVERSE];
    uint64_t values[UNIVERSE]; /* 0: absent */
    uint64_t count;
    struct base_random random;
};

static struct tree_key key_at(const struct fixture *fixture, uint64_t i)
{
    return (struct tree_key){.bytes = fixture->keys[i], .count = fixture->lengths[i]};
}

static struct fixture *open_fixture(uint32_t unit_bytes, uint64_t bytes)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    base_random_init(&fixture->random, unit_bytes);
    tree_testing_open(&fixture->tree, unit_bytes, bytes);
    return fixture;
}

static void close_fixture(struct fixture *fixture)
{
    tree_testing_close(&fixture->tree);
    free(fixture);
}

static void check(const struct fixture *fixture)
{
    const char *why = "";
    struct tree_mega_stats stats;
    int error = tree_mega_check(fixture->tree.mega, &why);
    if (error != 0)
        print_message("%s\n", why);
    assert_int_equal(error, 0);
    tree_mega_stats(fixture->tree.mega, &stats);
    assert_int_equal(stats.keys, fixture->count);
}

static int put(struct fixture *fixture, uint64_t i, uint64_t number)
{
    struct tree_value before;
    int error = tree_mega_put(fixture->tree.mega, key_at(fixture, i), tree_testing_value(number), &before);
    if (error == 0) {
        assert_int_equal(before.place, fixture->values[i]);
        fixture->count += fixture->values[i] == 0;
        fixture->values[i] = number;
    }
    return error;
}

static void delete (struct fixture *fixture, uint64_t i)
{
    struct tree_value before;
    int error = tree_mega_delete(fixture->tree.mega, key_at(fixture, i), &before);
    assert_int_equal(error, fixture->values[i] == 0 ? -ENOENT : 0);
    if (error == 0)
        assert_int_equal(before.place, fixture->values[i]);
    fixture->count -= error == 0;
    fixture->values[i] = 0;
}

static void get(const struct fixture *fixture, uint64_t i)
{
    struct tree_value value;
    int error = tree_mega_get(fixture->tree.mega, key_at(fixture, i), &value);
    assert_int_equal(error, fixture->values[i] == 0 ? -ENOENT : 0);
    if (error == 0)
        tree_testing_expect(value, fixture->values[i]);
}

static void get_many(struct fixture *fixture)
{
    struct tree_key keys[40];
    struct tree_value values[40];
    uint64_t numbers[40];
    for (uint32_t i = 0; i < 40; i++) {
        numbers[i] = base_random_below(&fixture->random, UNIVERSE);
        keys[i] = key_at(fixture, numbers[i]);
    }
    tree_mega_get_many(fixture->tree.mega, keys, 40, values);
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(values[i].place, fixture->values[numbers[i]]);
}

/* What a range is to show next. */
struct walk {
    const struct fixture *fixture;
    int64_t next, step;
    uint64_t left;
};

static void skip_absent(struct walk *walk)
{
    while (walk->next >= 0 && walk->next < UNIVERSE && walk->fixture->values[walk->next] == 0)
        walk->next += walk->step;
}

static int note_shown(void *arg, struct tree_key key, struct tree_value value)
{
    struct walk *walk = arg;
    skip_absent(walk);
    assert_in_range(walk->next, 0, UNIVERSE - 1);
    assert_int_equal(tree_key_compare(key, key_at(walk->fixture, (uint64_t)walk->next)), 0);
    assert_int_equal(value.place, walk->fixture->values[walk->next]);
    walk->next += walk->step;
    return --walk->left == 0 ? 7 : 0;
}

static void walk(struct fixture *fixture)
{
    const uint64_t a = base_random_below(&fixture->random, UNIVERSE),
                   b = a + base_random_below(&fixture->random, UNIVERSE - a);
    if (fixture->lengths[a] == 0 || fixture->lengths[b] == 0)
        return;
    const struct tree_key from = key_at(fixture, a), below = key_at(fixture, b);
    const bool has_from = base_random_below(&fixture->random, 4) > 0,
               has_below = base_random_below(&fixture->random, 4) > 0;
    const int64_t first = has_from ? (int64_t)a : 0, end = has_below ? (int64_t)b : UNIVERSE;
    struct walk up = {
        .fixture = fixture, .next = first, .step = 1, .left = 1 + base_random_below(&fixture->random, 500)};
    struct walk down = {.fixture = fixture, .next = end - 1, .step = -1, .left = up.left};
    const struct tree_key *from_or_none = has_from ? &from : NULL, *below_or_none = has_below ? &below : NULL;
    int outcome = tree_mega_range(fixture->tree.mega, from_or_none, below_or_none, note_shown, &up);
    skip_absent(&up);
    assert_true(outcome == 7 || up.next >= end);
    outcome = tree_mega_range_down(fixture->tree.mega, from_or_none, below_or_none, note_shown, &down);
    skip_absent(&down);
    assert_true(outcome == 7 || down.next < first);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Make keys. @param prefix  bytes that most have in common @param length  at most, behind it */
static void make_keys(struct fixture *fixture, uint32_t prefix, uint32_t length)
{
    struct base_random random;
    base_random_init(&random, prefix + length);
    for (uint64_t i = 0; i < UNIVERSE; i++) {
        const uint32_t common =
            base_random_below(&random, 8) == 0 ? (uint32_t)base_random_below(&random, prefix + 1) : prefix;
        const uint32_t more = 1 + (uint32_t)base_random_below(&random, length);
        memset(fixture->keys[i], 0, TREE_KEY_MAX);
        memset(fixture->keys[i], 'k', common);
        for (uint32_t k = common; k < common + more; k++)
            fixture->keys[i][k] = (uint8_t)(1 + base_random_below(&random, 255));
    }
    qsort(fixture->keys, UNIVERSE, TREE_KEY_MAX, compare_keys);
    for (uint64_t i = 0; i < UNIVERSE; i++) {
        fixture->lengths[i] = (uint32_t)strnlen((const char *)fixture->keys[i], TREE_KEY_MAX);
        if (i > 0 && memcmp(fixture->keys[i], fixture->keys[i - 1], TREE_KEY_MAX) == 0)
            fixture->lengths[i] = 0; /* it is twice there */
    }
}

static void run_model(uint32_t unit_bytes, uint32_t prefix, uint32_t length, uint32_t rounds)
{
    struct fixture *fixture = open_fixture(unit_bytes, BYTES);
    struct tree_mega_stats stats;
    make_keys(fixture, prefix, length);
    for (uint32_t round = 0; round < rounds; round++) {
        /* it grows, then it shrinks, then again */
        const bool shrinks = round / (rounds / 4) % 2 == 1;
        const uint64_t i = base_random_below(&fixture->random, UNIVERSE),
                       what = base_random_below(&fixture->random, 10);
        if (fixture->lengths[i] == 0)
            continue;
        if (what < (shrinks ? 1u : 6u))
            assert_int_equal(put(fixture, i, round + 1), 0);
        else if (what < 8)
            delete (fixture, i);
        else
            get(fixture, i);
        if (round % 500 == 0) {
            check(fixture);
            walk(fixture);
            get_many(fixture);
        }
    }
    check(fixture);
    tree_mega_stats(fixture->tree.mega, &stats);
    print_message("# %u, %u, %u: %" PRIu64 " keys, %u levels, %" PRIu64 " splits, %" PRIu64
                  " merges, %" PRIu64 " moves\n",
                  unit_bytes, prefix, length, stats.keys, stats.levels, stats.splits, stats.merges,
                  stats.moves);
    assert_true(stats.splits > 0 && stats.merges > 0);
    for (uint64_t i = 0; i < UNIVERSE; i++) {
        if (fixture->lengths[i] > 0)
            delete (fixture, i);
    }
    check(fixture);
    tree_mega_stats(fixture->tree.mega, &stats);
    assert_int_equal(stats.nodes, 1);
    assert_int_equal(stats.levels, 1);
    close_fixture(fixture);
}

static void short_keys(void **state)
{
    (void)state;
    run_model(1024, 0, 8, 60000);
    run_model(512, 3, 40, 60000);
}

static void keys_with_much_in_common(void **state)
{
    (void)state;
    run_model(1024, 60, 4, 40000);
    run_model(1024, 240, 10, 40000);
}

static void long_keys(void **state)
{
    (void)state;
    run_model(1024, 900, 120, 12000);
    run_model(512, 1000, 20, 12000);
    run_model(2048, 500, 500, 12000);
}

/* Keys that come in their order leave full leaves. */
static void ascending_keys(void **state)
{
    struct fixture *fixture = open_fixture(0, BYTES);
    struct tree_mega_stats stats;
    (void)state;
    for (uint64_t i = 0; i < UNIVERSE; i++)
        fixture->lengths[i] =
            (uint32_t)snprintf((char *)fixture->keys[i], TREE_KEY_MAX, "user%010" PRIu64, i);
    for (uint64_t i = 0; i < UNIVERSE; i++)
        assert_int_equal(put(fixture, i, i + 1), 0);
    check(fixture);
    tree_mega_stats(fixture->tree.mega, &stats);
    /* 42 bytes each: as many as a leaf can have before it has a prefix */
    assert_in_range(stats.nodes, UNIVERSE / 24, UNIVERSE / 20);
    for (uint64_t i = UNIVERSE; i-- > 0;)
        delete (fixture, i);
    check(fixture);
    close_fixture(fixture);
}

/* A full meganode says so, and is as it was; when keys are removed it takes others. */
static void a_full_one_says_so(void **state)
{
    struct fixture *fixture = open_fixture(0, UINT64_C(96) << 10);
    uint64_t full = 0;
    (void)state;
    make_keys(fixture, 100, 100);
    for (uint32_t round = 0; round < 20000; round++) {
        const uint64_t i = base_random_below(&fixture->random, UNIVERSE);
        if (fixture->lengths[i] == 0)
            continue;
        if (base_random_below(&fixture->random, 3) == 0) {
            delete (fixture, i);
            continue;
        }
        int error = put(fixture, i, round + 1);
        assert_true(error == 0 || error == -ENOSPC);
        full += error != 0;
        if (error != 0 || round % 100 == 0)
            check(fixture);
    }
    assert_true(full > 10);
    for (uint64_t i = 0; i < UNIVERSE; i++) {
        if (fixture->lengths[i] > 0)
            get(fixture, i);
    }
    close_fixture(fixture);
}

/* Damage is found wherever it is. */
static void the_check_finds_damage(void **state)
{
    struct fixture *fixture = open_fixture(0, UINT64_C(1) << 20);
    const char *why = NULL;
    uint32_t found = 0;
    (void)state;
    make_keys(fixture, 0, 20);
    for (uint64_t i = 0; i < UNIVERSE; i++) {
        if (fixture->lengths[i] > 0)
            assert_int_equal(put(fixture, i, i + 1), 0);
    }
    check(fixture);
    for (uint32_t unit = 0; unit < 60; unit++) {
        uint8_t *byte = fixture->tree.region.memory + (uint64_t)unit * 1024 + 20;
        *byte ^= 4;
        found += tree_mega_check(fixture->tree.mega, &why) == -EUCLEAN;
        *byte ^= 4;
    }
    assert_int_equal(found, 45); /* all but the room of the root */
    assert_string_equal(why, "a node is damaged");
    check(fixture);
    close_fixture(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_keys),         cmocka_unit_test(keys_with_much_in_common),
        cmocka_unit_test(long_keys),          cmocka_unit_test(ascending_keys),
        cmocka_unit_test(a_full_one_says_so), cmocka_unit_test(the_check_finds_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
