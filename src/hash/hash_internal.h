/* The insides of a client of a hash store, for its files. */
#ifndef HASH_INTERNAL_H
#define HASH_INTERNAL_H

#include "hash/hash.h"
#include "task/task.h"
#include <errno.h>
#include <string.h>

#define HASH_IO_MAX    256u                 /* operations of the space in one step */
#define HASH_BATCH     16u                  /* operations that are carried out at the same time */
#define HASH_WORDS_MAX (2 * HASH_RANKS_MAX) /* slots of a key while the index grows */

/* ---- steps: io.c -------------------------------------------------------------------------------- */

/* Operations of the space that are posted together. */
struct hash_io {
    uint32_t count;
    struct tarn_space_op ops[HASH_IO_MAX];
    struct iovec iov[HASH_IO_MAX];
    struct base_list link; /* in the client's list of those that nobody uses */
};

/** Have a range of a region read when the step is run. */
void hash_io_read(struct hash_io *io, struct tarn_space_region *region, uint64_t offset, void *memory,
                  uint64_t bytes);

/** Have a slot or an intent that this client owns written, in its session alone. */
void hash_io_write(struct hash *hash, struct hash_io *io, struct tarn_space_region *region, uint64_t offset,
                   const void *memory, uint64_t bytes);

/** Have a word swapped, in this client's session alone. */
void hash_io_swap(struct hash *hash, struct hash_io *io, struct tarn_space_region *region, uint64_t offset,
                  uint64_t before, uint64_t after);

/** Run a step: everything is posted, and waited for. @return the first error. Yields. */
int hash_io_run(struct hash *hash, struct hash_io *io, uint64_t deadline_ns);

/** Take an empty step. @return NULL: no memory */
struct hash_io *hash_io_get(struct hash *hash);

/** Give a step back. */
void hash_io_put(struct hash *hash, struct hash_io *io);

/** Read a range, and try that until the deadline. @return 0; errors of the space. Yields. */
base_must_check int hash_read(struct tarn_space_region *region, uint64_t offset, void *memory, uint64_t bytes,
                              uint64_t deadline_ns);

/** Read words that clients swap, of each a value that it had at one moment, and try that until the deadline. @return 0;
 * -ENOMEM; errors of the space. Yields. */
base_must_check int hash_read_words(struct hash *hash, struct tarn_space_region *region, uint64_t offset,
                                    uint64_t *words, uint64_t count, uint64_t deadline_ns);

/** Write to what this client owns in a session, once, in that alone. @return 0; errors of the space. Yields. */
base_must_check int hash_write(struct hash *hash, uint64_t session, struct tarn_space_region *region,
                               uint64_t offset, const void *memory, uint64_t bytes, uint64_t deadline_ns);

/**
 * Swap a word. Where the outcome is lost it is found out: the swap is made impossible, by one to the same word with another version.
 *
 * @param session  the one in which the caller has found out what it is about to do: another task may have begun the next one meanwhile
 * @param bumped   that word
 * @return 0: it was swapped; -EAGAIN: it was another one; -ECONNRESET: it may have been swapped, and will not be any more;
 *         -ESTALE: the session is over; -ENODATA: the memory is gone; -ETIMEDOUT, -ECANCELED: it may have been swapped, and may still
 *         be. Yields.
 */
base_must_check int hash_swap(struct hash *hash, uint64_t session, struct tarn_space_region *region,
                              uint64_t offset, uint64_t before, uint64_t after, uint64_t bumped,
                              uint64_t deadline_ns);

/** The same for one that was run in a step, and has ended with an error. */
base_must_check int hash_settle(struct hash *hash, const struct tarn_space_op *op, uint64_t bumped,
                                uint64_t deadline_ns);

/* ---- slots: slots.c ----------------------------------------------------------------------------- */

/* A slab that this client owns: for each slot the low bits of the generation of its last record, and what is known of it. */
struct hash_slab {
    uint32_t number, class_number, slot_count;
    uint32_t swept;                     /* the slot at which the next look for replaced records begins */
    uint32_t free_count, resting_count; /* of its slots, when they were counted last */
    uint8_t slots[];
};

enum {
    HASH_SLOT_GENERATION = 63,
    HASH_SLOT_USED = 64
}; /* used: it may have a record to which a word refers */

