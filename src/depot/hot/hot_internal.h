/*
 * The insides of the hot tier, for the files of this folder.
 *
 *   place ── hash ─┬─ part ── bucket: 12 words, 8 ghosts      word: tag 27 │ location 37
 *                  │                     │
 *                  │                     ▼ location, in units of 8 bytes
 *   pages:  [ front │ record ][ front │ record ] … free       one open page for each queue of a part
 */
#ifndef DEPOT_HOT_INTERNAL_H
#define DEPOT_HOT_INTERNAL_H

#include "base/spin.h"
#include "depot/hot/hot.h"

#define HOT_UNIT_BYTES    8
#define HOT_LOCATION_BITS 37
#define HOT_WORDS         12
#define HOT_GHOSTS        8
#define HOT_LOAD                                                                                             \
    4 /* records for a bucket, on average, at most: one that is not divided yet has up to twice as many */
#define HOT_HITS_MAX   3
#define HOT_KEPT_SHARE 8 /* of the pages that leases may keep at once: one part in this many */
#define HOT_NO_PAGE    UINT32_MAX
#define HOT_PARTS_MAX  16

/* What stands before each record. */
struct hot_front {
    uint64_t stamp;
    uint32_t grain_low;
    uint8_t grain_high;
    _Atomic uint8_t hits; /* times that it was asked for since it came to its page, HOT_HITS_MAX at most */
    uint16_t units;       /* length of front and record */
    uint8_t record[];
};
_Static_assert(sizeof(struct hot_front) == 16, "small beside small records");

/*
 * Places of records, and of those whose trial ended badly parts of their hashes (ghosts), the newest first. Words
 * are read without a lock; all else is the part's lock's.
 */
struct hot_bucket {
    _Atomic uint64_t words[HOT_WORDS]; /* 0: empty */
    uint32_t ghosts[HOT_GHOSTS];
};
_Static_assert(sizeof(struct hot_bucket) == 128, "two cache lines");

/* The two queues of S3-FIFO: what is new is on trial, what was asked for meanwhile, or again soon after, is kept. */
enum hot_queue { HOT_TRIAL, HOT_MAIN, HOT_QUEUES };

struct depot_hot_page {
    struct depot_hot *hot;
    _Atomic uint32_t pins; /* readers of its records, and leases */
    uint32_t used_units;
    uint32_t next; /* page in the same list */
    uint8_t queue;
};

/* A list of pages, first in, first out. */
struct hot_pages {
    uint32_t first, last, count;
};

/* A part has its own pages, table and lock. */
struct hot_part {
    struct base_spin lock;
    _Atomic uint64_t bucket_count; /* changed under the lock */
    struct hot_bucket *buckets;    /* addresses for as many as there can be */
    uint64_t bucket_room;
    uint64_t table_bytes;      /* borrowed, but for the first step */
    uint32_t open[HOT_QUEUES]; /* page that records are added to, or HOT_NO_PAGE */
    struct hot_pages full[HOT_QUEUES];
    struct hot_pages spare;  /* empty, borrowed */
    struct hot_pages pinned; /* emptied, but somebody still reads */
    struct hot_pages unused; /* of those that were borrowed once */
    uint32_t page_begin, page_room,
        page_fresh;         /* first page, how many, how many were borrowed at least once */
    _Atomic uint32_t pages; /* borrowed now; changed under the lock */
    _Atomic uint64_t records, additions, evictions; /* changed under the lock */
} __attribute__((aligned(2 * BASE_CACHE_LINE_BYTES)));

struct depot_hot {
    struct base_account account; /* "hot" */
    struct base_account *parent;
    struct base_borrower borrower;
    uint64_t spare_bytes;
    _Atomic uint64_t held_off_bytes;
    uint32_t record_bytes_max;
    uint32_t page_bytes;
    uint32_t part_count; /* a power of two */
    uint32_t page_count;
    _Atomic uint32_t kept; /* leases */
    uint8_t *memory;       /* addresses of all pages */
    uint8_t *tables;       /* addresses of all tables */
    uint64_t
        table_step_bytes; /* by which the memory of a part's table grows and shrinks; the least that it has */
    uint64_t table_room_bytes; /* of one part's */
    struct depot_hot_page *pages;
    struct hot_part parts[];
};

/* ---- places -------------------------------------------------------------------------------------- */

