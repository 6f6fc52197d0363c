/*
 * Checkpoints: bytes of the owner's, in segments of their own, that name what lives, so that a start reads
 * fewer summaries. Whatever is wrong with one costs time, never data. README, "Checkpoints".
 */
#include "seglog/checkpoint_internal.h"
#include <errno.h>
#include <inttypes.h>

/* While running, a checkpoint is made when this many times its size was written since the last: it adds a 32nd
 * to what is written at most. And not before a part of the store was. */
#define WRITTEN_TIMES  32
#define STORE_PARTS    8
#define SEGMENTS_LEAST 4

#define SPARE_PARTS  4 /* two of them take at most one part of what is neither living nor kept back */
#define ROOM_WAIT_NS (10 * BASE_NS_PER_SECOND) /* that the collector is given to make room */
#define ROOM_LOOK_NS (20 * BASE_NS_PER_MS)
#define MARGIN_PARTS 8 /* it is reckoned as longer by one of so many parts: entries come meanwhile */
#define WAIT_MAX_NS  BASE_NS_PER_SECOND

struct seglog_checkpoint {
    struct seglog *log;
    uint64_t rate_bytes; /* 0: at the end, when nobody appends: as fast as may be */
    uint64_t due_ns;
    uint32_t *segments; /* by place: memory for `listed`, of which the first are taken, and the first of these
                           used */
    uint32_t listed, taken, used;
    uint64_t stamp;  /* of place 0 */
    uint8_t *buffer; /* seglog_part_bytes_max(): the part that is being filled */
    uint64_t filled; /* of it, header included */
    uint64_t room;   /* for it, likewise; 0: there is none yet */
    uint64_t offset; /* on the drive, where it goes */
    uint32_t part;   /* its number */
    uint64_t bytes;  /* written, all told */
    uint64_t flush_sequence;
};

/* ---- memory ---------------------------------------------------------------------------------------- */

static uint64_t covers_bytes(uint32_t count)
{
    return count * sizeof(struct seglog_cover_format);
}

int seglog_checkpoints_init(struct seglog *log, const struct seglog_options *options)
{
    struct seglog_checkpoints *checkpoints = &log->checkpoints;
    checkpoints->read_all = options->read_all;
    checkpoints->rate_bytes = options->checkpoint_rate_bytes;
    checkpoints->every_bytes = options->checkpoint_every_bytes;
    task_worker_init(&checkpoints->worker);
    checkpoints->covers = base_map_part(&log->node->memory, BASE_PAGE_BYTES, covers_bytes(log->segments_room),
                                        covers_bytes(seglog_segment_count(log)));
    return checkpoints->covers == NULL ? -ENOMEM : 0;
}

void seglog_checkpoints_deinit(struct seglog *log)
{
    struct seglog_checkpoints *checkpoints = &log->checkpoints;
    for (uint32_t i = 0; i < SEGLOG_CHECKPOINTS_KEPT; i++)
        base_free(&log->node->memory, checkpoints->kept[i].segments,
                  checkpoints->kept[i].count * sizeof(uint32_t));
    base_unmap_part(&log->node->memory, checkpoints->covers, covers_bytes(log->segments_room),
                    covers_bytes(seglog_segment_count(log)));
}

/* ---- segments -------------------------------------------------------------------------------------- */

/* @return false: there are too few free ones, or stamps */
static bool take_locked(struct seglog_checkpoint *checkpoint, uint64_t kept)
{
    base_spin_assert_held(&checkpoint->log->lock);
    struct seglog *log = checkpoint->log;
    const uint32_t count = checkpoint->listed;
    if (log->free_count < log->needed + kept + count || log->stamp_bound - 1 - log->stamp < count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct base_list *item = base_list_pop_front(&log->free);
        struct seglog_segment *segment = base_container_of(item, struct seglog_segment, link);
        segment->state = SEGLOG_STATE_CHECKPOINT;
        segment->discardable = false;
        segment->stamp = ++log->stamp;
        segment->session = log->session;
        log->free_count--;
        checkpoint->segments[i] = (uint32_t)(segment - log->segments);
    }
    checkpoint->taken = count;
    checkpoint->stamp = log->segments[checkpoint->segments[0]].stamp;
    return true;
}

