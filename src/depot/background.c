/* What the log's service does for the store: judging and publishing what the collector moves, growth,
 * emptying. */
#include "depot/checkpoint.h"
#include "depot/repair.h"
#include <errno.h>

#define GROWTH_REGIONS 8 /* split between two looks at other work */

/* ---- collection ------------------------------------------------------------------------------------------
 */

/* Whether it is over, though the index has it: expired, or evicted when this was a cache; such a head is
 * there to hide what is older. */
static bool is_over(const struct tarn_depot *depot, const struct seglog_entry_format *entry)
{
    uint64_t expiry_ns = seglog_expiry_ns(entry->expiry);
    bool gone = (entry->kind & SEGLOG_MARK_HEAD) != 0 &&
                entry->superseded < atomic_load_explicit(&depot->gone_sequence, memory_order_relaxed);
    return gone || (expiry_ns != 0 && task_wall(depot->node) >= expiry_ns);
}

static enum seglog_verdict judge(void *owner, const struct seglog_entry_format *entry, uint64_t grain)
{
    struct tarn_depot *depot = owner;
    uint64_t word;
    if (!depot_index_look(&depot->index, entry->hash[0], grain, &word))
        return SEGLOG_DEAD;
    if (is_over(depot, entry) || depot_repair_is_doomed(depot, grain))
        return SEGLOG_ENDED; /* its tombstone goes on to hide what is older */
    /* a head that was written again would outlive its pieces */
    bool hit = depot_index_is_hit(word) && (entry->kind & SEGLOG_MARKS_PIECES) == 0;
    return hit ? SEGLOG_HIT : SEGLOG_LIVE;
}

/* A record that is in memory shall be found there at its new place, too, as soon as the index has that. The collector has
 * written it without the marks of a batch, and without the extension that belongs to them. */
static void carry_hot(struct tarn_depot *depot, uint64_t grain, const struct seglog_place *place)
{
    struct depot_hot_found found;
    struct seglog_record_format header;
    if (depot->hot == NULL ||
        !depot_hot_find(depot->hot, grain, seglog_stamp_at(depot->log, grain), false, &found))
        return;
    memcpy(&header, found.record, sizeof(header));
    uint64_t skipped =
        sizeof(header) + seglog_extension_bytes(header.kind) - seglog_extension_bytes(place->kind);
    uint64_t bytes = place->bytes - sizeof(header), stamp = seglog_stamp_at(depot->log, place->grain);
    header.kind = place->kind;
    seglog_record_seal(&header, seglog_record_seed(depot->check_seed, stamp), place->grain);
    const struct depot_hot_part parts[] = {{.bytes = &header, .len = sizeof(header)},
                                           {.bytes = found.record + skipped, .len = bytes}};
    depot_hot_add(depot->hot, place->grain, stamp, parts, base_array_count(parts), found.is_favoured);
    depot_hot_unpin(found.page);
}

static bool moved(void *owner, const struct seglog_entry_format *entry, uint64_t grain,
                  const struct seglog_place *place)
{
    struct tarn_depot *depot = owner;
    if (place != NULL) {
        carry_hot(depot, grain, place);
        bool replaced = depot_index_replace(&depot->index, entry->hash[0], grain, place->grain,
                                            depot_grains(depot, place->bytes));
        if (replaced) {
            depot_count_moved(depot, entry, place);
            if (depot->hot != NULL)
                (void)depot_hot_drop(depot->hot, grain);
        }
        return replaced;
    }
    bool removed = depot_index_remove(&depot->index, entry->hash[0], grain);
    if (removed)
        atomic_fetch_sub_explicit(&depot->live_bytes, seglog_footprint(depot->log, entry->bytes),
                                  memory_order_relaxed);
    if (removed && (entry->kind & SEGLOG_MARK_HEAD) != 0)
        depot_pieces_doom(depot, entry);
    return removed;
}

static bool gone(void *owner, const struct seglog_entry_format *entry, uint64_t grain, const void *key,
                 size_t key_bytes)
{
    struct tarn_depot *depot = owner;
    return is_over(depot, entry) || depot_repair_note(depot, entry, grain, key, key_bytes);
}

/* ---- growth ----------------------------------------------------------------------------------------------
 */

void depot_growth_end_locked(struct tarn_depot *depot)
{
    task_mutex_assert_held(&depot->growth);
    while (depot_index_grow_step(&depot->index, GROWTH_REGIONS))
        task_yield();
}

/* Have the hot tier return what a larger index will take, a little at a time. Yields. */
static void make_way(struct tarn_depot *depot)
{
    const struct base_account *account = &depot->node->memory;
    uint64_t bytes = depot_index_bytes(&depot->index);
    if (depot->hot == NULL || !depot_index_may_grow(&depot->index) || bytes > base_account_left(account))
        return;
    depot_hot_hold_off(depot->hot, bytes);
    while (base_account_unused(account) < bytes && depot_hot_give_back(depot->hot))
        task_yield();
}

