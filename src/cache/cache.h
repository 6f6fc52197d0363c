/*
 * cache: keys and values in memory, in partitions that one scheduler each owns. What is stored may be evicted at any
 * time; what is returned is the newest value of its key.
 *
 * Rules of the layer:
 *  - Nothing here yields, waits or locks. Functions on a partition are for its owner, one thread at a time, which is
 *    asserted; cache_stats() and what asks for sizes may be called by any thread. Opening takes as long as touching the
 *    memory.
 *  - A key belongs to one partition, cache_partition_of(): the others answer -EXDEV.
 *  - `now_ns` is civil time, which does not go back: task_wall(). What has expired by then is not there.
 *    Functions that read take CACHE_TIME_IF_NEEDED, too: then they ask the clock, once, if something depends on it.
 *  - Errors are negative errno values, and outputs stay untouched on failure. A key is 1 to TARN_KEY_BYTES_MAX bytes
 *    long, else -EINVAL. What is refused has changed nothing.
 *  - Types and conditions are those of <tarn/record.h>, errors those of <tarn/depot.h>.
 */
#ifndef CACHE_CACHE_H
#define CACHE_CACHE_H

#include "base/base.h"
#include "task/node.h"
#include <tarn/fabric.h>
#include <tarn/record.h>

struct cache;
struct cache_partition;

#define CACHE_PARTITIONS_MAX      256
#define CACHE_PARTITION_BYTES_MIN 4096
#define CACHE_VALUE_BYTES_MAX     (UINT32_C(1) << 20)
#define CACHE_BUCKET_RECORDS      8 /* at most */
#define CACHE_TIME_IF_NEEDED      0 /* for `now_ns` */

struct cache_options {
    uint64_t
        memory_bytes; /**< index and log of all partitions, shared out evenly; unused if there are regions */
    uint32_t partitions; /**< 1 to CACHE_PARTITIONS_MAX */
    uint32_t item_bytes; /**< key and value together, as expected: decides how much is index; 0: 100 */
    uint64_t seed;       /**< of hashes, a secret; 0: drawn */
    /** The memory of each partition, to be READ by clients (TARN_FABRIC_MAY_READ alone): the caller's, and there until
     * the cache is closed. NULL: the cache takes memory itself, and nobody else sees it. */
    struct tarn_fabric_region *const *regions;
};

struct cache_stats {
    uint64_t gets, hits;
    uint64_t expired;          /**< gets that met a record which has expired */
    uint64_t puts;             /**< that stored something; updates, appends and counts too */
    uint64_t in_place;         /**< of them, in the space of the old record */
    uint64_t deletes, touches; /**< of keys that were there */
    uint64_t evictions_log;    /**< records that were the oldest */
    uint64_t evictions_index;  /**< records whose bucket was full */
    uint64_t reclaimed;        /**< records that had expired when their turn came, counted in neither */
    uint64_t flushes;
    uint64_t records;    /**< that are there, expired ones included */
    uint64_t live_bytes; /**< of the log, that they take */
    uint64_t index_bytes, log_bytes;
};

/* ---- a cache ----------------------------------------------------------------------------------------- */

/**
 * Make a cache. Its memory is taken, touched and charged to the node now.
 *
 * @return 0; -EINVAL (no partitions, too many, or less than CACHE_PARTITION_BYTES_MIN for one); -EFBIG (more than
 *         512 GiB for one); -ENOMEM
 *
 * Any thread or task.
 */
int cache_open(struct tarn_node *node, const struct cache_options *options, struct cache **ret_cache)
    base_must_check;

/** Free a cache; what was found in it is gone. Regions stay, and stay the caller's. Nobody may be using it. */
void cache_close(struct cache *cache);

/** Seed of the hashes, for those who route. */
uint64_t cache_seed(const struct cache *cache);

/** How many partitions there are. */
uint32_t cache_partitions(const struct cache *cache);

/** One of them. @param number  below cache_partitions() */
struct cache_partition *cache_partition(struct cache *cache, uint32_t number);

/** The partition that a key belongs to, of a cache with that seed and number of partitions. */
uint32_t cache_partition_of(uint64_t seed, uint32_t partitions, const void *key, size_t key_len);

/** The longest value that a partition takes under a key of that length: CACHE_VALUE_BYTES_MAX, or what a quarter of
 * its log holds. */
uint64_t cache_value_bytes_max(const struct cache_partition *partition, size_t key_len);

/** Counters: each exact, together approximate. Any thread. */
void cache_stats(const struct cache_partition *partition, struct cache_stats *ret_stats);

/**
 * Verify a partition's invariants (README). For tests, and for operators in doubt.
 *
 * @return NULL; what is wrong, a constant
 */
const char *cache_check(struct cache_partition *partition);

/* ---- reading ------------------------------------------------------------------------------------------ */

/**
 * Fetch the value of a key.
 *
 * @param value, value_room  where it goes
 * @param ret_info           its length and the rest; may be NULL. Also written when -ENOBUFS is returned
 * @return 0; -ENOENT; -ENOBUFS (longer than value_room); -EINVAL; -EXDEV
 */
int cache_get(struct cache_partition *partition, const void *key, size_t key_len, uint64_t now_ns,
              void *value, size_t value_room, struct tarn_record_info *ret_info) base_must_check;

