/*
 * The state: what changes about a store as a whole. It is written whole, in pairs of equal slots, so that a
 * cut leaves the generation before it.
 */
#include "seglog/seglog_internal.h"
#include <errno.h>
#include <inttypes.h>

static uint64_t pair_bytes(const struct seglog *log)
{
    return 2 * log->superblock.state_bytes;
}

static struct seglog_state_format *second_slot(struct seglog *log)
{
    return (void *)((uint8_t *)log->next_state + log->superblock.state_bytes);
}

/* ---- loading ------------------------------------------------------------------------------------- */

/* Of segments that came when the store grew it says nothing. */
static void forget_rest(const struct seglog *log, struct seglog_state_format *state)
{
    uint64_t said = sizeof(*state) + state->segment_count * sizeof(state->freed_stamps[0]);
    memset((uint8_t *)state + said, 0, log->superblock.state_bytes - said);
}

/* @param ret_good  whether the slot is a good state; next_state holds it then */
static int read_slot(struct seglog *log, uint64_t slot, bool *ret_good)
{
    int error = 0;
    *ret_good = false;
    for (int try = 0; error == 0 && !*ret_good && try < SEGLOG_READ_TRIES; try++) {
        error = seglog_drive_read(log->drive, seglog_state_slot_offset(&log->superblock, slot),
                                  log->next_state, log->superblock.state_bytes);
        *ret_good = error == 0 && seglog_state_verify(log->next_state, &log->superblock) == 0;
    }
    if (*ret_good)
        forget_rest(log, log->next_state);
    return error;
}

/* The newest of all good slots. One that cannot be read counts as damaged if its twin is good. */
static int read_newest(struct seglog *log, uint64_t *ret_generation)
{
    uint64_t newest = 0, bad_slots = 0;
    for (uint64_t pair = 0; pair < SEGLOG_STATE_SLOTS / 2; pair++) {
        bool any_good = false;
        int pair_error = 0;
        for (uint64_t slot = 2 * pair; slot < 2 * pair + 2; slot++) {
            bool good;
            int error = read_slot(log, slot, &good);
            pair_error = error != 0 ? error : pair_error;
            any_good = any_good || good;
            bad_slots += !good;
            if (good && log->next_state->generation > newest) {
                newest = log->next_state->generation;
                memcpy(log->state, log->next_state, log->superblock.state_bytes);
            }
        }
        if (!any_good && pair_error != 0)
            return pair_error;
    }
    /* the first generation stands in one pair alone */
    if (newest > 1 && bad_slots > 0)
        base_warn(&log->node->log, "copies of the state are cut off or damaged, another one is used",
                  "path=%s copies=%" PRIu64, drive_name(log->drive), bad_slots);
    *ret_generation = newest;
    return 0;
}

/* Numbers go on where the state bounds them: none below that is given out again. */
static void continue_from_state(struct seglog *log)
{
    const struct seglog_state_format *state = log->state;
    atomic_store_explicit(&log->generation, state->generation, memory_order_relaxed);
    atomic_store_explicit(&log->wall_durable_ns, state->wall_ns, memory_order_relaxed);
    atomic_store_explicit(&log->sequence, state->sequence_bound, memory_order_relaxed);
    atomic_store_explicit(&log->sequence_bound, state->sequence_bound, memory_order_relaxed);
    log->stamp = state->stamp_bound - 1;
    log->stamp_bound = state->stamp_bound;
    log->horizon_sequence = state->horizon_sequence;
    log->loss_sequence = state->loss_sequence;
    log->session = state->session + !log->read_only;
}

int seglog_state_load(struct seglog *log)
{
    log->state = base_alloc(&log->node->memory, log->superblock.state_bytes);
    log->next_state = drive_memory_alloc(log->node, log->drive, pair_bytes(log));
    if (log->state == NULL || log->next_state == NULL)
        return seglog_refuse(log->node, log->drive, "there is too little memory", -ENOMEM);
    uint64_t generation = 0;
    int error = read_newest(log, &generation);
    if (error != 0)
        return seglog_refuse(log->node, log->drive, "its state cannot be read", error);
    if (generation == 0)
        return seglog_refuse(log->node, log->drive,
                             "all copies of its state are damaged: restore it from a dump", -EUCLEAN);
    continue_from_state(log);
    return 0;
}

