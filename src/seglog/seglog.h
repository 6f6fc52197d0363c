/*
 * seglog: a drive as a log of records, in segments that are collected (uDepot §4.1, after SALSA). Records are
 * appended to streams by group commit, found again through summaries, moved by the collector, and freed by
 * durable marks. What a record means, whether it lives and where it is found belongs to the owner (depot),
 * who is asked through a table of up-calls.
 *
 * Addresses are grains: offset on the drive / grain bytes, from 1. Bytes of a record are without padding.
 *
 * Threading: any thread or task, unless said otherwise. Opening, starting and closing are for one caller at a
 * time. Yielding: as stated. All waits are firm (no deadline, no cancellation): a call that has begun ends
 * with its outcome. No lock of the caller's but key locks may be held across a call that yields. Errors:
 * negative errno, logged with the drive's path where the drive or the store is at fault. After a failed write
 * or flush the log takes no more (-EROFS); reading goes on.
 */
#ifndef SEGLOG_SEGLOG_H
#define SEGLOG_SEGLOG_H

#include "base/base.h"
#include "drive/drive.h"
#include "seglog/seglog_format.h"
#include "task/node.h"
#include "task/task.h"

struct seglog;

/** When an append is acknowledged. */
enum seglog_mode {
    SEGLOG_POWER,  /* it survives a power cut */
    SEGLOG_DEVICE, /* the device has it */
    SEGLOG_ASYNC,  /* it is in memory; within SEGLOG_ASYNC_DELAY_NS it survives a power cut */
};

/* Room that is kept from data so that collection finds segments with little to move, in percent. */

#define SEGLOG_ASYNC_DELAY_NS BASE_NS_PER_SECOND
#define SEGLOG_WRITES_MAX     4 /* in flight, of one stream */

#define SEGLOG_SCRUB_INTERVAL_NS (UINT64_C(24) * 3600 * BASE_NS_PER_SECOND)

/* ---- making and opening ---------------------------------------------------------------------- */

struct seglog_format_options {
    uint32_t grain_bytes;   /* 0: SEGLOG_GRAIN_BYTES */
    uint64_t segment_bytes; /* 0: by the drive's size */
    uint32_t owner_kind;
    /* Fills superblock->owner from the geometry, which is complete then. @return 0 or negative errno */
    int (*fill_owner)(struct seglog_superblock_format *superblock);
};

/**
 * Make a store on a drive, whatever is on it: the caller has decided that it may be overwritten. First the
 * superblocks are wiped durably, then the state is written, then the copy, then the superblock: a cut leaves
 * no store or a whole one.
 *
 * @return 0; -EINVAL (too small, blocks too large; logged); -ENOMEM; the drive's error. Yields.
 */
base_must_check int seglog_format(struct tarn_node *node, struct drive *drive,
                                  const struct seglog_format_options *options);

struct seglog_growth {
    uint64_t before_bytes, after_bytes; /* of the store */
};

/** How large the store on a drive can become. @param ret_bytes  of the drive @return as seglog_grow(). Yields.
 * Writes nothing */
base_must_check int seglog_growth_limit(struct tarn_node *node, struct drive *drive, uint32_t owner_kind,
                                        uint64_t *ret_bytes);

/**
 * Let a store that nobody has open take all of its drive, which has become larger: whole segments of it, up
 * to SEGLOG_GROWTH_TIMES as many as it was made with. Checkpoints are void after that. A cut leaves the store
 * as it was, or larger; what was begun may be done again.
 *
 * @param options     of which owner_kind and fill_owner count: the geometry is the store's
 * @param ret_growth  equal sizes: there is nothing to take
 * @return 0; -EUCLEAN, -ENOTSUP (as seglog_open()); -EINVAL (what fill_owner says); -ENOMEM; the drive's
 * error. Yields.
 */
base_must_check int seglog_grow(struct tarn_node *node, struct drive *drive,
                                const struct seglog_format_options *options,
                                struct seglog_growth *ret_growth);

/* How large a store may become for its owner, while it runs. */
struct seglog_bound {
    uint64_t bytes;  /* of the store */
    const char *why; /* it cannot be larger, and what to do: a sentence for the log */
};

