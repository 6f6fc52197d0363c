/*
 * Shrinking: a growth run backwards. Region after region, what its twin has comes back, and the directory is
 * halved when all are merged. README, "Shrinking".
 *
 *   directory, 2 bits  0   1   2   3           0   1   2   3     region of 0 merged with that of 2, which does
 *                      │   │   │   │   begin   │   │   ┆   │     not live any more; of 1 not yet
 *                      ▼   ▼   ▼   ▼   ────▶   ▼   ▼   ┆   ▼
 */
#include "depot/index/index_internal.h"
#include <errno.h>

/* What finds no place in its neighbourhood, for a stash. */
struct spill {
    uint32_t count;
    uint16_t homes[DEPOT_STASH_ENTRIES]; /* in its region */
    uint64_t words[DEPOT_STASH_ENTRIES]; /* with offset 0 */
};

/* How a pair will lie in one region. */
struct depot_index_merge {
    uint64_t begin, end; /* its positions */
    struct spill own;
    struct spill before; /* of the region before it: its entries may reach into this one */
    uint64_t words[DEPOT_REGION_ENTRIES + INDEX_EXTRA_WORDS];
};

/* A pair, whose locks are taken in this order. */
struct pair {
    uint64_t number;
    struct depot_index_part before; /* the region before it, which is merged; region NULL: there is none */
    struct depot_index_part part;
    struct depot_index_part twin;
};

enum outcome { MERGED, NOT_NOW, NO_ROOM };

/* ---- planning ----------------------------------------------------------------------------------- */

static bool spill_push(struct spill *spill, uint64_t word, uint64_t home)
{
    if (spill->count == DEPOT_STASH_ENTRIES)
        return false;
    spill->homes[spill->count] = (uint16_t)(home % DEPOT_REGION_ENTRIES);
    spill->words[spill->count++] = word;
    return true;
}

/* @param word  with offset 0 @return false: there is no room for it */
static bool place(struct depot_index_merge *merge, uint64_t word, uint64_t home)
{
    uint64_t end = base_min(home + DEPOT_NEIGHBOURHOOD, merge->end);
    for (uint64_t at = base_max(home, merge->begin); at < end; at++) {
        if (merge->words[at - merge->begin] != 0)
            continue;
        merge->words[at - merge->begin] = word | (at - home);
        return true;
    }
    return spill_push(home < merge->begin ? &merge->before : &merge->own, word, home);
}

static bool place_stash(struct depot_index_merge *merge, const struct depot_index_region *region)
{
    bool fits = true;
    /* Relaxed: under the lock. */
    uint32_t count = atomic_load_explicit(&region->stash_count, memory_order_relaxed);
    for (uint32_t i = 0; fits && i < count; i++)
        fits = place(merge, depot_index_load_word(&region->stash[i]),
                     merge->begin + atomic_load_explicit(&region->stash_homes[i], memory_order_relaxed));
    return fits;
}

/* What lies in the region stays, and of the twin what lies where that has nothing. */
static void place_in_position(struct depot_index_merge *merge, const struct pair *pair)
{
    for (uint64_t at = merge->begin; at < merge->end; at++) {
        uint64_t word = depot_index_load_word(&pair->part.words[at]);
        uint64_t other = depot_index_load_word(&pair->twin.words[at]);
        merge->words[at - merge->begin] = word != 0 ? word : other;
    }
}

/* The others of the twin. Hits are marked meanwhile: such a word is the same entry, and has its place. */
static bool place_others(struct depot_index_merge *merge, const struct pair *pair)
{
    bool fits = true;
    for (uint64_t at = merge->begin; fits && at < merge->end; at++) {
        uint64_t word = depot_index_load_word(&pair->twin.words[at]);
        uint64_t offset = word & INDEX_OFFSET_MASK;
        if (word != 0 && !depot_index_is_same(word, merge->words[at - merge->begin]))
            fits = place(merge, word - offset, at - offset);
    }
    return fits;
}

/* The locks are held; nothing is changed. @return false: there is too much for one region */
static bool plan(const struct depot_index *index, struct depot_index_merge *merge, const struct pair *pair)
{
    /* Relaxed, all of it: under the locks. */
    uint32_t used = atomic_load_explicit(&pair->part.region->used, memory_order_relaxed) +
                    (uint32_t)atomic_load_explicit(&pair->twin.region->used, memory_order_relaxed);
    uint32_t stashed = pair->before.region == NULL
                           ? DEPOT_STASH_ENTRIES
                           : atomic_load_explicit(&pair->before.region->stash_count, memory_order_relaxed);
    if (used * 100 > DEPOT_REGION_ENTRIES * INDEX_LOAD_TO_TURN)
        return false;
    merge->begin = pair->number * DEPOT_REGION_ENTRIES;
    merge->end = depot_index_region_end(index, pair->number);
    merge->own.count = merge->before.count = 0;
    place_in_position(merge, pair);
    return place_others(merge, pair) && place_stash(merge, pair->part.region) &&
           place_stash(merge, pair->twin.region) && stashed + merge->before.count <= DEPOT_STASH_ENTRIES;
}

