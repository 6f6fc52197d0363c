/*
 * Making a store larger, where its drive has become larger: while nobody has it open, or while it runs.
 *
 *   new segments begin with zeros ─▶ longer slots of the state, pair by pair ─▶ superblock: the copy, the first
 *      what stood there is none         only if the state needs more blocks        from here on it is larger
 *
 * A cut leaves the old store or the new one. Slots are read with either count of segments. README, "Growing".
 */
#include "seglog/seglog_internal.h"
#include <errno.h>
#include <inttypes.h>

static int find(struct tarn_node *node, struct drive *drive, uint32_t owner_kind,
                struct seglog_superblock_format *ret_superblock, int *ret_missing_copy)
{
    const struct seglog_options options = {.owner_kind = owner_kind};
    return seglog_superblock_find(node, drive, &options, ret_superblock, ret_missing_copy);
}

int seglog_growth_limit(struct tarn_node *node, struct drive *drive, uint32_t owner_kind, uint64_t *ret_bytes)
{
    struct seglog_superblock_format superblock;
    int missing_copy, error = find(node, drive, owner_kind, &superblock, &missing_copy);
    if (error == 0)
        *ret_bytes = superblock.data_offset + seglog_segments_most(&superblock) * superblock.segment_bytes;
    return error;
}

static int clear_block(struct drive *drive, uint64_t offset, uint8_t *block, uint32_t block_bytes)
{
    int error = seglog_drive_read(drive, offset, block, block_bytes);
    if (error != 0 || base_is_zero(block, block_bytes))
        return error;
    memset(block, 0, block_bytes);
    return drive_write(drive, offset, block, block_bytes, false);
}

/*
 * A drive may have been used before: where new segments begin and end no header and no trailer may stand. The flush
 * is for the drive's length, too; and zeros that are there may be those of an earlier attempt that was cut off.
 */
static int clear_segments(struct drive *drive, const struct seglog_superblock_format *before,
                          const struct seglog_superblock_format *after, uint8_t *block)
{
    const uint32_t block_bytes = after->block_bytes;
    int error = 0;
    for (uint64_t offset = before->store_bytes; offset < after->store_bytes && error == 0;
         offset += after->segment_bytes) {
        error = clear_block(drive, offset, block, block_bytes);
        if (error == 0)
            error = clear_block(drive, offset + after->segment_bytes - block_bytes, block, block_bytes);
    }
    return error == 0 ? drive_flush(drive) : error;
}

/* Read a good slot of a pair. @param ret_found  whether there is one */
static int read_pair(struct drive *drive, const struct seglog_superblock_format *superblock, uint64_t pair,
                     uint8_t *slot, bool *ret_found)
{
    int error = 0;
    *ret_found = false;
    for (uint64_t try = 0; !*ret_found && try < 2 * SEGLOG_READ_TRIES; try++) {
        uint64_t offset = seglog_state_slot_offset(superblock, 2 * pair + try % 2);
        error = seglog_drive_read(drive, offset, slot, superblock->state_bytes);
        *ret_found = error == 0 && seglog_state_verify((const void *)slot, superblock) == 0;
    }
    return *ret_found ? 0 : error;
}

/* Write what is in the first slot to both, as long as this superblock says. @param slots  two of them */
static int write_pair(struct drive *drive, const struct seglog_superblock_format *superblock, uint64_t pair,
                      uint8_t *slots)
{
    memcpy(slots + superblock->state_bytes, slots, superblock->state_bytes);
    return drive_write(drive, seglog_state_slot_offset(superblock, 2 * pair), slots,
                       2 * superblock->state_bytes, true);
}

/*
 * The second slot of a pair moves back. Where it comes to lie may be where it lay, so the first must be good
 * before that; and it stays as it is. @param slots  two of the longer ones
 */
static int stretch_state(struct drive *drive, const struct seglog_superblock_format *before,
                         const struct seglog_superblock_format *after, uint8_t *slots)
{
    int error = 0;
    for (uint64_t pair = 0; pair < SEGLOG_STATE_SLOTS / 2 && error == 0; pair++) {
        bool found;
        error = read_pair(drive, before, pair, slots, &found);
        if (error != 0 || !found) /* of a store that nobody has opened yet there is but one */
            continue;
        error = write_pair(drive, before, pair, slots);
        memset(slots + before->state_bytes, 0, after->state_bytes - before->state_bytes);
        if (error == 0)
            error = write_pair(drive, after, pair, slots);
    }
    return error;
}

static const char too_large[] = "it is as large as it can become: dump it, and load it into a new one";

static void warn_of_limit(struct tarn_node *node, const struct drive *drive,
                          const struct seglog_superblock_format *superblock, uint64_t segments_most,
                          const char *why)
{
    char limit[BASE_UNITS_ROOM];
    const uint64_t bytes = superblock->data_offset + segments_most * superblock->segment_bytes;
    base_warn(&node->log, "the store cannot take all of its drive", "path=%s most=%s why=\"%s\"",
              drive_name(drive), base_format_size_exact(limit, sizeof(limit), bytes), why);
}

