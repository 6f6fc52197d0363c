/* tarn fabric doctor: what of this machine is in a fabric's way, and how to cure it. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/fabric.h"
#include "cli/store.h"
#include "task/node.h"
#include "task/sched.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <tarn/fabric.h>
#include <unistd.h>

enum {
    CPUS_MAX = 1024,
    ROCE_MTU = 4200, /* of the interface: room for 4,096 bytes and all headers */
};

#define LOCK_BYTES_MIN   (UINT64_C(1) << 30) /* less is used up soon by regions */
#define SOCKET_BYTES_MIN (UINT64_C(4) << 20) /* a connection at 10 Gb/s over 3 ms */

struct doctor_options {
    const char *root;
    bool json;
};

static const struct base_setting doctor_settings[] = {
    {.name = "json",
     .type = BASE_SETTING_BOOL,
     .help = "Print one JSON object.",
     .offset = offsetof(struct doctor_options, json)},
    {.name = "root", /* for tests: a made-up machine */
     .type = BASE_SETTING_STRING,
     .flags = BASE_SETTING_HIDDEN,
     .default_text = "",
     .help = "What stands before /proc, /sys and /dev.",
     .offset = offsetof(struct doctor_options, root)},
};
static const struct cli_arguments arguments = {doctor_settings, base_array_count(doctor_settings)};

void cli_fabric_doctor_help(FILE *file)
{
    (void)fputs("A line for each thing that a provider needs, or only for the one that the URL names: ok, "
                "warning (slower\n"
                "than it could be) or failed (it will not work), what is wrong, and how to cure it.\n\n",
                file);
    cli_print_options(&arguments, file);
}

enum state { OK, WARNING, FAILED, STATES };

static const char *const state_names[STATES] = {"ok", "warning", "failed"};

struct doctor {
    const char *root;
    const char *url; /* NULL: all providers */
    bool is_json;
    struct base_json json;
    unsigned found[STATES];
    uint32_t devices;
    bool active; /* a port is */
};

/* @param cure  NULL: there is nothing to cure */
base_printf_like(5, 6) static void tell_state(struct doctor *doctor, enum state state, const char *name,
                                              const char *cure, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    doctor->found[state]++;
    if (!doctor->is_json) {
        (void)printf("%-8s %-15s %s%s%s\n", state_names[state], name, text,
                     cure == NULL ? "" : "; cure: ", cure == NULL ? "" : cure);
        return;
    }
    base_json_object_begin(&doctor->json, NULL);
    base_json_string(&doctor->json, "state", state_names[state]);
    base_json_string(&doctor->json, "name", name);
    base_json_string(&doctor->json, "text", text);
    if (cure != NULL)
        base_json_string(&doctor->json, "cure", cure);
    base_json_object_end(&doctor->json);
}

/* ---- files of the kernel's ------------------------------------------------------------------------------- */

/* What stands behind `name` on the line that begins with it. */
static bool find_line(const struct doctor *doctor, const char *path, const char *name, char *ret_text,
                      size_t room)
{
    char line[512];
    bool found = false;
    (void)snprintf(line, sizeof(line), "%s%s", doctor->root, path);
    FILE *file = fopen(line, "re");
    if (file == NULL)
        return false;
    while (!found && fgets(line, sizeof(line), file) != NULL)
        found = strncmp(line, name, strlen(name)) == 0;
    (void)fclose(file);
    if (!found)
        return false;
    const char *text = line + strlen(name);
    text += strspn(text, " \t");
    (void)snprintf(ret_text, room, "%.*s", (int)strcspn(text, "\n"), text);
    return true;
}

/* The number that a text begins with, or has behind blanks. */
static bool number_in(const char *text, uint64_t *ret_number)
{
    text += strspn(text, " \t");
    return base_parse_u64_len(text, strcspn(text, " \t"), ret_number) == 0;
}

