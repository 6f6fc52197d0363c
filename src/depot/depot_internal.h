/* The insides of an open store, for the files of this folder. */
#ifndef DEPOT_DEPOT_INTERNAL_H
#define DEPOT_DEPOT_INTERNAL_H

#include "base/base.h"
#include "depot/depot.h"
#include "depot/depot_format.h"
#include "depot/hot/hot.h"
#include "depot/index/index.h"
#include "depot/stage.h"
#include "drive/drive.h"
#include "seglog/seglog.h"
#include "task/node.h"
#include "task/task.h"
#include <stdatomic.h>
#include <tarn/depot.h>

#define DEPOT_KEY_LOCKS        1024
#define DEPOT_PIECE_LOCKS      16
#define DEPOT_READ_SMALL_BYTES (UINT64_C(16) << 10)

/* Read buffers of one size. */
struct depot_read_class {
    uint64_t buffer_bytes;
    uint32_t count;
    uint8_t *memory;
    struct tarn_depot *depot;
    struct base_spin lock;    /* of what follows */
    uint8_t *free;            /* a list through their first words */
    struct base_list readers; /* that wait for one */
    uint32_t extra;  /* buffers beside `count` that leases have made necessary: made, or being made */
    uint32_t leased; /* buffers that are out on lease: never more than that */
};

#define DEPOT_READ_CLASSES_MAX 3

struct depot_repair; /* repair.h */

struct tarn_depot {
    struct tarn_node *node;
    struct drive *drive;
    struct seglog *log;
    bool read_only;
    bool async;
    bool cache;
    bool running;                /* the log was started */
    bool stopped;                /* and stopped: nobody else is at work */
    struct depot_repair *repair; /* NULL: it is not opened for that */
    uint32_t grain_shift;
    uint32_t record_bytes_max;
    _Atomic uint64_t features; /* that the superblock has */
    uint64_t hash_seed;
    uint64_t check_seed;
    _Atomic uint64_t capacity_bytes; /* rises when the store grows */
    struct depot_index index;
    struct depot_hot *hot; /* records in memory; NULL: there is no tier */
    struct base_counter hot_hits, hot_misses;
    struct depot_warming *warming; /* warm.h; NULL: nothing is warmed */
    struct task_mutex *key_locks;  /* DEPOT_KEY_LOCKS */

    /* pieces.c: values in pieces */
    uint64_t whole_bytes_max; /* a longer value is stored in pieces */
    uint32_t piece_bytes;     /* of every piece but the last */
    bool power;               /* what was waited for is flushed */
    struct task_mutex piece_locks[DEPOT_PIECE_LOCKS];
    _Atomic uint32_t writers;
    _Atomic bool orphans;              /* the index may have pieces that nobody refers to */
    _Atomic uint64_t pieces;           /* in the index */
    _Atomic uint64_t promised_bytes;   /* footprints of pieces that may still be written */
    _Atomic uint64_t evicted_sequence; /* cache: below it a piece was evicted, durably */
    struct base_list doomed;           /* the service's: struct doomed, heads that have expired */
    struct depot_read_class buffers[DEPOT_READ_CLASSES_MAX]; /* by rising size */
    uint32_t buffer_classes;
    struct base_account leases; /* what there is of buffers because of leases */
    struct depot_stages stages;
    struct base_log_limit damage_limit;
    struct base_log_spell refusals; /* for want of room */

    /* flush.c: what is gone. The sequence is changed under all key locks. */
    _Atomic uint64_t gone_sequence; /* records with a lower one: flushed or evicted */
    _Atomic uint64_t loss_sequence; /* as seglog_loss_sequence(), until all that is older is gone */
    _Atomic uint64_t
        flush_when_ns; /* the moment at which all that is there then shall go; 0: none is ordered */

    /* snapshot.c */
    struct task_mutex snapshots;          /* of what follows; nothing else is locked under it */
    struct tarn_depot_snapshot *snapshot; /* that is open, or about to be; NULL: none */

