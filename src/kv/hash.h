/*
 * Stores of hash:, of which other processes may have clients, too: the way of operations.
 *
 * A client of a hash store is used by tasks of one scheduler, or by one plain thread at a time. So each scheduler has one,
 * and plain threads share some; each has a session of its own with the space, and is opened when it is first needed.
 */
#ifndef KV_HASH_H
#define KV_HASH_H

#include "base/spin.h"
#include "hash/hash.h"
#include "kv/kv_internal.h"
#include "task/sched.h"
#include "task/task.h"
#include <pthread.h>
#include <stdatomic.h>

#define KV_HASH_NEVER     UINT64_MAX
#define KV_THREAD_CLIENTS 8 /* the most plain threads that call at once; others wait */

struct kv_hash;

/* A client. */
struct kv_hash_client {
    struct kv_hash *store;
    struct task_sched *sched;  /* the scheduler whose tasks use it; NULL: plain threads do */
    struct task_mutex opening; /* held by the task that opens it */
    struct tarn_space *space;  /* NULL: it is not open */
    struct tarn_space_namespace *of;
    struct hash *hash; /* NULL: it is not open */
    /* of a plain thread's client, under the store's lock */
    uint32_t users;    /* calls under way, of one thread: that of a scan, and those that its visitor makes */
    pthread_t thread;  /* the one that makes them … */
    struct task *task; /* … or the task that stands for it in the simulator */
    /* what its operations have changed: only it writes them */
    _Atomic int64_t records, record_bytes;
    _Atomic uint64_t gets_expired;
};

/* A store. */
struct kv_hash {
    struct tarn_kv kv;
    struct kv_hash_space *own; /* the space that only this store uses; NULL: others run it */
    struct tarn_fabric *fabric;
    bool owns_fabric;
    struct kv_url
        url; /* its parts, of which those within the URL are used at the opening alone; or where its own space is */
    struct hash_shape wanted;              /* what it is made with */
    struct hash_shape shape;               /* what it has been made with */
    uint8_t secret[TARN_SPACE_SECRET_MAX]; /* of the namespace */
    uint32_t secret_bytes;                 /* 0: it has none */
    uint64_t timeout_ns;
    _Atomic uint64_t flush_ns; /* when all records go; KV_HASH_NEVER: no flush is ordered */
    struct task_mutex flushing;
    struct kv_hash_client
        *_Atomic clients[TASK_SCHEDS_MAX]; /* by the index of the scheduler; each belongs to that alone */
    struct task_semaphore thread_permits;  /* permits for clients of plain threads */
    struct base_spin lock;                 /* protects the fields below */
    struct kv_hash_client *thread_clients[KV_THREAD_CLIENTS];
};

/* ---- clients: hash_clients.c -------------------------------------------------------------------- */

/** Take the caller's client, and open it if need be. @return 0; -EHOSTUNREACH, -ENXIO, -ENOMEM, -ECANCELED. Yields. */
base_must_check int kv_hash_take(struct kv_hash *self, uint64_t deadline_ns,
                                 struct kv_hash_client **ret_client);

/** Give a client back. */
void kv_hash_give(struct kv_hash_client *client);

/** Close the client of the caller's scheduler, which none of its tasks has taken. Yields. */
void kv_hash_leave(struct kv_hash *self);

/** Free the store with its clients, none of which is taken, and its space. Yields. */
void kv_hash_free(struct kv_hash *self);

/** What <tarn/kv.h> calls an error of the hash store or of the space. */
int kv_hash_error(int error);

/** Fill in a store and open the caller's client. @return as kv_hash_open(). Yields. */
base_must_check int kv_hash_begin(struct kv_hash *self, const struct kv_url *url,
                                  const struct tarn_kv_options *options);

/* ---- a space of a store's own: hash_space.c ----------------------------------------------------- */

struct kv_hash_space;

/**
 * Open a space in this process: a master and a memory server, on a scheduler of their own, behind sockets in a folder of their own.
 *
 * @return 0; -ENOMEM; what the fabric, the cluster and the space return (logged). Yields.
 */
base_must_check int kv_hash_space_open(struct tarn_node *node, uint64_t memory_bytes, uint64_t chunk_bytes,
                                       struct kv_hash_space **ret_space);

/** Close it. Yields. */
void kv_hash_space_close(struct kv_hash_space *space);

/** The fabric by which clients reach it. */
struct tarn_fabric *kv_hash_space_fabric(const struct kv_hash_space *space);

/** The address at which they do, as tarn_space_connect(). */
const char *kv_hash_space_masters(const struct kv_hash_space *space);

#endif
