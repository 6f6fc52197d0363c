/*
 * Clients and servers that keep to no protocol hurt themselves alone: on every provider.
 */
#ifndef RPC_HOSTILE_TESTING_H
#define RPC_HOSTILE_TESTING_H

#include "base/random.h"
#include "rpc/conformance_testing.h"

/* ---- servers ------------------------------------------------------------------------------------ */

/* rpc_hostile: all of it. */
extern const struct testing_suite rpc_hostile;

#endif
