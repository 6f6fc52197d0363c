/* Clients that connect, and sockets that join a connection: listener.c, join.c. For the files of this folder. */
#ifndef FABRIC_TCP_LISTENER_H
#define FABRIC_TCP_LISTENER_H

#include "fabric/fabric_internal.h"
#include "fabric/tcp/hello.h"
#include "fabric/tcp/wire.h"
#include "task/net.h"

struct tcp;
struct tcp_incoming;
struct tcp_tls;

/** Members of struct fabric_provider, which says what each promises. */
int tcp_listen(void *state, const char *address, void **ret_listener);
void tcp_listener_close(void *state);
int tcp_listener_wait(void *state, uint64_t deadline_ns, void **ret_incoming);
uint32_t tcp_incoming_data(const void *state, const void **ret_data);
void tcp_reject(void *state, int error);

/** Free an incoming. @return its socket, which is the caller's from now on, like its TLS */
int tcp_incoming_take(void *state, struct tcp_hello *ret_hello, struct tcp_tls **ret_tls);

/*
 * A task that accepts a connection and waits for its other sockets. Its ticket is in its welcome, so that only the client
 * knows it.
 */
struct tcp_party {
    struct base_list link; /* place in tcp.parties; tcp's gate guards all fields */
    uint8_t ticket[TCP_TICKET_BYTES];
    uint32_t count;              /* number of sockets that the connection shall have */
    bool known[TCP_SOCKETS_MAX]; /* by a socket's number: it has joined */
    struct tcp_incoming
        *joined[TCP_SOCKETS_MAX]; /* by a socket's number: it has joined and was not taken yet */
};

/** The first hello of an incoming. */
const struct tcp_hello *tcp_incoming_hello(const struct tcp_incoming *incoming);

/** Begin to wait for the sockets from number 1 on, which shall show the party's ticket. A task of any scheduler.
 * @return 0; -EIO: the system gives no random bytes */
base_must_check int tcp_party_open(struct tcp *tcp, struct tcp_party *party, uint32_t count);

/** End the wait; a socket that has joined and was not taken is refused. */
void tcp_party_close(struct tcp *tcp, struct tcp_party *party);

/** Give an incoming to the party whose ticket it has. @return false: there is no such party, or it has that socket already */
bool tcp_party_give(struct tcp *tcp, struct tcp_incoming *incoming);

/** Take a socket that has joined. @return 0; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int tcp_party_take(struct tcp *tcp, struct tcp_party *party, uint64_t deadline_ns,
                                   uint32_t *ret_number, struct tcp_incoming **ret_incoming);

#endif