/**
 * Let a log that runs take what its drive has become larger by: whole segments, as many as state and owner
 * have room for. Others append, read and are collected meanwhile. Writes lines to the log: what it has become, and
 * what stands in the way of more.
 *
 * @param ret_growth  equal sizes: there is nothing to take
 * @return 0; -EFBIG (there is more, of which it can take nothing); -ENOMEM, -ENOSPC, -EOPNOTSUPP, the drive's
 *         errors: it is as it was; -EROFS; -EIO (a write failed: it takes no more). Yields.
 *
 * After seglog_start() and before seglog_stop(). Killed at any moment it leaves the store as it was, or larger.
 */
base_must_check int seglog_extend(struct seglog *log, const struct seglog_bound *bound,
                                  struct seglog_growth *ret_growth);

enum seglog_found {
    SEGLOG_FOUND_STORE, /* at least one good superblock */
    SEGLOG_FOUND_ZEROS, /* where superblocks belong there are only zeros */
    SEGLOG_FOUND_OTHER, /* anything else, a damaged superblock included */
};

/**
 * Look what is at a drive's beginning. Writes nothing, logs nothing.
 *
 * @param ret_why  for SEGLOG_FOUND_OTHER, a piece of a sentence
 * @return 0; -ENOMEM; the drive's error. Yields.
 */
base_must_check int seglog_probe(struct tarn_node *node, struct drive *drive, enum seglog_found *ret_found,
                                 const char **ret_why);

/**
 * Whether a drive holds nothing, read from end to end: only zeros, or what a formatting that was cut off
 * before its first superblock has left of its state. Yields. @return 0; -ENOMEM; the drive's error
 */
base_must_check int seglog_is_blank(struct tarn_node *node, struct drive *drive, bool *ret_blank);

/* What the log's owner is told the time of. */
enum seglog_timed {
    SEGLOG_TIMED_WRITE, /* a group of records, from its request to its completion */
    SEGLOG_TIMED_FLUSH, /* a flush of the drive, whatever it is for */
};

/**
 * Reports the progress of an opening, in the thread that opens. Does not yield.
 *
 * @param what       "reading summaries": always the same text for the same work
 * @param unit       "segments"
 * @param done, all  of that work, which begins anew with another text
 */
typedef void seglog_progress_function(void *arg, const char *what, const char *unit, uint64_t done,
                                      uint64_t all);

struct seglog_options {
    enum seglog_mode mode;
    uint32_t owner_kind;
    uint32_t user_streams;      /* 0: 1 */
    bool read_only;             /* nothing is written, not even seals */
    bool read_all;              /* all summaries, though a checkpoint may vouch for them */
    bool repair;                /* both superblocks are written again, for one may be damaged */
    bool serve_damaged;         /* open also where acknowledged records are missing: seglog_loss_sequence() */
    bool cache;                 /* what is in the way is evicted instead of moved */
    uint64_t scrub_rate_bytes;  /* a second at most, read in the background to verify them; 0: none */
    uint64_t scrub_interval_ns; /* from the beginning of one pass to that of the next; 0: the constant */
    bool discard;               /* free segments are discarded, if the drive can */
    uint64_t checkpoint_rate_bytes; /* a second at most, of checkpoints that are written while it runs; 0:
                                       none are but at the end */
    uint64_t
        checkpoint_every_bytes; /* written from one to the next; 0: by the sizes of store and checkpoint */
    /* 0: TARN_OVER_PROVISIONING_DEFAULT; else TARN_OVER_PROVISIONING_MIN to _MAX. A cache has none, whatever is said here */
    uint32_t over_provisioning_percent;
    /* Called after each of them by the caller that has waited for it, any thread or task; NULL: not called. Does not
     * yield */
    void (*timed)(void *arg, enum seglog_timed what, uint64_t ns);
    void *timed_arg;
    seglog_progress_function *progress; /* NULL: nobody asks */
    void *progress_arg;
};

/**
 * Open a store: read superblock, state, all segment headers and trailers; then *seal* every segment that has
 * no valid summary: read it record by record (header and body verified), write again what was accepted,
 * flush, and write its summary; at the end begin a new session with a durable state. When read_only the
 * summaries of unsealed segments are kept in memory instead. Nothing that one opening has hidden is ever
 * shown by a later one.
 *
 * @return 0; -EUCLEAN (not a store, superblock or state damaged); -ENOTSUP (another version or feature; the
 * drive's blocks are larger than the store's); -ENOMEM; the drive's error. Nothing was written unless the
 * superblock and state are good. Yields, with a line of the log (and of progress) for what takes long.
 */
