/* Do readers find what is there while the owner changes the tree, in real threads and at every moment between two of its words? */
#include "fabric/fabric.h"
#include "tree/reader.h"
#include "tree/testing.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

#define UNIT    512u
#define KEYS    3000u
#define BYTES   (UINT64_C(4) << 20)
#define READERS 2u

struct fixture {
    struct tree_testing tree;
    uint64_t states[KEYS];        /* of each key: even: absent; odd: present, with that as its place */
    _Atomic uint64_t begun[KEYS]; /* the state of the change that was begun last */
    _Atomic uint64_t ended[KEYS]; /* … and ended */
    _Atomic bool stop;
    _Atomic uint32_t readers; /* that were begun; the first one keeps nodes */
    _Atomic uint64_t found, missed;
};

static struct tree_key key_of(uint64_t number, char *buffer)
{
    /* one in sixteen is long */
    const int count = snprintf(
        buffer, TREE_KEY_MAX, "%05" PRIu64 "%.*s", number, (int)(number % 16 == 3 ? 300 : number % 7),
        "a-long-key-................................................................................"
        "..........................................................................................."
        "..........................................................................................."
        "........................................");
    return (struct tree_key){.bytes = (const uint8_t *)buffer, .count = (uint32_t)count};
}

/* Whether bytes lie in a region of some bytes. */
static bool is_inside(uint32_t region, uint64_t offset, uint64_t bytes, uint64_t all)
{
    return region == TREE_TESTING_REGION && offset <= all && bytes <= all - offset;
}

static int read_region(void *arg, uint32_t region, uint64_t offset, void *memory, uint32_t bytes)
{
    const struct fixture *fixture = arg;
    if (!is_inside(region, offset, bytes, fixture->tree.region.bytes))
        return -ERANGE;
    tarn_fabric_mem_copy_out(&fixture->tree.region, offset, memory, bytes);
    return 0;
}

static struct fixture *open_fixture(uint64_t bytes)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    tree_testing_open(&fixture->tree, UNIT, bytes);
    return fixture;
}

static void close_fixture(struct fixture *fixture)
{
    tree_testing_close(&fixture->tree);
    free(fixture);
}

/* @param cache  NULL: it has none */
static struct tree_reader *open_caching_reader(struct fixture *fixture, tree_read_function *read, void *arg,
                                               struct tree_cache *cache)
{
    struct tree_reader *reader;
    assert_int_equal(tree_reader_open(&(struct tree_reader_options){.account = &fixture->tree.account,
                                                                    .read = read,
                                                                    .arg = arg,
                                                                    .region = TREE_TESTING_REGION,
                                                                    .unit_bytes = UNIT,
                                                                    .cache = cache},
                                      &reader),
                     0);
    return reader;
}

static struct tree_reader *open_reader(struct fixture *fixture, tree_read_function *read, void *arg)
{
    return open_caching_reader(fixture, read, arg, NULL);
}

static struct tree_cache *open_cache(struct fixture *fixture)
{
    struct tree_cache *cache;
    assert_int_equal(tree_cache_open(&fixture->tree.account, UINT64_C(20) << 10, &cache), 0);
    return cache;
}

static void put(struct fixture *fixture, uint64_t number)
{
    char buffer[TREE_KEY_MAX];
    struct tree_value before;
    const uint64_t state = (fixture->states[number] + 1) | 1;
    atomic_store(&fixture->begun[number], state);
    int error = tree_mega_put(fixture->tree.mega, key_of(number, buffer),
                              (struct tree_value){.place = state, .sum = number}, &before);
    if (error != 0) { /* only where memory is scarce on purpose */
        assert_int_equal(error, -ENOSPC);
        assert_true(fixture->tree.region.bytes < BYTES);
        atomic_store(&fixture->begun[number], fixture->states[number]);
        return;
    }
    atomic_store(&fixture->ended[number], state);
    fixture->states[number] = state;
}

static void delete (struct fixture *fixture, uint64_t number)
{
    char buffer[TREE_KEY_MAX];
    struct tree_value before;
    const uint64_t state = fixture->states[number] + 1;
    if (fixture->states[number] % 2 == 0)
        return;
    atomic_store(&fixture->begun[number], state);
    assert_int_equal(tree_mega_delete(fixture->tree.mega, key_of(number, buffer), &before), 0);
    atomic_store(&fixture->ended[number], state);
    fixture->states[number] = state;
}

/* ---- threads ------------------------------------------------------------------------------------ */

