/*
 * A process of its own for one side of a measurement, and the channel to it: the parent sends a request of
 * a fixed size, the child answers with one of a fixed size. Both are the same program, so the bytes are the
 * structures themselves. A child ends when its channel does, and dies with its parent.
 */
#ifndef LAB_CHILD_H
#define LAB_CHILD_H

#include "bench/machine.h"
#include <sys/types.h>

/** The descriptor of the channel in a child; all others above standard error are closed there. */
#define LAB_CHILD_CHANNEL 3

struct lab_child {
    pid_t pid;
    int channel;
};

/**
 * Fork, and run a function in the child.
 *
 * @param core      index in machine->cores that the child runs on
 * @param function  its return value, 0 to 255, is the child's exit status
 * @return 0; -EMFILE, -EAGAIN and the like
 *
 * The process has no other thread. No buffered output is lost or doubled.
 */
base_must_check int lab_child_start(struct lab_child *child, const struct bench_machine *machine, int core,
                                    int (*function)(void *arg), void *arg);

/**
 * Send a request, and receive the answer.
 *
 * @param request_bytes  0: only receive
 * @param patience_ns    how long the answer may take
 * @return 0; -ETIMEDOUT; -EPIPE (the child has ended)
 */
base_must_check int lab_child_call(struct lab_child *child, const void *request, size_t request_bytes,
                                   void *ret_answer, size_t answer_bytes, uint64_t patience_ns);

/**
 * Have the child end, and wait for it; it is killed if it does not within 20 seconds.
 *
 * @return 0; -ECHILD (it ended otherwise than with status 0)
 */
int lab_child_stop(struct lab_child *child);

/** Stop a child where it is, with all its threads, until lab_child_resume(). */
void lab_child_pause(const struct lab_child *child);

/** Let it go on. */
void lab_child_resume(const struct lab_child *child);

/** In the child: receive a request. @return 0; -EPIPE (the channel has ended) */
base_must_check int lab_child_receive(void *ret_request, size_t bytes);

/** In the child: send an answer. @return 0; -EPIPE */
base_must_check int lab_child_answer(const void *answer, size_t bytes);

#endif
