/*
 * tarn/depot.h: a durable key-value store on a file or a drive.
 *
 * Threading: every function may be called from any thread, and from tasks of the node's schedulers.
 * *Yields* means: blocks the calling thread, or lets other tasks run.
 * Errors: negative errno; output arguments stay untouched on failure; every error has a sentence in
 * the node's log when the store or the drive is at fault.
 * Durability: what a call has acknowledged (returned 0 for) survives as the store's mode says;
 * what it has rejected never comes back. After a failed flush the store takes no more writes
 * (-EROFS) and still serves reads of what it knows to be durable.
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

/** Bounds of over_provisioning_percent, and what 0 means. */
#define TARN_OVER_PROVISIONING_MIN     3
#define TARN_OVER_PROVISIONING_MAX     75
#define TARN_OVER_PROVISIONING_DEFAULT 7

struct tarn_node;
struct tarn_depot;

/** When a write is acknowledged. */
enum tarn_mode {
    TARN_MODE_POWER,  /**< it survives a power cut: flushed, or written through the cache */
    TARN_MODE_DEVICE, /**< the device has it: it survives the death of the process and of the kernel */
    TARN_MODE_ASYNC,  /**< it is in memory; after a second at most it survives a power cut */
};

/** Whether the store tells a device which of its space is free. */
enum tarn_discard {
    TARN_DISCARD_AUTO, /**< if it is a block device that takes discards */
    TARN_DISCARD_ON,   /**< -EOPNOTSUPP if it is not */
    TARN_DISCARD_OFF,
};

struct tarn_depot_options {
    uint64_t create_bytes; /**< > 0: make and format the file with this size if there is none */
    enum tarn_mode mode;
    bool read_only;
    /** Open the store also where acknowledged records are missing because the drive has damaged it, and nobody can tell
     * of which keys. Else it is refused (-EUCLEAN). It is opened so: of each key whose newest record may be missing,
     * and of each that is not found, gets, conditions and removals of what is not there return -EBADMSG, never an
     * older value; a put without a condition stores it anew. So until the store is flushed, or repaired by
     * `tarn check --repair`. Caches need no such permission: they give up what they hold */
    bool serve_damaged;
    bool direct_off; /**< through the page cache even where the drive could do without */
    bool cache;      /**< a full store makes room by *evicting*: what was stored first goes first, unless it
                      * was read meanwhile. What is gone stays gone, crashes included: no older value comes
                      * back. After a crash a few more may be gone. Any store may be opened as a cache, and a
                      * cache as a store; one that is full then answers -ENOSPC, to deletes too, until it is
                      * opened as a cache again or flushed */
    uint64_t scrub_rate_bytes; /**< a second, at most, that are read in the background, to find what the drive
                                * has damaged while the rest can still be moved to another place; 0: none */
    /** Part of the drive that records may not take, TARN_OVER_PROVISIONING_MIN to _MAX; 0: _DEFAULT. The more, the
     * less is moved to reclaim space: the drive is written less, and a full store is faster. The less, the
     * more fits. Kept nowhere: each opening may say another. A store that holds more than it takes now
     * answers -ENOSPC to new keys and to values that grow, and does all else. A cache has none. */
    uint32_t over_provisioning_percent;
    enum tarn_discard discard;
    uint64_t
        checkpoint_rate_bytes; /**< a second, at most, of *checkpoints* that are written while the store is
                                * open: after a crash it opens sooner, the later it was the more so; 0: only
                                * closing leaves one. At most a 32nd is added to what is written */
    uint64_t checkpoint_every_bytes; /**< written from one checkpoint to the next; 0: an eighth of the store,
                                      * or 32 times the last one, if that is more */
    uint32_t
        measure_interval; /**< one request in this many, drawn at random, has its stages measured; 1: all;
                                * 0: 32 */
};

