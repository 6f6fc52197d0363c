/*
 * Moving what lives in a victim to the relocation stream: read in windows, append, wait, publish. What the
 * owner does not want published any more, since somebody was quicker, gets a tombstone.
 */
#include "seglog/collect_internal.h"
#include <errno.h>
#include <inttypes.h>

#define GAP_BYTES (UINT64_C(64) << 10) /* dead bytes that are read rather than skipped */

static uint64_t move_begin(const struct seglog *log, const struct seglog_move *move)
{
    return move->grain << log->grain_shift;
}

static void say_bad(struct seglog *log, struct seglog_victim *victim, uint64_t offset, const char *why)
{
    if (!victim->bad && !log->segments[victim->segment].damaged) /* else the scrubber has said so */
        base_error(&log->node->log,
                   "a segment cannot be collected: its space is lost, the rest of it is kept",
                   "path=%s segment=%" PRIu32 " offset=%" PRIu64 " why=\"%s\"", drive_name(log->drive),
                   victim->segment, offset, why);
    victim->bad = true;
}

static void say_victim_bad(struct seglog *log, struct seglog_collector *collector,
                           const struct seglog_move *move, const char *why)
{
    for (uint32_t i = 0; i < collector->victim_count; i++) {
        if (collector->victims[i].segment == seglog_segment_of(log, move->grain))
            say_bad(log, &collector->victims[i], move_begin(log, move), why);
    }
}

/* ---- reading --------------------------------------------------------------------------------------- */

/*
 * Read the blocks of a record to where the window has them. What an error leaves there does not verify, nor
 * do neighbours in the same blocks, which are read again then.
 */
static void read_again(struct seglog *log, struct seglog_collector *collector, uint64_t window_begin,
                       const struct seglog_move *move)
{
    uint32_t block_bytes = log->superblock.block_bytes;
    uint64_t begin = base_align_down(move_begin(log, move), block_bytes);
    uint64_t end = base_align_up(move_begin(log, move) + move->entry.bytes, block_bytes);
    (void)!drive_read(log->drive, begin, collector->window + (begin - window_begin), end - begin);
}

static bool verify(const struct seglog *log, const struct seglog_move *move, const uint8_t *record,
                   struct seglog_record_format *ret_header)
{
    const struct seglog_superblock_format *superblock = &log->superblock;
    uint64_t seed = seglog_record_seed(superblock->check_seed, seglog_stamp_at(log, move->grain));
    return seglog_record_verify(record, move->entry.bytes, seed, move->grain, superblock, ret_header) == 0 &&
           seglog_entry_tells_of(&move->entry, ret_header);
}

const uint8_t *seglog_move_record(struct seglog *log, struct seglog_collector *collector,
                                  uint64_t window_begin, const struct seglog_move *move,
                                  struct seglog_record_format *ret_header)
{
    const uint8_t *record = collector->window + (move_begin(log, move) - window_begin);
    for (int try = 1; !verify(log, move, record, ret_header); try++) {
        if (try == SEGLOG_READ_TRIES)
            return NULL;
        read_again(log, collector, window_begin, move);
    }
    return record;
}

/* ---- one record ------------------------------------------------------------------------------------ */

/* Whether a tombstone of a record's key is a record that the store can have. */
static bool has_tombstone(const struct seglog *log, const struct seglog_record_format *header)
{
    return seglog_record_bytes(SEGLOG_TOMBSTONE, header->key_bytes, SEGLOG_BIRTH_BYTES) <=
           log->superblock.record_bytes_max;
}

/* A tombstone for a record, born now. */
static struct seglog_draft tombstone_of(const struct seglog_move *move,
                                        const struct seglog_record_format *header, const uint8_t *record)
{
    return (struct seglog_draft){
        .kind = SEGLOG_TOMBSTONE,
        .key_bytes = header->key_bytes,
        .sequence = header->sequence,
        .hash = {.low = move->entry.hash[0], .high = move->entry.hash[1]},
        .key = record + sizeof(*header) + seglog_extension_bytes(header->kind),
    };
}

