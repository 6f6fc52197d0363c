/* tarn space list, stat: names alone, and all that a master tells; space_metrics.c tells that to Prometheus. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/space.h"
#include "cli/store.h"
#include <inttypes.h>

struct list_options {
    const char *secret_file;
};

struct stat_options {
    const char *secret_file;
    bool json;
    bool metrics;
};

static const struct base_setting list_settings[] = {
    CLI_SPACE_SECRET_SETTING(offsetof(struct list_options, secret_file))};
static const struct base_setting stat_settings[] = {
    CLI_SPACE_SECRET_SETTING(offsetof(struct stat_options, secret_file)),
    {.name = "json",
     .type = BASE_SETTING_BOOL,
     .help = "Print one JSON object.",
     .offset = offsetof(struct stat_options, json)},
    {.name = "metrics",
     .type = BASE_SETTING_BOOL,
     .help = "Print numbers as Prometheus reads them.",
     .offset = offsetof(struct stat_options, metrics)}};
static const struct cli_arguments list_arguments = {list_settings, base_array_count(list_settings)};
static const struct cli_arguments stat_arguments = {stat_settings, base_array_count(stat_settings)};

void cli_space_list_help(FILE *file)
{
    (void)fputs(
        "Prints the names of the namespaces, or of the regions of one, a line each. A region without a\n"
        "name stands as its address, as 0x4000000.\n\n",
        file);
    cli_print_options(&list_arguments, file);
}

void cli_space_stat_help(FILE *file)
{
    (void)fputs(
        "Tells which memory servers there are, what they contribute, how much of it namespaces have and how\n"
        "much none has, or that one is draining; which namespaces there are, and how much is reserved for\n"
        "each that no region has; and of one that is named the regions, how many clients hold each, and how\n"
        "many copies of each chunk there are to be.\n\n",
        file);
    cli_print_options(&stat_arguments, file);
}

/* ---- list ---------------------------------------------------------------------------------------- */

static int print_namespace(void *arg, const struct tarn_space_namespace_row *row)
{
    (void)arg;
    (void)puts(row->name);
    return 0;
}

static int print_region(void *arg, const struct tarn_space_region_row *row)
{
    (void)arg;
    if (row->name[0] != '\0')
        (void)puts(row->name);
    else
        (void)printf("0x%" PRIx64 "\n", row->address);
    return 0;
}

/* Open what the words of a verb name: a space, and a namespace perhaps. */
static int open_named(const char *const *words, size_t count, const char *secret_file,
                      struct cli_region_name *ret_name, struct cli_space *ret_space)
{
    *ret_name = (struct cli_region_name){.region = ""};
    if (count != 1 && count != 2)
        return cli_usage("it takes a URL, and perhaps a namespace");
    if (count == 1)
        return cli_space_open(words[0], ret_space);
    int status = cli_space_read_name(words[1], ret_name);
    if (status == CLI_OK && ret_name->region[0] != '\0')
        return cli_usage("it takes a namespace, without a region");
    return status == CLI_OK ? cli_space_open_joined(words[0], ret_name->space, secret_file, ret_space)
                            : status;
}

/* Close the space, and say what failed. */
static int close_told(struct cli_space *space, const struct cli_region_name *name, int error)
{
    cli_space_close(space);
    if (ferror(stdout) || fflush(stdout) != 0)
        return cli_output_failed();
    if (error == 0)
        return CLI_OK;
    return name->space[0] != '\0' ? cli_space_failed(name, error)
                                  : cli_failed("cannot list: %s", cli_reason(error));
}

static int run_list(const void *parsed, const char *const *words, size_t count)
{
    const struct list_options *options = parsed;
    struct cli_region_name name;
    struct cli_space space = {.joined = NULL};
    int status = open_named(words, count, options->secret_file, &name, &space);
    if (status != CLI_OK)
        return status;
    int error = space.joined != NULL
                    ? tarn_space_list_regions(space.joined, print_region, NULL, cli_space_deadline())
                    : tarn_space_list_namespaces(space.space, print_namespace, NULL, cli_space_deadline());
    return close_told(&space, &name, error);
}

