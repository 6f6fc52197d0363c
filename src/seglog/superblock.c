/* Which drives are stores, and how one becomes a store. */
#include "seglog/seglog_internal.h"
#include <errno.h>
#include <inttypes.h>

#define COPIES_BYTES       (SEGLOG_SUPERBLOCK_COPIES * SEGLOG_SUPERBLOCK_BYTES)
#define BLANK_WINDOW_BYTES (UINT64_C(1) << 20)

int seglog_refuse(struct tarn_node *node, const struct drive *drive, const char *why, int error)
{
    base_error(&node->log, "the store cannot be opened", "path=%s why=\"%s\"", drive_name(drive), why);
    return error;
}

static uint64_t block_bytes_of(struct drive *drive)
{
    return base_max((uint64_t)SEGLOG_BLOCK_BYTES_MIN, (uint64_t)drive_info(drive)->physical_block_bytes);
}

/* The state of a store in which nothing was ever written. @param state  state_bytes of zeros */
static void fill_first_state(struct seglog_state_format *state,
                             const struct seglog_superblock_format *superblock)
{
    state->generation = 1;
    state->flags = SEGLOG_STATE_ENDED;
    state->sequence_bound = 1;
    state->stamp_bound = 1;
    seglog_state_seal(state, superblock);
}

/*
 * Whether a block is all zero but for a sector that a formatting writes before there is a superblock. Its
 * check proves nothing, as the seed is lost, but every other byte is known.
 */
static bool is_blank_block(const uint8_t *block, uint64_t len)
{
    if (base_is_zero(block, len))
        return true;
    if (len < DRIVE_SECTOR_BYTES ||
        (len > DRIVE_SECTOR_BYTES && !base_is_zero(block + DRIVE_SECTOR_BYTES, len - DRIVE_SECTOR_BYTES)))
        return false;
    const struct seglog_superblock_format none = {.block_bytes = DRIVE_SECTOR_BYTES};
    union {
        struct seglog_state_format state;
        uint8_t bytes[DRIVE_SECTOR_BYTES];
    } found, first = {.bytes = {0}};
    memcpy(found.bytes, block, sizeof(found));
    fill_first_state(&first.state, &none);
    first.state.segment_count = found.state.segment_count;
    first.state.check = found.state.check;
    return memcmp(&found, &first, sizeof(found)) == 0;
}

static bool is_blank_window(const uint8_t *window, uint64_t len)
{
    if (base_is_zero(window, len))
        return true;
    bool blank = true;
    for (uint64_t at = 0; blank && at < len; at += SEGLOG_BLOCK_BYTES_MIN)
        blank = is_blank_block(window + at, base_min(len - at, (uint64_t)SEGLOG_BLOCK_BYTES_MIN));
    return blank;
}

int seglog_is_blank(struct tarn_node *node, struct drive *drive, bool *ret_blank)
{
    uint8_t *window = drive_memory_alloc(node, drive, BLANK_WINDOW_BYTES);
    if (window == NULL)
        return -ENOMEM;
    bool blank = true;
    int error = 0;
    uint64_t drive_bytes = drive_info(drive)->bytes;
    for (uint64_t offset = 0; error == 0 && blank && offset < drive_bytes; offset += BLANK_WINDOW_BYTES) {
        size_t bytes = base_min(BLANK_WINDOW_BYTES, drive_bytes - offset);
        error = seglog_drive_read(drive, offset, window, bytes);
        blank = error == 0 && is_blank_window(window, bytes);
    }
    base_free(&node->memory, window, BLANK_WINDOW_BYTES);
    if (error == 0)
        *ret_blank = blank;
    return error;
}

/* ---- making a store ------------------------------------------------------------------------------ */

/* Place the areas for a number of segments. The state has room for more, because the store may grow. */
static void place_areas(struct seglog_superblock_format *superblock, uint64_t segment_count)
{
    uint64_t most = base_min(SEGLOG_GROWTH_TIMES * segment_count, (uint64_t)SEGLOG_SEGMENTS_MAX);
    superblock->state_offset = base_align_up(COPIES_BYTES, superblock->block_bytes);
    superblock->data_offset =
        superblock->state_offset + SEGLOG_STATE_SLOTS * seglog_state_bytes(most, superblock->block_bytes);
    seglog_superblock_count(superblock, segment_count);
}

/* As many segments of this size as fit. The state takes a few bytes of each, so the guess is near. */
static void fill_drive(struct seglog_superblock_format *superblock, uint64_t drive_bytes,
                       uint64_t segment_bytes)
{
    superblock->segment_bytes = segment_bytes;
    uint64_t count = base_min(drive_bytes / segment_bytes, (uint64_t)SEGLOG_SEGMENTS_MAX);
    place_areas(superblock, count);
    while (count > 0 && superblock->store_bytes > drive_bytes)
        place_areas(superblock, --count);
}