base_must_check int seglog_open(struct tarn_node *node, struct drive *drive,
                                const struct seglog_options *options, struct seglog **ret_log);

/** The store's geometry, widths and seeds; valid until seglog_close(). From seglog_start() on not its features, nor
 * what changes when it grows: its size, the number of its segments, the length of its state. */
const struct seglog_superblock_format *seglog_superblock(const struct seglog *log);

/** How many segments it has now. */
uint32_t seglog_segment_count(const struct seglog *log);

/** Bytes of the drive that are its own now. */
uint64_t seglog_store_bytes(const struct seglog *log);

/** Report the progress of the owner's part of an opening: it goes to the progress function, and to the log when the
 * opening takes long. Called by the thread that opens. */
void seglog_progress(struct seglog *log, const char *what, const char *unit, uint64_t done, uint64_t all);

/* ---- what is in it: between opening and starting -------------------------------------------- */

/**
 * Called for each live segment of records, in the order of their numbers, with all its entries.
 *
 * @param segment  its number
 * @param stamp    its stamp
 * @return 0 to go on; anything else ends seglog_visit() with it
 */
typedef int seglog_visit_function(void *arg, uint32_t segment, uint64_t stamp,
                                  const struct seglog_entry_format *entries, uint32_t count);

/** Read all summaries. May be called several times, also after seglog_stop(). @return 0; -ENOMEM; the drive's
 * error; what `visit` returned. Yields. */
base_must_check int seglog_visit(struct seglog *log, seglog_visit_function *visit, void *arg);

/** The same, of the segments that may have a record with a sequence below the flush point or the eviction
 * horizon. Also after seglog_stop(). Yields. */
base_must_check int seglog_visit_gone(struct seglog *log, seglog_visit_function *visit, void *arg);

/** The grain of an entry on the drive. */
uint64_t seglog_entry_grain(const struct seglog *log, uint32_t segment,
                            const struct seglog_entry_format *entry);

/* What the state says. Sequences below the first two are gone. */
struct seglog_points {
    uint64_t flush_sequence;
    uint64_t horizon_sequence;
    uint64_t flush_when_ns; /* 0: no order is pending */
    uint64_t wall_ns;
};

/** What the newest durable state says. */
void seglog_points(struct seglog *log, struct seglog_points *ret_points);

/** Of it: records with a lower sequence are gone, by a flush or the eviction horizon. */
uint64_t seglog_gone_sequence(struct seglog *log);

/**
 * Acknowledged records are missing, and nobody can tell of which keys: of a key whose newest record has a lower
 * sequence than this, and of one without any record, the newest may be missing. It stays so, in the state, until
 * seglog_loss_forget(). @return 0: nothing is missing
 */
uint64_t seglog_loss_sequence(const struct seglog *log);

/** The owner has said what is missing, or hides all that is older: the next state says so. */
void seglog_loss_forget(struct seglog *log);

/** Cache: records with a lower sequence are gone from seglog_start() on, which makes it durable. Before it.
 */
void seglog_horizon_raise(struct seglog *log, uint64_t sequence);

/* ---- checkpoints: between opening and starting ------------------------------------------------- */

/** Whether a checkpoint was found that seems to be whole. Until it is rejected seglog_is_covered(),
 * seglog_visit_uncovered() and seglog_visit_doubted() are about it. */
bool seglog_checkpoint_found(const struct seglog *log);

/**
 * Read what the owner has written into it, from the beginning to the end.
 *
 * @param consume  is given the bytes in order, in pieces; what it returns but 0 ends it
 * @return 0; -EBADMSG (damaged); -ENOMEM; the drive's error; what `consume` returned. Yields.
 */
base_must_check int seglog_checkpoint_read(struct seglog *log,
                                           int (*consume)(void *arg, const void *data, uint64_t bytes),
                                           void *arg);

/** It is of no use: go on with the one before, if there is one, else with summaries alone. Reads those that
 * were left out because of it. Yields. @return as seglog_open() */
base_must_check int seglog_checkpoint_reject(struct seglog *log);

/** Whether the checkpoint is about a record: it names it, or the record did not count any more. */
bool seglog_is_covered(const struct seglog *log, uint64_t grain);

