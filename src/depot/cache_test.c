/*
 * A store as a cache: does every put find room, does what is read stay longer, is what is gone gone for good,
 * and what is found never old?
 */
#include "depot/cache_testing.h"

#define CACHE_KEYS 300

/* Before a test: a cache in device mode is its state. */
static int set_up(void **state)
{
    struct testing_fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->clock.wall_ns = TESTING_BEGIN;
    open_as(&fixture->store, &fixture->drive, &fixture->clock, TARN_MODE_DEVICE, true);
    *state = fixture;
    return 0;
}

#define CACHE_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, testing_teardown)

/* ---- room --------------------------------------------------------------------------------------- */

static void every_put_finds_room(void **state)
{
    (void)state;
    for (int mode = TARN_MODE_POWER; mode <= TARN_MODE_ASYNC; mode++) {
        struct testing_drive drive = {.size = 0};
        struct testing_store store;
        open_as(&store, &drive, NULL, (enum tarn_mode)mode, true);
        uint32_t keys = flood(&store, 0, 10);
        wait_until_quiet(&store);
        struct tarn_depot_stats stats = cache_stats_of(&store);
        assert_int_equal(stats.records + stats.evictions, keys); /* what is not there was evicted */
        assert_int_equal(stats.evictions_unhit, stats.evictions);
        assert_int_equal(stats.reinsertions + stats.reclaimed, 0);
        assert_true(stats.evicted_segments > 100 && stats.evicted_segments <= stats.collections);
        assert_true(stats.horizon > 0);
        assert_in_range(stats.live_bytes, stats.capacity_bytes / 2, stats.capacity_bytes);
        uint32_t found = 0, oldest = keys;
        for (uint32_t key = 0; key < keys; key++) {
            uint32_t value = numbered_get(&store, key);
            assert_true(value == 0 || value == key + 1);
            found += value != 0;
            oldest = value != 0 ? base_min(oldest, key) : oldest;
        }
        assert_int_equal(found, stats.records);
        assert_int_equal(found, keys - oldest); /* first in, first out */
        depot_testing_close(&store);
        expect_proven(&drive, NULL);
        testing_drive_free(&drive);
    }
}

static void a_store_does_not_evict(void **state)
{
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    (void)state;
    open_as(&store, &drive, NULL, TARN_MODE_DEVICE, false);
    uint32_t keys = 0;
    while (numbered_put(&store, keys, keys + 1, 3000) == 0) {
        assert_int_equal(numbered_get(&store, keys), keys + 1);
        keys++;
    }
    for (uint32_t key = 0; key < keys; key++)
        assert_int_equal(numbered_get(&store, key), key + 1);
    struct tarn_depot_stats stats = cache_stats_of(&store);
    assert_int_equal(stats.evictions + stats.reinsertions + stats.evicted_segments + stats.horizon, 0);
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

/* What was overwritten makes room first. */
static void nothing_is_evicted_for_what_is_dead(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(numbered_put(store, i % 20, i + 1, 3000), 0);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(numbered_get(store, i), 4980 + i + 1);
    struct tarn_depot_stats stats = cache_stats_of(store);
    assert_int_equal(stats.evictions, 0);
    assert_true(stats.collections > 50);
}

/* ---- hits --------------------------------------------------------------------------------------- */

enum { HOT_KEYS = 40 };

/* @return how many hot keys are there, with all that belongs to them */
static uint32_t count_hot(struct testing_store *store, const uint64_t versions[HOT_KEYS])
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < HOT_KEYS; i++) {
        struct tarn_record_info info;
        uint32_t value;
        char key[16];
        key_of(i, key);
        if (tarn_depot_get(store->depot, key, strlen(key), &value, sizeof(value), &info) == -ENOENT)
            continue;
        assert_int_equal(value, i + 1);
        assert_int_equal(info.version, versions[i]);
        assert_int_equal(info.client_flags, i);
        assert_int_equal(info.note, i % 4);
        assert_int_equal(info.expiry_ns, TESTING_BEGIN + (i + 1) * 3600 * BASE_NS_PER_SECOND);
        found++;
    }
    return found;
}

