/* Does a store give memory back, and keep all that it has, whatever comes in between? */
#include "depot/testing.h"

enum {
    KEYS = 4000,
    KEPT = 400,
    MORE = 5600, /* with those that are kept 73 % of a table */
    REGION_BYTES = 65536,
};

static struct tarn_depot_stats stats_of(struct testing_fixture *fixture)
{
    struct tarn_depot_stats stats;
    tarn_depot_stats(fixture->store.depot, &stats);
    return stats;
}

static void grow_to(struct testing_fixture *fixture, uint64_t entries)
{
    while (stats_of(fixture).index_entries < entries)
        assert_int_equal(depot_grow_index(fixture->store.depot, entries), 0);
}

static void thin_out(struct testing_fixture *fixture)
{
    for (int i = KEPT; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%d", i);
        assert_int_equal(testing_delete(&fixture->store, key), 0);
    }
}

/* Many keys, of which few remain, in an index that has room for more. */
static void fill_and_thin(struct testing_fixture *fixture, uint64_t entries)
{
    grow_to(fixture, entries);
    testing_put_keys(&fixture->store, 0, KEYS, "value");
    thin_out(fixture);
}

static void expect_thinned(struct testing_fixture *fixture)
{
    testing_expect_keys(&fixture->store, 0, KEPT, "value");
    testing_expect_keys(&fixture->store, KEPT, KEYS, NULL);
}

static void memory_comes_back(void **state)
{
    struct testing_fixture *fixture = *state;
    const struct base_account *account = &fixture->store.node->memory;
    uint64_t bytes = 77;
    fill_and_thin(fixture, 32768);
    for (int times = 0; times < 3; times++) {
        uint64_t used = base_account_used(account), before = stats_of(fixture).index_bytes;
        assert_int_equal(tarn_depot_shrink_index(fixture->store.depot, &bytes), 0);
        assert_true(bytes >= 3 * REGION_BYTES - 4 * BASE_PAGE_BYTES);
        assert_int_equal(stats_of(fixture).index_bytes, before - bytes);
        assert_int_equal(base_account_used(account), used - bytes);
        assert_int_equal(stats_of(fixture).index_entries, 8192);
        assert_int_equal(tarn_depot_shrink_index(fixture->store.depot, &bytes), 0);
        assert_int_equal(bytes, 0);
        expect_thinned(fixture);
        grow_to(fixture, 32768);
        expect_thinned(fixture);
        assert_int_equal(base_account_used(account), used);
    }
    assert_int_equal(tarn_depot_shrink_index(fixture->store.depot, &bytes), 0);
    testing_put_keys(&fixture->store, KEPT, 2 * KEYS, "value"); /* it grows again when it has to */
    testing_expect_keys(&fixture->store, 0, 2 * KEYS, "value");
    testing_reopen(fixture);
    testing_expect_keys(&fixture->store, 0, 2 * KEYS, "value");
}

/* ---- what comes in between ---------------------------------------------------------------------- */

struct between {
    struct testing_fixture *fixture;
    uint32_t calls;
    uint32_t stop_at;
    int (*act)(struct testing_fixture *fixture, uint32_t call);
};

static bool act_between(void *arg)
{
    struct between *between = arg;
    if (between->act != NULL)
        assert_int_equal(between->act(between->fixture, between->calls), 0);
    return ++between->calls == between->stop_at;
}

static void whoever_stops_it(void **state)
{
    struct testing_fixture *fixture = *state;
    fill_and_thin(fixture, 32768);
    uint64_t bytes, before = stats_of(fixture).index_bytes, all = 0;
    int error = -ECANCELED;
    for (uint32_t stop_at = 1; error != 0; stop_at++) {
        struct between between = {.fixture = fixture, .stop_at = stop_at};
        error = depot_shrink_index(fixture->store.depot, act_between, &between, &bytes);
        assert_true(error == 0 || (error == -ECANCELED && stop_at < 20));
        assert_true(stop_at > 1 || bytes == 0);
        all += bytes;
        assert_int_equal(stats_of(fixture).index_bytes, before - all);
        expect_thinned(fixture);
    }
    assert_int_equal(stats_of(fixture).index_entries, 8192);
}

static int ask_again(struct testing_fixture *fixture, uint32_t call)
{
    uint64_t bytes = 77;
    (void)call;
    assert_int_equal(tarn_depot_shrink_index(fixture->store.depot, &bytes), -EBUSY);
    return (int)bytes;
}

static void one_at_a_time(void **state)
{
    struct testing_fixture *fixture = *state;
    struct between between = {.fixture = fixture, .act = ask_again};
    uint64_t bytes;
    fill_and_thin(fixture, 32768);
    assert_int_equal(depot_shrink_index(fixture->store.depot, act_between, &between, &bytes), 0);
    assert_true(between.calls > 1 && bytes > 0);
    expect_thinned(fixture);
}

