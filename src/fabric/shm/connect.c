/* Connecting: both sides exchange hellos, map each other's files, and are watched from then on. */
#include "fabric/shm/shm.h"
#include "task/net.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUSY_PAUSE_NS UINT64_C(1000000) /* pause between attempts while a listener's queue is full */

/* Make a connection with its own ring, which no other process knows yet. */
static int make_connection(struct shm_domain *domain, const struct tarn_fabric_connect_options *options,
                           struct tarn_fabric_connection *owner, struct shm_connection **ret_connection)
{
    struct base_account *account = &domain->shm->node->memory;
    uint64_t ring_bytes = shm_ring_bytes(options->receive_count, options->receive_bytes);
    struct shm_connection *connection = base_alloc(account, sizeof(*connection));
    if (connection == NULL)
        return -ENOMEM;
    connection->shm = domain->shm;
    connection->domain = domain;
    connection->owner = owner;
    connection->messages_are_rare = options->messages_are_rare;
    connection->socket.fd = connection->process.fd = connection->out.file.fd = -1;
    connection->process.event = shm_process_event;
    base_list_init(&connection->exposures);
    fabric_bell_init(&connection->bell);
    int error = base_account_take(account, ring_bytes);
    if (error == 0) {
        error = shm_file_make("tarn-ring", ring_bytes, false, NULL, &connection->in.file);
        if (error != 0)
            base_account_give(account, ring_bytes);
    }
    if (error != 0) {
        base_free(account, connection, sizeof(*connection));
        return error;
    }
    shm_ring_begin(&connection->in, options->receive_count, options->receive_bytes, true);
    *ret_connection = connection;
    return 0;
}

/* Send the hello, with the ring: from then on it needs no descriptor. */
static int say_hello(struct shm_connection *connection, const struct tarn_fabric_connect_options *options)
{
    const struct shm_domain *domain = connection->domain;
    struct shm_hello hello = {.identity = domain->identity,
                              .table_slots = domain->table_slots,
                              .ring_slots = connection->in.slots,
                              .ring_payload_bytes = connection->in.payload_bytes,
                              .data_bytes = options->data_bytes};
    const int fds[SHM_HELLO_FDS] = {[SHM_TABLE] = domain->table_file.fd, [SHM_RING] = connection->in.file.fd};
    if (options->data_bytes > 0)
        memcpy(hello.data, options->data, options->data_bytes);
    int error = shm_hello_send(connection->socket.fd, &hello, fds);
    if (error == 0)
        shm_file_close(&connection->in.file);
    return error;
}

/* Map the peer's files, if they are as its hello says. */
static int adopt_peer(struct shm_connection *connection, const struct shm_greeting *greeting)
{
    const struct shm_hello *hello = &greeting->hello;
    if (hello->ring_slots == 0 || hello->ring_slots > TARN_FABRIC_RECEIVE_COUNT_MAX ||
        hello->ring_payload_bytes == 0 || hello->ring_payload_bytes > TARN_FABRIC_RECEIVE_BYTES_MAX)
        return -EPROTO;
    int error =
        shm_file_take(greeting->fds[SHM_RING], shm_ring_bytes(hello->ring_slots, hello->ring_payload_bytes),
                      true, &connection->out.file);
    if (error != 0)
        return error;
    shm_ring_begin(&connection->out, hello->ring_slots, hello->ring_payload_bytes, false);
    fabric_connection_data(connection->owner, hello->data, hello->data_bytes);
    return shm_peer_domain_take(connection->shm, hello, greeting->fds[SHM_TABLE], &connection->peer);
}

