/*
 * Proving the checkpoint: that it reads back whole, and that it names the records that the summaries name. Of
 * equal copies of a value it may name any, so its addresses are kept in a table that check_keys.c asks.
 */
#include "depot/check_internal.h"
#include <errno.h>
#include <inttypes.h>

/* The slot of an address: its own, or the empty one that it would get. */
static uint64_t *slot_of(const struct depot_check *check, uint64_t grain)
{
    uint64_t slot = base_hash64(&grain, sizeof(grain), 0) % check->named_slots;
    while (check->named[slot] != 0 && check->named[slot] != grain)
        slot = slot + 1 == check->named_slots ? 0 : slot + 1;
    return &check->named[slot];
}

bool depot_check_is_named(const struct depot_check *check, uint64_t grain)
{
    return check->named != NULL && *slot_of(check, grain) == grain;
}

/* @param entries  as they lie in the checkpoint */
static int fill_table(struct depot_check *check, const uint8_t *entries,
                      const struct depot_index_widths *widths)
{
    struct depot_index index;
    int error = depot_index_init(&index, &check->node->memory, widths);
    if (error != 0)
        return error;
    check->named_slots = 2 * check->named_count + 1;
    check->named = base_alloc(&check->node->memory, check->named_slots * sizeof(uint64_t));
    for (uint64_t i = 0; check->named != NULL && i < check->named_count; i++) {
        struct depot_checkpoint_entry_format entry;
        memcpy(&entry, entries + i * sizeof(entry), sizeof(entry));
        uint64_t grain = depot_index_address(&index, entry.word);
        *slot_of(check, grain) = grain;
    }
    depot_index_deinit(&index);
    return check->named == NULL ? -ENOMEM : 0;
}

static int read_entries(struct depot_check *check, const uint8_t *data, uint64_t bytes,
                        const struct depot_index_widths *widths)
{
    struct depot_checkpoint_format header = {.segments = 0};
    const uint64_t before =
        sizeof(header) + check->superblock->segment_count * sizeof(struct depot_checkpoint_segment_format);
    const uint64_t count = (bytes - before) / sizeof(struct depot_checkpoint_entry_format);
    if (bytes >= before)
        memcpy(&header, data, sizeof(header));
    if (header.segments != check->superblock->segment_count || header.entries != count ||
        (bytes - before) % sizeof(struct depot_checkpoint_entry_format) != 0) {
        depot_check_fault(check, DEPOT_INVARIANT_CHECKPOINT, "the checkpoint contradicts itself");
        return 0;
    }
    check->named_count = count;
    return fill_table(check, data + before, widths);
}

int depot_check_checkpoint(struct depot_check *check, const struct depot_index_widths *widths)
{
    uint64_t bytes;
    if (check->state->checkpoint_stamp == 0)
        return 0;
    seglog_checkpoint_find(check->log, &bytes);
    uint8_t *data = base_alloc(&check->node->memory, bytes);
    if (data == NULL)
        return -ENOMEM;
    int error = seglog_checkpoint_read(check->log, data);
    check->report.bytes_read += bytes;
    if (error == 0) {
        error = read_entries(check, data, bytes, widths);
    } else if (error == -EBADMSG) {
        depot_check_fault(check, DEPOT_INVARIANT_CHECKPOINT, "the checkpoint is damaged");
        error = 0;
    }
    base_free(&check->node->memory, data, bytes);
    return error;
}

void depot_check_checkpoint_deinit(struct depot_check *check)
{
    base_free(&check->node->memory, check->named, check->named_slots * sizeof(uint64_t));
}

void depot_check_index(struct depot_check *check)
{
    if (check->named == NULL || (check->values_named == check->values && check->named_count == check->values))
        return;
    depot_check_fault(check, DEPOT_INVARIANT_INDEX,
                      "the checkpoint names %" PRIu64 " records, the summaries %" PRIu64 ", and %" PRIu64
                      " are the same",
                      check->named_count, check->values, check->values_named);
}
