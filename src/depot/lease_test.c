/*
 * Leases: does what is on loan stay as it was, whatever becomes of its key; are parts and pieces what
 * tarn_depot_read() reads; do readers keep their buffers however much is on loan; is all given back?
 */
#include "depot/pieces/testing.h"
#include "task/testing.h"
#include <pthread.h>

static uint64_t used(struct testing_fixture *fixture)
{
    return base_account_used(&depot_of(fixture)->leases);
}

static int lease(struct testing_fixture *fixture, const char *key, uint64_t offset,
                 struct tarn_lease *ret_lease)
{
    return tarn_depot_lease(depot_of(fixture), key, strlen(key), 0, offset, ret_lease, NULL);
}

/* ---- what is shown ------------------------------------------------------------------------------ */

static void fill_the_store_again(struct testing_fixture *fixture, uint32_t round)
{
    char key[16];
    for (uint32_t i = 0; i < 400; i++) {
        (void)snprintf(key, sizeof(key), "other %u", i % 40);
        assert_int_equal(put_long(fixture, key, round * 1000 + i, 9000), 0);
    }
}

/* Of a key that is replaced, removed, and whose segments are written again and again. */
static void it_stays_as_it_was(void **state)
{
    struct testing_fixture *fixture = *state;
    static const size_t lengths[] = {1, 5000, 30000, 5 * 90000};
    struct tarn_lease leases[2 * base_array_count(lengths)];
    for (uint32_t i = 0; i < base_array_count(leases); i++) {
        assert_int_equal(put_long(fixture, "k", i + 1, lengths[i / 2]), 0);
        assert_int_equal(lease(fixture, "k", 0, &leases[i]), 0);
    }
    const uint64_t collected = stats_of(fixture).collections;
    fill_the_store_again(fixture, 1);
    assert_int_equal(testing_delete(&fixture->store, "k"), 0);
    fill_the_store_again(fixture, 2);
    assert_true(stats_of(fixture).collections > collected + stats_of(fixture).segments);
    for (uint32_t i = 0; i < base_array_count(leases); i++) {
        assert_true(leases[i].bytes == lengths[i / 2] || lengths[i / 2] > depot_of(fixture)->whole_bytes_max);
        fill(i + 1, lengths[i / 2]);
        assert_memory_equal(leases[i].data, given, leases[i].bytes);
        tarn_depot_lease_end(&leases[i]);
        assert_null(leases[i].data);
        tarn_depot_lease_end(&leases[i]); /* of nothing */
    }
}

/* All of a value, by leases one behind the other. */
static void expect_by_leases(struct testing_fixture *fixture, uint32_t seed, size_t bytes)
{
    struct tarn_record_info info;
    uint64_t at = 0;
    fill(seed, bytes);
    do {
        struct tarn_lease part = {.bytes = 1};
        assert_int_equal(tarn_depot_lease(depot_of(fixture), "k", 1, 0, at, &part, &info), 0);
        assert_int_equal(info.value_bytes, bytes);
        assert_true(part.bytes > 0 || at == bytes);
        assert_true(at + part.bytes <= bytes);
        if (part.bytes > 0)
            assert_memory_equal(part.data, given + at, part.bytes);
        at += part.bytes;
        tarn_depot_lease_end(&part);
    } while (at < bytes);
}

static void all_lengths_are_shown(void **state)
{
    struct testing_fixture *fixture = *state;
    const uint64_t whole = depot_of(fixture)->whole_bytes_max, piece = depot_of(fixture)->piece_bytes;
    const uint64_t lengths[] = {0,         1,         4000,          20000,         whole,
                                whole + 1, 4 * piece, 4 * piece + 1, 9 * piece + 77};
    for (uint32_t i = 0; i < base_array_count(lengths); i++) {
        struct tarn_lease part;
        assert_int_equal(put_long(fixture, "k", i + 1, lengths[i]), 0);
        expect_by_leases(fixture, i + 1, lengths[i]);
        for (uint64_t at = 0; at < lengths[i]; at += 1 + lengths[i] / 7) {
            assert_int_equal(lease(fixture, "k", at, &part), 0);
            assert_true(part.bytes > 0 && (lengths[i] > whole || part.bytes == lengths[i] - at));
            assert_memory_equal(part.data, given + at, part.bytes);
            tarn_depot_lease_end(&part);
        }
        assert_int_equal(lease(fixture, "k", lengths[i] + 5, &part), 0); /* behind the end */
        assert_true(part.bytes == 0 && part.data == NULL);
        tarn_depot_lease_end(&part);
    }
}

