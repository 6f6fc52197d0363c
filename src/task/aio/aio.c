/* The engine `aio`: a scheduler's turn with Linux AIO for files and epoll for everything else. */
#include "task/aio/aio.h"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EVENTS_MAX = 256 };

/* ---- making ------------------------------------------------------------------------------------ */

/*
 * An eventfd that is only there to end a sleep: edge-triggered, so that each wake() is an event and the
 * counter never has to be read.
 */
static int open_wake(struct task_engine *engine)
{
    engine->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (engine->wake_fd < 0)
        return -errno;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = engine->wake_fd};
    if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->wake_fd, &event) == 0)
        return 0;
    int error = -errno;
    (void)close(engine->wake_fd);
    return error;
}

static int open_parts(struct task_engine *engine)
{
    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (engine->epoll_fd < 0)
        return -errno;
    int error = open_wake(engine);
    if (error != 0)
        goto close_epoll;
    error = aio_disk_open(engine);
    if (error == 0)
        return 0;
    (void)close(engine->wake_fd);
close_epoll:
    (void)close(engine->epoll_fd);
    return error;
}

static const char *remedy_of(int error)
{
    switch (error) {
    case -EMFILE:
    case -ENFILE:
        return "too many files are open: raise the limit (ulimit -n, LimitNOFILE= of the unit), or have "
               "fewer "
               "threads";
    case -EAGAIN:
        return "the contexts of all processes have used up sysctl fs.aio-max-nr: raise it, or have fewer "
               "threads";
    case -ENOMEM:
        return "have fewer threads, or give them more memory";
    default:
        return "allow Linux AIO and epoll";
    }
}

static int aio_open(struct task_sched *sched, void *arg, struct task_engine **ret_engine)
{
    (void)arg;
    struct tarn_node *node = sched->node;
    struct task_engine *engine = base_alloc(&node->memory, sizeof(*engine));
    if (engine == NULL)
        return -ENOMEM;
    engine->sched = sched;
    engine->node = node;
    engine->pool = &sched->buffers;
    base_list_init(&engine->finished);
    base_list_init(&engine->queued);
    base_list_init(&engine->posted);
    base_list_init(&engine->starved);
    int error = open_parts(engine);
    if (error != 0) {
        base_error(&node->log, "cannot make an AIO context", "sched=%s error=\"%s\" remedy=\"%s\"",
                   sched->name, strerrordesc_np(-error), remedy_of(error));
        base_free(&node->memory, engine, sizeof(*engine));
        return error;
    }
    *ret_engine = engine;
    return 0;
}

static int aio_begin(struct task_engine *engine)
{
    (void)engine;
    return 0;
}

static void aio_close(struct task_engine *engine)
{
    aio_disk_close(engine);
    (void)close(engine->wake_fd);
    (void)close(engine->epoll_fd);
    base_free(&engine->node->memory, engine->sockets, engine->socket_room * sizeof(*engine->sockets));
    base_free(&engine->node->memory, engine, sizeof(*engine));
}

/* ---- requests ---------------------------------------------------------------------------------- */

static void aio_post(struct task_engine *engine, struct task_io *io)
{
    base_list_init(&io->link);
    io->cancelling = false;
    task_io_begin(io);
    bool for_file = task_io_is_for_file(io);
    base_list_push_back(for_file ? &engine->queued : &engine->posted, &io->link);
    if (for_file && ++engine->files_unsent >= TASK_IO_FILES_UNSENT_MAX)
        aio_disk_send(engine);
}

static void aio_cancel(struct task_engine *engine, struct task_io *io)
{
    if (io->cancelling)
        return;
    io->cancelling = true;
    if (!task_io_is_for_file(io))
        aio_sockets_forget(engine, io);
    else if (base_list_is_linked(&io->link))
        base_list_remove(&io->link);
    else
        return; /* the kernel has the request, and does not give it back before it is done */
    base_list_push_back(&engine->finished, &io->link);
}

static uint32_t hand_out_cancelled(struct task_engine *engine)
{
    uint32_t count = 0;
    struct base_list finished;
    base_list_init(&finished);
    base_list_move_all(&finished, &engine->finished);
    struct base_list *first;
    while ((first = base_list_pop_front(&finished)) != NULL) {
        aio_finish(base_container_of(first, struct task_io, link), -ECANCELED, false);
        count++;
    }
    return count;
}

/* ---- the round's calls ------------------------------------------------------------------------- */

/* Ask epoll. @return completions */
static uint32_t look_for_events(struct task_engine *engine, uint64_t sleep_ns)
{
    struct epoll_event events[EVENTS_MAX];
    struct timespec timeout = aio_timespec(sleep_ns);
    int ready =
        epoll_pwait2(engine->epoll_fd, events, EVENTS_MAX, sleep_ns == TASK_FOREVER ? NULL : &timeout, NULL);
    uint32_t count = 0;
    engine->epoll_ready = ready == EVENTS_MAX; /* a full batch: there may be more events */
    for (int i = 0; i < ready; i++) {
        if (events[i].data.fd != engine->wake_fd)
            count += aio_sockets_ready(engine, events[i].data.fd, events[i].events);
    }
    return count;
}

static uint32_t aio_poll(struct task_engine *engine, uint64_t sleep_ns)
{
    uint32_t count = base_list_empty(&engine->finished) ? 0 : hand_out_cancelled(engine);
    aio_sockets_feed(engine);
    if (!base_list_empty(&engine->posted))
        count += aio_sockets_start(engine);
    count += aio_disk_submit(engine);
    count += aio_disk_reap(engine);
    count += aio_disk_submit(engine); /* transfers that turned out to be unfinished */
    if (count > 0)
        sleep_ns = 0;
    if (sleep_ns > 0 && engine->in_flight > 0) {
        count += aio_disk_sleep(engine, sleep_ns);
        count += aio_disk_reap(engine);
        sleep_ns = 0;
    }
    if (!base_list_empty(&engine->queued))
        sleep_ns =
            base_min(sleep_ns, (uint64_t)AIO_RETRY_NS); /* refused, with nothing in flight to wait for */
    if (sleep_ns > 0 || engine->watched_count > 0 || engine->epoll_ready)
        count += look_for_events(engine, sleep_ns);
    return count;
}

static void aio_wake(struct task_engine *engine)
{
    (void)eventfd_write(engine->wake_fd,
                        1); /* fails only when the counter is full, and then the scheduler is awake */
}

static int aio_wake_descriptor(const struct task_engine *engine)
{
    return engine->wake_fd;
}

static void aio_drop_file(struct task_engine *engine, uint32_t number)
{
    (void)engine;
    (void)number;
}

const struct task_engine_ops task_engine_aio = {
    .name = "aio",
    .open = aio_open,
    .begin = aio_begin,
    .close = aio_close,
    .post = aio_post,
    .cancel = aio_cancel,
    .poll = aio_poll,
    .wake = aio_wake,
    .wake_descriptor = aio_wake_descriptor,
    .drop_file = aio_drop_file,
};
