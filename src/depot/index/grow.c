/*
 * Growth: the directory doubles at once, then region after region is split. An entry keeps its position and
 * stays in its table or goes to the twin, as the next bit of its tag says.
 *
 *   directory, 1 bit   0   1           0   1   2   3     region of 0 split: entries with bit 1 went to 2;
 *                      │   │   begin   │   │   ┆   ┆     of 1 not yet: the region of 3 does not live, and
 *                      ▼   ▼   ────▶   ▼   ▼   ▼   ┆     who looks there looks in that of 1
 */
#include "depot/index/index_internal.h"
#include <errno.h>

/* ---- one region --------------------------------------------------------------------------------- */

/* Move the words whose tag has the bit, without branches, as no processor can guess them. @return how many */
static uint32_t move_words(const struct depot_index *index, _Atomic uint64_t *words,
                           _Atomic uint64_t *twin_words, uint64_t count, uint64_t bit)
{
    uint32_t moved = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t word = depot_index_load_word(&words[i]);
        bool goes = (depot_index_word_tag(index, word) & bit) != 0; /* an empty word has tag 0 */
        uint64_t mask = 0 - (uint64_t)goes;
        depot_index_store_word(&twin_words[i], word & mask);
        depot_index_store_word(&words[i], word & ~mask);
        moved += goes;
    }
    return moved;
}

static uint32_t move_stash(const struct depot_index *index, struct depot_index_region *region,
                           struct depot_index_region *twin, uint64_t bit)
{
    uint32_t moved = 0;
    /* Relaxed: the lock and the sequence order it, for the twin the release of its depth. Backwards: what is
     * put in the place of one that goes was looked at. */
    for (uint32_t i = atomic_load_explicit(&region->stash_count, memory_order_relaxed); i-- > 0;) {
        uint64_t word = depot_index_load_word(&region->stash[i]);
        if ((depot_index_word_tag(index, word) & bit) == 0)
            continue;
        depot_index_stash_push(twin, word,
                               atomic_load_explicit(&region->stash_homes[i], memory_order_relaxed));
        depot_index_stash_take(region, i);
        moved++;
    }
    return moved;
}

/* Readers look in the neighbourhood anyway. */
void depot_index_empty_stash(const struct depot_index *index, struct depot_index_region *region,
                             _Atomic uint64_t *words, uint64_t number)
{
    uint64_t region_end = depot_index_region_end(index, number);
    /* Relaxed: as above. Backwards, too. */
    for (uint32_t i = atomic_load_explicit(&region->stash_count, memory_order_relaxed); i-- > 0;) {
        uint64_t home = number * DEPOT_REGION_ENTRIES +
                        atomic_load_explicit(&region->stash_homes[i], memory_order_relaxed);
        uint64_t end = base_min(home + DEPOT_NEIGHBOURHOOD, region_end);
        uint64_t at = home;
        while (at < end && depot_index_load_word(&words[at]) != 0)
            at++;
        if (at == end)
            continue;
        depot_index_store_word(&words[at], depot_index_load_word(&region->stash[i]) + (at - home));
        depot_index_stash_take(region, i);
    }
}

void depot_index_split_locked(struct depot_index *index, const struct depot_index_part *part, uint64_t number)
{
    base_spin_assert_held(&part->region->lock);
    struct depot_index_region *region = part->region;
    const struct depot_index_directory *directory = depot_index_directory_now(index);
    /* Relaxed: under the lock. */
    uint8_t depth = atomic_load_explicit(&region->depth, memory_order_relaxed);
    uint64_t bit = (uint64_t)1 << (depth - 1);
    const struct depot_index_table *twin_table = &directory->tables[part->table | bit];
    struct depot_index_region *twin = &twin_table->regions[number];
    uint64_t begin = number * DEPOT_REGION_ENTRIES;
    depot_index_note_twin(index, part->table | bit, number);
    depot_index_change_begin(region);
    /* Relaxed: under the lock. An index that is being loaded grows while it is empty. */
    if (atomic_load_explicit(&region->used, memory_order_relaxed) > 0) {
        uint32_t moved = move_words(index, part->words + begin, twin_table->words + begin,
                                    depot_index_region_end(index, number) - begin, bit);
        moved += move_stash(index, region, twin, bit);
        depot_index_empty_stash(index, region, part->words, number);
        depot_index_empty_stash(index, twin, twin_table->words, number);
        depot_index_note_used(index, twin, (int)moved);
        depot_index_note_used(index, region, -(int)moved);
    }
    /* Both pair with the acquire in depot_index_region_is_for. From here on the twin is anybody's. */
    atomic_store_explicit(&twin->depth, (uint8_t)(depth + 1), memory_order_release);
    atomic_store_explicit(&region->depth, (uint8_t)(depth + 1), memory_order_release);
    depot_index_change_end(region);
}

