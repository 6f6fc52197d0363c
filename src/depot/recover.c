/*
 * Filling the index when a store is opened: from a checkpoint and the entries that it is not about, else from
 * all summaries. README, "Opening".
 */
#include "depot/best.h"
#include "depot/checkpoint.h"
#include "depot/pieces/match.h"
#include "depot/repair.h"
#include <errno.h>
#include <inttypes.h>

/* Of more entries than these, and half of all, summaries alone are no slower. */
#define REPLAYED_ALWAYS 65536

/* All workers that meet entries change the atomic fields and those under a lock; only the opening caller changes the rest. */
struct replay {
    struct tarn_depot *depot;
    uint64_t gone_sequence;
    uint64_t live_bytes;            /* footprints of all values that came into the index */
    _Atomic uint64_t dropped_bytes; /* and of those that have left it */
    _Atomic uint64_t tombstones;
    struct base_spin bigs_lock;
    struct depot_bigs bigs; /* entries of pieces and heads */
    int error;              /* -ENOMEM: a head could not be noted */
    _Atomic bool pieces;    /* beside a checkpoint: one was replayed */
};

/* ---- from summaries ------------------------------------------------------------------------------- */

static void meet_tombstone(struct replay *replay, const struct seglog_entry_format *entry, uint64_t grain)
{
    if ((entry->kind & SEGLOG_KIND_MASK) != SEGLOG_TOMBSTONE)
        return;
    seglog_live_add(replay->depot->log, grain, entry->bytes, true);
    atomic_fetch_add_explicit(&replay->tombstones, 1, memory_order_relaxed);
}

static bool is_damaged(void *arg, uint64_t grain)
{
    const struct replay *replay = arg;
    return depot_repair_is_damaged(replay->depot, grain);
}

static int meet_entry(void *arg, const struct depot_best *before, struct depot_best *best,
                      const struct seglog_entry_format *entry, uint64_t grain)
{
    struct replay *replay = arg;
    (void)before;
    (void)best;
    meet_tombstone(replay, entry, grain);
    if ((entry->kind & SEGLOG_MARKS_PIECES) == 0)
        return 0;
    base_spin_lock(&replay->bigs_lock);
    int error = depot_bigs_add(&replay->bigs, entry, grain);
    base_spin_unlock(&replay->bigs_lock);
    return error;
}

/* Count a live value, whose length the index rounds to `grains`. */
static void count_live(struct replay *replay, uint64_t grain, uint64_t grains)
{
    struct tarn_depot *depot = replay->depot;
    replay->live_bytes += seglog_live_add(depot->log, grain, grains << depot->grain_shift, false);
}

static bool is_there(const void *arg, const struct depot_best *best)
{
    const struct replay *replay = arg;
    return best->kind == SEGLOG_VALUE && best->sequence >= replay->gone_sequence;
}

/* The index grows while it is empty, or at once; where it cannot, the entries may find places all the same. */
static void make_room(void *arg, uint64_t count)
{
    const struct replay *replay = arg;
    struct depot_index *index = &replay->depot->index;
    (void)!depot_index_grow_to(index, depot_index_count(index) + count);
}

static void prefetch(const void *arg, const struct depot_best *best)
{
    const struct replay *replay = arg;
    depot_index_load_prefetch(&replay->depot->index, best->hash[0]);
}

static int load_best(void *arg, const struct depot_best *best)
{
    struct replay *replay = arg;
    struct tarn_depot *depot = replay->depot;
    uint64_t grains = seglog_length_of_class(best->size);
    count_live(replay, best->grain, grains);
    return depot_index_load(&depot->index, best->hash[0], best->grain, grains);
}

/* What was loaded is not the key's any more. @return false: it is not there */
static bool forget_entry(struct replay *replay, uint64_t hash, uint64_t grain)
{
    struct tarn_depot *depot = replay->depot;
    uint64_t word;
    if (!depot_index_take(&depot->index, hash, grain, &word))
        return false;
    uint64_t bytes = depot_index_grains(&depot->index, word) << depot->grain_shift;
    seglog_live_remove(depot->log, grain, bytes);
    atomic_fetch_add_explicit(&replay->dropped_bytes, seglog_footprint(depot->log, bytes),
                              memory_order_relaxed);
    return true;
}

