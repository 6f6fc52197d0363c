/* Does a snapshot show the store as it was, whatever is written afterwards; and does it give way in time? */
#include "depot/pieces/testing.h"

#define KEYS      300
#define PIECES    600000 /* bytes of a value in pieces */
#define SECOND    BASE_NS_PER_SECOND
#define STORE     (UINT64_C(8) << 20)
#define FOUND_MAX 8192

struct fixture {
    struct testing_fixture base;
    struct tarn_depot_snapshot *snapshot;
};

static int begin(void **state, const struct tarn_depot_options *options)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->base.clock.wall_ns = TESTING_BEGIN;
    assert_int_equal(
        testing_try_open(&fixture->base.store, &fixture->base.drive, &fixture->base.clock, options), 0);
    *state = fixture;
    return 0;
}

static int setup(void **state)
{
    return begin(state, &(struct tarn_depot_options){.create_bytes = STORE, .mode = TARN_MODE_POWER});
}

static int setup_async(void **state)
{
    return begin(state, &(struct tarn_depot_options){.create_bytes = STORE, .mode = TARN_MODE_ASYNC});
}

static int setup_cache(void **state)
{
    return begin(
        state, &(struct tarn_depot_options){.create_bytes = STORE, .mode = TARN_MODE_DEVICE, .cache = true});
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    if (fixture->snapshot != NULL)
        tarn_depot_snapshot_close(fixture->snapshot);
    testing_fixture_end(&fixture->base);
    free(fixture);
    return 0;
}

static struct testing_store *store_of(struct fixture *fixture)
{
    return &fixture->base.store;
}

static void open_snapshot(struct fixture *fixture)
{
    assert_int_equal(tarn_depot_snapshot_open(store_of(fixture)->depot, 0, &fixture->snapshot), 0);
}

static void close_snapshot(struct fixture *fixture)
{
    tarn_depot_snapshot_close(fixture->snapshot);
    fixture->snapshot = NULL;
}

/* As depot_testing_expect(), of the snapshot. */
static void expect(struct fixture *fixture, const char *key, const char *value)
{
    char bytes[FOUND_MAX];
    struct tarn_record_info info;
    int error = tarn_depot_snapshot_get(fixture->snapshot, key, strlen(key), bytes, sizeof(bytes), &info);
    assert_int_equal(error, value == NULL ? -ENOENT : 0);
    if (value == NULL)
        return;
    assert_int_equal(info.value_bytes, strlen(value));
    assert_memory_equal(bytes, value, info.value_bytes);
}

static void expect_keys(struct fixture *fixture, int first, int last, const char *value)
{
    for (int i = first; i < last; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%d", i);
        expect(fixture, key, value);
    }
}

/* What a scan has visited: numbered keys. */
struct visits {
    struct fixture *fixture;
    uint32_t times[KEYS];
    uint32_t others;
    const char *value;
    int left; /* visits until it is closed, or ended */
};

static int visit(void *arg, const void *key, size_t key_len, const void *value,
                 const struct tarn_record_info *info)
{
    struct visits *visits = arg;
    char text[16] = "";
    memcpy(text, key, base_min(key_len, sizeof(text) - 1));
    unsigned long number = strtoul(text, NULL, 10);
    if (number >= KEYS || value == NULL) {
        visits->others++;
        return 0;
    }
    visits->times[number]++;
    assert_int_equal(info->value_bytes, strlen(visits->value));
    assert_memory_equal(value, visits->value, info->value_bytes);
    return visits->left > 0 && --visits->left == 0 ? -ECHILD : 0;
}

/* All keys of a range, each once, and so many others. */
static void expect_scan(struct fixture *fixture, int first, int last, const char *value, uint32_t others)
{
    struct visits visits = {.fixture = fixture, .value = value};
    assert_int_equal(tarn_depot_snapshot_scan(fixture->snapshot, visit, &visits), 0);
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(visits.times[i], i >= first && i < last ? 1 : 0);
    assert_int_equal(visits.others, others);
}