/** Entries that the checkpoint is not about. @param ret_all  of all segments */
uint64_t seglog_uncovered_entries(const struct seglog *log, uint64_t *ret_all);

/** As seglog_visit(), of the entries that the checkpoint is not about. Yields. */
base_must_check int seglog_visit_uncovered(struct seglog *log, seglog_visit_function *visit, void *arg);

/**
 * As seglog_visit(), or as seglog_visit_uncovered(), but by several workers: `visit` is called for segments in any
 * order, and for several at once. It does not yield.
 */
base_must_check int seglog_visit_shared(struct seglog *log, bool uncovered, seglog_visit_function *visit,
                                        void *arg);

/** Have seglog_visit_doubted() visit the segment that a grain lies in. */
void seglog_doubt(struct seglog *log, uint64_t grain);

/** As seglog_visit(), of the covered entries of segments that were doubted, which no longer are. Yields. */
base_must_check int seglog_visit_doubted(struct seglog *log, seglog_visit_function *visit, void *arg);

/* ---- running --------------------------------------------------------------------------------- */

enum seglog_verdict {
    SEGLOG_DEAD,  /* nothing refers to it */
    SEGLOG_LIVE,  /* move it */
    SEGLOG_ENDED, /* it refers to something that has expired: a tombstone of its sequence takes its place */
    SEGLOG_HIT,   /* as SEGLOG_LIVE, and it was read since it was written: a cache keeps it */
};

/* A record that was appended and not yet published: its segment cannot be collected meanwhile. */
struct seglog_place {
    uint64_t grain;
    uint64_t bytes;
    uint32_t segment;
    uint32_t stream;
    uint64_t position; /* of its end, in the stream since the opening */
    uint8_t cut_phase;
    uint8_t kind; /* and marks, as written */
    bool tombstone;
};

/* A checkpoint that is being written. */
struct seglog_checkpoint;

/* Up-calls of the service, judge() also of the scrubber, checkpoint() of the checkpointer, beside it; none is
 * called with a lock held. */
struct seglog_owner_ops {
    /** Whether a value that the collector has met lives. Any error of the drive's is not its matter. Does not
     * yield. */
    enum seglog_verdict (*judge)(void *owner, const struct seglog_entry_format *entry, uint64_t grain);

    /**
     * A value has moved, durably as the mode asks, or (`place` NULL) has ended: publish it, by exchanging the
     * old address for the new one, or take it out. Does not yield.
     *
     * @return false: nothing pointed to `grain` any more. The collector then appends a tombstone of the
     * record's sequence, so that the copy cannot come back whatever removed the original
     */
    bool (*moved)(void *owner, const struct seglog_entry_format *entry, uint64_t grain,
                  const struct seglog_place *place);

    /**
     * Cache: a value that was hit is about to be written again, with a new sequence. A writer that changes its key
     * must wait until renewed() was called. Tried only: never waits.
     *
     * @return false: it cannot be had now, or is not referred to any more. It is evicted
     */
    bool (*renew)(void *owner, const struct seglog_entry_format *entry, uint64_t grain);

    /** Cache: it was written again, durably as the mode asks: publish it, which cannot fail; or (`place`
     * NULL) it was not. Once after each renew() that returned true. Does not yield. */
    void (*renewed)(void *owner, const struct seglog_entry_format *entry, uint64_t grain,
                    const struct seglog_place *place);

    /** Cache: a value is gone, durably. If anything refers to it, it must not any more. Does not yield. */
    void (*evicted)(void *owner, const struct seglog_entry_format *entry, uint64_t grain);

    /**
     * A segment is given up: a tombstone is about to take the place of this record. It is damaged, be it a
     * value or a tombstone itself, or it is SEGLOG_ENDED. Reported before the change, so that a killed process has
     * told at least what he has done. Called only in seglog_give_up(). May yield.
     *
     * @param key  NULL: it cannot be told, the tombstone is nameless
     * @return false, of a damaged one only: it is not to be lost, and the segment stays
     */
    bool (*gone)(void *owner, const struct seglog_entry_format *entry, uint64_t grain, const void *key,
                 size_t key_bytes);

    /** Whether nothing refers any more to what lies in segments that are free now: a flush that is half done
     * may, and then they are not discarded. NULL: never does anything. Does not yield. */
    bool (*settled)(void *owner);

