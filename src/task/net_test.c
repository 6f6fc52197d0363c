/* Do sockets listen, connect, read, write and close as net.h says, with each engine? */
#include "task/net_testing.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>

static const struct net_handler echo = {.ready = net_testing_echo_ready, .task_name = "echo"};

/* ---- addresses ---------------------------------------------------------------------------------- */

static void addresses_are_text(void **state)
{
    (void)state;
    static const char *const good[] = {"127.0.0.1:11211", "0.0.0.0:0", "[::1]:65535",
                                       "unix:/run/tarn",  "[::]:1",    "[fe80::1%lo]:80"};
    static const char *const bad[] = {"",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:-1",
                                      ":80",
                                      "127.0.0.1:80x",
                                      "localhost:80",
                                      "[::1]",
                                      "[::1:80",
                                      "unix:",
                                      "::1:80",
                                      "[127.0.0.1]:80",
                                      "[]:80",
                                      "1.2.3:80",
                                      "[",
                                      "[:80",
                                      "127.0.0.1 :8080",
                                      "]:80",
                                      "[fe80::1%]:80",
                                      "[fe80::1%no-such]:80",
                                      "127.0.0.1%lo:80"};
    char text[NET_ADDRESS_TEXT_MAX];
    struct net_address address;
    for (size_t i = 0; i < base_array_count(good); i++) {
        assert_int_equal(net_address_parse(good[i], &address), 0);
        net_address_format(&address, text, sizeof(text));
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < base_array_count(bad); i++)
        assert_int_equal(net_address_parse(bad[i], &address), -EINVAL);
    char path[200] = "unix:";
    memset(path + 5, 'p', 107);
    assert_int_equal(net_address_parse(path, &address), 0);
    path[5 + 107] = 'p';
    assert_int_equal(net_address_parse(path, &address), -EINVAL);
}

static void loopback_is_this_machine(void **state)
{
    (void)state;
    static const char *const inside[] = {"127.0.0.1:1", "127.0.0.1", "127.9.9.9:0", "[::1]:1", "[::1]"};
    static const char *const beyond[] = {"0.0.0.0:0", "[::]:1",      "128.0.0.1:1",
                                         "[::1:1]:1", "localhost:1", ""};
    for (size_t i = 0; i < base_array_count(inside); i++)
        assert_true(net_is_loopback(inside[i]));
    for (size_t i = 0; i < base_array_count(beyond); i++)
        assert_false(net_is_loopback(beyond[i]));
}

/* ---- echo --------------------------------------------------------------------------------------- */

static void talk(struct net_testing *server)
{
    struct net_connection *client;
    char text[NET_ADDRESS_TEXT_MAX];
    char data[3];
    assert_int_equal(net_connect(server->text, NULL, TASK_FOREVER, &client), 0);
    net_peer(client, text, sizeof(text));
    assert_string_equal(text, server->text);
    net_set_user(client, data);
    assert_ptr_equal(net_user(client), data);
    assert_int_equal(net_read_try(client, data, sizeof(data)), -EAGAIN);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(net_write(client, "hello", 5, TASK_FOREVER), 0);
        assert_int_equal(net_read(client, data, 3, TASK_FOREVER), 3);
        assert_memory_equal(data, "hel", 3);
        assert_int_equal(net_read(client, data, 3, TASK_FOREVER), 2);
        assert_memory_equal(data, "lo", 2);
    }
    struct iovec iov[] = {{text, 2}, {data, 0}, {text + 2, 1}};
    assert_int_equal(net_writev(client, iov, 3, TASK_FOREVER), 0);
    assert_true(net_read(client, data, 1, TASK_FOREVER) == 1);
    assert_int_equal(data[0], server->text[0]);
    net_close(client); /* with bytes on their way */
}

static void echo_at(void *arg)
{
    struct task_testing *testing = arg;
    struct net_testing server = {.testing = testing, .handler = &echo, .address = testing->arg};
    net_testing_on(testing->scheds[1], net_testing_listen, &server);
    if (server.error == -EADDRNOTAVAIL || server.error == -EAFNOSUPPORT)
        return; /* a machine without IPv6 */
    assert_int_equal(server.error, 0);
    struct stat status;
    const char *path = strncmp(server.text, "unix:", 5) == 0 ? server.text + 5 : NULL;
    if (path != NULL) {
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0700);
    }
    talk(&server);
    talk(&server);
    net_testing_close(&server);
    if (path != NULL)
        assert_int_equal(stat(path, &status), -1);
    struct net_connection *client;
    assert_int_equal(net_connect(server.text, NULL, TASK_FOREVER, &client),
                     path == NULL ? -ECONNREFUSED : -ENOENT);
}

