/*
 * What every provider must do: written against fabric.h alone, run by each provider's test. Here what two sides
 * in one process can show; process_testing.h has the rest.
 */
#ifndef FABRIC_CONFORMANCE_TESTING_H
#define FABRIC_CONFORMANCE_TESTING_H

#include "fabric/buffers_testing.h"
#include "fabric/calls_testing.h"
#include "fabric/connections_testing.h"
#include "fabric/operations_testing.h"
#include "fabric/sets_testing.h"
#include "fabric/words_testing.h"

/* What a provider's test runs: suites for testing_run_suites(). */
#define FABRIC_CONFORMANCE                                                                                   \
    fabric_operations, fabric_words, fabric_connections, fabric_sets, fabric_calls, fabric_buffers

#endif
