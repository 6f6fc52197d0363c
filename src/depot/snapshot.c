/*
 * Snapshots: the store as it was at one moment, while others go on writing. README, "Snapshots".
 *
 *   free place ─ all key and piece locks ─ growth ─ pin the log ─ the index's snapshot ─ pin's end ─ locks back
 */
#include "depot/depot_internal.h"
#include <errno.h>

/* ---- whether it is still there ------------------------------------------------------------------ */

bool depot_snapshot_holds(const struct tarn_depot_snapshot *snapshot)
{
    return depot_index_snapshot_is_whole(snapshot->index) && seglog_is_pinned(snapshot->depot->log);
}

/* depot->snapshots is held. */
static void end_lost_locked(struct tarn_depot *depot)
{
    task_mutex_assert_held(&depot->snapshots);
    struct tarn_depot_snapshot *snapshot = depot->snapshot;
    if (snapshot == NULL || snapshot->index == NULL || snapshot->ended || depot_snapshot_holds(snapshot))
        return;
    bool memory = !depot_index_snapshot_is_whole(snapshot->index);
    snapshot->ended = true;
    depot_index_snapshot_cancel(&depot->index, snapshot->index);
    seglog_unpin(depot->log);
    base_warn(&depot->node->log, "a snapshot was cancelled", "path=%s why=\"%s\"", drive_name(depot->drive),
              memory ? "there is too little memory for the parts of the index that it needs"
                     : "the space is needed that it keeps from being used again");
}

void depot_snapshot_tend(struct tarn_depot *depot)
{
    task_mutex_lock_firmly(&depot->snapshots);
    end_lost_locked(depot);
    task_mutex_unlock(&depot->snapshots);
}

bool depot_snapshot_give_up(struct tarn_depot *depot)
{
    task_mutex_lock_firmly(&depot->snapshots);
    struct tarn_depot_snapshot *snapshot = depot->snapshot;
    bool open = snapshot != NULL && snapshot->index != NULL && !snapshot->ended;
    if (open) {
        depot_index_snapshot_cancel(&depot->index, snapshot->index);
        end_lost_locked(depot);
    }
    task_mutex_unlock(&depot->snapshots);
    return open;
}

/* ---- opening and closing ------------------------------------------------------------------------ */

/* There is one at a time. */
static bool claim(struct tarn_depot *depot, struct tarn_depot_snapshot *snapshot)
{
    task_mutex_lock_firmly(&depot->snapshots);
    bool free = depot->snapshot == NULL;
    if (free)
        depot->snapshot = snapshot;
    task_mutex_unlock(&depot->snapshots);
    return free;
}

/* Nothing is written, and the index does not grow. @return 0; -ENOMEM */
static int take_moment(struct tarn_depot *depot, struct tarn_depot_snapshot *snapshot)
{
    snapshot->gone_sequence = atomic_load_explicit(&depot->gone_sequence, memory_order_acquire);
    snapshot->evicted_sequence = atomic_load_explicit(&depot->evicted_sequence, memory_order_acquire);
    snapshot->wall_ns = task_wall(depot->node);
    seglog_pin(depot->log); /* whatever the collector is about to move stays where it is, too */
    task_mutex_lock_firmly(&depot->snapshots);
    snapshot->index = depot_index_snapshot_open(&depot->index);
    task_mutex_unlock(&depot->snapshots);
    seglog_pin_end(depot->log); /* what it has moved before the snapshot was open lies in what was begun */
    if (snapshot->index != NULL)
        return 0;
    seglog_unpin(depot->log);
    return -ENOMEM;
}

int tarn_depot_snapshot_open(struct tarn_depot *depot, uint64_t room_bytes,
                             struct tarn_depot_snapshot **ret_snapshot)
{
    struct tarn_depot_snapshot *snapshot = base_alloc(&depot->node->memory, sizeof(*snapshot));
    if (snapshot == NULL)
        return -ENOMEM;
    snapshot->depot = depot;
    if (!claim(depot, snapshot)) {
        base_free(&depot->node->memory, snapshot, sizeof(*snapshot));
        return -EBUSY;
    }
    if (room_bytes > 0)
        seglog_room_make(depot->log, room_bytes);
    task_mutex_lock_firmly(&depot->growth); /* wait for one that is under way while nobody waits for us */
    task_mutex_unlock(&depot->growth);
    depot_stop_writes(depot);
    task_mutex_lock_firmly(&depot->growth);
    int error = take_moment(depot, snapshot);
    task_mutex_unlock(&depot->growth);
    depot_resume_writes(depot);
    if (error == 0)
        *ret_snapshot = snapshot;
    else
        tarn_depot_snapshot_close(snapshot);
    return error;
}

void tarn_depot_snapshot_close(struct tarn_depot_snapshot *snapshot)
{
    struct tarn_depot *depot = snapshot->depot;
    task_mutex_lock_firmly(&depot->growth);
    task_mutex_lock_firmly(&depot->snapshots);
    end_lost_locked(depot); /* so that it is said */
    bool pins = snapshot->index != NULL && !snapshot->ended;
    depot->snapshot = NULL;
    depot_index_snapshot_close(&depot->index, snapshot->index);
    task_mutex_unlock(&depot->snapshots);
    task_mutex_unlock(&depot->growth);
    if (pins)
        seglog_unpin(depot->log);
    base_free(&depot->node->memory, snapshot, sizeof(*snapshot));
}

/* ---- reading ------------------------------------------------------------------------------------ */

int tarn_depot_snapshot_get(struct tarn_depot_snapshot *snapshot, const void *key, size_t key_len,
                            void *value, size_t value_room, struct tarn_record_info *ret_info)
{
    if (!depot_key_is_valid(key_len))
        return -EINVAL;
    struct depot_key found_key = depot_key_of(snapshot->depot, key, key_len);
    found_key.snapshot = snapshot;
    base_counter_add(&snapshot->depot->gets, 1);
    return depot_pieces_get(snapshot->depot, &found_key, value, value_room, ret_info);
}

int tarn_depot_snapshot_read(struct tarn_depot_snapshot *snapshot, const void *key, size_t key_len,
                             uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                             struct tarn_record_info *ret_info)
{
    if (!depot_key_is_valid(key_len))
        return -EINVAL;
    struct depot_key found_key = depot_key_of(snapshot->depot, key, key_len);
    found_key.snapshot = snapshot;
    base_counter_add(&snapshot->depot->gets, 1);
    return depot_read_part(snapshot->depot, &found_key, 0, offset, data, data_room, ret_bytes, ret_info);
}

int tarn_depot_snapshot_scan(struct tarn_depot_snapshot *snapshot, tarn_scan_function *visit, void *arg)
{
    return depot_scan(snapshot->depot, snapshot, visit, arg);
}