static void echo_over_every_kind(void **state)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "unix:%s/net_test.%d.socket", P_tmpdir, getpid());
    const char *addresses[] = {"127.0.0.1:0", "[::1]:0", path};
    for (size_t i = 0; i < base_array_count(addresses); i++)
        engine_testing_run(state, NULL, echo_at, (void *)(uintptr_t)addresses[i]);
}

#define LETTERS_BYTES ((size_t)26 * 40000)

static int look_at_options(struct net_connection *connection, void *arg)
{
    (void)arg;
    int value = 0;
    socklen_t bytes = sizeof(value);
    assert_int_equal(getsockopt(connection->socket, IPPROTO_TCP, TCP_NODELAY, &value, &bytes), 0);
    assert_int_not_equal(value, 0); /* what is written goes at once */
    return 0;
}

/* Everything that was sent comes back although the sender has closed his half, in pieces of any size. */
static void *send_and_close_half(void *arg)
{
    int fd = *(int *)arg;
    unsigned seed = 7;
    char data[9000];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)('a' + i % 26);
    for (size_t sent = 0; sent < LETTERS_BYTES;) {
        size_t piece = base_min((size_t)rand_r(&seed) % 8970 + 1, LETTERS_BYTES - sent);
        assert_int_equal(write(fd, data + sent % 26, piece), piece);
        sent += piece;
    }
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    return NULL;
}

static void half_close(void *arg)
{
    struct net_testing server = {.testing = arg,
                                 .handler = &echo,
                                 .address = NET_TESTING_TCP,
                                 .accepted = look_at_options,
                                 .targets = 2};
    net_testing_open(&server);
    for (int round = 0; round < 3; round++) {
        int fd = net_testing_client(server.text);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, send_and_close_half, &fd), 0);
        char data[26];
        for (int i = 0; i < 40000; i++) {
            assert_int_equal(net_testing_read(fd, data, 26), 26);
            assert_memory_equal(data, "abcdefghijklmnopqrstuvwxyz", 26);
        }
        assert_int_equal(read(fd, data, 1), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(close(fd), 0);
    }
    net_testing_close(&server);
}

static void a_half_closed_stream_is_answered(void **state)
{
    engine_testing_run(state, NULL, half_close, NULL);
}

/* ---- straight into the reader's memory ----------------------------------------------------------- */

static void direct_echo_ready(struct net_connection *connection)
{
    net_set_direct(connection, true);
    net_testing_echo_ready(connection);
    net_demand(connection);
}

/* Read so many bytes without waiting in the net layer, which then has no reason to receive any. */
static void read_all_directly(struct net_connection *client, size_t bytes)
{
    uint8_t data[8000];
    for (uint64_t end_ns = task_now() + UINT64_C(60000000000); bytes > 0;) {
        ssize_t piece = net_read_try(client, data, base_min(sizeof(data), bytes));
        assert_true(piece > 0 || (piece == -EAGAIN && task_now() < end_ns));
        bytes -= piece > 0 ? (size_t)piece : 0;
        if (piece == -EAGAIN)
            assert_int_equal(task_sleep(100000), 0);
    }
}

static void direct_reads(void *arg)
{
    static const struct net_handler direct_echo = {.ready = direct_echo_ready, .task_name = "echo"};
    static uint8_t data[60000];
    struct net_testing server = {.testing = arg, .handler = &direct_echo, .address = NET_TESTING_TCP};
    net_testing_open(&server);
    struct net_connection *client;
    assert_int_equal(net_connect(server.text, NULL, TASK_FOREVER, &client), 0);
    net_set_direct(client, true);
    assert_int_equal(net_write(client, data, sizeof(data), TASK_FOREVER), 0);
    read_all_directly(client, sizeof(data));
    assert_int_equal(net_write(client, data, sizeof(data) / 2, TASK_FOREVER), 0);
    assert_int_equal(task_sleep(1000000), 0);
    assert_true(client->unread.head == NULL && !client->receiving);
    read_all_directly(client, sizeof(data) / 2);
    assert_int_equal(net_write(client, data, 8, TASK_FOREVER), 0);
    assert_int_equal(net_await(client, TASK_FOREVER), 0); /* which receives, and wakes */
    read_all_directly(client, 8);
    net_set_direct(client, false); /* as before */
    assert_int_equal(net_write(client, data, 8, TASK_FOREVER), 0);
    assert_int_equal(net_read(client, data, 8, TASK_FOREVER), 8);
    net_close(client);
    net_testing_close(&server);
}

