/* The kv service: what its parts share. */
#ifndef KV_SERVICE_H
#define KV_SERVICE_H

#include "base/spin.h"
#include "cache/cache.h"
#include "kv/wire.h"
#include "rpc/rpc.h"
#include "task/task.h"

#define KV_SCANS_MAX      16
#define KV_SCAN_IDLE_NS   (10 * BASE_NS_PER_SECOND) /* after which its place may be taken */
#define KV_SCAN_NO_MORE   UINT32_MAX                /* as a page: none will be asked for */
#define KV_METHOD_NUMBERS (KV_SHORT + KV_PUT_REGION + 1)
#define KV_REGIONS_MAX    16 /* PUT_REGIONs under way */
#define KV_REGIONS_WAIT   48 /* and waiting for that: each is a task of its worker's, which has few */
#define KV_PIECE_BYTES    (UINT32_C(1) << 20)       /* of one READ */
#define KV_PIECE_NS       (10 * BASE_NS_PER_SECOND) /* for it; and to wait until one may begin */
#define KV_SECOND_BYTES   (UINT32_C(1) << 20)       /* for which all of them have a second more */

/* A store as it is served. */
struct kv_store {
    struct tarn_kv *kv;
    const struct cache *cache; /* NULL: it is none */
    char name[KV_NAME_MAX + 1];
};

/* Scans that clients have begun. */
struct kv_scans {
    struct base_spin lock;
    struct base_list list; /* of struct kv_scan */
    uint32_t count;        /* of those and of those that are about to begin */
    bool is_closed;        /* no more begin */
};

/* READ from a region of the client. @return as tarn_fabric_read() */
typedef int kv_read_function(const struct tarn_rpc_request *exchange, const struct tarn_fabric_handle *handle,
                             uint64_t offset, void *data, uint64_t bytes, uint64_t deadline_ns);

struct kv_server {
    struct tarn_node *node;
    struct tarn_rpc_server *rpc;
    struct tarn_rpc_service service;
    struct kv_scans scans;
    struct task_semaphore region_places; /* KV_REGIONS_MAX */
    _Atomic uint32_t region_calls;       /* that have one, or wait for it */
    kv_read_function *_Atomic read;      /* by the fabric; tests have others */
    uint16_t count;                      /* of stores */
    struct kv_store stores[KV_STORES_MAX];
};

/* The worker that answers, and how many there are. */
struct kv_worker {
    uint32_t place;
    uint32_t count;
};

/**
 * Answer a request.
 *
 * @param method    with KV_SHORT added or not
 * @param exchange  data, bytes and room in; result_bytes out
 * @return the status. Yields, unless KV_SHORT is added.
 */
base_must_check int kv_answer(struct kv_server *server, const struct kv_worker *worker, uint32_t method,
                              struct tarn_rpc_request *exchange);

/** Have a server answer for these stores. @return 0; -EINVAL (a name, or one that is there twice) */
base_must_check int kv_server_init(struct kv_server *server, struct tarn_node *node,
                                   const struct kv_served *stores, uint32_t count);

/** No scans. */
void kv_scans_init(struct kv_scans *scans);

/** End all: requests under way are answered, and no more begin. Yields. */
void kv_scans_end(struct kv_scans *scans);

/** PUT_REGION. @return the status. Yields. */
base_must_check int kv_region_answer(struct kv_server *server, struct tarn_kv *kv,
                                     const struct kv_request *request, struct tarn_rpc_request *exchange);

/** The fabric's READ, on the connection of the request: a kv_read_function. Yields. */
base_must_check int kv_region_read(const struct tarn_rpc_request *exchange,
                                   const struct tarn_fabric_handle *handle, uint64_t offset, void *data,
                                   uint64_t bytes, uint64_t deadline_ns);

/** SCAN: begin one, or go on. @return the status. Yields. */
base_must_check int kv_scan_answer(struct kv_server *server, const struct kv_worker *worker,
                                   const struct kv_request *request, struct tarn_rpc_request *exchange);

#endif
