/* tarn del: remove a key. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/store.h"

static const struct cli_arguments arguments = {NULL, 0};

void cli_del_help(FILE *file)
{
    (void)fputs(
        "Removes KEY from the store URL; it is durably gone when the command ends, if the store is durable.\n"
        "A store in a file must not be open elsewhere. Exit status 1: there is no such key.\n",
        file);
}

static int run_del(const void *options, const char *const *words, size_t count)
{
    (void)options;
    struct cli_store store;
    if (count != 2)
        return cli_usage("del takes a store and a key");
    int status = cli_check_key(words[1]);
    if (status == CLI_OK)
        status = cli_store_open(words[0], NULL, &store);
    if (status != CLI_OK)
        return status;
    int error = tarn_kv_delete(store.kv, words[1], strlen(words[1]));
    return cli_store_close(&store, error == 0 ? CLI_OK : cli_key_failed(words[1], error));
}

int cli_del(int argc, char **argv)
{
    return cli_run_arguments(&arguments, NULL, argc, argv, run_del);
}
