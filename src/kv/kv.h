/*
 * kv: the functions for other layers, besides <tarn/kv.h>, whose rules hold here.
 */
#ifndef KV_KV_H
#define KV_KV_H

#include "base/base.h"
#include "task/sched.h"
#include <tarn/kv.h>
#include <tarn/rpc.h>

#define KV_NAME_MAX   BASE_NAME_MAX /* the most bytes of a store's name */
#define KV_STORES_MAX 64            /* the most stores of a server */

struct cache;
struct depot_opening;
struct kv_server;
struct tarn_depot;

/** Check a store's URL without opening it. @return the fault, as static text; NULL: none was found. Any thread. */
const char *kv_url_wrong(const char *url);

/** The bytes of memory that the URL of a cache or a hash store asks of this process; 0: none, or it is no URL. Any thread. */
uint64_t kv_url_memory(const char *url);

/** tarn_kv_open() that reports the progress of a depot's opening. @param opening  as in depot_open(); NULL: no reports */
base_must_check int kv_open(struct tarn_node *node, const char *url, const struct tarn_kv_options *options,
                            const struct depot_opening *opening, struct tarn_kv **ret_kv);

/**
 * Make a store of a depot that the caller has opened, and closes after the store.
 *
 * @return 0; -ENOMEM. Any thread or task.
 */
base_must_check int kv_wrap_depot(struct tarn_node *node, struct tarn_depot *depot, struct tarn_kv **ret_kv);

/**
 * Open an ordered store. @param memory_bytes  the most that it takes; 0: what the node may take @return as tree_store_open().
 * Yields.
 */
base_must_check int kv_open_tree(struct tarn_node *node, const char *path, uint64_t memory_bytes,
                                 const struct tarn_depot_options *options,
                                 const struct depot_opening *opening, struct tarn_kv **ret_kv);

/**
 * Make a store of a cache that the caller has opened, and closes after the store. Meanwhile only the store uses the
 * cache.
 *
 * @return 0; -ENOMEM. Any thread or task.
 */
base_must_check int kv_wrap_cache(struct tarn_node *node, struct cache *cache, struct tarn_kv **ret_kv);

/* ---- front ends ------------------------------------------------------------------------------------ */

/*
 * Further functions of stores in this process, for front ends: layers that serve a store by a protocol of their own.
 * For a store of a server kv_is_local() is false: functions that return an error return -EOPNOTSUPP, and the others must
 * not be called (asserted).
 */

/** Whether the store is one of this process. Any thread. */
bool kv_is_local(const struct tarn_kv *kv);

/**
 * Whether values are shown to a function while a lock is held (that of a cache's partition), for which other callers may
 * wait. Such a function must never yield; with the lock it must also not take or free memory, nor write to the log. Any
 * thread.
 */
bool kv_shows_under_lock(const struct tarn_kv *kv);

/** The depot of a store, for calls that only depots have; NULL: another kind, or a server's store. Any thread. */
struct tarn_depot *kv_depot_of(const struct tarn_kv *kv);

/** The longest value that is shown whole, for a key of this length; in a cache no value is longer. Any thread. */
uint64_t kv_whole_bytes_max(const struct tarn_kv *kv, size_t key_len);

/**
 * Read a record, decide, and write it, with no other write to its key in between.
 *
 * @param decide       called once, unless reading fails; for a hash store once more each time that somebody else was faster. Must not call the store, and keeps to kv_shows_under_lock()
 * @param ret_version  the new version; may be NULL; untouched when the record is removed
 * @return as tarn_kv_put(); the result of `decide`; -EOPNOTSUPP. Yields.
 */
base_must_check int kv_update(struct tarn_kv *kv, const void *key, size_t key_len,
                              tarn_update_function *decide, void *arg, uint64_t *ret_version);

/** Give a record another expiry; its version stays. @return 0; -ENOENT; -EINVAL; -EOPNOTSUPP; -ENOSPC,
 * -EROFS, -EIO of a depot. Yields. */
base_must_check int kv_touch(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t expiry_ns);

/**
 * Remove every record that was stored before a moment.
 *
 * @param when_ns  civil time at which the records go: now or later. A later time replaces that of an earlier call
 * @return 0: the order is as durable as the store is; -EOPNOTSUPP, for a hash store of a space also for a later time; -ENOSPC, -EROFS, -EIO of a depot. Yields.
 *
 * A cache is flushed partition by partition; each is locked for about 1 ms per 80 MiB of its index.
 */
base_must_check int kv_flush(struct tarn_kv *kv, uint64_t when_ns);

/* A get's error: the record exists and its info is set, but its value lies in pieces, which tarn_kv_read() reads. */
#define KV_IN_PIECES (-E2BIG)

