/* Which drives are stores, and how one becomes a store. */
#include "depot/depot_internal.h"
#include <errno.h>
#include <inttypes.h>

static int refuse(struct tarn_node *node, struct drive *drive, const char *why, int error)
{
    char path[DEPOT_PATH_ROOM];
    base_error(&node->log, "the store cannot be opened", "path=%s why=\"%s\"", depot_path(path, drive), why);
    return error;
}

static int no_memory(struct tarn_node *node, struct drive *drive)
{
    return refuse(node, drive, "there is too little memory", -ENOMEM);
}

/* Memory that a direct drive takes. */
static void *drive_memory(struct tarn_node *node, struct drive *drive, size_t bytes)
{
    return base_alloc_aligned(&node->memory,
                              base_max(BASE_PAGE_BYTES, drive_info(drive)->memory_alignment_bytes), bytes);
}

static uint32_t block_bytes_of(struct drive *drive)
{
    return base_max((uint32_t)DEPOT_BLOCK_BYTES_MIN, drive_info(drive)->physical_block_bytes);
}

static bool all_zero(const uint8_t *bytes, size_t len)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0;
}

/* Whether a file holds nothing at all: read from end to end, which only an interrupted creation meets. */
static int is_blank(struct tarn_node *node, struct drive *drive, bool *ret_blank)
{
    const size_t window_bytes = DEPOT_GROUP_BYTES_MAX;
    uint8_t *window = drive_memory(node, drive, window_bytes);
    if (window == NULL)
        return no_memory(node, drive);
    bool blank = true;
    int error = 0;
    for (uint64_t offset = 0; error == 0 && blank && offset < drive_info(drive)->bytes;
         offset += window_bytes) {
        size_t bytes = base_min(window_bytes, drive_info(drive)->bytes - offset);
        error = drive_read(drive, offset, window, bytes);
        blank = error == 0 && all_zero(window, bytes);
    }
    base_free(&node->memory, window, window_bytes);
    if (error == 0)
        *ret_blank = blank;
    return error;
}

/* The largest power of two that is at most a 16th of the log: small stores have small buffers. */
static uint32_t group_bytes_of(uint64_t log_bytes)
{
    uint32_t bytes = DEPOT_GROUP_BYTES_MIN;
    while (bytes < DEPOT_GROUP_BYTES_MAX && bytes * UINT64_C(32) <= log_bytes)
        bytes *= 2;
    return bytes;
}

static int write_copy(struct drive *drive, uint32_t copy, const struct depot_superblock_format *superblock,
                      uint8_t *memory)
{
    memset(memory, 0, DEPOT_SUPERBLOCK_BYTES);
    memcpy(memory, superblock, sizeof(*superblock));
    return drive_write(drive, copy * DEPOT_SUPERBLOCK_BYTES, memory, DEPOT_SUPERBLOCK_BYTES, true);
}

static int format(struct tarn_node *node, struct drive *drive, uint8_t *memory,
                  struct depot_superblock_format *ret_superblock)
{
    uint32_t block_bytes = block_bytes_of(drive);
    struct depot_superblock_format superblock = {
        .identity = {task_rng(node), task_rng(node)},
        .hash_seed = task_rng(node),
        .check_seed = task_rng(node),
        .store_bytes = base_align_down(drive_info(drive)->bytes, block_bytes),
        .log_offset = base_align_up(DEPOT_SUPERBLOCK_COPIES * DEPOT_SUPERBLOCK_BYTES, block_bytes),
        .block_bytes = block_bytes,
    };
    if (superblock.store_bytes < DEPOT_STORE_BYTES_MIN || block_bytes > DEPOT_BLOCK_BYTES_MAX)
        return refuse(node, drive, "a store is at least 1 MiB large, in blocks of at most 64 KiB", -EINVAL);
    superblock.group_bytes = group_bytes_of(superblock.store_bytes - superblock.log_offset);
    depot_superblock_seal(&superblock);
    for (uint32_t copy = DEPOT_SUPERBLOCK_COPIES; copy-- > 0;) {
        int error = write_copy(drive, copy, &superblock, memory);
        if (error != 0)
            return error;
    }
    char path[DEPOT_PATH_ROOM], size[BASE_UNITS_ROOM];
    base_info(&node->log, "store formatted", "path=%s size=\"%s\" format=%d", depot_path(path, drive),
              base_format_size(size, sizeof(size), superblock.store_bytes), DEPOT_FORMAT_VERSION);
    *ret_superblock = superblock;
    return 0;
}

