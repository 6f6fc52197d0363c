/* The insides of an open log, for the files of this folder. */
#ifndef SEGLOG_SEGLOG_INTERNAL_H
#define SEGLOG_SEGLOG_INTERNAL_H

#include "base/base.h"
#include "base/list.h"
#include "seglog/seglog.h"
#include "task/worker.h"
#include <stdatomic.h>

#define SEGLOG_RELOCATION       0 /* number of the collector's stream; users' follow */
#define SEGLOG_STREAMS_MAX      17
#define SEGLOG_SUMMARIES_SPARE  2                   /* more than streams */
#define SEGLOG_SEQUENCE_BLOCK   (UINT64_C(1) << 22) /* sequences that one durable state allows */
#define SEGLOG_STAMP_BLOCK      (UINT64_C(1) << 16)
#define SEGLOG_SEGMENTS_AT_ONCE 256 /* that are looked at under one hold of the lock */
/* Free segments that users' data leave alone: two for the collector, which may need one more than it frees,
 * and one that tombstones may still take. */
#define SEGLOG_KEPT_COLLECTOR 2
#define SEGLOG_KEPT_DATA      3

/*
 * A segment's life:
 *
 *   FREE ──▶ OPEN ──▶ CLOSING ──▶ CLOSED ──▶ COLLECTING ──▶ COLLECTED ──▶ FREE
 *    │  stream takes   full     summary    victim chosen   all that lives   its freed stamp is durable
 *    └─▶ CHECKPOINT ──▶ FREE     durable      │ └─▶ BAD: a living record could not be read; never freed
 *                                             └─▶ EVICTED ──▶ FREE: its freed stamp is durable, with the
 *                                                             horizon, and nothing refers to it any more
 */
enum seglog_segment_state {
    SEGLOG_STATE_FREE,
    SEGLOG_STATE_OPEN,
    SEGLOG_STATE_CLOSING,
    SEGLOG_STATE_CLOSED,
    SEGLOG_STATE_COLLECTING,
    SEGLOG_STATE_COLLECTED,
    SEGLOG_STATE_CHECKPOINT,
    SEGLOG_STATE_BAD,
    SEGLOG_STATE_EVICTED,
};

#define SEGLOG_ENDS 4 /* quarters of a segment whose expiry is known */

struct seglog_segment {
    _Atomic uint64_t
        stamp; /* of what it holds, or held when it was freed; written under the lock, read without */
    uint64_t session;
    uint64_t freed_stamp; /* as it is in memory: durable when the state says so */
    uint64_t highest_sequence;
    uint64_t lowest_sequence;    /* UINT64_MAX: it has no record. Of the stream's lock while it is open */
    _Atomic uint64_t live_bytes; /* footprints */
    _Atomic uint64_t tombstone_bytes; /* footprints */
    _Atomic uint32_t pending;         /* records that are appended and not settled: not collected meanwhile */
    uint32_t entry_count;
    uint32_t end;    /* where the last record ends */
    uint32_t stream; /* that wrote it, once it has ended; SEGLOG_NO_STREAM: not known */
    enum seglog_segment_state state;
    bool sealed;
    bool damaged;              /* scrubbing says so: to be collected, or evicted */
    bool discardable;          /* FREE since it was last written, and not discarded since */
    bool summary_read;         /* opening: what the summary says is known */
    bool vouched;              /* opening: so it is, from the checkpoint */
    bool unproven;             /* opening: it has no valid summary */
    bool endless;              /* opening: it has no trailer, whatever a checkpoint says */
    bool missing;              /* opening: a checkpoint knows it, and nothing else does */
    bool headerless;           /* opening: its header was damaged, and is known from elsewhere */
    uint32_t acknowledged_end; /* opening: its records end here, says the segment after it; 0: not known */
    bool doubted;              /* opening: see seglog_doubt() */
    uint32_t covered_grain;    /* opening: the checkpoint is about the records before it */
    uint64_t covered_tombstone_bytes; /* opening: of them, footprints */
    uint32_t cut_number;              /* of the log's last cut when it was begun; of the stream's lock */
    uint32_t place;                   /* CHECKPOINT: in the checkpoint */
    uint64_t checkpoint_stamp;        /* CHECKPOINT: of its place 0 */
    uint32_t part_count;              /* CHECKPOINT: of place 0 */
    bool ends_known;                  /* whether ends_ns is: not of segments that an earlier session closed */
    uint64_t ends_ns[SEGLOG_ENDS]; /* moments at which this many parts of all footprints will have expired */
    uint64_t tombstone_stamp;      /* the highest issued when a user's tombstone in it was last settled */
    _Atomic uint32_t open_stream;  /* number of the stream that has it open, + 1; 0: none */
    struct seglog_entry_format
        *unsealed_entries;                /* read_only: of a segment without a summary; entry_count of them */
    struct base_list link;                /* in log->free */
    uint8_t apart[BASE_CACHE_LINE_BYTES]; /* from the next, which another stream may have open */
};

