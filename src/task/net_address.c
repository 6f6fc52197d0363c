/* Addresses: from text to the kernel's form, and back. Sockets are bound by net_listener.c and net_unix.c. */
#include "task/net_internal.h"
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/un.h>
#include <unistd.h>

static const char unix_prefix[] = "unix:";

/* Decimal digits only, to the end of the text. @return false: not a port */
static bool parse_port(const char *text, in_port_t *ret_port)
{
    uint32_t port = 0;
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        port = port * 10 + (uint32_t)(*text - '0');
        if (port > UINT16_MAX)
            return false;
    }
    *ret_port = htons((uint16_t)port);
    return true;
}

static int parse_unix(const char *path, struct net_address *ret_address)
{
    ret_address->bytes = sizeof(struct sockaddr_un);
    return net_unix_address(path, (struct sockaddr_un *)&ret_address->storage);
}

/* `host` and `port` are the text's parts, the brackets of IPv6 left out; `host` is cut behind the address. */
static int parse_inet(char *host, bool six, const char *port, struct net_address *ret_address)
{
    struct sockaddr_in6 address6 = {.sin6_family = AF_INET6};
    struct sockaddr_in address4 = {.sin_family = AF_INET};
    in_port_t *number = six ? &address6.sin6_port : &address4.sin_port;
    void *where = six ? (void *)&address6.sin6_addr : (void *)&address4.sin_addr;
    char *interface = six ? strchr(host, '%') : NULL;
    if (interface != NULL) {
        *interface++ = '\0';
        address6.sin6_scope_id = if_nametoindex(interface);
        if (address6.sin6_scope_id == 0)
            return -EINVAL;
    }
    if (!parse_port(port, number) || inet_pton(six ? AF_INET6 : AF_INET, host, where) != 1)
        return -EINVAL;
    ret_address->bytes = six ? sizeof(address6) : sizeof(address4);
    memcpy(&ret_address->storage, six ? (void *)&address6 : (void *)&address4, ret_address->bytes);
    return 0;
}

int net_address_parse(const char *text, struct net_address *ret_address)
{
    if (strncmp(text, unix_prefix, sizeof(unix_prefix) - 1) == 0)
        return parse_unix(text + sizeof(unix_prefix) - 1, ret_address);
    const char *colon = strrchr(text, ':');
    if (colon == NULL)
        return -EINVAL;
    bool six = text[0] == '[';
    const char *begin = six ? text + 1 : text;
    const char *end = six ? colon - 1 : colon;
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE];
    if (end < begin || (six && *end != ']') || (size_t)(end - begin) >= sizeof(host))
        return -EINVAL;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    return parse_inet(host, six, colon + 1, ret_address);
}

const char *net_address_path(const struct net_address *address)
{
    return address->storage.ss_family == AF_UNIX ? ((const struct sockaddr_un *)&address->storage)->sun_path
                                                 : NULL;
}

void net_address_format(const struct net_address *address, char *ret_text, size_t room)
{
    char host[INET6_ADDRSTRLEN] = "", interface[IF_NAMESIZE];
    switch (address->storage.ss_family) {
    case AF_INET: {
        const struct sockaddr_in *four = (const struct sockaddr_in *)&address->storage;
        (void)inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
        (void)snprintf(ret_text, room, "%s:%u", host, ntohs(four->sin_port));
        return;
    }
    case AF_INET6: {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->storage;
        (void)inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
        bool is_named = six->sin6_scope_id != 0 && if_indextoname(six->sin6_scope_id, interface) != NULL;
        (void)snprintf(ret_text, room, "[%s%s%s]:%u", host, is_named ? "%" : "", is_named ? interface : "",
                       ntohs(six->sin6_port));
        return;
    }
    default:
        (void)snprintf(ret_text, room, "unix:%s", net_address_path(address));
    }
}

int net_address_socket(const struct net_address *address)
{
    int family = address->storage.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    const int on = 1;
    if (family != AF_UNIX && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
        int error = -errno;
        (void)close(fd);
        return error;
    }
    return fd;
}

bool net_is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]", 5) == 0;
}
