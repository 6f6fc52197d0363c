/*
 * Campaigns: what is tried over many seeds, and the runner behind `tarn sim`.
 *
 * A campaign drives a world (nodes, drives, clients, faults, restarts), draws everything from
 * sim_world_random(), and calls sim_fail() for what must not be. It may leave nodes open when it
 * fails. README.md shows how to write one.
 */
#ifndef SIM_CAMPAIGN_H
#define SIM_CAMPAIGN_H

#include "sim/sim.h"

struct sim_campaign {
    const char *name;
    const char *help;             /* one line */
    const char *const *mutations; /* promises that it can break, to be caught; ends with NULL */

    /** Run in a fresh world. @param mutation  one of the above, or NULL */
    void (*run)(struct sim_world *world, const char *mutation);
};

/** All campaigns; ends with NULL. */
extern const struct sim_campaign *const sim_campaigns[];

struct sim_run_options {
    const struct sim_campaign *const *campaigns; /* to choose from; NULL: sim_campaigns */
    const char *campaign;
    uint64_t seed;        /* the first */
    uint64_t count;       /* of seeds */
    const char *mutation; /* NULL: none */
    unsigned jobs;        /* seeds run at once; 0: 1 */
    bool no_fork;         /* in this process, for a debugger: the first crash is the end */
    FILE *trace;          /* text of every decision, with no_fork; NULL: none */
    FILE *out;            /* that all is well, and figures */
    FILE *errors;         /* what is not */
    FILE *progress;       /* a terminal to draw on; NULL: none */
    const char *program;  /* how to call the command, for the advice on replaying */
    uint64_t
        hang_ns; /* processor time after which a seed hangs, or twenty times as much real time; 0: 20 s */
};

/**
 * Run seeds of a campaign, in child processes, so that crashes, asserts and hangs are failures like
 * others; say which seed failed first and how to replay it. The first seed of each child is run twice,
 * and must give the same trace.
 *
 * @return 0 (all passed); 1 (a seed failed); -EINVAL (no such campaign or mutation; said on `out`);
 *         an error of fork() or pipe(). Plain threads only: blocks.
 */
base_must_check int sim_run(const struct sim_run_options *options);

/**
 * Run one seed in this process.
 *
 * @param trace     NULL: none
 * @param ret_hash  hash of its trace; may be NULL
 * @param ret_text  what failed; set only if it did
 * @return 0; 1 (failed)
 */
base_must_check int sim_run_seed(const struct sim_campaign *campaign, uint64_t seed, const char *mutation,
                                 FILE *trace, uint64_t *ret_hash, char *ret_text, size_t room);

#endif
