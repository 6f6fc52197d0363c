/* The words and the options of a verb, parsed by a table of settings. */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include "base/base.h"
#include <stdio.h>

/* What a verb understands. */
struct cli_arguments {
    const struct base_setting *table; /* NULL: no options */
    size_t count;                     /* of the table */
};

/**
 * Does what a command line asks for.
 *
 * @param options       with the defaults and what was said
 * @param words, count  what is no option, in order
 * @return the exit status
 */
typedef int cli_run_function(const void *options, const char *const *words, size_t count);

/**
 * Parse a command line, and run the verb if it is right.
 *
 * @param options  of the table's kind; filled here
 * @return what `run` returned; CLI_USAGE, CLI_FAILED: said on standard error
 */
base_must_check int cli_run_arguments(const struct cli_arguments *arguments, void *options, int argc,
                                      char **argv, cli_run_function *run);

/** Print the options of a verb as its help shows them. */
void cli_print_options(const struct cli_arguments *arguments, FILE *file);

#endif
