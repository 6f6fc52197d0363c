/*
 * Zeroing ahead. A reserved file consists of unwritten extents, and the first write into each costs a
 * commit of the file system's journal; so a thread writes zeros there before the store does. The file
 * system itself lists the extents that are still unwritten (FIEMAP), so a restart goes on where the last
 * process ended. README, "Zeroing ahead", has the argument why no data is ever overwritten.
 */
#include "drive/drive_internal.h"
#include "task/thread.h"
#include <errno.h>
#include <inttypes.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#define EXTENTS_MAX 32 /* extents of one answer */

/* The flags of plain unwritten space; extents with others are left alone. */
#define EXTENT_FLAGS_ALLOWED                                                                                 \
    (FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_LAST | FIEMAP_EXTENT_MERGED | FIEMAP_EXTENT_SHARED)

struct drive_zero {
    struct tarn_node *node;
    int fd;
    uint64_t bytes;            /* size of the drive */
    uint32_t block_bytes;      /* zeros are written in multiples of this */
    _Atomic uint64_t position; /* offset up to which the thread has filled all gaps */
    struct drive_claims claims;
    struct task_semaphore stop; /* posted when the thread is to end */
    struct task_mutex running;  /* held until the thread has ended */
    pthread_t thread;
    uint8_t *zeros; /* one page, written many times over */
    const char *name;
};

/* A part of a file that is reserved and was never written. */
struct gap {
    uint64_t begin;
    uint64_t end;
};

/* An answer of FIEMAP, with room for its extents behind it, as the kernel wants them. */
union extent_map {
    struct fiemap head;
    uint8_t room[sizeof(struct fiemap) + EXTENTS_MAX * sizeof(struct fiemap_extent)];
};

/*
 * Find the first gap that begins, or goes on, in [from, to).
 *
 * @param sync  write back the page cache first, because unwritten extents may have data there
 * @return 1 and the gap, cut to the range; 0 if there is none; negative errno
 */
static int find_gap(int fd, uint64_t from, uint64_t to, bool sync, struct gap *ret_gap)
{
    union extent_map answer;
    struct fiemap *map = &answer.head;
    for (uint64_t before = UINT64_MAX; from < to && from != before;) {
        before = from;
        memset(&answer, 0, sizeof(answer));
        map->fm_start = from;
        map->fm_length = to - from;
        map->fm_flags = sync ? FIEMAP_FLAG_SYNC : 0;
        map->fm_extent_count = EXTENTS_MAX;
        if (ioctl(fd, FS_IOC_FIEMAP, map) != 0)
            return -errno;
        for (uint32_t i = 0; i < map->fm_mapped_extents; i++) {
            const struct fiemap_extent *extent = &map->fm_extents[i];
            uint64_t begin = base_max(extent->fe_logical, from);
            uint64_t end = base_min(extent->fe_logical + extent->fe_length, to);
            bool unwritten = (extent->fe_flags & FIEMAP_EXTENT_UNWRITTEN) != 0 &&
                             (extent->fe_flags & ~(uint32_t)EXTENT_FLAGS_ALLOWED) == 0;
            if (unwritten && begin < end) {
                *ret_gap = (struct gap){.begin = begin, .end = end};
                return 1;
            }
            from = base_max(from, end);
        }
        if (map->fm_mapped_extents < EXTENTS_MAX)
            return 0;
    }
    return 0;
}

/* Write zeros over a gap of at most one chunk. @return 0 or negative errno */
static int fill_gap(struct drive_zero *zero, const struct gap *gap)
{
    struct iovec vectors[DRIVE_CHUNK_BYTES / BASE_PAGE_BYTES];
    uint64_t offset = gap->begin;
    while (offset < gap->end) {
        uint64_t left = gap->end - offset;
        int count = 0;
        for (; left > 0 && count < (int)base_array_count(vectors); count++) {
            vectors[count].iov_base = zero->zeros;
            vectors[count].iov_len = base_min(left, (uint64_t)BASE_PAGE_BYTES);
            left -= vectors[count].iov_len;
        }
        ssize_t moved = pwritev(zero->fd, vectors, count, (off_t)offset);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return moved == 0 ? -EIO : -errno;
        offset += (uint64_t)moved;
    }
    return 0;
}

/* Fill the gaps of a chunk that was taken. @return 0 or negative errno */
static int fill_chunk(struct drive_zero *zero, uint64_t chunk)
{
    uint64_t from = chunk * DRIVE_CHUNK_BYTES;
    uint64_t to = base_min(from + DRIVE_CHUNK_BYTES, zero->bytes);
    struct gap gap = {0};
    int found;
    while ((found = find_gap(zero->fd, from, to, false, &gap)) == 1) {
        from = gap.end;
        if (!base_is_aligned(gap.begin | gap.end, zero->block_bytes))
            continue;
        int error = fill_gap(zero, &gap);
        if (error != 0)
            return error;
    }
    return found;
}

