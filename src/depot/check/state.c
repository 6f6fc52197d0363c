/*
 * Proving the slots of the state. One that does not verify may be damaged, or torn: a write of its pair was
 * cut. Only where the newest state says that its session has ended in good order can the two be told apart:
 * that session has written the generation before, too, and the one before that was whole when it began. So
 * every generation up to the newest was whole, or its last write was cut: a sector of it is the same in both
 * slots.
 */
#include "depot/check/check_internal.h"
#include <errno.h>
#include <inttypes.h>

#define PAIR_SLOTS 2

static const struct seglog_state_format *slot_of(const struct depot_check *check, uint32_t slot)
{
    return (const void *)(check->slots + slot * check->superblock->state_bytes);
}

static void find_newest(struct depot_check *check, bool good[SEGLOG_STATE_SLOTS])
{
    for (uint32_t slot = 0; slot < SEGLOG_STATE_SLOTS; slot++) {
        const struct seglog_state_format *state = slot_of(check, slot);
        good[slot] = seglog_state_verify(state, check->superblock) == 0;
        if (good[slot] && state->generation > check->state->generation)
            memcpy(check->state, state, check->superblock->state_bytes);
    }
}

static void check_good_slot(struct depot_check *check, uint32_t slot)
{
    uint64_t generation = slot_of(check, slot)->generation;
    if (generation % 2 != slot / PAIR_SLOTS)
        depot_check_fault(check, DEPOT_INVARIANT_STATE,
                          "slot %" PRIu32 " of the state has generation %" PRIu64
                          ", which belongs into the other pair",
                          slot, generation);
}

/* Whether a generation may stand in a torn slot: the one that was written, or the one that was there before.
 */
static bool is_possible(uint64_t generation, uint64_t newest, uint32_t pair)
{
    uint64_t written = newest % 2 == pair ? newest : newest + 1;
    return generation == written || generation + 2 == written;
}

static void check_bad_slot(struct depot_check *check, uint32_t slot)
{
    const struct seglog_state_format *state = slot_of(check, slot), *twin = slot_of(check, slot ^ 1);
    uint64_t newest = check->state->generation;
    if ((check->state->flags & SEGLOG_STATE_ENDED) == 0 || newest == 1)
        return;
    bool damaged =
        state->magic != check->state->magic || !is_possible(state->generation, newest, slot / PAIR_SLOTS);
    if (!damaged && state->generation == twin->generation && state->generation <= newest)
        damaged = memcmp(state, twin, DRIVE_SECTOR_BYTES) != 0;
    if (damaged)
        depot_check_fault(check, DEPOT_INVARIANT_STATE, "slot %" PRIu32 " of the state is damaged", slot);
}

int depot_check_state(struct depot_check *check)
{
    bool good[SEGLOG_STATE_SLOTS];
    const uint64_t state_bytes = check->superblock->state_bytes;
    int error = 0;
    for (uint32_t slot = 0; slot < SEGLOG_STATE_SLOTS && error == 0; slot++)
        error = depot_check_read(check, seglog_state_slot_offset(check->superblock, slot),
                                 check->slots + slot * state_bytes, state_bytes);
    if (error != 0)
        return error;
    find_newest(check, good);
    if (check->state->generation == 0)
        return -EUCLEAN;
    for (uint32_t slot = 0; slot < SEGLOG_STATE_SLOTS; slot++) {
        if (good[slot])
            check_good_slot(check, slot);
        else
            check_bad_slot(check, slot);
    }
    for (uint32_t slot = 0; slot < SEGLOG_STATE_SLOTS; slot += PAIR_SLOTS) {
        const struct seglog_state_format *first = slot_of(check, slot), *second = slot_of(check, slot + 1);
        if (good[slot] && good[slot + 1] && first->generation == second->generation &&
            memcmp(first, second, state_bytes) != 0)
            depot_check_fault(check, DEPOT_INVARIANT_STATE,
                              "two slots of the state have generation %" PRIu64 " and differ",
                              first->generation);
    }
    return 0;
}
