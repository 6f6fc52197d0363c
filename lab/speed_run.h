/*
 * What the speed model of the simulated network comes to: machines in a world of their own, one of them the server,
 * that do nothing but READ and WRITE.
 *
 * Threading: plain threads; nothing is shared between calls.
 */
#ifndef LAB_SPEED_RUN_H
#define LAB_SPEED_RUN_H

#include "base/base.h"
#include "sim/cards.h"
#include <stdbool.h>
#include <stdint.h>

#define LAB_SPEED_DEPTH_MAX    256
#define LAB_SPEED_MACHINES_MAX 64

/* What is measured. */
struct lab_speed_options {
    const struct sim_card *card; /* of every machine */
    uint64_t seed;
    bool
        out_bound; /* the server issues, to a client drawn each time; else each client issues to the server */
    bool writes;   /* WRITE, else READ */
    uint32_t clients;     /* machines besides the server: 1 to LAB_SPEED_MACHINES_MAX - 1 */
    uint32_t threads;     /* of each machine that issues: 1 or more */
    uint32_t depth;       /* operations that each keeps under way: 1 to LAB_SPEED_DEPTH_MAX */
    uint64_t bytes;       /* of each operation: 1 or more */
    uint64_t run_ns;      /* for how long, of virtual time */
    uint64_t post_ns;     /* of processor time that each operation is charged */
    uint64_t first_bytes; /* not 0: bytes of the one operation that the first thread keeps under way */
};

/* What came out. */
struct lab_speed_result {
    uint64_t operations; /* that have completed */
    uint64_t kops;       /* thousands a second, of all threads */
    uint64_t mbps;       /* of payload */
    uint64_t latency_ns; /* from posting to completion, on average */
    uint64_t first_kops; /* of the first thread alone */
    uint64_t first_latency_ns;
    uint64_t least; /* operations of the thread that had the fewest, and of that with the most */
    uint64_t most;
    uint64_t hash; /* of the world: equal for equal options */
};

/** Measure. @return 0; -EINVAL; -ENOMEM */
base_must_check int lab_speed_measure(const struct lab_speed_options *options,
                                      struct lab_speed_result *ret_result);

#endif
