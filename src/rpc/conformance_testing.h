/*
 * What calls must do on every provider: run by the tests of each, in tasks and in plain threads.
 */
#ifndef RPC_CONFORMANCE_TESTING_H
#define RPC_CONFORMANCE_TESTING_H

#include "rpc/calls_testing.h"

/* ---- answers ------------------------------------------------------------------------------------ */

enum { MANY = 40 };

/* ---- both ways ---------------------------------------------------------------------------------- */

/* ---- several connections ------------------------------------------------------------------------ */

/* rpc_conformance: all of it. */
extern const struct testing_suite rpc_conformance;

#endif
