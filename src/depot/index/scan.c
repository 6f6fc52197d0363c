/* Everything: iterating, and taking all out. */
#include "depot/index/index_internal.h"

/* ---- iterating ---------------------------------------------------------------------------------- */

/* A batch under way: what is at home in one region, for the tags of one table. */
struct batch {
    const struct depot_index *index;
    struct depot_index_snapshot *snapshot; /* NULL: as it is */
    uint64_t region;
    uint64_t table;
    uint64_t tag_mask; /* the tag's bits that say `table` */
    uint64_t from; /* the tag where the iteration stands: further than the table's first, if it was merged */
    struct depot_index_item *items;
    uint32_t count;
};

/* Note a word that belongs to the batch. Every word is written behind the others, for which there is room,
 * and few branches are guessed: which words are empty, nobody can. */
static inline void take_word(struct batch *batch, uint64_t word, uint64_t home)
{
    const struct depot_index *index = batch->index;
    uint64_t tag = depot_index_word_tag(index, word);
    uint64_t apart = tag ^ batch->from; /* mirrored, the lowest bit is what counts most */
    bool is_ahead = (apart == 0) | ((tag & apart & (0 - apart)) != 0);
    bool belongs = (word != 0) & !depot_index_word_is_reserved(index, word) & is_ahead &
                   ((tag & batch->tag_mask) == batch->table) & (home >> INDEX_REGION_BITS == batch->region);
    batch->items[batch->count] =
        (struct depot_index_item){.hash = tag << index->widths.table_bits | home, .word = word};
    batch->count += belongs;
}

_Static_assert(DEPOT_INDEX_BATCH_MAX >
                   DEPOT_REGION_ENTRIES + 2 * (DEPOT_NEIGHBOURHOOD - 1) + DEPOT_STASH_ENTRIES,
               "one more than a batch can have");

/* The first words of a region, which begins at a position; the last region's homes end before its words do.
 */
static void take_words(struct batch *batch, const struct depot_index_image *image, uint64_t begin,
                       uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t word = depot_index_load_word(&image->words[i]);
        take_word(batch, word, begin + i - (word & INDEX_OFFSET_MASK));
    }
}

static void take_stash(struct batch *batch, const struct depot_index_region *region)
{
    /* Relaxed: under the lock. */
    uint32_t count = atomic_load_explicit(&region->stash_count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        uint16_t home = atomic_load_explicit(&region->stash_homes[i], memory_order_relaxed);
        take_word(batch, depot_index_load_word(&region->stash[i]),
                  batch->region * DEPOT_REGION_ENTRIES + home);
    }
}

static struct depot_index_image lock_image(const struct batch *batch, uint64_t tag, uint64_t number)
{
    if (batch->snapshot != NULL)
        return depot_index_lock_image(batch->index, batch->snapshot, tag, number);
    const struct depot_index_part part = depot_index_lock_part(batch->index, tag, number);
    return (struct depot_index_image){.locked = part.region,
                                      .region = part.region,
                                      .words = part.words + number * DEPOT_REGION_ENTRIES,
                                      .table = part.table};
}

/* The tag's bits that say which table a region is of. */
static uint64_t tag_mask_of(const struct depot_index_image *image)
{
    /* Relaxed: under the lock. */
    return depot_index_low_mask(atomic_load_explicit(&image->region->depth, memory_order_relaxed) - 1U);
}

/* Lock the regions after it in which neighbourhoods of this one end: its table's, and the twin's if this one
 * is not split and that is. @return how many */
static uint32_t lock_tails(const struct batch *batch, struct depot_index_image images[2])
{
    if (batch->region + 1 == batch->index->regions)
        return 0;
    images[0] = lock_image(batch, batch->table, batch->region + 1);
    uint64_t tail_mask = tag_mask_of(&images[0]);
    if (tail_mask <= batch->tag_mask)
        return 1;
    images[1] = lock_image(batch, batch->table | (tail_mask ^ batch->tag_mask), batch->region + 1);
    return 2;
}

