/* Does the store do what <tarn/depot.h> says: values, conditions, time, order? */
#include "depot/testing.h"

#define SECOND BASE_NS_PER_SECOND
#define BEGIN  TESTING_BEGIN
#define TICK   SEGLOG_EXPIRY_UNIT_NS

static struct tarn_record_info info_of(struct testing_fixture *fixture, const char *key)
{
    char value[64];
    struct tarn_record_info info;
    assert_int_equal(tarn_depot_get(fixture->store.depot, key, strlen(key), value, sizeof(value), &info), 0);
    return info;
}

/* ---- values ------------------------------------------------------------------------------------- */

static void values_come_back(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    depot_testing_expect(store, "a", NULL);
    assert_int_equal(depot_testing_put(store, "a", "one"), 0);
    assert_int_equal(depot_testing_put(store, "b", ""), 0);
    depot_testing_expect(store, "a", "one");
    depot_testing_expect(store, "b", "");
    assert_int_equal(depot_testing_put(store, "a", "another"), 0);
    assert_int_equal(testing_delete(store, "b"), 0);
    assert_int_equal(testing_delete(store, "b"), -ENOENT);
    for (int round = 0; round < 3; round++) {
        depot_testing_expect(store, "a", "another");
        depot_testing_expect(store, "b", NULL);
        testing_reopen(fixture);
    }
}

static void info_comes_back(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_depot *depot = fixture->store.depot;
    const struct tarn_put_options options = {.client_flags = 0xdeadbeef, .expiry_ns = BEGIN + SECOND};
    uint64_t version = 0;
    assert_int_equal(tarn_depot_put(depot, "k", 1, "value", 5, &options, &version), 0);
    struct tarn_record_info info = {0};
    char value[5];
    assert_int_equal(tarn_depot_get(depot, "k", 1, value, 4, &info), -ENOBUFS);
    assert_int_equal(info.value_bytes, 5);
    assert_int_equal(info.client_flags, 0xdeadbeef);
    assert_int_equal(tarn_depot_get(depot, "k", 1, value, 5, &info), 0);
    assert_true(version != 0);
    assert_int_equal(info.version, version);
    assert_int_equal(info.expiry_ns, BEGIN + SECOND);
    assert_int_equal(tarn_depot_get(depot, "k", 1, value, 5, NULL), 0);
    struct tarn_record_info untouched = info;
    assert_int_equal(tarn_depot_get(depot, "none", 4, value, 5, &untouched), -ENOENT);
    assert_memory_equal(&untouched, &info, sizeof(info));
}

static void sizes_have_limits(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_depot *depot = fixture->store.depot;
    uint64_t value_max = tarn_depot_whole_bytes_max(depot), longest = tarn_depot_value_bytes_max(depot);
    char *key = malloc(TARN_KEY_BYTES_MAX + 1), *value = malloc(value_max + 1), *found = malloc(value_max);
    assert_true(key != NULL && value != NULL && found != NULL);
    memset(key, 'k', TARN_KEY_BYTES_MAX + 1);
    for (uint64_t i = 0; i <= value_max; i++)
        value[i] = (char)(i * 31);
    assert_int_equal(tarn_depot_put(depot, key, 0, value, 1, NULL, NULL), -EINVAL);
    assert_int_equal(tarn_depot_put(depot, key, TARN_KEY_BYTES_MAX + 1, value, 1, NULL, NULL), -EINVAL);
    assert_int_equal(tarn_depot_put(depot, key, 1, value, longest + 1, NULL, NULL), -EMSGSIZE);
    assert_int_equal(tarn_depot_get(depot, key, 0, found, 1, NULL), -EINVAL);
    assert_int_equal(tarn_depot_delete(depot, key, 0), -EINVAL);
    assert_int_equal(tarn_depot_touch(depot, key, TARN_KEY_BYTES_MAX + 1, 0), -EINVAL);
    assert_int_equal(tarn_depot_put(depot, key, TARN_KEY_BYTES_MAX, value, value_max, NULL, NULL), 0);
    assert_int_equal(tarn_depot_put(depot, key, TARN_KEY_BYTES_MAX - 1, value, 1, NULL, NULL), 0);
    for (int round = 0; round < 2; round++) {
        memset(found, 0, value_max);
        assert_int_equal(tarn_depot_get(depot, key, TARN_KEY_BYTES_MAX, found, value_max, NULL), 0);
        assert_memory_equal(found, value, value_max);
        assert_int_equal(tarn_depot_get(depot, key, TARN_KEY_BYTES_MAX - 1, found, 1, NULL), 0);
        testing_reopen(fixture);
        depot = fixture->store.depot;
    }
    free(key);
    free(value);
    free(found);
}

