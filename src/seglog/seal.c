/*
 * Sealing: what opening does with a segment that has no valid summary. It is read from its first record to
 * its end; what verifies is accepted, written again to where it is, and named by a summary.
 *
 *    window_begin                     position                          window_end
 *   ─┼─────────────┬──────────┬───────┼──────────────────────────────────┼─ ─
 *    │ accepted    │ skipped  │ acc.  │ read, not looked at yet           │
 *   ─┴─────────────┴──────────┴───────┴──────────────────────────────────┴─ ─
 *
 * The records of a batch are accepted when its last one is met. Until then the window goes on from its first.
 */
#include "seglog/seglog_internal.h"
#include <errno.h>
#include <inttypes.h>

#define WINDOW_BYTES (UINT64_C(1) << 20) /* and the largest record */

/* One segment's sealing. Positions are bytes from the segment's beginning. */
struct seal {
    struct seglog_salvage *salvage;
    struct seglog *log;
    struct seglog_segment *segment;
    uint32_t number;
    uint32_t block_bytes;
    uint64_t record_seed;
    uint64_t limit;
    uint64_t window_begin;
    uint64_t window_end;
    uint64_t position;
    uint32_t count;           /* accepted, and the batch's so far */
    uint32_t first_unwritten; /* the first of them that is not written again whole */
    bool confirmed;           /* two readings of the window from here to its end agree */
    bool hole;                /* something that is not zero was skipped since the last accepted record */
    uint64_t skipped_bytes;
    uint64_t cut_count;  /* records whose header verifies and whose body does not */
    uint64_t hole_count; /* places that were skipped, with accepted records behind them */
    /* the batch that is being met; all that was taken since `batch_first` */
    bool in_batch;
    uint32_t batch_first;
    uint64_t batch_id;
    uint64_t uncommitted_count; /* records of batches that are not whole */
};

static uint8_t *at(const struct seal *seal, uint64_t position)
{
    return seal->salvage->window + (position - seal->window_begin);
}

static uint64_t drive_offset(const struct seal *seal, uint64_t position)
{
    return seglog_segment_offset(seal->log, seal->number) + position;
}

/* ---- reading ------------------------------------------------------------------------------------- */

static int read_piece(struct seal *seal, uint64_t from, uint64_t to)
{
    int error = seglog_drive_read(seal->log->drive, drive_offset(seal, from), at(seal, from), to - from);
    if (error != 0)
        return seglog_refuse_segment(seal->log, seal->number, "it cannot be read", error);
    return 0;
}

/* The first window: its header is written again as well, so that must be what verified before. */
static int read_first(struct seal *seal)
{
    struct seglog *log = seal->log;
    struct seglog_segment_format header = {.stamp = 0};
    seal->window_end = base_min(seal->salvage->window_bytes, base_align_up(seal->limit, seal->block_bytes));
    for (int try = 0; try < SEGLOG_READ_TRIES; try++) {
        int error = read_piece(seal, 0, seal->window_end);
        if (error != 0)
            return error;
        if (seglog_segment_parse(at(seal, 0), log->superblock.check_seed, seal->number, &header) == 0 &&
            header.stamp == seal->segment->stamp)
            return 0;
    }
    return seglog_refuse_segment(log, seal->number, "the drive does not return the same bytes twice", -EIO);
}

enum found { FOUND_NOTHING, FOUND_CUT, FOUND_BEYOND, FOUND_RECORD };

/* What stands at the position. FOUND_BEYOND: more of it must be read first; FOUND_CUT: a header without its
 * body. */
static enum found look(const struct seal *seal, struct seglog_record_format *ret_header)
{
    const struct seglog_superblock_format *superblock = &seal->log->superblock;
    uint64_t position = seal->position, room = seal->limit - position;
    if (room < sizeof(*ret_header))
        return FOUND_NOTHING;
    if (seal->window_end - position < sizeof(*ret_header))
        return FOUND_BEYOND;
    uint64_t grain = drive_offset(seal, position) >> seal->log->grain_shift;
    if (seglog_record_parse(at(seal, position), room, seal->record_seed, grain, superblock->record_bytes_max,
                            ret_header) != 0)
        return FOUND_NOTHING;
    uint64_t bytes = seglog_record_bytes(ret_header->kind, ret_header->key_bytes, ret_header->value_bytes);
    if (bytes > room || ret_header->sequence >= seal->log->state->sequence_bound)
        return FOUND_CUT;
    if (bytes > seal->window_end - position)
        return FOUND_BEYOND;
    return seglog_record_verify_body(at(seal, position), ret_header, superblock->check_seed) == 0
               ? FOUND_RECORD
               : FOUND_CUT;
}

