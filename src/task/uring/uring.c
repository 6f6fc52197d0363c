/* The engine `uring`: a scheduler's turn with io_uring. Rings are made by setup.c, buffers lent by buffers.c. */
#include "task/uring/uring.h"
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- submission ------------------------------------------------------------------------------- */

/*
 * The number by which the kernel knows a file: its slot in the table, filled at first use (the one
 * system call that posting may make, once for each file), else its descriptor.
 */
static int file_number(struct task_engine *engine, const struct task_file *file, uint8_t *ret_flags)
{
    uint64_t *generation = &engine->generations[file->number];
    if (base_unlikely(*generation != file->generation)) {
        if (!engine->has_file_table ||
            io_uring_register_files_update(&engine->ring, file->number, &file->fd, 1) != 1)
            return file->fd;
        *generation = file->generation;
    }
    *ret_flags = IOSQE_FIXED_FILE;
    return (int)file->number;
}

static void prepare_transfer(struct task_engine *engine, const struct task_io *io, struct io_uring_sqe *entry)
{
    uint8_t flags = 0;
    int number = file_number(engine, io->file, &flags);
    bool is_write = io->op == TASK_IO_WRITE;
    if (io->iov_count != 1) {
        io_uring_prep_rw(is_write ? IORING_OP_WRITEV : IORING_OP_READV, entry, number, io->iov, io->iov_count,
                         io->offset);
    } else {
        bool fixed = io->region >= 0;
        int operation = is_write ? fixed ? IORING_OP_WRITE_FIXED : IORING_OP_WRITE
                        : fixed  ? IORING_OP_READ_FIXED
                                 : IORING_OP_READ;
        size_t bytes = base_min(io->iov->iov_len, (size_t)TASK_IO_PIECE_BYTES);
        io_uring_prep_rw(operation, entry, number, io->iov->iov_base, (unsigned)bytes, io->offset);
        if (fixed)
            entry->buf_index = (uint16_t)io->region;
    }
    entry->rw_flags = is_write && io->durable ? RWF_DSYNC : 0;
    entry->flags = flags;
}

static void prepare_flush(struct task_engine *engine, const struct task_io *io, struct io_uring_sqe *entry)
{
    uint8_t flags = 0;
    int number = file_number(engine, io->file, &flags);
    io_uring_prep_fsync(entry, number, IORING_FSYNC_DATASYNC);
    entry->flags = flags;
}

static void prepare_send(struct task_engine *engine, const struct task_io *io, struct io_uring_sqe *entry)
{
    const int flags = MSG_NOSIGNAL | MSG_WAITALL; /* the kernel itself goes on after a short send */
    if (io->iov_count == 1) {
        size_t bytes = base_min(io->iov->iov_len, (size_t)TASK_IO_PIECE_BYTES);
        io_uring_prep_send(entry, io->socket, io->iov->iov_base, bytes, flags);
        return;
    }
    struct msghdr *header = &engine->headers[entry - engine->ring.sq.sqes];
    *header = (struct msghdr){.msg_iov = io->iov, .msg_iovlen = io->iov_count};
    io_uring_prep_sendmsg(entry, io->socket, header, flags);
}

static void prepare_receive(const struct task_engine *engine, const struct task_io *io,
                            struct io_uring_sqe *entry)
{
    if (io->once)
        io_uring_prep_recv(entry, io->socket, NULL, engine->pool->buffer_bytes, 0);
    else
        io_uring_prep_recv_multishot(entry, io->socket, NULL, 0, 0);
    entry->flags = IOSQE_BUFFER_SELECT;
    entry->buf_group = URING_BUFFER_GROUP;
}

/* Put a request into the submission queue. @return false: the queue is full */
static bool issue_request(struct task_engine *engine, struct task_io *io)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&engine->ring);
    if (base_unlikely(entry == NULL))
        return false;
    switch (io->op) {
    case TASK_IO_READ:
    case TASK_IO_WRITE:
        prepare_transfer(engine, io, entry);
        break;
    case TASK_IO_FLUSH:
        prepare_flush(engine, io, entry);
        break;
    case TASK_IO_ACCEPT:
        io_uring_prep_multishot_accept(entry, io->socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        break;
    case TASK_IO_RECEIVE:
        prepare_receive(engine, io, entry);
        break;
    case TASK_IO_SEND:
        prepare_send(engine, io, entry);
        break;
    case TASK_IO_CONNECT:
        io_uring_prep_connect(entry, io->socket, io->address, io->address_bytes);
        break;
    }
    entry->user_data = (uintptr_t)io;
    return true;
}

/* Issue a request or queue it; never fails. */
static void issue_or_queue(struct task_engine *engine, struct task_io *io)
{
    if (!base_list_empty(&engine->backlog) || !issue_request(engine, io))
        base_list_push_back(&engine->backlog, &io->link);
}

