/* Connections: receiving, serving, reading, writing, closing. Listeners are net_listener.c's, addresses net_address.c's. */
#include "task/net.h"
#include "task/net_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum {
    COMPLAINTS_MAX = 1,
    COMPLAINTS_INTERVAL_S = 10,
};

static struct base_account *account_of(const struct task_sched *sched)
{
    return &sched->node->memory;
}

struct net_sched *net_sched_get(struct task_sched *sched)
{
    struct net_sched *net = sched->net;
    if (net != NULL)
        return net;
    net = base_alloc(account_of(sched), sizeof(*net));
    if (net == NULL)
        return NULL;
    net->sched = sched;
    net->serving_max = UINT32_MAX;
    base_list_init(&net->connections);
    base_list_init(&net->listeners);
    base_list_init(&net->waiting);
    base_list_init(&net->paused);
    net->spare = -1;
    base_log_limit_init(&net->complaints, COMPLAINTS_MAX, COMPLAINTS_INTERVAL_S * UINT64_C(1000000000));
    __atomic_store_n(&sched->net, net, __ATOMIC_RELEASE); /* pairs with net_connection_count() */
    return net;
}

/* ---- the end of a connection -------------------------------------------------------------------- */

void net_connection_drop(struct net_connection *connection)
{
    struct tarn_node *node = connection->listener->node;
    (void)close(connection->socket);
    net_listener_put(connection->listener);
    base_free(&node->memory, connection, sizeof(*connection));
}

/* Take a connection off its scheduler and free it. It has no posted request, and no task serves it. */
static void destroy_connection(struct net_connection *connection)
{
    struct net_sched *net = connection->net;
    (void)close(connection->socket);
    base_buffer_list_clear(&connection->unread);
    base_list_remove(&connection->link);
    if (base_list_is_linked(&connection->waiting))
        base_list_remove(&connection->waiting);
    atomic_fetch_sub_explicit(&net->connection_count, 1, memory_order_relaxed);
    if (connection->handler != NULL && connection->handler->closed != NULL)
        connection->handler->closed(connection);
    if (connection->listener != NULL)
        net_listener_put(connection->listener);
    base_free(account_of(net->sched), connection, sizeof(*connection));
}

static void destroy_if_over(struct net_connection *connection)
{
    if (connection->closed && !connection->receiving && !connection->served)
        destroy_connection(connection);
}

void net_close(struct net_connection *connection)
{
    base_assert(!connection->closed && connection->served);
    connection->closed = true;
    if (!connection->looping)
        connection->served = false;
    base_buffer_list_clear(&connection->unread);
    if (connection->receiving)
        task_io_cancel(connection->net->sched, &connection->receive);
    destroy_if_over(connection);
}

/* ---- serving ------------------------------------------------------------------------------------ */

static bool has_input(const struct net_connection *connection)
{
    return connection->unread.head != NULL || connection->ended || connection->error != 0;
}

/* Have the handler serve a connection until it has nothing to read or is closed. In a task. */
static void serve_one(struct net_connection *connection)
{
    connection->served = true;
    connection->looping = true;
    for (;;) {
        connection->handler->ready(connection);
        if (!connection->closed && connection->end_told)
            net_close(connection);
        if (connection->closed || !has_input(connection))
            break;
        task_yield(); /* other tasks get their turn first */
    }
    connection->served = false;
    connection->looping = false;
    destroy_if_over(connection);
}

static void serve_connection(void *arg)
{
    struct net_connection *connection = arg;
    struct net_sched *net = connection->net;
    while (connection != NULL) {
        serve_one(connection);
        /* a connection that found no free task gets this one */
        struct base_list *next = base_list_pop_front(&net->waiting);
        connection = next == NULL ? NULL : base_container_of(next, struct net_connection, waiting);
        if (connection != NULL) {
            connection->served = true;
            task_yield();
        }
    }
    net->serving--;
}

/* @return false: the tasks' limit is reached, or there is no stack */
static bool start_task(struct net_connection *connection)
{
    const char *name = connection->handler->task_name;
    if (connection->net->serving == connection->net->serving_max)
        return false;
    if (task_spawn(NULL, NULL, name == NULL ? "connection" : name, serve_connection, connection) != 0)
        return false;
    connection->net->serving++;
    connection->served = true;
    return true;
}

int net_limit_tasks(struct task_sched *sched, uint32_t tasks_max)
{
    struct net_sched *net = net_sched_get(sched);
    if (net == NULL)
        return -ENOMEM;
    net->serving_max = tasks_max;
    return 0;
}

