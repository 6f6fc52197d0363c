/* Calls over the simulated network: without troubles, and with all of them. */
#include "rpc/hostile_testing.h"
#include "sim/net_testing.h"

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
    const struct CMUnitTest tests[] = {RPC_CONFORMANCE_UNITS, RPC_HOSTILE_UNITS};
    cmocka_set_test_filter(getenv("TARN_CASE"));
    int failed = cmocka_run_group_tests_name("without troubles", tests, without_troubles, NULL);
    return failed + cmocka_run_group_tests_name("with all troubles", tests, with_all_troubles, NULL);
}
