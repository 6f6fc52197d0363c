/* What spaces must do on every provider. */
#ifndef SPACE_CONFORMANCE_TESTING_H
#define SPACE_CONFORMANCE_TESTING_H

#include "space/testing.h"

extern const struct testing_suite space_conformance; /* reading, writing, swapping */
extern const struct testing_suite space_lifecycle;   /* what becomes of namespaces, regions and chunks */
extern const struct testing_suite space_sync;        /* barriers and queues */
extern const struct testing_suite
    space_hostile; /* clients that lie, fall silent, reach for others; no memory */
extern const struct testing_suite space_versions; /* copy-on-write regions */
extern const struct testing_suite space_copies;   /* of several copies; servers that are drained */
extern const struct testing_suite space_restart;  /* memory servers that are restarted with their contents */
extern const struct testing_suite space_session;  /* numbers of sessions, and sessions that are over */

/* The suites of a provider's two test programs, which take about as long as each other. */
#define SPACE_CONFORMANCE space_conformance, space_lifecycle, space_sync, space_hostile, space_session
#define SPACE_VERSIONS    space_versions, space_copies, space_restart

#endif
