/* What systemd is told of a server: how far it is, and how much a line of the log matters. */
#ifndef CLI_SYSTEMD_H
#define CLI_SYSTEMD_H

#include "base/base.h"
#include <sys/socket.h>
#include <sys/un.h>

/* Where a service manager wants to be told; all zero: there is none. */
struct cli_notify {
    bool is_wanted;
    int socket;
    struct sockaddr_un address;
    socklen_t address_bytes;
    uint64_t extended_ns; /* when it was asked for patience last; 0: never */
};

/** Find out, by NOTIFY_SOCKET, whether anybody wants to be told. A socket that cannot be had is none. */
void cli_notify_open(struct cli_notify *notify);

/** Close the socket. */
void cli_notify_close(struct cli_notify *notify);

/** Send lines of assignments, as sd_notify(3) has them: READY=1, STATUS=…. One that is lost is lost. */
void cli_notify(const struct cli_notify *notify, const char *lines);

/**
 * Say how far the opening of a store is, and ask for patience: once a second, however often it is called.
 *
 * @param arg  struct cli_notify
 */
void cli_notify_progress(void *arg, const char *store, const char *what, const char *unit, uint64_t done,
                         uint64_t all);

/** Whether standard error goes to the journal, as JOURNAL_STREAM says. */
bool cli_is_journal(void);

/** A log's sink for the journal: standard error, with the priority in front of each line. @param arg  none */
void cli_journal_sink(void *arg, enum base_log_level level, const char *line, size_t len);

#endif