/*
 * Nothing that verifies stands at the position. A read may return damaged bytes, zeros and older ones
 * included, so the rest of the window is read until two readings agree or there is a record at the position
 * after all.
 */
static int read_again(struct seal *seal)
{
    uint64_t begin = base_align_down(seal->position, seal->block_bytes);
    uint64_t front_bytes = seal->position - begin, rest_bytes = seal->window_end - seal->position;
    struct seglog_readings readings = {.count = 0};
    struct seglog_record_format header;
    (void)seglog_readings_agree(&readings, at(seal, seal->position), rest_bytes);
    memcpy(seal->salvage->front, at(seal, begin), front_bytes);
    for (int try = 1; try < SEGLOG_READ_TRIES; try++) {
        int error = read_piece(seal, begin, seal->window_end);
        if (error != 0)
            return error;
        memcpy(at(seal, begin), seal->salvage->front, front_bytes);
        seal->confirmed = seglog_readings_agree(&readings, at(seal, seal->position), rest_bytes);
        if (seal->confirmed || look(seal, &header) >= FOUND_BEYOND)
            return 0;
    }
    return seglog_refuse_segment(seal->log, seal->number, "the drive does not return the same bytes twice",
                                 -EIO);
}

/* ---- writing again ------------------------------------------------------------------------------- */

static uint64_t entry_begin(const struct seal *seal, uint32_t entry)
{
    return (uint64_t)seal->salvage->entries[entry].grain << seal->log->grain_shift;
}

static uint64_t entry_end(const struct seal *seal, uint32_t entry)
{
    return entry_begin(seal, entry) + seal->salvage->entries[entry].bytes;
}

/* Make zeros of what belongs to no accepted record in a block. @return whether anything else is in it */
static bool clean_block(struct seal *seal, uint64_t begin)
{
    uint64_t end = begin + seal->block_bytes, kept_to = begin;
    bool kept = false;
    if (begin == 0) {
        kept = true;
        kept_to = sizeof(struct seglog_segment_format);
    }
    while (seal->first_unwritten < seal->count && entry_end(seal, seal->first_unwritten) <= begin)
        seal->first_unwritten++;
    for (uint32_t i = seal->first_unwritten; i < seal->count && entry_begin(seal, i) < end; i++) {
        kept = true;
        if (entry_begin(seal, i) > kept_to)
            memset(at(seal, kept_to), 0, entry_begin(seal, i) - kept_to);
        kept_to = base_min(entry_end(seal, i), end);
    }
    memset(at(seal, kept_to), 0, end - kept_to);
    return kept;
}

static int write_run(struct seal *seal, uint64_t begin, uint64_t end)
{
    if (begin == end)
        return 0;
    struct seglog *log = seal->log;
    int error = drive_write(log->drive, drive_offset(seal, begin), at(seal, begin), end - begin, false);
    if (error != 0)
        return seglog_refuse_segment(log, seal->number, "it cannot be written again", error);
    seglog_count_write(log, end - begin);
    return 0;
}

/* Write the accepted records between the window's beginning and a block's. */
static int write_again(struct seal *seal, uint64_t to)
{
    if (seal->log->read_only)
        return 0;
    uint64_t run_begin = seal->window_begin;
    for (uint64_t block = seal->window_begin; block < to; block += seal->block_bytes) {
        if (clean_block(seal, block))
            continue;
        int error = write_run(seal, run_begin, block);
        if (error != 0)
            return error;
        run_begin = block + seal->block_bytes;
    }
    return write_run(seal, run_begin, to);
}

/* Move the window on, so that it begins with the position's block, or the batch's, and fill it. */
static int advance(struct seal *seal)
{
    uint64_t needed = seal->in_batch ? entry_begin(seal, seal->batch_first) : seal->position;
    uint64_t begin = base_align_down(needed, seal->block_bytes);
    uint64_t limit = base_align_up(seal->limit, seal->block_bytes);
    uint64_t kept_bytes = seal->window_end - begin;
    int error = write_again(seal, begin);
    if (error != 0)
        return error;
    memmove(seal->salvage->window, at(seal, begin), kept_bytes);
    seal->window_begin = begin;
    uint64_t read_begin = seal->window_end;
    seal->window_end = base_min(begin + seal->salvage->window_bytes, limit);
    base_assert(read_begin < seal->window_end);
    seal->confirmed = false;
    return read_piece(seal, read_begin, seal->window_end);
}

/* ---- deciding ------------------------------------------------------------------------------------ */

/* It is not whole: nothing of it counts. */
static void drop_batch(struct seal *seal)
{
    if (!seal->in_batch)
        return;
    seal->uncommitted_count += seal->count - seal->batch_first;
    seal->count = seal->batch_first;
    seal->in_batch = false;
    seal->hole = true;
}

