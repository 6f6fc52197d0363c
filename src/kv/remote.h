/*
 * Stores of servers: the way of calls.
 *
 * A connection is used by tasks of one scheduler, or by one plain thread at a time. So each scheduler has a *lane*, and
 * plain threads share some, each of which is one thread's for a call. A lane has *links*: connections with the workers of
 * the server, of two sizes, made when they are first needed and again when they have died.
 */
#ifndef KV_REMOTE_H
#define KV_REMOTE_H

#include "base/spin.h"
#include "kv/wire.h"
#include "rpc/rpc.h"
#include "task/sched.h"
#include "task/task.h"
#include "tree/node.h"
#include "tree/record.h"
#include "tree/selector.h"
#include <stdatomic.h>

#define KV_THREAD_LANES   8 /* the most plain threads that call at once; others wait */
#define KV_NARROW_REQUEST 4096
#define KV_NARROW_RESULT  16384
#define KV_ANY_WORKER     UINT32_MAX
#define KV_TIMEOUT_BYTES                                                                                     \
    (UINT64_C(16) << 20) /* bytes of a value for which a call's time limit grows by its first length again */

/* What all lanes have done: tarn_kv_reads_stats(). */
struct kv_reads_counters {
    _Atomic uint64_t asked, searched, explored, fallbacks, reads, torn, cached;
};

/* A connection with a worker, and the server's answer to INFO. */
struct kv_link {
    struct tarn_rpc_connection *rpc;
    uint32_t users; /* number of users: calls under way, and the lane */
    uint16_t store;
};

struct kv_lane {
    struct base_list link; /* place in the list of plain threads' free lanes */
    struct kv_remote *remote;
    struct task_sched *sched; /* the scheduler whose tasks use the lane; NULL: plain threads do */
    struct task_mutex mutex;  /* held while a task connects */
    uint32_t place;           /* the lane's number, by which lanes choose different workers */
    uint32_t workers;         /* the routing of the last INFO: number of workers */
    uint32_t partitions;
    uint64_t seed;
    bool must_ask;     /* the routing may have changed since */
    uint64_t pause_ns; /* pause before the next attempt to connect; 0: the last one succeeded */
    uint64_t not_before_ns;
    int connect_error;             /* of the latest attempt to connect */
    struct task_mutex reads_mutex; /* held while a connection for READs is made, or learns more */
    struct kv_reads *reads;        /* for reading by itself; NULL: no connection for that, yet or any more */
    uint64_t reads_not_before_ns;  /* pause before the next attempt to have one */
    struct tree_selector selector;
    struct kv_link *
        links[2 * TARN_RPC_WORKERS_MAX]; /* for each worker a link with small slots and one with large ones */
};

struct kv_remote {
    struct tarn_kv kv;
    struct tarn_fabric *fabric;
    bool owns_fabric;
    bool takes_regions; /* the server answers PUT_REGION */
    bool is_shared;     /* the server lets clients read the store by themselves */
    enum tarn_kv_way way;
    struct tree_selector_settings selector;
    uint64_t cache_bytes; /* of each lane, for nodes */
    struct kv_reads_counters counters;
    uint64_t timeout_ns;
    char address[KV_ADDRESS_ROOM], name[KV_NAME_MAX + 1];
    struct kv_lane *lanes[TASK_SCHEDS_MAX]; /* by the index of the scheduler; each belongs to that alone */
    struct task_semaphore thread_permits;   /* permits for lanes of plain threads */
    struct base_spin lock;                  /* protects the fields below */
    struct base_list thread_lanes;          /* free lanes of plain threads */
    uint32_t thread_lane_count;             /* number of lanes of plain threads that were made */
};

