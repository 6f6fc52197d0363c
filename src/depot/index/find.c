/* Reading: without a lock, unless others disturb. */
#include "depot/index/index_internal.h"

#define TRIES_BEFORE_LOCKING 16

/* The region that lives at a place for a tag, and its sequence. @return false: it is being changed */
static inline bool sample(const struct depot_index *index, uint64_t tag, uint64_t number,
                          struct depot_index_part *ret_part, uint64_t *ret_sequence)
{
    const struct depot_index_directory *directory = depot_index_directory_now(index);
    uint64_t table = tag & directory->mask;
    struct depot_index_region *region = &directory->tables[table].regions[number];
    /* Relaxed: if it lives, what follows looks again. */
    if (base_unlikely(atomic_load_explicit(&region->depth, memory_order_relaxed) == 0)) {
        table &= directory->mask >> 1;
        region = &directory->tables[table].regions[number];
    }
    /* Pairs with the release in depot_index_change_end. */
    *ret_sequence = atomic_load_explicit(&region->sequence, memory_order_acquire);
    *ret_part = (struct depot_index_part){region, directory->tables[table].words, table};
    return *ret_sequence % 2 == 0 && depot_index_region_is_for(region, table, tag);
}

/* Whether all words that were read since the sequences were sampled are of one moment. */
static inline bool is_undisturbed(const struct depot_index_view *view)
{
    /* Pairs with the release fence in depot_index_change_begin. */
    atomic_thread_fence(memory_order_acquire);
    for (size_t i = 0; i < base_array_count(view->regions); i++) {
        if (view->regions[i] != NULL &&
            /* relaxed: the fence orders it */
            atomic_load_explicit(&view->regions[i]->sequence, memory_order_relaxed) != view->sequences[i])
            return false;
    }
    return true;
}

static __attribute__((noinline)) void take_stash(const struct depot_index *index,
                                                 const struct depot_index_home *home,
                                                 const struct depot_index_region *region, uint32_t count,
                                                 struct depot_index_view *view)
{
    for (uint32_t i = 0; i < count; i++) {
        /* Relaxed: the sequence or the lock orders it. */
        if (atomic_load_explicit(&region->stash_homes[i], memory_order_relaxed) !=
            home->position % DEPOT_REGION_ENTRIES)
            continue;
        uint64_t word = depot_index_load_word(&region->stash[i]);
        if (word != 0 && depot_index_word_tag(index, word) == home->tag &&
            !depot_index_word_is_reserved(index, word))
            view->words[view->count++] = word;
    }
}

/* What matches now, in a neighbourhood whose first words lie behind `near`, the others behind `far`. What
 * others change meanwhile may make it nonsense, but not overflow. */
static inline void take_home(const struct depot_index *index, const struct depot_index_home *home,
                             const struct depot_index_part *near, const struct depot_index_part *far,
                             uint32_t matches, struct depot_index_view *view)
{
    view->count = 0;
    for (; matches != 0; matches &= matches - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(matches);
        const _Atomic uint64_t *words = i < home->first ? near->words : far->words;
        uint64_t word = depot_index_load_word(&words[home->position + i]);
        /* An empty word looks like tag 0 at offset 0; others may have come or gone since the match. */
        if (word != 0 && !depot_index_word_is_reserved(index, word))
            view->words[view->count++] = word;
    }
    /* Relaxed: the sequence or the lock orders it. */
    uint32_t count = atomic_load_explicit(&near->region->stash_count, memory_order_relaxed);
    if (base_unlikely(count != 0))
        take_stash(index, home, near->region, count, view);
}

/* The neighbourhood lies in one region: almost always. */
static inline bool try_one(const struct depot_index *index, const struct depot_index_home *home,
                           struct depot_index_view *view)
{
    struct depot_index_part part;
    if (!sample(index, home->tag, home->region, &part, &view->sequences[0]))
        return false;
    view->regions[0] = part.region;
    view->regions[1] = NULL;
    uint64_t first = home->tag << index->tag_shift;
    take_home(index, home, &part, &part,
              depot_index_match(index, &part.words[home->position], index->match_mask, first, 1), view);
    return is_undisturbed(view);
}

static __attribute__((noinline)) bool
try_two(const struct depot_index *index, const struct depot_index_home *home, struct depot_index_view *view)
{
    struct depot_index_part parts[2];
    for (size_t i = 0; i < base_array_count(parts); i++) {
        if (!sample(index, home->tag, home->region + i, &parts[i], &view->sequences[i]))
            return false;
        view->regions[i] = parts[i].region;
    }
    take_home(index, home, &parts[0], &parts[1], depot_index_match_home(index, home, parts), view);
    return is_undisturbed(view);
}

