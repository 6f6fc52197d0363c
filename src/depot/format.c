/* The depot's part of the superblock. */
#include "depot/depot_format.h"

#include <errno.h>

#define OFFSET_BITS 5
#define HIT_BITS    1

static uint64_t grains_of(const struct seglog_superblock_format *superblock)
{
    return superblock->store_bytes / superblock->grain_bytes;
}

int depot_owner_fill(struct seglog_superblock_format *superblock)
{
    struct depot_index_widths widths;
    int error = depot_index_widths_choose(grains_of(superblock), &widths);
    if (error != 0)
        return error;
    const struct depot_owner_format owner = {.offset_bits = OFFSET_BITS,
                                             .hit_bits = HIT_BITS,
                                             .size_bits = DEPOT_SIZE_BITS,
                                             .address_bits = widths.address_bits,
                                             .tag_bits = widths.tag_bits,
                                             .table_bits = widths.table_bits};
    memcpy(superblock->owner, &owner, sizeof(owner));
    return 0;
}

int depot_owner_parse(const struct seglog_superblock_format *superblock,
                      struct depot_index_widths *ret_widths)
{
    struct depot_owner_format owner;
    memcpy(&owner, superblock->owner, sizeof(owner));
    const struct depot_index_widths widths = {
        .address_bits = owner.address_bits, .tag_bits = owner.tag_bits, .table_bits = owner.table_bits};
    if (owner.offset_bits != OFFSET_BITS || owner.hit_bits != HIT_BITS ||
        owner.size_bits != DEPOT_SIZE_BITS || !depot_index_widths_valid(&widths, grains_of(superblock)))
        return -EUCLEAN;
    *ret_widths = widths;
    return 0;
}