/* ---- the whole ---------------------------------------------------------------------------------- */

int depot_index_grow_prepare(struct depot_index *index)
{
    struct depot_index_directory *directory = depot_index_directory_now(index);
    /* Relaxed: one caller at a time. */
    if (atomic_load_explicit(&index->growing, memory_order_relaxed))
        return -EALREADY;
    if (!depot_index_may_grow(index))
        return -ENOSPC;
    if (directory->next == NULL)
        directory->next = depot_index_directory_make(index, directory); /* it is kept in any case */
    return directory->next == NULL ? -ENOMEM : depot_index_directory_take(index, directory->next);
}

int depot_index_grow_begin(struct depot_index *index)
{
    int more;
    while ((more = depot_index_grow_prepare(index)) > 0) {
    }
    if (more != 0)
        return more;
    index->grow_region = 0;
    index->grow_table = 0;
    atomic_store_explicit(&index->growing, true, memory_order_relaxed); /* advice to others */
    /* Pairs with the acquire in depot_index_directory_now. */
    atomic_store_explicit(&index->directory, depot_index_directory_now(index)->next, memory_order_release);
    return 0;
}

static void split_next(struct depot_index *index, const struct depot_index_directory *directory)
{
    struct depot_index_part part = {
        .region = &directory->tables[index->grow_table].regions[index->grow_region],
        .words = directory->tables[index->grow_table].words,
        .table = index->grow_table,
    };
    bool wants_copy;
    do {
        base_spin_lock(&part.region->lock);
        /* Relaxed: under the lock. An insert may have been here before. */
        bool due = atomic_load_explicit(&part.region->depth, memory_order_relaxed) <= directory->bits;
        wants_copy = due && depot_index_wants_copy(index, part.table, index->grow_region);
        if (due && !wants_copy)
            depot_index_split_locked(index, &part, index->grow_region);
        base_spin_unlock(&part.region->lock);
        if (wants_copy)
            depot_index_preserve(index, part.table, index->grow_region);
    } while (wants_copy);
}

bool depot_index_grow_step(struct depot_index *index, uint32_t regions)
{
    /* Relaxed: one caller at a time. */
    if (!atomic_load_explicit(&index->growing, memory_order_relaxed) ||
        atomic_load_explicit(&index->shrinking, memory_order_relaxed))
        return false;
    const struct depot_index_directory *directory = depot_index_directory_now(index);
    uint64_t tables = (directory->mask >> 1) + 1; /* that have a twin */
    for (uint32_t i = 0; i < regions && index->grow_region < index->regions; i++) {
        split_next(index, directory);
        if (++index->grow_table == tables) {
            index->grow_table = 0;
            index->grow_region++;
        }
    }
    if (index->grow_region < index->regions)
        return true;
    atomic_store_explicit(&index->growing, false, memory_order_relaxed); /* advice to others */
    return false;
}

static int grow(struct depot_index *index)
{
    int error = depot_index_grow_begin(index);
    if (error != 0)
        return error;
    while (depot_index_grow_step(index, UINT32_MAX)) {
    }
    return 0;
}

int depot_index_grow_to(struct depot_index *index, uint64_t entries)
{
    int error = 0;
    while (error == 0 && depot_index_capacity(index) / 100 * INDEX_LOAD_TO_GROW < entries)
        error = grow(index);
    return error;
}

/* Words in which a place is looked for without a lock: most often the first is empty. */
#define WORDS_FIRST 8

