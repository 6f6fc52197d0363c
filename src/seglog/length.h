/*
 * length: classes of lengths in grains. An index has ten bits for the length of a record, so it knows a class
 * alone; what lives is counted by classes, too, so that both agree.
 */
#ifndef SEGLOG_LENGTH_H
#define SEGLOG_LENGTH_H

#include <stdint.h>

#define SEGLOG_LENGTH_BITS  10
#define SEGLOG_LENGTH_EXACT 64 /* classes below it are lengths */
#define SEGLOG_LENGTH_STEPS 5  /* as bits: 32 classes for each doubling above */

/**
 * Length class of a record: log-linear, exact to 63 grains, then rounded up by at most a 32nd, monotonic.
 *
 * @param grains  1..the largest length that SEGLOG_LENGTH_BITS can say (2^31 or more)
 */
static inline uint32_t seglog_length_class(uint64_t grains)
{
    if (grains < SEGLOG_LENGTH_EXACT)
        return (uint32_t)grains;
    uint32_t shift = 63 - (uint32_t)__builtin_clzll(grains) - SEGLOG_LENGTH_STEPS;
    uint64_t rest = grains & ((UINT64_C(1) << shift) - 1);
    uint64_t steps = (grains >> shift) + (rest != 0); /* 32 to 64 */
    return SEGLOG_LENGTH_EXACT + ((shift - 1) << SEGLOG_LENGTH_STEPS) + (uint32_t)steps -
           (1U << SEGLOG_LENGTH_STEPS);
}

/** The largest number of grains of a length class. */
static inline uint64_t seglog_length_of_class(uint32_t length_class)
{
    if (length_class < SEGLOG_LENGTH_EXACT)
        return length_class;
    uint32_t shift = ((length_class - SEGLOG_LENGTH_EXACT) >> SEGLOG_LENGTH_STEPS) + 1;
    uint64_t steps = (1U << SEGLOG_LENGTH_STEPS) + (length_class & ((1U << SEGLOG_LENGTH_STEPS) - 1));
    return shift > 64 - SEGLOG_LENGTH_STEPS - 1 ? UINT64_MAX : steps << shift;
}

/** A length as its class has it. */
static inline uint64_t seglog_length_rounded(uint64_t grains)
{
    return seglog_length_of_class(seglog_length_class(grains));
}

#endif