struct tarn_depot_stats {
    uint64_t records;         /**< in the index (expired ones not yet collected included) */
    uint64_t pieces;          /**< of long values, which are not counted as records */
    uint64_t drive_bytes;     /**< size of the store */
    uint64_t capacity_bytes;  /**< of records with header and padding that it takes */
    uint64_t live_bytes;      /**< of them, in use */
    uint64_t tombstone_bytes; /**< of remembered deletions, which come beside them */
    uint64_t gets, get_hits, puts, deletes, touches;
    uint64_t gets_expired,
        gets_flushed; /**< of the misses, those that met a record which is no longer there */
    uint64_t reads;   /**< from the drive, for gets and to compare keys */
    uint64_t writes;  /**< to the drive */
    uint64_t flushes;
    uint64_t written_bytes; /**< to the drive, all told, since the store was opened: no drive keeps it */
    uint64_t user_bytes;    /**< of them, of records that were stored or deleted, with header and padding:
                             * written_bytes / user_bytes is the *write amplification* */
    uint64_t moved_bytes;   /**< of them, of records that the collector moved */
    uint64_t collections;   /**< segments that were freed */
    uint64_t discarded_bytes;
    uint32_t segments, segments_free, segment_bytes;
    uint64_t index_bytes;   /**< memory of the index */
    uint64_t index_entries; /**< that it has room for */
    /* of a cache, since it was opened */
    uint64_t evictions;        /**< records that were there, and had to go */
    uint64_t evictions_unhit;  /**< of them, never read since they were stored (or stored again) */
    uint64_t reinsertions;     /**< records that were stored again instead, because they were read */
    uint64_t reclaimed;        /**< records that went after they had expired */
    uint64_t evicted_segments; /**< of the collections */
    uint64_t horizon;          /**< sequence below which everything is gone after a restart; of every store */
    uint32_t segments_bad;     /**< set aside until the store is opened again: something in them is damaged */
    uint64_t checkpoints, checkpoint_bytes; /**< written since it was opened, whole */
    uint32_t checkpoints_kept;              /**< that a start could use */
    /* of scrubbing, since it was opened */
    uint64_t scrub_passes;   /**< times that all of the store was read */
    uint64_t scrub_segments; /**< that were read */
    uint64_t scrub_bytes;    /**< that were read */
    uint64_t scrub_damaged;  /**< records that stay damaged; what describes a segment counts as one */
    uint64_t scrub_ended_ns; /**< civil time when the last pass ended; 0: none has */
};

/** Choices when a store is made. */
struct tarn_format_options {
    uint64_t
        create_bytes; /**< > 0: make the file with this size if there is none, several with equal shares */
    uint32_t grain_bytes; /**< unit of addresses, 32 to 512, a power of two; 0: 64 */
    bool force;           /**< overwrite whatever is there, a store included */
};

/**
 * Make a store on a file or device, or on several.
 *
 * @param path     borrowed. Several, with commas between ("A,B,C"), become a stripe, one store on all of
 * them: of each as much is used as the smallest has. A comma of a name itself is written "\,"
 * @param options  NULL: only an existing, blank file or device
 * @return 0; -ENOENT; -EEXIST (there is a store, or anything but zeros, and no `force`: nothing was
 *         written); -EBUSY (open elsewhere); -EINVAL (too small); -ENOMEM; what the drive says
 *
 * Yields. What is there is read from end to end to see that it is blank, unless `force` is set.
 */
TARN_API int tarn_depot_format(struct tarn_node *node, const char *path,
                               const struct tarn_format_options *options);

/** Sizes of a store, in bytes of its drive. */
struct tarn_depot_growth {
    uint64_t before_bytes, after_bytes;
};