struct seglog_draft seglog_move_draft(const struct seglog_move *move,
                                      const struct seglog_record_format *header, const uint8_t *record)
{
    struct seglog_draft draft = tombstone_of(move, header, record);
    const uint8_t *value = (const uint8_t *)draft.key + header->key_bytes;
    switch (move->kind) {
    case SEGLOG_MOVE_VALUE:
        draft.superseded = move->grain;
        draft.kind = header->kind & (uint8_t) ~(SEGLOG_MARK_BATCH | SEGLOG_MARK_COMMIT);
        draft.value_bytes = header->value_bytes;
        draft.client_flags = header->client_flags;
        draft.version = header->version;
        draft.expiry_ns = seglog_expiry_ns(header->expiry);
        draft.value = value;
        draft.extension = record + sizeof(*header);
        break;
    case SEGLOG_MOVE_TOMBSTONE:
        draft.kind = header->kind & (SEGLOG_KIND_MASK | SEGLOG_NAMELESS);
        draft.version = header->version;
        draft.value_bytes = SEGLOG_BIRTH_BYTES;
        draft.value = value;
        break;
    case SEGLOG_MOVE_ENDED:
        draft.superseded = move->grain;
        break;
    }
    return draft;
}

/*
 * The highest stamp of what a tombstone hides. It was born before all of it may have been moved for the last
 * time: by a collection that had judged it before it was removed. And a crash may have left a copy whose
 * burial was on its way; so those of earlier sessions count as born at the end of these.
 */
static uint64_t birth_of(const struct seglog *log, const struct seglog_move *move,
                         const struct seglog_record_format *header, const uint8_t *record)
{
    const uint8_t *birth =
        record + sizeof(*header) + seglog_extension_bytes(header->kind) + header->key_bytes;
    uint64_t settled = log->segments[seglog_segment_of(log, move->grain)].tombstone_stamp;
    return base_max(base_load_le64(birth), base_max(settled, log->session_stamp));
}

/*
 * The key of a damaged record, if its bytes are there: the hash proves them, wherever they were read from.
 * @return NULL: it cannot be told
 */
static const void *key_of_damaged(const struct seglog *log, const struct seglog_move *move,
                                  const uint8_t *record, uint16_t *ret_bytes)
{
    struct seglog_record_format header;
    const struct seglog_entry_format *entry = &move->entry;
    memcpy(&header, record, sizeof(header));
    uint64_t front_bytes = sizeof(header) + seglog_extension_bytes(entry->kind);
    if (seglog_is_nameless(entry->kind) || header.key_bytes == 0 ||
        front_bytes + header.key_bytes > entry->bytes || !has_tombstone(log, &header))
        return NULL;
    const uint8_t *key = record + front_bytes;
    struct base_hash128 hash = base_hash128(key, header.key_bytes, log->superblock.hash_seed);
    *ret_bytes = header.key_bytes;
    return hash.low == entry->hash[0] && hash.high == entry->hash[1] ? key : NULL;
}

/*
 * Append a tombstone, born now, in the place of a record that is damaged, if that is to be given up.
 *
 * @param record        what was read
 * @param ret_appended  whether it was
 */
