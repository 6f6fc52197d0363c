/*
 * The table of the hot tier: from a place to its record in memory. Buckets of 12 words, and one bucket more or less at a
 * time (linear hashing), so that the table has no moment at which all of it moves: readers who look into a bucket that
 * was just divided may miss a record, and then read the drive. Memory is pages.c's, policy queues.c's.
 */
#include "depot/hot/hot_internal.h"
#include <sys/mman.h>

#define RESIZE_STEPS 512 /* at a time, so that others wait little for the lock */

/* The number of a bucket among `count`: by as many bits of the hash as it takes, one less where the bucket is not there
 * yet. */
static inline uint64_t bucket_number(uint64_t hash, uint64_t count)
{
    uint64_t mask = (UINT64_C(2) << (63 - __builtin_clzll(count))) - 1;
    uint64_t number = hash & mask;
    return number < count ? number : number & (mask >> 1);
}

struct hot_bucket *hot_bucket_of(const struct hot_part *part, uint64_t hash)
{
    /* Relaxed: an old count leads to a bucket in which the record may not be any more, no more. */
    return &part->buckets[bucket_number(hash,
                                        atomic_load_explicit(&part->bucket_count, memory_order_relaxed))];
}

/* Under the lock words change by nobody else. */
static inline uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* Pairs with the load in pin() (hot.c): a reader that sees the word sees the record; one that does not see that it was
 * taken out has its pin seen by the evictor. */
static inline void store(_Atomic uint64_t *at, uint64_t word)
{
    atomic_store_explicit(at, word, memory_order_seq_cst);
}

_Atomic uint64_t *hot_find_locked(struct depot_hot *hot, struct hot_part *part, uint64_t hash, uint64_t grain)
{
    base_spin_assert_held(&part->lock);
    struct hot_bucket *bucket = hot_bucket_of(part, hash);
    for (uint32_t i = 0; i < HOT_WORDS; i++) {
        uint64_t word = load(&bucket->words[i]);
        if (word != 0 && word >> HOT_LOCATION_BITS == hot_tag(hash) &&
            hot_grain(hot_front_of(hot, word)) == grain)
            return &bucket->words[i];
    }
    return NULL;
}

_Atomic uint64_t *hot_find_word_locked(struct hot_part *part, uint64_t hash, uint64_t word)
{
    base_spin_assert_held(&part->lock);
    struct hot_bucket *bucket = hot_bucket_of(part, hash);
    for (uint32_t i = 0; i < HOT_WORDS; i++) {
        if (load(&bucket->words[i]) == word)
            return &bucket->words[i];
    }
    return NULL;
}

static void count_records(struct hot_part *part, int64_t more)
{
    atomic_fetch_add_explicit(&part->records, (uint64_t)more, memory_order_relaxed);
}

/* How much a record is worth beside others of its bucket. */
static uint32_t worth(const struct depot_hot *hot, uint64_t word)
{
    const struct hot_front *front = hot_front_of(hot, word);
    uint32_t main = hot_page_of(hot, front)->queue == HOT_MAIN ? HOT_HITS_MAX + 1 : 0;
    return main + atomic_load_explicit(&front->hits, memory_order_relaxed);
}

void hot_put_locked(struct depot_hot *hot, struct hot_part *part, uint64_t hash, uint64_t word)
{
    base_spin_assert_held(&part->lock);
    struct hot_bucket *bucket = hot_bucket_of(part, hash);
    _Atomic uint64_t *least = NULL;
    uint32_t least_worth = UINT32_MAX;
    for (uint32_t i = 0; i < HOT_WORDS; i++) {
        uint64_t other = load(&bucket->words[i]);
        if (other == 0) {
            store(&bucket->words[i], word);
            count_records(part, 1);
            return;
        }
        uint32_t other_worth = worth(hot, other);
        if (other_worth < least_worth) {
            least_worth = other_worth;
            least = &bucket->words[i];
        }
    }
    store(least, word);
    atomic_fetch_add_explicit(&part->evictions, 1, memory_order_relaxed);
}

static uint32_t ghost_of(uint64_t hash)
{
    return (uint32_t)(hash >> 28);
}

