/* The provider `tcp`: any host that a stream socket reaches. Its options, and the state that all its files share. */
#ifndef FABRIC_TCP_TCP_H
#define FABRIC_TCP_TCP_H

#include "fabric/bell.h"
#include "fabric/fabric_internal.h"
#include "fabric/tcp/hello.h"
#include "fabric/tcp/tls.h"
#include "fabric/tcp/wire.h"

#define TCP_PATH_BYTES 256

#define TCP_BUFFER_BYTES (TCP_OUT_BYTES + 8192) /* what is sent at once, with room for what TLS adds */

/* The URL's options. */
struct tcp_options {
    bool insecure;    /* hosts other than this machine may be reached in the clear */
    uint32_t sockets; /* number of sockets of a connection that this side makes */
    bool tls;         /* bytes are protected: by `tls`, or by a secret, which implies it */
    uint64_t heartbeat_ns;
    char secret_path[TCP_PATH_BYTES]; /* the file of the secret; "" in this and the next three: none */
    char cert_path[TCP_PATH_BYTES], key_path[TCP_PATH_BYTES], ca_path[TCP_PATH_BYTES];
};

struct tcp {
    struct tarn_node *node;
    struct tcp_options options;
    struct tcp_secret secret;
    struct tcp_tls_context tls;
    struct task_sched
        *sched; /* the fabric's own scheduler: for listeners, connections of plain threads, and the clock */
    struct base_log_limit refusals;
    struct base_spin buffers_lock; /* guards the next two; no other lock is taken under it */
    struct tcp_buffer *buffers;    /* those that are free */
    uint32_t buffers_count;
    struct fabric_bell bell;      /* its lock guards the fields below */
    struct base_list connections; /* of struct tcp_connection */
    bool closing;
};

/**
 * Get a buffer of TCP_BUFFER_BYTES, for as long as bytes are on their way through it: so idle connections have none.
 *
 * @return NULL: no memory
 */
void *tcp_buffer_get(struct tcp *tcp);

/** Give a buffer back; NULL is allowed. */
void tcp_buffer_put(struct tcp *tcp, void *buffer);

/** Read the URL's text behind "tcp:". @return 0; -EINVAL (logged) */
base_must_check int tcp_options_read(struct base_log *log, const char *text, struct tcp_options *ret_options);

/** Whether an address may be listened on or connected with. @return 0; -EINVAL; -EPERM (both logged) */
base_must_check int tcp_check_address(struct tcp *tcp, const char *address);

/** Run a function where the caller's connections belong: in the calling task, or, for a plain thread, on the fabric's own
 * scheduler, as fabric_run_on() does. */
base_must_check int tcp_run(struct tcp *tcp, task_function *function, void *arg);

#endif
