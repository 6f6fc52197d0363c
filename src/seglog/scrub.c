/*
 * Scrubbing: all that is stored and still wanted is read at a set rate, by a worker that holds nothing, and
 * what stays damaged is handed to the collector. README, "Scrubbing", has why it may be wrong about nothing.
 */
#include "seglog/collect_internal.h"
#include "seglog/scrub_internal.h"
#include <errno.h>
#include <inttypes.h>

#define WINDOW_BYTES    (UINT64_C(256) << 10)
#define MOVES_MAX       1024 /* records of a window */
#define ENTRIES_AT_ONCE 1024 /* that are looked at between two yields */
#define RETRY_NS        BASE_NS_PER_SECOND
#define LINES_MAX       10 /* a minute, about damaged segments */

struct seglog_scrub {
    struct task_worker worker;
    struct seglog_collector reader; /* its summary, window and plan: nothing is moved */
    uint64_t window_room;
    uint64_t rate_bytes;
    uint64_t interval_ns;
    uint64_t due_ns; /* no read before */
    struct base_log_limit limit;
    _Atomic bool found; /* a segment is damaged, and the service has not looked since */
    _Atomic uint64_t passes, segments, bytes, damaged, ended_ns;
};

/* A segment that is being read. */
struct visit {
    uint32_t segment;
    uint64_t stamp;
    uint64_t damaged; /* damaged records and descriptions of the segment, and of these … */
    uint64_t offset;  /* the first lies here */
    const char *why;  /* the worst */
    const char *remedy;
    bool told_only; /* nothing has to be done about it */
};

/* ---- memory ---------------------------------------------------------------------------------------- */

static uint64_t moves_bytes(void)
{
    return MOVES_MAX * sizeof(struct seglog_move);
}

int seglog_scrub_init(struct seglog *log, const struct seglog_options *options)
{
    struct base_account *account = &log->node->memory;
    if (options->scrub_rate_bytes == 0)
        return 0;
    struct seglog_scrub *scrub = base_alloc(account, sizeof(*scrub));
    if (scrub == NULL)
        return -ENOMEM;
    log->scrub = scrub;
    uint64_t block_bytes = log->superblock.block_bytes;
    uint64_t record_bytes = base_align_up(log->superblock.record_bytes_max + 2 * block_bytes, block_bytes);
    scrub->window_room = base_min(base_max(record_bytes, WINDOW_BYTES), log->superblock.segment_bytes);
    scrub->rate_bytes = options->scrub_rate_bytes;
    scrub->interval_ns =
        options->scrub_interval_ns == 0 ? SEGLOG_SCRUB_INTERVAL_NS : options->scrub_interval_ns;
    task_worker_init(&scrub->worker);
    base_log_limit_init(&scrub->limit, LINES_MAX, 60 * BASE_NS_PER_SECOND);
    struct seglog_collector *reader = &scrub->reader;
    reader->window_bytes = base_min(WINDOW_BYTES, scrub->window_room);
    reader->moves_max = MOVES_MAX;
    reader->summary = base_map(account, drive_memory_alignment(log->drive), seglog_summary_memory_bytes(log));
    reader->window = drive_memory_alloc(log->node, log->drive, scrub->window_room);
    reader->moves = base_alloc(account, moves_bytes());
    if (reader->summary != NULL && reader->window != NULL && reader->moves != NULL)
        return 0;
    seglog_scrub_deinit(log);
    return -ENOMEM;
}

void seglog_scrub_deinit(struct seglog *log)
{
    struct base_account *account = &log->node->memory;
    struct seglog_scrub *scrub = log->scrub;
    if (scrub == NULL)
        return;
    base_free(account, scrub->reader.moves, moves_bytes());
    base_free(account, scrub->reader.window, scrub->window_room);
    base_unmap(account, scrub->reader.summary, seglog_summary_memory_bytes(log));
    base_free(account, scrub, sizeof(*scrub));
    log->scrub = NULL;
}

uint64_t seglog_scrub_memory_bytes(const struct seglog *log)
{
    const struct seglog_scrub *scrub = log->scrub;
    return scrub == NULL
               ? 0
               : sizeof(*scrub) + scrub->window_room + seglog_summary_memory_bytes(log) + moves_bytes();
}

/* ---- the rate -------------------------------------------------------------------------------------- */

