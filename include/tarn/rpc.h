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

#define TARN_RPC_BYTES_MAX   (1U << 20) /* longest request, and longest result */
#define TARN_RPC_CALLS_MAX   1024       /* calls in flight in one direction of a connection */
#define TARN_RPC_METHODS_MAX 4096       /* methods of a service */
#define TARN_RPC_WORKERS_MAX 256        /* workers of a server */

struct tarn_rpc_connection;
struct tarn_rpc_server;

/* ---- methods ------------------------------------------------------------------------------------ */

/** A request, as a method sees it. */
struct tarn_rpc_request {
    struct tarn_rpc_connection *connection; /**< the caller's; a method may call back over it */
    const void *data;                       /**< the request's bytes; valid until the method returns */
    uint32_t bytes;                         /**< length of `data` */
    uint32_t room;                          /**< bytes that `result` has room for */
    void *result;                           /**< the method writes its result here */
    uint32_t
        result_bytes; /**< the method sets how much it wrote, at most `room`; 0 at first. Errors may have a result, too */
    uint64_t deadline_ns; /**< when the caller stops to wait; TARN_FOREVER: never, or the method is short */
    uint64_t epoch;       /**< what the caller sent; the method sets what the result carries back */
    uint32_t lease_ms;    /**< likewise, in milliseconds */
};

/** A method. @return 0 or negative errno: the caller's status */
typedef int tarn_rpc_function(void *arg, struct tarn_rpc_request *request);

struct tarn_rpc_method {
    const char *name;            /**< under which statistics show it */
    tarn_rpc_function *function; /**< NULL: no method has this number */
    bool
        is_short; /**< never yields and takes a few microseconds at most: it is run where its request is found, by one
                        thread at a time of a worker */
};

/** A table of methods, borrowed until the server or the connection that uses it is closed. A call names a method by its place. */
struct tarn_rpc_service {
    const struct tarn_rpc_method *methods;
    uint32_t count; /**< of methods, at most TARN_RPC_METHODS_MAX */
    void *arg;      /**< handed to every method */

    /** Takes a peer that connects with other private data than a caller's: accepts or rejects it, perhaps later. Called by a
     * task of a server's first worker. NULL: there are no such peers. @return false: it is rejected */
    bool (*visited)(void *arg, struct tarn_fabric_incoming *incoming);
};

/* ---- serving ------------------------------------------------------------------------------------ */