static void bytes_are_received_directly(void **state)
{
    engine_testing_run(state, NULL, direct_reads, NULL);
}

/* ---- Unix sockets ------------------------------------------------------------------------------- */

static void paths(void *arg)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%s/net_test.%d.stale", P_tmpdir, getpid());
    char address[80];
    (void)snprintf(address, sizeof(address), "unix:%s", path);
    struct net_testing server = {.testing = arg, .handler = &echo, .address = address};
    struct net_testing second = server;

    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(close(fd), 0);
    net_testing_open(&server); /* over the socket of a server that is gone */
    net_testing_on(server.testing->scheds[1], net_testing_listen, &second);
    assert_int_equal(second.error, -EADDRINUSE); /* but not over one that lives */
    talk(&server);

    assert_int_equal(unlink(path), 0); /* somebody else's file is not removed in the end */
    fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    net_testing_close(&server);
    net_testing_on(server.testing->scheds[1], net_testing_listen, &second);
    assert_int_equal(second.error, -EADDRINUSE); /* a file is never replaced */
    assert_int_equal(unlink(path), 0);
}

static void only_stale_sockets_are_replaced(void **state)
{
    /* refusals are logged as errors: that is their place */
    struct task_node_options options = {.log_level = BASE_LOG_ERROR,
                                        .engine_choice = engine_testing_choice(state)};
    task_testing_run(&options, NULL, paths, NULL);
}

/* Connecting to a socket whose queue is full waits, but not for ever. */
static void connect_to_full(void *arg)
{
    (void)arg;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)snprintf(name.sun_path, sizeof(name.sun_path), "%s/net_test.%d.full", P_tmpdir, getpid());
    char address[120];
    (void)snprintf(address, sizeof(address), "unix:%s", name.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(listen(fd, 0), 0);
    struct net_connection *first;
    struct net_connection *second = NULL;
    assert_int_equal(net_connect(address, NULL, TASK_FOREVER, &first), 0);
    assert_int_equal(net_connect(address, NULL, task_now() + 30000000, &second), -ETIMEDOUT);
    assert_null(second);
    assert_int_equal(unlink(name.sun_path), 0);
    assert_int_equal(close(fd), 0);
    char data[1];
    assert_true(net_read(first, data, 1, TASK_FOREVER) <= 0);
    net_close(first);
}

static void connecting_has_a_deadline(void **state)
{
    engine_testing_run(state, NULL, connect_to_full, NULL);
}

/* ---- deadlines and cancellation ------------------------------------------------------------------ */

static void read_deadlines(void *arg)
{
    struct net_testing server = {.testing = arg, .handler = &echo, .address = NET_TESTING_TCP};
    net_testing_open(&server);
    struct net_connection *client;
    char data[8];
    assert_int_equal(net_connect(server.text, NULL, TASK_FOREVER, &client), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(net_read(client, data, sizeof(data), task_now() + 1000000), -ETIMEDOUT);
        assert_int_equal(net_read(client, data, sizeof(data), 0), -ETIMEDOUT); /* that was long ago */
        assert_int_equal(net_write(client, "again", 5, TASK_FOREVER), 0);
        assert_int_equal(net_read(client, data, sizeof(data), TASK_FOREVER), 5); /* still good */
    }
    net_close(client);
    net_testing_close(&server);
}

static void reads_have_deadlines(void **state)
{
    engine_testing_run(state, NULL, read_deadlines, NULL);
}

/* Does not read before the gate opens. */
static void gated_ready(struct net_connection *connection)
{
    net_testing_wait_gate(connection);
    net_testing_echo_ready(connection);
}

