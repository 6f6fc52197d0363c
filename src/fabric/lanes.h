/*
 * Copies from and to memory that other threads read and write at the same time. A lane is an aligned word of 8 bytes:
 * each is moved whole, once, in any order. This uses nothing but base, so that it can be built for another processor.
 */
#ifndef FABRIC_LANES_H
#define FABRIC_LANES_H

#include "base/base.h"
#include <string.h>

/* A word of memory of any type. */
typedef uint64_t __attribute__((may_alias)) fabric_word;

#define FABRIC_WORD_BYTES 8

#define FABRIC_FEW_BYTES 128

/** Load a lane. */
static inline uint64_t fabric_lane_load(const void *shared)
{
    return __atomic_load_n((const fabric_word *)shared, __ATOMIC_RELAXED);
}

/** Store a lane. */
static inline void fabric_lane_store(void *shared, const void *from)
{
    uint64_t word;
    memcpy(&word, from, sizeof(word));
    __atomic_store_n((fabric_word *)shared, word, __ATOMIC_RELAXED);
}

/** Whether a range is exactly one lane. */
static inline bool fabric_is_lane(const void *shared, uint64_t bytes)
{
    return bytes == FABRIC_WORD_BYTES && base_is_aligned((uintptr_t)shared, FABRIC_WORD_BYTES);
}

/** Whether a range consists of whole lanes, and of few. */
static inline bool fabric_are_few_lanes(const void *shared, uint64_t bytes)
{
    return bytes <= FABRIC_FEW_BYTES && base_is_aligned((uintptr_t)shared | bytes, FABRIC_WORD_BYTES);
}

/** fabric_lanes_load() of more than one lane. */
void fabric_lanes_load_many(void *to, const void *shared, uint64_t bytes);

/** fabric_lanes_store() of more than one lane. */
void fabric_lanes_store_many(void *shared, const void *from, uint64_t bytes);

/** Copy from shared memory; `shared` and `to` may have any alignment. Most copies are of one lane or a few. */
static inline void fabric_lanes_load(void *to, const void *shared, uint64_t bytes)
{
    if (fabric_is_lane(shared, bytes)) {
        const uint64_t word = fabric_lane_load(shared);
        memcpy(to, &word, sizeof(word));
        return;
    }
    if (!fabric_are_few_lanes(shared, bytes)) {
        fabric_lanes_load_many(to, shared, bytes);
        return;
    }
    for (uint64_t at = 0; at < bytes; at += FABRIC_WORD_BYTES) {
        const uint64_t word = fabric_lane_load((const uint8_t *)shared + at);
        memcpy((uint8_t *)to + at, &word, sizeof(word));
    }
}

/** Copy into shared memory, from its end to its beginning: so a reader that polls the first word finds the rest there, and
 * does not take cache lines from the writer meanwhile. */
static inline void fabric_lanes_store(void *shared, const void *from, uint64_t bytes)
{
    if (fabric_is_lane(shared, bytes)) {
        fabric_lane_store(shared, from);
        return;
    }
    if (!fabric_are_few_lanes(shared, bytes)) {
        fabric_lanes_store_many(shared, from, bytes);
        return;
    }
    for (uint64_t at = bytes; at > 0;) {
        at -= FABRIC_WORD_BYTES;
        fabric_lane_store((uint8_t *)shared + at, (const uint8_t *)from + at);
    }
}

#endif