/* ---- stat, as JSON ------------------------------------------------------------------------------- */

static int write_statistic(void *arg, const struct tarn_space_statistic_row *row)
{
    base_json_u64(arg, row->name, row->value);
    return 0;
}

static int write_server(void *arg, const struct tarn_space_server_row *row)
{
    struct base_json *json = arg;
    base_json_object_begin(json, NULL);
    base_json_u64(json, "number", row->number);
    base_json_string(json, "name", row->name);
    base_json_string(json, "address", row->address);
    base_json_bool(json, "there", row->is_there);
    base_json_u64(json, "bytes", row->bytes);
    base_json_u64(json, "free_bytes", row->free_bytes);
    base_json_u64(json, "used_bytes", row->used_bytes);
    base_json_bool(json, "draining", row->is_draining);
    base_json_u64(json, "dirty_bytes", row->dirty_bytes);
    base_json_u64(json, "connections", row->connections);
    base_json_u64(json, "connections_refused_total", row->refused);
    base_json_object_end(json);
    return 0;
}

static int write_namespace(void *arg, const struct tarn_space_namespace_row *row)
{
    struct base_json *json = arg;
    base_json_object_begin(json, NULL);
    base_json_u64(json, "number", row->number);
    base_json_string(json, "name", row->name);
    base_json_u64(json, "regions", row->regions);
    base_json_u64(json, "spare_bytes", row->spare_bytes);
    base_json_u64(json, "region_bytes", row->region_bytes);
    base_json_object_end(json);
    return 0;
}

static const char *class_name(enum tarn_space_class memory_class)
{
    return memory_class == TARN_SPACE_WORDS ? "words" : "bulk";
}

static int write_region(void *arg, const struct tarn_space_region_row *row)
{
    struct base_json *json = arg;
    base_json_object_begin(json, NULL);
    base_json_u64(json, "number", row->number);
    base_json_string(json, "name", row->name);
    base_json_u64(json, "address", row->address);
    base_json_u64(json, "bytes", row->bytes);
    base_json_string(json, "class", class_name(row->memory_class));
    base_json_u64(json, "holders", row->holders);
    base_json_u64(json, "copies", row->copies);
    base_json_object_end(json);
    return 0;
}

static int write_stat(const struct cli_space *space)
{
    struct base_json json;
    base_json_init_file(&json, stdout);
    base_json_object_begin(&json, NULL);
    base_json_object_begin(&json, "master");
    int error = tarn_space_list_statistics(space->space, write_statistic, &json, cli_space_deadline());
    base_json_object_end(&json);
    base_json_array_begin(&json, "servers");
    if (error == 0)
        error = tarn_space_list_servers(space->space, write_server, &json, cli_space_deadline());
    base_json_array_end(&json);
    base_json_array_begin(&json, "namespaces");
    if (error == 0)
        error = tarn_space_list_namespaces(space->space, write_namespace, &json, cli_space_deadline());
    base_json_array_end(&json);
    if (space->joined != NULL) {
        base_json_array_begin(&json, "regions");
        if (error == 0)
            error = tarn_space_list_regions(space->joined, write_region, &json, cli_space_deadline());
        base_json_array_end(&json);
    }
    base_json_object_end(&json);
    if (base_json_finish(&json, NULL) == 0)
        (void)putchar('\n');
    return error;
}

/* ---- stat, for people ---------------------------------------------------------------------------- */

/* Columns: those of names, before the numbers. */
enum { NAME_COLUMNS = 24 };

/* What all memory servers have. */
struct sums {
    uint64_t count;
    uint64_t there;
    uint64_t bytes;
    uint64_t free_bytes; /* of those that get chunks */
};

