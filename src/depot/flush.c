/* What is gone although it is stored: flushed, evicted, expired. */
#include "depot/depot_internal.h"

#include <errno.h>

/* Civil time is noted so far ahead, so that a stream of expiries costs one durable state a second. */
#define NOTE_AHEAD_NS BASE_NS_PER_SECOND

void depot_resume_writes(struct tarn_depot *depot)
{
    for (uint32_t i = DEPOT_PIECE_LOCKS; i-- > 0;)
        task_mutex_unlock(&depot->piece_locks[i]);
    for (uint32_t i = DEPOT_KEY_LOCKS; i-- > 0;)
        task_mutex_unlock(&depot->key_locks[i]);
}

void depot_loss_forget(struct tarn_depot *depot)
{
    atomic_store_explicit(&depot->loss_sequence, 0, memory_order_relaxed);
    seglog_loss_forget(depot->log);
}

/* Everything that is stored so far is gone, what was missing included. All key locks held. */
static void forget_all(struct tarn_depot *depot, uint64_t sequence)
{
    atomic_store_explicit(&depot->gone_sequence, sequence, memory_order_release);
    atomic_store_explicit(&depot->flush_when_ns, 0, memory_order_release);
    depot_loss_forget(depot);
    depot_index_empty(depot);
    atomic_store_explicit(&depot->live_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&depot->pieces, 0, memory_order_relaxed);
}

/* Whether the moment of a pending order has come. */
static bool is_due(struct tarn_depot *depot)
{
    uint64_t when_ns = atomic_load_explicit(&depot->flush_when_ns, memory_order_acquire);
    return base_unlikely(when_ns != 0) && task_wall(depot->node) >= when_ns;
}

uint64_t depot_flush_when(const struct tarn_depot *depot)
{
    return atomic_load_explicit(&depot->flush_when_ns, memory_order_acquire);
}

uint64_t depot_gone_sequence(const struct tarn_depot *depot)
{
    return atomic_load_explicit(&depot->gone_sequence, memory_order_acquire);
}

/* All key locks held. */
static void carry_out_due(struct tarn_depot *depot)
{
    if (!is_due(depot))
        return;
    uint64_t sequence = seglog_sequence_next(depot->log);
    atomic_fetch_add(&depot->flushing, 1);
    /* the order itself is durable: where this cannot be noted any more, the next opening carries it out */
    if (!depot->read_only && seglog_flush_point_set(depot->log, sequence, 0) != 0)
        base_warn(&depot->node->log, "a flush could not be noted", "what=\"the next start will do it\"");
    forget_all(depot, sequence);
    atomic_fetch_sub(&depot->flushing, 1);
}

void depot_stop_writes(struct tarn_depot *depot)
{
    for (uint32_t i = 0; i < DEPOT_KEY_LOCKS; i++)
        task_mutex_lock_firmly(&depot->key_locks[i]);
    for (uint32_t i = 0; i < DEPOT_PIECE_LOCKS; i++)
        task_mutex_lock_firmly(&depot->piece_locks[i]);
    carry_out_due(depot);
}

void depot_flush_due(struct tarn_depot *depot)
{
    if (base_likely(!is_due(depot)))
        return;
    depot_stop_writes(depot);
    depot_resume_writes(depot);
}

int tarn_depot_flush_all(struct tarn_depot *depot, uint64_t when_ns)
{
    if (depot->read_only)
        return -EROFS;
    /* all at once: no write is between its decision and its record, to survive what it should not. An order
     * that has come is carried out, not replaced */
    depot_stop_writes(depot);
    bool at_once = when_ns <= task_wall(depot->node);
    uint64_t sequence = seglog_sequence_next(depot->log);
    atomic_fetch_add(&depot->flushing, 1);
    int error = seglog_flush_point_set(depot->log, at_once ? sequence : 0, at_once ? 0 : when_ns);
    if (error == 0 && at_once)
        forget_all(depot, sequence);
    else if (error == 0)
        atomic_store_explicit(&depot->flush_when_ns, when_ns, memory_order_release);
    atomic_fetch_sub(&depot->flushing, 1);
    depot_resume_writes(depot);
    return error;
}

/* What has been told to have expired must have expired after a crash, too, whatever the clock says then. */
static void note_expired(struct tarn_depot *depot, uint64_t expiry_ns, uint64_t now_ns)
{
    /* After a failure nothing can be noted any more, and nothing else either. */
    if (!depot->read_only)
        (void)!seglog_wall_note(depot->log, expiry_ns, now_ns + NOTE_AHEAD_NS);
}

bool depot_visible(struct tarn_depot *depot, const struct tarn_depot_snapshot *snapshot,
                   const struct depot_record *record)
{
    uint64_t age = depot_is_head(record) ? record->pieces.id : record->header.sequence;
    /* acquire: pairs with depot_pieces_evicted(), before the piece goes */
    uint64_t gone = snapshot != NULL ? snapshot->gone_sequence
                                     : atomic_load_explicit(&depot->gone_sequence, memory_order_acquire);
    uint64_t evicted = snapshot != NULL
                           ? snapshot->evicted_sequence
                           : atomic_load_explicit(&depot->evicted_sequence, memory_order_acquire);
    if (age < gone || (depot_is_head(record) && age < evicted))
        return false;
    uint64_t expiry_ns = seglog_expiry_ns(record->header.expiry);
    if (expiry_ns == 0)
        return true;
    uint64_t now_ns = snapshot != NULL ? snapshot->wall_ns : task_wall(depot->node);
    if (now_ns < expiry_ns)
        return true;
    note_expired(depot, expiry_ns, now_ns);
    return false;
}
