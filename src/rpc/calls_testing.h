/* For the tests of calls: a service, a server of it, its clients, and calls that must succeed. */
#ifndef RPC_CALLS_TESTING_H
#define RPC_CALLS_TESTING_H

#include "fabric/testing.h"
#include "rpc/connection.h"

/* ---- a service ---------------------------------------------------------------------------------- */

enum { TESTING_WAYS = 5 };

enum { ECHO, ECHO_LATER, FAIL, NAP, BUSY, STUCK, CALL_BACK, MISSING, METHODS };

/* What the methods have done, and are to do. */
struct testing_service {
    _Atomic uint64_t echoes, naps;
    _Atomic uint64_t nap_ns;
    _Atomic bool nobody_wakes; /* naps last, and workers are stuck, until this is false */
    _Atomic uint64_t stuck;    /* number of workers that are */
};

/* ---- a server and its clients ------------------------------------------------------------------- */

struct testing_calls {
    struct testing_fabric *testing;
    struct testing_service counts;
    struct tarn_rpc_service service;
    struct tarn_rpc_server *server;
    struct tarn_rpc_connection *connection; /* of the test itself */
};

/* Where the node has schedulers, the server runs on all but the first, which is the client's. */
void testing_serve(struct testing_fabric *testing, struct testing_calls *calls,
                   const struct tarn_rpc_serve_options *options);

struct tarn_rpc_connection *testing_client(struct testing_calls *calls,
                                           const struct tarn_rpc_connect_options *options);

void testing_calls_open(struct testing_fabric *testing, struct testing_calls *calls,
                        const struct tarn_rpc_connect_options *options);

void testing_calls_close(struct testing_calls *calls);

/* A call with its memory. */
struct testing_call {
    struct tarn_rpc_call call;
    uint8_t request[1024];
    uint8_t result[1024];
};

void testing_call_init(struct testing_call *one, uint32_t method, uint32_t bytes, uint64_t round);

void testing_call_check(const struct testing_call *one);

/** An echo of that length that must succeed. */
void testing_expect_echo(struct tarn_rpc_connection *connection, uint32_t method, uint32_t bytes,
                         uint64_t round);

/** A call without request. @return as tarn_rpc_call() */
int testing_plain_call(struct tarn_rpc_connection *connection, uint32_t method, uint64_t deadline_ns,
                       struct tarn_rpc_call *ret_call);

extern const struct tarn_rpc_connect_options testing_ways[TESTING_WAYS];

/** Run something with a server and a connection for each way of answering. */
void testing_each_way(struct testing_fabric *testing, void (*function)(struct testing_calls *calls));

#endif
