/*
 * Sockets: system calls that do not block, and epoll (level-triggered) to learn when to make them. epoll
 * watches a socket only while a request waits for it, so that a closed socket leaves nothing behind. Files
 * are disk.c's.
 */
#include "task/aio/aio.h"
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    SOCKET_ROOM_MIN = 64,
    RECEIVES_MAX = 4, /* buffers for one connection in one round, so that others get theirs */
    ACCEPTS_MAX = 64,
};

static int make_room(struct task_engine *engine, int socket)
{
    if ((uint32_t)socket < engine->socket_room)
        return 0;
    struct base_account *account = &engine->node->memory;
    uint32_t room = base_max(engine->socket_room, (uint32_t)SOCKET_ROOM_MIN);
    while ((uint32_t)socket >= room)
        room *= 2;
    struct aio_socket *sockets = base_alloc(account, room * sizeof(*sockets));
    if (sockets == NULL)
        return -ENOMEM;
    if (engine->socket_room > 0)
        memcpy(sockets, engine->sockets, engine->socket_room * sizeof(*sockets));
    base_free(account, engine->sockets, engine->socket_room * sizeof(*sockets));
    engine->sockets = sockets;
    engine->socket_room = room;
    return 0;
}

/* Have epoll look for what the requests in a socket's slot wait for. */
static int watch_socket(struct task_engine *engine, int socket)
{
    struct aio_socket *slot = &engine->sockets[socket];
    uint32_t wanted =
        (slot->in != NULL ? (uint32_t)EPOLLIN : 0) | (slot->out != NULL ? (uint32_t)EPOLLOUT : 0);
    if (wanted == slot->watched)
        return 0;
    struct epoll_event event = {.events = wanted, .data.fd = socket};
    int operation = wanted == 0 ? EPOLL_CTL_DEL : slot->watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    int error = epoll_ctl(engine->epoll_fd, operation, socket, &event) == 0 ? 0 : -errno;
    if (error != 0 && wanted != 0)
        return error;
    if (slot->watched == 0)
        engine->watched_count++;
    if (wanted == 0)
        engine->watched_count--;
    slot->watched = wanted;
    return 0;
}

/* Let a request wait for its socket. @return 0, or an error that ends it */
static int wait_ready(struct task_engine *engine, struct task_io *io)
{
    if (io->socket < 0)
        return -EBADF;
    int error = make_room(engine, io->socket);
    if (error != 0)
        return error;
    struct aio_socket *slot = &engine->sockets[io->socket];
    struct task_io **place = io->op == TASK_IO_ACCEPT || io->op == TASK_IO_RECEIVE ? &slot->in : &slot->out;
    base_assert(*place == NULL);
    *place = io;
    error = watch_socket(engine, io->socket);
    if (error != 0)
        *place = NULL;
    return error;
}

/* Take a request out of its socket's slot, if it is there. */
static void leave_slot(struct task_engine *engine, struct task_io *io)
{
    if ((uint32_t)io->socket >= engine->socket_room)
        return;
    struct aio_socket *slot = &engine->sockets[io->socket];
    if (slot->in == io)
        slot->in = NULL;
    else if (slot->out == io)
        slot->out = NULL;
    else
        return;
    (void)watch_socket(engine, io->socket); /* removing events from a watch does not fail */
}

void aio_sockets_forget(struct task_engine *engine, struct task_io *io)
{
    if (base_list_is_linked(&io->link))
        base_list_remove(&io->link); /* from `posted` or `starved` */
    else
        leave_slot(engine, io);
}

/* @return whether the request has ended, with io->result */
static bool try_send(struct task_io *io)
{
    for (;;) {
        struct msghdr header = {.msg_iov = io->iov, .msg_iovlen = io->iov_count};
        ssize_t sent = sendmsg(io->socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN)
            return false;
        if (task_io_settle(io, sent < 0 ? -errno : sent))
            return true;
    }
}

static bool try_connect(struct task_io *io)
{
    io->result = connect(io->socket, io->address, io->address_bytes) == 0 ? 0 : -errno;
    return io->result != -EINPROGRESS;
}

void aio_sockets_feed(struct task_engine *engine)
{
    if (base_list_empty(&engine->starved) || !task_io_may_take_buffer(engine->pool))
        return;
    struct base_list starved;
    base_list_init(&starved);
    base_list_move_all(&starved, &engine->starved);
    base_list_move_all(&engine->posted, &starved); /* which looks at them in this round */
}

/* The outcome of an attempt to receive. */
enum arrival {
    ARRIVAL_NONE,    /* the socket has nothing: the request waits for it */
    ARRIVAL_STARVED, /* there is no buffer: the request is in `starved` */
    ARRIVAL_SOME,    /* bytes were handed out; there may be more */
    ARRIVAL_ALL,     /* all bytes were handed out, or the request has ended */
};