static int refuse_size(struct tarn_node *node, struct drive *drive,
                       struct seglog_superblock_format *superblock)
{
    place_areas(superblock, SEGLOG_SEGMENTS_MIN);
    char size[BASE_UNITS_ROOM];
    base_error(&node->log, "the drive is too small for a store: make it larger", "path=%s least=%s",
               drive_name(drive), base_format_size_exact(size, sizeof(size), superblock->store_bytes));
    return -EINVAL;
}

/* Large segments make large values possible, many segments make collection cheap: the first counts more in
 * small stores. */
static uint32_t segments_wanted(uint64_t segment_bytes)
{
    return segment_bytes <= SEGLOG_SEGMENT_BYTES_SMALL ? SEGLOG_SEGMENTS_WANTED_SMALL
                                                       : SEGLOG_SEGMENTS_WANTED;
}

static int choose_geometry(struct tarn_node *node, struct drive *drive,
                           const struct seglog_format_options *options,
                           struct seglog_superblock_format *superblock)
{
    uint64_t drive_bytes = drive_info(drive)->bytes;
    uint64_t segment_bytes = options->segment_bytes;
    if (segment_bytes != 0) {
        fill_drive(superblock, drive_bytes, segment_bytes);
    } else {
        segment_bytes = SEGLOG_SEGMENT_BYTES_MAX;
        fill_drive(superblock, drive_bytes, segment_bytes);
        while (superblock->segment_count < segments_wanted(segment_bytes) &&
               segment_bytes > SEGLOG_SEGMENT_BYTES_MIN) {
            segment_bytes /= 2;
            fill_drive(superblock, drive_bytes, segment_bytes);
        }
    }
    if (superblock->segment_count < SEGLOG_SEGMENTS_MIN)
        return refuse_size(node, drive, superblock);
    uint64_t record_bytes = base_min((uint64_t)SEGLOG_RECORD_BYTES_MAX, seglog_record_room(superblock));
    superblock->record_bytes_max = (uint32_t)base_align_down(record_bytes, superblock->grain_bytes);
    seglog_superblock_append(superblock, drive);
    return 0;
}

static bool is_power_within(uint64_t value, uint64_t low, uint64_t high)
{
    return base_is_power_of_two(value) && value >= low && value <= high;
}

/* What the caller and the drive ask for, before any sum is made of it. */
static int check_units(struct tarn_node *node, struct drive *drive,
                       const struct seglog_format_options *options, uint64_t grain_bytes)
{
    const struct drive_info *info = drive_info(drive);
    if (!is_power_within(block_bytes_of(drive), SEGLOG_BLOCK_BYTES_MIN, SEGLOG_BLOCK_BYTES_MAX) ||
        info->logical_block_bytes > SEGLOG_SUPERBLOCK_BYTES)
        return seglog_refuse(node, drive, "the drive's blocks are larger than a store can have (64 KiB)",
                             -EINVAL);
    if (!is_power_within(grain_bytes, SEGLOG_GRAIN_BYTES_MIN, SEGLOG_GRAIN_BYTES_MAX))
        return seglog_refuse(node, drive, "a grain is a power of two from 32 to 512 bytes", -EINVAL);
    if (options->segment_bytes != 0 &&
        !is_power_within(options->segment_bytes, SEGLOG_SEGMENT_BYTES_MIN, SEGLOG_SEGMENT_BYTES_MAX))
        return seglog_refuse(node, drive, "a segment is a power of two from 128 KiB to 32 MiB", -EINVAL);
    return 0;
}

static int write_copy(struct drive *drive, uint32_t copy, const struct seglog_superblock_format *superblock,
                      uint8_t *memory)
{
    memset(memory, 0, SEGLOG_SUPERBLOCK_BYTES);
    memcpy(memory, superblock, sizeof(*superblock));
    return drive_write(drive, copy * SEGLOG_SUPERBLOCK_BYTES, memory, SEGLOG_SUPERBLOCK_BYTES, true);
}

/* The first generation, in the second pair. The first pair becomes zeros. */
static int write_first_state(struct drive *drive, const struct seglog_superblock_format *superblock,
                             uint8_t *memory)
{
    uint64_t pair_bytes = 2 * superblock->state_bytes;
    memset(memory, 0, pair_bytes);
    int error = drive_write(drive, seglog_state_slot_offset(superblock, 0), memory, pair_bytes, true);
    if (error != 0)
        return error;
    fill_first_state((void *)memory, superblock);
    memcpy(memory + superblock->state_bytes, memory, superblock->state_bytes);
    return drive_write(drive, seglog_state_slot_offset(superblock, 2), memory, pair_bytes, true);
}