/* ---- streams: stream.c, commit.c, close.c ------------------------------------------------------- */

/*
 * The summary of an open segment in memory, until it is written. There are two more than streams: a stream
 * whose segment has ended goes on with another while the service writes the first.
 */
struct seglog_summary {
    struct base_list link; /* in log->summaries_free or log->closing; in neither while its segment is open */
    uint8_t *memory;       /* seglog_summary_memory_bytes(), block-aligned */
    uint32_t segment;      /* SEGLOG_NO_SEGMENT: nobody's */
    uint32_t count;
    uint32_t end; /* of the last record, bytes from the segment's beginning */
};

/* What one write carries: a piece of the ring, of one segment, from a block to a block. */
struct seglog_group {
    uint64_t begin_position; /* in the stream */
    uint64_t bytes;          /* padded to blocks once it is closed */
    uint64_t offset;         /* on the drive */
    uint32_t filling;        /* records that have room but are not copied yet */
    /* What its end will tell (struct seglog_group_end_format): of its records, since it was opened. */
    uint32_t count;
    uint64_t hash[2];
    uint64_t sequence;
    bool written; /* its write has returned, with this: */
    int error;
    struct task_wait *filled; /* the leader, waiting for filling == 0 */
    struct base_list waiters; /* of struct task_wait: writers that wait until it is acknowledged */
};

#define SEGLOG_GROUPS_MAX (SEGLOG_WRITES_MAX + 1) /* in flight, and the one that is open */

/*
 * A stream is a line of bytes without end, its *position*; a ring of memory holds the part that is not
 * acknowledged yet. Groups are cut out of it one after the other:
 *
 *      free          groups in flight, in order          open group
 *   ─────────────┤ written │ in flight │ written │ filling … reserved ├── room
 *          tail_position                                        head_position
 *
 * free_position is tail_position, unless somebody copies out of what lies behind it (seglog_read_pending()).
 */
struct seglog_stream {
    struct seglog *log;
    uint32_t number;
    uint8_t
        *ring; /* block-aligned; position p lies at p mod ring_bytes. Behind it is SEGLOG_OVERHANG_BYTES */
    uint64_t ring_bytes;
    struct base_spin lock; /* of what follows; taken before log->lock */
    uint64_t head_position;
    uint64_t tail_position; /* acknowledged up to here, in order */
    uint64_t free_position; /* memory of what is before it may be used again */
    struct seglog_group groups[SEGLOG_GROUPS_MAX];
    uint32_t first_group; /* the oldest in flight */
    uint32_t group_count; /* in flight, the open one not counted: it is the next */
    uint32_t writes_in_flight;
    bool led;               /* somebody is about to close the open group and counts as a write in flight */
    bool broken;            /* a write has failed: nothing behind tail_position is acknowledged any more */
    bool nudged;            /* SEGLOG_ASYNC: the service was poked because much is unwritten */
    bool making;            /* one writer makes room in ring or segment; all others queue */
    struct base_list queue; /* of struct seglog_append, in order; empty unless `making` */
    struct task_wait *room_wait;         /* the maker, waiting for readers */
    struct seglog_summary *open_summary; /* of the open segment; NULL: there is no open segment */
    uint64_t segment_position;           /* where the open segment begins */
    uint64_t record_seed;                /* of the open segment */
    uint64_t before_stamp;         /* of the segment that the last closed group lies in; 0: there is none */
    uint32_t before_end;           /* where that group's records end in it */
    uint8_t cut_phase;             /* what is placed now counts in unsettled[cut_phase] */
    _Atomic uint32_t unsettled[2]; /* records that are placed and not settled; README, "Checkpoints" */
    /* The callers that copy out of the ring. Readers of the present phase began after tail_position had come to
     * phase_position, those of the one before read nothing that lies before free_position. */
    uint32_t readers[2];
    uint32_t phase;
    uint64_t phase_position;

    /* space.c; of log->lock */
    uint64_t reserved_bytes; /* costs of reservations that will be used here */
    uint64_t
        room_bytes;  /* of the open segment, see seglog_space_placed(); of the one before while switching */
    bool switched;   /* the next segment was taken, and the record that did not fit is not yet in it */
    uint64_t needed; /* segments that it may have to take for these reservations */
    uint8_t apart[BASE_CACHE_LINE_BYTES]; /* from the next, which another core works on */
};

