/* Stores of a server, over `verbs`: what differs from fabric to fabric. The whole suite takes an emulated machine too long. */
#include "fabric/verbs_testing.h"
#include "kv/hostile_testing.h"

static int begin(void **state)
{
    testing_scheme = "tarn://";
    testing_kind = &testing_remote_depot;
    return verbs_testing_setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TESTING_UNITS(conditions_decide), TESTING_UNITS(long_values_come_back),
                                       TESTING_UNITS(a_url_names_its_fabric),
                                       TESTING_UNITS(nobody_reads_what_is_not_his)};
    if (!verbs_testing_prepare())
        return 77;
    verbs_testing_be_patient();
    cmocka_set_test_filter(getenv("TARN_VERBS_CASE"));
    return cmocka_run_group_tests_name("kv/verbs", tests, begin, NULL);
}
