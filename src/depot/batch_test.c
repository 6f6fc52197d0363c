/* Batches: what they store and remove, what refuses them, and that a refused one has changed nothing. */
#include "depot/batch_testing.h"
#include <pthread.h>

static int write_items(struct testing_fixture *fixture, struct tarn_batch_item *items, size_t count)
{
    return tarn_depot_write_batch(depot_of(fixture), items, count);
}

/* ---- what they do ------------------------------------------------------------------------------- */

static void they_store_and_remove(void **state)
{
    struct testing_fixture *fixture = *state;
    assert_int_equal(depot_testing_put(&fixture->store, "b", "old"), 0);
    assert_int_equal(depot_testing_put(&fixture->store, "c", "old"), 0);
    struct tarn_record_info info;
    assert_int_equal(tarn_depot_get(depot_of(fixture), "c", 1, found, ROOM, &info), 0);
    struct tarn_batch_item items[] = {item_put("a", "new"), item_put("b", "newer"), item_remove("c"),
                                      item_remove("d")};
    for (int round = 0; round < 2; round++) {
        assert_int_equal(write_items(fixture, items, 4), 0);
        for (int i = 0; i < 4; i++)
            assert_int_equal(items[i].error, 0);
        assert_true(items[0].version != 0 && items[1].version != 0 && items[0].version != items[1].version);
        assert_int_equal(items[2].version, round == 0 ? info.version : 0);
        assert_int_equal(items[3].version, 0);
    }
    for (int times = 0; times < 2; times++) {
        depot_testing_expect(&fixture->store, "a", "new");
        depot_testing_expect(&fixture->store, "b", "newer");
        depot_testing_expect(&fixture->store, "c", NULL);
        depot_testing_expect(&fixture->store, "d", NULL);
        assert_int_equal(tarn_depot_get(depot_of(fixture), "b", 1, found, ROOM, &info), 0);
        assert_int_equal(info.version, items[1].version);
        restart(fixture, times == 0);
    }
    struct tarn_depot_stats stats = stats_of(fixture);
    assert_int_equal(stats.records, 2);
}

static void options_are_theirs(void **state)
{
    struct testing_fixture *fixture = *state;
    const struct tarn_put_options options[] = {
        {.expiry_ns = TESTING_BEGIN + 5 * BASE_NS_PER_SECOND, .client_flags = 7, .note = 2},
        {.version = 4711}};
    struct tarn_batch_item items[] = {item_put("a", "1"), item_put("b", "2")};
    struct tarn_record_info info;
    items[0].options = &options[0];
    items[1].options = &options[1];
    assert_int_equal(write_items(fixture, items, 2), 0);
    assert_int_equal(items[1].version, 4711);
    restart(fixture, true);
    assert_int_equal(tarn_depot_get(depot_of(fixture), "a", 1, found, ROOM, &info), 0);
    assert_true(info.client_flags == 7 && info.note == 2);
    assert_int_equal(info.expiry_ns, TESTING_BEGIN + 5 * BASE_NS_PER_SECOND);
    atomic_store(&fixture->clock.wall_ns, TESTING_BEGIN + 6 * BASE_NS_PER_SECOND);
    depot_testing_expect(&fixture->store, "a", NULL);
    depot_testing_expect(&fixture->store, "b", "2");
    /* what has expired is not there to be removed, nor to be replaced */
    static const struct tarn_put_options absent = {.condition = TARN_PUT_IF_ABSENT};
    struct tarn_batch_item later[] = {item_remove("a"), item_put("c", "3")};
    later[0].options = &absent;
    assert_int_equal(write_items(fixture, later, 2), 0);
    assert_int_equal(later[0].version, 0);
    restart(fixture, true);
    depot_testing_expect(&fixture->store, "c", "3");
}