static int append_in_place_of(struct seglog *log, const struct seglog_collector *collector,
                              struct seglog_move *move, const uint8_t *record, bool *ret_appended)
{
    struct seglog_draft draft = {.kind = SEGLOG_TOMBSTONE,
                                 .sequence = move->entry.sequence,
                                 .hash = {.low = move->entry.hash[0], .high = move->entry.hash[1]}};
    draft.key = key_of_damaged(log, move, record, &draft.key_bytes);
    *ret_appended = collector->gives_up &&
                    log->ops->gone(log->owner, &move->entry, move->grain, draft.key, draft.key_bytes);
    if (!*ret_appended)
        return 0;
    if (draft.key == NULL) {
        int error = seglog_feature_note(log, SEGLOG_FEATURE_NAMELESS);
        if (error != 0)
            return error;
        draft.kind |= SEGLOG_NAMELESS;
        draft.key = move->entry.hash;
        draft.key_bytes = sizeof(move->entry.hash);
    }
    if (move->kind != SEGLOG_MOVE_TOMBSTONE) {
        move->kind = SEGLOG_MOVE_ENDED;
        draft.superseded = move->grain;
    }
    return seglog_append_to(&log->streams[SEGLOG_RELOCATION], 0, &draft, 1, &move->place);
}

/* The same of one that is not. @param born  of a tombstone */
static int append_copy(struct seglog *log, const struct seglog_collector *collector, struct seglog_move *move,
                       const struct seglog_record_format *header, const uint8_t *record, const uint64_t *born)
{
    if (move->kind == SEGLOG_MOVE_ENDED && !has_tombstone(log, header))
        move->kind = SEGLOG_MOVE_VALUE; /* it stays until it is overwritten */
    struct seglog_draft draft = seglog_move_draft(move, header, record);
    if (move->kind == SEGLOG_MOVE_TOMBSTONE)
        draft.value = born; /* little-endian, as all that is stored */
    if (collector->gives_up && move->kind == SEGLOG_MOVE_ENDED)
        (void)log->ops->gone(log->owner, &move->entry, move->grain, draft.key, draft.key_bytes);
    return seglog_append_to(&log->streams[SEGLOG_RELOCATION], 0, &draft, 1, &move->place);
}

/* Append the first record that is planned, unless it need not be; it is counted then. */
static int append_planned(struct seglog *log, struct seglog_collector *collector, uint64_t window_begin,
                          struct seglog_move *move)
{
    struct seglog_record_format header;
    const uint8_t *record = seglog_move_record(log, collector, window_begin, move, &header);
    bool tombstone = record != NULL && move->kind == SEGLOG_MOVE_TOMBSTONE;
    const uint64_t born = tombstone ? birth_of(log, move, &header, record) : 0;
    if (tombstone && born < collector->oldest_other) { /* nothing is left that it could have to hide */
        collector->round_dropped_bytes += seglog_footprint(log, move->entry.bytes);
        return 0;
    }
    const uint8_t *bytes = collector->window + (move_begin(log, move) - window_begin);
    bool appended = true;
    int error = record == NULL ? append_in_place_of(log, collector, move, bytes, &appended)
                               : append_copy(log, collector, move, &header, record, &born);
    if (error != 0)
        return error;
    if (!appended) {
        say_victim_bad(log, collector, move, "a record in it cannot be read, or is damaged");
        return 0;
    }
    atomic_fetch_add_explicit(&log->moved_bytes, seglog_padded(log, move->place.bytes), memory_order_relaxed);
    collector->moves[collector->count++] = *move;
    return 0;
}

/* ---- windows --------------------------------------------------------------------------------------- */

/* seglog_move_wants() of an ordinary victim. */
static bool wants(struct seglog *log, struct seglog_collector *collector,
                  const struct seglog_entry_format *entry, uint64_t grain, enum seglog_move_kind *ret_kind)
{
    if ((entry->kind & SEGLOG_KIND_MASK) == SEGLOG_TOMBSTONE) {
        *ret_kind = SEGLOG_MOVE_TOMBSTONE;
        return entry->sequence >= collector->gone_sequence;
    }
    enum seglog_verdict verdict = log->ops->judge(log->owner, entry, grain);
    *ret_kind = verdict == SEGLOG_ENDED ? SEGLOG_MOVE_ENDED : SEGLOG_MOVE_VALUE;
    return verdict != SEGLOG_DEAD;
}