static int grow(struct tarn_node *node, struct drive *drive, const struct seglog_superblock_format *before,
                struct seglog_superblock_format *after)
{
    const size_t memory_bytes = base_max(2 * after->state_bytes, (uint64_t)after->block_bytes);
    uint8_t *memory = drive_memory_alloc(node, drive, memory_bytes);
    if (memory == NULL)
        return -ENOMEM;
    int error = clear_segments(drive, before, after, memory);
    if (error == 0 && after->state_bytes > before->state_bytes)
        error = stretch_state(drive, before, after, memory);
    base_free(&node->memory, memory, memory_bytes);
    return error == 0 ? seglog_superblock_write(node, drive, after) : error;
}

int seglog_grow(struct tarn_node *node, struct drive *drive, const struct seglog_format_options *options,
                struct seglog_growth *ret_growth)
{
    struct seglog_superblock_format before;
    int missing_copy, error = find(node, drive, options->owner_kind, &before, &missing_copy);
    if (error != 0)
        return error;
    struct seglog_superblock_format after = before;
    const uint64_t fitting = (drive_bytes(drive) - before.data_offset) / before.segment_bytes;
    const uint64_t most = seglog_segments_most(&before);
    if (fitting > most)
        warn_of_limit(node, drive, &before, most, too_large);
    seglog_superblock_count(&after, base_min(fitting, most));
    if (after.segment_count > before.segment_count)
        seglog_superblock_append(&after, drive);
    else if (drive_info(drive)->appending)
        return seglog_refuse(node, drive, "the store can take nothing of one more drive", -EFBIG);
    error = options->fill_owner == NULL ? 0 : options->fill_owner(&after);
    if (error != 0)
        return seglog_refuse(node, drive, "no store can be so large", error);
    error = drive_establish(drive);
    if (error != 0)
        return seglog_refuse(node, drive, "the drive cannot be appended", error);
    if (after.segment_count > before.segment_count)
        error = grow(node, drive, &before, &after);
    else /* one that was cut off at its end may have left it */
        error = seglog_superblock_complete(node, drive, &before, missing_copy, false);
    if (error != 0)
        base_error(&node->log, "the store could not be made larger", "path=%s error=\"%s\"",
                   drive_name(drive), strerrordesc_np(-error));
    *ret_growth =
        (struct seglog_growth){.before_bytes = before.store_bytes, .after_bytes = after.store_bytes};
    return error;
}

/* ---- while it runs --------------------------------------------------------------------------------- */

/* A growth on its way, with the memory that it takes. */
struct extension {
    struct seglog *log;
    struct seglog_superblock_format before, after;
    uint8_t *block;
    struct seglog_state_format *state, *next_state; /* NULL: they stay as they are */
    uint64_t charged_bytes;                         /* of segments and covers */
};

static void free_extension(struct extension *extension)
{
    struct base_account *account = &extension->log->node->memory;
    base_free(account, extension->block, extension->after.block_bytes);
    base_free(account, extension->state, extension->after.state_bytes);
    base_free(account, extension->next_state, 2 * extension->after.state_bytes);
    base_account_give(account, extension->charged_bytes);
}

/* All that is needed, so that nothing can be missing in the middle. */
static int take_memory(struct extension *extension)
{
    const struct seglog *log = extension->log;
    struct base_account *account = &log->node->memory;
    const struct seglog_superblock_format *before = &extension->before, *after = &extension->after;
    const uint64_t bytes = (uint64_t)(after->segment_count - before->segment_count) *
                           (sizeof(*log->segments) + sizeof(*log->checkpoints.covers));
    int error = base_account_take(account, bytes);
    if (error != 0)
        return error;
    extension->charged_bytes = bytes;
    extension->block = drive_memory_alloc(log->node, log->drive, after->block_bytes);
    if (extension->block == NULL)
        return -ENOMEM;
    if (after->state_bytes == before->state_bytes)
        return 0;
    extension->state = base_alloc(account, after->state_bytes);
    extension->next_state = drive_memory_alloc(log->node, log->drive, 2 * after->state_bytes);
    return extension->state == NULL || extension->next_state == NULL ? -ENOMEM : 0;
}

/*
 * The superblock in memory follows the one on the drive. What was charged, and the memory of the state, are the
 * log's. The state's mutex is held.
 */
static void take_over(struct extension *extension)
{
    struct seglog *log = extension->log;
    const struct seglog_superblock_format *after = &extension->after;
    log->superblock.segment_count = after->segment_count;
    log->superblock.store_bytes = after->store_bytes;
    log->superblock.state_bytes = after->state_bytes;
    log->superblock.check = after->check;
    if (extension->state != NULL)
        seglog_state_stretched(log, extension->before.state_bytes, extension->next_state, extension->state);
    extension->state = extension->next_state = NULL;
    extension->charged_bytes = 0;
}

/* New segments are in the list of free ones as soon as anybody can see them; at its front, as nothing in them is
 * to be discarded. */
