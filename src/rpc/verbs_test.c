/* Calls over `verbs`. */
#include "fabric/verbs_testing.h"
#include "rpc/hostile_testing.h"

int main(void)
{
    const struct CMUnitTest tests[] = {RPC_CONFORMANCE_UNITS, RPC_HOSTILE_UNITS};
    if (!verbs_testing_prepare())
        return 77;
    verbs_testing_be_patient();
    cmocka_set_test_filter(getenv("TARN_VERBS_CASE"));
    return cmocka_run_group_tests_name("rpc/verbs", tests, verbs_testing_setup, NULL);
}
