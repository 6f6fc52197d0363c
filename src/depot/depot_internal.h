/* The insides of an open store, for the files of this folder. */
#ifndef DEPOT_DEPOT_INTERNAL_H
#define DEPOT_DEPOT_INTERNAL_H

#include "base/base.h"
#include "depot/depot.h"
#include "depot/depot_format.h"
#include "depot/index.h"
#include "depot/stage.h"
#include "drive/drive.h"
#include "seglog/seglog.h"
#include "task/node.h"
#include "task/task.h"
#include <stdatomic.h>
#include <tarn/depot.h>

#define DEPOT_KEY_LOCKS        1024
#define DEPOT_READ_SMALL_BYTES (UINT64_C(16) << 10)

/* Read buffers of one size. */
struct depot_read_class {
    uint64_t buffer_bytes;
    uint32_t count;
    uint8_t *memory;
    struct base_spin lock;
    uint8_t *free;            /* a list through their first words */
    struct base_list readers; /* that wait for one */
};

struct tarn_depot {
    struct tarn_node *node;
    struct drive *drive;
    struct seglog *log;
    bool read_only;
    bool async;
    bool cache;
    bool running; /* the log was started */
    uint32_t grain_shift;
    uint32_t record_bytes_max;
    uint64_t hash_seed;
    uint64_t check_seed;
    uint64_t store_bytes;
    uint64_t capacity_bytes;
    struct depot_index index;
    struct task_mutex *key_locks; /* DEPOT_KEY_LOCKS */
    struct depot_read_class small, large;
    struct depot_stages stages;
    struct base_log_limit damage_limit;

    /* flush.c: what is gone. The sequence is changed under all key locks. */
    _Atomic uint64_t gone_sequence; /* records with a lower one: flushed or evicted */
    _Atomic uint64_t
        flush_when_ns; /* the moment at which all that is there then shall go; 0: none is ordered */

    /* background.c: wishes of others to the log's service, and who waits for them */
    struct task_mutex growth; /* held by who lets the index grow */
    _Atomic bool growth_wanted;
    _Atomic bool growth_refused;              /* it failed: only who finds no place asks again */
    _Atomic(struct task_wait *) clear_wanted; /* a flush, with all key locks: the index shall be emptied */

    /* flushes that are between their durable order and the emptied index: what the collector frees meanwhile
     * may still be referred to */
    _Atomic uint32_t flushing;

    uint16_t renewing[DEPOT_KEY_LOCKS]; /* cache: records on whose behalf the service holds a lock; its own */
    _Atomic uint64_t evictions_unhit, evictions_hit, reinsertions, reclaimed;

    _Atomic uint64_t live_bytes; /* footprints of all values in the index */
    _Atomic uint64_t gets_expired, gets_flushed;
    _Atomic uint64_t gets, get_hits, puts, deletes, touches, reads;
};

/* What is known of a key while one works on it. */
struct depot_key {
    const void *bytes;
    size_t len;
    struct base_hash128 hash;
    struct depot_trace *trace; /* of the request that asks for it; NULL: none */
};

/** Whether a key may be so long. */
static inline bool depot_key_is_valid(size_t len)
{
    return len > 0 && len <= TARN_KEY_BYTES_MAX;
}

/** A key with its hash. */
static inline struct depot_key depot_key_of(const struct tarn_depot *depot, const void *bytes, size_t len)
{
    return (struct depot_key){.bytes = bytes, .len = len, .hash = base_hash128(bytes, len, depot->hash_seed)};
}

/** The lock that writes to a key take turns by. */
static inline struct task_mutex *depot_key_lock(struct tarn_depot *depot, const struct depot_key *key)
{
    return &depot->key_locks[key->hash.high % DEPOT_KEY_LOCKS];
}

/** Grains that a record takes. */
static inline uint64_t depot_grains(const struct tarn_depot *depot, uint64_t bytes)
{
    return (bytes + ((UINT64_C(1) << depot->grain_shift) - 1)) >> depot->grain_shift;
}

/** Count one. */
static inline void depot_count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- read.c: records ----------------------------------------------------------------------------- */

/* A record in one of the store's buffers. */
struct depot_record {
    struct depot_read_class *class; /* NULL: no buffer is held */
    uint8_t *buffer;
    uint64_t word; /* the entry of the index that led to it */
    uint64_t grain;
    uint64_t bytes; /* of the record, without padding */
    struct seglog_record_format header;
    const uint8_t *key;
    const uint8_t *value; /* verified, unless only the key was wanted */
};

enum depot_want { DEPOT_WANT_KEY, DEPOT_WANT_WHOLE };

/** Take the memory for reading. @return 0; -ENOMEM (nothing taken) */
base_must_check int depot_read_init(struct tarn_depot *depot);

/** Free it. */
void depot_read_deinit(struct tarn_depot *depot);

/* A read of one entry's record on its way. */
struct depot_read {
    struct depot_record record;
    struct depot_trace *trace; /* the caller's; NULL: none */
    enum depot_want want;
    uint64_t begin;      /* on the drive */
    uint64_t span_bytes; /* of the read; 0: it came from memory */
    uint64_t room;       /* bytes from the record's beginning that are read */
    uint64_t stamp;
    struct iovec iov;
    struct drive_request request;
};

