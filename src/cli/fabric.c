/* tarn fabric: its verbs. */
#include "cli/fabric.h"
#include "bench/bench.h"
#include "cli/cli.h"

static int bench(int argc, char **argv)
{
    char *arguments[64] = {(char *)(uintptr_t) "fabric"}; /* it changes none */
    if ((size_t)argc >= base_array_count(arguments))
        return cli_usage("too many arguments");
    for (int i = 0; i < argc; i++)
        arguments[i + 1] = argv[i];
    return bench_main(argc + 1, arguments, stdout, stderr);
}

static const struct cli_verb fabric_verbs[] = {
    {"info", "[URL] [OPTION...]", "tell what providers there are, and what each reports here",
     cli_fabric_info, cli_fabric_info_help},
    {"ping", "URL ADDRESS | --listen=ADDRESS URL [OPTION...]",
     "ask a peer again and again, and tell how long it takes", cli_fabric_ping, cli_fabric_ping_help},
    {"bench", "[OPTION...]", "measure, beside what one would use instead: `tarn bench fabric`", bench, NULL},
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
    if (!help || verb->print_help == NULL)
        return verb->run(argc - 1, argv + 1);
    return cli_print_help("tarn fabric", verb, stdout);
}