/* A request and its outcome. */
struct kv_call {
    struct kv_lane *lane;
    enum kv_method method;
    const void *key; /* the key, which decides the worker of a cache */
    size_t key_len;
    uint32_t worker;  /* the worker; KV_ANY_WORKER: the key or the lane decides */
    bool repeats;     /* the method may run more than once */
    uint8_t *request; /* the saved request, into which the store's number is filled */
    uint32_t request_bytes;
    uint8_t *result;
    uint32_t room;
    uint32_t result_bytes;
    uint64_t deadline_ns;
    const uint8_t *exported; /* PUT_REGION: the value that the server READs; NULL: none */
    uint64_t exported_bytes; /* bytes of it, a multiple of 8 */
    int error;               /* the outcome, as in <tarn/kv.h> */
    bool again; /* after an error: the call may be repeated. lane.c alone uses this and the fields below */
    struct kv_link *link;              /* the link while the call is under way */
    struct tarn_fabric_region *region; /* the region of the exported value while the call is under way */
    struct tarn_rpc_call rpc;
};

/** The deadline of a call that began at a moment and moves some bytes of a value: for each KV_TIMEOUT_BYTES of them it has
 * the time limit once more. */
static inline uint64_t kv_deadline_of(const struct kv_remote *remote, uint64_t begin_ns, uint64_t bytes)
{
    const uint64_t shares = 1 + bytes / KV_TIMEOUT_BYTES, left_ns = TASK_FOREVER - 1 - begin_ns;
    return begin_ns + (remote->timeout_ns > left_ns / shares ? left_ns : remote->timeout_ns * shares);
}

/** The deadline of a call that begins now. */
static inline uint64_t kv_deadline(const struct kv_remote *remote)
{
    return kv_deadline_of(remote, task_now(), 0);
}

/** Make the call of a request, without memory. */
static inline struct kv_call kv_call_of(enum kv_method method, const struct kv_request *request,
                                        uint64_t deadline_ns)
{
    return (struct kv_call){.method = method,
                            .key = request->key,
                            .key_len = request->key_len,
                            .worker = KV_ANY_WORKER,
                            .repeats = method != KV_PUT && method != KV_PUT_REGION && method != KV_DELETE &&
                                       method != KV_BATCH,
                            .deadline_ns = deadline_ns};
}

/** Take the caller's lane. @return 0; -ENOMEM, -EHOSTUNREACH (none was free in time), -ECANCELED. Yields. */
base_must_check int kv_lane_take(struct kv_remote *remote, uint64_t deadline_ns, struct kv_lane **ret_lane);

/** Give a lane back. */
void kv_lane_give(struct kv_lane *lane);

/** Close all lanes; none is taken. Yields. */
void kv_lanes_close(struct kv_remote *remote);

/** Connect with a worker and learn the routing, in one attempt. @param ret_info  the answer to INFO; its name is valid
 * until the next call. Yields. */
base_must_check int kv_lane_meet(struct kv_lane *lane, uint64_t deadline_ns, struct kv_store_info *ret_info);

/** Learn the routing, if it is not known. @return 0; -EHOSTUNREACH; as kv_lane_call(). Yields. */
base_must_check int kv_lane_route(struct kv_lane *lane, uint64_t deadline_ns);

/** Learn the routing in one attempt at most, and in none during a pause. Yields. */
base_must_check int kv_lane_route_once(struct kv_lane *lane, uint64_t deadline_ns);

/** The worker of the server that a key belongs to, or that the lane uses. */
uint32_t kv_lane_worker(const struct kv_lane *lane, const void *key, size_t key_len);

/**
 * Send a request to the worker that it belongs to, and repeat it while that is safe and there is time.
 *
 * @param call  its lane was taken by the caller
 * @return the method's status; as <tarn/kv.h>. Yields.
 */
base_must_check int kv_lane_call(struct kv_call *call);

#define KV_TOGETHER_MAX RPC_WAIT_MANY_MAX

/** Send several calls, whose lanes may be of different servers, all at once. Each call's `error` has its outcome. @param
 * count  at most KV_TOGETHER_MAX. Yields. */
void kv_lane_call_many(struct kv_call *const *calls, uint32_t count);

/** The share of the time until a deadline for one of several attempts. @param others  number of attempts that follow */
static inline uint64_t kv_share_of_time(uint64_t deadline_ns, uint32_t others)
{
    const uint64_t now_ns = task_now(), shares = (uint64_t)others + 1;
    return deadline_ns <= now_ns ? deadline_ns : now_ns + (deadline_ns - now_ns) / shares;
}

/* ---- clients that read by themselves: reads.c ---------------------------------------------------- */

