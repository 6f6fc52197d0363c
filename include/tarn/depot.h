/*
 * tarn/depot.h: a durable key-value store on a file or a drive.
 *
 * Threading: every function may be called from any thread, and from tasks of the node's schedulers.
 * *Yields* means: blocks the calling thread, or lets other tasks run.
 * Errors: negative errno; output arguments stay untouched on failure; every error has a sentence in
 * the node's log when the store or the drive is at fault.
 * Durability: a write that was acknowledged (its call returned 0) survives as the store's mode says;
 * a rejected write never comes back. After a failed flush the store takes no more writes
 * (-EROFS) and still serves reads of records that it knows to be durable.
 */
#ifndef TARN_DEPOT_H
#define TARN_DEPOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tarn/record.h>
#include <tarn/tarn.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The least and the largest over_provisioning_percent, and the default. */
#define TARN_OVER_PROVISIONING_MIN     3
#define TARN_OVER_PROVISIONING_MAX     75
#define TARN_OVER_PROVISIONING_DEFAULT 7

/** As hot_bytes: keep no records in memory. */
#define TARN_HOT_OFF UINT64_MAX

struct tarn_node;
struct tarn_depot;

/** The moment at which a write is acknowledged. */
enum tarn_mode {
    TARN_MODE_POWER, /**< when it survives a power cut: it was flushed, or written through the drive's cache */
    TARN_MODE_DEVICE, /**< when the device has it: it survives the death of the process and of the kernel */
    TARN_MODE_ASYNC,  /**< when it is in memory; a second later at most it survives a power cut */
};

/** Whether the store tells a device which of its space is free (discards it). */
enum tarn_discard {
    TARN_DISCARD_AUTO, /**< on block devices that take discards */
    TARN_DISCARD_ON,   /**< always; a drive that takes none is refused with -EOPNOTSUPP */
    TARN_DISCARD_OFF,
};

struct tarn_depot_options {
    uint64_t create_bytes; /**< > 0: make and format the file with this size if there is none */
    enum tarn_mode mode;   /**< the moment at which writes are acknowledged */
    bool read_only;        /**< refuse all writes */
    /** Open the store even if the drive has damaged it so that acknowledged records are missing and their keys cannot be
     * told; without this it is refused (-EUCLEAN). Then a key whose newest record may be missing, or that is not found,
     * gives -EBADMSG to gets, conditions and removals, never an older value; a put without a condition stores it
     * anew. That lasts until the store is flushed, or repaired by `tarn check --repair`. Caches need no such permission:
     * a damaged cache is emptied */
    bool serve_damaged;
    bool direct_off; /**< transfer through the page cache even if the drive can do direct transfers */
    bool cache;      /**< a full store makes room by *evicting*: the oldest records go first, unless they were
                      * read meanwhile. Evicted records never come back, also not after a crash, and neither
                      * do older values. After a crash a few more may be missing. Any store may be opened as a
                      * cache, and a cache as a store; if it is full, it then answers -ENOSPC, also to
                      * deletes, until it is opened as a cache again or flushed */
    uint64_t scrub_rate_bytes; /**< the most bytes per second that are read in the background, to find damage
                                * of the drive while the other records can still be moved; 0: none */
    /** The part of the drive that records may not fill, TARN_OVER_PROVISIONING_MIN to _MAX; 0: _DEFAULT. With more of
     * it, fewer records are moved to reclaim space, so the drive is written less and a full store is faster; with
     * less, more records fit. It is not stored, and may be another one at each opening. If the store holds more than
     * it allows now, new keys and values that grow get -ENOSPC, and all else works. A cache has none. */
    uint32_t over_provisioning_percent;
    enum tarn_discard discard; /**< whether free space is discarded */
    uint64_t
        checkpoint_rate_bytes; /**< the most bytes per second of *checkpoints* that are written while the store
                                * is open, after which a crashed store opens sooner; 0: only closing writes
                                * one. They add at most a 32nd to the bytes written */
    uint64_t checkpoint_every_bytes; /**< bytes written from one checkpoint to the next; 0: an eighth of the
                                      * store, or 32 times the last checkpoint, if that is more */
    uint32_t
        measure_interval; /**< one request in this many, chosen at random, has its stages measured; 1: all;
                                * 0: 32 */
    uint64_t
        hot_bytes; /**< the most bytes of memory that hold *hot* records, so that asking for them again reads no
                         * drive. 0: all that the node's limit leaves, but a sixteenth of it (64 MiB at most); in a
                         * node without a limit 64 MiB. TARN_HOT_OFF: none. Memory that the store needs for anything
                         * else it takes from them. A file in memory (tmpfs) has none */
    uint32_t
        hot_record_bytes; /**< the longest record, with its header of 40 bytes, that is kept in memory; 128 KiB at
                                * most; 0: 64 KiB */
    uint64_t
        hot_warm_rate_bytes; /**< the most bytes per second that are read in the background, after a clean close, to
                                   * have the records in memory again that were asked for most. 0: memory begins empty */
};

