/* What every provider must do, by `verbs`. */
#include "fabric/conformance_testing.h"
#include "fabric/verbs_testing.h"

int main(void)
{
    const struct testing_suite suites[] = {FABRIC_CONFORMANCE, {0}};
    if (!verbs_testing_prepare())
        return 77;
    cmocka_set_test_filter(getenv("TARN_VERBS_CASE"));
    return testing_run_suites("fabric/verbs", suites, NULL, verbs_testing_setup, NULL);
}