    /* background.c: orders to the log's service, and the callers that wait for them */
    struct task_mutex growth; /* held while the index grows, and for a moment while it shrinks */
    _Atomic bool shrinking;   /* somebody has asked for it: one at a time */
    _Atomic bool growth_wanted;
    _Atomic bool growth_refused;              /* it failed: only who finds no place asks again */
    _Atomic(struct task_wait *) clear_wanted; /* a flush, with all key locks: the index shall be emptied */

    /* flushes that are between their durable order and the emptied index: what the collector frees meanwhile
     * may still be referred to */
    _Atomic uint32_t flushing;

    uint16_t renewing[DEPOT_KEY_LOCKS]; /* cache: records on whose behalf the service holds a lock; its own */
    struct base_counter evictions_unhit, evictions_hit, reinsertions, reclaimed;

    uint8_t apart_before[BASE_CACHE_LINE_BYTES]; /* what every write changes, from what it only reads */
    _Atomic uint64_t live_bytes;                 /* footprints of all values in the index */
    uint8_t apart_behind[BASE_CACHE_LINE_BYTES];
    struct base_counter gets_expired, gets_flushed;
    struct base_counter gets, get_hits, puts, deletes, touches, reads;
};

/* Whether what is read comes into the hot tier. */
enum depot_warms {
    DEPOT_WARMS_NOT,
    DEPOT_WARMS,       /* a client asks for its value: on trial */
    DEPOT_WARMS_AGAIN, /* it was there before the store was closed, and kept */
};

/* What is known of a key while one works on it. */
struct depot_key {
    const void *bytes;
    size_t len;
    struct base_hash128 hash;
    uint64_t piece_id; /* of a piece: its value's id and its number; else 0 */
    uint32_t piece_number;
    const struct tarn_depot_snapshot *snapshot; /* as it was then; NULL: as it is */
    enum depot_warms warms;
    struct depot_trace *trace; /* of the request that asks for it; NULL: none */
};

/** Footprints that may live in it. */
static inline uint64_t depot_capacity(const struct tarn_depot *depot)
{
    return atomic_load_explicit(&depot->capacity_bytes, memory_order_relaxed);
}

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

/* ---- depot.c -------------------------------------------------------------------------------------- */

/** Have the superblock say that the store may have a feature. @return 0; as seglog_feature_note(). Yields the
 * first time. */
base_must_check int depot_feature_note(struct tarn_depot *depot, uint64_t feature);

/* ---- buffers.c: what records are read into ------------------------------------------------------- */

struct depot_record;

/** Take the memory for reading. @return 0; -ENOMEM (nothing taken) */
base_must_check int depot_buffers_init(struct tarn_depot *depot);

/** Free it. Nothing may be on lease, nor read. */
void depot_buffers_deinit(struct tarn_depot *depot);

/** Bytes of all of it. Any thread or task. */
uint64_t depot_buffers_memory(const struct tarn_depot *depot);

/**
 * Take a buffer of at least `bytes`, at most those of the longest record and its blocks.
 *
 * @param wait        for one, if there is none
 * @param ret_buffer  depot_record_release() gives it back
 * @return its class; NULL only if not to `wait`. Yields only if `wait`.
 */
base_must_check struct depot_read_class *depot_buffer_take(struct tarn_depot *depot, uint64_t bytes,
                                                           bool wait, uint8_t **ret_buffer);

/** Give the record's buffer back; the record keeps its header. */
void depot_record_release(struct depot_record *record);

/**
 * Turn a record into a lease of a part of its value: its buffer is the lease's then.
 *
 * @return 0; -ENOBUFS (no memory for one more: the record holds its buffer, as before)
 */
base_must_check int depot_lease_record(struct depot_record *record, uint64_t offset, uint64_t bytes,
                                       struct tarn_lease *ret_lease);