static bool take_segments(struct seglog_checkpoint *checkpoint, uint64_t kept)
{
    struct seglog *log = checkpoint->log;
    base_spin_lock(&log->lock);
    bool taken = take_locked(checkpoint, kept);
    base_spin_unlock(&log->lock);
    if (taken) /* a writer that finds no room asks first, because a checkpoint can be given up */
        seglog_space_chance(log);
    return taken;
}

/* Those from a place on: nothing that counts was written there. */
static void give_back(struct seglog_checkpoint *checkpoint, uint32_t from)
{
    struct seglog *log = checkpoint->log;
    base_spin_lock(&log->lock);
    for (uint32_t i = from; i < checkpoint->taken; i++) {
        struct seglog_segment *segment = &log->segments[checkpoint->segments[i]];
        segment->freed_stamp = segment->stamp;
        seglog_segment_freed_locked(log, segment);
    }
    base_spin_unlock(&log->lock);
    seglog_space_freed(log);
}

/* Its segments are free with the next state. @return whether there was one */
static bool drop_chain(struct seglog *log, struct seglog_chain *chain)
{
    base_spin_lock(&log->lock);
    struct seglog_chain dropped = *chain;
    *chain = (struct seglog_chain){.stamp = 0};
    for (uint32_t i = 0; i < dropped.count; i++)
        log->segments[dropped.segments[i]].state = SEGLOG_STATE_COLLECTED;
    base_spin_unlock(&log->lock);
    base_free(&log->node->memory, dropped.segments, dropped.count * sizeof(*dropped.segments));
    return dropped.count > 0;
}

/* Of those that are kept, from one on. @return 0; -EIO; -EROFS */
static int drop_from(struct seglog *log, uint32_t first, bool *ret_any)
{
    *ret_any = false;
    for (uint32_t i = first; i < SEGLOG_CHECKPOINTS_KEPT; i++)
        *ret_any = drop_chain(log, &log->checkpoints.kept[i]) || *ret_any;
    return *ret_any ? seglog_state_write(log, NULL) : 0;
}

/* ---- writing --------------------------------------------------------------------------------------- */

/* @return -ECANCELED: it is to end */
static int go_on(const struct seglog_checkpoint *checkpoint)
{
    const struct seglog *log = checkpoint->log;
    if (seglog_failed(checkpoint->log))
        return -EROFS;
    if (atomic_load(&log->checkpoints.ended))
        return -ECANCELED;
    bool stops = checkpoint->rate_bytes != 0 &&
                 (task_worker_stops(&log->checkpoints.worker) || atomic_load(&log->checkpoints.given_up));
    return stops ? -ECANCELED : 0;
}

/* Wait until the next write may begin. */
static int await_turn(struct seglog_checkpoint *checkpoint)
{
    int error = go_on(checkpoint);
    while (error == 0 && checkpoint->rate_bytes != 0 && task_now() < checkpoint->due_ns) {
        task_worker_sleep_until(&checkpoint->log->checkpoints.worker,
                                base_min(checkpoint->due_ns, task_now() + WAIT_MAX_NS));
        error = go_on(checkpoint);
    }
    return error;
}

static int write_block(struct seglog_checkpoint *checkpoint, uint64_t offset, void *data, uint64_t bytes,
                       bool durable)
{
    struct seglog *log = checkpoint->log;
    uint64_t begin_ns = task_now();
    int error = drive_write(log->drive, offset, data, bytes, durable);
    if (error != 0 && durable)
        seglog_fail(log, "a checkpoint", offset, error);
    if (error != 0)
        return error == -EROFS ? -EROFS : -EIO;
    seglog_count_write(log, bytes);
    checkpoint->bytes += bytes;
    if (checkpoint->rate_bytes != 0)
        checkpoint->due_ns = task_worker_due(checkpoint->due_ns, begin_ns, bytes, checkpoint->rate_bytes);
    return 0;
}

