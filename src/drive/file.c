/* Files and block devices by path: which may be a drive, locking one, and making a file. Its properties are probe.c's. */
#include "drive/nvme/nvme.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LOCK_RETRY_NS (10 * BASE_NS_PER_MS)

#define URL_ATTRIBUTE "user.tarn.url" /* a file's attribute with the URL of the server that has it open */
#define URL_BYTES     256

#define FILE_MODE 0600 /* the stored data are for the file's owner alone */

static int refuse_file(const struct drive_opening *opening, int error, const char *reason)
{
    return drive_refuse(opening->node, opening->path, error, reason);
}

static int check_kind(const struct drive_opening *opening, const struct stat *status)
{
    switch (status->st_mode & S_IFMT) {
    case S_IFREG:
    case S_IFBLK:
        return 0;
    case S_IFDIR:
        return refuse_file(opening, -EISDIR, "it is a directory: name a file in it");
    case S_IFCHR:
        return refuse_file(
            opening, -ENOTSUP,
            "it is a character device and no NVMe namespace: name a file, a block device or a namespace "
            "(as /dev/ng0n1)");
    default:
        return refuse_file(opening, -ENOTSUP, "it is neither a file nor a block device");
    }
}

static bool has_folder(const struct drive_opening *opening)
{
    int fd = base_folder_open(&opening->node->memory, opening->path);
    if (fd >= 0)
        (void)close(fd);
    return fd != -ENOENT;
}

static const char *missing_reason(const struct drive_opening *opening)
{
    if (!has_folder(opening))
        return "there is no such folder: make it (mkdir -p), or name another path";
    return opening->options->read_only || opening->options->grow_bytes > 0
               ? "there is no such file: check the path"
               : "there is no such file: check the path, or give a size (--size) to make it";
}

static const char *open_reason(const struct drive_opening *opening, int error)
{
    switch (error) {
    case -EACCES:
    case -EPERM:
        return "its permissions do not allow it: check owner and mode of the file and its folder";
    case -ENOENT:
        return missing_reason(opening);
    case -ENOTDIR:
        return "a part of its path is not a folder: check the path";
    case -EROFS:
        return "its file system is mounted read-only: mount it to be written (mount -o remount,rw), or use "
               "another";
    case -EEXIST:
        return "it is a link to nothing, or somebody else has just made it";
    case -EMFILE:
    case -ENFILE:
        return "too many files are open: raise the limit (ulimit -n)";
    case -ENXIO:
    case -ENODEV:
        return "there is no device behind it";
    case -ENOSPC:
    case -EDQUOT:
        return "there is no room for it: give a smaller size, or free some space";
    case -EFBIG:
        return "the file system or a limit (ulimit -f) does not allow a file of this size";
    default:
        return "the kernel refuses it";
    }
}

/* ---- locking ----------------------------------------------------------------------------------- */

/*
 * Open and lock, once. Files by flock(), which conflicts between any two openings and works on NFS
 * when an exclusive lock is asked of a descriptor that may write; devices by O_EXCL, which keeps
 * mounts and other volumes out as well. Both locks belong to the opening itself, and so they end only
 * with its last request in flight, however the process ends.
 *
 * @return 0; -EBUSY; other negative errno
 */
static int open_and_lock(struct drive_opening *opening, int flags, bool device)
{
    int fd = open(opening->path, flags | (device ? O_EXCL : 0), FILE_MODE);
    if (fd < 0)
        return -errno;
    int lock = (opening->options->read_only ? LOCK_SH : LOCK_EX) | LOCK_NB;
    while (!device && flock(fd, lock) != 0) {
        int error = -errno;
        if (error == -EINTR)
            continue;
        (void)close(fd);
        return error == -EWOULDBLOCK ? -EBUSY : error;
    }
    opening->fd = fd;
    return 0;
}

/* Read the URL that the holder of the lock has left with the file. @return whether there is one */
static bool read_server_url(const struct drive_opening *opening, char *text, size_t room)
{
    ssize_t bytes = getxattr(opening->path, URL_ATTRIBUTE, text, room - 1);
    if (bytes <= 0)
        return false;
    text[bytes] = '\0';
    return true;
}

/* Log which server holds the file, if it has left a URL. The next writer removes the URL of a killed server. */
static int tell_holder(const struct drive_opening *opening, enum base_log_level level, const char *event)
{
    char url[URL_BYTES], path[DRIVE_QUOTED_BYTES], quoted[DRIVE_QUOTED_BYTES];
    (void)base_log_quote(path, sizeof(path), opening->path, strlen(opening->path));
    if (read_server_url(opening, url, sizeof(url)))
        BASE_LOG_AT(&opening->node->log, level, event,
                    "drive=%s reason=\"a server has it open\" url=%s remedy=\"use the server by this URL, or "
                    "stop it\"",
                    path, base_log_quote(quoted, sizeof(quoted), url, strlen(url)));
    else
        BASE_LOG_AT(
            &opening->node->log, level, event,
            "drive=%s reason=\"another process has it open, or it is mounted\" remedy=\"end that first; a "
            "server with --kv-unix or --kv-listen is used by its URL\"",
            path);
    return -EBUSY;
}

