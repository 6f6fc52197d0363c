/* A terminal that is watched: screens that fit it, and the key that ends them. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "base/base.h"
#include <termios.h>

/* Standard input and output of a command that shows something again and again. */
struct cli_terminal {
    bool is_screen;        /* standard output is a terminal */
    bool has_keys;         /* keys come one by one: standard input is one, too, and this is its foreground */
    struct termios before; /* what to leave behind, if has_keys */
    int signals;           /* a descriptor: those that ask for the end */
};

enum cli_wait { CLI_WAIT_READY, CLI_WAIT_LATE, CLI_WAIT_QUIT };

/** Begin. Signals that ask for the end are told by cli_terminal_wait() from now on. @return 0; a negative errno */
base_must_check int cli_terminal_begin(struct cli_terminal *terminal);

/** Leave the terminal as it was. */
void cli_terminal_end(struct cli_terminal *terminal);

/**
 * Wait for input.
 *
 * @param fd           where from; -1: for nothing but the time and the end
 * @param deadline_ns  of task_now()
 * @return CLI_WAIT_READY: `fd` has input, or has ended; CLI_WAIT_LATE; CLI_WAIT_QUIT: `q` was typed, or a signal came
 */
enum cli_wait cli_terminal_wait(const struct cli_terminal *terminal, int fd, uint64_t deadline_ns);

/** How many columns there are: of a terminal its own, else 80. */
unsigned cli_terminal_columns(const struct cli_terminal *terminal);

/**
 * Print lines. On a terminal they take the place of what was there: long ones are broken between words, and what is below
 * its last line is left out. Elsewhere they are printed as they are.
 *
 * @return 0; a negative errno
 */
base_must_check int cli_terminal_print(const struct cli_terminal *terminal, const char *lines);

#endif
