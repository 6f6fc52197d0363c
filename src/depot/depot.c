/* The store: making, opening and closing, and what it tells about itself. */
#include "depot/depot.h"
#include "depot/repair.h"
#include "depot/warm.h"
#include <errno.h>
#include <inttypes.h>

const char *const depot_mode_names[] = {
    [TARN_MODE_POWER] = "power", [TARN_MODE_DEVICE] = "device", [TARN_MODE_ASYNC] = "async", NULL};

#define DAMAGE_LINES_MAX    10 /* a minute */
#define USER_STREAMS_MAX    8
#define PIECES_OF_A_SEGMENT 4
#define HOT_BYTES_UNLIMITED (UINT64_C(64) << 20) /* of a hot tier where the node has no limit */
#define HOT_SPARE_SHARE     16                   /* of the node's memory: what the tier leaves, … */
#define HOT_SPARE_BYTES_MAX (UINT64_C(64) << 20)
#define SIZE_TOLERANCE      64 /* one part of so many: what labels and rounding take */

/* ---- making -------------------------------------------------------------------------------------- */

static int refuse_format(struct tarn_node *node, struct drive *drive, const char *why)
{
    base_error(&node->log, "no store is made here", "path=%s why=\"%s\"", drive_name(drive), why);
    return -EEXIST;
}

static int format(struct tarn_node *node, struct drive *drive, uint32_t grain_bytes)
{
    const struct seglog_format_options options = {
        .grain_bytes = grain_bytes, .owner_kind = SEGLOG_OWNER_DEPOT, .fill_owner = depot_owner_fill};
    int error = drive_establish(drive);
    return error == 0 ? seglog_format(node, drive, &options) : error;
}

/* Whether a drive may be formatted without force: it is blank from end to end. */
static int check_blank(struct tarn_node *node, struct drive *drive)
{
    enum seglog_found found;
    const char *why;
    bool blank = false;
    int error = seglog_probe(node, drive, &found, &why);
    if (error != 0)
        return error;
    if (found == SEGLOG_FOUND_STORE)
        return refuse_format(node, drive,
                             "it is a store already: a new one loses what is in it, and has to be forced");
    if (found == SEGLOG_FOUND_OTHER)
        return refuse_format(node, drive, "it is not blank, or a damaged store: it has to be forced");
    error = seglog_is_blank(node, drive, &blank);
    if (error != 0)
        return error;
    return blank ? 0 : refuse_format(node, drive, "it is not blank: it has to be forced");
}

int tarn_depot_format(struct tarn_node *node, const char *path, const struct tarn_format_options *options)
{
    static const struct tarn_format_options defaults = {.force = false};
    if (options == NULL)
        options = &defaults;
    const struct drive_options drive_options = {
        .create_bytes = options->create_bytes, .make_stripe = true, .overwrite = options->force};
    struct drive *drive;
    int error = drive_open(node, path, &drive_options, &drive);
    if (error != 0)
        return error;
    if (!options->force && !drive_info(drive)->created)
        error = check_blank(node, drive);
    if (error == 0)
        error = format(node, drive, options->grain_bytes);
    drive_close(drive);
    return error;
}

/* A file that this opening has made, or that an earlier one could not format to the end, becomes a store. */
static int format_if_new(struct tarn_depot *depot, const struct tarn_depot_options *options)
{
    const struct drive_info *info = drive_info(depot->drive);
    if (options->create_bytes == 0 || options->read_only || info->device)
        return 0;
    enum seglog_found found;
    const char *why;
    bool blank = info->created;
    int error = 0;
    if (!blank)
        error = seglog_probe(depot->node, depot->drive, &found, &why);
    if (error == 0 && !blank && found == SEGLOG_FOUND_ZEROS)
        error = seglog_is_blank(depot->node, depot->drive, &blank);
    return error == 0 && blank ? format(depot->node, depot->drive, 0) : error;
}

/* ---- opening ------------------------------------------------------------------------------------- */

/* One stream for each scheduler that there is; the log takes fewer where they would tie up a small store. */
static uint32_t user_streams(const struct tarn_depot *depot)
{
    base_spin_lock(&depot->node->lock);
    uint32_t scheds = base_max(depot->node->sched_count, 1U);
    base_spin_unlock(&depot->node->lock);
    return base_min(scheds, (uint32_t)USER_STREAMS_MAX);
}