/* Wait until the next read may begin. @return false: the scrubber is to end */
static bool await_turn(struct seglog_scrub *scrub)
{
    return task_worker_await(&scrub->worker, scrub->due_ns);
}

/* Account for bytes that were read since a moment. */
static void note_read(struct seglog_scrub *scrub, uint64_t begin_ns, uint64_t bytes)
{
    scrub->due_ns = task_worker_due(scrub->due_ns, begin_ns, bytes, scrub->rate_bytes);
    atomic_fetch_add_explicit(&scrub->bytes, bytes, memory_order_relaxed);
}

/* ---- one segment ----------------------------------------------------------------------------------- */

static bool is_scrubbed(const struct seglog_segment *segment)
{
    return segment->state == SEGLOG_STATE_CLOSED && !segment->damaged && atomic_load(&segment->pending) == 0;
}

/* @return false: there is nothing in it to be read, or it will be read another time */
static bool begin_segment(struct seglog *log, uint32_t number, struct visit *ret_visit)
{
    struct seglog_segment *segment = &log->segments[number];
    *ret_visit = (struct visit){.segment = number, .told_only = true};
    base_spin_lock(&log->lock);
    bool is_one = is_scrubbed(segment);
    ret_visit->stamp = segment->stamp;
    base_spin_unlock(&log->lock);
    return is_one;
}

/* Whether it is what it was. If so, nobody has written to it since begin_segment(). */
static bool is_still(struct seglog *log, const struct visit *visit)
{
    const struct seglog_segment *segment = &log->segments[visit->segment];
    base_spin_lock(&log->lock);
    bool still = segment->state == SEGLOG_STATE_CLOSED && segment->stamp == visit->stamp;
    base_spin_unlock(&log->lock);
    return still;
}

/* Something in it is damaged, and that matters. Later calls are about what is worse. */
static void note_damage(struct visit *visit, uint64_t offset, const char *why, const char *remedy)
{
    if (visit->damaged == 0)
        visit->offset = offset;
    visit->damaged++;
    visit->why = why;
    visit->remedy = remedy;
}

/* @return false: it is not to be read on */
static bool check_header(struct seglog *log, struct visit *visit)
{
    struct seglog_scrub *scrub = log->scrub;
    uint64_t offset = seglog_segment_offset(log, visit->segment), bytes = log->superblock.block_bytes;
    struct seglog_segment_format header;
    bool good = false;
    for (int try = 0; !good && try < SEGLOG_READ_TRIES; try++) {
        if (!await_turn(scrub))
            return false;
        uint64_t begin_ns = task_now();
        good = drive_read(log->drive, offset, scrub->reader.window, bytes) == 0 &&
               seglog_segment_parse(scrub->reader.window, log->superblock.check_seed, visit->segment,
                                    &header) == 0 &&
               header.stamp == visit->stamp;
        note_read(scrub, begin_ns, bytes);
    }
    if (!good && !is_still(log, visit))
        return false;
    if (!good) {
        note_damage(visit, offset, "its header is damaged", "nothing: its records are there");
        visit->told_only = log->cache;
    }
    return true;
}

/* @return false: it is not to be read on */
static bool read_summary(struct seglog *log, struct visit *visit, uint32_t *ret_count)
{
    struct seglog_scrub *scrub = log->scrub;
    struct seglog_trailer_format trailer = {.entries = 0};
    if (!await_turn(scrub))
        return false;
    uint64_t begin_ns = task_now();
    int error = seglog_summary_find(log, visit->segment, visit->stamp, scrub->reader.summary, &trailer);
    note_read(scrub, begin_ns,
              error == 0 ? seglog_summary_bytes(trailer.entries, log->superblock.block_bytes)
                         : log->superblock.block_bytes);
    *ret_count = trailer.entries;
    if (error == 0 || !is_still(log, visit))
        return error == 0;
    note_damage(visit, seglog_segment_offset(log, visit->segment), "its summary is damaged",
                "restart soon: opening the store gives it another");
    visit->told_only = false;
    return false;
}

/* seglog_move_wants() of the scrubber. */
static bool wants(struct seglog *log, struct seglog_collector *reader,
                  const struct seglog_entry_format *entry, uint64_t grain, enum seglog_move_kind *ret_kind)
{
    *ret_kind = SEGLOG_MOVE_VALUE;
    if ((entry->kind & SEGLOG_KIND_MASK) == SEGLOG_TOMBSTONE)
        return !log->cache && entry->sequence >= reader->gone_sequence;
    return log->ops->judge(log->owner, entry, grain) != SEGLOG_DEAD;
}