static int put_many(struct testing_fixture *fixture, uint32_t call)
{
    if (call == 0)
        testing_put_keys(&fixture->store, KEYS, KEYS + MORE, "more");
    return 0;
}

/* They need the larger index, which is whole. */
static void entries_come(void **state)
{
    struct testing_fixture *fixture = *state;
    struct between between = {.fixture = fixture, .act = put_many};
    uint64_t bytes = 77;
    fill_and_thin(fixture, 16384);
    uint64_t before = stats_of(fixture).index_bytes;
    assert_int_equal(depot_shrink_index(fixture->store.depot, act_between, &between, &bytes), -EAGAIN);
    assert_int_equal(bytes, 0);
    assert_int_equal(stats_of(fixture).index_bytes, before);
    assert_int_equal(stats_of(fixture).index_entries, 16384);
    expect_thinned(fixture);
    testing_expect_keys(&fixture->store, KEYS, KEYS + MORE, "more");
}

static void there_is_no_memory(void **state)
{
    struct testing_fixture *fixture = *state;
    struct base_account *account = &fixture->store.node->memory;
    uint64_t bytes = 77;
    fill_and_thin(fixture, 32768);
    uint64_t before = stats_of(fixture).index_bytes;
    account->cap_bytes = base_account_used(account) + 1000;
    assert_int_equal(tarn_depot_shrink_index(fixture->store.depot, &bytes), -ENOMEM);
    account->cap_bytes = BASE_ACCOUNT_UNLIMITED;
    assert_int_equal(bytes, 0);
    assert_int_equal(stats_of(fixture).index_bytes, before);
    expect_thinned(fixture);
}

/* ---- visitors ----------------------------------------------------------------------------------- */

/* What a scan has seen; in its middle the index shrinks. */
struct visits {
    struct testing_fixture *fixture;
    uint8_t seen[KEYS];
    uint32_t count;
};

static int visit(void *arg, const void *key, size_t key_len, const void *value,
                 const struct tarn_record_info *info)
{
    struct visits *visits = arg;
    char text[16] = {0};
    uint64_t bytes;
    assert_true(key_len < sizeof(text) && info->value_bytes == 5 && memcmp(value, "value", 5) == 0);
    memcpy(text, key, key_len);
    uint64_t number = strtoull(text, NULL, 10);
    assert_true(number < KEYS);
    assert_int_equal(visits->seen[number]++, 0);
    if (visits->count++ == KEPT / 3)
        assert_int_equal(tarn_depot_shrink_index(visits->fixture->store.depot, &bytes), 0);
    return 0;
}

static void scans(void **state)
{
    struct testing_fixture *fixture = *state;
    struct visits *visits = calloc(1, sizeof(*visits));
    assert_non_null(visits);
    visits->fixture = fixture;
    fill_and_thin(fixture, 32768);
    assert_int_equal(tarn_depot_scan(fixture->store.depot, visit, visits), 0);
    assert_int_equal(visits->count, KEPT);
    assert_int_equal(stats_of(fixture).index_entries, 8192);
    free(visits);
}

static void snapshots(void **state)
{
    struct testing_fixture *fixture = *state;
    struct visits *visits = calloc(1, sizeof(*visits));
    struct tarn_depot_snapshot *snapshot;
    char found[16];
    assert_non_null(visits);
    visits->fixture = fixture;
    grow_to(fixture, 32768);
    testing_put_keys(&fixture->store, 0, KEYS, "value");
    assert_int_equal(tarn_depot_snapshot_open(fixture->store.depot, 0, &snapshot), 0);
    thin_out(fixture);
    assert_int_equal(tarn_depot_snapshot_scan(snapshot, visit, visits), 0);
    assert_int_equal(visits->count, KEYS);
    assert_int_equal(stats_of(fixture).index_entries, 8192);
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        struct tarn_record_info info;
        (void)snprintf(key, sizeof(key), "%d", i);
        assert_int_equal(tarn_depot_snapshot_get(snapshot, key, strlen(key), found, sizeof(found), &info), 0);
    }
    tarn_depot_snapshot_close(snapshot);
    expect_thinned(fixture);
    free(visits);
}

/* Not each record in a block of its own: a snapshot would be cancelled for want of space. */
static int setup(void **state)
{
    struct testing_fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    testing_fixture_begin(fixture, TARN_MODE_ASYNC);
    *state = fixture;
    return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, testing_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_comes_back), TEST(whoever_stops_it),   TEST(one_at_a_time),
        TEST(entries_come),      TEST(there_is_no_memory), TEST(scans),
        TEST(snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
