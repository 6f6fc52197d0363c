/* The words and the options of a verb. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include <errno.h>

static int parse_and_run(const struct base_settings *settings, int argc, char **argv, const char **words,
                         cli_run_function *run)
{
    char error[BASE_SETTINGS_ERROR_ROOM];
    size_t count;
    int failed = base_settings_set_defaults(settings, error, sizeof(error));
    if (failed == 0)
        failed = base_settings_parse_arguments(settings, argc, argv, words, &count, error, sizeof(error));
    if (failed != 0)
        return failed == -ENOMEM ? cli_failed("%s", error) : cli_usage("%s", error);
    return run(settings->options, words, count);
}

int cli_run_arguments(const struct cli_arguments *arguments, void *options, int argc, char **argv,
                      cli_run_function *run)
{
    struct base_account account;
    struct base_settings_arena arena;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    base_settings_arena_init(&arena, &account);
    const struct base_settings settings = {
        .table = arguments->table, .count = arguments->count, .options = options, .arena = &arena};
    size_t bytes = (size_t)argc * sizeof(const char *);
    const char **words = base_alloc(&account, bytes);
    int status =
        words == NULL ? cli_failed("out of memory") : parse_and_run(&settings, argc, argv, words, run);
    base_free(&account, words, bytes);
    base_settings_arena_deinit(&arena);
    base_account_deinit(&account);
    return status;
}

void cli_print_options(const struct cli_arguments *arguments, FILE *file)
{
    const struct base_settings settings = {.table = arguments->table, .count = arguments->count};
    base_settings_print_help(&settings, file);
}