/*
 * Take the first good copy. One that is all zero was not written yet when the formatting was cut off,
 * and is written now; a damaged one is left as evidence.
 */
static int choose(struct tarn_node *node, struct drive *drive, bool read_only, uint8_t *memory,
                  struct depot_superblock_format *ret_superblock)
{
    const char *wrong = NULL;
    bool good[DEPOT_SUPERBLOCK_COPIES], empty[DEPOT_SUPERBLOCK_COPIES];
    struct depot_superblock_format copies[DEPOT_SUPERBLOCK_COPIES];
    for (uint32_t copy = 0; copy < DEPOT_SUPERBLOCK_COPIES; copy++) {
        const uint8_t *bytes = memory + copy * DEPOT_SUPERBLOCK_BYTES;
        const char *found;
        good[copy] = depot_superblock_parse(bytes, &copies[copy], &found) == 0;
        empty[copy] = all_zero(bytes, DEPOT_SUPERBLOCK_BYTES);
        if (!good[copy] && (wrong == NULL || !empty[copy]))
            wrong = found;
    }
    if (!good[0] && !good[1])
        return refuse(node, drive, wrong, -EUCLEAN);
    uint32_t chosen = good[0] ? 0 : 1, other = 1 - chosen;
    char path[DEPOT_PATH_ROOM];
    if (!good[other] && !empty[other])
        base_warn(&node->log, "one of two superblocks is damaged, the other is used", "path=%s copy=%" PRIu32,
                  depot_path(path, drive), other);
    int error = empty[other] && !read_only ? write_copy(drive, other, &copies[chosen], memory) : 0;
    if (error == 0)
        *ret_superblock = copies[chosen];
    return error;
}

static int check_fit(struct tarn_node *node, struct drive *drive,
                     const struct depot_superblock_format *superblock)
{
    const struct drive_info *info = drive_info(drive);
    if (info->bytes < superblock->store_bytes)
        return refuse(node, drive, "it is shorter than the store was made: its end is missing", -EUCLEAN);
    if (block_bytes_of(drive) > superblock->block_bytes)
        return refuse(node, drive, "the drive's blocks are larger than those of the store", -ENOTSUP);
    return 0;
}

int depot_superblock_open(struct tarn_node *node, struct drive *drive,
                          const struct tarn_depot_options *options,
                          struct depot_superblock_format *ret_superblock)
{
    const size_t bytes = DEPOT_SUPERBLOCK_COPIES * DEPOT_SUPERBLOCK_BYTES;
    const struct drive_info *info = drive_info(drive);
    if (info->bytes < bytes)
        return refuse(node, drive, "it is too short for a store", -EUCLEAN);
    uint8_t *memory = drive_memory(node, drive, bytes);
    if (memory == NULL)
        return no_memory(node, drive);
    bool blank = false;
    int error = drive_read(drive, 0, memory, bytes);
    bool may_format = options->create_bytes > 0 && !options->read_only && !info->device;
    if (error == 0 && may_format && all_zero(memory, bytes))
        error = info->created ? (blank = true, 0) : is_blank(node, drive, &blank);
    struct depot_superblock_format superblock;
    if (error == 0)
        error = blank ? format(node, drive, memory, &superblock)
                      : choose(node, drive, options->read_only, memory, &superblock);
    if (error == 0)
        error = check_fit(node, drive, &superblock);
    base_free(&node->memory, memory, bytes);
    if (error == 0)
        *ret_superblock = superblock;
    return error;
}
