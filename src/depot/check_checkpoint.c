/*
 * Proving the checkpoint: that it reads back whole, and that it names the records that the summaries name, of
 * those that it is about. Its addresses are kept in a table that check_keys.c asks.
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

/* Reads it entry by entry: first to count those that it is about, then to put them into the table. */
struct entries {
    struct depot_check *check;
    const struct depot_index *index; /* knows the widths */
    uint8_t unit[sizeof(struct depot_checkpoint_entry_format)];
    uint32_t unit_bytes;
    uint64_t units; /* that were read */
    uint64_t count;
};

static int look_at_unit(struct entries *entries)
{
    struct depot_check *check = entries->check;
    struct depot_checkpoint_entry_format entry;
    memcpy(&entry, entries->unit, sizeof(entry));
    uint64_t unit = entries->units++;
    if (unit == 0)
        return base_load_le64(entries->unit) == DEPOT_CHECKPOINT_MAGIC ? 0 : -EINVAL;
    if (unit == 1) {
        memcpy(&check->named_pieces, entries->unit, sizeof(check->named_pieces));
        return 0;
    }
    uint64_t grain = depot_index_address(entries->index, entry.word);
    if (seglog_stamp_at(check->log, grain) == 0)
        return -EINVAL;
    if (!seglog_is_covered(check->log, grain))
        return 0;
    entries->count++;
    if (check->named == NULL)
        return 0;
    uint64_t *slot = slot_of(check, grain);
    int error = *slot == grain ? -EINVAL : 0; /* twice */
    *slot = grain;
    return error;
}

static int consume(void *arg, const void *data, uint64_t bytes)
{
    struct entries *entries = arg;
    int error = 0;
    for (uint64_t i = 0; error == 0 && i < bytes; i++) {
        entries->unit[entries->unit_bytes++] = ((const uint8_t *)data)[i];
        if (entries->unit_bytes < sizeof(entries->unit))
            continue;
        error = look_at_unit(entries);
        entries->unit_bytes = 0;
    }
    entries->check->report.bytes_read += bytes;
    return error;
}

/* @return 0; -EINVAL: it contradicts itself; as seglog_checkpoint_read() */
static int read_through(struct depot_check *check, const struct depot_index *index, uint64_t *ret_count)
{
    struct entries entries = {.check = check, .index = index};
    int error = seglog_checkpoint_read(check->log, consume, &entries);
    *ret_count = entries.count;
    return error == 0 && (entries.units < 2 || entries.unit_bytes != 0) ? -EINVAL : error;
}

static int fill_table(struct depot_check *check, const struct depot_index *index)
{
    uint64_t count;
    int error = read_through(check, index, &count);
    if (error != 0)
        return error;
    check->named_slots = 2 * count + 1;
    check->named = base_alloc(&check->node->memory, check->named_slots * sizeof(uint64_t));
    return check->named == NULL ? -ENOMEM : read_through(check, index, &check->named_count);
}

int depot_check_checkpoint(struct depot_check *check, const struct depot_index_widths *widths)
{
    struct depot_index index;
    struct seglog_stats stats;
    seglog_stats(check->log, &stats);
    if (stats.checkpoints_damaged > 0)
        depot_check_fault(check, DEPOT_INVARIANT_CHECKPOINT, "a checkpoint is damaged");
    if (!seglog_checkpoint_found(check->log))
        return 0;
    int error = depot_index_init(&index, &check->node->memory, widths);
    if (error != 0)
        return error;
    error = fill_table(check, &index);
    depot_index_deinit(&index);
    if (error != -EBADMSG && error != -EINVAL)
        return error;
    depot_check_fault(check, DEPOT_INVARIANT_CHECKPOINT, "the checkpoint %s",
                      error == -EINVAL ? "contradicts itself" : "is damaged");
    depot_check_checkpoint_deinit(check);
    return 0;
}

void depot_check_checkpoint_deinit(struct depot_check *check)
{
    base_free(&check->node->memory, check->named, check->named_slots * sizeof(uint64_t));
    check->named = NULL;
}

void depot_check_index(struct depot_check *check)
{
    if (check->named == NULL ||
        (check->names_met == check->named_count && check->unnamed == 0 && check->misnamed == 0))
        return;
    depot_check_fault(check, DEPOT_INVARIANT_INDEX,
                      "of %" PRIu64 " records that the checkpoint names, %" PRIu64 " are there; %" PRIu64
                      " are not named and count, of %" PRIu64 " keys another is named",
                      check->named_count, check->names_met, check->unnamed, check->misnamed);
}
