/* Servers in this process, and their stores for the suite of all stores. */
#ifndef KV_SERVING_TESTING_H
#define KV_SERVING_TESTING_H

#include "fabric/fabric.h"
#include "kv/conformance_testing.h"
#include "kv/remote.h"

/* A server in this process, on the schedulers that are not the client's, or on threads of its own. */
struct testing_server {
    struct testing_fabric *testing;
    struct kv_server *server;
    struct tarn_kv *depot, *cache;
    uint64_t memory_bytes; /* of its connections; 0: the default */
    char path[64];
    char address[108]; /* "": the test's */
};

extern struct testing_server testing_server;

/* of the suite */
extern const char *testing_scheme;

/* "tarn://" or "unix:" */

void testing_listen(struct testing_server *self, const struct kv_served *stores, uint32_t count);

/** Make a depot and a cache, and serve them. @param self  its address counts */
void testing_serve_there(struct testing_fabric *testing, struct testing_server *self);

void testing_serve_both(struct testing_fabric *testing, struct testing_server *self);

void testing_serve_no_more(struct testing_server *self);

/** Open a store of servers. @param addresses  with commas between @return as tarn_kv_open() */
int testing_reach_at(struct testing_fabric *testing, const char *addresses, const char *name,
                     uint64_t timeout_ns, struct tarn_kv **ret_kv);

/** Open a store of the server. @return as tarn_kv_open() */
int testing_reach(struct testing_fabric *testing, const char *name, uint64_t timeout_ns,
                  struct tarn_kv **ret_kv);

/* ---- the suite ---------------------------------------------------------------------------------- */

extern const struct testing_kind testing_remote_depot;

extern const struct testing_kind testing_remote_cache;

#endif
