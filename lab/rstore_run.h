/*
 * A space as RStore measures it, from the code of `space`: a master, machines with memory servers, and machines with clients,
 * in a world of their own with the speed model and with memory that has addresses and no bytes. Each client reserves,
 * allocates and maps a region in a namespace of its own, and then either repeats that or reads.
 *
 * Threading: plain threads; nothing is shared between calls.
 */
#ifndef LAB_RSTORE_RUN_H
#define LAB_RSTORE_RUN_H

#include "base/base.h"
#include "sim/cards.h"
#include <stdint.h>

#define LAB_RSTORE_MACHINES_MAX 16
#define LAB_RSTORE_SERVERS_MAX  128
#define LAB_RSTORE_CLIENTS_MAX  64

/* What all clients do at the same time, one thing after the other. */
enum lab_rstore_phase {
    LAB_RSTORE_RESERVE,
    LAB_RSTORE_ALLOC,
    LAB_RSTORE_MAP,
    LAB_RSTORE_READ,          /* where there are reads; else these: */
    LAB_RSTORE_MAP_AGAIN,     /* what was unmapped */
    LAB_RSTORE_ALLOC_AGAIN,   /* what was freed */
    LAB_RSTORE_RESERVE_AGAIN, /* what was released, and zeroed by its servers since then */
    LAB_RSTORE_PHASES,
};

/* What is measured. */
struct lab_rstore_options {
    const struct sim_card *server_card; /* of every memory server */
    const struct sim_card *client_card; /* of every machine with clients */
    const struct sim_pages *pages;      /* of every machine; NULL: they cost nothing */
    uint64_t seed;
    uint32_t machines;    /* with memory servers, and as many with clients: 1 to LAB_RSTORE_MACHINES_MAX */
    uint32_t servers;     /* on all machines in turn: 1 to LAB_RSTORE_SERVERS_MAX */
    uint32_t clients;     /* likewise: 1 to LAB_RSTORE_CLIENTS_MAX */
    uint64_t chunk_bytes; /* a power of two; 1 MiB or more */
    uint32_t chunks;      /* of each client's region: 1 or more */
    uint32_t reads;       /* that each client makes, one after the other; 0: none */
    uint64_t read_bytes;  /* 1 to the region's, each at an offset that is drawn and a multiple of this */
};

/* What a phase took. */
struct lab_rstore_span {
    uint64_t ns;    /* from its beginning, which is the same for all clients, to the end of the last one */
    uint64_t reads; /* READs of memory servers that clients posted */
    uint64_t calls; /* operations of the fabric that they posted for calls of the master, the leases' too */
};

/* What came out. */
struct lab_rstore_result {
    uint64_t made_ns; /* from when memory servers were opened until the master had all of them */
    struct lab_rstore_span spans[LAB_RSTORE_PHASES];
    uint64_t connections; /* of clients with memory servers */
    uint64_t read_ns;     /* a read, on average */
    uint64_t mbps;        /* of what all clients read */
    uint64_t hash;        /* of the world: equal for equal options */
};

/** Measure. @return 0; -EINVAL; -ENOMEM; -EIO: a call failed (said to standard error) */
base_must_check int lab_rstore_measure(const struct lab_rstore_options *options,
                                       struct lab_rstore_result *ret_result);

#endif
