/*
 * The suites that every back end of a cluster passes, on an ensemble that runs: cluster_suites HOST:PORT,HOST:PORT. Each test
 * has a path of its own in the ensemble, below one that no other run has.
 */
#include "cluster/conformance_testing.h"
#include "task/node.h"
#include <stdio.h>
#include <time.h>

/* So long that a connection is not given up because the machine is slow. */
#define SESSION_NS (60 * BASE_NS_PER_SECOND)

static const char *hosts;
static uint32_t tests_begun;
static char url[512];

static void choose_url(struct cluster_testing *testing)
{
    (void)snprintf(url, sizeof(url), "zookeeper:%s/tarn-%ld-%d/%" PRIu32, hosts, (long)time(NULL),
                   (int)getpid(), ++tests_begun);
    testing->url = url;
}

static void begin_on_ensemble(struct cluster_testing *testing)
{
    const struct task_node_options options = {.log_level = BASE_LOG_WARN};
    assert_int_equal(task_node_open(&options, &testing->node), 0);
    choose_url(testing);
}

static void end_on_ensemble(struct cluster_testing *testing)
{
    task_node_close(testing->node);
}

static int set_state(void **state)
{
    static struct cluster_testing testing;
    testing = (struct cluster_testing){
        .begin = begin_on_ensemble, .end = end_on_ensemble, .session_ns = SESSION_NS};
    *state = &testing;
    return 0;
}

/* ---- schedulers --------------------------------------------------------------------------------- */

struct company {
    struct cluster_testing *testing;
    uint64_t rounds;
    bool over;
};

static void go_round(void *arg)
{
    struct company *company = arg;
    while (!company->over) {
        company->rounds++;
        task_yield();
    }
}

/* Whatever a member waits for, other tasks of its scheduler go on meanwhile. */
static void join_in_company(void *arg)
{
    struct company *company = ((struct task_testing *)arg)->arg;
    struct cluster_testing *testing = company->testing;
    struct task_group group;
    uint64_t before = 0;
    testing->node = ((struct task_testing *)arg)->node;
    task_group_init(&group);
    assert_int_equal(task_spawn(NULL, &group, "other", go_round, company), 0);
    for (int step = 0; step < 5; step++) {
        if (step == 0)
            cluster_testing_join(testing);
        else if (step == 1)
            (void)cluster_testing_lead(testing);
        else if (step == 2)
            assert_int_equal(cluster_testing_put(testing, 0, "/a", "text", CLUSTER_ANY), 0);
        else if (step == 3)
            cluster_testing_expect(testing, "/a", "text", 0);
        else
            cluster_leave(testing->cluster);
        assert_true(company->rounds > before);
        before = company->rounds;
    }
    company->over = true;
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
}

static void schedulers_go_on(void **state)
{
    struct cluster_testing testing = *(struct cluster_testing *)*state;
    struct company company = {.testing = &testing};
    choose_url(&testing);
    task_testing_run(NULL, NULL, join_in_company, &company);
}

/* ---- memory ------------------------------------------------------------------------------------- */

static int count_visit(void *arg, const char *path, const void *data, uint32_t bytes, int64_t version)
{
    (void)path, (void)data, (void)bytes, (void)version;
    ++*(uint32_t *)arg;
    return 0;
}

/* Do something of everything. @return -ENOMEM; 0 */
static int do_all(struct cluster_testing *testing)
{
    const struct cluster_change changes[] = {
        {.path = "/a/b", .data = "1", .bytes = 1, .if_version = CLUSTER_ANY},
        {.path = "/c", .if_version = CLUSTER_ANY}};
    struct cluster_member members[CLUSTER_MEMBERS_MAX];
    uint64_t epoch = 0;
    uint32_t count = 0, bytes;
    char byte;
    int error = cluster_lead(testing->cluster, TASK_FOREVER, &epoch);
    if (error == 0)
        error = cluster_multi(testing->cluster, epoch, changes, 2);
    if (error == 0)
        error = cluster_get(testing->cluster, "/a/b", &byte, 1, &bytes, NULL);
    if (error == 0)
        error = cluster_scan(testing->cluster, "/a", count_visit, &count);
    if (error == 0)
        error = cluster_members(testing->cluster, members, &count);
    return error;
}

static void failing_allocations_leak_nothing(void **state)
{
    struct cluster_testing *testing = *state;
    struct base_account *account = &testing->node->memory;
    const uint64_t before = base_account_used(account);
    bool failed = true; /* the n-th allocation: there were so many */
    for (uint64_t n = 1; failed; n++) {
        base_account_fail_at(account, n);
        const int error = do_all(testing);
        failed = atomic_load(&account->fail_at) == 0;
        base_account_fail_at(account, 0);
        assert_int_equal(error, failed ? -ENOMEM : 0);
        assert_int_equal(base_account_used(account), before);
    }
}

static void bad_urls_are_refused(void **state)
{
    struct cluster_testing *testing = *state;
    static const char *const bad[] = {"zookeeper:",
                                      "zookeeper:/path",
                                      "zookeeper:127.0.0.1:1/",
                                      "zookeeper:127.0.0.1:1//a",
                                      "zookeeper:127.0.0.1:1/a/",
                                      "zookeeper:127.0.0.1",
                                      "zookeeper:127.0.0.1:port"};
    for (size_t i = 0; i < base_array_count(bad); i++) {
        const struct cluster_options options = {.name = "two"};
        struct cluster *cluster;
        assert_int_equal(cluster_join(testing->node, bad[i], &options, &cluster), -EINVAL);
    }
    const struct cluster_options options = {.name = "two", .session_ns = BASE_NS_PER_SECOND};
    struct cluster *cluster;
    assert_int_equal(cluster_join(testing->node, "zookeeper:127.0.0.1:1/a", &options, &cluster), -ENOTCONN);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest own[] = {
        cmocka_unit_test_setup_teardown(failing_allocations_leak_nothing, cluster_testing_setup,
                                        cluster_testing_teardown),
        cmocka_unit_test(schedulers_go_on),
        cmocka_unit_test_setup_teardown(bad_urls_are_refused, cluster_testing_setup,
                                        cluster_testing_teardown)};
    const struct testing_suite suites[] = {cluster_conformance, cluster_contention, TESTING_SUITE(own), {0}};
    if (argc != 2) {
        (void)fprintf(stderr, "usage: cluster_suites HOST:PORT,HOST:PORT\n");
        return 2;
    }
    hosts = argv[1];
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return testing_run_suites("zookeeper", suites, NULL, set_state, NULL);
}
