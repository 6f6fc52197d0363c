/* What every provider must do between processes, done by `shm`. */
#include "fabric/process_testing.h"
#include "fabric/shm_testing.h"

int main(void)
{
    const struct testing_suite suites[] = {fabric_processes, {0}};
    return testing_run_suites("tests", suites, NULL, shm_testing_setup, NULL);
}
