/* Connecting and accepting: a task of the scheduler that the connection will belong to does both. */
#include "fabric/tcp/tcp.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

static uint64_t slot_bytes(uint32_t receive_bytes)
{
    return base_align_up(TCP_MESSAGE_HEAD_BYTES + (uint64_t)receive_bytes, TCP_MESSAGE_HEAD_BYTES);
}

/* How a connection comes about. */
struct attempt {
    struct tcp_domain *domain;
    struct tarn_fabric_connection *owner;
    const struct tarn_fabric_connect_options *options;
    uint64_t deadline_ns;
    const char *address; /* to connect with; NULL: to accept */
    int fd;              /* to accept: the socket, its TLS, and what was said */
    struct tcp_tls *tls;
    struct tcp_meeting meeting;
    struct tcp_hello hello; /* the other side's */
    int error;
    struct tcp_connection *connection;
};

/* ---- making and freeing ------------------------------------------------------------------------- */

static struct tcp_connection *make(const struct attempt *attempt)
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
    tcp_gate_init(&connection->gate);
    messages->count = attempt->options->receive_count;
    messages->bytes = attempt->options->receive_bytes;
    messages->slot_bytes = slot_bytes(messages->bytes);
    messages->memory = base_map(account, BASE_PAGE_BYTES, messages->count * messages->slot_bytes);
    if (messages->memory == NULL) {
        base_free(account, connection, sizeof(*connection));
        return NULL;
    }
    return connection;
}

static void free_parts(struct tcp_connection *connection)
{
    struct base_account *account = &connection->tcp->node->memory;
    const struct tcp_messages *messages = &connection->wire.messages;
    base_unmap(account, messages->memory, messages->count * messages->slot_bytes);
    tcp_tls_close(connection->tls);
    base_free(account, connection, sizeof(*connection));
}

void tcp_connection_free(struct tcp_connection *connection)
{
    struct tcp *tcp = connection->tcp;
    tcp_gate_lock(&tcp->gate);
    base_list_remove(&connection->link);
    tcp_gate_unlock(&tcp->gate);
    tcp_gate_lock(&connection->gate); /* no further tick comes, but one may be on its way */
    while (connection->poked)
        tcp_gate_sleep_firmly_locked(&connection->gate);
    tcp_gate_unlock(&connection->gate);
    free_parts(connection);
}

/* Close the socket of an attempt that came to nothing, and free what was made. */
static void abandon(struct tcp_connection *connection)
{
    net_close(connection->net);
    tcp_gate_lock(&connection->gate);
    while (connection->net != NULL)
        tcp_gate_sleep_firmly_locked(&connection->gate);
    tcp_gate_unlock(&connection->gate);
    free_parts(connection);
}

/* From now on the socket is served. */
static void begin(struct attempt *attempt, struct tcp_connection *connection)
{
    struct tcp *tcp = connection->tcp;
    char name[NET_ADDRESS_TEXT_MAX];
    net_peer(connection->net, name, sizeof(name));
    fabric_connection_name(connection->owner, name);
    tcp_wire_begin(&connection->wire, attempt->domain, attempt->hello.receive_count,
                   attempt->hello.receive_bytes);
    connection->data_bytes = attempt->hello.data_bytes;
    memcpy(connection->data, attempt->hello.data, attempt->hello.data_bytes);
    tcp_connection_prepare(connection);
    tcp_gate_lock(&tcp->gate);
    base_list_push_back(&tcp->connections, &connection->link);
    tcp_gate_wake_locked(&tcp->gate); /* the clock ticks while there are some */
    tcp_gate_unlock(&tcp->gate);
    attempt->connection = connection;
    net_release(connection->net);
}

/* ---- accepting ---------------------------------------------------------------------------------- */

static int welcome(const struct attempt *attempt, struct tcp_connection *connection)
{
    struct tcp_hello hello;
    uint8_t bytes[TCP_HELLO_BYTES];
    int error = tcp_hello_make(TCP_WELCOME, attempt->options, &hello);
    if (error != 0)
        return error;
    error = tcp_hello_prove(&connection->tcp->secret, &attempt->meeting, &hello, hello.proof);
    if (error != 0)
        return error;
    tcp_hello_save(&hello, bytes);
    error = tcp_write(connection->net, connection->tls, bytes, sizeof(bytes), attempt->deadline_ns);
    return error == 0 ? 0 : -ECONNRESET;
}

static void accept_task(void *arg)
{
    struct attempt *attempt = arg;
    struct tcp_connection *connection = make(attempt);
    attempt->error = -ENOMEM;
    if (connection != NULL)
        attempt->error = net_adopt(attempt->fd, &tcp_connection_handler, &connection->net);
    if (attempt->error != 0) {
        if (connection != NULL)
            free_parts(connection);
        tcp_hello_refuse(attempt->fd, attempt->tls, TCP_REJECTED);
        return;
    }
    net_set_user(connection->net, connection);
    connection->tls = attempt->tls;
    tcp_tls_attach(connection->tls, connection->net);
    attempt->error = welcome(attempt, connection);
    if (attempt->error == 0)
        begin(attempt, connection);
    else
        abandon(connection);
}

