/*
 * Engines: how a scheduler talks to the kernel. One io_uring, or one Linux AIO context and one
 * epoll, serves drives, sockets and wake-ups of a scheduler; the simulator has its own. Only `drive` and
 * net.c post requests here.
 *
 * Everything but wake() is called by the scheduler's own thread. A request is in the caller's
 * memory and must live until `done` was called for the last time; `done` runs on the scheduler's
 * stack and must not yield. Posting makes no system call but for files, which are handed over in
 * fours; all other requests of a round go to the kernel with the round's one call.
 */
#ifndef TASK_ENGINE_H
#define TASK_ENGINE_H

#include "base/buffer.h"
#include "base/list.h"
#include "task/sched.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct task_engine;

/* An open file that engines may register; task/file.c. */
struct task_file {
    int fd;
    uint32_t number;     /* index of the file's slot in every engine's table */
    uint64_t generation; /* tells a new file in an old slot */
    struct tarn_node *node;
    /* private to task/file.c */
    struct task_message drop; /* the message that goes from scheduler to scheduler when the file is closed */
    uint32_t drop_next;       /* index of the scheduler that gets `drop` next */
};

#define TASK_FILES_MAX 64

enum task_io_op {
    TASK_IO_READ,  /* file, offset, iov: as preadv2 */
    TASK_IO_WRITE, /* file, offset, iov: as pwritev2, with RWF_DSYNC if `durable` */
    TASK_IO_FLUSH, /* file: fdatasync */
    TASK_IO_ACCEPT, /* socket; done once for each connection: result = the connection's descriptor (non-blocking,
                        close-on-exec) */
    TASK_IO_RECEIVE, /* socket; done for each arrival: result bytes in `buffer`, 0 at the end of the stream */
    TASK_IO_SEND,    /* socket, iov: done when all is sent (result = bytes) or it failed */
    TASK_IO_CONNECT, /* socket, address */
};

struct task_io {
    struct base_list link; /* the engine's */
    enum task_io_op op;
    bool durable;
    bool once;       /* RECEIVE: the request ends after one arrival, of one buffer */
    bool more;       /* in done: ACCEPT and RECEIVE go on; false: this was the last */
    bool cancelling; /* private to the engine, like the next two fields: cancel() was called */
    bool cancel_issued;
    bool over;
    int32_t result; /* in done: bytes or descriptor, or negative errno */
    int socket;
    struct task_file *file;
    uint64_t offset;
    struct iovec *iov;  /* the memory to transfer; the engine changes it after a short transfer */
    uint32_t iov_count; /* at most TASK_IOV_MAX */
    int32_t region;     /* the region of registered memory that all of iov lies in, -1: none */
    const struct sockaddr *address;
    socklen_t address_bytes;
    struct base_buffer *buffer; /* in done of RECEIVE with result > 0: the bytes, now owned by the callee */
    uint64_t done_bytes;        /* private to the engine: bytes transferred so far */
    void (*done)(struct task_io *io);
    void *arg;
};

#define TASK_IOV_MAX 256

struct task_engine_ops {
    const char *name;

    /** Make the engine of a scheduler, called by the thread that opens the scheduler. @return 0 or negative errno; task_engine_open() logs
     * that of `uring`, the others log theirs */
    int (*open)(struct task_sched *sched, void *arg, struct task_engine **ret_engine);

    /** First call in the thread that runs the scheduler, before anything else. @return 0 or negative errno */
    int (*begin)(struct task_engine *engine);

    /** Free the engine. Requests that are still posted are never done, but their memory must still be there. */
    void (*close)(struct task_engine *engine);

    /** Queue a request; every outcome, errors too, comes through done, never before post returns. */
    void (*post)(struct task_engine *engine, struct task_io *io);

    /** Ask for an early end; done is still called (result -ECANCELED if it was not too late). */
    void (*cancel)(struct task_engine *engine, struct task_io *io);

    /**
     * Send the posted requests and hand out completions; with sleep_ns > 0 and nothing to hand out,
     * sleep until a request completes, wake() is called or the time is over (TASK_FOREVER: no end).
     *
     * @return number of completions
     */
    uint32_t (*poll)(struct task_engine *engine, uint64_t sleep_ns);

    /** End a sleep in poll, or the next one. Any thread. */
    void (*wake)(struct task_engine *engine);

    /** The eventfd that does the same when it is written to; NULL: there is none. */
    int (*wake_descriptor)(const struct task_engine *engine);

    /** Forget a file before its descriptor is closed. */
    void (*drop_file)(struct task_engine *engine, uint32_t number);
};

/** The engines; task_engine_choose() says which one a node uses. */
extern const struct task_engine_ops task_engine_uring;
extern const struct task_engine_ops task_engine_aio;

/** The engine that the node's next scheduler gets: the one that the node's options ask for, or the best that works
 * here; logged with the reason. @return NULL: forced but impossible (logged) */
const struct task_engine_ops *task_engine_choose(struct tarn_node *node);

/**
 * Make a scheduler's engine, the chosen one. Where no ring can be made for it, and none was asked for, this scheduler
 * and those opened later get `aio`; those that have a ring keep it.
 *
 * @return 0; -ENOTSUP, -ENOMEM, -EMFILE and the like, logged
 */
base_must_check int task_engine_open(struct task_sched *sched);

/** The scheduler's engine and its operations, for posting. */
void task_io_post(struct task_sched *sched, struct task_io *io);

/** Ask for an early end of a posted request. */
void task_io_cancel(struct task_sched *sched, struct task_io *io);

/**
 * Let engines know a descriptor by number.
 *
 * @param fd  the file's from now on: closed by task_file_close()
 * @return 0; -ENOMEM; -ENFILE (TASK_FILES_MAX are open). Any thread.
 */
base_must_check int task_file_open(struct tarn_node *node, int fd, struct task_file **ret_file);

/** Have every engine forget the file, then close it; may end after this returns. No request may be posted.
 * Any thread. */
void task_file_close(struct task_file *file);

#endif
