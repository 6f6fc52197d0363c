/* tarn fabric: its verbs. */
#include "cli/fabric.h"
#include "cli/cli.h"
#include "cli/verbs.h"

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
    cli_print_verbs_of(fabric_verbs, base_array_count(fabric_verbs), file);
    (void)fputs("\nA URL names a provider: shm:, tcp: and what else `tarn fabric info` lists.\n"
                "`tarn fabric VERB --help` tells more.\n",
                file);
}

int cli_fabric(int argc, char **argv)
{
    return cli_run_verb_of("fabric", fabric_verbs, base_array_count(fabric_verbs), argc, argv);
}