static bool may_lock_anything(const struct doctor *doctor)
{
    char text[64];
    uint64_t bits = 0;
    if (!find_line(doctor, "/proc/self/status", "CapEff:", text, sizeof(text)))
        return false;
    for (const char *digit = text; *digit != '\0'; digit++) {
        static const char digits[] = "0123456789abcdef";
        const char *found = strchr(digits, *digit);
        bits = (bits << 4) + (found == NULL ? 0 : (uint64_t)(found - digits));
    }
    return (bits >> CAP_IPC_LOCK & 1) != 0;
}

/* ---- memory ---------------------------------------------------------------------------------------------- */

static void check_memory_lock(struct doctor *doctor)
{
    char text[128], size[BASE_UNITS_ROOM];
    uint64_t bytes;
    if (!find_line(doctor, "/proc/self/limits", "Max locked memory", text, sizeof(text))) {
        tell_state(doctor, WARNING, "memory-lock", NULL, "/proc/self/limits does not tell the limit");
        return;
    }
    if (strncmp(text, "unlimited", 9) == 0 || may_lock_anything(doctor) || !number_in(text, &bytes)) {
        tell_state(doctor, OK, "memory-lock", NULL, "unlimited");
        return;
    }
    (void)base_format_size(size, sizeof(size), bytes);
    if (bytes >= LOCK_BYTES_MIN)
        tell_state(doctor, OK, "memory-lock", NULL, "%s", size);
    else
        tell_state(doctor, doctor->devices > 0 ? FAILED : WARNING, "memory-lock",
                   "ulimit -l unlimited; \"* - memlock unlimited\" in /etc/security/limits.conf; "
                   "LimitMEMLOCK=infinity in the "
                   "service's unit",
                   "%s may be locked, and verbs locks all regions", size);
}