/* A slot whose record was replaced, and that is not written again before a moment. */
struct hash_resting {
    uint64_t address, until_ns;
};

/* The slots of a size. */
struct hash_class {
    uint64_t *free; /* addresses of slots that may be written */
    uint32_t free_count, free_room;
    struct hash_resting *resting; /* a ring */
    uint32_t resting_first, resting_count, resting_room;
    uint32_t slab_count,
        swept_slab;         /* number of its slabs; in the client's list, the one that is looked at next */
    uint32_t found_percent; /* of the slots that were looked at last, those that had been replaced */
    uint64_t full_ns;       /* until when it is taken for granted that there is nothing for it */
};

/** Take a slot for a record. @param ret_generation  a number for it @return 0; -ENOSPC; -EMSGSIZE; -ENOMEM; errors of
 * the space. Yields. */
base_must_check int hash_slot_take(struct hash *hash, uint64_t bytes, uint64_t deadline_ns,
                                   uint64_t *ret_address, uint64_t *ret_generation);

/** Note that a word refers to the record in a slot of this client's, or may do so. */
void hash_slot_use(struct hash *hash, uint64_t address);

/** Give a slot back. @param is_seen  other clients may have seen a word of it, so it rests before it is used again */
void hash_slot_give(struct hash *hash, uint64_t address, bool is_seen);

/** Find out how large the slots of a slab are, so that a record in it can be read. @return 0; errors of the space. Yields. */
base_must_check int hash_slab_learn(struct hash *hash, uint64_t address, uint64_t deadline_ns);

/** Take up the slabs that one of the store's clients has left, as its successor. @return 0; -ENOMEM; errors of the space. Yields. */
base_must_check int hash_slabs_adopt(struct hash *hash, uint32_t client, uint64_t deadline_ns);

/** Forget all slabs. */
void hash_slots_forget(struct hash *hash);

/* ---- the client --------------------------------------------------------------------------------- */

struct hash_cached;

struct hash {
    struct tarn_node *node;
    struct tarn_space *space;
    struct tarn_space_namespace *of;
    char name[HASH_NAME_MAX + 1];
    char place[TARN_SPACE_NAME_MAX + 1]; /* the memory server of its records; "": any */
    struct base_log_limit full_limit;    /* of lines that say that the store is full */
    bool is_least_full;                  /* its tables are made where the most memory is free */
    uint32_t place_tag;
    struct hash_shape shape;
    struct hash_layout layout;
    struct tarn_space_region *head;
    struct tarn_space_region *indexes[HASH_GROWTHS_MAX]; /* of each growth; NULL: not held */
    struct tarn_space_region **tables;                   /* NULL: not known yet */
    uint32_t table_count;                                /* that are known, from the first on */
    uint64_t view;                                       /* the head's, as far as is known */

    /* as a client of the store */
    struct task_mutex
        control;      /* held by the task that becomes a client, finds slots, or lets the index grow */
    uint64_t session; /* of the space in which it becomes one; 0: none yet */
    bool
        is_entered; /* it is one by now: until then its number is an earlier session's, and it has no intent */
    uint32_t client;  /* its number in the head */
    uint64_t number;  /* the number that only it ever had, shifted to where records have it … */
    uint64_t counter; /* … and what was counted below it */
    uint32_t intents; /* those that are in use, as bits … */
    uint32_t
        lost_intents; /* … and of these, those that no task uses: a lock may still be under them, which is recovered first */

    uint16_t *slab_classes;   /* of all slabs: the class and 1; 0: not known */
    struct hash_slab **slabs; /* of all slabs: those that this client owns */
    uint32_t *own;            /* numbers of these */
    uint32_t own_count;
    struct hash_class classes[HASH_CLASSES_MAX];

    struct base_list free_io, free_batches;
    uint64_t cache_bytes, cached_bytes;
    struct base_list cached; /* the latest first */
    struct hash_cached **cache_buckets;
    uint32_t cache_bucket_count;
    struct hash_stats stats;
};

/** How many slabs all tables have. */
static inline uint32_t hash_slab_total(const struct hash *hash)
{
    return hash_tables(&hash->shape) * hash_slabs_of_table(&hash->shape);
}