/* Each scheduler that there is has histograms of its own. */
static int init_stages(struct tarn_depot *depot, uint32_t interval)
{
    uint32_t lanes = 0;
    base_spin_lock(&depot->node->lock);
    for (uint32_t i = 0; i < TASK_SCHEDS_MAX; i++)
        lanes = depot->node->scheds[i] == NULL ? lanes : i + 1;
    base_spin_unlock(&depot->node->lock);
    return depot_stages_init(&depot->stages, &depot->node->memory, lanes, interval);
}

static void tell_time(void *arg, enum seglog_timed what, uint64_t ns)
{
    struct tarn_depot *depot = arg;
    depot_stages_add(&depot->stages, what == SEGLOG_TIMED_WRITE ? TARN_STAGE_WRITE : TARN_STAGE_FLUSH, ns);
}

static int init_memory(struct tarn_depot *depot)
{
    struct depot_index_widths widths;
    if (depot_owner_parse(seglog_superblock(depot->log), &widths) != 0)
        return seglog_refuse(depot->node, depot->drive, "the widths of its index are impossible", -EUCLEAN);
    if (depot->record_bytes_max <= seglog_record_bytes(SEGLOG_VALUE, TARN_KEY_BYTES_MAX, 0))
        return seglog_refuse(depot->node, depot->drive, "its records cannot hold a key", -EUCLEAN);
    depot->key_locks = base_alloc(&depot->node->memory, DEPOT_KEY_LOCKS * sizeof(*depot->key_locks));
    if (depot->key_locks == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < DEPOT_KEY_LOCKS; i++)
        task_mutex_init(&depot->key_locks[i]);
    int error = depot_index_init(&depot->index, &depot->node->memory, &widths);
    if (error == 0) {
        error = depot_buffers_init(depot);
        if (error != 0)
            depot_index_deinit(&depot->index);
    }
    if (error != 0)
        base_free(&depot->node->memory, depot->key_locks, DEPOT_KEY_LOCKS * sizeof(*depot->key_locks));
    return error;
}

static void deinit_memory(struct tarn_depot *depot)
{
    depot_hot_close(depot->hot);
    depot_buffers_deinit(depot);
    depot_index_deinit(&depot->index);
    base_free(&depot->node->memory, depot->key_locks, DEPOT_KEY_LOCKS * sizeof(*depot->key_locks));
}

/* Some fit in a segment beside each other, whole blocks with the header or the padding between them; also by
 * their footprints, so their length is one that is not rounded. */
static uint32_t piece_bytes(const struct seglog_superblock_format *superblock)
{
    uint64_t blocks =
        base_align_down(seglog_record_room(superblock) / PIECES_OF_A_SEGMENT, superblock->block_bytes);
    uint64_t record_bytes = base_max(blocks, (uint64_t)superblock->block_bytes) -
                            seglog_segment_header_bytes(superblock->grain_bytes);
    record_bytes = base_min(record_bytes, (uint64_t)superblock->record_bytes_max);
    uint64_t grains = record_bytes / superblock->grain_bytes;
    uint32_t size = seglog_length_class(grains);
    record_bytes = seglog_length_of_class(seglog_length_of_class(size) > grains ? size - 1 : size) *
                   superblock->grain_bytes;
    return (uint32_t)(record_bytes - seglog_record_bytes(SEGLOG_MARK_PIECE, 1, 0));
}

static void take_geometry(struct tarn_depot *depot)
{
    const struct seglog_superblock_format *superblock = seglog_superblock(depot->log);
    depot->grain_shift = (uint32_t)__builtin_ctz(superblock->grain_bytes);
    depot->record_bytes_max = superblock->record_bytes_max;
    depot->hash_seed = superblock->hash_seed;
    depot->check_seed = superblock->check_seed;
    atomic_init(&depot->capacity_bytes, seglog_capacity(depot->log));
    depot->whole_bytes_max =
        depot->record_bytes_max - seglog_record_bytes(SEGLOG_VALUE, TARN_KEY_BYTES_MAX, 0);
    depot->piece_bytes = piece_bytes(superblock);
    atomic_store_explicit(&depot->features, superblock->incompatible, memory_order_relaxed);
}

int depot_feature_note(struct tarn_depot *depot, uint64_t feature)
{
    if ((atomic_load_explicit(&depot->features, memory_order_relaxed) & feature) != 0)
        return 0;
    int error = seglog_feature_note(depot->log, feature);
    if (error == 0)
        atomic_fetch_or_explicit(&depot->features, feature, memory_order_relaxed);
    return error;
}

