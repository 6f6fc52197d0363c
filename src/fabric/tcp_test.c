/* What every provider must do, done by `tcp` in one process. */
#include "fabric/conformance_testing.h"
#include "fabric/tcp_testing.h"

int main(void)
{
    const struct CMUnitTest tests[] = {CONFORMANCE_UNITS};
    return cmocka_run_group_tests(tests, tcp_testing_setup, NULL);
}
