/*
 * Writes to one key: put, update, touch, delete.
 *
 *   room ─ key lock ─ find ─ decide ─ capacity ─ place in the index ─ sequence ─ append ─ wait ─ publish
 *                     └────────┴─ no: nothing was written ─┘                          key lock back ┘
 *
 * Whatever can refuse a write comes before the append, so that nothing rejected can come back after a crash.
 * Between `find` and `publish` nobody but the collector changes what the index has of the key: it may move
 * the record, or end one that has expired.
 */
#include "depot/write_internal.h"
#include <errno.h>

/* Pieces that were taken, by flushes or evictions, before their head was written. */
#define PIECES_TRIES 16

static int reserve(struct tarn_depot *depot, struct depot_write *write, enum seglog_space space,
                   uint64_t bytes)
{
    int error = seglog_reserve(depot->log, space, bytes, &write->room);
    depot_trace_mark(&write->trace, TARN_STAGE_ROOM);
    return depot_refuse(depot, DEPOT_LACKS_SPACE, error);
}

int depot_write_find(struct tarn_depot *depot, struct depot_write *write, enum depot_want want)
{
    int error = depot_find(depot, &write->key, want, true, &write->old);
    if (error != 0 && error != -ENOENT)
        return error;
    write->indexed = error == 0;
    write->there = write->indexed && depot_visible(depot, NULL, &write->old);
    write->unsure = depot_is_unsure(depot, write->indexed ? &write->old : NULL);
    if (want == DEPOT_WANT_KEY)
        depot_record_release(&write->old);
    return 0;
}

/* @param bytes  of the record that may be written; 0: room is found later @return 0, with the key lock held;
 * or an error, without it */
static int begin_write(struct tarn_depot *depot, const void *key, size_t key_len, enum depot_want want,
                       enum seglog_space space, uint64_t bytes, struct depot_write *write)
{
    if (!depot_key_is_valid(key_len))
        return -EINVAL;
    if (depot->read_only)
        return -EROFS;
    depot_flush_due(depot);
    *write = (struct depot_write){.room.cost_bytes = 0};
    depot_trace_begin(&depot->stages, &write->trace, 0);
    write->key = depot_key_of(depot, key, key_len);
    write->key.trace = &write->trace;
    write->lock = depot_key_lock(depot, &write->key);
    int error = bytes > 0 ? reserve(depot, write, space, bytes) : 0;
    if (error != 0)
        return error;
    task_mutex_lock_firmly(write->lock);
    depot_trace_mark(&write->trace, TARN_STAGE_LOCK);
    error = depot_write_find(depot, write, want);
    if (error == 0)
        return 0;
    task_mutex_unlock(write->lock);
    seglog_release(depot->log, &write->room);
    return error;
}

/* @param whole  what the request was */
static int end_write(struct tarn_depot *depot, struct depot_write *write, enum tarn_stage whole, int outcome)
{
    depot_record_release(&write->old);
    depot_write_cancel_place(depot, write);
    seglog_release(depot->log, &write->room);
    task_mutex_unlock(write->lock);
    depot_trace_end(&depot->stages, &write->trace, whole);
    if (outcome == 0 && write->dead.id != 0)
        depot_pieces_drop(depot, &write->dead);
    return outcome;
}

/* ---- before the append --------------------------------------------------------------------------------- */

int depot_charge(struct tarn_depot *depot, uint64_t footprint, uint64_t old_footprint)
{
    uint64_t live = atomic_fetch_add_explicit(&depot->live_bytes, footprint, memory_order_relaxed) +
                    footprint + atomic_load_explicit(&depot->promised_bytes, memory_order_relaxed);
    if (depot->cache || footprint <= old_footprint || live <= depot_capacity(depot) + old_footprint)
        return 0; /* what a cache has no room for it evicts */
    atomic_fetch_sub_explicit(&depot->live_bytes, footprint, memory_order_relaxed);
    return depot_refuse(depot, DEPOT_LACKS_SPACE, -ENOSPC);
}

void depot_discharge(struct tarn_depot *depot, uint64_t footprint)
{
    atomic_fetch_sub_explicit(&depot->live_bytes, footprint, memory_order_relaxed);
}

