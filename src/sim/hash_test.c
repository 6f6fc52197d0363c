/* A hash store over the simulated network and on a simulated drive: without troubles, and with all of them. */
#include "hash/conformance_testing.h"
#include "sim/net/testing.h"

#define DRIVE_BYTES (UINT64_C(16) << 20)

static const struct net_testing none = {.seed = 1, .drive_bytes = DRIVE_BYTES};
static const struct net_testing all = {
    .seed = 2, .troubles = SIM_NET_ALL_TROUBLES, .drive_bytes = DRIVE_BYTES};

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
    const struct testing_suite suites[] = {hash_conformance, {0}};
    cmocka_set_test_filter(getenv("TARN_CASE"));
    int failed = testing_run_suites("without troubles", suites, NULL, without_troubles, NULL);
    return failed + testing_run_suites("with all troubles", suites, NULL, with_all_troubles, NULL);
}