static void any_length_and_alignment(void **state)
{
    struct testing_fixture *fixture = *state;
    char key[40], value[600], found[600];
    for (size_t len = 0; len < sizeof(value); len += 7) {
        memset(value, (int)len, len);
        int key_len = snprintf(key, sizeof(key), "%0*zu", (int)(len % 30) + 1, len);
        assert_int_equal(tarn_depot_put(fixture->store.depot, key, (size_t)key_len, value, len, NULL, NULL),
                         0);
    }
    testing_reopen(fixture);
    for (size_t len = 0; len < sizeof(value); len += 7) {
        struct tarn_record_info info;
        memset(value, (int)len, len);
        int key_len = snprintf(key, sizeof(key), "%0*zu", (int)(len % 30) + 1, len);
        assert_int_equal(
            tarn_depot_get(fixture->store.depot, key, (size_t)key_len, found, sizeof(found), &info), 0);
        assert_int_equal(info.value_bytes, len);
        assert_memory_equal(found, value, len);
    }
}

/* ---- conditions and versions -------------------------------------------------------------------- */

static int put_if(struct testing_fixture *fixture, const char *value, enum tarn_put_condition condition,
                  uint64_t version)
{
    const struct tarn_put_options options = {.condition = condition, .if_version = version};
    return tarn_depot_put(fixture->store.depot, "k", 1, value, strlen(value), &options, NULL);
}

static void conditions_decide(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    assert_int_equal(put_if(fixture, "x", TARN_PUT_IF_PRESENT, 0), -ENOENT);
    assert_int_equal(put_if(fixture, "x", TARN_PUT_IF_VERSION, 1), -ENOENT);
    assert_int_equal(put_if(fixture, "first", TARN_PUT_IF_ABSENT, 0), 0);
    assert_int_equal(put_if(fixture, "x", TARN_PUT_IF_ABSENT, 0), -EEXIST);
    uint64_t version = info_of(fixture, "k").version;
    assert_int_equal(put_if(fixture, "x", TARN_PUT_IF_VERSION, version + 1), -EEXIST);
    assert_int_equal(put_if(fixture, "x", (enum tarn_put_condition)99, 0), -EINVAL);
    depot_testing_expect(store, "k", "first");
    assert_int_equal(put_if(fixture, "second", TARN_PUT_IF_VERSION, version), 0);
    assert_int_equal(put_if(fixture, "x", TARN_PUT_IF_VERSION, version), -EEXIST);
    assert_int_equal(put_if(fixture, "third", TARN_PUT_IF_PRESENT, 0), 0);
    testing_reopen(fixture); /* and nothing that was rejected is in the log */
    depot_testing_expect(store, "k", "third");
    assert_int_equal(testing_delete(store, "k"), 0);
    assert_int_equal(put_if(fixture, "x", TARN_PUT_IF_PRESENT, 0), -ENOENT);
    depot_testing_expect(store, "k", NULL);
}

static void versions_never_repeat(void **state)
{
    struct testing_fixture *fixture = *state;
    uint64_t seen[40];
    for (size_t i = 0; i < base_array_count(seen); i++) {
        assert_int_equal(depot_testing_put(&fixture->store, "k", "v"), 0);
        seen[i] = info_of(fixture, "k").version;
        assert_int_not_equal(seen[i], 0);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(seen[i], seen[j]);
        fixture->clock.wall_ns -= SECOND; /* whatever the clock does, restarts and removals included */
        if (i % 5 == 4)
            testing_reopen(fixture);
        if (i % 7 == 6)
            assert_int_equal(testing_delete(&fixture->store, "k"), 0);
    }
}

/* ---- time --------------------------------------------------------------------------------------- */