uint32_t seglog_move_plan(struct seglog *log, struct seglog_collector *collector, uint32_t segment,
                          const struct seglog_entry_format *entries, uint32_t count, uint32_t next,
                          seglog_move_wants *wants_it, uint64_t *ret_begin, uint64_t *ret_end)
{
    uint32_t block_bytes = log->superblock.block_bytes;
    uint64_t window_begin = 0, end = 0;
    collector->planned = 0;
    for (; next < count && collector->count + collector->planned < collector->moves_max; next++) {
        struct seglog_move move = {.entry = entries[next],
                                   .grain = seglog_entry_grain(log, segment, &entries[next])};
        if (!wants_it(log, collector, &move.entry, move.grain, &move.kind))
            continue;
        uint64_t begin = move_begin(log, &move);
        if (collector->planned == 0)
            window_begin = base_align_down(begin, block_bytes);
        else if (begin - end > GAP_BYTES ||
                 base_align_up(begin + move.entry.bytes, block_bytes) - window_begin >
                     collector->window_bytes)
            break;
        end = begin + move.entry.bytes;
        collector->moves[collector->count + collector->planned++] = move;
    }
    *ret_begin = window_begin;
    *ret_end = base_align_up(end, block_bytes);
    return next;
}

/* Read and append what is planned. */
static int move_window(struct seglog *log, struct seglog_collector *collector, uint64_t begin, uint64_t end)
{
    /* what cannot be read in one piece is read record by record */
    (void)!drive_read(log->drive, begin, collector->window, end - begin);
    uint32_t first = collector->count;
    for (uint32_t i = 0; i < collector->planned; i++) {
        struct seglog_move move = collector->moves[first + i]; /* its slot, or one before it, is used again */
        int error = append_planned(log, collector, begin, &move);
        if (error != 0)
            return error;
    }
    return 0;
}

static int move_entries(struct seglog *log, struct seglog_collector *collector,
                        const struct seglog_entry_format *entries, uint32_t count)
{
    uint32_t segment = collector->victims[collector->victim_count - 1].segment;
    for (uint32_t next = 0; next < count;) {
        uint64_t begin, end;
        next = seglog_move_plan(log, collector, segment, entries, count, next, wants, &begin, &end);
        uint64_t moved_before = atomic_load_explicit(&log->moved_bytes, memory_order_relaxed);
        int error = collector->planned > 0 ? move_window(log, collector, begin, end) : 0;
        if (error == 0 && collector->count == collector->moves_max)
            error = seglog_move_publish(log, collector);
        if (error == 0 && collector->count == collector->moves_max)
            error = -ENOSPC; /* all of them wait for tombstones */
        if (error == 0 && task_worker_stops(&log->service.worker))
            error = -ECANCELED;
        if (error == 0 && !seglog_service_chores(log))
            error = -EROFS;
        if (error == 0 && next < count)
            error = seglog_pace(log,
                                atomic_load_explicit(&log->moved_bytes, memory_order_relaxed) - moved_before);
        if (error != 0)
            return error;
    }
    return 0;
}

int seglog_move_victim(struct seglog *log, struct seglog_collector *collector)
{
    struct seglog_victim *victim = &collector->victims[collector->victim_count - 1];
    const struct seglog_entry_format *entries;
    uint32_t count;
    int error = seglog_summary_read(log, victim->segment, collector->summary, &entries, &count);
    if (error == 0)
        return move_entries(log, collector, entries, count);
    say_bad(log, victim, seglog_segment_offset(log, victim->segment), "its summary cannot be read");
    return 0;
}

/* ---- publishing ------------------------------------------------------------------------------------ */

