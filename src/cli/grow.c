/* tarn grow: make a store larger. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/store.h"
#include "depot/depot.h"
#include "task/node.h"
#include <errno.h>
#include <inttypes.h>

struct grow_options {
    uint64_t size_bytes;
};

static const struct base_setting grow_settings[] = {
    {.name = "size",
     .type = BASE_SETTING_SIZE,
     .min = UINT64_C(1) << 20,
     .help = "Make the file so long first. A device has the size it has.",
     .offset = offsetof(struct grow_options, size_bytes)},
};
static const struct cli_arguments arguments = {grow_settings, base_array_count(grow_settings)};

void cli_grow_help(FILE *file)
{
    (void)fputs(
        "Lets the store in the file or device PATH take all of it, after it has become larger, or makes\n"
        "the file larger itself. Of several, A,B,C, one that is blank is appended to the others, or to\n"
        "the only other. Nobody may have the store open. What is stored stays as it is; the next start\n"
        "reads all summaries, once. A store can become four times as large as it was made.\n"
        "A server that runs takes more when the file was made longer (fallocate -l SIZE FILE), or the\n"
        "device larger, and it gets SIGHUP.\n\n",
        file);
    cli_print_options(&arguments, file);
}

static int grow_store(struct tarn_node *node, const char *path, uint64_t bytes)
{
    struct tarn_depot_growth growth;
    char before[BASE_UNITS_ROOM], after[BASE_UNITS_ROOM];
    int error = tarn_depot_grow(node, path, bytes, &growth);
    if (error == -EBUSY)
        return cli_failed(
            "%s is in use. A server that has it open takes more of it when it gets SIGHUP, after the "
            "file was made longer (fallocate -l SIZE FILE) or the device larger; else end who has it",
            path);
    if (error != 0) /* the log has said why */
        return cli_failed("cannot make the store in %s larger: %s", path, cli_file_reason(error));
    (void)base_format_size(before, sizeof(before), growth.before_bytes);
    (void)base_format_size(after, sizeof(after), growth.after_bytes);
    if (growth.after_bytes == growth.before_bytes)
        (void)printf("%s has %s, all that its segments fit into\n", path, before);
    else
        (void)printf("%s has grown from %s to %s\n", path, before, after);
    return CLI_OK;
}

static int run_grow(const void *parsed, const char *const *words, size_t count)
{
    const struct grow_options *options = parsed;
    struct tarn_node *node;
    const char *path;
    if (count != 1)
        return cli_usage("grow takes a file or a device");
    int status = cli_node_open(words[0], &node, &path);
    if (status != CLI_OK)
        return status;
    status = grow_store(node, path, options->size_bytes);
    tarn_node_close(node);
    return status;
}

int cli_grow(int argc, char **argv)
{
    struct grow_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_grow);
}
