/* Does a cluster of one member, in a depot, do what every back end does; and what has only this one? */
#include "cluster/conformance_testing.h"
#include "depot/testing.h"

struct solo_testing {
    struct cluster_testing testing;
    struct testing_drive drive;
    struct testing_lines lines;
    uint64_t store_bytes; /* of a store that is made before; 0: joining makes it */
};

static void begin_on_memory(struct cluster_testing *testing)
{
    struct solo_testing *solo = base_container_of(testing, struct solo_testing, testing);
    solo->drive = (struct testing_drive){0};
    base_spin_init(&solo->drive.lock);
    if (solo->store_bytes > 0)
        solo->drive = testing_drive_new(solo->store_bytes);
    solo->lines = (struct testing_lines){0};
    base_spin_init(&solo->lines.lock);
    testing->node = testing_node_with_lines(&solo->drive, NULL, &solo->lines);
    testing->url = "solo:store";
    if (solo->store_bytes > 0)
        assert_int_equal(tarn_depot_format(testing->node, "store", NULL), 0);
}

static void end_on_memory(struct cluster_testing *testing)
{
    struct solo_testing *solo = base_container_of(testing, struct solo_testing, testing);
    task_node_close(testing->node);
    testing_drive_free(&solo->drive);
}

static struct solo_testing on_memory(uint64_t store_bytes)
{
    return (struct solo_testing){.testing = {.begin = begin_on_memory, .end = end_on_memory},
                                 .store_bytes = store_bytes};
}

static int set_state(void **state)
{
    static struct solo_testing solo;
    solo = on_memory(0);
    *state = &solo.testing;
    return 0;
}

/* ---- joining ------------------------------------------------------------------------------------ */