struct tarn_depot_stats {
    uint64_t records;         /**< records in the index, including expired ones that were not yet collected */
    uint64_t pieces;          /**< pieces of long values, which do not count as records */
    uint64_t drive_bytes;     /**< size of the store */
    uint64_t capacity_bytes;  /**< bytes of records, with headers and padding, that the store takes */
    uint64_t live_bytes;      /**< bytes of records now in the store */
    uint64_t tombstone_bytes; /**< bytes of remembered deletions, which come on top */
    uint64_t gets, get_hits, puts, deletes, touches;
    uint64_t gets_expired, gets_flushed; /**< misses that met an expired, or a flushed, record */
    uint64_t reads;                      /**< reads of the drive, for gets and to compare keys */
    uint64_t writes;                     /**< writes of the drive */
    uint64_t flushes;                    /**< flushes of the drive */
    uint64_t
        written_bytes; /**< bytes written to the drive since the store was opened; this count is not stored */
    uint64_t user_bytes;      /**< the part of them for records that were stored or deleted, with headers and
                             * padding: written_bytes / user_bytes is the *write amplification* */
    uint64_t moved_bytes;     /**< the part of them for records that the collector moved */
    uint64_t collections;     /**< segments that were freed */
    uint64_t discarded_bytes; /**< bytes of the drive that were discarded */
    uint32_t segments, segments_free, segment_bytes;
    uint64_t index_bytes;   /**< bytes of memory that the index takes */
    uint64_t index_entries; /**< entries that the index has room for */
    /* of a cache, since it was opened */
    uint64_t evictions; /**< records that were evicted */
    uint64_t
        evictions_unhit; /**< evicted records that were never read since they were stored, or stored again */
    uint64_t reinsertions; /**< records that were stored again instead of evicted, because they were read */
    uint64_t reclaimed;    /**< expired records that were removed */
    uint64_t evicted_segments; /**< segments that were freed by evicting */
    uint64_t horizon; /**< sequence below which all records are ignored after a restart; of every store */
    uint32_t segments_bad; /**< segments with damage, not used until the store is opened again */
    uint64_t checkpoints, checkpoint_bytes; /**< whole checkpoints written since the store was opened */
    uint32_t checkpoints_kept;              /**< checkpoints that the next opening could use */
    /* of scrubbing, since the store was opened */
    uint64_t scrub_passes;   /**< number of times that the whole store was read */
    uint64_t scrub_segments; /**< segments that were read */
    uint64_t scrub_bytes;    /**< bytes that were read */
    uint64_t scrub_damaged;  /**< damaged records found; a segment's damaged description counts as one */
    uint64_t scrub_ended_ns; /**< civil time at which the last pass ended; 0: none has */
    /* of hot records, kept in memory */
    uint64_t hot_bytes;     /**< bytes of memory that they take now */
    uint64_t hot_records;   /**< records that can be found there now */
    uint64_t hot_hits;      /**< records that gets found there, since the store was opened, as what follows */
    uint64_t hot_misses;    /**< records that gets had to read from the drive */
    uint64_t hot_additions; /**< records that came there */
    uint64_t hot_evictions; /**< records that went for others, or since memory was needed */
    uint64_t hot_warmed;    /**< records that were read back after the store was opened */
};

/** Choices when a store is made. */
struct tarn_format_options {
    uint64_t
        create_bytes; /**< > 0: make the file with this size if there is none; several files get equal shares */
    uint32_t grain_bytes; /**< unit of addresses, 32 to 512, a power of two; 0: 64 */
    bool force;           /**< overwrite the drive's content, also another store */
};

