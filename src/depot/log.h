/*
 * The log of a store: group commit. A writer copies its record into the open group; if no write is in
 * flight it leads: it writes the group, and all that came meanwhile go with the next one. README, "How
 * a write goes", has the picture.
 *
 * Locks: one spin lock for who is where; never held while bytes are copied or written.
 */
#ifndef DEPOT_LOG_H
#define DEPOT_LOG_H

#include "base/base.h"
#include "depot/log_format.h"
#include "drive/drive.h"
#include "task/node.h"
#include "task/task.h"

#define DEPOT_PATH_ROOM 256

/** The drive's path, quoted for a line of the log. @param buffer  DEPOT_PATH_ROOM */
static inline const char *depot_path(char *buffer, const struct drive *drive)
{
    return base_log_quote(buffer, DEPOT_PATH_ROOM, drive_name(drive), strlen(drive_name(drive)));
}

/* Stages of the work that may be measured. */
enum depot_stage {
    DEPOT_STAGE_INDEX,  /* key lock, hash, condition */
    DEPOT_STAGE_APPEND, /* room in a group, copy, check */
    DEPOT_STAGE_COMMIT, /* from there to the acknowledgement */
    DEPOT_STAGE_WRITE,  /* of that, one group on its way to the drive */
    DEPOT_STAGE_READ,   /* a record from the drive */
    DEPOT_STAGE_VERIFY, /* check and key of what was read, and the copy to the caller */
    DEPOT_STAGE_COUNT,
};

/* Histograms of all stages, shared by all callers. */
struct depot_stages {
    struct base_spin lock;
    _Atomic bool enabled;
    struct base_stages stages;
};

/** The moment when a stage begins: 0 without looking at a clock while nothing is measured. */
uint64_t depot_stage_begin(struct depot_stages *stages);

/** Count a stage that began at a moment, and give the moment when the next one begins. */
uint64_t depot_stage_end(struct depot_stages *stages, enum depot_stage stage, uint64_t begin_ns);

/* What shall be appended. */
struct depot_draft {
    enum depot_record_kind kind;
    uint16_t key_bytes;
    uint32_t value_bytes;
    uint32_t client_flags;
    uint64_t version; /* of a TOUCH */
    uint64_t expiry_ns;
    const void *key; /* borrowed, as the value */
    const void *value;
};

/* A group that is being filled or written. */
struct depot_group {
    uint8_t *buffer;
    uint64_t address; /* on the drive; of the open group known since the one before was closed */
    uint32_t bytes;   /* header and records so far */
    uint32_t records;
    uint32_t filling;         /* records that have room but are not copied yet */
    struct task_wait *filled; /* the leader, waiting for filling == 0 */
    struct base_list parked;  /* of struct depot_write: copied, waiting for the outcome */
};

/* Where the log ends and how it goes on. */
struct depot_log_end {
    uint64_t address; /* of the next group */
    uint64_t number;  /* of the last one */
    uint64_t check;   /* of the last one */
    uint64_t stamp;   /* the highest given out */
};

struct depot_log {
    struct tarn_node *node;
    struct drive *drive;
    struct depot_stages *stages;
    uint64_t check_seed;
    uint64_t session;
    uint64_t put_limit;    /* where groups with new data must end */
    uint64_t remove_limit; /* where those with deletions must end: behind it is room for the last group */
    uint32_t block_bytes;
    uint32_t group_bytes;
    bool durable; /* acknowledge only what survives a power cut */

    struct base_spin lock; /* of what follows */
    struct depot_group groups[2];
    struct depot_group *open;
    struct base_list queue; /* of struct depot_write: waiting for room in a group, in order */
    bool leading;           /* somebody writes, or is about to */
    bool failed;            /* a write failed: no more */
    struct depot_log_end end;
    uint64_t flushed; /* number of the last group that is durable */
    uint64_t writes;
    uint64_t flushes;
};

/**
 * Take memory for a log; it cannot be appended to before depot_log_begin().
 *
 * @param superblock  the store's geometry and seeds
 * @param durable     acknowledge only what survives a power cut
 * @return 0; -ENOMEM
 */
base_must_check int depot_log_init(struct depot_log *log, struct tarn_node *node, struct drive *drive,
                                   const struct depot_superblock_format *superblock, bool durable,
                                   struct depot_stages *stages);

/** Go on where recovery found the end; everything up to there is durable, or the log is never appended to. */
void depot_log_begin(struct depot_log *log, const struct depot_log_end *end);

/** Free the memory. Nobody may be appending (asserted). */
void depot_log_deinit(struct depot_log *log);

/**
 * Append a record and wait for its group.
 *
 * @param ret_address  of the record on the drive
 * @param ret_stamp    what it was stamped with
 * @return 0; -ENOSPC (nothing was written; deletions and flush_all have room longer than new data);
 *         -EROFS (an earlier write failed; nothing was written); -EIO (it may or may not be there after
 *         a restart)
 *
 * Yields, firmly. Any thread or task.
 */
base_must_check int depot_log_append(struct depot_log *log, const struct depot_draft *draft,
                                     uint64_t *ret_address, uint64_t *ret_stamp);

/**
 * End the session: make everything durable and say so with a last group, if anything was written.
 * Nobody may be appending. Yields.
 *
 * @return 0; -EIO; -EROFS
 */
base_must_check int depot_log_finish(struct depot_log *log);

/** Bytes of the log area that are written. Any thread or task. */
uint64_t depot_log_used(struct depot_log *log);

#endif
