/* The insides of cluster: what its back ends share. */
#ifndef CLUSTER_CLUSTER_INTERNAL_H
#define CLUSTER_CLUSTER_INTERNAL_H

#include "cluster/provider.h"
#include <errno.h>

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