static void note_lives(struct replay *replay)
{
    uint64_t dropped_bytes = atomic_load_explicit(&replay->dropped_bytes, memory_order_relaxed);
    atomic_store_explicit(&replay->depot->live_bytes, replay->live_bytes - dropped_bytes,
                          memory_order_relaxed);
}

/*
 * Of what was loaded, pieces without a head that counts were never committed, or their value is gone. A head
 * that is gone by its id stays: it is younger than what it hides, which may be above the horizon. One that
 * lacks a piece is of a value that is damaged.
 */
static void keep_or_drop(void *arg, const struct depot_big *big, bool wanted, uint32_t pieces)
{
    struct replay *replay = arg;
    struct tarn_depot *depot = replay->depot;
    if (depot->repair != NULL && wanted && big->head && pieces != big->number && replay->error == 0)
        replay->error = depot_repair_doom(depot, big->grain);
    if (wanted || big->head) {
        atomic_fetch_add_explicit(&replay->depot->pieces, !big->head, memory_order_relaxed);
        return;
    }
    base_assert(forget_entry(replay, big->hash, big->grain));
}

static void match_pieces(struct replay *replay)
{
    struct tarn_depot *depot = replay->depot;
    for (uint64_t i = 0; i < replay->bigs.count; i++) {
        struct depot_big *big = &replay->bigs.items[i];
        big->counts = depot_index_has(&depot->index, big->hash, big->grain);
        if (big->counts && !big->head && depot_repair_is_damaged(depot, big->grain)) {
            big->counts = false;
            (void)forget_entry(replay, big->hash, big->grain);
        }
    }
    depot_bigs_match(&replay->bigs, replay->gone_sequence, keep_or_drop, replay);
}

static int replay_summaries(struct tarn_depot *depot, uint64_t gone_sequence)
{
    struct replay replay = {
        .depot = depot, .gone_sequence = gone_sequence, .bigs = {.account = &depot->node->memory}};
    static const struct depot_best_ops ops = {.damaged = is_damaged,
                                              .shared = true,
                                              .meet = meet_entry,
                                              .wants = is_there,
                                              .expect = make_room,
                                              .soon = prefetch,
                                              .take = load_best};
    uint64_t begin_ns = task_now(), entries;
    uint32_t passes;
    (void)seglog_uncovered_entries(depot->log, &entries);
    seglog_live_forget(depot->log);
    int error = depot_best_find(depot->node, depot->log, entries, &ops, &replay, &passes);
    if (error == 0) {
        match_pieces(&replay);
        error = replay.error;
    }
    depot_bigs_clear(&replay.bigs);
    if (error != 0)
        return error;
    note_lives(&replay);
    base_info(&depot->node->log, "index rebuilt from summaries",
              "path=%s records=%" PRIu64 " tombstones=%" PRIu64 " entries=%" PRIu64 " passes=%" PRIu32
              " ms=%" PRIu64,
              drive_name(depot->drive), depot_index_count(&depot->index), replay.tombstones, entries, passes,
              (task_now() - begin_ns) / BASE_NS_PER_MS);
    return 0;
}

/* ---- from a checkpoint ---------------------------------------------------------------------------- */

static int begin_loading(void *arg, const struct depot_checkpoint_format *head)
{
    const struct replay *replay = arg;
    struct tarn_depot *depot = replay->depot;
    int error = depot_index_grow_to(&depot->index, head->entries);
    return error == -ENOMEM && depot->cache ? 0 : error; /* there may be places, as there were */
}

static int load_named(void *arg, const struct depot_index_item *items, uint32_t count)
{
    struct replay *replay = arg;
    struct depot_index *index = &replay->depot->index;
    int error = depot_index_load_items(index, items, count);
    for (uint32_t i = 0; error == 0 && i < count; i++)
        count_live(replay, depot_index_address(index, items[i].word),
                   depot_index_grains(index, items[i].word));
    return error;
}

/* What a later record has superseded is not the key's any more. Of pieces and heads the entry has something
 * else there: look_for_others() finds it. */