/** Mixed bits of a place. Which grains there are no client chooses, so the mix has no secret. */
static inline uint64_t hot_hash(uint64_t grain)
{
    uint64_t hash = (grain ^ grain >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return hash ^ hash >> 32;
}

/** The part that a hash belongs to. */
static inline struct hot_part *hot_part_of(struct depot_hot *hot, uint64_t hash)
{
    return &hot->parts[(hash >> 60) & (hot->part_count - 1)];
}

/** The bits of a hash that a word has. */
static inline uint64_t hot_tag(uint64_t hash)
{
    return (hash >> 24) & ((UINT64_C(1) << (64 - HOT_LOCATION_BITS)) - 1);
}

/** The grain of a record. */
static inline uint64_t hot_grain(const struct hot_front *front)
{
    return (uint64_t)front->grain_high << 32 | front->grain_low;
}

/** A word for a record. The location counts from 1, so that no word is 0. */
static inline uint64_t hot_word(const struct depot_hot *hot, uint64_t hash, const struct hot_front *front)
{
    uint64_t at = (uint64_t)((const uint8_t *)front - hot->memory) / HOT_UNIT_BYTES + 1;
    return hot_tag(hash) << HOT_LOCATION_BITS | at;
}

/** The record of a word that is not 0. */
static inline struct hot_front *hot_front_of(const struct depot_hot *hot, uint64_t word)
{
    uint64_t at = (word & ((UINT64_C(1) << HOT_LOCATION_BITS) - 1)) - 1;
    return (struct hot_front *)(void *)(hot->memory + at * HOT_UNIT_BYTES);
}

/** The page that a record lies in. */
static inline struct depot_hot_page *hot_page_of(const struct depot_hot *hot, const struct hot_front *front)
{
    return &hot->pages[(uint64_t)((const uint8_t *)front - hot->memory) / hot->page_bytes];
}

/* ---- table.c ------------------------------------------------------------------------------------- */

/** The bucket of a hash, among those that there are now. */
struct hot_bucket *hot_bucket_of(const struct hot_part *part, uint64_t hash);

/** Bring the bucket of a hash into the processor's cache: a hint. */
static inline void hot_prefetch_bucket(const struct hot_part *part, uint64_t hash)
{
    const struct hot_bucket *bucket = hot_bucket_of(part, hash);
    __builtin_prefetch(bucket);
    __builtin_prefetch((const uint8_t *)bucket + BASE_CACHE_LINE_BYTES);
}

/** The word of a place's record. @return NULL: there is none. The lock is held */
_Atomic uint64_t *hot_find_locked(struct depot_hot *hot, struct hot_part *part, uint64_t hash,
                                  uint64_t grain);

/** The word that is exactly this. @return NULL: it is gone. The lock is held */
_Atomic uint64_t *hot_find_word_locked(struct hot_part *part, uint64_t hash, uint64_t word);

/** Have a record found. If its bucket is full another one is found no more. The lock is held */
void hot_put_locked(struct depot_hot *hot, struct hot_part *part, uint64_t hash, uint64_t word);

/** Have a record found no more. @param ghost  remember its place for a while. The lock is held */
void hot_take_locked(struct hot_part *part, uint64_t hash, _Atomic uint64_t *word, bool ghost);

/** Whether a place is remembered; it is not any more. The lock is held */
bool hot_take_ghost_locked(struct hot_part *part, uint64_t hash);

/** Let the table become as large as its records want it, or smaller. The lock is held */
void hot_resize_locked(struct depot_hot *hot, struct hot_part *part);

/* ---- pages.c ------------------------------------------------------------------------------------- */

/** Bytes of the account that are not borrowed now. */
static inline uint64_t hot_spare_bytes(const struct depot_hot *hot)
{
    return hot->spare_bytes + atomic_load_explicit(&hot->held_off_bytes, memory_order_relaxed);
}

/** Put a page behind a list. */
void hot_pages_push(struct depot_hot *hot, struct hot_pages *list, uint32_t page);

/** Take the first page of a list. @return HOT_NO_PAGE: it is empty */
uint32_t hot_pages_pop(struct depot_hot *hot, struct hot_pages *list);

/** Borrow a page. @return false: too little is left. The lock is held */
bool hot_borrow_page_locked(struct depot_hot *hot, struct hot_part *part);

/** Return a spare page to the account and its memory to the system. @return false: there is none. The lock is held */
bool hot_return_page_locked(struct depot_hot *hot, struct hot_part *part);

/** Pages that were emptied and that nobody reads any more become spare ones. The lock is held */
void hot_settle_pinned_locked(struct depot_hot *hot, struct hot_part *part);

/** Memory for front and record in the open page of a queue. @param evict  others may have to go for it @return NULL: there
 * is none. The lock is held */
struct hot_front *hot_room_locked(struct depot_hot *hot, struct hot_part *part, enum hot_queue queue,
                                  uint32_t units, bool evict);

/* ---- queues.c ------------------------------------------------------------------------------------ */

/** Empty the page whose turn it is. What was asked for goes on to the main queue, as long as there is a page for it.
 * @param keep  false: all goes @return false: there is none. The lock is held */
bool hot_evict_locked(struct depot_hot *hot, struct hot_part *part, bool keep);

#endif
