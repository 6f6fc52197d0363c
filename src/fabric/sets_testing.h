/* What every provider must do with sets of operations. */
#ifndef FABRIC_SETS_TESTING_H
#define FABRIC_SETS_TESTING_H

#include "fabric/testing.h"

/* fabric_sets: all of it. */
extern const struct testing_suite fabric_sets;

#endif
