/* What every provider must do between processes, by `verbs`. */
#include "fabric/process_testing.h"
#include "fabric/verbs_testing.h"

int main(void)
{
    const struct testing_suite suites[] = {fabric_processes, {0}};
    if (!verbs_testing_prepare())
        return 77;
    cmocka_set_test_filter(getenv("TARN_VERBS_CASE"));
    return testing_run_suites("fabric/verbs processes", suites, NULL, verbs_testing_setup, NULL);
}