/* A new key needs a place in the index; so does one whose record may end, or be evicted, while it is being
 * replaced, or that is gone already and waits for its end. */
int depot_write_hold_place(struct tarn_depot *depot, struct depot_write *write)
{
    if (write->there && !depot->cache && seglog_expiry_ns(write->old.header.expiry) == 0)
        return 0;
    for (uint32_t tries = 0;; tries++) {
        int error = depot_index_reserve(&depot->index, write->key.hash.low);
        if (error == -EAGAIN && (error = depot_place_make(depot, tries)) == 0)
            continue;
        write->place_held = error == 0;
        return depot_refuse(depot, DEPOT_LACKS_INDEX, error);
    }
}

void depot_write_cancel_place(struct tarn_depot *depot, struct depot_write *write)
{
    if (write->place_held)
        depot_index_cancel(&depot->index, write->key.hash.low);
    write->place_held = false;
}

/* ---- after the append ---------------------------------------------------------------------------------- */

/* The collector has moved the old record, or ended it: see where it is now. @return 0; or an error, for the
 * writer to fail with */
static int find_again(struct tarn_depot *depot, struct depot_write *write)
{
    depot_record_release(&write->old);
    int error = depot_find(depot, &write->key, DEPOT_WANT_KEY, true, &write->old);
    write->indexed = error == 0;
    depot_record_release(&write->old);
    return error == -ENOENT ? 0 : error;
}

static void forget_old(struct tarn_depot *depot, const struct depot_write *write)
{
    seglog_live_remove(depot->log, write->old.grain, write->old.bytes);
    depot_discharge(depot, seglog_footprint(depot->log, write->old.bytes));
}

/* Put the new record in the old one's place in the index, or in the one that is held. */
static int publish_record(struct tarn_depot *depot, struct depot_write *write,
                          const struct seglog_place *place)
{
    uint64_t hash = write->key.hash.low, grains = depot_grains(depot, place->bytes);
    while (write->indexed) {
        if (depot_index_replace(&depot->index, hash, write->old.grain, place->grain, grains)) {
            forget_old(depot, write);
            return 0;
        }
        int error = find_again(depot, write);
        if (error != 0)
            return error;
    }
    base_assert(write->place_held);
    depot_index_publish(&depot->index, hash, place->grain, grains);
    write->place_held = false;
    depot_growth_poke(depot);
    return 0;
}

static int unpublish(struct tarn_depot *depot, struct depot_write *write)
{
    while (write->indexed) {
        if (depot_index_remove(&depot->index, write->key.hash.low, write->old.grain)) {
            forget_old(depot, write);
            return 0;
        }
        int error = find_again(depot, write);
        if (error != 0)
            return error;
    }
    return 0;
}

void depot_write_warm(struct tarn_depot *depot, const struct depot_write *write,
                      const struct seglog_draft *draft, const struct seglog_place *place)
{
    static const uint8_t of_batch[sizeof(struct seglog_batch_format)] = {0}; /* nobody asks what it says */
    if (depot->hot == NULL)
        return;
    bool favoured = write->indexed && depot_hot_drop(depot->hot, write->old.grain);
    if (place->tombstone || (place->kind & SEGLOG_MARK_PIECE) != 0)
        return;
    struct seglog_record_format header = seglog_draft_header(draft, place->kind);
    uint64_t stamp = seglog_stamp_at(depot->log, place->grain);
    seglog_record_seal(&header, seglog_record_seed(depot->check_seed, stamp), place->grain);
    const void *extension = (place->kind & SEGLOG_MARKS_BATCH) != 0 ? of_batch : draft->extension;
    const struct depot_hot_part parts[] = {
        {.bytes = &header, .len = sizeof(header)},
        {.bytes = extension, .len = seglog_extension_bytes(place->kind)},
        {.bytes = draft->key, .len = draft->key_bytes},
        {.bytes = draft->value, .len = draft->value_bytes},
    };
    depot_hot_add(depot->hot, place->grain, stamp, parts, base_array_count(parts), favoured);
}