void seglog_state_deinit(struct seglog *log)
{
    base_free(&log->node->memory, log->state, log->superblock.state_bytes);
    base_free(&log->node->memory, log->next_state, pair_bytes(log));
    log->state = NULL;
    log->next_state = NULL;
}

/* A caller that reads the state without the mutex holds the log's lock. */
void seglog_state_stretched(struct seglog *log, uint64_t before_bytes, struct seglog_state_format *next_state,
                            struct seglog_state_format *state)
{
    struct seglog_state_format *old = log->state, *old_next = log->next_state;
    memcpy(state, old, before_bytes);
    base_spin_lock(&log->lock);
    log->state = state;
    base_spin_unlock(&log->lock);
    log->next_state = next_state;
    base_free(&log->node->memory, old, before_bytes);
    base_free(&log->node->memory, old_next, 2 * before_bytes);
}

/* ---- writing ------------------------------------------------------------------------------------- */

/* Write next_state to both slots of its pair, at once. */
static int write_pair_locked(struct seglog *log)
{
    task_mutex_assert_held(&log->state_mutex);
    memcpy(second_slot(log), log->next_state, log->superblock.state_bytes);
    uint64_t offset = seglog_state_slot_offset(&log->superblock, log->next_state->generation % 2 * 2);
    int error = drive_write(log->drive, offset, log->next_state, pair_bytes(log), true);
    if (error != 0) {
        seglog_fail(log, "the state", offset, error);
        return -EIO; /* also when the drive refused it: another write may have failed while this one was on
                        its way */
    }
    atomic_fetch_add_explicit(&log->state_writes, 1, memory_order_relaxed);
    seglog_count_write(log, pair_bytes(log));
    return 0;
}

int seglog_state_settle(struct seglog *log)
{
    task_mutex_lock_firmly(&log->state_mutex);
    memcpy(log->next_state, log->state, log->superblock.state_bytes);
    int error = write_pair_locked(log);
    task_mutex_unlock(&log->state_mutex);
    return error;
}

int seglog_state_loss_write(struct seglog *log)
{
    const uint64_t loss = seglog_loss_sequence(log);
    struct seglog_state_format *next = log->next_state;
    task_mutex_lock_firmly(&log->state_mutex);
    memcpy(next, log->state, log->superblock.state_bytes);
    next->generation++;
    if (log->cache)
        next->horizon_sequence = base_max(next->horizon_sequence, loss);
    else
        next->loss_sequence = loss;
    seglog_state_seal(next, &log->superblock);
    int error = write_pair_locked(log);
    if (error == 0) {
        *log->state = *next;
        log->horizon_sequence = next->horizon_sequence;
        atomic_store_explicit(&log->generation, next->generation, memory_order_relaxed);
    }
    task_mutex_unlock(&log->state_mutex);
    return error;
}

/* Freed stamps as they are in memory, those of collected and evicted segments raised. */
static void fill_freed_stamps(struct seglog *log)
{
    for (uint32_t begin = 0; begin < log->superblock.segment_count; begin += SEGLOG_SEGMENTS_AT_ONCE) {
        uint32_t end = base_min(begin + SEGLOG_SEGMENTS_AT_ONCE, log->superblock.segment_count);
        base_spin_lock(&log->lock);
        for (uint32_t i = begin; i < end; i++) {
            struct seglog_segment *segment = &log->segments[i];
            if (segment->state == SEGLOG_STATE_COLLECTED || segment->state == SEGLOG_STATE_EVICTED)
                segment->freed_stamp = segment->stamp;
            log->next_state->freed_stamps[i] = segment->freed_stamp;
        }
        base_spin_unlock(&log->lock);
    }
}

/* Which segments of records there are at a good end, in two numbers: the next opening misses none unseen. */
static void fill_closed(struct seglog *log)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < log->superblock.segment_count; i++) { /* nothing runs any more: no lock */
        const struct seglog_segment *segment = &log->segments[i];
        if (segment->state != SEGLOG_STATE_CLOSED && segment->state != SEGLOG_STATE_BAD)
            continue;
        count++;
        log->next_state->closed_stamps += segment->stamp;
    }
    log->next_state->closed_count = count + 1;
}

