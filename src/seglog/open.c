/* Opening, starting and closing a log, and what it tells about itself. */
#include "seglog/checkpoint_internal.h"
#include "seglog/scrub_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <tarn/depot.h>

#define PROGRESS_NS (5 * BASE_NS_PER_SECOND) /* from one line of the log to the next, while it is opened */

bool seglog_readings_agree(struct seglog_readings *readings, const void *bytes, size_t len)
{
    uint64_t print = base_hash64(bytes, len, 0);
    bool agree = false;
    base_assert(readings->count < SEGLOG_READ_TRIES);
    for (uint32_t i = 0; i < readings->count; i++)
        agree = agree || readings->seen[i] == print;
    readings->seen[readings->count++] = print;
    return agree;
}

int seglog_drive_read(struct drive *drive, uint64_t offset, void *data, size_t bytes)
{
    int error = -EIO;
    for (int try = 0; error != 0 && try < SEGLOG_READ_TRIES; try++)
        error = drive_read(drive, offset, data, bytes);
    return error;
}

/* ---- failing ------------------------------------------------------------------------------------- */

void seglog_fail(struct seglog *log, const char *what, uint64_t offset, int error)
{
    /* Pairs with the acquire in seglog_failed(). */
    if (atomic_exchange_explicit(&log->failed, true, memory_order_acq_rel))
        return;
    base_error(&log->node->log, "a write failed: the store takes no more until it is opened again",
               "path=%s what=\"%s\" offset=%" PRIu64 " error=\"%s\"", drive_name(log->drive), what, offset,
               strerrordesc_np(-error));
    seglog_wake_all(log);
}

bool seglog_failed(struct seglog *log)
{
    /* Pairs with the exchange in seglog_fail(). */
    return atomic_load_explicit(&log->failed, memory_order_acquire);
}

/* ---- opening ------------------------------------------------------------------------------------- */

static uint64_t segments_bytes(uint32_t count)
{
    return count * sizeof(struct seglog_segment);
}

/* Free what has been made so far; nothing runs. */
static void free_log(struct seglog *log)
{
    struct tarn_node *node = log->node;
    seglog_checkpoints_deinit(log);
    if (!log->read_only) {
        seglog_scrub_deinit(log);
        seglog_collector_deinit(log);
        seglog_streams_deinit(log);
    }
    const uint32_t count = seglog_segment_count(log);
    for (uint32_t i = 0; log->segments != NULL && i < count; i++) {
        struct seglog_segment *segment = &log->segments[i];
        base_free(&node->memory, segment->unsealed_entries,
                  segment->entry_count * sizeof(struct seglog_entry_format));
    }
    base_unmap_part(&node->memory, log->segments, segments_bytes(log->segments_room), segments_bytes(count));
    seglog_state_deinit(log);
    base_free(&node->memory, log, sizeof(*log));
}

static void init_log(struct seglog *log, struct tarn_node *node, struct drive *drive,
                     const struct seglog_options *options, const struct seglog_superblock_format *superblock)
{
    log->node = node;
    log->drive = drive;
    log->superblock = *superblock;
    log->segments_room = (uint32_t)seglog_segments_most(superblock);
    atomic_init(&log->segment_count, superblock->segment_count);
    log->mode = options->mode;
    log->read_only = options->read_only;
    log->cache = options->cache;
    log->serve_damaged = options->serve_damaged || options->repair;
    log->discards = options->discard && !options->read_only && drive_info(drive)->discard;
    log->over_provisioning_percent = options->over_provisioning_percent;
    log->timed = options->timed;
    log->timed_arg = options->timed_arg;
    log->progress = options->progress;
    log->progress_arg = options->progress_arg;
    log->progress_ns = task_now() + PROGRESS_NS;
    if (log->over_provisioning_percent == 0)
        log->over_provisioning_percent = TARN_OVER_PROVISIONING_DEFAULT;
    base_assert(log->over_provisioning_percent >= TARN_OVER_PROVISIONING_MIN &&
                log->over_provisioning_percent <= TARN_OVER_PROVISIONING_MAX);
    log->grain_shift = (uint32_t)__builtin_ctz(superblock->grain_bytes);
    log->segment_shift = (uint32_t)__builtin_ctzll(superblock->segment_bytes);
    log->data_room = superblock->segment_bytes - seglog_segment_header_bytes(superblock->grain_bytes);
    task_mutex_init(&log->growth_mutex);
    task_mutex_init(&log->state_mutex);
    base_spin_init(&log->lock);
    base_list_init(&log->free);
    base_list_init(&log->closing);
    task_worker_init(&log->discarder);
}

