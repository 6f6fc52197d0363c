/* What an ordered store is for the files of this folder: its locks, and records in memory. */
#ifndef TREE_STORE_INTERNAL_H
#define TREE_STORE_INTERNAL_H

#include "base/hash.h"
#include "task/task.h"
#include "tree/extents.h"
#include "tree/mega.h"
#include "tree/record.h"
#include "tree/store.h"
#include <errno.h>
#include <pthread.h>

#define KEY_LOCKS 1024u /* a power of two */

struct tree_store {
    struct tarn_node *node;
    struct tarn_depot *depot;
    uint64_t memory_bytes; /* the most that is taken */
    struct task_mutex key_locks[KEY_LOCKS];
    struct base_log_limit full_limit; /* how often it is said that there is no room */
    _Atomic uint64_t flush_when_ns;   /* civil time at which all records go; 0: no order is pending */
    uint64_t gone_sequence;           /* the depot's when all records went last; guarded by all key locks */
    _Atomic uint64_t expired, reclaimed;
    _Atomic uint32_t new_keys; /* that were put since it was opened */
    struct task_mutex taking;  /* held while memory is taken, shared, or not any more */

    pthread_rwlock_t lock; /* guards what follows, and all nodes and extents that the tree leads to */
    struct tree_memory node_memory, record_memory;
    struct tree_mega *mega;
    struct tree_extents *extents;
    uint8_t sweep_key[TREE_KEY_MAX]; /* the next record to be looked at, whether it has expired */
    uint32_t sweep_count;
};

/** The record at a place. */
static inline struct tree_record *tree_record_at(const struct tree_store *store, uint64_t place)
{
    return (struct tree_record *)(void *)(store->record_memory.memory + tree_place_offset(place));
}

/** The offset of bytes of a record. */
static inline uint64_t tree_record_offset(const struct tree_store *store, const void *bytes)
{
    return (uint64_t)((const uint8_t *)bytes - store->record_memory.memory);
}

/** The place of a record. */
static inline uint64_t tree_record_place(const struct tree_store *store, const struct tree_record *record)
{
    return tree_place_of(tree_record_offset(store, record));
}

/** Give a record's memory back, with the lock held. */
static inline void tree_store_give_extent(struct tree_store *store, uint64_t place)
{
    tree_extents_give(store->extents, tree_place_offset(place));
}

/** Whether its time is over. */
static inline bool tree_record_has_expired(const struct tree_record *record, uint64_t now_ns)
{
    return record->expiry_ns != 0 && record->expiry_ns <= now_ns;
}

/** Civil time, where it matters to a record. */
static inline uint64_t tree_record_now(const struct tree_store *store, const struct tree_record *record)
{
    return record->version == 0 || record->expiry_ns == 0 ? 0 : task_wall(store->node);
}

/** Whether a record is shown. */
static inline bool tree_record_is_visible(const struct tree_record *record, uint64_t now_ns)
{
    return record->version != 0 && !tree_record_has_expired(record, now_ns);
}

/** Take the lock with others that read. */
static inline void tree_store_lock_shared(struct tree_store *store)
{
    int error;
    while ((error = pthread_rwlock_rdlock(&store->lock)) == EDEADLK)
        task_yield(); /* under the simulator this thread may have it, for a scheduler that was preempted */
    base_assert(error == 0);
}

/** Take the lock alone. */
static inline void tree_store_lock(struct tree_store *store)
{
    int error;
    while ((error = pthread_rwlock_wrlock(&store->lock)) == EDEADLK)
        task_yield();
    base_assert(error == 0);
}

/** Give the lock back. */
static inline void tree_store_unlock(struct tree_store *store)
{
    const int error = pthread_rwlock_unlock(&store->lock);
    base_assert(error == 0);
}

/** The lock of a key's changes. */
static inline struct task_mutex *tree_store_key_lock(struct tree_store *store, struct tree_key key)
{
    return &store->key_locks[base_hash64(key.bytes, key.count, 0) & (KEY_LOCKS - 1)];
}

/* A change of one key, whose lock is held. */
struct tree_change {
    struct tree_key key;
    const struct tree_record *old; /* that can be seen; NULL: there is none */
    uint64_t place;                /* of what is in the tree under the key */
    uint32_t old_bytes;            /* of its value */
    bool is_new;                   /* nothing is in the tree under the key */
};

/* ---- store.c ------------------------------------------------------------------------------------- */

/** Before anything else is done: carry out a flush whose moment has come. Yields then. */
void tree_store_flush_if_due(struct tree_store *store);

/** What a leaf has of a record. @param header  that the record has, or is about to have */
static inline struct tree_value tree_store_seal(const struct tree_store *store,
                                                const struct tree_record *record,
                                                const struct tree_record *header, uint32_t bytes)
{
    const uint64_t place = tree_record_place(store, record);
    return (struct tree_value){
        .place = place, .sum = tree_record_sum(place, header, record->value, bytes), .bytes = bytes};
}

/** Have a record without a value, with the lock held, and put what leads to it under its key, if that is new.
 * @return 0; -ENOMEM; -ENOSPC: `ret_full` has no room, of which some may be taken; nothing was changed */
base_must_check int tree_store_make_record(struct tree_store *store, const struct tree_key *new_key,
                                           uint32_t value_bytes, struct tree_record **ret_record,
                                           struct tree_memory **ret_full);

/** Take more of a memory that was full; meanwhile somebody else may have done so. Not with the lock held. @return 0; -ENOSPC,
 * -ENOMEM: there is no more. Yields. */
base_must_check int tree_store_take_memory(struct tree_store *store, struct tree_memory *memory,
                                           uint64_t full_bytes);

/* ---- store_change.c: the steps of a change, whose key's lock is held -------------------------------- */

/** Look what is there, which nobody else changes or frees until the key's lock is given back. */
void tree_change_begin(struct tree_store *store, struct tree_key key, struct tree_change *ret_change);

/** Have a record with its value, and an entry of its key, which nobody sees yet. @return 0; -EMSGSIZE; -ENOSPC, -ENOMEM
 * (logged): nothing was changed */
base_must_check int tree_change_prepare(struct tree_store *store, const struct tree_change *change,
                                        const struct tarn_update *update, struct tree_record **ret_record);

/** The record is durable, or was not stored: show it, or undo what tree_change_prepare() has done. The tree's lock is held.
 * @param version  0: it was not */
void tree_change_end(struct tree_store *store, const struct tree_change *change, struct tree_record *record,
                     uint32_t bytes, uint64_t version);

/** The key was removed durably: remove it from the tree, which has it. The tree's lock is held. */
void tree_change_remove(struct tree_store *store, const struct tree_change *change);

/** Now and then, after new keys, look for records that have expired. */
void tree_store_sweep_sometimes(struct tree_store *store, const struct tree_change *change);

#endif
