/* The index of a store: a table for each stripe, and what flush_all says about all of them. */
#include "depot/depot_internal.h"

struct depot_stripe *depot_stripe_of(struct tarn_depot *depot, const struct base_hash128 *hash)
{
    return &depot->stripes[hash->high % DEPOT_STRIPES]; /* the table's slots go by the low half */
}

bool depot_table_find(struct depot_stripe *stripe, const struct base_hash128 *hash,
                      struct depot_entry *ret_entry)
{
    base_spin_lock(&stripe->lock);
    const struct depot_entry *entry = depot_index_find(&stripe->index, hash);
    if (entry != NULL)
        *ret_entry = *entry;
    base_spin_unlock(&stripe->lock);
    return entry != NULL;
}

int depot_table_reserve(struct tarn_depot *depot, struct depot_stripe *stripe)
{
    if (!depot_index_full(&stripe->index))
        return 0;
    struct depot_index larger;
    int error = depot_index_grow(&stripe->index, &depot->node->memory, &larger);
    if (error != 0)
        return error;
    uint64_t more = larger.capacity - stripe->index.capacity;
    base_spin_lock(&stripe->lock);
    struct depot_index old = stripe->index;
    stripe->index = larger;
    base_spin_unlock(&stripe->lock);
    depot_index_clear(&old, &depot->node->memory);
    atomic_fetch_add_explicit(&depot->index_bytes, more * sizeof(struct depot_entry), memory_order_relaxed);
    return 0;
}

static void count_record(struct tarn_depot *depot, const struct depot_entry *entry, uint64_t key_bytes,
                         bool add)
{
    uint64_t bytes = depot_record_bytes((uint32_t)key_bytes, entry->value_bytes);
    atomic_fetch_add_explicit(&depot->records, add ? 1 : UINT64_MAX, memory_order_relaxed);
    atomic_fetch_add_explicit(&depot->live_bytes, add ? bytes : -bytes, memory_order_relaxed);
}

void depot_table_put(struct tarn_depot *depot, struct depot_stripe *stripe, const struct depot_entry *entry,
                     uint64_t key_bytes)
{
    struct depot_entry old;
    base_spin_lock(&stripe->lock);
    const struct depot_entry *found = depot_index_find(&stripe->index, &entry->hash);
    if (found != NULL)
        old = *found;
    depot_index_put(&stripe->index, entry);
    base_spin_unlock(&stripe->lock);
    if (found != NULL)
        count_record(depot, &old, key_bytes, false);
    count_record(depot, entry, key_bytes, true);
}

void depot_table_remove(struct tarn_depot *depot, struct depot_stripe *stripe,
                        const struct base_hash128 *hash, uint64_t key_bytes)
{
    struct depot_entry old;
    base_spin_lock(&stripe->lock);
    struct depot_entry *found = depot_index_find(&stripe->index, hash);
    if (found != NULL) {
        old = *found;
        depot_index_remove(&stripe->index, found);
    }
    base_spin_unlock(&stripe->lock);
    if (found != NULL)
        count_record(depot, &old, key_bytes, false);
}

void depot_table_clear_all(struct tarn_depot *depot)
{
    for (uint32_t i = 0; i < DEPOT_STRIPES; i++) {
        struct depot_stripe *stripe = &depot->stripes[i];
        base_spin_lock(&stripe->lock);
        struct depot_index old = stripe->index;
        stripe->index = (struct depot_index){.slots = NULL};
        base_spin_unlock(&stripe->lock);
        depot_index_clear(&old, &depot->node->memory);
    }
    atomic_store_explicit(&depot->records, 0, memory_order_relaxed);
    atomic_store_explicit(&depot->live_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&depot->index_bytes, 0, memory_order_relaxed);
}

/*
 * A new order takes the place of one that is pending. One whose moment has come before stays in force:
 * its moment becomes the version below which all is gone. For a moment that is not later than the
 * record, all that was stored before the record is gone, which is all there is.
 */
void depot_flush_order(struct tarn_depot *depot, uint64_t stamp, uint64_t when_ns)
{
    uint64_t flushed_version = atomic_load_explicit(&depot->flushed_version, memory_order_relaxed);
    uint64_t pending_ns = atomic_load_explicit(&depot->flush_when_ns, memory_order_relaxed);
    bool at_once = when_ns <= stamp;
    if (pending_ns != 0 && pending_ns <= stamp)
        flushed_version = base_max(flushed_version, pending_ns);
    if (at_once)
        flushed_version = stamp;
    /* release: a reader that sees the pending order replaced sees what it has left in force */
    atomic_store_explicit(&depot->flushed_version, flushed_version, memory_order_release);
    atomic_store_explicit(&depot->flush_when_ns, at_once ? 0 : when_ns, memory_order_release);
    if (at_once)
        depot_table_clear_all(depot);
}
