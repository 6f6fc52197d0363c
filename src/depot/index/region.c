/* Regions: finding the one that lives, locking it, what matches in it, counting. */
#include "depot/index/index_internal.h"

uint32_t depot_index_match_parts(const struct depot_index *index, const struct depot_index_home *home,
                                 const struct depot_index_part *parts, uint64_t mask, uint64_t first,
                                 uint64_t step)
{
    _Atomic uint64_t words[DEPOT_NEIGHBOURHOOD];
    for (uint32_t i = 0; i < DEPOT_NEIGHBOURHOOD; i++)
        atomic_init(&words[i], depot_index_load_word(&parts[i >= home->first].words[home->position + i]));
    return depot_index_match(index, words, mask, first, step);
}

struct depot_index_part depot_index_lock_part(const struct depot_index *index, uint64_t tag, uint64_t number)
{
    for (;;) {
        const struct depot_index_directory *directory = depot_index_directory_now(index);
        uint64_t table = tag & directory->mask;
        struct depot_index_region *region = &directory->tables[table].regions[number];
        /* Relaxed: looked at again under the lock. */
        if (atomic_load_explicit(&region->depth, memory_order_relaxed) == 0) {
            table &= directory->mask >> 1;
            region = &directory->tables[table].regions[number];
        }
        base_spin_lock(&region->lock);
        if (depot_index_region_is_for(region, table, tag))
            return (struct depot_index_part){region, directory->tables[table].words, table};
        base_spin_unlock(&region->lock); /* it was split or merged meanwhile */
    }
}

void depot_index_prefetch(const struct depot_index *index, uint64_t hash)
{
    const struct depot_index_directory *directory = depot_index_directory_now(index);
    const struct depot_index_home home = depot_index_home_of(index, hash);
    const struct depot_index_table *table = &directory->tables[home.tag & directory->mask];
    const _Atomic uint64_t *words = &table->words[home.position];
    __builtin_prefetch(&table->regions[home.region]);
    for (uint32_t i = 0; i < DEPOT_NEIGHBOURHOOD; i += BASE_CACHE_LINE_BYTES / sizeof(*words))
        __builtin_prefetch(&words[i]);
    __builtin_prefetch(&words[DEPOT_NEIGHBOURHOOD - 1]);
}

void depot_index_hold(const struct depot_index *index, uint64_t hash, struct depot_index_held *ret_held)
{
    ret_held->home = depot_index_home_of(index, hash);
    const struct depot_index_home *home = &ret_held->home;
    ret_held->parts[0] = depot_index_lock_part(index, home->tag, home->region);
    if (home->first < DEPOT_NEIGHBOURHOOD)
        ret_held->parts[1] = depot_index_lock_part(index, home->tag, home->region + 1);
    else
        ret_held->parts[1].region = NULL;
}

void depot_index_release(struct depot_index_held *held)
{
    for (size_t i = 0; i < base_array_count(held->parts); i++) {
        if (held->parts[i].region != NULL)
            base_spin_unlock(&held->parts[i].region->lock);
    }
}

static bool find_in_stash(const struct depot_index *index, const struct depot_index_held *held,
                          uint64_t address, struct depot_index_slot *ret_slot)
{
    const struct depot_index_home *home = &held->home;
    struct depot_index_region *region = held->parts[0].region;
    uint64_t wanted = depot_index_word_make(index, home->tag, address, 0);
    uint64_t same = index->match_mask | index->address_mask << INDEX_ADDRESS_SHIFT;
    /* Relaxed: under the lock. */
    uint32_t count = atomic_load_explicit(&region->stash_count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        if (((depot_index_load_word(&region->stash[i]) ^ wanted) & same) == 0 &&
            atomic_load_explicit(&region->stash_homes[i], memory_order_relaxed) ==
                home->position % DEPOT_REGION_ENTRIES) {
            *ret_slot = (struct depot_index_slot){region, &region->stash[i], i};
            return true;
        }
    }
    return false;
}

bool depot_index_held_find(const struct depot_index *index, const struct depot_index_held *held,
                           uint64_t address, struct depot_index_slot *ret_slot)
{
    const struct depot_index_home *home = &held->home;
    uint32_t matches = depot_index_match_home(index, home, held->parts);
    for (; matches != 0; matches &= matches - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(matches);
        const struct depot_index_part *part = &held->parts[i >= home->first];
        _Atomic uint64_t *word = &part->words[home->position + i];
        if (depot_index_word_address(index, depot_index_load_word(word)) == address) {
            *ret_slot = (struct depot_index_slot){part->region, word, DEPOT_STASH_ENTRIES};
            return true;
        }
    }
    return find_in_stash(index, held, address, ret_slot);
}

/* Relaxed, all of it, in the next two: the lock and the sequence order it. */
void depot_index_stash_push(struct depot_index_region *region, uint64_t word, uint16_t home)
{
    uint8_t count = atomic_load_explicit(&region->stash_count, memory_order_relaxed);
    base_assert(count < DEPOT_STASH_ENTRIES);
    atomic_store_explicit(&region->stash_homes[count], home, memory_order_relaxed);
    depot_index_store_word(&region->stash[count], word);
    atomic_store_explicit(&region->stash_count, (uint8_t)(count + 1), memory_order_relaxed);
}

void depot_index_stash_take(struct depot_index_region *region, uint32_t place)
{
    uint8_t last = (uint8_t)(atomic_load_explicit(&region->stash_count, memory_order_relaxed) - 1);
    base_assert(place <= last && last < DEPOT_STASH_ENTRIES);
    uint16_t home = atomic_load_explicit(&region->stash_homes[last], memory_order_relaxed);
    atomic_store_explicit(&region->stash_homes[place], home, memory_order_relaxed);
    depot_index_store_word(&region->stash[place], depot_index_load_word(&region->stash[last]));
    depot_index_store_word(&region->stash[last], 0);
    atomic_store_explicit(&region->stash_count, last, memory_order_relaxed);
}

void depot_index_note_dead(struct depot_index *index, struct depot_index_region *region)
{
    /* Relaxed: as in the next. */
    atomic_store_explicit(&region->used, 0, memory_order_relaxed);
    atomic_fetch_sub_explicit(&index->settled_count, region->settled, memory_order_relaxed);
    region->settled = 0;
}

void depot_index_note_used(struct depot_index *index, struct depot_index_region *region, int change)
{
    /* Relaxed, all of it: the lock orders writers, and readers add up what they find. */
    int used = atomic_load_explicit(&region->used, memory_order_relaxed) + change;
    atomic_store_explicit(&region->used, (uint16_t)used, memory_order_relaxed);
    int rest = used - region->settled;
    if (rest < INDEX_USED_REST && rest > -INDEX_USED_REST)
        return;
    region->settled = (uint16_t)used;
    atomic_fetch_add_explicit(&index->settled_count, (uint64_t)(int64_t)rest, memory_order_relaxed);
}
