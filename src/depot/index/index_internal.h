/*
 * The insides of the index, for its own files: what a region is, how a hash names places, who may touch what.
 *
 * A region is 8,192 consecutive words of one table (the last one has 32 more, so that no neighbourhood
 * wraps), and it is about words by where they lie, not by where they are at home. It *lives* if entries may
 * lie in it; the regions of a table made for a growth begin to live when their counterpart is split. `depth -
 * 1` is how many bits of the tag tell its table from others. For every tag exactly one table's region lives
 * at a place.
 *
 * Locks: a region's words, stash and counts change only under its lock. A caller that needs several takes them by
 * rising number of the region, then of the table. A region that does not live yet is changed under its
 * counterpart's. Readers: the sequence is odd while anything that a reader can see changes.
 */
#ifndef DEPOT_INDEX_INTERNAL_H
#define DEPOT_INDEX_INTERNAL_H

#include "depot/index/index.h"

enum {
    INDEX_REGION_BITS = 13,
    INDEX_OFFSET_MASK = DEPOT_NEIGHBOURHOOD - 1,
    INDEX_HIT_MASK = 1 << 5,
    INDEX_SIZE_SHIFT = 6,
    INDEX_ADDRESS_SHIFT = 16,
    INDEX_EXTRA_WORDS = DEPOT_NEIGHBOURHOOD, /* behind each table */
    INDEX_LOAD_TO_GROW = 80,                 /* percent */
    INDEX_LOAD_TO_TRUST = 70,                /* below it a failed insert is the fault of its key */
    INDEX_LOAD_TO_TURN = 70,                 /* of the half, or of a region of it: too much to shrink */
    INDEX_LOAD_AFTER = 60,                   /* a shrink, at most */
    INDEX_USED_REST = 32, /* what a region's count may differ from what it has told the index */
};

/* What readers look at is one cache line, and they need no other unless a stash has the home that they look
 * for. */
struct depot_index_region {
    struct base_spin lock;
    _Atomic uint8_t depth;       /* 0: does not live; else 1 + bits of the tag that its table is chosen by */
    _Atomic uint8_t stash_count; /* entries in the stash: the first ones of it */
    _Atomic uint16_t used;       /* entries that lie here, stash and reserved ones included */
    uint16_t settled;            /* how many of them the index's settled_count has; under the lock */
    _Atomic uint64_t sequence;   /* odd while a change is under way */
    _Atomic uint16_t stash_homes[DEPOT_STASH_ENTRIES]; /* position of the home in this region */
    _Atomic uint64_t stash[DEPOT_STASH_ENTRIES];       /* words with offset 0 */
} __attribute__((aligned(BASE_CACHE_LINE_BYTES)));

_Static_assert(sizeof(struct depot_index_region) == 256, "a 256th of the words that it is for");
_Static_assert(offsetof(struct depot_index_region, stash) == BASE_CACHE_LINE_BYTES, "one line for readers");
_Static_assert(1 << INDEX_REGION_BITS == DEPOT_REGION_ENTRIES, "a region is a power of two");

struct depot_index_table {
    _Atomic uint64_t *words; /* from position 0 of the table */
    struct depot_index_region *regions;
};

/* A generation of the directory: tables by the low `bits` of the tag. All are kept until the index ends, for
 * readers that still look at an old one, or at one that a shrink has put aside. */
struct depot_index_directory {
    struct depot_index_directory *previous;
    struct depot_index_directory *next; /* put aside, for the next growth; NULL: none. The grower's */
    void *memory;                       /* of the tables that this generation added */
    uint64_t memory_bytes;
    uint64_t
        given_bytes; /* of them the first, given back to the system: they are not charged. The grower's */
    uint64_t
        untouched_bytes; /* of them the first, that a growth has to touch before it begins. The grower's */
    uint32_t bits;
    uint64_t mask;
    struct depot_index_table tables[]; /* mask + 1 */
};

