/* Calls over the simulated network: without troubles, and with all of them. */
#include "rpc/hostile_testing.h"
#include "sim/net/testing.h"

int main(void)
{
    const struct testing_suite suites[] = {rpc_conformance, rpc_hostile, {0}};
    return net_testing_run_both(suites, 0);
}
