/* What every provider must do with buffers: memory from a domain's pool, for operations. */
#ifndef FABRIC_BUFFERS_TESTING_H
#define FABRIC_BUFFERS_TESTING_H

#include "fabric/testing.h"

/* fabric_buffers: all of it. */
extern const struct testing_suite fabric_buffers;

#endif