struct kv_reads;

#define KV_ASK (-EAGAIN) /* an outcome of reading: the server is to be asked */

/** Choose the way of a search. @return whether to read */
base_must_check bool kv_reads_chosen(struct kv_lane *lane);

/** Get a key by READs. @return as tarn_kv_get(); KV_ASK. Yields. */
base_must_check int kv_reads_get(struct kv_lane *lane, struct tree_key key, void *value, size_t value_room,
                                 uint64_t deadline_ns, struct tarn_record_info *ret_info);

#define KV_ROWS_MAX 64

/* A record of a range. */
struct kv_row {
    struct tarn_record_info info;
    bool must_ask; /* reading does not tell what it is by now */
    uint32_t key_len;
    uint32_t value_at;       /* in the values of all rows */
    struct tree_value found; /* what the leaf has of it, and … */
    uint64_t
        header[sizeof(struct tree_record) / sizeof(uint64_t)]; /* … what was read: a struct tree_record */
    uint8_t key[TREE_KEY_MAX];
};

/* Some records of a range, and what is wanted. */
struct kv_rows {
    const struct tree_key *from, *below; /* NULL: the first of all; there is no end */
    bool after;                          /* `from` itself is not meant */
    uint32_t wanted;                     /* records, at most KV_ROWS_MAX */
    uint32_t count;                      /* that there are */
    uint32_t bytes;                      /* of their values */
    bool is_end;                         /* there are no further ones */
    struct kv_row rows[KV_ROWS_MAX];
    uint8_t values[KV_SCAN_BYTES_MAX];
};

/** READ the first records of a range: all of a few leaves, and then the records at once. Values of more than KV_SCAN_VALUE_MAX
 * bytes are to be asked for. @return 0; KV_ASK. Yields. */
base_must_check int kv_reads_rows(struct kv_lane *lane, struct kv_rows *rows, uint64_t deadline_ns);

/** Give up a lane's connection for READs, which nobody uses any more. Yields. */
void kv_reads_close(struct kv_lane *lane);

/* ---- many keys: many.c -------------------------------------------------------------------------- */

/* The servers that hold a store together. */
struct kv_servers {
    struct kv_remote *const *remotes;
    const uint64_t *seeds; /* the seed of each server's weights; NULL: there is one server */
    uint32_t count;
};

/** Compute the seed of a server's weights. @param address  as in its URL */
uint64_t kv_server_seed(const char *address);

/** The server that has a key: the one with the highest weight for it (docs/wire.md, "Several servers"). @return index in the
 * order of addresses */
uint32_t kv_server_of(const struct kv_servers *servers, const void *key, size_t key_len);

/** Do tarn_kv_get_many() for servers; all of them, and all their workers, are asked at once. Yields. */
void kv_get_many(const struct kv_servers *servers, struct tarn_get *gets, size_t count);

/* ---- stores of servers -------------------------------------------------------------------------- */

/* A store that several servers hold together: spread.c. */
struct kv_spread {
    struct tarn_kv kv;
    struct tarn_fabric *fabric;
    bool owns_fabric;
    struct kv_servers servers;
    uint64_t seeds[KV_SERVERS_MAX];
    struct kv_remote *remotes[KV_SERVERS_MAX]; /* ordered by address */
};

/** Make a store of one server, without connecting. @param place  index of the server in the URL @return 0; -ENOMEM */
base_must_check int kv_remote_make(struct tarn_node *node, struct tarn_fabric *fabric,
                                   const struct kv_url *url, uint32_t place,
                                   const struct tarn_kv_options *options, struct kv_remote **ret_remote);

/** Ask the server for the store's properties, once. @return as tarn_kv_open(). Yields. */
base_must_check int kv_remote_meet(struct kv_remote *remote, uint64_t deadline_ns);

/** Whether an error may pass, because the server may come back in a moment. */
bool kv_is_passing(int error);

/** Open a store of tarn:// or unix:, of one server or several. @return as tarn_kv_open(). Yields. */
base_must_check int kv_servers_open(struct tarn_node *node, const struct kv_url *url,
                                    const struct tarn_kv_options *options, struct tarn_kv **ret_kv);

#endif