    /** Write into a checkpoint, by seglog_checkpoint_put(), what names all values that live and are covered;
     * those that are not covered may be named too. Everything that was placed before the moment that it is
     * about is settled; others go on writing. Called by a worker of its own, or in seglog_close(). NULL:
     * there are none. Yields. @return 0; an error: there will be none */
    int (*checkpoint)(void *owner, struct seglog_checkpoint *checkpoint);

    /** About how many bytes that will be. */
    uint64_t (*checkpoint_bytes)(void *owner);

    /** Called in the service whenever it wakes: the owner's own background work. May yield. Goes on after a
     * failure. */
    void (*service)(void *owner);
};

/**
 * Start to run: make the first durable state of the session, then the service (a task on the caller's
 * scheduler when called by a task, else a thread), which closes segments, flushes behind asynchronous writes,
 * collects, and extends bounds; and if the options ask for it, the scrubber (the same).
 *
 * @param ops, owner  outlive the log
 * @return 0; -ENOMEM; the drive's error. Not for a log opened to read. Yields.
 */
base_must_check int seglog_start(struct seglog *log, const struct seglog_owner_ops *ops, void *owner);

/** Wake the service: there is something for owner->service to do. */
void seglog_poke(struct seglog *log);

/** Whether a write failed, so that nothing more is written. */
bool seglog_failed(struct seglog *log);

/** No write succeeds any more; says so once. */
void seglog_fail(struct seglog *log, const char *what, uint64_t offset, int error);

/** The next sequence; never issued before, restarts included. Yields when a new block of them must be made
 * durable first.
 * @return 0; -EROFS; -EIO */
base_must_check int seglog_sequence_draw(struct seglog *log, uint64_t *ret_sequence);

/** The sequence that would be drawn next. */
uint64_t seglog_sequence_next(struct seglog *log);

/* ---- space ----------------------------------------------------------------------------------- */

enum seglog_space {
    SEGLOG_SPACE_DATA,   /* new data and overwrites */
    SEGLOG_SPACE_DELETE, /* tombstones: may take what is kept back from data */
};

/* Room for one record, taken before any lock, so that the holder of a lock never waits for space. */
struct seglog_reservation {
    uint64_t cost_bytes; /* 0: none */
    uint32_t stream;     /* where the record will go: there it is kept free */
};

/**
 * Reserve room for a record of `bytes`. Waits for the collector as long as that makes progress.
 *
 * @return 0; -ENOSPC (the collector finds nothing to free); -EMSGSIZE (above record_bytes_max); -EROFS.
 * Yields.
 */
base_must_check int seglog_reserve(struct seglog *log, enum seglog_space space, uint64_t bytes,
                                   struct seglog_reservation *ret_reservation);

/** What a record takes of seglog_batch_bytes_max(), with the zeros behind it and its entry. @param bytes  of
 * the record, with the extension that a batch's has */
uint64_t seglog_batch_bytes(const struct seglog *log, uint64_t bytes);

/** The most bytes of a batch: these are one write, and the space that they leave empty at a segment's end is
 * little.
 */
uint64_t seglog_batch_bytes_max(const struct seglog *log);

/** Reserve room for a batch. @param bytes  seglog_batch_bytes() of all its records @return as
 * seglog_reserve(). Yields. */
base_must_check int seglog_reserve_batch(struct seglog *log, enum seglog_space space, uint64_t bytes,
                                         struct seglog_reservation *ret_reservation);

/** Give room back that was not used. */
void seglog_release(struct seglog *log, struct seglog_reservation *reservation);

/**
 * Cache: have the service evict the segment that is next, though there is room: for what the owner has of
 * each record. Where all are open one is ended. The caller may hold key locks.
 *
 * @return 0; -ENOSPC (there is none); -EAGAIN (records are pending in those that there are); -EROFS; -EIO.
 * Yields.
 */
base_must_check int seglog_evict(struct seglog *log);

/** The bytes of the capacity that a record of `bytes` takes: padding, summary and its share of the end of
 * segments. From 64 grains on lengths count as if rounded up, by at most a 32nd, to a multiple of the power
 * of two that has 32 to 64 of them: so an owner that keeps no more of a length can still tell. */
uint64_t seglog_footprint(const struct seglog *log, uint64_t bytes);

/** Sum of the footprints that the store can hold: the owner must not let more than these live (of values). Of
 * a cache: about what it holds when it is full. It may hold more already, if it was opened with less
 * over-provisioning before. */