void hot_take_locked(struct hot_part *part, uint64_t hash, _Atomic uint64_t *word, bool ghost)
{
    base_spin_assert_held(&part->lock);
    store(word, 0);
    count_records(part, -1);
    if (!ghost)
        return;
    struct hot_bucket *bucket = hot_bucket_of(part, hash);
    memmove(bucket->ghosts + 1, bucket->ghosts, sizeof(bucket->ghosts) - sizeof(bucket->ghosts[0]));
    bucket->ghosts[0] = ghost_of(hash);
}

bool hot_take_ghost_locked(struct hot_part *part, uint64_t hash)
{
    base_spin_assert_held(&part->lock);
    struct hot_bucket *bucket = hot_bucket_of(part, hash);
    for (uint32_t i = 0; i < HOT_GHOSTS; i++) {
        if (bucket->ghosts[i] == ghost_of(hash)) {
            bucket->ghosts[i] = 0;
            return true;
        }
    }
    return false;
}

/* ---- size ---------------------------------------------------------------------------------------- */

/* Move to another bucket those words of one that belong there among `count` buckets, as far as there is room. Ghosts are
 * copied: those that do not belong there are no place's. */
static void move_words(struct depot_hot *hot, struct hot_part *part, uint64_t from, uint64_t to,
                       uint64_t count)
{
    struct hot_bucket *source = &part->buckets[from], *target = &part->buckets[to];
    uint32_t at = 0;
    for (uint32_t i = 0; i < HOT_WORDS; i++) {
        uint64_t word = load(&source->words[i]);
        if (word == 0 || bucket_number(hot_hash(hot_grain(hot_front_of(hot, word))), count) != to)
            continue;
        while (at < HOT_WORDS && load(&target->words[at]) != 0)
            at++;
        if (at < HOT_WORDS) {
            store(&target->words[at], word);
        } else {
            count_records(part, -1);
            atomic_fetch_add_explicit(&part->evictions, 1, memory_order_relaxed);
        }
        store(&source->words[i], 0);
    }
}

/* @return false: there is no memory */
static bool grow_locked(struct depot_hot *hot, struct hot_part *part, uint64_t count)
{
    base_spin_assert_held(&part->lock);
    if (count == part->bucket_room)
        return false;
    if (count * sizeof(struct hot_bucket) == part->table_bytes) {
        if (base_account_borrow(&hot->account, hot->table_step_bytes, 0) != 0)
            return false;
        part->table_bytes += hot->table_step_bytes;
    }
    uint64_t from = count & ~(UINT64_C(1) << (63 - __builtin_clzll(count)));
    memcpy(part->buckets[count].ghosts, part->buckets[from].ghosts, sizeof(part->buckets[from].ghosts));
    move_words(hot, part, from, count, count + 1);
    atomic_store_explicit(&part->bucket_count, count + 1, memory_order_relaxed);
    return true;
}

static void shrink_locked(struct depot_hot *hot, struct hot_part *part, uint64_t count)
{
    base_spin_assert_held(&part->lock);
    uint64_t last = count - 1, to = last & ~(UINT64_C(1) << (63 - __builtin_clzll(last)));
    atomic_store_explicit(&part->bucket_count, last, memory_order_relaxed);
    move_words(hot, part, last, to, last);
    if (last * sizeof(struct hot_bucket) + hot->table_step_bytes != part->table_bytes)
        return;
    part->table_bytes -= hot->table_step_bytes; /* late readers find zeros there */
    (void)madvise((uint8_t *)part->buckets + part->table_bytes, hot->table_step_bytes, MADV_DONTNEED);
    base_account_return(&hot->account, hot->table_step_bytes);
}

void hot_resize_locked(struct depot_hot *hot, struct hot_part *part)
{
    base_spin_assert_held(&part->lock);
    uint64_t records = atomic_load_explicit(&part->records, memory_order_relaxed);
    for (uint32_t i = 0; i < RESIZE_STEPS; i++) {
        uint64_t count = atomic_load_explicit(&part->bucket_count, memory_order_relaxed);
        if (records > count * HOT_LOAD) {
            if (!grow_locked(hot, part, count))
                return;
        } else if (count * sizeof(struct hot_bucket) > hot->table_step_bytes &&
                   records < count * (HOT_LOAD / 2)) {
            shrink_locked(hot, part, count);
        } else {
            return;
        }
    }
}
