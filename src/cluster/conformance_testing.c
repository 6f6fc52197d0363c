/* Does a back end do what cluster.h says, for one caller? */
#include "cluster/conformance_testing.h"

static struct cluster_change change_to(const char *path, const char *text, int64_t if_version)
{
    return (struct cluster_change){.path = path,
                                   .data = text,
                                   .bytes = text == NULL ? 0 : (uint32_t)strlen(text),
                                   .if_version = if_version};
}

/* ---- versions and conditions -------------------------------------------------------------------- */

static void versions_count_changes(void **state)
{
    struct cluster_testing *testing = *state;
    cluster_testing_expect(testing, "/a/b", NULL, 0);
    assert_int_equal(cluster_testing_put(testing, 0, "/a/b", "first", CLUSTER_ABSENT), 0);
    cluster_testing_expect(testing, "/a/b", "first", 0);
    assert_int_equal(cluster_testing_put(testing, 0, "/a/b", "second", 0), 0);
    cluster_testing_expect(testing, "/a/b", "second", 1);
    assert_int_equal(cluster_testing_put(testing, 0, "/a/b", "third", CLUSTER_ANY), 0);
    cluster_testing_expect(testing, "/a/b", "third", 2);
    assert_int_equal(cluster_testing_put(testing, 0, "/a/b", "", 2), 0);
    cluster_testing_expect(testing, "/a/b", "", 3);
    assert_int_equal(cluster_testing_put(testing, 0, "/a/b", "fifth", CLUSTER_ANY), 0);
    cluster_testing_expect(testing, "/a/b", "fifth", 4);
    assert_int_equal(cluster_delete(testing->cluster, 0, "/a/b", 4), 0);
    cluster_testing_expect(testing, "/a/b", NULL, 0);
    assert_int_equal(cluster_testing_put(testing, 0, "/a/b", "again", CLUSTER_ANY), 0);
    cluster_testing_expect(testing, "/a/b", "again", 0);
    assert_int_equal(cluster_put(testing->cluster, 0, "/a/b", NULL, 0, CLUSTER_ANY), 0);
    cluster_testing_expect(testing, "/a/b", "", 1);
    assert_int_equal(cluster_delete(testing->cluster, 0, "/a/b", CLUSTER_ANY), 0);
    cluster_testing_expect(testing, "/a/b", NULL, 0);
}

static void what_does_not_hold_is_refused(void **state)
{
    struct cluster_testing *testing = *state;
    assert_int_equal(cluster_testing_put(testing, 0, "/a", "no", 0), -EAGAIN);
    assert_int_equal(cluster_testing_put(testing, 0, "/a", "no", 1), -EAGAIN);
    assert_int_equal(cluster_delete(testing->cluster, 0, "/a", 0), -EAGAIN);
    assert_int_equal(cluster_delete(testing->cluster, 0, "/a", CLUSTER_ANY), 0);
    cluster_testing_expect(testing, "/a", NULL, 0);
    assert_int_equal(cluster_testing_put(testing, 0, "/a", "yes", CLUSTER_ABSENT), 0);
    static const int64_t wrong[] = {CLUSTER_ABSENT, 1, 2, INT64_MAX};
    for (size_t i = 0; i < base_array_count(wrong); i++)
        assert_int_equal(cluster_testing_put(testing, 0, "/a", "no", wrong[i]), -EAGAIN);
    assert_int_equal(cluster_delete(testing->cluster, 0, "/a", 1), -EAGAIN);
    cluster_testing_expect(testing, "/a", "yes", 0);
}

