/* For back ends, those of this layer and the simulator's: the table of operations that each fills. */
#ifndef CLUSTER_PROVIDER_H
#define CLUSTER_PROVIDER_H

#include "cluster/cluster.h"

/*
 * The operations of a back end, each as the function of cluster.h of that name. The caller has checked paths, lengths,
 * counts and conditions, and that no path is there twice.
 */
struct cluster_operations {
    void (*leave)(struct cluster *cluster); /* frees it */
    uint64_t (*held_until)(const struct cluster *cluster);
    int (*members)(struct cluster *cluster, struct cluster_member *ret_members, uint32_t *ret_count);
    int (*watch)(struct cluster *cluster, uint64_t *seen, uint64_t deadline_ns);
    int (*lead)(struct cluster *cluster, uint64_t deadline_ns, uint64_t *ret_epoch);
    int (*multi)(struct cluster *cluster, uint64_t epoch, const struct cluster_change *changes,
                 uint32_t count);
    int (*get)(struct cluster *cluster, const char *path, void *data, uint32_t room, uint32_t *ret_bytes,
               int64_t *ret_version); /* ret_version is not NULL */
    int (*scan)(struct cluster *cluster, const char *path, cluster_visit_function *visit, void *arg);
};

/* A member's hold on a cluster; the first member of each back end's own structure. */
struct cluster {
    const struct cluster_operations *operations;
};

/* A back end. The node of a simulated world has one of its own (task_node_options.cluster). */
struct cluster_provider {
    const char *scheme; /* what its URLs begin with */

    /** As cluster_join(), with the URL behind the scheme, and options that were checked. Yields. */
    int (*join)(struct tarn_node *node, const char *rest, const struct cluster_options *options,
                struct cluster **ret_cluster);
};

#endif
