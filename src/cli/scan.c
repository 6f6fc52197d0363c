/* tarn scan: the keys of a store, a line each. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/store.h"
#include "cli/text.h"
#include "task/node.h"
#include <errno.h>
#include <string.h>
#include <tarn/depot.h>

struct scan_options {
    const char *prefix, *from, *to;
    bool reverse;
    uint64_t limit;
    bool values;
};

#define AT(field) .offset = offsetof(struct scan_options, field)

static const struct base_setting scan_settings[] = {
    {.name = "prefix",
     .type = BASE_SETTING_STRING,
     .metavar = "TEXT",
     .help = "Only keys that begin with this text.",
     AT(prefix)},
    {.name = "from",
     .type = BASE_SETTING_STRING,
     .metavar = "KEY",
     .help = "Only this key and those behind it. Of a store with an order, a tree, as the next two.",
     AT(from)},
    {.name = "to",
     .type = BASE_SETTING_STRING,
     .metavar = "KEY",
     .help = "Only keys before this one.",
     AT(to)},
    {.name = "reverse", .type = BASE_SETTING_BOOL, .help = "From the last key to the first.", AT(reverse)},
    {.name = "limit",
     .type = BASE_SETTING_UINT,
     .default_text = "0",
     .unit = "keys",
     .help = "Stop after this many; 0 is all.",
     AT(limit)},
    {.name = "values",
     .type = BASE_SETTING_BOOL,
     .help = "Print a tab and the value behind each key.",
     AT(values)},
};
static const struct cli_arguments arguments = {scan_settings, base_array_count(scan_settings)};

struct scan {
    const struct scan_options *options;
    size_t prefix_len;
    struct cli_text text;
    uint64_t printed;
};

enum { SCAN_ENOUGH = 1 }; /* what ends a scan, and is no error */

void cli_scan_help(FILE *file)
{
    (void)fputs(
        "Prints the keys of the store URL, a line each, in no order, but of a tree in the order of their\n"
        "bytes; those that are not printable stand in double quotes, with escapes. A store in a file must\n"
        "not be open elsewhere to be written.\n\n",
        file);
    cli_print_options(&arguments, file);
}

static int visit_record(void *arg, const void *key, size_t key_len, const void *value,
                        const struct tarn_record_info *info)
{
    struct scan *scan = arg;
    if (scan->prefix_len > 0 &&
        (key_len < scan->prefix_len || memcmp(key, scan->options->prefix, scan->prefix_len) != 0))
        return 0;
    int error = cli_text_print_record(&scan->text, key, key_len, scan->options->values ? value : NULL,
                                      info->value_bytes, stdout);
    if (error != 0)
        return error;
    scan->printed++;
    return scan->printed == scan->options->limit ? SCAN_ENOUGH : 0;
}

/* The key behind all that begin with a prefix, in its place. @return its length; 0: there is none */
static size_t end_of_prefix(char *prefix, size_t len)
{
    while (len > 0 && (uint8_t)prefix[len - 1] == UINT8_MAX)
        len--;
    if (len > 0)
        prefix[len - 1] = (char)((uint8_t)prefix[len - 1] + 1);
    return len;
}

/* Go through a range of a store that has an order. @param end  room for the prefix */
static int scan_range(struct tarn_kv *kv, struct scan *scan, char *end)
{
    const struct scan_options *options = scan->options;
    const char *from = options->from == NULL ? "" : options->from, *to = options->to;
    struct tarn_kv_range range = {.from = from,
                                  .from_len = strlen(from),
                                  .below = to,
                                  .below_len = to == NULL ? 0 : strlen(to),
                                  .reverse = options->reverse,
                                  .limit = options->limit};
    if (scan->prefix_len > 0) {
        memcpy(end, options->prefix, scan->prefix_len + 1);
        const size_t end_len = end_of_prefix(end, scan->prefix_len);
        if (strcmp(options->prefix, from) > 0) {
            range.from = options->prefix;
            range.from_len = scan->prefix_len;
        }
        if (end_len > 0 && (to == NULL || strncmp(end, to, end_len) < 0)) {
            range.below = end;
            range.below_len = end_len;
        }
    }
    return tarn_kv_range(kv, &range, visit_record, scan);
}

static int scan_keys(struct cli_store *store, struct scan *scan, bool is_ordered)
{
    if (!is_ordered)
        return tarn_kv_scan(store->kv, visit_record, scan);
    char *end = base_alloc(&store->node->memory, scan->prefix_len + 1);
    if (end == NULL)
        return -ENOMEM;
    int error = scan_range(store->kv, scan, end);
    base_free(&store->node->memory, end, scan->prefix_len + 1);
    return error;
}

static int scan_store(struct cli_store *store, const struct scan_options *options)
{
    struct scan scan = {.options = options,
                        .prefix_len = options->prefix == NULL ? 0 : strlen(options->prefix)};
    const bool is_ordered = (store->info.abilities & TARN_KV_ORDERED) != 0;
    if (!is_ordered && (options->from != NULL || options->to != NULL || options->reverse))
        return cli_failed(
            "--from, --to and --reverse are for a store with an order: a tree, and this is a %s",
            store->info.kind);
    int status =
        cli_text_init(&scan.text, &store->node->memory, store->info.whole_bytes_max + TARN_KEY_BYTES_MAX);
    if (status != CLI_OK)
        return status;
    int error = scan_keys(store, &scan, is_ordered);
    cli_text_deinit(&scan.text);
    if (ferror(stdout) || fflush(stdout) != 0)
        return cli_output_failed();
    if (error == -EBADMSG)
        return cli_failed("records are damaged, and were left out; `tarn check` tells more");
    return error == 0 || error == SCAN_ENOUGH ? CLI_OK : cli_failed("cannot scan: %s", cli_reason(error));
}

static int run_scan(const void *options, const char *const *words, size_t count)
{
    const struct tarn_depot_options depot_options = {.read_only = true};
    struct cli_store store;
    if (count != 1)
        return cli_usage("scan takes a store");
    int status = cli_store_open(words[0], &depot_options, &store);
    return status == CLI_OK ? cli_store_close(&store, scan_store(&store, options)) : status;
}

int cli_scan(int argc, char **argv)
{
    struct scan_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_scan);
}
