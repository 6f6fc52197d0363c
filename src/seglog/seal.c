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
 *
 * All of it is read twice. The first reading, the *survey*, writes nothing. It compares the records with what the
 * ends of groups tell: so it knows up to where all was acknowledged, and which acknowledged records are missing.
 * One that is missing alone in its group is named by the group's end, and stays in the segment as damaged. Of
 * others nobody can tell the keys: see seglog_loss_note(). README, "Damage in a tail".
 */
#include "seglog/seal_internal.h"
#include <errno.h>
#include <inttypes.h>

#define WINDOW_BYTES (UINT64_C(1) << 20) /* and the largest record */

/* ---- reading ------------------------------------------------------------------------------------- */

int seal_read_piece(struct seal *seal, uint64_t from, uint64_t to)
{
    int error =
        seglog_drive_read(seal->log->drive, seal_drive_offset(seal, from), seal_at(seal, from), to - from);
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
        int error = seal_read_piece(seal, 0, seal->window_end);
        if (error != 0)
            return error;
        if (seal->segment->headerless ||
            (seglog_segment_parse(seal_at(seal, 0), log->superblock.check_seed, seal->number, &header) == 0 &&
             header.stamp == seal->segment->stamp))
            return 0;
    }
    return seglog_refuse_segment(log, seal->number, "the drive does not return the same bytes twice", -EIO);
}

enum found { FOUND_NOTHING, FOUND_CUT, FOUND_GROUP_END, FOUND_BEYOND, FOUND_LOST, FOUND_RECORD };

/* The missing record that is named next, if it stands at the position. */
static const struct seglog_entry_format *lost_here(const struct seal *seal)
{
    const struct seglog_entry_format *next = &seal->survey->lost[seal->lost_taken];
    bool here = !seal->surveys && seal->lost_taken < seal->survey->lost_count &&
                (uint64_t)next->grain << seal->log->grain_shift == seal->position;
    return here ? next : NULL;
}

/* What stands at the position. FOUND_BEYOND: more of it must be read first; FOUND_CUT: a header without its
 * body; FOUND_LOST: nothing, but it is known what should. */
static enum found look_at_record(const struct seal *seal, struct seglog_record_format *ret_header)
{
    const struct seglog_superblock_format *superblock = &seal->log->superblock;
    const struct seglog_entry_format *lost = lost_here(seal);
    uint64_t position = seal->position, room = seal->limit - position;
    struct seglog_group_end_format end;
    if (room < sizeof(*ret_header))
        return FOUND_NOTHING;
    if (seal->window_end - position < sizeof(*ret_header))
        return FOUND_BEYOND;
    if (lost != NULL)
        return lost->bytes > seal->window_end - position ? FOUND_BEYOND : FOUND_LOST;
    uint64_t grain = seal_drive_offset(seal, position) >> seal->log->grain_shift;
    if (seglog_record_parse(seal_at(seal, position), room, seal->record_seed, grain,
                            superblock->record_bytes_max, ret_header) != 0)
        return seal_is_group_end(seal, position, &end) ? FOUND_GROUP_END : FOUND_NOTHING;
    uint64_t bytes = seglog_record_bytes(ret_header->kind, ret_header->key_bytes, ret_header->value_bytes);
    if (bytes > room || ret_header->sequence >= seal->log->state->sequence_bound)
        return FOUND_CUT;
    if (bytes > seal->window_end - position)
        return FOUND_BEYOND;
    return seglog_record_verify_body(seal_at(seal, position), ret_header, superblock->check_seed) == 0
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
    (void)seglog_readings_agree(&readings, seal_at(seal, seal->position), rest_bytes);
    memcpy(seal->salvage->front, seal_at(seal, begin), front_bytes);
    for (int try = 1; try < SEGLOG_READ_TRIES; try++) {
        int error = seal_read_piece(seal, begin, seal->window_end);
        if (error != 0)
            return error;
        memcpy(seal_at(seal, begin), seal->salvage->front, front_bytes);
        seal->confirmed = seglog_readings_agree(&readings, seal_at(seal, seal->position), rest_bytes);
        if (seal->confirmed || look_at_record(seal, &header) >= FOUND_GROUP_END)
            return 0;
    }
    return seglog_refuse_segment(seal->log, seal->number, "the drive does not return the same bytes twice",
                                 -EIO);
}

/* ---- writing again ------------------------------------------------------------------------------- */

/* Make zeros of what belongs to no accepted record in a block, nor ends a group. @return whether anything else is
 * in it */