static int keep_all(void *arg, const struct tarn_record_info *old, const void *value,
                    struct tarn_update *update)
{
    (void)arg;
    assert_non_null(old);
    assert_non_null(value);
    update->value = "updated";
    update->value_len = 7;
    return 0;
}

/* ---- tests -------------------------------------------------------------------------------------- */

static void no_change_is_seen(void **state)
{
    struct fixture *fixture = *state;
    struct tarn_depot *depot = store_of(fixture)->depot;
    testing_put_keys(store_of(fixture), 0, 200, "before");
    open_snapshot(fixture);
    expect_scan(fixture, 0, 200, "before", 0);
    testing_put_keys(store_of(fixture), 0, 40, "after");
    for (int i = 40; i < 80; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%d", i);
        assert_int_equal(testing_delete(store_of(fixture), key), 0);
    }
    assert_int_equal(tarn_depot_touch(depot, "80", 2, TESTING_BEGIN + SECOND), 0);
    assert_int_equal(tarn_depot_update(depot, "81", 2, keep_all, NULL, NULL), 0);
    testing_put_keys(store_of(fixture), 200, KEYS, "new");
    expect_keys(fixture, 0, 200, "before");
    expect_keys(fixture, 200, KEYS, NULL);
    expect_scan(fixture, 0, 200, "before", 0);
    struct tarn_record_info info;
    char byte;
    assert_int_equal(tarn_depot_snapshot_get(fixture->snapshot, "80", 2, &byte, 1, &info), -ENOBUFS);
    assert_int_equal(info.expiry_ns, 0);
    testing_expect_keys(store_of(fixture), 0, 40, "after");
    close_snapshot(fixture);
    open_snapshot(fixture);
    expect_keys(fixture, 0, 40, "after");
    expect_keys(fixture, 40, 80, NULL);
    expect_keys(fixture, 200, KEYS, "new");
}

static void what_is_flushed_stays(void **state)
{
    struct fixture *fixture = *state;
    struct tarn_depot *depot = store_of(fixture)->depot;
    testing_put_keys(store_of(fixture), 0, 20, "flushed");
    assert_int_equal(tarn_depot_flush_all(depot, 0), 0);
    testing_put_keys(store_of(fixture), 20, 60, "value");
    open_snapshot(fixture);
    assert_int_equal(tarn_depot_flush_all(depot, 0), 0);
    testing_put_keys(store_of(fixture), 40, 80, "later");
    expect_scan(fixture, 20, 60, "value", 0);
    expect_keys(fixture, 0, 20, NULL);
    expect_keys(fixture, 20, 60, "value");
    close_snapshot(fixture);
    /* an order whose moment has come is carried out before */
    assert_int_equal(tarn_depot_flush_all(depot, TESTING_BEGIN + SECOND), 0);
    fixture->base.clock.wall_ns += 2 * SECOND;
    open_snapshot(fixture);
    expect_scan(fixture, 0, 0, "none", 0);
}

static void what_expires_later_stays(void **state)
{
    struct fixture *fixture = *state;
    const struct tarn_put_options soon = {.expiry_ns = TESTING_BEGIN + SECOND},
                                  later = {.expiry_ns = TESTING_BEGIN + 10 * SECOND};
    struct tarn_depot *depot = store_of(fixture)->depot;
    assert_int_equal(tarn_depot_put(depot, "1", 1, "value", 5, &soon, NULL), 0);
    assert_int_equal(tarn_depot_put(depot, "2", 1, "value", 5, &later, NULL), 0);
    fixture->base.clock.wall_ns += 2 * SECOND;
    open_snapshot(fixture);
    fixture->base.clock.wall_ns += 20 * SECOND;
    depot_testing_expect(store_of(fixture), "2", NULL);
    expect(fixture, "1", NULL);
    expect(fixture, "2", "value");
    expect_scan(fixture, 2, 3, "value", 0);
}

