/* TLS under hellos and frames: tls_context.c has the state of a fabric, tls.c that of one connection. */
#ifndef FABRIC_TCP_TLS_H
#define FABRIC_TCP_TLS_H

#include "fabric/fabric_internal.h"
#include "task/net.h"

struct tcp;
struct tcp_options;
struct tcp_secret;
struct tcp_tls;

/* The state that all connections of a fabric share. `struct ssl_ctx_st` and `bio_method_st` are the library's. */
struct tcp_tls_context {
    struct ssl_ctx_st *library; /* NULL: connections are in the clear */
    struct bio_method_st *method;
};

/**
 * Make the context that the options ask for, with certificates or with the secret.
 *
 * @param secret  borrowed for as long as the context lives
 * @return 0; -ENOMEM; -EINVAL, -EACCES and the like (logged)
 */
base_must_check int tcp_tls_context_open(struct base_log *log, const struct tcp_options *options,
                                         const struct tcp_secret *secret,
                                         struct tcp_tls_context *ret_context);

/** Free a context, of which no connection is left. Nothing happens if it was never made. */
void tcp_tls_context_close(struct tcp_tls_context *context);

/** The functions by which the library reads and writes. @return NULL: no memory */
struct bio_method_st *tcp_tls_method(void);

/** Make one side of a connection, before the handshake. @return 0; -ENOMEM */
base_must_check int tcp_tls_open(struct tcp *tcp, bool is_server, struct tcp_tls **ret_tls);

/** Free the TLS of a connection; NULL is allowed. */
void tcp_tls_close(struct tcp_tls *tls);

/** Have it read from this network connection from now on; `tls` may be NULL. */
void tcp_tls_attach(struct tcp_tls *tls, struct net_connection *net);

/** Use a new key from the next write on. */
void tcp_tls_change_key(struct tcp_tls *tls);

/** Why the other side's identity was refused, for the log. @return NULL: not known, or `tls` is NULL */
const char *tcp_tls_reason(const struct tcp_tls *tls);

/* Of the functions below, one that reads and one that writes may be under way at a time, in tasks of the connection's
 * scheduler. `tls` NULL means in the clear. */

/** As net_read_try(); -EPROTO: the input is no TLS; -EACCES: the other side refuses this side's identity. */
ssize_t tcp_read_try(struct net_connection *net, struct tcp_tls *tls, void *buffer, size_t room);

/** As net_read(), and tcp_read_try(). Yields. */
ssize_t tcp_read(struct net_connection *net, struct tcp_tls *tls, void *buffer, size_t room,
                 uint64_t deadline_ns);

/** As net_write(). @param bytes  TCP_OUT_BYTES at most. Yields. */
base_must_check int tcp_write(struct net_connection *net, struct tcp_tls *tls, const void *data, size_t bytes,
                              uint64_t deadline_ns);

/**
 * Send bytes, 4 KiB at most, without waiting. If TLS has failed, its alert is sent instead; if the other side spoke in the
 * clear, the bytes go in the clear.
 *
 * @return whether the socket took all of it
 */
bool tcp_write_now(int fd, struct tcp_tls *tls, const void *data, size_t bytes);

/** Go on with the handshake. @return 0: it is done; -EAGAIN: call again when more input has come; -EACCES, -EPROTO
 * (tcp_tls_reason()); -ECONNRESET and the like; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int tcp_shake_try(struct net_connection *net, struct tcp_tls *tls, uint64_t deadline_ns);

/** Do the whole handshake. @return as tcp_shake_try(), but never -EAGAIN. Yields. */
base_must_check int tcp_shake(struct net_connection *net, struct tcp_tls *tls, uint64_t deadline_ns);

#endif