/** The slab in which an address lies. */
static inline uint32_t hash_slab_at_address(const struct hash *hash, uint64_t address)
{
    return (uint32_t)(address >> __builtin_ctz(hash_slab_grains(&hash->shape)));
}

/** Where a record is: its table's region, NULL if that is not held yet, and the offset there. */
static inline struct tarn_space_region *hash_table_of(const struct hash *hash, uint64_t address,
                                                      uint64_t *ret_offset)
{
    const uint32_t shift = (uint32_t)__builtin_ctz(hash->shape.table_bytes / HASH_GRAIN_BYTES);
    *ret_offset = (address & ((UINT64_C(1) << shift) - 1)) * HASH_GRAIN_BYTES;
    return address >> shift < hash->table_count ? hash->tables[address >> shift] : NULL;
}

/** Bytes of the slot at an address; 0: its slab is not known. */
static inline uint64_t hash_slot_bytes(const struct hash *hash, uint64_t address)
{
    const uint32_t slab = hash_slab_at_address(hash, address);
    const uint32_t known = slab < hash_slab_total(hash) ? hash->slab_classes[slab] : 0;
    const uint32_t end =
        hash_slab_grains(&hash->shape) - (uint32_t)(address % hash_slab_grains(&hash->shape));
    return known == 0 ? 0 : (uint64_t)base_min(hash_class_grains(known - 1), end) * HASH_GRAIN_BYTES;
}

/* ---- being a client: clients.c ------------------------------------------------------------------ */

/** Whether it is a client of the store in the present session. */
static inline bool hash_is_entered(const struct hash *hash)
{
    return hash->is_entered && hash->session == tarn_space_session(hash->space);
}

/** Be a client of the store, in the present session. @return 0; -EUSERS; -ENOMEM; errors of the space. Yields. */
base_must_check int hash_enter(struct hash *hash, uint64_t deadline_ns);

/** Take over what clients have left that are gone for good. @return 0; -ENOENT: there is none; errors. Yields. */
base_must_check int hash_inherit(struct hash *hash, uint64_t deadline_ns);

/** Take a region of the space. @param node  NULL or "": striped @return 0; -EEXIST; -ENOSPC; errors of the space. Yields. */
base_must_check int hash_alloc(struct hash *hash, const char *name, uint64_t bytes, bool is_words,
                               const char *node, uint64_t deadline_ns, struct tarn_space_region **ret_region);

/** Delete a region, and hold it no longer. If that fails, the namespace has it until it is deleted. Yields. */
void hash_discard(struct tarn_space_region *region, uint64_t deadline_ns);

/** Write zeros to a region that nobody else uses. @return 0; -ENOMEM; errors of the space. Yields. */
base_must_check int hash_zero(struct hash *hash, struct tarn_space_region *region, uint64_t bytes,
                              uint64_t deadline_ns);

/** Hold the tables that there are. @return 0; errors of the space. Yields. */
base_must_check int hash_learn_tables(struct hash *hash, uint64_t deadline_ns);

/** Free the memory of batches. */
void hash_free_batches(struct hash *hash);

/* ---- slots of a key: words.c -------------------------------------------------------------------- */

/* The slots of a key, in the order of ranks: of the newest index first. */
struct hash_place {
    uint32_t growth;
    uint64_t slot;
};

struct hash_places {
    uint64_t view;
    uint32_t count;
    struct hash_place at[HASH_WORDS_MAX];
    struct tarn_space_region *regions[HASH_WORDS_MAX];
};

/** Where a key may be, as far as this client knows. */
void hash_places_of(const struct hash *hash, hash_key key, struct hash_places *ret_places);

/** Read the head's view, and hold the indexes of it. @return 0; errors of the space. Yields. */
base_must_check int hash_learn_view(struct hash *hash, uint64_t deadline_ns);

/** Where the index of a growth is; NULL: it is not held. */
static inline struct tarn_space_region *hash_index(const struct hash *hash, uint32_t growth)
{
    return growth < HASH_GROWTHS_MAX ? hash->indexes[growth] : NULL;
}

/** What a word becomes whose key has gone to another slot. */
static inline uint64_t hash_word_cleared(const struct hash *hash, uint64_t word, uint32_t growth,
                                         uint32_t to_growth)
{
    return hash_word_without(&hash->layout, word, growth < to_growth ? HASH_CLOSED : HASH_EMPTY);
}

