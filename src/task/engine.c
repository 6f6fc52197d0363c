/* Which engine, and what both do alike. */
#include "task/engine.h"
#include "task/engine_internal.h"
#include "task/sched_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { BUFFER_RESERVE_DIVISOR = 8 };

static const struct task_engine_ops *choose(struct tarn_node *node)
{
    const char *reason = "forced";
    switch (node->options.engine_choice) {
    case TASK_ENGINE_AIO:
        base_info(&node->log, "engine chosen", "engine=aio reason=\"%s\"", reason);
        return &task_engine_aio;
    case TASK_ENGINE_URING:
    case TASK_ENGINE_AUTO:
        break;
    }
    bool forced = node->options.engine_choice == TASK_ENGINE_URING;
    int error = task_uring_probe(&reason);
    if (error == 0) {
        base_info(&node->log, "engine chosen", "engine=uring reason=\"%s\"",
                  forced ? "forced" : "works here");
        return &task_engine_uring;
    }
    if (forced) {
        base_error(&node->log, "io_uring was asked for and does not work here", "reason=\"%s\" error=\"%s\"",
                   reason, strerrordesc_np(-error));
        return NULL;
    }
    base_info(&node->log, "engine chosen", "engine=aio reason=\"%s\" error=\"%s\"", reason,
              strerrordesc_np(-error));
    return &task_engine_aio;
}

const struct task_engine_ops *task_engine_choose(struct tarn_node *node)
{
    if (node->options.engine != NULL)
        return node->options.engine;
    /* Two threads may both find out, and say so twice: they find the same. */
    const struct task_engine_ops *known = __atomic_load_n(&node->engine, __ATOMIC_ACQUIRE);
    if (known == NULL) {
        known = choose(node);
        __atomic_store_n(&node->engine, known, __ATOMIC_RELEASE);
    }
    return known;
}

void task_io_begin(struct task_io *io)
{
    io->done_bytes = 0;
}

/* Move iov and offset behind what was transferred. @return whether something is left */
static bool advance(struct task_io *io, uint64_t bytes)
{
    io->offset += bytes;
    while (io->iov_count > 0 && bytes >= io->iov->iov_len) {
        bytes -= io->iov->iov_len;
        io->iov++;
        io->iov_count--;
    }
    if (io->iov_count == 0)
        return false;
    io->iov->iov_base = (uint8_t *)io->iov->iov_base + bytes;
    io->iov->iov_len -= bytes;
    return true;
}

bool task_io_settle(struct task_io *io, int64_t result)
{
    uint64_t before = io->done_bytes;
    /* io_uring gives up a send when it has waited for room some hundred times */
    bool again = result == -EINTR || (result == -EAGAIN && io->op == TASK_IO_SEND);
    if (again && !io->cancelling)
        return false;
    if (result < 0) {
        /* a direct read that goes on from the middle of a sector has met the end of the file */
        bool ended = io->op == TASK_IO_READ && result == -EINVAL && before > 0;
        io->result = ended ? (int32_t)before : again ? -ECANCELED : (int32_t)result;
        return true;
    }
    uint64_t done = before + (uint64_t)result;
    io->done_bytes = done;
    bool left = advance(io, (uint64_t)result);
    if (left && result > 0 && !io->cancelling)
        return false;
    if (!left || (result == 0 && io->op == TASK_IO_READ))
        io->result = (int32_t)base_min(done, (uint64_t)INT32_MAX);
    else
        io->result = io->cancelling ? -ECANCELED : -EIO; /* a write of nothing would never come to an end */
    return true;
}

bool task_io_may_take_buffer(const struct base_buffer_pool *pool)
{
    return pool->free_count > pool->count / BUFFER_RESERVE_DIVISOR;
}
