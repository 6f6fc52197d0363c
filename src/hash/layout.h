/*
 * What a hash store looks like in a space: words of the index, records, intents, and the head. README, "Formats", has the
 * tables. Pure functions: any thread.
 */
#ifndef HASH_LAYOUT_H
#define HASH_LAYOUT_H

#include "base/base.h"
#include <tarn/record.h>

#define HASH_GRAIN_BYTES     64u /* addresses in tables count grains */
#define HASH_RANKS_MAX       8u  /* slots that a key may have */
#define HASH_GENERATION_BITS 6u
#define HASH_VERSION_BITS    24u /* at least */
#define HASH_FILTER_BITS_MAX 11u
#define HASH_NO_FILTER       UINT32_MAX /* of what a store is to be made with: no filter bits */
#define HASH_SEGMENT_SLOTS                                                                                   \
    65536u /* all slots of a key lie in one segment, so that a scan reads segment by segment */
#define HASH_GROWTHS_MAX 32u
#define HASH_INTENTS     16u /* of each client: locks that it may hold at the same time */
#define HASH_INTENTS_ALL ((1u << HASH_INTENTS) - 1)
#define HASH_CLASSES_MAX 64u
#define HASH_CLIENTS_MAX 1024u

/* ---- the head ----------------------------------------------------------------------------------- */

/* What a store is made with; it never changes. */
struct hash_shape {
    uint64_t seed;
    uint64_t slots;        /* of the first index: a power of two */
    uint64_t capacity;     /* bytes of all tables together, at most */
    uint64_t operation_ns; /* an operation whose words are older begins again */
    uint64_t lease_ns;     /* a lock that has not changed for so long is recovered */
    uint32_t locks;        /* a power of two */
    uint32_t clients;      /* that may have it open at the same time */
    uint32_t table_bytes;  /* of each table: a power of two */
    uint32_t slab_bytes;   /* a table's part that one client owns: a power of two */
    uint32_t ranks;
    uint32_t filter_bits;
};

#define HASH_SHAPE_BYTES 128u /* with magic, number of the head's region, and checksum */

/* Where words are in the head. */
enum hash_head {
    HASH_HEAD_VIEW = 128,    /* twice the number of growths that have ended, and 1 while one is under way */
    HASH_HEAD_NUMBER = 136,  /* number of the next client */
    HASH_HEAD_CURSOR = 144,  /* of a growth: its number << 40 | the first slot that no client has taken on */
    HASH_HEAD_INDEXES = 256, /* of each growth a word: where its index is */
    HASH_HEAD_LISTS = 512,   /* words of tables, clients, slabs and locks, one list after the other */
};

#define HASH_IS_THERE UINT64_C(1) /* in a word of an index or a table: the rest is its region's address */
#define HASH_IS_TAKEN                                                                                        \
    UINT64_C(2) /* in a word of an index: a client makes it; the rest counts those that have tried */

/** How many filter bits words have room for, 0 also where they have none for what they must have (hash_shape_wrong()). */
uint32_t hash_filter_room(const struct hash_shape *shape);

/** Check what a store is to be made with, after the zeros in it were replaced. @return NULL; why it cannot be, as static text */
const char *hash_shape_wrong(const struct hash_shape *shape);

/** Write the first bytes of a head. @param region_number  of the head's region, by which what an earlier store has left is told apart
 * @param bytes  room for HASH_SHAPE_BYTES */
void hash_shape_write(const struct hash_shape *shape, uint32_t region_number, uint8_t *bytes);
/** Read them. @return false: there is no head of this region */
base_must_check bool hash_shape_read(const uint8_t *bytes, uint32_t region_number,
                                     struct hash_shape *ret_shape);

/** How many tables a store may have. */
static inline uint32_t hash_tables(const struct hash_shape *shape)
{
    return (uint32_t)((shape->capacity + shape->table_bytes - 1) / shape->table_bytes);
}

/** How many slabs a table is divided into. */
static inline uint32_t hash_slabs_of_table(const struct hash_shape *shape)
{
    return shape->table_bytes / shape->slab_bytes;
}

/** How many grains a slab has. */
static inline uint32_t hash_slab_grains(const struct hash_shape *shape)
{
    return shape->slab_bytes / HASH_GRAIN_BYTES;
}

/** Slabs at the beginning of the first table, where the clients' intents are. */
uint32_t hash_intent_slabs(const struct hash_shape *shape);

