/* Keys of regions: none is given out twice by a domain, and none can be guessed by those that were told others. */
#include "fabric/key.h"
#include "fabric/fabric.h"
#include <errno.h>
#include <openssl/rand.h>

#define HALF_BITS 24
#define HALF_MASK ((UINT32_C(1) << HALF_BITS) - 1)
#define ROUNDS    4

_Static_assert(TARN_FABRIC_REGIONS_MAX <= 1 << FABRIC_KEY_SLOT_BITS, "a key holds the number of its slot");

int fabric_keys_init(struct fabric_keys *keys)
{
    *keys = (struct fabric_keys){.count = 0};
    return RAND_bytes((unsigned char *)&keys->secret, sizeof(keys->secret)) == 1 ? 0 : -EIO;
}

static uint64_t permute(uint64_t number, uint64_t secret)
{
    uint32_t left = (uint32_t)(number >> HALF_BITS) & HALF_MASK, right = (uint32_t)number & HALF_MASK;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t mixed[] = {round, right};
        const uint32_t next = left ^ ((uint32_t)base_hash64(mixed, sizeof(mixed), secret) & HALF_MASK);
        left = right;
        right = next;
    }
    return (uint64_t)left << HALF_BITS | right;
}

uint64_t fabric_keys_next(struct fabric_keys *keys, uint32_t slot)
{
    uint64_t key = 0;
    while (key == 0) /* once at most in 2^48: 0 is no key */
        key = permute(keys->count++, keys->secret) << FABRIC_KEY_SLOT_BITS | slot;
    return key;
}
