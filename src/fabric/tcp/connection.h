/* Connections: connection.c serves them, connect.c makes them. For the files of this folder. */
#ifndef FABRIC_TCP_CONNECTION_H
#define FABRIC_TCP_CONNECTION_H

#include "fabric/bell.h"
#include "fabric/fabric_internal.h"
#include "fabric/tcp/frame.h"
#include "fabric/tcp/wire.h"
#include "task/net.h"

struct tcp;
struct tcp_tls;

#define TCP_IN_BYTES (4 * TCP_FRAME_BYTES) /* of a buffer: the most that is received and not taken */

/*
 * A connection's socket. All sockets belong to one scheduler: that of the user's tasks, or the fabric's own if the
 * users are plain threads. Work there wakes the user through the bell. Only that scheduler touches these fields, except
 * where a comment says otherwise.
 */
struct tcp_socket {
    struct tcp_connection *connection;
    uint32_t number;
    struct net_connection *net; /* the network connection; NULL: not yet made, or closed */
    struct tcp_tls *tls;        /* its TLS; NULL: in the clear */
    bool sending;               /* a task sends by it; guarded by the connection's lock */
    uint32_t in_bytes;          /* received bytes that were not taken yet */
    uint8_t *in;                /* a buffer that holds them; it may be NULL where there are none */
    uint8_t *out;               /* a buffer, while a task sends by it */
};

struct tcp_connection {
    struct base_list link; /* place in tcp.connections */
    struct tcp *tcp;
    struct tarn_fabric_connection *owner;
    struct task_sched *sched;
    struct fabric_bell bell; /* its lock guards the fields below */
    struct tcp_wire wire;
    uint32_t socket_count;
    uint32_t open_count; /* number of sockets that are not closed */
    struct tcp_socket *sockets;
    struct task_message poke; /* the message that makes the scheduler look at the fields below */
    bool poked;               /* `poke` is under way */
    bool beat;                /* the clock has ticked since the scheduler looked */
    uint32_t senders;         /* number of tasks that send */
    bool deaf;                /* the other side receives nothing any more */
    bool leaving;             /* the user has disconnected */
    bool shut;                /* the sockets are to be shut */
    bool ending;              /* the sockets were shut and are about to be closed */
    uint32_t silent_beats;    /* ticks since something was received, or since the user disconnected */
};

/** The handlers of a connection's single socket, and of several sockets. */
extern const struct net_handler tcp_connection_handler, tcp_sockets_handler;

/** Have every socket with room receive, and give empty buffers back. On the connection's scheduler. */
void tcp_connection_demand(struct tcp_connection *connection);

/** Prepare a connection, once, before any of the functions below. */
void tcp_connection_prepare(struct tcp_connection *connection);

/** Count a tick of the clock for a connection. Any thread. */
void tcp_connection_beat(struct tcp_connection *connection);

/** Members of struct fabric_provider, which says what each promises. */
int tcp_accept(struct tarn_fabric_incoming *client, void *state,
               const struct tarn_fabric_connect_options *options, struct tarn_fabric_connection *owner,
               void **ret_connection);
int tcp_connect(void *state, const char *address, const struct tarn_fabric_connect_options *options,
                uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection);

/** Free a connection whose sockets are closed. Yields. */
void tcp_connection_free(struct tcp_connection *connection);

/** Members of struct fabric_provider, which says what each promises. */
void tcp_post(void *state, struct tarn_fabric_op *op);
void tcp_posted(void *state);
void tcp_progress(void *state);
int tcp_wait(void *state, struct tarn_fabric_op *op, uint64_t deadline_ns);
bool tcp_watch(void *state, struct fabric_watch *watch);
int tcp_receive(void *state, void *data, uint32_t room, uint64_t deadline_ns,
                struct tarn_fabric_message *ret_message);
void tcp_fail(void *state);
int tcp_fence(void *state, uint64_t deadline_ns);
void tcp_disconnect(void *state);

#endif
