/* What hash stores must do on every provider. */
#ifndef HASH_CONFORMANCE_TESTING_H
#define HASH_CONFORMANCE_TESTING_H

#include "space/testing.h"

extern const struct testing_suite hash_conformance;

#endif
