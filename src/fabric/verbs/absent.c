/* The provider `verbs` of a build without rdma-core: opening it fails and says so. */
#include "fabric/fabric_internal.h"
#include <errno.h>

static int absent_open(struct tarn_node *node, void *provider_arg, struct tarn_fabric_info *ret_info,
                       void **ret_state)
{
    (void)provider_arg;
    (void)ret_info;
    (void)ret_state;
    base_error(
        &node->log, "this build has no RDMA verbs",
        "reason=\"rdma-core was not there when it was built: install libibverbs-dev and librdmacm-dev, and "
        "build again\"");
    return -EOPNOTSUPP;
}

const struct fabric_provider fabric_provider_verbs = {.name = "verbs", .open = absent_open};
