/* Proving the invariants of the README, for `tarn check` and tests. Nobody else uses the index meanwhile. */
#include "depot/index/index_internal.h"
#include <errno.h>

/* One region under examination. */
struct examined {
    const struct depot_index *index;
    const struct depot_index_directory *directory;
    const struct depot_index_table *table;
    const struct depot_index_region *region;
    uint64_t table_number;
    uint64_t number;
    uint32_t depth;
    uint32_t used; /* counted so far */
};

/* A word at home in a position of its table. @return NULL: right */
static const char *check_word(const struct examined *at, uint64_t word, uint64_t home)
{
    uint64_t tag = depot_index_word_tag(at->index, word);
    if (home >> at->index->widths.table_bits != 0)
        return "an entry is at home outside of its table";
    if (at->depth == 0)
        return "an entry lies in a region that does not live";
    if ((tag & depot_index_low_mask(at->depth - 1)) != at->table_number)
        return "an entry's tag belongs to another table";
    if (depot_index_word_address(at->index, word) == 0)
        return "an entry has address 0";
    return NULL;
}

/* Whether the entry stands once more in its neighbourhood, behind this position. Reserved ones may. */
static bool is_twice(const struct examined *at, uint64_t position, uint64_t word)
{
    uint64_t home = position - (word & INDEX_OFFSET_MASK);
    uint64_t end = base_min(home + DEPOT_NEIGHBOURHOOD, depot_index_region_end(at->index, at->number));
    uint64_t same = ~depot_index_low_mask(INDEX_ADDRESS_SHIFT) | INDEX_OFFSET_MASK;
    if (depot_index_word_is_reserved(at->index, word))
        return false;
    for (uint64_t other = position + 1; other < end; other++) {
        uint64_t moved = word + (other - position); /* how it would stand there */
        if (((depot_index_load_word(&at->table->words[other]) ^ moved) & same) == 0)
            return true;
    }
    return false;
}

static const char *check_words(struct examined *at)
{
    uint64_t end = depot_index_region_end(at->index, at->number);
    for (uint64_t position = at->number * DEPOT_REGION_ENTRIES; position < end; position++) {
        uint64_t word = depot_index_load_word(&at->table->words[position]);
        if (word == 0)
            continue;
        at->used++;
        if ((word & INDEX_OFFSET_MASK) > position)
            return "an entry is at home before its table";
        const char *wrong = check_word(at, word, position - (word & INDEX_OFFSET_MASK));
        if (wrong != NULL)
            return wrong;
        if (is_twice(at, position, word))
            return "an entry stands twice in its neighbourhood";
    }
    return NULL;
}

/* Relaxed loads all over: nobody else uses the index. */
static const char *check_stash(struct examined *at)
{
    uint32_t count = atomic_load_explicit(&at->region->stash_count, memory_order_relaxed);
    for (uint32_t i = 0; i < DEPOT_STASH_ENTRIES; i++) {
        uint64_t word = depot_index_load_word(&at->region->stash[i]);
        uint64_t home = atomic_load_explicit(&at->region->stash_homes[i], memory_order_relaxed);
        if ((word != 0) != (i < count))
            return "a stash's count is not what is in it";
        if (word == 0)
            continue;
        if ((word & INDEX_OFFSET_MASK) != 0 || home >= DEPOT_REGION_ENTRIES)
            return "an entry of a stash has no home in its region";
        const char *wrong = check_word(at, word, at->number * DEPOT_REGION_ENTRIES + home);
        if (wrong != NULL)
            return wrong;
    }
    at->used += count;
    return NULL;
}

/* The region of a table made for a growth lives exactly if its counterpart was split; without a growth all
 * live, and are as deep as the directory. */
static const char *check_depth(const struct examined *at)
{
    uint32_t bits = at->directory->bits;
    bool growing = atomic_load_explicit(&at->index->growing, memory_order_relaxed);
    uint64_t half = at->directory->mask >> 1;
    if (at->depth == bits + 1)
        return NULL;
    if (!growing)
        return "a region is not as deep as the directory";
    uint64_t pair = at->table_number ^ (half + 1);
    uint32_t other =
        atomic_load_explicit(&at->directory->tables[pair].regions[at->number].depth, memory_order_relaxed);
    if (at->table_number > half)
        return at->depth == 0 && other == bits ? NULL
                                               : "a region does not live, and its counterpart was split";
    return at->depth == bits && other == 0 ? NULL : "a region was not split, and its twin lives";
}

static const char *check_region(struct examined *at)
{
    if (atomic_load_explicit(&at->region->lock.locked, memory_order_relaxed))
        return "a region is locked";
    if (atomic_load_explicit(&at->region->sequence, memory_order_relaxed) % 2 != 0)
        return "a change of a region did not end";
    const char *wrong = check_depth(at);
    if (wrong == NULL)
        wrong = check_words(at);
    if (wrong == NULL)
        wrong = check_stash(at);
    if (wrong != NULL)
        return wrong;
    if (at->used != atomic_load_explicit(&at->region->used, memory_order_relaxed))
        return "a region's count is not what lies there";
    int rest = (int)at->used - at->region->settled;
    if (rest >= INDEX_USED_REST || rest <= -INDEX_USED_REST)
        return "a region has not told its count";
    return NULL;
}

/* Tables that a shrink has put aside: what a growth finds there is as in new ones. */
static const char *check_aside(const struct depot_index *index, const struct depot_index_directory *directory)
{
    for (uint64_t i = (directory->mask >> 1) + 1; i <= directory->mask; i++) {
        for (uint64_t number = 0; number < index->regions; number++) {
            const struct depot_index_region *region = &directory->tables[i].regions[number];
            struct examined at = {.index = index, .table = &directory->tables[i], .number = number};
            const char *wrong = check_words(&at);
            if (wrong != NULL)
                return wrong;
            if (atomic_load_explicit(&region->depth, memory_order_relaxed) != 0)
                return "a region lives that was put aside";
            if (atomic_load_explicit(&region->used, memory_order_relaxed) != 0 || region->settled != 0 ||
                atomic_load_explicit(&region->stash_count, memory_order_relaxed) != 0)
                return "a region that was put aside has entries";
        }
    }
    return NULL;
}

int depot_index_validate(struct depot_index *index, const char **ret_wrong)
{
    const struct depot_index_directory *directory = depot_index_directory_now(index);
    uint64_t settled = 0;
    for (const struct depot_index_directory *aside = directory->next; aside != NULL; aside = aside->next) {
        const char *wrong = check_aside(index, aside);
        if (wrong != NULL) {
            *ret_wrong = wrong;
            return -EUCLEAN;
        }
    }
    for (uint64_t i = 0; i <= directory->mask; i++) {
        for (uint64_t number = 0; number < index->regions; number++) {
            const struct depot_index_region *region = &directory->tables[i].regions[number];
            struct examined at = {.index = index,
                                  .directory = directory,
                                  .table = &directory->tables[i],
                                  .region = region,
                                  .table_number = i,
                                  .number = number,
                                  .depth = atomic_load_explicit(&region->depth, memory_order_relaxed)};
            const char *wrong = check_region(&at);
            if (wrong != NULL) {
                *ret_wrong = wrong;
                return -EUCLEAN;
            }
            settled += region->settled;
        }
    }
    if (settled == atomic_load_explicit(&index->settled_count, memory_order_relaxed))
        return 0;
    *ret_wrong = "the index's count is not the sum of what its regions told";
    return -EUCLEAN;
}
