/* A client of memcached's text protocol for tools, which blocks: addresses, connections, questions and statistics. */
#include "memcache/client.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    SECONDS_CONNECT = 5,
    SECONDS_ANSWER = 5,
    STATS_ROOM = 16 << 10,
};

/* ---- addresses ----------------------------------------------------------------------------------- */

static int read_unix(const char *path, struct memcache_client_address *ret_address)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(address.sun_path))
        return -EINVAL;
    memcpy(address.sun_path, path, len);
    *ret_address = (struct memcache_client_address){.bytes = sizeof(address)};
    memcpy(&ret_address->address, &address, sizeof(address));
    return 0;
}

int memcache_client_address_read(const char *text, struct memcache_client_address *ret_address)
{
    static const char unix_prefix[] = "unix:";
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char host[256];
    if (strncmp(text, unix_prefix, sizeof(unix_prefix) - 1) == 0)
        return read_unix(text + sizeof(unix_prefix) - 1, ret_address);
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || (size_t)(colon - text) >= sizeof(host))
        return -EINVAL;
    uint64_t port;
    if (base_parse_u64(colon + 1, &port) != 0 || port < 1 || port > UINT16_MAX)
        return -EINVAL;
    size_t begin = text[0] == '[' && colon[-1] == ']' ? 1 : 0;
    (void)snprintf(host, sizeof(host), "%.*s", (int)((size_t)(colon - text) - 2 * begin), text + begin);
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return -ENOENT;
    *ret_address = (struct memcache_client_address){.bytes = found->ai_addrlen};
    memcpy(&ret_address->address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

struct memcache_client_address memcache_client_address_of_port(uint16_t port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    struct memcache_client_address address = {.bytes = sizeof(to)};
    memcpy(&address.address, &to, sizeof(to));
    return address;
}

int memcache_client_connect(const struct memcache_client_address *address)
{
    const struct timeval patience = {.tv_sec = SECONDS_CONNECT};
    const int on = 1;
    bool tcp = address->address.ss_family != AF_UNIX;
    int fd = socket(address->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0 &&
        (!tcp || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0) &&
        connect(fd, (const struct sockaddr *)&address->address, address->bytes) == 0)
        return fd;
    int error = errno == EINPROGRESS || errno == EAGAIN ? -ETIMEDOUT : -errno;
    (void)close(fd);
    return error;
}

/* ---- questions ------------------------------------------------------------------------------- */

int memcache_client_ask(const struct memcache_client_address *address, const char *text, const char *end,
                        char *ret_answer, size_t room)
{
    const struct timeval patience = {.tv_sec = SECONDS_ANSWER};
    int fd = memcache_client_connect(address);
    if (fd < 0)
        return fd;
    size_t len = 0;
    int error = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
        send(fd, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text))
        error = -EPIPE;
    while (error == 0) {
        ssize_t got = recv(fd, ret_answer + len, room - 1 - len, 0);
        if (got <= 0) {
            error = got == 0 ? -EPIPE : errno == EAGAIN ? -ETIMEDOUT : -errno;
            break;
        }
        len += (size_t)got;
        ret_answer[len] = '\0';
        if (len >= strlen(end) && strcmp(ret_answer + len - strlen(end), end) == 0)
            break;
        if (len == room - 1)
            error = -EBADMSG;
    }
    (void)close(fd);
    return error;
}

size_t memcache_client_find_stat(const char *answer, const char *name, const char **ret_value)
{
    char begin[128];
    int len = snprintf(begin, sizeof(begin), "STAT %s ", name);
    for (const char *line = answer; *line != '\0'; line += strspn(line, "\r\n")) {
        if (strncmp(line, begin, (size_t)len) == 0) {
            *ret_value = line + len;
            return strcspn(line + len, "\r\n");
        }
        line += strcspn(line, "\r\n");
    }
    return 0;
}

int memcache_client_stat(const struct memcache_client_address *address, const char *name, uint64_t *ret_value)
{
    char answer[STATS_ROOM];
    const char *value;
    int error = memcache_client_ask(address, "stats\r\n", "END\r\n", answer, sizeof(answer));
    if (error != 0)
        return error;
    size_t len = memcache_client_find_stat(answer, name, &value);
    if (len == 0)
        return -ENOENT;
    return base_parse_u64_len(value, len, ret_value) == 0 ? 0 : -EBADMSG;
}
