/* Stores of a server, over `shm`. */
#include "fabric/shm_testing.h"
#include "kv/remote_testing.h"

static int begin_depot(void **state)
{
    testing_scheme = "unix:";
    testing_kind = &testing_remote_depot;
    return shm_testing_setup(state);
}

static int begin_cache(void **state)
{
    testing_kind = &testing_remote_cache;
    return shm_testing_setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {KV_CONFORMANCE_UNITS};
    const struct CMUnitTest more[] = {KV_REMOTE_UNITS};
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return cmocka_run_group_tests_name("depot", tests, begin_depot, NULL) +
           cmocka_run_group_tests_name("cache", tests, begin_cache, NULL) +
           cmocka_run_group_tests_name("servers", more, begin_cache, NULL);
}
