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
#define SOURCES_MIN        64 /* the first size of the table, which doubles when it is full */

void shm_service_lock(struct shm_service *service)
{
    task_mutex_lock_firmly(&service->lock);
}

void shm_service_unlock(struct shm_service *service)
{
    task_mutex_unlock(&service->lock);
}

/*
 * The number that epoll returns with an event: descriptor and number of the source. An event may be older than the
 * source's removal; by then its descriptor may be another source's, which has another number.
 */
static uint64_t event_data(int fd, uint32_t number)
{
    return (uint64_t)number << 32 | (uint32_t)fd;
}

static void handle_locked(struct shm_service *service, uint64_t data)
{
    task_mutex_assert_held(&service->lock);
    uint32_t fd = (uint32_t)data;
    struct shm_source *source = fd < service->sources_count ? service->sources[fd] : NULL;
    if (source != NULL && event_data(source->fd, source->number) == data)
        source->event(source);
}

static void *run_service(void *arg)
{
    struct shm_service *service = arg;
    struct epoll_event events[EVENTS_MAX];
    for (bool going = true; going;) {
        int count = epoll_wait(service->epoll, events, EVENTS_MAX, -1);
        shm_service_lock(service);
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == event_data(service->stop, 0))
                going = false;
            else
                handle_locked(service, events[i].data.u64);
        }
        shm_service_unlock(service);
    }
    return NULL;
}

static int watch_fd(const struct shm_service *service, int fd, uint32_t number)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = event_data(fd, number)};
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

int shm_service_open(struct shm_service *service, struct base_account *account)
{
    *service = (struct shm_service){.account = account, .epoll = -1, .stop = -1, .closer = -1, .spare = -1};
    task_mutex_init(&service->lock);
    service->epoll = epoll_create1(EPOLL_CLOEXEC);
    service->stop = service->epoll < 0 ? -1 : eventfd(0, EFD_CLOEXEC);
    service->spare = service->stop < 0 ? -1 : spare_descriptor(service);
    int error = service->spare < 0 ? -errno : watch_fd(service, service->stop, 0);
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
    base_free(service->account, service->sources, service->sources_count * sizeof(*service->sources));
}

/* Make room for a descriptor. */
static int grow_sources(struct shm_service *service, uint32_t fd)
{
    uint32_t count = base_max(service->sources_count, (uint32_t)SOURCES_MIN);
    while (count <= fd)
        count *= 2;
    if (count == service->sources_count)
        return 0;
    void *sources =
        base_realloc(service->account, service->sources, service->sources_count * sizeof(*service->sources),
                     count * sizeof(*service->sources));
    if (sources == NULL)
        return -ENOMEM;
    service->sources = sources;
    service->sources_count = count;
    return 0;
}

int shm_service_watch_locked(struct shm_service *service, struct shm_source *source)
{
    task_mutex_assert_held(&service->lock);
    int error = grow_sources(service, (uint32_t)source->fd);
    source->number = ++service->numbers;
    if (error == 0)
        error = watch_fd(service, source->fd, source->number);
    if (error == 0)
        service->sources[source->fd] = source;
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
    if (source->fd < 0 || (uint32_t)source->fd >= service->sources_count ||
        service->sources[source->fd] != source)
        return;
    service->sources[source->fd] = NULL;
    (void)epoll_ctl(service->epoll, EPOLL_CTL_DEL, source->fd, NULL);
}
