/* The kv service: the structures that its files share. */
#ifndef KV_SERVICE_H
#define KV_SERVICE_H

#include "base/spin.h"
#include "cache/cache.h"
#include "kv/wire.h"
#include "rpc/rpc.h"
#include "task/task.h"

#define KV_SCANS_MAX      16
#define KV_SCAN_IDLE_NS   (10 * BASE_NS_PER_SECOND)      /* idle time after which a scan may lose its place */
#define KV_SCAN_NO_MORE   UINT32_MAX                     /* a page number that ends the scan */
#define KV_METHOD_NUMBERS (KV_SHORT + KV_PUT_REGION + 1) /* a cache has no RANGE and no BATCH */
#define KV_REGIONS_MAX    16                             /* the most PUT_REGIONs under way */
#define KV_REGIONS_WAIT   48 /* the most that wait for that: each takes one of its worker's few tasks */
#define KV_PIECE_BYTES    (UINT32_C(1) << 20)       /* bytes of one READ */
#define KV_PIECE_NS       (10 * BASE_NS_PER_SECOND) /* time limit of one READ */
#define KV_PLACE_NS       (30 * BASE_NS_PER_SECOND) /* time limit of the wait for a place */
#define KV_GRACE_NS       (10 * BASE_NS_PER_SECOND) /* time before which a put does not lose its place to others */
#define KV_RATE                                                                                              \
    (UINT64_C(4) << 20) /* bytes a second: a slower put loses its place while others wait for one */
#define KV_SECOND_BYTES                                                                                      \
    (UINT32_C(1) << 20) /* bytes of a value for each of which its READs have one second more */

/* A served store. */
struct kv_store {
    struct tarn_kv *kv;
    const struct cache *cache;         /* the store's cache; NULL: it is no cache */
    struct tarn_fabric_domain *domain; /* whose peers read it by themselves; NULL: nobody does */
    char name[KV_NAME_MAX + 1];
};

/* Scans that clients have begun. */
struct kv_scans {
    struct base_spin lock;
    struct base_list list; /* of struct kv_scan */
    uint32_t count;        /* number of scans in the list and of those about to begin */
    bool is_closed;        /* no further scan may begin */
};

/* Reads from a region of the client. @return as tarn_fabric_read() */
typedef int kv_read_function(const struct tarn_rpc_request *exchange, const struct tarn_fabric_handle *handle,
                             uint64_t offset, void *data, uint64_t bytes, uint64_t deadline_ns);

/* Connections on which clients READ, each of them a task that waits for its end. */
struct kv_guests {
    struct task_mutex mutex; /* held while one is begun */
    struct task_group group;
    _Atomic uint32_t count;
    bool is_closed; /* no further one is taken */
};

struct kv_server {
    struct tarn_node *node;
    struct tarn_rpc_server *rpc;
    struct tarn_rpc_service service;
    struct kv_scans scans;
    struct kv_guests guests;
    struct task_semaphore region_places; /* KV_REGIONS_MAX permits, one for each PUT_REGION under way */
    _Atomic uint32_t region_calls;       /* number of PUT_REGIONs that have a permit or wait for one */
    uint64_t region_grace_ns;            /* KV_GRACE_NS; tests have less */
    kv_read_function *_Atomic read;      /* reads by the fabric; tests replace it */
    uint16_t count;                      /* number of stores */
    struct kv_store stores[KV_STORES_MAX];
};

/* The worker that answers, and the number of workers. */
struct kv_worker {
    uint32_t place;
    uint32_t count;
};

/**
 * Answer a request.
 *
 * @param method    a method's number, perhaps with KV_SHORT added
 * @param exchange  in: data, bytes and room; out: result_bytes
 * @return the status. Yields, unless KV_SHORT is added.
 */
base_must_check int kv_answer(struct kv_server *server, const struct kv_worker *worker, uint32_t method,
                              struct tarn_rpc_request *exchange);

/** Let clients read those stores that can be shared. Whatever is in the way is logged, and they ask then. Yields. */
void kv_sharing_begin(struct kv_server *server, struct tarn_fabric *fabric);

/** End all connections for READs, and take no more. Yields. */
void kv_guests_end(struct kv_server *server);

/** End sharing; there are no requests any more. Yields. */
void kv_sharing_end(struct kv_server *server);

/** A peer that connects for READs: tarn_rpc_service.visited */
bool kv_guest_visited(void *arg, struct tarn_fabric_incoming *incoming);

/** Answer a HANDLES. @return the status */
base_must_check int kv_handles_answer(const struct kv_store *store, const struct kv_request *request,
                                      struct tarn_rpc_request *exchange);

/** Prepare a server for its stores. @return 0; -EINVAL (a bad or repeated name) */
base_must_check int kv_server_init(struct kv_server *server, struct tarn_node *node,
                                   const struct kv_served *stores, uint32_t count);

/** Begin without scans. */
void kv_scans_init(struct kv_scans *scans);

/** End all scans: requests under way are answered, and no scan begins any more. Yields. */
void kv_scans_end(struct kv_scans *scans);

/** Answer a PUT_REGION. @return the status. Yields. */
base_must_check int kv_region_answer(struct kv_server *server, struct tarn_kv *kv,
                                     const struct kv_request *request, struct tarn_rpc_request *exchange);

/** The kv_read_function that reads by the fabric, on the connection of the request. Yields. */
base_must_check int kv_region_read(const struct tarn_rpc_request *exchange,
                                   const struct tarn_fabric_handle *handle, uint64_t offset, void *data,
                                   uint64_t bytes, uint64_t deadline_ns);

/** Answer a SCAN, which begins a scan or goes on with one. @return the status. Yields. */
base_must_check int kv_scan_answer(struct kv_server *server, const struct kv_worker *worker,
                                   const struct kv_request *request, struct tarn_rpc_request *exchange);

#endif