/* Segments whose freed stamp has just become durable are free; what was collected meanwhile waits. */
static bool free_collected(struct seglog *log)
{
    bool any = false;
    for (uint32_t begin = 0; begin < log->superblock.segment_count; begin += SEGLOG_SEGMENTS_AT_ONCE) {
        uint32_t end = base_min(begin + SEGLOG_SEGMENTS_AT_ONCE, log->superblock.segment_count);
        base_spin_lock(&log->lock);
        for (uint32_t i = begin; i < end; i++) {
            struct seglog_segment *segment = &log->segments[i];
            if (segment->state != SEGLOG_STATE_COLLECTED || segment->freed_stamp != segment->stamp)
                continue;
            seglog_segment_freed_locked(log, segment);
            any = true;
        }
        base_spin_unlock(&log->lock);
    }
    return any;
}

/* After the freed stamps: the horizon of each evicted segment that they have was raised before. */
static void fill_horizon(struct seglog *log)
{
    base_spin_lock(&log->lock);
    log->next_state->horizon_sequence = log->horizon_sequence;
    base_spin_unlock(&log->lock);
}

/* The numbers that a state bounds: a block ahead of what is given out, and never lower than they were. */
static void fill_bounds(struct seglog *log, bool ended)
{
    struct seglog_state_format *next = log->next_state;
    uint64_t sequence = atomic_load_explicit(&log->sequence, memory_order_relaxed);
    base_spin_lock(&log->lock);
    uint64_t stamp = log->stamp;
    base_spin_unlock(&log->lock);
    next->sequence_bound = base_max(next->sequence_bound, sequence + (ended ? 0 : SEGLOG_SEQUENCE_BLOCK));
    next->stamp_bound = base_max(next->stamp_bound, stamp + 1 + (ended ? 0 : SEGLOG_STAMP_BLOCK));
}

static void fill_next_locked(struct seglog *log, const struct seglog_state_change *change)
{
    task_mutex_assert_held(&log->state_mutex);
    struct seglog_state_format *next = log->next_state;
    memcpy(next, log->state, log->superblock.state_bytes);
    next->generation++;
    next->session = log->session;
    next->flags = change->ended ? SEGLOG_STATE_ENDED : 0;
    next->wall_ns = base_max(next->wall_ns, change->wall_ns);
    next->flush_sequence = base_max(next->flush_sequence, change->flush_sequence);
    if (change->set_flush_when)
        next->flush_when_ns = change->flush_when_ns;
    memset(next->reserved, 0, sizeof(next->reserved));
    next->loss_sequence = seglog_loss_sequence(log);
    next->boot = task_boot(log->node);
    next->closed_count = 0;
    next->closed_stamps = 0;
    fill_bounds(log, change->ended);
    fill_freed_stamps(log);
    if (change->ended)
        fill_closed(log);
    fill_horizon(log);
    seglog_state_seal(next, &log->superblock);
}

/* next_state is durable: it is the state. */
static void publish_locked(struct seglog *log)
{
    task_mutex_assert_held(&log->state_mutex);
    base_spin_lock(&log->lock);
    *log->state = *log->next_state;
    log->stamp_bound = log->state->stamp_bound;
    base_spin_unlock(&log->lock);
    memcpy(log->state->freed_stamps, log->next_state->freed_stamps,
           log->superblock.segment_count * sizeof(uint64_t));
    atomic_store_explicit(&log->generation, log->state->generation, memory_order_relaxed);
    /* Pairs with the acquire in seglog_wall_note(). */
    atomic_store_explicit(&log->wall_durable_ns, log->state->wall_ns, memory_order_release);
    /* Pairs with the acquire in draw_sequence(). */
    atomic_store_explicit(&log->sequence_bound, log->state->sequence_bound, memory_order_release);
    if (free_collected(log))
        seglog_space_freed(log);
}