static void values_in_pieces(void **state)
{
    struct fixture *fixture = *state;
    struct testing_fixture *base = &fixture->base;
    struct tarn_record_info info;
    size_t bytes;
    assert_int_equal(put_long(base, "long", 1, PIECES), 0);
    assert_int_equal(put_long(base, "other", 2, PIECES / 2), 0);
    open_snapshot(fixture);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(put_long(base, "long", 3 + i, PIECES - 1000), 0);
    assert_int_equal(testing_delete(store_of(fixture), "other"), 0);
    memset(found, 0, PIECES);
    assert_int_equal(tarn_depot_snapshot_get(fixture->snapshot, "long", 4, found, ROOM, &info), 0);
    assert_int_equal(info.value_bytes, PIECES);
    fill(1, PIECES);
    assert_memory_equal(found, given, PIECES);
    assert_int_equal(
        tarn_depot_snapshot_read(fixture->snapshot, "other", 5, 1000, found, ROOM, &bytes, &info), 0);
    assert_int_equal(bytes, PIECES / 2 - 1000);
    fill(2, PIECES / 2);
    assert_memory_equal(found, given + 1000, bytes);
    expect_scan(fixture, 0, 0, "none", 2);
    expect_long(base, "long", 5, PIECES - 1000);
}

/* The index doubles more than once, whatever was copied of it before. */
static void the_index_grows(void **state)
{
    struct fixture *fixture = *state;
    struct tarn_depot_stats stats;
    testing_put_keys(store_of(fixture), 0, KEYS, "value");
    open_snapshot(fixture);
    testing_put_keys(store_of(fixture), 1000, 16000, "new");
    tarn_depot_stats(store_of(fixture)->depot, &stats);
    assert_true(stats.index_entries >= 16384);
    expect_keys(fixture, 0, KEYS, "value");
    expect_keys(fixture, 1000, 1100, NULL);
    expect_scan(fixture, 0, KEYS, "value", 0);
}

static void fill_values(char value[4001], int version)
{
    memset(value, 'a' + version % 26, 4000);
    value[4000] = 0;
}

/* Writes a lot, with few records alive: the collector has to find room. */
static void churn(struct fixture *fixture, int rounds)
{
    char value[4001];
    for (int i = 0; i < rounds; i++) {
        fill_values(value, i);
        testing_put_keys(store_of(fixture), 290, KEYS, value);
    }
}

static void segments_are_collected_meanwhile(void **state)
{
    struct fixture *fixture = *state;
    struct tarn_depot_stats stats, before;
    testing_put_keys(store_of(fixture), 0, KEYS, "value");
    open_snapshot(fixture);
    tarn_depot_stats(store_of(fixture)->depot, &before);
    churn(fixture, 1000);
    tarn_depot_stats(store_of(fixture)->depot, &stats);
    assert_true(stats.collections > before.collections + 100);
    expect_keys(fixture, 0, KEYS, "value");
    expect_scan(fixture, 0, KEYS, "value", 0);
}

static void expect_cancelled(struct fixture *fixture)
{
    struct visits visits = {.value = "value"};
    struct tarn_record_info info;
    char byte;
    size_t bytes;
    assert_int_equal(tarn_depot_snapshot_get(fixture->snapshot, "1", 1, &byte, 1, &info), -ECANCELED);
    assert_int_equal(tarn_depot_snapshot_read(fixture->snapshot, "1", 1, 0, &byte, 1, &bytes, NULL),
                     -ECANCELED);
    assert_int_equal(tarn_depot_snapshot_scan(fixture->snapshot, visit, &visits), -ECANCELED);
    /* it is still there to be closed */
    struct tarn_depot_snapshot *other;
    assert_int_equal(tarn_depot_snapshot_open(store_of(fixture)->depot, 0, &other), -EBUSY);
    close_snapshot(fixture);
    open_snapshot(fixture);
    close_snapshot(fixture);
}

/* Everything is written over: no put fails, the snapshot does. */
static void the_space_is_needed(void **state)
{
    struct fixture *fixture = *state;
    char value[4001];
    fill_values(value, 0);
    testing_put_keys(store_of(fixture), 0, 1000, value);
    open_snapshot(fixture);
    for (int round = 1; round < 6; round++) {
        fill_values(value, round);
        testing_put_keys(store_of(fixture), 0, 1000, value);
    }
    testing_expect_keys(store_of(fixture), 0, 1000, value);
    expect_cancelled(fixture);
}

