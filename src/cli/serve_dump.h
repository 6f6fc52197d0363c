/* A dump of a running server: of one moment, into a file that its settings name. */
#ifndef CLI_SERVE_DUMP_H
#define CLI_SERVE_DUMP_H

#include "serve/serve.h"

/**
 * Write all records of this moment to PATH.new, durably, which then becomes PATH: what is there is whole
 * whenever somebody looks. The log says how it went. Blocks its caller, and nobody else.
 *
 * @param stops  asked now and then: whether to leave it
 */
void cli_serve_dump(const struct serve *serve, const char *path, bool (*stops)(void *arg), void *arg);

#endif
