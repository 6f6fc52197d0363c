/*
 * Discarding free segments, so that the device need not keep what nobody will read: by a worker, since a
 * device may be slow at it. README, "Discards".
 */
#include "seglog/seglog_internal.h"
#include <errno.h>
#include <inttypes.h>

/* Everything behind the header's block, because an opening looks at the headers of free segments. */
static int discard(struct seglog *log, uint32_t segment)
{
    uint64_t block_bytes = log->superblock.block_bytes;
    uint64_t bytes = log->superblock.segment_bytes - block_bytes;
    int error = drive_discard(log->drive, seglog_segment_offset(log, segment) + block_bytes, bytes);
    if (error == 0)
        atomic_fetch_add_explicit(&log->discarded_bytes, bytes, memory_order_relaxed);
    return error;
}

/* It does no harm to keep what is not needed: no more is tried in this session. */
static void give_up(struct seglog *log, int error)
{
    atomic_store_explicit(&log->discards, false, memory_order_relaxed);
    if (!seglog_failed(log))
        base_warn(&log->node->log, "a discard failed: no more until the store is opened again",
                  "path=%s error=\"%s\"", drive_name(log->drive), strerrordesc_np(-error));
}

/* @return whether there may be more */
static bool discard_one(struct seglog *log)
{
    uint32_t segment;
    if (!atomic_load_explicit(&log->discards, memory_order_relaxed) || seglog_failed(log) ||
        !seglog_discard_take(log, &segment))
        return false;
    /* asked when it is out of the list: whatever is freed after this is not it */
    bool settled = log->ops->settled == NULL || log->ops->settled(log->owner);
    if (!settled) {
        seglog_discarded(log, segment, false);
        return false;
    }
    int error = discard(log, segment);
    if (error != 0)
        give_up(log, error);
    seglog_discarded(log, segment, true);
    return error == 0;
}

/* ---- the discarder --------------------------------------------------------------------------------- */

static void run_discarder(void *arg)
{
    struct seglog *log = arg;
    while (!task_worker_stops(&log->discarder)) {
        if (!discard_one(log))
            task_worker_sleep_until(&log->discarder, TASK_FOREVER);
    }
}

int seglog_discarder_start(struct seglog *log)
{
    return log->discards ? task_worker_start(&log->discarder, "tarn-discard", run_discarder, log) : 0;
}

void seglog_discarder_stop(struct seglog *log)
{
    task_worker_stop(&log->discarder);
}

void seglog_discarder_poke(struct seglog *log)
{
    if (atomic_load_explicit(&log->discards, memory_order_relaxed))
        task_worker_poke(&log->discarder);
}
