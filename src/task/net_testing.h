/* For tests of sockets: a server on scheds[1], and clients that block in the caller's thread. */
#ifndef TASK_NET_TESTING_H
#define TASK_NET_TESTING_H

#include "task/engine_testing.h"
#include <dirent.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define NET_TESTING_TCP "127.0.0.1:0"

struct net_testing {
    struct task_testing *testing;
    const struct net_handler *handler;
    int (*accepted)(struct net_connection *connection, void *arg);
    const char *address; /* to listen on */
    uint32_t connections_max;
    uint32_t targets; /* scheds[1] and the next ones; 0: one */
    struct net_listener *listener;
    struct task_shared_future gate; /* what handlers of the test's wait for */
    int error;
    char text[NET_ADDRESS_TEXT_MAX]; /* to connect to */
};

/** Run a function in a task of a scheduler and wait for its end. */
void net_testing_on(struct task_sched *sched, task_function *function, void *arg);

void net_testing_listen(void *arg);

void net_testing_unlisten(void *arg);

void net_testing_shutdown(void *arg);

/** Listen on scheds[1]. */
void net_testing_open(struct net_testing *server);

uint32_t net_testing_connections(const struct net_testing *server);

/** Wait, without any bound but the test's own, until so many connections are open. */
void net_testing_await(const struct net_testing *server, uint32_t connections);

/** Stop listening, end what is connected and wait for it. */
void net_testing_close(struct net_testing *server);

/** A blocking client. */
int net_testing_client(const char *text);

/** Read exactly so many bytes, or to the end. @return bytes */
size_t net_testing_read(int fd, void *to, size_t bytes);

/** Send a text and expect it back. */
void net_testing_echo(int fd, const char *text);

/** Descriptors that this process has open. */
int net_testing_descriptors(void);

/** For `accepted`: let handlers find the server. */
int net_testing_accepted(struct net_connection *connection, void *arg);

/** Wait until the test opens the gate. */
void net_testing_wait_gate(struct net_connection *connection);

/** Give everything back, as the echo protocol wants. */
void net_testing_echo_ready(struct net_connection *connection);

#endif
