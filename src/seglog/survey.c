/*
 * The survey of a segment that nothing proves: the first of its two readings (seal.c). It compares the records with what
 * the ends of groups tell, and so finds which acknowledged records are missing, and which of these can be named.
 */
#include "seglog/seal_internal.h"
#include <errno.h>

static void note_unnamed(struct seal_survey *survey, uint64_t place)
{
    survey->unnamed = base_min(survey->unnamed, place);
}

/*
 * Name the record that a group lacks, and nothing else: what its end tells of all, but for those that are there.
 *
 * @param others  those that are there, combined as in the group's end
 */
static void name_lost(struct seal *seal, const struct seglog_group_end_format *end,
                      const struct seglog_group_end_format *others, uint64_t place, uint64_t bytes)
{
    const struct seglog_superblock_format *superblock = &seal->log->superblock;
    struct seal_survey *survey = seal->survey;
    const struct seglog_entry_format lost = {
        .hash = {end->hash[0] ^ others->hash[0], end->hash[1] ^ others->hash[1]},
        .sequence = end->sequence ^ others->sequence,
        .grain = (uint32_t)(place >> seal->log->grain_shift),
        .bytes = (uint32_t)bytes,
        .kind = SEGLOG_VALUE, /* a get finds it damaged, whatever it was */
    };
    if (survey->lost_count == LOST_MAX || lost.sequence == 0 ||
        lost.sequence >= seal->log->state->sequence_bound || bytes > superblock->record_bytes_max ||
        bytes < SEGLOG_RECORD_BYTES_MIN)
        note_unnamed(survey, place);
    else
        survey->lost[survey->lost_count++] = lost;
}

void seal_combine(struct seglog_group_end_format *all, const struct seglog_entry_format *entry)
{
    all->count++;
    all->hash[0] ^= entry->hash[0];
    all->hash[1] ^= entry->hash[1];
    all->sequence ^= entry->sequence;
}

static bool tell_the_same(const struct seglog_group_end_format *a, const struct seglog_group_end_format *b)
{
    return a->count == b->count && a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1] &&
           a->sequence == b->sequence;
}

/* Where the last record since the last group end ends, padded, of the first ones in the list. */
static uint64_t untold_end(const struct seal *seal, uint32_t count)
{
    return count > seal->survey->group_first ? seglog_padded(seal->log, seal_entry_end(seal, count - 1))
                                             : seal->survey->group_begin;
}

/*
 * Whether nothing can be missing between two records of which no group end tells. The second lies behind the first; or
 * it begins the next write, and the first has left its block no room for a group end, or there is something that can
 * only be a damaged one, since behind a record that is as short a whole one would stand.
 */
static bool follows(const struct seal *seal, uint64_t before_end, uint64_t begin)
{
    const uint64_t end_bytes = sizeof(struct seglog_group_end_format);
    const uint64_t shortest_bytes = base_align_up(end_bytes, (uint64_t)seal->log->superblock.grain_bytes);
    const uint64_t block_end = base_align_up(before_end, (uint64_t)seal->block_bytes);
    const uint64_t room = block_end - before_end;
    bool damaged_end = room >= shortest_bytes + end_bytes && seal->hole_end > before_end &&
                       seal->hole_end <= before_end + shortest_bytes;
    return begin == before_end || (begin == block_end && (room < end_bytes || damaged_end));
}

void seal_survey_record(struct seal *seal, uint64_t begin)
{
    struct seal_survey *survey = seal->survey;
    if (survey->stray == NO_ENTRY && !follows(seal, untold_end(seal, seal->count), begin))
        survey->stray = seal->count;
}

/*
 * Compare the records since the last group end with what the next one tells. Records lie one behind the other,
 * from the beginning of a group to its end; before the group may be others whose ends are damaged, or had no room.
 */
static void judge_group(struct seal *seal, const struct seglog_group_end_format *end)
{
    struct seal_survey *survey = seal->survey;
    struct seglog_group_end_format others = {.count = 0};
    uint64_t gap = 0, gap_bytes = 0;
    uint32_t gaps = 0, i = survey->group_first;
    while (i < seal->count && seal_entry_begin(seal, i) < end->begin)
        i++;
    uint64_t place = untold_end(seal, i);
    if (survey->stray < i)
        note_unnamed(survey, untold_end(seal, survey->stray));
    if (survey->group_begin < end->begin && place != end->before_end)
        note_unnamed(survey, place);
    place = base_max(place, (uint64_t)end->begin);
    for (; i <= seal->count; i++) {
        uint64_t next = i < seal->count ? seal_entry_begin(seal, i) : seal->position;
        if (next != place) {
            gaps++;
            gap = place;
            gap_bytes = next - place;
        }
        if (i == seal->count)
            break;
        seal_combine(&others, &seal->salvage->entries[i]);
        place = seglog_padded(seal->log, seal_entry_end(seal, i));
    }
    if (gaps == 1 && others.count + 1 == end->count)
        name_lost(seal, end, &others, gap, gap_bytes);
    else if (!tell_the_same(&others, end)) /* a gap may be what an earlier recovery has left out */
        note_unnamed(survey, gaps > 0 ? gap : (uint64_t)end->begin);
}