/* Whichever change of several is refused, none is made. */
static void all_are_made_or_none(void **state)
{
    struct cluster_testing *testing = *state;
    const uint64_t epoch = cluster_testing_lead(testing);
    assert_int_equal(cluster_testing_put(testing, epoch, "/old", "old", CLUSTER_ABSENT), 0);
    assert_int_equal(cluster_testing_put(testing, epoch, "/gone", "gone", CLUSTER_ABSENT), 0);
    for (uint32_t wrong = 0; wrong < 5; wrong++) {
        struct cluster_change changes[] = {change_to("/new", "new", CLUSTER_ABSENT),
                                           change_to("/old", "changed", 0), change_to("/gone", NULL, 0),
                                           change_to("/any", "any", CLUSTER_ANY),
                                           change_to("/none", NULL, CLUSTER_ANY)};
        static const int64_t never[] = {5, CLUSTER_ABSENT, 1, 0, 0};
        changes[wrong].if_version = never[wrong];
        assert_int_equal(cluster_multi(testing->cluster, wrong % 2 == 0 ? epoch : 0, changes, 5), -EAGAIN);
        cluster_testing_expect(testing, "/new", NULL, 0);
        cluster_testing_expect(testing, "/old", "old", 0);
        cluster_testing_expect(testing, "/gone", "gone", 0);
        cluster_testing_expect(testing, "/any", NULL, 0);
    }
    const struct cluster_change changes[] = {change_to("/new", "new", CLUSTER_ABSENT),
                                             change_to("/old", "changed", 0), change_to("/gone", NULL, 0),
                                             change_to("/any", "any", CLUSTER_ANY),
                                             change_to("/none", NULL, CLUSTER_ANY)};
    assert_int_equal(cluster_multi(testing->cluster, epoch, changes, 5), 0);
    cluster_testing_expect(testing, "/new", "new", 0);
    cluster_testing_expect(testing, "/old", "changed", 1);
    cluster_testing_expect(testing, "/gone", NULL, 0);
    cluster_testing_expect(testing, "/any", "any", 0);
    assert_int_equal(cluster_multi(testing->cluster, 0, NULL, 0), 0);
}

/* ---- limits ------------------------------------------------------------------------------------- */

static void paths_are_checked(void **state)
{
    struct cluster_testing *testing = *state;
    char longest[CLUSTER_PATH_MAX + 2] = "/";
    memset(longest + 1, 'x', CLUSTER_PATH_MAX);
    static const char *const bad[] = {"",     "a",     "/",      "//",    "/a/",   "/a//b",
                                      "//a",  "/.",    "/..",    "/a/.",  "/./a",  "/../",
                                      "/a\n", "/\x7f", "/\x80z", "/a/..", "epoch", "/a\t"};
    static const char *const good[] = {"/a", "/d/b/c", "/.a", "/a..", "/...", "/a b~", "/epoch"};
    char byte;
    uint32_t bytes;
    for (size_t i = 0; i <= base_array_count(bad); i++) {
        const char *path = i == base_array_count(bad) ? longest : bad[i];
        assert_int_equal(cluster_testing_put(testing, 0, path, "x", CLUSTER_ANY), -EINVAL);
        assert_int_equal(cluster_delete(testing->cluster, 0, path, CLUSTER_ANY), -EINVAL);
        assert_int_equal(cluster_get(testing->cluster, path, &byte, 1, &bytes, NULL), -EINVAL);
        assert_int_equal(cluster_scan(testing->cluster, path, NULL, NULL), -EINVAL);
    }
    longest[CLUSTER_PATH_MAX] = '\0';
    for (size_t i = 0; i <= base_array_count(good); i++) {
        const char *path = i == base_array_count(good) ? longest : good[i];
        assert_int_equal(cluster_testing_put(testing, 0, path, "x", CLUSTER_ABSENT), 0);
        cluster_testing_expect(testing, path, "x", 0);
    }
}