/* Where a hash is at home. */
struct depot_index_home {
    uint64_t tag;
    uint64_t position;
    uint64_t region;
    uint32_t first; /* how many words of the neighbourhood lie in that region; the rest in the next */
};

/* A region that lives, with its table. */
struct depot_index_part {
    struct depot_index_region *region;
    _Atomic uint64_t *words; /* of the whole table */
    uint64_t table;
};

/* A home whose region is locked, and the next one too where the neighbourhood goes on there (else NULL). */
struct depot_index_held {
    struct depot_index_home home;
    struct depot_index_part parts[2];
};

/* A region as a snapshot keeps it. */
struct depot_index_copy {
    struct depot_index_region region; /* depth and stash, no more */
    _Atomic uint64_t words[];         /* from the region's first position on */
};

/* A region as somebody sees it: as it is, or as it was. */
struct depot_index_image {
    struct depot_index_region *locked;       /* the one that is there */
    const struct depot_index_region *region; /* as it is seen */
    const _Atomic uint64_t *words;           /* from its first position on */
    uint64_t table;
};

/* A place for a word under a region's lock. */
struct depot_index_slot {
    struct depot_index_region *region;
    _Atomic uint64_t *word;
    uint32_t stash_place; /* DEPOT_STASH_ENTRIES: not in the stash */
};

/* ---- numbers ------------------------------------------------------------------------------------ */

/** A number with `count` low bits set, fewer than 64. */
static inline uint64_t depot_index_low_mask(uint32_t bits)
{
    return ((uint64_t)1 << bits) - 1; /* bits < 64: widths are checked */
}

/** Where a hash is at home. */
static inline struct depot_index_home depot_index_home_of(const struct depot_index *index, uint64_t hash)
{
    struct depot_index_home home = {
        .tag = hash >> index->widths.table_bits & index->tag_mask,
        .position = hash & depot_index_low_mask(index->widths.table_bits),
    };
    home.region = home.position >> INDEX_REGION_BITS;
    uint32_t left = DEPOT_REGION_ENTRIES - (uint32_t)(home.position % DEPOT_REGION_ENTRIES);
    home.first =
        left >= DEPOT_NEIGHBOURHOOD || home.region + 1 == index->regions ? DEPOT_NEIGHBOURHOOD : left;
    return home;
}

/** Where the words of a region end in its table. */
static inline uint64_t depot_index_region_end(const struct depot_index *index, uint64_t number)
{
    return (number + 1) * DEPOT_REGION_ENTRIES + (number + 1 == index->regions ? INDEX_EXTRA_WORDS : 0);
}

/* ---- words -------------------------------------------------------------------------------------- */

/** The address in a word. */
static inline uint64_t depot_index_word_address(const struct depot_index *index, uint64_t word)
{
    return word >> INDEX_ADDRESS_SHIFT & index->address_mask;
}

/** The tag in a word. */
static inline uint64_t depot_index_word_tag(const struct depot_index *index, uint64_t word)
{
    return word >> index->tag_shift;
}

/** Whether a word holds a place for a key whose record is being written. */
static inline bool depot_index_word_is_reserved(const struct depot_index *index, uint64_t word)
{
    return depot_index_word_address(index, word) == index->address_mask;
}

/** A word with offset 0. @param size  the class */
static inline uint64_t depot_index_word_make(const struct depot_index *index, uint64_t tag, uint64_t address,
                                             uint32_t size)
{
    return tag << index->tag_shift | address << INDEX_ADDRESS_SHIFT | (uint64_t)size << INDEX_SIZE_SHIFT;
}

/* ---- regions ------------------------------------------------------------------------------------ */

/** The newest directory. */
static inline struct depot_index_directory *depot_index_directory_now(const struct depot_index *index)
{
    /* Pairs with the releases in depot_index_grow_begin and shrink.c's end. */
    return atomic_load_explicit(&index->directory, memory_order_acquire);
}

