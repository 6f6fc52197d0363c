/* tarn dump: every record as a line of JSON. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/records.h"
#include "cli/store.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <tarn/depot.h>
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
        "Prints every record of the store URL as JSON lines, in no order: an object with\n"
        "  key or key_hex      the key as a string if it is UTF-8 without zero bytes, else in hexadecimal "
        "digits\n"
        "  version             changes with every put of the key\n"
        "  expiry_ms           when the record ends: milliseconds since 1970; 0 is never\n"
        "  flags               the client's\n"
        "  bytes               of the value\n"
        "  note                of two bits, where it is not 0: what the server remembers of a record\n"
        "  value or value_hex  as the key; left out with --values=none\n"
        "The value of a long record, which has long_key or long_key_hex instead of key, follows in lines "
        "with part, its\n"
        "offset, and value or value_hex.\n"
        "The last line is an object with end, which is true, and records, how many there were; a stream "
        "without it is cut\n"
        "off. Later releases may add members. `tarn load` reads it; docs/dump.md tells all about it.\n"
        "A store in a file must not be open elsewhere to be written; a server (tarn://HOST:PORT/STORE, "
        "unix:PATH/STORE)\n"
        "goes on meanwhile, and each record is as it was when its turn came.\n\n",
        file);
    cli_print_options(&arguments, file);
}

static void show_progress(void *arg, uint64_t count)
{
    base_progress_update(arg, count);
}

static uint64_t count_of(const struct cli_store *store)
{
    struct tarn_depot_stats stats;
    if (store->depot == NULL)
        return 0; /* a server has not said it */
    tarn_depot_stats(store->depot, &stats);
    return stats.records;
}

static int dump_store(struct cli_store *store, const struct dump_options *options)
{
    struct base_progress progress;
    struct cli_records records = {.kv = store->kv,
                                  .whole_bytes_max = store->info.whole_bytes_max,
                                  .values = (enum cli_values)options->values,
                                  .file = stdout,
                                  .progress = show_progress,
                                  .arg = &progress};
    cli_progress_begin(&progress, "dump", "records", count_of(store));
    progress.silent |= isatty(STDOUT_FILENO) == 1; /* the records themselves are seen */
    int error = cli_records_write(&store->node->memory, &records);
    base_progress_end(&progress);
    if (ferror(stdout) || fflush(stdout) != 0)
        return cli_output_failed();
    if (error == -ESTALE)
        return cli_failed(
            "cannot dump: a long value is replaced faster than it can be read, or the server has begun "
            "anew: dump again, or have the server write a dump of one moment (tarn serve --dump)");
    if (error != 0)
        return cli_failed("cannot dump: %s", cli_reason(error));
    if (records.damaged)
        return cli_failed("records are damaged, and were left out; `tarn check` tells more");
    return CLI_OK;
}

static int run_dump(const void *options, const char *const *words, size_t count)
{
    const struct tarn_depot_options depot_options = {.read_only = true};
    struct cli_store store;
    if (count != 1)
        return cli_usage("dump takes a store");
    int status = cli_store_open(words[0], &depot_options, &store);
    return status == CLI_OK ? cli_store_close(&store, dump_store(&store, options)) : status;
}

int cli_dump(int argc, char **argv)
{
    struct dump_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_dump);
}
