/* A dump of a running server: a snapshot, written beside the old dump and renamed over it. */
#include "cli/serve_dump.h"

#include "cli/records.h"
#include "depot/depot.h"
#include "drive/drive.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

/* Others may write about such a part of what is stored before the space that the dump keeps is needed. */
#define ROOM_PARTS 8

/* A dump that is asked for. */
struct dump {
    const struct serve *serve;
    struct tarn_depot *depot;
    const char *path;
};

/* Whether a file is one that a store lies on. */
static bool is_of_depot(const struct tarn_depot *depot, const struct stat *file)
{
    const struct drive *whole = depot_drive(depot);
    bool is_one = false;
    for (uint32_t i = 0; i < drive_member_count(whole); i++) {
        struct stat member;
        is_one = is_one || (stat(drive_path(drive_member(whole, i)), &member) == 0 &&
                            member.st_dev == file->st_dev && member.st_ino == file->st_ino);
    }
    return is_one;
}

static bool is_of_store(const struct serve *serve, const struct stat *file)
{
    bool is_one = false;
    for (uint32_t i = 0; i < serve_store_count(serve); i++)
        is_one = is_one || (serve_depot(serve, i) != NULL && is_of_depot(serve_depot(serve, i), file));
    return is_one;
}

/* Only a plain file is written over. @return 0; -EEXIST; what stat() says */
static int check_target(const struct serve *serve, const char *path)
{
    struct stat there;
    if (lstat(path, &there) != 0)
        return errno == ENOENT ? 0 : -errno;
    return S_ISREG(there.st_mode) && !is_of_store(serve, &there) ? 0 : -EEXIST;
}

/* An empty file for nobody else's eyes. @return 0; a negative errno */
static int open_new(const struct serve *serve, const char *path, FILE **ret_file)
{
    int error = check_target(serve, path);
    if (error == 0 && unlink(path) != 0 && errno != ENOENT)
        error = -errno;
    if (error != 0)
        return error;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0)
        return -errno;
    *ret_file = fdopen(fd, "w");
    if (*ret_file != NULL)
        return 0;
    error = -errno;
    (void)close(fd);
    return error;
}

static int write_moment(const struct dump *dump, struct cli_records *records)
{
    struct tarn_depot *depot = dump->depot;
    struct tarn_depot_stats stats;
    tarn_depot_stats(depot, &stats);
    int error = tarn_depot_snapshot_open(depot, stats.live_bytes / ROOM_PARTS, &records->snapshot);
    if (error != 0)
        return error;
    error = cli_records_write(&serve_node(dump->serve)->memory, records);
    tarn_depot_snapshot_close(records->snapshot);
    return error;
}

/* @return 0; -EBADMSG (records are damaged); a negative errno. The new file is gone then */
static int write_dump(const struct dump *dump, struct cli_records *records)
{
    const struct serve *serve = dump->serve;
    const char *path = dump->path;
    char new_path[PATH_MAX];
    int len = snprintf(new_path, sizeof(new_path), "%s.new", path);
    if (len < 0 || (size_t)len >= sizeof(new_path))
        return -ENAMETOOLONG;
    int error = check_target(serve, path);
    if (error == 0)
        error = open_new(serve, new_path, &records->file);
    if (error != 0)
        return error;
    error = write_moment(dump, records);
    if (error == 0 && records->damaged)
        error = -EBADMSG; /* an earlier one that is whole is worth more */
    if (error == 0 && fsync(fileno(records->file)) != 0)
        error = -errno;
    if (fclose(records->file) != 0 && error == 0)
        error = -errno;
    if (error == 0 && rename(new_path, path) != 0)
        error = -errno;
    if (error == 0)
        return base_folder_sync(&serve_node(dump->serve)->memory, path);
    (void)unlink(new_path);
    return error;
}

static const char *reason(int error)
{
    switch (error) {
    case -EEXIST:
        return "there is something that is no plain file, or the store itself";
    case -EINTR:
        return "the server ends";
    case -ECANCELED:
        return "its space or memory was needed for writing; try when less is written";
    case -EBADMSG:
        return "records of the store are damaged; what there was is kept";
    default:
        return strerrordesc_np(-error);
    }
}

void cli_serve_dump(const struct serve *serve, uint32_t place, bool (*stops)(void *arg), void *arg)
{
    const struct dump dump = {
        .serve = serve, .depot = serve_depot(serve, place), .path = serve_dump_path(serve, place)};
    struct base_log *log = &serve_node(serve)->log;
    struct cli_records records = {
        .whole_bytes_max = tarn_depot_whole_bytes_max(dump.depot), .stops = stops, .arg = arg};
    const char *path = dump.path;
    uint64_t begin_ns = task_now();
    base_info(log, "dump begins", "path=%s", path);
    int error = write_dump(&dump, &records);
    if (error == 0)
        base_info(log, "dump written", "path=%s records=%" PRIu64 " ms=%" PRIu64, path, records.count,
                  (task_now() - begin_ns) / BASE_NS_PER_MS);
    else
        base_error(log, "a dump failed", "path=%s why=\"%s\"", path, reason(error));
}
