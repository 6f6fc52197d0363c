/*
 * Values in pieces, being written and dying. README, "Values in pieces", has the rule by which pieces count.
 *
 *   begin ─ piece ─ piece ─ … ─ seal ─ key lock ─ condition ─ head ─ key lock back ─ drop the old pieces
 *           └ a piece lock each: a flush_all comes before a piece or after it, never in between
 */
#include "depot/depot_internal.h"
#include <errno.h>
#include <inttypes.h>

#define PIECE_KEY "" /* one byte, zero: a record has a key, and nobody looks at this one */

struct depot_key depot_piece_key(const struct tarn_depot *depot, uint64_t id, uint32_t number)
{
    return (struct depot_key){.bytes = PIECE_KEY,
                              .len = 1,
                              .hash = seglog_piece_hash(id, number, depot->hash_seed),
                              .piece_id = id,
                              .piece_number = number};
}

bool depot_pieces_make_sense(const struct seglog_pieces_format *head)
{
    uint64_t count = seglog_pieces_count(head->value_bytes, head->piece_bytes);
    return head->id != 0 && count > 0 && count <= SEGLOG_PIECES_MAX;
}

/* ---- room ------------------------------------------------------------------------------------------- */

static uint64_t piece_footprint(const struct tarn_depot *depot, uint64_t bytes)
{
    return seglog_footprint(depot->log, seglog_record_bytes(SEGLOG_MARK_PIECE, 1, bytes));
}

static uint64_t value_footprint(const struct tarn_depot *depot, uint64_t value_bytes)
{
    uint64_t rest = value_bytes % depot->piece_bytes;
    return value_bytes / depot->piece_bytes * piece_footprint(depot, depot->piece_bytes) +
           (rest == 0 ? 0 : piece_footprint(depot, rest));
}

uint64_t depot_pieces_value_max(const struct tarn_depot *depot)
{
    uint64_t head =
        seglog_footprint(depot->log, seglog_record_bytes(SEGLOG_MARK_HEAD, TARN_KEY_BYTES_MAX, 0));
    uint64_t capacity = depot_capacity(depot), room = capacity - base_min(capacity, head);
    /* a cache would evict the first pieces of what is too large for the last ones */
    uint64_t count = room / (depot->cache ? 2 : 1) / piece_footprint(depot, depot->piece_bytes);
    return base_min((uint64_t)UINT32_MAX, base_min(count, (uint64_t)SEGLOG_PIECES_MAX) * depot->piece_bytes);
}

/* Count all of it now, so that it is refused before it fills the store. */
static int promise(struct tarn_depot *depot, uint64_t value_bytes, struct depot_chain *chain)
{
    if (depot->cache)
        return 0;
    uint64_t footprint = value_footprint(depot, value_bytes);
    uint64_t promised =
        atomic_fetch_add_explicit(&depot->promised_bytes, footprint, memory_order_relaxed) + footprint;
    chain->promised_bytes = footprint;
    return promised + atomic_load_explicit(&depot->live_bytes, memory_order_relaxed) <= depot_capacity(depot)
               ? 0
               : depot_refuse(depot, DEPOT_LACKS_SPACE, -ENOSPC);
}

static void end_promise(struct tarn_depot *depot, struct depot_chain *chain)
{
    atomic_fetch_sub_explicit(&depot->promised_bytes, chain->promised_bytes, memory_order_relaxed);
    chain->promised_bytes = 0;
}

/* ---- writing ---------------------------------------------------------------------------------------- */

int depot_chain_begin(struct tarn_depot *depot, uint64_t value_bytes, struct depot_chain *chain)
{
    *chain = (struct depot_chain){.id = 0};
    int error = promise(depot, value_bytes, chain);
    if (error == 0)
        error = depot_feature_note(depot, SEGLOG_FEATURE_PIECES);
    if (error == 0)
        error = seglog_sequence_draw(depot->log, &chain->id);
    if (error != 0)
        end_promise(depot, chain);
    return error;
}

