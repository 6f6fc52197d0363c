/*
 * Pacing: a victim is emptied while users use the room that is left, not at once, so that a collector that
 * shares a processor and a drive with them is not noticed. README, "Collection".
 */
#include "seglog/collect_internal.h"
#include <errno.h>

#define NAP_NS      BASE_NS_PER_MS
#define NS_PER_BYTE 10 /* the slowest pace, 100 MB/s: a victim ends though nobody writes */

/* The most segments of room that count, which keeps products in 64 bits. */
#define SEGMENTS_MAX 64

/* What users can still write before one of them has to wait. */
static uint64_t room_for_users(struct seglog *log)
{
    base_spin_lock(&log->lock);
    uint64_t kept = log->needed + SEGLOG_KEPT_DATA;
    uint64_t segments = log->free_count > kept ? log->free_count - kept : 0;
    uint64_t bytes = base_min(segments, (uint64_t)SEGMENTS_MAX) * seglog_record_space(log);
    for (uint32_t i = SEGLOG_RELOCATION + 1; i < log->stream_count; i++)
        bytes += log->streams[i].room_bytes;
    base_spin_unlock(&log->lock);
    return bytes;
}

void seglog_pace_begin(struct seglog *log, uint64_t work_bytes)
{
    log->collector->pace = (struct seglog_pace){.work_bytes = work_bytes, .room_bytes = room_for_users(log)};
}

/* Whether more has been moved than is due: all of it when users have used half of their room. */
static bool is_ahead(struct seglog *log)
{
    const struct seglog_pace *pace = &log->collector->pace;
    if (atomic_load(&log->space_waiting) > 0 || log->collector->gives_up)
        return false;
    uint64_t room_bytes = room_for_users(log);
    uint64_t used_bytes = pace->room_bytes > room_bytes ? pace->room_bytes - room_bytes : 0;
    return pace->moved_bytes * (pace->room_bytes / 2) > used_bytes * pace->work_bytes;
}

int seglog_pace(struct seglog *log, uint64_t moved_bytes)
{
    uint64_t now_ns = task_now(), end_ns = now_ns + moved_bytes * NS_PER_BYTE;
    log->collector->pace.moved_bytes += moved_bytes;
    while (now_ns < end_ns && is_ahead(log)) {
        seglog_service_nap(log, base_min(end_ns, now_ns + NAP_NS));
        if (task_worker_stops(&log->service.worker))
            return -ECANCELED;
        if (!seglog_service_chores(log))
            return -EROFS;
        now_ns = task_now();
    }
    return 0;
}