/* @return false: the copy is to be buried */
static bool publish_copies(struct seglog *log, const struct seglog_move *move)
{
    const struct seglog_owner_ops *ops = log->ops;
    bool wanted = true;
    switch (move->kind) {
    case SEGLOG_MOVE_VALUE:
        wanted = ops->moved(log->owner, &move->entry, move->grain, &move->place);
        if (wanted)
            seglog_live_moved(log, move->grain, move->entry.bytes);
        break;
    case SEGLOG_MOVE_ENDED:
        if (ops->moved(log->owner, &move->entry, move->grain, NULL))
            seglog_live_moved(log, move->grain, move->entry.bytes);
        break;
    case SEGLOG_MOVE_TOMBSTONE:
        break;
    }
    if (wanted)
        seglog_settle(log, &move->place, true);
    return wanted;
}

/* Append the tombstone of an unwanted copy. The key is read from the original, which is still there. A piece
 * needs none: it counts only with its head. */
static int append_grave(struct seglog *log, struct seglog_collector *collector, struct seglog_move *move)
{
    struct seglog_record_format header;
    if ((move->entry.kind & SEGLOG_MARK_PIECE) != 0) {
        move->grave = move->place;
        return 0;
    }
    uint64_t window_begin = base_align_down(move_begin(log, move), log->superblock.block_bytes);
    read_again(log, collector, window_begin, move);
    const uint8_t *record = seglog_move_record(log, collector, window_begin, move, &header);
    if (record == NULL)
        say_victim_bad(log, collector, move, "a record in it cannot be read any more");
    if (record == NULL || !has_tombstone(log, &header)) {
        /* The victim, which stays, keeps what hides the copy; or it is a newer record, which nothing can
         * remove. */
        move->grave = move->place;
        return 0;
    }
    struct seglog_draft draft = tombstone_of(move, &header, record);
    return seglog_append_to(&log->streams[SEGLOG_RELOCATION], 0, &draft, 1, &move->grave);
}

/*
 * Copies that nobody wants any more must not come back: whatever removed the originals may be forgotten
 * before the copies are. So each gets a tombstone, all with one wait; where there is no room, another time. What
 * removed the originals is durable before: else a power cut could leave the tombstones alone.
 */
static int bury(struct seglog *log, struct seglog_collector *collector)
{
    uint32_t buried = 0, left = 0;
    int error = collector->unburied > 0 ? seglog_sync(log) : 0, append_error = 0;
    if (error != 0)
        return error;
    while (buried < collector->unburied && append_error == 0) {
        append_error = append_grave(log, collector, &collector->moves[buried]);
        buried += append_error == 0;
    }
    for (uint32_t i = 0; i < buried && error == 0; i++)
        error = seglog_wait(log, &collector->moves[i].grave);
    for (uint32_t i = 0; i < buried; i++) {
        const struct seglog_move *move = &collector->moves[i];
        if (move->grave.tombstone)
            seglog_settle(log, &move->grave, error == 0);
        seglog_settle(log, &move->place, false);
    }
    for (uint32_t i = buried; i < collector->unburied; i++)
        collector->moves[left++] = collector->moves[i];
    collector->unburied = collector->count = left;
    return error == 0 && append_error != -ENOSPC ? append_error : error;
}

int seglog_move_publish(struct seglog *log, struct seglog_collector *collector)
{
    int error = 0;
    for (uint32_t i = collector->unburied; i < collector->count && error == 0; i++)
        error = seglog_wait(log, &collector->moves[i].place);
    uint32_t count = collector->count;
    for (uint32_t i = collector->unburied; i < count; i++) {
        if (error != 0)
            seglog_settle(log, &collector->moves[i].place, false);
        else if (!publish_copies(log, &collector->moves[i]))
            collector->moves[collector->unburied++] = collector->moves[i];
    }
    collector->count = collector->unburied;
    return error == 0 ? bury(log, collector) : error;
}

bool seglog_victim_is_held(const struct seglog *log, const struct seglog_collector *collector,
                           const struct seglog_victim *victim)
{
    for (uint32_t i = 0; i < collector->unburied; i++) {
        if (seglog_segment_of(log, collector->moves[i].grain) == victim->segment)
            return true;
    }
    return false;
}
