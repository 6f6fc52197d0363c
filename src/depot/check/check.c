/* Proving that a store is sound: the frame of it, and the superblock. */
#include "depot/check/check_internal.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define SENTENCE_ROOM 256

/* ---- what all parts use --------------------------------------------------------------------------- */

void depot_check_fault(struct depot_check *check, enum depot_invariant invariant, const char *format, ...)
{
    char sentence[SENTENCE_ROOM];
    va_list args;
    check->report.faults++;
    if (check->tell == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    check->tell(check->arg, invariant, sentence);
}

int depot_check_read(struct depot_check *check, uint64_t offset, void *memory, size_t bytes)
{
    struct seglog_readings readings = {.count = 0};
    for (bool agree = false; !agree && readings.count < SEGLOG_READ_TRIES;) {
        int error = drive_read(check->drive, offset, memory, bytes);
        if (error != 0)
            return error;
        check->report.bytes_read += bytes;
        agree = seglog_readings_agree(&readings, memory, bytes);
    }
    return 0;
}

/* ---- superblock ----------------------------------------------------------------------------------- */

/* Whether it is the superblock from before a feature was noted, or the store grew, which was cut off between the
 * copies. */
static bool is_earlier(const struct depot_check *check, const uint8_t *bytes)
{
    const struct seglog_superblock_format *now = check->superblock;
    struct seglog_superblock_format copy;
    const char *wrong;
    if (seglog_superblock_parse(bytes, &copy, &wrong) != 0)
        return false;
    if (copy.segment_count < now->segment_count) {
        copy.segment_count = now->segment_count;
        copy.state_bytes = now->state_bytes;
        copy.store_bytes = now->store_bytes;
        memcpy(copy.owner, now->owner, sizeof(copy.owner));
    }
    copy.incompatible = now->incompatible;
    copy.check = now->check;
    return memcmp(&copy, now, sizeof(copy)) == 0;
}

/* A copy that is all zero was not written yet when formatting was cut. */
static void check_copy(struct depot_check *check, unsigned copy, const uint8_t *bytes)
{
    const size_t superblock_bytes = sizeof(*check->superblock);
    if (base_is_zero(bytes, SEGLOG_SUPERBLOCK_BYTES))
        return;
    if (memcmp(bytes, check->superblock, superblock_bytes) != 0 && !is_earlier(check, bytes))
        depot_check_fault(check, DEPOT_INVARIANT_SUPERBLOCK, "copy %u of the superblock is damaged", copy);
    else if (!base_is_zero(bytes + superblock_bytes, SEGLOG_SUPERBLOCK_BYTES - superblock_bytes))
        depot_check_fault(check, DEPOT_INVARIANT_SUPERBLOCK,
                          "copy %u of the superblock is not followed by zeros", copy);
}

static int check_superblock(struct depot_check *check)
{
    const size_t bytes = base_align_up(SEGLOG_SUPERBLOCK_COPIES * SEGLOG_SUPERBLOCK_BYTES,
                                       drive_info(check->drive)->logical_block_bytes);
    uint8_t *memory = drive_memory_alloc(check->node, check->drive, bytes);
    if (memory == NULL)
        return -ENOMEM;
    int error = depot_check_read(check, 0, memory, bytes);
    for (unsigned copy = 0; error == 0 && copy < SEGLOG_SUPERBLOCK_COPIES; copy++)
        check_copy(check, copy, memory + copy * SEGLOG_SUPERBLOCK_BYTES);
    base_free(&check->node->memory, memory, bytes);
    return error;
}

/* @return whether the widths of the index make sense */
static bool check_owner(struct depot_check *check, struct depot_index_widths *ret_widths)
{
    struct depot_owner_format owner;
    memcpy(&owner, check->superblock->owner, sizeof(owner));
    if (depot_owner_parse(check->superblock, ret_widths) != 0) {
        depot_check_fault(check, DEPOT_INVARIANT_OWNER,
                          "the widths of the index are impossible: address %u, tag %u, table %u",
                          owner.address_bits, owner.tag_bits, owner.table_bits);
        return false;
    }
    if (!base_is_zero(owner.reserved, sizeof(owner.reserved)))
        depot_check_fault(check, DEPOT_INVARIANT_OWNER, "what follows the widths of the index is not zero");
    return true;
}

/* ---- all of it -------------------------------------------------------------------------------------- */

static int check_all(struct depot_check *check)
{
    struct depot_index_widths widths;
    int error = check_superblock(check);
    bool widths_valid = check_owner(check, &widths);
    if (error == 0)
        error = depot_check_state(check);
    if (error == 0)
        error = depot_check_segments(check);
    if (error == 0 && widths_valid)
        error = depot_check_checkpoint(check, &widths);
    if (error == 0)
        error = depot_check_keys(check);
    if (error == 0)
        depot_check_index(check);
    depot_check_checkpoint_deinit(check);
    struct seglog_stats stats;
    seglog_stats(check->log, &stats);
    check->report.segments_unsure = stats.summaries_unsure;
    if (seglog_loss_sequence(check->log) != 0)
        depot_check_fault(check, DEPOT_INVARIANT_WHOLE,
                          "acknowledged records are missing, and nobody can tell of which keys");
    return error;
}

static int check_log(struct depot_check *check)
{
    const struct seglog_options options = {
        .owner_kind = SEGLOG_OWNER_DEPOT, .read_only = true, .read_all = true, .serve_damaged = true};
    int error = seglog_open(check->node, check->drive, &options, &check->log);
    if (error != 0)
        return error;
    check->superblock = seglog_superblock(check->log);
    const uint64_t state_bytes = check->superblock->state_bytes;
    const uint64_t stamps_bytes = check->superblock->segment_count * sizeof(uint64_t);
    struct base_account *account = &check->node->memory;
    check->state = base_alloc(account, state_bytes);
    check->slots = drive_memory_alloc(check->node, check->drive, SEGLOG_STATE_SLOTS * state_bytes);
    check->stamps = base_alloc(account, stamps_bytes);
    error =
        check->state == NULL || check->slots == NULL || check->stamps == NULL ? -ENOMEM : check_all(check);
    base_free(account, check->state, state_bytes);
    base_free(account, check->slots, SEGLOG_STATE_SLOTS * state_bytes);
    base_free(account, check->stamps, stamps_bytes);
    int close_error = seglog_close(check->log);
    return error == 0 ? close_error : error;
}

int depot_check(struct tarn_node *node, const char *path, bool direct_off,
                void (*tell)(void *arg, unsigned invariant, const char *sentence),
                void (*progress)(void *arg, uint64_t done, uint64_t all), void *arg,
                struct depot_check_report *ret_report)
{
    const struct drive_options options = {.read_only = true,
                                          .direct = direct_off ? DRIVE_DIRECT_OFF : DRIVE_DIRECT_AUTO};
    struct depot_check check = {.node = node, .tell = tell, .progress = progress, .arg = arg};
    int error = drive_open(node, path, &options, &check.drive);
    if (error != 0)
        return error;
    error = check_log(&check);
    drive_close(check.drive);
    if (error == 0)
        *ret_report = check.report;
    return error;
}
