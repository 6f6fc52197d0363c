/* Spaces over `verbs`. */
#include "fabric/verbs_testing.h"
#include "space/conformance_testing.h"

int main(void)
{
    const struct testing_suite suites[] = {SPACE_CONFORMANCE, {0}};
    if (!verbs_testing_prepare())
        return 77;
    verbs_testing_be_patient();
    cmocka_set_test_filter(getenv("TARN_VERBS_CASE"));
    return testing_run_suites("space/verbs", suites, NULL, verbs_testing_setup, NULL);
}
