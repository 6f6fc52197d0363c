/* Changing entries: a new one in two steps, moving, removing. */
#include "depot/index/index_internal.h"
#include <errno.h>

/* Inner outcomes: look again. */
enum {
    SPLIT_FIRST = 1, /* a region was split */
    COPY_FIRST,      /* a snapshot needs one as it is */
};

/* ---- finding a place ---------------------------------------------------------------------------- */

/*
 * An entry, with offset 0, that is to be put into an empty word. It is a reserved one, which no reader sees, or it is
 * being loaded, when there are none: so that no sequence has to change.
 */
static void fill_part(struct depot_index *index, const struct depot_index_part *part,
                      const struct depot_index_home *home, uint32_t offset, uint64_t word)
{
    depot_index_store_word(&part->words[home->position + offset], word | offset);
    depot_index_note_used(index, part->region, 1);
}

static bool fill_neighbourhood(struct depot_index *index, const struct depot_index_held *held, uint64_t word)
{
    uint32_t empty = depot_index_match_empty(index, &held->home, held->parts);
    if (empty == 0)
        return false;
    uint32_t i = (uint32_t)__builtin_ctz(empty);
    fill_part(index, &held->parts[i >= held->home.first], &held->home, i, word);
    return true;
}

static bool fill_stash(struct depot_index *index, const struct depot_index_held *held, uint64_t word)
{
    const struct depot_index_home *home = &held->home;
    struct depot_index_region *region = held->parts[0].region;
    /* Relaxed: under the lock. */
    if (atomic_load_explicit(&region->stash_count, memory_order_relaxed) == DEPOT_STASH_ENTRIES)
        return false;
    depot_index_stash_push(region, word, (uint16_t)(home->position % DEPOT_REGION_ENTRIES));
    depot_index_note_used(index, region, 1);
    return true;
}

/* ---- displacing --------------------------------------------------------------------------------- */

/* An empty word moves towards a home: what lies before it, and may as well lie in it, takes its place. */
struct hole {
    struct depot_index *index;
    const struct depot_index_held *held;
    uint64_t split; /* the first position of the second region */
    uint64_t at;
};

static const struct depot_index_part *part_at(const struct hole *hole, uint64_t position)
{
    return &hole->held->parts[position >= hole->split];
}

/* The first empty word from a position on; `end` if there is none. */
static uint64_t next_empty(const struct hole *hole, uint64_t position, uint64_t end)
{
    while (position < end) {
        const struct depot_index_part *part = part_at(hole, position);
        uint64_t part_end = position < hole->split ? base_min(hole->split, end) : end;
        uint32_t empty = part_end - position >= DEPOT_NEIGHBOURHOOD
                             ? depot_index_match(hole->index, &part->words[position], UINT64_MAX, 0, 0)
                             : depot_index_load_word(&part->words[position]) == 0;
        if (empty != 0)
            return position + (uint32_t)__builtin_ctz(empty);
        position += part_end - position >= DEPOT_NEIGHBOURHOOD ? DEPOT_NEIGHBOURHOOD : 1;
    }
    return end;
}

static void move(struct hole *hole, uint64_t from)
{
    const struct depot_index_part *source = part_at(hole, from);
    const struct depot_index_part *target = part_at(hole, hole->at);
    uint64_t word = depot_index_load_word(&source->words[from]);
    depot_index_change_begin(source->region);
    if (target->region != source->region)
        depot_index_change_begin(target->region);
    depot_index_store_word(&target->words[hole->at], word + (hole->at - from)); /* a larger offset */
    depot_index_store_word(&source->words[from], 0);
    if (target->region != source->region) {
        depot_index_change_end(target->region);
        depot_index_note_used(hole->index, target->region, 1);
        depot_index_note_used(hole->index, source->region, -1);
    }
    depot_index_change_end(source->region);
    hole->at = from;
}

/* Move the hole as far back as one entry allows. @return false: none may lie where the hole is */
static bool move_back(struct hole *hole)
{
    for (uint64_t from = hole->at - (DEPOT_NEIGHBOURHOOD - 1); from < hole->at; from++) {
        uint64_t word = depot_index_load_word(&part_at(hole, from)->words[from]);
        if ((word & INDEX_OFFSET_MASK) + (hole->at - from) < DEPOT_NEIGHBOURHOOD) {
            move(hole, from);
            return true;
        }
    }
    return false;
}

/* Whether whatever lies in the first region may lie in the second: always, unless the index shrinks and has come to
 * just this place. */
static bool leads_on(const struct depot_index_held *held)
{
    /* Relaxed: under the locks. */
    return held->parts[1].region != NULL &&
           atomic_load_explicit(&held->parts[1].region->depth, memory_order_relaxed) <=
               atomic_load_explicit(&held->parts[0].region->depth, memory_order_relaxed);
}

/* Make room in a full neighbourhood. */
static bool displace(struct depot_index *index, const struct depot_index_held *held, uint64_t word)
{
    const struct depot_index_home *home = &held->home;
    bool is_last = !leads_on(held);
    struct hole hole = {.index = index, .held = held};
    hole.split = is_last ? UINT64_MAX : depot_index_region_end(index, home->region);
    uint64_t end = depot_index_region_end(index, home->region + !is_last);
    uint64_t outside = home->position + DEPOT_NEIGHBOURHOOD;
    hole.at = next_empty(&hole, outside, end);
    if (hole.at == end)
        return false;
    while (hole.at >= outside) {
        if (!move_back(&hole))
            return false; /* so would every other hole end here */
    }
    fill_part(index, part_at(&hole, hole.at), home, (uint32_t)(hole.at - home->position), word);
    return true;
}

/* ---- reserving ---------------------------------------------------------------------------------- */

