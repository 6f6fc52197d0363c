/*
 * The service: one thread of a fabric that watches descriptors. The kernel keeps the pointer to each source, so a source
 * that is forgotten may be freed at once.
 */
#include "fabric/service.h"
#include "task/thread.h"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_MAX 64 /* the most events that are fetched at once */

/*
 * Handle events that were fetched without the lock. If a source was forgotten meanwhile, one of them may be of that
 * source, whose memory may be freed: so they are fetched again. For the same reason an event whose handling has a source
 * forgotten is the last of its batch; the others are fetched again. @return whether the service goes on
 */
static bool handle_locked(struct fabric_service *service, struct epoll_event *events, int count)
{
    task_mutex_assert_held(&service->lock);
    if (service->has_forgotten)
        count = epoll_wait(service->epoll, events, EVENTS_MAX, 0);
    service->has_forgotten = false;
    for (int i = 0; i < count && !service->has_forgotten; i++) {
        struct fabric_source *source = events[i].data.ptr;
        if (source == NULL)
            return false;
        source->event(source);
    }
    service->has_forgotten = false; /* what is fetched from now on is of sources that are watched */
    return true;
}

static void *run_service(void *arg)
{
    struct fabric_service *service = arg;
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
static int watch_fd(const struct fabric_service *service, int fd, struct fabric_source *source)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = source};
    return epoll_ctl(service->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static void close_descriptors(const struct fabric_service *service)
{
    if (service->stop >= 0)
        (void)close(service->stop);
    if (service->epoll >= 0)
        (void)close(service->epoll);
}

int fabric_service_open(struct fabric_service *service, const char *name)
{
    *service = (struct fabric_service){.epoll = epoll_create1(EPOLL_CLOEXEC), .stop = -1};
    task_mutex_init(&service->lock);
    if (service->epoll >= 0)
        service->stop = eventfd(0, EFD_CLOEXEC);
    int error = service->stop < 0 ? -errno : watch_fd(service, service->stop, NULL);
    if (error == 0)
        error = task_thread_start(&service->thread, name, run_service, service);
    if (error != 0)
        close_descriptors(service);
    return error;
}

void fabric_service_close(struct fabric_service *service)
{
    (void)eventfd_write(service->stop, 1);
    (void)pthread_join(service->thread, NULL);
    close_descriptors(service);
}

int fabric_service_watch(struct fabric_service *service, struct fabric_source *source)
{
    source->is_watched = true; /* first, because its event may come at once */
    int error = watch_fd(service, source->fd, source);
    if (error != 0)
        source->is_watched = false;
    return error;
}

void fabric_service_forget_locked(struct fabric_service *service, struct fabric_source *source)
{
    task_mutex_assert_held(&service->lock);
    if (!source->is_watched)
        return;
    source->is_watched = false;
    service->has_forgotten = true;
    (void)epoll_ctl(service->epoll, EPOLL_CTL_DEL, source->fd, NULL);
}
