/* For the tests of this layer: a member of a cluster, and what is expected of its nodes. */
#include "cluster/testing.h"

#define TEXT_ROOM 64

void cluster_testing_join(struct cluster_testing *testing)
{
    const struct cluster_options options = {
        .name = "one", .data = "here", .data_bytes = 4, .session_ns = testing->session_ns};
    assert_int_equal(cluster_join(testing->node, testing->url, &options, &testing->cluster), 0);
}

int cluster_testing_setup(void **state)
{
    struct cluster_testing *testing = *state;
    testing->begin(testing);
    cluster_testing_join(testing);
    return 0;
}

int cluster_testing_teardown(void **state)
{
    struct cluster_testing *testing = *state;
    cluster_leave(testing->cluster);
    testing->end(testing);
    return 0;
}

int cluster_testing_put(struct cluster_testing *testing, uint64_t epoch, const char *path, const char *text,
                        int64_t if_version)
{
    return cluster_put(testing->cluster, epoch, path, text, (uint32_t)strlen(text), if_version);
}

void cluster_testing_expect(struct cluster_testing *testing, const char *path, const char *text,
                            int64_t version)
{
    char found[TEXT_ROOM];
    uint32_t bytes = 77;
    int64_t found_version = 78;
    int error = cluster_get(testing->cluster, path, found, sizeof(found), &bytes, &found_version);
    assert_int_equal(error, text == NULL ? -ENOENT : 0);
    assert_int_equal(bytes, text == NULL ? 77 : strlen(text));
    assert_int_equal(found_version, text == NULL ? 78 : version);
    assert_true(text == NULL || memcmp(found, text, bytes) == 0);
}

uint64_t cluster_testing_lead(struct cluster_testing *testing)
{
    uint64_t epoch;
    assert_int_equal(cluster_lead(testing->cluster, TASK_FOREVER, &epoch), 0);
    return epoch;
}