static void publish_segments(struct seglog *log, uint32_t from, uint32_t to)
{
    for (uint32_t begin = from; begin < to; begin += SEGLOG_SEGMENTS_AT_ONCE) {
        const uint32_t end = base_min(begin + SEGLOG_SEGMENTS_AT_ONCE, to);
        for (uint32_t i = begin; i < end; i++)
            log->segments[i].state = SEGLOG_STATE_FREE; /* touched without the lock */
        base_spin_lock(&log->lock);
        for (uint32_t i = end; i-- > begin;)
            base_list_push_front(&log->free, &log->segments[i].link);
        log->free_count += end - begin;
        /* Pairs with the acquire in seglog_segment_count(). */
        atomic_store_explicit(&log->segment_count, end, memory_order_release);
        base_spin_unlock(&log->lock);
    }
    atomic_store(&log->checkpoints.outdated, true);
    seglog_space_freed(log);
    seglog_space_chance(log);
    seglog_poke(log);
}

/* Write what makes it larger. The state's mutex is held; a caller that notes features has waited for it, or waits. */
static int write_larger(struct extension *extension)
{
    struct seglog *log = extension->log;
    struct seglog_superblock_format *after = &extension->after;
    after->incompatible = log->superblock.incompatible;
    int error = seglog_failed(log) ? -EROFS : 0;
    if (error == 0 && extension->state != NULL)
        error = stretch_state(log->drive, &extension->before, after, (uint8_t *)extension->next_state);
    if (error == 0)
        error = seglog_superblock_write(log->node, log->drive, after);
    if (error == 0) {
        take_over(extension);
        publish_segments(log, extension->before.segment_count, after->segment_count);
    }
    return error;
}

static int extend(struct extension *extension)
{
    struct seglog *log = extension->log;
    int error = take_memory(extension);
    if (error == 0)
        error = clear_segments(log->drive, &extension->before, &extension->after, extension->block);
    if (error == 0) {
        task_mutex_lock_firmly(&log->state_mutex);
        error = write_larger(extension);
        task_mutex_unlock(&log->state_mutex);
    }
    free_extension(extension);
    if (error == 0 || !drive_failed(log->drive))
        return error;
    seglog_fail(log, "a larger store", extension->before.store_bytes, error);
    return error == -EROFS ? -EROFS : -EIO;
}

/* As many segments as there can be. Logs what stands in the way of more. */
static uint64_t count_fitting(struct seglog *log, uint64_t drive_bytes, const struct seglog_bound *bound)
{
    const struct seglog_superblock_format *superblock = &log->superblock;
    const uint64_t data_offset = superblock->data_offset, segment_bytes = superblock->segment_bytes;
    uint64_t fitting = (drive_bytes - data_offset) / segment_bytes;
    uint64_t allowed = (base_max(bound->bytes, data_offset) - data_offset) / segment_bytes;
    uint64_t most = base_min(allowed, (uint64_t)log->segments_room);
    if (fitting > most)
        warn_of_limit(log->node, log->drive, superblock, most,
                      allowed < log->segments_room ? bound->why : too_large);
    return base_min(fitting, most);
}

/* The growth's mutex is held. */
static int extend_to_drive(struct seglog *log, const struct seglog_bound *bound,
                           struct seglog_growth *ret_growth)
{
    uint64_t drive_bytes;
    int error = seglog_failed(log) ? -EROFS : drive_extend(log->drive, &drive_bytes);
    if (error != 0)
        return error;
    task_mutex_lock_firmly(&log->state_mutex);
    struct extension extension = {.log = log, .before = log->superblock, .after = log->superblock};
    task_mutex_unlock(&log->state_mutex);
    const struct seglog_superblock_format *before = &extension.before;
    uint64_t count = count_fitting(log, drive_bytes, bound);
    *ret_growth =
        (struct seglog_growth){.before_bytes = before->store_bytes, .after_bytes = before->store_bytes};
    if (count <= before->segment_count) {
        bool more = drive_bytes - before->store_bytes >= before->segment_bytes;
        if (!more)
            base_info(&log->node->log, "the store has all of its drive", "path=%s", drive_name(log->drive));
        return more ? -EFBIG : 0;
    }
    seglog_superblock_count(&extension.after, count);
    error = extend(&extension);
    if (error == 0)
        ret_growth->after_bytes = extension.after.store_bytes;
    return error;
}

int seglog_extend(struct seglog *log, const struct seglog_bound *bound, struct seglog_growth *ret_growth)
{
    base_assert(log->started && !log->stopped);
    task_mutex_lock_firmly(&log->growth_mutex);
    int error = extend_to_drive(log, bound, ret_growth);
    task_mutex_unlock(&log->growth_mutex);
    char before[BASE_UNITS_ROOM], after[BASE_UNITS_ROOM];
    if (error != 0)
        base_error(&log->node->log, "the store has not become larger", "path=%s error=\"%s\"",
                   drive_name(log->drive), strerrordesc_np(-error));
    else if (ret_growth->after_bytes > ret_growth->before_bytes)
        base_info(&log->node->log, "the store has grown", "path=%s before=\"%s\" after=\"%s\"",
                  drive_name(log->drive), base_format_size(before, sizeof(before), ret_growth->before_bytes),
                  base_format_size(after, sizeof(after), ret_growth->after_bytes));
    return error;
}
