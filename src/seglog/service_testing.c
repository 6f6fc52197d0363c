/* For tests that call what else the service calls, from another thread: it is stopped before. */
#include "seglog/service_testing.h"

void testing_service_stop(struct seglog *log)
{
    seglog_service_stop(log);
}
