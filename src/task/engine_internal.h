/* What the engines of this folder share. */
#ifndef TASK_ENGINE_INTERNAL_H
#define TASK_ENGINE_INTERNAL_H

#include "task/engine.h"

/* The longest piece of a transfer that is handed to the kernel at once; the rest is a continuation. */
#define TASK_IO_PIECE_BYTES (1U << 30)

/**
 * Whether io_uring works in this process with all that the engine needs of it.
 *
 * @param ret_reason  the reason why it does not, as a phrase for the log
 * @return 0 or negative errno. Any thread.
 */
base_must_check int task_uring_probe(const char **ret_reason);

/**
 * Say that io_uring works with less than it could use: once for each node whose options ask for a warning, with the
 * remedy.
 *
 * @param what  the shortcoming, as a phrase for the log
 */
void task_uring_complain(struct tarn_node *node, const char *what, int error);

/*
 * The most requests for files that wait for the round's call; when there are as many, they are handed over at
 * once. A drive that gets a whole round in one wave idles before it and queues behind it.
 */
#define TASK_IO_FILES_UNSENT_MAX 4

/** Whether a request is for a file, not for a socket. */
static inline bool task_io_is_for_file(const struct task_io *io)
{
    return io->op == TASK_IO_READ || io->op == TASK_IO_WRITE || io->op == TASK_IO_FLUSH;
}

/** Begin a READ, WRITE or SEND: nothing is transferred yet. */
void task_io_begin(struct task_io *io);

/**
 * Take the kernel's answer to a READ, WRITE or SEND.
 *
 * @param result  bytes, or negative errno
 * @return true: io->result is final; false: the rest, to which iov and offset now point, is to be issued
 * again
 */
bool task_io_settle(struct task_io *io, int64_t result);

/** Whether a receive may take a buffer: the last ones of the pool are kept for readers and writers of files. */
bool task_io_may_take_buffer(const struct base_buffer_pool *pool);

/** Remove an engine's request from whatever list it is in. */
static inline void task_io_unlink(struct task_io *io)
{
    if (base_list_is_linked(&io->link))
        base_list_remove(&io->link);
}

#endif