/* A record was read again and again, and did not verify. @return false: the segment is not what it was */
static bool note_record(struct seglog *log, struct visit *visit, const struct seglog_move *move)
{
    enum seglog_move_kind kind;
    if (!is_still(log, visit))
        return false;
    if (!wants(log, &log->scrub->reader, &move->entry, move->grain, &kind))
        return true; /* it was overwritten or deleted meanwhile */
    note_damage(visit, move->grain << log->grain_shift, "a record in it is damaged",
                log->cache ? "nothing: it is evicted"
                           : "store or delete again the keys whose gets fail; the rest of it is moved");
    visit->told_only = false;
    return true;
}

/* @return false: it is not to be read on */
static bool check_window(struct seglog *log, struct visit *visit, uint64_t begin, uint64_t end)
{
    struct seglog_scrub *scrub = log->scrub;
    struct seglog_collector *reader = &scrub->reader;
    struct seglog_record_format header;
    if (!await_turn(scrub))
        return false;
    uint64_t begin_ns = task_now();
    /* what cannot be read in one piece is read record by record; what the memory held may be the same bytes
     * from another pass */
    if (drive_read(log->drive, begin, reader->window, end - begin) != 0)
        memset(reader->window, 0, end - begin);
    note_read(scrub, begin_ns, end - begin);
    for (uint32_t i = 0; i < reader->planned; i++) {
        const struct seglog_move *move = &reader->moves[i];
        if (seglog_move_record(log, reader, begin, move, &header) == NULL && !note_record(log, visit, move))
            return false;
    }
    return is_still(log, visit);
}

static void check_records(struct seglog *log, struct visit *visit, uint32_t count)
{
    struct seglog_collector *reader = &log->scrub->reader;
    const struct seglog_entry_format *entries = (const void *)reader->summary;
    bool goes_on = true;
    reader->gone_sequence = seglog_gone_sequence(log);
    for (uint32_t next = 0; goes_on && next < count;) {
        uint64_t begin, end;
        uint32_t limit = base_min(count, next + ENTRIES_AT_ONCE);
        next = seglog_move_plan(log, reader, visit->segment, entries, limit, next, wants, &begin, &end);
        goes_on = reader->planned == 0 || check_window(log, visit, begin, end);
        task_yield();
    }
}

/* ---- what is damaged ------------------------------------------------------------------------------- */

/* Mark it for the service, unless it has become another matter. */
static void hand_on(struct seglog *log, const struct visit *visit)
{
    struct seglog_segment *segment = &log->segments[visit->segment];
    base_spin_lock(&log->lock);
    if (segment->state == SEGLOG_STATE_CLOSED && segment->stamp == visit->stamp)
        segment->damaged = true;
    base_spin_unlock(&log->lock);
    /* Pairs with the exchange in seglog_scrub_collect(). */
    atomic_store_explicit(&log->scrub->found, true, memory_order_release);
    seglog_poke(log);
}

static void report(struct seglog *log, const struct visit *visit)
{
    struct seglog_scrub *scrub = log->scrub;
    base_error_limited(
        &log->node->log, &scrub->limit, "scrubbing has found a damaged segment",
        "path=%s segment=%" PRIu32 " offset=%" PRIu64 " damaged=%" PRIu64 " why=\"%s\" remedy=\"%s\"",
        drive_name(log->drive), visit->segment, visit->offset, visit->damaged, visit->why, visit->remedy);
    atomic_fetch_add_explicit(&scrub->damaged, visit->damaged, memory_order_relaxed);
    if (!visit->told_only)
        hand_on(log, visit);
}

static void scrub_segment(struct seglog *log, uint32_t number)
{
    struct visit visit;
    uint32_t count;
    if (!begin_segment(log, number, &visit))
        return;
    if (check_header(log, &visit) && read_summary(log, &visit, &count))
        check_records(log, &visit, count);
    if (visit.damaged > 0)
        report(log, &visit);
    atomic_fetch_add_explicit(&log->scrub->segments, 1, memory_order_relaxed);
}