static void check_huge_pages(struct doctor *doctor)
{
    char text[128], size[64];
    uint64_t count;
    if (find_line(doctor, "/proc/meminfo", "HugePages_Free:", text, sizeof(text)) &&
        number_in(text, &count) && count > 0 &&
        find_line(doctor, "/proc/meminfo", "Hugepagesize:", size, sizeof(size)))
        tell_state(doctor, OK, "huge-pages", NULL, "%" PRIu64 " reserved pages of %s are free", count, size);
    bool tells =
        cli_read_line(text, sizeof(text), doctor->root, "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    if (tells && strstr(text, "[never]") == NULL && strstr(text, "[deny]") == NULL)
        tell_state(doctor, OK, "shared-huge", NULL, "memory files may have huge pages: %s", text);
    else
        tell_state(doctor, WARNING, "shared-huge",
                   "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled",
                   "regions of shm lie in small pages: %s",
                   tells ? text : "this kernel has no others for memory files");
}

/* Shared memory of `shm`: files that are sealed against those who get them. */
static void check_memory_files(struct doctor *doctor)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
    int fd = memfd_create("tarn-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool sealed = fd >= 0 && ftruncate(fd, BASE_PAGE_BYTES) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0;
    int error = errno;
    if (fd >= 0)
        (void)close(fd);
    if (sealed)
        tell_state(doctor, OK, "memory-files", NULL, "memfd_create and its seals work");
    else
        tell_state(doctor, FAILED, "memory-files",
                   "Linux 5.1 or later; a sandbox that allows memfd_create and fcntl", "%s: %s",
                   fd < 0 ? "memfd_create" : "sealing a memory file", strerrordesc_np(error));
}

/* ---- who we are ------------------------------------------------------------------------------------------ */

static void check_processes(struct doctor *doctor)
{
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int error = errno;
    if (fd >= 0)
        (void)close(fd);
    if (fd >= 0)
        tell_state(doctor, OK, "processes", NULL, "a peer's end is noticed by pidfd_open");
    else
        tell_state(doctor, FAILED, "processes", "Linux 5.3 or later; a sandbox that allows pidfd_open",
                   "pidfd_open: %s", strerrordesc_np(error));
}

static void check_namespaces(struct doctor *doctor)
{
    char user[128], processes[128];
    uint64_t inside = 0, outside = 0, count = 0;
    bool mapped = cli_read_line(user, sizeof(user), doctor->root, "/proc/self/uid_map") &&
                  sscanf(user, "%" SCNu64 " %" SCNu64 " %" SCNu64, &inside, &outside, &count) == 3 &&
                  count < UINT32_MAX;
    bool nested = find_line(doctor, "/proc/self/status", "NSpid:", processes, sizeof(processes)) &&
                  strpbrk(processes, " \t") != NULL;
    if (mapped || nested)
        tell_state(doctor, WARNING, "namespaces",
                   "run both sides in one container, or with --pid=host and one user namespace",
                   "this process is in %s of its own: peers outside are refused by shm",
                   mapped && nested ? "namespaces of users and of processes"
                   : mapped         ? "a namespace of users"
                                    : "a namespace of processes");
    else
        tell_state(doctor, OK, "namespaces", NULL, "those of the machine");
}

/* ---- RDMA devices ---------------------------------------------------------------------------------------- */

/* Whether a list as "0-3,8" has a number in common with another. */
static void read_list(const char *text, bool *cpus)
{
    memset(cpus, 0, CPUS_MAX * sizeof(*cpus));
    while (*text != '\0') {
        uint64_t first, last;
        size_t len = strcspn(text, ",");
        size_t dash = strcspn(text, "-");
        bool range = dash < len;
        if (base_parse_u64_len(text, range ? dash : len, &first) != 0)
            return;
        last = first;
        if (range && base_parse_u64_len(text + dash + 1, len - dash - 1, &last) != 0)
            return;
        for (uint64_t i = first; i <= last && i < CPUS_MAX; i++)
            cpus[i] = true;
        text += len + (text[len] == ',' ? 1 : 0);
    }
}

static void check_numa(struct doctor *doctor, const struct cli_rdma_device *device)
{
    char allowed[512], local[512], cure[64];
    bool ours[CPUS_MAX], its[CPUS_MAX], common = false;
    if (device->numa_node < 0 ||
        !find_line(doctor, "/proc/self/status", "Cpus_allowed_list:", allowed, sizeof(allowed)) ||
        !cli_read_line(local, sizeof(local), doctor->root, "/sys/devices/system/node/node%" PRId64 "/cpulist",
                       device->numa_node))
        return;
    read_list(allowed, ours);
    read_list(local, its);
    for (unsigned i = 0; i < CPUS_MAX; i++)
        common = common || (ours[i] && its[i]);
    (void)snprintf(cure, sizeof(cure), "numactl --cpunodebind=%" PRId64, device->numa_node);
    if (common)
        tell_state(doctor, OK, "numa", NULL, "%s is on node %" PRId64 ", processors %s", device->name,
                   device->numa_node, local);
    else
        tell_state(doctor, WARNING, "numa", cure,
                   "%s is on node %" PRId64 ", and this process runs elsewhere", device->name,
                   device->numa_node);
}

static void check_access(struct doctor *doctor, const char *device, const char *file, const char *module)
{
    char path[512], cure[128];
    (void)snprintf(path, sizeof(path), "%s/dev/infiniband/%s", doctor->root, file);
    if (access(path, R_OK | W_OK) == 0) {
        tell_state(doctor, OK, "permission", NULL, "%s: /dev/infiniband/%s can be opened", device, file);
        return;
    }
    bool missing = errno == ENOENT;
    (void)snprintf(cure, sizeof(cure),
                   missing ? "modprobe %s" : "chmod 666 /dev/infiniband/* by a rule of udev%.0s", module);
    tell_state(doctor, FAILED, "permission", cure, "%s: /dev/infiniband/%s %s", device, file,
               missing ? "is not there" : "may not be opened");
}

static void check_gids(struct doctor *doctor, const char *device, const struct cli_rdma_port *port)
{
    if (port->gid_count == 0)
        tell_state(doctor, FAILED, "gid",
                   "give its network interface an address: ip address add ADDRESS dev INTERFACE",
                   "%s port %" PRIu32 " has none", device, port->number);
    else
        tell_state(doctor, OK, "gid", NULL, "%s port %" PRIu32 ": %s at index %" PRIu32 "%s%s", device,
                   port->number, port->gid, port->gid_index, port->gid_type[0] == '\0' ? "" : ", ",
                   port->gid_type);
}

static void check_mtu(struct doctor *doctor, const char *device, const struct cli_rdma_port *port)
{
    char cure[128];
    if (port->mtu == 0)
        return;
    (void)snprintf(cure, sizeof(cure), "ip link set %s mtu %d, on all hosts and switches between",
                   port->interface, ROCE_MTU);
    if (port->mtu >= ROCE_MTU)
        tell_state(doctor, OK, "mtu", NULL, "%s port %" PRIu32 ": %" PRIu64 " of %s", device, port->number,
                   port->mtu, port->interface);
    else
        tell_state(doctor, WARNING, "mtu", cure,
                   "%s port %" PRIu32 ": %" PRIu64 " of %s, so that packets are small", device, port->number,
                   port->mtu, port->interface);
}

static void check_device(void *arg, const struct cli_rdma_device *device)
{
    struct doctor *doctor = arg;
    if (device->verbs[0] == '\0')
        tell_state(doctor, FAILED, "permission", "modprobe ib_uverbs", "%s has no file in /dev/infiniband",
                   device->name);
    else
        check_access(doctor, device->name, device->verbs, "ib_uverbs");
    check_access(doctor, device->name, "rdma_cm", "rdma_ucm");
    check_numa(doctor, device);
    for (uint32_t i = 0; i < device->port_count; i++) {
        const struct cli_rdma_port *port = &device->ports[i];
        if (!cli_rdma_port_is_active(port)) {
            tell_state(doctor, WARNING, "port",
                       "see to the cable, or bring the interface up: ip link set INTERFACE up",
                       "%s port %" PRIu32 " is %s", device->name, port->number, port->state);
            continue;
        }
        doctor->active = true;
        tell_state(doctor, OK, "port", NULL, "%s port %" PRIu32 " is %s, %s, %s", device->name, port->number,
                   port->state, port->link_layer, port->rate);
        check_gids(doctor, device->name, port);
        check_mtu(doctor, device->name, port);
    }
}

static void ignore_device(void *arg, const struct cli_rdma_device *device)
{
    (void)arg;
    (void)device;
}

static void check_devices(struct doctor *doctor)
{
    if (doctor->devices == 0) {
        tell_state(doctor, doctor->url == NULL ? OK : FAILED, "rdma-devices",
                   doctor->url == NULL
                       ? NULL
                       : "modprobe the card's driver, or: rdma link add rxe0 type rxe netdev INTERFACE",
                   "there are none%s", doctor->url == NULL ? ", so verbs is of no use here" : "");
        return;
    }
    (void)cli_rdma_visit(doctor->root, check_device, doctor);
    if (!doctor->active)
        tell_state(doctor, FAILED, "rdma-devices", "see to the cable, or bring an interface up",
                   "no port carries traffic");
}

/* ---- sockets and the engine ------------------------------------------------------------------------------ */

static void check_socket_buffer(struct doctor *doctor, const char *name, const char *setting)
{
    char text[128], size[BASE_UNITS_ROOM], wanted[BASE_UNITS_ROOM], cure[128];
    uint64_t bytes;
    if (!cli_read_line(text, sizeof(text), doctor->root, "/proc/sys/net/ipv4/%s", setting))
        return;
    const char *most =
        strrchr(text, '\t') == NULL ? strrchr(text, ' ') : strrchr(text, '\t'); /* least, begin, most */
    if (!number_in(most == NULL ? text : most, &bytes))
        return;
    (void)base_format_size(size, sizeof(size), bytes);
    (void)snprintf(cure, sizeof(cure), "sysctl net.ipv4.%s=\"4096 131072 16777216\"", setting);
    if (bytes >= SOCKET_BYTES_MIN)
        tell_state(doctor, OK, name, NULL, "up to %s", size);
    else
        tell_state(doctor, WARNING, name, cure, "up to %s, less than %s: long ways are not filled", size,
                   base_format_size(wanted, sizeof(wanted), SOCKET_BYTES_MIN));
}

static void drop_line(void *arg, enum base_log_level level, const char *line, size_t len)
{
    (void)arg;
    (void)level;
    (void)line;
    (void)len;
}

static void check_engine(struct doctor *doctor)
{
    const struct task_node_options options = {.engine_choice = TASK_ENGINE_URING, .log_sink = drop_line};
    struct tarn_node *node;
    struct task_sched *sched;
    char disabled[64] = "";
    int error = task_node_open(&options, &node);
    if (error == 0) {
        error = task_sched_open(node, NULL, &sched);
        if (error == 0)
            task_sched_close(sched);
        task_node_close(node);
    }
    (void)cli_read_line(disabled, sizeof(disabled), doctor->root, "/proc/sys/kernel/io_uring_disabled");
    if (error == 0 && (disabled[0] == '\0' || disabled[0] == '0'))
        tell_state(doctor, OK, "io_uring", NULL, "works");
    else
        tell_state(doctor, WARNING, "io_uring", "sysctl kernel.io_uring_disabled=0; a sandbox that allows it",
                   "cannot be used, the slower AIO and epoll are: %s",
                   error != 0 ? strerrordesc_np(-error) : "it is disabled");
}

/* ---- all of it ------------------------------------------------------------------------------------------- */

static const struct {
    const char *providers; /* that need it, by their URLs */
    void (*check)(struct doctor *doctor);
} checks[] = {
    {"shm: verbs:", check_huge_pages},
    {"shm:", check_memory_files},
    {"shm:", check_processes},
    {"shm:", check_namespaces},
    {"verbs:", check_memory_lock},
    {"verbs:", check_devices},
    {"tcp:", check_engine},
};

static bool concerns(const struct doctor *doctor, const char *providers)
{
    char name[32];
    if (doctor->url == NULL)
        return true;
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(doctor->url, ":") + 1, doctor->url);
    return strstr(providers, name) != NULL;
}

