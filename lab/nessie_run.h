/*
 * A hash store as Nessie measures it: machines of which each has memory and client threads, which ask for records that are
 * there, one after the other, as fast as they can. A world is filled once, and then measured at several points.
 *
 * Threading: plain threads; nothing is shared between calls.
 */
#ifndef LAB_NESSIE_RUN_H
#define LAB_NESSIE_RUN_H

#include "base/base.h"
#include "sim/cards.h"

#define LAB_NESSIE_KEY_BYTES   128 /* Nessie §6 */
#define LAB_NESSIE_VALUE_BYTES 879
#define LAB_NESSIE_POINTS_MAX  16

/* What is the same at all points. */
struct lab_nessie_options {
    const struct sim_card *card;
    uint64_t seed;
    uint32_t machines;
    uint32_t
        workers; /* of each machine, which do what clients ask for: NessieSD; 0: clients do everything: Nessie */
    uint32_t clients; /* of each machine */
    uint32_t ranks, filter_bits;
    uint64_t slots; /* of the index; of NessieSD's of all machines together */
    uint64_t keys;
    double zipf;               /* exponent of the keys' popularity; 0: uniform */
    uint32_t locality_percent; /* of accesses that are to the part of the keys that is their machine's */
    uint64_t cache_permille;   /* of all records, that each client has room for */
    bool owns_bulk;            /* records on the own machine are reached past the card */
    uint64_t turn_ns;          /* how long a thread has a core where threads share some */
};

/* A point. */
struct lab_nessie_point {
    uint32_t get_permille;
    uint32_t cores, others; /* of each machine; others: threads that always have work */
    bool are_reserved;      /* workers have cores of their own */
    uint64_t work_ns;       /* that a client does besides, for each operation */
    uint64_t lead_ns;       /* before it is measured */
    uint64_t run_ns;
};

/* What came out at a point. */
struct lab_nessie_result {
    uint64_t operations, kops;
    uint64_t p50_ns, p99_ns;
    uint64_t posted,
        bytes; /* operations of the fabric that clients posted on data, and what these moved; of Nessie alone */
    uint64_t cached;   /* operations that took a record from the cache */
    uint64_t repeated; /* operations that began again */
};

/** Measure. @param results  of each point @return 0; -ENOMEM; -EIO: a call failed (said to standard error) */
base_must_check int lab_nessie_measure(const struct lab_nessie_options *options,
                                       const struct lab_nessie_point *points, uint32_t count,
                                       struct lab_nessie_result *results);

#endif
