/* Spaces over `tcp`. */
#include "fabric/tcp_testing.h"
#include "space/conformance_testing.h"

int main(void)
{
    const struct testing_suite suites[] = {SPACE_CONFORMANCE, {0}};
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return testing_run_suites("tests", suites, NULL, tcp_testing_setup, NULL);
}