static uint32_t count_hot_after_crash(struct testing_drive *drive, struct testing_clock *clock,
                                      const uint64_t versions[HOT_KEYS])
{
    struct testing_drive copy = testing_drive_copy(drive);
    struct testing_store store;
    expect_proven(&copy, clock);
    open_as(&store, &copy, clock, TARN_MODE_DEVICE, true);
    uint32_t found = count_hot(&store, versions);
    depot_testing_close(&store);
    testing_drive_free(&copy);
    return found;
}

static void put_hot(struct testing_store *store, uint32_t i, uint64_t *ret_version)
{
    const struct tarn_put_options options = {
        .expiry_ns = TESTING_BEGIN + (i + 1) * 3600 * BASE_NS_PER_SECOND, .client_flags = i, .note = i % 4};
    uint32_t value = i + 1;
    char key[16];
    key_of(i, key);
    assert_int_equal(
        tarn_depot_put(store->depot, key, strlen(key), &value, sizeof(value), &options, ret_version), 0);
}

/* One goes all the same where a put of another key has its lock whenever the collector tries it, which takes a
 * busy machine. It is stored again. @return how many those are */
static uint32_t put_lost(struct testing_store *store, uint64_t versions[HOT_KEYS])
{
    uint32_t lost = 0;
    for (uint32_t i = 0; i < HOT_KEYS; i++) {
        if (numbered_get(store, i) != 0)
            continue;
        put_hot(store, i, &versions[i]);
        lost++;
    }
    return lost;
}

static void hits_are_stored_again(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    uint64_t versions[HOT_KEYS];
    uint32_t most = 0, lost = 0;
    for (uint32_t i = 0; i < HOT_KEYS; i++)
        put_hot(store, i, &versions[i]);
    assert_int_equal(numbered_put(store, 5000, 1, 3000), 0); /* as old, and never read */
    for (uint32_t key = 10000; key < 16000; key++) {
        assert_int_equal(numbered_put(store, key, key, 3000), 0);
        if (key % 10 == 0 && count_hot(store, versions) < HOT_KEYS)
            lost += put_lost(store, versions);
        if (key % 250 == 249) /* for some moments the horizon may be above some of them */
            most = base_max(most, count_hot_after_crash(&fixture->drive, &fixture->clock, versions));
    }
    assert_int_equal(most, HOT_KEYS);
    assert_in_range(lost, 0, 4);
    assert_int_equal(numbered_get(store, 5000), 0);
    struct tarn_depot_stats stats = cache_stats_of(store);
    assert_true(stats.reinsertions > 3 * HOT_KEYS); /* also what is kept in an open segment grows old */
}

/* A share of a segment is for them, so that there is room also where everything was hit. */
static void all_may_be_hit(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    for (uint32_t key = 0; key < 5000; key++) {
        assert_int_equal(numbered_put(store, key, key + 1, 3000), 0);
        assert_int_equal(numbered_get(store, key), key + 1);
    }
    struct tarn_depot_stats stats = cache_stats_of(store);
    assert_int_equal(stats.records + stats.evictions, 5000);
    assert_true(stats.reinsertions > stats.evicted_segments);
    assert_true(stats.evictions > stats.evictions_unhit);
    assert_true(stats.evictions_unhit > 0); /* stored again, and not read since */
}

/* ---- changes in a full cache ---------------------------------------------------------------------- */

