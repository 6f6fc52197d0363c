/* What stores of this process do for front ends. */
#ifndef KV_FRONT_TESTING_H
#define KV_FRONT_TESTING_H

#include "kv/conformance_testing.h"

/* kv_front: all of it. */
extern const struct testing_suite kv_front;

#endif