/* One alone is a record as any other, and an older release may read the store. */
static void one_alone_is_no_batch(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_batch_item items[] = {item_put("a", "1"), item_remove("b")};
    struct tarn_depot_stats before, after;
    assert_int_equal(write_items(fixture, items, 0), 0);
    assert_int_equal(write_items(fixture, items, 1), 0);
    struct seglog_superblock_format superblock = depot_testing_superblock(&fixture->drive);
    assert_int_equal(superblock.incompatible & SEGLOG_FEATURE_BATCHES, 0);
    before = stats_of(fixture);
    assert_int_equal(write_items(fixture, items + 1, 1), 0); /* nothing to write */
    after = stats_of(fixture);
    assert_int_equal(after.user_bytes, before.user_bytes);
    assert_int_equal(write_items(fixture, items, 2), 0);
    superblock = depot_testing_superblock(&fixture->drive);
    assert_int_equal(superblock.incompatible & SEGLOG_FEATURE_BATCHES, SEGLOG_FEATURE_BATCHES);
    restart(fixture, true);
    depot_testing_expect(&fixture->store, "a", "1");
}

/* Long values that are replaced and removed leave no pieces. */
static void pieces_die_with_them(void **state)
{
    struct testing_fixture *fixture = *state;
    uint64_t bytes = tarn_depot_whole_bytes_max(depot_of(fixture)) + 1000;
    assert_int_equal(put_long(fixture, "long", 1, bytes), 0);
    assert_int_equal(put_long(fixture, "gone", 2, bytes), 0);
    assert_true(stats_of(fixture).pieces > 1);
    struct tarn_batch_item items[] = {item_put("long", "short"), item_remove("gone"), item_put("other", "")};
    assert_int_equal(write_items(fixture, items, 3), 0);
    assert_int_equal(stats_of(fixture).pieces, 0);
    restart(fixture, true);
    assert_int_equal(stats_of(fixture).pieces, 0);
    depot_testing_expect(&fixture->store, "long", "short");
    depot_testing_expect(&fixture->store, "gone", NULL);
    depot_testing_expect(&fixture->store, "other", "");
}

/* ---- what refuses them -------------------------------------------------------------------------- */

static void expect_unchanged(struct testing_fixture *fixture)
{
    depot_testing_expect(&fixture->store, "a", "first");
    depot_testing_expect(&fixture->store, "b", "second");
    depot_testing_expect(&fixture->store, "c", NULL);
}

/* Each condition in each place: all items that are to blame say so. */
static void conditions_refuse_all_of_it(void **state)
{
    struct testing_fixture *fixture = *state;
    static const struct tarn_put_options absent = {.condition = TARN_PUT_IF_ABSENT},
                                         present = {.condition = TARN_PUT_IF_PRESENT},
                                         version = {.condition = TARN_PUT_IF_VERSION, .if_version = 1};
    assert_int_equal(depot_testing_put(&fixture->store, "a", "first"), 0);
    assert_int_equal(depot_testing_put(&fixture->store, "b", "second"), 0);
    for (int removes = 0; removes < 2; removes++) {
        struct tarn_batch_item items[] = {item_put("a", "x"), item_put("b", "x"), item_put("c", "x")};
        for (int i = 0; i < 3; i++)
            items[i].remove = removes;
        items[1].options = &absent;
        assert_int_equal(write_items(fixture, items, 3), -EEXIST);
        assert_int_equal(items[0].error, -ECANCELED);
        assert_int_equal(items[1].error, -EEXIST);
        assert_int_equal(items[2].error, -ECANCELED);
        items[1].options = &version;
        items[2].options = &present;
        assert_int_equal(write_items(fixture, items, 3), -EEXIST);
        assert_int_equal(items[1].error, -EEXIST);
        assert_int_equal(items[2].error, -ENOENT);
        items[1].options = &present;
        items[2].options = &version;
        assert_int_equal(write_items(fixture, items, 3), -ENOENT);
        assert_int_equal(items[1].error, -ECANCELED);
        assert_int_equal(items[2].error, -ENOENT);
        expect_unchanged(fixture);
        restart(fixture, true);
        expect_unchanged(fixture);
        items[2].options = &absent;
        struct tarn_record_info info;
        assert_int_equal(tarn_depot_get(depot_of(fixture), "a", 1, found, ROOM, &info), 0);
        const struct tarn_put_options right = {.condition = TARN_PUT_IF_VERSION, .if_version = info.version};
        items[0].options = &right;
        if (removes > 0)
            assert_int_equal(write_items(fixture, items, 3), 0);
    }
    assert_int_equal(stats_of(fixture).records, 0);
}