/* Fill the next chunk that has a gap. @return 1; 0 if there is none any more; negative errno */
static int fill_next(struct drive_zero *zero)
{
    uint64_t position = atomic_load_explicit(&zero->position, memory_order_relaxed);
    struct gap gap = {0};
    int found = find_gap(zero->fd, position, zero->bytes, false, &gap);
    if (found != 1)
        return found;
    uint64_t chunk = gap.begin / DRIVE_CHUNK_BYTES;
    int error = 0;
    if (drive_claims_take(&zero->claims, chunk)) {
        error = fill_chunk(zero, chunk);
        drive_claims_release(&zero->claims);
    }
    if (error != 0)
        return error;
    position = base_min((chunk + 1) * DRIVE_CHUNK_BYTES, zero->bytes);
    atomic_store_explicit(&zero->position, position, memory_order_relaxed);
    return 1;
}

static void log_end(struct drive_zero *zero, int error)
{
    char quoted[DRIVE_QUOTED_BYTES];
    (void)base_log_quote(quoted, sizeof(quoted), zero->name, strlen(zero->name));
    if (error == 0)
        base_info(&zero->node->log, "zeroing ended", "drive=%s", quoted);
    else
        base_warn(&zero->node->log, "zeroing stopped", "drive=%s zeroed_bytes=%" PRIu64 " error=\"%s\"",
                  quoted, drive_zero_bytes(zero), strerrordesc_np(-error));
}

static void *zero_main(void *arg)
{
    struct drive_zero *zero = arg;
    for (;;) {
        uint64_t begin_ns = task_now();
        int found = fill_next(zero);
        uint64_t end_ns = task_now();
        if (found != 1) {
            if (found == 0)
                atomic_store_explicit(&zero->position, zero->bytes, memory_order_relaxed);
            drive_claims_end(&zero->claims);
            log_end(zero, found);
            break;
        }
        /* Leave half of the time to requests: rest as long as the write took. */
        if (task_semaphore_wait(&zero->stop, end_ns + (end_ns - begin_ns)) == 0)
            break;
    }
    task_mutex_unlock(&zero->running);
    return NULL;
}

/* ---- opening and closing ----------------------------------------------------------------------- */

static void free_zero(struct drive_zero *zero)
{
    struct base_account *account = &zero->node->memory;
    base_free(account, zero->zeros, BASE_PAGE_BYTES);
    if (zero->claims.written != NULL)
        drive_claims_deinit(&zero->claims);
    base_free(account, zero, sizeof(*zero));
}

static int start_thread(struct drive_zero *zero)
{
    task_mutex_init(&zero->running);
    base_assert(task_mutex_lock_try(&zero->running)); /* locked for the thread, which unlocks it */
    return task_thread_start(&zero->thread, "tarn-zero", zero_main, zero);
}

static int make_zero(struct tarn_node *node, const char *path, int fd, const struct drive_info *info,
                     uint64_t position, struct drive_zero **ret_zero)
{
    struct drive_zero *zero = base_alloc(&node->memory, sizeof(*zero));
    if (zero == NULL)
        return -ENOMEM;
    zero->node = node;
    zero->name = path;
    zero->fd = fd;
    zero->bytes = info->bytes;
    zero->block_bytes = info->logical_block_bytes;
    atomic_init(&zero->position, position);
    task_semaphore_init(&zero->stop, 0);
    int error = drive_claims_init(&zero->claims, &node->memory, info->bytes);
    if (error == 0) {
        zero->zeros = base_alloc_aligned(&node->memory, BASE_PAGE_BYTES, BASE_PAGE_BYTES);
        error = zero->zeros == NULL ? -ENOMEM : 0;
    }
    if (error == 0)
        error = start_thread(zero);
    if (error != 0) {
        free_zero(zero);
        return error;
    }
    *ret_zero = zero;
    return 0;
}

void drive_zero_open(struct tarn_node *node, const char *path, int fd, const struct drive_info *info,
                     struct drive_zero **ret_zero)
{
    struct gap gap = {0};
    /* Synced once, before the first request: a killed process may have left data in the page cache alone. */
    int found = find_gap(fd, 0, info->bytes, true, &gap);
    *ret_zero = NULL;
    if (found == 0)
        return;
    const char *reason = NULL;
    if (found == 1 && !info->direct)
        reason = "it goes through the page cache";
    else if (found == 1)
        found = make_zero(node, path, fd, info, gap.begin, ret_zero);
    if (found == -EOPNOTSUPP || found == -ENOTTY)
        reason = "its file system does not tell what is unwritten";
    else if (found < 0)
        reason = strerrordesc_np(-found);
    if (reason != NULL)
        drive_note(node, BASE_LOG_INFO, path, "no zeroing ahead", reason);
    else
        drive_note(node, BASE_LOG_INFO, path, "zeroing ahead", "there is space that was never written");
}

void drive_zero_close(struct drive_zero *zero)
{
    if (zero == NULL)
        return;
    task_semaphore_post(&zero->stop);
    task_mutex_lock_firmly(
        &zero->running); /* this wait yields; pthread_join() alone would hold the scheduler */
    task_mutex_unlock(&zero->running);
    (void)pthread_join(zero->thread, NULL);
    free_zero(zero);
}

struct drive_claims *drive_zero_claims(struct drive_zero *zero)
{
    return &zero->claims;
}

uint64_t drive_zero_bytes(const struct drive_zero *zero)
{
    return atomic_load_explicit(&zero->position, memory_order_relaxed);
}
