/* tarn dump: every record as a line of JSON. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/file_url.h"
#include "cli/stream.h"
#include "cli/text.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <unistd.h>

#define PARTS_AT_ONCE 256 /* are read of a long value */

enum dump_values { DUMP_TEXT, DUMP_HEX, DUMP_NONE };

struct dump_options {
    unsigned values; /* enum dump_values */
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

struct dump {
    enum dump_values values;
    struct tarn_depot *depot;
    uint8_t *part; /* CLI_STREAM_PART_BYTES * PARTS_AT_ONCE: of a long value */
    int damage;    /* the first error of a long value that could not be read */
    struct cli_text text;
    char *line;
    size_t line_room;
    struct base_progress progress;
    uint64_t records;
};

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

static uint64_t now(void *arg)
{
    (void)arg;
    return task_now();
}

static int print_line(const struct dump *dump, struct base_json *json)
{
    size_t bytes;
    int error = base_json_finish(json, &bytes);
    if (error == 0 && (fwrite(dump->line, 1, bytes, stdout) != bytes || putchar('\n') == EOF))
        error = -EIO;
    return error;
}

/* The parts of a long value that lie in the buffer. */
static int print_parts(const struct dump *dump, uint64_t offset, size_t bytes)
{
    int error = 0;
    for (size_t at = 0; error == 0 && at < bytes; at += CLI_STREAM_PART_BYTES) {
        struct base_json json;
        base_json_init_buffer(&json, dump->line, dump->line_room);
        base_json_object_begin(&json, NULL);
        base_json_u64(&json, "part", offset + at);
        cli_text_write_json(&dump->text, &json, "value", dump->part + at,
                            base_min(bytes - at, CLI_STREAM_PART_BYTES), dump->values == DUMP_HEX);
        base_json_object_end(&json);
        error = print_line(dump, &json);
    }
    return error;
}

static int print_void(const struct dump *dump)
{
    struct base_json json;
    base_json_init_buffer(&json, dump->line, dump->line_room);
    base_json_object_begin(&json, NULL);
    base_json_bool(&json, "void", true);
    base_json_object_end(&json);
    return print_line(dump, &json);
}

/* Part after part. What cannot be read to its end is no record. */
static int print_long(struct dump *dump, const void *key, size_t key_len, const struct tarn_record_info *info)
{
    int error = 0;
    size_t bytes;
    for (uint64_t done = 0; error == 0 && done < info->value_bytes; done += bytes) {
        int damage = tarn_depot_read(dump->depot, key, key_len, info->version, done, dump->part,
                                     PARTS_AT_ONCE * CLI_STREAM_PART_BYTES, &bytes, NULL);
        if (damage != 0) {
            dump->damage = dump->damage == 0 ? damage : dump->damage;
            dump->records--;
            return print_void(dump);
        }
        error = print_parts(dump, done, bytes);
    }
    return error;
}

static int visit(void *arg, const void *key, size_t key_len, const void *value,
                 const struct tarn_record_info *info)
{
    struct dump *dump = arg;
    struct base_json json;
    bool in_parts = value == NULL && dump->values != DUMP_NONE;
    base_json_init_buffer(&json, dump->line, dump->line_room);
    base_json_object_begin(&json, NULL);
    cli_text_write_json(&dump->text, &json, in_parts ? "long_key" : "key", key, key_len, false);
    base_json_u64(&json, "version", info->version);
    base_json_u64(&json, "expiry_ms", info->expiry_ns / BASE_NS_PER_MS);
    base_json_u64(&json, "flags", info->client_flags);
    if (info->note != 0)
        base_json_u64(&json, "note", info->note);
    base_json_u64(&json, "bytes", info->value_bytes);
    if (dump->values != DUMP_NONE && !in_parts)
        cli_text_write_json(&dump->text, &json, "value", value, info->value_bytes, dump->values == DUMP_HEX);
    base_json_object_end(&json);
    base_progress_update(&dump->progress, ++dump->records);
    int error = print_line(dump, &json);
    return error == 0 && in_parts ? print_long(dump, key, key_len, info) : error;
}

/* Whether a scan was brought to its end, though perhaps without records that could not be read. */
static bool went_through(int error)
{
    return error == 0 || error == -EBADMSG || (error == -EIO && !ferror(stdout));
}

/* The last line, but for a scan that was cut off. @return the error of the scan, or of writing */
static int print_end(const struct dump *dump, int error)
{
    struct base_json json;
    if (!went_through(error))
        return error;
    base_json_init_buffer(&json, dump->line, dump->line_room);
    cli_stream_write_end(&json, dump->records, error != 0);
    int printed = print_line(dump, &json);
    return error != 0 ? error : printed;
}

static int dump_records(struct cli_store *store, struct dump *dump)
{
    struct tarn_depot_stats stats;
    tarn_depot_stats(store->depot, &stats);
    base_progress_init(&dump->progress, stderr, "dump", "records", stats.records, now, NULL);
    dump->progress.silent |= isatty(STDOUT_FILENO) == 1; /* the records themselves are seen */
    int error = tarn_depot_scan(store->depot, visit, dump);
    base_progress_done(&dump->progress, dump->records);
    error = error == 0 ? dump->damage : error;
    error = print_end(dump, error);
    if (ferror(stdout) || fflush(stdout) != 0)
        return cli_output_failed();
    if (error != 0 && went_through(error))
        return cli_failed("records are damaged, and were left out; `tarn check` tells more");
    return error == 0 ? CLI_OK : cli_failed("cannot dump: %s", strerrordesc_np(-error));
}

static int dump_store(struct cli_store *store, const struct dump_options *options)
{
    uint64_t value_max = tarn_depot_whole_bytes_max(store->depot), key_max = TARN_KEY_BYTES_MAX;
    const size_t part_bytes = PARTS_AT_ONCE * CLI_STREAM_PART_BYTES;
    struct dump dump = {.values = (enum dump_values)options->values,
                        .depot = store->depot,
                        .line_room = cli_stream_line_bytes_max(value_max) + 1};
    int status = cli_text_init(&dump.text, &store->node->memory, value_max + key_max);
    if (status != CLI_OK)
        return status;
    dump.line = base_alloc(&store->node->memory, dump.line_room);
    dump.part = base_alloc(&store->node->memory, part_bytes);
    status =
        dump.line == NULL || dump.part == NULL ? cli_failed("out of memory") : dump_records(store, &dump);
    base_free(&store->node->memory, dump.part, part_bytes);
    base_free(&store->node->memory, dump.line, dump.line_room);
    cli_text_deinit(&dump.text);
    return status;
}

static int run(const void *options, const char *const *words, size_t count)
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
    return cli_run_arguments(&arguments, &options, argc, argv, run);
}