static __attribute__((noinline)) void find_with_lock(const struct depot_index *index, uint64_t hash,
                                                     struct depot_index_view *view)
{
    struct depot_index_held held;
    depot_index_hold(index, hash, &held);
    for (size_t i = 0; i < base_array_count(held.parts); i++) {
        view->regions[i] = held.parts[i].region;
        if (view->regions[i] != NULL) /* relaxed: under the lock */
            view->sequences[i] = atomic_load_explicit(&view->regions[i]->sequence, memory_order_relaxed);
    }
    take_home(index, &held.home, &held.parts[0], &held.parts[1],
              depot_index_match_home(index, &held.home, held.parts), view);
    depot_index_release(&held);
}

void depot_index_find(struct depot_index *index, uint64_t hash, struct depot_index_view *ret_view)
{
    struct depot_index_home home = depot_index_home_of(index, hash);
    ret_view->hash = hash;
    for (uint32_t i = 0; i < TRIES_BEFORE_LOCKING; i++) {
        bool is_found = base_likely(home.first == DEPOT_NEIGHBOURHOOD) ? try_one(index, &home, ret_view)
                                                                       : try_two(index, &home, ret_view);
        if (base_likely(is_found))
            return;
    }
    find_with_lock(index, hash, ret_view);
}

bool depot_index_unchanged(const struct depot_index_view *view)
{
    return is_undisturbed(view);
}

bool depot_index_holds(struct depot_index *index, uint64_t hash, uint64_t word)
{
    struct depot_index_view view;
    depot_index_find(index, hash, &view);
    for (uint32_t i = 0; i < view.count; i++) {
        if (depot_index_is_same(view.words[i], word))
            return true;
    }
    return false;
}

bool depot_index_look(struct depot_index *index, uint64_t hash, uint64_t address, uint64_t *ret_word)
{
    struct depot_index_view view;
    depot_index_find(index, hash, &view);
    for (uint32_t i = 0; i < view.count; i++) {
        if (depot_index_word_address(index, view.words[i]) == address) {
            *ret_word = view.words[i];
            return true;
        }
    }
    return false;
}

bool depot_index_has(struct depot_index *index, uint64_t hash, uint64_t address)
{
    uint64_t word;
    return depot_index_look(index, hash, address, &word);
}

/* ---- hits --------------------------------------------------------------------------------------- */

bool depot_index_is_same(uint64_t word, uint64_t other)
{
    /* An entry that was displaced has another offset. */
    return ((word ^ other) & ~(uint64_t)(INDEX_OFFSET_MASK | INDEX_HIT_MASK)) == 0;
}

bool depot_index_is_hit(uint64_t word)
{
    return (word & INDEX_HIT_MASK) != 0;
}

uint64_t depot_index_mark(uint64_t word, bool hit)
{
    return hit ? word | INDEX_HIT_MASK : word & ~(uint64_t)INDEX_HIT_MASK;
}

/*
 * Without the region's lock: one word changes from what it was to the same with the mark, and in no other
 * case. README, "Hits", has why that is safe beside who holds the lock. Relaxed: nothing depends on the mark.
 */
static bool mark(_Atomic uint64_t *at, uint64_t word)
{
    return atomic_compare_exchange_strong_explicit(at, &word, word | INDEX_HIT_MASK, memory_order_relaxed,
                                                   memory_order_relaxed);
}

void depot_index_hit(struct depot_index *index, uint64_t hash, uint64_t word)
{
    if (base_likely(depot_index_is_hit(word)))
        return;
    const struct depot_index_home home = depot_index_home_of(index, hash);
    uint64_t position = home.position + (word & INDEX_OFFSET_MASK);
    uint64_t number = base_min(position >> INDEX_REGION_BITS, index->regions - 1);
    struct depot_index_part part;
    uint64_t sequence;
    if (!sample(index, home.tag, number, &part, &sequence) || mark(&part.words[position], word) ||
        number != home.region)
        return;
    /* Relaxed: a stash that changes meanwhile loses the mark. */
    uint32_t count = atomic_load_explicit(&part.region->stash_count, memory_order_relaxed);
    for (uint32_t i = 0; i < count && !mark(&part.region->stash[i], word); i++) {
    }
}
