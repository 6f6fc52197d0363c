/*
 * Filling the index when a store is opened: from a checkpoint and the entries that it is not about, else from
 * all summaries; and writing checkpoints. README, "Opening".
 */
#include "depot/best.h"
#include <errno.h>
#include <inttypes.h>

/* Of more entries than these, and half of all, summaries alone are no slower. */
#define REPLAYED_ALWAYS 65536

struct replay {
    struct tarn_depot *depot;
    uint64_t tombstones;
    uint64_t gone_sequence;
};

/* ---- from summaries ------------------------------------------------------------------------------- */

static int meet_entry(void *arg, const struct depot_best *before, struct depot_best *best,
                      const struct seglog_entry_format *entry, uint64_t grain)
{
    struct replay *replay = arg;
    (void)before;
    (void)best;
    if ((entry->kind & SEGLOG_KIND_MASK) == SEGLOG_TOMBSTONE) {
        seglog_live_add(replay->depot->log, grain, entry->bytes, true);
        replay->tombstones++;
    }
    return 0;
}

static int load_best(void *arg, const struct depot_best *best)
{
    const struct replay *replay = arg;
    struct tarn_depot *depot = replay->depot;
    if (best->kind != SEGLOG_VALUE || best->sequence < replay->gone_sequence)
        return 0;
    return depot_index_load(&depot->index, best->hash[0], best->grain, depot_grains(depot, best->bytes));
}

/* What lives, by what the index says. */
static int count_lives(struct tarn_depot *depot)
{
    struct base_account *account = &depot->node->memory;
    const size_t items_bytes = DEPOT_INDEX_BATCH_MAX * sizeof(struct depot_index_item);
    struct depot_index_item *items = base_alloc(account, items_bytes);
    if (items == NULL)
        return -ENOMEM;
    uint64_t live_bytes = 0;
    for (struct depot_index_cursor cursor = {.region = 0}; !cursor.end;) {
        uint32_t count = depot_index_next(&depot->index, &cursor, items);
        for (uint32_t i = 0; i < count; i++) {
            uint64_t bytes = depot_index_grains(&depot->index, items[i].word) << depot->grain_shift;
            seglog_live_add(depot->log, depot_index_address(&depot->index, items[i].word), bytes, false);
            live_bytes += seglog_footprint(depot->log, bytes);
        }
    }
    base_free(account, items, items_bytes);
    atomic_store_explicit(&depot->live_bytes, live_bytes, memory_order_relaxed);
    return 0;
}

static int replay_summaries(struct tarn_depot *depot, uint64_t gone_sequence)
{
    struct replay replay = {.depot = depot, .gone_sequence = gone_sequence};
    static const struct depot_best_ops ops = {.meet = meet_entry, .take = load_best};
    uint64_t begin_ns = task_now(), entries;
    uint32_t passes;
    (void)seglog_uncovered_entries(depot->log, &entries);
    seglog_live_forget(depot->log);
    int error = depot_best_find(depot->node, depot->log, entries, &ops, &replay, &passes);
    if (error == 0)
        error = count_lives(depot);
    if (error != 0)
        return error;
    base_info(&depot->node->log, "index rebuilt from summaries",
              "path=%s records=%" PRIu64 " tombstones=%" PRIu64 " entries=%" PRIu64 " passes=%" PRIu32
              " ms=%" PRIu64,
              drive_name(depot->drive), depot_index_count(&depot->index), replay.tombstones, entries, passes,
              (task_now() - begin_ns) / BASE_NS_PER_MS);
    return 0;
}

/* ---- from a checkpoint ---------------------------------------------------------------------------- */

/* Reads a checkpoint 16 bytes after 16 bytes, however it is cut. */
struct loader {
    struct tarn_depot *depot;
    uint8_t unit[sizeof(struct depot_checkpoint_entry_format)];
    uint32_t unit_bytes;
    bool begun;
};

_Static_assert(sizeof(struct depot_checkpoint_format) == sizeof(struct depot_checkpoint_entry_format),
               "all of it is made of equal units");

static int load_header(struct loader *loader)
{
    struct depot_checkpoint_format header;
    memcpy(&header, loader->unit, sizeof(header));
    loader->begun = true;
    if (header.magic != DEPOT_CHECKPOINT_MAGIC ||
        header.entries > loader->depot->store_bytes >> loader->depot->grain_shift)
        return -EBADMSG;
    int error = depot_index_grow_to(&loader->depot->index, header.entries);
    return error == -ENOMEM && loader->depot->cache ? 0 : error; /* there may be places, as there were */
}