static int open_log(struct tarn_depot *depot, const struct tarn_depot_options *options,
                    const struct depot_opening *opening)
{
    static const enum seglog_mode modes[] = {[TARN_MODE_POWER] = SEGLOG_POWER,
                                             [TARN_MODE_DEVICE] = SEGLOG_DEVICE,
                                             [TARN_MODE_ASYNC] = SEGLOG_ASYNC};
    const struct seglog_options log_options = {.mode = modes[options->mode],
                                               .owner_kind = SEGLOG_OWNER_DEPOT,
                                               .user_streams = user_streams(depot),
                                               .read_only = options->read_only,
                                               .repair = depot->repair != NULL,
                                               .serve_damaged = options->serve_damaged,
                                               .cache = depot->cache,
                                               .scrub_rate_bytes = options->scrub_rate_bytes,
                                               .discard = options->discard != TARN_DISCARD_OFF,
                                               .checkpoint_rate_bytes = options->checkpoint_rate_bytes,
                                               .checkpoint_every_bytes = options->checkpoint_every_bytes,
                                               .over_provisioning_percent =
                                                   options->over_provisioning_percent,
                                               .timed = tell_time,
                                               .timed_arg = depot,
                                               .progress = opening->progress,
                                               .progress_arg = opening->progress_arg};
    int error = seglog_open(depot->node, depot->drive, &log_options, &depot->log);
    if (error == 0)
        take_geometry(depot);
    return error;
}

static int check_discard(struct tarn_depot *depot, const struct tarn_depot_options *options)
{
    const struct drive_info *info = drive_info(depot->drive);
    if (options->discard != TARN_DISCARD_ON || options->read_only || info->discard)
        return 0;
    base_error(&depot->node->log, "the store cannot be opened", "path=%s why=\"%s\"",
               drive_name(depot->drive),
               info->device ? "the device takes no discards"
                            : "files are not discarded: holes would have to be allocated again");
    return -EOPNOTSUPP;
}

/* It was filled with less over-provisioning, or as a cache. */
static void warn_if_overfull(struct tarn_depot *depot)
{
    uint64_t live_bytes = atomic_load_explicit(&depot->live_bytes, memory_order_relaxed);
    char live[BASE_UNITS_ROOM], capacity[BASE_UNITS_ROOM];
    if (depot->read_only || depot->cache || live_bytes <= depot_capacity(depot))
        return;
    base_warn(&depot->node->log, "the store holds more than it takes: new keys are refused",
              "path=%s live=\"%s\" capacity=\"%s\"", drive_name(depot->drive),
              base_format_size(live, sizeof(live), live_bytes),
              base_format_size(capacity, sizeof(capacity), depot_capacity(depot)));
}

/* An existing store keeps the size that it was made with, whatever is asked for. Of a stripe each drive has a label, too. */
static void warn_of_size(struct tarn_depot *depot, const struct tarn_depot_options *options,
                         const struct depot_opening *opening)
{
    const uint64_t asked = options->create_bytes, bytes = drive_bytes(depot->drive);
    const uint64_t apart = asked < bytes ? bytes - asked : asked - bytes;
    char wanted[BASE_UNITS_ROOM], size[BASE_UNITS_ROOM];
    if (asked == 0 || opening->size_unasked || options->read_only || drive_info(depot->drive)->created ||
        apart <= asked / SIZE_TOLERANCE)
        return;
    base_warn(&depot->node->log, "the store keeps its size: another one is asked for",
              "path=%s size=\"%s\" asked=\"%s\" remedy=\"%s\"", drive_name(depot->drive),
              base_format_size(size, sizeof(size), bytes), base_format_size(wanted, sizeof(wanted), asked),
              drive_info(depot->drive)->device ? "leave the size out: a device has its own"
              : asked > bytes ? "make it larger with tarn grow, or ask for the size that it has"
                              : "dump it and load it into a smaller one, or ask for the size that it has");
}

