/* Properties of a file or device: size, blocks, direct I/O, caches. The kernel is asked; what it does not say is tried. */
#include "drive/drive_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define QUEUE_TEXT_BYTES 32    /* room for an attribute of a block device's queue */
#define BLOCK_BYTES_MAX  65536 /* the largest block that is believed */

/* ---- the block device below -------------------------------------------------------------------- */

int drive_read_text(const char *path, char *ret_text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t length = read(fd, ret_text, room - 1);
    int error = length < 0 ? -errno : 0;
    (void)close(fd);
    if (error != 0)
        return error;
    if (length > 0 && ret_text[length - 1] == '\n')
        length--;
    ret_text[length] = '\0';
    return (int)length;
}

bool drive_queue_text(const struct drive_queue *queue, const char *attribute, char *ret_text, size_t room)
{
    static const char *const folders[] = {"queue", "../queue"};
    for (size_t i = 0; i < base_array_count(folders); i++) {
        char path[96];
        (void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/%s", queue->device_major,
                       queue->device_minor, folders[i], attribute);
        if (drive_read_text(path, ret_text, room) > 0)
            return true;
    }
    return false;
}

uint64_t drive_queue_number(const struct drive_queue *queue, const char *attribute, uint64_t otherwise)
{
    char text[QUEUE_TEXT_BYTES];
    uint64_t value;
    if (!drive_queue_text(queue, attribute, text, sizeof(text)) || base_parse_u64(text, &value) != 0)
        return otherwise;
    return value;
}

static bool queue_write_cache(const struct drive_queue *queue)
{
    char text[QUEUE_TEXT_BYTES];
    return !drive_queue_text(queue, "write_cache", text, sizeof(text)) || strcmp(text, "write through") != 0;
}

/* ---- direct I/O -------------------------------------------------------------------------------- */

/* Try a small direct read whose offset and memory have exactly this alignment. @return whether it works */
static bool probe_read(const struct drive_opening *opening, uint32_t alignment)
{
    size_t room = (size_t)2 * BASE_PAGE_BYTES;
    char *memory = base_alloc_aligned(&opening->node->memory, BASE_PAGE_BYTES, room);
    if (memory == NULL)
        return false;
    ssize_t length = pread(opening->fd, memory + alignment, alignment, alignment);
    base_free(&opening->node->memory, memory, room);
    return length == (ssize_t)alignment;
}

static bool set_direct(int fd, bool direct)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

/*
 * Switch the descriptor to direct I/O and learn its alignments.
 *
 * @return NULL; else why direct I/O is impossible; the descriptor may be switched all the same
 */
