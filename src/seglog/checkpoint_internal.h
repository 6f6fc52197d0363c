/*
 * Checkpoints, for the files of this folder: checkpoint.c writes them, checkpoint_cut.c finds the moment that
 * one is about, checkpoint_read.c finds and reads them. README, "Checkpoints".
 */
#ifndef SEGLOG_CHECKPOINT_INTERNAL_H
#define SEGLOG_CHECKPOINT_INTERNAL_H

#include "seglog/seglog_internal.h"

#define SEGLOG_PART_BYTES (UINT64_C(1) << 20)

/** Where a part lies in its segment. @param ret_bytes  room that it has, header included */
static inline uint64_t seglog_part_place(const struct seglog *log, uint32_t part, uint64_t *ret_bytes)
{
    uint64_t begin = log->superblock.block_bytes + part * SEGLOG_PART_BYTES;
    *ret_bytes = base_min(log->superblock.segment_bytes - begin, SEGLOG_PART_BYTES);
    return begin;
}

/** The largest part that there is. */
static inline uint64_t seglog_part_bytes_max(const struct seglog *log)
{
    uint64_t bytes;
    (void)seglog_part_place(log, 0, &bytes);
    return bytes;
}

/** Parts that one segment has. */
static inline uint32_t seglog_parts_per_segment(const struct seglog *log)
{
    uint64_t bytes = log->superblock.segment_bytes - log->superblock.block_bytes;
    return (uint32_t)((bytes + SEGLOG_PART_BYTES - 1) / SEGLOG_PART_BYTES);
}

/* ---- checkpoint.c --------------------------------------------------------------------------------- */

/** Memory. @return 0; -ENOMEM */
base_must_check int seglog_checkpoints_init(struct seglog *log, const struct seglog_options *options);

/** Free it. */
void seglog_checkpoints_deinit(struct seglog *log);

/** The session begins: is the newest as good as one that were made now? Before anything runs. */
void seglog_checkpoints_begin(struct seglog *log);

/** Start the checkpointer, if the options ask for it. @return 0; -ENOMEM; pthread_create's error */
base_must_check int seglog_checkpointer_start(struct seglog *log);

/** Stop it, if it runs: what it is making is given up. Yields. */
void seglog_checkpointer_stop(struct seglog *log);

/** Wake it, if a checkpoint is due. Called by the service. */
void seglog_checkpointer_poke(struct seglog *log);

/**
 * Give up all checkpoints: somebody needs the space. Called by the service only. Yields.
 * @return whether there were any
 */
base_must_check bool seglog_checkpoints_give_up(struct seglog *log);

/** Free segments are few: give all checkpoints up, if they take more than their share of what is spare (the
 * end of a session may leave such). Called by the service only. Yields. */
void seglog_checkpoints_make_way(struct seglog *log);

/* ---- checkpoint_cut.c ----------------------------------------------------------------------------- */

/**
 * Have the service make a cut, and wait until all that lies before it is settled: `covers` tells of it then.
 * By the checkpointer. Yields.
 * @return 0; -ECANCELED (it is to stop); -EROFS
 */
base_must_check int seglog_cut(struct seglog *log);

/** The same while nobody appends and no service runs. */
void seglog_cut_stopped(struct seglog *log);

/** Make the cut that is wanted, if one is. Called by the service, while nothing is being collected. @return
 * whether it is draining: nothing may be collected now */
base_must_check bool seglog_cut_serve(struct seglog *log);

/* ---- checkpoint_read.c ---------------------------------------------------------------------------- */

/** Find the whole ones among the segments, free those of others, and read what the newest one is about. All
 * headers were read. Whatever fails, there is one less. Yields. */
void seglog_checkpoints_find(struct seglog *log);
#endif
