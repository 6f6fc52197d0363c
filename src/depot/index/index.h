/*
 * The index of a store: from the hash of a key to where its record lies. Two levels, as in the paper: a
 * directory of hash tables with hopscotch neighbourhoods of 32 entries and no bitmap; an entry is one
 * atomic 8-byte word.
 *
 *   low bits of a word ──▶
 *   offset 5 │ hit 1 │ size 10 │ address A │ tag G       all zero: empty
 *
 *   hash, 64 bits:  … │ tag G │ position T         home = table[tag's low D bits], position
 *
 * The entry lies at home + offset, offset < 32; so position and tag are known from where it lies, and a table
 * can be split without reading a record. Only `tag` and `home` are compared: two keys may look alike, and
 * the caller reads the record to tell. Address 0 is never a record's; the highest address (all ones) marks
 * a *reserved* entry: a place held for a key whose record is being written. Readers do not see it.
 *
 * Regions of 8,192 entries have a spin lock, a sequence for readers, a split state and a small stash: for
 * entries that find no place in their neighbourhood. Random keys need it near 80 % load and above; below 70 %
 * only hostile ones fill it, and they must not make the index grow.
 *
 * Threading: any thread or task; nothing here yields. Reading takes no lock except after several
 * tries that were disturbed. Growing and shrinking (depot_index_grow*, _shrink*) are for one caller at a time,
 * beside all others.
 * Errors: negative errno.
 * Source: uDepot §4.2, §4.3; differs: lock-free reads, growth in place, stash (README).
 */
#ifndef DEPOT_INDEX_H
#define DEPOT_INDEX_H

#include "base/base.h"
#include "base/spin.h"
#include "seglog/length.h"
#include <stdatomic.h>

#define DEPOT_NEIGHBOURHOOD    32
#define DEPOT_REGION_ENTRIES   8192
#define DEPOT_REGION_BYTES     (DEPOT_REGION_ENTRIES * 8)
#define DEPOT_STASH_ENTRIES    24 /* of a region */
#define DEPOT_TAG_BITS_LEFT    6  /* that remain at the largest growth, at least */
#define DEPOT_SIZE_BITS        SEGLOG_LENGTH_BITS
#define DEPOT_ADDRESS_BITS_MAX 40
#define DEPOT_CANDIDATES_MAX   (DEPOT_NEIGHBOURHOOD + DEPOT_STASH_ENTRIES)

/* Fixed when a store is made, and kept in its superblock. 5 + 1 + 10 + address_bits + tag_bits == 64. */
struct depot_index_widths {
    uint8_t address_bits; /* 20..DEPOT_ADDRESS_BITS_MAX */
    uint8_t tag_bits;
    uint8_t table_bits; /* log2 of the entries of a table, 13 or more; table_bits + tag_bits <= 64 */
};

/**
 * Choose the widths for a store. The table is as small as it may be: at least one region, and so large
 * that at the largest growth (one entry for each grain) DEPOT_TAG_BITS_LEFT of the tag remain.
 *
 * @param grains  of the store; addresses are 1..grains - 1
 * @return 0; -EINVAL (too many)
 */
base_must_check int depot_index_widths_choose(uint64_t grains, struct depot_index_widths *ret_widths);

/** How many grains a store of these widths can have. */
uint64_t depot_index_grains_most(const struct depot_index_widths *widths);

/** Whether widths that were read from a drive are possible for a store of this number of grains. */
bool depot_index_widths_valid(const struct depot_index_widths *widths, uint64_t grains);

struct depot_index_directory;
struct depot_index_merge;
struct depot_index_region;
struct depot_index_snapshot;