/* Open a pidfd of the peer's process, which must still hold the other end of the socket. */
static int hold_process(struct shm_connection *connection, pid_t pid)
{
    char name[32];
    uint8_t byte;
    connection->process.fd = pidfd_open(pid, 0);
    if (connection->process.fd < 0)
        return errno == ESRCH ? -ECONNRESET : -errno;
    /* the peer was still there once the pidfd was open, so the pidfd is not of a later process with the same number */
    if (recv(connection->socket.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
        return -ECONNRESET;
    (void)snprintf(name, sizeof(name), "pid %d", (int)pid);
    fabric_connection_name(connection->owner, name);
    return 0;
}

/* Add the connection to its domain, and have its socket and process watched. */
static int begin_meeting(struct shm_connection *connection, void (*event)(struct fabric_source *source))
{
    struct fabric_service *service = &connection->shm->service;
    connection->socket.event = event;
    task_mutex_lock_firmly(&service->lock);
    base_list_push_back(&connection->domain->connections, &connection->link);
    int error = fabric_service_watch(service, &connection->socket);
    if (error == 0)
        error = fabric_service_watch(service, &connection->process);
    task_mutex_unlock(&service->lock);
    return error;
}

/* ---- accepting ---------------------------------------------------------------------------------- */

static int accept_greeting(struct shm_connection *connection, const struct shm_greeting *greeting,
                           const struct tarn_fabric_connect_options *options)
{
    int error = hold_process(connection, greeting->pid);
    if (error == 0)
        error = adopt_peer(connection, greeting);
    if (error == 0)
        error = begin_meeting(connection, shm_socket_event);
    if (error == 0)
        error = say_hello(connection, options);
    return error;
}

int shm_accept(struct tarn_fabric_incoming *incoming, void *state,
               const struct tarn_fabric_connect_options *options, struct tarn_fabric_connection *owner,
               void **ret_connection)
{
    const struct shm_domain *domain = state;
    const int closer = domain->shm->closer;
    struct shm_connection *connection;
    struct shm_greeting greeting;
    int socket = shm_incoming_take(incoming, &greeting);
    int error = make_connection(state, options, owner, &connection);
    if (error != 0) {
        shm_hello_refuse(socket, error);
        shm_socket_close(closer, socket);
    } else {
        connection->socket.fd = socket;
        error = accept_greeting(connection, &greeting, options);
        if (error != 0) {
            shm_hello_refuse(socket, error);
            shm_disconnect(connection);
        }
    }
    shm_greeting_drop(closer, &greeting);
    if (error == 0)
        *ret_connection = connection;
    return error;
}

/* ---- connecting --------------------------------------------------------------------------------- */

/* Connect the socket to the listener's. @param ret_pid  number of the listener's process */
static int reach_listener(int fd, const char *path, uint64_t deadline_ns, pid_t *ret_pid)
{
    struct sockaddr_un address;
    int error = net_unix_address(path, &address);
    if (error != 0)
        return error;
    while (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        if (errno != EAGAIN)
            return -errno;
        uint64_t now_ns = task_now();
        if (now_ns >= deadline_ns)
            return -ETIMEDOUT;
        error = task_sleep_until(base_min(now_ns + BUSY_PAUSE_NS, deadline_ns));
        if (error != 0)
            return error;
    }
    struct ucred who;
    socklen_t bytes = sizeof(who);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0)
        return -errno;
    if (who.uid != getuid() || who.pid <= 0)
        return -EACCES;
    *ret_pid = who.pid;
    return 0;
}

/* Note that the peer's answer, or the end of the socket, has come. */
static void answer_event(struct fabric_source *source)
{
    struct shm_connection *connection = base_container_of(source, struct shm_connection, socket);
    fabric_service_forget_locked(&connection->shm->service, source);
    atomic_store(&connection->answered, true);
    fabric_bell_ring(&connection->bell);
}

static bool answer_ready(void *arg)
{
    struct shm_connection *connection = arg;
    return atomic_load(&connection->answered) || atomic_load(&connection->ended);
}

/* Wait for the answer and take it. @param pid  the listener's process, the only one whose answer counts: it has been watched
 * since the hello */
static int take_answer(struct shm_connection *connection, pid_t pid, uint64_t deadline_ns)
{
    const struct fabric_condition condition = {.ready = answer_ready, .arg = connection};
    struct shm_greeting greeting;
    int error = fabric_bell_wait(&connection->bell, &condition, deadline_ns);
    if (error != 0)
        return error;
    error = shm_hello_receive(connection->shm->closer, connection->socket.fd, &greeting);
    if (error != 0)
        return error == -EAGAIN ? -ECONNRESET : error;
    error = greeting.pid == pid ? adopt_peer(connection, &greeting) : -EPROTO;
    shm_greeting_drop(connection->shm->closer, &greeting);
    return error;
}

static int attempt_meeting(struct shm_connection *connection, const char *path,
                           const struct tarn_fabric_connect_options *options, uint64_t deadline_ns)
{
    pid_t pid = 0;
    int error = shm_socket(&connection->socket.fd);
    if (error == 0)
        error = reach_listener(connection->socket.fd, path, deadline_ns, &pid);
    if (error == 0)
        error = hold_process(connection, pid);
    if (error == 0)
        error = begin_meeting(connection, answer_event);
    if (error != 0)
        return error;
    error = say_hello(connection, options);
    if (error == 0)
        error = take_answer(connection, pid, deadline_ns);
    if (error != 0)
        return error;
    connection->socket.event = shm_socket_event;
    return fabric_service_watch(&connection->shm->service, &connection->socket);
}

int shm_connect(void *state, const char *address, const struct tarn_fabric_connect_options *options,
                uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection)
{
    struct shm_connection *connection;
    int error = make_connection(state, options, owner, &connection);
    if (error != 0)
        return error;
    error = attempt_meeting(connection, address, options, deadline_ns);
    if (error != 0) {
        shm_disconnect(connection);
        return error;
    }
    *ret_connection = connection;
    return 0;
}