static int load_unit(struct loader *loader)
{
    struct tarn_depot *depot = loader->depot;
    struct depot_checkpoint_entry_format entry;
    if (!loader->begun)
        return load_header(loader);
    memcpy(&entry, loader->unit, sizeof(entry));
    uint64_t grain = depot_index_address(&depot->index, entry.word);
    if (seglog_stamp_at(depot->log, grain) == 0)
        return -EBADMSG;
    if (!seglog_is_covered(depot->log, grain))
        return 0; /* its segment was freed, or its entry is replayed */
    return depot_index_load(&depot->index, entry.hash, grain, depot_index_grains(&depot->index, entry.word));
}

static int load(void *arg, const void *data, uint64_t bytes)
{
    struct loader *loader = arg;
    int error = 0;
    for (const uint8_t *from = data, *end = from + bytes; error == 0 && from < end;) {
        uint32_t now = (uint32_t)base_min(sizeof(loader->unit) - loader->unit_bytes, (size_t)(end - from));
        memcpy(loader->unit + loader->unit_bytes, from, now);
        loader->unit_bytes += now;
        from += now;
        if (loader->unit_bytes < sizeof(loader->unit))
            break;
        error = load_unit(loader);
        loader->unit_bytes = 0;
    }
    return error;
}

/* What a later record has superseded is not the key's any more. */
static int meet_uncovered(void *arg, const struct depot_best *before, struct depot_best *best,
                          const struct seglog_entry_format *entry, uint64_t grain)
{
    struct replay *replay = arg;
    if (entry->superseded != 0 && seglog_is_covered(replay->depot->log, entry->superseded))
        (void)depot_index_remove(&replay->depot->index, entry->hash[0], entry->superseded);
    return meet_entry(arg, before, best, entry, grain);
}

/* What looks like the key and is still there is another key; or the record between the two is gone. */
static void look_for_others(void *arg, const struct depot_best *best)
{
    const struct replay *replay = arg;
    struct tarn_depot *depot = replay->depot;
    struct depot_index_view view;
    depot_index_find(&depot->index, best->hash[0], &view);
    for (uint32_t i = 0; i < view.count; i++) {
        uint64_t grain = depot_index_address(&depot->index, view.words[i]);
        if (seglog_is_covered(depot->log, grain))
            seglog_doubt(depot->log, grain);
    }
}

static void remove_stale(void *arg, const struct seglog_entry_format *entry, uint64_t grain)
{
    const struct replay *replay = arg;
    (void)depot_index_remove(&replay->depot->index, entry->hash[0], grain);
}

static int forget(void *arg, uint32_t segment, uint64_t stamp, const struct seglog_entry_format *entries,
                  uint32_t count)
{
    const struct replay *replay = arg;
    struct tarn_depot *depot = replay->depot;
    (void)stamp;
    for (uint32_t i = 0; i < count; i++) {
        if (entries[i].sequence < replay->gone_sequence)
            (void)depot_index_remove(&depot->index, entries[i].hash[0],
                                     seglog_entry_grain(depot->log, segment, &entries[i]));
    }
    return 0;
}

static int load_checkpoint(struct tarn_depot *depot, struct replay *replay, uint64_t uncovered)
{
    static const struct depot_best_ops ops = {
        .meet = meet_uncovered, .look = look_for_others, .stale = remove_stale, .take = load_best};
    struct loader loader = {.depot = depot};
    uint32_t passes;
    seglog_live_forget(depot->log);
    int error = seglog_checkpoint_read(depot->log, load, &loader);
    if (error == 0 && (!loader.begun || loader.unit_bytes != 0))
        error = -EBADMSG;
    if (error == 0)
        error = depot_best_find(depot->node, depot->log, uncovered, &ops, replay, &passes);
    /* a cache does not forget at once what lies below its horizon */
    if (error == 0)
        error = seglog_visit_gone(depot->log, forget, replay);
    return error == 0 ? count_lives(depot) : error;
}

/* Forget what a checkpoint that turned out bad, or a replay, has left. */
static int begin_anew(struct tarn_depot *depot, const struct depot_index_widths *widths)
{
    depot_index_deinit(&depot->index);
    atomic_store_explicit(&depot->live_bytes, 0, memory_order_relaxed);
    return depot_index_init(&depot->index, &depot->node->memory, widths);
}

/* @return 0: the index is filled; -EBADMSG: the checkpoint is of no use; other errors */
static int use_checkpoint(struct tarn_depot *depot, uint64_t gone_sequence)
{
    struct replay replay = {.depot = depot, .gone_sequence = gone_sequence};
    const struct depot_index_widths widths = depot->index.widths;
    uint64_t begin_ns = task_now(), all, uncovered = seglog_uncovered_entries(depot->log, &all);
    bool old = uncovered > all / 2 && uncovered > REPLAYED_ALWAYS;
    int error = old ? -EBADMSG : load_checkpoint(depot, &replay, uncovered);
    if (error == 0) {
        base_info(&depot->node->log, "index read from a checkpoint",
                  "path=%s records=%" PRIu64 " replayed=%" PRIu64 " ms=%" PRIu64, drive_name(depot->drive),
                  depot_index_count(&depot->index), uncovered, (task_now() - begin_ns) / BASE_NS_PER_MS);
        return 0;
    }
    if (!old)
        base_warn(&depot->node->log, "a checkpoint cannot be used: opening takes longer",
                  "path=%s error=\"%s\"", drive_name(depot->drive), strerrordesc_np(-error));
    error = begin_anew(depot, &widths);
    return error == 0 ? -EBADMSG : error;
}

