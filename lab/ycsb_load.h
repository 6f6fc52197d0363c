/* In an engine's process: threads that do what a job says, and what the process has used for it. */
#ifndef LAB_YCSB_LOAD_H
#define LAB_YCSB_LOAD_H

#include "lab/depot_store.h"
#include "lab/ycsb_host.h"

struct lab_ycsb_load {
    const struct lab_ycsb_engine *engine;
    struct lab_ycsb_place *place;
    bool settled;                 /* nothing of a load is left to be done */
    bool made;                    /* there is a store */
    void *store;                  /* open, or NULL */
    bool sync;                    /* it was opened with */
    uint64_t records;             /* that a load puts in */
    struct base_random_zipf zipf; /* over them */
    struct lab_ycsb_numbers numbers;
    struct lab_depot_store values; /* only those of its functions that make and check values */
};

/**
 * Insert records up to a number of them.
 *
 * @param duration_ns  at most; 0: however long it takes
 * @return 0; negative errno
 */
base_must_check int lab_ycsb_insert_all(struct lab_ycsb_load *load, const struct lab_ycsb_job *job,
                                        uint64_t duration_ns, struct lab_ycsb_report *report);

/** Run a workload for a time, or until there are place->records_max. @return 0; negative errno */
base_must_check int lab_ycsb_run(struct lab_ycsb_load *load, const struct lab_ycsb_job *job,
                                 uint64_t duration_ns, struct lab_ycsb_report *report);

#endif