/* The memory that others leave is the hot tier's: all but a reserve, or what was asked for. A store works without it. */
static void open_hot(struct tarn_depot *depot, const struct tarn_depot_options *options)
{
    struct base_account *account = &depot->node->memory;
    uint64_t cap_bytes = account->cap_bytes, most_bytes = options->hot_bytes;
    if (most_bytes == TARN_HOT_OFF)
        return;
    if (drive_info(depot->drive)->mapped) {
        base_info(&depot->node->log, "no hot tier", "path=%s why=\"the file is in memory already\"",
                  drive_name(depot->drive));
        return;
    }
    if (most_bytes == 0)
        most_bytes = cap_bytes == BASE_ACCOUNT_UNLIMITED ? HOT_BYTES_UNLIMITED : cap_bytes;
    const struct depot_hot_options hot_options = {
        .bytes_max = base_min(most_bytes, cap_bytes),
        .spare_bytes = base_min(cap_bytes / HOT_SPARE_SHARE, HOT_SPARE_BYTES_MAX),
        .record_bytes_max = options->hot_record_bytes,
    };
    if (depot_hot_open(account, &hot_options, &depot->hot) != 0)
        base_warn(&depot->node->log, "no hot tier",
                  "path=%s why=\"there is no memory, or no room for addresses (ulimit -v)\" bytes=%" PRIu64,
                  drive_name(depot->drive), hot_options.bytes_max);
}

/* A store works without that, too. */
static void warm(struct tarn_depot *depot, const struct tarn_depot_options *options)
{
    int error = depot_warming_start(depot, options->hot_warm_rate_bytes);
    if (error != 0)
        base_warn(&depot->node->log, "hot records are not read back", "path=%s error=\"%s\"",
                  drive_name(depot->drive), strerrordesc_np(-error));
}

/* Everything that lives on an open drive. @return 0, or an error with nothing taken */
static int open_on_drive(struct tarn_depot *depot, const struct tarn_depot_options *options,
                         const struct depot_opening *opening)
{
    int error = check_discard(depot, options);
    if (error == 0)
        error = format_if_new(depot, options);
    if (error == 0)
        error = open_log(depot, options, opening);
    if (error != 0)
        return error;
    error = init_memory(depot);
    if (error == 0) {
        error = depot->repair == NULL ? 0 : depot_repair_find(depot);
        if (error == 0)
            error = depot_recover(depot);
        if (error == 0)
            open_hot(depot, options);
        if (error == 0 && !depot->read_only)
            error = seglog_start(depot->log, &depot_owner_ops, depot);
        depot->running = error == 0 && !depot->read_only;
        if (error == 0)
            warm(depot, options);
        if (error == 0) {
            warn_of_size(depot, options, opening);
            warn_if_overfull(depot);
            return 0;
        }
        deinit_memory(depot);
    }
    int closed = seglog_close(depot->log);
    return error == 0 ? closed : error;
}

static bool options_are_valid(struct tarn_node *node, const struct tarn_depot_options *options)
{
    uint32_t percent = options->over_provisioning_percent;
    if (options->mode != TARN_MODE_POWER && options->mode != TARN_MODE_DEVICE &&
        options->mode != TARN_MODE_ASYNC) {
        base_error(&node->log, "the store cannot be opened", "why=\"there is no such mode\"");
        return false;
    }
    if (percent != 0 && (percent < TARN_OVER_PROVISIONING_MIN || percent > TARN_OVER_PROVISIONING_MAX)) {
        base_error(&node->log, "the store cannot be opened",
                   "why=\"over-provisioning is %d to %d percent\" percent=%" PRIu32,
                   TARN_OVER_PROVISIONING_MIN, TARN_OVER_PROVISIONING_MAX, percent);
        return false;
    }
    if (options->discard != TARN_DISCARD_AUTO && options->discard != TARN_DISCARD_ON &&
        options->discard != TARN_DISCARD_OFF) {
        base_error(&node->log, "the store cannot be opened", "why=\"there is no such way to discard\"");
        return false;
    }
    return true;
}