/* Whether the provider can be opened at all: its options, too. */
static void check_provider(struct doctor *doctor)
{
    const struct task_node_options options = {.log_level = BASE_LOG_ERROR};
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    int error = task_node_open(&options, &node);
    if (error == 0) {
        error = tarn_fabric_open(node, doctor->url, &fabric);
        if (error == 0)
            tarn_fabric_close(fabric);
        task_node_close(node);
    }
    if (error == 0)
        tell_state(doctor, OK, "provider", NULL, "%s can be opened", doctor->url);
    else
        tell_state(doctor, FAILED, "provider", "what the line of the log says", "%s: %s", doctor->url,
                   strerrordesc_np(-error));
}

static void check_all(struct doctor *doctor)
{
    doctor->devices = cli_rdma_visit(doctor->root, ignore_device, NULL);
    if (doctor->url != NULL)
        check_provider(doctor);
    for (size_t i = 0; i < base_array_count(checks); i++) {
        if (concerns(doctor, checks[i].providers))
            checks[i].check(doctor);
    }
    if (concerns(doctor, "tcp:")) {
        check_socket_buffer(doctor, "receive-buffer", "tcp_rmem");
        check_socket_buffer(doctor, "send-buffer", "tcp_wmem");
    }
}

static int run_doctor(const void *parsed, const char *const *words, size_t count)
{
    const struct doctor_options *options = parsed;
    struct doctor doctor = {
        .root = options->root, .url = count == 0 ? NULL : words[0], .is_json = options->json};
    if (count > 1)
        return cli_usage("doctor takes one URL at most");
    if (options->json) {
        base_json_init_file(&doctor.json, stdout);
        base_json_object_begin(&doctor.json, NULL);
        base_json_array_begin(&doctor.json, "checks");
    }
    check_all(&doctor);
    if (options->json) {
        base_json_array_end(&doctor.json);
        base_json_u64(&doctor.json, "warnings", doctor.found[WARNING]);
        base_json_u64(&doctor.json, "failed", doctor.found[FAILED]);
        base_json_object_end(&doctor.json);
        if (base_json_finish(&doctor.json, NULL) != 0 || putchar('\n') == EOF)
            return cli_output_failed();
    }
    if (ferror(stdout) || fflush(stdout) != 0)
        return cli_output_failed();
    return doctor.found[FAILED] == 0 ? CLI_OK : CLI_FAILED;
}

int cli_fabric_doctor(int argc, char **argv)
{
    struct doctor_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_doctor);
}
