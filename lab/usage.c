/* What a process has used: processor time, memory; and a free port. */
#include "lab/usage.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static uint64_t nanoseconds(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * BASE_NS_PER_SECOND + (uint64_t)time->tv_usec * BASE_NS_PER_US;
}

/* The second number of /proc/self/statm is the pages in memory. */
static int read_resident(uint64_t *ret_bytes)
{
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return -errno;
    char line[256];
    bool read = fgets(line, sizeof(line), file) != NULL;
    (void)fclose(file);
    if (!read)
        return -EIO;
    const char *second = line + strcspn(line, " ");
    second += strspn(second, " ");
    uint64_t pages;
    int error = base_parse_u64_len(second, strcspn(second, " \n"), &pages);
    if (error == 0)
        *ret_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return error;
}

uint64_t lab_thread_ns(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0)
        return 0;
    return nanoseconds(&usage.ru_utime) + nanoseconds(&usage.ru_stime);
}

int lab_usage_read(struct lab_usage *ret_usage)
{
    struct rusage usage;
    struct lab_usage found = {0};
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return -errno;
    int error = read_resident(&found.resident_bytes);
    if (error != 0)
        return error;
    found.processor_ns = nanoseconds(&usage.ru_utime) + nanoseconds(&usage.ru_stime);
    found.sleeps = (uint64_t)usage.ru_nvcsw;
    *ret_usage = found;
    return 0;
}

int lab_find_port(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int error = 0;
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
        error = -errno;
    else
        *ret_port = ntohs(address.sin_port);
    (void)close(fd);
    return error;
}