/* The header of the segment at a place, with the buffer, which is empty. */
static int write_header(struct seglog_checkpoint *checkpoint, uint32_t place, uint32_t part_count)
{
    struct seglog *log = checkpoint->log;
    uint32_t number = checkpoint->segments[place];
    struct seglog_segment_format header = {
        .stamp = log->segments[number].stamp,
        .session = log->session,
        .segment = number,
        .kind = SEGLOG_SEGMENT_CHECKPOINT,
        .stream = place,
        .part_count = part_count,
        .first_sequence = seglog_sequence_next(log),
        .checkpoint_stamp = checkpoint->stamp,
    };
    seglog_segment_seal(&header, log->superblock.check_seed);
    memset(checkpoint->buffer, 0, log->superblock.block_bytes);
    memcpy(checkpoint->buffer, &header, sizeof(header));
    return write_block(checkpoint, seglog_segment_offset(log, number), checkpoint->buffer,
                       log->superblock.block_bytes, place == 0);
}

/* Find the place of the part that is next. The header of place 0 is the last thing that is written. */
static int begin_part(struct seglog_checkpoint *checkpoint)
{
    struct seglog *log = checkpoint->log;
    uint32_t per_segment = seglog_parts_per_segment(log);
    uint32_t place = checkpoint->part / per_segment, part = checkpoint->part % per_segment;
    if (place == checkpoint->taken)
        return -ENOSPC;
    int error = part == 0 && place > 0 ? write_header(checkpoint, place, 0) : 0;
    checkpoint->used = place + 1;
    checkpoint->offset = seglog_segment_offset(log, checkpoint->segments[place]) +
                         seglog_part_place(log, part, &checkpoint->room);
    checkpoint->filled = sizeof(struct seglog_part_format);
    return error;
}

static int write_part(struct seglog_checkpoint *checkpoint)
{
    struct seglog *log = checkpoint->log;
    struct seglog_part_format *part = (void *)checkpoint->buffer;
    uint64_t bytes = base_align_up(checkpoint->filled, log->superblock.block_bytes);
    *part = (struct seglog_part_format){.stamp = checkpoint->stamp,
                                        .number = checkpoint->part,
                                        .bytes = (uint32_t)(checkpoint->filled - sizeof(*part))};
    seglog_part_seal(part, log->superblock.check_seed);
    memset(checkpoint->buffer + checkpoint->filled, 0, bytes - checkpoint->filled);
    int error = await_turn(checkpoint);
    if (error == 0)
        error = write_block(checkpoint, checkpoint->offset, checkpoint->buffer, bytes, false);
    checkpoint->part++;
    checkpoint->room = 0;
    return error;
}

int seglog_checkpoint_put(struct seglog_checkpoint *checkpoint, const void *data, uint64_t bytes)
{
    const uint8_t *from = data;
    int error = 0;
    while (error == 0 && bytes > 0) {
        if (checkpoint->room == 0)
            error = begin_part(checkpoint);
        uint64_t now = error == 0 ? base_min(bytes, checkpoint->room - checkpoint->filled) : 0;
        memcpy(checkpoint->buffer + checkpoint->filled, from, now);
        checkpoint->filled += now;
        from += now;
        bytes -= now;
        if (error == 0 && checkpoint->filled == checkpoint->room)
            error = write_part(checkpoint);
    }
    return error;
}

static int put_coverage(struct seglog_checkpoint *checkpoint)
{
    const struct seglog *log = checkpoint->log;
    struct seglog_coverage_format coverage = {.flush_sequence = checkpoint->flush_sequence,
                                              .segments = seglog_segment_count(log)};
    seglog_coverage_seal(&coverage);
    int error = seglog_checkpoint_put(checkpoint, &coverage, sizeof(coverage));
    return error != 0 ? error
                      : seglog_checkpoint_put(checkpoint, log->checkpoints.covers,
                                              coverage.segments * sizeof(*log->checkpoints.covers));
}

static uint64_t flush_sequence_now(struct seglog *log)
{
    struct seglog_points points;
    seglog_points(log, &points);
    return points.flush_sequence;
}

/*
 * Make it whole. What it names, and what has removed what it does not name, is durable first: else a cut
 * could take that away, and with it the older record that would have counted then.
 */
static int seal(struct seglog_checkpoint *checkpoint)
{
    struct seglog *log = checkpoint->log;
    int error = checkpoint->room != 0 ? write_part(checkpoint) : 0;
    if (error == 0)
        error = seglog_sync(log);
    if (error == 0)
        error = seglog_flush(log);
    if (error == 0 && flush_sequence_now(log) != checkpoint->flush_sequence)
        error = -ECANCELED; /* what it names is gone */
    if (error == 0)
        error = go_on(checkpoint);
    return error == 0 ? write_header(checkpoint, 0, checkpoint->part) : error;
}