/**
 * Let a store that nobody has open take all of a file or device that has become larger, or one more of them.
 * Records stay as they are. A store can become four times as large as it was made. Of an open one:
 * tarn_depot_extend().
 *
 * @param path        as for tarn_depot_open(); of several one that is blank is appended to the others, or to the
 *                    only other, and named with them from then on
 * @param bytes       make the file so long first, whole pages; 0: it is already, or it is a device
 * @param ret_growth  equal sizes: there was nothing to take
 * @return 0; -EFBIG (more than the store can take: the file is as it was); -EINVAL (shorter than the file; a
 *         device, or several, and `bytes`; two of several are blank); -ENOSPC; as tarn_depot_open()
 *
 * Yields. Killed at any moment it leaves the store as it was or larger, and may be called again.
 */
TARN_API int tarn_depot_grow(struct tarn_node *node, const char *path, uint64_t bytes,
                             struct tarn_depot_growth *ret_growth);

/**
 * Let an open store take all that its file or device has become larger by, while others read and write. Make a
 * file longer first (ftruncate(), or `fallocate -l SIZE FILE`): what it has more is reserved by this call. The new
 * room is there when it returns. Lines of the log tell the old and the new size, and what stands in the way of more.
 *
 * @param ret_growth  equal sizes: there was nothing to take
 * @return 0; -EFBIG (there is more, but the store can take nothing of it while it is open, or at all: the log says
 *         which); -ENOSPC (the file system has no room for what the file shall have); -EROFS; -ENOMEM; -EIO (a
 *         write failed: the store takes no more); what the drive says. But for -EIO nothing has changed
 *
 * Yields. The store is as it was or larger when it is killed at any moment. A store can become four times as large
 * as it was made; how far it can while it is open is settled then, too: four times up to 64 GiB, twice up to 256, and
 * to the next power of two beyond. tarn_depot_grow() goes further.
 */
TARN_API int tarn_depot_extend(struct tarn_depot *depot, struct tarn_depot_growth *ret_growth);

/**
 * Open a store, after replaying what the last holder left.
 *
 * @param path     a file or block device, borrowed; of a stripe all of them with commas between, in any order
 * @param options  NULL: an existing store, TARN_MODE_POWER
 * @return 0; -ENOENT; -EBUSY (open elsewhere); -EUCLEAN (not a store, damaged, or not all of a stripe:
 *         nothing was written); -ENOTSUP (of another version, or with features that this one lacks); -ENOMEM;
 *         -EINVAL (a mode, over-provisioning or discard that there is not); -EOPNOTSUPP
 *         (TARN_DISCARD_ON); -EIO; what the drive says
 *
 * Yields. A depot opened in a plain thread has a service thread of its own; opened in a task, a service task on the
 * same scheduler, which must run until tarn_depot_close() has returned.
 */
TARN_API int tarn_depot_open(struct tarn_node *node, const char *path,
                             const struct tarn_depot_options *options, struct tarn_depot **ret_depot);

/** Close, after everything acknowledged is as durable as TARN_MODE_POWER. No call may be running. Yields.
 * @return 0 or the flush's error; closed in any case */
TARN_API int tarn_depot_close(struct tarn_depot *depot);

/**
 * Fetch the value of a key.
 *
 * @param value, value_room  where it goes
 * @param ret_info           its length and the rest; may be NULL. Also written when -ENOBUFS is returned
 * @return 0; -ENOENT; -ENOBUFS (longer than value_room); -EIO, -EBADMSG (the record is damaged)
 *
 * Yields.
 */
TARN_API int tarn_depot_get(struct tarn_depot *depot, const void *key, size_t key_len, void *value,
                            size_t value_room, struct tarn_record_info *ret_info);

/**
 * Fetch a part of a value. Parts of a long one are read without reading the rest.
 *
 * @param if_version       of the value that is meant, from an earlier call: all parts with it are of one
 * value. 0: whatever is there
 * @param offset           of the part in the value; behind its end there is nothing
 * @param data, data_room  where it goes, and how much at most
 * @param ret_bytes        how much there was: less than data_room only at the value's end
 * @param ret_info         the value's length and the rest; may be NULL
 * @return 0; -ENOENT; -ESTALE (there is another version: begin anew); -EIO, -EBADMSG (the record is damaged)
 *
 * Yields. What one call returns is of one value, never of two. Versions tell values apart unless who stores
 * them chooses the same for two.
 */
