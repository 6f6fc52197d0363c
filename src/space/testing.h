/* For the tests of this layer and those above: a space of this process, with a master and some memory servers. */
#ifndef SPACE_TESTING_H
#define SPACE_TESTING_H

#include "fabric/testing.h"
#include "space/space.h"

#define TESTING_SERVERS     3
#define TESTING_CHUNK_BYTES (UINT64_C(64) << 10)
#define TESTING_CHUNKS      16 /* of each server */
#define TESTING_ALL_CHUNKS  ((uint64_t)TESTING_SERVERS * TESTING_CHUNKS)
#define TESTING_LEASE_NS    (4 * BASE_NS_PER_SECOND) /* no test outlasts it by chance, also on a busy machine */

struct space_testing {
    struct testing_fabric *testing;
    char path[64], url[72];               /* of the cluster's file */
    char masters[2][108];                 /* addresses, at which masters are opened in turn */
    char both[220];                       /* both */
    char addresses[TESTING_SERVERS][108]; /* the memory servers' */
    char memory_files[TESTING_SERVERS][80];
    bool have_files;              /* servers that are opened have their memory files */
    struct task_sched *scheds[2]; /* the master's and the servers' */
    bool owns_scheds;
    uint64_t lease_ns;
    unsigned opened;             /* masters that were opened */
    struct space_master *master; /* NULL: it is closed */
    struct space_server *servers[TESTING_SERVERS];
    struct tarn_space *space; /* the test's client */
};

/** Open a master, at another address than the one before. */
void space_testing_open_master(struct space_testing *self);

/** Close it; the cluster's file stays. */
void space_testing_close_master(struct space_testing *self);

/** The options with which a memory server is opened. */
struct space_server_options space_testing_server_options(const struct space_testing *self, unsigned place);

/** Open a memory server. */
void space_testing_open_server(struct space_testing *self, unsigned place);

/** Close a memory server; what it had is lost, unless it has a memory file. */
void space_testing_close_server(struct space_testing *self, unsigned place);

/** Wait until so many servers are there. */
void space_testing_await_servers(const struct space_testing *self, uint64_t count);

/** Wait until the master counts so many chunks as free. */
void space_testing_await_free(const struct space_testing *self, uint64_t count);

/** Connect a client. */
struct tarn_space *space_testing_connect(const struct space_testing *self);

/** Run a test with all of it, and a client. @param lease_ns  0, or less with a slow provider: TESTING_LEASE_NS */
void space_testing_run(struct testing_fabric *testing, uint64_t lease_ns,
                       void (*function)(struct space_testing *self));

/** Make a namespace of a name without a secret, with some chunks reserved. */
struct tarn_space_namespace *space_testing_namespace(struct tarn_space *space, const char *name,
                                                     uint64_t chunks);

/** Delete a namespace, and leave it. */
void space_testing_delete(struct tarn_space_namespace *of);

/** Allocate a region that must be. */
struct tarn_space_region *space_testing_alloc(struct tarn_space_namespace *of, uint64_t bytes,
                                              enum tarn_space_class memory_class);

/** Begin a draft of some chunks, waiting for those of versions that nobody holds any more. */
struct tarn_space_region *space_testing_begin(struct tarn_space_region *region, uint32_t first,
                                              uint32_t chunks);

#endif
