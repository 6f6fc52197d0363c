/*
 * kv: what other layers may ask of it besides <tarn/kv.h>, whose rules hold here.
 */
#ifndef KV_KV_H
#define KV_KV_H

#include "base/base.h"
#include "task/sched.h"
#include <tarn/kv.h>
#include <tarn/rpc.h>

#define KV_NAME_MAX   63 /* bytes of a store's name */
#define KV_STORES_MAX 64 /* of a server */

struct cache;
struct depot_opening;
struct kv_server;
struct tarn_depot;

/** Whether a store may have this name: 1 to KV_NAME_MAX letters, digits, '-', '_' and '.'. */
bool kv_name_is_good(const char *name, size_t len);

/** What is wrong with a store's URL. @return static; NULL: nothing, as far as it can be seen. Any thread. */
const char *kv_url_wrong(const char *url);

/** tarn_kv_open() that reports how far a depot's opening is. @param opening  as of depot_open(); NULL: no reports */
base_must_check int kv_open(struct tarn_node *node, const char *url, const struct tarn_kv_options *options,
                            const struct depot_opening *opening, struct tarn_kv **ret_kv);

/**
 * A store's interface for a depot that somebody else has opened, and closes after this.
 *
 * @return 0; -ENOMEM. Any thread or task.
 */
base_must_check int kv_wrap_depot(struct tarn_node *node, struct tarn_depot *depot, struct tarn_kv **ret_kv);

/**
 * A store's interface for a cache that somebody else has opened, and closes after this. All calls of the cache are made
 * by the interface.
 *
 * @return 0; -ENOMEM. Any thread or task.
 */
base_must_check int kv_wrap_cache(struct tarn_node *node, struct cache *cache, struct tarn_kv **ret_kv);

/* ---- front doors ------------------------------------------------------------------------------------ */

/*
 * What more the stores of this process do, for those who put a protocol of their own in front of one. Of a store of a
 * server kv_is_local() is false: what returns an error returns -EOPNOTSUPP, and nothing else may be called (asserted).
 */

/** Whether the store is one of this process. Any thread. */
bool kv_is_local(const struct tarn_kv *kv);

/**
 * Whether others wait for the store while a function is shown values (a partition of a cache is locked): it must not
 * yield in any case, but then it also takes no memory, gives none back, and writes no log. Any thread.
 */
bool kv_shows_under_lock(const struct tarn_kv *kv);

/** The depot of a store, for what depots alone can do; NULL: it is another kind, or a server's. Any thread. */
struct tarn_depot *kv_depot_of(const struct tarn_kv *kv);

/** The longest value under a key of that length that functions are shown as a whole: of a cache, the longest that
 * there can be. Any thread. */
uint64_t kv_whole_bytes_max(const struct tarn_kv *kv, size_t key_len);

/**
 * Read a record, decide, and write it, with no other write to its key in between.
 *
 * @param decide       called once, unless reading fails; must not call the store; kv_shows_under_lock() says what else it
 *                     may not
 * @param ret_version  the new version; may be NULL; untouched when the record is removed
 * @return as tarn_kv_put(); what `decide` returned; -EOPNOTSUPP. Yields.
 */
base_must_check int kv_update(struct tarn_kv *kv, const void *key, size_t key_len,
                              tarn_update_function *decide, void *arg, uint64_t *ret_version);

/** Give a record another expiry; its version stays. @return 0; -ENOENT; -EINVAL; -EOPNOTSUPP; -ENOSPC,
 * -EROFS, -EIO of a depot. Yields. */
base_must_check int kv_touch(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t expiry_ns);

/**
 * Remove every record that was stored before a moment.
 *
 * @param when_ns  civil time from which they are gone: now or later (a later one replaces an earlier order)
 * @return 0: the order is as durable as the store is; -EOPNOTSUPP; -ENOSPC, -EROFS, -EIO of a depot. Yields.
 *
 * Of a cache one partition goes after the other, each of them locked for about 1 ms for 80 MiB of its index.
 */