/* What is only looked at stays as it is, and tells its version; a batch of nothing else writes nothing. */
static void checks_change_nothing(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_record_info info;
    assert_int_equal(depot_testing_put(&fixture->store, "a", "first"), 0);
    assert_int_equal(depot_testing_put(&fixture->store, "b", "second"), 0);
    assert_int_equal(tarn_depot_get(depot_of(fixture), "a", 1, found, ROOM, &info), 0);
    const struct tarn_put_options same = {.condition = TARN_PUT_IF_VERSION, .if_version = info.version},
                                  absent = {.condition = TARN_PUT_IF_ABSENT};
    struct tarn_batch_item items[] = {{.key = "a", .key_len = 1, .check = true, .options = &same},
                                      {.key = "c", .key_len = 1, .check = true, .options = &absent},
                                      item_put("d", "third")};
    assert_int_equal(write_items(fixture, items, 2), 0);
    assert_int_equal(items[0].version, info.version);
    assert_int_equal(items[1].version, 0);
    assert_int_equal(write_items(fixture, items, 3), 0);
    expect_unchanged(fixture);
    depot_testing_expect(&fixture->store, "d", "third");
    restart(fixture, false);
    expect_unchanged(fixture);
    depot_testing_expect(&fixture->store, "d", "third");
    assert_int_equal(depot_testing_put(&fixture->store, "a", "first"), 0);
    items[2] = item_put("d", "fourth");
    assert_int_equal(write_items(fixture, items, 3), -EEXIST);
    assert_int_equal(items[0].error, -EEXIST);
    assert_int_equal(items[2].error, -ECANCELED);
    depot_testing_expect(&fixture->store, "d", "third");
}

static void what_is_no_batch_is_refused(void **state)
{
    struct testing_fixture *fixture = *state;
    static struct tarn_batch_item many[TARN_BATCH_ITEMS_MAX + 1];
    static uint32_t keys[TARN_BATCH_ITEMS_MAX + 1];
    static const struct tarn_put_options wrong = {.note = TARN_NOTE_MAX + 1};
    struct tarn_batch_item items[] = {item_put("a", "1"), item_put("", "2"), item_put("c", "3")};
    assert_int_equal(write_items(fixture, items, 3), -EINVAL);
    assert_int_equal(items[0].error, -ECANCELED);
    assert_int_equal(items[1].error, -EINVAL);
    items[1] = item_put("a", "2");
    assert_int_equal(write_items(fixture, items, 3), -EINVAL);
    assert_int_equal((items[0].error == -EINVAL) + (items[1].error == -EINVAL), 1);
    assert_int_equal(items[2].error, -ECANCELED);
    items[1] = item_put("b", "2");
    items[1].options = &wrong;
    assert_int_equal(write_items(fixture, items, 3), -EINVAL);
    items[1] = item_put("b", "2");
    items[1].value_len = SIZE_MAX;
    assert_int_equal(write_items(fixture, items, 3), -E2BIG);
    assert_int_equal(items[0].error, -E2BIG);
    for (uint32_t i = 0; i <= TARN_BATCH_ITEMS_MAX; i++) {
        keys[i] = i;
        many[i] = (struct tarn_batch_item){.key = &keys[i], .key_len = 4, .remove = true};
    }
    assert_int_equal(write_items(fixture, many, TARN_BATCH_ITEMS_MAX + 1), -E2BIG);
    assert_int_equal(stats_of(fixture).records, 0);
    depot_testing_close(&fixture->store);
    const struct tarn_depot_options read_only = {.read_only = true};
    assert_int_equal(testing_try_open(&fixture->store, &fixture->drive, &fixture->clock, &read_only), 0);
    assert_int_equal(write_items(fixture, items, 1), -EROFS);
    testing_reopen(fixture);
}

