/* tarn get: a value to standard output. */
#include "cli/cli.h"
#include "cli/file_url.h"
#include "task/node.h"
#include <errno.h>
#include <unistd.h>

void cli_get_help(FILE *file)
{
    (void)fputs(
        "Prints the value of KEY in the store in the file PATH, byte for byte; on a terminal a line end\n"
        "follows. The store must not be open elsewhere. Exit status 1: there is no such key.\n",
        file);
}

static int print_value(struct cli_store *store, const char *key, char *value, size_t room)
{
    struct tarn_record_info info;
    int error = tarn_depot_get(store->depot, key, strlen(key), value, room, &info);
    if (error != 0)
        return cli_key_failed(key, error);
    if (fwrite(value, 1, info.value_bytes, stdout) != info.value_bytes ||
        (isatty(STDOUT_FILENO) && putchar('\n') == EOF) || fflush(stdout) != 0)
        return cli_failed("cannot write to standard output: %s", strerrordesc_np(errno));
    return CLI_OK;
}

int cli_get(int argc, char **argv)
{
    const struct tarn_depot_options options = {.read_only = true};
    struct cli_store store;
    if (argc != 2)
        return cli_usage("get takes a store and a key");
    int status = cli_check_key(argv[1]);
    if (status == CLI_OK)
        status = cli_store_open(argv[0], &options, &store);
    if (status != CLI_OK)
        return status;
    size_t room = tarn_depot_value_bytes_max(store.depot);
    char *value = base_alloc(&store.node->memory, room);
    if (value == NULL)
        return cli_store_close(&store, cli_failed("out of memory"));
    status = print_value(&store, argv[1], value, room);
    base_free(&store.node->memory, value, room);
    return cli_store_close(&store, status);
}
