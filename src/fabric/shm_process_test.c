/* What every provider must do between processes, done by `shm`. */
#include "fabric/process_testing.h"
#include "fabric/shm_testing.h"

int main(void)
{
    const struct CMUnitTest tests[] = {PROCESS_UNITS};
    return cmocka_run_group_tests(tests, shm_testing_setup, NULL);
}