uint64_t seglog_capacity(const struct seglog *log);

/* ---- appending ------------------------------------------------------------------------------- */

struct seglog_draft {
    uint8_t kind; /* and marks */
    uint16_t key_bytes;
    uint32_t value_bytes;
    uint32_t client_flags;
    uint64_t sequence;
    uint64_t version;
    uint64_t expiry_ns;
    struct base_hash128 hash;
    uint64_t superseded; /* grain, 0: none */
    const void *key;     /* borrowed until the append returns, as value and extension */
    const void *value; /* of a tombstone: NULL and value_bytes 0, its birth is filled in; or, kept by a move,
                          8 bytes */
    const void *extension; /* 16 bytes, if marks ask for it */
};

/** The header of a draft's record, but for its checks. @param kind  with its marks */
struct seglog_record_format seglog_draft_header(const struct seglog_draft *draft, uint8_t kind);

/**
 * Copy a record into a stream: the caller's scheduler's, or the first user stream for plain threads.
 *
 * @param reservation  of at least its bytes; used up, also on failure
 * @param ret_place    to be waited for with seglog_wait(), then handed to seglog_settle()
 * @return 0; -EROFS (nothing was appended). Yields while the stream has no room.
 */
base_must_check int seglog_append(struct seglog *log, struct seglog_reservation *reservation,
                                  const struct seglog_draft *draft, struct seglog_place *ret_place);

/**
 * Append records of which after a crash all count or none: one behind the other, in one write. One alone is a
 * record like others.
 *
 * @param reservation  seglog_reserve_batch()
 * @param drafts       of whole values and tombstones, without marks; SEGLOG_FEATURE_BATCHES is noted if there
 *                     are several
 * @param ret_places   one for each; when the last was waited for all are durable
 * @return as seglog_append(). Yields.
 */
base_must_check int seglog_append_batch(struct seglog *log, struct seglog_reservation *reservation,
                                        const struct seglog_draft *drafts, uint32_t count,
                                        struct seglog_place *ret_places);

/**
 * Wait until a record is as durable as the mode asks; lead a write if need be. Records of a stream are
 * acknowledged in log order.
 *
 * @return 0; -EIO (it may or may not be there after a restart); -EROFS (it is not). Yields.
 */
base_must_check int seglog_wait(struct seglog *log, const struct seglog_place *place);

/**
 * The owner has published the record, or will not: its segment may be collected again. Call it once for every
 * place, after a failure too.
 *
 * @param live  a value that is published, or a tombstone that was written: it counts as living
 */
void seglog_settle(struct seglog *log, const struct seglog_place *place, bool live);

/** A value that lived is dead: overwritten or deleted. @param bytes  of the record */
void seglog_live_remove(struct seglog *log, uint64_t grain, uint64_t bytes);

/** For recovery, before seglog_start(): a value or tombstone lives. Values are told of by one thread or task, and none is
 * removed meanwhile. @return its footprint */
uint64_t seglog_live_add(struct seglog *log, uint64_t grain, uint64_t bytes, bool tombstone);

/** For recovery, before seglog_start(): nothing lives any more, but the tombstones that the checkpoint tells
 * of.
 */
void seglog_live_forget(struct seglog *log);

/** No value lives any more (tombstones stay). In the service only, where nobody moves records; no append may
 * be unsettled. */
void seglog_live_clear(struct seglog *log);

/** The stamp of the segment that a grain lies in: seglog_record_seed() takes it. 0 if the grain is none of
 * the log's. Any thread, never waits. */
uint64_t seglog_stamp_at(const struct seglog *log, uint64_t grain);

/**
 * SEGLOG_ASYNC: copy a record that is still only in memory.
 *
 * @return true: `bytes` from `grain` on were copied; false: read the drive (always in the other modes)
 */
bool seglog_read_pending(struct seglog *log, uint64_t grain, void *data, uint64_t bytes);

/** Everything that was appended before is durable when this returns. @return 0; -EIO; -EROFS. Yields. */
base_must_check int seglog_sync(struct seglog *log);

