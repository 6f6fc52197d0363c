/*
 * Epoch-based reclamation: memory that readers may still look at is freed when none of them can any more.
 *
 * A participant joins a slot. Around reading shared pointers it enters and exits. Whoever has unlinked an
 * object retires it; its release function is called later, when every section that was open at that time is
 * closed. A section that never closes delays only what was retired since it was entered.
 *
 * A slot belongs to one thread: all tasks of a scheduler may share its slot as long as none yields inside a
 * section; a task that must do so joins a slot of its own. Shared pointers are read with acquire and written
 * with release order.
 */
#ifndef BASE_EPOCH_H
#define BASE_EPOCH_H

#include "base/account.h"
#include "base/list.h"
#include "base/spin.h"

/** Retirements of a slot between two attempts to release. */
#define BASE_EPOCH_BATCH 64

struct base_epoch_node;

/** Frees a retired object; may retire others. Called without a lock, in a thread that retires or collects. */
typedef void base_epoch_release_function(struct base_epoch_node *node);

/** Part of every object that is retired. */
struct base_epoch_node {
    struct base_fifo_node link;
    uint64_t stamp; /* the clock when it was retired */
    base_epoch_release_function *release;
};

/** One participant. */
struct base_epoch_slot {
    _Alignas(2 * BASE_CACHE_LINE_BYTES) _Atomic uint64_t entered; /* clock at entry; UINT64_MAX outside */
    _Atomic bool joined;
    bool collecting;          /* the rest belongs to the owner */
    unsigned nesting;         /* sections open */
    unsigned retired_lately;  /* since the last attempt to release */
    struct base_fifo retired; /* in the order of their stamps */
    uint64_t retired_count;
};

struct base_epoch {
    _Alignas(2 * BASE_CACHE_LINE_BYTES) _Atomic uint64_t clock; /* counts retirements */
    _Alignas(2 * BASE_CACHE_LINE_BYTES) struct base_account *account;
    struct base_epoch_slot *slots;
    size_t slots_max;
    struct base_spin orphans_lock;
    struct base_fifo orphans;      /* retired by participants that have left */
    _Atomic uint64_t orphan_count; /* a hint, read without the lock */
};

/**
 * Make a domain of reclamation.
 *
 * @param account    outlives it
 * @param slots_max  most participants at a time
 * @return 0; -ENOMEM
 */
int base_epoch_init(struct base_epoch *epoch, struct base_account *account, size_t slots_max) base_must_check;

/**
 * Release all that is retired and free the domain. Every participant must have left, which is asserted.
 */
void base_epoch_deinit(struct base_epoch *epoch);

/**
 * Become a participant. Any thread; the calling one owns the slot.
 *
 * @return the slot; NULL if all are taken
 */
struct base_epoch_slot *base_epoch_join(struct base_epoch *epoch) base_must_check;

/**
 * Stop being a participant; no section may be open. What cannot be released yet is left to the others.
 */
void base_epoch_leave(struct base_epoch *epoch, struct base_epoch_slot *slot);

/**
 * Open a section: from now on nothing that is retired is released. Sections of a slot nest.
 */
void base_epoch_enter(struct base_epoch *epoch, struct base_epoch_slot *slot);

/**
 * Close a section: pointers read inside are not to be used any more.
 */
void base_epoch_exit(struct base_epoch_slot *slot);

/**
 * Hand over an object that no new reader can find any more. Now and then tries to release earlier ones.
 *
 * @param node     inside the object; not touched by the caller any more
 * @param release  frees the object
 */
void base_epoch_retire(struct base_epoch *epoch, struct base_epoch_slot *slot, struct base_epoch_node *node,
                       base_epoch_release_function *release);

/**
 * Release what can be released of this slot and of those that have left.
 *
 * @return objects released
 */
size_t base_epoch_collect(struct base_epoch *epoch, struct base_epoch_slot *slot);

#endif