static const struct net_handler gated = {.ready = gated_ready, .task_name = "gated"};

#define LONG_BYTES (16 << 20)

static void write_deadlines(void *arg)
{
    struct net_testing server = {
        .testing = arg, .handler = &gated, .address = NET_TESTING_TCP, .accepted = net_testing_accepted};
    net_testing_open(&server);
    struct base_account *account = &server.testing->node->memory;
    char *data = base_alloc(account, LONG_BYTES);
    assert_non_null(data);
    struct net_connection *client;
    assert_int_equal(net_connect(server.text, NULL, TASK_FOREVER, &client), 0);
    assert_int_equal(net_write(client, data, LONG_BYTES, task_now() + 20000000), -ETIMEDOUT);
    assert_int_equal(net_write(client, data, 1, TASK_FOREVER), -EPIPE); /* what was sent is not known */
    net_close(client);
    task_shared_future_set(&server.gate, 0);
    net_testing_close(&server);
    base_free(account, data, LONG_BYTES);
}

static void writes_have_deadlines(void **state)
{
    engine_testing_run(state, NULL, write_deadlines, NULL);
}

struct victim {
    struct net_testing *server;
    bool writes;
    int result;
    struct task_semaphore begun;
};

static void victim_main(void *arg)
{
    struct victim *victim = arg;
    struct net_connection *client;
    char *data = base_alloc(&victim->server->testing->node->memory, LONG_BYTES);
    assert_non_null(data);
    assert_int_equal(net_connect(victim->server->text, NULL, TASK_FOREVER, &client), 0);
    task_semaphore_post(&victim->begun);
    if (victim->writes)
        victim->result = net_write(client, data, LONG_BYTES, TASK_FOREVER);
    else
        victim->result = (int)net_read(client, data, 1, TASK_FOREVER);
    net_close(client);
    base_free(&victim->server->testing->node->memory, data, LONG_BYTES);
}

static void cancel_group(void *arg)
{
    struct net_testing server = {
        .testing = arg, .handler = &gated, .address = NET_TESTING_TCP, .accepted = net_testing_accepted};
    net_testing_open(&server);
    for (int i = 0; i < 8; i++) {
        struct victim victim = {.server = &server, .writes = i % 2 == 1};
        struct task_group group;
        task_group_init(&group);
        task_semaphore_init(&victim.begun, 0);
        assert_int_equal(task_spawn(NULL, &group, "victim", victim_main, &victim), 0);
        assert_int_equal(task_semaphore_wait(&victim.begun, TASK_FOREVER), 0);
        for (int yields = 0; yields < i / 2; yields++)
            task_yield(); /* it has begun to wait, or not */
        task_group_cancel(&group);
        assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
        assert_int_equal(victim.result, -ECANCELED);
    }
    task_shared_future_set(&server.gate, 0);
    net_testing_close(&server);
}

static void cancellation_ends_reads_and_writes(void **state)
{
    engine_testing_run(state, NULL, cancel_group, NULL);
}

/* ---- handlers ----------------------------------------------------------------------------------- */

struct closings {
    struct net_testing server;
    _Atomic int ready;
    _Atomic int closed;
};

static struct closings *closings_of(const struct net_connection *connection)
{
    return base_container_of((struct net_testing *)net_user(connection), struct closings, server);
}

/* Reads one byte and goes, whatever there is. */
static void idle_ready(struct net_connection *connection)
{
    char byte;
    closings_of(connection)->ready++;
    ssize_t bytes = net_read_try(connection, &byte, 1);
    if (bytes == 1)
        assert_int_equal(net_write(connection, &byte, 1, TASK_FOREVER), 0);
}

static void count_closed(struct net_connection *connection)
{
    closings_of(connection)->closed++;
}

static const struct net_handler idle = {.ready = idle_ready, .closed = count_closed, .task_name = "idle"};