/* A full store says so as if there were no snapshot, and deletes make room again. */
static void a_full_store(void **state)
{
    struct fixture *fixture = *state;
    char value[4001], key[16];
    int number = 0, error;
    fill_values(value, 0);
    testing_put_keys(store_of(fixture), 10000, 11200, value);
    open_snapshot(fixture);
    do {
        (void)snprintf(key, sizeof(key), "%d", number++);
        error = depot_testing_put(store_of(fixture), key, value);
    } while (error == 0);
    assert_int_equal(error, -ENOSPC);
    struct tarn_depot_stats stats;
    tarn_depot_stats(store_of(fixture)->depot, &stats);
    assert_true(stats.live_bytes >= stats.capacity_bytes / 10 * 9);
    for (int i = 0; i < number - 1; i++) {
        (void)snprintf(key, sizeof(key), "%d", i);
        assert_int_equal(testing_delete(store_of(fixture), key), 0);
    }
    testing_put_keys(store_of(fixture), 0, number - 2, value);
}

static void memory_is_needed(void **state)
{
    struct fixture *fixture = *state;
    struct base_account *account = &store_of(fixture)->node->memory;
    testing_put_keys(store_of(fixture), 0, KEYS, "value");
    open_snapshot(fixture);
    account->cap_bytes = base_account_used(account) + DEPOT_REGION_BYTES / 2;
    testing_put_keys(store_of(fixture), 0, KEYS, "later");
    testing_expect_keys(store_of(fixture), 0, KEYS, "later");
    account->cap_bytes = BASE_ACCOUNT_UNLIMITED;
    expect_cancelled(fixture);
}

/* What a snapshot has copied makes room for what the index grows by. */
static void growth_comes_first(void **state)
{
    struct fixture *fixture = *state;
    struct base_account *account = &store_of(fixture)->node->memory;
    testing_put_keys(store_of(fixture), 0, 6000, "value");
    open_snapshot(fixture);
    testing_put_keys(store_of(fixture), 0, 10, "later");
    /* a growth takes as much as there is, and some pages */
    account->cap_bytes = base_account_used(account) + DEPOT_REGION_BYTES / 2;
    testing_put_keys(store_of(fixture), 6000, 9000, "new");
    account->cap_bytes = BASE_ACCOUNT_UNLIMITED;
    struct tarn_depot_stats stats;
    tarn_depot_stats(store_of(fixture)->depot, &stats);
    assert_int_equal(stats.index_entries, 16384);
    expect_cancelled(fixture);
}

static void a_cache_evicts(void **state)
{
    struct fixture *fixture = *state;
    char value[4001], key[16];
    struct tarn_depot_stats stats;
    fill_values(value, 0);
    testing_put_keys(store_of(fixture), 0, KEYS, "value");
    open_snapshot(fixture);
    testing_put_keys(store_of(fixture), 0, 50, "later");
    expect_scan(fixture, 0, KEYS, "value", 0);
    int number = 1000;
    do {
        (void)snprintf(key, sizeof(key), "%d", number++);
        assert_int_equal(depot_testing_put(store_of(fixture), key, value), 0);
        tarn_depot_stats(store_of(fixture)->depot, &stats);
    } while (stats.evictions == 0);
    expect_cancelled(fixture);
}

/* A visitor that has enough; a snapshot that is cancelled in the middle. */
static int write_much(void *arg, const void *key, size_t key_len, const void *value,
                      const struct tarn_record_info *info)
{
    struct visits *visits = arg;
    char text[4001];
    for (int round = 0; visits->others == 0 && round < 8; round++) {
        fill_values(text, round);
        testing_put_keys(store_of(visits->fixture), 1000, 2000, text);
    }
    visits->others = 1;
    (void)key;
    (void)key_len;
    (void)value;
    (void)info;
    return 0;
}

