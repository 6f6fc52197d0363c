/*
 * Collection: which segments are emptied, and how they become free. README, "Collection", has why it ends,
 * and why free segments do not run out.
 */
#include "seglog/collect_internal.h"
#include <errno.h>

#define WINDOW_BYTES      (UINT64_C(1) << 20)
#define GROUP_BYTES       (UINT64_C(256) << 10) /* that the collector's writes surely have, but for the last */
#define MOVES_MAX         8192
#define TOMBSTONE_PERCENT 5 /* of the capacity, before they are looked for */

#define GAIN_PARTS         8   /* a victim gives one part of a segment at least, … */
#define GAIN_PARTS_PRESSED 128 /* … or, when somebody waits, one of more and smaller parts */
#define AGE_MAX            (UINT64_C(1) << 28)
#define SCORE_UNIT         1024

/* ---- memory ---------------------------------------------------------------------------------------- */

int seglog_collector_init(struct seglog *log)
{
    struct base_account *account = &log->node->memory;
    uint64_t record_bytes = log->superblock.record_bytes_max + 2 * (uint64_t)log->superblock.block_bytes;
    struct seglog_collector *collector = base_alloc(account, sizeof(*collector));
    if (collector == NULL)
        return -ENOMEM;
    log->collector = collector;
    collector->window_bytes =
        base_max(base_align_up(record_bytes, log->superblock.block_bytes), WINDOW_BYTES);
    collector->window_bytes = base_min(collector->window_bytes, log->superblock.segment_bytes);
    collector->moves_max = base_min(seglog_entries_max(&log->superblock), (uint32_t)MOVES_MAX);
    collector->summary =
        base_map(account, drive_memory_alignment(log->drive), seglog_summary_memory_bytes(log));
    collector->window = drive_memory_alloc(log->node, log->drive, collector->window_bytes);
    collector->moves = base_alloc(account, collector->moves_max * sizeof(*collector->moves));
    if (collector->summary != NULL && collector->window != NULL && collector->moves != NULL)
        return 0;
    seglog_collector_deinit(log);
    return -ENOMEM;
}

void seglog_collector_deinit(struct seglog *log)
{
    struct base_account *account = &log->node->memory;
    struct seglog_collector *collector = log->collector;
    if (collector == NULL)
        return;
    base_free(account, collector->moves, collector->moves_max * sizeof(*collector->moves));
    base_free(account, collector->window, collector->window_bytes);
    base_unmap(account, collector->summary, seglog_summary_memory_bytes(log));
    base_free(account, collector, sizeof(*collector));
    log->collector = NULL;
}

uint64_t seglog_collector_bytes(const struct seglog *log)
{
    const struct seglog_collector *collector = log->collector;
    return collector == NULL
               ? 0
               : sizeof(*collector) + collector->window_bytes + seglog_summary_memory_bytes(log) +
                     collector->moves_max * sizeof(*collector->moves);
}

/* ---- looking at segments --------------------------------------------------------------------------- */

/* What a look at all segments has found. */
struct look {
    uint64_t now_ns;
    uint32_t least; /* collectable, with the least to move */
    uint64_t least_bytes, least_stamp;
    uint32_t best; /* collectable, with the highest score above 0 */
    uint64_t best_bytes, best_score;
    uint32_t oldest; /* collectable, with the lowest stamp */
    uint64_t oldest_bytes, oldest_stamp;
    uint32_t dead;    /* collectable, with nothing in it that counts */
    uint32_t unknown; /* collectable, with nothing known of when it expires */
    uint32_t open_oldest;
    uint64_t open_stamp;      /* its stamp */
    uint64_t unfree_stamp;    /* the lowest of any segment of records that is not free and not open */
    uint64_t collected_stamp; /* the highest of any that may be collected */
    uint64_t ends_ns;         /* when the next part of any segment will have expired */
    bool pinned;              /* there is one that cannot be collected yet */
    bool held;                /* there is one that somebody reads, so that it would not become free */
};

static uint64_t counted(const _Atomic uint64_t *counter)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    return value > UINT64_MAX / 2 ? 0 : value; /* below zero for a while: space.c */
}

