/* The back end `zookeeper` of a build without ZooKeeper's C client: joining fails and says so. */
#include "cluster/cluster_internal.h"
#include "task/node.h"

int cluster_zookeeper_join(struct tarn_node *node, const char *rest, const struct cluster_options *options,
                           struct cluster **ret_cluster)
{
    (void)rest, (void)options, (void)ret_cluster;
    base_error(&node->log, "this build has no ZooKeeper",
               "reason=\"its C client was not there when it was built: install libzookeeper-st-dev, and "
               "build again\"");
    return -EOPNOTSUPP;
}
