/*
 * The AIO engine, for where io_uring is not to be had: Linux AIO for files, epoll for sockets. It sleeps
 * in epoll, or with files in flight in AIO, which then watches epoll for it.
 *
 * A request is in exactly one place: a file's in `queued` (for the next io_submit) or with the kernel; a
 * socket's in `posted` (for the next poll), in its socket's slot (waiting for readiness) or in `starved`
 * (a receive that found no buffer); any in `finished` (it has its result and waits to be handed out).
 */
#ifndef TASK_AIO_AIO_H
#define TASK_AIO_AIO_H

#include "task/engine_internal.h"
#include "task/sched_internal.h"
#include <linux/aio_abi.h>
#include <time.h>

/* The head of the completion ring that the kernel maps into the process; the events follow. */
struct aio_ring {
    uint32_t id;
    uint32_t event_count;
    uint32_t head; /* moved by the scheduler, as it takes events */
    uint32_t tail; /* moved by the kernel */
    uint32_t magic;
    uint32_t compat_features;
    uint32_t incompat_features;
    uint32_t header_bytes;
};

_Static_assert(sizeof(struct aio_ring) == 32, "the kernel's layout");

#define AIO_RING_MAGIC 0xa10a10a1U

/* How many requests one io_submit takes. */
#define AIO_BATCH 64

/* How long to sleep when the kernel takes no more requests, and may take them again without telling. */
#define AIO_RETRY_NS 1000000

/* What waits for a socket's readiness; slots are found by descriptor. */
struct aio_socket {
    struct task_io *in;  /* ACCEPT or RECEIVE */
    struct task_io *out; /* SEND or CONNECT */
    uint32_t watched;    /* the events that epoll looks for; 0: not registered */
};

struct task_engine {
    struct task_sched *sched;
    struct tarn_node *node;
    struct base_buffer_pool *pool;
    struct base_list finished;

    /* files: disk.c */
    struct base_list queued;
    aio_context_t context;
    struct aio_ring *ring;
    bool watching;    /* a request of the context waits for epoll */
    bool epoll_ready; /* it was done: look */
    uint32_t in_flight;
    uint32_t in_flight_max;
    uint32_t files_unsent; /* posted and not handed over */
    struct iocb blocks[AIO_BATCH];
    struct iocb *block_pointers[AIO_BATCH];

    /* sockets: socket.c */
    struct base_list posted;
    struct base_list starved;
    int epoll_fd;
    int wake_fd;
    struct aio_socket *sockets;
    uint32_t socket_room;
    uint32_t watched_count;
};

/** A length of time as the kernel wants it. */
static inline struct timespec aio_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

/** Hand a request to its owner. */
static inline void aio_finish(struct task_io *io, int32_t result, bool more)
{
    io->result = result;
    io->more = more;
    io->done(io);
}

/**
 * Make the AIO context.
 *
 * @return 0; -EAGAIN (the system's limit, fs.aio-max-nr); the kernel's error
 */
base_must_check int aio_disk_open(struct task_engine *engine);

/** Wait for what is in flight and end the context. */
void aio_disk_close(struct task_engine *engine);

/** Submit what is queued as far as the context has room. @return requests that ended here and now */
uint32_t aio_disk_submit(struct task_engine *engine);

/** Hand what is queued to the kernel as far as it takes it, and tell nobody of errors. */
void aio_disk_send(struct task_engine *engine);

/** Hand out completions, without a system call. @return their number */
uint32_t aio_disk_reap(struct task_engine *engine);

/**
 * Sleep until a file's request is done or epoll has something to tell, which sets epoll_ready.
 *
 * @return completions handed out, 0 or 1
 */
uint32_t aio_disk_sleep(struct task_engine *engine, uint64_t sleep_ns);

/** Start the socket requests posted since the last call. @return requests that ended here and now */
uint32_t aio_sockets_start(struct task_engine *engine);

/** Take a socket request out of where it waits, for a cancellation. */
void aio_sockets_forget(struct task_engine *engine, struct task_io *io);

/** Have starved receives looked at again if there are buffers. */
void aio_sockets_feed(struct task_engine *engine);

/** A socket is ready for something. @return completions handed out */
uint32_t aio_sockets_ready(struct task_engine *engine, int socket, uint32_t events);

#endif