static bool clean_block(struct seal *seal, uint64_t begin)
{
    const uint64_t end = begin + seal->block_bytes, grain_bytes = seal->log->superblock.grain_bytes;
    uint64_t kept_to = begin;
    struct seglog_group_end_format group_end;
    bool kept = false;
    if (begin == 0) {
        kept = true;
        kept_to = sizeof(struct seglog_segment_format);
    }
    while (seal->first_unwritten < seal->count && seal_entry_end(seal, seal->first_unwritten) <= begin)
        seal->first_unwritten++;
    for (uint32_t i = seal->first_unwritten; i < seal->count && seal_entry_begin(seal, i) < end; i++) {
        kept = true;
        if (seal_entry_begin(seal, i) > kept_to)
            memset(seal_at(seal, kept_to), 0, seal_entry_begin(seal, i) - kept_to);
        kept_to = base_min(seal_entry_end(seal, i), end);
    }
    for (uint64_t place = base_align_up(kept_to, grain_bytes); place < end; place += grain_bytes) {
        if (!seal_is_group_end(seal, place, &group_end))
            continue;
        kept = true;
        memset(seal_at(seal, kept_to), 0, place - kept_to);
        kept_to = place + sizeof(group_end);
        break;
    }
    memset(seal_at(seal, kept_to), 0, end - kept_to);
    return kept;
}

static int write_run(struct seal *seal, uint64_t begin, uint64_t end)
{
    if (begin == end)
        return 0;
    struct seglog *log = seal->log;
    int error =
        drive_write(log->drive, seal_drive_offset(seal, begin), seal_at(seal, begin), end - begin, false);
    if (error != 0)
        return seglog_refuse_segment(log, seal->number, "it cannot be written again", error);
    seglog_count_write(log, end - begin);
    return 0;
}