/**
 * Start to read the record that an entry names. read->trace is set.
 *
 * @param key_len  of the key that is looked for: enough is read to compare it
 * @param wait     for a buffer, if there is none
 * @return whether it was started: without `wait` there may be no buffer. Yields only if `wait`.
 */
base_must_check bool depot_read_post(struct tarn_depot *depot, struct depot_read *read, uint64_t word,
                                     enum depot_want want, size_t key_len, bool wait);

/**
 * Wait for it and verify. A record's buffer is held only if 0 is returned. Yields.
 *
 * @return 0; -EBADMSG (not a whole record, or damaged, or not there any more); the drive's error
 */
base_must_check int depot_read_finish(struct tarn_depot *depot, struct depot_read *read);

/** Give the record's buffer back; the record keeps its header. */
void depot_record_release(struct depot_record *record);

/**
 * Find the record of a key: read what the index has under its hash until the key is met. What is returned was
 * the key's record at one moment between call and return; with the key lock held it still is, but the
 * collector may have moved it.
 *
 * @param locked      the caller holds the key lock
 * @param ret_record  holds a buffer if 0 is returned: depot_record_release()
 * @return 0; -ENOENT; -EBADMSG (damaged); the drive's error. Yields.
 */
base_must_check int depot_find(struct tarn_depot *depot, const struct depot_key *key, enum depot_want want,
                               bool locked, struct depot_record *ret_record);

/** The same for an entry that an iteration has met: 0 as long as the index holds it. @return as depot_find().
 * Yields. */
base_must_check int depot_read_entry(struct tarn_depot *depot, uint64_t hash, uint64_t word,
                                     struct depot_record *ret_record);

/** Say that a record is damaged; a limited number of times. @return -EBADMSG */
int depot_damaged(struct tarn_depot *depot, uint64_t grain);

/** Tell what is stored beside a value. @param ret_info  may be NULL */
void depot_tell(const struct depot_record *record, struct tarn_record_info *ret_info);

/* ---- flush.c -------------------------------------------------------------------------------------- */

/** Whether a record that was found is there for clients: not flushed, not evicted, not expired. What was once
 * said to have expired stays so, over crashes and clocks that are set back. Yields when that must be made
 * durable first. */
bool depot_visible(struct tarn_depot *depot, const struct seglog_record_format *record);

/** Carry out an order of flush_all whose moment has come. At the beginning of every call, before any lock is
 * taken. Yields then. */
void depot_flush_due(struct tarn_depot *depot);

/* ---- background.c --------------------------------------------------------------------------------- */

/** What the log asks about its records. */
extern const struct seglog_owner_ops depot_owner_ops;

/** Have the index grow when its load asks for it. Cheap, for every insert. */
void depot_growth_poke(struct tarn_depot *depot);

/**
 * Let the index grow now: an insert has found no place. @return 0 (try again); -ENOSPC (it cannot grow)
 *
 * Yields. The caller may hold a key lock.
 */
base_must_check int depot_growth_now(struct tarn_depot *depot);

/** Empty the index, by the service, which moves no record meanwhile. All key locks are held. Yields. */
void depot_index_empty(struct tarn_depot *depot);

/* ---- cache.c -------------------------------------------------------------------------------------- */

/** renew() of struct seglog_owner_ops. */
bool depot_cache_renew(void *owner, const struct seglog_entry_format *entry, uint64_t grain);

/** renewed() of struct seglog_owner_ops. */
void depot_cache_renewed(void *owner, const struct seglog_entry_format *entry, uint64_t grain,
                         const struct seglog_place *place);

/** evicted() of struct seglog_owner_ops. */
void depot_cache_evicted(void *owner, const struct seglog_entry_format *entry, uint64_t grain);

/**
 * An insert has found no place: let the index grow, or if it cannot and this is a cache, evict.
 *
 * @param tries  that were made before, for this insert
 * @return 0 (try again); -ENOSPC; -EROFS; -EIO
 *
 * Yields. The caller may hold a key lock.
 */
base_must_check int depot_place_make(struct tarn_depot *depot, uint32_t tries);

/**
 * While the store is being opened: its records do not fit into the memory that there is. Raise the horizon
 * over the oldest segments.
 *
 * @param eighths       so many eighths of all records shall go
 * @param ret_sequence  what is below is gone
 * @return 0; -ENOMEM
 */
base_must_check int depot_cache_shed(struct tarn_depot *depot, uint32_t eighths, uint64_t *ret_sequence);

/* ---- recover.c ------------------------------------------------------------------------------------ */

/** Fill the index from a checkpoint or the summaries. The log is open and not started. @return 0; -ENOMEM;
 * -ENOSPC; -EUCLEAN; the drive's error; logged. Yields. */
base_must_check int depot_recover(struct tarn_depot *depot);

/** checkpoint() of struct seglog_owner_ops. */
base_must_check int depot_checkpoint(void *owner, struct seglog_checkpoint *checkpoint);

/** checkpoint_bytes() of struct seglog_owner_ops. */
uint64_t depot_checkpoint_bytes(void *owner);

#endif