/**
 * Make a store on a file or device, or on several.
 *
 * @param path     borrowed. Several paths, with commas between ("A,B,C"), become a stripe, one store on all of
 *                 them, which uses as much of each as the smallest has. A comma of a name itself is written "\,"
 * @param options  NULL: only an existing, blank file or device
 * @return 0; -ENOENT; -EEXIST (there is a store, or anything but zeros, and no `force`: nothing was
 *         written); -EBUSY (open elsewhere); -EINVAL (too small); -ENOMEM; the drive's errors
 *
 * Yields. Unless `force` is set, the drive is read from end to end to see that it is blank.
 */
TARN_API int tarn_depot_format(struct tarn_node *node, const char *path,
                               const struct tarn_format_options *options);

/** Sizes of a store, in bytes of its drive. */
struct tarn_depot_growth {
    uint64_t before_bytes, after_bytes;
};

/**
 * Let a closed store take all of a file or device that has become larger, or append one more drive to it.
 * Records stay as they are. A store can become four times as large as it was made. For an open store see
 * tarn_depot_extend().
 *
 * @param path        as for tarn_depot_open(). If several paths are given and one of them is blank, it is appended
 *                    to the others, and must be named with them from then on
 * @param bytes       make the file this long first, rounded up to whole pages; 0: use its present length, or a device
 * @param ret_growth  equal sizes: there was nothing to take
 * @return 0; -EFBIG (more than the store can take: the file is as it was); -EINVAL (shorter than the file; `bytes`
 *         for a device or several drives; more than one blank drive); -ENOSPC; as tarn_depot_open()
 *
 * Yields. If the process is killed at any moment, the store is as it was or larger, and this may be called again.
 */
TARN_API int tarn_depot_grow(struct tarn_node *node, const char *path, uint64_t bytes,
                             struct tarn_depot_growth *ret_growth);

/**
 * Let an open store take the space by which its file or device has become larger, while others read and write. Make
 * a file longer first (ftruncate(), or `fallocate -l SIZE FILE`); this call reserves the added space. The new room can
 * be used when it returns. The log has the old and the new size, and the limit that prevents more.
 *
 * @param ret_growth  equal sizes: there was nothing to take
 * @return 0; -EFBIG (there is more space, but the store can take none of it while it is open, or at all: the log says
 *         which); -ENOSPC (the file system has no room for the longer file); -EROFS; -ENOMEM; -EIO (a write failed, and
 *         the store takes no more writes); the drive's errors. After all errors but -EIO nothing has changed
 *
 * Yields. If the process is killed at any moment, the store is as it was or larger. A store can become four times as
 * large as it was made. How far it can grow while it is open depends on the size at which it was made: four times up to
 * 64 GiB, twice up to 256 GiB, and to the next power of two beyond. tarn_depot_grow() goes further.
 */
TARN_API int tarn_depot_extend(struct tarn_depot *depot, struct tarn_depot_growth *ret_growth);

/**
 * Open a store, and recover the writes of a last user that has crashed.
 *
 * @param path     a file or block device, borrowed; of a stripe all drives with commas between, in any order
 * @param options  NULL: an existing store, TARN_MODE_POWER
 * @return 0; -ENOENT; -EBUSY (open elsewhere); -EUCLEAN (not a store, damaged, or not all of a stripe:
 *         nothing was written); -ENOTSUP (of another version, or with features that this one lacks); -ENOMEM;
 *         -EINVAL (a wrong mode, over-provisioning or discard); -EOPNOTSUPP
 *         (TARN_DISCARD_ON); -EIO; the drive's errors
 *
 * Yields. A depot opened in a plain thread has a service thread of its own; opened in a task, a service task on the
 * same scheduler, which must run until tarn_depot_close() has returned.
 */
TARN_API int tarn_depot_open(struct tarn_node *node, const char *path,
                             const struct tarn_depot_options *options, struct tarn_depot **ret_depot);

/** Close a store, after making all acknowledged writes as durable as in TARN_MODE_POWER. No call may be running. Yields.
 * @return 0 or the flush's error; closed in any case */