int depot_write_publish(struct tarn_depot *depot, struct depot_write *write, const struct seglog_place *place)
{
    return place->tombstone ? unpublish(depot, write) : publish_record(depot, write, place);
}

/* Append a record, wait for it, and change the index. @return -EIO: it may or may not be there after a
 * restart */
static int commit(struct tarn_depot *depot, struct depot_write *write, const struct seglog_draft *draft)
{
    struct seglog_place place;
    int error = seglog_append(depot->log, &write->room, draft, &place);
    if (error != 0)
        return error;
    depot_trace_mark(&write->trace, TARN_STAGE_APPEND);
    error = seglog_wait(depot->log, &place);
    depot_trace_mark(&write->trace, TARN_STAGE_COMMIT);
    if (error == 0) {
        depot_write_warm(depot, write, draft, &place);
        error = depot_write_publish(depot, write, &place);
        depot_trace_mark(&write->trace, TARN_STAGE_INDEX);
    }
    /* the next start may find it, and an index that does not know of it must not say otherwise */
    if (error != 0)
        seglog_checkpoints_end(depot->log);
    seglog_settle(depot->log, &place, error == 0);
    return error == 0 || error == -EROFS ? error : -EIO;
}

#define PROMISED UINT64_MAX /* as an old footprint: it was counted before */

void depot_write_note_dead(struct depot_write *write, uint64_t id)
{
    if (write->indexed && depot_is_head(&write->old) && write->old.pieces.id != id)
        write->dead = write->old.pieces;
}

struct seglog_draft depot_write_value(const struct depot_write *write, const struct depot_content *content,
                                      uint64_t sequence)
{
    return (struct seglog_draft){.kind = depot_content_kind(content),
                                 .key_bytes = (uint16_t)write->key.len,
                                 .value_bytes = (uint32_t)content->value_len,
                                 .client_flags = content->client_flags,
                                 .sequence = sequence,
                                 .version = content->version == 0 ? sequence : content->version,
                                 .expiry_ns = content->expiry_ns,
                                 .hash = write->key.hash,
                                 .superseded = write->indexed ? write->old.grain : 0,
                                 .key = write->key.bytes,
                                 .value = content->value,
                                 .extension = &content->pieces};
}

struct seglog_draft depot_write_tombstone(const struct depot_write *write, uint64_t sequence)
{
    return (struct seglog_draft){.kind = SEGLOG_TOMBSTONE,
                                 .key_bytes = (uint16_t)write->key.len,
                                 .sequence = sequence,
                                 .hash = write->key.hash,
                                 .superseded = write->old.grain,
                                 .key = write->key.bytes};
}

/* Store a value, all conditions met. */
static int store(struct tarn_depot *depot, struct depot_write *write, const struct depot_content *content,
                 uint64_t old_footprint, uint64_t *ret_version)
{
    uint64_t sequence;
    uint64_t bytes = seglog_record_bytes(depot_content_kind(content), write->key.len, content->value_len);
    uint64_t footprint = seglog_footprint(depot->log, bytes);
    int error = depot_charge(depot, footprint, old_footprint);
    if (error != 0)
        return error;
    depot_write_note_dead(write, content->pieces.id);
    error = depot_write_hold_place(depot, write);
    depot_trace_mark(&write->trace, TARN_STAGE_INDEX);
    if (error == 0)
        error = seglog_sequence_draw(depot->log, &sequence);
    if (error == 0) {
        const struct seglog_draft draft = depot_write_value(write, content, sequence);
        error = commit(depot, write, &draft);
        if (error == 0 && ret_version != NULL)
            *ret_version = draft.version;
    }
    if (error != 0)
        depot_discharge(depot, footprint);
    else
        depot_accept(depot);
    return error;
}

/* The same under a key. */
static int store_key(struct tarn_depot *depot, struct depot_write *write, const struct depot_content *content,
                     uint64_t *ret_version)
{
    uint64_t old_footprint = write->indexed ? seglog_footprint(depot->log, write->old.bytes) : 0;
    return store(depot, write, content, old_footprint, ret_version);
}

