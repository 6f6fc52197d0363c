/* The file that is loaded: made, filled and removed. */
#include "lab/drive_load.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20, FILE_MODE = 0600 };

static int write_all(int fd, const uint8_t *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(fd, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? -errno : -EIO;
        data += written;
        bytes -= (size_t)written;
    }
    return 0;
}

/* Random bytes from its beginning to its end, on the medium and not in the page cache. */
static int fill_file(struct bench *bench, int fd, const char *path, uint64_t bytes)
{
    struct base_random random;
    struct base_progress progress;
    uint8_t *piece = base_alloc(bench->account, PIECE_BYTES);
    int error = piece == NULL ? -ENOMEM : 0;
    base_random_init(&random, bench->options.seed);
    bench_progress_init(bench, &progress, path, NULL, bytes);
    uint64_t done = 0;
    while (error == 0 && done < bytes) {
        size_t now = (size_t)base_min(bytes - done, (uint64_t)PIECE_BYTES);
        base_random_fill(&random, piece, now);
        error = write_all(fd, piece, now);
        done += now;
        base_progress_update(&progress, done);
    }
    base_progress_end(&progress);
    base_free(bench->account, piece, PIECE_BYTES);
    if (error == 0 && fsync(fd) != 0)
        error = -errno;
    if (error == 0)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return error;
}

int lab_drive_file_open(struct bench *bench, const char *path, uint64_t bytes,
                        struct lab_drive_file *ret_file)
{
    struct lab_drive_file file = {.path = path};
    struct statfs system;
    int error = 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (fd >= 0) {
        file.created = true;
        error = fill_file(bench, fd, path, bytes);
        (void)close(fd);
    } else if (errno != EEXIST) {
        error = -errno;
    }
    if (error == 0 && statfs(path, &system) != 0)
        error = -errno;
    if (error != 0) {
        lab_drive_file_close(&file);
        return bench_fail(bench, error, "%s", path);
    }
    file.memory = system.f_type == TMPFS_MAGIC;
    *ret_file = file;
    return 0;
}

void lab_drive_file_close(struct lab_drive_file *file)
{
    if (file->created)
        (void)unlink(file->path);
    file->created = false;
}