/* As many bytes as there may be, and one more. */
static void they_have_a_limit(void **state)
{
    struct testing_fixture *fixture = *state;
    uint64_t most = tarn_depot_batch_bytes_max(depot_of(fixture));
    uint64_t first = tarn_depot_batch_bytes(depot_of(fixture), 1, 1000);
    uint64_t header = tarn_depot_batch_bytes(depot_of(fixture), 1, 0) - 1;
    struct tarn_batch_item items[] = {item_put("a", ""), item_put("b", "")};
    fill(1, most);
    for (int i = 0; i < 2; i++)
        items[i].value = given;
    items[0].value_len = 1000;
    items[1].value_len = most - first - header - 64;
    while (tarn_depot_batch_bytes(depot_of(fixture), 1, items[1].value_len + 1) + first <= most)
        items[1].value_len++;
    assert_int_equal(write_items(fixture, items, 2), 0);
    items[1].value_len++;
    assert_int_equal(write_items(fixture, items, 2), -E2BIG);
    items[1].value_len--;
    restart(fixture, true);
    expect_long(fixture, "b", 1, items[1].value_len);
    assert_true(most >= 30000); /* of segments of 128 KiB */
}

/* A store that is full refuses all of one, and lets another remove. */
static void full_stores_take_all_or_nothing(void **state)
{
    enum { COUNT = 8, BYTES = 3000 };
    struct testing_fixture *fixture = *state;
    uint64_t stored = 0, records;
    struct tarn_batch_item items[COUNT];
    char keys[COUNT][16];
    int error = 0;
    fill(1, BYTES);
    while (error == 0) {
        records = stats_of(fixture).records;
        for (uint32_t i = 0; i < COUNT; i++) {
            (void)snprintf(keys[i], sizeof(keys[i]), "%llu", (unsigned long long)(stored + i));
            items[i] = item_put(keys[i], "");
            items[i].value = given;
            items[i].value_len = BYTES - i;
        }
        error = write_items(fixture, items, COUNT);
        stored += error == 0 ? COUNT : 0;
        assert_int_equal(stats_of(fixture).records, records + (error == 0 ? COUNT : 0));
    }
    assert_int_equal(error, -ENOSPC);
    assert_int_equal(items[3].error, -ENOSPC);
    struct tarn_depot_stats stats = stats_of(fixture);
    assert_true(stats.live_bytes <= stats.capacity_bytes);
    assert_true(stats.live_bytes + 2 * COUNT * BYTES > stats.capacity_bytes);
    /* what goes makes room for what comes, in one */
    struct tarn_batch_item turn[2 * COUNT];
    char gone[COUNT][16];
    for (uint32_t i = 0; i < COUNT; i++) {
        turn[i] = items[i];
        (void)snprintf(gone[i], sizeof(gone[i]), "%u", i);
        turn[COUNT + i] = item_remove(gone[i]);
    }
    assert_int_equal(write_items(fixture, turn, 2 * COUNT), 0);
    assert_int_equal(stats_of(fixture).records, stored);
    restart(fixture, true);
    assert_int_equal(stats_of(fixture).records, stored);
    for (uint64_t i = 0; i < stored; i += COUNT / 2) {
        for (uint32_t k = 0; k < COUNT / 2; k++) {
            (void)snprintf(keys[k], sizeof(keys[k]), "%llu", (unsigned long long)(COUNT + i + k));
            items[k] = item_remove(keys[k]);
        }
        assert_int_equal(write_items(fixture, items, COUNT / 2), 0);
    }
    assert_int_equal(stats_of(fixture).records, 0);
    assert_int_equal(stats_of(fixture).live_bytes, 0);
}