TARN_API int tarn_depot_read(struct tarn_depot *depot, const void *key, size_t key_len, uint64_t if_version,
                             uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                             struct tarn_record_info *ret_info);

/**
 * Fetch a value without copying it: as tarn_depot_read(), but what lies together from `offset` on is on loan
 * in the buffer that it was read into, until tarn_depot_lease_end(). Of a value that has a record to itself that
 * is all of it, of a long one it is the rest of a piece, 2 MiB at most.
 *
 * @param ret_lease  to be ended, by any thread or task, before the store is closed. May be copied; one of the
 *                   copies is ended. What it shows does not change, whatever becomes of the key
 * @return as tarn_depot_read(); -ENOBUFS (too much is on loan, or there is no memory: tarn_depot_read() does)
 *
 * Yields. Holds no lock. Leases never take buffers from those who read: each may take one more, which is charged
 * to the node's memory until the store is closed. All that are out at once take at most a sixteenth of the
 * node's memory, and 64 MiB.
 */
TARN_API int tarn_depot_lease(struct tarn_depot *depot, const void *key, size_t key_len, uint64_t if_version,
                              uint64_t offset, struct tarn_lease *ret_lease,
                              struct tarn_record_info *ret_info);

/** Give back what was on loan; the lease is empty then, and may be ended again. Any thread or task. */
TARN_API void tarn_depot_lease_end(struct tarn_lease *lease);

/**
 * Fetch the values of many keys, with all reads in flight at once (in a plain thread one after the other).
 *
 * @param gets  keys and room in, values, infos and errors out; the keys may repeat
 *
 * Yields. Each get is as by tarn_depot_get(); they are not one moment together.
 */
TARN_API void tarn_depot_get_many(struct tarn_depot *depot, struct tarn_get *gets, size_t count);

/**
 * Store a value under a key, when the condition holds, and return when it is as durable as the
 * store's mode asks.
 *
 * @param options  NULL: TARN_PUT_ANY, no expiry, flags 0
 * @param ret_version  the new version; may be NULL
 * @return 0; nothing written: -EEXIST (IF_ABSENT: present; IF_VERSION: another version), -ENOENT
 *         (IF_PRESENT, IF_VERSION: absent), -ENOSPC, -EMSGSIZE (longer than the store takes), -EINVAL
 *         (key length), -EROFS; -EIO: not acknowledged, the store takes no more writes
 *
 * Yields. The condition is decided before anything is written.
 */
TARN_API int tarn_depot_put(struct tarn_depot *depot, const void *key, size_t key_len, const void *value,
                            size_t value_len, const struct tarn_put_options *options, uint64_t *ret_version);

/* ---- values that come bit by bit ------------------------------------------------------------------ */

struct tarn_depot_writer;

/**
 * Begin to store a value that is not in memory as a whole. What is written cannot be seen before
 * tarn_depot_writer_commit(); what was not committed leaves nothing, however it ends.
 *
 * @param key          borrowed until return
 * @param options      as for tarn_depot_put(); copied
 * @param value_bytes  that will be written: room for all of them is found now. TARN_LENGTH_UNKNOWN: as it
 *                     comes
 * @return 0; -EEXIST, -ENOENT (the condition does not hold now: it is decided at the end, but this saves the
 *         work); -EMSGSIZE (longer than the store takes); -ENOSPC; -EBUSY (64 writers are open); -ENOMEM;
 *         -EROFS; -EINVAL; -EIO, -EBADMSG
 *
 * Yields. Until it is committed or aborted the writer is one caller's at a time, and the store stays open.
 * It takes a buffer of 2 MiB at most, locks nothing, and does not delay others who write under the key.
 */
