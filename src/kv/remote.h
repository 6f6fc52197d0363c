/*
 * Stores of servers: how calls get there.
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

#define KV_THREAD_LANES   8 /* plain threads that call at once; others wait */
#define KV_NARROW_REQUEST 4096
#define KV_NARROW_RESULT  16384
#define KV_ANY_WORKER     UINT32_MAX
#define KV_TIMEOUT_BYTES  (UINT64_C(16) << 20) /* of a value, for which a call may take as long again */

/* A connection, and what INFO has told on it. */
struct kv_link {
    struct tarn_rpc_connection *rpc;
    uint32_t users; /* calls under way, and the lane */
    uint16_t store;
};

struct kv_lane {
    struct base_list link; /* of those of plain threads that are free */
    struct kv_remote *remote;
    struct task_sched *sched; /* NULL: of plain threads */
    struct task_mutex mutex;  /* held while a task connects */
    uint32_t place;           /* so that lanes choose different workers */
    uint32_t workers;         /* routing, as INFO told last */
    uint32_t partitions;
    uint64_t seed;
    bool must_ask;     /* routing may be another now */
    uint64_t pause_ns; /* before the next attempt to connect; 0: the last one succeeded */
    uint64_t not_before_ns;
    struct kv_link *links[2 * TARN_RPC_WORKERS_MAX]; /* of each worker: narrow, wide */
};

struct kv_remote {
    struct tarn_kv kv;
    struct tarn_fabric *fabric;
    bool owns_fabric;
    bool takes_regions; /* the server does */
    uint64_t timeout_ns;
    char address[KV_ADDRESS_ROOM], name[KV_NAME_MAX + 1];
    struct kv_lane *lanes[TASK_SCHEDS_MAX]; /* each its scheduler's alone */
    struct task_semaphore thread_permits;   /* for lanes of plain threads */
    struct base_spin lock;                  /* of the rest */
    struct base_list thread_lanes;          /* that are free */
    uint32_t thread_lane_count;             /* that were made */
};

/* A request and what came of it. */
struct kv_call {
    struct kv_lane *lane;
    enum kv_method method;
    const void *key; /* decides where it goes, of a cache */
    size_t key_len;
    uint32_t worker;  /* KV_ANY_WORKER: as the key, or the lane, says */
    bool repeats;     /* may run more than once */
    uint8_t *request; /* saved; the number of the store is filled in */
    uint32_t request_bytes;
    uint8_t *result;
    uint32_t room;
    uint32_t result_bytes;
    uint64_t deadline_ns;
    const uint8_t *exported;           /* what the server shall READ, of a PUT_REGION; NULL: nothing */
    uint64_t exported_bytes;           /* a multiple of 8 */
    int error;                         /* what it came to: as <tarn/kv.h> */
    bool again;                        /* with an error: it may be asked again. This and the rest: lane.c's */
    struct kv_link *link;              /* while it is under way */
    struct tarn_fabric_region *region; /* the same, of what is exported */
    struct tarn_rpc_call rpc;
};

/** When a call must have ended that began at a moment and has moved some bytes of a value: it may take as long again for each
 * KV_TIMEOUT_BYTES of them. */
static inline uint64_t kv_deadline_of(const struct kv_remote *remote, uint64_t begin_ns, uint64_t bytes)
{
    const uint64_t times = 1 + bytes / KV_TIMEOUT_BYTES, left_ns = TASK_FOREVER - 1 - begin_ns;
    return begin_ns + (remote->timeout_ns > left_ns / times ? left_ns : remote->timeout_ns * times);
}

/** When a call that begins now must have ended. */
static inline uint64_t kv_deadline(const struct kv_remote *remote)
{
    return kv_deadline_of(remote, task_now(), 0);
}

/** A request's call, with no memory yet. */
static inline struct kv_call kv_call_of(enum kv_method method, const struct kv_request *request,
                                        uint64_t deadline_ns)
{
    return (struct kv_call){.method = method,
                            .key = request->key,
                            .key_len = request->key_len,
                            .worker = KV_ANY_WORKER,
                            .repeats = method != KV_PUT && method != KV_PUT_REGION && method != KV_DELETE,
                            .deadline_ns = deadline_ns};
}

