/* The process of `tarn serve`, as memcached's options have it: its user, the background, a file with its number. */
#ifndef CLI_PROCESS_H
#define CLI_PROCESS_H

#include "base/base.h"

struct serve_options;

/* What is to be done when the server is ready. */
struct cli_process {
    const struct serve_options *options;
    int parent; /* a pipe to the parent that waits in the foreground; -1: none waits */
};

/**
 * Before anything is opened: go to the background, lock memory, become the user. In the foreground a process waits there, and
 * ends with what came of it: it does not return.
 *
 * @return CLI_OK; CLI_FAILED: said on standard error
 */
base_must_check int cli_process_begin(struct cli_process *process, const struct serve_options *options);

/** The server is ready: write the file with the number, let go of the foreground. @return CLI_OK; CLI_FAILED: said */
base_must_check int cli_process_ready(struct cli_process *process);

/** The server has ended: remove the file. Only after cli_process_ready(). */
void cli_process_end(const struct cli_process *process);

#endif