/* Extension and key of one record that does not end in the ring are put together behind it, to be checked. */
#define SEGLOG_OVERHANG_BYTES (UINT64_C(68) << 10)

/** The group that is being filled. Stream lock held. */
static inline struct seglog_group *seglog_open_group(struct seglog_stream *stream)
{
    return &stream->groups[(stream->first_group + stream->group_count) % SEGLOG_GROUPS_MAX];
}

/* The background of a log. */
struct seglog_service {
    struct task_worker worker;
    bool owes; /* it was poked in a nap, and has to look: its own */
    uint64_t
        stalled_ns; /* since when waiters wait for something that is not the collector's; 0: they do not */
    uint64_t stalled_grants; /* log->grants at that time */
};

/* A checkpoint that is whole: its segments are CHECKPOINT. */
struct seglog_chain {
    uint64_t stamp;     /* of the first */
    uint32_t *segments; /* by place; NULL: there is none */
    uint32_t count;
    uint32_t part_count;
};

#define SEGLOG_CHECKPOINTS_KEPT 2

/* The moment that a checkpoint is about, on its way. */
enum seglog_cut {
    SEGLOG_CUT_NONE,
    SEGLOG_CUT_WANTED,   /* by the checkpointer */
    SEGLOG_CUT_DRAINING, /* the service has made it; what was placed before is being settled */
    SEGLOG_CUT_DONE,     /* it is, and `covers` tells of it */
};

/* The checkpoints of a log, and their maker. */
struct seglog_checkpoints {
    struct task_worker worker;
    uint64_t rate_bytes;  /* a second, at most, while running; 0: none are made */
    uint64_t every_bytes; /* written from one to the next; 0: by the sizes of store and checkpoint */
    /* Newest first; of log->lock while running. */
    struct seglog_chain kept[SEGLOG_CHECKPOINTS_KEPT];
    _Atomic bool ended;          /* no more are made */
    _Atomic bool given_up;       /* one that is being made shall not be: somebody needs the space */
    _Atomic uint64_t next_stamp; /* when it is issued the next is due */
    _Atomic bool outdated;       /* those that there are say nothing of some segments: the next is due */
    uint64_t changes;            /* what log_changes() said when the newest was made; 0: it is not known */
    _Atomic uint64_t made, made_bytes;
    bool read_all;    /* opening: they vouch for nothing */
    uint32_t damaged; /* that the opening has met */

    _Atomic uint32_t cut;                                                      /* enum seglog_cut */
    uint32_t cut_number;                                                       /* of all streams' locks */
    uint32_t cut_segments[SEGLOG_STREAMS_MAX], cut_grains[SEGLOG_STREAMS_MAX]; /* where open ones were cut */
    struct seglog_cover_format *covers; /* of all segments; room for segments_room */
};

struct seglog_collector; /* collect_internal.h */
struct seglog_scrub;     /* scrub.c */

/* ---- the log -------------------------------------------------------------------------------------- */

struct seglog {
    struct tarn_node *node;
    struct drive *drive;
    /* What never changes, and, of the state's mutex once it runs: features, segment_count, state_bytes,
     * store_bytes, check. */
    struct seglog_superblock_format superblock;
    enum seglog_mode mode;
    bool read_only;
    bool cache;
    _Atomic bool discards;
    uint32_t over_provisioning_percent; /* not of a cache */
    uint32_t grain_shift, segment_shift;
    uint32_t summaries_damaged, summaries_unsure; /* seglog_stats() */
    uint64_t data_room;                           /* of a segment: what records and their summary can take */
    uint64_t session;                             /* this one: one above the state's when opened to write */

    struct task_mutex growth_mutex; /* held by the caller that lets it grow; taken before the state's */
    uint32_t segments_room;         /* as many as it can have while it is open */
    _Atomic uint32_t segment_count; /* now; rises under the log's lock */

    /* state.c: the newest durable state, and its successor while that is made */
    struct task_mutex state_mutex;          /* one writer of the state at a time; held across its write */
    struct seglog_state_format *state;      /* as durable */
    struct seglog_state_format *next_state; /* two slots of memory: what is written */
    _Atomic uint64_t generation;            /* of the durable state */
    _Atomic uint64_t wall_durable_ns;
    _Atomic bool failed;

    /* Between these lines is what every write changes: apart from what it only reads, and by its writers. */
    uint8_t apart_sequence[BASE_CACHE_LINE_BYTES];
    _Atomic uint64_t sequence;       /* next to be drawn */
    _Atomic uint64_t sequence_bound; /* durable: nothing at or above is drawn before it is raised */

