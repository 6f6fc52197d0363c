/* What every provider must do with memory: READ, WRITE, what is refused, order, regions, counters. */
#ifndef FABRIC_OPERATIONS_TESTING_H
#define FABRIC_OPERATIONS_TESTING_H

#include "fabric/testing.h"

/* ---- READ and WRITE ----------------------------------------------------------------------------- */

void bytes_arrive_at_all_offsets_and_lengths(struct testing_fabric *testing);

void a_whole_region_moves(struct testing_fabric *testing);

void vectors_are_gathered_and_scattered(struct testing_fabric *testing);

void both_sides_reach_the_other(struct testing_fabric *testing);

/* ---- what is refused ---------------------------------------------------------------------------- */

void rights_are_kept(struct testing_fabric *testing);

/* ---- order -------------------------------------------------------------------------------------- */

/* One of two who write a word of their own and then read the other's. */
struct litmus {
    struct testing_pair *pair;
    unsigned side;
    unsigned rounds;
    unsigned looks;       /* between which others may run */
    _Atomic unsigned *at; /* which round each has come to */
    uint64_t *seen;
};

/* ---- regions, words, counters ------------------------------------------------------------------- */

/* fabric_operations: all of it. */
extern const struct testing_suite fabric_operations;

#endif
