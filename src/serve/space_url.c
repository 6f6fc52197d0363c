/* What an operator says of a space: where it is reached, and its secrets. For `tarn serve` and `tarn space`. */
#include "serve/serve.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCALHOST "localhost:"

/* Read a path, which has to be the same one in other processes, wherever these run. @return NULL; what is wrong */
static const char *read_path(const char *path, struct serve_space_url *ret_url)
{
    char folder[PATH_MAX] = "";
    char *address = ret_url->address;
    if (path[0] != '/' && getcwd(folder, sizeof(folder)) == NULL)
        return "the working folder has no path: name the socket with a / before it";
    const int len = path[0] == '\0' ? 0
                                    : snprintf(address, sizeof(ret_url->address), "%s%s%s", folder,
                                               folder[0] == '\0' ? "" : "/", path);
    if (len <= 0 || (size_t)len >= sizeof(ret_url->address))
        return "the socket's path, from / on, has 1 to 107 bytes";
    (void)snprintf(ret_url->fabric, sizeof(ret_url->fabric), "shm:");
    ret_url->is_shm = true;
    return NULL;
}

/* Read ADDRESS:PORT, and the fabric behind a question mark. @return NULL; what is wrong */
static const char *read_host(const char *text, struct serve_space_url *ret_url)
{
    const char *mark = strchr(text, '?'), *fabric = mark == NULL ? "tcp:" : mark + 1;
    const size_t len = mark == NULL ? strlen(text) : (size_t)(mark - text);
    char *address = ret_url->address;
    const bool is_local = len > sizeof(LOCALHOST) - 1 && strncmp(text, LOCALHOST, sizeof(LOCALHOST) - 1) == 0;
    const size_t skipped = is_local ? sizeof(LOCALHOST) - 1 : 0; /* never another machine (RFC 6761) */
    const int bytes = snprintf(address, sizeof(ret_url->address), "%s%.*s", is_local ? "127.0.0.1:" : "",
                               (int)(len - skipped), text + skipped);
    if (bytes <= 0 || (size_t)bytes >= sizeof(ret_url->address))
        return "the address has 1 to 107 bytes: tarn://ADDRESS:PORT";
    const char *colon = strrchr(address, ':');
    if (strchr(address, '/') != NULL)
        return "nothing stands behind the port but perhaps ?tcp: or ?verbs: with options";
    if (colon == NULL || strchr(colon, ']') != NULL || colon[strspn(colon, ":0")] == '\0')
        return "it has no port: say tarn://ADDRESS:PORT";
    if (strncmp(fabric, "tcp:", 4) != 0 && strncmp(fabric, "verbs:", 6) != 0)
        return "behind the ? stands tcp: or verbs:, with its options";
    const int fabric_bytes = snprintf(ret_url->fabric, sizeof(ret_url->fabric), "%s", fabric);
    if (fabric_bytes <= 0 || (size_t)fabric_bytes >= sizeof(ret_url->fabric))
        return "the options of the fabric are too long";
    ret_url->says_fabric = mark != NULL;
    return NULL;
}

const char *serve_space_url_read(const char *url, struct serve_space_url *ret_url)
{
    *ret_url = (struct serve_space_url){.is_shm = false};
    if (strncmp(url, "unix:", 5) == 0)
        return read_path(url + 5, ret_url);
    if (strncmp(url, "tarn://", 7) == 0)
        return read_host(url + 7, ret_url);
    return "a space is named as unix:PATH, the socket of its master on this machine, or tarn://ADDRESS:PORT";
}

/* ---- secrets ------------------------------------------------------------------------------------ */

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

const char *serve_secret_read(const char *path, uint8_t *ret_secret, uint32_t *ret_bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return strerrordesc_np(errno);
    const char *wrong = read_secret(fd, ret_secret, ret_bytes);
    (void)close(fd);
    return wrong;
}