/* The members are the index's own; nothing but its functions looks at them. */
struct depot_index {
    struct base_account *account;
    struct depot_index_widths widths;
    uint32_t tag_shift;    /* of the tag in a word */
    uint64_t tag_mask;     /* of the tag in a number */
    uint64_t address_mask; /* of the address in a number; also the address that marks a reserved entry */
    uint64_t match_mask;   /* offset and tag in a word */
    uint64_t regions;      /* of a table */
    bool has_wide_vectors; /* of the processor */
    _Atomic(struct depot_index_directory *) directory;
    _Atomic(struct depot_index_snapshot *) snapshot; /* that is open; used under a region's lock */
    uint8_t apart[BASE_CACHE_LINE_BYTES];            /* what is written seldom from what is written often */
    _Atomic uint64_t settled_count;                  /* entries, but for the regions' rests */
    _Atomic uint64_t copied_bytes;                   /* charged for snapshots */
    _Atomic uint64_t table_bytes;                    /* charged for all else */
    _Atomic bool growing;                            /* some regions may be split and others not */
    _Atomic bool shrinking; /* the same, and nobody splits any. Looked at before the directory */
    _Atomic bool clearing;  /* nobody merges any */
    uint64_t grow_region;   /* of the next region to split or merge, the grower's own, as what follows */
    uint64_t grow_table;
    uint64_t given_bytes;            /* back to the system, all told */
    struct depot_index_merge *merge; /* while it shrinks */
};

/* What a lookup found: words by value, to be read by the caller and then looked at again. */
struct depot_index_view {
    uint64_t hash;
    uint32_t count;
    uint64_t sequences[2];                       /* of the regions that were looked at */
    const struct depot_index_region *regions[2]; /* the second is NULL if there was but one */
    uint64_t words[DEPOT_CANDIDATES_MAX];
};

/**
 * The index' memory is charged to `account`; a new index has one table, in fresh (untouched) zero pages, so
 * its resident size is what its entries touch, in huge pages of 2 MiB if the table has 4 MiB or more. The
 * table itself is charged at once in full.
 *
 * @param widths  valid ones
 * @return 0; -ENOMEM
 */
base_must_check int depot_index_init(struct depot_index *index, struct base_account *account,
                                     const struct depot_index_widths *widths);

/** Free it; nobody else may be using it. */
void depot_index_deinit(struct depot_index *index);

/**
 * Look a key up: all entries that may be its own, reserved ones left out, the likeliest (lowest position)
 * first. What is returned was in the index all at one moment between call and return.
 *
 * Any thread or task. Lock-free; takes the regions' locks after some disturbed tries.
 */
void depot_index_find(struct depot_index *index, uint64_t hash, struct depot_index_view *ret_view);

/**
 * Bring what a lookup or an insert of this hash will look at into the processor's cache, without waiting for
 * it: some hundred nanoseconds ahead, as for the next keys of a batch, it takes most of the waiting away. A
 * hint, no more.
 */
void depot_index_prefetch(const struct depot_index *index, uint64_t hash);

/** Whether an entry that was found is still there as it was: decides whether damage of a record is an error,
 * or the record was moved or replaced meanwhile. Looks for the exact word anywhere in the neighbourhood and
 * stashes. */
bool depot_index_holds(struct depot_index *index, uint64_t hash, uint64_t word);

/** Whether nothing at all was changed in the view's regions since depot_index_find() (then a miss is
 * certain). May say false when in doubt. */
bool depot_index_unchanged(const struct depot_index_view *view);

/** Whether two words are one entry: it may have been displaced or hit meanwhile. */
bool depot_index_is_same(uint64_t word, uint64_t other);

/**
 * Mark an entry as hit, if it is still where it was found; lost when it is just being moved. A word that has
 * the mark costs nothing but looking at it.
 *
 * Any thread or task. Lock-free.
 */
void depot_index_hit(struct depot_index *index, uint64_t hash, uint64_t word);

/** Whether an entry was hit since it was last published or replaced. */
bool depot_index_is_hit(uint64_t word);

/** The same entry, hit or not. */
uint64_t depot_index_mark(uint64_t word, bool hit);

/** Where an entry's record lies, in grains from the store's beginning. */
uint64_t depot_index_address(const struct depot_index *index, uint64_t word);

/** The length class of an entry's record, decoded: the most grains that the record has. */
uint64_t depot_index_grains(const struct depot_index *index, uint64_t word);

/**
 * Hold a place for a new key, so that publishing cannot fail. Displaces others if need be, splits regions
 * that a growth under way has not come to.
 *
 * @return 0; -EAGAIN (no place, stash full, above 70 % load: the index has to grow, then try again); -ENOSPC
 * (the same below 70 %: this key cannot be stored)
 */
base_must_check int depot_index_reserve(struct depot_index *index, uint64_t hash);

/** Turn a reserved place of this hash (any of several alike) into an entry. */
void depot_index_publish(struct depot_index *index, uint64_t hash, uint64_t address, uint64_t grains);

