/* For the tests of the simulated network: it as a subject of the conformance suite. */
#ifndef SIM_NET_TESTING_H
#define SIM_NET_TESTING_H

#include "fabric/testing.h"
#include "sim/cards.h"
#include "sim/net/net.h"
#include "sim/testing.h"

/* What a subject's `arg` is. */
struct net_testing {
    uint64_t seed;
    uint32_t troubles;
    const char *card;     /* of all nodes; NULL: none */
    bool refuses_whole;   /* READs of whole words */
    uint64_t drive_bytes; /* of a drive on which tests may make a store; 0: there is none */
    uint64_t slower;      /* as many times as it would, a gigabyte takes to be made or registered; 0: once */
    bool pages_in_turn;   /* as of sim_net_options() */
    uint64_t blank_bytes; /* likewise */
};

/* of the test that is running */

/** Set a group of tests up. @param options  static */
int net_testing_setup(void **state, const struct net_testing *options);

/** Run suites without troubles, and with all of them; the environment's TARN_CASE chooses cases. @param drive_bytes  as above @return the
 * number of failed tests */
int net_testing_run_both(const struct testing_suite *suites, uint64_t drive_bytes);

#endif
