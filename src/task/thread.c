/* Threads of Tarn itself: named, with every signal left to the program. */
#include "task/thread.h"
#include <signal.h>

int task_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *arg), void *arg)
{
    sigset_t blocked, before;
    (void)sigfillset(&blocked);
    (void)sigdelset(&blocked, SIGSEGV);
    (void)sigdelset(&blocked, SIGBUS);
    (void)pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int error = pthread_create(ret_thread, NULL, run, arg);
    if (error == 0)
        (void)pthread_setname_np(*ret_thread, name);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}