/**
 * Called with the outcome of one get after the other. Must not yield, and of the store's functions call only
 * kv_lease_keep().
 *
 * @param get    its error and info are set
 * @param lease  the value, if there was no error; borrowed until return unless it is kept
 * @return false: the caller has no room for it now. It is not counted, and no further outcome is shown
 */
typedef bool kv_get_function(void *arg, struct tarn_get *get, struct tarn_lease *lease);

/* The room that a caller of kv_get_each() has for values. */
struct kv_room {
    uint64_t bytes;       /* the most bytes of values that are copied */
    uint64_t extra_bytes; /* bytes of that room that each get takes besides its value */
    uint64_t lease_bytes; /* the most bytes of values that are kept on loan */
    uint64_t lease_from;  /* the least bytes of a value that is kept; UINT64_MAX: none are */
};

/**
 * Show the values of keys in the order of the keys, without copying them, as long as there is room. All reads of a depot
 * are in flight at once.
 *
 * @param gets   only their keys are read
 * @param room   a depot reads no value that would not fit with those before it, except for the first; a cache reads
 *               nothing ahead, and only `visit` decides
 * @param visit  keeps to kv_shows_under_lock(); it may keep a value by kv_lease_keep()
 * @return number of gets shown, from the first on. In a cache's statistics a get that `visit` has refused counts, too.
 *         Yields.
 */
size_t kv_get_each(struct tarn_kv *kv, struct tarn_get *gets, size_t count, const struct kv_room *room,
                   kv_get_function *visit, void *arg);

/**
 * Keep a shown value beyond the return of the function that it is shown to, until kv_lease_end().
 *
 * @return false: too much is on loan, there is no memory, or the value lies in a cache, which may evict it. It may be
 *         copied instead
 */
base_must_check bool kv_lease_keep(struct tarn_lease *lease);

/** Give back a value on loan; the lease is empty then, and may be ended again. Any thread or task. */
void kv_lease_end(struct tarn_lease *lease);

/* Statistics of a store of this process; counts are since it was opened. */
struct kv_stats {
    uint64_t records;        /* records in the store, including expired ones that were not replaced yet */
    uint64_t live_bytes;     /* bytes that they take, with headers and padding */
    uint64_t capacity_bytes; /* bytes that records may take */
    uint64_t index_bytes;
    uint64_t gets_expired, gets_flushed; /* misses that met an expired, or a flushed, record */
    uint64_t evictions;                  /* records evicted for want of room */
    uint64_t evictions_index; /* of these, records evicted because their part of the index was full */
    uint64_t reclaimed;       /* expired records that were removed */
    uint64_t puts_in_place;   /* puts that were written over the old record */
};

/** Counters, each exact, together approximate. @return 0; -EOPNOTSUPP. Any thread. */
base_must_check int kv_stats(const struct tarn_kv *kv, struct kv_stats *ret_stats);

/**
 * Give back what the store has on the caller's scheduler, as tasks that would keep it from ending: none of its tasks is in a call, and
 * until tarn_kv_close() none calls again. By a task. Yields.
 */
void kv_leave(struct tarn_kv *kv);

/* ---- serving ---------------------------------------------------------------------------------------- */

/* A store to be served. */
struct kv_served {
    const char *name;   /* a name that base_name_is_good() accepts; borrowed until return */
    struct tarn_kv *kv; /* a local store, open until the server is closed; others may use it meanwhile */
};

/**
 * Serve stores to every client that connects: docs/wire.md.
 *
 * @param address  as tarn_fabric_listen()
 * @param stores   1 to KV_STORES_MAX
 * @param options  NULL: the defaults. Requests and results may have 1 MiB each unless it has less, of which a client
 *                 takes as much as it needs; calls in flight: 16
 * @param scheds   one for each worker; they outlive the server. NULL: the server makes `options->workers` threads
 * @return 0; -EINVAL (a bad or repeated name, or a store of a server); the errors of tarn_rpc_serve(). Yields.
 */
base_must_check int kv_serve(struct tarn_fabric *fabric, const char *address, const struct kv_served *stores,
                             uint32_t count, const struct tarn_rpc_serve_options *options,
                             struct task_sched *const *scheds, uint32_t sched_count,
                             struct kv_server **ret_server);

/** Stop serving; requests under way are answered, or end with their connections. The stores stay open. Yields. */
void kv_server_close(struct kv_server *server);

/** The server's statistics. Any thread. */
void kv_server_stats(const struct kv_server *server, struct tarn_rpc_stats *ret_stats);

#define KV_SERVER_METHODS_MAX 32

/** The statistics of its methods. @return number of methods, at most KV_SERVER_METHODS_MAX. Any thread. */
uint32_t kv_server_method_stats(const struct kv_server *server,
                                struct tarn_rpc_method_stats ret_stats[KV_SERVER_METHODS_MAX]);

#endif
