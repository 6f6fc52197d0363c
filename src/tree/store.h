/*
 * A store of one process whose keys are in order: a meganode and the extents of its records in memory, and a depot that
 * remembers each change before it is acknowledged (README, "A store of one process").
 *
 * Threading: any thread or task, any number at once. Calls that change something yield, all others only where a flush has
 * come due, unless they say so. Locks: a change holds its key's lock from beginning to end; tree and extents are guarded by one lock of readers and
 * writers that is never held while somebody waits.
 */
#ifndef TREE_STORE_H
#define TREE_STORE_H

#include "base/base.h"
#include "task/node.h"
#include "tree/node.h"
#include "tree/record.h"
#include <tarn/depot.h>
#include <tarn/fabric.h>

#define TREE_STORE_BYTES_MIN (UINT64_C(8) << 20) /* the least memory that one takes */

struct depot_opening;
struct tree_store;

struct tree_store_options {
    const struct tarn_depot_options *depot; /* NULL: the defaults */
    const struct depot_opening
        *opening;          /* of the depot; its progress is told of the tree's part, too. NULL: nobody asks */
    uint64_t memory_bytes; /* the most for nodes and records; 0: what the node may take */
};

/**
 * Open a store: open its depot, or make one, and read all records into memory.
 *
 * @return 0; as depot_open(); -EBADMSG, -EIO (a record is damaged: the depot is to be repaired); -EMSGSIZE (it has a key that
 *         is too long for a tree); -EINVAL (it is a cache); -ENOSPC, -ENOMEM (there is no room for all records). Each is logged.
 *         Yields.
 */
base_must_check int tree_store_open(struct tarn_node *node, const char *path,
                                    const struct tree_store_options *options, struct tree_store **ret_store);

/** Close it; nobody calls it any more. @return 0; the error of the depot's last flush. Closed in any case. Yields. */
int tree_store_close(struct tree_store *store);

/** As tarn_kv_get(). @param ret_info  not NULL; so in tree_store_read() */
base_must_check int tree_store_get(struct tree_store *store, struct tree_key key, void *value,
                                   size_t value_room, struct tarn_record_info *ret_info);

/** As tarn_kv_get_many(). */
void tree_store_get_many(struct tree_store *store, struct tarn_get *gets, size_t count);

/** As tarn_kv_read(). */
base_must_check int tree_store_read(struct tree_store *store, struct tree_key key, uint64_t if_version,
                                    uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                                    struct tarn_record_info *ret_info);

/** Shows an outcome. It does not yield, takes no memory and writes nothing to the log. @return false: it was not taken */
typedef bool tree_show_function(void *arg, struct tarn_get *get, const void *value);

/** Show the values of keys where they lie. @return how many were shown and taken */
size_t tree_store_show(struct tree_store *store, struct tarn_get *gets, size_t count,
                       tree_show_function *show, void *arg);

/** As tarn_kv_put(). @return also -EMSGSIZE: the key has more than TREE_KEY_MAX bytes */
base_must_check int tree_store_put(struct tree_store *store, struct tree_key key, const void *value,
                                   size_t value_len, const struct tarn_put_options *options,
                                   uint64_t *ret_version);

/** As tarn_kv_delete(). */
base_must_check int tree_store_delete(struct tree_store *store, struct tree_key key);

/** As tarn_depot_update(). */
base_must_check int tree_store_update(struct tree_store *store, struct tree_key key,
                                      tarn_update_function *decide, void *arg, uint64_t *ret_version);

/** As tarn_depot_touch(). */
base_must_check int tree_store_touch(struct tree_store *store, struct tree_key key, uint64_t expiry_ns);

/** As tarn_kv_write_batch(). @return also -EMSGSIZE: a key has more than TREE_KEY_MAX bytes */
base_must_check int tree_store_write_batch(struct tree_store *store, struct tarn_batch_item *items,
                                           size_t count);

/** As tarn_depot_flush_all(). A later moment is met by the first call that comes then, for whose end all others wait.
 * @return also -EOPNOTSUPP: a later moment, of a store that is shared, whose readers would not see it come */
base_must_check int tree_store_flush(struct tree_store *store, uint64_t when_ns);

struct tree_store_range {
    const struct tree_key *from;  /* the least key; NULL: the first of all */
    const struct tree_key *below; /* the end, which is not shown; NULL: there is none */
    bool reverse;                 /* from the greatest key down */
    uint64_t limit;               /* the most records; 0: any number */
};

/**
 * Show records in the order of their keys: each that is there from beginning to end, once, and none twice. Each was as it
 * is shown at one moment of the call, not all at the same.
 *
 * @param visit  may call the store; gets no value that is longer than tree_store_whole_bytes_max()
 * @return 0; what `visit` returned; -ENOMEM. Yields.
 */
base_must_check int tree_store_range(struct tree_store *store, const struct tree_store_range *range,
                                     tarn_scan_function *visit, void *arg);

/** The longest value. */
uint64_t tree_store_value_bytes_max(const struct tree_store *store);

/** The longest value that is shown. */
uint64_t tree_store_whole_bytes_max(const struct tree_store *store);

/* ---- sharing: README, "Clients that read by themselves" -------------------------------------------- */

#define TREE_SHARED_REGIONS_MAX (TREE_REGIONS * TREE_STEPS_MAX) /* regions of a store in one domain */

/**
 * Let the peers of a domain read nodes and records. Others may use the store meanwhile.
 *
 * @param domain  with room for TREE_SHARED_REGIONS_MAX regions; it may have other stores' regions as well
 * @return 0; -EBUSY (a flush was ordered for a later moment); -ENOSPC (it is shared with too many); -ENOMEM; as
 *         fabric_region_adopt(). Yields.
 */
base_must_check int tree_store_share(struct tree_store *store, struct tarn_fabric_domain *domain);

/** End that. Yields. */
void tree_store_unshare(struct tree_store *store, const struct tarn_fabric_domain *domain);

/**
 * Tell the handles by which the peers of a domain read a region, which has one for each tree_store_step_bytes() of it.
 *
 * @param region  TREE_NODE_REGION or TREE_RECORD_REGION
 * @param first   number of the first handle that is wanted
 * @return how many there are from there on, at most `room`
 */
uint32_t tree_store_handles(struct tree_store *store, const struct tarn_fabric_domain *domain,
                            uint32_t region, uint32_t first, struct tarn_fabric_handle *ret_handles,
                            uint32_t room);

/** Bytes of each step of its memory. */
uint64_t tree_store_step_bytes(const struct tree_store *store);

struct tree_store_stats {
    uint64_t records;      /* those that have expired and were not met since included */
    uint64_t record_bytes; /* that they take */
    uint64_t node_bytes;   /* that nodes take */
    uint64_t memory_bytes; /* the most for both */
    uint64_t expired;      /* gets that met a record that had expired */
    uint64_t reclaimed;    /* records that were removed because they had expired */
};

/** Tell what there is. */
void tree_store_stats(struct tree_store *store, struct tree_store_stats *ret_stats);

/**
 * Look at all nodes, extents and records. Nobody changes anything until it returns.
 *
 * @param ret_why  static text; the first thing that is not so
 * @return 0; -EUCLEAN; -ENOMEM
 */
base_must_check int tree_store_check(struct tree_store *store, const char **ret_why);

#endif
