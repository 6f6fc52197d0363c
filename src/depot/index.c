/* The hash table of a stripe. */
#include "depot/index.h"
#include <errno.h>

#define CAPACITY_MIN 16

static uint64_t home_of(const struct depot_index *index, const struct depot_entry *entry)
{
    return entry->hash.low & (index->capacity - 1);
}

static uint64_t next_to(const struct depot_index *index, uint64_t slot)
{
    return (slot + 1) & (index->capacity - 1);
}

struct depot_entry *depot_index_find(const struct depot_index *index, const struct base_hash128 *hash)
{
    if (index->count == 0)
        return NULL;
    uint64_t slot = hash->low & (index->capacity - 1);
    while (index->slots[slot].address != 0) {
        struct depot_entry *entry = &index->slots[slot];
        if (entry->hash.low == hash->low && entry->hash.high == hash->high)
            return entry;
        slot = next_to(index, slot);
    }
    return NULL;
}

bool depot_index_full(const struct depot_index *index)
{
    return (index->count + 1) * 4 > index->capacity * 3;
}

int depot_index_grow(const struct depot_index *index, struct base_account *account,
                     struct depot_index *ret_larger)
{
    struct depot_index larger = {.capacity = base_max(index->capacity * 2, (uint64_t)CAPACITY_MIN)};
    larger.slots = base_alloc(account, larger.capacity * sizeof(*larger.slots));
    if (larger.slots == NULL)
        return -ENOMEM;
    for (uint64_t slot = 0; slot < index->capacity; slot++) {
        if (index->slots[slot].address != 0)
            depot_index_put(&larger, &index->slots[slot]);
    }
    *ret_larger = larger;
    return 0;
}

void depot_index_put(struct depot_index *index, const struct depot_entry *entry)
{
    base_assert(entry->address != 0);
    struct depot_entry *old = depot_index_find(index, &entry->hash);
    if (old != NULL) {
        *old = *entry;
        return;
    }
    base_assert(!depot_index_full(index));
    uint64_t slot = home_of(index, entry);
    while (index->slots[slot].address != 0)
        slot = next_to(index, slot);
    index->slots[slot] = *entry;
    index->count++;
}

/*
 * Close the gap: an entry behind it moves in, unless its home lies cyclically in (gap, entry], from
 * where a search would not pass the gap.
 */
void depot_index_remove(struct depot_index *index, struct depot_entry *slot)
{
    uint64_t mask = index->capacity - 1;
    uint64_t gap = (uint64_t)(slot - index->slots);
    uint64_t from = next_to(index, gap);
    while (index->slots[from].address != 0) {
        uint64_t home = home_of(index, &index->slots[from]);
        if (((from - home) & mask) >= ((from - gap) & mask)) {
            index->slots[gap] = index->slots[from];
            gap = from;
        }
        from = next_to(index, from);
    }
    index->slots[gap] = (struct depot_entry){.address = 0};
    index->count--;
}

void depot_index_clear(struct depot_index *index, struct base_account *account)
{
    base_free(account, index->slots, index->capacity * sizeof(*index->slots));
    *index = (struct depot_index){.slots = NULL};
}
