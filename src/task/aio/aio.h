/*
 * The AIO engine, for machines without io_uring: Linux AIO for files, epoll for sockets. It sleeps in epoll,
 * or, with files in flight, in AIO, which then watches epoll for it.
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
    uint32_t head; /* index of the next event to take; the scheduler moves it */
    uint32_t tail; /* index behind the last event; the kernel moves it */
    uint32_t magic;
    uint32_t compat_features;
    uint32_t incompat_features;
    uint32_t header_bytes;
};

_Static_assert(sizeof(struct aio_ring) == 32, "the kernel's layout");

#define AIO_RING_MAGIC 0xa10a10a1U

/* The most requests that one io_submit hands over. */
#define AIO_BATCH 64

/* The pause before the next attempt when the kernel takes no more requests: it does not say when it takes them again. */
#define AIO_RETRY_NS 1000000

/* The requests that wait for a socket's readiness; slots are found by descriptor. */
struct aio_socket {
    struct task_io *in;  /* a waiting ACCEPT or RECEIVE, or NULL */
    struct task_io *out; /* a waiting SEND or CONNECT, or NULL */
    uint32_t watched;    /* the epoll events that the socket is registered for; 0: not registered */
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
    bool epoll_ready; /* that request was done: epoll has events */
    uint32_t in_flight;
    uint32_t in_flight_max;
    uint32_t files_unsent; /* requests for files that were posted and not yet handed to the kernel */
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

/** Wait for the requests in flight and end the context. */
void aio_disk_close(struct task_engine *engine);

/** Submit the queue as far as the context has room. @return number of requests that ended within the call */
uint32_t aio_disk_submit(struct task_engine *engine);

/** Hand the queue to the kernel as far as the kernel takes it; a refused request stays queued. */
void aio_disk_send(struct task_engine *engine);

/** Hand out completions, without a system call. @return their number */
uint32_t aio_disk_reap(struct task_engine *engine);

/**
 * Sleep until a file's request is done or epoll has an event; the latter sets epoll_ready.
 *
 * @return completions handed out, 0 or 1
 */
uint32_t aio_disk_sleep(struct task_engine *engine, uint64_t sleep_ns);

/** Start the socket requests posted since the last call. @return number of requests that ended within the call */
uint32_t aio_sockets_start(struct task_engine *engine);

/** Take a socket request out of where it waits, for a cancellation. */
void aio_sockets_forget(struct task_engine *engine, struct task_io *io);

/** Have starved receives tried again if the pool has buffers. */
void aio_sockets_feed(struct task_engine *engine);

/** Go on with the requests of a socket that has become ready. @return completions handed out */
uint32_t aio_sockets_ready(struct task_engine *engine, int socket, uint32_t events);

#endif