    uint8_t apart_lock[BASE_CACHE_LINE_BYTES];
    struct base_spin lock;           /* of segments' state and stamp, the lists and numbers below */
    struct seglog_segment *segments; /* segment_count of them, room for segments_room */
    struct base_list free;
    struct base_list closing;        /* of struct seglog_summary: their segments are CLOSING */
    struct base_list summaries_free; /* of struct seglog_summary */
    struct base_list summary_waiters;
    uint32_t free_count;
    uint32_t
        discarding; /* 1 while a free segment is neither in the list nor counted: it is being discarded */
    uint64_t stamp; /* the highest issued */
    uint64_t stamp_bound;   /* durable */
    uint64_t session_stamp; /* the highest issued before this session */
    _Atomic uint32_t
        wanted_segments; /* segments that the service shall free besides, for callers that ask before they take them */
    _Atomic uint64_t
        pinned_below; /* segments of records with a lower stamp are not freed; changed under the lock */
    uint64_t horizon_sequence;      /* as it is in memory: at least that of the durable state */
    _Atomic uint64_t loss_sequence; /* seglog_loss_sequence() */
    bool serve_damaged;             /* a store that lacks acknowledged records is opened all the same */
    uint64_t needed;                /* sum of the streams' */
    uint64_t
        grants; /* reservations granted to waiters, and pins that have ended: collecting was worth it, or will be */
    _Atomic uint64_t user_taken; /* segments that users' streams have taken */
    uint64_t
        no_space_at; /* `chances` + 1 when the collector last began to look and found nothing; 0: never */
    uint64_t no_space_until_ns; /* when something will have expired */
    uint64_t quiet_at;          /* as no_space_at, when nobody waited and it would have had to gain more */
    struct base_list evict_waiters; /* of struct task_wait */
    /* DATA and DELETE, of struct task_wait, in order */
    struct base_list space_waiters[2];
    _Atomic uint32_t space_waiting; /* how many: read without the lock */
    _Atomic uint64_t chances;       /* counts what may let the collector find more: deaths, segments closed */

    uint8_t apart_counts[BASE_CACHE_LINE_BYTES];
    _Atomic uint64_t live_bytes;
    _Atomic uint64_t tombstone_bytes;
    uint8_t apart[BASE_CACHE_LINE_BYTES];

    uint32_t stream_count; /* 0: opened to read */
    struct seglog_stream *streams;
    struct seglog_summary *summaries; /* stream_count + SEGLOG_SUMMARIES_SPARE */
    _Atomic uint64_t dirty_ns;        /* SEGLOG_ASYNC: since when something is not durable; 0: all is */

    /* service.c */
    const struct seglog_owner_ops *ops;
    void *owner;
    bool started;
    bool stopped;      /* seglog_stop() was called: the service has ended */
    bool stopped_well; /* and it returned 0: the session has ended in good order */
    struct seglog_service service;
    struct seglog_collector *collector;
    struct task_worker discarder;
    struct seglog_scrub *scrub; /* NULL: nothing is scrubbed */

    struct seglog_checkpoints checkpoints; /* checkpoint.c, checkpoint_cut.c, checkpoint_read.c */

    void (*timed)(void *arg, enum seglog_timed what, uint64_t ns); /* of seglog_options */
    void *timed_arg;
    seglog_progress_function *progress; /* likewise */
    void *progress_arg;
    uint64_t progress_ns; /* when the log is told next how far the opening is */

    /* counters of seglog_stats() */
    _Atomic uint64_t appended_bytes, moved_bytes, written_bytes, writes, flushes, state_writes, collections,
        evictions, discarded_bytes;
};

/** Where a segment begins on the drive. */
static inline uint64_t seglog_segment_offset(const struct seglog *log, uint32_t segment)
{
    return log->superblock.data_offset + segment * log->superblock.segment_bytes;
}

/** The segment that a grain of the store lies in; the grain is one that the log gave out. */
static inline uint32_t seglog_segment_of(const struct seglog *log, uint64_t grain)
{
    return (uint32_t)(((grain << log->grain_shift) - log->superblock.data_offset) >> log->segment_shift);
}

/** drive_read(), several times if it fails: a read that fails may succeed the next time. Yields. */
base_must_check int seglog_drive_read(struct drive *drive, uint64_t offset, void *data, size_t bytes);

/** Whether groups are written durably, because that is cheap: with FUA, and to a file, for which the kernel knows
 * what to flush. */
bool seglog_writes_durably(const struct seglog *log);

/** A write has reached the drive: for the statistics. */
void seglog_count_write(struct seglog *log, uint64_t bytes);

/** drive_flush(), counted. Yields. */
base_must_check int seglog_flush(struct seglog *log);

/** Make durable what was written without: nothing to do in SEGLOG_POWER. Yields. @return 0; -EIO (the log has
 * failed) */
