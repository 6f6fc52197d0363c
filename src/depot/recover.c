/*
 * Filling the index when a store is opened: from the checkpoint of a clean stop, else from the summaries of
 * all segments.
 */
#include "depot/best.h"
#include <errno.h>
#include <inttypes.h>

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
    int error = depot_index_load(&depot->index, best->hash[0], best->grain, depot_grains(depot, best->bytes));
    if (error != 0)
        return error;
    seglog_live_add(depot->log, best->grain, best->bytes, false);
    atomic_fetch_add_explicit(&depot->live_bytes, seglog_footprint(depot->log, best->bytes),
                              memory_order_relaxed);
    return 0;
}

static uint64_t count_entries(struct seglog *log)
{
    uint64_t entries = 0;
    for (uint32_t segment = 0; segment < seglog_superblock(log)->segment_count; segment++) {
        struct seglog_segment_info info;
        seglog_segment_info(log, segment, &info);
        entries += info.entries;
    }
    return entries;
}

static int replay_summaries(struct tarn_depot *depot, uint64_t gone_sequence)
{
    struct replay replay = {.depot = depot, .gone_sequence = gone_sequence};
    static const struct depot_best_ops ops = {.meet = meet_entry, .take = load_best};
    uint64_t begin_ns = task_now(), entries = count_entries(depot->log);
    uint32_t passes;
    int error = depot_best_find(depot->node, depot->log, entries, &ops, &replay, &passes);
    if (error != 0)
        return error;
    base_info(&depot->node->log, "index rebuilt from summaries",
              "path=%s records=%" PRIu64 " tombstones=%" PRIu64 " entries=%" PRIu64 " passes=%" PRIu32
              " ms=%" PRIu64,
              drive_name(depot->drive), depot_index_count(&depot->index), replay.tombstones, entries, passes,
              (task_now() - begin_ns) / BASE_NS_PER_MS);
    return 0;
}

/* ---- from a checkpoint
 * --------------------------------------------------------------------------------------- */

#define CHECKPOINT_MAGIC UINT64_C(0x78646e496e726154) /* "TarnIndx" */

static uint64_t checkpoint_bytes(uint32_t segments, uint64_t entries)
{
    return sizeof(struct depot_checkpoint_format) +
           segments * sizeof(struct depot_checkpoint_segment_format) +
           entries * sizeof(struct depot_checkpoint_entry_format);
}

static int load_entry(struct tarn_depot *depot, const struct depot_checkpoint_entry_format *entry)
{
    uint64_t grain = depot_index_address(&depot->index, entry->word);
    if (seglog_stamp_at(depot->log, grain) == 0)
        return -EBADMSG;
    return depot_index_load(&depot->index, entry->hash, grain,
                            depot_index_grains(&depot->index, entry->word));
}

static int load_checkpoint(struct tarn_depot *depot, const uint8_t *data, uint64_t bytes)
{
    struct depot_checkpoint_format header;
    uint32_t segments = seglog_superblock(depot->log)->segment_count;
    if (bytes < sizeof(header))
        return -EBADMSG;
    memcpy(&header, data, sizeof(header));
    if (header.magic != CHECKPOINT_MAGIC || header.segments != segments || header.entries > bytes ||
        bytes != checkpoint_bytes(segments, header.entries))
        return -EBADMSG;
    data += sizeof(header);
    for (uint32_t segment = 0; segment < segments;
         segment++, data += sizeof(struct depot_checkpoint_segment_format)) {
        struct depot_checkpoint_segment_format lives;
        memcpy(&lives, data, sizeof(lives));
        seglog_live_set(depot->log, segment, lives.live_bytes, lives.tombstone_bytes);
    }
    int error = depot_index_grow_to(&depot->index, header.entries);
    if (error == -ENOMEM && depot->cache)
        error = 0; /* there may be places without that, as there were */
    for (uint64_t i = 0; error == 0 && i < header.entries;
         i++, data += sizeof(struct depot_checkpoint_entry_format)) {
        struct depot_checkpoint_entry_format entry;
        memcpy(&entry, data, sizeof(entry));
        error = load_entry(depot, &entry);
    }
    atomic_store_explicit(&depot->live_bytes, header.live_bytes, memory_order_relaxed);
    return error;
}

/* Forget what a checkpoint that turned out bad, or a replay, has left. */
static int begin_anew(struct tarn_depot *depot, const struct depot_index_widths *widths)
{
    depot_index_deinit(&depot->index);
    for (uint32_t segment = 0; segment < seglog_superblock(depot->log)->segment_count; segment++)
        seglog_live_set(depot->log, segment, 0, 0);
    atomic_store_explicit(&depot->live_bytes, 0, memory_order_relaxed);
    return depot_index_init(&depot->index, &depot->node->memory, widths);
}

