/* RDMA devices, as /sys tells of them: nothing of rdma-core is needed, nor a permission. */
#include "cli/fabric.h"
#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>

enum { GIDS_MAX = 256 }; /* of a port that are looked at */

#define CLASS "/sys/class/infiniband"

bool cli_read_line(char *ret_text, size_t room, const char *root, const char *format, ...)
{
    char path[512];
    int used = snprintf(path, sizeof(path), "%s", root);
    va_list args;
    va_start(args, format);
    if (used >= 0 && (size_t)used < sizeof(path))
        used += vsnprintf(path + used, sizeof(path) - (size_t)used, format, args);
    va_end(args);
    ret_text[0] = '\0';
    FILE *file = used > 0 && (size_t)used < sizeof(path) ? fopen(path, "re") : NULL;
    if (file == NULL)
        return false;
    bool read = fgets(ret_text, (int)room, file) != NULL;
    (void)fclose(file);
    if (!read)
        ret_text[0] = '\0';
    ret_text[strcspn(ret_text, "\n")] = '\0';
    return read;
}

/* ---- names in a folder ----------------------------------------------------------------------------------- */

struct names {
    uint32_t count;
    char names[CLI_RDMA_DEVICES_MAX][CLI_RDMA_TEXT_ROOM];
};

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The entries of a folder in order; what does not fit is left out. */
static void read_names(const char *root, const char *folder, struct names *ret_names)
{
    char path[512];
    ret_names->count = 0;
    (void)snprintf(path, sizeof(path), "%s%s", root, folder);
    DIR *open = opendir(path);
    if (open == NULL)
        return;
    for (const struct dirent *entry;
         (entry = readdir(open)) != NULL && ret_names->count < CLI_RDMA_DEVICES_MAX;) {
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < CLI_RDMA_TEXT_ROOM)
            memcpy(ret_names->names[ret_names->count++], entry->d_name, strlen(entry->d_name) + 1);
    }
    (void)closedir(open);
    qsort(ret_names->names, ret_names->count, sizeof(ret_names->names[0]), by_name);
}

/* ---- a device -------------------------------------------------------------------------------------------- */

static bool is_zero(const char *gid)
{
    return gid[strspn(gid, "0:")] == '\0';
}

static void read_gids(const char *root, const char *device, struct cli_rdma_port *port)
{
    char gid[CLI_RDMA_TEXT_ROOM], mtu[CLI_RDMA_TEXT_ROOM];
    for (uint32_t i = 0; i < GIDS_MAX; i++) {
        if (!cli_read_line(gid, sizeof(gid), root, CLASS "/%s/ports/%u/gids/%u", device, port->number, i))
            break;
        if (is_zero(gid))
            continue;
        port->gid_count++;
        port->gid_index = i;
        memcpy(port->gid, gid, sizeof(gid));
    }
    if (port->gid_count == 0)
        return;
    (void)cli_read_line(port->gid_type, sizeof(port->gid_type), root, CLASS "/%s/ports/%u/gid_attrs/types/%u",
                        device, port->number, port->gid_index);
    if (cli_read_line(port->interface, sizeof(port->interface), root, CLASS "/%s/ports/%u/gid_attrs/ndevs/%u",
                      device, port->number, port->gid_index) &&
        cli_read_line(mtu, sizeof(mtu), root, "/sys/class/net/%s/mtu", port->interface) &&
        base_parse_u64(mtu, &port->mtu) != 0)
        port->mtu = 0;
}

static void read_port(const char *root, const char *device, uint32_t number, struct cli_rdma_port *port)
{
    static const char ports[] = CLASS "/%s/ports/%u/%s";
    *port = (struct cli_rdma_port){.number = number};
    (void)cli_read_line(port->state, sizeof(port->state), root, ports, device, number, "state");
    (void)cli_read_line(port->link_layer, sizeof(port->link_layer), root, ports, device, number,
                        "link_layer");
    (void)cli_read_line(port->rate, sizeof(port->rate), root, ports, device, number, "rate");
    read_gids(root, device, port);
}

/* Which file below /dev/infiniband is a device's. */
static void find_verbs(const char *root, struct cli_rdma_device *device)
{
    struct names files;
    char name[CLI_RDMA_TEXT_ROOM];
    read_names(root, "/sys/class/infiniband_verbs", &files);
    for (uint32_t i = 0; i < files.count; i++) {
        if (cli_read_line(name, sizeof(name), root, "/sys/class/infiniband_verbs/%s/ibdev", files.names[i]) &&
            strcmp(name, device->name) == 0)
            memcpy(device->verbs, files.names[i], sizeof(device->verbs));
    }
}

static void read_device(const char *root, const char *name, struct cli_rdma_device *device)
{
    char text[CLI_RDMA_TEXT_ROOM], folder[128];
    struct names ports;
    uint64_t number;
    *device = (struct cli_rdma_device){.numa_node = -1};
    (void)snprintf(device->name, sizeof(device->name), "%s", name);
    find_verbs(root, device);
    if (cli_read_line(text, sizeof(text), root, CLASS "/%s/device/numa_node", name) &&
        base_parse_u64(text, &number) == 0 && number <= UINT16_MAX)
        device->numa_node = (int64_t)number;
    (void)snprintf(folder, sizeof(folder), CLASS "/%s/ports", name);
    read_names(root, folder, &ports);
    for (uint32_t i = 0; i < ports.count && device->port_count < CLI_RDMA_PORTS_MAX; i++) {
        if (base_parse_u64(ports.names[i], &number) == 0 && number <= UINT8_MAX)
            read_port(root, name, (uint32_t)number, &device->ports[device->port_count++]);
    }
}

bool cli_rdma_port_is_active(const struct cli_rdma_port *port)
{
    return strstr(port->state, "ACTIVE") != NULL;
}

uint32_t cli_rdma_visit(const char *root, void (*visit)(void *arg, const struct cli_rdma_device *device),
                        void *arg)
{
    struct names devices;
    struct cli_rdma_device device;
    read_names(root, CLASS, &devices);
    for (uint32_t i = 0; i < devices.count; i++) {
        read_device(root, devices.names[i], &device);
        visit(arg, &device);
    }
    return devices.count;
}
