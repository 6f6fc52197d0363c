/*
 * rpc: the functions for other layers, besides <tarn/rpc.h>, whose rules hold here.
 */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include "base/base.h"
#include "task/sched.h"
#include <tarn/rpc.h>

#define RPC_MEMORY_MIN                                                                                       \
    (UINT64_C(12) << 20) /* of a server's connections: room for one with the longest requests */

#define RPC_TAG 1 /* the tag under which the fabric counts this layer's operations: tarn_fabric_count() */

/**
 * tarn_rpc_serve() on existing schedulers.
 *
 * @param scheds   one for each worker; they outlive the server
 * @param options  its `workers` is not used; NULL: the defaults
 */
base_must_check int rpc_serve(struct tarn_fabric *fabric, const char *address,
                              const struct tarn_rpc_service *service,
                              const struct tarn_rpc_serve_options *options, struct task_sched *const *scheds,
                              uint32_t count, struct tarn_rpc_server **ret_server);

/* Posted calls of one connection. */
struct rpc_calls {
    struct tarn_rpc_connection *connection;
    struct tarn_rpc_call *calls;
    uint32_t count;
};

#define RPC_WAIT_MANY_MAX 64

/**
 * tarn_rpc_wait() for calls of several of the caller's connections; all are sent before any is waited for.
 *
 * @param some   groups of calls, of which several may have the same connection. Each call's `error` has its outcome
 * @param count  at most RPC_WAIT_MANY_MAX
 *
 * Yields.
 */
void rpc_wait_many(const struct rpc_calls *some, uint32_t count);

/**
 * tarn_rpc_connect(), with room in the domain for one region of the caller's, for values that are too long for slots.
 *
 * @param export_bytes  size of a readable region that the caller makes by tarn_fabric_region_alloc(); 0: it registers one,
 *                      or makes none
 */
base_must_check int rpc_connect(struct tarn_fabric *fabric, const char *address,
                                const struct tarn_rpc_connect_options *options, uint64_t export_bytes,
                                uint64_t deadline_ns, struct tarn_rpc_connection **ret_connection);

/** The fabric's connection that carries the calls. */
struct tarn_fabric_connection *rpc_fabric_connection(const struct tarn_rpc_connection *connection);

/** The domain of this side, for the caller's one region, which must be freed before the connection. */
struct tarn_fabric_domain *rpc_fabric_domain(const struct tarn_rpc_connection *connection);

#endif