/* With little memory a scan takes a few records at a time, and shows each of them once. */
static void scanned_with_little_memory(void **state)
{
    struct fixture *fixture = *state;
    struct base_account *account = &store_of(fixture)->depot->node->memory;
    uint32_t failed = 0, passed = 0;
    testing_put_keys(store_of(fixture), 0, KEYS, "value");
    open_snapshot(fixture);
    for (uint64_t left = 64 << 10; passed < 10; left += 1 << 10) {
        struct visits visits = {.fixture = fixture, .value = "value"};
        const uint64_t taken = base_account_left(account) - left;
        assert_int_equal(base_account_take(account, taken), 0);
        const int error = tarn_depot_snapshot_scan(fixture->snapshot, visit, &visits);
        base_account_give(account, taken);
        assert_true(error == 0 || (error == -ENOMEM && passed == 0));
        for (int i = 0; i < KEYS && error == 0; i++)
            assert_int_equal(visits.times[i], 1);
        failed += error != 0;
        passed += error == 0;
    }
    assert_true(failed > 0);
}

static void ended_in_the_middle(void **state)
{
    struct fixture *fixture = *state;
    struct visits visits = {.fixture = fixture, .value = "value", .left = 17};
    char value[4001];
    testing_put_keys(store_of(fixture), 0, KEYS, "value");
    open_snapshot(fixture);
    assert_int_equal(tarn_depot_snapshot_scan(fixture->snapshot, visit, &visits), -ECHILD);
    close_snapshot(fixture);
    fill_values(value, 20);
    testing_put_keys(store_of(fixture), 1000, 2000, value);
    open_snapshot(fixture);
    assert_int_equal(tarn_depot_snapshot_scan(fixture->snapshot, write_much, &visits), -ECANCELED);
    assert_int_equal(visits.others, 1);
}

static void opened_to_read(void **state)
{
    struct fixture *fixture = *state;
    testing_put_keys(store_of(fixture), 0, KEYS, "value");
    depot_testing_close(store_of(fixture));
    const struct tarn_depot_options options = {.read_only = true};
    assert_int_equal(
        testing_try_open(store_of(fixture), &fixture->base.drive, &fixture->base.clock, &options), 0);
    open_snapshot(fixture);
    expect_scan(fixture, 0, KEYS, "value", 0);
    assert_int_equal(tarn_depot_snapshot_get(fixture->snapshot, "", 0, found, ROOM, NULL), -EINVAL);
    close_snapshot(fixture);
}

/* Every allocation on the way fails once: nothing is left behind, and the store goes on. */
static void no_memory_to_open(void **state)
{
    struct fixture *fixture = *state;
    testing_put_keys(store_of(fixture), 0, KEYS, "value");
    int error = -ENOMEM;
    for (uint64_t n = 1; error != 0; n++) {
        base_account_fail_at(&store_of(fixture)->node->memory, n);
        error = tarn_depot_snapshot_open(store_of(fixture)->depot, 0, &fixture->snapshot);
        assert_true(error == 0 || error == -ENOMEM);
        assert_true(error == 0 || n < 10);
    }
    base_account_fail_at(&store_of(fixture)->node->memory, 0);
    expect_scan(fixture, 0, KEYS, "value", 0);
    testing_put_keys(store_of(fixture), 0, KEYS, "later");
}

#define TEST(name)       cmocka_unit_test_setup_teardown(name, setup, teardown)
#define ASYNC_TEST(name) cmocka_unit_test_setup_teardown(name, setup_async, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_change_is_seen),
        ASYNC_TEST(no_change_is_seen),
        TEST(what_is_flushed_stays),
        TEST(what_expires_later_stays),
        TEST(values_in_pieces),
        ASYNC_TEST(values_in_pieces),
        TEST(the_index_grows),
        TEST(segments_are_collected_meanwhile),
        TEST(the_space_is_needed),
        TEST(a_full_store),
        TEST(memory_is_needed),
        ASYNC_TEST(growth_comes_first),
        cmocka_unit_test_setup_teardown(a_cache_evicts, setup_cache, teardown),
        TEST(scanned_with_little_memory),
        TEST(ended_in_the_middle),
        TEST(opened_to_read),
        TEST(no_memory_to_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