/* All memory that is held while it is open. */
static int take_memory(struct seglog *log, const struct seglog_options *options)
{
    log->segments = base_map_part(&log->node->memory, BASE_PAGE_BYTES, segments_bytes(log->segments_room),
                                  segments_bytes(seglog_segment_count(log)));
    int error = log->segments == NULL ? -ENOMEM : seglog_checkpoints_init(log, options);
    if (error == 0 && !log->read_only)
        error = seglog_streams_init(log, options->user_streams == 0 ? 1 : options->user_streams);
    if (error == 0 && !log->read_only)
        error = seglog_collector_init(log);
    if (error == 0 && !log->read_only)
        error = seglog_scrub_init(log, options);
    if (error != 0)
        base_error(&log->node->log, "there is too little memory to open the store", "path=%s",
                   drive_name(log->drive));
    return error;
}

static int open_log(struct seglog *log, const struct seglog_options *options, int missing_copy)
{
    int error = seglog_state_load(log);
    if (error == 0)
        error = take_memory(log, options);
    if (error == 0 && !log->read_only)
        error = seglog_superblock_complete(log->node, log->drive, &log->superblock, missing_copy,
                                           log->state->session == 0 || options->repair);
    if (error == 0 && !log->read_only)
        error = seglog_state_settle(log);
    if (error == 0)
        error = seglog_recover(log);
    return error;
}

int seglog_open(struct tarn_node *node, struct drive *drive, const struct seglog_options *options,
                struct seglog **ret_log)
{
    struct seglog_superblock_format superblock;
    int missing_copy, error = seglog_superblock_find(node, drive, options, &superblock, &missing_copy);
    if (error != 0)
        return error;
    struct seglog *log = base_alloc(&node->memory, sizeof(*log));
    if (log == NULL)
        return -ENOMEM;
    init_log(log, node, drive, options, &superblock);
    error = open_log(log, options, missing_copy);
    if (error != 0)
        free_log(log);
    else
        *ret_log = log;
    return error;
}

/* ---- the session --------------------------------------------------------------------------------- */

int seglog_start(struct seglog *log, const struct seglog_owner_ops *ops, void *owner)
{
    base_assert(!log->read_only && !log->started);
    log->ops = ops;
    log->owner = owner;
    seglog_checkpoints_begin(log);
    /* What was read may be a killed process's, in the drive's cache: summaries of earlier sessions are durable. */
    int error = (log->state->flags & SEGLOG_STATE_ENDED) != 0 ? 0 : seglog_flush(log);
    if (error == 0)
        error = seglog_state_write(log, NULL);
    if (error == 0)
        error = seglog_service_start(log);
    if (error == 0)
        error = seglog_scrub_start(log);
    if (error == 0)
        error = seglog_discarder_start(log);
    if (error == 0)
        error = seglog_checkpointer_start(log);
    if (error != 0) {
        seglog_scrub_stop(log);
        seglog_discarder_stop(log);
        seglog_service_stop(log);
    }
    log->started = error == 0;
    return error;
}

int seglog_close(struct seglog *log)
{
    int error = 0;
    if (log->started && !log->stopped)
        error = seglog_stop(log);
    if (log->started && log->stopped_well)
        error = seglog_state_write(log, &(struct seglog_state_change){.ended = true});
    else if (log->started && error == 0)
        error = -EROFS;
    free_log(log);
    return error;
}

void seglog_progress(struct seglog *log, const char *what, const char *unit, uint64_t done, uint64_t all)
{
    if (log->progress != NULL)
        log->progress(log->progress_arg, what, unit, done, all);
    if (task_now() < log->progress_ns)
        return;
    log->progress_ns = task_now() + PROGRESS_NS;
    base_info(&log->node->log, "the store is being opened",
              "path=%s work=\"%s\" percent=%" PRIu64 " done=%" PRIu64 " %s=%" PRIu64, drive_name(log->drive),
              what, all == 0 ? 100 : done * 100 / all, done, unit, all);
}

/* ---- what it tells about itself ------------------------------------------------------------------ */

const struct seglog_superblock_format *seglog_superblock(const struct seglog *log)
{
    return &log->superblock;
}

uint32_t seglog_segment_count(const struct seglog *log)
{
    /* Pairs with the release in grow.c: a caller that knows of a segment finds it here. */
    return atomic_load_explicit(&log->segment_count, memory_order_acquire);
}

uint64_t seglog_store_bytes(const struct seglog *log)
{
    return seglog_segment_offset(log, seglog_segment_count(log));
}

uint64_t seglog_entry_grain(const struct seglog *log, uint32_t segment,
                            const struct seglog_entry_format *entry)
{
    return (seglog_segment_offset(log, segment) >> log->grain_shift) + entry->grain;
}

/* One that is below zero for a while (space.c) is told as zero. */
static uint64_t counter(const _Atomic uint64_t *from)
{
    uint64_t value = atomic_load_explicit(from, memory_order_relaxed);
    return value > UINT64_MAX / 2 ? 0 : value;
}