static void call_again(void *arg)
{
    struct closings closings = {
        .server = {
            .testing = arg, .handler = &idle, .address = NET_TESTING_TCP, .accepted = net_testing_accepted}};
    net_testing_open(&closings.server);
    int fd = net_testing_client(closings.server.text);
    net_testing_echo(fd, "a handler that reads one byte is called again for the next");
    assert_int_equal(closings.closed, 0);
    assert_int_equal(close(fd), 0); /* it never closes: net does */
    net_testing_await(&closings.server, 0);
    while (closings.closed == 0) /* it is told a little later than that there is no connection left */
        (void)task_sleep(BASE_NS_PER_MS);
    assert_int_equal(closings.closed, 1);
    assert_int_equal(closings.ready,
                     strlen("a handler that reads one byte is called again for the next") + 1);
    net_testing_close(&closings.server);
}

static void handlers_are_called_again(void **state)
{
    engine_testing_run(state, NULL, call_again, NULL);
}

static int refuse_every_second(struct net_connection *connection, void *arg)
{
    struct closings *closings = base_container_of((struct net_testing *)arg, struct closings, server);
    net_set_user(connection, arg);
    return closings->ready++ % 2 == 0 ? 0 : -EPERM;
}

static void refuse_some(void *arg)
{
    struct closings closings = {
        .server = {
            .testing = arg, .handler = &idle, .address = NET_TESTING_TCP, .accepted = refuse_every_second}};
    char byte;
    net_testing_open(&closings.server);
    int first = net_testing_client(closings.server.text);
    net_testing_await(&closings.server, 1);
    int second = net_testing_client(closings.server.text);
    assert_int_equal(read(second, &byte, 1), 0);
    net_testing_await(&closings.server, 1);
    assert_int_equal(closings.closed, 0); /* it never was the handler's */
    assert_int_equal(close(first), 0);
    assert_int_equal(close(second), 0);
    net_testing_close(&closings.server);
    assert_int_equal(closings.closed, 1);
}

static void accepted_may_refuse(void **state)
{
    engine_testing_run(state, NULL, refuse_some, NULL);
}

struct client {
    struct task_semaphore got;
    struct task_semaphore closed;
    size_t bytes;
};

static void client_ready(struct net_connection *connection)
{
    struct client *client = net_user(connection);
    char data[64];
    ssize_t bytes;
    while ((bytes = net_read_try(connection, data, sizeof(data))) > 0) {
        client->bytes += (size_t)bytes;
        task_semaphore_post(&client->got);
    }
    if (bytes != -EAGAIN)
        net_close(connection);
}

static void client_closed(struct net_connection *connection)
{
    task_semaphore_post(&((struct client *)net_user(connection))->closed);
}

static const struct net_handler client_handler = {.ready = client_ready, .closed = client_closed};

/* A connection that the server's side of this process never knew: made here, then served by a handler. */
static void release_client(void *arg)
{
    struct net_testing server = {.testing = arg, .handler = &echo, .address = NET_TESTING_TCP};
    net_testing_open(&server);
    struct client client = {0};
    task_semaphore_init(&client.got, 0);
    task_semaphore_init(&client.closed, 0);
    struct net_connection *connection;
    assert_int_equal(net_connect(server.text, &client_handler, TASK_FOREVER, &connection), 0);
    net_set_user(connection, &client);
    assert_int_equal(net_write(connection, "hello", 5, TASK_FOREVER), 0);
    net_release(connection);
    while (client.bytes < 5)
        assert_int_equal(task_semaphore_wait(&client.got, TASK_FOREVER), 0);
    net_testing_close(&server);
    assert_int_equal(task_semaphore_wait(&client.closed, TASK_FOREVER), 0);
    assert_int_equal(net_connection_count(server.testing->scheds[0]), 0);
}

static void clients_can_be_idle(void **state)
{
    engine_testing_run(state, NULL, release_client, NULL);
}

/* ---- sockets that move, and that others end ------------------------------------------------------- */

struct move {
    struct net_testing server;
    struct task_semaphore gone;
    int fd;
};

static void move_ready(struct net_connection *connection)
{
    struct net_testing *server = net_user(connection);
    char byte;
    if (net_read_try(connection, &byte, 1) != 1)
        return;
    base_container_of(server, struct move, server)->fd = net_duplicate(connection);
    net_close(connection);
}

static void move_closed(struct net_connection *connection)
{
    struct net_testing *server = net_user(connection);
    task_semaphore_post(&base_container_of(server, struct move, server)->gone);
}

static const struct net_handler moving = {.ready = move_ready, .closed = move_closed};