/* What would have to be moved out of a segment, estimated. */
static uint64_t bytes_to_move(const struct seglog *log, const struct seglog_segment *segment, uint64_t now_ns)
{
    uint64_t live_bytes = counted(&segment->live_bytes), ended = 0;
    if (segment->highest_sequence < log->collector->gone_sequence)
        return 0;
    while (segment->ends_known && ended < SEGLOG_ENDS && segment->ends_ns[ended] <= now_ns)
        ended++;
    uint64_t ended_bytes = live_bytes * ended / SEGLOG_ENDS;
    if (live_bytes > 0 && ended > 0) { /* each leaves a tombstone, of a key of usual length */
        uint64_t tombstone_bytes =
            seglog_footprint(log, SEGLOG_BIRTH_BYTES + 2 * sizeof(struct seglog_record_format));
        uint64_t left_bytes = segment->entry_count * ended / SEGLOG_ENDS * tombstone_bytes;
        ended_bytes -= base_min(ended_bytes, left_bytes);
    }
    return live_bytes - ended_bytes + counted(&segment->tombstone_bytes);
}

/* The bytes of a segment that moving `bytes` takes: each write ends at a block. */
static uint64_t move_cost(const struct seglog *log, uint64_t bytes)
{
    return bytes == 0 ? 0 : bytes + (bytes / GROUP_BYTES + 1) * log->superblock.block_bytes;
}

/*
 * What emptying a segment is worth: room that is gained, for bytes that are read and written, times how long
 * that room is going to last: what has lived long in it dies slowly. Age is counted in segments that were
 * begun since. What is empty comes first. 0: it gives too little.
 */
static uint64_t score_of(const struct seglog *log, uint64_t bytes, uint64_t stamp)
{
    uint64_t space = seglog_record_space(log), cost = move_cost(log, bytes);
    if (cost == 0)
        return UINT64_MAX;
    if (cost + space / GAIN_PARTS > space)
        return 0;
    uint64_t age = base_min(log->stamp - stamp + 1, AGE_MAX);
    return (space - cost) * age * SCORE_UNIT / (space + cost);
}

static void look_at_closed(const struct seglog *log, uint32_t number, struct look *look)
{
    const struct seglog_segment *segment = &log->segments[number];
    uint64_t bytes = bytes_to_move(log, segment, look->now_ns), stamp = segment->stamp;
    uint64_t score = score_of(log, bytes, stamp);
    if (score > look->best_score) {
        look->best = number;
        look->best_bytes = bytes;
        look->best_score = score;
    }
    if (look->least == SEGLOG_NO_SEGMENT || bytes < look->least_bytes ||
        (bytes == look->least_bytes && stamp < look->least_stamp)) {
        look->least = number;
        look->least_bytes = bytes;
        look->least_stamp = stamp;
    }
    if (look->oldest == SEGLOG_NO_SEGMENT || stamp < look->oldest_stamp) {
        look->oldest = number;
        look->oldest_bytes = bytes;
        look->oldest_stamp = stamp;
    }
    if (counted(&segment->live_bytes) + counted(&segment->tombstone_bytes) == 0)
        look->dead = number;
    if (!segment->ends_known && look->unknown == SEGLOG_NO_SEGMENT)
        look->unknown = number;
    for (uint32_t part = 0; segment->ends_known && part < SEGLOG_ENDS; part++) {
        if (segment->ends_ns[part] > look->now_ns)
            look->ends_ns = base_min(look->ends_ns, segment->ends_ns[part]);
    }
}

static void look_at(const struct seglog *log, uint32_t number, struct look *look)
{
    const struct seglog_segment *segment = &log->segments[number];
    uint64_t stamp = segment->stamp;
    if (segment->state == SEGLOG_STATE_FREE || segment->state == SEGLOG_STATE_CHECKPOINT)
        return;
    if (segment->state == SEGLOG_STATE_OPEN) {
        bool older = look->open_oldest == SEGLOG_NO_SEGMENT || stamp < look->open_stamp;
        look->open_oldest = older ? number : look->open_oldest;
        look->open_stamp = older ? stamp : look->open_stamp;
        return;
    }
    look->unfree_stamp = base_min(look->unfree_stamp, stamp);
    if (segment->state == SEGLOG_STATE_CLOSED && seglog_segment_is_pinned(log, segment))
        look->held = true;
    else if (segment->state == SEGLOG_STATE_CLOSED && atomic_load(&segment->pending) == 0)
        look_at_closed(log, number, look);
    else
        look->pinned =
            look->pinned || segment->state == SEGLOG_STATE_CLOSED || segment->state == SEGLOG_STATE_CLOSING;
}

