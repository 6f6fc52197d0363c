/* A terminal that is watched: its size, its keys, and lines that fit it. */
#include "cli/terminal.h"
#include "task/task.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define CLEAR  "\033[H\033[J" /* of a terminal: to its first line, and nothing below */
#define INDENT 10             /* of what is left of a long line */

/* What a terminal without a size has. */
enum { COLUMNS = 80, ROWS = 24 };

static sigset_t ending_signals(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    return set;
}

int cli_terminal_begin(struct cli_terminal *terminal)
{
    const sigset_t set = ending_signals();
    *terminal = (struct cli_terminal){.is_screen = isatty(STDOUT_FILENO) == 1};
    terminal->signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (terminal->signals < 0)
        return -errno;
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    terminal->has_keys = terminal->is_screen && tcgetattr(STDIN_FILENO, &terminal->before) == 0 &&
                         tcgetpgrp(STDIN_FILENO) == getpgrp();
    if (terminal->has_keys) {
        struct termios keys = terminal->before;
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    }
    return 0;
}

void cli_terminal_end(struct cli_terminal *terminal)
{
    if (terminal->has_keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &terminal->before);
    (void)close(terminal->signals);
}

/* ---- waiting ------------------------------------------------------------------------------------- */

/* Whether the key that was typed is the one that ends it; at the end of the input no more will come. */
static bool is_quit(struct pollfd *keys)
{
    char key;
    ssize_t bytes = keys->revents == 0 ? -1 : read(keys->fd, &key, 1);
    if (keys->revents != 0 && bytes <= 0)
        keys->fd = -1;
    return bytes == 1 && (key == 'q' || key == 'Q');
}

enum cli_wait cli_terminal_wait(const struct cli_terminal *terminal, int fd, uint64_t deadline_ns)
{
    struct pollfd waits[] = {{.fd = terminal->signals, .events = POLLIN},
                             {.fd = terminal->has_keys ? STDIN_FILENO : -1, .events = POLLIN},
                             {.fd = fd, .events = POLLIN}};
    for (;;) {
        const uint64_t now_ns = task_now();
        const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        const struct timespec left = {.tv_sec = (time_t)(left_ns / BASE_NS_PER_SECOND),
                                      .tv_nsec = (long)(left_ns % BASE_NS_PER_SECOND)};
        int count = ppoll(waits, base_array_count(waits), &left, NULL);
        if (count > 0 && (waits[0].revents != 0 || is_quit(&waits[1])))
            return CLI_WAIT_QUIT;
        if (count > 0 && waits[2].revents != 0)
            return CLI_WAIT_READY;
        if (count == 0)
            return CLI_WAIT_LATE;
    }
}

/* ---- printing ------------------------------------------------------------------------------------ */

static void size_of(const struct cli_terminal *terminal, unsigned *ret_columns, unsigned *ret_rows)
{
    struct winsize size = {.ws_col = 0};
    bool is_known = terminal->is_screen && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    *ret_columns = is_known && size.ws_col > 0 ? size.ws_col : COLUMNS;
    *ret_rows = is_known && size.ws_row > 0 ? size.ws_row : ROWS;
}

unsigned cli_terminal_columns(const struct cli_terminal *terminal)
{
    unsigned columns, rows;
    size_of(terminal, &columns, &rows);
    return columns;
}

/* How much of a line of ASCII goes in some columns: up to its end, or to a space; of a long word what there is room for. */
static size_t fitting(const char *line, size_t len, size_t columns)
{
    if (len <= columns)
        return len;
    size_t at = columns;
    while (at > 0 && line[at] != ' ')
        at--;
    while (at > 0 && line[at - 1] == ' ')
        at--;
    return at > 0 ? at : columns;
}

/* One line, in as many rows as it needs. @return how many are left */
static unsigned print_line(const char *line, size_t len, unsigned columns, unsigned rows)
{
    unsigned indent = 0;
    do {
        size_t part = fitting(line, len, columns - indent);
        (void)printf("%*s%.*s%s", (int)indent, "", (int)part, line, --rows > 0 ? "\n" : "");
        while (part < len && line[part] == ' ')
            part++;
        line += part;
        len -= part;
        indent = columns > 2 * INDENT ? INDENT : 0;
    } while (len > 0 && rows > 0);
    return rows;
}

int cli_terminal_print(const struct cli_terminal *terminal, const char *lines)
{
    unsigned columns, rows;
    if (!terminal->is_screen) {
        (void)fputs(lines, stdout);
    } else {
        size_of(terminal, &columns, &rows);
        (void)fputs(CLEAR, stdout);
        while (*lines != '\0' && rows > 0) {
            size_t len = strcspn(lines, "\n");
            rows = print_line(lines, len, columns, rows);
            lines += len + (lines[len] == '\n' ? 1 : 0);
        }
    }
    return ferror(stdout) || fflush(stdout) != 0 ? -errno : 0;
}
