/* The insides of kv: the table of operations that each kind of store fills, and URLs. */
#ifndef KV_KV_INTERNAL_H
#define KV_KV_INTERNAL_H

#include "kv/kv.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <tarn/space.h>

struct tree_store;

#define KV_ADDRESS_ROOM   256
#define KV_TIMEOUT_NS     (10 * BASE_NS_PER_SECOND)
#define KV_PARTITIONS_MAX 256
#define KV_SERVERS_MAX    64
#define KV_MASTERS_ROOM   1024
#define KV_HASH_BYTES_MIN (UINT64_C(1) << 20)

/*
 * The operations of a kind of store, each as the function of <tarn/kv.h> of that name. The caller has checked that keys
 * have 1 to TARN_KEY_BYTES_MAX bytes, and that options are not NULL and have a valid condition and note.
 */
struct kv_operations {
    int (*get)(struct tarn_kv *kv, const void *key, size_t key_len, void *value, size_t value_room,
               struct tarn_record_info *ret_info); /* ret_info is not NULL */
    void (*get_many)(struct tarn_kv *kv, struct tarn_get *gets,
                     size_t count); /* keys: the store's to check */
    int (*read)(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t if_version, uint64_t offset,
                void *data, size_t data_room, size_t *ret_bytes,
                struct tarn_record_info *ret_info); /* ret_info is not NULL */
    int (*put)(struct tarn_kv *kv, const void *key, size_t key_len, const void *value, size_t value_len,
               const struct tarn_put_options *options, uint64_t *ret_version);
    int (*delete)(struct tarn_kv *kv, const void *key, size_t key_len);
    int (*scan)(struct tarn_kv *kv, tarn_scan_function *visit,
                void *arg); /* NULL: this kind cannot be scanned */
    int (*range)(struct tarn_kv *kv, const struct tarn_kv_range *range, tarn_scan_function *visit,
                 void *arg); /* NULL: this kind has no order */
    int (*write_batch)(
        struct tarn_kv *kv, struct tarn_batch_item *items,
        size_t count); /* NULL: this kind has no batches. Keys and options: the store's to check */
    int (*close)(struct tarn_kv *kv); /* frees the store */

    /* for front ends, as the functions of "kv/kv.h"; all are NULL for a store of a server */
    uint64_t (*whole_bytes_max)(const struct tarn_kv *kv, size_t key_len);
    int (*update)(struct tarn_kv *kv, const void *key, size_t key_len, tarn_update_function *decide,
                  void *arg, uint64_t *ret_version);
    int (*touch)(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t expiry_ns);
    int (*flush)(struct tarn_kv *kv, uint64_t when_ns);
    size_t (*get_each)(struct tarn_kv *kv, struct tarn_get *gets, size_t count, const struct kv_room *room,
                       kv_get_function *visit, void *arg); /* keys: the store's to check */
    void (*stats)(const struct tarn_kv *kv, struct kv_stats *ret_stats);
    bool shows_under_lock;             /* kv_shows_under_lock() */
    void (*leave)(struct tarn_kv *kv); /* NULL: a scheduler's tasks leave nothing behind on it */
};

/* A store; the first member of each kind's own structure. */
struct tarn_kv {
    const struct kv_operations *operations;
    struct tarn_node *node;
    struct tarn_kv_info info;
};

extern const char kv_kind_depot[], kv_kind_cache[], kv_kind_hash[], kv_kind_tree[];

/** Check a put's key length and options. @return 0; -EINVAL */
static inline int kv_put_check(size_t key_len, const struct tarn_put_options *options)
{
    return key_len > 0 && key_len <= TARN_KEY_BYTES_MAX &&
                   (unsigned)options->condition <= TARN_PUT_IF_VERSION && options->note <= TARN_NOTE_MAX
               ? 0
               : -EINVAL;
}

/* ---- URLs: url.c -------------------------------------------------------------------------------- */

enum kv_scheme { KV_FILE, KV_CACHE, KV_HASH, KV_TREE, KV_TARN, KV_UNIX };

/* The parts of a URL. */
struct kv_url {
    enum kv_scheme scheme;
    const char *path;                              /* file: the path, within the URL */
    uint64_t memory_bytes, partitions, item_bytes; /* cache: its options; hash, tree: memory_bytes … */
    uint64_t slots, ranks, filter_bits;            /* … and these; 0: the usual number */
    char masters
        [KV_MASTERS_ROOM]; /* hash: addresses of the masters of the space, with commas between; "": a space of its own */
    char space_namespace[TARN_SPACE_NAME_MAX + 1];
    char node[TARN_SPACE_NAME_MAX +
              1]; /* hash: the memory server for records that are put here; "": all of them */
    char secret_path[KV_MASTERS_ROOM]; /* hash: the file with the secret of that namespace; "": it has none */
    char tree_path[KV_MASTERS_ROOM];   /* tree: the path of its depot */
    const char *addresses;             /* servers: their addresses with commas between, within the URL */
    size_t addresses_len;
    uint32_t servers;
    char name[KV_NAME_MAX + 1]; /* servers and hash: the name of the store */
    const char *
        fabric; /* servers and hash: the fabric, as in tarn_fabric_open(), within the URL; NULL: none is named */
};

/** Copy the address of one of a URL's servers. @param place  below url->servers @param ret_address  room for
 * KV_ADDRESS_ROOM */
void kv_url_server(const struct kv_url *url, uint32_t place, char *ret_address);

/** Read a URL. @return 0; -EINVAL (logged). Any thread. */
base_must_check int kv_url_read(struct base_log *log, const char *url, struct kv_url *ret_url);

/** Run a function in a plain thread: the caller's, or if a task calls, one that is made for it. Yields. */
void kv_run_in_thread(task_function *function, void *arg);

/* ---- kinds of stores ---------------------------------------------------------------------------- */

/** Open a store of file:PATH. @return as depot_open(). Yields. */
base_must_check int kv_depot_open(struct tarn_node *node, const char *path,
                                  const struct tarn_depot_options *options,
                                  const struct depot_opening *opening, struct tarn_kv **ret_kv);

/** Open a store of cache:OPTIONS. @return as cache_open() */
base_must_check int kv_cache_open(struct tarn_node *node, const struct kv_url *url, struct tarn_kv **ret_kv);

/** Open a store of hash:OPTIONS. @return as tarn_kv_open(). Yields. */
base_must_check int kv_hash_open(struct tarn_node *node, const struct kv_url *url,
                                 const struct tarn_kv_options *options, struct tarn_kv **ret_kv);

/** The ordered store of this process that a store is; NULL: it is another kind. */
struct tree_store *kv_tree_of(const struct tarn_kv *kv);

/** The cache of a store, which knows the partition of each key; NULL: it is no cache. */
const struct cache *kv_cache_of(const struct tarn_kv *kv);

#endif