/* Accepted by one scheduler, used by another. */
static void move_socket(void *arg)
{
    struct move move = {.server = {.testing = arg,
                                   .handler = &moving,
                                   .accepted = net_testing_accepted,
                                   .address = NET_TESTING_TCP}};
    struct net_connection *connection;
    char data[8];
    task_semaphore_init(&move.gone, 0);
    net_testing_open(&move.server);
    int client = net_testing_client(move.server.text);
    assert_int_equal(write(client, "1", 1), 1);
    assert_int_equal(task_semaphore_wait(&move.gone, TASK_FOREVER), 0);
    assert_true(move.fd >= 0);
    assert_int_equal(write(client, "more", 4), 4);
    assert_int_equal(net_adopt(move.fd, NULL, &connection), 0);
    assert_int_equal(net_read(connection, data, sizeof(data), TASK_FOREVER), 4);
    assert_int_equal(net_write(connection, data, 4, TASK_FOREVER), 0);
    assert_int_equal(net_testing_read(client, data, 4), 4);
    assert_memory_equal(data, "more", 4);
    net_close(connection);
    while (net_connection_count(task_sched_self()) > 0) /* what is posted comes back first */
        assert_int_equal(task_sleep(1000000), 0);
    assert_int_equal(net_testing_read(client, data, 1), 0); /* no other descriptor is left */
    assert_int_equal(close(client), 0);
    net_testing_close(&move.server);
}

static void sockets_move_to_other_schedulers(void **state)
{
    engine_testing_run(state, NULL, move_socket, NULL);
}

static const struct net_handler demanding = {.on_demand = true};

/* Nothing is taken from the kernel, and no buffer kept, but what was asked for. */
static void demand(void *arg)
{
    (void)arg;
    static char data[20000];
    struct net_connection *connection;
    int ends[2];
    ssize_t all = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(net_adopt(ends[0], &demanding, &connection), 0);
    assert_int_equal(write(ends[1], data, sizeof(data)), sizeof(data));
    assert_int_equal(task_sleep(5000000), 0);
    assert_int_equal(net_read_try(connection, data, sizeof(data)), -EAGAIN);
    while (all < (ssize_t)sizeof(data)) {
        ssize_t bytes;
        net_demand(connection);
        while ((bytes = net_read_try(connection, data, sizeof(data))) == -EAGAIN)
            assert_int_equal(task_sleep(100000), 0);
        assert_true(bytes > 0 && bytes <= 4096);
        all += bytes;
        assert_int_equal(task_sleep(1000000), 0);
        assert_int_equal(net_read_try(connection, data, sizeof(data)), -EAGAIN);
    }
    assert_int_equal(net_await(connection, task_now() + 1000000), -ETIMEDOUT);
    assert_int_equal(write(ends[1], "more", 4), 4);
    assert_int_equal(net_read(connection, data, sizeof(data), TASK_FOREVER), 4);
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(net_await(connection, TASK_FOREVER), 0);
    assert_int_equal(net_read_try(connection, data, sizeof(data)), 0);
    net_close(connection);
}

static void what_is_not_demanded_stays_in_the_kernel(void **state)
{
    engine_testing_run(state, NULL, demand, NULL);
}

static void shut_later(void *arg)
{
    assert_int_equal(task_sleep(1000000), 0);
    net_shutdown(arg);
}

/* Who reads is told of the end, a handler is called; to close is still for them. */
static void shut_down(void *arg)
{
    struct net_testing server = {.testing = arg, .handler = &echo, .address = NET_TESTING_TCP};
    struct net_connection *connection;
    struct client client = {0};
    char data[8];
    net_testing_open(&server);
    assert_int_equal(net_connect(server.text, NULL, TASK_FOREVER, &connection), 0);
    assert_int_equal(task_spawn(NULL, NULL, "shut", shut_later, connection), 0);
    assert_int_equal(net_read(connection, data, sizeof(data), TASK_FOREVER), 0);
    assert_int_equal(net_write(connection, "x", 1, TASK_FOREVER), -EPIPE);
    net_close(connection);

    task_semaphore_init(&client.got, 0);
    task_semaphore_init(&client.closed, 0);
    assert_int_equal(net_connect(server.text, &client_handler, TASK_FOREVER, &connection), 0);
    net_set_user(connection, &client);
    net_release(connection);
    net_shutdown(connection);
    assert_int_equal(task_semaphore_wait(&client.closed, TASK_FOREVER), 0);
    net_testing_close(&server);
}