/** Give a reserved place back. */
void depot_index_cancel(struct depot_index *index, uint64_t hash);

/**
 * Have an entry point elsewhere, if there still is one that points to `address` (which names it exactly: no
 * two entries have one address). It is not hit any more.
 *
 * @return false: there is none; nothing was changed
 */
bool depot_index_replace(struct depot_index *index, uint64_t hash, uint64_t address, uint64_t new_address,
                         uint64_t new_grains);

/** Take the entry out that points to `address`. @return false: there is none */
bool depot_index_remove(struct depot_index *index, uint64_t hash, uint64_t address);

/** The same. @param ret_word  as it was last */
bool depot_index_take(struct depot_index *index, uint64_t hash, uint64_t address, uint64_t *ret_word);

/** Whether there is an entry that points to `address`. Exact at one moment between call and return. */
bool depot_index_has(struct depot_index *index, uint64_t hash, uint64_t address);

/** The same. @param ret_word  the entry */
bool depot_index_look(struct depot_index *index, uint64_t hash, uint64_t address, uint64_t *ret_word);

/** Take every entry out but reserved ones. Beside readers and other callers. */
void depot_index_clear(struct depot_index *index);

/** Entries now, reserved ones included: exact while nobody changes any. Looks at every region: some
 * milliseconds in a large index, so not for every request. */
uint64_t depot_index_count(const struct depot_index *index);

/** Memory charged now, for snapshots too. */
uint64_t depot_index_bytes(const struct depot_index *index);

/** Entries that the tables have room for. */
uint64_t depot_index_capacity(const struct depot_index *index);

/* ---- growth ---------------------------------------------------------------------------------- */

/** Whether the load asks for growth (80 % or more) and the widths still allow it. Cheap: for every insert. */
bool depot_index_wants_growth(const struct depot_index *index);

/** Whether the widths allow it to double once more. */
bool depot_index_may_grow(const struct depot_index *index);

/**
 * Take memory for the twins of all tables: charged by the first call, and touched by this and the next ones, 2 MiB
 * each, away from requests. What is taken is kept for the next growth.
 *
 * @return 0: all is taken; 1: call it again; -ENOMEM; -ENOSPC (the widths allow no more); -EALREADY (a growth is under
 *         way)
 */
base_must_check int depot_index_grow_prepare(struct depot_index *index);

/**
 * Double the directory, after preparing what is not prepared yet. Nothing is moved yet; from now on a region is split
 * when depot_index_grow_step() or an insert that finds no place comes to it.
 *
 * @return 0; -ENOMEM; -ENOSPC (the widths allow no more); -EALREADY (a growth is under way)
 */
base_must_check int depot_index_grow_begin(struct depot_index *index);

/** Split the next regions of a growth, about `regions` of them. @return false: the growth is complete, or
 * there is none */
bool depot_index_grow_step(struct depot_index *index, uint32_t regions);

/* ---- shrinking ------------------------------------------------------------------------------- */

/**
 * Begin to halve the directory: from now on depot_index_shrink_step() merges pairs of regions, and the capacity
 * is the half. For one caller at a time who may also grow it, beside all others.
 *
 * @return 0; -ENOENT (there is nothing to give back: what is there would fill 60 % of the half, or there is
 * one table); -EALREADY (it grows or shrinks); -ENOMEM
 */
base_must_check int depot_index_shrink_begin(struct depot_index *index);

/**
 * Merge the next pairs of regions, about `pairs`; when all are, give the system some of the memory that they
 * had.
 *
 * @return 1: there is more to do; 0: all is done; -ECANCELED: it was turned, by now or here, since the entries need
 * the larger directory: if the index grows, depot_index_grow_step() is to end that
 */
int depot_index_shrink_step(struct depot_index *index, uint32_t pairs);

/** Turn a shrink: from here on it is a growth, which depot_index_grow_step() ends. @return false: it does not shrink
 */
bool depot_index_shrink_turn(struct depot_index *index);

/** Bytes that it has given back to the system so far. For callers that may also let it grow. */
uint64_t depot_index_given_bytes(const struct depot_index *index);

/* ---- everything ------------------------------------------------------------------------------ */

