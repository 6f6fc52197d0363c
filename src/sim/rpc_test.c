/* Calls over the simulated network: without troubles, and with all of them. */
#include "rpc/hostile_testing.h"
#include "sim/net/testing.h"

static const struct net_testing none = {.seed = 1};
static const struct net_testing all = {.seed = 2, .troubles = SIM_NET_ALL_TROUBLES};

static int without_troubles(void **state)
{
    return net_testing_setup(state, &none);
}

static int with_all_troubles(void **state)
{
    return net_testing_setup(state, &all);
}

int main(void)
{
    const struct testing_suite suites[] = {rpc_conformance, rpc_hostile, {0}};
    cmocka_set_test_filter(getenv("TARN_CASE"));
    int failed = testing_run_suites("without troubles", suites, NULL, without_troubles, NULL);
    return failed + testing_run_suites("with all troubles", suites, NULL, with_all_troubles, NULL);
}