static int remove_key(struct tarn_depot *depot, struct depot_write *write)
{
    uint64_t sequence;
    depot_write_note_dead(write, 0);
    int error = seglog_sequence_draw(depot->log, &sequence);
    if (error != 0)
        return error;
    const struct seglog_draft draft = depot_write_tombstone(write, sequence);
    return commit(depot, write, &draft);
}

/* ---- the calls ------------------------------------------------------------------------------------------
 */

int depot_write_decide(const struct depot_write *write, const struct tarn_put_options *options)
{
    if (write->unsure && options->condition != TARN_PUT_ANY)
        return -EBADMSG;
    switch (options->condition) {
    case TARN_PUT_ANY:
        return 0;
    case TARN_PUT_IF_ABSENT:
        return write->there ? -EEXIST : 0;
    case TARN_PUT_IF_PRESENT:
        return write->there ? 0 : -ENOENT;
    case TARN_PUT_IF_VERSION:
        if (!write->there)
            return -ENOENT;
        return write->old.header.version == options->if_version ? 0 : -EEXIST;
    }
    return -EINVAL;
}

int depot_condition_look(struct tarn_depot *depot, const struct depot_key *key,
                         const struct tarn_put_options *options)
{
    struct depot_write write = {.key = *key};
    if (options->condition == TARN_PUT_ANY)
        return 0;
    int error = depot_find_sure(depot, key, DEPOT_WANT_KEY, false, &write.old);
    if (error != 0 && error != -ENOENT)
        return error;
    write.there = error == 0 && depot_visible(depot, NULL, &write.old);
    depot_record_release(&write.old);
    return depot_write_decide(&write, options);
}

int depot_piece_write(struct tarn_depot *depot, const struct depot_key *key,
                      const struct depot_content *content, struct depot_chain *chain)
{
    uint64_t bytes = seglog_record_bytes(SEGLOG_MARK_PIECE, key->len, content->value_len);
    struct depot_write write = {.key = *key, .lock = depot_piece_lock(depot, key->piece_id)};
    int error = seglog_reserve(depot->log, SEGLOG_SPACE_DATA, bytes, &write.room);
    if (error != 0)
        return depot_refuse(depot, DEPOT_LACKS_SPACE, error);
    task_mutex_lock_firmly(write.lock);
    uint64_t promised = base_min(chain->promised_bytes, seglog_footprint(depot->log, bytes));
    atomic_fetch_sub_explicit(&depot->promised_bytes, promised, memory_order_relaxed);
    chain->promised_bytes -= promised;
    atomic_fetch_add_explicit(&depot->pieces, 1,
                              memory_order_relaxed); /* before a checkpoint can be about it */
    error = store(depot, &write, content, promised > 0 ? PROMISED : 0, NULL);
    if (error != 0)
        atomic_fetch_sub_explicit(&depot->pieces, 1, memory_order_relaxed);
    return end_write(depot, &write, TARN_STAGE_PUT, error);
}

/* What may have taken some of the pieces before the head is there: a flush, or, in a cache, an eviction. */
static int check_pieces(struct tarn_depot *depot, uint64_t id)
{
    bool flushed = id < atomic_load_explicit(&depot->gone_sequence, memory_order_acquire);
    bool evicted = id < atomic_load_explicit(&depot->evicted_sequence, memory_order_acquire);
    return flushed || evicted ? -ESTALE : 0;
}

int depot_value_write(struct tarn_depot *depot, const void *key, size_t key_len,
                      const struct tarn_put_options *options, const struct depot_content *content,
                      uint64_t *ret_version)
{
    struct depot_write write;
    uint64_t bytes =
        seglog_record_bytes((uint8_t)(SEGLOG_VALUE | content->mark), key_len, content->value_len);
    int error = begin_write(depot, key, key_len, DEPOT_WANT_KEY, SEGLOG_SPACE_DATA, bytes, &write);
    if (error != 0)
        return error;
    error = depot_write_decide(&write, options);
    if (error == 0 && content->mark != 0)
        error = check_pieces(depot, content->pieces.id);
    if (error == 0)
        error = store_key(depot, &write, content, ret_version);
    if (error == 0)
        base_counter_add(&depot->puts, 1);
    return end_write(depot, &write, TARN_STAGE_PUT, error);
}