static void changes_are_checked(void **state)
{
    struct cluster_testing *testing = *state;
    const struct cluster_change twice[] = {change_to("/a", "1", CLUSTER_ANY),
                                           change_to("/b", "2", CLUSTER_ANY),
                                           change_to("/a", NULL, CLUSTER_ANY)};
    assert_int_equal(cluster_multi(testing->cluster, 0, twice, 3), -EINVAL);
    assert_int_equal(cluster_testing_put(testing, 0, "/a", "x", -3), -EINVAL);
    assert_int_equal(cluster_testing_put(testing, 0, "/a", "x", INT64_MIN), -EINVAL);
    assert_int_equal(cluster_delete(testing->cluster, 0, "/a", CLUSTER_ABSENT), -EINVAL);
    assert_int_equal(cluster_put(testing->cluster, 0, "/a", NULL, 1, CLUSTER_ANY), -EINVAL);
    cluster_testing_expect(testing, "/a", NULL, 0);
    cluster_testing_expect(testing, "/b", NULL, 0);
}

static char many_paths[CLUSTER_MULTI_MAX + 1][CLUSTER_PATH_MAX + 1];
static struct cluster_change many[CLUSTER_MULTI_MAX + 1];
static uint8_t data[CLUSTER_DATA_MAX + 1], found[CLUSTER_DATA_MAX];