void drive_file_set_url(const char *path, const char *url)
{
    /* file systems without such attributes, and devices, hold no URL: then messages lack it, and all else works */
    if (url != NULL)
        (void)setxattr(path, URL_ATTRIBUTE, url, base_min(strlen(url), (size_t)URL_BYTES - 1), 0);
    else
        (void)removexattr(path, URL_ATTRIBUTE);
}

/* Open and lock, and wait for the lock if need be. @return 0 or negative errno, logged */
static int acquire_lock(struct drive_opening *opening, int flags, bool device)
{
    uint64_t wait_ns = opening->options->lock_wait_ns;
    uint64_t deadline_ns = task_now() + (wait_ns == 0 ? DRIVE_LOCK_WAIT_NS : wait_ns);
    bool told = false;
    int error;
    while ((error = open_and_lock(opening, flags, device)) == -EBUSY && task_now() < deadline_ns) {
        if (!told)
            (void)tell_holder(opening, BASE_LOG_WARN, "waiting for drive");
        told = true;
        flags &= ~O_EXCL; /* this opening has made the file, and opens it again */
        if (task_sleep(LOCK_RETRY_NS) != 0)
            break;
    }
    if (error == -EBUSY)
        return tell_holder(opening, BASE_LOG_ERROR, "cannot open drive");
    if (error == -ENOLCK || error == -ENOSYS || error == -EOPNOTSUPP)
        return refuse_file(opening, -ENOTSUP,
                           "its file system has no locks (flock): use another, or start the lock service");
    if (error == 0 && !opening->options->read_only)
        (void)fremovexattr(opening->fd, URL_ATTRIBUTE);
    return error == 0 ? 0 : refuse_file(opening, error, open_reason(opening, error));
}

/* Whether the path still leads to the opened file, which may have been removed during the wait for the lock. */
static int check_same(struct drive_opening *opening, struct stat *ret_status)
{
    struct stat by_path;
    if (fstat(opening->fd, ret_status) != 0)
        return refuse_file(opening, -errno, "the kernel refuses to describe it");
    if (stat(opening->path, &by_path) != 0 || by_path.st_dev != ret_status->st_dev ||
        by_path.st_ino != ret_status->st_ino)
        return refuse_file(opening, -EBUSY,
                           "it was removed or replaced while it was being opened: try again");
    return check_kind(opening, ret_status);
}

/* ---- making ------------------------------------------------------------------------------------ */

static int check_size(const struct drive_opening *opening, uint64_t bytes)
{
    if (bytes < DRIVE_BYTES_MIN || bytes > INT64_MAX - BASE_PAGE_BYTES)
        return refuse_file(opening, -EINVAL,
                           "the size is too small for a drive (64 KiB), or too large for a file");
    return 0;
}

/* Whether the file system has room for a range: a reservation that fails would leave it full. */
static bool has_room(int fd, const struct stat *status, uint64_t from, uint64_t to)
{
    struct statvfs system;
    uint64_t reserved = (uint64_t)status->st_blocks * 512;
    uint64_t missing = base_min(to - from, to - base_min(reserved, to));
    if (fstatvfs(fd, &system) != 0 || system.f_blocks == 0) /* the file system does not know */
        return true;
    return missing / system.f_frsize <= system.f_bavail;
}

/* @return 0; -EOPNOTSUPP (the file system cannot); other negative errno */
static int reserve_range(int fd, uint64_t from, uint64_t to)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return -errno;
    if (!has_room(fd, &status, from, to))
        return -ENOSPC;
    while (fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from)) != 0) {
        if (errno != EINTR)
            return -errno;
    }
    return 0;
}

/*
 * Make an empty file a drive: reserve its space first, and give it its size last, which is one step:
 * so a file with a size is whole, and one that a crash left half-made is empty.
 */
