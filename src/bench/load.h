/*
 * What loads a server of memcached, of redis or of echoes: the calling thread around epoll, with any number of connections
 * and requests in flight on each. It shares nothing with the schedulers that it measures. In each turn it
 * reads and writes a connection once at most, whatever the number of requests.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "bench/bench.h"
#include "bench/protocol.h"
#include "memcache/client.h"

enum {
    BENCH_LOAD_CONNECTIONS_MAX = 10000,
    BENCH_LOAD_PIPELINE_MAX = 1024,
    BENCH_LOAD_KEYS_PER_GET_MAX = 100, /* so that redis and memcached take it in one line */
};

struct bench_load {
    struct bench *bench;
    const char *name; /* of the server, for messages */
    const struct memcache_client_address *address;
    enum bench_protocol protocol;
    const struct bench_values *values;
    const struct bench_keys *keys;
    uint32_t connections;
    uint32_t pipeline;     /* most requests in flight on each */
    uint32_t keys_per_get; /* 1, or a multi-get */
    double read_share;     /* of the requests; the others store one value */
    uint64_t rate;         /* requests a second in an open loop; 0: closed loop */
    uint64_t fill_rate;    /* keys a second that bench_load_fill() stores; 0: as fast as it goes */
    uint64_t seed;
    uint64_t patience_ns; /* how long nothing at all may be answered; 0: 10 s */
};

/* Connections to a server, for several measurements. */
struct bench_load_session;

/* What came of it. */
struct bench_load_outcome {
    uint64_t keys;     /* read and stored, of requests answered within the measured time */
    uint64_t all_keys; /* and of those before and after */
    uint64_t gets;     /* keys asked for, all */
    uint64_t hits;     /* of them, those that had their value */
    uint64_t elapsed_ns;
    double busy_share;              /* of the time in which the load had something to do */
    struct base_histogram *latency; /* of a request is added; open loop: since its intended start. Or NULL */
};

/**
 * Load a server for the duration of the options, after a tenth of it to get warm.
 *
 * @param outcome  its latency is given
 * @return 0; -EBADMSG (a wrong answer), -EPIPE (it closed a connection), -ETIMEDOUT (no answer for 10 s) and
 *         errors of sockets: said in bench->err
 *
 * An open loop that is behind by its own duration at its end gives up what has not started: that counts in
 * the latencies with the time that it waited.
 *
 * Blocks. Plain threads only.
 */
base_must_check int bench_load_run(const struct bench_load *load, struct bench_load_outcome *outcome);

/**
 * Connect to a server. The load's values and keys are borrowed until the end of the session; its rate is not looked at.
 *
 * @return 0; errors of sockets: said in bench->err
 */
base_must_check int bench_load_open(const struct bench_load *load, struct bench_load_session **ret_session);

/** Measure on all connections of a session. @param pipeline  at most the load's @param rate  as the load's
 * @return as bench_load_run(); after a failure the session can only be closed */
base_must_check int bench_load_measure(struct bench_load_session *session, uint32_t pipeline, uint64_t rate,
                                       struct bench_load_outcome *outcome);

/** Close the connections. */
void bench_load_close(struct bench_load_session *session);

/** Store a value for each key, with progress on a terminal. @return as above */
base_must_check int bench_load_fill(const struct bench_load *load);

#endif
