/* What every provider must do between processes, by `verbs`. */
#include "fabric/process_testing.h"
#include "fabric/verbs_testing.h"

int main(void)
{
    const struct CMUnitTest tests[] = {PROCESS_UNITS};
    if (!verbs_testing_prepare())
        return 77;
    cmocka_set_test_filter(getenv("TARN_VERBS_CASE"));
    return cmocka_run_group_tests_name("fabric/verbs processes", tests, verbs_testing_setup, NULL);
}
