/* Secrets of namespaces and of memory servers, as they are in files. */
#include "space/space.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Read what there is of a file, up to one byte more than a secret has. @return how many bytes; -1: it cannot be read */
static ssize_t read_file(int fd, uint8_t *bytes, size_t room)
{
    size_t done = 0;
    ssize_t more;
    while (done < room && ((more = read(fd, bytes + done, room - done)) > 0 || (more < 0 && errno == EINTR)))
        done += more > 0 ? (size_t)more : 0;
    return done < room && more < 0 ? -1 : (ssize_t)done;
}

/* @return NULL; what is wrong */
static const char *read_secret(int fd, uint8_t *ret_secret, uint32_t *ret_bytes)
{
    uint8_t bytes[TARN_SPACE_SECRET_MAX + 2]; /* with a line end, and with one byte too many */
    struct stat about;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        return "it is no file";
    if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return "others may get at it: chmod 600";
    ssize_t count = read_file(fd, bytes, sizeof(bytes));
    if (count < 0)
        return "it cannot be read";
    count -= count > 0 && bytes[count - 1] == '\n' ? 1 : 0;
    if (count == 0 || count > TARN_SPACE_SECRET_MAX)
        return "1 to 64 bytes make a secret; a line end behind them is none of it";
    memcpy(ret_secret, bytes, (size_t)count);
    *ret_bytes = (uint32_t)count;
    return NULL;
}

const char *space_secret_read(const char *path, uint8_t *ret_secret, uint32_t *ret_bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return strerrordesc_np(errno);
    const char *wrong = read_secret(fd, ret_secret, ret_bytes);
    (void)close(fd);
    return wrong;
}
