/*
 * The memory of the hot tier: pages of up to 256 KiB, into which records are packed one behind the other.
 *
 *              borrow            open               full: its turn            emptied
 *   unused ───────────▶ spare ─────────▶ open page ─────────▶ queue ─────────────────────▶ spare, or
 *      ▲     return       │                                            somebody reads:      pinned, and then spare
 *      └──────────────────┘
 *
 * A part keeps one page spare, so that what is worth keeping of a page that is emptied has a place to go to.
 */
#include "depot/hot/hot_internal.h"
#include <sys/mman.h>

#define EVICTIONS_AT_ONCE 4 /* pages emptied for one record, at most: what was asked for goes on */

void hot_pages_push(struct depot_hot *hot, struct hot_pages *list, uint32_t page)
{
    hot->pages[page].next = HOT_NO_PAGE;
    if (list->count == 0)
        list->first = page;
    else
        hot->pages[list->last].next = page;
    list->last = page;
    list->count++;
}

uint32_t hot_pages_pop(struct depot_hot *hot, struct hot_pages *list)
{
    if (list->count == 0)
        return HOT_NO_PAGE;
    uint32_t page = list->first;
    list->first = hot->pages[page].next;
    list->count--;
    return page;
}

bool hot_borrow_page_locked(struct depot_hot *hot, struct hot_part *part)
{
    base_spin_assert_held(&part->lock);
    if (part->pages == part->page_room ||
        base_account_borrow(&hot->account, hot->page_bytes, hot_spare_bytes(hot)) != 0)
        return false;
    uint32_t page = hot_pages_pop(hot, &part->unused);
    if (page == HOT_NO_PAGE)
        page = part->page_begin + part->page_fresh++;
    part->pages++;
    hot_pages_push(hot, &part->spare, page);
    return true;
}

bool hot_return_page_locked(struct depot_hot *hot, struct hot_part *part)
{
    base_spin_assert_held(&part->lock);
    uint32_t page = hot_pages_pop(hot, &part->spare);
    if (page == HOT_NO_PAGE)
        return false;
    (void)madvise(hot->memory + (uint64_t)page * hot->page_bytes, hot->page_bytes, MADV_DONTNEED);
    hot_pages_push(hot, &part->unused, page);
    part->pages--;
    base_account_return(&hot->account, hot->page_bytes);
    return true;
}

void hot_settle_pinned_locked(struct depot_hot *hot, struct hot_part *part)
{
    base_spin_assert_held(&part->lock);
    for (uint32_t i = part->pinned.count; i > 0; i--) {
        uint32_t page = hot_pages_pop(hot, &part->pinned);
        /* Pairs with pin() (hot.c): the page's words were taken out before, so no later pin finds a record in it; and with
         * the release of depot_hot_unpin(), whose reads come before what is written here next. */
        bool is_pinned = atomic_load_explicit(&hot->pages[page].pins, memory_order_seq_cst) > 0;
        hot_pages_push(hot, is_pinned ? &part->pinned : &part->spare, page);
    }
}

static bool has_room(const struct depot_hot *hot, uint32_t page, uint32_t units)
{
    return page != HOT_NO_PAGE && hot->pages[page].used_units + units <= hot->page_bytes / HOT_UNIT_BYTES;
}

/* See that there is a spare page, and another one for what evicting keeps. @return false: there is none */
static bool find_spare_locked(struct depot_hot *hot, struct hot_part *part)
{
    base_spin_assert_held(&part->lock);
    if (part->spare.count < 2)
        hot_settle_pinned_locked(hot, part);
    while (part->spare.count < 2 && hot_borrow_page_locked(hot, part)) {
    }
    for (uint32_t i = 0; i < EVICTIONS_AT_ONCE && part->spare.count < 2; i++) {
        if (!hot_evict_locked(hot, part, true))
            break;
    }
    return part->spare.count > 0;
}

/* Begin a new page of a queue. There is a spare one */
static void open_page_locked(struct depot_hot *hot, struct hot_part *part, enum hot_queue queue)
{
    base_spin_assert_held(&part->lock);
    if (part->open[queue] != HOT_NO_PAGE)
        hot_pages_push(hot, &part->full[queue], part->open[queue]);
    part->open[queue] = hot_pages_pop(hot, &part->spare);
    hot->pages[part->open[queue]].used_units = 0;
    hot->pages[part->open[queue]].queue = (uint8_t)queue;
}

struct hot_front *hot_room_locked(struct depot_hot *hot, struct hot_part *part, enum hot_queue queue,
                                  uint32_t units, bool evict)
{
    base_spin_assert_held(&part->lock);
    if (!has_room(hot, part->open[queue], units)) {
        if (evict ? !find_spare_locked(hot, part) : part->spare.count == 0)
            return NULL;
        /* to find one may have opened another page of the queue */
        if (!has_room(hot, part->open[queue], units))
            open_page_locked(hot, part, queue);
    }
    struct depot_hot_page *page = &hot->pages[part->open[queue]];
    uint8_t *at = hot->memory + (uint64_t)part->open[queue] * hot->page_bytes +
                  (uint64_t)page->used_units * HOT_UNIT_BYTES;
    page->used_units += units;
    return (struct hot_front *)(void *)at;
}
