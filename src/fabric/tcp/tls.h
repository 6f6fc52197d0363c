/* TLS under hellos and frames: tls_context.c what all connections share, tls.c one connection. For the files of this folder. */
#ifndef FABRIC_TCP_TLS_H
#define FABRIC_TCP_TLS_H

#include "fabric/fabric_internal.h"
#include "task/net.h"

struct tcp;
struct tcp_options;
struct tcp_secret;
struct tcp_tls;

/* What all connections of a fabric share: `struct ssl_ctx_st` and `bio_method_st` are the library's. */
struct tcp_tls_context {
    struct ssl_ctx_st *library; /* NULL: connections are in the clear */
    struct bio_method_st *method;
};

/**
 * Make what the options say, with certificates or with the secret.
 *
 * @param secret  borrowed for as long as the context lives
 * @return 0; -ENOMEM; -EINVAL, -EACCES and the like (logged)
 */
base_must_check int tcp_tls_context_open(struct base_log *log, const struct tcp_options *options,
                                         const struct tcp_secret *secret,
                                         struct tcp_tls_context *ret_context);

/** No connection of it is left. Nothing, if it was never made. */
void tcp_tls_context_close(struct tcp_tls_context *context);

/** How the library reads and writes. @return NULL: no memory */
struct bio_method_st *tcp_tls_method(void);

/** One side of a connection, without a handshake yet. @return 0; -ENOMEM */
base_must_check int tcp_tls_open(struct tcp *tcp, bool is_server, struct tcp_tls **ret_tls);

/** Free it; NULL: nothing. */
void tcp_tls_close(struct tcp_tls *tls);

/** From now on it reads from this connection. NULL: nothing. */
void tcp_tls_attach(struct tcp_tls *tls, struct net_connection *net);

/** The next write takes a new key. */
void tcp_tls_change_key(struct tcp_tls *tls);

/** Why the other side is not who it should be, for the log. @return NULL: nothing is known; so of `tls` NULL */
const char *tcp_tls_reason(const struct tcp_tls *tls);

/* Of the next ones the task that serves the connection calls one that reads and one that writes at a time; `tls` NULL
 * means in the clear. */

/** As net_read_try(); -EPROTO: what came is no TLS; -EACCES: the other side says that this one is not let in. */
ssize_t tcp_read_try(struct net_connection *net, struct tcp_tls *tls, void *buffer, size_t room);

/** As net_read(), and tcp_read_try(). Yields. */
ssize_t tcp_read(struct net_connection *net, struct tcp_tls *tls, void *buffer, size_t room,
                 uint64_t deadline_ns);

/** As net_write(). @param bytes  TCP_OUT_BYTES at most. Yields. */
base_must_check int tcp_write(struct net_connection *net, struct tcp_tls *tls, const void *data, size_t bytes,
                              uint64_t deadline_ns);

/** Send the last that is said on a socket, as far as it takes it at once. Where TLS has failed that is its alert, or
 * the same in the clear if the other side spoke in the clear. */
void tcp_write_last(int fd, struct tcp_tls *tls, const void *data, size_t bytes);

/** Go on with the handshake. @return 0: done; -EAGAIN: when more has come; -EACCES, -EPROTO (tcp_tls_reason());
 * -ECONNRESET and the like; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int tcp_shake_try(struct net_connection *net, struct tcp_tls *tls, uint64_t deadline_ns);

/** Go through with it. @return the same but -EAGAIN. Yields. */
base_must_check int tcp_shake(struct net_connection *net, struct tcp_tls *tls, uint64_t deadline_ns);

#endif