base_must_check int seglog_flush_behind(struct seglog *log);

/* ---- superblock.c --------------------------------------------------------------------------------- */

/**
 * Find the good superblock of a drive, and check that drive, options and store go together; logged.
 *
 * @param ret_missing_copy  number of the copy that was not written when the formatting, or the noting of a
 *                          feature, was cut off; to repair, of one that is damaged; -1: none
 * @return 0; -EUCLEAN; -ENOTSUP; -ENOMEM; the drive's error. Writes nothing. Yields.
 */
base_must_check int seglog_superblock_find(struct tarn_node *node, struct drive *drive,
                                           const struct seglog_options *options,
                                           struct seglog_superblock_format *ret_superblock,
                                           int *ret_missing_copy);

/**
 * Write the copy that is missing, if one is.
 *
 * @param both  of a young store, in which no session has begun yet: what was read may have come from a page
 * cache, of a formatting that was killed; or to repair. The missing one is written first
 * @return 0; -ENOMEM; the drive's error. Yields.
 */
base_must_check int seglog_superblock_complete(struct tarn_node *node, struct drive *drive,
                                               const struct seglog_superblock_format *superblock,
                                               int missing_copy, bool both);

/** Set where the areas end for a number of segments, and the number. */
void seglog_superblock_count(struct seglog_superblock_format *superblock, uint64_t segment_count);

/** Have it tell of the drives that were appended to this one. */
void seglog_superblock_append(struct seglog_superblock_format *superblock, const struct drive *drive);

/** As many segments as there is room for in the state. */
uint64_t seglog_segments_most(const struct seglog_superblock_format *superblock);

/** Seal and write both copies, the second first, so that one is whole at any time. @return 0; -ENOMEM; the
 * drive's error. Yields. */
base_must_check int seglog_superblock_write(struct tarn_node *node, struct drive *drive,
                                            struct seglog_superblock_format *superblock);

/* ---- state.c -------------------------------------------------------------------------------------- */

/** Read the newest good state. @return 0; -EUCLEAN; -ENOMEM; the drive's error. Yields. */
base_must_check int seglog_state_load(struct seglog *log);

/**
 * Write the state that was loaded to both its slots once more, byte for byte: what was read may have come
 * from a page cache, and its successor overwrites the only other generation. @return 0; -EIO; -EROFS. Yields.
 */
base_must_check int seglog_state_settle(struct seglog *log);

/** Have a longer state, in memory that was taken for it: two slots, and one. The state's mutex is held, and the
 * superblock in memory is the new one already. @param before_bytes  of a slot */
void seglog_state_stretched(struct seglog *log, uint64_t before_bytes, struct seglog_state_format *next_state,
                            struct seglog_state_format *state);

/** Free its memory. */
void seglog_state_deinit(struct seglog *log);

/* What a new state shall say besides what is in memory (freed stamps of segments in SEGLOG_STATE_COLLECTED,
 * _EVICTED and _FREE, the horizon, bounds). */
struct seglog_state_change {
    uint64_t flush_sequence; /* raised to this */
    bool set_flush_when;
    uint64_t flush_when_ns;
    uint64_t wall_ns; /* raised to this */
    bool ended;       /* the session ends in good order */
};

/**
 * Write a state, durably: the durable one with the change, bounds of sequences and stamps a block ahead, the
 * freed stamps of all segments that are COLLECTED (which become FREE when it is durable) or EVICTED, and the
 * eviction horizon. One durable write of two equal slots.
 *
 * @param change  NULL: nothing but what is in memory
 * @return 0; -EIO; -EROFS. Yields.
 */
base_must_check int seglog_state_write(struct seglog *log, const struct seglog_state_change *change);

/**
 * Before the session begins: make durable that acknowledged records are missing, or (cache) that all which may be older
 * is gone; nothing else changes.
 *
 * @return 0; -EIO. Yields.
 */
base_must_check int seglog_state_loss_write(struct seglog *log);

/* ---- scan.c: opening ------------------------------------------------------------------------------ */

/**
 * Read all headers and summaries, and seal what has no summary. Fills log->segments and the list of free
 * ones.
 *
 * @return 0; -EUCLEAN; -ENOMEM; the drive's error; logged. Yields.
 */
base_must_check int seglog_recover(struct seglog *log);

/**
 * Read and verify the summary of a segment.
 *
 * @param memory       room for it, drive_memory_alloc() of seglog_summary_memory_bytes()
 * @param ret_entries  in it
 * @return 0; -EUCLEAN; the drive's error. Tries again before it believes in damage. Yields.
 */
base_must_check int seglog_summary_read(struct seglog *log, uint32_t segment, void *memory,
                                        const struct seglog_entry_format **ret_entries, uint32_t *ret_count);

