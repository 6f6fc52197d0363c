/* tarn format: make a store. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/store.h"
#include "drive/drive.h"
#include "seglog/seglog.h"
#include "task/node.h"
#include <errno.h>
#include <tarn/depot.h>

struct make_options {
    uint64_t size_bytes;
    uint64_t grain_bytes;
    bool force;
};

#define AT(field) .offset = offsetof(struct make_options, field)

static const struct base_setting make_settings[] = {
    {.name = "size",
     .type = BASE_SETTING_SIZE,
     .min = UINT64_C(1) << 20,
     .help = "Make the file with this size if there is none, several with equal shares of it.",
     AT(size_bytes)},
    {.name = "grain",
     .type = BASE_SETTING_UINT,
     .min = SEGLOG_GRAIN_BYTES_MIN,
     .max = SEGLOG_GRAIN_BYTES_MAX,
     .default_text = "64",
     .unit = "bytes",
     .help = "What records are padded to, a power of two. Smaller ones waste less behind small records, and "
             "leave the index less room to tell keys apart.",
     AT(grain_bytes)},
    {.name = "force",
     .type = BASE_SETTING_BOOL,
     .help = "Overwrite whatever is there, a store included.",
     AT(force)},
};
static const struct cli_arguments arguments = {make_settings, base_array_count(make_settings)};

void cli_format_help(FILE *file)
{
    (void)fputs(
        "Makes a store in the file, block device or NVMe namespace (/dev/ng0n1) PATH, which must be blank:\n"
        "all of it is read to see that there are only zeros. What is there is never overwritten without\n"
        "--force. Several, as A,B,C, become a stripe, one store on all of them; of each as much is used as\n"
        "the smallest has.\n\n",
        file);
    cli_print_options(&arguments, file);
}

/* Say what stands there, and what to do about it. */
static int refuse(struct tarn_node *node, const char *path)
{
    const struct drive_options options = {.read_only = true};
    enum seglog_found found = SEGLOG_FOUND_OTHER;
    const char *why = "the log says what stands there";
    struct drive *drive;
    int error = drive_open(node, path, &options, &drive);
    if (error == 0) {
        error = seglog_probe(node, drive, &found, &why);
        drive_close(drive);
    }
    if (error == 0 && found == SEGLOG_FOUND_STORE)
        return cli_failed(
            "there is a store in %s already; --force makes a new one, and all that is stored in "
            "the old one is lost",
            path);
    if (error == 0 && found == SEGLOG_FOUND_ZEROS)
        why = "it begins with zeros, but something follows";
    return cli_failed("%s is not blank (%s); --force overwrites it, and all that is in it is lost", path,
                      why);
}

static int make(struct tarn_node *node, const char *path, const struct make_options *options)
{
    const struct tarn_format_options format_options = {.create_bytes = options->size_bytes,
                                                       .grain_bytes = (uint32_t)options->grain_bytes,
                                                       .force = options->force};
    int error = tarn_depot_format(node, path, &format_options);
    switch (error) {
    case 0:
        return CLI_OK;
    case -EEXIST:
        return refuse(node, path);
    default: /* the log has said why */
        return cli_failed("cannot make a store in %s: %s", path, cli_file_reason(error));
    }
}

static int run_format(const void *parsed, const char *const *words, size_t count)
{
    const struct make_options *options = parsed;
    struct tarn_node *node;
    const char *path;
    if (count != 1)
        return cli_usage("format takes a file or a device");
    if (!base_is_power_of_two(options->grain_bytes))
        return cli_usage("--grain is a power of two: 32, 64, 128, 256 or 512");
    int status = cli_node_open(words[0], &node, &path);
    if (status != CLI_OK)
        return status;
    status = make(node, path, options);
    tarn_node_close(node);
    return status;
}

int cli_format(int argc, char **argv)
{
    struct make_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_format);
}