TARN_API int tarn_depot_writer_open(struct tarn_depot *depot, const void *key, size_t key_len,
                                    const struct tarn_put_options *options, uint64_t value_bytes,
                                    struct tarn_depot_writer **ret_writer);

/**
 * Write the next bytes of the value. After an error nothing is left but to abort it.
 *
 * @param data  borrowed until return
 * @return 0; -EMSGSIZE (more than was announced, or than the store takes); -ENOSPC; -EROFS; -EIO. Yields.
 */
TARN_API int tarn_depot_writer_write(struct tarn_depot_writer *writer, const void *data, size_t bytes);

/**
 * Store what was written, when the condition holds, and return when it is as durable as the store's mode
 * asks.
 *
 * @param ret_version  the new version; may be NULL
 * @return as tarn_depot_put(), what an earlier write has failed with, or -ENODATA (less was written than
 *         announced), or -ESTALE (after the first bytes were written the store was flushed, or a cache has
 *         evicted them: write the value again). The writer is gone in any case
 *
 * Yields. The condition is decided before anything is written that makes the value count.
 */
TARN_API int tarn_depot_writer_commit(struct tarn_depot_writer *writer, uint64_t *ret_version);

/** Forget a writer and what was written to it. Yields. */
TARN_API void tarn_depot_writer_abort(struct tarn_depot_writer *writer);

/* ---- several keys at once --------------------------------------------------------------------------- */

/** No batch has more items. */
#define TARN_BATCH_ITEMS_MAX 1024

/** One change of a batch: a key is given a value, or removed. */
struct tarn_batch_item {
    const void *key;
    size_t key_len;
    const void *value;
    size_t value_len;
    bool remove; /**< the key; without a condition it need not be there */
    /** As for tarn_depot_put(); of a removal only the condition counts. */
    const struct tarn_put_options *options;
    uint64_t version; /**< result, if the batch was stored: the new one; of a removal that of what was there,
                       * 0 if nothing was */
    int error;        /**< result: 0; why the batch was not stored, of an item that is the reason; of all
                       * others then -ECANCELED; of all alike, if none of them is */
};

/**
 * Change several keys: all of it is stored, or nothing, after a crash, too. Returns when it is as durable as
 * the store's mode asks.
 *
 * @param items  at most TARN_BATCH_ITEMS_MAX, each of another key, in any order. What they point to is
 *               borrowed until return
 * @return 0; nothing written: -EEXIST, -ENOENT (a condition of an item does not hold), -EINVAL (a key or a
 *         note is none, or a key is there twice), -E2BIG (more items, or more bytes, than a batch takes; its
 *         values are not in pieces), -ENOSPC, -ENOMEM, -EROFS, -EBADMSG; -EIO: not acknowledged, and the store
 *         takes no more writes (unless an item has it: its old record cannot be read, and nothing was written).
 *         After the next opening all of it is there, or nothing; until then nothing, or all but keys whose old
 *         records could not be read once more
 *
 * Yields. All conditions are decided before anything is written, with no other write to any of the keys in
 * between. Gets of single keys may meet some of the changes before the others. In a cache each item is
 * evicted by itself.
 */
TARN_API int tarn_depot_write_batch(struct tarn_depot *depot, struct tarn_batch_item *items, size_t count);

/** The sum of tarn_depot_batch_bytes() of its items that a batch may have: 1 MiB, less if the store is small.
 */
TARN_API uint64_t tarn_depot_batch_bytes_max(const struct tarn_depot *depot);

/** What an item takes. @param value_len  of a removal 8 */
TARN_API uint64_t tarn_depot_batch_bytes(const struct tarn_depot *depot, size_t key_len, size_t value_len);

/** Remove a key. Yields. @return 0 (it was there, and is durably gone); -ENOENT; -ENOSPC; -EROFS; -EIO;
 * -EINVAL */
TARN_API int tarn_depot_delete(struct tarn_depot *depot, const void *key, size_t key_len);

