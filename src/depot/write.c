/*
 * Writes to one key: put, update, touch, delete.
 *
 *   room ─ key lock ─ find ─ decide ─ capacity ─ place in the index ─ sequence ─ append ─ wait ─ publish ─
 * key lock back └────────────┴───── no: nothing was written ──┘
 *
 * Whatever can refuse a write comes before the append, so that nothing rejected can come back after a crash.
 * Between `find` and `publish` nobody but the collector changes what the index has of the key: it may move
 * the record, or end one that has expired.
 */
#include "depot/depot_internal.h"
#include <errno.h>

/* A write to one key, from taking its lock to giving it back. */
struct write {
    struct depot_key key;
    struct seglog_reservation room;
    struct depot_record old; /* what the index has */
    bool indexed;            /* it has something */
    bool there;              /* a get would find it */
    bool place_held;         /* depot_index_reserve() */
    struct depot_trace trace;
};

static int reserve(struct tarn_depot *depot, struct write *write, enum seglog_space space, uint64_t bytes)
{
    int error = seglog_reserve(depot->log, space, bytes, &write->room);
    depot_trace_mark(&write->trace, TARN_STAGE_ROOM);
    return error;
}

/* @param bytes  of the record that may be written; 0: room is found later @return 0, with the key lock held;
 * or an error, without it */
static int begin(struct tarn_depot *depot, const void *key, size_t key_len, enum depot_want want,
                 enum seglog_space space, uint64_t bytes, struct write *write)
{
    if (!depot_key_is_valid(key_len))
        return -EINVAL;
    if (depot->read_only)
        return -EROFS;
    depot_flush_due(depot);
    *write = (struct write){.room.cost_bytes = 0};
    depot_trace_begin(&depot->stages, &write->trace, 0);
    write->key = depot_key_of(depot, key, key_len);
    write->key.trace = &write->trace;
    int error = bytes > 0 ? reserve(depot, write, space, bytes) : 0;
    if (error != 0)
        return error;
    task_mutex_lock_firmly(depot_key_lock(depot, &write->key));
    depot_trace_mark(&write->trace, TARN_STAGE_LOCK);
    error = depot_find(depot, &write->key, want, true, &write->old);
    if (error == 0 || error == -ENOENT) {
        write->indexed = error == 0;
        write->there = write->indexed && depot_visible(depot, &write->old.header);
        if (want == DEPOT_WANT_KEY)
            depot_record_release(&write->old);
        return 0;
    }
    task_mutex_unlock(depot_key_lock(depot, &write->key));
    seglog_release(depot->log, &write->room);
    return error;
}

/* @param whole  what the request was */
static int end(struct tarn_depot *depot, struct write *write, enum tarn_stage whole, int outcome)
{
    depot_record_release(&write->old);
    if (write->place_held)
        depot_index_cancel(&depot->index, write->key.hash.low);
    seglog_release(depot->log, &write->room);
    task_mutex_unlock(depot_key_lock(depot, &write->key));
    depot_trace_end(&depot->stages, &write->trace, whole);
    return outcome;
}

/* ---- before the append --------------------------------------------------------------------------------- */

/* Count a new value in, and refuse it if it does not fit. What it replaces is still counted. */
static int charge(struct tarn_depot *depot, uint64_t footprint, uint64_t old_footprint)
{
    uint64_t live =
        atomic_fetch_add_explicit(&depot->live_bytes, footprint, memory_order_relaxed) + footprint;
    if (depot->cache || footprint <= old_footprint || live <= depot->capacity_bytes + old_footprint)
        return 0; /* what a cache has no room for it evicts */
    atomic_fetch_sub_explicit(&depot->live_bytes, footprint, memory_order_relaxed);
    return -ENOSPC;
}

static void discharge(struct tarn_depot *depot, uint64_t footprint)
{
    atomic_fetch_sub_explicit(&depot->live_bytes, footprint, memory_order_relaxed);
}

/* A new key needs a place in the index; so does one whose record may end, or be evicted, while it is being
 * replaced. */
static int hold_place(struct tarn_depot *depot, struct write *write)
{
    if (write->indexed && !depot->cache && seglog_expiry_ns(write->old.header.expiry) == 0)
        return 0;
    for (uint32_t tries = 0;; tries++) {
        int error = depot_index_reserve(&depot->index, write->key.hash.low);
        if (error == -EAGAIN && (error = depot_place_make(depot, tries)) == 0)
            continue;
        write->place_held = error == 0;
        return error;
    }
}

/* ---- after the append ---------------------------------------------------------------------------------- */

/* The collector has moved the old record, or ended it: see where it is now. @return 0; or an error, for the
 * writer to fail with */
