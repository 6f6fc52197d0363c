/* Finding verbs, and telling about them. */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include <stdio.h>

/** Print how to call the command and what its verbs do. */
void cli_print_verbs(FILE *file);

/** `tarn help [VERB]`. @return the exit status */
int cli_help(int argc, char **argv);

/** `tarn NAME ...`. @param argc, argv  what stands behind the name @return the exit status */
int cli_run(const char *name, int argc, char **argv);

struct cli_verb;

/** Print the verbs of a verb, a line each. */
void cli_print_verbs_of(const struct cli_verb *table, size_t count, FILE *file);

/** Run a verb of a verb, or print its help. @param name  of the verb that has them @return its exit status */
int cli_run_verb_of(const char *name, const struct cli_verb *table, size_t count, int argc, char **argv);

#endif
