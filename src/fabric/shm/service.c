/* The service: one thread of a fabric that watches descriptors. It only rings bells and frees what has ended. */
#include "fabric/shm/shm.h"
#include "task/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_MAX         64
#define CLOSER_PATIENCE_MS 2000

/*
 * Handle events that were fetched without the lock. If a source was forgotten meanwhile, one of them may be of that
 * source, whose memory may be freed: so they are fetched again. For the same reason an event whose handling has a source
 * forgotten is the last of its batch; the others are fetched again. @return whether the service goes on
 */
static bool handle_locked(struct shm_service *service, struct epoll_event *events, int count)
{
    task_mutex_assert_held(&service->lock);
    if (service->has_forgotten)
        count = epoll_wait(service->epoll, events, EVENTS_MAX, 0);
    service->has_forgotten = false;
    for (int i = 0; i < count && !service->has_forgotten; i++) {
        struct shm_source *source = events[i].data.ptr;
        if (source == NULL)
            return false;
        source->event(source);
    }
    service->has_forgotten = false; /* what is fetched from now on is of sources that are watched */
    return true;
}

static void *run_service(void *arg)
{
    struct shm_service *service = arg;
    struct epoll_event events[EVENTS_MAX];
    for (bool going = true; going;) {
        int count = epoll_wait(service->epoll, events, EVENTS_MAX, -1);
        task_mutex_lock_firmly(&service->lock);
        going = handle_locked(service, events, count);
        task_mutex_unlock(&service->lock);
    }
    return NULL;
}

/* @param source  NULL: the service ends at the event */
static int watch_fd(const struct shm_service *service, int fd, struct shm_source *source)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = source};
    return epoll_ctl(service->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int spare_descriptor(const struct shm_service *service)
{
    return fcntl(service->stop, F_DUPFD_CLOEXEC, 0);
}

/* Close what comes through a pipe until a -1 comes, or its other end is closed. It needs nothing else, so that it may
 * outlive its fabric. */
static void *run_closer(void *arg)
{
    const int end = (int)(intptr_t)arg;
    int fd;
    while (read(end, &fd, sizeof(fd)) == (ssize_t)sizeof(fd) && fd >= 0)
        (void)close(fd);
    (void)close(end);
    return NULL;
}

static int open_closer(struct shm_service *service)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    int error = fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0 ? -errno : 0;
    if (error == 0)
        error = task_thread_start(&service->closer_thread, "tarn-close", run_closer,
                                  (void *)(intptr_t)ends[0]); /* NOLINT(performance-no-int-to-ptr) */
    if (error != 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        return error;
    }
    service->closer = ends[1];
    return 0;
}

/* It ends at once, unless a peer has chosen something that takes longer: then it ends by itself, some time. */
static void close_closer(const struct shm_service *service)
{
    struct pollfd other_end = {.fd = service->closer}; /* POLLERR is told when the thread has closed it */
    const int last = -1;
    if (service->closer < 0)
        return;
    const bool ends = write(service->closer, &last, sizeof(last)) == (ssize_t)sizeof(last) &&
                      poll(&other_end, 1, CLOSER_PATIENCE_MS) == 1;
    (void)close(service->closer);
    if (ends)
        (void)pthread_join(service->closer_thread, NULL);
    else
        (void)pthread_detach(service->closer_thread);
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

static void close_descriptors(const struct shm_service *service)
{
    const int descriptors[] = {service->spare, service->stop, service->epoll};
    close_closer(service);
    for (unsigned i = 0; i < base_array_count(descriptors); i++) {
        if (descriptors[i] >= 0)
            (void)close(descriptors[i]);
    }
}

int shm_service_open(struct shm_service *service)
{
    *service = (struct shm_service){.epoll = -1, .stop = -1, .closer = -1, .spare = -1};
    task_mutex_init(&service->lock);
    service->epoll = epoll_create1(EPOLL_CLOEXEC);
    service->stop = service->epoll < 0 ? -1 : eventfd(0, EFD_CLOEXEC);
    service->spare = service->stop < 0 ? -1 : spare_descriptor(service);
    int error = service->spare < 0 ? -errno : watch_fd(service, service->stop, NULL);
    if (error == 0)
        error = open_closer(service);
    if (error == 0)
        error = task_thread_start(&service->thread, "tarn-fabric", run_service, service);
    if (error != 0)
        close_descriptors(service);
    return error;
}

void shm_service_close(struct shm_service *service)
{
    (void)eventfd_write(service->stop, 1);
    (void)pthread_join(service->thread, NULL);
    close_descriptors(service);
}

int shm_service_watch_locked(struct shm_service *service, struct shm_source *source)
{
    task_mutex_assert_held(&service->lock);
    int error = watch_fd(service, source->fd, source);
    source->is_watched = error == 0;
    return error;
}

void shm_service_refuse_locked(struct shm_service *service, int listening)
{
    task_mutex_assert_held(&service->lock);
    if (service->spare >= 0)
        (void)close(service->spare);
    int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
        shm_hello_refuse(fd, -ENOMEM);
        shm_socket_close(service->closer, fd);
    }
    service->spare = spare_descriptor(service);
}

void shm_service_forget_locked(struct shm_service *service, struct shm_source *source)
{
    task_mutex_assert_held(&service->lock);
    if (!source->is_watched)
        return;
    source->is_watched = false;
    service->has_forgotten = true;
    (void)epoll_ctl(service->epoll, EPOLL_CTL_DEL, source->fd, NULL);
}
