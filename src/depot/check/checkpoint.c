/*
 * Proving the checkpoint: that it reads back whole, and that it names the records that the summaries name, of
 * those that it is about. Its addresses are kept in a table that keys.c asks.
 */
#include "depot/checkpoint.h"
#include "depot/check/check_internal.h"
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

/* Reading it: first to count those that it is about, then to put them into the table. */
struct naming {
    struct depot_check *check;
    const struct depot_index *index; /* knows the widths */
    uint64_t count;
};

static int name(void *arg, const struct depot_index_item *items, uint32_t count)
{
    struct naming *naming = arg;
    struct depot_check *check = naming->check;
    naming->count += count;
    for (uint32_t i = 0; i < count && check->named != NULL; i++) {
        uint64_t grain = depot_index_address(naming->index, items[i].word);
        uint64_t *slot = slot_of(check, grain);
        if (*slot == grain)
            return -EINVAL; /* twice */
        *slot = grain;
    }
    return 0;
}

/* @return as depot_checkpoint_read() */
static int read_through(struct depot_check *check, const struct depot_index *index, uint64_t *ret_count)
{
    static const struct depot_checkpoint_ops ops = {.take = name};
    struct naming naming = {.check = check, .index = index};
    uint64_t bytes;
    int error = depot_checkpoint_read(check->log, index, &ops, &naming, &check->named_head, &bytes);
    check->report.bytes_read += bytes;
    *ret_count = naming.count;
    return error;
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