/* What a get may find lies between the state before it, and the one that was begun before its end. */
static void get_one(struct fixture *fixture, struct tree_reader *reader, uint64_t number)
{
    char buffer[TREE_KEY_MAX];
    struct tree_value value;
    const uint64_t least = atomic_load(&fixture->ended[number]);
    int error = tree_reader_get(reader, key_of(number, buffer), &value);
    const uint64_t most = atomic_load(&fixture->begun[number]);
    if (error == -EBUSY)
        return;
    if (error == 0) {
        base_assert(value.sum == number && value.place % 2 == 1 && value.place >= least &&
                    value.place <= most);
        atomic_fetch_add(&fixture->found, 1);
    } else {
        base_assert(error == -ENOENT && (least % 2 == 0 || most > least));
        atomic_fetch_add(&fixture->missed, 1);
    }
}

struct shown {
    int64_t last;
    uint64_t stayed; /* keys of those that always stay */
};

static int note_shown(void *arg, struct tree_key key, struct tree_value value)
{
    struct shown *shown = arg;
    (void)key;
    base_assert((int64_t)value.sum > shown->last);
    shown->last = (int64_t)value.sum;
    shown->stayed += value.sum % 5 == 0;
    return 0;
}

static void range_all(struct tree_reader *reader)
{
    struct shown shown = {.last = -1};
    int error = tree_reader_range(reader, NULL, NULL, note_shown, &shown);
    base_assert(error == 0 || error == -EBUSY);
    base_assert(error != 0 || shown.stayed == KEYS / 5);
}

static void *be_reader(void *arg)
{
    struct fixture *fixture = arg;
    const bool is_first = atomic_fetch_add(&fixture->readers, 1) == 0;
    struct tree_cache *cache = is_first ? open_cache(fixture) : NULL;
    struct tree_reader *reader = open_caching_reader(fixture, read_region, fixture, cache);
    struct tree_reader_stats stats;
    struct base_random random;
    base_random_init(&random, (uint64_t)(uintptr_t)reader);
    for (uint64_t i = 0; !atomic_load(&fixture->stop); i++) {
        get_one(fixture, reader, base_random_below(&random, KEYS));
        if (i % 200 == 0)
            range_all(reader);
    }
    tree_reader_stats(reader, &stats);
    base_assert((stats.cached > 0) == is_first);
    tree_reader_close(reader);
    tree_cache_close(cache);
    return NULL;
}

static void threads_find_what_is_there(void **state)
{
    struct fixture *fixture = open_fixture(BYTES);
    struct base_random random;
    pthread_t readers[READERS];
    const char *why;
    (void)state;
    base_random_init(&random, 3);
    for (uint64_t number = 0; number < KEYS; number += 5)
        put(fixture, number);
    for (uint32_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, be_reader, fixture), 0);
    /* until both have done enough, however slow they are */
    for (uint64_t i = 0;
         i < 50000 || atomic_load(&fixture->found) < 1000 || atomic_load(&fixture->missed) < 200; i++) {
        const uint64_t number = base_random_below(&random, KEYS);
        if (number % 5 == 0 || base_random_below(&random, 10) < (i / 5000 % 2 == 0 ? 7 : 2))
            put(fixture, number);
        else
            delete (fixture, number);
    }
    atomic_store(&fixture->stop, true);
    for (uint32_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_int_equal(tree_mega_check(fixture->tree.mega, &why), 0);
    close_fixture(fixture);
}

/* ---- every moment ------------------------------------------------------------------------------- */

/* Memory that stands still after some words of a change, as a peer may see it. */
struct moment {
    struct fixture *fixture;
    uint8_t *now;
    uint64_t words
        [4096]; /* that a change has written, in their order: where, and 1 where that is a node's sum, which always changes; and what */
    uint32_t word_count;
};

static uint64_t word_at(const uint8_t *memory, uint64_t at)
{
    uint64_t word;
    memcpy(&word, memory + at, 8);
    return word;
}

static int read_moment(void *arg, uint32_t region, uint64_t offset, void *memory, uint32_t bytes)
{
    const struct moment *moment = arg;
    if (!is_inside(region, offset, bytes, BYTES))
        return -ERANGE;
    memcpy(memory, moment->now + offset, bytes);
    return 0;
}

static struct moment *recording;

/* The owner's copy, word by word; so the order in which nodes are written is known. */
static void record_copy_in(struct tarn_fabric_region *region, uint64_t offset, const void *from,
                           uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += 8) {
        if (word_at(region->memory, offset + at) == word_at(from, at))
            continue;
        base_assert(recording->word_count < base_array_count(recording->words));
        recording->words[recording->word_count++] = (offset + at) | (at == 0);
        recording->words[recording->word_count++] = word_at(from, at);
        memcpy(region->memory + offset + at, (const uint8_t *)from + at, 8);
    }
}