/** The lowest sequence of a segment's records. @param entries  all of them @return UINT64_MAX: there is none
 */
uint64_t seglog_lowest_sequence(const struct seglog_entry_format *entries, uint32_t count);

/**
 * The same for a segment of which nothing is known yet, with its trailer.
 *
 * @param stamp        that it must have; 0: any
 * @param ret_trailer  set also when it returns -EUCLEAN; its magic is 0 then if there is no trailer of the
 * stamp
 */
base_must_check int seglog_summary_find(struct seglog *log, uint32_t segment, uint64_t stamp, void *memory,
                                        struct seglog_trailer_format *ret_trailer);

/** Bytes of the largest possible summary of this store. */
uint64_t seglog_summary_memory_bytes(const struct seglog *log);

/** A segment's place for a line of the log, and why it is not opened. @return error */
int seglog_refuse_segment(struct seglog *log, uint32_t segment, const char *why, int error);

/* ---- seal.c --------------------------------------------------------------------------------------- */

/* What sealing needs and has done, for all segments of one opening. */
struct seglog_salvage {
    struct seglog *log;
    struct seglog_entry_format *entries; /* seglog_summary_memory_bytes(), the caller's */
    uint8_t *window;                     /* what is read at once; NULL: nothing was sealed yet */
    uint8_t *front;                      /* a block: what was accepted before the place that is read again */
    uint64_t window_bytes;
    uint64_t segments, records, skipped_bytes;
};

/**
 * Read a segment without a valid summary record by record, and note what is missing of it. Writes nothing.
 *
 * @param closed  all of it was durable: what is missing is damage
 * @return 0; -EUCLEAN (also of seglog_loss_note()); -ENOMEM; -EIO and the like. Yields.
 */
base_must_check int seglog_salvage_survey(struct seglog_salvage *salvage, uint32_t segment, bool closed);

/**
 * The same once more, and write again what is accepted, and its summary; when read_only keep the
 * summary in memory. Fills in the segment.
 *
 * @param limit   records end here at the latest, bytes from the segment's beginning; not believed where none does,
 *                so UINT64_MAX if it is not known
 * @return 0; -EUCLEAN; -ENOMEM; -EIO and the like. Yields.
 */
base_must_check int seglog_salvage_segment(struct seglog_salvage *salvage, uint32_t segment, bool closed,
                                           uint64_t limit);

/**
 * Records that were acknowledged are missing, and nobody can tell of which keys. Logged.
 *
 * @param segment         where; SEGLOG_NO_SEGMENT: not known
 * @param below_sequence  what is missing has a lower one
 * @param why             a piece of a sentence
 * @return 0: the store is opened all the same, and seglog_loss_sequence() is above all that may be missing; -EUCLEAN:
 *         it is not
 */
base_must_check int seglog_loss_note(struct seglog *log, uint32_t segment, uint64_t below_sequence,
                                     const char *why);

/** Free its memory. */
void seglog_salvage_deinit(struct seglog_salvage *salvage);

/** Read what the newest checkpoint does not vouch for: after seglog_checkpoint_reject(). Yields. @return as
 * seglog_recover() */
base_must_check int seglog_recover_unknown(struct seglog *log);

/* ---- space.c -------------------------------------------------------------------------------------- */

/** What records and their entries can surely take of a segment, however they lie. */
static inline uint64_t seglog_record_space(const struct seglog *log)
{
    return log->data_room - sizeof(struct seglog_trailer_format) - (log->superblock.block_bytes - 1);
}

/** Segments that neither what lives would take, if it lay close, nor what is kept back. */
uint64_t seglog_spare_segments(const struct seglog *log);

/** A record with the zeros behind it. */
static inline uint64_t seglog_padded(const struct seglog *log, uint64_t bytes)
{
    return base_align_up(bytes, log->superblock.grain_bytes);
}

/**
 * Take a free segment and stamp it: OPEN. There is one for every holder of a reservation, for the collector if
 * seglog_space_spare(), and for a checkpoint if free_count says so (asserted). The bound of stamps is raised
 * in time by the service; if it is not, this waits for it. Yields.
 * @return 0; -EROFS; -EIO
 */
base_must_check int seglog_segment_take(struct seglog *log, uint32_t *ret_segment);

/** Whether the collector may take a segment: one is free that no reservation needs. */
bool seglog_space_spare(struct seglog *log);

/**
 * A stream has placed a record, opened or ended a segment: give its reservation back. Stream lock held.
 *
 * @param room_bytes  what the open segment has left for records and their entries, whatever padding comes
 * @return the highest stamp issued
 */
uint64_t seglog_space_placed(struct seglog_stream *stream, uint64_t cost_bytes, uint64_t room_bytes);