static int find_again(struct tarn_depot *depot, struct write *write)
{
    depot_record_release(&write->old);
    int error = depot_find(depot, &write->key, DEPOT_WANT_KEY, true, &write->old);
    write->indexed = error == 0;
    depot_record_release(&write->old);
    return error == -ENOENT ? 0 : error;
}

static void forget_old(struct tarn_depot *depot, const struct write *write)
{
    seglog_live_remove(depot->log, write->old.grain, write->old.bytes);
    discharge(depot, seglog_footprint(depot->log, write->old.bytes));
}

/* Put the new record in the old one's place in the index, or in the one that is held. */
static int publish(struct tarn_depot *depot, struct write *write, const struct seglog_place *place)
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

static int unpublish(struct tarn_depot *depot, struct write *write)
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

/* Append a record, wait for it, and change the index. @return -EIO: it may or may not be there after a
 * restart */
static int commit(struct tarn_depot *depot, struct write *write, const struct seglog_draft *draft)
{
    struct seglog_place place;
    int error = seglog_append(depot->log, &write->room, draft, &place);
    if (error != 0)
        return error;
    depot_trace_mark(&write->trace, TARN_STAGE_APPEND);
    error = seglog_wait(depot->log, &place);
    depot_trace_mark(&write->trace, TARN_STAGE_COMMIT);
    if (error == 0) {
        error = place.tombstone ? unpublish(depot, write) : publish(depot, write, &place);
        depot_trace_mark(&write->trace, TARN_STAGE_INDEX);
    }
    /* the next start may find it, and an index that does not know of it must not say otherwise */
    if (error != 0)
        seglog_checkpoints_end(depot->log);
    seglog_settle(depot->log, &place, error == 0);
    return error == 0 || error == -EROFS ? error : -EIO;
}

/* What shall stand under the key. */
struct content {
    const void *value;
    size_t value_len;
    uint64_t expiry_ns;
    uint32_t client_flags;
    uint64_t version; /* 0: a new one */
    uint8_t note;
};

/* Store a value, all conditions met. */
static int store(struct tarn_depot *depot, struct write *write, const struct content *content,
                 uint64_t *ret_version)
{
    uint64_t bytes = seglog_record_bytes(SEGLOG_VALUE, write->key.len, content->value_len), sequence;
    uint64_t footprint = seglog_footprint(depot->log, bytes);
    int error = charge(depot, footprint, write->indexed ? seglog_footprint(depot->log, write->old.bytes) : 0);
    if (error != 0)
        return error;
    error = hold_place(depot, write);
    depot_trace_mark(&write->trace, TARN_STAGE_INDEX);
    if (error == 0)
        error = seglog_sequence_draw(depot->log, &sequence);
    if (error == 0) {
        uint64_t version = content->version == 0 ? sequence : content->version;
        const struct seglog_draft draft = {.kind =
                                               (uint8_t)(SEGLOG_VALUE | content->note << SEGLOG_NOTE_SHIFT),
                                           .key_bytes = (uint16_t)write->key.len,
                                           .value_bytes = (uint32_t)content->value_len,
                                           .client_flags = content->client_flags,
                                           .sequence = sequence,
                                           .version = version,
                                           .expiry_ns = content->expiry_ns,
                                           .hash = write->key.hash,
                                           .superseded = write->indexed ? write->old.grain : 0,
                                           .key = write->key.bytes,
                                           .value = content->value};
        error = commit(depot, write, &draft);
        if (error == 0 && ret_version != NULL)
            *ret_version = version;
    }
    if (error != 0)
        discharge(depot, footprint);
    return error;
}

static int remove_key(struct tarn_depot *depot, struct write *write)
{
    uint64_t sequence;
    int error = seglog_sequence_draw(depot->log, &sequence);
    if (error != 0)
        return error;
    const struct seglog_draft draft = {.kind = SEGLOG_TOMBSTONE,
                                       .key_bytes = (uint16_t)write->key.len,
                                       .sequence = sequence,
                                       .hash = write->key.hash,
                                       .superseded = write->old.grain,
                                       .key = write->key.bytes};
    return commit(depot, write, &draft);
}

/* ---- the calls ------------------------------------------------------------------------------------------
 */