/* It is the newest; there is a place behind it. The segments are not this one's any more. */
static void keep(struct seglog_checkpoint *checkpoint)
{
    struct seglog *log = checkpoint->log;
    struct seglog_checkpoints *checkpoints = &log->checkpoints;
    base_spin_lock(&log->lock);
    base_assert(checkpoints->kept[1].count == 0);
    checkpoints->kept[1] = checkpoints->kept[0];
    checkpoints->kept[0] = (struct seglog_chain){.stamp = checkpoint->stamp,
                                                 .segments = checkpoint->segments,
                                                 .count = checkpoint->used,
                                                 .part_count = checkpoint->part};
    base_spin_unlock(&log->lock);
    checkpoint->segments = NULL;
    checkpoint->listed = checkpoint->taken = 0;
}

/* What was taken and is not used goes back. @return false: there is no memory for the shorter list */
static bool fit_list(struct seglog_checkpoint *checkpoint)
{
    struct base_account *account = &checkpoint->log->node->memory;
    uint32_t *fitting = base_alloc(account, checkpoint->used * sizeof(*fitting));
    if (fitting == NULL)
        return false;
    memcpy(fitting, checkpoint->segments, checkpoint->used * sizeof(*fitting));
    give_back(checkpoint, checkpoint->used);
    base_free(account, checkpoint->segments, checkpoint->listed * sizeof(*fitting));
    checkpoint->segments = fitting;
    checkpoint->listed = checkpoint->taken = checkpoint->used;
    return true;
}

/* The moment was found, segments were taken. */
static int write_whole(struct seglog_checkpoint *checkpoint)
{
    struct seglog *log = checkpoint->log;
    int error = put_coverage(checkpoint);
    if (error == 0)
        error = log->ops->checkpoint(log->owner, checkpoint);
    if (error == 0 && !fit_list(checkpoint))
        error = -ENOMEM;
    if (error == 0)
        error = seal(checkpoint);
    if (error == 0) {
        keep(checkpoint);
        atomic_fetch_add_explicit(&log->checkpoints.made, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&log->checkpoints.made_bytes, checkpoint->bytes, memory_order_relaxed);
    }
    return error;
}

/* ---- room ------------------------------------------------------------------------------------------ */

/* Segments for a checkpoint, by what the owner says now. */
static uint32_t segments_for(const struct seglog *log)
{
    uint64_t bytes = sizeof(struct seglog_coverage_format) +
                     seglog_segment_count(log) * sizeof(struct seglog_cover_format) +
                     log->ops->checkpoint_bytes(log->owner) / MARGIN_PARTS * (MARGIN_PARTS + 1);
    uint64_t per_segment = log->superblock.segment_bytes - log->superblock.block_bytes -
                           seglog_parts_per_segment(log) * sizeof(struct seglog_part_format);
    return (uint32_t)base_min(bytes / per_segment + 1, (uint64_t)seglog_segment_count(log));
}

/* Whether the store has room for two such checkpoints, beside what lives and what is kept back. */
static bool has_place_for(const struct seglog *log, uint32_t count)
{
    return UINT64_C(2) * count <= seglog_spare_segments(log) / SPARE_PARTS;
}

/* Take segments, for which the service makes room if need be. @return 0; -ENOSPC; -ECANCELED; -EROFS */
static int take_room(struct seglog_checkpoint *checkpoint)
{
    struct seglog *log = checkpoint->log;
    struct seglog_checkpoints *checkpoints = &log->checkpoints;
    uint64_t until_ns = task_now() + ROOM_WAIT_NS;
    int error = 0;
    const uint32_t wanted = checkpoint->listed;
    atomic_fetch_add_explicit(&log->wanted_segments, wanted, memory_order_relaxed);
    while (error == 0 && !take_segments(checkpoint, SEGLOG_KEPT_DATA + 1)) {
        seglog_poke(log);
        task_worker_sleep_until(&checkpoints->worker, task_now() + ROOM_LOOK_NS);
        error = task_now() >= until_ns ? -ENOSPC : go_on(checkpoint);
    }
    atomic_fetch_sub_explicit(&log->wanted_segments, wanted, memory_order_relaxed);
    return error;
}

