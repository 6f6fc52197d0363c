/*
 * Copies from and to memory that others change, and look at, at the same time: each aligned word of 8 bytes of it is
 * moved whole, once, in any order. Of nothing but base, so that it can also be built for another processor.
 */
#ifndef FABRIC_LANES_H
#define FABRIC_LANES_H

#include "base/base.h"

/* A word of memory of any type. */
typedef uint64_t __attribute__((may_alias)) fabric_word;

/** Copy from shared memory. `shared` as it lies, `to` anywhere. */
void fabric_lanes_load(void *to, const void *shared, uint64_t bytes);

/** Copy into shared memory. */
void fabric_lanes_store(void *shared, const void *from, uint64_t bytes);

#endif
