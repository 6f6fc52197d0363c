/* Everything: iterating, and taking all out. */
#include "depot/index_internal.h"

/* ---- iterating ---------------------------------------------------------------------------------- */

/* A batch under way: what is at home in one region, for the tags of one table. */
struct batch {
    const struct depot_index *index;
    uint64_t region;
    uint64_t table;
    uint64_t tag_mask; /* the tag's bits that say `table` */
    struct depot_index_item *items;
    uint32_t count;
};

/* Note a word that belongs to the batch. Every word is written behind the others, for which there is room,
 * and few branches are guessed: which words are empty, nobody can. */
static inline void take(struct batch *batch, uint64_t word, uint64_t home)
{
    const struct depot_index *index = batch->index;
    uint64_t tag = depot_index_word_tag(index, word);
    bool belongs = (word != 0) & !depot_index_word_is_reserved(index, word) &
                   ((tag & batch->tag_mask) == batch->table) & (home >> INDEX_REGION_BITS == batch->region);
    batch->items[batch->count] =
        (struct depot_index_item){.hash = tag << index->widths.table_bits | home, .word = word};
    batch->count += belongs;
}

_Static_assert(DEPOT_INDEX_BATCH_MAX >
                   DEPOT_REGION_ENTRIES + 2 * (DEPOT_NEIGHBOURHOOD - 1) + DEPOT_STASH_ENTRIES,
               "one more than a batch can have");

/* Words from one position to another; the last region's homes end before its words do. */
static void take_words(struct batch *batch, const struct depot_index_part *part, uint64_t begin, uint64_t end)
{
    for (uint64_t at = begin; at < end; at++) {
        uint64_t word = depot_index_load_word(&part->words[at]);
        take(batch, word, at - (word & INDEX_OFFSET_MASK));
    }
}

static void take_stash(struct batch *batch, const struct depot_index_region *region)
{
    /* Relaxed: under the lock. */
    uint32_t count = atomic_load_explicit(&region->stash_count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        uint16_t home = atomic_load_explicit(&region->stash_homes[i], memory_order_relaxed);
        take(batch, depot_index_load_word(&region->stash[i]), batch->region * DEPOT_REGION_ENTRIES + home);
    }
}

/* Lock the regions after it in which neighbourhoods of this one end: its table's, and the twin's if this one
 * is not split and that is. @return how many */
static uint32_t lock_tails(const struct batch *batch, struct depot_index_part parts[2])
{
    const struct depot_index *index = batch->index;
    if (batch->region + 1 == index->regions)
        return 0;
    parts[0] = depot_index_lock_part(index, batch->table, batch->region + 1);
    /* Relaxed: under the lock. */
    uint8_t depth = atomic_load_explicit(&parts[0].region->depth, memory_order_relaxed);
    uint64_t tail_mask = depot_index_low_mask(depth - 1U);
    if (tail_mask <= batch->tag_mask)
        return 1;
    parts[1] = depot_index_lock_part(index, batch->table | (tail_mask ^ batch->tag_mask), batch->region + 1);
    return 2;
}

static void take_region(struct batch *batch, const struct depot_index_part *part)
{
    struct depot_index_part tails[2];
    uint64_t begin = batch->region * DEPOT_REGION_ENTRIES;
    uint64_t end = depot_index_region_end(batch->index, batch->region);
    uint32_t tail_count = lock_tails(batch, tails);
    take_words(batch, part, begin, end);
    take_stash(batch, part->region);
    for (uint32_t i = 0; i < tail_count; i++) {
        take_words(batch, &tails[i], end, end + DEPOT_NEIGHBOURHOOD - 1);
        base_spin_unlock(&tails[i].region->lock);
    }
}

/*
 * Go on to the next table of the region, or to the next region. Tables are visited in the order of their
 * numbers' mirrored bits, so that a table's twins come right behind it: however the region was split
 * meanwhile, what was visited at one depth is left out at every other.
 */
static void advance(const struct depot_index *index, struct depot_index_cursor *cursor, uint64_t tag_mask)
{
    uint64_t bit = (tag_mask + 1) >> 1;
    for (; (cursor->tag & bit) != 0; bit >>= 1)
        cursor->tag &= ~bit;
    cursor->tag |= bit;
    if (bit == 0)
        cursor->end = ++cursor->region == index->regions;
}

uint32_t depot_index_next(struct depot_index *index, struct depot_index_cursor *cursor,
                          struct depot_index_item *items)
{
    if (cursor->end)
        return 0;
    struct depot_index_part part = depot_index_lock_part(index, cursor->tag, cursor->region);
    /* Relaxed: under the lock. */
    uint8_t depth = atomic_load_explicit(&part.region->depth, memory_order_relaxed);
    struct batch batch = {.index = index,
                          .region = cursor->region,
                          .table = part.table,
                          .tag_mask = depot_index_low_mask(depth - 1U),
                          .items = items};
    take_region(&batch, &part);
    base_spin_unlock(&part.region->lock);
    advance(index, cursor, batch.tag_mask);
    return batch.count;
}

/* ---- taking all out ----------------------------------------------------------------------------- */

/* @return how many */
static uint32_t clear_words(const struct depot_index *index, _Atomic uint64_t *words, uint64_t count)
{
    uint32_t cleared = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t word = depot_index_load_word(&words[i]);
        if (word == 0 || depot_index_word_is_reserved(index, word))
            continue;
        depot_index_store_word(&words[i], 0);
        cleared++;
    }
    return cleared;
}

static uint32_t clear_stash(const struct depot_index *index, struct depot_index_region *region)
{
    uint32_t cleared = 0;
    /* Relaxed: under the lock. Backwards: what is put in the place of one that goes was looked at. */
    for (uint32_t i = atomic_load_explicit(&region->stash_count, memory_order_relaxed); i-- > 0;) {
        if (depot_index_word_is_reserved(index, depot_index_load_word(&region->stash[i])))
            continue;
        depot_index_stash_take(region, i);
        cleared++;
    }
    return cleared;
}

/* Empty a region that lives; its lock is held. */
static void clear_region_locked(struct depot_index *index, const struct depot_index_table *table,
                                uint64_t number)
{
    struct depot_index_region *region = &table->regions[number];
    uint64_t begin = number * DEPOT_REGION_ENTRIES;
    depot_index_change_begin(region);
    uint32_t cleared =
        clear_words(index, table->words + begin, depot_index_region_end(index, number) - begin);
    cleared += clear_stash(index, region);
    depot_index_note_used(index, region, -(int)cleared);
    depot_index_change_end(region);
}

void depot_index_clear(struct depot_index *index)
{
    /* A twin comes after its counterpart: what is moved there meanwhile is found. */
    for (uint64_t i = 0; i <= depot_index_directory_now(index)->mask; i++) {
        const struct depot_index_table *table = &depot_index_directory_now(index)->tables[i];
        for (uint64_t number = 0; number < index->regions; number++) {
            struct depot_index_region *region = &table->regions[number];
            base_spin_lock(&region->lock);
            /* Pairs with the release in depot_index_split_locked. */
            if (atomic_load_explicit(&region->depth, memory_order_acquire) != 0)
                clear_region_locked(index, table, number);
            base_spin_unlock(&region->lock);
        }
    }
}
