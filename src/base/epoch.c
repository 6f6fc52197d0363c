#include "base/epoch.h"

#include <errno.h>
#include <stdatomic.h>

/*
 * Why it is safe. A reader R enters with the clock e and then reads a pointer to N. A writer unlinks N,
 * retires it with stamp s (the clock before it advanced), and later looks at R's slot. N is released only if
 * its stamp is below the clock of every slot seen.
 *
 *  (a) s < e: R's load of the clock saw the advance of N's retirement, so R sees N unlinked.
 *
 *  (b) s >= e: a sequentially consistent fence stands between R's store of e and its read of the pointer,
 *      and another between the unlinking and the look. So either R's read comes after the unlinking and
 *      does not find N, or the look sees e and N stays (or it sees what R stored after the section).
 *
 * Leaving a section is a release that the look acquires, so all reads of R come before the release of N.
 */

#define OUTSIDE UINT64_MAX

int base_epoch_init(struct base_epoch *epoch, struct base_account *account, size_t slots_max)
{
    base_assert(slots_max > 0);
    size_t bytes;
    if (__builtin_mul_overflow(slots_max, sizeof(struct base_epoch_slot), &bytes))
        return -ENOMEM;
    struct base_epoch_slot *slots = base_alloc_aligned(account, _Alignof(struct base_epoch_slot), bytes);
    if (slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < slots_max; i++)
        atomic_init(&slots[i].entered, OUTSIDE);
    atomic_init(&epoch->clock, 0);
    epoch->account = account;
    epoch->slots = slots;
    epoch->slots_max = slots_max;
    base_spin_init(&epoch->orphans_lock);
    base_fifo_init(&epoch->orphans);
    atomic_init(&epoch->orphan_count, 0);
    return 0;
}

static struct base_epoch_node *node_of(struct base_fifo_node *link)
{
    return base_container_of(link, struct base_epoch_node, link);
}

/* The clock of the section that was entered first; OUTSIDE if none is open. */
static uint64_t oldest_section(struct base_epoch *epoch)
{
    /* Partner of the fence in base_epoch_enter. */
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t oldest = OUTSIDE;
    for (size_t i = 0; i < epoch->slots_max; i++) {
        /* Pairs with the release in base_epoch_exit (and in base_epoch_enter, for what ended before it). */
        uint64_t entered = atomic_load_explicit(&epoch->slots[i].entered, memory_order_acquire);
        oldest = base_min(oldest, entered);
    }
    return oldest;
}

static size_t release_all(struct base_fifo *ready)
{
    size_t released = 0;
    for (struct base_fifo_node *link; (link = base_fifo_pop(ready)) != NULL; released++)
        node_of(link)->release(node_of(link));
    return released;
}

/* Take from the orphans those that nobody can see any more; they are in no order. */
static void take_orphans(struct base_epoch *epoch, struct base_fifo *ready)
{
    base_spin_lock(&epoch->orphans_lock);
    struct base_fifo all = epoch->orphans;
    base_fifo_init(&epoch->orphans);
    atomic_store_explicit(&epoch->orphan_count, 0, memory_order_relaxed);
    base_spin_unlock(&epoch->orphans_lock);
    uint64_t oldest = oldest_section(epoch);
    struct base_fifo kept = {0};
    uint64_t kept_count = 0;
    for (struct base_fifo_node *link; (link = base_fifo_pop(&all)) != NULL;) {
        if (node_of(link)->stamp < oldest) {
            base_fifo_push(ready, link);
        } else {
            base_fifo_push(&kept, link);
            kept_count++;
        }
    }
    base_spin_lock(&epoch->orphans_lock);
    base_fifo_move_all(&epoch->orphans, &kept);
    atomic_fetch_add_explicit(&epoch->orphan_count, kept_count, memory_order_relaxed);
    base_spin_unlock(&epoch->orphans_lock);
}

