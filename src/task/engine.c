/* The choice between the engines, and what both do alike with transfers; the engines are aio/ and uring/. */
#include "task/engine.h"
#include "task/engine_internal.h"
#include "task/sched_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { BUFFER_RESERVE_DIVISOR = 8 };

/* The step by which an operator gives io_uring what it was refused. */
static const char *remedy_of(int error)
{
    switch (error) {
    case -ENOMEM:
        return "raise the memory-lock limit, which all processes of a user share: ulimit -l, or "
               "LimitMEMLOCK= of "
               "the unit";
    case -EMFILE:
    case -ENFILE:
        return "raise the limit of open files: ulimit -n, or LimitNOFILE= of the unit";
    case -EPERM:
    case -EACCES:
        return "allow io_uring: in the seccomp profile of the container, or by sysctl "
               "kernel.io_uring_disabled=0";
    default:
        return "use Linux 6.1 or later with io_uring";
    }
}

/* The first shortcoming of io_uring in a long-lived node is a warning, with its remedy; consequences of it are not. */
static enum base_log_level level_of_shortcoming(struct tarn_node *node, enum base_log_level otherwise)
{
    bool is_first = !atomic_exchange_explicit(&node->uring_complained, true, memory_order_relaxed);
    return is_first && node->options.warn_without_uring ? BASE_LOG_WARN : otherwise;
}

void task_uring_complain(struct tarn_node *node, const char *what, int error)
{
    const enum base_log_level level = level_of_shortcoming(node, BASE_LOG_DEBUG);
    BASE_LOG_AT(
        &node->log, level, "io_uring has less than it could use",
        "reason=\"%s\" error=\"%s\" effect=\"requests cost more, and further threads may have to use Linux "
        "AIO and epoll\" remedy=\"%s\"",
        what, strerrordesc_np(-error), remedy_of(error));
}

/* Say that io_uring does not work here, and which engine replaces it. @return NULL: none, because io_uring was forced */
static const struct task_engine_ops *replace_uring(struct tarn_node *node, const char *reason, int error)
{
    if (node->options.engine_choice == TASK_ENGINE_URING) {
        base_error(&node->log, "io_uring was asked for and does not work here",
                   "reason=\"%s\" error=\"%s\" remedy=\"%s\"", reason, strerrordesc_np(-error),
                   remedy_of(error));
        return NULL;
    }
    const enum base_log_level level = level_of_shortcoming(node, BASE_LOG_INFO);
    BASE_LOG_AT(&node->log, level, "engine chosen", "engine=aio reason=\"%s\" error=\"%s\" remedy=\"%s\"",
                reason, strerrordesc_np(-error), remedy_of(error));
    return &task_engine_aio;
}

static const struct task_engine_ops *choose(struct tarn_node *node)
{
    const char *reason = "forced";
    if (node->options.engine_choice == TASK_ENGINE_AIO) {
        base_info(&node->log, "engine chosen", "engine=aio reason=\"%s\"", reason);
        return &task_engine_aio;
    }
    int error = task_uring_probe(&reason);
    if (error != 0)
        return replace_uring(node, reason, error);
    base_info(&node->log, "engine chosen", "engine=uring reason=\"%s\"",
              node->options.engine_choice == TASK_ENGINE_URING ? "forced" : "works here");
    return &task_engine_uring;
}

const struct task_engine_ops *task_engine_choose(struct tarn_node *node)
{
    if (node->options.engine != NULL)
        return node->options.engine;
    /* Two threads may both find out, and log it twice: they find the same. */
    const struct task_engine_ops *known = __atomic_load_n(&node->engine, __ATOMIC_ACQUIRE);
    if (known == NULL) {
        known = choose(node);
        __atomic_store_n(&node->engine, known, __ATOMIC_RELEASE);
    }
    return known;
}

int task_engine_open(struct task_sched *sched)
{
    struct tarn_node *node = sched->node;
    void *arg = node->options.engine_arg;
    sched->engine_ops = task_engine_choose(node);
    if (sched->engine_ops == NULL)
        return -ENOTSUP;
    int error = sched->engine_ops->open(sched, arg, &sched->engine);
    if (error == 0 || sched->engine_ops != &task_engine_uring)
        return error;
    /* The trial had a ring, this scheduler gets none: it and all that come later do without. */
    sched->engine_ops = replace_uring(node, "no ring could be made for a further thread", error);
    if (sched->engine_ops == NULL)
        return error;
    __atomic_store_n(&node->engine, sched->engine_ops, __ATOMIC_RELEASE);
    return sched->engine_ops->open(sched, arg, &sched->engine);
}

void task_io_begin(struct task_io *io)
{
    io->done_bytes = 0;
}

/* Move iov and offset behind the bytes that were transferred. @return whether any are left */
static bool advance_vectors(struct task_io *io, uint64_t bytes)
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
    bool left = advance_vectors(io, (uint64_t)result);
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
