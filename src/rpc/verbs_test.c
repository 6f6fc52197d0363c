/* Calls over `verbs`. */
#include "fabric/verbs_testing.h"
#include "rpc/hostile_testing.h"

/* Silence is not what is tested here, and an emulated machine is slow where others work on it, too. */
static void be_patient(char *url, size_t room)
{
    const size_t len = strlen(url);
    (void)snprintf(url + len, room - len, ",heartbeat=20s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {RPC_CONFORMANCE_UNITS, RPC_HOSTILE_UNITS};
    if (!verbs_testing_prepare())
        return 77;
    struct verbs_testing *devices = verbs_testing_devices();
    be_patient(devices->server_url, sizeof(devices->server_url));
    be_patient(devices->client_url, sizeof(devices->client_url));
    cmocka_set_test_filter(getenv("TARN_VERBS_CASE"));
    return cmocka_run_group_tests_name("rpc/verbs", tests, verbs_testing_setup, NULL);
}
