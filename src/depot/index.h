/*
 * The index of one stripe of the keys: an ordinary hash table in memory, open addressing with linear
 * probing, from the 128-bit hash of a key to where its record is. Whole keys are not kept: two keys of
 * one hash are told apart by the record, and are not expected before the end of the world.
 *
 * No lock inside: whoever changes a table holds the stripe's key lock; swapping a grown table in,
 * changing entries and looking up are under the stripe's spin lock (depot_internal.h).
 */
#ifndef DEPOT_INDEX_H
#define DEPOT_INDEX_H

#include "base/base.h"

struct depot_entry {
    struct base_hash128 hash;
    uint64_t address; /* of the record on the drive; 0: the slot is empty */
    uint64_t version;
    uint64_t expiry_ns;
    uint32_t client_flags;
    uint32_t value_bytes;
};
_Static_assert(sizeof(struct depot_entry) == 48, "the README tells users what a record costs in memory");

/* All zero is an empty index. */
struct depot_index {
    struct depot_entry *slots;
    uint64_t capacity; /* 0 or a power of two */
    uint64_t count;
};

/**
 * Find an entry.
 *
 * @return its slot, good until the index is changed; NULL
 */
struct depot_entry *depot_index_find(const struct depot_index *index, const struct base_hash128 *hash);

/** Whether one more entry needs a larger table. */
bool depot_index_full(const struct depot_index *index);

/**
 * Make a copy of the table, twice as large.
 *
 * @param ret_larger  to be swapped in; the old table is then the caller's to clear
 * @return 0; -ENOMEM
 */
base_must_check int depot_index_grow(const struct depot_index *index, struct base_account *account,
                                     struct depot_index *ret_larger);

/** Put an entry in the place of the one with its hash, or in a new slot; the index must not be full. */
void depot_index_put(struct depot_index *index, const struct depot_entry *entry);

/** Take out the entry in a slot. Others may move. */
void depot_index_remove(struct depot_index *index, struct depot_entry *slot);

/** Free the table: the index is empty then. */
void depot_index_clear(struct depot_index *index, struct base_account *account);

#endif
