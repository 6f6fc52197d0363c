/* Sealing a segment, for seal.c, which reads and writes it, and survey.c, which finds out what it lacks. */
#ifndef SEGLOG_SEAL_INTERNAL_H
#define SEGLOG_SEAL_INTERNAL_H

#include "seglog/seglog_internal.h"

#define LOST_MAX 64 /* more damaged records of a segment are not named */
#define NO_ENTRY UINT32_MAX

/* What the survey finds out. Places are bytes from the segment's beginning. */
struct seal_survey {
    uint64_t acknowledged; /* all before it was acknowledged */
    bool trusted;          /* what was acknowledged is on the drive, unless the drive has damaged it */
    bool beyond_state;     /* it was written when a later state was durable than the one that was found */
    uint64_t unnamed;     /* place of the first missing record that is not named; UINT64_MAX: there is none */
    uint64_t group_begin; /* where the group begins whose end comes next, and the first entry in it */
    uint32_t group_first;
    uint32_t stray; /* the first entry since the last group end that something is missing before; NO_ENTRY */
    uint32_t lost_count;
    struct seglog_entry_format lost[LOST_MAX]; /* that are named, in rising order */
};

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
    uint64_t hole_end;        /* where what was skipped last and is not zero ends */
    uint64_t skipped_bytes;
    uint64_t cut_count;  /* records whose header verifies and whose body does not */
    uint64_t hole_count; /* places that were skipped, with accepted records behind them */
    /* the batch that is being met; all that was taken since `batch_first` */
    bool in_batch;
    uint32_t batch_first;
    uint64_t batch_id;
    uint64_t uncommitted_count; /* records of batches that are not whole */
    bool surveys;               /* this is the first reading: nothing is written, batches are not asked for */
    struct seal_survey *survey;
    uint32_t lost_taken; /* number of the survey's findings that became entries */
};

/** Where a place of the segment lies in the window. */
static inline uint8_t *seal_at(const struct seal *seal, uint64_t position)
{
    return seal->salvage->window + (position - seal->window_begin);
}

/** Where a place of the segment lies on the drive. */
static inline uint64_t seal_drive_offset(const struct seal *seal, uint64_t position)
{
    return seglog_segment_offset(seal->log, seal->number) + position;
}

/** Whether a group's end stands at a place, which is in the window. */
static inline bool seal_is_group_end(const struct seal *seal, uint64_t place,
                                     struct seglog_group_end_format *ret_end)
{
    uint64_t grain = seal_drive_offset(seal, place) >> seal->log->grain_shift;
    return seal->window_end - place >= sizeof(*ret_end) &&
           seglog_group_end_parse(seal_at(seal, place), seal->record_seed, grain, place, ret_end) == 0;
}

/** Where an accepted record begins. */
static inline uint64_t seal_entry_begin(const struct seal *seal, uint32_t entry)
{
    return (uint64_t)seal->salvage->entries[entry].grain << seal->log->grain_shift;
}

/** Where an accepted record ends, without padding. */
static inline uint64_t seal_entry_end(const struct seal *seal, uint32_t entry)
{
    return seal_entry_begin(seal, entry) + seal->salvage->entries[entry].bytes;
}

/** Where the block ends that the position lies in. */
static inline uint64_t seal_next_block(const struct seal *seal)
{
    return base_align_down(seal->position, seal->block_bytes) + seal->block_bytes;
}

/** Where the last accepted record ends; without any, where the first would begin. */
static inline uint64_t seal_accepted_end(const struct seal *seal)
{
    return seal->count > 0 ? seal_entry_end(seal, seal->count - 1)
                           : seglog_segment_header_bytes(seal->log->superblock.grain_bytes);
}

/** Read a piece of the segment into the window, which has room for it. @return 0; the drive's error, logged. Yields. */
base_must_check int seal_read_piece(struct seal *seal, uint64_t from, uint64_t to);

/**
 * Read the segment from its first record on: what verifies becomes its entries.
 *
 * @param limit    records end here at the latest
 * @param surveys  nothing is written, and `survey` is filled in; else it is gone by
 * @return 0; -EUCLEAN; the drive's error; logged. Yields.
 */
base_must_check int seal_read(struct seglog_salvage *salvage, uint32_t number, uint64_t limit, bool surveys,
                              struct seal_survey *survey, struct seal *ret_seal);

/** The survey meets a record, the next to be accepted. */
void seal_survey_record(struct seal *seal, uint64_t begin);

/** The survey meets the end of a group. */
void seal_survey_group_end(struct seal *seal, const struct seglog_group_end_format *end);

/** Add a record to what a group's end tells of its records. */
void seal_combine(struct seglog_group_end_format *all, const struct seglog_entry_format *entry);

/**
 * The first reading: what was acknowledged, and what of that is missing.
 *
 * @param closed  all of the segment was durable
 * @param limit   where it is no record's end it is not believed, and becomes the segment's end
 * @return 0; -EUCLEAN; the drive's error; logged. Yields.
 */
base_must_check int seal_survey(struct seglog_salvage *salvage, uint32_t number, bool closed, uint64_t *limit,
                                struct seal_survey *survey);

#endif