/* @param left_out  a segment that does not count; SEGLOG_NO_SEGMENT: none */
static void look_around(struct seglog *log, uint32_t left_out, struct look *look)
{
    *look = (struct look){.now_ns = task_wall(log->node),
                          .best = SEGLOG_NO_SEGMENT,
                          .least = SEGLOG_NO_SEGMENT,
                          .oldest = SEGLOG_NO_SEGMENT,
                          .dead = SEGLOG_NO_SEGMENT,
                          .unknown = SEGLOG_NO_SEGMENT,
                          .open_oldest = SEGLOG_NO_SEGMENT,
                          .unfree_stamp = UINT64_MAX,
                          .ends_ns = UINT64_MAX};
    for (uint32_t begin = 0; begin < seglog_segment_count(log); begin += SEGLOG_SEGMENTS_AT_ONCE) {
        uint32_t end = base_min(begin + SEGLOG_SEGMENTS_AT_ONCE, seglog_segment_count(log));
        base_spin_lock(&log->lock);
        for (uint32_t i = begin; i < end; i++) {
            if (i != left_out)
                look_at(log, i, look);
        }
        base_spin_unlock(&log->lock);
    }
}

/* ---- choosing -------------------------------------------------------------------------------------- */

/* What the collector can write without taking what reservations need. */
static uint64_t room_to_move(struct seglog *log)
{
    base_spin_lock(&log->lock);
    uint64_t spare = log->free_count > log->needed ? log->free_count - log->needed : 0;
    uint64_t room = log->streams[SEGLOG_RELOCATION].room_bytes + spare * seglog_record_space(log);
    base_spin_unlock(&log->lock);
    return room;
}

/* Whether a victim gives more than it takes; while nobody waits, so much more that it is worth the work. */
static bool gains(struct seglog *log, uint64_t bytes)
{
    uint64_t space = seglog_record_space(log);
    if (move_cost(log, bytes) > room_to_move(log))
        return false;
    uint64_t least = space / (log->collector->exhaustion.pressed ? GAIN_PARTS_PRESSED : GAIN_PARTS);
    return move_cost(log, bytes) + least <= space;
}

/* The stamp that no tombstone may be older than to be kept. */
static uint64_t lowest_stamp(const struct look *look)
{
    return look->open_oldest == SEGLOG_NO_SEGMENT ? look->unfree_stamp
                                                  : base_min(look->unfree_stamp, look->open_stamp);
}

/* The floor is about something old that stays: when that has gone, it says nothing any more. */
static bool wants_round(const struct seglog *log, const struct seglog_collector *collector,
                        const struct look *look)
{
    uint64_t tombstone_bytes = counted(&log->tombstone_bytes);
    bool stuck = lowest_stamp(look) == collector->floor_stamp;
    return !look->held && tombstone_bytes > seglog_capacity(log) / 100 * TOMBSTONE_PERCENT &&
           (!stuck || tombstone_bytes > collector->tombstone_floor);
}

/*
 * All that was there when the round began has been collected. Two rounds drop every tombstone that was there
 * before the first, unless something old stays (a bad segment): then they are left alone until there are
 * more.
 */
static void end_round(struct seglog *log, struct seglog_collector *collector, const struct look *look)
{
    uint64_t tombstone_bytes = counted(&log->tombstone_bytes);
    bool in_vain = collector->round_dropped_bytes < collector->round_tombstone_bytes / 8;
    collector->rounds_in_vain = in_vain ? collector->rounds_in_vain + 1 : 0;
    collector->tombstone_floor = 0;
    if (collector->rounds_in_vain == 2) {
        collector->tombstone_floor = tombstone_bytes + seglog_capacity(log) / 100 * TOMBSTONE_PERCENT;
        collector->floor_stamp = lowest_stamp(look);
        collector->rounds_in_vain = 0;
    }
    collector->round_stamp = 0;
}