/* The segment that a stream filled before this one is told to end there. */
static void note_before(struct seglog *log, const struct seglog_group_end_format *end)
{
    for (uint32_t i = 0; i < log->superblock.segment_count; i++) {
        struct seglog_segment *segment = &log->segments[i];
        if (segment->state == SEGLOG_STATE_CLOSED && segment->stamp == end->before_stamp)
            segment->acknowledged_end = end->before_end;
    }
}

/* Whether a group was written when a later state than the one that was found was durable. */
static bool is_beyond_state(const struct seglog *log, const struct seglog_group_end_format *end)
{
    const uint32_t generation = (uint32_t)log->state->generation << SEGLOG_GROUP_GENERATION_SHIFT;
    const uint32_t ahead = (end->flags & ~((UINT32_C(1) << SEGLOG_GROUP_GENERATION_SHIFT) - 1)) - generation;
    return ahead != 0 && ahead <= INT32_MAX;
}

/* Whether what a group end tells to be acknowledged is on the drive. */
static bool is_trusted(const struct seglog *log, const struct seglog_group_end_format *end)
{
    return (end->flags & SEGLOG_GROUP_DURABLE) != 0 ||
           (log->state->boot != 0 && log->state->boot == task_boot(log->node));
}

void seal_survey_group_end(struct seal *seal, const struct seglog_group_end_format *end)
{
    const struct seglog *log = seal->log;
    struct seal_survey *survey = seal->survey;
    survey->acknowledged = base_max(survey->acknowledged, (uint64_t)end->acknowledged);
    survey->trusted = survey->trusted || is_trusted(log, end);
    survey->beyond_state = survey->beyond_state || is_beyond_state(log, end);
    if (end->before_stamp != seal->segment->stamp && survey->trusted)
        note_before(seal->log, end);
    if (end->begin >= survey->group_begin)
        judge_group(seal, end);
    survey->group_first = seal->count;
    survey->group_begin = seal_next_block(seal);
    survey->stray = NO_ENTRY;
}

/*
 * The segment that the stream went on to from this one. As a stream is drained before that, all of one with a successor
 * was acknowledged. @return SEGLOG_NO_SEGMENT: there is none
 */
static uint32_t find_successor(const struct seglog *log, const struct seglog_segment *segment)
{
    uint32_t found = SEGLOG_NO_SEGMENT;
    for (uint32_t i = 0; segment->stream != SEGLOG_NO_STREAM && i < log->superblock.segment_count; i++) {
        const struct seglog_segment *other = &log->segments[i];
        if (other->state == SEGLOG_STATE_CLOSED && other->stream == segment->stream &&
            other->session == segment->session && other->stamp > segment->stamp &&
            (found == SEGLOG_NO_SEGMENT || other->stamp < log->segments[found].stamp))
            found = i;
    }
    return found;
}

/*
 * A successor that has a summary is not surveyed, as two that end at about the same time may be closed in any order: so
 * its first group end is looked for here, which tells where this segment's records end.
 */
static int learn_of_end(struct seal *seal, uint32_t successor)
{
    struct seglog *log = seal->log;
    struct seal next = *seal;
    struct seglog_group_end_format end;
    if (successor == SEGLOG_NO_SEGMENT || log->segments[successor].unproven ||
        seal->segment->acknowledged_end > 0)
        return 0;
    next.number = successor;
    next.record_seed = seglog_record_seed(log->superblock.check_seed, log->segments[successor].stamp);
    next.window_begin = 0;
    next.window_end = base_min(seal->salvage->window_bytes, (uint64_t)log->superblock.segment_bytes);
    int error = seal_read_piece(&next, 0, next.window_end);
    if (error != 0)
        return error;
    uint64_t place = seglog_segment_header_bytes(log->superblock.grain_bytes);
    while (place < next.window_end && !seal_is_group_end(&next, place, &end))
        place += log->superblock.grain_bytes;
    if (place < next.window_end && end.before_stamp == seal->segment->stamp && is_trusted(log, &end))
        seal->segment->acknowledged_end = end.before_end;
    return 0;
}

/* Whether an accepted record ends where a summary that cannot be trusted says that the last one does, if any. */
static bool ends_at(const struct seal *seal, uint64_t end)
{
    for (uint32_t i = 0; i < seal->count; i++) {
        if (seal_entry_end(seal, i) == end)
            return true;
    }
    return end <= seglog_segment_header_bytes(seal->log->superblock.grain_bytes);
}

/*
 * Behind the last group end are records of writes that had no room for one, up to where the next segment says that this
 * one's records end. What a recovery has sealed may lack some of them, if its summary is damaged; and earlier releases
 * wrote no group ends.
 */