/*
 * Whether a record counts as far as its batch is concerned, or may: its place in the batch is the next. What
 * the checkpoint is about was committed before, whatever has become of its neighbours.
 */
static bool fits_batch(struct seal *seal, const struct seglog_record_format *header, const uint8_t *record)
{
    struct seglog_batch_format batch;
    bool covered = seal->position >> seal->log->grain_shift < seal->segment->covered_grain;
    if ((header->kind & SEGLOG_MARKS_BATCH) == 0 || covered) {
        drop_batch(seal);
        return true;
    }
    memcpy(&batch, record + sizeof(*header), sizeof(batch));
    bool first = batch.number == 0 && batch.id == header->sequence;
    bool next =
        seal->in_batch && batch.id == seal->batch_id && batch.number == seal->count - seal->batch_first;
    if (!next)
        drop_batch(seal);
    if (first && !next) {
        seal->in_batch = true;
        seal->batch_first = seal->count;
        seal->batch_id = batch.id;
    }
    return first || next;
}

/* A record of a batch was taken: was it the last? */
static void end_batch(struct seal *seal, const struct seglog_record_format *header, const uint8_t *record)
{
    struct seglog_batch_format batch;
    if (!seal->in_batch)
        return;
    memcpy(&batch, record + sizeof(*header), sizeof(batch));
    uint64_t count = seal->count - seal->batch_first;
    uint64_t bytes =
        seal->position - entry_begin(seal, seal->batch_first) + count * sizeof(struct seglog_entry_format);
    bool last = (header->kind & SEGLOG_MARK_COMMIT) != 0;
    if (bytes > seglog_batch_bytes_max(seal->log) || (last && batch.count != count))
        drop_batch(seal);
    if (last)
        seal->in_batch = false;
}

static int take_record(struct seal *seal, const struct seglog_record_format *header)
{
    const struct seglog_superblock_format *superblock = &seal->log->superblock;
    const uint8_t *record = at(seal, seal->position);
    uint64_t bytes = seglog_record_bytes(header->kind, header->key_bytes, header->value_bytes);
    uint64_t end = seal->position + bytes;
    bool fits = fits_batch(seal, header, record);
    seal->position = base_align_up(end, superblock->grain_bytes);
    seal->hole = seal->hole || !fits;
    seal->uncommitted_count += !fits;
    if (!fits)
        return 0;
    if (end + seglog_summary_bytes(seal->count + UINT64_C(1), seal->block_bytes) > superblock->segment_bytes)
        return seglog_refuse_segment(seal->log, seal->number,
                                     "its records leave no room for their summary: restore it from a dump",
                                     -EUCLEAN);
    struct base_hash128 hash = seglog_record_hash(header, record, superblock->hash_seed);
    struct seglog_entry_format *entry = &seal->salvage->entries[seal->count++];
    *entry = (struct seglog_entry_format){
        .hash = {hash.low, hash.high},
        .sequence = header->sequence,
        .grain = (uint32_t)((end - bytes) >> seal->log->grain_shift),
        .bytes = (uint32_t)bytes,
        .kind = header->kind,
    };
    memcpy(entry->expiry, header->expiry, sizeof(entry->expiry));
    seglog_entry_take_pieces(entry, record + sizeof(*header));
    seal->hole_count += seal->hole;
    seal->hole = false;
    end_batch(seal, header, record);
    return 0;
}

/* What is here is no record: the next may begin at the next block, as every write does. */
static void skip(struct seal *seal, enum found found)
{
    uint64_t next = base_align_down(seal->position, seal->block_bytes) + seal->block_bytes;
    uint64_t bytes = base_min(next, seal->window_end) - seal->position;
    drop_batch(seal);
    seal->cut_count += found == FOUND_CUT;
    if (!base_is_zero(at(seal, seal->position), bytes)) {
        seal->hole = true;
        seal->skipped_bytes += bytes;
    }
    seal->position = next;
}

static int scan(struct seal *seal)
{
    while (seal->position < seal->limit) {
        struct seglog_record_format header;
        int error = 0;
        enum found found = seal->position < seal->window_end ? look(seal, &header) : FOUND_BEYOND;
        if (found == FOUND_BEYOND)
            error = advance(seal);
        else if (found == FOUND_RECORD)
            error = take_record(seal, &header);
        else if (!seal->confirmed)
            error = read_again(seal);
        else
            skip(seal, found);
        if (error != 0)
            return error;
    }
    drop_batch(seal);
    return write_again(seal, seal->window_end);
}

/* Where the last accepted record ends. */
static uint64_t accepted_end(const struct seal *seal)
{
    return seal->count > 0 ? entry_end(seal, seal->count - 1)
                           : seglog_segment_header_bytes(seal->log->superblock.grain_bytes);
}