/* @param memory  a pair of states, and room for both superblocks */
static int write_store(struct drive *drive, const struct seglog_superblock_format *superblock,
                       uint8_t *memory)
{
    memset(memory, 0, COPIES_BYTES);
    int error = drive_write(drive, 0, memory, COPIES_BYTES, true);
    if (error == 0)
        error = write_first_state(drive, superblock, memory);
    for (uint32_t copy = SEGLOG_SUPERBLOCK_COPIES; error == 0 && copy-- > 0;)
        error = write_copy(drive, copy, superblock, memory);
    return error;
}

static int write_with_memory(struct tarn_node *node, struct drive *drive,
                             const struct seglog_superblock_format *superblock)
{
    const size_t memory_bytes = base_max(2 * superblock->state_bytes, COPIES_BYTES);
    uint8_t *memory = drive_memory_alloc(node, drive, memory_bytes);
    if (memory == NULL)
        return seglog_refuse(node, drive, "there is too little memory", -ENOMEM);
    int error = write_store(drive, superblock, memory);
    base_free(&node->memory, memory, memory_bytes);
    return error;
}

int seglog_format(struct tarn_node *node, struct drive *drive, const struct seglog_format_options *options)
{
    uint32_t grain_bytes = options->grain_bytes == 0 ? SEGLOG_GRAIN_BYTES : options->grain_bytes;
    int error = check_units(node, drive, options, grain_bytes);
    if (error != 0)
        return error;
    struct seglog_superblock_format superblock = {
        .identity = {task_rng(node), task_rng(node)},
        .hash_seed = task_rng(node),
        .check_seed = task_rng(node),
        .made_wall_ns = task_wall(node),
        .block_bytes = (uint32_t)block_bytes_of(drive),
        .grain_bytes = grain_bytes,
        .owner_kind = options->owner_kind,
        .one = 1,
    };
    error = choose_geometry(node, drive, options, &superblock);
    if (error == 0 && options->fill_owner != NULL)
        error = options->fill_owner(&superblock);
    if (error != 0)
        return error;
    seglog_superblock_seal(&superblock);
    error = write_with_memory(node, drive, &superblock);
    if (error != 0)
        return error;
    char size[BASE_UNITS_ROOM], segment[BASE_UNITS_ROOM];
    base_info(&node->log, "store formatted", "path=%s size=\"%s\" segments=%" PRIu32 " segment=%s format=%d",
              drive_name(drive), base_format_size(size, sizeof(size), superblock.store_bytes),
              superblock.segment_count,
              base_format_size_exact(segment, sizeof(segment), superblock.segment_bytes),
              SEGLOG_FORMAT_VERSION);
    return 0;
}

/* ---- finding one --------------------------------------------------------------------------------- */

/* Both copies as they were read. */
struct copies {
    struct seglog_superblock_format superblock[SEGLOG_SUPERBLOCK_COPIES];
    const char *wrong[SEGLOG_SUPERBLOCK_COPIES]; /* NULL: it is good */
    int error[SEGLOG_SUPERBLOCK_COPIES];
    bool empty[SEGLOG_SUPERBLOCK_COPIES];
};

/* A read may return damaged bytes: what is not good is read again before that is believed. */
static int read_copies(struct tarn_node *node, struct drive *drive, struct copies *ret_copies)
{
    uint64_t bytes = base_align_up(COPIES_BYTES, drive_info(drive)->logical_block_bytes);
    if (drive_info(drive)->bytes < bytes) {
        for (uint32_t copy = 0; copy < SEGLOG_SUPERBLOCK_COPIES; copy++) {
            ret_copies->wrong[copy] = "it is too short for a store";
            ret_copies->error[copy] = -EUCLEAN;
            ret_copies->empty[copy] = false;
        }
        return 0;
    }
    uint8_t *memory = drive_memory_alloc(node, drive, bytes);
    if (memory == NULL)
        return -ENOMEM;
    int error = 0;
    bool all_good = false;
    for (int try = 0; error == 0 && !all_good && try < SEGLOG_READ_TRIES; try++) {
        error = seglog_drive_read(drive, 0, memory, bytes);
        all_good = true;
        for (uint32_t copy = 0; error == 0 && copy < SEGLOG_SUPERBLOCK_COPIES; copy++) {
            const uint8_t *from = memory + copy * SEGLOG_SUPERBLOCK_BYTES;
            if (try > 0 && ret_copies->wrong[copy] == NULL)
                continue;
            ret_copies->wrong[copy] = NULL;
            ret_copies->error[copy] =
                seglog_superblock_parse(from, &ret_copies->superblock[copy], &ret_copies->wrong[copy]);
            ret_copies->empty[copy] = base_is_zero(from, SEGLOG_SUPERBLOCK_BYTES);
            all_good = all_good && ret_copies->error[copy] == 0;
        }
    }
    base_free(&node->memory, memory, bytes);
    return error;
}

