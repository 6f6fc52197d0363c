/* Paths of Unix sockets: bound with a mode and a group of their own, replaced when their server is gone. */
#include "task/net.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define OWNERS_MODE 0700

int net_unix_address(const char *path, struct sockaddr_un *ret_address)
{
    size_t length = strlen(path);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (length == 0 || length >= sizeof(address.sun_path))
        return -EINVAL;
    memcpy(address.sun_path, path, length);
    *ret_address = address;
    return 0;
}

/* Remove the socket of a server that has ended. @return 0; -EADDRINUSE: a server listens, or the file is no socket */
static int remove_stale(const struct sockaddr_un *address)
{
    struct stat status;
    if (lstat(address->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode))
        return -EADDRINUSE;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    /* a socket of another type refuses with another error */
    bool stale =
        connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 && errno == ECONNREFUSED;
    (void)close(fd);
    if (!stale)
        return -EADDRINUSE;
    return unlink(address->sun_path) == 0 ? 0 : -errno;
}

/* Give the path its group, and then its mode, whatever the process's umask is. */
static int open_to(const char *path, const struct net_unix_access *access)
{
    if (access->group != NET_GROUP_SAME && lchown(path, (uid_t)-1, access->group) != 0)
        return -errno;
    return chmod(path, access->mode) == 0 ? 0 : -errno;
}

int net_unix_bind(int fd, const struct sockaddr_un *address, const struct net_unix_access *access,
                  struct net_unix_file *ret_file)
{
    /* the file gets the mode that the socket has before it is bound */
    if (fchmod(fd, OWNERS_MODE) != 0)
        return -errno;
    const struct sockaddr *where = (const struct sockaddr *)address;
    int error = bind(fd, where, sizeof(*address)) == 0 ? 0 : -errno;
    if (error == -EADDRINUSE) {
        error = remove_stale(address);
        if (error == 0)
            error = bind(fd, where, sizeof(*address)) == 0 ? 0 : -errno;
    }
    if (error == 0 && access != NULL) {
        error = open_to(address->sun_path, access);
        if (error != 0)
            (void)unlink(address->sun_path);
    }
    struct stat status;
    if (error == 0 && lstat(address->sun_path, &status) == 0)
        *ret_file = (struct net_unix_file){.device = status.st_dev, .inode = status.st_ino};
    return error;
}

bool net_unix_is_same(const char *path, const struct net_unix_file *file)
{
    struct stat status;
    return lstat(path, &status) == 0 && status.st_dev == file->device && status.st_ino == file->inode;
}

void net_unix_remove(const char *path, const struct net_unix_file *file)
{
    if (net_unix_is_same(path, file))
        (void)unlink(path);
}