static void records_expire(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    const struct tarn_put_options options = {.expiry_ns = BEGIN + 10 * SECOND};
    assert_int_equal(tarn_depot_put(store->depot, "k", 1, "v", 1, &options, NULL), 0);
    fixture->clock.wall_ns = BEGIN + 10 * SECOND - 1;
    depot_testing_expect(store, "k", "v");
    testing_reopen(fixture);
    depot_testing_expect(store, "k", "v");
    fixture->clock.wall_ns = BEGIN + 10 * SECOND;
    depot_testing_expect(store, "k", NULL);
    assert_int_equal(testing_delete(store, "k"), -ENOENT);
    assert_int_equal(tarn_depot_touch(store->depot, "k", 1, 0), -ENOENT);
    assert_int_equal(put_if(fixture, "x", TARN_PUT_IF_PRESENT, 0), -ENOENT);
    testing_reopen(fixture);
    depot_testing_expect(store, "k", NULL);
    assert_int_equal(put_if(fixture, "new", TARN_PUT_IF_ABSENT, 0), 0);
    depot_testing_expect(store, "k", "new");
}

static void expiries_are_rounded_up(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_depot *depot = fixture->store.depot;
    const struct {
        uint64_t given, kept;
    } expiries[] = {{0, 0},
                    {BEGIN + SECOND, BEGIN + SECOND},
                    {BEGIN + SECOND + 1, BEGIN + SECOND + TICK},
                    {BEGIN + SECOND + TICK - 1, BEGIN + SECOND + TICK},
                    {BEGIN + SECOND + TICK, BEGIN + SECOND + TICK},
                    {UINT64_MAX, SEGLOG_EXPIRY_MAX * TICK}};
    for (size_t i = 0; i < base_array_count(expiries); i++) {
        const struct tarn_put_options options = {.expiry_ns = expiries[i].given};
        assert_int_equal(tarn_depot_put(depot, "put", 3, "v", 1, &options, NULL), 0);
        assert_int_equal(info_of(fixture, "put").expiry_ns, expiries[i].kept);
        assert_int_equal(depot_testing_put(&fixture->store, "touched", "v"), 0);
        assert_int_equal(tarn_depot_touch(depot, "touched", 7, expiries[i].given), 0);
        assert_int_equal(info_of(fixture, "touched").expiry_ns, expiries[i].kept);
    }
    const struct tarn_put_options options = {.expiry_ns = BEGIN + SECOND + 1};
    assert_int_equal(tarn_depot_put(depot, "k", 1, "v", 1, &options, NULL), 0);
    fixture->clock.wall_ns = BEGIN + SECOND + TICK - 1;
    depot_testing_expect(&fixture->store, "k", "v");
    fixture->clock.wall_ns = BEGIN + SECOND + TICK;
    depot_testing_expect(&fixture->store, "k", NULL);
}

/* What was seen to have expired stays so, though the clock goes back and the process has died. */
static void a_clock_set_back_revives_nothing(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    const struct tarn_put_options options = {.expiry_ns = BEGIN + 10 * SECOND};
    assert_int_equal(tarn_depot_put(store->depot, "k", 1, "v", 1, &options, NULL), 0);
    fixture->clock.wall_ns = BEGIN + 11 * SECOND;
    depot_testing_expect(store, "k", NULL);
    assert_int_equal(depot_testing_put(store, "other", "v"), 0);
    struct testing_drive killed = testing_drive_copy(&fixture->drive);
    fixture->clock.wall_ns = BEGIN;
    for (int round = 0; round < 2; round++) {
        depot_testing_expect(store, "k", NULL);
        depot_testing_expect(store, "other", "v");
        testing_reopen(fixture);
    }
    depot_testing_close(store);
    testing_drive_free(&fixture->drive);
    fixture->drive = killed;
    depot_testing_open(store, &fixture->drive, &fixture->clock, TARN_MODE_POWER);
    depot_testing_expect(store, "k", NULL);
    depot_testing_expect(store, "other", "v");
}

