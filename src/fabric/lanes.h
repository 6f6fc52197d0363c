/*
 * Copies from and to memory that others change, and look at, at the same time: each aligned word of 8 bytes of it is
 * moved whole, once, in any order. Of nothing but base, so that it can also be built for another processor.
 */
#ifndef FABRIC_LANES_H
#define FABRIC_LANES_H

#include "base/base.h"
#include <string.h>

/* A word of memory of any type. */
typedef uint64_t __attribute__((may_alias)) fabric_word;

#define FABRIC_WORD_BYTES 8

/** Whether it is a lane and nothing else, which is what is copied most. */
static inline bool fabric_is_lane(const void *shared, uint64_t bytes)
{
    return bytes == FABRIC_WORD_BYTES && base_is_aligned((uintptr_t)shared, FABRIC_WORD_BYTES);
}

/** fabric_lanes_load() of more or less than a lane. */
void fabric_lanes_load_many(void *to, const void *shared, uint64_t bytes);

/** fabric_lanes_store() of more or less than a lane. */
void fabric_lanes_store_many(void *shared, const void *from, uint64_t bytes);

/** Copy from shared memory. `shared` as it lies, `to` anywhere. */
static inline void fabric_lanes_load(void *to, const void *shared, uint64_t bytes)
{
    if (!fabric_is_lane(shared, bytes)) {
        fabric_lanes_load_many(to, shared, bytes);
        return;
    }
    const uint64_t word = __atomic_load_n((const fabric_word *)shared, __ATOMIC_RELAXED);
    memcpy(to, &word, sizeof(word));
}

/** Copy into shared memory. */
static inline void fabric_lanes_store(void *shared, const void *from, uint64_t bytes)
{
    uint64_t word;
    if (!fabric_is_lane(shared, bytes)) {
        fabric_lanes_store_many(shared, from, bytes);
        return;
    }
    memcpy(&word, from, sizeof(word));
    __atomic_store_n((fabric_word *)shared, word, __ATOMIC_RELAXED);
}

#endif