TARN_API int tarn_depot_close(struct tarn_depot *depot);

/**
 * Fetch the value of a key.
 *
 * @param value, value_room  receives the value
 * @param ret_info           its length and other properties; may be NULL. Also written when -ENOBUFS is returned
 * @return 0; -ENOENT; -ENOBUFS (longer than value_room); -EIO, -EBADMSG (the record is damaged)
 *
 * Yields.
 */
TARN_API int tarn_depot_get(struct tarn_depot *depot, const void *key, size_t key_len, void *value,
                            size_t value_room, struct tarn_record_info *ret_info);

/**
 * Fetch a part of a value. A part of a long value is read without the rest.
 *
 * @param if_version       the version that the value must have, from an earlier call, so that all parts are of one
 *                         value. 0: any version
 * @param offset           first byte of the part; beyond the value's end the part is empty
 * @param data, data_room  receives the part
 * @param ret_bytes        number of bytes of the part: less than data_room only at the value's end
 * @param ret_info         the value's length and other properties; may be NULL
 * @return 0; -ENOENT; -ESTALE (the version is another one: begin again); -EIO, -EBADMSG (the record is damaged)
 *
 * Yields. The bytes of one call are of one value, never of two. Versions tell values apart, unless a caller stores two
 * values with the same version.
 */
TARN_API int tarn_depot_read(struct tarn_depot *depot, const void *key, size_t key_len, uint64_t if_version,
                             uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                             struct tarn_record_info *ret_info);

/**
 * Fetch a value without copying it: as tarn_depot_read(), but the bytes from `offset` on that lie together are lent in the
 * buffer into which they were read, until tarn_depot_lease_end(). For a value in one record these are all bytes; for a
 * long one the rest of a piece, 2 MiB at most.
 *
 * @param ret_lease  must be ended, by any thread or task, before the store is closed. It may be copied, and then only one
 *                   copy is ended. Its bytes do not change, even if the key does
 * @return as tarn_depot_read(); -ENOBUFS (too much is on loan, or there is no memory: use tarn_depot_read())
 *
 * Yields. Holds no lock. Leases never take buffers that reads need: each may take a further one, which is charged to
 * the node's memory until the store is closed. All these together take at most a sixteenth of the node's memory, and
 * 64 MiB. A hot record is lent where it lies; an eighth of that memory may be kept so.
 */
TARN_API int tarn_depot_lease(struct tarn_depot *depot, const void *key, size_t key_len, uint64_t if_version,
                              uint64_t offset, struct tarn_lease *ret_lease,
                              struct tarn_record_info *ret_info);

/** Give back a value on loan; the lease is empty then, and may be ended again. Any thread or task. */
TARN_API void tarn_depot_lease_end(struct tarn_lease *lease);

/**
 * Fetch the values of many keys, with all reads in flight at once (in a plain thread one after the other).
 *
 * @param gets  in: keys and room; out: values, infos and errors, each as of tarn_depot_get(). Keys may repeat
 *
 * Yields. The values need not have been in the store at the same moment.
 */
TARN_API void tarn_depot_get_many(struct tarn_depot *depot, struct tarn_get *gets, size_t count);

/**
 * Store a value under a key, when the condition holds, and return when it is as durable as the
 * store's mode asks.
 *
 * @param options  NULL: TARN_PUT_ANY, no expiry, flags 0
 * @param ret_version  the new version; may be NULL
 * @return 0; nothing is written: -EEXIST (IF_ABSENT: present; IF_VERSION: another version), -ENOENT
 *         (IF_PRESENT, IF_VERSION: absent), -ENOSPC, -EMSGSIZE (longer than the store takes), -EINVAL
 *         (key length), -EROFS; -EIO: not acknowledged, and the store takes no more writes
 *
 * Yields. The condition is decided before anything is written.
 * Source: uDepot §4.3; differs: a condition, a version and an expiry.
 */
TARN_API int tarn_depot_put(struct tarn_depot *depot, const void *key, size_t key_len, const void *value,
                            size_t value_len, const struct tarn_put_options *options, uint64_t *ret_version);

/* ---- values that are written piece by piece -------------------------------------------------------- */

struct tarn_depot_writer;

