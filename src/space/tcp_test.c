/* Spaces over `tcp`. */
#include "fabric/tcp_testing.h"
#include "space/conformance_testing.h"

int main(void)
{
    const struct testing_suite suites[] = {space_conformance, space_lifecycle, space_sync,
                                           space_hostile,     space_versions,  space_copies,
                                           space_restart,     space_session,   {0}};
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return testing_run_suites("tests", suites, NULL, tcp_testing_setup, NULL);
}
