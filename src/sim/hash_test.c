/* A hash store over the simulated network and on a simulated drive: without troubles, and with all of them. */
#include "hash/conformance_testing.h"
#include "sim/net/testing.h"

#define DRIVE_BYTES (UINT64_C(16) << 20)

int main(void)
{
    const struct testing_suite suites[] = {hash_conformance, {0}};
    return net_testing_run_both(suites, DRIVE_BYTES);
}