/** Whether the region of a table holds what has this tag. */
static inline bool depot_index_region_is_for(const struct depot_index_region *region, uint64_t table,
                                             uint64_t tag)
{
    /* Pairs with the releases of splits and merges, and of depot_index_init: the words are there. */
    uint8_t depth = atomic_load_explicit(&region->depth, memory_order_acquire);
    return depth != 0 && (tag & depot_index_low_mask(depth - 1U)) == table;
}

/** A change that readers can see begins; the region's lock is held. */
static inline void depot_index_change_begin(struct depot_index_region *region)
{
    uint64_t sequence = atomic_load_explicit(&region->sequence, memory_order_relaxed);
    atomic_store_explicit(&region->sequence, sequence + 1, memory_order_relaxed);
    /* Pairs with the acquire fence in depot_index_is_undisturbed: a reader of a changed word sees an odd
     * sequence. */
    atomic_thread_fence(memory_order_release);
}

/** The change is complete. */
static inline void depot_index_change_end(struct depot_index_region *region)
{
    uint64_t sequence = atomic_load_explicit(&region->sequence, memory_order_relaxed);
    /* Pairs with the acquire in depot_index_find: a reader that sees this number sees the words. */
    atomic_store_explicit(&region->sequence, sequence + 1, memory_order_release);
}

/** Read a word. */
static inline uint64_t depot_index_load_word(const _Atomic uint64_t *word)
{
    /* Relaxed: the sequence or the lock orders it. */
    return atomic_load_explicit(word, memory_order_relaxed);
}