static void touch_moves_the_expiry_only(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    assert_int_equal(tarn_depot_touch(store->depot, "k", 1, 0), -ENOENT);
    const struct tarn_put_options options = {.expiry_ns = BEGIN + SECOND, .client_flags = 7};
    assert_int_equal(tarn_depot_put(store->depot, "k", 1, "v", 1, &options, NULL), 0);
    struct tarn_record_info before = info_of(fixture, "k");
    assert_int_equal(tarn_depot_touch(store->depot, "k", 1, BEGIN + 5 * SECOND), 0);
    fixture->clock.wall_ns = BEGIN + 4 * SECOND;
    for (int round = 0; round < 2; round++) {
        struct tarn_record_info after = info_of(fixture, "k");
        assert_int_equal(after.version, before.version);
        assert_int_equal(after.client_flags, 7);
        assert_int_equal(after.expiry_ns, BEGIN + 5 * SECOND);
        testing_reopen(fixture);
    }
    assert_int_equal(tarn_depot_touch(store->depot, "k", 1, 1), 0);
    depot_testing_expect(store, "k", NULL);
}

static void flush_all_now(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    struct tarn_depot_stats stats;
    assert_int_equal(depot_testing_put(store, "old", "v"), 0);
    assert_int_equal(tarn_depot_flush_all(store->depot, BEGIN - SECOND), 0); /* the past is now */
    depot_testing_expect(store, "old", NULL);
    tarn_depot_stats(store->depot, &stats);
    assert_int_equal(stats.records, 0);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(put_if(fixture, "new", TARN_PUT_IF_ABSENT, 0), 0); /* at the same moment */
    for (int round = 0; round < 2; round++) {
        depot_testing_expect(store, "old", NULL);
        depot_testing_expect(store, "k", "new");
        testing_reopen(fixture);
    }
}

static void flush_all_later(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    assert_int_equal(depot_testing_put(store, "a", "before the order"), 0);
    assert_int_equal(tarn_depot_flush_all(store->depot, BEGIN + 10 * SECOND), 0);
    fixture->clock.wall_ns = BEGIN + 9 * SECOND;
    assert_int_equal(depot_testing_put(store, "b", "before the moment"), 0);
    testing_reopen(fixture);
    depot_testing_expect(store, "a", "before the order");
    depot_testing_expect(store, "b", "before the moment");
    fixture->clock.wall_ns = BEGIN + 10 * SECOND;
    depot_testing_expect(store, "a", NULL);
    depot_testing_expect(store, "b", NULL);
    assert_int_equal(testing_delete(store, "b"), -ENOENT);
    assert_int_equal(depot_testing_put(store, "c", "after"), 0);
    for (int round = 0; round < 2; round++) {
        depot_testing_expect(store, "a", NULL);
        depot_testing_expect(store, "b", NULL);
        depot_testing_expect(store, "c", "after");
        testing_reopen(fixture);
    }
}

static void orders_to_flush_replace_each_other(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    assert_int_equal(depot_testing_put(store, "a", "v"), 0);
    assert_int_equal(tarn_depot_flush_all(store->depot, BEGIN + 5 * SECOND), 0);
    assert_int_equal(tarn_depot_flush_all(store->depot, BEGIN + 20 * SECOND), 0); /* instead */
    fixture->clock.wall_ns = BEGIN + 10 * SECOND;
    depot_testing_expect(store, "a", "v");
    fixture->clock.wall_ns = BEGIN + 21 * SECOND;
    assert_int_equal(depot_testing_put(store, "b", "v"), 0);
    /* the one that has come stays in force */
    assert_int_equal(tarn_depot_flush_all(store->depot, BEGIN + 30 * SECOND), 0);
    for (int round = 0; round < 2; round++) {
        depot_testing_expect(store, "a", NULL);
        depot_testing_expect(store, "b", "v");
        testing_reopen(fixture);
    }
    assert_int_equal(tarn_depot_flush_all(store->depot, 0), 0);
    depot_testing_expect(store, "b", NULL);
    assert_int_equal(depot_testing_put(store, "c", "v"), 0);
    fixture->clock.wall_ns = BEGIN + 40 * SECOND; /* the order for 30 was replaced */
    depot_testing_expect(store, "c", "v");
}

/* ---- what it tells ------------------------------------------------------------------------------ */

