/*
 * rpc: what other layers may ask of it besides <tarn/rpc.h>, whose rules hold here.
 */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include "base/base.h"
#include "task/sched.h"
#include <tarn/rpc.h>

#define RPC_TAG 1 /* whom the fabric counts for: tarn_fabric_count() */

/**
 * tarn_rpc_serve() on schedulers that are there already.
 *
 * @param scheds   of a worker each; they outlive the server
 * @param options  its `workers` means nothing; NULL: the defaults
 */
base_must_check int rpc_serve(struct tarn_fabric *fabric, const char *address,
                              const struct tarn_rpc_service *service,
                              const struct tarn_rpc_serve_options *options, struct task_sched *const *scheds,
                              uint32_t count, struct tarn_rpc_server **ret_server);

/* Calls of one connection that were posted. */
struct rpc_calls {
    struct tarn_rpc_connection *connection;
    struct tarn_rpc_call *calls;
    uint32_t count;
};

#define RPC_WAIT_MANY_MAX 64

/**
 * tarn_rpc_wait() for calls of several connections of the caller's, which are sent before any is waited for.
 *
 * @param some   of which several may be of one connection. What each call came to, its `error` tells
 * @param count  at most RPC_WAIT_MANY_MAX
 *
 * Yields.
 */
void rpc_wait_many(const struct rpc_calls *some, uint32_t count);

/**
 * tarn_rpc_connect() with room for one region of the caller's besides the slots, for what is too long for them.
 *
 * @param export_bytes  of a region that tarn_fabric_region_alloc() shall make, to be read; 0: it is registered, or none is made
 */
base_must_check int rpc_connect(struct tarn_fabric *fabric, const char *address,
                                const struct tarn_rpc_connect_options *options, uint64_t export_bytes,
                                uint64_t deadline_ns, struct tarn_rpc_connection **ret_connection);

/** The fabric's connection below. */
struct tarn_fabric_connection *rpc_fabric_connection(const struct tarn_rpc_connection *connection);

/** The domain of this side, for one more region, which is freed before the connection is. */
struct tarn_fabric_domain *rpc_fabric_domain(const struct tarn_rpc_connection *connection);

#endif