static int write_locked(struct seglog *log, const struct seglog_state_change *change)
{
    task_mutex_assert_held(&log->state_mutex);
    if (seglog_failed(log) || log->read_only)
        return -EROFS;
    fill_next_locked(log, change);
    int error = write_pair_locked(log);
    if (error == 0)
        publish_locked(log);
    return error;
}

int seglog_state_write(struct seglog *log, const struct seglog_state_change *change)
{
    static const struct seglog_state_change nothing = {.wall_ns = 0};
    task_mutex_lock_firmly(&log->state_mutex);
    int error = write_locked(log, change == NULL ? &nothing : change);
    task_mutex_unlock(&log->state_mutex);
    return error;
}

/* ---- what it says -------------------------------------------------------------------------------- */

void seglog_points(struct seglog *log, struct seglog_points *ret_points)
{
    base_spin_lock(&log->lock);
    *ret_points = (struct seglog_points){
        .flush_sequence = log->state->flush_sequence,
        .horizon_sequence = log->state->horizon_sequence,
        .flush_when_ns = log->state->flush_when_ns,
        .wall_ns = log->state->wall_ns,
    };
    base_spin_unlock(&log->lock);
}

uint64_t seglog_gone_sequence(struct seglog *log)
{
    struct seglog_points points;
    seglog_points(log, &points);
    return base_max(points.flush_sequence, points.horizon_sequence);
}

uint64_t seglog_loss_sequence(const struct seglog *log)
{
    return atomic_load_explicit(&log->loss_sequence, memory_order_relaxed);
}

void seglog_loss_forget(struct seglog *log)
{
    atomic_store_explicit(&log->loss_sequence, 0, memory_order_relaxed);
}

void seglog_horizon_raise(struct seglog *log, uint64_t sequence)
{
    base_assert(!log->started && sequence <= seglog_sequence_next(log));
    log->horizon_sequence = base_max(log->horizon_sequence, sequence);
}

int seglog_flush_point_set(struct seglog *log, uint64_t sequence, uint64_t when_ns)
{
    base_assert(sequence <= seglog_sequence_next(log));
    return seglog_state_write(log, &(struct seglog_state_change){.flush_sequence = sequence,
                                                                 .set_flush_when = true,
                                                                 .flush_when_ns = when_ns});
}

static bool wall_is_durable(struct seglog *log, uint64_t wall_ns)
{
    /* Pairs with the release in publish_locked(). */
    return atomic_load_explicit(&log->wall_durable_ns, memory_order_acquire) >= wall_ns;
}

int seglog_wall_note(struct seglog *log, uint64_t needed_ns, uint64_t noted_ns)
{
    if (wall_is_durable(log, needed_ns))
        return 0;
    const struct seglog_state_change change = {.wall_ns = noted_ns};
    task_mutex_lock_firmly(&log->state_mutex);
    int error = wall_is_durable(log, needed_ns) ? 0 : write_locked(log, &change);
    task_mutex_unlock(&log->state_mutex);
    return error;
}

/* @return false: the block is used up */
static bool draw_sequence(struct seglog *log, uint64_t *ret_sequence)
{
    uint64_t sequence = atomic_load_explicit(&log->sequence, memory_order_relaxed);
    /* Pairs with the release in publish_locked(). */
    while (sequence < atomic_load_explicit(&log->sequence_bound, memory_order_acquire)) {
        if (atomic_compare_exchange_weak_explicit(&log->sequence, &sequence, sequence + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            *ret_sequence = sequence;
            return true;
        }
    }
    return false;
}

int seglog_sequence_draw(struct seglog *log, uint64_t *ret_sequence)
{
    if (draw_sequence(log, ret_sequence))
        return 0;
    static const struct seglog_state_change nothing = {.wall_ns = 0};
    task_mutex_lock_firmly(&log->state_mutex);
    int error = 0;
    while (error == 0 && !draw_sequence(log, ret_sequence))
        error = write_locked(log, &nothing);
    task_mutex_unlock(&log->state_mutex);
    return error;
}

uint64_t seglog_sequence_next(struct seglog *log)
{
    return atomic_load_explicit(&log->sequence, memory_order_relaxed);
}