struct tarn_rpc_serve_options {
    uint32_t workers;         /**< how many workers serve, each with a thread of its own; 0: 1 */
    uint32_t connections_max; /**< connections at once; 0: 1,024 */
    uint32_t
        calls_max; /**< calls in flight that a connection gets at most, rounded up to a power of two; 0: 64 */
    uint32_t request_bytes_max; /**< longest request that a connection gets; 0: 4,096 */
    uint32_t result_bytes_max;  /**< longest result that a connection gets; 0: 4,096 */
    uint32_t running_max;       /**< methods, other than short ones, that run at once on a worker; 0: 256 */
    uint64_t
        memory_bytes; /**< the most that connections' slots take. Half of it is for small shares of new connections: of
                              one call, if that is at most 64 KiB. More calls and longer ones come out of the other half, and
                              where somebody lacks some, the connection that has had the most calls for longest is asked to
                              leave. 0: an eighth of the node's memory, but 12 MiB at least */
    uint64_t spin_ns; /**< how long a worker without requests looks for one before it sleeps; 0: 50 us */
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

/** What a server, or one connection, has done since it was made. */
struct tarn_rpc_stats {
    uint64_t connections;  /**< connections that there are now */
    uint64_t watched;      /**< connections in whose memory a worker looks now; the others notify it */
    uint64_t requests;     /**< requests that a worker has taken */
    uint64_t fetched;      /**< results that were left for the caller to fetch */
    uint64_t replied;      /**< results that were written to the caller */
    uint64_t late;         /**< requests that were answered with -ETIMEDOUT, without running their method */
    uint64_t unwhole;      /**< times that a worker found a part of a request */
    uint64_t sleeps;       /**< times that a worker went to sleep */
    uint64_t notified;     /**< messages that told a worker of a request */
    uint64_t moved;        /**< times that a connection became watched, or ceased to be */
    uint64_t memory_bytes; /**< memory that connections have now */
    uint64_t
        changes; /**< times that a caller changed from fetching results to having them written, or back */
};

/** Read what a server has done. Any thread. */
TARN_API void tarn_rpc_server_stats(const struct tarn_rpc_server *server, struct tarn_rpc_stats *ret_stats);

/** What a method has done since its server was made. */
struct tarn_rpc_method_stats {
    const char *name; /**< the service's */
    uint64_t calls;   /**< calls that were answered */
    uint64_t errors;  /**< answers with a status that is not 0, -ETIMEDOUT without running included */
    uint64_t
        service_ns; /**< time from taking to answering, of all calls together; of short methods only some are timed */
};

/** Read what a method has done. @return false: no method has this number. Any thread. */
TARN_API bool tarn_rpc_method_stats(const struct tarn_rpc_server *server, uint32_t method,
                                    struct tarn_rpc_method_stats *ret_stats);

/* ---- connections -------------------------------------------------------------------------------- */

/** How results come to the caller. */
enum tarn_rpc_way {
    TARN_RPC_ADAPTIVE, /**< by fetch or by reply, whichever was cheaper lately */
    TARN_RPC_FETCH,    /**< the caller READs them from the server's memory */
    TARN_RPC_REPLY,    /**< the server WRITEs them into the caller's memory */
};

struct tarn_rpc_connect_options {
    enum tarn_rpc_way way;
    uint32_t calls;         /**< calls in flight at once, rounded up to a power of two; 0: 16 */
    uint32_t request_bytes; /**< longest request; 0: 1,024 */
    uint32_t result_bytes;  /**< longest result; 0: 1,024 */
    uint32_t
        fetch_bytes; /**< bytes of a result that its first READ fetches; 0: chosen by the results seen lately */
    uint32_t worker;     /**< number of the server's worker, from 1 on; 0: any */
    uint32_t calls_back; /**< calls of the server to this side in flight at once; a plain thread takes none */
    const struct tarn_rpc_service *service; /**< methods that the server may call; NULL: none */
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

/** The error that a connection died of. @return negative errno; 0: it lives */
TARN_API int tarn_rpc_error(const struct tarn_rpc_connection *connection);

/** What a server has granted a connection. */
struct tarn_rpc_limits {
    uint32_t request_bytes; /**< longest request */
    uint32_t result_bytes;  /**< longest result */
    uint32_t calls;         /**< calls in flight at once */
    uint32_t worker;        /**< number of the worker that serves it, from 1 on */
    uint32_t workers;       /**< workers that the server has */
};

/** Read what was granted for calls from this side. */
TARN_API void tarn_rpc_limits(const struct tarn_rpc_connection *connection,
                              struct tarn_rpc_limits *ret_limits);

/* ---- calls -------------------------------------------------------------------------------------- */

/*
 * A call: the caller fills the first part and keeps it, the request and the room for the result, until tarn_rpc_wait() has
 * returned it.
 */
struct tarn_rpc_call {
    uint32_t method;        /**< place of the method in the service */
    uint32_t request_bytes; /**< length of `request` */
    const void *request;
    void *result;         /**< where the result goes */
    uint32_t room;        /**< bytes that `result` has room for */
    uint32_t lease_ms;    /**< handed to the method */
    uint64_t epoch;       /**< handed to the method */
    uint64_t deadline_ns; /**< when to stop waiting; 0 or TARN_FOREVER: never */

    /* The outcome. */
    int32_t error; /**< the method's status, or this layer's negative errno */
    bool finished; /**< the outcome is there */
    bool
        may_have_run; /**< false: no method has seen the call. True with an error of this layer: nobody knows */
    uint32_t result_bytes;    /**< length of the result; with -EMSGSIZE it is more than `room` */
    uint32_t answer_lease_ms; /**< what the method set */
    uint64_t answer_epoch;    /**< what the method set */
    uint64_t service_ns;      /**< time from taking to answering, at the server */

    /* The layer's own. */
    struct tarn_rpc_call *next;
    void *waiter;
    uint64_t sequence;
};

/** Start calls. Never waits, and sends nothing before a wait begins, so that calls go together. Each must be waited for. */
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

/** What the caller's side of a connection has done since it was made. */
struct tarn_rpc_call_stats {
    uint64_t calls;        /**< calls that were answered */
    uint64_t fetched;      /**< answers that were fetched */
    uint64_t replied;      /**< answers that were written to this side */
    uint64_t reads;        /**< READs that were posted */
    uint64_t unready;      /**< READs that found no result yet */
    uint64_t unwhole;      /**< READs that found a part of a result */
    uint64_t rests;        /**< second READs, for the rest of a long result */
    uint64_t notified;     /**< requests that were sent with a message to the worker */
    uint64_t woken;        /**< messages that were sent because the worker no longer looked */
    uint64_t changes;      /**< times that this side changed from fetch to reply, or back */
    uint64_t timed_out;    /**< calls that ended with -ETIMEDOUT, here or at the callee */
    uint32_t fetch_bytes;  /**< bytes that a first READ fetches now */
    enum tarn_rpc_way way; /**< how results come now: fetch or reply */
};

/** Read what a connection's caller has done. To be called by its user. */
TARN_API void tarn_rpc_call_stats(const struct tarn_rpc_connection *connection,
                                  struct tarn_rpc_call_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
