/* XXH3 of 64 and 128 bits, by libxxhash. */
#include "base/hash.h"

#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* XXH3_state_t on the stack */
#include <xxhash.h>

#include "base/define.h"

/* What is copied and then hashed at once: it is still in the nearest cache. */
#define PIECE_BYTES ((size_t)4096)

uint64_t base_hash64(const void *data, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, len, seed);
}

/* Copy to some place in the parts. @return the part in which the next goes, *at bytes behind its beginning */
static const struct iovec *copy_to(const struct iovec *to, size_t *at, const uint8_t *data, size_t len)
{
    for (size_t done = 0; done < len;) {
        size_t piece = base_min(len - done, to->iov_len - *at);
        if (piece > 0)
            memcpy((uint8_t *)to->iov_base + *at, data + done, piece);
        done += piece;
        *at += piece;
        if (*at == to->iov_len && done < len) {
            to++;
            *at = 0;
        }
    }
    return to;
}

uint64_t base_hash64_copy(const struct iovec *to, const void *data, size_t len, uint64_t seed)
{
    const uint8_t *bytes = data;
    size_t at = 0;
    if (len <= PIECE_BYTES) {
        (void)copy_to(to, &at, bytes, len);
        return base_hash64(data, len, seed);
    }
    XXH3_state_t state;
    base_assert(XXH3_64bits_reset_withSeed(&state, seed) == XXH_OK);
    for (size_t done = 0; done < len;) {
        size_t piece = base_min(len - done, PIECE_BYTES);
        to = copy_to(to, &at, bytes + done, piece);
        base_assert(XXH3_64bits_update(&state, bytes + done, piece) == XXH_OK);
        done += piece;
    }
    return XXH3_64bits_digest(&state);
}

struct base_hash128 base_hash128(const void *data, size_t len, uint64_t seed)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(data, len, seed);
    return (struct base_hash128){.low = hash.low64, .high = hash.high64};
}
