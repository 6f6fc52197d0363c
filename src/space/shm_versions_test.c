/* Copy-on-write regions, copies, and restarted memory servers, over `shm`: beside shm_test.c. */
#include "fabric/shm_testing.h"
#include "space/conformance_testing.h"

int main(void)
{
    const struct testing_suite suites[] = {SPACE_VERSIONS, {0}};
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return testing_run_suites("tests", suites, NULL, shm_testing_setup, NULL);
}
