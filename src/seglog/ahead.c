/* Reading ahead: items of the drive, by some workers, for a caller who takes them in order. */
#include "seglog/ahead_internal.h"
#include "seglog/seglog_internal.h"
#include <errno.h>

#define PLENTY 16 /* more memory than for one item is taken only where that is such a part of what is left */

static struct seglog_ahead_item *place_of(struct seglog_ahead *ahead, uint64_t count)
{
    return &ahead->items[count % ahead->item_count];
}

/* An item to be read; the lock is held. @return NULL: there is none, or no place for it */
static struct seglog_ahead_item *begin_locked(struct seglog_ahead *ahead)
{
    base_spin_assert_held(&ahead->lock);
    if (ahead->begun - ahead->done == ahead->item_count || ahead->next == SEGLOG_AHEAD_END)
        return NULL;
    uint32_t number = ahead->ops->next(ahead->arg, ahead->next);
    if (number == SEGLOG_AHEAD_END) {
        ahead->next = SEGLOG_AHEAD_END;
        return NULL;
    }
    struct seglog_ahead_item *item = place_of(ahead, ahead->begun++);
    ahead->next = number + 1;
    item->number = number;
    item->ready = false;
    return item;
}

/* ---- workers --------------------------------------------------------------------------------------- */

static struct seglog_ahead_item *begin_item(struct seglog_ahead *ahead)
{
    base_spin_lock(&ahead->lock);
    struct seglog_ahead_item *item = begin_locked(ahead);
    base_spin_unlock(&ahead->lock);
    return item;
}

static void end_item(struct seglog_ahead *ahead, struct seglog_ahead_item *item)
{
    base_spin_lock(&ahead->lock);
    item->ready = true;
    if (ahead->wait != NULL && item == place_of(ahead, ahead->done)) {
        (void)task_wait_wake(ahead->wait, 0);
        ahead->wait = NULL;
    }
    base_spin_unlock(&ahead->lock);
}

static void run_reader(void *arg)
{
    struct seglog_ahead_worker *self = arg;
    struct seglog_ahead *ahead = self->ahead;
    while (!task_worker_stops(&self->worker)) {
        struct seglog_ahead_item *item = begin_item(ahead);
        if (item == NULL) {
            (void)task_worker_sleep_until(&self->worker, TASK_FOREVER);
            continue;
        }
        item->error = ahead->ops->fetch(ahead->arg, item);
        end_item(ahead, item);
    }
}

/* ---- the caller ------------------------------------------------------------------------------------ */

/* Items that there are, up to one for the caller and each worker. */
static uint32_t count_items(const struct seglog_ahead *ahead)
{
    uint32_t count = 0;
    for (uint32_t from = 0; count <= SEGLOG_AHEAD_WORKERS; count++) {
        uint32_t number = ahead->ops->next(ahead->arg, from);
        if (number == SEGLOG_AHEAD_END)
            break;
        from = number + 1;
    }
    return count;
}

/* @return whether there is memory for one item */
static bool take_memory(struct seglog_ahead *ahead, uint32_t wanted)
{
    struct tarn_node *node = ahead->log->node;
    size_t alignment = drive_memory_alignment(ahead->log->drive);
    while (ahead->item_count < wanted &&
           (ahead->item_count == 0 || ahead->item_bytes < base_account_left(&node->memory) / PLENTY)) {
        uint8_t *memory = base_map(&node->memory, alignment, ahead->item_bytes); /* untouched */
        if (memory == NULL)
            break;
        ahead->items[ahead->item_count++].memory = memory;
    }
    return ahead->item_count > 0;
}

int seglog_ahead_init(struct seglog_ahead *ahead, struct seglog *log, const struct seglog_ahead_ops *ops,
                      const void *arg, uint64_t item_bytes)
{
    *ahead = (struct seglog_ahead){.log = log, .ops = ops, .arg = arg, .item_bytes = item_bytes};
    base_spin_init(&ahead->lock);
    uint32_t count = count_items(ahead);
    if (!take_memory(ahead, count > 1 ? SEGLOG_AHEAD_ITEMS : 1))
        return -ENOMEM;
    uint32_t wanted = base_min(count, ahead->item_count) - 1;
    while (count > 1 && ahead->worker_count < base_min(wanted, (uint32_t)SEGLOG_AHEAD_WORKERS)) {
        struct seglog_ahead_worker *worker = &ahead->workers[ahead->worker_count];
        task_worker_init(&worker->worker);
        worker->ahead = ahead;
        if (task_worker_start(&worker->worker, "tarn-ahead", run_reader, worker) != 0)
            break; /* the caller does what they do not */
        ahead->worker_count++;
    }
    return 0;
}

/* The caller has done with the item that it held. */
static void give_back(struct seglog_ahead *ahead)
{
    if (!ahead->held)
        return;
    base_spin_lock(&ahead->lock);
    ahead->done++;
    base_spin_unlock(&ahead->lock);
    ahead->held = false;
    for (uint32_t i = 0; i < ahead->worker_count; i++)
        task_worker_poke(&ahead->workers[i].worker);
}

/* Wait for an item that a worker reads. */
static void await(struct seglog_ahead *ahead, const struct seglog_ahead_item *item)
{
    base_spin_lock(&ahead->lock);
    while (!item->ready) {
        struct task_wait wait;
        task_wait_init(&wait);
        ahead->wait = &wait;
        base_spin_unlock(&ahead->lock);
        (void)task_wait_park_firmly(&wait);
        base_spin_lock(&ahead->lock);
    }
    base_spin_unlock(&ahead->lock);
}

struct seglog_ahead_item *seglog_ahead_next(struct seglog_ahead *ahead)
{
    give_back(ahead);
    base_spin_lock(&ahead->lock);
    bool others = ahead->begun > ahead->done; /* a worker has begun it */
    struct seglog_ahead_item *item = others ? place_of(ahead, ahead->done) : begin_locked(ahead);
    base_spin_unlock(&ahead->lock);
    if (item == NULL)
        return NULL;
    if (others)
        await(ahead, item);
    else
        item->error = ahead->ops->fetch(ahead->arg, item);
    ahead->held = true;
    return item;
}

void seglog_ahead_deinit(struct seglog_ahead *ahead)
{
    for (uint32_t i = 0; i < ahead->worker_count; i++)
        task_worker_stop(&ahead->workers[i].worker);
    for (uint32_t i = 0; i < ahead->item_count; i++)
        base_unmap(&ahead->log->node->memory, ahead->items[i].memory, ahead->item_bytes);
}
