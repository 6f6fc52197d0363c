/*
 * Jakiro and ServerReply as RFP measures them, from the code of `rpc` and `cache`: a server with a partition and a worker
 * for each of its threads, machines with client threads that call it one call after the other, in a world of their own
 * with the speed model (README, "The paper's figures").
 *
 * Threading: plain threads; nothing is shared between calls.
 */
#ifndef LAB_RFP_RUN_H
#define LAB_RFP_RUN_H

#include "base/base.h"
#include "sim/cards.h"
#include "sim/sim.h"
#include <stdbool.h>
#include <stdint.h>
#include <tarn/rpc.h>

#define LAB_RFP_KEY_BYTES    16
#define LAB_RFP_MACHINES_MAX 16
#define LAB_RFP_CLIENTS_MAX  256
#define LAB_RFP_WORKERS_MAX  32
#define LAB_RFP_VALUE_MAX    4096
#define LAB_RFP_MIXED_MAX    899 /* bytes of the longest value of the mixed sizes, which are 43 on average */
#define LAB_RFP_ANSWER_MAX   65536
#define LAB_RFP_BINS         64
#define LAB_RFP_IDLE_MAX     1024

/* Instead of gets and puts: answers that take some time and have some length, for a while. */
struct lab_rfp_phase {
    uint64_t for_ns; /* from the end of the one before it on; the last one stays */
    uint64_t server_ns;
    uint32_t result_bytes; /* 0 to LAB_RFP_ANSWER_MAX */
};

/* What is measured. */
struct lab_rfp_options {
    const struct sim_card *card;   /* of every machine */
    const struct sim_costs *costs; /* of every processor */
    uint64_t seed;
    enum tarn_rpc_way way;
    uint32_t workers;     /* server threads: 1 to LAB_RFP_WORKERS_MAX */
    uint32_t machines;    /* with clients: 1 to LAB_RFP_MACHINES_MAX */
    uint32_t clients;     /* of all machines together, shared out evenly: 1 to LAB_RFP_CLIENTS_MAX */
    uint64_t keys;        /* that are stored before: 1 or more */
    uint32_t value_bytes; /* 1 to LAB_RFP_VALUE_MAX; 0: mixed */
    uint32_t get_percent; /* the rest are PUTs, of values as long as they were */
    bool is_skewed;       /* keys by Zipf with 0.99, else all alike */
    uint32_t fetch_bytes; /* of a value, with the first READ, to LAB_RFP_VALUE_MAX; 0: the caller chooses */
    uint64_t run_ns;      /* for how long, of virtual time */
    uint64_t lead_ns;     /* that passes before; 0: a quarter of it */
    /* Instead of the cache: keys, values and fetch_bytes are 0 then, and phases begin with the run. */
    const struct lab_rfp_phase *phases;
    uint32_t phase_count;
    struct sim_share
        share; /* of the server's cores among its workers and others; no cores: each has its own */
    uint32_t
        idle; /* with phases: connections that each client calls once before the run; to LAB_RFP_IDLE_MAX */
};

/* Operations of the fabric, while it was measured. */
struct lab_rfp_operations {
    uint64_t writes;   /* notified ones too */
    uint64_t notified; /* of those */
    uint64_t reads;
    uint64_t sends;
};

/* What came out. */
struct lab_rfp_result {
    uint64_t calls; /* that ended while it was measured */
    uint64_t kops;  /* thousands a second */
    uint64_t gets, hits;
    uint64_t got_bytes;                  /* of the values of hits */
    struct lab_rfp_operations in_bound;  /* that clients posted, and the server's card served */
    struct lab_rfp_operations out_bound; /* that the server posted */
    struct tarn_rpc_call_stats stats;    /* of all clients, from their first call on; fetch_bytes: the most */
    uint64_t sleeps;                     /* of workers */
    uint64_t connections, watched;       /* by workers, at the end */
    struct base_histogram latency;       /* of calls, in ns */
    uint64_t bins[LAB_RFP_BINS];         /* calls that ended in each part of the time that was measured */
    uint64_t hash;                       /* of the world: equal for equal options */
};

/**
 * Measure.
 *
 * @return 0; -EINVAL; -ENOMEM; -EIO: an answer was wrong, or a call failed (said to standard error)
 */
base_must_check int lab_rfp_measure(const struct lab_rfp_options *options, struct lab_rfp_result *ret_result);

#endif