/** The segment for a record that did not fit was taken: one less is needed. Until the record is placed the
 * room counts that was left in the segment before, which is what the needs were reckoned from. */
void seglog_space_switched(struct seglog_stream *stream);

/** Whether the rest of a stream's open segment can be given up without breaking a promise: no reservation
 * counts on it, or (cache) there are free segments for all of them; if so, it has none from now on. Stream
 * lock held.
 */
base_must_check bool seglog_space_forgo(struct seglog_stream *stream);

/** Whether a segment is pinned. Log lock held. */
static inline bool seglog_segment_is_pinned(const struct seglog *log, const struct seglog_segment *segment)
{
    /* relaxed: under the lock */
    return segment->stamp < atomic_load_explicit(&log->pinned_below, memory_order_relaxed);
}

/** The space is needed: what is pinned is so no more. @return whether anything was */
bool seglog_pin_give_up(struct seglog *log);

/** The collector may find more than before: it is woken if somebody waits for it. */
void seglog_space_chance(struct seglog *log);

/** A segment is FREE: nothing refers to it, and its freed stamp is durable. Log lock held. */
void seglog_segment_freed_locked(struct seglog *log, struct seglog_segment *segment);

/** Take a free segment that was not discarded yet out of the list, if there are enough that no writer misses
 * it. It is given back by seglog_discarded(). */
base_must_check bool seglog_discard_take(struct seglog *log, uint32_t *ret_segment);

/** It is free like others again. @param done  it was discarded, or cannot be */
void seglog_discarded(struct seglog *log, uint32_t segment, bool done);

/** COLLECTED segments have become FREE: let in who waits for space. */
void seglog_space_freed(struct seglog *log);

/* What the collector says when it has found nothing. */
struct seglog_exhaustion {
    uint64_t chances;  /* log->chances before it began to look */
    uint64_t until_ns; /* civil time when something will have expired */
    bool pressed;      /* somebody waited, so that little would have been enough */
    bool in_vain; /* it has found enough, and as many victims as there are segments have gained nothing */
};

/**
 * The collector has found nothing: wake with -ENOSPC the writers that cannot get space even when all reservations of others
 * are given back, or all that wait. The former wait on while there is a pin or a checkpoint that the service can give up,
 * and where something has died or was unpinned since the collector looked: the service was poked then. Not so if it
 * gains nothing: what it moves itself counts as something that has died, so it would go on for ever.
 */
void seglog_space_exhausted(struct seglog *log, const struct seglog_exhaustion *exhaustion, bool all);

/** Whether the service has to collect: free segments are few, or somebody waits. */
bool seglog_space_short(struct seglog *log);

/** A segment is empty: what was still counted in it is not. Log lock held, or nobody else has the segment. */
void seglog_live_reset(struct seglog *log, struct seglog_segment *segment);

/** As seglog_live_remove(), of a record that was moved: nothing has become free by that. */
void seglog_live_moved(struct seglog *log, uint64_t grain, uint64_t bytes);

/** Wake all callers that wait for space or acknowledgements, because the log has failed. Called by seglog_fail(). */
void seglog_wake_all(struct seglog *log);

/* ---- stream.c, commit.c --------------------------------------------------------------------------- */

/** Take memory for all streams; users' are at most an eighth of the segments. @return 0; -ENOMEM */
base_must_check int seglog_streams_init(struct seglog *log, uint32_t user_streams);

/** Free it; nobody is appending. */
void seglog_streams_deinit(struct seglog *log);

/** Number of the stream that the caller's records go to. */
uint32_t seglog_stream_of_caller(const struct seglog *log);

/**
 * Append a record, or a batch, to a stream; otherwise as seglog_append() and seglog_append_batch().
 *
 * @param cost_bytes  of the reservation, given back when the records have their place; 0 for the collector
 * @return 0; -EROFS; -ENOSPC (the relocation stream only: seglog_space_spare() says no)
 */
base_must_check int seglog_append_to(struct seglog_stream *stream, uint64_t cost_bytes,
                                     const struct seglog_draft *drafts, uint32_t count,
                                     struct seglog_place *ret_places);

/** Free the memory of what is acknowledged and read by nobody. Stream lock held. */
void seglog_stream_release_locked(struct seglog_stream *stream);

/** Whether the caller may lead a write now; if so it counts as one in flight, and must call seglog_lead().
 * Stream lock held. */
base_must_check bool seglog_lead_claim_locked(struct seglog_stream *stream);

/** Write the open group: after seglog_lead_claim_locked(). Yields. */
void seglog_lead(struct seglog_stream *stream);

