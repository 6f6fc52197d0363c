/* Stores of servers: who lies, is silent or does not come back; and all tests of them, for each fabric. */
#ifndef KV_HOSTILE_TESTING_H
#define KV_HOSTILE_TESTING_H

#include "kv/remote_testing.h"
#include "kv/service.h"

/* ---- servers that are none ---------------------------------------------------------------------- */

/* ---- clients that lie about their memory -------------------------------------------------------- */

enum { REGION_BYTES = 3 << 20 };

/* whose region goes before the second READ */

/* Each breaks its own connection, or is told so; nothing is stored, and others are served as ever. */
void nobody_reads_what_is_not_his(struct testing_fabric *testing);

/* ---- deadlines ---------------------------------------------------------------------------------- */

/* kv_hostile: all of it. */
extern const struct testing_suite kv_hostile;

/* ---- over one fabric ---------------------------------------------------------------------------- */

extern int (*testing_subject)(void **state);

/* the fabric's */

/** All suites of stores of a server. @param scheme  of URLs @param subject  sets the fabric up @return how many failed */
int testing_run_remote(const char *scheme, int (*subject)(void **state));

#endif
