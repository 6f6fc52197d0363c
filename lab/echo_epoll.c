/*
 * The peer of Tarn's sockets: one thread around epoll_wait(), non-blocking sockets, edge-triggered, which the
 * kernel looks at once for each arrival and not once more; as few system calls as such a loop can do: a wait
 * for many, then one read and one write for each message.
 */
#include "lab/echo.h"
#include "lab/usage.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS_MAX = 512, READ_BYTES = 16 << 10, BACKLOG = 4096 };

struct connection {
    struct base_list link;
    int fd;
    uint32_t begin, end; /* of what a full socket did not take */
    uint8_t *pending;    /* READ_BYTES, or NULL */
};

struct server {
    struct base_account account;
    struct base_list connections;
    int epoll;
    int listener;
    struct lab_echo_state state;
    uint8_t buffer[READ_BYTES];
};

static int watch(struct server *server, int fd, uint32_t events, void *user)
{
    struct epoll_event event = {.events = events, .data.ptr = user};
    return epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static void close_connection(struct server *server, struct connection *connection)
{
    base_list_remove(&connection->link);
    (void)close(connection->fd); /* leaves the epoll too */
    if (connection->pending != NULL)
        base_free(&server->account, connection->pending, READ_BYTES);
    base_free(&server->account, connection, sizeof(*connection));
}

static void accept_all(struct server *server)
{
    int fd;
    while ((fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        int on = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        struct connection *connection = base_alloc(&server->account, sizeof(*connection));
        if (connection == NULL ||
            watch(server, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, connection) != 0) {
            base_free(&server->account, connection, sizeof(*connection));
            (void)close(fd);
            continue;
        }
        connection->fd = fd;
        base_list_push_back(&server->connections, &connection->link);
    }
}

/* Write what was kept. @return 0: all is gone; -EAGAIN: the socket tells when it takes more; negative errno
 */
static int flush_pending(struct connection *connection)
{
    while (connection->begin < connection->end) {
        ssize_t sent = send(connection->fd, connection->pending + connection->begin,
                            connection->end - connection->begin, MSG_NOSIGNAL);
        if (sent < 0)
            return -errno;
        connection->begin += (uint32_t)sent;
    }
    return 0;
}

/* Write back what was read; what the socket does not take is kept. @return as flush_pending() */
static int write_back(struct server *server, struct connection *connection, size_t bytes)
{
    ssize_t sent = send(connection->fd, server->buffer, bytes, MSG_NOSIGNAL);
    if (sent == (ssize_t)bytes)
        return 0;
    if (sent < 0 && errno != EAGAIN)
        return -errno;
    if (connection->pending == NULL)
        connection->pending = base_alloc(&server->account, READ_BYTES);
    if (connection->pending == NULL)
        return -ENOMEM;
    size_t taken = sent < 0 ? 0 : (size_t)sent;
    memcpy(connection->pending, server->buffer + taken, bytes - taken);
    connection->begin = 0;
    connection->end = (uint32_t)(bytes - taken);
    return -EAGAIN;
}

/*
 * Echo all that is there. A read that does not fill the buffer has emptied the socket, and the next arrival
 * is a new edge: so no read finds nothing, unless the peer has closed, which must be noticed.
 *
 * @return whether the connection goes on
 */
static bool echo(struct server *server, struct connection *connection, uint32_t events)
{
    bool to_the_end =
        (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0 || connection->begin < connection->end;
    int error = flush_pending(connection);
    while (error == 0) {
        ssize_t got = recv(connection->fd, server->buffer, READ_BYTES, 0);
        if (got <= 0)
            return got < 0 && errno == EAGAIN;
        error = write_back(server, connection, (size_t)got);
        if (error == 0 && got < READ_BYTES && !to_the_end)
            return true;
    }
    return error == -EAGAIN;
}

static int answer_state(struct server *server)
{
    int error = lab_usage_read(&server->state.usage);
    if (server->state.error == 0)
        server->state.error = error;
    return lab_child_answer(&server->state, sizeof(server->state));
}

static void serve_sockets(struct server *server)
{
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int count = epoll_wait(server->epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < count; i++) {
            void *user = events[i].data.ptr;
            char byte;
            if (user == &server->listener) {
                accept_all(server);
            } else if (user == server) {
                if (lab_child_receive(&byte, 1) != 0 || answer_state(server) != 0)
                    return;
            } else {
                if (!echo(server, user, events[i].events))
                    close_connection(server, user);
            }
        }
    }
}

static int open_server(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server->epoll < 0 || server->listener < 0 ||
        bind(server->listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(server->listener, BACKLOG) != 0 ||
        getsockname(server->listener, (struct sockaddr *)&address, &bytes) != 0)
        return -errno;
    server->state.port = ntohs(address.sin_port);
    int error = watch(server, server->listener, EPOLLIN, &server->listener);
    if (error == 0)
        error = watch(server, LAB_CHILD_CHANNEL, EPOLLIN, server);
    return error;
}

int lab_echo_epoll(void *arg)
{
    (void)arg;
    struct server server = {.epoll = -1, .listener = -1};
    base_account_init(&server.account, BASE_ACCOUNT_UNLIMITED);
    base_list_init(&server.connections);
    server.state.error = open_server(&server);
    if (answer_state(&server) == 0 && server.state.error == 0)
        serve_sockets(&server);
    while (!base_list_empty(&server.connections))
        close_connection(&server, base_container_of(server.connections.next, struct connection, link));
    (void)close(server.listener);
    (void)close(server.epoll);
    base_account_deinit(&server.account);
    return 0;
}
