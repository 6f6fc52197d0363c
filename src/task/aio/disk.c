/*
 * Files: batches through io_submit, completions read from the ring that the kernel shares. To sleep until a
 * file or a socket has something, one more request of the context watches the epoll descriptor.
 */
#include "task/aio/aio.h"
#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    IN_FLIGHT_MIN = 32,
    WATCH_TAG = 1, /* what the completion of the watch carries instead of a request's address */
};

int aio_disk_open(struct task_engine *engine)
{
    uint32_t in_flight_max = engine->sched->options.ring_entries;
    while (syscall(SYS_io_setup, in_flight_max + 1, &engine->context) != 0) { /* with one for the watch */
        /* the system limits all contexts together: a smaller one may still fit */
        if (errno != EAGAIN || in_flight_max <= IN_FLIGHT_MIN)
            return -errno;
        in_flight_max /= 2;
    }
    engine->in_flight_max = in_flight_max;
    engine->ring = (struct aio_ring *)engine->context; /* NOLINT(performance-no-int-to-ptr) */
    if (engine->ring->magic == AIO_RING_MAGIC && engine->ring->incompat_features == 0)
        return 0;
    (void)syscall(SYS_io_destroy, engine->context);
    return -ENOTSUP;
}

void aio_disk_close(struct task_engine *engine)
{
    (void)syscall(SYS_io_destroy, engine->context);
}

/* The request that a block or its completion names. */
static struct task_io *request_of(uint64_t data)
{
    return (struct task_io *)(uintptr_t)data; /* NOLINT(performance-no-int-to-ptr) */
}

/* Fill in the kernel's description of a request. */
static void describe_block(struct task_io *io, struct iocb *block)
{
    *block = (struct iocb){
        .aio_data = (uintptr_t)io,
        .aio_fildes = (uint32_t)io->file->fd,
    };
    if (io->op == TASK_IO_FLUSH) {
        block->aio_lio_opcode = IOCB_CMD_FDSYNC;
        return;
    }
    bool is_write = io->op == TASK_IO_WRITE;
    block->aio_rw_flags = is_write && io->durable ? RWF_DSYNC : 0;
    block->aio_offset = (int64_t)io->offset;
    if (io->iov_count == 1) {
        block->aio_lio_opcode = is_write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
        block->aio_buf = (uintptr_t)io->iov->iov_base;
        block->aio_nbytes = base_min(io->iov->iov_len, (size_t)TASK_IO_PIECE_BYTES);
    } else {
        block->aio_lio_opcode = is_write ? IOCB_CMD_PWRITEV : IOCB_CMD_PREADV;
        block->aio_buf = (uintptr_t)io->iov;
        block->aio_nbytes = io->iov_count;
    }
}

/* Make a batch of the first requests of the queue. @return their number */
static uint32_t make_batch(struct task_engine *engine)
{
    uint32_t room = base_min((uint32_t)AIO_BATCH, engine->in_flight_max - engine->in_flight);
    uint32_t count = 0;
    base_list_for_each(item, &engine->queued) {
        if (count == room)
            break;
        describe_block(base_container_of(item, struct task_io, link), &engine->blocks[count]);
        engine->block_pointers[count] = &engine->blocks[count];
        count++;
    }
    return count;
}

/* End the first request of the queue, which the kernel has refused with an error of its own. */
static void refuse_first(struct task_engine *engine, int error)
{
    struct task_io *io = base_container_of(base_list_pop_front(&engine->queued), struct task_io, link);
    if (io->op == TASK_IO_FLUSH && error == -EINVAL)
        error = fdatasync(io->file->fd) == 0 ? 0 : -errno; /* not every file system flushes asynchronously */
    aio_finish(io, error, false);
}

/* Hand the queue's first requests to the kernel. @return the number that it took, or negative errno */
static long submit_batch(struct task_engine *engine, uint32_t batch)
{
    long submitted = syscall(SYS_io_submit, engine->context, (long)batch, engine->block_pointers);
    if (submitted < 0)
        return -errno;
    engine->in_flight += (uint32_t)submitted;
    for (long i = 0; i < submitted; i++)
        base_list_remove(&request_of(engine->blocks[i].aio_data)->link);
    return submitted;
}

void aio_disk_send(struct task_engine *engine)
{
    engine->files_unsent = 0;
    uint32_t batch = make_batch(engine);
    if (batch > 0)
        (void)submit_batch(
            engine, batch); /* a refused request is refused again, and then ended, in the round's call */
}

uint32_t aio_disk_submit(struct task_engine *engine)
{
    uint32_t refused = 0;
    uint32_t batch;
    engine->files_unsent = 0;
    while ((batch = make_batch(engine)) > 0) {
        long submitted = submit_batch(engine, batch);
        if (submitted == -EAGAIN || submitted == -EINTR)
            break;
        if (submitted < 0) {
            refuse_first(engine, (int)submitted);
            refused++;
        }
    }
    return refused;
}

/* @return whether a request was handed out */
static bool complete_io(struct task_engine *engine, const struct io_event *event)
{
    if (event->data == WATCH_TAG) {
        engine->watching = false;
        engine->epoll_ready = true;
        return false;
    }
    struct task_io *io = request_of(event->data);
    engine->in_flight--;
    if (io->op == TASK_IO_FLUSH) {
        io->result = (int32_t)event->res;
    } else if (!task_io_settle(io, event->res)) {
        base_list_push_back(&engine->queued, &io->link);
        return false;
    }
    aio_finish(io, io->result, false);
    return true;
}

uint32_t aio_disk_reap(struct task_engine *engine)
{
    struct aio_ring *ring = engine->ring;
    const struct io_event *events = (const struct io_event *)(ring + 1);
    uint32_t count = 0;
    uint32_t head;
    /* Acquire: pairs with the kernel's barrier between writing events and moving the tail. */
    while ((head = ring->head) != __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE)) {
        struct io_event event = events[head];
        /* Release: the kernel may write over the event once it sees this. */
        __atomic_store_n(&ring->head, head + 1 == ring->event_count ? 0 : head + 1, __ATOMIC_RELEASE);
        count += complete_io(engine, &event);
    }
    return count;
}

/* Have the context complete a request when epoll has an event. @return false: the kernel refuses */
static bool watch_epoll(struct task_engine *engine)
{
    struct iocb block = {.aio_data = WATCH_TAG,
                         .aio_lio_opcode = IOCB_CMD_POLL,
                         .aio_fildes = (uint32_t)engine->epoll_fd,
                         .aio_buf = POLLIN};
    struct iocb *blocks[] = {&block};
    if (!engine->watching)
        engine->watching = syscall(SYS_io_submit, engine->context, 1L, blocks) == 1;
    return engine->watching;
}

uint32_t aio_disk_sleep(struct task_engine *engine, uint64_t sleep_ns)
{
    if (!watch_epoll(engine))
        sleep_ns = base_min(sleep_ns, (uint64_t)AIO_RETRY_NS);
    struct io_event event;
    struct timespec timeout = aio_timespec(sleep_ns);
    struct timespec *limit = sleep_ns == TASK_FOREVER ? NULL : &timeout;
    return syscall(SYS_io_getevents, engine->context, 1L, 1L, &event, limit) == 1
               ? complete_io(engine, &event)
               : 0;
}