/** Where a table's word is in the head. */
uint64_t hash_table_at(uint32_t table);

/** Where a client's word is: the number of its session. */
uint64_t hash_client_at(const struct hash_shape *shape, uint32_t client);

/** Where a slab's word is. */
uint64_t hash_slab_at(const struct hash_shape *shape, uint32_t slab);

/** Where a lock's word is. */
uint64_t hash_lock_at(const struct hash_shape *shape, uint32_t lock);

/** How many bytes the head has. */
uint64_t hash_head_bytes(const struct hash_shape *shape);

/* ---- words of the index ------------------------------------------------------------------------- */

enum hash_state {
    HASH_EMPTY,
    HASH_LIVE,
    HASH_FROZEN, /* its key is being moved; a reader takes it as live */
    HASH_CLOSED, /* of an index that is being replaced: it stays empty */
};

/* How a word is divided: state, version, generation, address, filter, from the lowest bit on. */
struct hash_layout {
    uint32_t version_bits, address_bits, filter_bits;
};

/** How the words of a store are divided. */
struct hash_layout hash_layout_of(const struct hash_shape *shape);

/** The state of a slot, by its word. */
static inline enum hash_state hash_state_of(uint64_t word)
{
    return (enum hash_state)(word & 3);
}

/** Whether a word refers to a record. */
static inline bool hash_has_record(uint64_t word)
{
    return hash_state_of(word) == HASH_LIVE || hash_state_of(word) == HASH_FROZEN;
}

/** How often the slot has changed, as far as the word has bits for it. */
static inline uint64_t hash_version_of(const struct hash_layout *layout, uint64_t word)
{
    return word >> 2 & ((UINT64_C(1) << layout->version_bits) - 1);
}

/** The low bits of the record's generation. */
static inline uint32_t hash_generation_of(const struct hash_layout *layout, uint64_t word)
{
    return (uint32_t)(word >> (2 + layout->version_bits)) & ((1u << HASH_GENERATION_BITS) - 1);
}

/** The address of the record, in grains from the beginning of the first table. */
static inline uint64_t hash_address_of(const struct hash_layout *layout, uint64_t word)
{
    return word >> (2 + layout->version_bits + HASH_GENERATION_BITS) &
           ((UINT64_C(1) << layout->address_bits) - 1);
}

/** The filter: bits of the key's hash. */
static inline uint32_t hash_filter_of(const struct hash_layout *layout, uint64_t word)
{
    return layout->filter_bits == 0 ? 0 : (uint32_t)(word >> (64 - layout->filter_bits));
}

/** What a word becomes when it refers to a record. @param before  the word before: the version is one more than its */
uint64_t hash_word(const struct hash_layout *layout, uint64_t before, enum hash_state state, uint64_t address,
                   uint64_t generation, uint32_t filter);

/** What a word becomes when it refers to the record of another word. */
uint64_t hash_word_of(const struct hash_layout *layout, uint64_t before, enum hash_state state,
                      uint64_t other);

/** What a word becomes that refers to none. */
uint64_t hash_word_without(const struct hash_layout *layout, uint64_t before, enum hash_state state);

/** What a word becomes of which only the version changes. */
uint64_t hash_word_bumped(const struct hash_layout *layout, uint64_t before);

/* ---- keys --------------------------------------------------------------------------------------- */

typedef struct base_hash128 hash_key;

/** The hash of a key. */
static inline hash_key hash_key_of(const struct hash_shape *shape, const void *key, size_t key_len)
{
    return base_hash128(key, key_len, shape->seed);
}

/** Whether two hashes are the same. */
static inline bool hash_key_equals(hash_key a, hash_key b)
{
    return a.low == b.low && a.high == b.high;
}

/** The slot of a rank in the index of a growth. */
uint64_t hash_slot_of(const struct hash_shape *shape, hash_key key, uint32_t growth, uint32_t rank);

/** How many slots the index of a growth has. */
static inline uint64_t hash_slots(const struct hash_shape *shape, uint32_t growth)
{
    return shape->slots << growth;
}

/** The number of a key's lock. */
uint32_t hash_lock_of(const struct hash_shape *shape, hash_key key);

/** The filter that the word of a key has. */
static inline uint32_t hash_filter_of_key(const struct hash_layout *layout, hash_key key)
{
    return layout->filter_bits == 0 ? 0 : (uint32_t)(key.low >> (64 - layout->filter_bits));
}

/* ---- records ------------------------------------------------------------------------------------ */

