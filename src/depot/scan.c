/*
 * Visiting every record. What is there now is visited in the order of the index. The records of a snapshot stay where they
 * are, so they are visited in the order of the drive, which is read in large pieces.
 */
#include "depot/depot_internal.h"

#include <errno.h>
#include <stdlib.h>

#define WINDOWS      4u                   /* that are read at once, … */
#define WINDOW_BYTES (UINT64_C(1) << 20)  /* … each of so much */
#define GAP_BYTES    (UINT64_C(64) << 10) /* that nobody wants are read rather than skipped */
#define SLICE_ITEMS  (UINT64_C(1) << 20)  /* entries that are put in order at once, … */
#define SLICES       16u /* … of a large store such a part; fewer where there is little memory */

/* A piece of the drive on its way into memory. */
struct scan_window {
    struct drive_request request;
    struct iovec iov;
    uint8_t *memory;
    uint64_t begin, end;  /* on the drive */
    uint64_t first, next; /* of the items: those whose records lie in it */
};

struct scan {
    struct tarn_depot *depot;
    struct tarn_depot_snapshot *snapshot; /* NULL: what is there now */
    tarn_scan_function *visit;
    void *arg;
    struct depot_index_item *items; /* DEPOT_INDEX_BATCH_MAX */
    uint32_t count;
    uint8_t *copy; /* of a record's key and value, so that the visitor may call the store */
    int damage;    /* the first error of a record that could not be read */

    /* by place */
    struct depot_index_item *slice; /* in the order of their places */
    uint64_t slice_count, slice_room;
    struct scan_window windows[WINDOWS]; /* those with memory are the first … */
    uint32_t window_count;               /* … of this number */
};

/* Pieces are recognised by their headers, and so need not be read to their ends. */
static bool is_long(const struct tarn_depot *depot, uint64_t word)
{
    return depot_index_grains(&depot->index, word) << depot->grain_shift > DEPOT_READ_SMALL_BYTES;
}

/* Show a record that was read, and release it. @return what the visitor said, or 0 */
static int show_record(struct scan *scan, struct depot_record *record)
{
    if (!depot_is_piece(record) && depot_is_unsure(scan->depot, record)) {
        depot_record_release(record);
        scan->damage = -EBADMSG;
        return 0;
    }
    bool visible = !depot_is_piece(record) && depot_visible(scan->depot, scan->snapshot, record);
    size_t key_bytes = record->header.key_bytes;
    if (visible)
        memcpy(scan->copy, record->key, key_bytes + record->header.value_bytes);
    depot_record_release(record);
    if (!visible)
        return 0;
    struct tarn_record_info info;
    depot_tell(record, &info);
    const uint8_t *value = depot_is_head(record) ? NULL : scan->copy + key_bytes;
    return scan->visit(scan->arg, scan->copy, key_bytes, value, &info);
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
    return show_record(scan, &record);
}

/* ---- what is there now --------------------------------------------------------------------------- */

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

static int scan_now(struct scan *scan)
{
    struct depot_index_cursor cursor = {.region = 0};
    int outcome = 0;
    while (outcome == 0 && !cursor.end) {
        scan->count = depot_index_next(&scan->depot->index, &cursor, scan->items);
        for (uint32_t i = 0; outcome == 0 && i < scan->count; i++) {
            bool gone;
            outcome = show(scan, scan->items[i].hash, scan->items[i].word, &gone);
            if (gone)
                outcome = show_successors(scan, scan->items[i].hash);
        }
    }
    return outcome;
}

/* ---- a snapshot: by place ------------------------------------------------------------------------- */

static uint64_t place_of(const struct scan *scan, const struct depot_index_item *item)
{
    return depot_index_address(&scan->depot->index, item->word) << scan->depot->grain_shift;
}

static int compare_places(const void *left, const void *right, void *arg)
{
    const uint64_t a = place_of(arg, left), b = place_of(arg, right);
    return a < b ? -1 : a > b;
}

/*
 * Take the entries whose records lie in a part of the drive, as many as there is room for.
 *
 * @param ret_next  the least place of a record behind the part; UINT64_MAX: there is none
 * @return 0; -ENOSPC: there are more; -ECANCELED
 */
static int take_slice(struct scan *scan, uint64_t begin, uint64_t end, uint64_t *ret_next)
{
    struct depot_index_cursor cursor = {.region = 0};
    scan->slice_count = 0;
    *ret_next = UINT64_MAX;
    while (!cursor.end) {
        const uint32_t count =
            depot_index_snapshot_next(&scan->depot->index, scan->snapshot->index, &cursor, scan->items);
        if (!depot_snapshot_holds(scan->snapshot))
            return -ECANCELED;
        for (uint32_t i = 0; i < count; i++) {
            const uint64_t place = place_of(scan, &scan->items[i]);
            if (place >= end)
                *ret_next = base_min(*ret_next, place);
            else if (place >= begin && scan->slice_count == scan->slice_room)
                return -ENOSPC;
            else if (place >= begin)
                scan->slice[scan->slice_count++] = scan->items[i];
        }
        task_yield();
    }
    return 0;
}