static int check_condition(const struct write *write, const struct tarn_put_options *options)
{
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
    struct write write;
    int error = begin(depot, key, key_len, DEPOT_WANT_KEY, SEGLOG_SPACE_DATA,
                      seglog_record_bytes(SEGLOG_VALUE, key_len, value_len), &write);
    if (error != 0)
        return error;
    const struct content content = {.value = value,
                                    .value_len = value_len,
                                    .expiry_ns = options->expiry_ns,
                                    .client_flags = options->client_flags,
                                    .version = options->version,
                                    .note = options->note};
    error = check_condition(&write, options);
    if (error == 0)
        error = store(depot, &write, &content, ret_version);
    if (error == 0)
        depot_count(&depot->puts);
    return end(depot, &write, TARN_STAGE_PUT, error);
}

int tarn_depot_delete(struct tarn_depot *depot, const void *key, size_t key_len)
{
    struct write write;
    int error = begin(depot, key, key_len, DEPOT_WANT_KEY, SEGLOG_SPACE_DELETE,
                      seglog_record_bytes(SEGLOG_TOMBSTONE, key_len, SEGLOG_BIRTH_BYTES), &write);
    if (error != 0)
        return error;
    error = write.there ? remove_key(depot, &write) : -ENOENT;
    if (error == 0)
        depot_count(&depot->deletes);
    return end(depot, &write, TARN_STAGE_DELETE, error);
}

/* Room for what is known only when the old record was read. The collector takes no key lock, so waiting for
 * it here is safe. */
static int reserve_late(struct tarn_depot *depot, struct write *write, enum seglog_space space, uint8_t kind,
                        size_t value_len)
{
    depot_trace_skip(&write->trace); /* what the caller has decided meanwhile is no stage */
    return reserve(depot, write, space, seglog_record_bytes(kind, write->key.len, value_len));
}

int tarn_depot_touch(struct tarn_depot *depot, const void *key, size_t key_len, uint64_t expiry_ns)
{
    struct write write;
    int error = begin(depot, key, key_len, DEPOT_WANT_WHOLE, SEGLOG_SPACE_DATA, 0, &write);
    if (error != 0)
        return error;
    if (!write.there)
        return end(depot, &write, TARN_STAGE_TOUCH, -ENOENT);
    const struct content content = {.value = write.old.value,
                                    .value_len = write.old.header.value_bytes,
                                    .expiry_ns = expiry_ns,
                                    .client_flags = write.old.header.client_flags,
                                    .version = write.old.header.version,
                                    .note = seglog_note(write.old.header.kind)};
    error = reserve_late(depot, &write, SEGLOG_SPACE_DATA, SEGLOG_VALUE, content.value_len);
    if (error == 0)
        error = store(depot, &write, &content, NULL);
    if (error == 0)
        depot_count(&depot->touches);
    return end(depot, &write, TARN_STAGE_TOUCH, error);
}

/* Carry out what was decided about a record. */
static int apply_update(struct tarn_depot *depot, struct write *write, const struct tarn_update *update,
                        uint64_t *ret_version)
{
    if (update->remove && !write->there)
        return 0;
    if (!update->remove && update->value_len > tarn_depot_value_bytes_max(depot))
        return -EMSGSIZE;
    if (update->note > TARN_NOTE_MAX)
        return -EINVAL;
    int error = update->remove
                    ? reserve_late(depot, write, SEGLOG_SPACE_DELETE, SEGLOG_TOMBSTONE, SEGLOG_BIRTH_BYTES)
                    : reserve_late(depot, write, SEGLOG_SPACE_DATA, SEGLOG_VALUE, update->value_len);
    if (error != 0)
        return error;
    if (update->remove) {
        error = remove_key(depot, write);
        if (error == 0)
            depot_count(&depot->deletes);
        return error;
    }
    const struct content content = {.value = update->value,
                                    .value_len = update->value_len,
                                    .expiry_ns = update->expiry_ns,
                                    .client_flags = update->client_flags,
                                    .version = update->version,
                                    .note = update->note};
    error = store(depot, write, &content, ret_version);
    if (error == 0)
        depot_count(&depot->puts);
    return error;
}

int tarn_depot_update(struct tarn_depot *depot, const void *key, size_t key_len, tarn_update_function *decide,
                      void *arg, uint64_t *ret_version)
{
    struct write write;
    int error = begin(depot, key, key_len, DEPOT_WANT_WHOLE, SEGLOG_SPACE_DATA, 0, &write);
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
    error = decide(arg, write.there ? &info : NULL, write.there ? write.old.value : NULL, &update);
    if (error == 0)
        error = apply_update(depot, &write, &update, ret_version);
    return end(depot, &write, TARN_STAGE_UPDATE, error);
}

uint64_t tarn_depot_value_bytes_max(const struct tarn_depot *depot)
{
    return depot->record_bytes_max - seglog_record_bytes(SEGLOG_VALUE, TARN_KEY_BYTES_MAX, 0);
}