/*
 * What is wrong with a drive that has no good copy, or one that says that this release must not touch it,
 * whatever the other says. @return NULL: nothing
 */
static const char *all_wrong(const struct copies *copies, int *ret_error)
{
    const char *wrong = NULL;
    uint32_t good = 0;
    int error = 0;
    for (uint32_t copy = 0; copy < SEGLOG_SUPERBLOCK_COPIES; copy++) {
        good += copies->error[copy] == 0;
        bool tells_more = wrong == NULL || (error != -ENOTSUP && !copies->empty[copy]);
        if (copies->error[copy] != 0 && tells_more) {
            wrong = copies->wrong[copy];
            error = copies->error[copy];
        }
    }
    if (good > 0 && error != -ENOTSUP)
        return NULL;
    *ret_error = error;
    return wrong;
}

int seglog_probe(struct tarn_node *node, struct drive *drive, enum seglog_found *ret_found,
                 const char **ret_why)
{
    struct copies copies;
    int error = read_copies(node, drive, &copies);
    if (error != 0)
        return error;
    int wrong_error;
    const char *wrong = all_wrong(&copies, &wrong_error);
    if (wrong == NULL) {
        *ret_found = SEGLOG_FOUND_STORE;
    } else if (copies.empty[0] && copies.empty[1]) {
        *ret_found = SEGLOG_FOUND_ZEROS;
    } else {
        *ret_found = SEGLOG_FOUND_OTHER;
        *ret_why = wrong;
    }
    return 0;
}

/* Whether just those drives were appended that the store lies on, or more that it has not taken. @return NULL: yes */
static const char *wrong_appended(const struct drive *drive,
                                  const struct seglog_superblock_format *superblock)
{
    const struct drive_info *info = drive_info(drive);
    const uint32_t taken = superblock->appended;
    if (info->appended < taken + info->appending)
        return "a drive was appended to it: name that, too, behind a comma";
    if (taken > 0 && drive_appended(drive, taken - 1).nonce != superblock->appended_nonce)
        return "another drive than the one that is named was appended to it: name that";
    if (info->appended > taken && drive_appended(drive, taken).begin_bytes < superblock->store_bytes)
        return "a drive was appended, and then the store became larger without it: leave that drive out";
    return NULL;
}

static int check_fit(struct tarn_node *node, struct drive *drive,
                     const struct seglog_superblock_format *superblock, const struct seglog_options *options)
{
    const char *wrong = wrong_appended(drive, superblock);
    if (wrong != NULL)
        return seglog_refuse(node, drive, wrong, -EUCLEAN);
    if (drive_info(drive)->bytes < superblock->store_bytes)
        return seglog_refuse(
            node, drive,
            "it is shorter than the store was made: its end is missing; give the drive its size back",
            -EUCLEAN);
    if (block_bytes_of(drive) > superblock->block_bytes)
        return seglog_refuse(
            node, drive,
            "the drive's blocks are larger than those of the store: dump it where it came from, and "
            "load it into a new one here",
            -ENOTSUP);
    if (superblock->owner_kind != options->owner_kind)
        return seglog_refuse(node, drive, "what is kept in it is of another kind", -ENOTSUP);
    if (superblock->read_only_compatible != 0 && !options->read_only)
        return seglog_refuse(
            node, drive,
            "a newer version of Tarn made it: this one can only read it; use that version to write",
            -ENOTSUP);
    return 0;
}

/* Whether a change was cut off between the copies: the one with more features, or more segments, counts. */
static bool are_apart(const struct copies *copies)
{
    const struct seglog_superblock_format *first = &copies->superblock[0], *second = &copies->superblock[1];
    return copies->error[0] == 0 && copies->error[1] == 0 &&
           memcmp(first->identity, second->identity, sizeof(first->identity)) == 0 &&
           (first->incompatible != second->incompatible || first->segment_count != second->segment_count);
}

static bool has_more(const struct seglog_superblock_format *superblock,
                     const struct seglog_superblock_format *than)
{
    return (superblock->incompatible & ~than->incompatible) != 0 ||
           superblock->segment_count > than->segment_count;
}