static void stats_count(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    struct tarn_depot_stats before, stats;
    tarn_depot_stats(store->depot, &before);
    assert_true(before.drive_bytes <= TESTING_STORE_BYTES); /* the rest is less than a segment */
    assert_true(before.drive_bytes + before.segment_bytes > TESTING_STORE_BYTES);
    assert_int_equal(before.records, 0);
    assert_int_equal(before.live_bytes, 0);
    assert_int_equal(before.tombstone_bytes, 0);
    assert_int_equal(before.segment_bytes, SEGLOG_SEGMENT_BYTES_MIN);
    assert_true(before.segments >= SEGLOG_SEGMENTS_MIN && before.segments_free > 0);
    assert_true(before.capacity_bytes > TESTING_STORE_BYTES / 4);
    assert_true(before.capacity_bytes < TESTING_STORE_BYTES);
    assert_int_equal(depot_testing_put(store, "a", "1234"), 0);
    assert_int_equal(depot_testing_put(store, "a", "12"), 0);
    assert_int_equal(depot_testing_put(store, "b", ""), 0);
    assert_int_equal(testing_delete(store, "b"), 0);
    assert_int_equal(tarn_depot_touch(store->depot, "a", 1, 0), 0);
    assert_int_equal(put_if(fixture, "x", TARN_PUT_IF_PRESENT, 0), -ENOENT);
    depot_testing_expect(store, "a", "12");
    depot_testing_expect(store, "b", NULL);
    tarn_depot_stats(store->depot, &stats);
    assert_int_equal(stats.records, 1);
    assert_true(stats.live_bytes >= 43 && stats.live_bytes < 256);
    assert_true(stats.tombstone_bytes >= 49 && stats.tombstone_bytes < 256);
    assert_int_equal(stats.puts, 3);
    assert_int_equal(stats.deletes, 1);
    assert_int_equal(stats.touches, 1);
    assert_int_equal(stats.gets, 2);
    assert_int_equal(stats.get_hits, 1);
    assert_true(stats.reads > 0);
    assert_true(stats.writes - before.writes >= 5);
    assert_true(stats.flushes - before.flushes <= 6);
    assert_true(stats.written_bytes - before.written_bytes >= UINT64_C(5) * TESTING_BLOCK_BYTES);
    assert_int_equal(stats.user_bytes, 5 * 64); /* three puts, a deletion and a touch, a grain each */
    assert_int_equal(stats.moved_bytes, 0);
    assert_true(stats.index_bytes > 0 && stats.index_entries >= 8192);
    uint64_t live_bytes = stats.live_bytes;
    testing_reopen(fixture);
    tarn_depot_stats(store->depot, &stats);
    assert_int_equal(stats.records, 1);
    assert_int_equal(stats.live_bytes, live_bytes);
}

static void stages_are_written(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    struct base_json json;
    char text[8192];
    depot_measure(store->depot, 1);
    assert_int_equal(depot_testing_put(store, "a", "v"), 0);
    base_json_init_buffer(&json, text, sizeof(text));
    assert_int_equal(depot_write_stages(store->depot, &json, NULL), 0);
    assert_int_equal(base_json_finish(&json, NULL), 0);
    assert_non_null(strstr(text, "{\"queue\":{\"count\":0,"));
    assert_non_null(strstr(text, "\"append\":{\"count\":1,"));
    assert_non_null(strstr(text, "\"put\":{\"count\":1,"));
}

/* ---- kinds of opening --------------------------------------------------------------------------- */

static void expect_read_only(struct testing_fixture *fixture)
{
    struct testing_store *store = &fixture->store;
    const struct tarn_depot_options options = {.read_only = true, .create_bytes = TESTING_STORE_BYTES};
    struct testing_drive copy = testing_drive_copy(&fixture->drive);
    assert_int_equal(testing_try_open(store, &fixture->drive, &fixture->clock, &options), 0);
    depot_testing_expect(store, "a", "v");
    assert_int_equal(depot_testing_put(store, "a", "x"), -EROFS);
    assert_int_equal(depot_testing_put(store, "new", "x"), -EROFS);
    assert_int_equal(testing_delete(store, "a"), -EROFS);
    assert_int_equal(tarn_depot_touch(store->depot, "a", 1, 0), -EROFS);
    assert_int_equal(tarn_depot_flush_all(store->depot, 0), -EROFS);
    depot_testing_expect(store, "a", "v");
    depot_testing_expect(store, "new", NULL);
    depot_testing_close(store);
    assert_memory_equal(copy.bytes, fixture->drive.bytes, copy.size);
    testing_drive_free(&copy);
}

