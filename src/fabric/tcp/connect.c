/* Connecting and accepting. A task of the scheduler to which the connection will belong does both. */
#include "fabric/tcp/connection.h"
#include "fabric/tcp/domain.h"
#include "fabric/tcp/hello.h"
#include "fabric/tcp/listener.h"
#include "fabric/tcp/tcp.h"
#include "fabric/tcp/tls.h"
#include "fabric/tcp/wire.h"
#include <errno.h>
#include <string.h>

static uint64_t slot_bytes(uint32_t receive_bytes)
{
    return base_align_up(TCP_MESSAGE_HEAD_BYTES + (uint64_t)receive_bytes, TCP_MESSAGE_HEAD_BYTES);
}

/* One attempt to connect or to accept. */
struct attempt {
    struct tcp_domain *domain;
    struct tarn_fabric_connection *owner;
    const struct tarn_fabric_connect_options *options;
    uint64_t deadline_ns;
    const char *address; /* connecting: the listener's address */
    uint32_t sockets;
    struct tarn_fabric_incoming *client; /* accepting: the same, for tcp_reject() */
    struct tcp_incoming *incoming;       /* accepting: the client, which accept_task() frees */
    struct tcp_hello hello;              /* the other side's hello or welcome */
    int error;
    struct tcp_connection *connection;
};

/* ---- making and freeing ------------------------------------------------------------------------- */

/* Free a connection that has no sockets. */
static void free_parts(struct tcp_connection *connection)
{
    struct base_account *account = &connection->tcp->node->memory;
    const struct tcp_messages *messages = &connection->wire.messages;
    for (uint32_t i = 0; connection->sockets != NULL && i < connection->socket_count; i++) {
        tcp_tls_close(connection->sockets[i].tls);
        tcp_buffer_put(connection->tcp, connection->sockets[i].in);
    }
    base_unmap(account, messages->memory, messages->count * messages->slot_bytes);
    base_free(account, connection->sockets, connection->socket_count * sizeof(struct tcp_socket));
    base_free(account, connection, sizeof(*connection));
}

static struct tcp_connection *make_connection(const struct attempt *attempt)
{
    struct tcp *tcp = attempt->domain->tcp;
    struct base_account *account = &tcp->node->memory;
    struct tcp_connection *connection = base_alloc(account, sizeof(*connection));
    if (connection == NULL)
        return NULL;
    struct tcp_messages *messages = &connection->wire.messages;
    connection->tcp = tcp;
    connection->owner = attempt->owner;
    connection->sched = task_sched_self();
    fabric_bell_init(&connection->bell);
    connection->socket_count = attempt->sockets;
    connection->sockets = base_alloc(account, attempt->sockets * sizeof(struct tcp_socket));
    messages->count = attempt->options->receive_count;
    messages->bytes = attempt->options->receive_bytes;
    messages->slot_bytes = slot_bytes(messages->bytes);
    messages->memory = base_map(account, BASE_PAGE_BYTES, messages->count * messages->slot_bytes);
    if (messages->memory == NULL || connection->sockets == NULL) {
        free_parts(connection);
        return NULL;
    }
    for (uint32_t i = 0; i < connection->socket_count; i++) {
        connection->sockets[i].connection = connection;
        connection->sockets[i].number = i;
    }
    return connection;
}

static const struct net_handler *handler_of(const struct attempt *attempt)
{
    return attempt->sockets > 1 ? &tcp_sockets_handler : &tcp_connection_handler;
}

/* Give a connection's socket its network connection and its TLS. */
static void attach_socket(struct tcp_socket *socket, struct net_connection *net, struct tcp_tls *tls)
{
    socket->net = net;
    socket->tls = tls;
    socket->connection->open_count++;
    net_set_user(net, socket);
    tcp_tls_attach(tls, net);
}

void tcp_connection_free(struct tcp_connection *connection)
{
    struct tcp *tcp = connection->tcp;
    base_spin_lock(&tcp->bell.lock);
    base_list_remove(&connection->link);
    base_spin_unlock(&tcp->bell.lock);
    base_spin_lock(&connection->bell.lock); /* no further tick comes, but one may be under way */
    while (connection->poked)
        fabric_bell_sleep_firmly_locked(&connection->bell);
    base_spin_unlock(&connection->bell.lock);
    free_parts(connection);
}