/* Something has arrived: wake the task that reads, or start one that serves the connection. */
static void notify_reader(struct net_connection *connection)
{
    struct net_sched *net = connection->net;
    if (connection->reader != NULL) {
        struct task_wait *reader = connection->reader;
        connection->reader = NULL;
        (void)task_wait_wake(reader, 0);
    } else if (!connection->served && !base_list_is_linked(&connection->waiting) && !start_task(connection)) {
        if (base_list_empty(&net->waiting) && base_list_empty(&net->paused))
            net->retry_ns = task_now() + NET_RETRY_NS;
        base_list_push_back(&net->waiting, &connection->waiting);
    }
}

bool net_sched_waits(const struct task_sched *sched)
{
    const struct net_sched *net = sched->net;
    return net != NULL && (!base_list_empty(&net->waiting) || !base_list_empty(&net->paused));
}

bool net_sched_retry(struct task_sched *sched)
{
    if (base_likely(!net_sched_waits(sched)))
        return false;
    struct net_sched *net = sched->net;
    uint64_t now_ns = task_now();
    if (now_ns < net->retry_ns)
        return false;
    net->retry_ns = now_ns + NET_RETRY_NS;
    bool worked = false;
    struct base_list *first;
    while ((first = base_list_first(&net->waiting)) != NULL &&
           start_task(base_container_of(first, struct net_connection, waiting))) {
        base_list_remove(first);
        worked = true;
    }
    while ((first = base_list_first(&net->paused)) != NULL)
        net_listener_resume(base_container_of(first, struct net_listener, paused));
    return worked;
}

/* ---- receiving ---------------------------------------------------------------------------------- */

/*
 * Receive, unless a receive is posted, the stream is over, or enough is unread. A peer that sends more than is
 * read is received from one buffer at a time, because the kernel is slow to stop a receive that goes on.
 */
static void receive_more(struct net_connection *connection)
{
    if (connection->receiving || connection->closed || connection->ended || connection->error != 0 ||
        connection->unread_count >= NET_UNREAD_BUFFERS_MAX)
        return;
    bool on_demand = connection->direct || (connection->handler != NULL && connection->handler->on_demand);
    if (on_demand && !connection->demanded)
        return;
    connection->demanded = false;
    connection->receiving = true;
    connection->receive.once = connection->flooding || on_demand;
    connection->pausing = false;
    task_io_post(connection->net->sched, &connection->receive);
}

/*
 * Keep the bytes that arrived: in the room of the last buffer if they fit there, so that small pieces hold no
 * large memory.
 */
static void keep_buffer(struct net_connection *connection, struct base_buffer *buffer)
{
    struct base_buffer_list *unread = &connection->unread;
    if (unread->head == NULL)
        connection->unread_ns = task_now();
    if (base_buffer_room(buffer) > 0)
        connection->flooding = false; /* the socket was found empty */
    uint32_t bytes = base_buffer_bytes(buffer);
    if (unread->head != NULL && base_buffer_room(unread->tail) >= bytes &&
        base_buffer_list_copy_in(unread, buffer->pool, buffer->data + buffer->begin, bytes) == 0) {
        base_buffer_put(buffer);
        return;
    }
    base_buffer_list_append(unread, buffer);
    connection->unread_count++;
}

static void pause_receive(struct net_connection *connection)
{
    connection->pausing = true;
    task_io_cancel(connection->net->sched, &connection->receive);
}