/* Put an entry where depot_index_put() would. @return false: that is not so simple */
static bool put_simply(struct depot_index *index, uint64_t hash, uint64_t address, uint32_t size)
{
    const struct depot_index_home home = depot_index_home_of(index, hash);
    const struct depot_index_directory *directory = depot_index_directory_now(index);
    const struct depot_index_table *table = &directory->tables[home.tag & directory->mask];
    _Atomic uint64_t *words = &table->words[home.position];
    /* Relaxed: nobody else is here. During a growth not all regions live. */
    if (home.first < WORDS_FIRST || atomic_load_explicit(&index->growing, memory_order_relaxed))
        return false;
    for (uint32_t i = 0; i < WORDS_FIRST; i++) {
        if (depot_index_load_word(&words[i]) != 0)
            continue;
        depot_index_store_word(&words[i], depot_index_word_make(index, home.tag, address, size) | i);
        depot_index_note_used(index, &table->regions[home.region], 1);
        return true;
    }
    return false;
}

void depot_index_load_prefetch(const struct depot_index *index, uint64_t hash)
{
    const struct depot_index_home home = depot_index_home_of(index, hash);
    const struct depot_index_directory *directory = depot_index_directory_now(index);
    __builtin_prefetch(&directory->tables[home.tag & directory->mask].words[home.position], 1);
}

int depot_index_load(struct depot_index *index, uint64_t hash, uint64_t address, uint64_t grains)
{
    base_assert(address > 0 && address < index->address_mask);
    uint32_t size = seglog_length_class(grains);
    int result = put_simply(index, hash, address, size) ? 0 : depot_index_put(index, hash, address, size);
    if (result == -EAGAIN) {
        result = grow(index);
        if (result == 0)
            result = depot_index_put(index, hash, address, size);
        base_assert(result != -EAGAIN); /* it is half empty now */
    }
    if (result != 0)
        return result;
    if (depot_index_wants_growth(index))
        (void)grow(index); /* advice: where it cannot, the entries find places for a while */
    return 0;
}

/* Entries that were put into one region and are not counted there yet. */
struct uncounted {
    struct depot_index_region *region;
    int count;
};

static void count_them(struct depot_index *index, struct uncounted *uncounted)
{
    if (uncounted->count > 0)
        depot_index_note_used(index, uncounted->region, uncounted->count);
    uncounted->count = 0;
}

/* Put an entry where its word says that it was. @return false: another one is there */
static bool put_back(struct depot_index *index, const struct depot_index_item *item,
                     struct uncounted *uncounted)
{
    const struct depot_index_home home = depot_index_home_of(index, item->hash);
    const struct depot_index_directory *directory = depot_index_directory_now(index);
    const struct depot_index_table *table = &directory->tables[home.tag & directory->mask];
    uint64_t at = home.position + (item->word & INDEX_OFFSET_MASK);
    struct depot_index_region *region =
        &table->regions[base_min(at >> INDEX_REGION_BITS, index->regions - 1)];
    uint64_t kept = index->address_mask << INDEX_ADDRESS_SHIFT |
                    depot_index_low_mask(DEPOT_SIZE_BITS) << INDEX_SIZE_SHIFT | INDEX_HIT_MASK |
                    INDEX_OFFSET_MASK;
    if (depot_index_load_word(&table->words[at]) != 0)
        return false;
    if (region != uncounted->region)
        count_them(index, uncounted);
    depot_index_store_word(&table->words[at], home.tag << index->tag_shift | (item->word & kept));
    uncounted->region = region;
    uncounted->count++;
    return true;
}

int depot_index_load_items(struct depot_index *index, const struct depot_index_item *items, uint32_t count)
{
    struct uncounted uncounted = {.count = 0};
    int error = 0;
    /* Relaxed: nobody else is here. During a growth not all regions live. */
    base_assert(!atomic_load_explicit(&index->growing, memory_order_relaxed));
    for (uint32_t i = 0; error == 0 && i < count; i++) {
        uint64_t address = depot_index_word_address(index, items[i].word);
        base_assert(address > 0 && address < index->address_mask);
        if (put_back(index, &items[i], &uncounted))
            continue;
        count_them(index, &uncounted);
        error = depot_index_load(index, items[i].hash, address, depot_index_grains(index, items[i].word));
        uint64_t word;
        if (error == 0 && depot_index_is_hit(items[i].word) &&
            depot_index_look(index, items[i].hash, address, &word))
            depot_index_hit(index, items[i].hash, word);
    }
    count_them(index, &uncounted);
    return error;
}
