/* tarn fabric: its verbs. */
#include "cli/fabric.h"
#include "cli/cli.h"

static const struct cli_verb fabric_verbs[] = {
    {"info", "[URL] [OPTION...]", "tell what providers there are, and what each reports here",
     cli_fabric_info, cli_fabric_info_help},
    {"ping", "URL ADDRESS | --listen=ADDRESS URL [OPTION...]",
     "ask a peer again and again, and tell how long it takes", cli_fabric_ping, cli_fabric_ping_help},
    {"doctor", "[URL] [OPTION...]", "tell what is wrong with this machine, and how to cure it",
     cli_fabric_doctor, cli_fabric_doctor_help},
};

void cli_fabric_help(FILE *file)
{
    for (size_t i = 0; i < base_array_count(fabric_verbs); i++)
        (void)fprintf(file, "  %-6s  %s\n", fabric_verbs[i].name, fabric_verbs[i].help);
    (void)fputs("\nA URL names a provider: shm:, tcp: and what else `tarn fabric info` lists.\n"
                "`tarn fabric VERB --help` tells more.\n",
                file);
}

int cli_fabric(int argc, char **argv)
{
    const struct cli_verb *verb = NULL;
    for (size_t i = 0; i < base_array_count(fabric_verbs); i++) {
        if (argc > 0 && strcmp(argv[0], fabric_verbs[i].name) == 0)
            verb = &fabric_verbs[i];
    }
    if (verb == NULL)
        return cli_usage(argc == 0 ? "fabric takes a verb; `tarn fabric --help` lists them"
                                   : "fabric has no such verb; `tarn fabric --help` lists them");
    bool help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    if (!help)
        return verb->run(argc - 1, argv + 1);
    return cli_print_help("tarn fabric", verb, stdout);
}