/* Split what a growth has not come to of the regions that are held. @return whether there was any */
static bool split_held(struct depot_index *index, const struct depot_index_held *held)
{
    /* Pairs with the release in shrink.c's end: a caller that finds that it has ended finds the smaller directory. */
    if (atomic_load_explicit(&index->shrinking, memory_order_acquire))
        return false;
    uint32_t bits = depot_index_directory_now(index)->bits;
    bool any = false;
    for (size_t i = 0; i < base_array_count(held->parts); i++) {
        const struct depot_index_part *part = &held->parts[i];
        /* Relaxed: under the lock. */
        if (part->region == NULL || atomic_load_explicit(&part->region->depth, memory_order_relaxed) > bits)
            continue;
        depot_index_split_locked(index, part, held->home.region + i);
        any = true;
    }
    return any;
}

/* The neighbourhood is full. @return 0, SPLIT_FIRST, COPY_FIRST, -EAGAIN or -ENOSPC */
static int put_crowded(struct depot_index *index, struct depot_index_held *held, uint64_t word)
{
    const struct depot_index_home *home = &held->home;
    if (held->parts[1].region == NULL && home->region + 1 < index->regions)
        held->parts[1] = depot_index_lock_part(index, home->tag, home->region + 1);
    if (depot_index_held_wants_copy(index, held))
        return COPY_FIRST;
    if (split_held(index, held))
        return SPLIT_FIRST;
    if (displace(index, held, word) || fill_stash(index, held, word))
        return 0;
    return depot_index_load_reaches(index, INDEX_LOAD_TO_TRUST) ? -EAGAIN : -ENOSPC;
}

int depot_index_put(struct depot_index *index, uint64_t hash, uint64_t address, uint32_t size)
{
    int result;
    /* Taking a lock makes the processor wait for all that came before, and with what comes after. */
    depot_index_prefetch(index, hash);
    do {
        struct depot_index_held held;
        depot_index_hold(index, hash, &held);
        uint64_t word = depot_index_word_make(index, held.home.tag, address, size);
        result = fill_neighbourhood(index, &held, word) ? 0 : put_crowded(index, &held, word);
        depot_index_release(&held);
        if (base_unlikely(result == COPY_FIRST))
            depot_index_preserve_home(index, hash);
    } while (result > 0);
    return result;
}

int depot_index_reserve(struct depot_index *index, uint64_t hash)
{
    return depot_index_put(index, hash, index->address_mask, 0);
}

/* ---- entries that are there --------------------------------------------------------------------- */

static uint64_t word_with(const struct depot_index *index, uint64_t old_word, uint64_t address,
                          uint64_t grains)
{
    base_assert(address > 0 && address < index->address_mask);
    return depot_index_word_make(index, depot_index_word_tag(index, old_word), address,
                                 seglog_length_class(grains)) |
           (old_word & INDEX_OFFSET_MASK);
}

static void change(const struct depot_index_slot *slot, uint64_t word)
{
    depot_index_change_begin(slot->region);
    depot_index_store_word(slot->word, word);
    depot_index_change_end(slot->region);
}

/* Take an entry out, in a way that no reader sees more than that. @return it */
static uint64_t take_out(struct depot_index *index, const struct depot_index_slot *slot)
{
    uint64_t word = depot_index_load_word(slot->word);
    depot_index_change_begin(slot->region);
    if (slot->stash_place < DEPOT_STASH_ENTRIES)
        depot_index_stash_take(slot->region, slot->stash_place);
    else
        depot_index_store_word(slot->word, 0);
    depot_index_change_end(slot->region);
    depot_index_note_used(index, slot->region, -1);
    return word;
}

void depot_index_publish(struct depot_index *index, uint64_t hash, uint64_t address, uint64_t grains)
{
    struct depot_index_held held;
    struct depot_index_slot slot;
    depot_index_hold_to_change(index, hash, &held);
    bool is_there = depot_index_held_find(index, &held, index->address_mask, &slot);
    base_assert(is_there);
    change(&slot, word_with(index, depot_index_load_word(slot.word), address, grains));
    depot_index_release(&held);
}

void depot_index_cancel(struct depot_index *index, uint64_t hash)
{
    struct depot_index_held held;
    struct depot_index_slot slot;
    depot_index_hold_to_change(index, hash, &held);
    bool is_there = depot_index_held_find(index, &held, index->address_mask, &slot);
    base_assert(is_there);
    (void)take_out(index, &slot);
    depot_index_release(&held);
}

bool depot_index_replace(struct depot_index *index, uint64_t hash, uint64_t address, uint64_t new_address,
                         uint64_t new_grains)
{
    struct depot_index_held held;
    struct depot_index_slot slot;
    base_assert(address < index->address_mask);
    depot_index_hold_to_change(index, hash, &held);
    bool is_there = depot_index_held_find(index, &held, address, &slot);
    if (is_there) {
        uint64_t old_word = depot_index_load_word(slot.word);
        change(&slot, word_with(index, old_word, new_address, new_grains));
    }
    depot_index_release(&held);
    return is_there;
}

bool depot_index_take(struct depot_index *index, uint64_t hash, uint64_t address, uint64_t *ret_word)
{
    struct depot_index_held held;
    struct depot_index_slot slot;
    base_assert(address < index->address_mask);
    depot_index_hold_to_change(index, hash, &held);
    bool is_there = depot_index_held_find(index, &held, address, &slot);
    if (is_there)
        *ret_word = take_out(index, &slot);
    depot_index_release(&held);
    return is_there;
}

bool depot_index_remove(struct depot_index *index, uint64_t hash, uint64_t address)
{
    uint64_t word;
    return depot_index_take(index, hash, address, &word);
}