/* Write the accepted records between the window's beginning and a block's. */
static int write_again(struct seal *seal, uint64_t to)
{
    if (seal->log->read_only || seal->surveys)
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
    uint64_t needed = seal->in_batch ? seal_entry_begin(seal, seal->batch_first) : seal->position;
    uint64_t begin = base_align_down(needed, seal->block_bytes);
    uint64_t limit = base_align_up(seal->limit, seal->block_bytes);
    uint64_t kept_bytes = seal->window_end - begin;
    int error = write_again(seal, begin);
    if (error != 0)
        return error;
    memmove(seal->salvage->window, seal_at(seal, begin), kept_bytes);
    seal->window_begin = begin;
    uint64_t read_begin = seal->window_end;
    seal->window_end = base_min(begin + seal->salvage->window_bytes, limit);
    base_assert(read_begin < seal->window_end);
    seal->confirmed = false;
    return seal_read_piece(seal, read_begin, seal->window_end);
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
 * was acknowledged was committed before, whatever has become of its neighbours.
 */
static bool fits_batch(struct seal *seal, const struct seglog_record_format *header, const uint8_t *record)
{
    struct seglog_batch_format batch;
    bool committed = seal->surveys || seal->position < seal->survey->acknowledged;
    if ((header->kind & SEGLOG_MARKS_BATCH) == 0 || committed) {
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
    uint64_t bytes = seal->position - seal_entry_begin(seal, seal->batch_first) +
                     count * sizeof(struct seglog_entry_format);
    bool last = (header->kind & SEGLOG_MARK_COMMIT) != 0;
    if (bytes > seglog_batch_bytes_max(seal->log) || (last && batch.count != count))
        drop_batch(seal);
    if (last)
        seal->in_batch = false;
}

static int take_record(struct seal *seal, const struct seglog_record_format *header)
{
    const struct seglog_superblock_format *superblock = &seal->log->superblock;
    const uint8_t *record = seal_at(seal, seal->position);
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
    if (seal->surveys)
        seal_survey_record(seal, end - bytes);
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

/* What is here is no record: the next may begin at the next grain or, behind zeros, at the next block. */
static void skip(struct seal *seal, enum found found)
{
    uint64_t next = base_min(seal_next_block(seal), seal->window_end);
    drop_batch(seal);
    seal->cut_count += found == FOUND_CUT;
    if (!base_is_zero(seal_at(seal, seal->position), next - seal->position)) {
        next = base_min(next, seal->position + seal->log->superblock.grain_bytes);
        seal->hole = true;
        seal->hole_end = next;
        seal->skipped_bytes += next - seal->position;
    }
    seal->position = next;
}

/* A record is missing, and named: it stays in the segment as damaged. */
static void take_lost(struct seal *seal)
{
    const struct seglog_entry_format *lost = lost_here(seal);
    drop_batch(seal);
    seal->salvage->entries[seal->count++] = *lost;
    seal->position += seglog_padded(seal->log, lost->bytes);
    seal->lost_taken++;
}

/* Let the end of a group tell of those records that are accepted: what was cut off shall not be missed later. */
static void mend_group_end(struct seal *seal, struct seglog_group_end_format *end)
{
    uint32_t i = seal->count;
    end->count = 0;
    end->hash[0] = end->hash[1] = end->sequence = 0;
    while (i > 0 && seal_entry_begin(seal, i - 1) >= end->begin)
        seal_combine(end, &seal->salvage->entries[--i]);
    if (i > 0)
        end->before_end = (uint32_t)seglog_padded(seal->log, seal_entry_end(seal, i - 1));
    seglog_group_end_seal(end, seal->record_seed,
                          seal_drive_offset(seal, seal->position) >> seal->log->grain_shift);
    memcpy(seal_at(seal, seal->position), end, sizeof(*end));
}

/* The end of a group stands at the position. */
static void take_group_end(struct seal *seal)
{
    struct seglog_group_end_format end;
    drop_batch(seal);
    if (seal_is_group_end(seal, seal->position, &end)) {
        if (seal->surveys)
            seal_survey_group_end(seal, &end);
        else
            mend_group_end(seal, &end);
    }
    seal->position = seal_next_block(seal);
}

static int scan(struct seal *seal)
{
    while (seal->position < seal->limit) {
        struct seglog_record_format header;
        int error = 0;
        enum found found = seal->position < seal->window_end ? look_at_record(seal, &header) : FOUND_BEYOND;
        if (found == FOUND_BEYOND)
            error = advance(seal);
        else if (found == FOUND_GROUP_END)
            take_group_end(seal);
        else if (found == FOUND_LOST)
            take_lost(seal);
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

/* ---- the summary --------------------------------------------------------------------------------- */

static int write_summary(struct seal *seal)
{
    struct seglog *log = seal->log;
    struct seglog_trailer_format trailer = {
        .stamp = seal->segment->stamp,
        .session = log->session,
        .entries = seal->count,
        .end = (uint32_t)seal_accepted_end(seal),
        .flags = SEGLOG_SUMMARY_SEALED,
    };
    uint64_t bytes = seglog_summary_bytes(seal->count, seal->block_bytes);
    seglog_summary_seal(seal->salvage->entries, &trailer, &log->superblock);
    int error = seglog_flush(log);
    if (error == 0)
        error = drive_write(log->drive, seal_drive_offset(seal, log->superblock.segment_bytes - bytes),
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

int seal_read(struct seglog_salvage *salvage, uint32_t number, uint64_t limit, bool surveys,
              struct seal_survey *survey, struct seal *ret_seal)
{
    struct seglog *log = salvage->log;
    struct seglog_segment *segment = &log->segments[number];
    uint64_t begin = seglog_segment_header_bytes(log->superblock.grain_bytes);
    *ret_seal = (struct seal){
        .salvage = salvage,
        .log = log,
        .segment = segment,
        .number = number,
        .block_bytes = log->superblock.block_bytes,
        .record_seed = seglog_record_seed(log->superblock.check_seed, segment->stamp),
        .limit = base_max(limit, begin),
        .position = begin,
        .surveys = surveys,
        .survey = survey,
    };
    int error = read_first(ret_seal);
    return error == 0 ? scan(ret_seal) : error;
}

static void tell_lost(const struct seglog *log, uint32_t number, const struct seal_survey *survey)
{
    for (uint32_t i = 0; i < survey->lost_count; i++)
        base_error(
            &log->node->log,
            "a record that was acknowledged is damaged: gets of its key fail until it is stored anew; tarn "
            "check tells, tarn check --repair gives it up",
            "path=%s segment=%" PRIu32 " offset=%" PRIu64, drive_name(log->drive), number,
            seglog_segment_offset(log, number) + ((uint64_t)survey->lost[i].grain << log->grain_shift));
}

int seglog_salvage_survey(struct seglog_salvage *salvage, uint32_t number, bool closed)
{
    struct seglog *log = salvage->log;
    struct seal_survey survey;
    uint64_t limit = UINT64_MAX;
    if (salvage->window == NULL && take_window(salvage) != 0)
        return seglog_refuse_segment(log, number, "there is too little memory to read it", -ENOMEM);
    int error = seal_survey(salvage, number, closed, &limit, &survey);
    if (error == 0 && survey.unnamed != UINT64_MAX)
        error = seglog_loss_note(log, number, log->state->sequence_bound,
                                 "records that were acknowledged are damaged, and their keys cannot be told");
    return error;
}

int seglog_salvage_segment(struct seglog_salvage *salvage, uint32_t number, bool closed, uint64_t limit)
{
    struct seglog *log = salvage->log;
    struct seglog_segment *segment = &log->segments[number];
    struct seal_survey survey;
    struct seal seal;
    int error = seal_survey(salvage, number, closed, &limit, &survey);
    if (error == 0)
        error = seal_read(salvage, number, limit, false, &survey, &seal);
    if (error == 0)
        error = log->read_only ? keep_summary(&seal) : write_summary(&seal);
    if (error != 0)
        return error;
    segment->entry_count = seal.count;
    segment->end = (uint32_t)seal_accepted_end(&seal);
    segment->highest_sequence = 0;
    for (uint32_t i = 0; i < seal.count; i++)
        segment->highest_sequence = base_max(segment->highest_sequence, salvage->entries[i].sequence);
    segment->lowest_sequence = seglog_lowest_sequence(salvage->entries, seal.count);
    segment->sealed = true;
    segment->headerless = segment->headerless && survey.acknowledged > 0;
    salvage->segments++;
    salvage->records += seal.count;
    salvage->skipped_bytes += seal.skipped_bytes;
    tell_lost(log, number, &survey);
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