/* A record: this, the key, the value. Little-endian. */
struct hash_record {
    uint64_t generation; /* no two records of a store have the same */
    uint64_t version;
    uint64_t expiry_ns;
    uint32_t client_flags;
    uint32_t value_bytes;
    uint16_t key_bytes;
    uint8_t note;
    uint8_t unused;
    uint32_t header_sum; /* of the other fields but `sum`, and the address */
    hash_key key;        /* its hash */
    uint64_t sum;        /* of all of it, and the address */
};
_Static_assert(sizeof(struct hash_record) == HASH_GRAIN_BYTES, "a header is a grain");

/** The properties of a record, as callers are told them. */
static inline struct tarn_record_info hash_record_info(const struct hash_record *record)
{
    return (struct tarn_record_info){.version = record->version,
                                     .expiry_ns = record->expiry_ns,
                                     .client_flags = record->client_flags,
                                     .value_bytes = record->value_bytes,
                                     .note = record->note};
}

/** Whether a record has a key. */
static inline bool hash_record_has_key(const struct hash_record *record, hash_key hashed, const void *key,
                                       size_t key_len)
{
    return hash_key_equals(record->key, hashed) && record->key_bytes == key_len &&
           memcmp(record + 1, key, key_len) == 0;
}

/** Complete a record's header at the beginning of `bytes`, where key and value follow it, with its checksums. */
void hash_record_seal(struct hash_record *record, uint64_t address);

/** Whether a header alone is one of the record to which a word refers. */
base_must_check bool hash_header_fits(const struct hash_layout *layout, const struct hash_record *record,
                                      uint64_t word);

/** Whether all of a record is the one to which a word refers, as it was written. @param room  bytes that were read of it */
base_must_check bool hash_record_fits(const struct hash_layout *layout, const struct hash_record *record,
                                      uint64_t word, uint64_t room);

/** Whether a header is that of a record at this address, to whatever word. */
base_must_check bool hash_header_is_whole(const struct hash_record *record, uint64_t address);

/* ---- classes ------------------------------------------------------------------------------------ */

/** The least class whose slots have room for a number of grains. */
uint32_t hash_class_for(uint64_t grains);

/** How many grains a slot of a class has. */
uint32_t hash_class_grains(uint32_t class_number);

/** What a slab's word becomes. @param owner  the client's number and 1; 0: nobody has it */
static inline uint64_t hash_slab_word(uint64_t before, uint32_t owner, uint32_t class_number)
{
    return ((before >> 24) + 1) << 24 | (uint64_t)class_number << 16 | owner;
}

/** The number of a slab's owner and 1; 0: nobody has it. */
static inline uint32_t hash_slab_owner(uint64_t word)
{
    return (uint32_t)(word & 0xffff);
}

/** The class of a slab's slots. */
static inline uint32_t hash_slab_class(uint64_t word)
{
    return (uint32_t)(word >> 16 & 0xff);
}

/** What a lock's word becomes. @param holder  the client's number times HASH_INTENTS, its intent's, and 1; 0: it is free */
static inline uint64_t hash_lock_word(uint64_t before, uint32_t holder)
{
    return ((before >> 20) + 1) << 20 | holder;
}

/** The holder of a lock, as above; 0: nobody. */
static inline uint32_t hash_lock_holder(uint64_t word)
{
    return (uint32_t)(word & 0xfffff);
}

/* ---- intents ------------------------------------------------------------------------------------ */

/* What a client is about to do under a lock. */
struct hash_intent {
    uint8_t is_move;           /* else a new key comes to the destination */
    uint8_t growth, to_growth; /* of the indexes of source and destination */
    uint8_t unused[5];
    uint64_t slot, word;       /* of a move: the source */
    uint64_t to_slot, to_word; /* the destination */
    uint64_t new_word;         /* what the destination is to become, of a new key */
    uint64_t zero;
    uint64_t sum;
};
_Static_assert(sizeof(struct hash_intent) == HASH_GRAIN_BYTES, "an intent is a grain");

/** Complete an intent with its checksum. */
void hash_intent_seal(struct hash_intent *intent);

/** Whether an intent is as it was written. */
base_must_check bool hash_intent_fits(const struct hash_intent *intent);

/** Where an intent is in the first table. @param holder  as in a lock's word, without the 1 */
static inline uint64_t hash_intent_at(uint32_t holder)
{
    return (uint64_t)holder * HASH_GRAIN_BYTES;
}

#endif
