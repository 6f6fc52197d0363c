/* tarn space stat --metrics: what a master tells of itself, of memory servers and of namespaces, in Prometheus's text format. */
#include "cli/space.h"
#include "task/node.h"
#include <errno.h>
#include <inttypes.h>

#define PREFIX "tarn_space_"

#define NUMBERS_MAX 8 /* of a row */

/* A number of each memory server, or of each namespace. */
struct family {
    const char *name;
    const char *help;
};

/* The numbers of one, in the order of the families. */
struct row {
    char name[TARN_SPACE_NAME_MAX + 1];
    uint64_t numbers[NUMBERS_MAX];
};

/* All memory servers, or all namespaces, as one listing tells them: a family's lines have to stand together. */
struct table {
    struct base_account *account;
    const char *label;
    const struct family *families;
    size_t family_count;
    struct row *rows;
    size_t count, room;
};

static const struct family server_families[] = {
    {"server_up", "Whether the master is in contact with the memory server."},
    {"server_memory_bytes", "Memory that it contributes."},
    {"server_free_bytes", "Of these, what no namespace has."},
    {"server_used_bytes", "What namespaces have of it, also while it is not there."},
    {"server_draining", "Whether what it has is being moved to others."},
    {"server_dirty_bytes", "What it has to zero before another namespace gets it."},
    {"server_connections", "Connections of clients, one for each namespace."},
    {"server_connections_refused_total", "Connections of clients that it has refused."}};

static const struct family namespace_families[] = {
    {"namespace_regions", "Regions, with those that were freed and are still held."},
    {"namespace_region_bytes", "Memory of its regions."},
    {"namespace_spare_bytes", "Memory that is reserved, and that no region has."}};

/* ---- tables ------------------------------------------------------------------------------------- */

static int add_row(struct table *table, const struct row *row)
{
    if (table->count == table->room) {
        const size_t room = base_max(2 * table->room, (size_t)16);
        struct row *rows =
            base_realloc(table->account, table->rows, table->room * sizeof(*rows), room * sizeof(*rows));
        if (rows == NULL)
            return -ENOMEM;
        table->rows = rows;
        table->room = room;
    }
    table->rows[table->count++] = *row;
    return 0;
}

static int add_server(void *arg, const struct tarn_space_server_row *server)
{
    struct row row = {.numbers = {server->is_there, server->bytes, server->free_bytes, server->used_bytes,
                                  server->is_draining, server->dirty_bytes, server->connections,
                                  server->refused}};
    memcpy(row.name, server->name, strlen(server->name));
    return add_row(arg, &row);
}

static int add_namespace(void *arg, const struct tarn_space_namespace_row *of)
{
    struct row row = {.numbers = {of->regions, of->region_bytes, of->spare_bytes}};
    memcpy(row.name, of->name, strlen(of->name));
    return add_row(arg, &row);
}

/* ---- printing ----------------------------------------------------------------------------------- */

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

static void print_table(const struct table *table)
{
    for (size_t i = 0; i < table->family_count; i++) {
        print_head(&table->families[i]);
        for (size_t k = 0; k < table->count; k++)
            (void)printf(PREFIX "%s{%s=\"%s\"} %" PRIu64 "\n", table->families[i].name, table->label,
                         table->rows[k].name, table->rows[k].numbers[i]);
    }
}

int cli_space_print_metrics(const struct cli_space *space)
{
    struct base_account *account = &space->node->memory;
    struct table servers = {account, "server", server_families, base_array_count(server_families), NULL,
                            0,       0};
    struct table namespaces = {
        account, "namespace", namespace_families, base_array_count(namespace_families), NULL, 0, 0};
    int error = tarn_space_list_statistics(space->space, print_statistic, NULL, cli_space_deadline());
    if (error == 0)
        error = tarn_space_list_servers(space->space, add_server, &servers, cli_space_deadline());
    if (error == 0)
        error = tarn_space_list_namespaces(space->space, add_namespace, &namespaces, cli_space_deadline());
    if (error == 0) {
        print_table(&servers);
        print_table(&namespaces);
    }
    base_free(account, servers.rows, servers.room * sizeof(struct row));
    base_free(account, namespaces.rows, namespaces.room * sizeof(struct row));
    return error;
}