/* Zeroing the memory of a large table takes the kernel tens of milliseconds: others run in between. Yields. */
static int begin_growth(struct tarn_depot *depot)
{
    int more;
    while ((more = depot_index_grow_prepare(&depot->index)) > 0)
        task_yield();
    return more == 0 ? depot_index_grow_begin(&depot->index) : more;
}

/* Double the index, or have it not become smaller. The growth lock is held. @return 0; -ENOMEM; -ENOSPC */
static int grow_locked(struct tarn_depot *depot)
{
    task_mutex_assert_held(&depot->growth);
    make_way(depot);
    int error = depot_index_shrink_turn(&depot->index) ? 0 : begin_growth(depot);
    if (error == -ENOMEM && depot_snapshot_give_up(depot))
        error = begin_growth(depot);
    if (depot->hot != NULL)
        depot_hot_hold_off(depot->hot, 0);
    if (error == 0)
        depot_growth_end_locked(depot);
    return error;
}

int depot_grow_index(struct tarn_depot *depot, uint64_t entries)
{
    task_mutex_lock_firmly(&depot->growth);
    int error = depot_index_capacity(&depot->index) < entries ? grow_locked(depot) : 0;
    task_mutex_unlock(&depot->growth);
    return error;
}

int depot_growth_now(struct tarn_depot *depot)
{
    uint64_t before = depot_index_capacity(&depot->index);
    task_mutex_lock_firmly(&depot->growth);
    int error = depot_index_capacity(&depot->index) > before ? 0 : grow_locked(depot);
    task_mutex_unlock(&depot->growth);
    return error == 0 ? 0 : -ENOSPC;
}

void depot_growth_poke(struct tarn_depot *depot)
{
    if (base_likely(!depot_index_wants_growth(&depot->index)) ||
        atomic_load_explicit(&depot->growth_refused, memory_order_relaxed) ||
        atomic_exchange_explicit(&depot->growth_wanted, true, memory_order_relaxed))
        return;
    seglog_poke(depot->log);
}

static void grow_if_wanted(struct tarn_depot *depot)
{
    if (!atomic_load_explicit(&depot->growth_wanted, memory_order_relaxed))
        return;
    task_mutex_lock_firmly(&depot->growth);
    int error = depot_index_wants_growth(&depot->index) ? grow_locked(depot) : 0;
    task_mutex_unlock(&depot->growth);
    if (error != 0) {
        atomic_store_explicit(&depot->growth_refused, true, memory_order_relaxed);
        base_warn(&depot->node->log, "the index cannot grow: new keys may find no place",
                  "path=%s error=\"%s\"", drive_name(depot->drive), strerrordesc_np(-error));
    }
    atomic_store_explicit(&depot->growth_wanted, false, memory_order_relaxed);
}

/* ---- emptying --------------------------------------------------------------------------------------------
 */

void depot_index_empty(struct tarn_depot *depot)
{
    struct task_wait wait;
    if (!depot->running) {
        depot_index_clear(&depot->index);
        return;
    }
    task_wait_init(&wait);
    /* release: pairs with the acquire of the service */
    atomic_store_explicit(&depot->clear_wanted, &wait, memory_order_release);
    seglog_poke(depot->log);
    (void)task_wait_park_firmly(&wait);
}

static void empty_if_wanted(struct tarn_depot *depot)
{
    /* acquire: pairs with the release in depot_index_empty() */
    struct task_wait *wait = atomic_exchange_explicit(&depot->clear_wanted, NULL, memory_order_acquire);
    if (wait == NULL)
        return;
    depot_index_clear(&depot->index);
    seglog_live_clear(depot->log);
    base_assert(task_wait_wake(wait, 0));
}

static bool settled(void *owner)
{
    struct tarn_depot *depot = owner;
    return atomic_load(&depot->flushing) == 0;
}

static void service(void *owner)
{
    struct tarn_depot *depot = owner;
    depot_snapshot_tend(depot);
    empty_if_wanted(depot);
    grow_if_wanted(depot);
    depot_repair_serve(depot);
    depot_pieces_end_doomed(depot);
}

const struct seglog_owner_ops depot_owner_ops = {.judge = judge,
                                                 .moved = moved,
                                                 .renew = depot_cache_renew,
                                                 .renewed = depot_cache_renewed,
                                                 .evicted = depot_cache_evicted,
                                                 .gone = gone,
                                                 .settled = settled,
                                                 .checkpoint = depot_checkpoint,
                                                 .checkpoint_bytes = depot_checkpoint_bytes,
                                                 .service = service};
