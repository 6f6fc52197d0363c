/*
 * Batches: several keys are changed at once, and after a crash all of that is there or nothing.
 *
 *   room ─ key locks, in order ─ find ─ decide ─ capacity ─ places ─ sequences ─ append ─ wait ─ publish
 *                                 └──────┴─ no: nothing was written ──┘          one write    key locks back ┘
 */
#include "depot/write_internal.h"
#include <errno.h>
#include <stdlib.h>

/* One of its keys. */
struct member {
    struct depot_write write;
    struct depot_content content;
    struct tarn_batch_item *item;
    const struct tarn_put_options *options;
    uint64_t footprint; /* of the record, if it is a value */
    bool writes;        /* a record */
    bool published;
};

struct batch {
    struct tarn_depot *depot;
    struct tarn_batch_item *items;
    uint32_t count;
    struct member *members; /* ordered by their locks: all callers take several locks in this order */
    /* of those that are written */
    struct seglog_draft *drafts;
    struct seglog_place *places;
    uint32_t written_count;
    uint64_t footprint, old_footprint; /* sums */
    struct seglog_reservation room;
    struct depot_trace trace; /* of all of it */
};

/* ---- before any lock ----------------------------------------------------------------------------------- */

static const struct tarn_put_options *options_of(const struct tarn_batch_item *item)
{
    static const struct tarn_put_options any = {.condition = TARN_PUT_ANY};
    return item->options == NULL ? &any : item->options;
}

static bool is_value(const struct tarn_batch_item *item)
{
    return !item->remove && !item->check;
}

/* Of its record; a check has none. */
static size_t value_bytes(const struct tarn_batch_item *item)
{
    return item->remove ? SEGLOG_BIRTH_BYTES : item->value_len;
}

uint64_t tarn_depot_batch_bytes(const struct tarn_depot *depot, size_t key_len, size_t value_len)
{
    return seglog_batch_bytes(depot->log, seglog_record_bytes(SEGLOG_MARK_BATCH, key_len, value_len));
}

uint64_t tarn_depot_batch_bytes_max(const struct tarn_depot *depot)
{
    return seglog_batch_bytes_max(depot->log);
}

int depot_batch_check(const struct tarn_depot *depot, struct tarn_batch_item *items, size_t count,
                      uint64_t *ret_bytes)
{
    const uint64_t most = tarn_depot_batch_bytes_max(depot);
    int error = depot->read_only ? -EROFS : 0;
    *ret_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        struct tarn_batch_item *item = &items[i];
        bool valid = depot_key_is_valid(item->key_len) && options_of(item)->note <= TARN_NOTE_MAX;
        item->error = valid ? 0 : -EINVAL;
        if (valid && item->check)
            continue;
        if (valid && value_bytes(item) <= most)
            *ret_bytes += tarn_depot_batch_bytes(depot, item->key_len, value_bytes(item));
        else if (error == 0)
            error = valid ? -E2BIG : -EINVAL;
    }
    return error == 0 && *ret_bytes > most ? -E2BIG : error;
}

static int compare_members(const void *a, const void *b)
{
    const struct member *left = a, *right = b;
    const struct base_hash128 *one = &left->write.key.hash, *other = &right->write.key.hash;
    if (left->write.lock != right->write.lock)
        return left->write.lock < right->write.lock ? -1 : 1; /* of one array */
    if (one->low != other->low)
        return one->low < other->low ? -1 : 1;
    return one->high < other->high ? -1 : one->high > other->high;
}

/* @return 0; -EINVAL (a key is there twice) */
static int fill_members(struct batch *batch)
{
    struct tarn_depot *depot = batch->depot;
    int error = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct member *member = &batch->members[i];
        struct tarn_batch_item *item = &batch->items[i];
        member->item = item;
        member->options = options_of(item);
        member->content = depot_content_of(member->options, item->value, item->value_len);
        member->write.key = depot_key_of(depot, item->key, item->key_len);
        member->write.key.trace = &batch->trace;
        member->write.lock = depot_key_lock(depot, &member->write.key);
    }
    qsort(batch->members, batch->count, sizeof(*batch->members), compare_members);
    for (uint32_t i = 1; i < batch->count; i++) {
        if (compare_members(&batch->members[i - 1], &batch->members[i]) == 0)
            error = batch->members[i].item->error = -EINVAL;
    }
    return error;
}

/* ---- locks --------------------------------------------------------------------------------------------- */

/* Several keys may have one lock. */
static bool has_lock_of_its_own(const struct batch *batch, uint32_t i)
{
    return i == 0 || batch->members[i].write.lock != batch->members[i - 1].write.lock;
}