int tcp_accept(void *incoming, void *state, const struct tarn_fabric_connect_options *options,
               struct tarn_fabric_connection *owner, void **ret_connection)
{
    struct tcp_domain *domain = state;
    struct attempt attempt = {.domain = domain,
                              .owner = owner,
                              .options = options,
                              .deadline_ns = task_now() + domain->tcp->options.heartbeat_ns};
    attempt.fd = tcp_incoming_take(incoming, &attempt.meeting, &attempt.hello, &attempt.tls);
    int error = tcp_run(domain->tcp, accept_task, &attempt);
    if (error != 0) {
        tcp_hello_refuse(attempt.fd, attempt.tls, TCP_REJECTED);
        return error;
    }
    if (attempt.error == 0)
        *ret_connection = attempt.connection;
    return attempt.error;
}

/* ---- connecting --------------------------------------------------------------------------------- */

/* Read a hello of a kind. @param ret_bytes  it as it came */
static int read_hello(const struct tcp_connection *connection, enum tcp_hello_kind kind, uint64_t deadline_ns,
                      uint8_t *ret_bytes, struct tcp_hello *ret_hello)
{
    for (size_t at = 0; at < TCP_HELLO_BYTES;) {
        ssize_t bytes =
            tcp_read(connection->net, connection->tls, ret_bytes + at, TCP_HELLO_BYTES - at, deadline_ns);
        if (bytes <= 0)
            return bytes == 0 ? -ECONNRESET : (int)bytes;
        at += (size_t)bytes;
    }
    return tcp_hello_load(ret_bytes, kind, ret_hello);
}

/* @return 0; -ETIMEDOUT; -ECANCELED. Where a write fails otherwise, reading tells why. */
static int say(const struct tcp_connection *connection, const uint8_t *bytes, uint64_t deadline_ns)
{
    int error = tcp_write(connection->net, connection->tls, bytes, TCP_HELLO_BYTES, deadline_ns);
    return error == -ETIMEDOUT || error == -ECANCELED ? error : 0;
}

static int greet(struct attempt *attempt, struct tcp_connection *connection)
{
    const struct tcp_secret *secret = &connection->tcp->secret;
    struct tcp_hello hello, challenge;
    uint8_t bytes[TCP_HELLO_BYTES];
    int error = tcp_hello_make(TCP_HELLO, attempt->options, &hello);
    if (error != 0)
        return error;
    tcp_hello_save(&hello, attempt->meeting.hello);
    error = say(connection, attempt->meeting.hello, attempt->deadline_ns);
    if (error == 0)
        error = read_hello(connection, TCP_CHALLENGE, attempt->deadline_ns, attempt->meeting.challenge,
                           &challenge);
    if (error != 0)
        return error;
    struct tcp_hello proof = {.kind = TCP_PROOF};
    error = tcp_hello_prove(secret, &attempt->meeting, NULL, proof.proof);
    if (error != 0)
        return error;
    tcp_hello_save(&proof, bytes);
    error = say(connection, bytes, attempt->deadline_ns);
    if (error == 0)
        error = read_hello(connection, TCP_WELCOME, attempt->deadline_ns, bytes, &attempt->hello);
    if (error != 0)
        return error;
    return tcp_hello_is_proof(secret, &attempt->meeting, &attempt->hello, attempt->hello.proof) ? 0 : -EACCES;
}

/* The handshake of TLS, if there is to be any, and hellos. */
static int meet(struct attempt *attempt, struct tcp_connection *connection)
{
    struct tcp *tcp = connection->tcp;
    int error = 0;
    if (tcp->tls.library != NULL) {
        error = tcp_tls_open(tcp, false, &connection->tls);
        tcp_tls_attach(connection->tls, connection->net);
        if (error == 0)
            error = tcp_shake(connection->net, connection->tls, attempt->deadline_ns);
    }
    if (error == 0)
        error = greet(attempt, connection);
    if (error == -EACCES || error == -EPROTO) {
        const char *reason = tcp_tls_reason(connection->tls);
        if (reason == NULL)
            reason = error == -EACCES ? "one of both does not know the secret of the other"
                                      : "it speaks another version, or asks for tls";
        base_warn_limited(&tcp->node->log, &tcp->refusals, "cannot connect",
                          "fabric=tcp peer=%s reason=\"%s\"", attempt->address, reason);
    }
    return error;
}

static void connect_task(void *arg)
{
    struct attempt *attempt = arg;
    struct tcp_connection *connection = make(attempt);
    attempt->error = -ENOMEM;
    if (connection != NULL)
        attempt->error =
            net_connect(attempt->address, &tcp_connection_handler, attempt->deadline_ns, &connection->net);
    if (attempt->error != 0) {
        if (connection != NULL)
            free_parts(connection);
        return;
    }
    net_set_user(connection->net, connection);
    attempt->error = meet(attempt, connection);
    if (attempt->error == 0)
        begin(attempt, connection);
    else
        abandon(connection);
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
                              .fd = -1};
    int error = tcp_check_address(domain->tcp, address);
    if (error == 0)
        error = tcp_run(domain->tcp, connect_task, &attempt);
    if (error == 0)
        error = attempt.error;
    if (error == 0)
        *ret_connection = attempt.connection;
    return error;
}