static void what_is_gone_stays_gone(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        struct testing_drive drive = {.size = 0};
        struct testing_store store;
        open_as(&store, &drive, NULL, TARN_MODE_POWER, true);
        uint32_t last = flood(&store, 0, 3);
        bool found[200];
        for (uint32_t i = 0; i < 100; i++) { /* the youngest: deleted, or overwritten */
            uint32_t key = last - 1 - i;
            assert_int_equal(numbered_get(&store, key), key + 1);
            assert_int_equal(i % 2 == 0 ? numbered_delete(&store, key) : numbered_put(&store, key, 7, 100),
                             0);
        }
        assert_int_equal(numbered_delete(&store, 0), -ENOENT); /* evicted */
        for (uint32_t i = 0; i < 200; i++)
            found[i] = numbered_get(&store, last - 200 + i) != 0;
        drive = depot_testing_end(&store, &drive, killed);
        expect_proven(&drive, NULL);
        open_as(&store, &drive, NULL, TARN_MODE_POWER, true);
        for (uint32_t i = 0; i < 200; i++) {
            uint32_t key = last - 200 + i, value = numbered_get(&store, key);
            assert_true(value == 0 || (found[i] && value == (i < 100 ? key + 1 : 7)));
            assert_true(i < 100 || value != 0 || i % 2 != last % 2 || !found[i]);
        }
        for (uint32_t key = 0; key < 100; key++)
            assert_int_equal(numbered_get(&store, key), 0);
        depot_testing_close(&store);
        testing_drive_free(&drive);
    }
}

static void expired_records_die_with_their_segments(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    uint8_t value[3000] = {1};
    for (uint32_t key = 0; key < 200; key++) {
        const struct tarn_put_options options = {.expiry_ns = TESTING_BEGIN + BASE_NS_PER_SECOND};
        assert_int_equal(
            tarn_depot_put(store->depot, &key, sizeof(key), value, sizeof(value), &options, NULL), 0);
        assert_int_equal(tarn_depot_get(store->depot, &key, sizeof(key), value, sizeof(value), NULL), 0);
    }
    uint32_t kept = 7;
    assert_int_equal(tarn_depot_touch(store->depot, &kept, sizeof(kept), 0), 0);
    assert_int_equal(tarn_depot_get(store->depot, &kept, sizeof(kept), value, sizeof(value), NULL), 0);
    atomic_store(&fixture->clock.wall_ns, TESTING_BEGIN + 2 * BASE_NS_PER_SECOND);
    (void)flood(store, 0, 1);
    struct tarn_depot_stats stats = cache_stats_of(store);
    assert_int_equal(stats.reclaimed, 199);
    assert_int_equal(stats.reinsertions, 1);
    assert_int_equal(tarn_depot_get(store->depot, &kept, sizeof(kept), value, sizeof(value), NULL), 0);
}

static void flushing_empties_a_cache(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    uint32_t last = flood(store, 0, 2);
    assert_int_equal(numbered_get(store, last - 1), last);
    assert_int_equal(tarn_depot_flush_all(store->depot, 0), 0);
    assert_int_equal(cache_stats_of(store).records, 0);
    uint64_t evictions = cache_stats_of(store).evictions;
    for (uint32_t key = last; key < last + 250; key++)
        assert_int_equal(numbered_put(store, key, key + 1, 3000), 0);
    for (uint32_t key = 0; key < last + 250; key++)
        assert_int_equal(numbered_get(store, key), key < last ? 0 : key + 1);
    assert_int_equal(cache_stats_of(store).evictions, evictions); /* there was room */
}

/* ---- as a store, and back ------------------------------------------------------------------------- */

static void a_cache_may_be_opened_as_a_store(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        struct testing_drive drive = {.size = 0};
        struct testing_store store;
        open_as(&store, &drive, NULL, TARN_MODE_POWER, true);
        uint32_t last = flood(&store, 0, 3);
        uint64_t horizon = cache_stats_of(&store).horizon;
        drive = depot_testing_end(&store, &drive, killed);
        open_as(&store, &drive, NULL, TARN_MODE_POWER, false);
        struct tarn_depot_stats stats = cache_stats_of(&store);
        assert_true(stats.horizon >= horizon);
        assert_true(stats.records > 100);
        bool found[2000];
        for (uint32_t key = 0; key < last; key++) {
            uint32_t value = numbered_get(&store, key);
            assert_true(value == 0 || value == key + 1);
            found[key] = value != 0;
        }
        int error = 0; /* it may be full, and then says so, and loses nothing */
        for (uint32_t key = last; key < last + 2000 && error == 0; key++)
            error = numbered_put(&store, key, key + 1, 3000);
        assert_int_equal(error, -ENOSPC);
        for (uint32_t key = 0; key < last; key++)
            assert_int_equal(numbered_get(&store, key), found[key] ? key + 1 : 0);
        depot_testing_close(&store);
        expect_proven(&drive, NULL);
        open_as(&store, &drive, NULL, TARN_MODE_POWER, true); /* and now it evicts again */
        (void)flood(&store, last + 2000, 1);
        assert_true(cache_stats_of(&store).evictions > 0);
        depot_testing_close(&store);
        testing_drive_free(&drive);
    }
}

