/* What the machine is, and on which of its cores a thread runs. */
#include "bench/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The value of the first line "NAME<blanks>: VALUE" of a file of /proc. */
static void read_value(const char *path, const char *name, char *ret_text, size_t room)
{
    (void)snprintf(ret_text, room, "unknown");
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    char line[1024];
    while (fgets(line, sizeof(line), file) != NULL) {
        char *value = strchr(line, ':');
        if (strncmp(line, name, strlen(name)) != 0 || value == NULL)
            continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        if (value[0] != '\0')
            (void)snprintf(ret_text, room, "%.*s", (int)room - 1, value);
        break;
    }
    (void)fclose(file);
}

static void find_cores(struct bench_machine *machine)
{
    CPU_ZERO(&machine->allowed);
    if (sched_getaffinity(0, sizeof(machine->allowed), &machine->allowed) != 0)
        CPU_SET(0, &machine->allowed);
    machine->processors = (uint32_t)CPU_COUNT(&machine->allowed);
    size_t found = 0;
    for (size_t i = 0; i < CPU_SETSIZE && found < BENCH_CORES_MAX; i++) {
        if (CPU_ISSET(i, &machine->allowed))
            machine->cores[found++] = i;
    }
    for (; found < BENCH_CORES_MAX; found++)
        machine->cores[found] = machine->cores[0];
}

void bench_machine_read(struct bench_machine *ret_machine)
{
    *ret_machine = (struct bench_machine){0};
    read_value("/proc/cpuinfo", "model name", ret_machine->processor, sizeof(ret_machine->processor));
    struct utsname names;
    if (uname(&names) == 0)
        (void)snprintf(ret_machine->kernel, sizeof(ret_machine->kernel), "%.30s %.60s %.30s", names.sysname,
                       names.release, names.machine);
    else
        (void)snprintf(ret_machine->kernel, sizeof(ret_machine->kernel), "unknown");
    find_cores(ret_machine);
}

void bench_pin(const struct bench_machine *machine, int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(machine->cores[core], &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
}

void bench_unpin(const struct bench_machine *machine)
{
    (void)sched_setaffinity(0, sizeof(machine->allowed), &machine->allowed);
}

bool bench_has_two_cores(const struct bench_machine *machine)
{
    return machine->cores[0] != machine->cores[1];
}

int bench_number_read(const char *path, const char *name, uint64_t *ret_number)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -errno;
    char line[256];
    int error = -ENOENT;
    while (error == -ENOENT && fgets(line, sizeof(line), file) != NULL) {
        size_t len = strlen(name);
        if (strncmp(line, name, len) == 0)
            error = base_parse_u64_len(line + len, strcspn(line + len, " \n"), ret_number);
    }
    (void)fclose(file);
    return error;
}
