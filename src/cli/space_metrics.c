/* tarn space stat --metrics: what a master tells of itself, of memory servers and of namespaces, in Prometheus's text format. */
#include "cli/space.h"
#include <inttypes.h>

#define PREFIX "tarn_space_"

/* A number of each memory server, or of each namespace. */
struct family {
    const char *name;
    const char *help;
};

static const struct family server_families[] = {
    {"server_up", "Whether the master is in contact with the memory server."},
    {"server_memory_bytes", "Memory that it contributes."},
    {"server_free_bytes", "Of these, what no namespace has."},
    {"server_dirty_bytes", "What it has to zero before another namespace gets it."},
    {"server_connections", "Connections of clients, one for each namespace."},
    {"server_connections_refused_total", "Connections of clients that it has refused."}};

static const struct family namespace_families[] = {
    {"namespace_regions", "Regions, with those that were freed and are still held."},
    {"namespace_region_bytes", "Memory of its regions."},
    {"namespace_spare_bytes", "Memory that is reserved, and that no region has."}};

static void print_head(const struct family *family)
{
    const size_t len = strlen(family->name), end = sizeof("_total") - 1;
    const bool is_counter = len > end && strcmp(family->name + len - end, "_total") == 0;
    if (family->help != NULL)
        (void)printf("# HELP " PREFIX "%s %s\n", family->name, family->help);
    (void)printf("# TYPE " PREFIX "%s %s\n", family->name, is_counter ? "counter" : "gauge");
}

static int print_statistic(void *arg, const struct tarn_space_statistic_row *row)
{
    (void)arg;
    print_head(&(struct family){.name = row->name});
    (void)printf(PREFIX "%s %" PRIu64 "\n", row->name, row->value);
    return 0;
}

static int print_server(void *arg, const struct tarn_space_server_row *row)
{
    const struct family *family = arg;
    const uint64_t values[base_array_count(server_families)] = {
        row->is_there, row->bytes, row->free_bytes, row->dirty_bytes, row->connections, row->refused};
    (void)printf(PREFIX "%s{server=\"%s\"} %" PRIu64 "\n", family->name, row->name,
                 values[family - server_families]);
    return 0;
}

static int print_namespace(void *arg, const struct tarn_space_namespace_row *row)
{
    const struct family *family = arg;
    const uint64_t values[base_array_count(namespace_families)] = {row->regions, row->region_bytes,
                                                                   row->spare_bytes};
    (void)printf(PREFIX "%s{namespace=\"%s\"} %" PRIu64 "\n", family->name, row->name,
                 values[family - namespace_families]);
    return 0;
}

int cli_space_print_metrics(struct tarn_space *space)
{
    int error = tarn_space_list_statistics(space, print_statistic, NULL, cli_space_deadline());
    for (size_t i = 0; i < base_array_count(server_families) && error == 0;
         i++) { /* a family's lines stand together */
        print_head(&server_families[i]);
        error = tarn_space_list_servers(space, print_server, (void *)(uintptr_t)&server_families[i],
                                        cli_space_deadline());
    }
    for (size_t i = 0; i < base_array_count(namespace_families) && error == 0; i++) {
        print_head(&namespace_families[i]);
        error = tarn_space_list_namespaces(space, print_namespace, (void *)(uintptr_t)&namespace_families[i],
                                           cli_space_deadline());
    }
    return error;
}
