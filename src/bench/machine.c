/* What the machine is, and on which of its cores a thread runs. */
#include "bench/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

/*
 * What stands behind blanks, and a colon if there is one, in the first line of a file that begins with a name.
 *
 * @return 0; -ENOENT: there is no such line, or nothing in it; negative errno
 */
static int read_line(const char *path, const char *name, char *ret_text, size_t room)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -errno;
    char line[1024];
    int error = -ENOENT;
    while (error == -ENOENT && fgets(line, sizeof(line), file) != NULL) {
        const char *text = line + strlen(name);
        if (strncmp(line, name, strlen(name)) != 0)
            continue;
        text += strspn(text, " \t:");
        size_t len = strcspn(text, "\n");
        while (len > 0 && text[len - 1] == ' ')
            len--;
        (void)snprintf(ret_text, room, "%.*s", (int)base_min(len, room - 1), text);
        error = len > 0 ? 0 : -ENOENT;
    }
    (void)fclose(file);
    return error;
}

/* The block device of the working folder. A partition's model is that of the disk above it. */
static void find_disk(struct bench_machine *machine)
{
    static const char *const models[] = {"device/model", "../device/model"};
    struct stat folder;
    char link[64], path[128], device[256], model[64] = "";
    (void)snprintf(machine->disk, sizeof(machine->disk), "unknown");
    if (stat(".", &folder) != 0)
        return;
    (void)snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(folder.st_dev), minor(folder.st_dev));
    ssize_t len = readlink(link, device, sizeof(device) - 1);
    if (len <= 0)
        return;
    device[len] = '\0';
    for (size_t i = 0; i < base_array_count(models) && model[0] == '\0'; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", link, models[i]);
        (void)read_line(path, "", model, sizeof(model));
    }
    (void)snprintf(machine->disk, sizeof(machine->disk), "%.60s%s%s", strrchr(device, '/') + 1,
                   model[0] == '\0' ? "" : " ", model);
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
    if (read_line("/proc/cpuinfo", "model name", ret_machine->processor, sizeof(ret_machine->processor)) != 0)
        (void)snprintf(ret_machine->processor, sizeof(ret_machine->processor), "unknown");
    struct utsname names;
    if (uname(&names) == 0)
        (void)snprintf(ret_machine->kernel, sizeof(ret_machine->kernel), "%.30s %.60s %.30s", names.sysname,
                       names.release, names.machine);
    else
        (void)snprintf(ret_machine->kernel, sizeof(ret_machine->kernel), "unknown");
    ret_machine->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    find_disk(ret_machine);
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
    char text[BENCH_MACHINE_TEXT_ROOM];
    int error = read_line(path, name, text, sizeof(text));
    return error != 0 ? error : base_parse_u64_len(text, strcspn(text, " "), ret_number);
}