/* Begin to read what lies together, from an item on. @return the item to go on with */
static uint64_t post_window(struct scan *scan, struct scan_window *window, uint64_t first)
{
    struct tarn_depot *depot = scan->depot;
    const uint64_t unit = drive_info(depot->drive)->logical_block_bytes;
    *window = (struct scan_window){.memory = window->memory, .first = first, .next = first};
    for (; window->next < scan->slice_count; window->next++) {
        const struct depot_index_item *item = &scan->slice[window->next];
        const uint64_t begin = place_of(scan, item);
        const uint64_t bytes = depot_index_grains(&depot->index, item->word) << depot->grain_shift;
        const uint64_t end = base_min(base_align_up(begin + bytes, unit), seglog_store_bytes(depot->log));
        if (is_long(depot, item->word))
            continue; /* it is read by itself */
        if (window->end == 0)
            window->begin = base_align_down(begin, unit);
        else if (end - window->begin > WINDOW_BYTES || begin > window->end + GAP_BYTES)
            break;
        window->end = base_max(window->end, end);
    }
    if (window->end > 0) {
        base_counter_add(&depot->reads, 1);
        window->iov = (struct iovec){.iov_base = window->memory, .iov_len = window->end - window->begin};
        window->request = (struct drive_request){
            .op = DRIVE_READ, .offset = window->begin, .iov = &window->iov, .iov_count = 1, .region = -1};
        drive_post(depot->drive, &window->request);
    }
    return window->next;
}

/* Wait until a window was read. @return whether it was */
static bool await_window(struct scan_window *window)
{
    int error = window->end == 0 ? -ENODATA : -ETIMEDOUT;
    while (error == -ETIMEDOUT)
        error = drive_wait(&window->request, TASK_FOREVER);
    return error == 0;
}

/* What is not good in the window is read by itself, as a get would. */
static int show_window(struct scan *scan, struct scan_window *window)
{
    const bool is_read = await_window(window);
    int outcome = 0;
    for (uint64_t i = window->first; i < window->next && outcome == 0; i++) {
        const struct depot_index_item *item = &scan->slice[i];
        struct depot_record record;
        bool gone;
        if (!is_read || is_long(scan->depot, item->word) ||
            !depot_read_within(scan->depot, window->memory, window->begin, item->word, &record))
            outcome = show(scan, item->hash, item->word, &gone);
        else if (depot_snapshot_holds(scan->snapshot)) /* else something else may lie there by now */
            outcome = show_record(scan, &record);
        else
            outcome = -ECANCELED;
    }
    return outcome;
}

/* Show the records of a slice, while further windows are read. */
static int show_slice(struct scan *scan)
{
    uint64_t posted = 0, shown = 0, next = 0;
    int outcome = 0;
    qsort_r(scan->slice, scan->slice_count, sizeof(*scan->slice), compare_places, scan);
    while (outcome == 0 && (shown < posted || next < scan->slice_count)) {
        for (; posted < shown + scan->window_count && next < scan->slice_count; posted++)
            next = post_window(scan, &scan->windows[posted % scan->window_count], next);
        outcome = show_window(scan, &scan->windows[shown++ % scan->window_count]);
    }
    for (; shown < posted; shown++) /* the memory is theirs until then */
        (void)await_window(&scan->windows[shown % scan->window_count]);
    return outcome;
}

static int scan_slices(struct scan *scan)
{
    const uint64_t all = seglog_store_bytes(scan->depot->log);
    uint64_t begin = 0, width = all, next;
    int outcome = 0;
    while (outcome == 0 && begin < all) {
        outcome = take_slice(scan, begin, begin + width, &next);
        if (outcome == -ENOSPC) {
            width /= 2;
            outcome = 0;
            continue;
        }
        begin = next;
        if (outcome == 0)
            outcome = show_slice(scan);
    }
    return outcome;
}

static int scan_by_place(struct scan *scan)
{
    struct tarn_depot *depot = scan->depot;
    struct base_account *account = &depot->node->memory;
    const uint64_t count = depot_index_count(&depot->index) + 1;
    while (scan->window_count < WINDOWS) {
        uint8_t *memory = drive_memory_alloc(depot->node, depot->drive, WINDOW_BYTES);
        if (memory == NULL)
            break;
        scan->windows[scan->window_count++].memory = memory;
    }
    scan->slice_room = base_min(count, base_max(count / SLICES, SLICE_ITEMS));
    do
        scan->slice = base_alloc(account, scan->slice_room * sizeof(*scan->slice));
    while (scan->slice == NULL && (scan->slice_room /= 2) > 0);
    int outcome = scan->slice == NULL || scan->window_count == 0 ? -ENOMEM : scan_slices(scan);
    for (uint32_t i = 0; i < WINDOWS; i++)
        base_free(account, scan->windows[i].memory, WINDOW_BYTES);
    base_free(account, scan->slice, scan->slice_room * sizeof(*scan->slice));
    return outcome;
}

/* ---- all ------------------------------------------------------------------------------------------ */

int depot_scan(struct tarn_depot *depot, struct tarn_depot_snapshot *snapshot, tarn_scan_function *visit,
               void *arg)
{
    struct base_account *account = &depot->node->memory;
    struct scan scan = {.depot = depot, .snapshot = snapshot, .visit = visit, .arg = arg};
    size_t items_bytes = DEPOT_INDEX_BATCH_MAX * sizeof(*scan.items), copy_bytes = depot->record_bytes_max;
    scan.items = base_alloc(account, items_bytes);
    scan.copy = base_alloc(account, copy_bytes);
    int outcome = -ENOMEM;
    if (scan.items != NULL && scan.copy != NULL)
        outcome = snapshot == NULL ? scan_now(&scan) : scan_by_place(&scan);
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