/* ---- read.c: records ----------------------------------------------------------------------------- */

/* A record in one of the store's buffers. */
struct depot_record {
    struct depot_read_class *class; /* NULL: no buffer is held */
    struct depot_hot_page *page;    /* of the hot tier, pinned; NULL: it lies in none */
    uint8_t *buffer;
    uint64_t word; /* the entry of the index that led to it */
    uint64_t grain;
    uint64_t bytes; /* of the record, without padding */
    struct seglog_record_format header;
    struct seglog_pieces_format pieces; /* of a piece, or of a head, which is always verified */
    const uint8_t *key;
    const uint8_t *value; /* verified, unless only the key was wanted */
};

/** Whether the value lies in pieces, of which this is the head. */
static inline bool depot_is_head(const struct depot_record *record)
{
    return (record->header.kind & SEGLOG_MARK_HEAD) != 0;
}

/** Whether it is a piece of a value, not a key's record. */
static inline bool depot_is_piece(const struct depot_record *record)
{
    return (record->header.kind & SEGLOG_MARK_PIECE) != 0;
}

enum depot_want { DEPOT_WANT_KEY, DEPOT_WANT_WHOLE };

/* A read of one entry's record on its way. */
struct depot_read {
    struct depot_record record;
    enum depot_warms warms;    /* as the key's */
    struct depot_trace *trace; /* the caller's; NULL: none */
    enum depot_want want;
    uint64_t begin;      /* on the drive */
    uint64_t span_bytes; /* of the read of the drive; 0: there is none, it comes from memory */
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
 * Find an entry's record in bytes of the drive that were read.
 *
 * @param memory  with all of the record's grains
 * @param begin   where they lie on the drive
 * @param ret_record  borrows `memory`; releasing it is allowed, and does nothing
 * @return false: it is not there, or not good
 */
bool depot_read_within(struct tarn_depot *depot, uint8_t *memory, uint64_t begin, uint64_t word,
                       struct depot_record *ret_record);

/**
 * Wait for it and verify. A record's buffer is held only if 0 is returned. Yields.
 *
 * @return 0; -EBADMSG (not a whole record, or damaged, or not there any more); the drive's error
 */
base_must_check int depot_read_finish(struct tarn_depot *depot, struct depot_read *read);

/** A record that holds its buffer, in the form in which it is shown to a caller that may keep it: its whole value. */
static inline struct tarn_lease depot_lease_of(const struct depot_record *record)
{
    return (struct tarn_lease){.data = record->value,
                               .bytes = record->header.value_bytes,
                               .pool = record->class,
                               .buffer = record->page != NULL ? (void *)record->page : record->buffer};
}

/** A client's get of one key begins: it is counted and traced. @return 0; -EINVAL (no key is so long) */
base_must_check int depot_get_begin(struct tarn_depot *depot, const void *key, size_t key_len,
                                    struct depot_trace *trace, struct depot_key *ret_key);

/**
 * Find the record of a key: read what the index has under its hash until the key is met. What is returned was
 * the key's record at one moment between call and return; with the key lock held it still is, but the
 * collector may have moved it. Of a snapshot: it was the key's at its moment.
 *
 * @param locked      the caller holds the key lock
 * @param ret_record  holds a buffer if 0 is returned: depot_record_release()
 * @return 0; -ENOENT; -EBADMSG (damaged); the drive's error; -ECANCELED (the snapshot was cancelled). Yields.
 */
base_must_check int depot_find(struct tarn_depot *depot, const struct depot_key *key, enum depot_want want,
                               bool locked, struct depot_record *ret_record);

/**
 * Whether something newer may be missing than what was found of a key: acknowledged records are missing of keys
 * that nobody can tell (seglog_loss_sequence()). Then nothing is answered but an error.
 *
 * @param record  NULL: nothing was found
 */
bool depot_is_unsure(struct tarn_depot *depot, const struct depot_record *record);

/** As depot_find(), but -EBADMSG if the result is unsure: for functions that answer a client. Yields. */
base_must_check int depot_find_sure(struct tarn_depot *depot, const struct depot_key *key,
                                    enum depot_want want, bool locked, struct depot_record *ret_record);

/** All that may be missing is gone, or was given up. */
void depot_loss_forget(struct tarn_depot *depot);

/** As depot_find() for an entry that an iteration has met, of a snapshot or (NULL) not: 0 as long as the index holds
 * it. If only the key is wanted there is but the header. @return as depot_find(). Yields. */
base_must_check int depot_read_entry(struct tarn_depot *depot, const struct tarn_depot_snapshot *snapshot,
                                     uint64_t hash, uint64_t word, enum depot_want want,
                                     struct depot_record *ret_record);

/** Say that a record is damaged; a limited number of times. @return -EBADMSG */
int depot_damaged(struct tarn_depot *depot, uint64_t grain);

/**
 * A record that a get has found: whether it is there for clients; counted.
 *
 * @param ret_info  what is stored beside it; may be NULL
 * @return 0; -ENOENT. Yields as depot_visible().
 */
base_must_check int depot_show(struct tarn_depot *depot, const struct depot_key *key,
                               const struct depot_record *record, struct tarn_record_info *ret_info);

/** Tell what is stored beside a value. @param ret_info  may be NULL */
void depot_tell(const struct depot_record *record, struct tarn_record_info *ret_info);

/* ---- write.c -------------------------------------------------------------------------------------- */

/* What is being written under a key, or as a piece of that. */
struct depot_content {
    const void *value;
    size_t value_len;
    uint64_t expiry_ns;
    uint32_t client_flags;
    uint64_t version; /* 0: a new one */
    uint8_t note;
    uint8_t mark;                       /* 0, SEGLOG_MARK_PIECE or SEGLOG_MARK_HEAD */
    struct seglog_pieces_format pieces; /* with a mark */
};

/** Kind, note and mark of its record. */
static inline uint8_t depot_content_kind(const struct depot_content *content)
{
    return (uint8_t)(SEGLOG_VALUE | content->note << SEGLOG_NOTE_SHIFT | content->mark);
}

/** Whether a condition holds now. Decides nothing: it may change. @return 0; -EEXIST; -ENOENT; -EINVAL; as
 * depot_find(). Yields. */
base_must_check int depot_condition_look(struct tarn_depot *depot, const struct depot_key *key,
                                         const struct tarn_put_options *options);

/** What a put stores, in one record. */
static inline struct depot_content depot_content_of(const struct tarn_put_options *options, const void *value,
                                                    size_t value_len)
{
    return (struct depot_content){.value = value,
                                  .value_len = value_len,
                                  .expiry_ns = options->expiry_ns,
                                  .client_flags = options->client_flags,
                                  .version = options->version,
                                  .note = options->note};
}

struct depot_chain;

/**
 * Write one piece, and publish it: it counts from then on, if its value's head does.
 *
 * @param key  depot_piece_key()
 * @return 0; -ENOSPC; -EROFS; -EIO. Yields; takes one of the piece locks, no key lock.
 */
base_must_check int depot_piece_write(struct tarn_depot *depot, const struct depot_key *key,
                                      const struct depot_content *content, struct depot_chain *chain);

/** Store a value in one record, or the head of pieces that are all there, if the condition holds. The new
 * pieces stay the caller's if it fails. @return as tarn_depot_put(); -ESTALE (some were taken since by a
 * flush or an eviction). Yields. */
base_must_check int depot_value_write(struct tarn_depot *depot, const void *key, size_t key_len,
                                      const struct tarn_put_options *options,
                                      const struct depot_content *content, uint64_t *ret_version);

/* ---- pieces.c: values in pieces ------------------------------------------------------------------- */

/* A value on its way: pieces that are there, without a head. */
struct depot_chain {
    uint64_t id;
    uint64_t bytes; /* of the value, in pieces */
    uint64_t promised_bytes;
    uint32_t count; /* of pieces */
};

/** One of the locks of which a flush takes all. Key locks are taken before. */
static inline struct task_mutex *depot_piece_lock(struct tarn_depot *depot, uint64_t id)
{
    return &depot->piece_locks[id % DEPOT_PIECE_LOCKS];
}

/** The key of a piece. */
struct depot_key depot_piece_key(const struct tarn_depot *depot, uint64_t id, uint32_t number);

/** The longest value in pieces that fits into the empty store. */
uint64_t depot_pieces_value_max(const struct tarn_depot *depot);

/** Whether a head can say so. */
bool depot_pieces_make_sense(const struct seglog_pieces_format *head);

/**
 * Begin a value in pieces.
 *
 * @param value_bytes  of all of it: they are counted now, so that there will be room; 0: not known
 * @return 0; -ENOSPC; -ENOMEM; -EROFS; -EIO. Yields.
 */
base_must_check int depot_chain_begin(struct tarn_depot *depot, uint64_t value_bytes,
                                      struct depot_chain *chain);

/** Write the next piece. @param bytes  depot->piece_bytes, of the last one 1 or more @return as
 * depot_piece_write() */
base_must_check int depot_chain_add(struct tarn_depot *depot, struct depot_chain *chain, const void *data,
                                    uint32_t bytes);

/** Have the pieces durable, in all modes: a head is never on the drive before its pieces.
 * @return 0; -EIO; -EROFS. Yields. */
base_must_check int depot_chain_seal(struct tarn_depot *depot, const struct depot_chain *chain);

/** Write all of a value that is in memory, but its head; what was written is dropped on failure. @return as
 * depot_piece_write(). Yields. */
base_must_check int depot_chain_write(struct tarn_depot *depot, const void *value, size_t value_len,
                                      struct depot_chain *chain);

/** Nothing of it will count. The pieces die, their room comes back. Yields. */
void depot_chain_drop(struct tarn_depot *depot, struct depot_chain *chain);

/** Put the head of a chain that is whole, if the condition holds; what was written is dropped on failure.
 * @return as depot_value_write(). Yields. */
base_must_check int depot_chain_commit(struct tarn_depot *depot, const void *key, size_t key_len,
                                       const struct tarn_put_options *options, struct depot_chain *chain,
                                       uint64_t *ret_version);

/** What a head says of a chain. */
struct seglog_pieces_format depot_chain_head(const struct tarn_depot *depot, const struct depot_chain *chain);

/** The pieces of a value whose head counts no more die. No piece lock is held. Yields. */
void depot_pieces_drop(struct tarn_depot *depot, const struct seglog_pieces_format *head);

/** The service has ended a head that has expired: its pieces are to be dropped. Does not yield. */
void depot_pieces_doom(struct tarn_depot *depot, const struct seglog_entry_format *head);

/** Drop what is doomed, where nobody is in the way. Yields. */
void depot_pieces_end_doomed(struct tarn_depot *depot);

/** The same when the service has stopped and nobody is in the way: nothing is doomed any more. Yields. */
void depot_pieces_end(struct tarn_depot *depot);

/** Cache: a piece is gone, durably: so is the whole value, before the index forgets the piece. */
void depot_pieces_evicted(struct tarn_depot *depot, const struct seglog_entry_format *piece);

/** tarn_depot_get() of a value that was seen in pieces. Yields. */
base_must_check int depot_pieces_get(struct tarn_depot *depot, const struct depot_key *key, void *value,
                                     size_t value_room, struct tarn_record_info *ret_info);

/** tarn_depot_read(), but for its trace. Yields. */
base_must_check int depot_read_part(struct tarn_depot *depot, const struct depot_key *key,
                                    uint64_t if_version, uint64_t offset, void *data, size_t data_room,
                                    size_t *ret_bytes, struct tarn_record_info *ret_info);

/* ---- snapshot.c ----------------------------------------------------------------------------------- */

struct tarn_depot_snapshot {
    struct tarn_depot *depot;
    struct depot_index_snapshot *index; /* NULL: it is not open yet. Of depot->snapshots until it is */
    bool ended; /* it was cancelled, and said so, and what it took is given back. Of depot->snapshots */
    /* as they were */
    uint64_t gone_sequence, evicted_sequence;
    uint64_t wall_ns;
};

/** Whether all that was read of it so far was right. */
bool depot_snapshot_holds(const struct tarn_depot_snapshot *snapshot);

/** If the one that is open was cancelled, say so, and give back what it takes. Yields. */
void depot_snapshot_tend(struct tarn_depot *depot);

/** Cancel the one that is open: its memory is needed. @return whether there was one. Yields. */
bool depot_snapshot_give_up(struct tarn_depot *depot);

/* ---- scan.c --------------------------------------------------------------------------------------- */

/** tarn_depot_scan(). @param snapshot  NULL: of what is there now @return -ECANCELED too. Yields. */
base_must_check int depot_scan(struct tarn_depot *depot, struct tarn_depot_snapshot *snapshot,
                               tarn_scan_function *visit, void *arg);

/* ---- flush.c -------------------------------------------------------------------------------------- */

/** Whether a record that was found is there for clients: not flushed, not evicted, not expired, at a
 * snapshot's moment or (NULL) now. What was once said to have expired stays so, over crashes and clocks that
 * are set back. Yields when that must be made durable first. */
bool depot_visible(struct tarn_depot *depot, const struct tarn_depot_snapshot *snapshot,
                   const struct depot_record *record);

/** Wait until nothing is being written to any key, or as a piece, and have that stay so; what was to be
 * flushed by now is. No lock is held. Yields. */
void depot_stop_writes(struct tarn_depot *depot);

/** Let others write again. */
void depot_resume_writes(struct tarn_depot *depot);

/** Carry out an order of flush_all whose moment has come. At the beginning of every call, before any lock is
 * taken. Yields then. */
void depot_flush_due(struct tarn_depot *depot);

/** A record has a copy in its place now, which is shorter if it was of a batch: what lives is counted. */
static inline void depot_count_moved(struct tarn_depot *depot, const struct seglog_entry_format *entry,
                                     const struct seglog_place *place)
{
    uint64_t before = seglog_footprint(depot->log, entry->bytes);
    atomic_fetch_add_explicit(&depot->live_bytes, seglog_footprint(depot->log, place->bytes) - before,
                              memory_order_relaxed);
}

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

/** End a growth that is under way, if there is one. The growth lock is held. Yields. */
void depot_growth_end_locked(struct tarn_depot *depot);

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
 * @param eighths       number of eighths of all records that shall go
 * @param ret_sequence  what is below is gone
 * @return 0; -ENOMEM
 */
base_must_check int depot_cache_shed(struct tarn_depot *depot, uint32_t eighths, uint64_t *ret_sequence);

/* ---- recover.c ------------------------------------------------------------------------------------ */

/** Fill the index from a checkpoint or the summaries. The log is open and not started. @return 0; -ENOMEM;
 * -ENOSPC; -EUCLEAN; the drive's error; logged. Yields. */
base_must_check int depot_recover(struct tarn_depot *depot);

/* ---- refusal.c: what is told of a store without room --------------------------------------------------- */

enum depot_lack { DEPOT_LACKS_SPACE, DEPOT_LACKS_INDEX };

/** Note that something is not stored, if it is for want of room. @return the error. Any thread or task. */
int depot_refuse(struct tarn_depot *depot, enum depot_lack lack, int error);

/** Note that something was stored. Any thread or task. */
void depot_accept(struct tarn_depot *depot);

/** The store is closed: say how much was refused, if that lasts. */
void depot_refusals_end(struct tarn_depot *depot);

#endif