/* Close the sockets of an attempt that has failed, and free the connection. */
static void abandon_connection(struct tcp_connection *connection)
{
    for (uint32_t i = 0; i < connection->socket_count; i++) {
        if (connection->sockets[i].net != NULL)
            net_close(connection->sockets[i].net);
    }
    base_spin_lock(&connection->bell.lock);
    while (connection->open_count != 0)
        fabric_bell_sleep_firmly_locked(&connection->bell);
    base_spin_unlock(&connection->bell.lock);
    free_parts(connection);
}

/* Begin to serve the sockets of an attempt that has succeeded. */
static void begin_attempt(struct attempt *attempt, struct tcp_connection *connection)
{
    struct tcp *tcp = connection->tcp;
    char name[NET_ADDRESS_TEXT_MAX];
    net_peer(connection->sockets[0].net, name, sizeof(name));
    fabric_connection_name(connection->owner, name);
    connection->wire.sockets = connection->socket_count;
    connection->wire.in_tls = connection->sockets[0].tls != NULL;
    tcp_wire_begin(&connection->wire, attempt->domain, attempt->hello.receive_count,
                   attempt->hello.receive_bytes);
    fabric_connection_data(connection->owner, attempt->hello.data, attempt->hello.data_bytes);
    tcp_connection_prepare(connection);
    base_spin_lock(&tcp->bell.lock);
    base_list_push_back(&tcp->connections, &connection->link);
    fabric_bell_ring_locked(&tcp->bell); /* the clock ticks only while there are connections */
    base_spin_unlock(&tcp->bell.lock);
    attempt->connection = connection;
    for (uint32_t i = 0; i < connection->socket_count; i++)
        net_release(connection->sockets[i].net);
    tcp_connection_demand(connection);
}

/* ---- accepting ---------------------------------------------------------------------------------- */

/* Take a client's sockets, and welcome it by the first, which is taken last: by that it learns what else goes wrong. All
 * of it is done without waiting for the client. */
static int admit_client(struct attempt *attempt, struct tcp_connection *connection)
{
    const struct tcp_hello welcome = tcp_hello_make(TCP_WELCOME, attempt->options);
    uint8_t bytes[TCP_HELLO_BYTES];
    int fd = -1;
    for (uint32_t i = connection->socket_count; i-- > 0;) {
        struct net_connection *net;
        struct tcp_tls *tls;
        fd = tcp_incoming_take(attempt->incoming, i, &tls);
        int error = net_adopt(fd, handler_of(attempt), &net);
        if (error != 0) {
            tcp_hello_refuse(fd, tls, tcp_refusal_of(error));
            return error;
        }
        attach_socket(&connection->sockets[i], net, tls);
    }
    tcp_hello_save(&welcome, bytes);
    return tcp_write_now(fd, connection->sockets[0].tls, bytes, sizeof(bytes)) ? 0 : -ECONNRESET;
}

static void accept_task(void *arg)
{
    struct attempt *attempt = arg;
    struct tcp_connection *connection = make_connection(attempt);
    attempt->error = connection == NULL ? -ENOMEM : admit_client(attempt, connection);
    tcp_reject(attempt->client, attempt->error);
    if (attempt->error == 0)
        begin_attempt(attempt, connection);
    else if (connection != NULL)
        abandon_connection(connection);
}

int tcp_accept(struct tarn_fabric_incoming *client, void *state,
               const struct tarn_fabric_connect_options *options, struct tarn_fabric_connection *owner,
               void **ret_connection)
{
    struct tcp_domain *domain = state;
    struct tcp_incoming *incoming = tcp_incoming_of(client);
    struct attempt attempt = {.domain = domain,
                              .owner = owner,
                              .options = options,
                              .client = client,
                              .incoming = incoming,
                              .hello = *tcp_incoming_hello(incoming)};
    attempt.sockets = attempt.hello.number + 1;
    int error = tcp_run(domain->tcp, accept_task, &attempt);
    if (error != 0) {
        tcp_reject(client, error);
        return error;
    }
    if (attempt.error == 0)
        *ret_connection = attempt.connection;
    return attempt.error;
}

/* ---- connecting --------------------------------------------------------------------------------- */

/* Send a hello by a socket. @return 0; -ETIMEDOUT; -ECANCELED. Another failure is left to the next read, which has its
 * reason. */
static int say_hello(const struct attempt *attempt, const struct tcp_socket *socket,
                     const struct tcp_hello *hello)
{
    uint8_t bytes[TCP_HELLO_BYTES];
    tcp_hello_save(hello, bytes);
    int error = tcp_write(socket->net, socket->tls, bytes, sizeof(bytes), attempt->deadline_ns);
    return error == -ETIMEDOUT || error == -ECANCELED ? error : 0;
}

