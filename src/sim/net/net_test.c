/* What every provider must do, done by the simulated network: without troubles, with all of them, and with cards. */
#include "fabric/conformance_testing.h"
#include "sim/net/testing.h"

static const struct net_testing none = {.seed = 1};
static const struct net_testing card = {
    .seed = 3, .troubles = SIM_NET_ALL_TROUBLES, .card = "connectx3-40g", .refuses_whole = true};
static const struct net_testing all = {.seed = 2, .troubles = SIM_NET_ALL_TROUBLES};

static int without_troubles(void **state)
{
    return net_testing_setup(state, &none);
}

static int with_all_troubles(void **state)
{
    return net_testing_setup(state, &all);
}

static int with_a_card(void **state)
{
    return net_testing_setup(state, &card);
}

int main(void)
{
    const struct testing_suite suites[] = {FABRIC_CONFORMANCE, {0}};
    int failed = testing_run_suites("without troubles", suites, NULL, without_troubles, NULL);
    failed += testing_run_suites("with all troubles", suites, NULL, with_all_troubles, NULL);
    return failed + testing_run_suites("with a card", suites, NULL, with_a_card, NULL);
}
