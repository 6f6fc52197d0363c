/* Clients that connect, with all their sockets. For the files of this folder. */
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
int tcp_listener_wait(void *state, uint64_t deadline_ns, struct tarn_fabric_incoming **ret_incoming);

/** Refuse an incoming's sockets, as far as they were not taken, and free it. A member as well. */
void tcp_reject(struct tarn_fabric_incoming *incoming, int error);

/** The provider's part of an incoming. */
struct tcp_incoming *tcp_incoming_of(struct tarn_fabric_incoming *incoming);

/** The hello of an incoming. */
const struct tcp_hello *tcp_incoming_hello(const struct tcp_incoming *incoming);

/** Take a socket out of an incoming. @param number  of the socket, up to what its hello says
 * @return the socket, which is the caller's from now on, like its TLS */
int tcp_incoming_take(struct tcp_incoming *incoming, uint32_t number, struct tcp_tls **ret_tls);

#endif
