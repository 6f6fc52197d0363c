/*
 * tarn/rpc.h: calls between processes and machines over the fabric. A request is written into the callee's memory; its
 * result is fetched from there by the caller, or written to it, whichever is faster.
 *
 * Threading: servers are for any thread and for tasks. A connection is used by tasks of the scheduler that made it, or by
 * one plain thread at a time. *Yields* means: blocks the calling thread, or lets other tasks run. Deadlines are moments of
 * tarn_now_ns(), TARN_FOREVER for none.
 * Errors: negative errno; output arguments stay untouched on failure.
 */
#ifndef TARN_RPC_H
#define TARN_RPC_H

#include <tarn/fabric.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_RPC_BYTES_MAX   (1U << 20) /* of a request, and of a result */
#define TARN_RPC_CALLS_MAX   1024       /* in flight, of one direction of a connection */
#define TARN_RPC_METHODS_MAX 4096       /* of a service */
#define TARN_RPC_WORKERS_MAX 256        /* of a server */
struct tarn_rpc_connection;
struct tarn_rpc_server;

/* ---- methods ------------------------------------------------------------------------------------ */

/** A request, as a method sees it. */
struct tarn_rpc_request {
    struct tarn_rpc_connection *connection; /**< whose it is: to be called back */
    const void *data;                       /**< valid until the method returns */
    uint32_t bytes;
    uint32_t room;         /**< for the result */
    void *result;          /**< to be filled */
    uint32_t result_bytes; /**< to be set: at most `room`; 0 at first. With an error, too */
    uint64_t deadline_ns;  /**< nobody waits for longer; TARN_FOREVER: none, or the method is short */
    uint64_t epoch;        /**< the caller's; to be set to what the result shall carry */
    uint32_t lease_ms;     /**< the same */
};

/** @return 0 or negative errno, which the caller gets */
typedef int tarn_rpc_function(void *arg, struct tarn_rpc_request *request);

struct tarn_rpc_method {
    const char *name;            /**< for statistics */
    tarn_rpc_function *function; /**< NULL: there is none of this number */
    bool
        is_short; /**< never yields and takes a few microseconds at most: it is run where its request is found, by one
                        thread at a time of a worker */
};

/** Borrowed until what uses it is closed. A call names a method by its place. */
struct tarn_rpc_service {
    const struct tarn_rpc_method *methods;
    uint32_t count; /**< at most TARN_RPC_METHODS_MAX */
    void *arg;      /**< of the methods */
};

/* ---- serving ------------------------------------------------------------------------------------ */

struct tarn_rpc_serve_options {
    uint32_t workers;           /**< each with a thread; 0: 1 */
    uint32_t connections_max;   /**< 0: 1,024 */
    uint32_t calls_max;         /**< in flight, rounded up to a power of two; 0: 64. More is cut */
    uint32_t request_bytes_max; /**< 0: 4,096 */
    uint32_t result_bytes_max;  /**< 0: 4,096 */
    uint32_t running_max;       /**< methods that are not short, at once, of a worker; 0: 256 */
    uint64_t spin_ns;           /**< how long a worker looks before it sleeps; 0: 50 us */
};

/**
 * Serve a service.
 *
 * @param address  as tarn_fabric_listen()
 * @param options  NULL: the defaults
 * @return 0; -EINVAL; -ENOMEM; what tarn_fabric_listen() and the start of threads return (logged). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_rpc_serve(struct tarn_fabric *fabric, const char *address,
                                            const struct tarn_rpc_service *service,
                                            const struct tarn_rpc_serve_options *options,
                                            struct tarn_rpc_server **ret_server);

/** Serve no more: connections are ended, methods that run are waited for. Yields. */
TARN_API void tarn_rpc_server_close(struct tarn_rpc_server *server);

/** What a server, or one connection, has done. */
struct tarn_rpc_stats {
    uint64_t connections;  /**< now */
    uint64_t watched;      /**< of those */
    uint64_t requests;     /**< that were taken */
    uint64_t fetched;      /**< results left to be fetched */
    uint64_t replied;      /**< results written */
    uint64_t late;         /**< requests that were answered with -ETIMEDOUT unrun */
    uint64_t unwhole;      /**< looks that found a part of a request */
    uint64_t sleeps;       /**< of workers */
    uint64_t notified;     /**< messages that made a worker look */
    uint64_t moved;        /**< connections that became watched, or stopped to be */
    uint64_t memory_bytes; /**< of connections now */
    uint64_t changes;      /**< callers that ask for results by reply now, after fetching them, or back */
};

/** What it has done. Any thread. */
TARN_API void tarn_rpc_server_stats(const struct tarn_rpc_server *server, struct tarn_rpc_stats *ret_stats);

/** What a method has done. */
struct tarn_rpc_method_stats {
    const char *name;
    uint64_t calls;      /**< that were answered */
    uint64_t errors;     /**< of those, with a status that is not 0: -ETIMEDOUT unrun, too */
    uint64_t service_ns; /**< of all together, from taking to answering; of short ones one of some is timed */
};

/** What a method has done. @return false: there is none of this number. Any thread. */
TARN_API bool tarn_rpc_method_stats(const struct tarn_rpc_server *server, uint32_t method,
                                    struct tarn_rpc_method_stats *ret_stats);