/* Its pieces are written before its key is locked, and again if they were taken meanwhile. */
static int put_in_pieces(struct tarn_depot *depot, const void *key, size_t key_len, const void *value,
                         size_t value_len, const struct tarn_put_options *options, uint64_t *ret_version)
{
    struct depot_chain chain;
    if (!depot_key_is_valid(key_len))
        return -EINVAL;
    if (depot->read_only)
        return -EROFS;
    const struct depot_key found_key = depot_key_of(depot, key, key_len);
    int error = -ESTALE;
    for (int tries = 0; error == -ESTALE && tries < PIECES_TRIES; tries++) {
        depot_flush_due(depot);
        error = depot_condition_look(depot, &found_key, options);
        if (error == 0)
            error = depot_chain_write(depot, value, value_len, &chain);
        if (error == 0)
            error = depot_chain_commit(depot, key, key_len, options, &chain, ret_version);
    }
    return error == -ESTALE ? -ENOSPC : error;
}

int tarn_depot_put(struct tarn_depot *depot, const void *key, size_t key_len, const void *value,
                   size_t value_len, const struct tarn_put_options *options, uint64_t *ret_version)
{
    static const struct tarn_put_options any = {.condition = TARN_PUT_ANY};
    if (options == NULL)
        options = &any;
    if (value_len > tarn_depot_value_bytes_max(depot))
        return -EMSGSIZE;
    if (options->note > TARN_NOTE_MAX)
        return -EINVAL;
    if (value_len > depot->whole_bytes_max)
        return put_in_pieces(depot, key, key_len, value, value_len, options, ret_version);
    const struct depot_content content = depot_content_of(options, value, value_len);
    return depot_value_write(depot, key, key_len, options, &content, ret_version);
}

int tarn_depot_delete(struct tarn_depot *depot, const void *key, size_t key_len)
{
    struct depot_write write;
    int error = begin_write(depot, key, key_len, DEPOT_WANT_KEY, SEGLOG_SPACE_DELETE,
                            seglog_record_bytes(SEGLOG_TOMBSTONE, key_len, SEGLOG_BIRTH_BYTES), &write);
    if (error != 0)
        return error;
    error = write.there ? remove_key(depot, &write) : write.unsure ? -EBADMSG : -ENOENT;
    if (error == 0)
        base_counter_add(&depot->deletes, 1);
    return end_write(depot, &write, TARN_STAGE_DELETE, error);
}

/* Room for what is known only when the old record was read. The collector takes no key lock, so waiting for
 * it here is safe. */
static int reserve_late(struct tarn_depot *depot, struct depot_write *write, enum seglog_space space,
                        uint8_t kind, size_t value_len)
{
    depot_trace_skip(&write->trace); /* what the caller has decided meanwhile is no stage */
    return reserve(depot, write, space, seglog_record_bytes(kind, write->key.len, value_len));
}

/* What is there, to be written again with something else beside it. Of a value in pieces only the head is. */
static struct depot_content old_content(const struct depot_write *write)
{
    const struct depot_record *old = &write->old;
    struct depot_content content = {.value = old->value,
                                    .value_len = old->header.value_bytes,
                                    .client_flags = old->header.client_flags,
                                    .note = seglog_note(old->header.kind),
                                    .mark = old->header.kind & SEGLOG_MARK_HEAD};
    if (depot_is_head(old))
        content.pieces = old->pieces;
    return content;
}

int tarn_depot_touch(struct tarn_depot *depot, const void *key, size_t key_len, uint64_t expiry_ns)
{
    struct depot_write write;
    int error = begin_write(depot, key, key_len, DEPOT_WANT_WHOLE, SEGLOG_SPACE_DATA, 0, &write);
    if (error != 0)
        return error;
    if (!write.there || write.unsure)
        return end_write(depot, &write, TARN_STAGE_TOUCH, write.unsure ? -EBADMSG : -ENOENT);
    struct depot_content content = old_content(&write);
    content.version = write.old.header.version;
    content.expiry_ns = expiry_ns;
    error = reserve_late(depot, &write, SEGLOG_SPACE_DATA, SEGLOG_VALUE | content.mark, content.value_len);
    if (error == 0)
        error = store_key(depot, &write, &content, NULL);
    if (error == 0)
        base_counter_add(&depot->touches, 1);
    return end_write(depot, &write, TARN_STAGE_TOUCH, error);
}

