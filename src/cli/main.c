/* tarn: one command, many verbs. */
#include "cli/cli.h"
#include "cli/verbs.h"
#include <tarn/tarn.h>

static int print_version(void)
{
    (void)printf("tarn %s\n", tarn_version());
    return CLI_OK;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        cli_print_verbs(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0 || strcmp(name, "version") == 0)
        return print_version();
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return cli_help(argc - 2, argv + 2);
    return cli_run(name, argc - 2, argv + 2);
}