void base_epoch_deinit(struct base_epoch *epoch)
{
    for (size_t i = 0; i < epoch->slots_max; i++)
        base_assert(!atomic_load_explicit(&epoch->slots[i].joined, memory_order_acquire));
    release_all(&epoch->orphans);
    base_free(epoch->account, epoch->slots, epoch->slots_max * sizeof(*epoch->slots));
    epoch->slots = NULL;
}

struct base_epoch_slot *base_epoch_join(struct base_epoch *epoch)
{
    for (size_t i = 0; i < epoch->slots_max; i++) {
        struct base_epoch_slot *slot = &epoch->slots[i];
        bool joined = false;
        /* Pairs with the release in base_epoch_leave: the owner before is done with the slot. */
        if (atomic_compare_exchange_strong_explicit(&slot->joined, &joined, true, memory_order_acquire,
                                                    memory_order_relaxed))
            return slot;
    }
    return NULL;
}

void base_epoch_leave(struct base_epoch *epoch, struct base_epoch_slot *slot)
{
    base_assert(slot->nesting == 0 && !slot->collecting);
    base_epoch_collect(epoch, slot);
    if (slot->retired_count > 0) {
        base_spin_lock(&epoch->orphans_lock);
        base_fifo_move_all(&epoch->orphans, &slot->retired);
        atomic_fetch_add_explicit(&epoch->orphan_count, slot->retired_count, memory_order_relaxed);
        base_spin_unlock(&epoch->orphans_lock);
    }
    slot->retired_count = 0;
    slot->retired_lately = 0;
    /* Pairs with the acquire in base_epoch_join. */
    atomic_store_explicit(&slot->joined, false, memory_order_release);
}

void base_epoch_enter(struct base_epoch *epoch, struct base_epoch_slot *slot)
{
    if (slot->nesting++ > 0)
        return;
    /* Pairs with the release in base_epoch_retire: case (a). */
    uint64_t now = atomic_load_explicit(&epoch->clock, memory_order_acquire);
    /* A release because it may hide the one of the last exit from the look that both pair with. */
    atomic_store_explicit(&slot->entered, now, memory_order_release);
    /* Partner of the fence in oldest_section: case (b). */
    atomic_thread_fence(memory_order_seq_cst);
}

void base_epoch_exit(struct base_epoch_slot *slot)
{
    base_assert(slot->nesting > 0);
    if (--slot->nesting > 0)
        return;
    /* Pairs with the acquire in oldest_section. */
    atomic_store_explicit(&slot->entered, OUTSIDE, memory_order_release);
}

void base_epoch_retire(struct base_epoch *epoch, struct base_epoch_slot *slot, struct base_epoch_node *node,
                       base_epoch_release_function *release)
{
    node->release = release;
    /* Release: whoever enters at the advanced clock sees the unlinking (base_epoch_enter). */
    node->stamp = atomic_fetch_add_explicit(&epoch->clock, 1, memory_order_acq_rel);
    base_fifo_push(&slot->retired, &node->link);
    slot->retired_count++;
    if (++slot->retired_lately >= BASE_EPOCH_BATCH)
        base_epoch_collect(epoch, slot);
}

size_t base_epoch_collect(struct base_epoch *epoch, struct base_epoch_slot *slot)
{
    slot->retired_lately = 0;
    /* A release function that retires must not come back here for ever. */
    if (slot->collecting)
        return 0;
    struct base_fifo ready = {0};
    if (slot->retired_count > 0) {
        uint64_t oldest = oldest_section(epoch);
        struct base_fifo_node *link;
        while ((link = base_fifo_first(&slot->retired)) != NULL && node_of(link)->stamp < oldest) {
            base_fifo_push(&ready, base_fifo_pop(&slot->retired));
            slot->retired_count--;
        }
    }
    if (atomic_load_explicit(&epoch->orphan_count, memory_order_relaxed) > 0)
        take_orphans(epoch, &ready);
    slot->collecting = true;
    size_t released = release_all(&ready);
    slot->collecting = false;
    return released;
}
