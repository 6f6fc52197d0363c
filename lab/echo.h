/*
 * TCP echo: a server in a process of its own, and beside it what loads it in another. What the three files
 * echo_tarn.c and echo_epoll.c (servers) and echo_load.c say to the fourth, echo.c, which measures.
 */
#ifndef LAB_ECHO_H
#define LAB_ECHO_H

#include "bench/case.h"
#include "lab/child.h"
#include "lab/usage.h"
#include "task/node.h"

/** Bytes of a message, and of its echo. */
#define LAB_ECHO_BYTES 64

/* What a server is told when it is started. */
struct lab_echo_server {
    const struct bench *bench;
    enum task_engine_choice engine; /* Tarn's */
    uint64_t spin_ns;               /* Tarn's: before it sleeps */
    uint32_t connections_max;
};

/* What a server says when it is ready, and again for each byte that it receives. */
struct lab_echo_state {
    int32_t error;   /* 0, or why it does not run */
    uint16_t port;   /* on 127.0.0.1 */
    char engine[16]; /* of Tarn's: what it talks to the kernel by */
    struct lab_usage usage;
};

enum lab_echo_order {
    LAB_ECHO_CONNECT, /* open further connections, and try each */
    LAB_ECHO_RUN,     /* load them */
};

struct lab_echo_request {
    enum lab_echo_order order;
    uint16_t port;
    uint32_t connections; /* all, those of earlier requests included */
    uint64_t duration_ns;
    uint64_t rate; /* messages a second in an open loop; 0: closed loop, each waits for its echo */
    bool spin;     /* has a core of its own: never sleeps */
};

struct lab_echo_answer {
    int32_t error;
    uint64_t operations; /* echoes within the measured time */
    uint64_t all;        /* and those before and after */
    uint64_t elapsed_ns;
    struct base_histogram latency; /* open loop: since the intended start */
};

/** The child function of Tarn's server; `arg` is a struct lab_echo_server. */
int lab_echo_tarn(void *arg);

/** The child function of the peer, a plain loop around epoll_wait(). The same. */
int lab_echo_epoll(void *arg);

/** The child function of what loads: answers struct lab_echo_request. `arg` is a struct lab_echo_server.
 */
int lab_echo_load(void *arg);

/* What to measure. */
struct lab_echo_options {
    enum task_engine_choice engine;
    uint64_t spin_ns;
    uint64_t rate; /* of the open loop; 0: half of what the slower side did in the closed one */
    uint32_t connections;
};

/** Measure echo at a number of connections, closed and open loop. @return 0; negative errno: said */
base_must_check int lab_echo_run(struct bench *bench, const struct lab_echo_options *options);

/** Measure what idle connections cost: memory, processor time and wake-ups. @return 0; negative errno: said
 */
base_must_check int lab_echo_run_idle(struct bench *bench, const struct lab_echo_options *options);

#endif
