/* For tests that call what else the service calls, from another thread: it is stopped before. */
#ifndef SEGLOG_SERVICE_TESTING_H
#define SEGLOG_SERVICE_TESTING_H

#include "seglog/seglog_internal.h"

void testing_service_stop(struct seglog *log);

#endif
