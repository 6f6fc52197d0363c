/* tarn space create, drop: namespaces and regions come and go. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/space.h"

struct names_options {
    const char *secret_file;
};

static const struct base_setting names_settings[] = {
    CLI_SPACE_SECRET_SETTING(offsetof(struct names_options, secret_file))};
static const struct cli_arguments arguments = {names_settings, base_array_count(names_settings)};

void cli_space_create_help(FILE *file)
{
    (void)fputs(
        "Makes a namespace: a flat address space of 64 bits, with no memory yet, and a domain of trust.\n"
        "With --secret-file only clients that know the secret reach its memory; without, any client that\n"
        "reaches the master.\n\n",
        file);
    cli_print_options(&arguments, file);
}

void cli_space_drop_help(FILE *file)
{
    (void)fputs(
        "Deletes a region, whose memory stays reserved for the namespace; or a namespace with all of its\n"
        "regions, whose memory goes back to the memory servers. Clients that hold a region go on reading\n"
        "and writing it until they let go of it; so long its memory has no other use.\n\n",
        file);
    cli_print_options(&arguments, file);
}

static int run_create(const void *parsed, const char *const *words, size_t count)
{
    const struct names_options *options = parsed;
    struct cli_region_name name;
    struct cli_space space = {.joined = NULL};
    if (count != 2)
        return cli_usage("create takes a URL and a namespace");
    int status = cli_space_read_name(words[1], &name);
    if (status == CLI_OK && name.region[0] != '\0')
        return cli_usage("create makes a namespace; `tarn space put` makes a region");
    if (status == CLI_OK)
        status = cli_space_open(words[0], &space);
    if (status != CLI_OK)
        return status;
    status = cli_space_enter(&space, name.space, options->secret_file, true);
    cli_space_close(&space);
    return status;
}

static int drop_region(const struct cli_space *space, const struct cli_region_name *name)
{
    struct tarn_space_region *region;
    int error = tarn_space_find(space->joined, name->region, cli_space_deadline(), &region);
    if (error != 0)
        return cli_space_failed(name, error);
    error = tarn_space_free(region, cli_space_deadline());
    tarn_space_drop(region);
    return error == 0 ? CLI_OK : cli_space_failed(name, error);
}

static int drop_namespace(const struct cli_space *space, const struct cli_region_name *name)
{
    int error = tarn_space_delete_ns(space->joined, cli_space_deadline());
    return error == 0 ? CLI_OK : cli_space_failed(name, error);
}

static int run_drop(const void *parsed, const char *const *words, size_t count)
{
    const struct names_options *options = parsed;
    struct cli_region_name name;
    struct cli_space space = {.joined = NULL};
    if (count != 2)
        return cli_usage("drop takes a URL and a namespace or a region");
    int status = cli_space_read_name(words[1], &name);
    if (status == CLI_OK)
        status = cli_space_open_joined(words[0], name.space, options->secret_file, &space);
    if (status != CLI_OK)
        return status;
    status = name.region[0] == '\0' ? drop_namespace(&space, &name) : drop_region(&space, &name);
    cli_space_close(&space);
    return status;
}

int cli_space_create(int argc, char **argv)
{
    struct names_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_create);
}

int cli_space_drop(int argc, char **argv)
{
    struct names_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_drop);
}