/* ---- connections -------------------------------------------------------------------------------- */

/** How results come. */
enum tarn_rpc_way {
    TARN_RPC_ADAPTIVE, /**< whichever is better, by what was seen lately */
    TARN_RPC_FETCH,
    TARN_RPC_REPLY,
};

struct tarn_rpc_connect_options {
    enum tarn_rpc_way way;
    uint32_t calls;         /**< in flight, rounded up to a power of two; 0: 16 */
    uint32_t request_bytes; /**< the longest; 0: 1,024 */
    uint32_t result_bytes;  /**< 0: 1,024 */
    uint32_t fetch_bytes;   /**< of results, with the first READ; 0: chosen by what was seen lately */
    uint32_t worker;        /**< number of the server's worker, from 1 on; 0: any */
    uint32_t calls_back;    /**< calls of the server in flight; of tasks only */
    const struct tarn_rpc_service *service; /**< what the server may call; NULL: nothing */
};

/**
 * Connect with a server.
 *
 * @param options  NULL: the defaults
 * @return 0; -EINVAL; -ENOMEM; -EPROTO (it is no such server); what tarn_fabric_connect() returns. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_rpc_connect(struct tarn_fabric *fabric, const char *address,
                                              const struct tarn_rpc_connect_options *options,
                                              uint64_t deadline_ns,
                                              struct tarn_rpc_connection **ret_connection);

/** End and free a connection of tarn_rpc_connect(); nobody waits for a call of it. Yields. */
TARN_API void tarn_rpc_disconnect(struct tarn_rpc_connection *connection);

/** What the connection died of; 0 while it lives. */
TARN_API int tarn_rpc_error(const struct tarn_rpc_connection *connection);

/** What was granted: longest request and result, calls in flight, the server's worker (from 1 on) and how many it has. */
struct tarn_rpc_limits {
    uint32_t request_bytes;
    uint32_t result_bytes;
    uint32_t calls;
    uint32_t worker;
    uint32_t workers;
};

/** What was granted for calls from this side. */
TARN_API void tarn_rpc_limits(const struct tarn_rpc_connection *connection,
                              struct tarn_rpc_limits *ret_limits);

/* ---- calls -------------------------------------------------------------------------------------- */

/*
 * A call: the caller fills the first part and keeps it, the request and the room for the result, until tarn_rpc_wait() has
 * returned it.
 */
struct tarn_rpc_call {
    uint32_t method;
    uint32_t request_bytes;
    const void *request;
    void *result;
    uint32_t room;
    uint32_t lease_ms;
    uint64_t epoch;
    uint64_t deadline_ns; /**< 0 or TARN_FOREVER: none */

    /**< what it came to */
    int32_t error; /**< 0 or negative errno */
    bool finished;
    bool may_have_run;     /**< false: no method has seen it. With an error of this layer's: nobody knows */
    uint32_t result_bytes; /**< with -EMSGSIZE more than there was room for */
    uint32_t answer_lease_ms;
    uint64_t answer_epoch;
    uint64_t service_ns; /**< from taking to answering, at the callee */

    /**< the layer's */
    struct tarn_rpc_call *next;
    void *waiter;
    uint64_t sequence;
};

/** Start calls. Never waits, and sends nothing before somebody waits: so they go together. Each must be waited for. */
TARN_API void tarn_rpc_post(struct tarn_rpc_connection *connection, struct tarn_rpc_call *calls,
                            uint32_t count);

/**
 * Wait until all of some calls of a connection have ended.
 *
 * @return 0; the first error among them: what methods return; -EINVAL, -EMSGSIZE (the request is longer than was granted, or
 *         the result than there is room); -ENOSYS (no such method); -ETIMEDOUT; what the connection died of: then, and at
 *         -ETIMEDOUT, see may_have_run. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_rpc_wait(struct tarn_rpc_connection *connection,
                                           struct tarn_rpc_call *calls, uint32_t count);

/** Post one call and wait for it. @return as tarn_rpc_wait(). Yields. */
TARN_API TARN_MUST_CHECK int tarn_rpc_call(struct tarn_rpc_connection *connection,
                                           struct tarn_rpc_call *call);

/** What the caller's side of a connection has done. */
struct tarn_rpc_call_stats {
    uint64_t calls;    /**< that were answered */
    uint64_t fetched;  /**< of those: by READ */
    uint64_t replied;  /**< of those: by reply */
    uint64_t reads;    /**< that were posted */
    uint64_t unready;  /**< READs that found no result yet */
    uint64_t unwhole;  /**< READs that found a part of a result */
    uint64_t rests;    /**< second READs of long results */
    uint64_t notified; /**< requests that notified at once */
    uint64_t woken;    /**< marks that were met */
    uint64_t changes;  /**< from fetch to reply, or back */
    uint64_t timed_out;
    uint32_t fetch_bytes;  /**< of results, now */
    enum tarn_rpc_way way; /**< now: fetch or reply */
};

/** What it has done. By its user. */
TARN_API void tarn_rpc_call_stats(const struct tarn_rpc_connection *connection,
                                  struct tarn_rpc_call_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