static int show_server(void *arg, const struct tarn_space_server_row *row)
{
    struct sums *sums = arg;
    char all[BASE_UNITS_ROOM], used[BASE_UNITS_ROOM], rest[BASE_UNITS_ROOM], address[256];
    const char *state = !row->is_there     ? "not there"
                        : row->is_draining ? "draining"
                                           : base_format_size(rest, sizeof(rest), row->free_bytes);
    sums->count++;
    sums->there += row->is_there;
    sums->bytes += row->is_there ? row->bytes : 0;
    sums->free_bytes += row->is_draining ? 0 : row->free_bytes;
    (void)printf("  %-*s  %10s  %10s  %10s  %s\n", NAME_COLUMNS, row->name,
                 base_format_size(all, sizeof(all), row->bytes),
                 base_format_size(used, sizeof(used), row->used_bytes), state,
                 base_log_quote(address, sizeof(address), row->address, strlen(row->address)));
    return 0;
}

static int show_namespace(void *arg, const struct tarn_space_namespace_row *row)
{
    char spare[BASE_UNITS_ROOM];
    (void)arg;
    (void)printf("  %-*s  %10" PRIu32 "  %10s\n", NAME_COLUMNS, row->name, row->regions,
                 base_format_size(spare, sizeof(spare), row->spare_bytes));
    return 0;
}

static int show_region(void *arg, const struct tarn_space_region_row *row)
{
    char bytes[BASE_UNITS_ROOM];
    (void)arg;
    (void)printf("  %-*s  %10s  %10" PRIu32 "  %6" PRIu32 "  %5s  0x%" PRIx64 "\n", NAME_COLUMNS,
                 row->name[0] == '\0' ? "-" : row->name, base_format_size(bytes, sizeof(bytes), row->bytes),
                 row->holders, row->copies, class_name(row->memory_class), row->address);
    return 0;
}

static int show_stat(const struct cli_space *space)
{
    struct sums sums = {.count = 0};
    char all[BASE_UNITS_ROOM], rest[BASE_UNITS_ROOM];
    (void)printf("  %-*s  %10s  %10s  %10s  %s\n", NAME_COLUMNS, "memory server", "memory", "used", "free",
                 "address");
    int error = tarn_space_list_servers(space->space, show_server, &sums, cli_space_deadline());
    if (error != 0)
        return error;
    (void)printf("  %" PRIu64 " of %" PRIu64 " memory servers are there, with %s, of which %s are free\n\n",
                 sums.there, sums.count, base_format_size(all, sizeof(all), sums.bytes),
                 base_format_size(rest, sizeof(rest), sums.free_bytes));
    (void)printf("  %-*s  %10s  %10s\n", NAME_COLUMNS, "namespace", "regions", "spare");
    error = tarn_space_list_namespaces(space->space, show_namespace, NULL, cli_space_deadline());
    if (error != 0 || space->joined == NULL)
        return error;
    (void)printf("\n  %-*s  %10s  %10s  %6s  %5s  %s\n", NAME_COLUMNS, "region", "bytes", "held by", "copies",
                 "class", "address");
    return tarn_space_list_regions(space->joined, show_region, NULL, cli_space_deadline());
}

static int run_stat(const void *parsed, const char *const *words, size_t count)
{
    const struct stat_options *options = parsed;
    struct cli_region_name name;
    struct cli_space space = {.joined = NULL};
    if (options->json && options->metrics)
        return cli_usage("--json or --metrics?");
    int status = open_named(words, count, options->secret_file, &name, &space);
    if (status != CLI_OK)
        return status;
    return close_told(&space, &name,
                      options->json      ? write_stat(&space)
                      : options->metrics ? cli_space_print_metrics(&space)
                                         : show_stat(&space));
}

int cli_space_list(int argc, char **argv)
{
    struct list_options options;
    return cli_run_arguments(&list_arguments, &options, argc, argv, run_list);
}

int cli_space_stat(int argc, char **argv)
{
    struct stat_options options;
    return cli_run_arguments(&stat_arguments, &options, argc, argv, run_stat);
}
