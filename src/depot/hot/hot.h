/*
 * The hot tier: records of the drive that are asked for often, kept in memory.
 *
 * A record is known by its *place*: the grain at which it begins and the stamp of the segment that the grain lies in. What
 * lies at a place never changes, and no stamp is given out twice, so what the tier has of a place is right for ever: a
 * put, a delete, a flush or a collection changes the index, which then leads elsewhere, and nothing here has to be
 * invalidated. The caller looks into the index first and again afterwards, as when it reads the drive.
 *
 * Memory is borrowed from the node's account (base/account.h), a page at a time, and returned when somebody else needs it.
 *
 * Threading: any thread or task; nothing here yields. Finding takes no lock. Adding, moving and dropping try a lock of
 * one part of the tier, and do nothing if it is held: a record that is not there is read from the drive.
 * Source: none of the paper's, which keeps no values in memory. The policy is S3-FIFO (Yang et al., SOSP'23), by pages
 * (README, "The hot tier").
 */
#ifndef DEPOT_HOT_H
#define DEPOT_HOT_H

#include "base/base.h"
#include <stdatomic.h>

#define DEPOT_HOT_RECORD_BYTES_DEFAULT (UINT32_C(64) << 10)
#define DEPOT_HOT_RECORD_BYTES_MAX     (UINT32_C(128) << 10)

struct depot_hot;

/* A piece of the tier's memory that records are packed into. It is pinned while somebody reads one of them. */
struct depot_hot_page;

struct depot_hot_options {
    uint64_t bytes_max;   /* the most that the tier takes; at least DEPOT_HOT_BYTES_MIN */
    uint64_t spare_bytes; /* bytes of the account that are not borrowed, so that others seldom have to ask */
    uint32_t record_bytes_max; /* longer records are not kept; 0: DEPOT_HOT_RECORD_BYTES_DEFAULT */
};

#define DEPOT_HOT_BYTES_MIN (UINT64_C(128) << 10)

struct depot_hot_stats {
    uint64_t bytes;     /* of pages and tables now */
    uint64_t records;   /* that can be found now */
    uint64_t additions; /* records that came in, since the tier was opened, as what follows */
    uint64_t evictions; /* records that went since there was no room */
};

/* Bytes of a record. */
struct depot_hot_part {
    const void *bytes;
    size_t len;
};

/* A record that was found. Its page is pinned until depot_hot_unpin(). */
struct depot_hot_found {
    uint8_t *record; /* not to be changed */
    uint64_t room;   /* bytes from there on that are the record's, with less than 8 of padding */
    struct depot_hot_page *page;
    bool is_favoured; /* it was asked for often enough to be kept */
};

/**
 * Make an empty tier. It takes little memory before records come.
 *
 * @param account  to borrow from; outlives the tier
 * @return 0; -ENOMEM
 */
base_must_check int depot_hot_open(struct base_account *account, const struct depot_hot_options *options,
                                   struct depot_hot **ret_hot);

/** Free it. Nothing may be pinned. @param hot  NULL does nothing */
void depot_hot_close(struct depot_hot *hot);

/**
 * Find the record of a place.
 *
 * @param counts  it was asked for, and so may stay longer
 * @return false: the tier has it not
 */
bool depot_hot_find(struct depot_hot *hot, uint64_t grain, uint64_t stamp, bool counts,
                    struct depot_hot_found *ret_found);

/** End the use of a record. */
void depot_hot_unpin(struct depot_hot_page *page);

/** Keep a pinned page for long, as a lease does. @return false: too many are kept, so that it is better to copy */
base_must_check bool depot_hot_keep(struct depot_hot_page *page);

/** End that, and unpin the page. */
void depot_hot_unkeep(struct depot_hot_page *page);

/** Bring what depot_hot_find() looks at first into the processor's cache: a hint. */
void depot_hot_prefetch(struct depot_hot *hot, uint64_t grain);

/**
 * Have a record in the tier. It was verified: nobody does so again.
 *
 * @param parts, count  its bytes, the header first
 * @param favoured      it takes the place of one that was asked for, and so needs no trial
 */
void depot_hot_add(struct depot_hot *hot, uint64_t grain, uint64_t stamp, const struct depot_hot_part *parts,
                   uint32_t count, bool favoured);

/** Nobody will ask for what lies at this grain any more. @return struct depot_hot_found.is_favoured of what lay there */
bool depot_hot_drop(struct depot_hot *hot, uint64_t grain);

/** Return memory to the account, a page at most. Waits for a lock. @return false: there is none to return */
bool depot_hot_give_back(struct depot_hot *hot);

/** Whether there is memory for more, without anything having to go: a hint. */
bool depot_hot_has_room(const struct depot_hot *hot);

/** Borrow no more while fewer bytes than that, and the spare ones, are left to others. */
void depot_hot_hold_off(struct depot_hot *hot, uint64_t bytes);

/** What it holds, and what has come and gone. Any thread or task. */
void depot_hot_stats(struct depot_hot *hot, struct depot_hot_stats *ret_stats);

#endif
