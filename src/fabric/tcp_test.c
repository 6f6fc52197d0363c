/* What every provider must do, done by `tcp` in one process. */
#include "fabric/conformance_testing.h"
#include "fabric/tcp_testing.h"

int main(void)
{
    const struct testing_suite suites[] = {FABRIC_CONFORMANCE, {0}};
    return testing_run_suites("tests", suites, NULL, tcp_testing_setup, NULL);
}
