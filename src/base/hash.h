/* Seeded hashes: XXH3 by libxxhash. The same on every machine, so they may be stored. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct base_hash128 {
    uint64_t low;
    uint64_t high;
};

/**
 * 64-bit XXH3 of some bytes.
 *
 * @param data, len  may be NULL if len is 0
 * @param seed       a secret where strangers choose the bytes
 *
 * Any thread.
 */
uint64_t base_hash64(const void *data, size_t len, uint64_t seed);

/**
 * base_hash64() of bytes that are copied on the way: what is long is fetched from memory once, not twice.
 *
 * @param to  where they go, one part behind the other: at least `len` bytes in all, not those of `data`
 *
 * Any thread.
 */
uint64_t base_hash64_copy(const struct iovec *to, const void *data, size_t len, uint64_t seed);

/**
 * 128-bit XXH3 of some bytes; its low half is not the 64-bit hash.
 *
 * @param data, len  may be NULL if len is 0
 * @param seed       a secret where strangers choose the bytes
 *
 * Any thread.
 */
struct base_hash128 base_hash128(const void *data, size_t len, uint64_t seed);

#endif
