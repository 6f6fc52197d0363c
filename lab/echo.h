/*
 * TCP echo: a server in a process of its own, and beside it what loads it in another. What the servers of echo_tarn.c
 * and echo_epoll.c say to echo.c, which measures them.
 */
#ifndef LAB_ECHO_H
#define LAB_ECHO_H

#include "bench/case.h"
#include "lab/child.h"
#include "lab/usage.h"
#include "task/node.h"

/* What to measure. */
struct lab_echo_options {
    enum task_engine_choice engine; /* Tarn's */
    uint64_t spin_ns;               /* Tarn's: before it sleeps */
    uint64_t rate; /* of the open loop; 0: half of what the slower side did in the closed one */
    uint32_t connections;
};

/* What a server is told when it is started. */
struct lab_echo_server {
    struct bench *bench;
    const struct lab_echo_options *options;
};

/* What a server says when it is ready, and again for each byte that it receives. */
struct lab_echo_state {
    int32_t error;   /* 0, or why it does not run */
    uint16_t port;   /* on 127.0.0.1 */
    char engine[16]; /* of Tarn's: what it talks to the kernel by */
    struct lab_usage usage;
};

/** The child function of Tarn's server; `arg` is a struct lab_echo_server. */
int lab_echo_tarn(void *arg);

/** The child function of the peer, a plain loop around epoll_wait(). The same. */
int lab_echo_epoll(void *arg);

/** Measure echo at a number of connections, closed and open loop. @return 0; negative errno: said */
base_must_check int lab_echo_run(struct bench *bench, const struct lab_echo_options *options);

/** Measure what idle connections cost: memory, processor time and wake-ups. @return 0; negative errno: said */
base_must_check int lab_echo_run_idle(struct bench *bench, const struct lab_echo_options *options);

#endif