static void lock_keys(const struct batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        if (has_lock_of_its_own(batch, i))
            task_mutex_lock_firmly(batch->members[i].write.lock);
    }
}

static void unlock_keys(const struct batch *batch)
{
    for (uint32_t i = batch->count; i-- > 0;) {
        if (has_lock_of_its_own(batch, i))
            task_mutex_unlock(batch->members[i].write.lock);
    }
}

/* ---- deciding ------------------------------------------------------------------------------------------ */

/* What there is, and whether all conditions hold: every item is told. */
static int decide(struct batch *batch)
{
    int first = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct member *member = &batch->members[i];
        int error = depot_write_find(batch->depot, &member->write, DEPOT_WANT_KEY);
        if (error == 0)
            error = depot_write_decide(&member->write, member->options);
        member->item->error = error;
        member->writes = is_value(member->item) || (!member->item->check && member->write.there);
        batch->written_count += member->writes;
        first = first == 0 ? error : first;
    }
    return first;
}

/* What each will take: its record is longer if it is not alone. */
static void measure_items(struct batch *batch)
{
    const struct seglog *log = batch->depot->log;
    const uint8_t mark = batch->written_count > 1 ? SEGLOG_MARK_BATCH : 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct member *member = &batch->members[i];
        const struct depot_write *write = &member->write;
        if (is_value(member->item))
            member->footprint =
                seglog_footprint(log, seglog_record_bytes(mark, write->key.len, member->content.value_len));
        batch->footprint += member->footprint;
        if (member->writes && write->indexed)
            batch->old_footprint += seglog_footprint(log, write->old.bytes);
    }
}

/* @return 0; -ENOSPC; -EROFS; -EIO */
static int draft_records(struct batch *batch)
{
    struct tarn_depot *depot = batch->depot;
    uint32_t drafted = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct member *member = &batch->members[i];
        struct depot_write *write = &member->write;
        uint64_t sequence;
        if (!member->writes)
            continue;
        int error = member->item->remove ? 0 : depot_write_hold_place(depot, write);
        if (error == 0)
            error = seglog_sequence_draw(depot->log, &sequence);
        if (error != 0)
            return error;
        depot_trace_mark(&batch->trace, TARN_STAGE_INDEX);
        batch->drafts[drafted++] = member->item->remove
                                       ? depot_write_tombstone(write, sequence)
                                       : depot_write_value(write, &member->content, sequence);
        depot_write_note_dead(write, 0);
    }
    return 0;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

/* It is durable: change the index, of all keys that can be had. */
static int publish_members(struct batch *batch)
{
    struct tarn_depot *depot = batch->depot;
    int first = 0;
    for (uint32_t i = 0, written = 0; i < batch->count; i++) {
        struct member *member = &batch->members[i];
        if (!member->writes)
            continue;
        depot_write_warm(depot, &member->write, &batch->drafts[written], &batch->places[written]);
        int error = depot_write_publish(depot, &member->write, &batch->places[written++]);
        member->published = error == 0;
        first = first == 0 ? error : first;
        if (error != 0)
            depot_discharge(depot, member->footprint);
    }
    return first;
}

static void settle(struct batch *batch)
{
    for (uint32_t i = 0, written = 0; i < batch->count; i++) {
        const struct member *member = &batch->members[i];
        if (member->writes)
            seglog_settle(batch->depot->log, &batch->places[written++], member->published);
    }
}

/* @return 0; -EROFS: nothing was written; -EIO: after a restart all of it is there, or nothing */
static int commit(struct batch *batch)
{
    struct tarn_depot *depot = batch->depot;
    int error =
        seglog_append_batch(depot->log, &batch->room, batch->drafts, batch->written_count, batch->places);
    if (error != 0) {
        depot_discharge(depot, batch->footprint);
        return error;
    }
    depot_trace_mark(&batch->trace, TARN_STAGE_APPEND);
    error = seglog_wait(depot->log, &batch->places[batch->written_count - 1]);
    depot_trace_mark(&batch->trace, TARN_STAGE_COMMIT);
    if (error == 0)
        error = publish_members(batch);
    else
        depot_discharge(depot, batch->footprint);
    /* what is there in part until the next opening must not be built upon */
    if (error != 0)
        seglog_fail(depot->log, "the index, of a batch", batch->places[0].grain << depot->grain_shift, error);
    depot_trace_mark(&batch->trace, TARN_STAGE_INDEX);
    /* as of any write that the index does not know of */
    if (error != 0)
        seglog_checkpoints_end(depot->log);
    settle(batch);
    return error == 0 || error == -EROFS ? error : -EIO;
}

