/* What every provider must do, done by `shm` in one process. */
#include "fabric/conformance_testing.h"
#include "fabric/shm_testing.h"

int main(void)
{
    const struct testing_suite suites[] = {FABRIC_CONFORMANCE, {0}};
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return testing_run_suites("tests", suites, NULL, shm_testing_setup, NULL);
}