/**
 * Free a segment in which something is damaged: what can be read of it is moved, as the collector does, and a
 * tombstone of its sequence takes the place of every other value that lives, and of every tombstone. So
 * nothing older comes back. In the owner's service() only.
 *
 * @return 0: it is free; -ENOSPC (no segment to move to); -EBADMSG (it stays: its summary cannot be read,
 * or the owner does not let a record go); -EAGAIN (something in it is pending); -ECANCELED (the service
 * stops); -ENOMEM; -EIO; -EROFS. Yields.
 */
base_must_check int seglog_give_up(struct seglog *log, uint32_t segment);

/* ---- pins ------------------------------------------------------------------------------------ */

/**
 * Free no segment of records from now on, so that what lies in them can be read, until seglog_pin_end() says
 * where that ends, seglog_unpin(), or the log needs the space: before anybody is told -ENOSPC, and before a
 * cache evicts. One at a time. Any thread, never waits.
 */
void seglog_pin(struct seglog *log);

/**
 * Have the service free segments, so that there is room for `bytes` while others are pinned, and wait
 * for it as long as it makes progress, ten seconds at most. It is no promise: others may take what is free. Not in a cache, where
 * it would evict. Yields.
 */
void seglog_room_make(struct seglog *log, uint64_t bytes);

/** What was begun before this stays pinned; segments that are begun later are nobody's concern. */
void seglog_pin_end(struct seglog *log);

/** Whether everything that is pinned is still where it was. */
bool seglog_is_pinned(const struct seglog *log);

/** Nobody reads it any more. */
void seglog_unpin(struct seglog *log);

/* ---- the state ------------------------------------------------------------------------------- */

/** Raise the flush point and set the pending moment (0: none), durably. @return 0; -EIO; -EROFS. Yields. */
base_must_check int seglog_flush_point_set(struct seglog *log, uint64_t sequence, uint64_t when_ns);

/**
 * Have it durable that civil time has come to `needed_ns`: if the state does not say so already, it says
 * `noted_ns` from now on, which may be ahead so that this is seldom. Asking costs a load.
 *
 * @param noted_ns  not below needed_ns
 * @return 0; -EIO; -EROFS. Yields if it writes.
 */
base_must_check int seglog_wall_note(struct seglog *log, uint64_t needed_ns, uint64_t noted_ns);

/**
 * Have it durable that the store may hold what a release without this feature would not understand. Before
 * the first of it is appended; every time is cheap.
 *
 * @param feature  one of SEGLOG_FEATURES
 * @return 0; -ENOMEM; -EIO; -EROFS. Yields.
 */
base_must_check int seglog_feature_note(struct seglog *log, uint64_t feature);

/* ---- the end --------------------------------------------------------------------------------- */

/**
 * Stop the scrubber and the service, and close all open segments with their summaries; everything appended is
 * durable afterwards. Nobody may be appending. After this only seglog_checkpoint_write() and seglog_close().
 * @return 0; -EIO; -EROFS. Yields.
 */
base_must_check int seglog_stop(struct seglog *log);

/** For the owner's checkpoint(): write the next bytes of it. Yields. @return 0; -ECANCELED (it is given up);
 * -ENOSPC (it was to be shorter); -EIO; -EROFS */
base_must_check int seglog_checkpoint_put(struct seglog_checkpoint *checkpoint, const void *data,
                                          uint64_t bytes);

/** What the owner knows is not what the summaries would tell, since publishing a record has failed: no
 * checkpoint is written any more until the next opening. Before the record is settled. Any thread, never
 * waits. */
void seglog_checkpoints_end(struct seglog *log);

/**
 * Leave a checkpoint at the end, after seglog_stop() has returned 0, unless nothing has changed since the
 * last. Yields.
 * @return 0; -ENOSPC (too few free segments: there will be none); -ECANCELED (seglog_checkpoints_end());
 * -ENOMEM; -EIO; -EROFS; the owner's error
 */
base_must_check int seglog_checkpoint_write(struct seglog *log);

/**
 * Say that the session has ended in good order, if seglog_stop() returned 0; free everything. @return 0;
 * -EIO; -EROFS. Yields.
 */
base_must_check int seglog_close(struct seglog *log);

#define SEGLOG_READ_TRIES 3 /* before damage is believed: two readings that agree, of so many */

/* What was read of one place so far. Starts as zeros. */
struct seglog_readings {
    uint64_t seen[SEGLOG_READ_TRIES];
    uint32_t count;
};