/* @return whether the index is filled; else it is empty, and the summaries have to be read */
static bool use_checkpoint(struct tarn_depot *depot, int *ret_error)
{
    uint64_t bytes, begin_ns = task_now();
    *ret_error = 0;
    seglog_checkpoint_find(depot->log, &bytes);
    if (bytes == 0)
        return false;
    uint8_t *data = base_alloc(&depot->node->memory, bytes);
    int error = data == NULL ? -ENOMEM : seglog_checkpoint_read(depot->log, data);
    if (error == 0)
        error = load_checkpoint(depot, data, bytes);
    base_free(&depot->node->memory, data, bytes);
    if (error == 0) {
        base_info(&depot->node->log, "index read from its checkpoint",
                  "path=%s records=%" PRIu64 " bytes=%" PRIu64 " ms=%" PRIu64, drive_name(depot->drive),
                  depot_index_count(&depot->index), bytes, (task_now() - begin_ns) / BASE_NS_PER_MS);
        return true;
    }
    base_warn(&depot->node->log, "the checkpoint cannot be used, the summaries are read instead",
              "path=%s error=\"%s\"", drive_name(depot->drive), strerrordesc_np(-error));
    const struct depot_index_widths widths = depot->index.widths;
    *ret_error = begin_anew(depot, &widths);
    return false;
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
    uint64_t gone = base_max(points.flush_sequence, points.horizon_sequence);
    bool due = points.flush_when_ns != 0 && task_wall(depot->node) >= points.flush_when_ns;
    if (due) /* whatever is here was stored before the moment */
        gone = seglog_sequence_next(depot->log);
    atomic_store_explicit(&depot->gone_sequence, gone, memory_order_relaxed);
    /* a due order is made durable by the first call: depot_flush_due() */
    atomic_store_explicit(&depot->flush_when_ns, points.flush_when_ns, memory_order_relaxed);
    if (!due && use_checkpoint(depot, &error))
        return 0;
    return due || error == 0 ? replay_what_fits(depot, gone) : error;
}

/* ---- leaving a checkpoint
 * -------------------------------------------------------------------------------------- */

/* Hands the checkpoint out, 16 bytes after 16 bytes. */
struct source {
    struct tarn_depot *depot;
    struct depot_checkpoint_format header;
    uint64_t unit; /* the next 16 bytes */
    struct depot_index_cursor cursor;
    struct depot_index_item *items; /* DEPOT_INDEX_BATCH_MAX */
    uint32_t item, item_count;
};

#define UNIT_BYTES 16
_Static_assert(sizeof(struct depot_checkpoint_format) == 2 * UNIT_BYTES, "all parts are made of whole units");

static void next_entry(struct source *source, uint8_t *unit)
{
    while (source->item == source->item_count) {
        base_assert(!source->cursor.end); /* the index has as many entries as were counted */
        source->item_count = depot_index_next(&source->depot->index, &source->cursor, source->items);
        source->item = 0;
    }
    const struct depot_index_item *item = &source->items[source->item++];
    const struct depot_checkpoint_entry_format entry = {.hash = item->hash, .word = item->word};
    memcpy(unit, &entry, sizeof(entry));
}

static void produce(void *arg, void *data, uint64_t bytes)
{
    struct source *source = arg;
    base_assert(bytes % UNIT_BYTES == 0);
    for (uint8_t *unit = data; unit < (uint8_t *)data + bytes; unit += UNIT_BYTES, source->unit++) {
        if (source->unit < 2) {
            memcpy(unit, (const uint8_t *)&source->header + source->unit * UNIT_BYTES, UNIT_BYTES);
        } else if (source->unit < 2 + source->header.segments) {
            struct seglog_segment_info info;
            seglog_segment_info(source->depot->log, (uint32_t)(source->unit - 2), &info);
            const struct depot_checkpoint_segment_format lives = {.live_bytes = info.live_bytes,
                                                                  .tombstone_bytes = info.tombstone_bytes};
            memcpy(unit, &lives, sizeof(lives));
        } else {
            next_entry(source, unit);
        }
    }
}

void depot_checkpoint(struct tarn_depot *depot)
{
    struct source source = {.depot = depot};
    source.header = (struct depot_checkpoint_format){
        .magic = CHECKPOINT_MAGIC,
        .entries = depot_index_count(&depot->index),
        .live_bytes = atomic_load_explicit(&depot->live_bytes, memory_order_relaxed),
        .segments = seglog_superblock(depot->log)->segment_count,
    };
    source.items = base_alloc(&depot->node->memory, DEPOT_INDEX_BATCH_MAX * sizeof(*source.items));
    int error = source.items == NULL ? -ENOMEM : 0;
    if (error == 0)
        error = seglog_checkpoint_write(
            depot->log, checkpoint_bytes(source.header.segments, source.header.entries), produce, &source);
    base_free(&depot->node->memory, source.items, DEPOT_INDEX_BATCH_MAX * sizeof(*source.items));
    if (error != 0)
        base_info(&depot->node->log, "no checkpoint was left: the next start reads the summaries",
                  "path=%s error=\"%s\"", drive_name(depot->drive), strerrordesc_np(-error));
}