static void take_region(struct batch *batch, const struct depot_index_image *image)
{
    struct depot_index_image tails[2];
    uint64_t begin = batch->region * DEPOT_REGION_ENTRIES;
    uint64_t end = depot_index_region_end(batch->index, batch->region);
    uint32_t tail_count = lock_tails(batch, tails);
    take_words(batch, image, begin, end - begin);
    take_stash(batch, image->region);
    for (uint32_t i = 0; i < tail_count; i++) {
        take_words(batch, &tails[i], end, DEPOT_NEIGHBOURHOOD - 1);
        base_spin_unlock(&tails[i].locked->lock);
    }
}

/*
 * Go on to the next table of the region, or to the next region. Tables are visited in the order of their
 * numbers' mirrored bits, so that a table's twins come right behind it: however the region was split or merged
 * meanwhile, what was visited at one depth is left out at every other.
 */
static void advance(const struct depot_index *index, struct depot_index_cursor *cursor, uint64_t tag_mask)
{
    uint64_t bit = (tag_mask + 1) >> 1;
    cursor->tag &= tag_mask; /* of a table that was merged, with those that it was split into before */
    for (; (cursor->tag & bit) != 0; bit >>= 1)
        cursor->tag &= ~bit;
    cursor->tag |= bit;
    if (bit == 0)
        cursor->end = ++cursor->region == index->regions;
}

uint32_t depot_index_snapshot_next(struct depot_index *index, struct depot_index_snapshot *snapshot,
                                   struct depot_index_cursor *cursor, struct depot_index_item *items)
{
    if (cursor->end)
        return 0;
    struct batch batch = {
        .index = index, .snapshot = snapshot, .region = cursor->region, .from = cursor->tag, .items = items};
    struct depot_index_image image = lock_image(&batch, cursor->tag, cursor->region);
    batch.table = image.table;
    batch.tag_mask = tag_mask_of(&image);
    take_region(&batch, &image);
    base_spin_unlock(&image.locked->lock);
    advance(index, cursor, batch.tag_mask);
    return batch.count;
}

uint32_t depot_index_next(struct depot_index *index, struct depot_index_cursor *cursor,
                          struct depot_index_item *items)
{
    return depot_index_snapshot_next(index, NULL, cursor, items);
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
    base_spin_assert_held(&table->regions[number].lock);
    struct depot_index_region *region = &table->regions[number];
    uint64_t begin = number * DEPOT_REGION_ENTRIES;
    depot_index_change_begin(region);
    uint32_t cleared =
        clear_words(index, table->words + begin, depot_index_region_end(index, number) - begin);
    cleared += clear_stash(index, region);
    depot_index_note_used(index, region, -(int)cleared);
    depot_index_change_end(region);
}

/* @return false: a snapshot needs it as it is */
static bool clear_region(struct depot_index *index, uint64_t table_number, uint64_t number)
{
    const struct depot_index_directory *directory = depot_index_directory_now(index);
    if (table_number > directory->mask)
        return true; /* a shrink has ended, which had merged all before */
    const struct depot_index_table *table = &directory->tables[table_number];
    struct depot_index_region *region = &table->regions[number];
    base_spin_lock(&region->lock);
    /* Pairs with the release in depot_index_split_locked. */
    bool lives = atomic_load_explicit(&region->depth, memory_order_acquire) != 0;
    bool wants_copy = lives && depot_index_wants_copy(index, table_number, number);
    if (lives && !wants_copy)
        clear_region_locked(index, table, number);
    base_spin_unlock(&region->lock);
    return !wants_copy;
}

void depot_index_clear(struct depot_index *index)
{
    /* Relaxed: a merge looks with a region's lock held, and the region that it merges into was not emptied before. */
    atomic_store_explicit(&index->clearing, true, memory_order_relaxed);
    /* A twin comes after its counterpart: what is moved there meanwhile is found. */
    for (uint64_t i = 0; i <= depot_index_directory_now(index)->mask; i++) {
        for (uint64_t number = 0; number < index->regions; number++) {
            while (!clear_region(index, i, number))
                depot_index_preserve(index, i, number);
        }
    }
    atomic_store_explicit(&index->clearing, false, memory_order_relaxed);
}
