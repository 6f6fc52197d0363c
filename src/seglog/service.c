/*
 * The service: a task or a thread that does what nobody waits for, or what all do. It sleeps when there is
 * nothing to do.
 */
#include "seglog/checkpoint_internal.h"
#include "seglog/scrub_internal.h"
#include <errno.h>

/* A delayed flush begins so early that it is over in time. */
#define FLUSH_DELAY_NS (SEGLOG_ASYNC_DELAY_NS / 2)

/* How long one waits for space that is not the collector's to give: reserved by others, or pending. */
#define PATIENCE_NS BASE_NS_PER_SECOND

void seglog_poke(struct seglog *log)
{
    task_worker_poke(&log->service.worker);
}

/* ---- what others rely on --------------------------------------------------------------------------- */

static uint64_t flush_due_ns(struct seglog *log)
{
    uint64_t dirty_ns = atomic_load(&log->dirty_ns);
    return dirty_ns == 0 || seglog_failed(log) ? TASK_FOREVER : dirty_ns + FLUSH_DELAY_NS;
}

/* Write what a stream has when that is much, so that its writers find room. */
static int write_behind(struct seglog_stream *stream)
{
    base_spin_lock(&stream->lock);
    bool much = stream->nudged;
    stream->nudged = false;
    base_spin_unlock(&stream->lock);
    return much ? seglog_stream_drain(stream) : 0;
}

static int write_behind_all(struct seglog *log)
{
    int error = 0;
    for (uint32_t i = 0; i < log->stream_count && error == 0; i++)
        error = write_behind(&log->streams[i]);
    if (error != 0 || flush_due_ns(log) > task_now())
        return error;
    /* first, so that what is appended from now on counts as not durable again */
    atomic_store(&log->dirty_ns, 0);
    return seglog_sync(log);
}

static int extend_bounds(struct seglog *log)
{
    base_spin_lock(&log->lock);
    bool stamps_run_out = log->stamp + SEGLOG_STAMP_BLOCK / 2 > log->stamp_bound;
    base_spin_unlock(&log->lock);
    uint64_t sequence = seglog_sequence_next(log);
    uint64_t bound = atomic_load_explicit(&log->sequence_bound, memory_order_relaxed);
    bool sequences_run_out = sequence + SEGLOG_SEQUENCE_BLOCK / 2 > bound;
    return stamps_run_out || sequences_run_out ? seglog_state_write(log, NULL) : 0;
}

void seglog_service_nap(struct seglog *log, uint64_t when_ns)
{
    struct seglog_service *service = &log->service;
    service->owes =
        task_worker_sleep_until(&service->worker, base_min(when_ns, flush_due_ns(log))) || service->owes;
}

bool seglog_service_chores(struct seglog *log)
{
    return !seglog_failed(log) && seglog_close_segments(log) == 0 &&
           (log->mode != SEGLOG_ASYNC || write_behind_all(log) == 0) && extend_bounds(log) == 0;
}

/* ---- collecting ------------------------------------------------------------------------------------ */

/* Somebody waits, and the collector has nothing to give: for how long? @return when to look again */
static uint64_t bear_stall(struct seglog *log)
{
    struct seglog_service *service = &log->service;
    uint64_t now_ns = task_now();
    base_spin_lock(&log->lock);
    uint64_t grants = log->grants;
    base_spin_unlock(&log->lock);
    if (atomic_load(&log->space_waiting) == 0) {
        service->stalled_ns = 0;
        return TASK_FOREVER;
    }
    if (service->stalled_ns == 0 || service->stalled_grants != grants) {
        service->stalled_ns = now_ns;
        service->stalled_grants = grants;
    }
    if (now_ns < service->stalled_ns + PATIENCE_NS)
        return service->stalled_ns + PATIENCE_NS;
    service->stalled_ns = 0;
    if (seglog_checkpoints_give_up(log) || seglog_pin_give_up(log))
        return now_ns;
    seglog_space_exhausted(log, seglog_collect_exhaustion(log), true);
    return TASK_FOREVER;
}

/* @return whether it is to be done again at once; else *ret_when_ns has a moment to look again */
static bool collect(struct seglog *log, uint64_t *ret_when_ns)
{
    *ret_when_ns = TASK_FOREVER;
    seglog_evict_for_waiters(log);
    if (!seglog_space_short(log)) {
        log->service.stalled_ns = 0;
        return false;
    }
    seglog_checkpoints_make_way(log);
    int error = seglog_collect(log);
    if (error == 0) {
        log->service.stalled_ns = 0;
        return true;
    }
    if (error == -ENOSPC && atomic_load(&log->space_waiting) > 0 &&
        (seglog_checkpoints_give_up(log) || seglog_pin_give_up(log)))
        return true;
    if (error == -ENOSPC)
        seglog_space_exhausted(log, seglog_collect_exhaustion(log), false);
    if (error == -ENOSPC || error == -EAGAIN)
        *ret_when_ns = bear_stall(log);
    return false;
}

/* ---- its life -------------------------------------------------------------------------------------- */

static void run_service(void *arg)
{
    struct seglog *log = arg;
    struct task_worker *worker = &log->service.worker;
    while (!task_worker_stops(worker)) {
        log->service.owes = false;
        log->ops->service(log->owner);
        uint64_t when_ns = TASK_FOREVER;
        uint64_t damaged_ns = TASK_FOREVER;
        bool draining = seglog_cut_serve(log);
        bool again = seglog_service_chores(log) && !draining &&
                     (seglog_scrub_collect(log, &damaged_ns) || collect(log, &when_ns));
        when_ns = base_min(when_ns, damaged_ns);
        seglog_checkpointer_poke(log);
        if (!again)
            seglog_discarder_poke(log);
        if (!again && !log->service.owes && !task_worker_stops(worker))
            (void)task_worker_sleep_until(worker, base_min(when_ns, flush_due_ns(log)));
    }
}

int seglog_service_start(struct seglog *log)
{
    log->session_stamp = log->stamp;
    return task_worker_start(&log->service.worker, "tarn-log", run_service, log);
}

void seglog_service_stop(struct seglog *log)
{
    task_worker_stop(&log->service.worker);
}

bool seglog_service_is_self(const struct seglog *log)
{
    return task_worker_is_self(&log->service.worker);
}

int seglog_stop(struct seglog *log)
{
    seglog_scrub_stop(log);
    seglog_checkpointer_stop(log);
    seglog_discarder_stop(log);
    seglog_service_stop(log);
    int error = 0;
    for (uint32_t i = 0; i < log->stream_count && error == 0; i++)
        error = seglog_stream_end_segment(&log->streams[i], false);
    if (error == 0)
        error = seglog_close_segments(log);
    if (error == 0 && seglog_failed(log))
        error = -EROFS;
    log->stopped = true;
    log->stopped_well = error == 0;
    return error;
}
