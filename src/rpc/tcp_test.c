/* Calls over `tcp`. */
#include "fabric/tcp_testing.h"
#include "rpc/hostile_testing.h"

int main(void)
{
    const struct CMUnitTest tests[] = {RPC_CONFORMANCE_UNITS, RPC_HOSTILE_UNITS};
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return cmocka_run_group_tests(tests, tcp_testing_setup, NULL);
}