/* If it is there. */
static void remove_number(struct testing_fixture *fixture, const char *name, uint32_t number)
{
    char key[24];
    (void)snprintf(key, sizeof(key), "%s%u", name, number);
    int error = testing_delete(&fixture->store, key);
    assert_true(error == 0 || error == -ENOENT);
}

/* ---- beside others ------------------------------------------------------------------------------ */

enum { THREADS = 4, SHARED = 6, TOGETHER = 4, ROUNDS = TESTING_SLOW ? 60 : 400 };

struct crowd {
    struct testing_fixture *fixture;
    uint32_t number;
};

/* Two keys that are always written together: if both still have the versions that were read, what was read is of
 * one moment. */
static void replace_both(struct testing_fixture *fixture, const char *value)
{
    static const char *const keys[] = {"k2", "k3"};
    struct tarn_batch_item items[2];
    struct tarn_put_options options[2];
    char values[2][64] = {{0}, {0}};
    for (uint32_t i = 0; i < 2; i++) {
        struct tarn_record_info info;
        if (tarn_depot_get(depot_of(fixture), keys[i], 2, values[i], sizeof(values[i]), &info) != 0)
            return;
        options[i] = (struct tarn_put_options){.condition = TARN_PUT_IF_VERSION, .if_version = info.version};
        items[i] = item_put(keys[i], value);
        items[i].options = &options[i];
    }
    int error = write_items(fixture, items, 2);
    base_assert(error == 0 || error == -EEXIST || error == -ENOENT);
    base_assert(error != 0 || strcmp(values[0], values[1]) == 0);
}

/* Batches over the first or the last keys, which overlap, each time in another order, among puts, removals and
 * flushes. */
static void *write_together(void *arg)
{
    const struct crowd *crowd = arg;
    struct testing_fixture *fixture = crowd->fixture;
    struct base_random random;
    struct tarn_batch_item items[SHARED];
    char keys[SHARED][8], value[64];
    base_random_init(&random, crowd->number);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t first = (uint32_t)base_random_below(&random, SHARED);
        bool remove = base_random_below(&random, 8) == 0;
        (void)snprintf(value, sizeof(value), "%u of %u", round, crowd->number);
        uint32_t begin = base_random_below(&random, 2) == 0 ? 0 : SHARED - TOGETHER;
        for (uint32_t i = 0; i < TOGETHER; i++) {
            (void)snprintf(keys[i], sizeof(keys[i]), "k%u", begin + (first + i) % TOGETHER);
            items[i] = remove ? item_remove(keys[i]) : item_put(keys[i], value);
        }
        base_assert(write_items(fixture, items, TOGETHER) == 0);
        replace_both(fixture, value);
        if (crowd->number == 0 && round % 16 == 0)
            base_assert(tarn_depot_flush_all(depot_of(fixture), 0) == 0);
        (void)snprintf(value, sizeof(value), "own%u", crowd->number);
        base_assert(depot_testing_put(&fixture->store, value, value) == 0);
    }
    return NULL;
}