/* ---- merging ------------------------------------------------------------------------------------ */

static void store_words(const struct depot_index_merge *merge, const struct pair *pair)
{
    for (uint64_t at = merge->begin; at < merge->end; at++) {
        depot_index_store_word(&pair->part.words[at], merge->words[at - merge->begin]);
        depot_index_store_word(&pair->twin.words[at], 0);
    }
}

static void empty_stash(struct depot_index_region *region)
{
    /* Relaxed: the lock and the sequence order it. */
    for (uint32_t i = atomic_load_explicit(&region->stash_count, memory_order_relaxed); i-- > 0;)
        depot_index_stash_take(region, i);
}

static void push_spill(struct depot_index_region *region, const struct spill *spill)
{
    for (uint32_t i = 0; i < spill->count; i++)
        depot_index_stash_push(region, spill->words[i], spill->homes[i]);
}

static void store_stashes(const struct depot_index *index, const struct depot_index_merge *merge,
                          const struct pair *pair)
{
    empty_stash(pair->part.region);
    empty_stash(pair->twin.region);
    push_spill(pair->part.region, &merge->own);
    if (merge->before.count == 0)
        return;
    push_spill(pair->before.region, &merge->before);
    depot_index_empty_stash(index, pair->before.region, pair->before.words, pair->number - 1);
}

static void count_them(struct depot_index *index, const struct depot_index_merge *merge,
                       const struct pair *pair)
{
    /* Relaxed: under the lock. */
    int moved = atomic_load_explicit(&pair->twin.region->used, memory_order_relaxed);
    depot_index_note_dead(index, pair->twin.region);
    depot_index_note_used(index, pair->part.region, moved - (int)merge->before.count);
    if (merge->before.count > 0)
        depot_index_note_used(index, pair->before.region, (int)merge->before.count);
}

/* As it was planned, in a way that readers see all of it or look again. */
static void merge_locked(struct depot_index *index, const struct pair *pair)
{
    base_spin_assert_held(&pair->part.region->lock);
    const struct depot_index_merge *merge = index->merge;
    /* Relaxed: under the lock. */
    uint8_t depth = atomic_load_explicit(&pair->part.region->depth, memory_order_relaxed);
    if (merge->before.count > 0)
        depot_index_change_begin(pair->before.region);
    depot_index_change_begin(pair->part.region);
    depot_index_change_begin(pair->twin.region);
    store_words(merge, pair);
    store_stashes(index, merge, pair);
    count_them(index, merge, pair);
    /* Both pair with the acquire in depot_index_region_is_for. */
    atomic_store_explicit(&pair->part.region->depth, (uint8_t)(depth - 1), memory_order_release);
    atomic_store_explicit(&pair->twin.region->depth, 0, memory_order_release);
    depot_index_change_end(pair->twin.region);
    depot_index_change_end(pair->part.region);
    if (merge->before.count > 0)
        depot_index_change_end(pair->before.region);
}

static struct depot_index_part part_of(const struct depot_index_directory *directory, uint64_t table,
                                       uint64_t number)
{
    return (struct depot_index_part){.region = &directory->tables[table].regions[number],
                                     .words = directory->tables[table].words,
                                     .table = table};
}

static void lock_pair(const struct pair *pair)
{
    if (pair->before.region != NULL)
        base_spin_lock(&pair->before.region->lock);
    base_spin_lock(&pair->part.region->lock);
    base_spin_lock(&pair->twin.region->lock);
}

static void unlock_pair(const struct pair *pair)
{
    base_spin_unlock(&pair->twin.region->lock);
    base_spin_unlock(&pair->part.region->lock);
    if (pair->before.region != NULL)
        base_spin_unlock(&pair->before.region->lock);
}

static bool wants_copy(const struct depot_index *index, const struct pair *pair)
{
    return (pair->before.region != NULL &&
            depot_index_wants_copy(index, pair->before.table, pair->number - 1)) ||
           depot_index_wants_copy(index, pair->part.table, pair->number) ||
           depot_index_wants_copy(index, pair->twin.table, pair->number);
}

static void preserve(struct depot_index *index, const struct pair *pair)
{
    if (pair->before.region != NULL)
        depot_index_preserve(index, pair->before.table, pair->number - 1);
    depot_index_preserve(index, pair->part.table, pair->number);
    depot_index_preserve(index, pair->twin.table, pair->number);
}

