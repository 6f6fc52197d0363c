/*
 * A seeded generator of random numbers (xoshiro256++), not for secrets. Equal seeds give equal numbers on
 * every machine. One owner, no lock.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include "base/define.h"

struct base_random {
    uint64_t state[4];
};

/** Draws ranks 0 (the most popular) to items - 1 with probability proportional to 1 / (rank + 1)^theta. */
struct base_random_zipf {
    uint64_t items;
    double theta;
    double zeta_items; /* sum of 1 / k^theta for k from 1 to items */
    double alpha;
    double eta;
};

/**
 * Start a generator. Any seed is a good one.
 */
void base_random_init(struct base_random *random, uint64_t seed);

/**
 * Split off a generator whose numbers are independent of what this one gives afterwards.
 */
struct base_random base_random_fork(struct base_random *random);

/**
 * 64 random bits.
 */
uint64_t base_random_u64(struct base_random *random);

/**
 * A number from 0 to n - 1, each equally likely.
 *
 * @param n  at least 1
 */
uint64_t base_random_below(struct base_random *random, uint64_t n);

/**
 * A number from 0 to just below 1, a multiple of 2^-53.
 */
double base_random_double(struct base_random *random);

/**
 * Fill memory with random bytes; the same bytes on every machine.
 */
void base_random_fill(struct base_random *random, void *buffer, size_t bytes);

/**
 * Prepare a Zipf distribution, as YCSB draws it. Takes some milliseconds, whatever the number of items.
 *
 * @param items  at least 1
 * @param theta  0 (uniform) to just below 1; YCSB uses 0.99
 *
 * Source: Gray et al., Quickly Generating Billion-Record Synthetic Databases, SIGMOD 1994.
 */
void base_random_zipf_init(struct base_random_zipf *zipf, uint64_t items, double theta);

/**
 * Draw a rank: 0 is the most likely.
 *
 * @param zipf  only read: may be shared
 */
uint64_t base_random_zipf_rank(const struct base_random_zipf *zipf, struct base_random *random);

/**
 * Draw an item with the popular ones scattered over all, by a hash of the rank (some share, as in YCSB).
 *
 * @param zipf  only read: may be shared
 */
uint64_t base_random_zipf_scattered(const struct base_random_zipf *zipf, struct base_random *random);

#endif
