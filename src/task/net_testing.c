/* For tests of sockets: a server on scheds[1], and clients that block in the caller's thread. */
#include "task/net_testing.h"

void net_testing_on(struct task_sched *sched, task_function *function, void *arg)
{
    struct task_group group;
    task_group_init(&group);
    assert_int_equal(task_spawn(sched, &group, "on", function, arg), 0);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
}

void net_testing_listen(void *arg)
{
    struct net_testing *server = arg;
    struct task_sched *const *scheds = server->testing->scheds;
    uint32_t targets = server->targets == 0 ? 1 : server->targets;
    server->error =
        net_listen(scheds[1], server->address, &scheds[1], targets, server->handler, server->accepted, server,
                   server->connections_max == 0 ? 100000 : server->connections_max, &server->listener);
    if (server->error == 0)
        net_listener_address(server->listener, server->text, sizeof(server->text));
}

void net_testing_unlisten(void *arg)
{
    net_listener_close(arg);
}

void net_testing_shutdown(void *arg)
{
    (void)arg;
    (void)net_shutdown_all(task_sched_self());
}

void net_testing_open(struct net_testing *server)
{
    task_shared_future_init(&server->gate);
    net_testing_on(server->testing->scheds[1], net_testing_listen, server);
    assert_int_equal(server->error, 0);
}

uint32_t net_testing_connections(const struct net_testing *server)
{
    return net_connection_count(server->testing->scheds[1]) +
           net_connection_count(server->testing->scheds[2]);
}

void net_testing_await(const struct net_testing *server, uint32_t connections)
{
    while (net_testing_connections(server) != connections)
        assert_int_equal(task_sleep(1000000), 0);
}

void net_testing_close(struct net_testing *server)
{
    net_testing_on(server->testing->scheds[1], net_testing_unlisten, server->listener);
    for (int i = 1; i < TASK_TESTING_SCHEDS; i++)
        net_testing_on(server->testing->scheds[i], net_testing_shutdown, NULL);
    net_testing_await(server, 0);
}

int net_testing_client(const char *text)
{
    struct net_address address;
    assert_int_equal(net_address_parse(text, &address), 0);
    int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address.storage, address.bytes), 0);
    return fd;
}

size_t net_testing_read(int fd, void *to, size_t bytes)
{
    size_t sum = 0;
    ssize_t piece;
    while (sum < bytes && (piece = read(fd, (char *)to + sum, bytes - sum)) > 0)
        sum += (size_t)piece;
    return sum;
}

void net_testing_echo(int fd, const char *text)
{
    char back[256];
    size_t bytes = strlen(text);
    assert_true(bytes <= sizeof(back));
    assert_int_equal(send(fd, text, bytes, MSG_NOSIGNAL), bytes);
    assert_int_equal(net_testing_read(fd, back, bytes), bytes);
    assert_memory_equal(back, text, bytes);
}

int net_testing_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    int count = 0;
    while (readdir(folder) != NULL)
        count++;
    assert_int_equal(closedir(folder), 0);
    return count;
}

int net_testing_accepted(struct net_connection *connection, void *arg)
{
    net_set_user(connection, arg);
    return 0;
}

void net_testing_wait_gate(struct net_connection *connection)
{
    struct net_testing *server = net_user(connection);
    int value;
    assert_int_equal(task_shared_future_wait(&server->gate, TASK_FOREVER, &value), 0);
}

void net_testing_echo_ready(struct net_connection *connection)
{
    char buffer[4096];
    for (;;) {
        ssize_t bytes = net_read_try(connection, buffer, sizeof(buffer));
        if (bytes == -EAGAIN)
            return;
        if (bytes <= 0 || net_write(connection, buffer, (size_t)bytes, TASK_FOREVER) != 0) {
            net_close(connection);
            return;
        }
    }
}
