/*
 * A counter that all processors count up without taking its memory from each other: each has a place of its own, as
 * long as there are not more of them than places.
 */
#ifndef BASE_COUNTER_H
#define BASE_COUNTER_H

#include "base/define.h"

#include <sched.h>
#include <stdatomic.h>

#define BASE_COUNTER_PLACES 8

/** All zero is zero. */
struct base_counter {
    struct {
        uint64_t before[8]; /* nothing else is in the cache line of `count`, wherever this lies */
        _Atomic uint64_t count;
        uint64_t behind[7];
    } places[BASE_COUNTER_PLACES];
};

/**
 * Count up. Any thread.
 */
static inline void base_counter_add(struct base_counter *counter, uint64_t count)
{
    unsigned place = (unsigned)sched_getcpu() % BASE_COUNTER_PLACES;
    atomic_fetch_add_explicit(&counter->places[place].count, count, memory_order_relaxed);
}

/**
 * All that was counted, but for what is counted meanwhile. Any thread.
 */
static inline uint64_t base_counter_sum(const struct base_counter *counter)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < BASE_COUNTER_PLACES; i++)
        sum += atomic_load_explicit(&counter->places[i].count, memory_order_relaxed);
    return sum;
}

#endif