/* @return 0: the index is filled; -ENOENT: it is empty, and all summaries have to be read; other errors */
static int use_checkpoints(struct tarn_depot *depot, uint64_t gone_sequence)
{
    while (seglog_checkpoint_found(depot->log)) {
        int error = use_checkpoint(depot, gone_sequence);
        if (error == -EBADMSG)
            error = seglog_checkpoint_reject(depot->log);
        else if (error == 0)
            return 0;
        if (error != 0)
            return seglog_refuse(depot->node, depot->drive, "its summaries cannot be read", error);
    }
    return -ENOENT;
}

/* Of a cache that has grown over the memory that there is now, the oldest records go, as many as need be. */
static int replay_what_fits(struct tarn_depot *depot, uint64_t gone)
{
    const struct depot_index_widths widths = depot->index.widths;
    int error = replay_summaries(depot, gone);
    for (uint32_t eighths = 1; (error == -ENOMEM || error == -ENOSPC) && depot->cache && eighths < 8;
         eighths++) {
        uint64_t limit;
        error = depot_cache_shed(depot, eighths, &limit);
        gone = base_max(gone, limit);
        if (error == 0)
            error = begin_anew(depot, &widths);
        if (error == 0)
            error = replay_summaries(depot, gone);
    }
    atomic_store_explicit(&depot->gone_sequence, gone, memory_order_relaxed);
    if (error == 0)
        return 0;
    return seglog_refuse(depot->node, depot->drive,
                         error == -ENOMEM   ? "there is too little memory to rebuild the index"
                         : error == -ENOSPC ? "its records do not fit into the index"
                                            : "its summaries cannot be read",
                         error);
}

int depot_recover(struct tarn_depot *depot)
{
    struct seglog_points points;
    int error;
    seglog_points(depot->log, &points);
    task_wall_raise(depot->node, points.wall_ns);
    uint64_t gone = seglog_gone_sequence(depot->log);
    bool due = points.flush_when_ns != 0 && task_wall(depot->node) >= points.flush_when_ns;
    if (due) /* whatever is here was stored before the moment */
        gone = seglog_sequence_next(depot->log);
    atomic_store_explicit(&depot->gone_sequence, gone, memory_order_relaxed);
    /* a due order is made durable by the first call: depot_flush_due() */
    atomic_store_explicit(&depot->flush_when_ns, points.flush_when_ns, memory_order_relaxed);
    /* what is ordered is gone, whatever a checkpoint names */
    while (due && seglog_checkpoint_found(depot->log)) {
        error = seglog_checkpoint_reject(depot->log);
        if (error != 0)
            return seglog_refuse(depot->node, depot->drive, "its summaries cannot be read", error);
    }
    error = use_checkpoints(depot, gone);
    return error == -ENOENT ? replay_what_fits(depot, gone) : error;
}

/* ---- writing one ---------------------------------------------------------------------------------- */

_Static_assert(sizeof(struct depot_index_item) == sizeof(struct depot_checkpoint_entry_format),
               "what the index gives is what is written");
_Static_assert(offsetof(struct depot_index_item, word) ==
                   offsetof(struct depot_checkpoint_entry_format, word),
               "likewise");

uint64_t depot_checkpoint_bytes(void *owner)
{
    struct tarn_depot *depot = owner;
    return sizeof(struct depot_checkpoint_format) +
           depot_index_count(&depot->index) * sizeof(struct depot_checkpoint_entry_format);
}

int depot_checkpoint(void *owner, struct seglog_checkpoint *checkpoint)
{
    struct tarn_depot *depot = owner;
    struct base_account *account = &depot->node->memory;
    const size_t items_bytes = DEPOT_INDEX_BATCH_MAX * sizeof(struct depot_index_item);
    const struct depot_checkpoint_format header = {.magic = DEPOT_CHECKPOINT_MAGIC,
                                                   .entries = depot_index_count(&depot->index)};
    struct depot_index_item *items = base_alloc(account, items_bytes);
    if (items == NULL)
        return -ENOMEM;
    int error = seglog_checkpoint_put(checkpoint, &header, sizeof(header));
    for (struct depot_index_cursor cursor = {.region = 0}; error == 0 && !cursor.end;) {
        uint32_t count = depot_index_next(&depot->index, &cursor, items);
        error = seglog_checkpoint_put(checkpoint, items, count * sizeof(*items));
        task_yield();
    }
    base_free(account, items, items_bytes);
    return error;
}