/* Whether the collector has two segments: one for what it moves, one for what does not fit there. */
static bool has_two_spare(struct seglog *log)
{
    base_spin_lock(&log->lock);
    bool two = log->free_count >= log->needed + SEGLOG_KEPT_COLLECTOR;
    base_spin_unlock(&log->lock);
    return two;
}

/* The next victim of a round, oldest first. */
static uint32_t choose_oldest(struct seglog *log, struct seglog_collector *collector, const struct look *look)
{
    if (collector->round_stamp == 0 && wants_round(log, collector, look)) {
        base_spin_lock(&log->lock);
        collector->round_stamp = log->stamp;
        base_spin_unlock(&log->lock);
        collector->round_tombstone_bytes = counted(&log->tombstone_bytes);
        collector->round_dropped_bytes = 0;
    }
    if (collector->round_stamp == 0 || !has_two_spare(log))
        return SEGLOG_NO_SEGMENT;
    if (look->oldest != SEGLOG_NO_SEGMENT && look->oldest_stamp <= collector->round_stamp)
        return look->oldest;
    if (!look->pinned && !look->held) /* else there may be more of it soon */
        end_round(log, collector, look);
    return SEGLOG_NO_SEGMENT;
}

static uint32_t choose(struct seglog *log, struct seglog_collector *collector, const struct look *look)
{
    if (log->cache) /* moves nothing: what holds something is evicted */
        return look->dead;
    bool gives = look->best != SEGLOG_NO_SEGMENT && gains(log, look->best_bytes);
    if (gives && look->best_bytes <= seglog_record_space(log) / 2)
        return look->best;
    uint32_t oldest = choose_oldest(log, collector, look);
    if (oldest != SEGLOG_NO_SEGMENT)
        return oldest;
    if (gives)
        return look->best;
    return look->least != SEGLOG_NO_SEGMENT && gains(log, look->least_bytes) ? look->least
                                                                             : SEGLOG_NO_SEGMENT;
}

/*
 * In a round: if the oldest of all segments is one that a stream has open and seldom writes to, end it, since
 * no tombstone that is younger can be dropped before. @return 1: it was ended; 0; -EIO; -EROFS
 */
static int end_old_segment(struct seglog *log, const struct seglog_collector *collector, struct look *look)
{
    if (look->open_oldest == SEGLOG_NO_SEGMENT || collector->round_stamp == 0 ||
        look->open_stamp > base_min(look->unfree_stamp, collector->round_stamp) || !has_two_spare(log))
        return 0;
    uint32_t number = atomic_load(&log->segments[look->open_oldest].open_stream);
    if (number == 0)
        return 0;
    int error = seglog_stream_end_segment(&log->streams[number - 1], true);
    if (error == -EBUSY) { /* somebody is about to write there: the round goes on when he has */
        look->pinned = true;
        return 0;
    }
    if (error == 0)
        error = seglog_close_segments(log);
    return error == 0 ? 1 : error;
}

/* Learn when a segment that an earlier session closed expires. */
static void survey(struct seglog *log, struct seglog_collector *collector, uint32_t segment)
{
    const struct seglog_entry_format *entries = NULL;
    uint32_t count = 0;
    if (seglog_summary_read(log, segment, collector->summary, &entries, &count) != 0)
        count = 0;
    seglog_segment_note_ends(log, &log->segments[segment], entries, count);
}

