/*
 * kv: what other layers may ask of it besides <tarn/kv.h>, whose rules hold here.
 */
#ifndef KV_KV_H
#define KV_KV_H

#include "base/base.h"
#include "task/sched.h"
#include <tarn/kv.h>
#include <tarn/rpc.h>

struct depot_opening;
struct kv_server;

/** What is wrong with a store's URL. @return static; NULL: nothing, as far as it can be seen. Any thread. */
const char *kv_url_wrong(const char *url);

/** tarn_kv_open() that tells how far a depot's opening is. @param opening  as of depot_open(); NULL: nothing is told */
base_must_check int kv_open(struct tarn_node *node, const char *url, const struct tarn_kv_options *options,
                            const struct depot_opening *opening, struct tarn_kv **ret_kv);

/**
 * A store's interface for a depot that somebody else has opened, and closes after this.
 *
 * @return 0; -ENOMEM. Any thread or task.
 */
base_must_check int kv_wrap_depot(struct tarn_node *node, struct tarn_depot *depot, struct tarn_kv **ret_kv);

/** The depot of a store, for what depots alone can do; NULL: it is another kind, or a server's. Any thread. */
struct tarn_depot *kv_depot_of(const struct tarn_kv *kv);

/* A store to be served. */
struct kv_served {
    const char *name;   /* 1 to 63 letters, digits, '-', '_' and '.'; borrowed until return */
    struct tarn_kv *kv; /* there until the server is closed; others may use it meanwhile. None of a server */
};

/**
 * Serve stores to whoever connects: docs/wire.md.
 *
 * @param address  as tarn_fabric_listen()
 * @param stores   1 to 64
 * @param options  NULL: the defaults. Longest request and result: 1 MiB each unless it says less, of which a client
 *                 takes what it needs; calls in flight: 16
 * @param scheds   of a worker each; they outlive the server. NULL: threads of its own, so many as `options` says
 * @return 0; -EINVAL (a name, or one that is there twice, or a store of a server); what tarn_rpc_serve() returns. Yields.
 */
base_must_check int kv_serve(struct tarn_fabric *fabric, const char *address, const struct kv_served *stores,
                             uint32_t count, const struct tarn_rpc_serve_options *options,
                             struct task_sched *const *scheds, uint32_t sched_count,
                             struct kv_server **ret_server);

/** Serve no more; what is asked for now is answered or ends with its connection. The stores stay. Yields. */
void kv_server_close(struct kv_server *server);

/** What it has done. Any thread. */
void kv_server_stats(const struct kv_server *server, struct tarn_rpc_stats *ret_stats);

#endif
