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
void tcp_reject(void *state);

/** Free one; @return its socket, the caller's, as is its TLS. */
int tcp_incoming_take(void *state, struct tcp_meeting *ret_meeting, struct tcp_hello *ret_hello,
                      struct tcp_tls **ret_tls);

/*
 * Who waits for the other sockets of a connection that it accepts. Its ticket is the nonce of its welcome: nobody else
 * knows it.
 */
struct tcp_party {
    struct base_list link; /* tcp.parties, whose gate guards this */
    uint8_t ticket[TCP_NONCE_BYTES];
    uint32_t count;                               /* of sockets */
    bool known[TCP_SOCKETS_MAX];                  /* has joined */
    struct tcp_incoming *joined[TCP_SOCKETS_MAX]; /* and was not taken yet */
};

/** What somebody has said first. */
const struct tcp_hello *tcp_incoming_hello(const struct tcp_incoming *incoming);

/** Wait for sockets from 1 on, whichever scheduler accepts. */
void tcp_party_open(struct tcp *tcp, struct tcp_party *party, const struct tcp_hello *welcome,
                    uint32_t count);

/** Wait no more; a socket that has joined and was not taken is refused. */
void tcp_party_close(struct tcp *tcp, struct tcp_party *party);

/** Give somebody to the party that it has the ticket of. @return false: there is none, or it has such a socket */
bool tcp_party_give(struct tcp *tcp, struct tcp_incoming *incoming);

/** Take one who has joined. @return 0; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int tcp_party_take(struct tcp *tcp, struct tcp_party *party, uint64_t deadline_ns,
                                   uint32_t *ret_number, struct tcp_incoming **ret_incoming);

#endif