static void what_is_not_there_is_not_lent(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_lease part = {.bytes = 4711};
    struct tarn_record_info info;
    assert_int_equal(depot_testing_put(&fixture->store, "k", "value"), 0);
    assert_int_equal(lease(fixture, "none", 0, &part), -ENOENT);
    assert_int_equal(lease(fixture, "", 0, &part), -EINVAL);
    assert_int_equal(tarn_depot_lease(depot_of(fixture), "k", 1, UINT64_MAX, 0, &part, NULL), -ESTALE);
    assert_int_equal(part.bytes, 4711);
    assert_int_equal(tarn_depot_lease(depot_of(fixture), "k", 1, 0, 0, &part, &info), 0);
    struct tarn_lease again;
    assert_int_equal(tarn_depot_lease(depot_of(fixture), "k", 1, info.version, 2, &again, NULL), 0);
    assert_memory_equal(part.data, "value", 5);
    assert_memory_equal(again.data, "lue", 3);
    tarn_depot_lease_end(&part);
    tarn_depot_lease_end(&again);
}

/* What is not written yet. */
static void from_the_memory_of_a_writer(void **state)
{
    struct testing_fixture fixture = {.drive = {.size = 0}};
    struct tarn_lease parts[20];
    (void)state;
    testing_fixture_begin(&fixture, TARN_MODE_ASYNC);
    for (uint32_t i = 0; i < base_array_count(parts); i++) {
        assert_int_equal(put_long(&fixture, "k", i + 1, 3000 + i), 0);
        assert_int_equal(lease(&fixture, "k", 0, &parts[i]), 0);
    }
    for (uint32_t i = 0; i < base_array_count(parts); i++) {
        fill(i + 1, 3000 + i);
        assert_int_equal(parts[i].bytes, 3000 + i);
        assert_memory_equal(parts[i].data, given, 3000 + i);
        tarn_depot_lease_end(&parts[i]);
    }
    testing_fixture_end(&fixture);
}

/* ---- how many ----------------------------------------------------------------------------------- */

/* All readers' buffers at once. */
static void expect_that_all_can_be_read(struct testing_fixture *fixture)
{
    static char keys[64][16];
    static uint8_t values[64][64];
    struct tarn_get gets[64];
    for (uint32_t i = 0; i < base_array_count(gets); i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "%u", i % 8);
        gets[i] = (struct tarn_get){
            .key = keys[i], .key_len = strlen(keys[i]), .value = values[i], .value_room = sizeof(values[i])};
    }
    tarn_depot_get_many(depot_of(fixture), gets, base_array_count(gets));
    for (uint32_t i = 0; i < base_array_count(gets); i++)
        assert_int_equal(gets[i].error, 0);
    expect_long(fixture, "large", 7, 50000);
}

static void readers_keep_their_buffers(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_depot *depot = depot_of(fixture);
    const uint64_t small = depot->buffers[0].buffer_bytes;
    struct tarn_lease leases[100];
    uint32_t most = 0;
    testing_put_keys(&fixture->store, 0, 8, "value");
    assert_int_equal(put_long(fixture, "large", 7, 50000), 0);
    assert_int_equal(used(fixture), 0); /* who lends nothing pays nothing */
    depot->leases.cap_bytes = 40 * small;
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t count = 0;
        while (lease(fixture, "3", 0, &leases[count]) == 0)
            count++;
        assert_int_equal(count, 40);
        assert_int_equal(lease(fixture, "large", 0, &leases[count]), -ENOBUFS);
        expect_that_all_can_be_read(fixture);
        assert_int_equal(used(fixture), 40 * small);
        most = base_max(most, count);
        while (count > 0) {
            assert_memory_equal(leases[--count].data, "value", 5);
            tarn_depot_lease_end(&leases[count]);
        }
        assert_int_equal(used(fixture), 40 * small); /* kept for those who come */
        expect_that_all_can_be_read(fixture);
    }
    assert_int_equal(depot->buffers[0].leased, 0);
}