/**
 * Begin to store a value that is not in memory as a whole. No reader sees it before tarn_depot_writer_commit(), and
 * without a commit nothing of it stays, also after a crash.
 *
 * @param key          borrowed until return
 * @param options      as for tarn_depot_put(); copied
 * @param value_bytes  length of the value, for which room is reserved now. TARN_LENGTH_UNKNOWN: room is taken as
 *                     the pieces come
 * @return 0; -EEXIST, -ENOENT (the condition does not hold now; it is decided at the commit, but this saves the
 *         work); -EMSGSIZE (longer than the store takes); -ENOSPC; -EBUSY (64 writers are open); -ENOMEM;
 *         -EROFS; -EINVAL; -EIO, -EBADMSG
 *
 * Yields. One caller at a time may use the writer, and the store stays open until it is committed or aborted. It
 * takes a buffer of 2 MiB at most, holds no lock, and does not delay other writes to the key.
 */
TARN_API int tarn_depot_writer_open(struct tarn_depot *depot, const void *key, size_t key_len,
                                    const struct tarn_put_options *options, uint64_t value_bytes,
                                    struct tarn_depot_writer **ret_writer);

/**
 * Write the next bytes of the value. After an error the writer can only be aborted.
 *
 * @param data  borrowed until return
 * @return 0; -EMSGSIZE (more than was announced, or than the store takes); -ENOSPC; -EROFS; -EIO. Yields.
 */
TARN_API int tarn_depot_writer_write(struct tarn_depot_writer *writer, const void *data, size_t bytes);

/**
 * Store the written value, when the condition holds, and return when it is as durable as the store's mode
 * asks. Frees the writer in any case.
 *
 * @param ret_version  the new version; may be NULL
 * @return as tarn_depot_put(); the error of an earlier write; -ENODATA (less was written than announced); -ESTALE
 *         (since the first bytes were written the store was flushed, or a cache has evicted them: write the value
 *         again)
 *
 * Yields. The condition is decided before the record that makes the value visible is written.
 */
TARN_API int tarn_depot_writer_commit(struct tarn_depot_writer *writer, uint64_t *ret_version);

/** Free a writer and drop the bytes written to it. Yields. */
TARN_API void tarn_depot_writer_abort(struct tarn_depot_writer *writer);

/* ---- several keys at once --------------------------------------------------------------------------- */

/**
 * Change several keys: either all changes are stored or none, also after a crash. Returns when they are as durable
 * as the store's mode asks.
 *
 * @param items  at most TARN_BATCH_ITEMS_MAX, each with another key, in any order. The memory that they point to is
 *               borrowed until return
 * @return 0; nothing is written: -EEXIST, -ENOENT (a condition of an item does not hold), -EINVAL (a bad key or
 *         note, or the same key twice), -E2BIG (more items or bytes than a batch takes: values of batches are not
 *         stored in pieces), -ENOSPC, -ENOMEM, -EROFS, -EBADMSG; -EIO: not acknowledged, and the store takes no
 *         more writes (but if an item has this error, its old record cannot be read, and nothing was written).
 *         After the next opening all changes are there, or none; until then none, or all except of keys whose old
 *         records could not be read a second time
 *
 * Yields. All conditions are decided before anything is written, with no other write to any of the keys in
 * between. Gets of single keys may see some of the changes before the others. In a cache each item is evicted by
 * itself.
 */
TARN_API int tarn_depot_write_batch(struct tarn_depot *depot, struct tarn_batch_item *items, size_t count);

/** The largest sum of its items' tarn_depot_batch_bytes() that a batch may have: 1 MiB, less if the store is small. */
TARN_API uint64_t tarn_depot_batch_bytes_max(const struct tarn_depot *depot);

/** The bytes that an item takes of that sum. @param value_len  for a removal 8 */
TARN_API uint64_t tarn_depot_batch_bytes(const struct tarn_depot *depot, size_t key_len, size_t value_len);

/** Remove a key. Yields. @return 0 (it was present, and is durably removed); -ENOENT; -ENOSPC; -EROFS; -EIO;
 * -EINVAL */
TARN_API int tarn_depot_delete(struct tarn_depot *depot, const void *key, size_t key_len);