/** One of many keys to look up. */
struct cache_found {
    const void *key;
    size_t key_len;
    const void *value;            /**< result: where it lies, until the partition's next change */
    struct tarn_record_info info; /**< result */
    int error; /**< result: 0; -ENOENT; -EINVAL; -EXDEV. The others are untouched unless it is 0 */
};

/** Find the value of a key where it lies: `found` has the key, and gets the rest. @return found->error */
int cache_find(struct cache_partition *partition, uint64_t now_ns, struct cache_found *found) base_must_check;

/** Find those of many keys, with all misses of the processor's cache at once. They may repeat. All values stay where
 * they are until the partition's next change. */
void cache_find_many(struct cache_partition *partition, uint64_t now_ns, struct cache_found *found,
                     size_t count);

/** Fetch the values of many keys, likewise. Each as by cache_get(). */
void cache_get_many(struct cache_partition *partition, uint64_t now_ns, struct tarn_get *gets, size_t count);

/**
 * Have the processor fetch what calls about some keys are going to look at, misses overlapping: before puts, counts and
 * the like, which are made one by one.
 *
 * @param found  keys; nothing else of it is looked at or changed. Of more than 64 the first
 */
void cache_prefetch(struct cache_partition *partition, const struct cache_found *found, size_t count);

/** How many buckets a partition has: a key has one, and always the same. */
uint64_t cache_buckets(const struct cache_partition *partition);

/** Most that the records of one bucket have in keys and values. */
uint64_t cache_bucket_bytes_max(const struct cache_partition *partition);

/** What is there under one key, where it lies: until the partition's next change. Must not call the partition (asserted). */
typedef void cache_visit_function(void *arg, const void *key, size_t key_len, const void *value,
                                  const struct tarn_record_info *info);

/** Visit the records of a bucket. They do not count as read. @param bucket  below cache_buckets() */
void cache_visit_bucket(struct cache_partition *partition, uint64_t bucket, uint64_t now_ns,
                        cache_visit_function *visit, void *arg);

/* ---- changing ----------------------------------------------------------------------------------------- */

/**
 * Store a value under a key, when the condition holds.
 *
 * @param value        not of this partition's memory
 * @param options      NULL: TARN_PUT_ANY, no expiry, flags 0
 * @param ret_version  the new version; may be NULL
 * @return 0; -EEXIST (IF_ABSENT: present; IF_VERSION: another version); -ENOENT (IF_PRESENT, IF_VERSION: absent);
 *         -EMSGSIZE (longer than cache_value_bytes_max()); -EINVAL; -EXDEV
 */
int cache_put(struct cache_partition *partition, const void *key, size_t key_len, const void *value,
              size_t value_len, const struct tarn_put_options *options, uint64_t now_ns,
              uint64_t *ret_version) base_must_check;

/** Remove a key. @return 0; -ENOENT; -EINVAL; -EXDEV */
int cache_delete(struct cache_partition *partition, const void *key, size_t key_len, uint64_t now_ns)
    base_must_check;

/** Give a record another expiry; its version stays. @return 0; -ENOENT; -EINVAL; -EXDEV */
int cache_touch(struct cache_partition *partition, const void *key, size_t key_len, uint64_t expiry_ns,
                uint64_t now_ns) base_must_check;

/**
 * Show a record to a function that decides, and do what it says, with nothing in between.
 *
 * @param decide       called once, unless the key is refused; must not call the partition (asserted). The value that it
 *                     is shown lies in the partition, and it may say to store that, or a part of it
 * @param ret_version  the new version; may be NULL; untouched when the record is removed
 * @return 0; what `decide` returned; -EMSGSIZE; -EINVAL (also: to keep the value of nothing, a note that is none);
 *         -EXDEV
 */
int cache_update(struct cache_partition *partition, const void *key, size_t key_len,
                 tarn_update_function *decide, void *arg, uint64_t now_ns, uint64_t *ret_version)
    base_must_check;

/**
 * Join bytes to the value of a key; expiry and flags stay.
 *
 * @param data      not of this partition's memory
 * @param in_front  of the value, instead of behind it
 * @return 0; -ENOENT; -EMSGSIZE; -EINVAL; -EXDEV
 */
int cache_append(struct cache_partition *partition, const void *key, size_t key_len, const void *data,
                 size_t data_len, bool in_front, uint64_t now_ns, uint64_t *ret_version) base_must_check;

/** How cache_count() counts. */
struct cache_count {
    uint64_t delta;
    bool down;
    uint64_t number;  /**< result: the new value */
    uint64_t version; /**< result */
};

/**
 * Count a number up or down, which stands in a value as decimal digits. Up it goes on at 0 behind 2^64 - 1, down it
 * stays at 0. A text that becomes shorter is filled with spaces to its old length. Expiry and flags stay.
 *
 * @return 0; -ENOENT; -EDOM (no number, one above 2^64 - 1, or longer than 64 bytes); -EINVAL; -EXDEV
 */
int cache_count(struct cache_partition *partition, const void *key, size_t key_len, uint64_t now_ns,
                struct cache_count *inout_count) base_must_check;

/** Remove all that was stored before a moment: now, or a later one, which replaces an earlier order. */
void cache_flush(struct cache_partition *partition, uint64_t when_ns, uint64_t now_ns);

#endif