static void uring_post(struct task_engine *engine, struct task_io *io)
{
    base_list_init(&io->link);
    io->cancelling = false;
    io->cancel_issued = false;
    io->over = false;
    task_io_begin(io);
    issue_or_queue(engine, io);
    if (task_io_is_for_file(io) && ++engine->files_unsent >= TASK_IO_FILES_UNSENT_MAX) {
        engine->files_unsent = 0;
        (void)io_uring_submit(&engine->ring);
    }
}

static void uring_cancel(struct task_engine *engine, struct task_io *io)
{
    if (io->cancelling)
        return;
    io->cancelling = true;
    if (!base_list_is_linked(&io->link)) {
        base_list_push_back(&engine->cancels, &io->link);
        return;
    }
    base_list_remove(&io->link); /* from backlog or starved */
    io->result = -ECANCELED;
    io->more = false;
    base_list_push_back(&engine->finished, &io->link);
}

static bool arm_wake(struct task_engine *engine)
{
    struct io_uring_sqe *entry = engine->wake_armed ? NULL : io_uring_get_sqe(&engine->ring);
    if (entry == NULL)
        return engine->wake_armed;
    /* Each wake() is an edge; the counter is never read, so that being woken costs no system call. */
    io_uring_prep_poll_multishot(entry, engine->wake_fd, POLLIN);
    entry->user_data = URING_WAKE;
    engine->wake_armed = true;
    return true;
}

static bool issue_cancel(struct task_engine *engine, struct task_io *io)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&engine->ring);
    if (entry == NULL)
        return false;
    io_uring_prep_cancel64(entry, (uintptr_t)io, 0);
    entry->user_data = (uintptr_t)io | URING_CANCEL_BIT;
    io->cancel_issued = true;
    return true;
}

/* Move waiting requests into the submission queue. @return false: the queue is full */
static bool fill_queue(struct task_engine *engine)
{
    struct base_list *first;
    if (!arm_wake(engine))
        return false;
    while ((first = base_list_first(&engine->backlog)) != NULL) {
        if (!issue_request(engine, base_container_of(first, struct task_io, link)))
            return false;
        base_list_remove(first);
    }
    while ((first = base_list_first(&engine->cancels)) != NULL) {
        if (!issue_cancel(engine, base_container_of(first, struct task_io, link)))
            return false;
        base_list_remove(first);
    }
    return true;
}

/* Issue starved receives again, one for each buffer that is free now. */
static void feed_starved(struct task_engine *engine)
{
    struct base_list *first;
    for (uint32_t i = uring_buffers_lent(engine); i > 0; i--) {
        if ((first = base_list_pop_front(&engine->starved)) == NULL)
            return;
        issue_or_queue(engine, base_container_of(first, struct task_io, link));
    }
}

/* ---- completion ------------------------------------------------------------------------------- */

/* Hand a request out, for the last time only when its cancellation is back too. @return whether it was */
static bool finish_io(struct task_io *io, bool more)
{
    io->more = more;
    if (!more) {
        task_io_unlink(io); /* from `cancels`: the cancellation comes too late */
        io->over = true;
        if (io->cancel_issued)
            return false;
    }
    io->done(io);
    return true;
}

/* A cancellation is back. @return whether its request was handed out */
static bool complete_cancel(struct task_engine *engine, struct task_io *io, int32_t result)
{
    io->cancel_issued = false;
    if (io->over)
        return finish_io(io, false);
    if (result == -ENOENT)
        base_list_push_back(&engine->cancels,
                            &io->link); /* the kernel had it between two of its queues: cancel once more */
    return false;
}

/* @return whether the request was handed out */
static bool complete_receive(struct task_engine *engine, struct task_io *io,
                             const struct io_uring_cqe *completion)
{
    bool more = (completion->flags & IORING_CQE_F_MORE) != 0;
    io->result = completion->res;
    io->buffer = NULL;
    if ((completion->flags & IORING_CQE_F_BUFFER) != 0) {
        struct base_buffer *buffer = uring_buffers_take(engine, completion->flags >> IORING_CQE_BUFFER_SHIFT);
        if (io->result > 0) {
            buffer->end = (uint32_t)io->result;
            io->buffer = buffer;
        } else {
            base_buffer_put(buffer);
        }
    }
    if (io->result == -ENOBUFS && !io->cancelling) {
        base_list_push_back(&engine->starved, &io->link);
        return false;
    }
    if (io->result == -ENOBUFS)
        io->result = -ECANCELED;
    if (io->result > 0 && !more && !io->once && !io->cancelling) {
        issue_or_queue(engine, io); /* the kernel may end a multishot request at any time */
        more = true;
    }
    return finish_io(io, more);
}