base_must_check int kv_flush(struct tarn_kv *kv, uint64_t when_ns);

/* A get's error: the key is there, its info is set, and its value lies in pieces: tarn_kv_read() has it. */
#define KV_IN_PIECES (-E2BIG)

/**
 * Is shown the outcome of one get after the other. Must not yield, nor call the store, but for kv_lease_keep().
 *
 * @param get    its error and info are set
 * @param lease  if there was no error: of the value, borrowed until return unless it is kept
 * @return false: there is no room for it now. It is not counted, and no other is shown
 */
typedef bool kv_get_function(void *arg, struct tarn_get *get, struct tarn_lease *lease);

/* The room of a caller who is shown values. */
struct kv_room {
    uint64_t bytes;       /* for values that are copied */
    uint64_t extra_bytes; /* of that, what each get takes besides */
    uint64_t lease_bytes; /* for values that are kept, where they have `lease_from` bytes or more */
    uint64_t lease_from;  /* UINT64_MAX: none are kept */
};

/**
 * Show the values of keys where they lie, in the order of the keys, as long as there is room. All reads of a depot are in
 * flight at once.
 *
 * @param gets   only their keys are read
 * @param room   a depot reads none that would not fit with those before it, but for the first; a cache reads nothing ahead,
 *               and asks `visit` alone
 * @param visit  kv_shows_under_lock() says what it may not. What it is shown it may keep: kv_lease_keep()
 * @return how many were shown, from the first on; of a cache one that was not taken counts as a get all the same. Yields.
 */
size_t kv_get_each(struct tarn_kv *kv, struct tarn_get *gets, size_t count, const struct kv_room *room,
                   kv_get_function *visit, void *arg);

/**
 * Keep what a get shows beyond the return of the function that it is shown to. To be copied then, and ended.
 *
 * @return false: too much is on loan, there is no memory, or it lies in a cache, where others evict it; it may be copied
 */
base_must_check bool kv_lease_keep(struct tarn_lease *lease);

/** Give back what was on loan; the lease is empty then, and may be ended again. Any thread or task. */
void kv_lease_end(struct tarn_lease *lease);

/* What the stores of this process count; all since it was opened. */
struct kv_stats {
    uint64_t records;        /* that are there, those included that have expired and were not replaced yet */
    uint64_t live_bytes;     /* that they take, header and padding included */
    uint64_t capacity_bytes; /* that records may take */
    uint64_t index_bytes;
    uint64_t gets_expired, gets_flushed; /* of the misses, those that met a record which is no longer there */
    uint64_t evictions;                  /* records that were there, and had to go */
    uint64_t evictions_index;            /* of them, because the index was full where they stood */
    uint64_t reclaimed;                  /* records that went after they had expired */
    uint64_t puts_in_place;              /* written over the record that was there */
};

/** Counters, each exact, together approximate. @return 0; -EOPNOTSUPP. Any thread. */
base_must_check int kv_stats(const struct tarn_kv *kv, struct kv_stats *ret_stats);

/* ---- serving ---------------------------------------------------------------------------------------- */

/* A store to be served. */
struct kv_served {
    const char *name;   /* kv_name_is_good(); borrowed until return */
    struct tarn_kv *kv; /* there until the server is closed; others may use it meanwhile. None of a server */
};

/**
 * Serve stores to every client that connects: docs/wire.md.
 *
 * @param address  as tarn_fabric_listen()
 * @param stores   1 to KV_STORES_MAX
 * @param options  NULL: the defaults. Longest request and result: 1 MiB each unless it says less, of which a client
 *                 takes what it needs; calls in flight: 16
 * @param scheds   of a worker each; they outlive the server. NULL: as many threads of its own as `options` says
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

#define KV_SERVER_METHODS_MAX 32

/** What its methods have done. @return how many there are: at most KV_SERVER_METHODS_MAX. Any thread. */
uint32_t kv_server_method_stats(const struct kv_server *server,
                                struct tarn_rpc_method_stats ret_stats[KV_SERVER_METHODS_MAX]);

#endif
