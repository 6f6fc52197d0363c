/*
 * For the tests of this layer: a member of a cluster, and what is expected of its nodes. Asserts are those of tasks and
 * other threads, too.
 */
#ifndef CLUSTER_TESTING_H
#define CLUSTER_TESTING_H

#include "cluster/cluster.h"
#include "task/testing.h"

/* A cluster for tests; the back end's test program sets the functions. */
struct cluster_testing {
    void (*begin)(struct cluster_testing *testing); /* make `node`, and the empty store of `url` */
    void (*end)(struct cluster_testing *testing);
    const char *url;
    uint64_t session_ns; /* 0: the default */
    struct tarn_node *node;
    struct cluster *cluster;
};

/** Join, as "one", which tells "here" of itself. */
void cluster_testing_join(struct cluster_testing *testing);

/** Before a test, whose state is a struct cluster_testing: begin, and join. */
int cluster_testing_setup(void **state);

/** After it. */
int cluster_testing_teardown(void **state);

/** Store a text. @return as cluster_put() */
int cluster_testing_put(struct cluster_testing *testing, uint64_t epoch, const char *path, const char *text,
                        int64_t if_version);

/** Expect a text, NULL for none, and a version. */
void cluster_testing_expect(struct cluster_testing *testing, const char *path, const char *text,
                            int64_t version);

/** Lead. @return the epoch */
uint64_t cluster_testing_lead(struct cluster_testing *testing);

#endif