/* @return whether the request was handed out */
static bool complete_accept(struct task_engine *engine, struct task_io *io,
                            const struct io_uring_cqe *completion)
{
    bool more = (completion->flags & IORING_CQE_F_MORE) != 0;
    io->result = completion->res;
    if (io->result >= 0 && !more && !io->cancelling) {
        issue_or_queue(engine, io);
        more = true;
    }
    return finish_io(io, more);
}

/* @return whether a request was handed out */
static bool complete_io(struct task_engine *engine, const struct io_uring_cqe *completion)
{
    if (completion->user_data == URING_WAKE) {
        engine->wake_armed = (completion->flags & IORING_CQE_F_MORE) != 0;
        return false;
    }
    uintptr_t address = (uintptr_t)completion->user_data & ~(uintptr_t)URING_CANCEL_BIT;
    struct task_io *io = (struct task_io *)address; /* NOLINT(performance-no-int-to-ptr) */
    if ((completion->user_data & URING_CANCEL_BIT) != 0)
        return complete_cancel(engine, io, completion->res);
    switch (io->op) {
    case TASK_IO_READ:
    case TASK_IO_WRITE:
    case TASK_IO_SEND:
        if (!task_io_settle(io, completion->res)) {
            issue_or_queue(engine, io);
            return false;
        }
        break;
    case TASK_IO_FLUSH:
    case TASK_IO_CONNECT:
        io->result = completion->res;
        break;
    case TASK_IO_ACCEPT:
        return complete_accept(engine, io, completion);
    case TASK_IO_RECEIVE:
        return complete_receive(engine, io, completion);
    }
    return finish_io(io, false);
}

static uint32_t hand_out_finished(struct task_engine *engine)
{
    uint32_t count = 0;
    struct base_list finished;
    base_list_init(&finished);
    base_list_move_all(&finished, &engine->finished);
    struct base_list *first;
    while ((first = base_list_pop_front(&finished)) != NULL) {
        count += finish_io(base_container_of(first, struct task_io, link), false);
    }
    return count;
}

static uint32_t reap_completions(struct task_engine *engine)
{
    const struct io_uring_cq *queue = &engine->ring.cq;
    uint32_t count = 0;
    while (io_uring_cq_ready(&engine->ring) > 0) {
        struct io_uring_cqe completion = queue->cqes[*queue->khead & queue->ring_mask];
        io_uring_cq_advance(&engine->ring, 1);
        count += complete_io(engine, &completion);
    }
    return count;
}

/* ---- the round's one call ---------------------------------------------------------------------- */

static void sleep_in_kernel(struct task_engine *engine, uint64_t sleep_ns)
{
    struct io_uring_cqe *completion;
    struct __kernel_timespec timeout = {.tv_sec = (int64_t)(sleep_ns / 1000000000),
                                        .tv_nsec = (long long)(sleep_ns % 1000000000)};
    (void)io_uring_submit_and_wait_timeout(&engine->ring, &completion, 1,
                                           sleep_ns == TASK_FOREVER ? NULL : &timeout, NULL);
}

/* Whether the kernel has completions that it shows only after a system call. */
static bool kernel_has_work(const struct task_engine *engine)
{
    unsigned flags = IO_URING_READ_ONCE(*engine->ring.sq.kflags);
    return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

static uint32_t uring_poll(struct task_engine *engine, uint64_t sleep_ns)
{
    uint32_t count = base_list_empty(&engine->finished) ? 0 : hand_out_finished(engine);
    engine->files_unsent = 0;
    uring_buffers_fill(engine);
    feed_starved(engine);
    while (!fill_queue(engine) && io_uring_submit(&engine->ring) > 0) {
        /* a submission makes room in the queue, until the kernel takes no more */
    }
    if (sleep_ns > 0 && count == 0)
        sleep_in_kernel(engine, sleep_ns);
    else if (io_uring_sq_ready(&engine->ring) > 0 || kernel_has_work(engine))
        (void)io_uring_submit_and_get_events(&engine->ring);
    return count + reap_completions(engine);
}

static void uring_wake(struct task_engine *engine)
{
    (void)eventfd_write(engine->wake_fd,
                        1); /* fails only when the counter is full, and then the scheduler is awake */
}

static int uring_wake_descriptor(const struct task_engine *engine)
{
    return engine->wake_fd;
}

static void uring_drop_file(struct task_engine *engine, uint32_t number)
{
    if (engine->generations[number] == 0)
        return;
    int none = -1;
    (void)io_uring_register_files_update(&engine->ring, number, &none, 1);
    engine->generations[number] = 0;
}

const struct task_engine_ops task_engine_uring = {
    .name = "uring",
    .open = uring_open,
    .begin = uring_begin,
    .close = uring_close,
    .post = uring_post,
    .cancel = uring_cancel,
    .poll = uring_poll,
    .wake = uring_wake,
    .wake_descriptor = uring_wake_descriptor,
    .drop_file = uring_drop_file,
};
