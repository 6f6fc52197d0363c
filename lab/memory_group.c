/* Memory control groups: making one, moving processes into it, and reading its counts. */
#include "lab/memory_group.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDER_MODE = 0755, TEXT_ROOM = 32 };

static int write_text(const char *folder, const char *name, const char *text)
{
    char path[LAB_MEMORY_GROUP_PATH_ROOM];
    int len = snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (len < 0 || (size_t)len >= sizeof(path))
        return -ENAMETOOLONG;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int error = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -errno;
    (void)close(fd);
    return error;
}

/* The names are those of version 2, and where there is no such file, of version 1. Memory that is swapped out
 * counts, where the kernel can tell. */
static int set_limit(const char *path, uint64_t bytes)
{
    char text[TEXT_ROOM];
    (void)snprintf(text, sizeof(text), "%" PRIu64 "\n", bytes);
    int error = write_text(path, "memory.max", text);
    if (error == 0)
        (void)write_text(path, "memory.swap.max", "0\n");
    if (error != -ENOENT)
        return error;
    error = write_text(path, "memory.limit_in_bytes", text);
    if (error == 0)
        (void)write_text(path, "memory.memsw.limit_in_bytes", text);
    return error;
}

int lab_memory_group_open(struct bench *bench, const char *folder, const char *name, uint64_t bytes,
                          struct lab_memory_group *ret_group)
{
    struct lab_memory_group group;
    int len = snprintf(group.path, sizeof(group.path), "%s/%s", folder, name);
    if (len < 0 || (size_t)len >= sizeof(group.path))
        return bench_fail(bench, -ENAMETOOLONG, "%s", folder);
    (void)write_text(folder, "cgroup.subtree_control", "+memory\n"); /* version 2 may need it, or have it */
    if (mkdir(group.path, FOLDER_MODE) != 0)
        return bench_fail(bench, -errno, "making the control group %s", group.path);
    int error = set_limit(group.path, bytes);
    if (error != 0) {
        (void)rmdir(group.path);
        return bench_fail(bench, error, "%s is no memory control group that groups can be made in: its limit",
                          folder);
    }
    *ret_group = group;
    return 0;
}

void lab_memory_group_close(struct bench *bench, struct lab_memory_group *group)
{
    if (group->path[0] != '\0' && rmdir(group->path) != 0)
        (void)bench_fail(bench, -errno, "removing the control group %s", group->path);
    group->path[0] = '\0';
}

int lab_memory_group_used(const struct lab_memory_group *group, uint64_t *ret_bytes)
{
    char path[LAB_MEMORY_GROUP_PATH_ROOM + TEXT_ROOM];
    (void)snprintf(path, sizeof(path), "%s/memory.current", group->path);
    int error = bench_number_read(path, "", ret_bytes);
    if (error != -ENOENT)
        return error;
    (void)snprintf(path, sizeof(path), "%s/memory.usage_in_bytes", group->path);
    return bench_number_read(path, "", ret_bytes);
}

/* A process is moved by writing its number, or 0 for itself, to the group's list of processes. */
int lab_memory_group_join(const char *path)
{
    return write_text(path, "cgroup.procs", "0\n");
}