int seglog_superblock_find(struct tarn_node *node, struct drive *drive, const struct seglog_options *options,
                           struct seglog_superblock_format *ret_superblock, int *ret_missing_copy)
{
    struct copies copies;
    int error = read_copies(node, drive, &copies), wrong_error;
    if (error != 0)
        return seglog_refuse(node, drive, "its superblock cannot be read", error);
    const char *wrong = all_wrong(&copies, &wrong_error);
    if (wrong != NULL)
        return seglog_refuse(node, drive, wrong, wrong_error);
    bool behind = are_apart(&copies);
    bool second_has_more = behind && has_more(&copies.superblock[1], &copies.superblock[0]);
    uint32_t chosen = copies.error[0] == 0 && !second_has_more ? 0 : 1, other = 1 - chosen;
    const struct seglog_superblock_format *superblock = &copies.superblock[chosen];
    bool equal =
        copies.error[other] == 0 && memcmp(&copies.superblock[other], superblock, sizeof(*superblock)) == 0;
    if (!equal && !copies.empty[other] && !behind)
        base_warn(&node->log, "one of two superblocks is damaged, the other is used", "path=%s copy=%" PRIu32,
                  drive_name(drive), other);
    error = check_fit(node, drive, superblock, options);
    if (error != 0)
        return error;
    *ret_superblock = *superblock;
    *ret_missing_copy = copies.empty[other] || behind || (options->repair && !equal) ? (int)other : -1;
    return 0;
}

int seglog_superblock_complete(struct tarn_node *node, struct drive *drive,
                               const struct seglog_superblock_format *superblock, int missing_copy, bool both)
{
    if (missing_copy < 0 && !both)
        return 0;
    uint32_t first = missing_copy < 0 ? SEGLOG_SUPERBLOCK_COPIES - 1 : (uint32_t)missing_copy;
    uint8_t *memory = drive_memory_alloc(node, drive, SEGLOG_SUPERBLOCK_BYTES);
    if (memory == NULL)
        return -ENOMEM;
    int error = write_copy(drive, first, superblock, memory);
    if (error == 0 && both)
        error = write_copy(drive, 1 - first, superblock, memory);
    base_free(&node->memory, memory, SEGLOG_SUPERBLOCK_BYTES);
    return error;
}

/* ---- changing it --------------------------------------------------------------------------------- */

uint64_t seglog_segments_most(const struct seglog_superblock_format *superblock)
{
    uint64_t slot_room = base_align_down(seglog_state_pair_room(superblock) / 2, superblock->block_bytes);
    uint64_t stamps = (slot_room - sizeof(struct seglog_state_format)) / sizeof(uint64_t);
    return base_min(stamps, (uint64_t)SEGLOG_SEGMENTS_MAX);
}

void seglog_superblock_count(struct seglog_superblock_format *superblock, uint64_t segment_count)
{
    superblock->segment_count = (uint32_t)segment_count;
    superblock->state_bytes = seglog_state_bytes(segment_count, superblock->block_bytes);
    superblock->store_bytes = superblock->data_offset + segment_count * superblock->segment_bytes;
}

void seglog_superblock_append(struct seglog_superblock_format *superblock, const struct drive *drive)
{
    const uint32_t appended = drive_info(drive)->appended;
    superblock->appended = appended;
    superblock->appended_nonce = appended == 0 ? 0 : drive_appended(drive, appended - 1).nonce;
}

int seglog_superblock_write(struct tarn_node *node, struct drive *drive,
                            struct seglog_superblock_format *superblock)
{
    seglog_superblock_seal(superblock);
    return seglog_superblock_complete(node, drive, superblock, -1, true);
}

/* The state's mutex is held. */
static int note_feature(struct seglog *log, uint64_t feature)
{
    struct seglog_superblock_format superblock = log->superblock;
    superblock.incompatible |= feature;
    int error = seglog_superblock_write(log->node, log->drive, &superblock);
    if (error == -ENOMEM)
        return error;
    if (error != 0) {
        seglog_fail(log, "a superblock", 0, error);
        return -EIO;
    }
    log->superblock.incompatible = superblock.incompatible;
    log->superblock.check = superblock.check;
    return 0;
}

int seglog_feature_note(struct seglog *log, uint64_t feature)
{
    int error = 0;
    task_mutex_lock_firmly(&log->state_mutex);
    if (seglog_failed(log))
        error = -EROFS;
    else if ((log->superblock.incompatible & feature) == 0)
        error = note_feature(log, feature);
    task_mutex_unlock(&log->state_mutex);
    return error;
}