/* The memory for one more is not there: nothing is lost, and later there is. */
static void no_memory(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_lease part;
    testing_put_keys(&fixture->store, 0, 8, "value");
    assert_int_equal(put_long(fixture, "large", 7, 50000), 0);
    for (uint32_t i = 0; i < 300; i++) { /* more often than there are buffers */
        base_account_fail_at(&depot_of(fixture)->leases, 1);
        assert_int_equal(lease(fixture, i % 2 == 0 ? "3" : "large", 0, &part), -ENOBUFS);
        assert_int_equal(used(fixture), 0);
    }
    assert_int_equal(depot_of(fixture)->buffers[0].leased, 0);
    assert_int_equal(depot_of(fixture)->buffers[0].extra, 0);
    assert_int_equal(lease(fixture, "3", 0, &part), 0);
    tarn_depot_lease_end(&part);
    expect_that_all_can_be_read(fixture);
}

/* A store of large records has buffers between the small and the large ones. */
static void buffers_between(void **state)
{
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    const struct tarn_depot_options options = {.create_bytes = UINT64_C(256) << 20, .mode = TARN_MODE_DEVICE};
    struct testing_fixture fixture;
    struct tarn_lease part;
    (void)state;
    assert_int_equal(testing_try_open(&store, &drive, NULL, &options), 0);
    fixture.store = store;
    assert_int_equal(store.depot->buffer_classes, 3);
    static const size_t lengths[] = {100, 20000, 100000, 140000, 1000000};
    for (uint32_t i = 0; i < base_array_count(lengths); i++) {
        const struct depot_read_class *class = &store.depot->buffers[i == 0 ? 0 : i < 3 ? 1 : 2];
        assert_int_equal(put_long(&fixture, "k", i, lengths[i]), 0);
        assert_int_equal(lease(&fixture, "k", 0, &part), 0);
        assert_ptr_equal(part.pool, class);
        assert_int_equal(part.bytes, lengths[i]);
        assert_memory_equal(part.data, given, part.bytes);
        tarn_depot_lease_end(&part);
    }
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

/* ---- many gets ---------------------------------------------------------------------------------- */

struct keeping {
    struct tarn_lease leases[64];
    uint32_t count;
};

static bool keep_those_of_5000(void *arg, struct tarn_get *get, struct tarn_lease *shown)
{
    struct keeping *keeping = arg;
    assert_int_equal(get->error, 0);
    assert_int_equal(shown->bytes, get->info.value_bytes);
    if (shown->bytes == 5000) {
        assert_true(depot_lease_keep(shown));
        keeping->leases[keeping->count++] = *shown;
    }
    return true;
}

static void gets_are_kept_as_far_as_there_is_room(void **state)
{
    struct testing_fixture *fixture = *state;
    struct keeping keeping = {.count = 0};
    struct tarn_get gets[64];
    assert_int_equal(put_long(fixture, "a", 1, 100), 0);
    assert_int_equal(put_long(fixture, "b", 2, 5000), 0);
    for (uint32_t i = 0; i < base_array_count(gets); i++)
        gets[i] = (struct tarn_get){.key = i % 2 == 0 ? "a" : "b", .key_len = 1};
    struct depot_room room = {.bytes = 1 << 20, .lease_bytes = 20000, .lease_from = 2000};
    assert_int_equal(depot_get_each(depot_of(fixture), gets, 64, &room, keep_those_of_5000, &keeping), 7);
    assert_int_equal(keeping.count, 3);
    room.lease_bytes = 1 << 20;
    room.bytes = 1500; /* records of 100 bytes and what stands beside them, and of 5,000 none of it */
    size_t shown = depot_get_each(depot_of(fixture), gets, 64, &room, keep_those_of_5000, &keeping);
    assert_in_range(shown, 12, 20);
    assert_int_equal(keeping.count, 3 + shown / 2);
    fill(2, 5000);
    for (uint32_t i = 0; i < keeping.count; i++) {
        assert_memory_equal(keeping.leases[i].data, given, 5000);
        tarn_depot_lease_end(&keeping.leases[i]);
    }
}

/* ---- many threads ------------------------------------------------------------------------------- */

#define TASKS  12
#define ROUNDS 300

struct shared {
    struct testing_drive drive;
    struct tarn_depot *depot;
    struct base_spin lock;
    struct tarn_lease handed[8]; /* by one to another, who ends it */
    _Atomic uint32_t refused, done;
};

/* cmocka's asserts jump, which only the test's own thread may do. */
#define REQUIRE(condition) base_assert(condition)

static void check_and_end(struct tarn_lease *part)
{
    const uint8_t *bytes = part->data;
    for (size_t i = 1; i < part->bytes; i++)
        REQUIRE(bytes[i] == bytes[0]);
    tarn_depot_lease_end(part);
}

static void lend_and_write(struct shared *shared, struct base_random *random, uint8_t *value)
{
    char key = (char)('a' + base_random_below(random, 6));
    size_t bytes = 1 + base_random_below(random, 20000);
    struct tarn_lease part = {.data = NULL}, other;
    memset(value, (int)base_random_u64(random), bytes);
    REQUIRE(tarn_depot_put(shared->depot, &key, 1, value, bytes, NULL, NULL) == 0);
    int error = tarn_depot_lease(shared->depot, &key, 1, 0, 0, &part, NULL);
    REQUIRE(error == 0 || error == -ENOBUFS);
    shared->refused += error != 0;
    base_spin_lock(&shared->lock);
    uint64_t at = base_random_below(random, base_array_count(shared->handed));
    other = shared->handed[at];
    shared->handed[at] = part;
    base_spin_unlock(&shared->lock);
    check_and_end(&other);
}

static void lend_to_others(void *arg)
{
    struct shared *shared = arg;
    struct base_random random;
    static _Atomic uint32_t seeds;
    uint8_t *value = malloc(20001);
    REQUIRE(value != NULL);
    base_random_init(&random, ++seeds);
    for (uint32_t i = 0; i < ROUNDS; i++)
        lend_and_write(shared, &random, value);
    free(value);
    shared->done++;
}

static void *lend_in_a_thread(void *arg)
{
    lend_to_others(arg);
    return NULL;
}

static void run_lenders(void *arg)
{
    struct task_testing *testing = arg;
    struct shared *shared = testing->arg;
    const struct tarn_depot_options options = {
        .create_bytes = UINT64_C(8) << 20, .mode = TARN_MODE_DEVICE, .hot_bytes = TARN_HOT_OFF};
    struct task_group group;
    pthread_t thread;
    task_group_init(&group);
    assert_int_equal(tarn_depot_open(testing->node, "store", &options, &shared->depot), 0);
    shared->depot->leases.cap_bytes = 6 * DEPOT_READ_SMALL_BYTES + shared->depot->buffers[1].buffer_bytes;
    for (int i = 0; i < TASKS; i++) {
        struct task_sched *sched = testing->scheds[i % TASK_TESTING_SCHEDS];
        assert_int_equal(task_spawn(sched, &group, "lender", lend_to_others, shared), 0);
    }
    assert_int_equal(pthread_create(&thread, NULL, lend_in_a_thread, shared), 0);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    while (shared->done < TASKS + 1) /* the thread needs the log's service, which is a task here */
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(shared->refused < (TASKS + 1) * ROUNDS);
    for (uint32_t i = 0; i < base_array_count(shared->handed); i++)
        check_and_end(&shared->handed[i]);
    assert_int_equal(tarn_depot_close(shared->depot), 0);
}

static void threads_share_them(void **state)
{
    struct shared shared = {.refused = 0};
    const struct task_node_options options = {
        .drives = &testing_provider, .drives_arg = &shared.drive, .log_level = BASE_LOG_ERROR};
    (void)state;
    base_spin_init(&shared.lock);
    task_testing_run(&options, NULL, run_lenders, &shared);
    testing_drive_free(&shared.drive);
}

#define LEASE_TEST(function) cmocka_unit_test_setup_teardown(function, testing_setup, testing_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LEASE_TEST(it_stays_as_it_was),
        LEASE_TEST(all_lengths_are_shown),
        LEASE_TEST(what_is_not_there_is_not_lent),
        cmocka_unit_test(from_the_memory_of_a_writer),
        LEASE_TEST(readers_keep_their_buffers),
        LEASE_TEST(no_memory),
        cmocka_unit_test(buffers_between),
        LEASE_TEST(gets_are_kept_as_far_as_there_is_room),
        cmocka_unit_test(threads_share_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
