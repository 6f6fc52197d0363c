/* What a process has used: processor time, memory; and a free port. */
#include "lab/usage.h"

#include "bench/machine.h"
#include <errno.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static uint64_t nanoseconds(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * BASE_NS_PER_SECOND + (uint64_t)time->tv_usec * BASE_NS_PER_US;
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
    uint64_t resident_kib;
    int error = bench_number_read("/proc/self/status", "VmRSS:", &resident_kib);
    if (error != 0)
        return error;
    found.resident_bytes = resident_kib << 10;
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