/* Remove it, as was decided. */
static int apply_removal(struct tarn_depot *depot, struct depot_write *write)
{
    if (!write->there)
        return 0;
    int error = reserve_late(depot, write, SEGLOG_SPACE_DELETE, SEGLOG_TOMBSTONE, SEGLOG_BIRTH_BYTES);
    if (error == 0)
        error = remove_key(depot, write);
    if (error == 0)
        base_counter_add(&depot->deletes, 1);
    return error;
}

/* A new value that is too long for one record: its pieces are written with the key locked, since it was
 * decided by what the key had. */
static int write_pieces(struct tarn_depot *depot, const struct tarn_update *update,
                        struct depot_content *content, struct depot_chain *chain)
{
    int error = -ESTALE;
    for (int tries = 0; error == -ESTALE && tries < PIECES_TRIES; tries++) {
        depot_chain_drop(depot, chain);
        error = depot_chain_write(depot, update->value, update->value_len, chain);
        if (error == 0)
            error = depot_chain_seal(depot, chain);
        if (error == 0)
            error = check_pieces(depot, chain->id);
    }
    content->mark = SEGLOG_MARK_HEAD;
    content->pieces = depot_chain_head(depot, chain);
    content->value_len = 0;
    return error == -ESTALE ? -ENOSPC : error;
}

/* Carry out what was decided about a record. */
static int apply_update(struct tarn_depot *depot, struct depot_write *write, const struct tarn_update *update,
                        uint64_t *ret_version)
{
    if (update->remove)
        return apply_removal(depot, write);
    if (!update->keep && update->value_len > tarn_depot_value_bytes_max(depot))
        return -EMSGSIZE;
    if (update->note > TARN_NOTE_MAX || (update->keep && !write->there))
        return -EINVAL;
    struct depot_chain chain = {.id = 0};
    struct depot_content content = {.value = update->value, .value_len = update->value_len};
    int error = 0;
    if (update->keep)
        content = old_content(write);
    else if (update->value_len > depot->whole_bytes_max)
        error = write_pieces(depot, update, &content, &chain);
    content.expiry_ns = update->expiry_ns;
    content.client_flags = update->client_flags;
    content.version = update->version;
    content.note = update->note;
    if (error == 0)
        error = reserve_late(depot, write, SEGLOG_SPACE_DATA, SEGLOG_VALUE | content.mark, content.value_len);
    if (error == 0)
        error = store_key(depot, write, &content, ret_version);
    if (error == 0)
        base_counter_add(&depot->puts, 1);
    else
        depot_chain_drop(depot, &chain);
    return error;
}

int tarn_depot_update(struct tarn_depot *depot, const void *key, size_t key_len, tarn_update_function *decide,
                      void *arg, uint64_t *ret_version)
{
    struct depot_write write;
    int error = begin_write(depot, key, key_len, DEPOT_WANT_WHOLE, SEGLOG_SPACE_DATA, 0, &write);
    if (error != 0)
        return error;
    struct tarn_record_info info;
    struct tarn_update update = {.value = NULL};
    if (write.there) {
        depot_tell(&write.old, &info);
        update.expiry_ns = info.expiry_ns;
        update.client_flags = info.client_flags;
        update.note = info.note;
    }
    bool shown = write.there && !depot_is_head(&write.old);
    error = write.unsure ? -EBADMSG
                         : decide(arg, write.there ? &info : NULL, shown ? write.old.value : NULL, &update);
    if (error == 0)
        error = apply_update(depot, &write, &update, ret_version);
    return end_write(depot, &write, TARN_STAGE_UPDATE, error);
}

uint64_t tarn_depot_value_bytes_max(const struct tarn_depot *depot)
{
    return base_max(depot_pieces_value_max(depot), depot->whole_bytes_max);
}

uint64_t tarn_depot_whole_bytes_max(const struct tarn_depot *depot)
{
    return depot->whole_bytes_max;
}