/**
 * Read a record, decide, and write it, with no other write to its key in between.
 *
 * @param decide       called once, unless reading fails; must not call the store
 * @param ret_version  the new version; may be NULL; untouched when the record is removed
 * @return as tarn_depot_put(), or what `decide` returned
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
 * @param when_ns  civil time from which they are gone: now or later (a later one replaces an earlier order)
 * @return 0: the order is durable; -ENOSPC; -EROFS; -EIO
 *
 * Yields.
 */
TARN_API int tarn_depot_flush_all(struct tarn_depot *depot, uint64_t when_ns);

/**
 * Visit every record, in no order. A key that is there from beginning to end is visited once, with a value
 * that it has had meanwhile; what is stored or removed meanwhile may or may not be.
 *
 * @return 0; what `visit` returned; -ENOMEM; -EIO, -EBADMSG (a record is damaged: it is left out, the others
 * were visited)
 *
 * Yields.
 */
TARN_API int tarn_depot_scan(struct tarn_depot *depot, tarn_scan_function *visit, void *arg);

/* ---- the store as it was --------------------------------------------------------------------------- */

struct tarn_depot_snapshot;

/**
 * Have the store as it is at one moment between call and return, while others go on writing: every write that
 * was acknowledged before the call is in it, none that begins after the return.
 *
 * @param room_bytes  that others shall be able to write meanwhile, about. If so much is not free it is made
 *                    first, by moving what lives together: up to half of what can be had that way, in ten
 *                    seconds at most. 0: what is free now
 * @return 0; -EBUSY (one is open: there is one at a time); -ENOMEM
 *
 * Yields. Writes wait for about the time of one write, until those that are under way have ended. It lasts
 * until it is closed, the process ends, or it is *cancelled*, so that no write ever fails because of it: then
 * its functions return -ECANCELED, and the node's log says why. It takes
 * - space: what was there at its moment is not overwritten, so that what dies of it gives no room. It is
 *   cancelled before somebody would be told -ENOSPC, and before a cache evicts;
 * - memory: a part of the index is copied when it is first changed, all of it at most. It is cancelled when
 *   there is none.
 * What expires after its moment, and what is flushed, is in it. The store stays open until it is closed.
 */
TARN_API int tarn_depot_snapshot_open(struct tarn_depot *depot, uint64_t room_bytes,
                                      struct tarn_depot_snapshot **ret_snapshot);

/** Close it. No call may be using it. Yields. */
TARN_API void tarn_depot_snapshot_close(struct tarn_depot_snapshot *snapshot);

/** tarn_depot_get() of a snapshot. @return also -ECANCELED. Yields. Any thread or task, several at once. */
TARN_API int tarn_depot_snapshot_get(struct tarn_depot_snapshot *snapshot, const void *key, size_t key_len,
                                     void *value, size_t value_room, struct tarn_record_info *ret_info);

/** tarn_depot_read() of a snapshot: all parts are of one value. @return also -ECANCELED. Yields. Likewise. */
TARN_API int tarn_depot_snapshot_read(struct tarn_depot_snapshot *snapshot, const void *key, size_t key_len,
                                      uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                                      struct tarn_record_info *ret_info);

/**
 * tarn_depot_scan() of a snapshot: each key of its moment once, with its value. What is too long to be shown
 * tarn_depot_snapshot_read() has.
 *
 * @return also -ECANCELED (what was visited before is right). Yields. Likewise.
 */
TARN_API int tarn_depot_snapshot_scan(struct tarn_depot_snapshot *snapshot, tarn_scan_function *visit,
                                      void *arg);

/* ---- memory ---------------------------------------------------------------------------------------- */

