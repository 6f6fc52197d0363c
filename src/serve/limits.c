/* The limit of open files, of which each connection takes one. */
#include "serve/serve_internal.h"
#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <unistd.h>

#define FILES_BESIDE 16 /* descriptors for files that are opened later: dumps, secrets, refusals */

void serve_files_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Count open files: the kernel gives out the lowest free descriptor, so the next one is about their number. */
uint64_t serve_files_open(void)
{
    int next = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (next < 0)
        return 0;
    (void)close(next);
    return (uint64_t)next;
}

void serve_files_check(struct serve *serve)
{
    const uint64_t addresses = serve->listener_count + serve->kv_listener_count;
    const uint64_t wanted = addresses * serve->options->connections_max,
                   beside = serve_files_open() + FILES_BESIDE;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted + beside)
        return;
    const struct rlimit raised = {.rlim_cur = wanted + beside,
                                  .rlim_max = base_max(limit.rlim_max, wanted + beside)};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
        return;
    const uint64_t left = limit.rlim_cur - base_min((uint64_t)limit.rlim_cur, beside);
    base_warn(&serve->node->log, "the limit of open files allows fewer connections than --max-connections",
              "limit=%" PRIu64 " connections=%" PRIu64 " max_connections=%" PRIu64 " addresses=%" PRIu64
              " remedy=\"raise the limit (ulimit -n, LimitNOFILE= of the unit), or lower --max-connections\"",
              (uint64_t)limit.rlim_cur, left, serve->options->connections_max, addresses);
}