/** Remember a reading, one of SEGLOG_READ_TRIES at most. @return whether an earlier one was the same */
bool seglog_readings_agree(struct seglog_readings *readings, const void *bytes, size_t len);

/** Say in the log why the store on a drive cannot be opened. @return error */
int seglog_refuse(struct tarn_node *node, const struct drive *drive, const char *why, int error);

/* ---- what it tells about itself --------------------------------------------------------------- */

/* What scrubbing has done since the log was opened; README, "Scrubbing". */
struct seglog_scrub_stats {
    uint64_t passes;   /* that have ended */
    uint64_t segments; /* that were read, to their ends or until they were collected */
    uint64_t bytes;    /* that were read */
    uint64_t damaged;  /* records that stay damaged; a header or a summary of a segment counts as one */
    uint64_t ended_ns; /* civil time when the last pass ended; 0: none has */
};

struct seglog_stats {
    uint32_t segments, segments_free, segments_open, segments_bad;
    uint64_t live_bytes;      /* footprints of values that live */
    uint64_t tombstone_bytes; /* of tombstones that are kept */
    uint64_t appended_bytes;  /* user records, padded to grains */
    uint64_t moved_bytes;     /* by the collector */
    uint64_t written_bytes;   /* to the drive, all told */
    uint64_t writes, flushes, state_writes, collections;
    uint64_t evictions; /* segments, of those that were freed */
    uint64_t discarded_bytes;
    uint64_t horizon_sequence;
    uint64_t generation, session;
    struct seglog_scrub_stats scrub;
    uint64_t checkpoints, checkpoint_bytes; /* that were written whole since the opening */
    uint32_t checkpoints_kept;
    uint32_t checkpoints_damaged; /* that the opening has met */
    /* That the opening has met, too: segments had summaries and have none any more, so that their records
     * were looked for; and of them those where it cannot be told whether all were found. */
    uint32_t summaries_damaged, summaries_unsure;
};

/** Counters, each exact, together approximate. */
void seglog_stats(struct seglog *log, struct seglog_stats *ret_stats);

/**
 * Called for each record of a segment that is checked; may yield.
 *
 * @param grain           of the record
 * @param error           0; -EBADMSG: it is not there, cannot be read, is damaged, or not what the entry
 * tells of
 * @param header, record  NULL if there is an error; `record` is all of it, valid until return
 */
typedef void seglog_check_function(void *arg, const struct seglog_entry_format *entry, uint64_t grain,
                                   int error, const struct seglog_record_format *header,
                                   const uint8_t *record);

/* Memory that a log has been charged with, by what it is for. */
struct seglog_memory {
    uint64_t ring_bytes;      /* of all streams */
    uint64_t summary_bytes;   /* of open and closing segments at their most; resident is what was ever used */
    uint64_t collector_bytes; /* its window, its moves and a summary at its most; and the scrubber's */
    uint64_t segment_bytes;   /* what is known of each segment, and the state; what a checkpoint says of it */
};

/** What it takes. Any thread or task. */
void seglog_memory(const struct seglog *log, struct seglog_memory *ret_memory);

/**
 * Verify what is in one segment by reading all of it, for `tarn check`: header, summary, each record of the
 * summary whole, in a log that is not started. Of a segment that is free there is nothing to verify.
 *
 * @return 0; -EUCLEAN (header or summary damaged; logged); -ENOMEM; the drive's error. Yields.
 */
base_must_check int seglog_check_segment(struct seglog *log, uint32_t segment, seglog_check_function *visit,
                                         void *arg);

#define SEGLOG_NO_STREAM UINT32_MAX

/* What `tarn stat` and `tarn check` say of a segment. */
struct seglog_segment_info {
    uint64_t stamp;
    uint64_t session;
    const char *state; /* free, open, closing, closed, collecting, collected, evicted, checkpoint or bad */
    uint64_t live_bytes, tombstone_bytes, used_bytes;
    uint64_t highest_sequence; /* of its records; not of one that is open or closing */
    uint32_t entries;
    uint32_t stream; /* that wrote it, 0: the collector's; SEGLOG_NO_STREAM: not known */
    bool sealed;     /* by a recovery */
    bool headerless; /* something in it was acknowledged, and its header is damaged */
};

/** What a segment is and has. */
void seglog_segment_info(struct seglog *log, uint32_t segment, struct seglog_segment_info *ret_info);

#endif