/* All key locks are held. */
static int write_records(struct batch *batch)
{
    int error = decide(batch);
    if (error != 0 || batch->written_count == 0)
        return error;
    measure_items(batch);
    error = depot_charge(batch->depot, batch->footprint, batch->old_footprint);
    if (error != 0)
        return error;
    error = draft_records(batch);
    if (error == 0)
        return commit(batch);
    depot_discharge(batch->depot, batch->footprint);
    return error;
}

/* What it has held, and what has died. */
static void end_batch(struct batch *batch)
{
    struct tarn_depot *depot = batch->depot;
    for (uint32_t i = 0; i < batch->count; i++)
        depot_write_cancel_place(depot, &batch->members[i].write);
    seglog_release(depot->log, &batch->room);
    unlock_keys(batch);
    depot_trace_end(&depot->stages, &batch->trace, TARN_STAGE_BATCH);
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct member *member = &batch->members[i];
        if (member->published && member->write.dead.id != 0)
            depot_pieces_drop(depot, &member->write.dead);
    }
}

static void tell_versions(const struct batch *batch)
{
    struct tarn_depot *depot = batch->depot;
    for (uint32_t i = 0, written = 0; i < batch->count; i++) {
        const struct member *member = &batch->members[i];
        bool remove = member->item->remove;
        member->item->version =
            member->item->check && member->write.there ? member->write.old.header.version : 0;
        if (!member->writes)
            continue;
        member->item->version = remove ? member->write.old.header.version : batch->drafts[written].version;
        base_counter_add(remove ? &depot->deletes : &depot->puts, 1);
        written++;
    }
}

/* @param bytes  of all, as tarn_depot_batch_bytes() has them */
static int write_batch(struct batch *batch, uint64_t bytes)
{
    struct tarn_depot *depot = batch->depot;
    bool removes_only = true;
    for (uint32_t i = 0; i < batch->count; i++)
        removes_only = removes_only && !is_value(&batch->items[i]);
    int error = fill_members(batch);
    if (error == 0 && batch->count > 1 && bytes > 0)
        error = depot_feature_note(depot, SEGLOG_FEATURE_BATCHES);
    if (error == 0 && bytes > 0)
        error = depot_refuse(depot, DEPOT_LACKS_SPACE,
                             seglog_reserve_batch(depot->log,
                                                  removes_only ? SEGLOG_SPACE_DELETE : SEGLOG_SPACE_DATA,
                                                  bytes, &batch->room));
    depot_trace_mark(&batch->trace, TARN_STAGE_ROOM);
    if (error != 0)
        return error;
    lock_keys(batch);
    depot_trace_mark(&batch->trace, TARN_STAGE_LOCK);
    error = write_records(batch);
    end_batch(batch);
    if (error == 0)
        tell_versions(batch);
    if (error == 0 && !removes_only)
        depot_accept(depot);
    return error;
}

/* ---- the call ------------------------------------------------------------------------------------------ */

static int with_memory(struct batch *batch, uint64_t bytes)
{
    struct base_account *account = &batch->depot->node->memory;
    const size_t each = sizeof(*batch->members) + sizeof(*batch->drafts) + sizeof(*batch->places);
    void *memory = base_alloc(account, batch->count * each);
    if (memory == NULL)
        return -ENOMEM;
    batch->members = memory;
    batch->drafts = (void *)(batch->members + batch->count);
    batch->places = (void *)(batch->drafts + batch->count);
    int error = write_batch(batch, bytes);
    base_free(account, memory, batch->count * each);
    return error;
}

int depot_batch_tell(struct tarn_batch_item *items, size_t count, int error)
{
    int blamed = 0;
    for (size_t i = 0; i < count && blamed == 0; i++)
        blamed = items[i].error == -ECANCELED ? 0 : items[i].error; /* others are to blame */
    for (size_t i = 0; i < count; i++) {
        if (items[i].error == 0)
            items[i].error = blamed != 0 ? -ECANCELED : error;
    }
    return blamed != 0 ? blamed : error;
}

int tarn_depot_write_batch(struct tarn_depot *depot, struct tarn_batch_item *items, size_t count)
{
    struct batch batch = {.depot = depot, .items = items, .count = (uint32_t)count};
    uint64_t bytes;
    if (count == 0 || count > TARN_BATCH_ITEMS_MAX)
        return count == 0 ? 0 : -E2BIG;
    int error = depot_batch_check(depot, items, count, &bytes);
    if (error == 0) {
        depot_flush_due(depot);
        depot_trace_begin(&depot->stages, &batch.trace, 0);
        error = with_memory(&batch, bytes);
    }
    return error == 0 ? 0 : depot_batch_tell(items, count, error);
}