/* In a moment between two words of a change every other key is as it is, and its own as before or after. @param is_whole  no
 * node is half written */
static void look_at_moment(struct moment *moment, struct tree_reader *reader, uint64_t changed,
                           uint64_t before, bool is_whole, struct base_random *random)
{
    struct fixture *fixture = moment->fixture;
    char buffer[TREE_KEY_MAX];
    for (uint32_t i = 0; i < 4; i++) {
        /* mostly those near to it, which lie in the same nodes */
        const uint64_t number =
            i == 0 ? changed : (changed + KEYS + base_random_below(random, 60) - 30) % KEYS;
        struct tree_value value = {.place = 0};
        int error = tree_reader_get(reader, key_of(number, buffer), &value);
        if (error == -EBUSY && !is_whole)
            continue; /* and it stays so for as long as one looks */
        const uint64_t found = error == 0 ? value.place : 0, now = fixture->states[number],
                       expected = now % 2 == 0 ? 0 : now, was = before % 2 == 0 ? 0 : before;
        assert_true(error == 0 || error == -ENOENT);
        assert_true(found == expected || (number == changed && found == was));
    }
}

static void every_moment_has_all_keys(void **state)
{
    struct fixture *fixture = open_fixture(BYTES);
    const struct tarn_fabric_mem_operations operations = {.copy_in = record_copy_in};
    struct moment *moment = calloc(1, sizeof(*moment));
    struct base_random random;
    struct tree_mega_stats stats;
    uint64_t moments = 0;
    (void)state;
    assert_non_null(moment);
    *moment = (struct moment){.fixture = fixture, .now = malloc(BYTES)};
    assert_non_null(moment->now);
    memcpy(moment->now, fixture->tree.region.memory, BYTES);
    recording = moment;
    fixture->tree.region.mem = &operations;
    struct tree_cache *cache = open_cache(fixture); /* of the readers one keeps nodes */
    struct tree_reader *readers[] = {open_reader(fixture, read_moment, moment),
                                     open_caching_reader(fixture, read_moment, moment, cache)};
    base_random_init(&random, 11);
    for (uint32_t round = 0; round < 8000; round++) {
        const uint64_t number = base_random_below(&random, KEYS), before = fixture->states[number];
        moment->word_count = 0;
        if (base_random_below(&random, 10) < (round / 2000 % 2 == 0 ? 8 : 2))
            put(fixture, number);
        else
            delete (fixture, number);
        for (uint32_t i = 0; i < moment->word_count; i += 2) {
            const bool is_first = moment->words[i] % 2 == 1;
            struct tree_reader *reader = readers[moments % 2];
            if (is_first)
                look_at_moment(moment, reader, number, before, true, &random);
            memcpy(moment->now + moment->words[i] / 8 * 8, &moment->words[i + 1], 8);
            if (is_first || i % 8 == 0)
                look_at_moment(moment, reader, number, before, false, &random);
            moments++;
        }
    }
    tree_mega_stats(fixture->tree.mega, &stats);
    assert_true(stats.splits > 100 && stats.merges > 10 && stats.moves > 0 && moments > 5000);
    tree_reader_close(readers[0]);
    tree_reader_close(readers[1]);
    tree_cache_close(cache);
    free(moment->now);
    free(moment);
    close_fixture(fixture);
}

/* ---- places that are used again ---------------------------------------------------------------------- */

#define FEW_KEYS 500u

struct churn {
    struct fixture *fixture;
    struct base_random random;
};

/* Before each READ the tree changes, so that the pointer by which the reader has come is often an old one. */
static int read_churned(void *arg, uint32_t region, uint64_t offset, void *memory, uint32_t bytes)
{
    struct churn *churn = arg;
    for (uint64_t i = base_random_below(&churn->random, 3); i > 0; i--) {
        const uint64_t first = base_random_below(&churn->random, FEW_KEYS);
        const bool is_put = base_random_below(&churn->random, 2) == 0;
        for (uint64_t k = base_random_below(&churn->random, FEW_KEYS); k > 0; k--) {
            if (is_put)
                put(churn->fixture, (first + k) % FEW_KEYS);
            else
                delete (churn->fixture, (first + k) % FEW_KEYS);
        }
    }
    return read_region(churn->fixture, region, offset, memory, bytes);
}

