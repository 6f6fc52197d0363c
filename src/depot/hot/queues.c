/*
 * What stays in the hot tier: S3-FIFO, by pages. New records are on trial, in a tenth of the memory. When the turn of
 * their page comes, those that were asked for at least twice go on to the main queue, and the places of the others are
 * remembered for a while: a record that is read again meanwhile comes to the main queue at once. There a record goes
 * around as many times as it was asked for since, three at most.
 */
#include "depot/hot/hot_internal.h"

#define TRIAL_SHARE 10 /* of a part's pages: one in this many */
#define TRIAL_HITS  2  /* that end the trial */
#define AHEAD       8  /* records whose buckets are fetched before they are looked at */

static struct hot_front *next_front(struct hot_front *front)
{
    return (struct hot_front *)(void *)((uint8_t *)front + (uint64_t)front->units * HOT_UNIT_BYTES);
}

/* A copy in the main queue takes the place of a record. @return false: there is no page */
static bool carry_locked(struct depot_hot *hot, struct hot_part *part, uint64_t hash, _Atomic uint64_t *word,
                         const struct hot_front *front, uint8_t hits)
{
    base_spin_assert_held(&part->lock);
    struct hot_front *copy = hot_room_locked(hot, part, HOT_MAIN, front->units, false);
    if (copy == NULL)
        return false;
    copy->stamp = front->stamp;
    copy->grain_low = front->grain_low;
    copy->grain_high = front->grain_high;
    copy->units = front->units;
    atomic_store_explicit(&copy->hits, hits, memory_order_relaxed);
    memcpy(copy->record, front->record, (uint64_t)front->units * HOT_UNIT_BYTES - sizeof(*front));
    /* As store() of table.c. */
    atomic_store_explicit(word, hot_word(hot, hash, copy), memory_order_seq_cst);
    return true;
}

/* Decide about one record of a page that is emptied. */
static void judge_locked(struct depot_hot *hot, struct hot_part *part, enum hot_queue queue, bool keep,
                         struct hot_front *front)
{
    base_spin_assert_held(&part->lock);
    uint64_t hash = hot_hash(hot_grain(front));
    _Atomic uint64_t *word = hot_find_word_locked(part, hash, hot_word(hot, hash, front));
    if (word == NULL) /* it was dropped, or another version of it came */
        return;
    uint8_t hits = atomic_load_explicit(&front->hits, memory_order_relaxed);
    bool stays = hits >= (queue == HOT_TRIAL ? TRIAL_HITS : 1);
    uint8_t left = queue == HOT_TRIAL ? 0 : (uint8_t)(hits - 1);
    if (keep && stays && carry_locked(hot, part, hash, word, front, left))
        return;
    hot_take_locked(part, hash, word, queue == HOT_TRIAL);
    atomic_fetch_add_explicit(&part->evictions, 1, memory_order_relaxed);
}

/* The queue whose oldest page goes next. */
static enum hot_queue choose_queue_locked(const struct hot_part *part)
{
    base_spin_assert_held(&part->lock);
    bool trial = part->full[HOT_TRIAL].count * TRIAL_SHARE >= part->pages || part->full[HOT_MAIN].count == 0;
    return trial && part->full[HOT_TRIAL].count > 0 ? HOT_TRIAL : HOT_MAIN;
}

/* Take the page that goes next. Those that are open go only if there is no other memory. */
static uint32_t take_victim_locked(struct depot_hot *hot, struct hot_part *part, enum hot_queue *ret_queue)
{
    base_spin_assert_held(&part->lock);
    *ret_queue = choose_queue_locked(part);
    uint32_t page = hot_pages_pop(hot, &part->full[*ret_queue]);
    for (uint32_t queue = 0; queue < HOT_QUEUES && page == HOT_NO_PAGE && part->spare.count == 0; queue++) {
        *ret_queue = (enum hot_queue)queue;
        page = part->open[queue];
        part->open[queue] = HOT_NO_PAGE;
    }
    return page;
}

static struct hot_front *fetch_bucket(const struct hot_part *part, struct hot_front *front)
{
    hot_prefetch_bucket(part, hot_hash(hot_grain(front)));
    return next_front(front);
}

bool hot_evict_locked(struct depot_hot *hot, struct hot_part *part, bool keep)
{
    base_spin_assert_held(&part->lock);
    enum hot_queue queue;
    uint32_t page = take_victim_locked(hot, part, &queue);
    if (page == HOT_NO_PAGE)
        return false;
    struct hot_front *front = (void *)(hot->memory + (uint64_t)page * hot->page_bytes);
    struct hot_front *end =
        (void *)((uint8_t *)front + (uint64_t)hot->pages[page].used_units * HOT_UNIT_BYTES);
    struct hot_front *ahead = front;
    for (uint32_t i = 0; i < AHEAD && ahead < end; i++)
        ahead = fetch_bucket(part, ahead);
    for (; front < end; front = next_front(front)) {
        if (ahead < end)
            ahead = fetch_bucket(part, ahead);
        judge_locked(hot, part, queue, keep, front);
    }
    hot_pages_push(hot, &part->pinned, page);
    hot_settle_pinned_locked(hot, part);
    hot_resize_locked(hot, part);
    return true;
}
