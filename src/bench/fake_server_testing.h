/*
 * For tests: a server in a thread that answers any get with the right value of the key, and may misbehave in
 * one way at one request.
 */
#ifndef BENCH_FAKE_SERVER_TESTING_H
#define BENCH_FAKE_SERVER_TESTING_H

#include "base/testing.h"

#include "bench/protocol.h"
#include "memcache/client.h"
#include <pthread.h>
#include <stdatomic.h>

enum {
    FAKE_CONNECTIONS = 16,
    FAKE_NUMBERS = 4096,
};

enum fake_fault {
    FAKE_RIGHT,
    FAKE_STALLS,     /* for stall_ms */
    FAKE_SLOW,       /* for stall_ms, and so for each later one */
    FAKE_CLOSES,     /* the connection */
    FAKE_ERROR,      /* is the answer */
    FAKE_TWICE,      /* it answers */
    FAKE_OTHER,      /* key's value is the answer */
    FAKE_SILENT,     /* from then on */
    FAKE_MISSES_ODD, /* numbers, always */
};

struct fake_connection;

struct fake_server {
    /* how it is to behave, set before it begins */
    enum bench_protocol protocol;
    const struct bench_values *values;
    enum fake_fault fault;
    uint64_t fault_at; /* the request, from 0 */
    int stall_ms;
    const char *unix_path; /* where it listens; NULL: at a port of its own */

    struct memcache_client_address address;
    uint16_t port;
    int listener;
    pthread_t thread;
    atomic_bool stop; /* stored by the test, loaded by the thread */
    struct fake_connection *connections[FAKE_CONNECTIONS];
    size_t count;

    /* what it has seen: looked at after it has ended */
    uint64_t requests;
    uint64_t most_at_once; /* requests of one connection that were there together */
    uint32_t sets[FAKE_NUMBERS];
    uint64_t gets;
    uint64_t wrong_sets; /* with no value of that key */
};

/** Begin to serve. What the first comment of the structure names is set. */
void fake_begin(struct fake_server *fake);

/** End it. */
void fake_end(struct fake_server *fake);

#endif