static void others_end_a_connection(void **state)
{
    engine_testing_run(state, NULL, shut_down, NULL);
}

/* ---- listeners and schedulers that come and go ---------------------------------------------------- */

static void close_listener(void *arg)
{
    struct net_testing server = {.testing = arg, .handler = &echo, .address = NET_TESTING_TCP, .targets = 2};
    for (int round = 0; round < 20; round++) {
        net_testing_open(&server);
        int fds[3];
        for (int i = 0; i < 3; i++) {
            fds[i] = net_testing_client(server.text);
            net_testing_echo(fds[i], "before");
        }
        net_testing_on(server.testing->scheds[1], net_testing_unlisten, server.listener);
        for (int i = 0; i < 3; i++) {
            net_testing_echo(fds[i], "after");
            assert_int_equal(close(fds[i]), 0);
        }
        net_testing_await(&server, 0);
    }
}

static void connections_outlive_their_listener(void **state)
{
    engine_testing_run(state, NULL, close_listener, NULL);
}

struct left {
    _Atomic int closed;
};

static int left_accepted(struct net_connection *connection, void *arg)
{
    net_set_user(connection, arg);
    return 0;
}

static void left_closed(struct net_connection *connection)
{
    ((struct left *)net_user(connection))->closed++;
}

static const struct net_handler left_handler = {.ready = net_testing_echo_ready, .closed = left_closed};

/*
 * Listeners made before the scheduler runs, and closed before, after, or not before it is closed; the
 * last with connections that nobody closed.
 */
static void without_a_run(void **state)
{
    struct task_node_options options = {.log_level = BASE_LOG_ERROR,
                                        .engine_choice = engine_testing_choice(state)};
    struct tarn_node *node;
    struct task_sched *sched;
    struct net_listener *listeners[3];
    struct left left = {0};
    char address[NET_ADDRESS_TEXT_MAX];
    int before = net_testing_descriptors();
    assert_int_equal(task_node_open(&options, &node), 0);
    assert_int_equal(task_sched_open(node, NULL, &sched), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(net_listen(sched, NET_TESTING_TCP, &sched, 1, &left_handler, left_accepted, &left,
                                    10, &listeners[i]),
                         0);
    net_listener_close(listeners[0]);
    net_listener_address(listeners[1], address, sizeof(address));
    assert_int_equal(task_sched_start(sched), 0);
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = net_testing_client(address);
        net_testing_echo(fds[i], "hello");
    }
    assert_int_equal(net_connection_count(sched), 2);
    task_sched_stop(sched);
    task_sched_join(sched);
    net_listener_close(listeners[1]);
    task_sched_close(sched);
    assert_int_equal(left.closed, 2);
    net_listener_close(listeners[2]);
    task_node_close(node);
    for (int i = 0; i < 2; i++)
        assert_int_equal(close(fds[i]), 0);
    assert_int_equal(net_testing_descriptors(), before);
}

static void nothing_is_left_behind(void **state)
{
    for (int i = 0; i < 3; i++)
        without_a_run(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_text),
        cmocka_unit_test(loopback_is_this_machine),
        ENGINE_TESTS(echo_over_every_kind),
        ENGINE_TESTS(a_half_closed_stream_is_answered),
        ENGINE_TESTS(bytes_are_received_directly),
        ENGINE_TESTS(only_stale_sockets_are_replaced),
        ENGINE_TESTS(connecting_has_a_deadline),
        ENGINE_TESTS(reads_have_deadlines),
        ENGINE_TESTS(writes_have_deadlines),
        ENGINE_TESTS(cancellation_ends_reads_and_writes),
        ENGINE_TESTS(handlers_are_called_again),
        ENGINE_TESTS(accepted_may_refuse),
        ENGINE_TESTS(clients_can_be_idle),
        ENGINE_TESTS(sockets_move_to_other_schedulers),
        ENGINE_TESTS(what_is_not_demanded_stays_in_the_kernel),
        ENGINE_TESTS(others_end_a_connection),
        ENGINE_TESTS(connections_outlive_their_listener),
        ENGINE_TESTS(nothing_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
