/*
 * What systemd is told of a server, without its library: readiness and progress as datagrams to the socket that
 * NOTIFY_SOCKET names (sd_notify(3)), and the priority of log lines as a number in front of them (sd-daemon(3)).
 */
#include "cli/systemd.h"
#include "task/task.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINES_BYTES    512
#define PROGRESS_NS    BASE_NS_PER_SECOND
#define EXTENSION_USEC "60000000" /* longer than the longest step of an opening */

/* A name that begins with @ is one of the abstract ones. @return bytes of the address; 0: there is none */
static socklen_t find_address(struct sockaddr_un *address)
{
    const char *path = getenv("NOTIFY_SOCKET");
    const size_t len = path == NULL ? 0 : strlen(path);
    if (len < 2 || len > sizeof(address->sun_path) - 1 || (path[0] != '/' && path[0] != '@'))
        return 0;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, path, len);
    if (path[0] == '@')
        address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (path[0] == '@' ? 0 : 1));
}

void cli_notify_open(struct cli_notify *notify)
{
    *notify = (struct cli_notify){.is_wanted = false};
    notify->address_bytes = find_address(&notify->address);
    if (notify->address_bytes == 0)
        return;
    notify->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    notify->is_wanted = notify->socket >= 0;
}

void cli_notify_close(struct cli_notify *notify)
{
    if (notify->is_wanted)
        (void)close(notify->socket);
    notify->is_wanted = false;
}

void cli_notify(const struct cli_notify *notify, const char *lines)
{
    /* to the address each time: the manager may have made its socket anew */
    if (notify->is_wanted)
        (void)sendto(notify->socket, lines, strlen(lines), MSG_NOSIGNAL,
                     (const struct sockaddr *)&notify->address, notify->address_bytes);
}

void cli_notify_progress(void *arg, const char *store, const char *what, const char *unit, uint64_t done,
                         uint64_t all)
{
    struct cli_notify *notify = arg;
    char lines[LINES_BYTES];
    const uint64_t now_ns = task_now();
    if (!notify->is_wanted || (notify->extended_ns != 0 && now_ns - notify->extended_ns < PROGRESS_NS))
        return;
    notify->extended_ns = now_ns;
    (void)snprintf(lines, sizeof(lines),
                   "EXTEND_TIMEOUT_USEC=" EXTENSION_USEC "\nSTATUS=opening the store %s: %s, %" PRIu64
                   " of %" PRIu64 " %s\n",
                   store, what, done, all, unit);
    cli_notify(notify, lines);
}

bool cli_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat status;
    uintmax_t device, inode;
    return stream != NULL && sscanf(stream, "%ju:%ju", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

void cli_journal_sink(void *arg base_unused, enum base_log_level level, const char *line, size_t len)
{
    static const char priorities[] = {
        [BASE_LOG_ERROR] = '3', [BASE_LOG_WARN] = '4', [BASE_LOG_INFO] = '6', [BASE_LOG_DEBUG] = '7'};
    char whole[BASE_LOG_LINE_BYTES + 3] = {'<', priorities[level], '>'};
    const size_t bytes = base_min(len, sizeof(whole) - 3);
    memcpy(whole + 3, line, bytes);
    base_log_sink_file(stderr, level, whole, bytes + 3);
}