static enum arrival receive_one(struct task_engine *engine, struct task_io *io)
{
    struct base_buffer *buffer = task_io_may_take_buffer(engine->pool) ? base_buffer_get(engine->pool) : NULL;
    if (buffer == NULL) {
        leave_slot(engine, io);
        base_list_push_back(&engine->starved, &io->link);
        return ARRIVAL_STARVED;
    }
    ssize_t bytes = recv(io->socket, buffer->data, buffer->capacity, MSG_DONTWAIT);
    int result = bytes < 0 ? -errno : (int)bytes;
    if (bytes <= 0)
        base_buffer_put(buffer);
    if (result == -EAGAIN || result == -EINTR)
        return ARRIVAL_NONE;
    bool more = bytes > 0 && !io->once;
    if (bytes > 0) {
        buffer->end = (uint32_t)bytes;
        io->buffer = buffer;
    }
    if (!more)
        leave_slot(engine, io);
    bool whole = bytes == buffer->capacity;
    aio_finish(io, result, more);
    return more && whole && !io->cancelling ? ARRIVAL_SOME : ARRIVAL_ALL;
}

/* Take the bytes that have arrived. @return completions */
static uint32_t receive_bytes(struct task_engine *engine, struct task_io *io)
{
    for (uint32_t count = 0; count < RECEIVES_MAX; count++) {
        enum arrival arrival = receive_one(engine, io);
        if (arrival != ARRIVAL_SOME)
            return count + (arrival == ARRIVAL_ALL);
    }
    return RECEIVES_MAX;
}

static uint32_t take_connections(struct task_engine *engine, struct task_io *io)
{
    for (uint32_t count = 0;; count++) {
        if (count == ACCEPTS_MAX || io->cancelling)
            return count;
        int socket = accept4(io->socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket >= 0) {
            aio_finish(io, socket, true);
            continue;
        }
        int error = -errno;
        if (error == -EAGAIN || error == -EINTR)
            return count;
        leave_slot(engine, io);
        aio_finish(io, error, false);
        return count + 1;
    }
}

/* Begin a request. @return completions */
static uint32_t start_poll(struct task_engine *engine, struct task_io *io)
{
    if ((io->op == TASK_IO_SEND && try_send(io)) || (io->op == TASK_IO_CONNECT && try_connect(io))) {
        aio_finish(io, io->result, false);
        return 1;
    }
    /* a task that asks for one arrival is in the middle of a stream: more is likely to be there */
    enum arrival arrival = io->op == TASK_IO_RECEIVE && io->once ? receive_one(engine, io) : ARRIVAL_NONE;
    if (arrival != ARRIVAL_NONE)
        return arrival != ARRIVAL_STARVED;
    int error = wait_ready(engine, io);
    if (error != 0) {
        aio_finish(io, error, false);
        return 1;
    }
    /* accepting at once also tells whether the socket listens at all */
    return io->op == TASK_IO_ACCEPT ? take_connections(engine, io) : 0;
}

uint32_t aio_sockets_start(struct task_engine *engine)
{
    uint32_t count = 0;
    struct base_list posted;
    base_list_init(&posted);
    base_list_move_all(&posted, &engine->posted);
    struct base_list *first;
    while ((first = base_list_pop_front(&posted)) != NULL)
        count += start_poll(engine, base_container_of(first, struct task_io, link));
    return count;
}

static uint32_t go_on_writing(struct task_engine *engine, struct task_io *io)
{
    if (io->op == TASK_IO_CONNECT) {
        socklen_t bytes = sizeof(io->result);
        if (getsockopt(io->socket, SOL_SOCKET, SO_ERROR, &io->result, &bytes) != 0)
            io->result = errno;
        io->result = -io->result;
    } else if (!try_send(io)) {
        return 0;
    }
    leave_slot(engine, io);
    aio_finish(io, io->result, false);
    return 1;
}

uint32_t aio_sockets_ready(struct task_engine *engine, int socket, uint32_t events)
{
    uint32_t count = 0;
    const uint32_t broken = EPOLLERR | EPOLLHUP;
    struct task_io *out = engine->sockets[socket].out;
    if (out != NULL && (events & (EPOLLOUT | broken)) != 0)
        count += go_on_writing(engine, out);
    struct task_io *in = engine->sockets[socket].in; /* what `out` called may have changed it */
    if (in != NULL && (events & (EPOLLIN | broken)) != 0)
        count += in->op == TASK_IO_ACCEPT ? take_connections(engine, in) : receive_bytes(engine, in);
    return count;
}
