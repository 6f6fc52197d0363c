/* The insides of cluster: the table of operations that each back end fills. */
#ifndef CLUSTER_CLUSTER_INTERNAL_H
#define CLUSTER_CLUSTER_INTERNAL_H

#include "cluster/cluster.h"
#include <errno.h>

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

/** Log why a URL cannot be used. @return -EINVAL */
int cluster_refuse(struct tarn_node *node, const char *url, const char *reason);

/** Whether a node can have this path, which may be NULL. */
bool cluster_is_path(const char *path);

/** Join by a back end: cluster_join() with the URL behind its scheme, and options that were checked. @return as
 * cluster_join(). Yields. */
base_must_check int cluster_solo_join(struct tarn_node *node, const char *path,
                                      const struct cluster_options *options, struct cluster **ret_cluster);

/** The same, by the back end `zookeeper`. @return -EOPNOTSUPP, too: it is not in this build, which is logged. Yields. */
base_must_check int cluster_zookeeper_join(struct tarn_node *node, const char *rest,
                                           const struct cluster_options *options,
                                           struct cluster **ret_cluster);

#endif