/* Take them when nobody else wants any: those that there are may be in the way, or stamps are used up. */
static int take_at_the_end(struct seglog_checkpoint *checkpoint)
{
    bool dropped;
    if (take_segments(checkpoint, 0))
        return 0;
    int error = drop_from(checkpoint->log, 0, &dropped);
    if (error == 0 && !dropped)
        error = seglog_state_write(checkpoint->log, NULL);
    return error != 0 || take_segments(checkpoint, 0) ? error : -ENOSPC;
}

/* ---- one checkpoint -------------------------------------------------------------------------------- */

/* A number that stays the same as long as a checkpoint would say the same. */
static uint64_t log_changes(struct seglog *log)
{
    return 1 + flush_sequence_now(log) + atomic_load_explicit(&log->appended_bytes, memory_order_relaxed) +
           atomic_load_explicit(&log->moved_bytes, memory_order_relaxed) + seglog_segment_count(log) +
           atomic_load_explicit(&log->collections, memory_order_relaxed);
}

/* With segments that were taken: find the moment, write. */
static int cut_and_write(struct seglog_checkpoint *checkpoint)
{
    struct seglog *log = checkpoint->log;
    /* before the moment: a flush that comes between makes it void */
    checkpoint->flush_sequence = flush_sequence_now(log);
    uint64_t changes = log_changes(log);
    int error = 0;
    if (checkpoint->rate_bytes != 0)
        error = seglog_cut(log);
    else
        seglog_cut_stopped(log);
    if (error == 0)
        error = write_whole(checkpoint);
    if (error == 0)
        log->checkpoints.changes = changes;
    return error;
}

/* @param rate_bytes  0: at the end @param count  segments to take @return 0; an error: there is none */
static int make(struct seglog *log, uint64_t rate_bytes, uint32_t count)
{
    struct base_account *account = &log->node->memory;
    struct seglog_checkpoint checkpoint = {
        .log = log,
        .rate_bytes = rate_bytes,
        .segments = base_alloc(account, count * sizeof(uint32_t)),
        .listed = count,
        .buffer = drive_memory_alloc(log->node, log->drive, seglog_part_bytes_max(log)),
    };
    bool dropped;
    int error = checkpoint.buffer == NULL || checkpoint.segments == NULL ? -ENOMEM : 0;
    if (error == 0)
        error = drop_from(log, SEGLOG_CHECKPOINTS_KEPT - 1, &dropped);
    if (error == 0)
        error = rate_bytes != 0 ? take_room(&checkpoint) : take_at_the_end(&checkpoint);
    if (error == 0)
        error = cut_and_write(&checkpoint);
    give_back(&checkpoint, 0);
    base_free(account, checkpoint.segments, checkpoint.listed * sizeof(uint32_t));
    base_free(account, checkpoint.buffer, seglog_part_bytes_max(log));
    return error;
}

int seglog_checkpoint_write(struct seglog *log)
{
    if (!log->stopped_well || seglog_failed(log))
        return -EROFS;
    if (atomic_load(&log->checkpoints.ended))
        return -ECANCELED;
    bool current = seglog_checkpoint_found(log) && log->checkpoints.changes == log_changes(log);
    return current ? 0 : make(log, 0, segments_for(log));
}

void seglog_checkpoints_end(struct seglog *log)
{
    atomic_store(&log->checkpoints.ended, true);
}

bool seglog_checkpoints_give_up(struct seglog *log)
{
    bool any;
    atomic_store(&log->checkpoints.given_up, true);
    task_worker_poke(&log->checkpoints.worker);
    return drop_from(log, 0, &any) == 0 && any;
}

void seglog_checkpoints_make_way(struct seglog *log)
{
    uint32_t count = 0;
    base_spin_lock(&log->lock);
    for (uint32_t i = 0; i < SEGLOG_CHECKPOINTS_KEPT; i++)
        count = base_max(count, log->checkpoints.kept[i].count);
    base_spin_unlock(&log->lock);
    if (count > 0 && !has_place_for(log, count))
        (void)!seglog_checkpoints_give_up(log);
}

