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
    const struct testing_suite suites[] = {kv_conformance, kv_remote, kv_hostile, {0}};
    static const char *const shown[] = {"conditions_decide", "long_values_come_back",
                                        "a_url_names_its_fabric", "nobody_reads_what_is_not_his", NULL};
    if (!verbs_testing_prepare())
        return 77;
    verbs_testing_be_patient();
    cmocka_set_test_filter(getenv("TARN_VERBS_CASE"));
    return testing_run_suites("kv/verbs", suites, shown, begin, NULL);
}