static int meet_uncovered(void *arg, const struct depot_best *before, struct depot_best *best,
                          const struct seglog_entry_format *entry, uint64_t grain)
{
    struct replay *replay = arg;
    (void)before;
    (void)best;
    bool told = (entry->kind & SEGLOG_MARKS_PIECES) == 0 && entry->superseded != 0;
    if (told && seglog_is_covered(replay->depot->log, entry->superseded))
        (void)forget_entry(replay, entry->hash[0], entry->superseded);
    if ((entry->kind & SEGLOG_MARK_PIECE) != 0)
        atomic_store_explicit(&replay->pieces, true, memory_order_relaxed);
    meet_tombstone(replay, entry, grain);
    return 0;
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
    (void)forget_entry(arg, entry->hash[0], grain);
}

static int forget(void *arg, uint32_t segment, uint64_t stamp, const struct seglog_entry_format *entries,
                  uint32_t count)
{
    struct replay *replay = arg;
    (void)stamp;
    for (uint32_t i = 0; i < count; i++) {
        if (entries[i].sequence < replay->gone_sequence)
            (void)forget_entry(replay, entries[i].hash[0],
                               seglog_entry_grain(replay->depot->log, segment, &entries[i]));
    }
    return 0;
}

static int add_bigs(void *arg, uint32_t segment, uint64_t stamp, const struct seglog_entry_format *entries,
                    uint32_t count)
{
    struct replay *replay = arg;
    int error = 0;
    (void)stamp;
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = depot_bigs_add(&replay->bigs, &entries[i],
                               seglog_entry_grain(replay->depot->log, segment, &entries[i]));
    return error;
}

/*
 * Which of the pieces that were named or replayed count. If there are none, or if the checkpoint was written
 * when nothing else was and nothing has happened since, that need not be asked.
 */
static int settle_pieces(struct replay *replay, const struct depot_checkpoint_format *head,
                         uint64_t uncovered)
{
    struct tarn_depot *depot = replay->depot;
    bool matched = uncovered == 0 && head->matched_sequence == replay->gone_sequence;
    if (matched || (head->pieces == 0 && !replay->pieces)) {
        atomic_store_explicit(&depot->pieces, head->pieces, memory_order_relaxed);
        return 0;
    }
    int error = seglog_visit(depot->log, add_bigs, replay);
    if (error == 0)
        match_pieces(replay);
    depot_bigs_clear(&replay->bigs);
    return error;
}

static int load_checkpoint(struct tarn_depot *depot, struct replay *replay, uint64_t uncovered)
{
    static const struct depot_checkpoint_ops ops = {.begin = begin_loading, .take = load_named};
    static const struct depot_best_ops best_ops = {.shared = true,
                                                   .meet = meet_uncovered,
                                                   .look = look_for_others,
                                                   .stale = remove_stale,
                                                   .wants = is_there,
                                                   .expect = make_room,
                                                   .soon = prefetch,
                                                   .take = load_best};
    struct depot_checkpoint_format head;
    uint32_t passes;
    seglog_live_forget(depot->log);
    int error = depot_checkpoint_read(depot->log, &depot->index, &ops, replay, &head, NULL);
    if (error == -EINVAL)
        error = -EBADMSG;
    if (error == 0)
        error = depot_best_find(depot->node, depot->log, uncovered, &best_ops, replay, &passes);
    /* a cache does not forget at once what lies below its horizon */
    if (error == 0)
        error = seglog_visit_gone(depot->log, forget, replay);
    if (error == 0)
        error = settle_pieces(replay, &head, uncovered);
    if (error == 0)
        note_lives(replay);
    return error;
}

/* Forget what a checkpoint that turned out bad, or a replay, has left. */
static int begin_anew(struct tarn_depot *depot, const struct depot_index_widths *widths)
{
    depot_index_deinit(&depot->index);
    atomic_store_explicit(&depot->live_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&depot->pieces, 0, memory_order_relaxed);
    return depot_index_init(&depot->index, &depot->node->memory, widths);
}

/* @return 0: the index is filled; -EBADMSG: the checkpoint is of no use; other errors */
static int use_checkpoint(struct tarn_depot *depot, uint64_t gone_sequence)
{
    struct replay replay = {
        .depot = depot, .gone_sequence = gone_sequence, .bigs = {.account = &depot->node->memory}};
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
    if (seglog_loss_sequence(depot->log) <= gone) /* a cache's horizon is above it */
        depot_loss_forget(depot);
    else
        atomic_store_explicit(&depot->loss_sequence, seglog_loss_sequence(depot->log), memory_order_relaxed);
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