/* Where an iteration stands; all zero is the beginning. */
struct depot_index_cursor {
    uint64_t region; /* of the position, over all tables */
    uint64_t tag;    /* low bits of it: what is next in the region */
    bool end;
};

/** Room that depot_index_next() needs: the entries at home in one region of one table, with its stash and
 * what lies in the next region, which may be split already while this one is not. */
#define DEPOT_INDEX_BATCH_MAX (DEPOT_REGION_ENTRIES + 2 * DEPOT_NEIGHBOURHOOD + DEPOT_STASH_ENTRIES)

/* An entry with all that is known of its hash: enough for depot_index_holds, _replace, _remove. */
struct depot_index_item {
    uint64_t hash; /* the bits that the index knows: position and tag, the rest 0 */
    uint64_t word;
};

/**
 * The next entries, those at home in one region, as they are at one moment; reserved ones left out. A key
 * that is there from the first call to the last is given exactly once, though the index grows or shrinks
 * meanwhile.
 *
 * @param items  room for DEPOT_INDEX_BATCH_MAX
 * @return how many; 0 is possible before the end: ask until cursor->end
 */
uint32_t depot_index_next(struct depot_index *index, struct depot_index_cursor *cursor,
                          struct depot_index_item *items);

/* ---- snapshots ------------------------------------------------------------------------------- */

/**
 * Keep all entries as they are now: from now on each region is copied aside before its first change. One at a
 * time. No caller inserts or lets the index grow meanwhile; a caller that replaces or takes out an entry does so
 * before it or after it.
 *
 * @return NULL: no memory
 */
struct depot_index_snapshot *depot_index_snapshot_open(struct depot_index *index) base_must_check;

/** Forget it. Nobody is reading it, nor letting the index grow. @param snapshot  NULL does nothing */
void depot_index_snapshot_close(struct depot_index *index, struct depot_index_snapshot *snapshot);

/** Give its copies back, before it is closed: it is not whole any more. */
void depot_index_snapshot_cancel(struct depot_index *index, struct depot_index_snapshot *snapshot);

/** Whether all that was read of it so far was right. It is not whole any more when there was no memory for a
 * copy. */
bool depot_index_snapshot_is_whole(const struct depot_index_snapshot *snapshot);

/** depot_index_find() as it would have been at the snapshot's moment, if it is whole afterwards. Takes locks
 * of regions. */
void depot_index_snapshot_find(struct depot_index *index, struct depot_index_snapshot *snapshot,
                               uint64_t hash, struct depot_index_view *ret_view);

/** depot_index_next(), likewise. */
uint32_t depot_index_snapshot_next(struct depot_index *index, struct depot_index_snapshot *snapshot,
                                   struct depot_index_cursor *cursor, struct depot_index_item *items);

/**
 * For opening: grow until this number of entries is a usual load. Entries that come in the order of
 * depot_index_next() would else crowd one region after the other. Nobody else may be using the index.
 *
 * @return 0; -ENOMEM; -ENOSPC (the widths allow no more)
 */
base_must_check int depot_index_grow_to(struct depot_index *index, uint64_t entries);

/**
 * For opening: put an entry that depot_index_next() gave, or one that recovery knows, into an index that
 * grows at once when it has to. Nobody else may be using the index.
 *
 * @return 0; -ENOMEM; -ENOSPC
 */
base_must_check int depot_index_load(struct depot_index *index, uint64_t hash, uint64_t address,
                                     uint64_t grains);

/** Bring what depot_index_load() of this hash will most likely look at into the processor's cache: a hint, as
 * depot_index_prefetch(). */
void depot_index_load_prefetch(const struct depot_index *index, uint64_t hash);

/**
 * The same of some entries as depot_index_next() gave them: each comes to lie where it did, if nothing is
 * there yet, which takes a few instructions, and is hit if it was.
 *
 * @param items  their addresses are possible ones; whatever else is wrong with them does no harm
 * @return as depot_index_load()
 */
base_must_check int depot_index_load_items(struct depot_index *index, const struct depot_index_item *items,
                                           uint32_t count);

/**
 * For `tarn check` and tests: prove every invariant of the tables (README numbers them).
 *
 * @param ret_wrong  a sentence, on failure
 * @return 0; -EUCLEAN. Nobody else may be using the index.
 */
base_must_check int depot_index_validate(struct depot_index *index, const char **ret_wrong);

#endif