/* ---- the checkpointer ------------------------------------------------------------------------------ */

static uint64_t stamp_now(struct seglog *log)
{
    base_spin_lock(&log->lock);
    uint64_t stamp = log->stamp;
    base_spin_unlock(&log->lock);
    return stamp;
}

/* Segments of the newest checkpoint; it may have been given up meanwhile. */
static uint32_t newest_count(struct seglog *log)
{
    base_spin_lock(&log->lock);
    uint32_t count = log->checkpoints.kept[0].count;
    base_spin_unlock(&log->lock);
    return count;
}

static bool is_due(struct seglog *log)
{
    return atomic_load(&log->checkpoints.outdated) ||
           stamp_now(log) >= atomic_load_explicit(&log->checkpoints.next_stamp, memory_order_relaxed);
}

/* Segments that are begun from one to the next, by the bytes that one has. */
static uint64_t interval(const struct seglog *log, uint64_t bytes)
{
    const uint64_t least = base_max(seglog_segment_count(log) / STORE_PARTS, (uint32_t)SEGMENTS_LEAST);
    if (log->checkpoints.every_bytes != 0)
        return log->checkpoints.every_bytes / log->superblock.segment_bytes + 1;
    return base_max(least, bytes * WRITTEN_TIMES / log->superblock.segment_bytes);
}

static void run_checkpointer(void *arg)
{
    struct seglog *log = arg;
    struct seglog_checkpoints *checkpoints = &log->checkpoints;
    while (!task_worker_stops(&checkpoints->worker)) {
        uint64_t begin_ns = task_now();
        if (!is_due(log)) {
            task_worker_sleep_until(&checkpoints->worker, TASK_FOREVER);
            continue;
        }
        uint32_t count = segments_for(log);
        uint64_t bytes = count * log->superblock.segment_bytes;
        /* so that the service does not poke who is at work, and is poked in turn */
        atomic_store_explicit(&checkpoints->next_stamp, UINT64_MAX, memory_order_relaxed);
        atomic_store(&checkpoints->given_up, false);
        atomic_store(&checkpoints->outdated, false);
        bool may = !atomic_load(&checkpoints->ended) && has_place_for(log, count);
        int error = may ? make(log, checkpoints->rate_bytes, count) : -ENOSPC;
        /* now, as its own segments have stamps too */
        atomic_store_explicit(&checkpoints->next_stamp, stamp_now(log) + interval(log, bytes),
                              memory_order_relaxed);
        if (error == 0)
            base_info(&log->node->log, "checkpoint written", "path=%s segments=%" PRIu32 " ms=%" PRIu64,
                      drive_name(log->drive), newest_count(log), (task_now() - begin_ns) / BASE_NS_PER_MS);
        else if (error != -ECANCELED && error != -ENOSPC)
            base_warn(&log->node->log, "a checkpoint could not be written: a start after a crash reads more",
                      "path=%s error=\"%s\"", drive_name(log->drive), strerrordesc_np(-error));
    }
}

void seglog_checkpointer_poke(struct seglog *log)
{
    struct seglog_checkpoints *checkpoints = &log->checkpoints;
    if (checkpoints->worker.running && !atomic_load_explicit(&checkpoints->ended, memory_order_relaxed) &&
        is_due(log))
        task_worker_poke(&checkpoints->worker);
}

void seglog_checkpoints_begin(struct seglog *log)
{
    struct seglog_checkpoints *checkpoints = &log->checkpoints;
    uint64_t all;
    bool current = seglog_checkpoint_found(log) && seglog_uncovered_entries(log, &all) == 0;
    checkpoints->changes = current ? log_changes(log) : 0;
    /* without any, the first is made soon */
    atomic_store(&checkpoints->next_stamp, stamp_now(log) + (current ? interval(log, 0) : 1));
}

int seglog_checkpointer_start(struct seglog *log)
{
    struct seglog_checkpoints *checkpoints = &log->checkpoints;
    if (checkpoints->rate_bytes == 0 || log->ops->checkpoint == NULL)
        return 0;
    return task_worker_start(&checkpoints->worker, "tarn-checkpoint", run_checkpointer, log);
}

void seglog_checkpointer_stop(struct seglog *log)
{
    task_worker_stop(&log->checkpoints.worker);
}
