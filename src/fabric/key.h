/* Keys of regions: none is given out twice by a domain, and none can be guessed by those that were told others. */
#ifndef FABRIC_KEY_H
#define FABRIC_KEY_H

#include "base/base.h"

#define FABRIC_KEY_SLOT_BITS 16

/* The keys of a domain. */
struct fabric_keys {
    uint64_t secret;
    uint64_t count; /* keys that were given out, of 2^48 */
};

/** Begin with a secret of the system's. @return 0; -EIO: the system gives no random bytes */
base_must_check int fabric_keys_init(struct fabric_keys *keys);

/**
 * Make a key: 48 bits that look random, and the number of the region's slot.
 *
 * They are a permutation of the count, in four rounds of Feistel's kind, by a hash with the secret. The caller serialises
 * calls.
 */
uint64_t fabric_keys_next(struct fabric_keys *keys, uint32_t slot);

/** The slot that a key names, perhaps one that is not there. */
static inline uint32_t fabric_key_slot(uint64_t key)
{
    return (uint32_t)(key & ((UINT64_C(1) << FABRIC_KEY_SLOT_BITS) - 1));
}

#endif