static const char *make_direct(struct drive_opening *opening)
{
    struct drive_info *info = &opening->info;
    struct statx status;
    bool told = statx(opening->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
                (status.stx_mask & STATX_DIOALIGN) != 0;
    if (told && (status.stx_dio_mem_align == 0 || status.stx_dio_offset_align == 0))
        return "its file system says that it has none";
    if (!set_direct(opening->fd, true))
        return "its file system refuses it";
    if (told) {
        info->memory_alignment_bytes = status.stx_dio_mem_align;
        info->logical_block_bytes = status.stx_dio_offset_align;
    } else if (info->device) {
        info->memory_alignment_bytes = info->logical_block_bytes;
    } else {
        uint32_t alignment = probe_read(opening, DRIVE_SECTOR_BYTES) ? DRIVE_SECTOR_BYTES : BASE_PAGE_BYTES;
        if (alignment == BASE_PAGE_BYTES && !probe_read(opening, BASE_PAGE_BYTES))
            return "nobody tells its alignment, and reads with 512 and 4,096 bytes fail";
        info->memory_alignment_bytes = alignment;
        info->logical_block_bytes = alignment;
    }
    return NULL;
}

static int choose_direct(struct drive_opening *opening)
{
    struct drive_info *info = &opening->info;
    enum drive_direct wish = opening->options->direct;
    info->memory_alignment_bytes = 1;
    if (wish == DRIVE_DIRECT_OFF)
        return 0;
    const char *reason = make_direct(opening);
    info->direct = reason == NULL;
    if (info->direct)
        return 0;
    if (wish == DRIVE_DIRECT_ON) {
        char text[160];
        (void)snprintf(text, sizeof(text), "no direct I/O: %s; allow the page cache (--direct=auto)", reason);
        return drive_refuse(opening->node, opening->path, -ENOTSUP, text);
    }
    info->memory_alignment_bytes = 1;
    if (!set_direct(opening->fd, false))
        return drive_refuse(opening->node, opening->path, -ENOTSUP,
                            "direct I/O fails and cannot be switched off");
    drive_note(opening->node, BASE_LOG_INFO, opening->path, "no direct I/O, the page cache is used", reason);
    return 0;
}

/* ---- the whole --------------------------------------------------------------------------------- */

static int ask_device(struct drive_opening *opening)
{
    struct drive_info *info = &opening->info;
    uint64_t bytes = 0;
    int logical = 0;
    unsigned physical = 0;
    if (ioctl(opening->fd, BLKGETSIZE64, &bytes) != 0 || ioctl(opening->fd, BLKSSZGET, &logical) != 0 ||
        ioctl(opening->fd, BLKPBSZGET, &physical) != 0)
        return drive_refuse(opening->node, opening->path, -errno,
                            "the device does not tell its size and blocks");
    info->bytes = bytes;
    info->logical_block_bytes = (uint32_t)logical;
    info->physical_block_bytes = physical;
    return 0;
}

/* Read a block size of the device below a file; a size that makes no sense for a file counts as unknown. */
static uint32_t file_block(const struct drive_queue *queue, const char *attribute, uint32_t otherwise)
{
    uint64_t bytes = drive_queue_number(queue, attribute, otherwise);
    return base_is_power_of_two(bytes) && bytes <= BLOCK_BYTES_MAX ? (uint32_t)bytes : otherwise;
}

/*
 * Describe a file. Its writes end at pages at least: for less, file systems read and fill up the rest of a
 * block, and allow only one such write at a time.
 */
static void describe_file(struct drive_opening *opening, const struct stat *status,
                          const struct drive_queue *queue)
{
    struct drive_info *info = &opening->info;
    info->bytes = (uint64_t)status->st_size;
    info->logical_block_bytes = file_block(queue, "logical_block_size", DRIVE_SECTOR_BYTES);
    info->physical_block_bytes =
        base_max(file_block(queue, "physical_block_size", BASE_PAGE_BYTES), (uint32_t)BASE_PAGE_BYTES);
}

static int check_blocks(const struct drive_opening *opening)
{
    const struct drive_info *info = &opening->info;
    if (!base_is_power_of_two(info->logical_block_bytes) ||
        !base_is_power_of_two(info->physical_block_bytes) ||
        !base_is_power_of_two(info->memory_alignment_bytes) || info->logical_block_bytes > BLOCK_BYTES_MAX ||
        info->physical_block_bytes > BLOCK_BYTES_MAX || info->memory_alignment_bytes > BASE_PAGE_BYTES)
        return drive_refuse(
            opening->node, opening->path, -ENOTSUP,
            "its blocks are not powers of two up to 64 KiB, or its memory alignment is above 4 KiB");
    return 0;
}

int drive_ask(struct drive_opening *opening)
{
    struct drive_info *info = &opening->info;
    struct stat status;
    if (fstat(opening->fd, &status) != 0)
        return drive_refuse(opening->node, opening->path, -errno, "the kernel refuses to describe it");
    dev_t device = info->device ? status.st_rdev : status.st_dev;
    struct drive_queue queue = {.device_major = major(device), .device_minor = minor(device)};
    int error = 0;
    if (info->device)
        error = ask_device(opening);
    else
        describe_file(opening, &status, &queue);
    if (error != 0)
        return error;
    if (info->bytes < DRIVE_BYTES_MIN)
        return drive_refuse(opening->node, opening->path, -EINVAL,
                            info->device ? "the device is empty or below 64 KiB: no medium, or not set up"
                            : info->bytes == 0 ? "the file is empty: give a size (--size) to make it a store"
                                               : "the file is below 64 KiB, and so no store: name another");
    error = choose_direct(opening);
    if (error == 0)
        error = check_blocks(opening);
    if (error != 0)
        return error;
    info->physical_block_bytes = base_max(info->physical_block_bytes, info->logical_block_bytes);
    info->bytes = base_align_down(info->bytes, info->physical_block_bytes);
    /* A file's blocks may need the file system's journal, which only a flush commits. */
    info->write_cache = !info->device || queue_write_cache(&queue);
    info->fua = info->direct && drive_queue_number(&queue, "fua", 0) == 1;
    info->discard = info->device && !opening->options->read_only &&
                    drive_queue_number(&queue, "discard_max_bytes", 0) > 0;
    return 0;
}
