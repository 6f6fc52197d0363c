/*
 * The closer: a thread that closes descriptors which peers have chosen. It needs nothing else, so that it may outlive its
 * fabric.
 */
#include "fabric/shm/shm.h"
#include "task/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 2000

/* Close what comes through a pipe until a -1 comes, or its other end is closed. */
static void *run_closer(void *arg)
{
    const int end = (int)(intptr_t)arg;
    int fd;
    while (read(end, &fd, sizeof(fd)) == (ssize_t)sizeof(fd) && fd >= 0)
        (void)close(fd);
    (void)close(end);
    return NULL;
}

int shm_closer_open(struct shm *shm)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    int error = fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0 ? -errno : 0;
    if (error == 0)
        error = task_thread_start(&shm->closer_thread, "tarn-close", run_closer,
                                  (void *)(intptr_t)ends[0]); /* NOLINT(performance-no-int-to-ptr) */
    if (error != 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        return error;
    }
    shm->closer = ends[1];
    return 0;
}

void shm_closer_close(const struct shm *shm)
{
    struct pollfd other_end = {.fd = shm->closer}; /* POLLERR is told when the thread has closed it */
    const int last = -1;
    const bool ends = write(shm->closer, &last, sizeof(last)) == (ssize_t)sizeof(last) &&
                      poll(&other_end, 1, PATIENCE_MS) == 1;
    (void)close(shm->closer);
    if (ends)
        (void)pthread_join(shm->closer_thread, NULL);
    else
        (void)pthread_detach(
            shm->closer_thread); /* it ends by itself, when what a peer has chosen is closed */
}

void shm_close_later(int closer, int fd)
{
    if (write(closer, &fd, sizeof(fd)) != (ssize_t)sizeof(fd)) /* there is none, or 16,000 wait already */
        (void)close(fd);
}

void shm_socket_close(int closer, int fd)
{
    (void)shutdown(fd, SHUT_RDWR);
    shm_close_later(closer, fd);
}