/**
 * Read a record, decide, and write it, with no other write to its key in between.
 *
 * @param decide       called once, unless reading fails; must not call the store
 * @param ret_version  the new version; may be NULL; untouched when the record is removed
 * @return as tarn_depot_put(), or the result of `decide`
 *
 * Yields.
 */
TARN_API int tarn_depot_update(struct tarn_depot *depot, const void *key, size_t key_len,
                               tarn_update_function *decide, void *arg, uint64_t *ret_version);

/** Give a record another expiry; its version stays. Yields. @return 0; -ENOENT; -ENOSPC; -EROFS; -EIO;
 * -EINVAL */
TARN_API int tarn_depot_touch(struct tarn_depot *depot, const void *key, size_t key_len, uint64_t expiry_ns);

/**
 * Remove every record that was stored before a moment.
 *
 * @param when_ns  civil time at which the records go: now or later. A later time replaces that of an earlier call
 * @return 0: the order is durable; -ENOSPC; -EROFS; -EIO
 *
 * Yields.
 */
TARN_API int tarn_depot_flush_all(struct tarn_depot *depot, uint64_t when_ns);

/**
 * Visit every record, in no order. A key that is present from beginning to end is visited once, with a value that it
 * has had meanwhile; a key that is stored or removed meanwhile may be visited or not.
 *
 * @return 0; the result of `visit`; -ENOMEM; -EIO, -EBADMSG (a damaged record was left out, and all others were
 *         visited)
 *
 * Yields.
 */
TARN_API int tarn_depot_scan(struct tarn_depot *depot, tarn_scan_function *visit, void *arg);

/* ---- snapshots ------------------------------------------------------------------------------------- */

struct tarn_depot_snapshot;

/**
 * Open a snapshot: the store as it is at one moment between call and return, while others go on writing. Every write
 * that was acknowledged before the call is in it, and none that begins after the return.
 *
 * @param room_bytes  about the bytes that others should be able to write while it is open. If less is free, records are
 *                    moved together first, up to half of the room that this can give, for ten seconds at most. 0: the
 *                    room that is free now
 * @return 0; -EBUSY (one is open: there is one at a time); -ENOMEM
 *
 * Yields. Writes are delayed by about the time of one write, until those under way have ended. The snapshot lasts
 * until it is closed, the process ends, or it is *cancelled*: because no write may ever fail for its sake, the store
 * gives it up first. Then its functions return -ECANCELED, and the node's log says why. A snapshot takes
 * - space: records of its moment are not overwritten, so replaced and deleted records give no room. It is cancelled
 *   before a write would get -ENOSPC, and before a cache evicts;
 * - memory: a part of the index is copied when it is first changed, at most all of it. It is cancelled when memory
 *   runs out.
 * Records that expire, or are flushed, after its moment stay in it. The store must stay open until it is closed.
 */
TARN_API int tarn_depot_snapshot_open(struct tarn_depot *depot, uint64_t room_bytes,
                                      struct tarn_depot_snapshot **ret_snapshot);

/** Close a snapshot that no call is using. Yields. */
TARN_API void tarn_depot_snapshot_close(struct tarn_depot_snapshot *snapshot);

/** Get from a snapshot, as tarn_depot_get() does. @return also -ECANCELED. Yields. Any thread or task, several at once. */
TARN_API int tarn_depot_snapshot_get(struct tarn_depot_snapshot *snapshot, const void *key, size_t key_len,
                                     void *value, size_t value_room, struct tarn_record_info *ret_info);

/** Read a part of a value from a snapshot, as tarn_depot_read() does; all parts are of one value. @return also -ECANCELED.
 * Yields. Any thread or task, several at once. */
TARN_API int tarn_depot_snapshot_read(struct tarn_depot_snapshot *snapshot, const void *key, size_t key_len,
                                      uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                                      struct tarn_record_info *ret_info);

/**
 * Visit each key of a snapshot once, with its value. A value that is too long to be shown can be read by
 * tarn_depot_snapshot_read().
 *
 * @return as tarn_depot_scan(); -ECANCELED (the records visited before are right). Yields. Any thread or task, several
 *         at once.
 */
TARN_API int tarn_depot_snapshot_scan(struct tarn_depot_snapshot *snapshot, tarn_scan_function *visit,
                                      void *arg);