/* ---- locks: locks.c ----------------------------------------------------------------------------- */

/** Take an intent of this client's. @return below HASH_INTENTS; HASH_INTENTS: all are in use */
uint32_t hash_intent_take(struct hash *hash);

/** End the use of an intent. @param session  in which it was taken: those of one that is over are its successor's @param error  of giving its lock back: if it is not known to be free, the intent stays as it is */
void hash_intent_end(struct hash *hash, uint64_t session, uint32_t intent, int error);

/** Write an intent of this client's, sealed. @return 0; errors of the space. Yields. */
base_must_check int hash_intent_write(struct hash *hash, uint64_t session, uint32_t intent,
                                      struct hash_intent *what, uint64_t deadline_ns);

/** This client with one of its intents, as a lock's word names it. */
static inline uint32_t hash_holder(const struct hash *hash, uint32_t intent)
{
    return hash->client * HASH_INTENTS + intent + 1;
}

/** Take a lock, with an intent that is written. @return 0; -EAGAIN: somebody else has it; errors, after which it may be this client's.
 * Yields. */
base_must_check int hash_lock_take(struct hash *hash, uint64_t session, uint32_t lock, uint32_t intent,
                                   uint64_t deadline_ns, uint64_t *ret_word);

/** Give a lock back that this client has taken, and end the use of its intent. If it has been taken from it meanwhile, that is as well.
 * Yields. */
void hash_lock_give(struct hash *hash, uint64_t session, uint32_t lock, uint32_t intent, uint64_t word,
                    uint64_t deadline_ns);

/** What a client that waits for a lock has seen of it. */
struct hash_lock_seen {
    uint64_t word, since_ns;
};

/** Look at a lock that keeps this client waiting, and recover it if it has not changed for a lease. @return 0; errors. Yields. */
base_must_check int hash_await_lock(struct hash *hash, uint32_t lock, struct hash_lock_seen *seen,
                                    uint64_t deadline_ns);

/** Recover a lock: finish or undo what its holder was about to do. @return 0; -EAGAIN: somebody else was faster; errors. Yields. */
base_must_check int hash_recover(struct hash *hash, uint32_t lock, uint64_t word, uint64_t deadline_ns);

/** Move a key from one of its slots to another one. @param word, to_word  as they were read @return 0; -EAGAIN: somebody was faster;
 * errors. Yields. */
base_must_check int hash_move(struct hash *hash, hash_key key, struct hash_place from, uint64_t word,
                              struct hash_place to, uint64_t to_word, uint64_t deadline_ns);

/** Make room in one of a key's slots of the newest index, by moving others. @return 0: try again; -EAGAIN: the same, others were faster;
 * -ENOSPC: it cannot be; errors. Yields. */
base_must_check int hash_make_room(struct hash *hash, hash_key key, uint64_t deadline_ns);

/* ---- growth: grow.c ----------------------------------------------------------------------------- */

/** Begin a growth, or take part in one. @return 0; -ENOSPC: the space has no memory; errors. Yields. */
base_must_check int hash_grow(struct hash *hash, uint64_t deadline_ns);

/** Close some slots of an index that is being replaced. @return 0; errors. Yields. */
base_must_check int hash_help_growth(struct hash *hash, uint64_t deadline_ns);

/** Remove what a client has left that had begun to make an index. @param attempt  of growth 0 the number of the head's region. Yields. */
void hash_remove_index(struct hash *hash, uint32_t growth, uint64_t attempt, uint64_t deadline_ns);

/** Make the index of a growth. @return 0; errors. Yields. */
base_must_check int hash_make_index(struct hash *hash, uint32_t growth, uint64_t deadline_ns);

/* ---- the cache: cached.c ------------------------------------------------------------------------ */

/** A record that this client has kept, for a word that it has just read. @return NULL: there is none */
const struct hash_record *hash_cache_find(struct hash *hash, uint64_t word);

/** Keep a record to which a word refers. */
void hash_cache_keep(struct hash *hash, uint64_t word, const struct hash_record *record);

/** Forget all records that were kept. */
void hash_cache_clear(struct hash *hash);

#endif
