/* Stores of a server, over `verbs`. */
#include "fabric/verbs_testing.h"
#include "kv/hostile_testing.h"

int main(void)
{
    if (!verbs_testing_prepare())
        return 77;
    verbs_testing_be_patient();
    return testing_run_remote("tarn://", "TARN_VERBS_CASE", verbs_testing_setup);
}