/**
 * Give the system the memory of the index that its entries do not need any more, as after many deletions. The
 * index grows by itself when it is 80 % full, and never shrinks by itself. This halves it as long as it is at
 * most 60 % full afterwards.
 *
 * @param ret_bytes  that were given back; set on failure too
 * @return 0 (there may have been nothing to give back); -EBUSY (another call is at it); -EAGAIN (what came
 *         meanwhile needs the memory, or keys collide too much for half of it: the index is whole, and as large
 *         as it was before the last halving); -ECANCELED (the same, and the caller's task was cancelled); -ENOMEM
 *         (some 70 KiB are needed meanwhile)
 *
 * Yields, every millisecond or oftener. Any thread or task. Other calls go on meanwhile: gets wait no longer than while
 * the index grows, and a put that finds no place ends it. While a snapshot is open this takes memory first: up to what
 * the index has.
 */
TARN_API int tarn_depot_shrink_index(struct tarn_depot *depot, uint64_t *ret_bytes);

/** Counters, each exact, together approximate. */
TARN_API void tarn_depot_stats(struct tarn_depot *depot, struct tarn_depot_stats *ret_stats);

/**
 * Where the time of requests goes. A request that is measured counts once in each stage that it passes, with
 * all the time that it was there, and once in its kind; the stages of a kind add up to it but for what lies
 * between them. Writes and flushes belong to many requests at once: all of them are measured.
 */
enum tarn_stage {
    TARN_STAGE_QUEUE, /**< before the store: of a server, from a request's arrival until the store is asked */
    TARN_STAGE_ROOM,  /**< put, update, touch, delete: until there is room in the log */
    TARN_STAGE_LOCK,  /**< the same: until no other write to the key goes on */
    TARN_STAGE_INDEX, /**< looking up and changing the index */
    TARN_STAGE_READ,  /**< from the drive, until the request goes on with what was read */
    TARN_STAGE_VERIFY, /**< checksums of what was read */
    TARN_STAGE_APPEND, /**< a record's place in the log, and copying it there */
    TARN_STAGE_COMMIT, /**< until it is as durable as the mode says: what is before it, writes and flushes */
    TARN_STAGE_WRITE,  /**< a write of records to the drive; where that makes them durable, with its flush */
    TARN_STAGE_FLUSH,  /**< a flush of the drive, where it is one of its own */
    TARN_STAGE_GET,    /**< all of a get, from the call until its value is there */
    TARN_STAGE_PUT,    /**< all of a put, from the call to its return (of a value in pieces: of its head,
                            when they are there); likewise: */
    TARN_STAGE_UPDATE,
    TARN_STAGE_TOUCH,
    TARN_STAGE_DELETE,
    TARN_STAGE_BATCH, /**< all of a batch, whatever its items are */
    TARN_STAGE_COUNT,
};

/** How long one of them takes. Percentiles are within 0.8 %; `max_ns` is that of what was measured. */
struct tarn_latency {
    uint64_t count; /**< that were measured */
    uint64_t sum_ns;
    uint64_t min_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns; /**< 0 as long as none was */
};

/** A stage's name: "queue", "index", "get"; NULL if there is no such stage. */
TARN_API const char *tarn_stage_name(enum tarn_stage stage);

/** How long a stage has taken since the store was opened, or since it was last told to forget. @return 0;
 * -EINVAL (no stage); -ENOMEM */
TARN_API int tarn_depot_latency(struct tarn_depot *depot, enum tarn_stage stage,
                                struct tarn_latency *ret_latency);

/** Forget what was measured. */
TARN_API void tarn_depot_forget_latency(struct tarn_depot *depot);

/** The longest value that the store takes: 4 GiB - 1, less if the store is small. */
TARN_API uint64_t tarn_depot_value_bytes_max(const struct tarn_depot *depot);

/** The longest value that is stored in one piece. A longer one is written and read piece by piece, and is not
 * shown as a whole by scans and updates. */
TARN_API uint64_t tarn_depot_whole_bytes_max(const struct tarn_depot *depot);

#ifdef __cplusplus
}
#endif

#endif