static void places_are_used_again(void **state)
{
    struct churn churn = {.fixture = open_fixture(UINT64_C(56) << 10)};
    struct tree_reader_stats stats;
    (void)state;
    base_random_init(&churn.random, 5);
    struct tree_reader *reader = open_reader(churn.fixture, read_churned, &churn);
    for (uint32_t i = 0; i < 4000; i++)
        get_one(churn.fixture, reader, base_random_below(&churn.random, FEW_KEYS));
    tree_reader_stats(reader, &stats);
    print_message("# %" PRIu64 " reads, %" PRIu64 " right links, %" PRIu64 " restarts\n", stats.reads,
                  stats.rights, stats.restarts);
    assert_true(stats.rights > 100 && stats.restarts > 300 && churn.fixture->found > 1000);
    tree_reader_close(reader);
    close_fixture(churn.fixture);
}

/* ---- hostile ------------------------------------------------------------------------------------ */

static int refuse_all(void *arg, struct tree_key key, struct tree_value value)
{
    (void)key, (void)value;
    return *(const int *)arg;
}

/* A range ends with what the caller's function says, whatever that is. */
static void ranges_end_as_they_are_told(void **state)
{
    static const int outcomes[] = {1, -ERANGE, -EAGAIN, -EBUSY};
    struct fixture *fixture = open_fixture(BYTES);
    struct tree_reader *reader = open_reader(fixture, read_region, fixture);
    (void)state;
    put(fixture, 1);
    for (size_t i = 0; i < base_array_count(outcomes); i++)
        assert_int_equal(tree_reader_range(reader, NULL, NULL, refuse_all, (void *)(uintptr_t)&outcomes[i]),
                         outcomes[i]);
    tree_reader_close(reader);
    close_fixture(fixture);
}

/* Rubbish, and a tree that leads in a circle, end a call. */
static void rubbish_ends_a_call(void **state)
{
    struct fixture *fixture = open_fixture(BYTES);
    struct tree_reader *reader = open_reader(fixture, read_region, fixture);
    struct tree_value value;
    char buffer[TREE_KEY_MAX];
    struct tree_node *root = (void *)fixture->tree.region.memory;
    (void)state;
    assert_int_equal(tree_reader_get(reader, key_of(1, buffer), &value), -ENOENT);
    assert_true(tree_node_init(root, UNIT, 0, 1, (struct tree_key){.bytes = (const uint8_t *)""}, NULL));
    assert_true(tree_node_insert(root, 0, (struct tree_key){.bytes = (const uint8_t *)""},
                                 (struct tree_value){.place = tree_pointer_to(TREE_TESTING_REGION, 0, 0)}));
    tree_node_seal(root, tree_pointer_to(TREE_TESTING_REGION, 0, 0), 1);
    assert_int_equal(tree_reader_get(reader, key_of(1, buffer), &value), -EBUSY);
    tree_node_replace(root, 0, (struct tree_value){.place = tree_pointer_to(77, 5, 15)});
    tree_node_seal(root, tree_pointer_to(TREE_TESTING_REGION, 0, 0), 2);
    assert_int_equal(tree_reader_get(reader, key_of(1, buffer), &value), -EBUSY);
    memset(root, 0xff, UNIT);
    assert_int_equal(tree_reader_get(reader, key_of(1, buffer), &value), -EBUSY);
    tree_reader_close(reader);
    close_fixture(fixture);
}

/* Nodes that are kept lead to leaves of what was there before it was emptied; no key of these is found. */
static void what_was_emptied_is_not_found(void **state)
{
    struct fixture *fixture = open_fixture(BYTES);
    struct tree_cache *cache = open_cache(fixture);
    struct tree_reader *reader = open_caching_reader(fixture, read_region, fixture, cache);
    struct tree_reader_stats stats;
    struct tree_value value;
    char buffer[TREE_KEY_MAX];
    (void)state;
    for (uint64_t number = 0; number < KEYS; number++)
        put(fixture, number);
    for (uint64_t number = 0; number < KEYS; number += 10)
        assert_int_equal(tree_reader_get(reader, key_of(number, buffer), &value), 0);
    tree_mega_clear(fixture->tree.mega);
    for (uint64_t number = 0; number < KEYS; number += 10)
        assert_int_equal(tree_reader_get(reader, key_of(number, buffer), &value), -ENOENT);
    tree_reader_stats(reader, &stats);
    assert_true(stats.cached > 0 && stats.restarts > 0);
    tree_reader_close(reader);
    tree_cache_close(cache);
    close_fixture(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_find_what_is_there), cmocka_unit_test(every_moment_has_all_keys),
        cmocka_unit_test(places_are_used_again),      cmocka_unit_test(ranges_end_as_they_are_told),
        cmocka_unit_test(rubbish_ends_a_call),        cmocka_unit_test(what_was_emptied_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