int depot_chain_add(struct tarn_depot *depot, struct depot_chain *chain, const void *data, uint32_t bytes)
{
    base_assert(bytes > 0 && bytes <= depot->piece_bytes && chain->bytes % depot->piece_bytes == 0);
    const struct depot_key key = depot_piece_key(depot, chain->id, chain->count);
    const struct depot_content content = {
        .value = data,
        .value_len = bytes,
        .version = chain->id,
        .mark = SEGLOG_MARK_PIECE,
        .pieces = {.id = chain->id, .number = chain->count, .piece_bytes = depot->piece_bytes}};
    int error = depot_piece_write(depot, &key, &content, chain);
    if (error == 0) {
        chain->bytes += bytes;
        chain->count++;
    }
    return error;
}

int depot_chain_write(struct tarn_depot *depot, const void *value, size_t value_len,
                      struct depot_chain *chain)
{
    const uint8_t *from = value;
    int error = depot_chain_begin(depot, value_len, chain);
    while (error == 0 && chain->bytes < value_len)
        error = depot_chain_add(depot, chain, from + chain->bytes,
                                (uint32_t)base_min(value_len - chain->bytes, (size_t)depot->piece_bytes));
    if (error != 0)
        depot_chain_drop(depot, chain);
    return error;
}

/* Records of several streams, and of a mode that does not flush, reach the drive in any order: a crash must
 * not find a head that hides the old value and has lost its own. */
int depot_chain_seal(struct tarn_depot *depot, const struct depot_chain *chain)
{
    base_assert(chain->count > 0);
    return depot->power ? 0 : seglog_sync(depot->log);
}

struct seglog_pieces_format depot_chain_head(const struct tarn_depot *depot, const struct depot_chain *chain)
{
    return (struct seglog_pieces_format){
        .id = chain->id, .value_bytes = (uint32_t)chain->bytes, .piece_bytes = depot->piece_bytes};
}

int depot_chain_commit(struct tarn_depot *depot, const void *key, size_t key_len,
                       const struct tarn_put_options *options, struct depot_chain *chain,
                       uint64_t *ret_version)
{
    struct depot_content content = depot_content_of(options, NULL, 0);
    content.mark = SEGLOG_MARK_HEAD;
    content.pieces = depot_chain_head(depot, chain);
    end_promise(depot, chain);
    int error = depot_chain_seal(depot, chain);
    if (error == 0)
        error = depot_value_write(depot, key, key_len, options, &content, ret_version);
    if (error != 0)
        depot_chain_drop(depot, chain);
    return error;
}

/* ---- dying ------------------------------------------------------------------------------------------ */

/* A piece lock is held. @return 0 (it is not there any more); an error: it may be */
static int drop_piece(struct tarn_depot *depot, uint64_t id, uint32_t number)
{
    const struct depot_key key = depot_piece_key(depot, id, number);
    struct depot_record record;
    do {
        int error = depot_find(depot, &key, DEPOT_WANT_KEY, true, &record);
        if (error != 0)
            return error == -ENOENT ? 0 : error;
        depot_record_release(&record);
    } while (!depot_index_remove(&depot->index, key.hash.low, record.grain)); /* the collector has moved it */
    seglog_live_remove(depot->log, record.grain, record.bytes);
    atomic_fetch_sub_explicit(&depot->live_bytes, seglog_footprint(depot->log, record.bytes),
                              memory_order_relaxed);
    atomic_fetch_sub_explicit(&depot->pieces, 1, memory_order_relaxed);
    return 0;
}

/* Their room is lost until the next opening, which finds out by the summaries. */
static void leave_orphans(struct tarn_depot *depot, const char *why)
{
    if (!atomic_exchange_explicit(&depot->orphans, true, memory_order_relaxed))
        base_warn(&depot->node->log, "pieces of a value that is gone stay until the store is opened again",
                  "path=%s why=\"%s\"", drive_name(depot->drive), why);
}