void seglog_stats(struct seglog *log, struct seglog_stats *ret_stats)
{
    struct seglog_stats stats = {
        .segments = seglog_segment_count(log),
        .live_bytes = counter(&log->live_bytes),
        .tombstone_bytes = counter(&log->tombstone_bytes),
        .appended_bytes = counter(&log->appended_bytes),
        .moved_bytes = counter(&log->moved_bytes),
        .written_bytes = counter(&log->written_bytes),
        .writes = counter(&log->writes),
        .flushes = counter(&log->flushes),
        .state_writes = counter(&log->state_writes),
        .collections = counter(&log->collections),
        .evictions = counter(&log->evictions),
        .discarded_bytes = counter(&log->discarded_bytes),
        .session = log->session,
        .summaries_damaged = log->summaries_damaged,
        .summaries_unsure = log->summaries_unsure,
    };
    seglog_scrub_tell(log, &stats.scrub);
    stats.checkpoints = counter(&log->checkpoints.made);
    stats.checkpoints_damaged = log->checkpoints.damaged;
    stats.checkpoint_bytes = counter(&log->checkpoints.made_bytes);
    for (uint32_t begin = 0; begin < stats.segments; begin += SEGLOG_SEGMENTS_AT_ONCE) {
        uint32_t end = base_min(begin + SEGLOG_SEGMENTS_AT_ONCE, stats.segments);
        base_spin_lock(&log->lock);
        for (uint32_t i = begin; i < end; i++) {
            enum seglog_segment_state state = log->segments[i].state;
            stats.segments_open += state == SEGLOG_STATE_OPEN;
            stats.segments_bad += state == SEGLOG_STATE_BAD;
        }
        base_spin_unlock(&log->lock);
    }
    base_spin_lock(&log->lock);
    stats.segments_free = log->free_count + log->discarding;
    for (uint32_t i = 0; i < SEGLOG_CHECKPOINTS_KEPT; i++)
        stats.checkpoints_kept += log->checkpoints.kept[i].count > 0;
    stats.generation = log->state->generation;
    stats.horizon_sequence = log->state->horizon_sequence;
    base_spin_unlock(&log->lock);
    *ret_stats = stats;
}

void seglog_segment_info(struct seglog *log, uint32_t segment_number, struct seglog_segment_info *ret_info)
{
    static const char *const names[] = {
        [SEGLOG_STATE_FREE] = "free",
        [SEGLOG_STATE_OPEN] = "open",
        [SEGLOG_STATE_CLOSING] = "closing",
        [SEGLOG_STATE_CLOSED] = "closed",
        [SEGLOG_STATE_COLLECTING] = "collecting",
        [SEGLOG_STATE_COLLECTED] = "collected",
        [SEGLOG_STATE_CHECKPOINT] = "checkpoint",
        [SEGLOG_STATE_BAD] = "bad",
        [SEGLOG_STATE_EVICTED] = "evicted",
    };
    base_assert(segment_number < seglog_segment_count(log));
    const struct seglog_segment *segment = &log->segments[segment_number];
    uint32_t open_stream = atomic_load_explicit(&segment->open_stream, memory_order_relaxed);
    base_spin_lock(&log->lock);
    *ret_info = (struct seglog_segment_info){
        .stamp = segment->stamp,
        .session = segment->session,
        .state = names[segment->state],
        .live_bytes = counter(&segment->live_bytes),
        .tombstone_bytes = counter(&segment->tombstone_bytes),
        .used_bytes = segment->end,
        .highest_sequence = segment->highest_sequence,
        .entries = segment->entry_count,
        .stream = open_stream == 0 ? segment->stream : open_stream - 1,
        .sealed = segment->sealed,
        .headerless = segment->headerless,
    };
    base_spin_unlock(&log->lock);
}

void seglog_memory(const struct seglog *log, struct seglog_memory *ret_memory)
{
    const uint64_t count = seglog_segment_count(log);
    uint64_t ring_bytes = 0, summaries = 0;
    for (uint32_t i = 0; log->streams != NULL && i < log->stream_count; i++)
        ring_bytes += log->streams[i].ring_bytes + SEGLOG_OVERHANG_BYTES;
    if (log->summaries != NULL)
        summaries = log->stream_count + SEGLOG_SUMMARIES_SPARE;
    *ret_memory = (struct seglog_memory){
        .ring_bytes = ring_bytes,
        .summary_bytes = summaries * seglog_summary_memory_bytes(log),
        .collector_bytes = seglog_collector_bytes(log) + seglog_scrub_memory_bytes(log),
        .segment_bytes = count * (sizeof(*log->segments) + sizeof(*log->checkpoints.covers)) +
                         3 * seglog_state_bytes(count, log->superblock.block_bytes),
    };
}
