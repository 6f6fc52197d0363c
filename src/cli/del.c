/* tarn del: remove a key. */
#include "cli/cli.h"
#include "cli/file_url.h"

void cli_del_help(FILE *file)
{
    (void)fputs(
        "Removes KEY from the store in the file PATH; it is durably gone when the command ends. The store\n"
        "must not be open elsewhere. Exit status 1: there is no such key.\n",
        file);
}

int cli_del(int argc, char **argv)
{
    struct cli_store store;
    if (argc != 2)
        return cli_usage("del takes a store and a key");
    int status = cli_check_key(argv[1]);
    if (status == CLI_OK)
        status = cli_store_open(argv[0], NULL, &store);
    if (status != CLI_OK)
        return status;
    int error = tarn_depot_delete(store.depot, argv[1], strlen(argv[1]));
    return cli_store_close(&store, error == 0 ? CLI_OK : cli_key_failed(argv[1], error));
}