/* Keys that are in the same batches hold the same: nobody came in between. */
static void writers_do_not_mix(void **state)
{
    struct testing_fixture *fixture = *state;
    struct crowd crowds[THREADS];
    pthread_t threads[THREADS];
    for (int times = 0; times < 3; times++) {
        for (uint32_t i = 0; i < THREADS; i++) {
            crowds[i] = (struct crowd){.fixture = fixture, .number = i};
            assert_int_equal(pthread_create(&threads[i], NULL, write_together, &crowds[i]), 0);
        }
        for (uint32_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        char values[SHARED][64] = {{0}};
        for (uint32_t i = 0; i < SHARED; i++) {
            char key[8];
            struct tarn_record_info info = {.value_bytes = 0};
            (void)snprintf(key, sizeof(key), "k%u", i);
            int error = tarn_depot_get(depot_of(fixture), key, 2, values[i], sizeof(values[i]), &info);
            assert_true(error == 0 || error == -ENOENT);
            if (i % 2 != 0)
                assert_string_equal(values[i], values[i - 1]);
        }
        uint64_t records = stats_of(fixture).records;
        restart(fixture, times % 2 == 0);
        assert_int_equal(stats_of(fixture).records, records);
    }
    for (uint32_t i = 0; i < (uint32_t)base_max(SHARED, THREADS); i++) {
        remove_number(fixture, "k", i);
        remove_number(fixture, "own", i);
    }
    assert_int_equal(stats_of(fixture).live_bytes, 0);
}

/* Moved by the collector they are no batches any more, and shorter: that is counted. */
static void moved_ones_are_counted(void **state)
{
    enum { COUNT = 40, BYTES = 420 };
    struct testing_fixture *fixture = *state;
    for (uint32_t round = 0; round < 300; round++) {
        if (round % 100 == 0)
            assert_int_equal(write_members(fixture, COUNT, (char)('a' + round / 100), BYTES), 0);
        testing_put_keys(&fixture->store, 0, 40, "some value that is overwritten all the time");
        fill(round, 9000);
        assert_int_equal(put_long(fixture, "turn0", round, 9000), 0);
        if (round % (TESTING_SLOW ? 40 : 5) == 0) { /* perhaps between a copy and the end of the original */
            struct testing_drive copy = testing_drive_copy(&fixture->drive);
            expect_sound(&copy);
            testing_drive_free(&copy);
        }
    }
    assert_true(stats_of(fixture).moved_bytes > COUNT * BYTES);
    assert_int_equal(members_letter(fixture, COUNT, BYTES), 'c');
    for (uint32_t i = 0; i < COUNT; i++) {
        remove_number(fixture, "member", i);
        remove_number(fixture, "", i);
    }
    remove_number(fixture, "turn", 0);
    assert_int_equal(stats_of(fixture).live_bytes, 0);
}

/* In a cache each goes for itself; what was hit is stored again, and counted as it is then. */
static void caches_evict_them_one_by_one(void **state)
{
    enum { COUNT = 40, BYTES = 440 };
    struct testing_fixture *fixture = *state;
    const struct tarn_depot_options options = {.cache = true};
    depot_testing_close(&fixture->store);
    assert_int_equal(testing_try_open(&fixture->store, &fixture->drive, &fixture->clock, &options), 0);
    assert_int_equal(write_members(fixture, COUNT, 'a', BYTES), 0);
    for (uint32_t round = 0; round < 1500; round++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "f%u", round);
        assert_int_equal(put_long(fixture, key, round, 6000), 0);
        for (uint32_t i = 0; i < COUNT / 2 && round % 20 == 0; i++)
            (void)member_letter(fixture, i, BYTES);
    }
    assert_true(stats_of(fixture).reinsertions > 0 && stats_of(fixture).evictions > 0);
    for (uint32_t i = COUNT / 2; i < COUNT; i++)
        assert_int_equal(member_letter(fixture, i, BYTES), 0);
    for (uint32_t i = 0; i < 1500; i++) {
        remove_number(fixture, "member", i);
        remove_number(fixture, "f", i);
    }
    assert_int_equal(stats_of(fixture).live_bytes, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, testing_setup, testing_teardown)
    const struct CMUnitTest tests[] = {
        TEST(they_store_and_remove),           TEST(options_are_theirs),
        TEST(one_alone_is_no_batch),           TEST(pieces_die_with_them),
        TEST(conditions_refuse_all_of_it),     TEST(checks_change_nothing),
        TEST(what_is_no_batch_is_refused),     TEST(they_have_a_limit),
        TEST(full_stores_take_all_or_nothing), TEST(writers_do_not_mix),
        TEST(moved_ones_are_counted),          TEST(caches_evict_them_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