/** Write a word; the region's lock is held. */
static inline void depot_index_store_word(_Atomic uint64_t *word, uint64_t value)
{
    /* Relaxed: the sequence or the lock orders it. */
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/** Whether depot_index_match() may use what not every processor has. */
bool depot_index_has_wide_vectors(void);

/** Which of the 32 words from `words` on are `first + place * step` under a mask: a bit each. */
uint32_t depot_index_match(const struct depot_index *index, const _Atomic uint64_t *words, uint64_t mask,
                           uint64_t first, uint64_t step);

/** As depot_index_match(), over a neighbourhood in two parts. */
uint32_t depot_index_match_parts(const struct depot_index *index, const struct depot_index_home *home,
                                 const struct depot_index_part *parts, uint64_t mask, uint64_t first,
                                 uint64_t step);

/** Which words of a neighbourhood have the offset of their place and the home's tag: a bit each. An empty
 * word may. */
static inline uint32_t depot_index_match_home(const struct depot_index *index,
                                              const struct depot_index_home *home,
                                              const struct depot_index_part *parts)
{
    uint64_t first = home->tag << index->tag_shift;
    if (base_unlikely(home->first < DEPOT_NEIGHBOURHOOD))
        return depot_index_match_parts(index, home, parts, index->match_mask, first, 1);
    return depot_index_match(index, &parts[0].words[home->position], index->match_mask, first, 1);
}

/** Which words of a neighbourhood are empty: a bit each. */
static inline uint32_t depot_index_match_empty(const struct depot_index *index,
                                               const struct depot_index_home *home,
                                               const struct depot_index_part *parts)
{
    if (base_unlikely(home->first < DEPOT_NEIGHBOURHOOD))
        return depot_index_match_parts(index, home, parts, UINT64_MAX, 0, 0);
    return depot_index_match(index, &parts[0].words[home->position], UINT64_MAX, 0, 0);
}

/** The region that lives at a place for a tag, locked. */
struct depot_index_part depot_index_lock_part(const struct depot_index *index, uint64_t tag, uint64_t number);

/** Lock a hash's home: one region, or two in order. */
void depot_index_hold(const struct depot_index *index, uint64_t hash, struct depot_index_held *ret_held);

/** The same for a caller that is going to change it: words that a snapshot needs were copied aside. */
void depot_index_hold_to_change(struct depot_index *index, uint64_t hash, struct depot_index_held *ret_held);

/** Unlock what is locked of a home. */
void depot_index_release(struct depot_index_held *held);

/** An entry of this home and tag with this address (all ones: a reserved one). @return false: there is none
 */
bool depot_index_held_find(const struct depot_index *index, const struct depot_index_held *held,
                           uint64_t address, struct depot_index_slot *ret_slot);

/**
 * Put an entry where there is room for it, as depot_index_reserve(): one that is reserved, or any while nobody
 * reads the index. @return as depot_index_reserve()
 */
base_must_check int depot_index_put(struct depot_index *index, uint64_t hash, uint64_t address,
                                    uint32_t size);

/** Note that a region has more or fewer entries; its lock is held. */
void depot_index_note_used(struct depot_index *index, struct depot_index_region *region, int change);

/** Note that a region has none any more, and will not live; its lock is held. */
void depot_index_note_dead(struct depot_index *index, struct depot_index_region *region);

/** Whether the entries fill at least this percentage of the tables. */
bool depot_index_load_reaches(const struct depot_index *index, uint64_t percent);

/** A directory with all tables of `previous` (or NULL) and as many new ones (or the first). @return NULL: no
 * memory */
struct depot_index_directory *depot_index_directory_make(struct depot_index *index,
                                                         struct depot_index_directory *previous);

/** What a directory itself takes, without its tables. */
static inline size_t depot_index_directory_bytes(const struct depot_index_directory *directory)
{
    return sizeof(*directory) + (directory->mask + 1) * sizeof(directory->tables[0]);
}

/** Free all directories with their tables: the newest, those before it, and those that were put aside. */
void depot_index_directory_free(struct depot_index *index, struct depot_index_directory *directory);

/**
 * Give the system some of the words of the tables that a directory has added, all of which are zero; they stay so. It
 * was put aside. @return whether there was anything left to give
 */
bool depot_index_directory_give(struct depot_index *index, struct depot_index_directory *directory);

/** Take some of the pages that a directory lacks: what was given back is charged again, then all are touched, away from
 * requests. @return 0: it lacks none; 1: call it again; -ENOMEM */
base_must_check int depot_index_directory_take(struct depot_index *index,
                                               struct depot_index_directory *directory);

/** Put a word with offset 0 behind the others of a stash that is not full; the region's lock is held. A
 * change that readers can see, unless the entry is a reserved one. */
void depot_index_stash_push(struct depot_index_region *region, uint64_t word, uint16_t home);

/** Take an entry out of the stash: the last one takes its place. A change that readers can see. */
void depot_index_stash_take(struct depot_index_region *region, uint32_t place);

/* ---- snapshots ---------------------------------------------------------------------------------- */

/** Whether a region has to be copied aside before it is changed. Its lock is held. */
bool depot_index_wants_copy(const struct depot_index *index, uint64_t table, uint64_t number);

/** Whether a region that is held has to be. */
bool depot_index_held_wants_copy(const struct depot_index *index, const struct depot_index_held *held);

/** Copy the region aside that lives at a place for a tag, if that has to be. Allocates; no lock is held. */
void depot_index_preserve(struct depot_index *index, uint64_t tag, uint64_t number);

/** The same for a hash's home, and the region after it. */
void depot_index_preserve_home(struct depot_index *index, uint64_t hash);

/** A region is about to live; its counterpart's lock is held. */
void depot_index_note_twin(const struct depot_index *index, uint64_t table, uint64_t number);

/** The region that lived at a place for a tag at a snapshot's moment, locked. */
struct depot_index_image depot_index_lock_image(const struct depot_index *index,
                                                struct depot_index_snapshot *snapshot, uint64_t tag,
                                                uint64_t number);

/** Move what belongs to the twin of an unsplit region there; the region's lock is held. The entries keep
 * their positions. */
void depot_index_split_locked(struct depot_index *index, const struct depot_index_part *part,
                              uint64_t number);

/** Put what is in the stash into its neighbourhood where there is room in its region. A change that readers can
 * see; the region's lock is held. */
void depot_index_empty_stash(const struct depot_index *index, struct depot_index_region *region,
                             _Atomic uint64_t *words, uint64_t number);

/** Forget the plan of a merge: the index does not shrink any more. */
void depot_index_merge_free(struct depot_index *index);

#endif
