/*
 * YCSB's core workloads: which operation comes next, and on which record. Records are numbered in the order
 * of their insertion; `bench_depot_key()` scatters their keys. All engines draw the same from the same seed.
 *
 * Source: Cooper et al., Benchmarking Cloud Serving Systems with YCSB, SoCC 2010; its workload files a to f.
 */
#ifndef BENCH_YCSB_DRAW_H
#define BENCH_YCSB_DRAW_H

#include "base/base.h"
#include <stdatomic.h>

#define BENCH_YCSB_THREADS_MAX 64
#define BENCH_YCSB_EXPONENT    0.99 /* of Zipf's distribution, as YCSB has it */

enum bench_ycsb_op {
    BENCH_YCSB_READ,
    BENCH_YCSB_UPDATE, /* all of the record is written */
    BENCH_YCSB_INSERT,
    BENCH_YCSB_MODIFY, /* a read, then an update of the same record */
    BENCH_YCSB_OP_COUNT,
};

struct bench_ycsb_workload {
    const char *name;
    uint8_t percent[BENCH_YCSB_OP_COUNT]; /* of each operation: together 100 */
    bool latest;                          /* what was inserted last is the most popular; else any may be */
};

/* All but the load, in the order in which they are run: the one that adds records is the last. */
enum { BENCH_YCSB_WORKLOADS = 5 };
extern const struct bench_ycsb_workload bench_ycsb_workloads[BENCH_YCSB_WORKLOADS];

/** Draw an operation. */
enum bench_ycsb_op bench_ycsb_draw_op(const struct bench_ycsb_workload *workload, struct base_random *random);

/* Which records there are, while several threads insert. */
struct bench_ycsb_numbers {
    _Atomic uint64_t next;                              /* to insert */
    _Atomic uint64_t inserting[BENCH_YCSB_THREADS_MAX]; /* by thread: a bound from below; or UINT64_MAX */
};

/** Records 0 to count - 1 are there. */
void bench_ycsb_numbers_init(struct bench_ycsb_numbers *numbers, uint64_t count);

/** The number of the record that a thread is to insert; bench_ycsb_inserted() must follow. */
uint64_t bench_ycsb_insert(struct bench_ycsb_numbers *numbers, uint32_t thread);

/** It is there. */
void bench_ycsb_inserted(struct bench_ycsb_numbers *numbers, uint32_t thread);

/** So many are there, from number 0 on: none of them is still being inserted. Any thread. */
uint64_t bench_ycsb_present(struct bench_ycsb_numbers *numbers);

/**
 * Draw a record that is there.
 *
 * @param zipf     over the records that were there in the beginning
 * @param present  bench_ycsb_present(): zipf->items or more
 */
uint64_t bench_ycsb_draw_number(const struct bench_ycsb_workload *workload,
                                const struct base_random_zipf *zipf, uint64_t present,
                                struct base_random *random);

#endif