/* The next pair. */
static enum outcome merge_next(struct depot_index *index, const struct depot_index_directory *directory)
{
    uint64_t table = index->grow_table, number = index->grow_region;
    struct pair pair = {.number = number,
                        .part = part_of(directory, table, number),
                        .twin = part_of(directory, table + (directory->mask >> 1) + 1, number)};
    if (number > 0)
        pair.before = part_of(directory, table, number - 1);
    for (;;) {
        enum outcome outcome = MERGED;
        lock_pair(&pair);
        bool copies = wants_copy(index, &pair);
        /* Relaxed: depot_index_clear() locks a region after it has set this. */
        if (atomic_load_explicit(&index->clearing, memory_order_relaxed))
            outcome = NOT_NOW;
        else if (!copies && !plan(index, index->merge, &pair))
            outcome = NO_ROOM;
        else if (!copies)
            merge_locked(index, &pair);
        unlock_pair(&pair);
        if (!copies || outcome != MERGED)
            return outcome;
        preserve(index, &pair);
    }
}

/* ---- the whole ---------------------------------------------------------------------------------- */

void depot_index_merge_free(struct depot_index *index)
{
    if (index->merge == NULL)
        return;
    base_free(index->account, index->merge, sizeof(*index->merge));
    atomic_fetch_sub_explicit(&index->table_bytes, sizeof(*index->merge), memory_order_relaxed);
    index->merge = NULL;
}

int depot_index_shrink_begin(struct depot_index *index)
{
    const struct depot_index_directory *directory = depot_index_directory_now(index);
    /* Relaxed: one caller at a time. */
    if (atomic_load_explicit(&index->growing, memory_order_relaxed))
        return -EALREADY;
    if (directory->bits == 0 || depot_index_load_reaches(index, INDEX_LOAD_AFTER / 2))
        return -ENOENT;
    index->merge = base_alloc(index->account, sizeof(*index->merge));
    if (index->merge == NULL)
        return -ENOMEM;
    atomic_fetch_add_explicit(&index->table_bytes, sizeof(*index->merge), memory_order_relaxed);
    index->grow_region = 0;
    index->grow_table = 0;
    /* Relaxed: a region is merged with its lock held, after this; so who then locks it knows. */
    atomic_store_explicit(&index->growing, true, memory_order_relaxed);
    atomic_store_explicit(&index->shrinking, true, memory_order_relaxed);
    return 0;
}

bool depot_index_shrink_turn(struct depot_index *index)
{
    /* Relaxed: one caller at a time; to others it is as if a growth had come so far. */
    if (!atomic_load_explicit(&index->shrinking, memory_order_relaxed))
        return false;
    depot_index_merge_free(index);
    index->grow_region = 0;
    index->grow_table = 0;
    atomic_store_explicit(&index->shrinking, false, memory_order_relaxed);
    return true;
}

/* All are merged, and nobody splits any. */
static void end_shrink(struct depot_index *index, const struct depot_index_directory *directory)
{
    /* Pairs with the acquire in depot_index_directory_now. */
    atomic_store_explicit(&index->directory, directory->previous, memory_order_release);
    /* Pairs with the acquire in insert.c's split_held: a caller that may split again sees the smaller directory. */
    atomic_store_explicit(&index->shrinking, false, memory_order_release);
    atomic_store_explicit(&index->growing, false, memory_order_relaxed); /* advice to others */
    depot_index_merge_free(index);
}

/* @return MERGED: the shrink may go on */
static enum outcome merge_some(struct depot_index *index, const struct depot_index_directory *directory,
                               uint32_t pairs)
{
    enum outcome outcome = depot_index_load_reaches(index, INDEX_LOAD_TO_TURN) ? NO_ROOM : MERGED;
    uint64_t tables = (directory->mask >> 1) + 1; /* that have a twin */
    for (uint32_t i = 0; outcome == MERGED && i < pairs && index->grow_region < index->regions; i++) {
        outcome = merge_next(index, directory);
        if (outcome == MERGED && ++index->grow_table == tables) {
            index->grow_table = 0;
            index->grow_region++;
        }
    }
    return outcome;
}

int depot_index_shrink_step(struct depot_index *index, uint32_t pairs)
{
    struct depot_index_directory *directory = depot_index_directory_now(index);
    /* Relaxed: one caller at a time. */
    if (!atomic_load_explicit(&index->shrinking, memory_order_relaxed)) {
        if (atomic_load_explicit(&index->growing, memory_order_relaxed))
            return -ECANCELED;
        return directory->next != NULL && depot_index_directory_give(index, directory->next);
    }
    if (merge_some(index, directory, pairs) == NO_ROOM) {
        (void)depot_index_shrink_turn(index);
        return -ECANCELED;
    }
    if (index->grow_region == index->regions)
        end_shrink(index, directory);
    return 1;
}
