/*
 * Making a store larger, while nobody has it open, where its drive has become larger.
 *
 *   new segments begin with zeros ─▶ longer slots of the state, pair by pair ─▶ superblock: the copy, the first
 *      what stood there is none         only if the state needs more blocks        from here on it is larger
 *
 * A cut leaves the old store or the new one. Slots are read with either count of segments.
 */
#include "seglog/seglog_internal.h"
#include <errno.h>
#include <inttypes.h>

/* As many segments as there is room for in the state. */
static uint64_t most_segments(const struct seglog_superblock_format *superblock)
{
    uint64_t slot_room = base_align_down(seglog_state_pair_room(superblock) / 2, superblock->block_bytes);
    uint64_t stamps = (slot_room - sizeof(struct seglog_state_format)) / sizeof(uint64_t);
    return base_min(stamps, (uint64_t)SEGLOG_SEGMENTS_MAX);
}

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
        *ret_bytes = superblock.data_offset + most_segments(&superblock) * superblock.segment_bytes;
    return error;
}

/* @param ret_written  set if something stood there */
static int clear_block(struct drive *drive, uint64_t offset, uint8_t *block, uint32_t block_bytes,
                       bool *ret_written)
{
    int error = seglog_drive_read(drive, offset, block, block_bytes);
    if (error != 0 || base_is_zero(block, block_bytes))
        return error;
    memset(block, 0, block_bytes);
    *ret_written = true;
    return drive_write(drive, offset, block, block_bytes, false);
}

/* A drive may have been used before: where new segments begin and end no header and no trailer may stand. */
static int clear_segments(struct drive *drive, const struct seglog_superblock_format *before,
                          const struct seglog_superblock_format *after, uint8_t *block)
{
    const uint32_t block_bytes = after->block_bytes;
    bool written = false;
    int error = 0;
    for (uint64_t offset = before->store_bytes; offset < after->store_bytes && error == 0;
         offset += after->segment_bytes) {
        error = clear_block(drive, offset, block, block_bytes, &written);
        if (error == 0)
            error =
                clear_block(drive, offset + after->segment_bytes - block_bytes, block, block_bytes, &written);
    }
    return error == 0 && written ? drive_flush(drive) : error;
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
    uint64_t fitting = (drive_info(drive)->bytes - before.data_offset) / before.segment_bytes;
    seglog_superblock_count(&after, base_min(fitting, most_segments(&before)));
    error = options->fill_owner == NULL ? 0 : options->fill_owner(&after);
    if (error != 0)
        return seglog_refuse(node, drive, "no store can be so large", error);
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
