/* Threads of Tarn itself: named, and left alone by signals. */
#ifndef TASK_THREAD_H
#define TASK_THREAD_H

#include "base/base.h"
#include <pthread.h>

/**
 * Start a thread. It blocks all signals but those that report a fault of its own: the others are for the threads of the
 * program.
 *
 * @param name        of 15 bytes at most, as tools show it
 * @param ret_thread  for pthread_join()
 * @return 0; pthread_create's error, negative
 */
base_must_check int task_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *arg),
                                      void *arg);

#endif
