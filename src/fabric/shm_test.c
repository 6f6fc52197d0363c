/* What every provider must do, done by `shm` in one process. */
#include "fabric/conformance_testing.h"
#include "fabric/shm_testing.h"

int main(void)
{
    const struct CMUnitTest tests[] = {CONFORMANCE_UNITS};
    return cmocka_run_group_tests(tests, shm_testing_setup, NULL);
}