static int try_join(struct solo_testing *solo, const char *url, const struct cluster_options *options)
{
    struct cluster *const untouched = (void *)&solo->drive;
    struct cluster *cluster = untouched;
    const int error = cluster_join(solo->testing.node, url, options, &cluster);
    assert_true((error == 0) == (cluster != untouched));
    if (error == 0)
        cluster_leave(cluster);
    return error;
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    struct solo_testing solo = on_memory(0);
    begin_on_memory(&solo.testing);
    char longest[CLUSTER_NAME_MAX + 2];
    memset(longest, 'n', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    static const char *const urls[] = {"",           "solo",       "solo:",      "store",
                                       "file:store", "Solo:store", " solo:store"};
    const char *const names[] = {"", NULL, ".", "..", "a b", "a/b", "\xc3\xa4", longest};
    static const uint8_t data[CLUSTER_MEMBER_DATA_MAX + 1];
    for (size_t i = 0; i < base_array_count(urls); i++) {
        assert_int_equal(try_join(&solo, urls[i], &(struct cluster_options){.name = "one"}), -EINVAL);
        assert_int_equal(solo.lines.errors, i + 1);
    }
    for (size_t i = 0; i < base_array_count(names); i++)
        assert_int_equal(try_join(&solo, "solo:store", &(struct cluster_options){.name = names[i]}), -EINVAL);
    struct cluster_options options = {.name = "one", .data = data, .data_bytes = sizeof(data)};
    assert_int_equal(try_join(&solo, "solo:store", &options), -EINVAL);
    assert_false(solo.drive.exists);
    options.data_bytes--;
    options.name = longest + 1;
    assert_int_equal(try_join(&solo, "solo:store", &options), 0);
    assert_int_equal(solo.drive.size, 64 << 20);
    assert_int_equal(solo.lines.warns, 0);
    end_on_memory(&solo.testing);
}

/* Any record of another is enough, and nothing is written to such a store. */
static void stores_of_others_are_refused(void **state)
{
    (void)state;
    struct solo_testing solo = on_memory(2 << 20);
    struct tarn_node *node;
    struct tarn_depot *depot;
    static const struct {
        const char *key;
        uint64_t version;
        uint8_t value[25];
        size_t bytes;
    } records[] = {
        {"greeting", 0, "hello", 5},
        {"epoch", 0, "five", 4},
        {"epoch", 6, "TarnClus\1\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0", 24},
        {"epoch", 6, "TarnClus\2\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 24},
        {"epoch", 6, "TarnClus\1\0\0\0\1\0\0\0\5\0\0\0\0\0\0\0", 24},
        {"epoch", 6, "TarnClub\1\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 24},
        {"epoch", 6, "TarnClus\1\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 25},
        {"epoch", 6, "TarnClus\1\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 23},
        {"epoch", 6, "TarnClus\1\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 24}, /* this is right */
    };
    for (size_t i = 0; i < base_array_count(records); i++) {
        begin_on_memory(&solo.testing);
        node = solo.testing.node;
        const bool good = i + 1 == base_array_count(records);
        const struct tarn_put_options options = {.version = records[i].version};
        assert_int_equal(tarn_depot_open(node, "store", NULL, &depot), 0);
        assert_int_equal(tarn_depot_put(depot, records[i].key, strlen(records[i].key), records[i].value,
                                        records[i].bytes, &options, NULL),
                         0);
        assert_int_equal(tarn_depot_close(depot), 0);
        assert_int_equal(try_join(&solo, "solo:store", &(struct cluster_options){.name = "one"}),
                         good ? 0 : -EUCLEAN);
        assert_int_equal(solo.lines.errors, !good);
        if (good) {
            cluster_testing_join(&solo.testing);
            assert_int_equal(cluster_testing_lead(&solo.testing), 6);
            cluster_leave(solo.testing.cluster);
        }
        assert_int_equal(tarn_depot_open(node, "store", NULL, &depot), 0);
        struct tarn_depot_stats stats;
        tarn_depot_stats(depot, &stats);
        assert_int_equal(stats.records, 1);
        assert_int_equal(tarn_depot_close(depot), 0);
        end_on_memory(&solo.testing);
    }
}

/* In a task, on a file, which is made. */
static void join_on_file(void *arg)
{
    struct task_testing *task = arg;
    struct cluster_testing testing = {.node = task->node, .url = task->arg};
    for (uint32_t round = 0; round < 2; round++) {
        cluster_testing_join(&testing);
        assert_int_equal(cluster_testing_lead(&testing), round + 1);
        cluster_testing_expect(&testing, "/a", round == 0 ? NULL : "stays", 0);
        if (round == 0)
            assert_int_equal(cluster_testing_put(&testing, 1, "/a", "stays", CLUSTER_ABSENT), 0);
        cluster_leave(testing.cluster);
    }
}

static void a_file_is_made(void **state)
{
    (void)state;
    char folder[] = "cluster-test-XXXXXX";
    char url[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(url, sizeof(url), "solo:%s/metadata", folder);
    task_testing_run(NULL, NULL, join_on_file, url);
    assert_int_equal(unlink(url + strlen("solo:")), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- full --------------------------------------------------------------------------------------- */

static void a_full_store_stays_usable(void **state)
{
    (void)state;
    struct solo_testing solo = on_memory(2 << 20);
    struct cluster_testing *testing = &solo.testing;
    static uint8_t data[4000];
    uint32_t stored = 0;
    char path[16];
    assert_int_equal(cluster_testing_setup((void *[]){testing}), 0);
    uint64_t epoch = cluster_testing_lead(testing);
    for (int error = 0; error == 0; stored += error == 0) {
        (void)snprintf(path, sizeof(path), "/full/%" PRIu32, stored);
        error = cluster_put(testing->cluster, epoch, path, data, sizeof(data), CLUSTER_ABSENT);
        assert_true(error == 0 || error == -ENOSPC);
    }
    while (cluster_testing_put(testing, epoch, path, "some", CLUSTER_ABSENT) == 0)
        (void)snprintf(path, sizeof(path), "/fill/%" PRIu32, stored++);
    cluster_testing_expect(testing, path, NULL, 0);
    assert_int_equal(cluster_put(testing->cluster, epoch, "/full/0", data, sizeof(data), 0), 0);
    for (uint32_t round = 0; round < 3000; round++) { /* the log goes round */
        if (round % 100 == 0)
            epoch = cluster_testing_lead(testing);
        assert_int_equal(cluster_put(testing->cluster, epoch, "/full/0", data, sizeof(data), round + 1), 0);
        assert_int_equal(cluster_testing_put(testing, epoch, path, "some", CLUSTER_ABSENT), -ENOSPC);
    }
    const struct cluster_change changes[] = {{.path = "/full/1", .if_version = 0},
                                             {.path = "/full/2", .if_version = 0}};
    assert_int_equal(cluster_multi(testing->cluster, epoch, changes, 2), 0);
    assert_int_equal(cluster_testing_put(testing, epoch, path, "room", CLUSTER_ABSENT), 0);
    cluster_testing_expect(testing, path, "room", 0);
    assert_int_equal(cluster_testing_teardown((void *[]){testing}), 0);
}

/* ---- memory ------------------------------------------------------------------------------------- */

static int count_visit(void *arg, const char *path, const void *data, uint32_t bytes, int64_t version)
{
    (void)path, (void)data, (void)bytes, (void)version;
    ++*(uint32_t *)arg;
    return 0;
}

/* @return -ENOMEM, after which nothing has changed; or 0 */
static int do_all(struct solo_testing *solo, uint32_t *ret_step)
{
    struct cluster_testing *testing = &solo->testing;
    const struct cluster_options options = {.name = "one"};
    const struct cluster_change changes[] = {
        {.path = "/a", .data = "1", .bytes = 1, .if_version = CLUSTER_ANY},
        {.path = "/b", .data = "2", .bytes = 1, .if_version = CLUSTER_ABSENT}};
    uint64_t epoch = 0;
    uint32_t count = 0, bytes;
    char byte;
    int error = cluster_join(testing->node, testing->url, &options, &testing->cluster);
    if (error != 0)
        return error;
    *ret_step = 1;
    error = cluster_lead(testing->cluster, TASK_FOREVER, &epoch);
    *ret_step += error == 0;
    if (error == 0)
        error = cluster_multi(testing->cluster, epoch, changes, 2);
    *ret_step += error == 0;
    if (error == 0)
        error = cluster_get(testing->cluster, "/a", &byte, 1, &bytes, NULL);
    if (error == 0)
        error = cluster_scan(testing->cluster, "/x", count_visit, &count);
    cluster_leave(testing->cluster);
    return error;
}

static void failing_allocations_leak_nothing(void **state)
{
    (void)state;
    uint32_t steps_seen = 0;
    bool failed = true; /* the n-th allocation: there were so many */
    for (uint64_t n = 1; failed; n++) {
        struct solo_testing solo = on_memory(2 << 20);
        uint32_t step = 0;
        begin_on_memory(&solo.testing);
        const uint64_t before = base_account_used(&solo.testing.node->memory);
        base_account_fail_at(&solo.testing.node->memory, n);
        const int error = do_all(&solo, &step);
        failed = atomic_load(&solo.testing.node->memory.fail_at) == 0;
        base_account_fail_at(&solo.testing.node->memory, 0);
        assert_true(error == 0 || error == -ENOMEM);
        assert_int_equal(base_account_used(&solo.testing.node->memory), before);
        steps_seen |= UINT32_C(1) << step;
        cluster_testing_join(&solo.testing);
        cluster_testing_expect(&solo.testing, "/a", step < 3 ? NULL : "1", 0);
        cluster_testing_expect(&solo.testing, "/b", step < 3 ? NULL : "2", 0);
        cluster_leave(solo.testing.cluster);
        end_on_memory(&solo.testing);
    }
    assert_int_equal(steps_seen & 5, 5); /* joining and multi were among what failed */
}

int main(void)
{
    static const struct CMUnitTest own[] = {
        cmocka_unit_test(bad_arguments_are_refused), cmocka_unit_test(stores_of_others_are_refused),
        cmocka_unit_test(a_file_is_made), cmocka_unit_test(a_full_store_stays_usable),
        cmocka_unit_test(failing_allocations_leak_nothing)};
    const struct testing_suite suites[] = {cluster_conformance, cluster_contention, TESTING_SUITE(own), {0}};
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return testing_run_suites("solo", suites, NULL, set_state, NULL);
}
