/* What the two sides of `tarn fabric ping` tell each other, and the side that answers. */
#ifndef CLI_FABRIC_PING_H
#define CLI_FABRIC_PING_H

#include "base/base.h"
#include "task/node.h"
#include <tarn/fabric.h>

enum {
    CLI_PING_VERSION = 1,
    CLI_PING_BYTES_MIN = 8,
    CLI_PING_BYTES_MAX = 65536, /* that are moved at once */
    CLI_PING_DATA = 64, /* where they lie in a client's part of the region; before them a word for CAS */
    CLI_PING_GREETING_BYTES = TARN_FABRIC_PRIVATE_BYTES_MAX,
};

/* The private data of both sides, as cli_ping_save() writes it. */
struct cli_ping_greeting {
    uint32_t version;
    uint32_t bytes;                   /* the client's: of each operation; 0: it connects, and that is all */
    uint64_t offset;                  /* the server's: of the client's part of the region */
    struct tarn_fabric_handle handle; /* the server's: of the region */
};

/** Write a greeting: CLI_PING_GREETING_BYTES. */
void cli_ping_save(const struct cli_ping_greeting *greeting, uint8_t *bytes);

/** Read one. @return 0; -EINVAL: it is none. Of another version only the version is right. */
base_must_check int cli_ping_load(const void *bytes, uint32_t count, struct cli_ping_greeting *ret_greeting);

/* What the command line says of a side. */
struct cli_ping_side {
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    const char *address;
    uint32_t version; /* that this side says it is of */
    uint64_t spin_ns; /* how long its scheduler looks for work before it sleeps */
};

/** Hold back the signals that end it, before there are threads. */
void cli_ping_hold_signals(void);

/** Answer every peer that connects, until a signal asks for the end. @return the exit status */
base_must_check int cli_ping_answer(const struct cli_ping_side *side);

#endif
