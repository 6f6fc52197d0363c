/* The folder that a file is in. */
#include "base/folder.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int base_folder_open(struct base_account *account, const char *path)
{
    const char *slash = strrchr(path, '/');
    const size_t len = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    char *folder = base_alloc(account, len + 2);
    if (folder == NULL)
        return -ENOMEM;
    memcpy(folder, path, len);
    folder[len] = '.'; /* "." or "FOLDER/." */
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        fd = -errno;
    base_free(account, folder, len + 2);
    return fd;
}

int base_folder_sync(struct base_account *account, const char *path)
{
    const int fd = base_folder_open(account, path);
    if (fd < 0)
        return fd;
    const int error = fsync(fd) == 0 ? 0 : -errno;
    (void)close(fd);
    return error;
}
