/*
 * YCSB's core workloads: which operation comes next, and on which record. Records are numbered in the order
 * of their insertion; `lab_depot_key()` scatters their keys. All engines draw the same from the same seed.
 *
 * Source: Cooper et al., Benchmarking Cloud Serving Systems with YCSB, SoCC 2010; its workload files a to f.
 */
#ifndef LAB_YCSB_DRAW_H
#define LAB_YCSB_DRAW_H

#include "base/base.h"
#include <stdatomic.h>

#define LAB_YCSB_THREADS_MAX 64
#define LAB_YCSB_EXPONENT    0.99 /* of Zipf's distribution, as YCSB has it */

enum lab_ycsb_op {
    LAB_YCSB_READ,
    LAB_YCSB_UPDATE, /* all of the record is written */
    LAB_YCSB_INSERT,
    LAB_YCSB_MODIFY, /* a read, then an update of the same record */
    LAB_YCSB_OP_COUNT,
};

struct lab_ycsb_workload {
    const char *name;
    uint8_t percent[LAB_YCSB_OP_COUNT]; /* of each operation: together 100 */
    bool latest;                        /* what was inserted last is the most popular; else any may be */
};

/* All but the load, in the order in which they are run: the one that adds records is the last. */
enum { LAB_YCSB_WORKLOADS = 5 };
extern const struct lab_ycsb_workload lab_ycsb_workloads[LAB_YCSB_WORKLOADS];

/** Draw an operation. */
enum lab_ycsb_op lab_ycsb_draw_op(const struct lab_ycsb_workload *workload, struct base_random *random);

/* Which records there are, while several threads insert. */
struct lab_ycsb_numbers {
    _Atomic uint64_t next;                            /* to insert */
    _Atomic uint64_t inserting[LAB_YCSB_THREADS_MAX]; /* by thread: a bound from below; or UINT64_MAX */
};

/** Records 0 to count - 1 are there. */
void lab_ycsb_numbers_init(struct lab_ycsb_numbers *numbers, uint64_t count);

/** The number of the record that a thread is to insert; lab_ycsb_inserted() must follow. */
uint64_t lab_ycsb_insert(struct lab_ycsb_numbers *numbers, uint32_t thread);

/** It is there. */
void lab_ycsb_inserted(struct lab_ycsb_numbers *numbers, uint32_t thread);

/** Number of records that are present, from number 0 on: none of them is still being inserted. Any thread. */
uint64_t lab_ycsb_present(struct lab_ycsb_numbers *numbers);

/**
 * Draw a record that is there.
 *
 * @param zipf     over the records that were there in the beginning
 * @param present  lab_ycsb_present(): zipf->items or more
 */
uint64_t lab_ycsb_draw_number(const struct lab_ycsb_workload *workload, const struct base_random_zipf *zipf,
                              uint64_t present, struct base_random *random);

#endif