static void drop_pieces(struct tarn_depot *depot, uint64_t id, uint64_t count)
{
    int error = 0;
    for (uint32_t number = 0; number < count; number++) {
        task_mutex_lock_firmly(depot_piece_lock(depot, id));
        int dropped = drop_piece(depot, id, number);
        task_mutex_unlock(depot_piece_lock(depot, id));
        error = error == 0 ? dropped : error;
    }
    if (error != 0)
        leave_orphans(depot, strerrordesc_np(-error));
}

void depot_chain_drop(struct tarn_depot *depot, struct depot_chain *chain)
{
    end_promise(depot, chain);
    drop_pieces(depot, chain->id, chain->count);
    chain->count = 0;
}

void depot_pieces_drop(struct tarn_depot *depot, const struct seglog_pieces_format *head)
{
    drop_pieces(depot, head->id, seglog_pieces_count(head->value_bytes, head->piece_bytes));
}

void depot_pieces_evicted(struct tarn_depot *depot, const struct seglog_entry_format *piece)
{
    /* one writer, the service. Release: pairs with depot_visible() */
    uint64_t before = atomic_load_explicit(&depot->evicted_sequence, memory_order_relaxed);
    if (piece->sequence >= before)
        atomic_store_explicit(&depot->evicted_sequence, piece->sequence + 1, memory_order_release);
}

/* ---- what has expired --------------------------------------------------------------------------------- */

/* A head that was ended, and whose pieces have to be dropped by somebody who may wait. */
struct doomed {
    struct base_list link;
    uint64_t hash[2]; /* of its key */
    uint64_t id;
    uint32_t count;
};

void depot_pieces_doom(struct tarn_depot *depot, const struct seglog_entry_format *head)
{
    struct doomed *doomed = base_alloc(&depot->node->memory, sizeof(*doomed));
    if (doomed == NULL) {
        leave_orphans(depot, "there is too little memory");
        return;
    }
    *doomed = (struct doomed){
        .hash = {head->hash[0], head->hash[1]}, .id = head->superseded, .count = head->number};
    base_list_push_back(&depot->doomed, &doomed->link);
}

/*
 * Whether a head of the same pieces has come in the ended one's place: by a touch that was decided before,
 * and that has held the key lock all the time. The key lock is held.
 */
static bool has_come_back(struct tarn_depot *depot, const struct doomed *doomed)
{
    struct depot_index_view view;
    bool found = false;
    depot_index_find(&depot->index, doomed->hash[0], &view);
    for (uint32_t i = 0; i < view.count && !found; i++) {
        struct depot_record record;
        if (depot_read_entry(depot, NULL, doomed->hash[0], view.words[i], DEPOT_WANT_WHOLE, &record) != 0)
            continue;
        found = depot_is_head(&record) && record.pieces.id == doomed->id;
        depot_record_release(&record);
    }
    return found;
}

/* @return whether it is done with */
static bool end_one(struct tarn_depot *depot, const struct doomed *doomed)
{
    struct task_mutex *key_lock = &depot->key_locks[doomed->hash[1] % DEPOT_KEY_LOCKS];
    struct task_mutex *piece_lock = depot_piece_lock(depot, doomed->id);
    if (!task_mutex_lock_try(key_lock))
        return false;
    bool locked = task_mutex_lock_try(piece_lock);
    if (locked && !has_come_back(depot, doomed)) {
        int error = 0;
        for (uint32_t number = 0; number < doomed->count && error == 0; number++)
            error = drop_piece(depot, doomed->id, number);
        if (error != 0)
            leave_orphans(depot, strerrordesc_np(-error));
    }
    if (locked)
        task_mutex_unlock(piece_lock);
    task_mutex_unlock(key_lock);
    return locked;
}

void depot_pieces_end_doomed(struct tarn_depot *depot)
{
    base_list_for_each_safe(item, &depot->doomed) {
        struct doomed *doomed = base_container_of(item, struct doomed, link);
        if (!end_one(depot, doomed))
            continue;
        base_list_remove(item);
        base_free(&depot->node->memory, doomed, sizeof(*doomed));
    }
}

void depot_pieces_end(struct tarn_depot *depot)
{
    depot_pieces_end_doomed(depot);
    base_assert(base_list_empty(&depot->doomed));
}