/* ---- memory ---------------------------------------------------------------------------------------- */

/**
 * Shrink the index to its entries, as after many deletions, and give the memory back to the system. The index grows by
 * itself when it is 80 % full, and never shrinks by itself. This halves it as often as it is at most 60 % full
 * afterwards.
 *
 * @param ret_bytes  bytes that were given back; set on failure, too
 * @return 0 (there may have been nothing to give back); -EBUSY (another call is shrinking it); -EAGAIN (new entries
 *         need the memory, or keys collide too much for half of it: the index is whole, and as large as before the
 *         last halving); -ECANCELED (the caller's task was cancelled, with the same effect); -ENOMEM (some 70 KiB are
 *         needed meanwhile)
 *
 * Yields, every millisecond or oftener. Any thread or task. Other calls go on meanwhile: gets wait no longer than while
 * the index grows, and a put that finds no place ends this call. While a snapshot is open this takes memory first: up to
 * the size of the index.
 */
TARN_API int tarn_depot_shrink_index(struct tarn_depot *depot, uint64_t *ret_bytes);

/** Read the statistics. Each counter is exact, but they are not all of the same moment. */
TARN_API void tarn_depot_stats(struct tarn_depot *depot, struct tarn_depot_stats *ret_stats);

/**
 * The stages of requests, of which the time is measured. A measured request counts once in each stage that it passes,
 * with all its time there, and once in its kind; the stages add up to the kind's time, except for the time between
 * them. Writes and flushes of the drive serve many requests at once: all of them are measured.
 */
enum tarn_stage {
    TARN_STAGE_QUEUE, /**< before the store: in a server, from a request's arrival until the store is called */
    TARN_STAGE_ROOM,  /**< put, update, touch, delete: waiting for room in the log */
    TARN_STAGE_LOCK,  /**< put, update, touch, delete: waiting for other writes to the key */
    TARN_STAGE_INDEX,  /**< looking up and changing the index */
    TARN_STAGE_READ,   /**< reading from the drive, until the request goes on */
    TARN_STAGE_VERIFY, /**< computing checksums of the bytes read */
    TARN_STAGE_APPEND, /**< finding a record's place in the log, and copying it there */
    TARN_STAGE_COMMIT, /**< waiting until it is as durable as the mode says: for earlier records, writes and flushes */
    TARN_STAGE_WRITE, /**< a write of records to the drive, with its flush if the write makes them durable */
    TARN_STAGE_FLUSH, /**< a flush of the drive of its own */
    TARN_STAGE_GET,   /**< a whole get, from the call until its value was read */
    TARN_STAGE_PUT,   /**< a whole put, from the call to its return; for a value in pieces that of its
                            head. Likewise the next kinds: */
    TARN_STAGE_UPDATE,
    TARN_STAGE_TOUCH,
    TARN_STAGE_DELETE,
    TARN_STAGE_BATCH, /**< a whole batch, with any items */
    TARN_STAGE_COUNT,
};

/** The latency of a stage. Percentiles are exact to 0.8 %; all figures are of measured requests only. */
struct tarn_latency {
    uint64_t count; /**< number of measured requests */
    uint64_t sum_ns;
    uint64_t min_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns; /**< 0 while none was measured */
};

/** A stage's name: "queue", "index", "get"; NULL if there is no such stage. */
TARN_API const char *tarn_stage_name(enum tarn_stage stage);

/** Read a stage's latency since the store was opened, or since the last tarn_depot_forget_latency(). @return 0;
 * -EINVAL (no such stage); -ENOMEM */
TARN_API int tarn_depot_latency(struct tarn_depot *depot, enum tarn_stage stage,
                                struct tarn_latency *ret_latency);

/** Reset the latencies of all stages. */
TARN_API void tarn_depot_forget_latency(struct tarn_depot *depot);

/** The longest value that the store takes: 4 GiB - 1, less if the store is small. */
TARN_API uint64_t tarn_depot_value_bytes_max(const struct tarn_depot *depot);

/** The longest value that is stored in one piece. A longer one is stored in several, and scans and updates do not
 * show it whole. */
TARN_API uint64_t tarn_depot_whole_bytes_max(const struct tarn_depot *depot);

#ifdef __cplusplus
}
#endif

#endif
