/* Visiting every record. */
#include "depot/depot_internal.h"

#include <errno.h>

struct scan {
    struct tarn_depot *depot;
    struct tarn_depot_snapshot *snapshot; /* NULL: what is there now */
    tarn_scan_function *visit;
    void *arg;
    struct depot_index_item *items; /* DEPOT_INDEX_BATCH_MAX */
    uint32_t count;
    uint8_t *copy; /* of a record's key and value, so that the visitor may call the store */
    int damage;    /* the first error of a record that could not be read */
};

/* Pieces are recognised by their headers, and so need not be read to their ends. */
static bool is_long(const struct tarn_depot *depot, uint64_t word)
{
    return depot_index_grains(&depot->index, word) << depot->grain_shift > DEPOT_READ_SMALL_BYTES;
}

/*
 * Show one entry's record.
 *
 * @param ret_gone  the entry is not there any more
 * @return what the visitor said, or 0
 */
static int show(struct scan *scan, uint64_t hash, uint64_t word, bool *ret_gone)
{
    struct depot_record record;
    int error = 0;
    bool piece = false;
    if (is_long(scan->depot, word)) {
        error = depot_read_entry(scan->depot, scan->snapshot, hash, word, DEPOT_WANT_KEY, &record);
        piece = error == 0 && depot_is_piece(&record);
        if (error == 0)
            depot_record_release(&record);
    }
    *ret_gone = false;
    if (piece)
        return 0;
    if (error == 0)
        error = depot_read_entry(scan->depot, scan->snapshot, hash, word, DEPOT_WANT_WHOLE, &record);
    *ret_gone = error == -ENOENT;
    if (error == -ECANCELED)
        return error;
    if (error != 0) {
        if (!*ret_gone && scan->damage == 0)
            scan->damage = error;
        return 0;
    }
    if (!depot_is_piece(&record) && depot_is_unsure(scan->depot, &record)) {
        depot_record_release(&record);
        scan->damage = -EBADMSG;
        return 0;
    }
    bool visible = !depot_is_piece(&record) && depot_visible(scan->depot, scan->snapshot, &record);
    size_t key_bytes = record.header.key_bytes;
    if (visible)
        memcpy(scan->copy, record.key, key_bytes + record.header.value_bytes);
    depot_record_release(&record);
    if (!visible)
        return 0;
    struct tarn_record_info info;
    depot_tell(&record, &info);
    const uint8_t *value = depot_is_head(&record) ? NULL : scan->copy + key_bytes;
    return scan->visit(scan->arg, scan->copy, key_bytes, value, &info);
}

static bool in_batch(const struct scan *scan, uint64_t word)
{
    for (uint32_t i = 0; i < scan->count; i++) {
        if (depot_index_is_same(scan->items[i].word, word))
            return true;
    }
    return false;
}

/* A record was moved or replaced after the batch was taken: show what has come in its place. */
static int show_successors(struct scan *scan, uint64_t hash)
{
    bool gone = true;
    int outcome = 0;
    while (gone && outcome == 0) {
        struct depot_index_view view;
        depot_index_find(&scan->depot->index, hash, &view);
        gone = false;
        for (uint32_t i = 0; i < view.count && !gone && outcome == 0; i++) {
            if (!in_batch(scan, view.words[i]))
                outcome = show(scan, hash, view.words[i], &gone);
        }
    }
    return outcome;
}

static uint32_t take_batch(struct scan *scan, struct depot_index_cursor *cursor)
{
    struct depot_index *index = &scan->depot->index;
    return scan->snapshot != NULL
               ? depot_index_snapshot_next(index, scan->snapshot->index, cursor, scan->items)
               : depot_index_next(index, cursor, scan->items);
}

static int scan_all(struct scan *scan)
{
    struct depot_index_cursor cursor = {.region = 0};
    int outcome = 0;
    while (outcome == 0 && !cursor.end) {
        scan->count = take_batch(scan, &cursor);
        if (scan->snapshot != NULL && !depot_snapshot_holds(scan->snapshot))
            return -ECANCELED;
        for (uint32_t i = 0; outcome == 0 && i < scan->count; i++) {
            bool gone;
            outcome = show(scan, scan->items[i].hash, scan->items[i].word, &gone);
            if (gone)
                outcome = show_successors(scan, scan->items[i].hash);
        }
    }
    return outcome;
}

int depot_scan(struct tarn_depot *depot, struct tarn_depot_snapshot *snapshot, tarn_scan_function *visit,
               void *arg)
{
    struct base_account *account = &depot->node->memory;
    struct scan scan = {.depot = depot, .snapshot = snapshot, .visit = visit, .arg = arg};
    size_t items_bytes = DEPOT_INDEX_BATCH_MAX * sizeof(*scan.items), copy_bytes = depot->record_bytes_max;
    scan.items = base_alloc(account, items_bytes);
    scan.copy = base_alloc(account, copy_bytes);
    int outcome = scan.items == NULL || scan.copy == NULL ? -ENOMEM : scan_all(&scan);
    base_free(account, scan.copy, copy_bytes);
    base_free(account, scan.items, items_bytes);
    if (depot_is_unsure(depot, NULL)) /* whole keys may be missing */
        scan.damage = scan.damage == 0 ? -EBADMSG : scan.damage;
    return outcome == 0 ? scan.damage : outcome;
}

int tarn_depot_scan(struct tarn_depot *depot, tarn_scan_function *visit, void *arg)
{
    depot_flush_due(depot);
    return depot_scan(depot, NULL, visit, arg);
}