/* Changes with all bytes that a multi may have: in the longest paths, then `each` for each node, and the rest in the last. */
static void fill_multi(uint32_t count, uint32_t each)
{
    uint64_t left = CLUSTER_MULTI_BYTES_MAX;
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(many_paths[i], sizeof(many_paths[i]), "/many/%057" PRIu32, i);
        many[i] = (struct cluster_change){.path = many_paths[i], .data = data, .if_version = CLUSTER_ABSENT};
        left -= CLUSTER_CHANGE_BYTES + strlen(many_paths[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        many[i].bytes = i + 1 < count ? each : (uint32_t)left;
        left -= many[i].bytes;
    }
}

static int count_node(void *arg, const char *path, const void *value, uint32_t bytes, int64_t version)
{
    uint64_t *sums = arg;
    assert_int_equal(strncmp(path, "/many/", 6), 0);
    assert_int_equal(version, 0);
    assert_true(bytes <= CLUSTER_DATA_MAX && memcmp(value, data, bytes) == 0);
    sums[0]++;
    sums[1] += CLUSTER_CHANGE_BYTES + strlen(path) + bytes;
    return 0;
}

static void expect_limit(struct cluster_testing *testing, uint64_t epoch, uint32_t count, uint32_t each)
{
    uint64_t sums[2] = {0};
    fill_multi(count, each);
    many[count - 1].bytes++;
    assert_int_equal(cluster_multi(testing->cluster, epoch, many, count), -E2BIG);
    cluster_testing_expect(testing, many_paths[0], NULL, 0);
    many[count - 1].bytes--;
    assert_int_equal(cluster_multi(testing->cluster, epoch, many, count), 0);
    assert_int_equal(cluster_scan(testing->cluster, "/many", count_node, sums), 0);
    assert_int_equal(sums[0], count);
    assert_int_equal(sums[1], CLUSTER_MULTI_BYTES_MAX);
    for (uint32_t i = 0; i < count; i++)
        many[i] = change_to(many_paths[i], NULL, 0);
    assert_int_equal(cluster_multi(testing->cluster, epoch, many, count), 0);
}

static void multis_have_limits(void **state)
{
    struct cluster_testing *testing = *state;
    const uint64_t epoch = cluster_testing_lead(testing);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
    expect_limit(testing, epoch, 2, CLUSTER_DATA_MAX);
    expect_limit(testing, epoch, 17, 7000);
    /* stores round the space of a node up: so of 512 the most bytes are lost for some length */
    const uint32_t path_bytes = CLUSTER_CHANGE_BYTES + CLUSTER_PATH_MAX;
    for (uint32_t less = 0; less < 64; less += 8)
        expect_limit(testing, epoch, CLUSTER_MULTI_MAX,
                     CLUSTER_MULTI_BYTES_MAX / CLUSTER_MULTI_MAX - path_bytes - less);
    fill_multi(CLUSTER_MULTI_MAX + 1, 0);
    assert_int_equal(cluster_multi(testing->cluster, epoch, many, CLUSTER_MULTI_MAX + 1), -E2BIG);
}

static void nodes_have_limits(void **state)
{
    struct cluster_testing *testing = *state;
    uint32_t bytes = 1;
    int64_t version = 7;
    data[0] = 1;
    data[CLUSTER_DATA_MAX - 1] = 2;
    assert_int_equal(cluster_put(testing->cluster, 0, "/a", data, CLUSTER_DATA_MAX + 1, CLUSTER_ANY), -E2BIG);
    assert_int_equal(cluster_put(testing->cluster, 0, "/a", data, CLUSTER_DATA_MAX, CLUSTER_ANY), 0);
    assert_int_equal(cluster_put(testing->cluster, 0, "/a", data, CLUSTER_DATA_MAX, CLUSTER_ANY), 0);
    assert_int_equal(cluster_get(testing->cluster, "/a", found, CLUSTER_DATA_MAX - 1, &bytes, &version),
                     -ENOBUFS);
    assert_int_equal(bytes, CLUSTER_DATA_MAX);
    assert_int_equal(version, 7);
    assert_int_equal(cluster_get(testing->cluster, "/a", NULL, 0, &bytes, NULL), -ENOBUFS);
    assert_int_equal(cluster_get(testing->cluster, "/a", found, CLUSTER_DATA_MAX, &bytes, &version), 0);
    assert_int_equal(version, 1);
    assert_int_equal(memcmp(found, data, CLUSTER_DATA_MAX), 0);
}

/* ---- scanning ----------------------------------------------------------------------------------- */

struct visits {
    uint32_t count, end_at;
    bool seen[3];
};

static int visit_node(void *arg, const char *path, const void *value, uint32_t bytes, int64_t version)
{
    struct visits *visits = arg;
    static const char *const paths[] = {"/a/b", "/a/c/c", "/a/d"};
    for (size_t i = 0; i < base_array_count(paths); i++) {
        if (strcmp(path, paths[i]) != 0)
            continue;
        assert_false(visits->seen[i]);
        visits->seen[i] = true;
        assert_int_equal(version, i);
        assert_int_equal(bytes, strlen(paths[i]));
        assert_int_equal(memcmp(value, paths[i], bytes), 0);
    }
    return ++visits->count == visits->end_at ? 17 : 0;
}

static void scans_show_what_is_below(void **state)
{
    struct cluster_testing *testing = *state;
    static const char *const paths[] = {"/a/b", "/a/c/c", "/a/d", "/ab", "/b/a", "/aa/a"};
    struct visits visits = {0};
    assert_int_equal(cluster_scan(testing->cluster, "/a", visit_node, &visits), 0);
    assert_int_equal(visits.count, 0);
    (void)cluster_testing_lead(testing);
    for (size_t i = 0; i < base_array_count(paths); i++) {
        for (size_t version = 0; version <= i; version++)
            assert_int_equal(cluster_testing_put(testing, 0, paths[i], paths[i], CLUSTER_ANY), 0);
    }
    assert_int_equal(cluster_scan(testing->cluster, "/a", visit_node, &visits), 0);
    assert_int_equal(visits.count, 3);
    assert_true(visits.seen[0] && visits.seen[1] && visits.seen[2]);
    visits = (struct visits){.end_at = 2};
    assert_int_equal(cluster_scan(testing->cluster, "/a", visit_node, &visits), 17);
    assert_int_equal(visits.count, 2);
}

/* ---- epochs, members ---------------------------------------------------------------------------- */

static void old_epochs_are_refused(void **state)
{
    struct cluster_testing *testing = *state;
    const uint64_t first = cluster_testing_lead(testing);
    assert_true(first > 0);
    assert_int_equal(cluster_testing_put(testing, first + 1, "/a", "none yet", CLUSTER_ANY), -EPERM);
    assert_int_equal(cluster_testing_put(testing, UINT64_MAX, "/a", "never", CLUSTER_ANY), -EPERM);
    assert_int_equal(cluster_testing_put(testing, first, "/a", "first", CLUSTER_ANY), 0);
    const uint64_t second = cluster_testing_lead(testing);
    assert_true(second > first);
    assert_int_equal(cluster_testing_put(testing, first, "/a", "old", CLUSTER_ANY), -EPERM);
    assert_int_equal(cluster_testing_put(testing, first, "/a", "old", 0), -EPERM);
    assert_int_equal(cluster_testing_put(testing, first, "/a", "old", 5), -EPERM);
    assert_int_equal(cluster_delete(testing->cluster, first, "/a", 0), -EPERM);
    assert_int_equal(cluster_multi(testing->cluster, first, NULL, 0), -EPERM);
    assert_int_equal(cluster_multi(testing->cluster, second, NULL, 0), 0);
    cluster_testing_expect(testing, "/a", "first", 0);
    assert_int_equal(cluster_testing_put(testing, second, "/a", "wrong", 5), -EAGAIN);
    assert_int_equal(cluster_testing_put(testing, second, "/a", "second", 0), 0);
    assert_int_equal(cluster_testing_put(testing, 0, "/a", "anybody", 1), 0);
    cluster_testing_expect(testing, "/a", "anybody", 2);
}

static void all_is_there_after_joining_again(void **state)
{
    struct cluster_testing *testing = *state;
    uint64_t last = 0;
    for (uint32_t round = 0; round < 5; round++) {
        char text[16];
        const uint64_t epoch = cluster_testing_lead(testing);
        assert_true(epoch > last);
        if (round > 0)
            assert_int_equal(cluster_testing_put(testing, last, "/a", "old", CLUSTER_ANY), -EPERM);
        last = epoch;
        (void)snprintf(text, sizeof(text), "%" PRIu32, round);
        assert_int_equal(
            cluster_testing_put(testing, epoch, "/a", text, round == 0 ? CLUSTER_ABSENT : (int64_t)round - 1),
            0);
        cluster_leave(testing->cluster);
        cluster_testing_join(testing);
        cluster_testing_expect(testing, "/a", text, round);
    }
}

static void members_are_told(void **state)
{
    struct cluster_testing *testing = *state;
    struct cluster_member members[CLUSTER_MEMBERS_MAX];
    uint32_t count = 0;
    uint64_t seen = 0, before;
    assert_int_equal(cluster_watch(testing->cluster, &seen, TASK_FOREVER), 0);
    assert_int_equal(cluster_members(testing->cluster, members, &count), 0);
    assert_int_equal(count, 1);
    assert_string_equal(members[0].name, "one");
    assert_int_equal(members[0].data_bytes, 4);
    assert_int_equal(memcmp(members[0].data, "here", 4), 0);
    assert_false(members[0].leads);
    before = seen;
    assert_int_equal(cluster_watch(testing->cluster, &seen, task_now()), -ETIMEDOUT);
    assert_int_equal(seen, before);
    (void)cluster_testing_lead(testing);
    assert_int_equal(cluster_watch(testing->cluster, &seen, TASK_FOREVER), 0);
    assert_true(seen != before);
    assert_int_equal(cluster_members(testing->cluster, members, &count), 0);
    assert_true(count == 1 && members[0].leads);
    assert_true(cluster_held_until(testing->cluster) > task_now());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_testing_setup, cluster_testing_teardown)
static const struct CMUnitTest tests[] = {
    TEST(versions_count_changes), TEST(what_does_not_hold_is_refused),
    TEST(all_are_made_or_none),   TEST(paths_are_checked),
    TEST(changes_are_checked),    TEST(multis_have_limits),
    TEST(nodes_have_limits),      TEST(scans_show_what_is_below),
    TEST(old_epochs_are_refused), TEST(all_is_there_after_joining_again),
    TEST(members_are_told),
};
const struct testing_suite cluster_conformance = TESTING_SUITE(tests);
