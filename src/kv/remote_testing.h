/* Stores of servers: what only they can meet. Servers that go and come, and change; threads and tasks that share. */
#ifndef KV_REMOTE_TESTING_H
#define KV_REMOTE_TESTING_H

#include "kv/serving_testing.h"

/* ---- servers that go and come ------------------------------------------------------------------- */

/* A URL may say by which fabric, if nobody else does. */
void a_url_names_its_fabric(struct testing_fabric *testing);

/* kv_remote: all of it. */
extern const struct testing_suite kv_remote;

#endif
