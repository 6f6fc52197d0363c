/*
 * The arithmetic of measurements: medians with their spread, ratios of pairs, and the schedule of an
 * open loop.
 */
#ifndef BENCH_STATISTICS_H
#define BENCH_STATISTICS_H

#include "base/base.h"

/** Most repeats of a measurement. */
#define BENCH_REPEATS_MAX 99

/* Several measurements of one thing. */
struct bench_summary {
    double median;
    double min;
    double max;
};

/**
 * Median (of an even number: the mean of the middle two), smallest and largest.
 *
 * @param values, count  1 to BENCH_REPEATS_MAX; stay as they are
 */
struct bench_summary bench_summarize(const double *values, size_t count);

/**
 * The summary of values[i] / others[i]: measurements taken in turn are compared pair by pair, so that what
 * slows the machine down for a while slows both of a pair.
 *
 * @param others  as many as values; pairs with a zero are left out
 * @return all zero if no pair is left
 */
struct bench_summary bench_summarize_ratios(const double *values, const double *others, size_t count);

/*
 * When the operations of an open loop are to start: at an even pace, whatever became of those before. A
 * latency counts from there, also if the operation could only start later; so a stall shows in every
 * operation that it delayed (no coordinated omission).
 */
struct bench_schedule {
    uint64_t start_ns; /* of the first */
    uint64_t rate;     /* operations a second, at least 1 */
};

/**
 * The intended start of an operation, numbered from 0. Rounded down to nanoseconds, with no drift.
 */
uint64_t bench_schedule_at(const struct bench_schedule *schedule, uint64_t number);

/**
 * How many operations are to have started by a moment.
 */
uint64_t bench_schedule_due(const struct bench_schedule *schedule, uint64_t now_ns);

#endif
