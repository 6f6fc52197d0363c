/* Connections: connection.c serves them, connect.c makes them. For the files of this folder. */
#ifndef FABRIC_TCP_CONNECTION_H
#define FABRIC_TCP_CONNECTION_H

#include "fabric/fabric_internal.h"
#include "fabric/tcp/frame.h"
#include "fabric/tcp/gate.h"
#include "fabric/tcp/wire.h"
#include "task/net.h"

struct tcp;
struct tcp_tls;

#define TCP_IN_BYTES (4 * TCP_FRAME_BYTES)

/*
 * A connection. Its sockets belong to a scheduler: that of its user's tasks, or the fabric's own if its users are
 * plain threads. What happens there wakes the user through the gate. What is in struct tcp_socket is the scheduler's
 * alone, but for what is said.
 */
struct tcp_socket {
    struct tcp_connection *connection;
    uint32_t number;
    struct net_connection *net; /* NULL: not yet, or gone */
    struct tcp_tls *tls;        /* NULL: in the clear */
    bool sending;               /* a task sends; of this the gate is the connection's */
    uint32_t in_bytes;          /* that are not taken yet */
    uint8_t in[TCP_IN_BYTES];
    uint8_t out[TCP_OUT_BYTES];
};

struct tcp_connection {
    struct base_list link; /* tcp.connections */
    struct tcp *tcp;
    struct tarn_fabric_connection *owner;
    struct task_sched *sched;
    struct tcp_gate gate; /* of what follows */
    struct tcp_wire wire;
    uint32_t socket_count;
    uint32_t open_count; /* of those that are not gone */
    struct tcp_socket *sockets;
    struct task_message poke; /* has the scheduler look at what is below */
    bool poked;               /* it is on its way */
    bool beat;                /* the worker's clock has ticked */
    uint32_t senders;         /* tasks that send */
    bool deaf;                /* the other side takes nothing any more */
    bool leaving;             /* the user has gone */
    bool shut;                /* the sockets are to be shut */
    bool ending;              /* they are, and about to be closed */
    uint32_t silent_beats;    /* since something came, or of one who leaves since he does */
    uint32_t data_bytes;      /* the peer's */
    uint8_t data[TARN_FABRIC_PRIVATE_BYTES_MAX];
};

/** What serves the socket of a connection that has one, and those of others. */
extern const struct net_handler tcp_connection_handler, tcp_sockets_handler;

/** Have all sockets that have room receive. On the connection's scheduler. */
void tcp_connection_demand(struct tcp_connection *connection);

/** Once, before any of these. */
void tcp_connection_prepare(struct tcp_connection *connection);

/** Have the scheduler look: there is something to send, or to end. Any thread. */
void tcp_connection_poke(struct tcp_connection *connection);

/** The clock has ticked: is somebody silent? Any thread. */
void tcp_connection_beat(struct tcp_connection *connection);

/** Members of struct fabric_provider, which says what each promises. */
int tcp_accept(void *incoming, void *state, const struct tarn_fabric_connect_options *options,
               struct tarn_fabric_connection *owner, void **ret_connection);
int tcp_connect(void *state, const char *address, const struct tarn_fabric_connect_options *options,
                uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection);

/** Free one whose socket is closed. Yields. */
void tcp_connection_free(struct tcp_connection *connection);

/** Members of struct fabric_provider, which says what each promises. */
uint32_t tcp_peer_data(const void *state, const void **ret_data);
void tcp_post(void *state, struct tarn_fabric_op *op);
void tcp_progress(void *state);
int tcp_wait(void *state, struct tarn_fabric_op *op, uint64_t deadline_ns);
int tcp_receive(void *state, void *data, uint32_t room, uint64_t deadline_ns,
                struct tarn_fabric_message *ret_message);
void tcp_fail(void *state);
int tcp_fence(void *state, uint64_t deadline_ns);
void tcp_disconnect(void *state);

#endif
