/* The provider `tcp`: any host that a stream socket reaches. What its URL says, and what all its parts share. For the files of this folder. */
#ifndef FABRIC_TCP_TCP_H
#define FABRIC_TCP_TCP_H

#include "fabric/fabric_internal.h"
#include "fabric/tcp/gate.h"
#include "fabric/tcp/hello.h"
#include "fabric/tcp/tls.h"

#define TCP_PATH_BYTES 256

/* What the URL says. */
struct tcp_options {
    bool insecure;    /* reach beyond this machine */
    uint32_t sockets; /* of a connection that is made here */
    bool tls;
    uint64_t heartbeat_ns;
    char secret_path[TCP_PATH_BYTES]; /* "": none, of all four */
    char cert_path[TCP_PATH_BYTES], key_path[TCP_PATH_BYTES], ca_path[TCP_PATH_BYTES];
};

struct tcp {
    struct tarn_node *node;
    struct tcp_options options;
    struct tcp_secret secret;
    struct tcp_tls_context tls;
    struct task_sched *sched; /* of its own: listeners, the connections of plain threads, the clock */
    struct base_log_limit refusals;
    struct tcp_gate gate;         /* of what follows */
    struct base_list connections; /* of struct tcp_connection */
    struct base_list parties;     /* of struct tcp_party */
    bool closing;
};

/** Read what follows "tcp:". @return 0; -EINVAL (logged) */
base_must_check int tcp_options_read(struct base_log *log, const char *text, struct tcp_options *ret_options);

/** Whether an address may be listened on or connected with. @return 0; -EINVAL; -EPERM (both logged) */
base_must_check int tcp_check_address(struct tcp *tcp, const char *address);

/** As fabric_run_on(), where the caller's connections belong: in the caller, or, for a plain thread, on the fabric's
 * own. */
base_must_check int tcp_run(struct tcp *tcp, task_function *function, void *arg);

#endif