/* ---- never old ------------------------------------------------------------------------------------ */

struct model {
    struct testing_drive drive;
    struct testing_store store;
    struct base_random random;
    bool cache;
    uint32_t values[CACHE_KEYS]; /* what is found is this, or nothing; 0: nothing */
    uint32_t next;
};

static uint64_t draw(struct model *model, uint64_t n)
{
    return base_random_below(&model->random, n);
}

static void look(struct model *model, uint32_t key, bool may_miss)
{
    uint32_t value = numbered_get(&model->store, key);
    if (value == 0 && may_miss)
        model->values[key] = 0; /* for good */
    assert_int_equal(value, model->values[key]);
}

static void do_one(struct model *model)
{
    uint32_t key = (uint32_t)draw(model, CACHE_KEYS);
    uint64_t choice = draw(model, 10);
    int error = 0;
    if (choice < 5) {
        error = numbered_put(&model->store, key, model->next, 4 + draw(model, 8000));
        if (error == 0)
            model->values[key] = model->next++;
    } else if (choice == 5) {
        error = numbered_delete(&model->store, key);
        assert_true(error != 0 || model->values[key] != 0);
        assert_true(error != -ENOENT || model->values[key] == 0 || model->cache);
        if (error != -ENOSPC)
            model->values[key] = 0;
        error = error == -ENOENT ? 0 : error;
    } else {
        look(model, key, model->cache);
    }
    assert_true(error == 0 || (error == -ENOSPC && !model->cache));
}

static void what_is_found_is_never_old(void **state)
{
    static struct model model;
    (void)state;
    base_random_init(&model.random, 5);
    model.next = 1;
    model.cache = true;
    open_as(&model.store, &model.drive, NULL, TARN_MODE_POWER, true);
    for (int restart = 0; restart < (TESTING_SLOW ? 8 : 30); restart++) {
        for (uint64_t ops = draw(&model, 2000); ops > 0; ops--)
            do_one(&model);
        bool was_cache = model.cache;
        model.cache = draw(&model, 4) != 0;
        model.drive = depot_testing_end(&model.store, &model.drive, draw(&model, 2) == 0);
        expect_proven(&model.drive, NULL);
        enum tarn_mode mode = draw(&model, 2) == 0 ? TARN_MODE_POWER : TARN_MODE_DEVICE;
        open_as(&model.store, &model.drive, NULL, mode, model.cache);
        for (uint32_t key = 0; key < CACHE_KEYS; key++)
            look(&model, key, was_cache || model.cache);
    }
    depot_testing_close(&model.store);
    testing_drive_free(&model.drive);
}

/* ---- the index's places ---------------------------------------------------------------------------- */

static void open_capped(struct testing_store *store, struct testing_drive *drive, uint64_t memory_bytes)
{
    const struct task_node_options node_options = {.drives = &testing_provider,
                                                   .drives_arg = drive,
                                                   .memory_bytes = memory_bytes,
                                                   .log_sink = testing_sink};
    const struct tarn_depot_options options = {
        .mode = TARN_MODE_ASYNC, .cache = true, .hot_bytes = TARN_HOT_OFF};
    assert_int_equal(task_node_open(&node_options, &store->node), 0);
    assert_int_equal(tarn_depot_open(store->node, "store", &options, &store->depot), 0);
}

