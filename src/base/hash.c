#include "base/hash.h"

#include <xxhash.h>

uint64_t base_hash64(const void *data, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, len, seed);
}

struct base_hash128 base_hash128(const void *data, size_t len, uint64_t seed)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(data, len, seed);
    return (struct base_hash128){.low = hash.low64, .high = hash.high64};
}
