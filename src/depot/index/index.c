/* The index as a whole: its widths, making it and freeing it, its counts. Looking at it is find.c, changing it insert.c. */
#include "depot/index/index.h"

#include "depot/index/index_internal.h"
#include <errno.h>

enum {
    ADDRESS_BITS_MIN = 20,
    WORD_BITS_FOR_BOTH = 64 - INDEX_ADDRESS_SHIFT, /* address and tag */
};

/* ---- widths ------------------------------------------------------------------------------------- */

/* Bits that numbers up to `value` need. */
static uint32_t bits_of(uint64_t value)
{
    return value == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(value);
}

/* The smallest table that, doubled until only the last tag bits remain, has an entry for each grain. */
static uint32_t table_bits_min(uint64_t grains, uint32_t tag_bits)
{
    uint32_t entries_bits = bits_of(grains - 1);
    uint32_t doublings = tag_bits - DEPOT_TAG_BITS_LEFT;
    return entries_bits > doublings + INDEX_REGION_BITS ? entries_bits - doublings : INDEX_REGION_BITS;
}

int depot_index_widths_choose(uint64_t grains, struct depot_index_widths *ret_widths)
{
    uint32_t address_bits = base_max(bits_of(grains), (uint32_t)ADDRESS_BITS_MIN);
    if (grains < 2 || address_bits > DEPOT_ADDRESS_BITS_MAX)
        return -EINVAL;
    uint32_t tag_bits = WORD_BITS_FOR_BOTH - address_bits;
    *ret_widths = (struct depot_index_widths){
        .address_bits = (uint8_t)address_bits,
        .tag_bits = (uint8_t)tag_bits,
        .table_bits = (uint8_t)table_bits_min(grains, tag_bits),
    };
    return 0;
}

uint64_t depot_index_grains_most(const struct depot_index_widths *widths)
{
    uint32_t entries_bits = (uint32_t)widths->table_bits + widths->tag_bits - DEPOT_TAG_BITS_LEFT;
    uint64_t addresses = ((uint64_t)1 << widths->address_bits) - 1;
    return entries_bits < widths->address_bits ? (uint64_t)1 << entries_bits : addresses;
}

bool depot_index_widths_valid(const struct depot_index_widths *widths, uint64_t grains)
{
    if (grains < 2 || widths->address_bits < ADDRESS_BITS_MIN ||
        widths->address_bits > DEPOT_ADDRESS_BITS_MAX ||
        widths->address_bits + widths->tag_bits != WORD_BITS_FOR_BOTH || grains >> widths->address_bits != 0)
        return false;
    uint32_t most = base_max(bits_of(grains - 1), (uint32_t)INDEX_REGION_BITS);
    return widths->table_bits >= table_bits_min(grains, widths->tag_bits) && widths->table_bits <= most;
}

/* ---- words --------------------------------------------------------------------------------------- */

uint64_t depot_index_address(const struct depot_index *index, uint64_t word)
{
    return depot_index_word_address(index, word);
}

uint64_t depot_index_grains(const struct depot_index *index, uint64_t word)
{
    (void)index;
    return seglog_length_of_class(
        (uint32_t)(word >> INDEX_SIZE_SHIFT & depot_index_low_mask(DEPOT_SIZE_BITS)));
}

/* ---- the whole ---------------------------------------------------------------------------------- */

int depot_index_init(struct depot_index *index, struct base_account *account,
                     const struct depot_index_widths *widths)
{
    struct depot_index fresh = {
        .account = account,
        .widths = *widths,
        .tag_shift = INDEX_ADDRESS_SHIFT + (uint32_t)widths->address_bits,
        .tag_mask = depot_index_low_mask(widths->tag_bits),
        .address_mask = depot_index_low_mask(widths->address_bits),
        .regions = (uint64_t)1 << (widths->table_bits - INDEX_REGION_BITS),
        .has_wide_vectors = depot_index_has_wide_vectors(),
    };
    fresh.match_mask = INDEX_OFFSET_MASK | fresh.tag_mask << fresh.tag_shift;
    struct depot_index_directory *directory = depot_index_directory_make(&fresh, NULL);
    if (directory == NULL)
        return -ENOMEM;
    for (uint64_t i = 0; i < fresh.regions; i++) /* every thread that gets the index from this one sees it */
        atomic_init(&directory->tables[0].regions[i].depth, 1);
    atomic_init(&fresh.directory, directory);
    memcpy(index, &fresh, sizeof(fresh));
    return 0;
}

void depot_index_deinit(struct depot_index *index)
{
    depot_index_merge_free(index);
    depot_index_directory_free(index, depot_index_directory_now(index));
}

uint64_t depot_index_capacity(const struct depot_index *index)
{
    /* Relaxed: an estimate while the index begins or ends to shrink. */
    uint32_t halved = atomic_load_explicit(&index->shrinking, memory_order_relaxed);
    return (depot_index_directory_now(index)->mask + 1) << index->widths.table_bits >> halved;
}

uint64_t depot_index_bytes(const struct depot_index *index)
{
    return atomic_load_explicit(&index->table_bytes, memory_order_relaxed) +
           atomic_load_explicit(&index->copied_bytes, memory_order_relaxed);
}

uint64_t depot_index_given_bytes(const struct depot_index *index)
{
    return index->given_bytes;
}

uint64_t depot_index_count(const struct depot_index *index)
{
    const struct depot_index_directory *directory = depot_index_directory_now(index);
    uint64_t count = 0;
    for (uint64_t table = 0; table <= directory->mask; table++) {
        for (uint64_t i = 0; i < index->regions; i++) /* relaxed: each region at a moment of its own */
            count += atomic_load_explicit(&directory->tables[table].regions[i].used, memory_order_relaxed);
    }
    return count;
}

bool depot_index_load_reaches(const struct depot_index *index, uint64_t percent)
{
    /* Relaxed: an estimate, but for at most 32 entries a region. */
    uint64_t count = atomic_load_explicit(&index->settled_count, memory_order_relaxed);
    return count * 100 >= depot_index_capacity(index) * percent;
}

bool depot_index_may_grow(const struct depot_index *index)
{
    return depot_index_directory_now(index)->bits + DEPOT_TAG_BITS_LEFT < index->widths.tag_bits;
}

bool depot_index_wants_growth(const struct depot_index *index)
{
    return depot_index_load_reaches(index, INDEX_LOAD_TO_GROW) && depot_index_may_grow(index) &&
           !atomic_load_explicit(&index->growing, memory_order_relaxed); /* advice */
}