static void receive_done(struct task_io *io)
{
    struct net_connection *connection = io->arg;
    connection->receiving = io->more;
    if (connection->closed) {
        if (io->result > 0)
            base_buffer_put(io->buffer);
        destroy_if_over(connection);
        return;
    }
    if (io->result > 0 && connection->ended)
        base_buffer_put(io->buffer);
    else if (io->result > 0)
        keep_buffer(connection, io->buffer);
    else if (io->result == 0)
        connection->ended = true;
    else if (io->result != -ECANCELED || !connection->pausing)
        connection->error = io->result;
    if (connection->receiving && !connection->pausing && connection->unread_count >= NET_UNREAD_BUFFERS_MAX) {
        connection->flooding = true;
        pause_receive(connection);
    }
    receive_more(connection);
    if (has_input(connection))
        notify_reader(connection);
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* Copy out unread bytes. */
static size_t take_received(struct net_connection *connection, uint8_t *to, size_t room)
{
    struct base_buffer_list *unread = &connection->unread;
    size_t taken = 0;
    while (taken < room && unread->head != NULL) {
        struct base_buffer *head = unread->head;
        size_t piece = base_min(room - taken, (size_t)base_buffer_bytes(head));
        memcpy(to + taken, head->data + head->begin, piece);
        base_buffer_list_consume(unread, piece);
        if (unread->head != head)
            connection->unread_count--;
        taken += piece;
    }
    return taken;
}

void net_set_direct(struct net_connection *connection, bool direct)
{
    connection->direct = direct;
    if (direct && connection->receiving && !connection->receive.once && !connection->pausing)
        pause_receive(connection);
    else
        receive_more(connection);
}

/* Receive into the reader's memory, while no posted receive takes bytes. @return as net_read_try() */
static ssize_t receive_direct(struct net_connection *connection, void *buffer, size_t room)
{
    ssize_t bytes = recv(connection->socket, buffer, room, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return -EAGAIN;
    connection->arrived_ns = task_now();
    connection->ended = bytes == 0;
    connection->error = bytes < 0 ? -errno : 0;
    connection->end_told = bytes <= 0;
    return bytes < 0 ? -errno : bytes;
}

ssize_t net_read_try(struct net_connection *connection, void *buffer, size_t room)
{
    if (connection->unread.head != NULL) {
        size_t taken = take_received(connection, buffer, room);
        connection->arrived_ns = connection->unread_ns;
        if (connection->unread.head != NULL)
            connection->unread_ns = task_now(); /* the rest may have come at any time since then */
        receive_more(connection);
        return (ssize_t)taken;
    }
    if (!connection->ended && connection->error == 0)
        return connection->direct && !connection->receiving ? receive_direct(connection, buffer, room)
                                                            : -EAGAIN;
    connection->end_told = true;
    return connection->error;
}

void net_demand(struct net_connection *connection)
{
    connection->demanded = true;
    receive_more(connection);
}

int net_await(struct net_connection *connection, uint64_t deadline_ns)
{
    while (!has_input(connection)) {
        net_demand(connection);
        struct task_wait wait;
        task_wait_init(&wait);
        connection->reader = &wait;
        int error = task_wait_park(&wait, deadline_ns);
        connection->reader = NULL;
        if (error != 0)
            return error;
    }
    return 0;
}

ssize_t net_read(struct net_connection *connection, void *buffer, size_t room, uint64_t deadline_ns)
{
    for (;;) {
        ssize_t bytes = net_read_try(connection, buffer, room);
        if (bytes != -EAGAIN)
            return bytes;
        int error = net_await(connection, deadline_ns);
        if (error != 0)
            return error;
    }
}

uint64_t net_arrived_ns(const struct net_connection *connection)
{
    return connection->arrived_ns;
}

/* ---- writing and connecting --------------------------------------------------------------------- */

static void call_done(struct task_io *io)
{
    struct net_call *call = io->arg;
    call->finished = true;
    (void)task_wait_wake(&call->wait, 0); /* false: the deadline was first, and has made the task runnable */
}

int net_call_run(struct net_call *call, uint64_t deadline_ns)
{
    struct task_sched *sched = task_sched_self();
    call->io.done = call_done;
    call->io.arg = call;
    call->finished = false;
    task_wait_init(&call->wait);
    task_io_post(sched, &call->io);
    int error = task_wait_park(&call->wait, deadline_ns);
    if (!call->finished) {
        task_wait_init(&call->wait);
        task_io_cancel(sched, &call->io);
        (void)task_wait_park_firmly(&call->wait);
    }
    return call->io.result == -ECANCELED && error != 0 ? error : call->io.result;
}

int net_writev(struct net_connection *connection, struct iovec *iov, uint32_t iov_count, uint64_t deadline_ns)
{
    if (connection->broken)
        return -EPIPE;
    struct net_call call = {.io = {.op = TASK_IO_SEND,
                                   .socket = connection->socket,
                                   .iov = iov,
                                   .iov_count = iov_count,
                                   .region = -1}};
    int result = net_call_run(&call, deadline_ns);
    connection->broken = result < 0;
    return base_min(result, 0);
}

int net_write(struct net_connection *connection, const void *data, size_t bytes, uint64_t deadline_ns)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
    return net_writev(connection, &iov, 1, deadline_ns);
}

/* Make a connection part of its scheduler, receiving. */
static void join_scheduler(struct net_sched *net, struct net_connection *connection)
{
    connection->net = net;
    connection->receive = (struct task_io){
        .op = TASK_IO_RECEIVE, .socket = connection->socket, .done = receive_done, .arg = connection};
    base_list_push_back(&net->connections, &connection->link);
    atomic_fetch_add_explicit(&net->connection_count, 1, memory_order_relaxed);
}

void net_connection_adopt(struct task_sched *sched, struct net_connection *connection)
{
    struct net_listener *listener = connection->listener;
    struct net_sched *net = net_sched_get(sched);
    if (net == NULL || atomic_load_explicit(&listener->closing, memory_order_relaxed)) {
        net_connection_drop(connection);
        return;
    }
    join_scheduler(net, connection);
    if (listener->accepted != NULL && listener->accepted(connection, listener->arg) < 0) {
        connection->handler = NULL; /* the handler has never seen it, and must not be called for it */
        destroy_connection(connection);
        return;
    }
    receive_more(connection);
}

static int connect_socket(int fd, const struct net_address *address, uint64_t deadline_ns)
{
    for (;;) {
        struct net_call call = {.io = {.op = TASK_IO_CONNECT,
                                       .socket = fd,
                                       .address = (const struct sockaddr *)&address->storage,
                                       .address_bytes = address->bytes}};
        int error = net_call_run(&call, deadline_ns);
        if (error != -EAGAIN)
            return error;
        /* the queue of a Unix socket is full, and the kernel does not say when it has room */
        error = task_sleep(NET_RETRY_NS);
        if (error != 0)
            return error;
        if (task_now() >= deadline_ns)
            return -ETIMEDOUT;
    }
}

/* @return the connected socket or negative errno */
static int open_connected(const struct net_address *address, uint64_t deadline_ns)
{
    int fd = net_address_socket(address);
    if (fd < 0)
        return fd;
    int error = connect_socket(fd, address, deadline_ns);
    if (error == 0)
        return fd;
    (void)close(fd);
    return error;
}

int net_adopt(int socket, const struct net_handler *handler, struct net_connection **ret_connection)
{
    struct net_sched *net = net_sched_get(task_sched_self());
    struct net_connection *connection =
        net == NULL ? NULL : base_alloc(account_of(net->sched), sizeof(*connection));
    if (connection == NULL)
        return -ENOMEM;
    connection->socket = socket;
    connection->handler = handler;
    connection->served = true;
    join_scheduler(net, connection);
    receive_more(connection);
    *ret_connection = connection;
    return 0;
}

int net_connect(const char *address, const struct net_handler *handler, uint64_t deadline_ns,
                struct net_connection **ret_connection)
{
    struct net_address parsed;
    int error = net_address_parse(address, &parsed);
    if (error != 0)
        return error;
    int fd = open_connected(&parsed, deadline_ns);
    if (fd < 0)
        return fd;
    error = net_adopt(fd, handler, ret_connection);
    if (error != 0)
        (void)close(fd);
    return error;
}

int net_duplicate(const struct net_connection *connection)
{
    int fd = fcntl(connection->socket, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

void net_release(struct net_connection *connection)
{
    base_assert(connection->handler != NULL && connection->served && !connection->looping);
    connection->served = false;
    if (has_input(connection))
        notify_reader(connection);
}

/* ---- ending, whichever task serves --------------------------------------------------------------------- */

static void end_reading(struct net_connection *connection)
{
    base_buffer_list_clear(&connection->unread);
    connection->unread_count = 0;
    connection->ended = true;
    notify_reader(connection);
}

void net_shutdown(struct net_connection *connection)
{
    if (connection->closed)
        return;
    (void)shutdown(connection->socket, SHUT_RDWR);
    end_reading(connection);
}

uint32_t net_shutdown_all(struct task_sched *sched)
{
    uint32_t count = 0;
    if (sched->net == NULL)
        return 0;
    base_list_for_each(item, &sched->net->connections) {
        struct net_connection *connection = base_container_of(item, struct net_connection, link);
        if (connection->listener != NULL && !connection->closed)
            end_reading(connection);
        count += connection->listener != NULL;
    }
    return count;
}

void net_sched_close(struct task_sched *sched)
{
    struct net_sched *net = sched->net;
    if (net == NULL)
        return;
    struct base_list *first;
    while ((first = base_list_first(&net->connections)) != NULL)
        destroy_connection(base_container_of(first, struct net_connection, link));
    while ((first = base_list_first(&net->listeners)) != NULL)
        net_listener_abandon(base_container_of(first, struct net_listener, link));
    if (net->spare >= 0)
        (void)close(net->spare);
    base_free(account_of(sched), net, sizeof(*net));
}

/* ---- what a connection is ------------------------------------------------------------------------ */

void net_set_user(struct net_connection *connection, void *user)
{
    connection->user = user;
}

void *net_user(const struct net_connection *connection)
{
    return connection->user;
}

void net_peer(const struct net_connection *connection, char *ret_text, size_t room)
{
    struct net_address peer = {.bytes = sizeof(peer.storage)};
    if (getpeername(connection->socket, (struct sockaddr *)&peer.storage, &peer.bytes) == 0)
        net_address_format(&peer, ret_text, room);
    else
        (void)snprintf(ret_text, room, "gone");
}

uint32_t net_connection_count(const struct task_sched *sched)
{
    const struct net_sched *net = __atomic_load_n(&sched->net, __ATOMIC_ACQUIRE);
    return net == NULL ? 0 : atomic_load_explicit(&net->connection_count, memory_order_relaxed);
}

uint64_t net_refused_count(const struct task_sched *sched)
{
    const struct net_sched *net = __atomic_load_n(&sched->net, __ATOMIC_ACQUIRE);
    return net == NULL ? 0 : atomic_load_explicit(&net->refused, memory_order_relaxed);
}