/* Read a hello of a kind from a socket. */
static int hear_hello(const struct attempt *attempt, const struct tcp_socket *socket,
                      enum tcp_hello_kind kind, struct tcp_hello *ret_hello)
{
    uint8_t bytes[TCP_HELLO_BYTES];
    for (size_t at = 0; at < sizeof(bytes);) {
        ssize_t more =
            tcp_read(socket->net, socket->tls, bytes + at, sizeof(bytes) - at, attempt->deadline_ns);
        if (more <= 0)
            return more == 0 ? -ECONNRESET : (int)more;
        at += (size_t)more;
    }
    return tcp_hello_load(bytes, kind, ret_hello);
}

static void log_refusal(const struct attempt *attempt, const struct tcp_connection *connection, int error)
{
    struct tcp *tcp = attempt->domain->tcp;
    const char *reason = NULL;
    for (uint32_t i = 0; i < connection->socket_count && reason == NULL; i++)
        reason = tcp_tls_reason(connection->sockets[i].tls);
    if (reason == NULL)
        reason = error == -EPROTONOSUPPORT ? "it speaks another version of this protocol"
                                           : "it is no fabric, or asks for tls";
    base_warn_limited(&tcp->node->log, &tcp->refusals, "cannot connect", "fabric=tcp peer=%s reason=\"%s\"",
                      attempt->address, reason);
}

/* Open a socket, do the handshake of TLS if it is used, and send the first hello. */
static int open_socket(const struct attempt *attempt, struct tcp_socket *socket,
                       const struct tcp_hello *hello)
{
    struct tcp *tcp = attempt->domain->tcp;
    struct net_connection *net;
    struct tcp_tls *tls = NULL;
    int error = 0;
    if (tcp->tls.library != NULL)
        error = tcp_tls_open(tcp, false, &tls);
    if (error == 0)
        error = net_connect(attempt->address, handler_of(attempt), attempt->deadline_ns, &net);
    if (error != 0) {
        tcp_tls_close(tls);
        return error;
    }
    attach_socket(socket, net, tls);
    if (tls != NULL)
        error = tcp_shake(net, tls, attempt->deadline_ns);
    return error == 0 ? say_hello(attempt, socket, hello) : error;
}

/* Open the sockets behind the first, which join it by its ticket. */
static int open_others(const struct attempt *attempt, struct tcp_connection *connection)
{
    struct tcp_hello join = {0};
    int error = hear_hello(attempt, &connection->sockets[0], TCP_TICKET, &join);
    join.kind = TCP_JOIN;
    for (uint32_t i = 1; i < connection->socket_count && error == 0; i++) {
        join.number = i;
        error = open_socket(attempt, &connection->sockets[i], &join);
    }
    return error;
}

/* Open all sockets, and be welcomed by the first. */
static int meet_all(struct attempt *attempt, struct tcp_connection *connection)
{
    struct tcp_hello hello = tcp_hello_make(TCP_HELLO, attempt->options);
    struct tcp_socket *first = &connection->sockets[0];
    hello.number = connection->socket_count - 1;
    int error = open_socket(attempt, first, &hello);
    if (error == 0 && hello.number > 0)
        error = open_others(attempt, connection);
    if (error == 0)
        error = hear_hello(attempt, first, TCP_WELCOME, &attempt->hello);
    if (error == -EACCES || error == -EPROTO || error == -EPROTONOSUPPORT)
        log_refusal(attempt, connection, error);
    return error == -EPROTONOSUPPORT ? -EPROTO : error;
}

static void connect_task(void *arg)
{
    struct attempt *attempt = arg;
    struct tcp_connection *connection = make_connection(attempt);
    attempt->error = connection == NULL ? -ENOMEM : meet_all(attempt, connection);
    if (connection == NULL)
        return;
    if (attempt->error == 0)
        begin_attempt(attempt, connection);
    else
        abandon_connection(connection);
}

int tcp_connect(void *state, const char *address, const struct tarn_fabric_connect_options *options,
                uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection)
{
    struct tcp_domain *domain = state;
    struct attempt attempt = {.domain = domain,
                              .owner = owner,
                              .options = options,
                              .deadline_ns = deadline_ns,
                              .address = address,
                              .sockets = domain->tcp->options.sockets};
    int error = tcp_check_address(domain->tcp, address);
    if (error == 0)
        error = tcp_run(domain->tcp, connect_task, &attempt);
    if (error == 0)
        error = attempt.error;
    if (error == 0)
        *ret_connection = attempt.connection;
    return error;
}
