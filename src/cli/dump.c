/* tarn dump: every record as a line of JSON. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/records.h"
#include "cli/store.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <unistd.h>

struct dump_options {
    unsigned values; /* enum cli_values */
};

static const char *const value_choices[] = {"text", "hex", "none", NULL};

static const struct base_setting dump_settings[] = {
    {.name = "values",
     .type = BASE_SETTING_ENUM,
     .choices = value_choices,
     .help = "How values are written: as text where they are UTF-8 and in hexadecimal digits where they are "
             "not, all in digits, or not at all.",
     .offset = offsetof(struct dump_options, values)},
};
static const struct cli_arguments arguments = {dump_settings, base_array_count(dump_settings)};

void cli_dump_help(FILE *file)
{
    (void)fputs(
        "Prints every record of the store in the file PATH as JSON lines, in no order: an object with\n"
        "  key or key_hex      the key as a string if it is UTF-8 without zero bytes, else in hexadecimal\n"
        "                      digits\n"
        "  version             changes with every put of the key\n"
        "  expiry_ms           when the record ends: milliseconds since 1970; 0 is never\n"
        "  flags               the client's\n"
        "  bytes               of the value\n"
        "  note                of two bits, where it is not 0: what the server remembers of a record\n"
        "  value or value_hex  as the key; left out with --values=none\n"
        "The value of a long record, which has long_key or long_key_hex instead of key, follows in lines "
        "with\n"
        "part, its offset, and value or value_hex.\n"
        "The last line is an object with end, which is true, and records, how many there were; a stream "
        "without\n"
        "it is cut off. Later releases may add members. `tarn load` reads it; docs/dump.md tells all about "
        "it.\n"
        "The store must not be open elsewhere to be written.\n\n",
        file);
    cli_print_options(&arguments, file);
}

static void show_progress(void *arg, uint64_t count)
{
    base_progress_update(arg, count);
}

static int dump_store(struct cli_store *store, const struct dump_options *options)
{
    struct tarn_depot_stats stats;
    struct base_progress progress;
    struct cli_records records = {.depot = store->depot,
                                  .values = (enum cli_values)options->values,
                                  .file = stdout,
                                  .progress = show_progress,
                                  .arg = &progress};
    tarn_depot_stats(store->depot, &stats);
    cli_progress_begin(&progress, "dump", "records", stats.records);
    progress.silent |= isatty(STDOUT_FILENO) == 1; /* the records themselves are seen */
    int error = cli_records_write(&store->node->memory, &records);
    base_progress_done(&progress, records.count);
    if (ferror(stdout) || fflush(stdout) != 0)
        return cli_output_failed();
    if (error != 0)
        return cli_failed("cannot dump: %s", strerrordesc_np(-error));
    if (records.damaged)
        return cli_failed("records are damaged, and were left out; `tarn check` tells more");
    return CLI_OK;
}

static int run(const void *options, const char *const *words, size_t count)
{
    const struct tarn_depot_options depot_options = {.read_only = true};
    struct cli_store store;
    if (count != 1)
        return cli_usage("dump takes a store");
    int status = cli_depot_open(words[0], &depot_options, &store);
    return status == CLI_OK ? cli_store_close(&store, dump_store(&store, options)) : status;
}

int cli_dump(int argc, char **argv)
{
    struct dump_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run);
}