/** Wait until a stream is acknowledged up to a position; lead writes if need be. @return 0; -EIO. Yields. */
base_must_check int seglog_await(struct seglog_stream *stream, uint64_t position);

/** Write what a stream has, and wait until all of it is acknowledged. @return 0; -EIO. Yields. */
base_must_check int seglog_stream_drain(struct seglog_stream *stream);

/**
 * Close the open segment of a stream, if it has one: CLOSING. Writers wait meanwhile.
 *
 * @param forgo  only if no reservation counts on the rest of it
 * @return 0; -EBUSY (forgo: one does); -EIO. Yields.
 */
base_must_check int seglog_stream_end_segment(struct seglog_stream *stream, bool forgo);

/* ---- close.c -------------------------------------------------------------------------------------- */

/** The open segment of a stream is full, and all of it acknowledged. Stream lock held. */
void seglog_segment_ended(struct seglog_stream *stream);

/** A summary's memory, empty; closes segments if there is none. @return 0; -EROFS. Yields. */
base_must_check int seglog_summary_take(struct seglog *log, struct seglog_summary **ret_summary);

/** Give back one that was not used. */
void seglog_summary_give(struct seglog *log, struct seglog_summary *summary);

/**
 * Write the summaries of CLOSING segments: flush first unless the mode has flushed already, so that a valid
 * summary proves all of its segment. Called by the service, and by callers that need a summary's memory; two
 * never write one summary.
 *
 * @return 0; -EIO; -EROFS. Yields.
 */
base_must_check int seglog_close_segments(struct seglog *log);

/** Note when what a segment holds expires. @param entries  all of it */
void seglog_segment_note_ends(struct seglog *log, struct seglog_segment *segment,
                              const struct seglog_entry_format *entries, uint32_t count);

/* ---- collect.c ------------------------------------------------------------------------------------ */

/** The collector's memory. @return 0; -ENOMEM */
base_must_check int seglog_collector_init(struct seglog *log);

/** Free it. */
void seglog_collector_deinit(struct seglog *log);

/** What it was charged. */
uint64_t seglog_collector_bytes(const struct seglog *log);

/**
 * Collect one or more victims: move what lives, then make their freed stamps durable. Called by the service
 * only.
 *
 * @return 0; -ENOSPC (no victim would gain anything); -EAGAIN (only such as records are pending in);
 * -ECANCELED (the service stops); -EIO; -EROFS. Yields.
 */
base_must_check int seglog_collect(struct seglog *log);

/** Collect one segment, which is CLOSED, with nothing pending, and damaged, while the caller knows of enough
 * free ones. Called by the service only. @return 0: it is not CLOSED any more; else as seglog_collect() */
base_must_check int seglog_collect_segment(struct seglog *log, uint32_t segment);

/** Cache: evict one segment, which is CLOSED, with nothing pending. Called by the service only. @return 0: it
 * is not CLOSED any more; -ECANCELED; -EIO; -EROFS */
base_must_check int seglog_evict_segment(struct seglog *log, uint32_t segment);

/** Cache: evict the segment whose highest sequence is lowest. Called by the service only. @return as
 * seglog_collect() */
base_must_check int seglog_evict_oldest(struct seglog *log);

/** Evict for those who wait for that, if there are any, and tell them. Called by the service only. Yields. */
void seglog_evict_for_waiters(struct seglog *log);

/** What the last collection that found nothing has to say. */
const struct seglog_exhaustion *seglog_collect_exhaustion(const struct seglog *log);

/* ---- discard.c ------------------------------------------------------------------------------------ */

/** Start the discarder, if free segments are discarded. @return 0; -ENOMEM; pthread_create's error */
base_must_check int seglog_discarder_start(struct seglog *log);

/** Stop it, if it runs: after the discard that is under way. Yields. */
void seglog_discarder_stop(struct seglog *log);

/** There may be something to discard. Called by the service, when it has nothing to do. */
void seglog_discarder_poke(struct seglog *log);

/* ---- service.c ------------------------------------------------------------------------------------ */

/** Start it. @return 0; -ENOMEM; pthread_create's error */
base_must_check int seglog_service_start(struct seglog *log);

/** Wake it, wait for its end, if it runs. Yields. */
void seglog_service_stop(struct seglog *log);

/** Whether the caller is the service: it never waits for itself. */
bool seglog_service_is_self(const struct seglog *log);

/** Sleep in the middle of some work, until a moment or until poked: which is looked at when that work is
 * done. Called by the service only. Yields. */
void seglog_service_nap(struct seglog *log, uint64_t when_ns);

/** Close segments, flush behind asynchronous writes, extend bounds: what others rely on, also while the
 * service collects. @return false: the log has failed. Yields. */
bool seglog_service_chores(struct seglog *log);

#endif