static void read_only_changes_nothing(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    const struct tarn_put_options expired = {.expiry_ns = BEGIN + SECOND};
    assert_int_equal(depot_testing_put(store, "a", "v"), 0);
    assert_int_equal(tarn_depot_put(store->depot, "old", 3, "v", 1, &expired, NULL), 0);
    struct testing_drive killed = testing_drive_copy(&fixture->drive);
    depot_testing_close(store);
    expect_read_only(fixture);
    testing_drive_free(&fixture->drive);
    fixture->drive = killed; /* nor after an unclean end */
    fixture->clock.wall_ns = BEGIN + 2 * SECOND;
    expect_read_only(fixture);
    depot_testing_open(store, &fixture->drive, &fixture->clock, TARN_MODE_POWER);
    depot_testing_expect(store, "a", "v");
    depot_testing_expect(store, "old", NULL);
}

/* In all modes a clean end keeps everything, and the next opening may choose another mode. */
static void modes_may_change(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    const enum tarn_mode modes[] = {TARN_MODE_ASYNC, TARN_MODE_DEVICE, TARN_MODE_POWER, TARN_MODE_ASYNC};
    char key[8];
    for (size_t i = 0; i < base_array_count(modes); i++) {
        depot_testing_close(store);
        depot_testing_open(store, &fixture->drive, &fixture->clock, modes[i]);
        (void)snprintf(key, sizeof(key), "%zu", i);
        assert_int_equal(depot_testing_put(store, key, "v"), 0);
        assert_int_equal(depot_testing_put(store, "all", key), 0);
        for (size_t j = 0; j <= i; j++) {
            (void)snprintf(key, sizeof(key), "%zu", j);
            depot_testing_expect(store, key, "v");
        }
        depot_testing_expect(store, "all", key);
    }
    assert_int_equal(testing_delete(store, "0"), 0);
    testing_reopen(fixture);
    depot_testing_expect(store, "0", NULL);
    depot_testing_expect(store, "all", "3");
}

/* What is only in memory yet is found, and after a second it is on the drive. */
static void async_is_late_but_not_for_long(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_store *store = &fixture->store;
    depot_testing_close(store);
    depot_testing_open(store, &fixture->drive, NULL, TARN_MODE_ASYNC);
    assert_int_equal(depot_testing_put(store, "a", "v"), 0);
    assert_int_equal(depot_testing_put(store, "b", "v"), 0);
    assert_int_equal(testing_delete(store, "b"), 0);
    depot_testing_expect(store, "a", "v");
    depot_testing_expect(store, "b", NULL);
    uint64_t flushes = atomic_load(&fixture->drive.flushes) + atomic_load(&fixture->drive.durable_writes);
    const struct timespec second = {.tv_sec = 1, .tv_nsec = 100000000};
    assert_int_equal(nanosleep(&second, NULL), 0);
    struct testing_drive killed = testing_drive_copy(&fixture->drive);
    assert_true(atomic_load(&fixture->drive.flushes) + atomic_load(&fixture->drive.durable_writes) > flushes);
    depot_testing_close(store);
    testing_drive_free(&fixture->drive);
    fixture->drive = killed;
    depot_testing_open(store, &fixture->drive, NULL, TARN_MODE_POWER);
    depot_testing_expect(store, "a", "v");
    depot_testing_expect(store, "b", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_come_back, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(info_comes_back, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(sizes_have_limits, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(any_length_and_alignment, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(conditions_decide, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(versions_never_repeat, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(records_expire, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(expiries_are_rounded_up, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(a_clock_set_back_revives_nothing, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(touch_moves_the_expiry_only, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(flush_all_now, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(flush_all_later, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(orders_to_flush_replace_each_other, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(stats_count, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(stages_are_written, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(read_only_changes_nothing, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(modes_may_change, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(async_is_late_but_not_for_long, testing_setup, testing_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
