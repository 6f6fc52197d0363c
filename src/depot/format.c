/* The depot's part of the superblock. */
#include "depot/depot_format.h"

#include <errno.h>

#define OFFSET_BITS 5
#define HIT_BITS    1

#define TABLE_PART_BITS 11 /* the first table takes a 2048th of the store at most, for room to grow */

static uint64_t grains_of(const struct seglog_superblock_format *superblock)
{
    return superblock->store_bytes / superblock->grain_bytes;
}

/* What the first table of the index takes, which a small index cannot do without, is little beside the store. */
static bool is_affordable(const struct depot_index_widths *widths, uint32_t address_bits,
                          uint32_t grain_bytes)
{
    uint32_t table_bits = widths->table_bits + (uint32_t)__builtin_ctz(sizeof(uint64_t));
    uint32_t store_bits = address_bits + (uint32_t)__builtin_ctz(grain_bytes);
    return table_bits + TABLE_PART_BITS <= store_bits;
}

/* For what the store may become while it is open, as far as that costs little: README, "Becoming larger". */
static int choose_widths(const struct seglog_superblock_format *superblock,
                         struct depot_index_widths *ret_widths)
{
    const uint64_t grains = grains_of(superblock);
    struct depot_index_widths least, wider;
    int error = depot_index_widths_choose(grains, &least);
    if (error != 0)
        return error;
    *ret_widths = least;
    for (uint64_t times = SEGLOG_GROWTH_TIMES; times > 1; times /= 2) {
        if (depot_index_widths_choose(times * grains, &wider) == 0 &&
            (wider.table_bits == least.table_bits ||
             is_affordable(&wider, least.address_bits, superblock->grain_bytes))) {
            *ret_widths = wider;
            break;
        }
    }
    return 0;
}

int depot_owner_fill(struct seglog_superblock_format *superblock)
{
    struct depot_index_widths widths;
    int error = choose_widths(superblock, &widths);
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