/* ---- the summary --------------------------------------------------------------------------------- */

static int write_summary(struct seal *seal)
{
    struct seglog *log = seal->log;
    struct seglog_trailer_format trailer = {
        .stamp = seal->segment->stamp,
        .session = log->session,
        .entries = seal->count,
        .end = (uint32_t)accepted_end(seal),
        .flags = SEGLOG_SUMMARY_SEALED,
    };
    uint64_t bytes = seglog_summary_bytes(seal->count, seal->block_bytes);
    seglog_summary_seal(seal->salvage->entries, &trailer, &log->superblock);
    int error = seglog_flush(log);
    if (error == 0)
        error = drive_write(log->drive, drive_offset(seal, log->superblock.segment_bytes - bytes),
                            seal->salvage->entries, bytes, true);
    if (error != 0)
        return seglog_refuse_segment(log, seal->number, "it cannot be sealed", error);
    seglog_count_write(log, bytes);
    return 0;
}

static int keep_summary(struct seal *seal)
{
    uint64_t bytes = seal->count * sizeof(struct seglog_entry_format);
    struct seglog_entry_format *entries = base_alloc(&seal->log->node->memory, bytes);
    if (entries == NULL)
        return seglog_refuse_segment(seal->log, seal->number, "there is too little memory for its summary",
                                     -ENOMEM);
    memcpy(entries, seal->salvage->entries, bytes);
    seal->segment->unsealed_entries = entries;
    return 0;
}

static void tell_damage(const struct seal *seal)
{
    if (seal->cut_count == 0 && seal->hole_count == 0 && seal->uncommitted_count == 0)
        return;
    base_warn(&seal->log->node->log, "records that were cut off or damaged are left out",
              "path=%s segment=%" PRIu32 " cut_off=%" PRIu64 " places=%" PRIu64 " skipped_bytes=%" PRIu64
              " uncommitted=%" PRIu64,
              drive_name(seal->log->drive), seal->number, seal->cut_count, seal->hole_count,
              seal->skipped_bytes, seal->uncommitted_count);
}

static int take_window(struct seglog_salvage *salvage)
{
    struct seglog *log = salvage->log;
    const struct seglog_superblock_format *superblock = &log->superblock;
    _Static_assert(WINDOW_BYTES >= SEGLOG_BATCH_BYTES_MAX, "a batch stays in it until it is decided");
    uint64_t bytes = base_align_up(WINDOW_BYTES + superblock->record_bytes_max, superblock->block_bytes) +
                     superblock->block_bytes;
    salvage->window_bytes = base_min(bytes, superblock->segment_bytes);
    salvage->window = drive_memory_alloc(log->node, log->drive, salvage->window_bytes);
    salvage->front = base_alloc(&log->node->memory, superblock->block_bytes);
    return salvage->window == NULL || salvage->front == NULL ? -ENOMEM : 0;
}

int seglog_salvage_segment(struct seglog_salvage *salvage, uint32_t number, uint64_t limit)
{
    struct seglog *log = salvage->log;
    if (salvage->window == NULL && take_window(salvage) != 0)
        return seglog_refuse_segment(log, number, "there is too little memory to read it", -ENOMEM);
    struct seglog_segment *segment = &log->segments[number];
    uint64_t begin = seglog_segment_header_bytes(log->superblock.grain_bytes);
    struct seal seal = {
        .salvage = salvage,
        .log = log,
        .segment = segment,
        .number = number,
        .block_bytes = log->superblock.block_bytes,
        .record_seed = seglog_record_seed(log->superblock.check_seed, segment->stamp),
        .limit = base_max(limit, begin),
        .position = begin,
    };
    int error = read_first(&seal);
    if (error == 0)
        error = scan(&seal);
    if (error == 0)
        error = log->read_only ? keep_summary(&seal) : write_summary(&seal);
    if (error != 0)
        return error;
    segment->entry_count = seal.count;
    segment->end = (uint32_t)accepted_end(&seal);
    segment->highest_sequence = 0;
    for (uint32_t i = 0; i < seal.count; i++)
        segment->highest_sequence = base_max(segment->highest_sequence, salvage->entries[i].sequence);
    segment->lowest_sequence = seglog_lowest_sequence(salvage->entries, seal.count);
    segment->sealed = true;
    salvage->segments++;
    salvage->records += seal.count;
    salvage->skipped_bytes += seal.skipped_bytes;
    tell_damage(&seal);
    return 0;
}

void seglog_salvage_deinit(struct seglog_salvage *salvage)
{
    base_free(&salvage->log->node->memory, salvage->window, salvage->window_bytes);
    base_free(&salvage->log->node->memory, salvage->front, salvage->log->superblock.block_bytes);
    salvage->window = NULL;
    salvage->front = NULL;
}