static int judge_rest(struct seal *seal, bool closed, uint32_t successor)
{
    struct seal_survey *survey = seal->survey;
    const int error = closed ? 0 : learn_of_end(seal, successor);
    const uint64_t told_end = seal->segment->acknowledged_end, end = untold_end(seal, seal->count);
    if (!closed && survey->stray != NO_ENTRY && (survey->trusted || told_end > 0))
        note_unnamed(survey, untold_end(seal, survey->stray));
    if (told_end > end)
        note_unnamed(survey, end);
    return error;
}

/* Of what the survey found only that is damage which was acknowledged; the rest was cut off. */
static void leave_out_unacknowledged(struct seal_survey *survey, uint32_t grain_shift)
{
    uint32_t kept = 0;
    while (kept < survey->lost_count &&
           (uint64_t)survey->lost[kept].grain << grain_shift < survey->acknowledged)
        kept++;
    survey->lost_count = kept;
    if (survey->unnamed >= survey->acknowledged)
        survey->unnamed = UINT64_MAX;
}

/*
 * What the header of a missing record can still tell of it: its check says that it is whole, and the sequence that it
 * is the one. The number of a piece is proven by the hash.
 */
static int learn_of_lost(struct seal *seal, struct seglog_entry_format *lost)
{
    const struct seglog_superblock_format *superblock = &seal->log->superblock;
    const uint64_t place = (uint64_t)lost->grain << seal->log->grain_shift;
    struct seglog_record_format header;
    seal->window_begin = base_align_down(place, seal->block_bytes);
    seal->window_end =
        base_min(seal->window_begin + UINT64_C(2) * seal->block_bytes, superblock->segment_bytes);
    int error = seal_read_piece(seal, seal->window_begin, seal->window_end);
    if (error != 0)
        return error;
    uint64_t grain = seal_drive_offset(seal, place) >> seal->log->grain_shift,
             room = seal->window_end - place;
    if (seglog_record_parse(seal_at(seal, place), room, seal->record_seed, grain,
                            superblock->record_bytes_max, &header) != 0 ||
        header.sequence != lost->sequence)
        return 0;
    uint64_t bytes = seglog_record_bytes(header.kind, header.key_bytes, header.value_bytes);
    struct seglog_entry_format learnt = *lost;
    struct base_hash128 hash = {.low = lost->hash[0], .high = lost->hash[1]};
    if ((header.kind & SEGLOG_MARK_PIECE) != 0) /* of its id and number, which follow the header */
        hash = seglog_record_hash(&header, seal_at(seal, place), superblock->hash_seed);
    if (seglog_padded(seal->log, bytes) != lost->bytes || hash.low != lost->hash[0] ||
        hash.high != lost->hash[1])
        return 0;
    learnt.kind = header.kind;
    learnt.bytes = (uint32_t)bytes;
    memcpy(learnt.expiry, header.expiry, sizeof(learnt.expiry));
    seglog_entry_take_pieces(&learnt, seal_at(seal, place) + sizeof(header));
    *lost = learnt;
    return 0;
}

int seal_survey(struct seglog_salvage *salvage, uint32_t number, bool closed, uint64_t *limit,
                struct seal_survey *survey)
{
    struct seglog *log = salvage->log;
    struct seglog_segment *segment = &log->segments[number];
    struct seal seal;
    *survey = (struct seal_survey){.unnamed = UINT64_MAX,
                                   .group_begin = seglog_segment_header_bytes(log->superblock.grain_bytes),
                                   .stray = NO_ENTRY};
    int error = seal_read(salvage, number, log->superblock.segment_bytes, true, survey, &seal);
    if (error != 0)
        return error;
    if (survey->beyond_state)
        return seglog_refuse_segment(
            log, number,
            "it is newer than the state, of which only an old copy is whole: restore the "
            "store from a dump",
            -EUCLEAN);
    if (!ends_at(&seal, *limit))
        *limit = log->superblock.segment_bytes;
    const uint32_t successor = find_successor(log, segment);
    error = judge_rest(&seal, closed, successor);
    uint64_t covered = segment->covered_grain == SEGLOG_COVERED_WHOLLY
                           ? UINT64_MAX
                           : (uint64_t)segment->covered_grain << log->grain_shift;
    survey->acknowledged = base_max(survey->trusted ? survey->acknowledged : 0, covered);
    if (closed || segment->acknowledged_end > 0 || (survey->trusted && successor != SEGLOG_NO_SEGMENT))
        survey->acknowledged = UINT64_MAX;
    leave_out_unacknowledged(survey, log->grain_shift);
    segment->entry_count = seal.count + survey->lost_count;
    for (uint32_t i = 0; error == 0 && i < survey->lost_count; i++)
        error = learn_of_lost(&seal, &survey->lost[i]);
    return error;
}
