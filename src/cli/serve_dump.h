/* A dump of a running server: of one moment, into a file that its settings name. */
#ifndef CLI_SERVE_DUMP_H
#define CLI_SERVE_DUMP_H

#include "serve/serve.h"

/**
 * Write all records that a depot has at this moment to PATH.new, durably, which then becomes PATH,
 * serve_dump_path(): what is there is whole whenever somebody looks. The log says how it went. Blocks its caller, and
 * nobody else.
 *
 * @param place  of the depot
 * @param stops  asked now and then: whether to leave it
 */
void cli_serve_dump(const struct serve *serve, uint32_t place, bool (*stops)(void *arg), void *arg);

#endif