/** Take the caller's lane. @return 0; -ENOMEM, -EHOSTUNREACH (none was free in time), -ECANCELED. Yields. */
base_must_check int kv_lane_take(struct kv_remote *remote, uint64_t deadline_ns, struct kv_lane **ret_lane);

/** Give it back. */
void kv_lane_give(struct kv_lane *lane);

/** End all lanes; nobody has one. Yields. */
void kv_lanes_close(struct kv_remote *remote);

/** Be connected with a worker, and know the routing: once, without trying again. @param ret_info  what INFO tells; its
 * name is not for long. Yields. */
base_must_check int kv_lane_meet(struct kv_lane *lane, uint64_t deadline_ns, struct kv_store_info *ret_info);

/** Know the routing. @return 0; -EHOSTUNREACH; as kv_lane_call(). Yields. */
base_must_check int kv_lane_route(struct kv_lane *lane, uint64_t deadline_ns);

/** The same, with one attempt, and none while it is too early for one. Yields. */
base_must_check int kv_lane_route_once(struct kv_lane *lane, uint64_t deadline_ns);

/** The worker of the server that a key belongs to, or that the lane uses. */
uint32_t kv_lane_worker(const struct kv_lane *lane, const void *key, size_t key_len);

/**
 * Send a request to where it belongs, again and again while that is safe and there is time.
 *
 * @param call  its lane is the caller's
 * @return the method's status; as <tarn/kv.h>. Yields.
 */
base_must_check int kv_lane_call(struct kv_call *call);

#define KV_TOGETHER_MAX RPC_WAIT_MANY_MAX

/** The same for several calls, of lanes that may be of different servers: all are under way together. What each comes to, its
 * `error` tells. @param count  at most KV_TOGETHER_MAX. Yields. */
void kv_lane_call_many(struct kv_call *const *calls, uint32_t count);

/** The part of the time until a deadline that one of several attempts gets. @param others  attempts that come after it */
static inline uint64_t kv_share_of_time(uint64_t deadline_ns, uint32_t others)
{
    const uint64_t now_ns = task_now(), shares = (uint64_t)others + 1;
    return deadline_ns <= now_ns ? deadline_ns : now_ns + (deadline_ns - now_ns) / shares;
}

/* ---- many keys: many.c -------------------------------------------------------------------------- */

/* The servers that have a store together. */
struct kv_servers {
    struct kv_remote *const *remotes;
    const uint64_t *seeds; /* of their weights; NULL: there is one */
    uint32_t count;
};

/** The seed of a server's weights. @param address  as its URL says it */
uint64_t kv_server_seed(const char *address);

/** Which server has a key; remotes are in the order of their addresses: the one whose weight is the highest (docs/wire.md, "Several servers"). */
uint32_t kv_server_of(const struct kv_servers *servers, const void *key, size_t key_len);

/** tarn_kv_get_many() of servers: all of them, and all their workers, are asked at once. Yields. */
void kv_get_many(const struct kv_servers *servers, struct tarn_get *gets, size_t count);

/* ---- stores of servers -------------------------------------------------------------------------- */

/* A store that several servers have: spread.c. */
struct kv_spread {
    struct tarn_kv kv;
    struct tarn_fabric *fabric;
    bool owns_fabric;
    struct kv_servers servers;
    uint64_t seeds[KV_SERVERS_MAX];
    struct kv_remote *remotes[KV_SERVERS_MAX]; /* by address */
};

/** Make one; nobody is asked yet. @param place  of its server in the URL @return 0; -ENOMEM */
base_must_check int kv_remote_make(struct tarn_node *node, struct tarn_fabric *fabric,
                                   const struct kv_url *url, uint32_t place, uint64_t timeout_ns,
                                   struct kv_remote **ret_remote);

/** Ask the server what it is, once. @return as tarn_kv_open(). Yields. */
base_must_check int kv_remote_meet(struct kv_remote *remote, uint64_t deadline_ns);

/** Whether a server that fails so may be there in a moment. */
bool kv_is_passing(int error);

/** tarn:// and unix:, of one server or several. @return as tarn_kv_open(). Yields. */
base_must_check int kv_servers_open(struct tarn_node *node, const struct kv_url *url,
                                    const struct tarn_kv_options *options, struct tarn_kv **ret_kv);

#endif
