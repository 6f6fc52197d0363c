/*
 * Suites that every back end passes. The state of their group is a struct cluster_testing, whose functions the test program
 * of the back end has set.
 */
#ifndef CLUSTER_CONFORMANCE_TESTING_H
#define CLUSTER_CONFORMANCE_TESTING_H

#include "cluster/testing.h"

extern const struct testing_suite cluster_conformance; /* one caller */
extern const struct testing_suite cluster_contention;  /* several tasks and threads */

#endif