static bool find_damaged(struct seglog *log, uint32_t *ret_segment, bool *ret_waits)
{
    bool found = false;
    *ret_waits = false;
    for (uint32_t begin = 0; !found && begin < seglog_segment_count(log); begin += SEGLOG_SEGMENTS_AT_ONCE) {
        uint32_t end = base_min(begin + SEGLOG_SEGMENTS_AT_ONCE, seglog_segment_count(log));
        base_spin_lock(&log->lock);
        bool room = log->cache || log->free_count >= log->needed + SEGLOG_KEPT_DATA + 2;
        for (uint32_t i = begin; !found && i < end; i++) {
            const struct seglog_segment *segment = &log->segments[i];
            if (!segment->damaged || segment->state != SEGLOG_STATE_CLOSED)
                continue;
            found = room && atomic_load(&segment->pending) == 0 &&
                    (log->cache || !seglog_segment_is_pinned(log, segment));
            *ret_waits = *ret_waits || !found;
            *ret_segment = i;
        }
        base_spin_unlock(&log->lock);
    }
    return found;
}

bool seglog_scrub_collect(struct seglog *log, uint64_t *ret_when_ns)
{
    uint32_t segment;
    bool waits;
    /* Pairs with the store in hand_on(). */
    if (log->scrub == NULL || !atomic_load_explicit(&log->scrub->found, memory_order_relaxed) ||
        !atomic_exchange_explicit(&log->scrub->found, false, memory_order_acquire))
        return false;
    bool found = find_damaged(log, &segment, &waits);
    int error = 0;
    if (found)
        error = log->cache ? seglog_evict_segment(log, segment) : seglog_collect_segment(log, segment);
    if (found || waits) /* there may be more */
        atomic_store_explicit(&log->scrub->found, true, memory_order_relaxed);
    if (waits || error != 0)
        *ret_when_ns = base_min(*ret_when_ns, task_now() + RETRY_NS);
    return found && error == 0;
}

/* ---- its life -------------------------------------------------------------------------------------- */

static void end_pass(struct seglog *log, uint64_t begin_ns)
{
    struct seglog_scrub *scrub = log->scrub;
    atomic_store_explicit(&scrub->ended_ns, task_wall(log->node), memory_order_relaxed);
    atomic_fetch_add_explicit(&scrub->passes, 1, memory_order_relaxed);
    (void)task_worker_await(&scrub->worker, begin_ns + scrub->interval_ns);
}

static void run_scrubber(void *arg)
{
    struct seglog *log = arg;
    struct task_worker *worker = &log->scrub->worker;
    uint64_t first = base_hash64(&log->session, sizeof(log->session), 0) % seglog_segment_count(log);
    while (!task_worker_stops(worker)) {
        uint64_t begin_ns = task_now();
        const uint32_t count = seglog_segment_count(log); /* what comes meanwhile is of the next pass */
        for (uint32_t i = 0; i < count && !task_worker_stops(worker); i++) {
            scrub_segment(log, (uint32_t)((first + i) % count));
            if (i % SEGLOG_SEGMENTS_AT_ONCE == 0)
                task_yield();
        }
        if (!task_worker_stops(worker))
            end_pass(log, begin_ns);
    }
}

int seglog_scrub_start(struct seglog *log)
{
    return log->scrub == NULL ? 0 : task_worker_start(&log->scrub->worker, "tarn-scrub", run_scrubber, log);
}

void seglog_scrub_stop(struct seglog *log)
{
    if (log->scrub != NULL)
        task_worker_stop(&log->scrub->worker);
}

void seglog_scrub_tell(const struct seglog *log, struct seglog_scrub_stats *ret_stats)
{
    const struct seglog_scrub *scrub = log->scrub;
    *ret_stats = (struct seglog_scrub_stats){.passes = 0};
    if (scrub == NULL)
        return;
    ret_stats->passes = atomic_load_explicit(&scrub->passes, memory_order_relaxed);
    ret_stats->segments = atomic_load_explicit(&scrub->segments, memory_order_relaxed);
    ret_stats->bytes = atomic_load_explicit(&scrub->bytes, memory_order_relaxed);
    ret_stats->damaged = atomic_load_explicit(&scrub->damaged, memory_order_relaxed);
    ret_stats->ended_ns = atomic_load_explicit(&scrub->ended_ns, memory_order_relaxed);
}