int depot_open(struct tarn_node *node, const char *path, const struct tarn_depot_options *options,
               const struct depot_opening *opening, struct tarn_depot **ret_depot)
{
    static const struct tarn_depot_options defaults = {.mode = TARN_MODE_POWER};
    static const struct depot_opening usual = {.direct = DRIVE_DIRECT_AUTO};
    options = options == NULL ? &defaults : options;
    opening = opening == NULL ? &usual : opening;
    bool off = opening->direct == DRIVE_DIRECT_AUTO && options->direct_off;
    if (!options_are_valid(node, options))
        return -EINVAL;
    struct tarn_depot *depot = base_alloc(&node->memory, sizeof(*depot));
    if (depot == NULL)
        return -ENOMEM;
    const struct drive_options drive_options = {
        .create_bytes = options->read_only ? 0 : options->create_bytes,
        .direct = off ? DRIVE_DIRECT_OFF : (enum drive_direct)opening->direct,
        .read_only = options->read_only,
        .zero_ahead = true,
        .lock_wait_ns = opening->lock_wait_ns,
    };
    depot->node = node;
    depot->read_only = options->read_only;
    depot->async = options->mode == TARN_MODE_ASYNC;
    depot->power = options->mode == TARN_MODE_POWER;
    depot->cache = options->cache && !options->read_only;
    depot->repair = opening->repair;
    task_mutex_init(&depot->growth);
    task_mutex_init(&depot->snapshots);
    for (uint32_t i = 0; i < DEPOT_PIECE_LOCKS; i++)
        task_mutex_init(&depot->piece_locks[i]);
    base_list_init(&depot->doomed);
    base_log_limit_init(&depot->damage_limit, DAMAGE_LINES_MAX, 60 * BASE_NS_PER_SECOND);
    int error = init_stages(depot, options->measure_interval);
    if (error == 0) {
        error = drive_open(node, path, &drive_options, &depot->drive);
        if (error == 0) {
            error = open_on_drive(depot, options, opening);
            if (error != 0)
                drive_close(depot->drive);
        }
        if (error != 0)
            depot_stages_deinit(&depot->stages);
    }
    if (error != 0)
        base_free(&node->memory, depot, sizeof(*depot));
    else
        *ret_depot = depot;
    return error;
}

int tarn_depot_open(struct tarn_node *node, const char *path, const struct tarn_depot_options *options,
                    struct tarn_depot **ret_depot)
{
    return depot_open(node, path, options, NULL, ret_depot);
}

/* ---- closing ------------------------------------------------------------------------------------- */

/* Leave everything durable, and what makes the next start quick. */
static int wind_up(struct tarn_depot *depot)
{
    if (!depot->running)
        return 0;
    /* a clock that is set back while the store is closed revives nothing; if it cannot be noted, stopping
     * fails too */
    uint64_t now_ns = task_wall(depot->node);
    int noted = seglog_wall_note(depot->log, now_ns, now_ns);
    int error = seglog_stop(depot->log);
    depot->running = false;
    depot->stopped = true;
    depot_pieces_end(depot);
    int left = error == 0 ? seglog_checkpoint_write(depot->log) : 0;
    if (left != 0)
        base_info(&depot->node->log, "no checkpoint was left: the next start reads the summaries",
                  "path=%s error=\"%s\"", drive_name(depot->drive), strerrordesc_np(-left));
    return error == 0 ? noted : error;
}

int tarn_depot_close(struct tarn_depot *depot)
{
    struct tarn_node *node = depot->node;
    base_assert(atomic_load_explicit(&depot->writers, memory_order_relaxed) == 0 && depot->snapshot == NULL);
    depot_refusals_end(depot);
    depot_warming_stop(depot);
    int error = wind_up(depot);
    depot_warming_deinit(depot);
    int closed = seglog_close(depot->log);
    deinit_memory(depot);
    depot_stages_deinit(&depot->stages);
    drive_close(depot->drive);
    base_free(&node->memory, depot, sizeof(*depot));
    return error == 0 ? closed : error;
}

/* ---- what it tells about itself ------------------------------------------------------------------- */

