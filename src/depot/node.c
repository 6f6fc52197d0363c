/* The public way to make a node: task_node_open() with what a program outside of Tarn may choose. */
#include "task/node.h"
#include "base/base.h"
#include <errno.h>
#include <tarn/tarn.h>

_Static_assert((int)TARN_LOG_ERROR == BASE_LOG_ERROR && (int)TARN_LOG_WARN == BASE_LOG_WARN &&
                   (int)TARN_LOG_INFO == BASE_LOG_INFO && (int)TARN_LOG_DEBUG == BASE_LOG_DEBUG,
               "levels are handed through");

int tarn_node_open(const struct tarn_node_options *options, struct tarn_node **ret_node)
{
    static const struct tarn_node_options defaults = {.log_level = TARN_LOG_WARN};
    if (options == NULL)
        options = &defaults;
    if ((unsigned)options->log_level > TARN_LOG_DEBUG)
        return -EINVAL;
    const struct task_node_options node_options = {.memory_bytes = options->memory_bytes,
                                                   .log_level = (enum base_log_level)options->log_level,
                                                   .log_sink = options->log,
                                                   .log_arg = options->log_arg};
    return task_node_open(&node_options, ret_node);
}

void tarn_node_close(struct tarn_node *node)
{
    task_node_close(node);
}
