/* The memory of many machines over the simulated network and on a simulated drive: without troubles, and with all of them. */
#include "sim/net/testing.h"
#include "space/conformance_testing.h"

#define DRIVE_BYTES (UINT64_C(16) << 20)

int main(void)
{
    const struct testing_suite suites[] = {SPACE_CONFORMANCE, SPACE_VERSIONS, {0}};
    return net_testing_run_both(suites, DRIVE_BYTES);
}