/* @return 0; -ENOSPC; -EAGAIN; -EIO; -EROFS */
static int find_victim(struct seglog *log, struct seglog_collector *collector, uint32_t *ret_segment,
                       uint64_t *ret_bytes)
{
    for (;;) {
        struct look look;
        look_around(log, SEGLOG_NO_SEGMENT, &look);
        int ended = end_old_segment(log, collector, &look);
        if (ended < 0)
            return ended;
        if (ended > 0)
            continue;
        uint32_t segment = choose(log, collector, &look);
        if (segment != SEGLOG_NO_SEGMENT) {
            *ret_segment = segment;
            *ret_bytes = segment == look.best     ? look.best_bytes
                         : segment == look.oldest ? look.oldest_bytes
                                                  : look.least_bytes;
            return 0;
        }
        if (log->cache)
            return -ENOSPC;
        if (look.unknown == SEGLOG_NO_SEGMENT) {
            collector->exhaustion.until_ns = look.ends_ns;
            return look.pinned || !seglog_space_spare(log) ? -EAGAIN : -ENOSPC;
        }
        survey(log, collector, look.unknown);
    }
}

/* ---- collecting ------------------------------------------------------------------------------------ */

void seglog_victim_set_state(struct seglog *log, uint32_t segment, enum seglog_segment_state state)
{
    base_spin_lock(&log->lock);
    log->segments[segment].state = state;
    base_spin_unlock(&log->lock);
}

/* Nothing refers to it any more. @return false: but somebody reads it. It is there for another time */
static bool collected(struct seglog *log, uint32_t number)
{
    struct seglog_segment *segment = &log->segments[number];
    base_spin_lock(&log->lock);
    bool pinned = seglog_segment_is_pinned(log, segment);
    segment->state = pinned ? SEGLOG_STATE_CLOSED : SEGLOG_STATE_COLLECTED;
    if (!pinned)
        seglog_live_reset(log, segment);
    base_spin_unlock(&log->lock);
    return !pinned;
}

static void add_victim(struct seglog *log, struct seglog_collector *collector, uint32_t segment)
{
    struct look look;
    seglog_victim_set_state(log, segment, SEGLOG_STATE_COLLECTING);
    look_around(log, segment, &look);
    collector->oldest_other = look.unfree_stamp;
    if (look.open_oldest != SEGLOG_NO_SEGMENT)
        collector->oldest_other = base_min(look.unfree_stamp, look.open_stamp);
    collector->victims[collector->victim_count++] = (struct seglog_victim){.segment = segment};
}

/* Move the live records of one more victim, `bytes` by estimate. @return as seglog_move_victim() */
static int empty(struct seglog *log, struct seglog_collector *collector, uint32_t segment, uint64_t bytes)
{
    add_victim(log, collector, segment);
    seglog_pace_begin(log, bytes);
    return seglog_move_victim(log, collector);
}

/*
 * Empty victims: one, or as many as have no more to move than half a segment, so that the relocation
 * stream has to take one segment at most. The last may remain unfinished: *ret_unfinished.
 */
static int gather(struct seglog *log, struct seglog_collector *collector, bool *ret_unfinished)
{
    uint64_t all_bytes = 0;
    int error = 0;
    *ret_unfinished = false;
    uint32_t held = collector->victim_count;
    while (error == 0 && collector->victim_count < SEGLOG_VICTIMS_MAX) {
        uint32_t segment;
        uint64_t bytes;
        error = find_victim(log, collector, &segment, &bytes);
        if (error != 0)
            return error;
        all_bytes += bytes;
        if (collector->victim_count > held && all_bytes > seglog_record_space(log) / 2)
            return 0;
        error = empty(log, collector, segment, bytes);
        *ret_unfinished = error != 0;
    }
    return error;
}

/* What is moved is durable, and whatever made the rest dead; then victims are free as soon as the state says
 * so. */
static int free_victims(struct seglog *log, struct seglog_collector *collector, uint32_t *ret_freed)
{
    int error = seglog_sync(log);
    uint32_t freed = 0, held = 0;
    for (uint32_t i = 0; i < collector->victim_count; i++) {
        const struct seglog_victim *victim = &collector->victims[i];
        if (error != 0 || seglog_victim_is_held(log, collector, victim)) {
            collector->victims[held++] = *victim;
            continue;
        }
        if (victim->bad || victim->unfinished)
            seglog_victim_set_state(log, victim->segment,
                                    victim->bad ? SEGLOG_STATE_BAD : SEGLOG_STATE_CLOSED);
        else
            freed += collected(log, victim->segment);
    }
    collector->victim_count = held;
    *ret_freed = freed;
    atomic_fetch_add_explicit(&log->collections, freed, memory_order_relaxed);
    return error != 0 || freed == 0 ? error : seglog_state_write(log, NULL);
}