static void a_full_index_makes_room_too(void **state)
{
    const struct tarn_depot_options options = {.create_bytes = 3 * TESTING_STORE_BYTES,
                                               .mode = TARN_MODE_ASYNC,
                                               .cache = true,
                                               .hot_bytes = TARN_HOT_OFF};
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    (void)state;
    assert_int_equal(testing_try_open(&store, &drive, NULL, &options), 0);
    uint64_t peak_bytes = atomic_load(&store.node->memory.peak_bytes) + (4 << 10); /* a checkpoint's list */
    depot_testing_close(&store);
    open_capped(&store, &drive, peak_bytes);
    struct base_account *account = &store.node->memory; /* so that the index cannot grow: */
    uint64_t taken_bytes = peak_bytes - atomic_load(&account->used_bytes);
    assert_int_equal(base_account_take(account, taken_bytes), 0);
    uint64_t entries = cache_stats_of(&store).index_entries;
    for (uint32_t key = 0; key < 3 * entries; key++)
        assert_int_equal(numbered_put(&store, key, key + 1, 4), 0);
    struct tarn_depot_stats stats = cache_stats_of(&store);
    assert_int_equal(stats.index_entries, entries);
    assert_int_equal(stats.records + stats.evictions, 3 * entries);
    assert_true(stats.segments_free > stats.segments / 2); /* it was not for room on the drive */
    assert_int_equal(numbered_get(&store, (uint32_t)(3 * entries) - 1), 3 * entries);
    base_account_give(account, taken_bytes);
    drive = depot_testing_end(&store, &drive, true);
    expect_proven(&drive, NULL);
    testing_drive_free(&drive);
}

/* A cache that has become too large for the memory that it is opened with loses its oldest records, for good.
 */
static void what_does_not_fit_into_memory_goes(void **state)
{
    const struct tarn_depot_options options = {.create_bytes = 3 * TESTING_STORE_BYTES,
                                               .mode = TARN_MODE_ASYNC,
                                               .cache = true,
                                               .hot_bytes = TARN_HOT_OFF};
    enum { KEYS_IN_ALL = 20000 };
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        struct testing_drive drive = {.size = 0};
        struct testing_store store;
        assert_int_equal(testing_try_open(&store, &drive, NULL, &options), 0);
        uint64_t used_bytes = atomic_load(&store.node->memory.used_bytes);
        for (uint32_t key = 0; key < KEYS_IN_ALL; key++)
            assert_int_equal(numbered_put(&store, key, key + 1, 4), 0);
        assert_int_equal(cache_stats_of(&store).records, KEYS_IN_ALL);
        drive = depot_testing_end(&store, &drive, killed);
        open_capped(&store, &drive, used_bytes + (175 << 10)); /* the index may double once */
        struct tarn_depot_stats stats = cache_stats_of(&store);
        assert_in_range(stats.records, 1000, KEYS_IN_ALL * 3 / 4);
        assert_true(stats.horizon > 0);
        uint32_t first = 0;
        while (numbered_get(&store, first) == 0)
            first++;
        assert_int_equal(numbered_delete(&store, 0), -ENOENT);
        depot_testing_close(&store);
        expect_proven(&drive, NULL);
        assert_int_equal(testing_try_open(&store, &drive, NULL, &options), 0);
        for (uint32_t key = 0; key < first; key++)
            assert_int_equal(numbered_get(&store, key), 0);
        depot_testing_close(&store);
        testing_drive_free(&drive);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_put_finds_room),
        cmocka_unit_test(a_store_does_not_evict),
        CACHE_TEST(nothing_is_evicted_for_what_is_dead),
        CACHE_TEST(hits_are_stored_again),
        CACHE_TEST(all_may_be_hit),
        cmocka_unit_test(what_is_gone_stays_gone),
        CACHE_TEST(expired_records_die_with_their_segments),
        CACHE_TEST(flushing_empties_a_cache),
        cmocka_unit_test(a_cache_may_be_opened_as_a_store),
        cmocka_unit_test(what_is_found_is_never_old),
        cmocka_unit_test(a_full_index_makes_room_too),
        cmocka_unit_test(what_does_not_fit_into_memory_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
