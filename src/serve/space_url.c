/* What an operator says of a space: where it is reached. For `tarn serve` and `tarn space`. */
#include "serve/serve.h"
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOCALHOST "localhost:"

/* Add one to a list of addresses. @return whether there is room */
static bool add_address(struct serve_space_url *url, const char *format, ...)
{
    char address[PATH_MAX * 2];
    va_list arguments;
    va_start(arguments, format);
    const int len = vsnprintf(address, sizeof(address), format, arguments);
    va_end(arguments);
    const size_t used = strlen(url->addresses);
    const int more =
        snprintf(url->addresses + used, sizeof(url->addresses) - used, "%s%s", used == 0 ? "" : ",", address);
    return len > 0 && len < SERVE_ADDRESS_ROOM && (size_t)more < sizeof(url->addresses) - used;
}

/* Read a path, which has to be the same one in other processes, wherever these run. @return NULL; what is wrong */
static const char *read_path(const char *path, size_t len, struct serve_space_url *ret_url)
{
    char folder[PATH_MAX] = "";
    if (path[0] != '/' && getcwd(folder, sizeof(folder)) == NULL)
        return "the working folder has no path: name the socket with a / before it";
    if (len == 0 || !add_address(ret_url, "%s%s%.*s", folder, folder[0] == '\0' ? "" : "/", (int)len, path))
        return "the socket's path, from / on, has 1 to 107 bytes, and no comma";
    return NULL;
}

/* Read ADDRESS:PORT. @return NULL; what is wrong */
static const char *read_host(const char *text, size_t len, struct serve_space_url *ret_url)
{
    const bool is_local = len > sizeof(LOCALHOST) - 1 && strncmp(text, LOCALHOST, sizeof(LOCALHOST) - 1) == 0;
    const size_t skipped = is_local ? sizeof(LOCALHOST) - 1 : 0; /* never another machine (RFC 6761) */
    const char *colon = memrchr(text, ':', len);
    if (len == 0 || len >= SERVE_ADDRESS_ROOM)
        return "the address has 1 to 107 bytes: tarn://ADDRESS:PORT";
    if (memchr(text, '/', len) != NULL)
        return "nothing stands behind the port but perhaps ?tcp: or ?verbs: with options";
    const size_t port = colon == NULL ? 0 : (size_t)(text + len - colon);
    if (colon == NULL || memchr(colon, ']', port) != NULL || strspn(colon, ":0") >= port)
        return "it has no port: say tarn://ADDRESS:PORT";
    return add_address(ret_url, "%s%.*s", is_local ? "127.0.0.1:" : "", (int)(len - skipped), text + skipped)
               ? NULL
               : "there are more addresses than have room: 1,023 bytes";
}

/* Read the fabric behind a question mark. @param mark  NULL: there is none @return NULL; what is wrong */
static const char *read_fabric(const char *mark, struct serve_space_url *ret_url)
{
    const char *fabric = ret_url->is_shm ? "shm:" : mark == NULL ? "tcp:" : mark + 1;
    if (!ret_url->is_shm && strncmp(fabric, "tcp:", 4) != 0 && strncmp(fabric, "verbs:", 6) != 0)
        return "behind the ? stands tcp: or verbs:, with its options";
    const int bytes = snprintf(ret_url->fabric, sizeof(ret_url->fabric), "%s", fabric);
    return bytes > 0 && (size_t)bytes < sizeof(ret_url->fabric) ? NULL
                                                                : "the options of the fabric are too long";
}

const char *serve_space_url_read(const char *url, struct serve_space_url *ret_url)
{
    *ret_url = (struct serve_space_url){.is_shm = strncmp(url, "unix:", 5) == 0};
    if (!ret_url->is_shm && strncmp(url, "tarn://", 7) != 0)
        return "a space is named as unix:PATH, the socket of its master on this machine, or "
               "tarn://ADDRESS:PORT";
    const char *at = url + (ret_url->is_shm ? 5 : 7), *mark = ret_url->is_shm ? NULL : strchr(at, '?');
    const char *end = mark == NULL ? at + strlen(at) : mark;
    const char *wrong;
    ret_url->says_fabric = mark != NULL;
    do {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const size_t len = (size_t)((comma == NULL ? end : comma) - at);
        wrong = ret_url->is_shm ? read_path(at, len, ret_url) : read_host(at, len, ret_url);
        at += len + 1;
    } while (wrong == NULL && at <= end);
    return wrong == NULL ? read_fabric(mark, ret_url) : wrong;
}