/*
 * Moving may gain nothing for ever where records fit badly. @return whether something was freed, all told,
 * within as many victims as there are segments
 */
static bool note_progress(struct seglog *log, struct seglog_collector *collector, uint32_t freed)
{
    uint64_t space = seglog_record_space(log);
    base_spin_lock(&log->lock);
    uint64_t segments = log->free_count + atomic_load_explicit(&log->user_taken, memory_order_relaxed);
    uint64_t bytes = segments * space + log->streams[SEGLOG_RELOCATION].room_bytes;
    bool granted = log->grants != collector->grants;
    collector->grants = log->grants;
    base_spin_unlock(&log->lock);
    collector->victims_in_vain += freed;
    if (granted || bytes > collector->best_bytes + space / 256) {
        collector->best_bytes = bytes;
        collector->victims_in_vain = 0;
    }
    if (collector->victims_in_vain <= seglog_segment_count(log))
        return true;
    collector->victims_in_vain = 0;
    collector->exhaustion.in_vain = true;
    return false;
}

const struct seglog_exhaustion *seglog_collect_exhaustion(const struct seglog *log)
{
    return &log->collector->exhaustion;
}

int seglog_collect_segment(struct seglog *log, uint32_t segment)
{
    struct seglog_collector *collector = log->collector;
    uint32_t freed;
    if (collector->victim_count == SEGLOG_VICTIMS_MAX)
        return -EAGAIN;
    collector->gone_sequence = seglog_gone_sequence(log);
    int error = empty(log, collector, segment, counted(&log->segments[segment].live_bytes));
    int publish_error = seglog_move_publish(log, collector);
    collector->victims[collector->victim_count - 1].unfinished = error != 0;
    if (publish_error != 0)
        return publish_error;
    int free_error = free_victims(log, collector, &freed);
    return free_error == 0 ? error : free_error;
}

int seglog_give_up(struct seglog *log, uint32_t segment)
{
    struct seglog_collector *collector = log->collector;
    base_assert(seglog_service_is_self(log));
    base_spin_lock(&log->lock);
    enum seglog_segment_state state = log->segments[segment].state;
    bool pending = atomic_load(&log->segments[segment].pending) > 0;
    base_spin_unlock(&log->lock);
    if (state != SEGLOG_STATE_CLOSED || pending)
        return state == SEGLOG_STATE_BAD ? -EBADMSG : -EAGAIN;
    collector->gives_up = true;
    int error = seglog_collect_segment(log, segment);
    collector->gives_up = false;
    if (error != 0)
        return error;
    state = log->segments[segment].state; /* the service's own, as long as it is neither closed nor free */
    return state == SEGLOG_STATE_BAD ? -EBADMSG : state == SEGLOG_STATE_COLLECTING ? -ENOSPC : 0;
}

int seglog_collect(struct seglog *log)
{
    struct seglog_collector *collector = log->collector;
    bool unfinished;
    collector->gone_sequence = seglog_gone_sequence(log);
    collector->exhaustion = (struct seglog_exhaustion){.chances = atomic_load(&log->chances),
                                                       .until_ns = UINT64_MAX,
                                                       .pressed = atomic_load(&log->space_waiting) > 0};
    int error = gather(log, collector, &unfinished);
    int publish_error = seglog_move_publish(log, collector);
    if (unfinished) /* what was moved of it is dead there now, the rest is for another time */
        collector->victims[collector->victim_count - 1].unfinished = true;
    if (unfinished && error == -ENOSPC)
        error = -EAGAIN; /* there are segments, but others have reserved them */
    if (publish_error != 0)
        return publish_error;
    if (collector->victim_count == 0)
        return log->cache && error == -ENOSPC ? seglog_evict_oldest(log) : error;
    uint32_t freed;
    int free_error = free_victims(log, collector, &freed);
    if (free_error != 0)
        return free_error;
    if (freed == 0)
        return error == 0 ? -EAGAIN : error;
    return log->cache || note_progress(log, collector, freed) ? 0 : -ENOSPC;
}