void tarn_depot_stats(struct tarn_depot *depot, struct tarn_depot_stats *ret_stats)
{
    struct seglog_stats log;
    uint64_t evictions_unhit = base_counter_sum(&depot->evictions_unhit);
    uint64_t evictions_hit = base_counter_sum(&depot->evictions_hit);
    uint64_t entries = depot_index_count(&depot->index);
    uint64_t pieces = atomic_load_explicit(&depot->pieces, memory_order_relaxed);
    struct depot_hot_stats hot = {.bytes = 0};
    seglog_stats(depot->log, &log);
    if (depot->hot != NULL)
        depot_hot_stats(depot->hot, &hot);
    *ret_stats = (struct tarn_depot_stats){
        .records = entries - base_min(pieces, entries),
        .pieces = pieces,
        .drive_bytes = seglog_store_bytes(depot->log),
        .capacity_bytes = depot_capacity(depot),
        .live_bytes = atomic_load_explicit(&depot->live_bytes, memory_order_relaxed),
        .tombstone_bytes = log.tombstone_bytes,
        .gets = base_counter_sum(&depot->gets),
        .gets_expired = base_counter_sum(&depot->gets_expired),
        .gets_flushed = base_counter_sum(&depot->gets_flushed),
        .get_hits = base_counter_sum(&depot->get_hits),
        .puts = base_counter_sum(&depot->puts),
        .deletes = base_counter_sum(&depot->deletes),
        .touches = base_counter_sum(&depot->touches),
        .reads = base_counter_sum(&depot->reads),
        .writes = log.writes,
        .flushes = log.flushes,
        .written_bytes = log.written_bytes,
        .user_bytes = log.appended_bytes,
        .moved_bytes = log.moved_bytes,
        .collections = log.collections,
        .segments = log.segments,
        .segments_free = log.segments_free,
        .segment_bytes = (uint32_t)seglog_superblock(depot->log)->segment_bytes,
        .index_bytes = depot_index_bytes(&depot->index),
        .index_entries = depot_index_capacity(&depot->index),
        .evictions = evictions_unhit + evictions_hit,
        .evictions_unhit = evictions_unhit,
        .reinsertions = base_counter_sum(&depot->reinsertions),
        .reclaimed = base_counter_sum(&depot->reclaimed),
        .evicted_segments = log.evictions,
        .discarded_bytes = log.discarded_bytes,
        .horizon = log.horizon_sequence,
        .checkpoints = log.checkpoints,
        .checkpoint_bytes = log.checkpoint_bytes,
        .checkpoints_kept = log.checkpoints_kept,
        .segments_bad = log.segments_bad,
        .scrub_passes = log.scrub.passes,
        .scrub_segments = log.scrub.segments,
        .scrub_bytes = log.scrub.bytes,
        .scrub_damaged = log.scrub.damaged,
        .scrub_ended_ns = log.scrub.ended_ns,
        .hot_bytes = hot.bytes,
        .hot_records = hot.records,
        .hot_hits = base_counter_sum(&depot->hot_hits),
        .hot_misses = base_counter_sum(&depot->hot_misses),
        .hot_additions = hot.additions,
        .hot_evictions = hot.evictions,
        .hot_warmed = depot_warming_records(depot),
    };
}

void depot_memory(const struct tarn_depot *depot, struct depot_memory *ret_memory)
{
    struct seglog_memory log;
    seglog_memory(depot->log, &log);
    *ret_memory = (struct depot_memory){
        .index_bytes = depot_index_bytes(&depot->index),
        .key_lock_bytes = DEPOT_KEY_LOCKS * sizeof(*depot->key_locks),
        .read_buffer_bytes = depot_buffers_memory(depot),
        .ring_bytes = log.ring_bytes,
        .summary_bytes = log.summary_bytes,
        .collector_bytes = log.collector_bytes,
        .segment_bytes = log.segment_bytes,
    };
}

int depot_segment(struct tarn_depot *depot, uint32_t segment, struct depot_segment_info *ret_info)
{
    struct seglog_segment_info info;
    if (segment >= seglog_segment_count(depot->log))
        return -ENOENT;
    seglog_segment_info(depot->log, segment, &info);
    const char *writer = info.stream == 0 ? "collector" : "users";
    *ret_info = (struct depot_segment_info){.stamp = info.stamp,
                                            .session = info.session,
                                            .state = info.state,
                                            .writer = info.stream == SEGLOG_NO_STREAM ? "" : writer,
                                            .live_bytes = info.live_bytes,
                                            .tombstone_bytes = info.tombstone_bytes,
                                            .used_bytes = info.used_bytes,
                                            .entries = info.entries,
                                            .sealed = info.sealed};
    return 0;
}

bool depot_is_cache(const struct tarn_depot *depot)
{
    return depot->cache;
}

const struct drive_info *depot_drive_info(const struct tarn_depot *depot)
{
    return drive_info(depot->drive);
}

const struct drive *depot_drive(const struct tarn_depot *depot)
{
    return depot->drive;
}

const struct seglog_superblock_format *depot_superblock(const struct tarn_depot *depot)
{
    return seglog_superblock(depot->log);
}

bool depot_failed(struct tarn_depot *depot)
{
    return seglog_failed(depot->log);
}