static int make_file(struct drive_opening *opening)
{
    uint64_t bytes = base_align_up(opening->options->create_bytes, BASE_PAGE_BYTES);
    opening->info.created = true;
    int error = reserve_range(opening->fd, 0, bytes);
    if (error == -EOPNOTSUPP) {
        drive_note(opening->node, BASE_LOG_WARN, opening->path, "space is not reserved",
                   "the file system cannot: a write may fail later when it is full");
        error = 0;
    }
    if (error == 0 && (ftruncate(opening->fd, (off_t)bytes) != 0 || fsync(opening->fd) != 0))
        error = -errno;
    if (error == 0)
        error = base_folder_sync(&opening->node->memory, opening->path); /* its name is durable, too */
    return error == 0 ? 0 : refuse_file(opening, error, open_reason(opening, error));
}

/* Make a file longer: its space is reserved first, as above. A failure leaves it as it was. */
static int grow_file(struct drive_opening *opening, const struct stat *status)
{
    uint64_t bytes = base_align_up(opening->options->grow_bytes, BASE_PAGE_BYTES);
    int error = check_size(opening, bytes);
    if (error != 0)
        return error;
    if (bytes < (uint64_t)status->st_size)
        return refuse_file(opening, -EINVAL, "it is longer already, and does not become shorter");
    error = reserve_range(opening->fd, 0, bytes);
    if (error == 0 || error == -EOPNOTSUPP)
        error = ftruncate(opening->fd, (off_t)bytes) != 0 || fsync(opening->fd) != 0 ? -errno : 0;
    return error == 0 ? 0 : refuse_file(opening, error, open_reason(opening, error));
}

int drive_file_extend(int fd, uint64_t from, uint64_t *ret_bytes)
{
    struct stat status;
    uint64_t bytes = 0;
    if (fstat(fd, &status) != 0)
        return -errno;
    if (S_ISBLK(status.st_mode)) {
        if (ioctl(fd, BLKGETSIZE64, &bytes) != 0)
            return -errno;
    } else {
        bytes = (uint64_t)status.st_size;
        int error = bytes > from ? reserve_range(fd, from, bytes) : 0;
        if (error != 0 && error != -EOPNOTSUPP)
            return error;
    }
    *ret_bytes = bytes;
    return 0;
}

/* ---- opening ----------------------------------------------------------------------------------- */

bool drive_file_is_missing(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return errno == ENOENT;
    return S_ISREG(status.st_mode) && status.st_size == 0;
}

/* The block device that opening it locks; 0: it is a file. A namespace's two nodes have one lock. */
static dev_t locked_device(const struct stat *status)
{
    return S_ISBLK(status->st_mode) ? status->st_rdev : nvme_block_number(status);
}

bool drive_file_is_same(const char *a, const char *b)
{
    struct stat of_a, of_b;
    if (stat(a, &of_a) != 0 || stat(b, &of_b) != 0)
        return false;
    dev_t device = locked_device(&of_a);
    if (device != 0)
        return device == locked_device(&of_b);
    return of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

void drive_file_abandon(struct drive_opening *opening)
{
    if (opening->info.created)
        (void)unlink(opening->path); /* the lock is held: no other process has begun to use the file */
    (void)close(opening->fd);
    opening->fd = -1;
}

/* Check the locked file, and make or grow it as the options ask. */
static int take_over(struct drive_opening *opening)
{
    struct stat status;
    int error = check_same(opening, &status);
    if (error != 0)
        return error;
    opening->info.device = S_ISBLK(status.st_mode);
    if (opening->info.device)
        return opening->options->grow_bytes == 0
                   ? 0
                   : refuse_file(opening, -EINVAL, "a device has the size it has");
    struct statfs system;
    if (fstatfs(opening->fd, &system) == 0)
        opening->memory = system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC;
    const struct drive_options *options = opening->options;
    if (options->grow_bytes > 0)
        return grow_file(opening, &status);
    if (status.st_size > 0 || options->create_bytes == 0 || options->read_only)
        return 0;
    error = check_size(opening, options->create_bytes);
    return error == 0 ? make_file(opening) : error;
}

int drive_file_acquire(struct drive_opening *opening)
{
    const struct drive_options *options = opening->options;
    int flags = (options->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC;
    bool device = false;
    struct stat status;
    int error = stat(opening->path, &status) == 0 ? 0 : -errno;
    if (error == 0) {
        error = check_kind(opening,
                           &status); /* before it is opened, because opening some devices has an effect */
        if (error != 0)
            return error;
        device = S_ISBLK(status.st_mode);
    } else if (error == -ENOENT && options->create_bytes > 0 && !options->read_only) {
        error = check_size(opening, options->create_bytes); /* before there is a file */
        if (error != 0)
            return error;
        flags |= O_CREAT | O_EXCL;
    } else {
        return refuse_file(opening, error, open_reason(opening, error));
    }
    error = acquire_lock(opening, flags, device);
    if (error != 0)
        return error;
    error = take_over(opening);
    if (error != 0)
        drive_file_abandon(opening);
    return error;
}
