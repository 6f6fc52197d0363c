/*
 * Finding checkpoints, reading them, and what follows from one for an opening: which summaries need not be
 * read, and which entries have to be replayed.
 */
#include "seglog/ahead_internal.h"
#include "seglog/checkpoint_internal.h"
#include <errno.h>
#include <inttypes.h>

/* ---- finding --------------------------------------------------------------------------------------- */

/* Whether all segments of the checkpoint that begins in one are there. @param ret_chain  its memory is taken
 */
static int gather(struct seglog *log, const struct seglog_segment *first, struct seglog_chain *ret_chain)
{
    uint32_t per_segment = seglog_parts_per_segment(log), found = 0;
    struct seglog_chain chain = {.stamp = first->stamp, .part_count = first->part_count};
    uint64_t count = (uint64_t)chain.part_count / per_segment + (chain.part_count % per_segment != 0);
    if (count == 0 || count > log->superblock.segment_count)
        return -EBADMSG;
    chain.count = (uint32_t)count;
    chain.segments = base_alloc(&log->node->memory, count * sizeof(*chain.segments));
    if (chain.segments == NULL)
        return -ENOMEM;
    memset(chain.segments, 0xff, count * sizeof(*chain.segments));
    for (uint32_t i = 0; i < log->superblock.segment_count; i++) {
        const struct seglog_segment *segment = &log->segments[i];
        if (segment->state != SEGLOG_STATE_CHECKPOINT || segment->checkpoint_stamp != chain.stamp ||
            segment->place >= chain.count || chain.segments[segment->place] != SEGLOG_NO_SEGMENT)
            continue;
        chain.segments[segment->place] = i;
        found++;
    }
    if (found == chain.count) {
        *ret_chain = chain;
        return 0;
    }
    base_free(&log->node->memory, chain.segments, count * sizeof(*chain.segments));
    return -EBADMSG;
}

/* The newest segment that begins a checkpoint, older than one. @return NULL: there is none */
static const struct seglog_segment *find_first(const struct seglog *log, uint64_t below_stamp)
{
    const struct seglog_segment *newest = NULL;
    for (uint32_t i = 0; i < log->superblock.segment_count; i++) {
        const struct seglog_segment *segment = &log->segments[i];
        if (segment->state == SEGLOG_STATE_CHECKPOINT && segment->place == 0 &&
            segment->checkpoint_stamp == segment->stamp && segment->stamp < below_stamp &&
            (newest == NULL || segment->stamp > newest->stamp))
            newest = segment;
    }
    return newest;
}

/* Segments of checkpoints that are not kept are free: nothing whole can come of them. */
static void free_others(struct seglog *log)
{
    for (uint32_t i = 0; i < log->superblock.segment_count; i++) {
        struct seglog_segment *segment = &log->segments[i];
        bool kept = false;
        for (uint32_t k = 0; k < SEGLOG_CHECKPOINTS_KEPT; k++) {
            const struct seglog_chain *chain = &log->checkpoints.kept[k];
            kept = kept || (chain->count > 0 && chain->stamp == segment->checkpoint_stamp &&
                            segment->place < chain->count && chain->segments[segment->place] == i);
        }
        if (segment->state != SEGLOG_STATE_CHECKPOINT || kept)
            continue;
        segment->state = SEGLOG_STATE_FREE;
        segment->freed_stamp = segment->stamp;
    }
}

/* ---- reading parts --------------------------------------------------------------------------------- */

struct parts {
    struct seglog *log;
    const struct seglog_chain *chain;
};

static uint32_t next_part(const void *arg, uint32_t from)
{
    const struct parts *parts = arg;
    return from < parts->chain->part_count ? from : SEGLOG_AHEAD_END;
}

/* A reading that fails or does not verify is made again. */
static int fetch_part(const void *arg, struct seglog_ahead_item *item)
{
    const struct parts *parts = arg;
    struct seglog *log = parts->log;
    uint32_t per_segment = seglog_parts_per_segment(log);
    uint32_t segment = parts->chain->segments[item->number / per_segment];
    struct seglog_part_format part = {.bytes = 0};
    uint64_t room;
    uint64_t offset =
        seglog_segment_offset(log, segment) + seglog_part_place(log, item->number % per_segment, &room);
    int error = -EIO;
    for (int try = 0; error != 0 && try < SEGLOG_READ_TRIES; try++) {
        error = drive_read(log->drive, offset, item->memory, room);
        if (error == 0)
            error = seglog_part_verify(item->memory, room, log->superblock.check_seed, parts->chain->stamp,
                                       item->number, &part);
    }
    bool last = item->number + 1 == parts->chain->part_count;
    item->bytes = part.bytes;
    return error == 0 && !last && part.bytes != room - sizeof(part) ? -EBADMSG : error;
}

/* Read a checkpoint from the beginning on until `consume` has enough: then it returns 1. */
static int read_chain(struct seglog *log, const struct seglog_chain *chain,
                      int (*consume)(void *arg, const void *data, uint64_t bytes), void *arg)
{
    static const struct seglog_ahead_ops ops = {.next = next_part, .fetch = fetch_part};
    const struct parts parts = {.log = log, .chain = chain};
    const struct seglog_ahead_item *item;
    struct seglog_ahead ahead;
    int error = seglog_ahead_init(&ahead, log, &ops, &parts, seglog_part_bytes_max(log));
    if (error != 0)
        return error;
    while (error == 0 && (item = seglog_ahead_next(&ahead)) != NULL) {
        seglog_progress(log, "reading the checkpoint", "parts", item->number, chain->part_count);
        error = item->error;
        if (error == 0)
            error = consume(arg, item->memory + sizeof(struct seglog_part_format), item->bytes);
    }
    seglog_ahead_deinit(&ahead);
    return error;
}

/* ---- what it is about ------------------------------------------------------------------------------ */

/* The covers, put together from the first parts. */
struct coverage {
    struct seglog *log;
    bool begun;
    uint64_t bytes; /* of the covers that were read */
};

static uint64_t covers_bytes(const struct seglog *log)
{
    return log->superblock.segment_count * sizeof(struct seglog_cover_format);
}

/* What a checkpoint begins with lies in its first part, as it was written. */
static int check_head(const struct seglog *log, const void *data, uint64_t bytes)
{
    struct seglog_coverage_format format;
    int error = bytes < sizeof(format) ? -EBADMSG : seglog_coverage_parse(data, &log->superblock, &format);
    if (error != 0)
        return error;
    bool grown = format.segments < log->superblock.segment_count;
    return format.flush_sequence == log->state->flush_sequence && !grown ? 0 : -ESTALE;
}

/* @return 1: all of it is there */
static int consume_coverage(void *arg, const void *data, uint64_t bytes)
{
    struct coverage *coverage = arg;
    struct seglog *log = coverage->log;
    uint64_t skipped = coverage->begun ? 0 : sizeof(struct seglog_coverage_format);
    int error = coverage->begun ? 0 : check_head(log, data, bytes);
    if (error != 0)
        return error;
    coverage->begun = true;
    uint64_t now = base_min(bytes - skipped, covers_bytes(log) - coverage->bytes);
    memcpy((uint8_t *)log->checkpoints.covers + coverage->bytes, (const uint8_t *)data + skipped, now);
    coverage->bytes += now;
    return coverage->bytes == covers_bytes(log);
}

/* What the covers say of the segments that are still what they were. */
static int apply_covers(struct seglog *log)
{
    struct seglog_cover_format cover;
    for (uint32_t i = 0; i < log->superblock.segment_count; i++) {
        if (seglog_cover_parse(&log->checkpoints.covers[i], &log->superblock, &cover) != 0 ||
            cover.highest_sequence >= log->state->sequence_bound)
            return -EBADMSG;
    }
    for (uint32_t i = 0; i < log->superblock.segment_count; i++) {
        struct seglog_segment *segment = &log->segments[i];
        cover = log->checkpoints.covers[i];
        segment->missing = segment->state == SEGLOG_STATE_FREE && cover.stamp > segment->freed_stamp;
        if (segment->state != SEGLOG_STATE_CLOSED || cover.stamp != segment->stamp)
            continue;
        segment->covered_grain = cover.grain;
        if ((cover.flags & SEGLOG_COVER_PROVEN) == 0 || log->checkpoints.read_all || segment->endless)
            continue;
        segment->vouched = true;
        segment->covered_tombstone_bytes = cover.tombstone_bytes;
        segment->entry_count = cover.entries;
        segment->end = cover.end;
        segment->highest_sequence = cover.highest_sequence;
        segment->lowest_sequence = cover.lowest_sequence;
        segment->sealed = (cover.flags & SEGLOG_COVER_SEALED) != 0;
    }
    return 0;
}

static void uncover(struct seglog *log)
{
    for (uint32_t i = 0; i < log->superblock.segment_count; i++) {
        log->segments[i].covered_grain = 0;
        log->segments[i].vouched = false;
    }
}

/* It will not be read again. @param listed  free segments are in the list already */
static void drop_newest(struct seglog *log, bool listed)
{
    struct seglog_checkpoints *checkpoints = &log->checkpoints;
    struct seglog_chain chain = checkpoints->kept[0];
    checkpoints->kept[0] = checkpoints->kept[1];
    checkpoints->kept[1] = (struct seglog_chain){.stamp = 0};
    for (uint32_t i = 0; i < chain.count; i++) {
        struct seglog_segment *segment = &log->segments[chain.segments[i]];
        segment->state = SEGLOG_STATE_FREE;
        segment->freed_stamp = segment->stamp;
        if (listed) {
            base_list_push_back(&log->free, &segment->link);
            log->free_count++;
        }
    }
    base_free(&log->node->memory, chain.segments, chain.count * sizeof(*chain.segments));
}

/* Go by the newest, and where that cannot be, by the one before. */
static void read_coverage(struct seglog *log, bool listed)
{
    struct seglog_checkpoints *checkpoints = &log->checkpoints;
    while (checkpoints->kept[0].count > 0) {
        struct coverage coverage = {.log = log};
        int error = read_chain(log, &checkpoints->kept[0], consume_coverage, &coverage);
        error = error == 1 ? apply_covers(log) : error == 0 ? -EBADMSG : error;
        if (error == 0)
            return;
        log->checkpoints.damaged +=
            error != -ESTALE && error != -ENOMEM; /* ESTALE: after it came a flush, or the store grew */
        if (error != -ESTALE)
            base_warn(&log->node->log, "a checkpoint cannot be used: opening takes longer",
                      "path=%s error=\"%s\"", drive_name(log->drive), strerrordesc_np(-error));
        drop_newest(log, listed);
    }
}

void seglog_checkpoints_find(struct seglog *log)
{
    struct seglog_checkpoints *checkpoints = &log->checkpoints;
    uint64_t below_stamp = UINT64_MAX;
    const struct seglog_segment *first;
    uint32_t kept = 0;
    while (kept < SEGLOG_CHECKPOINTS_KEPT && (first = find_first(log, below_stamp)) != NULL) {
        int error = gather(log, first, &checkpoints->kept[kept]);
        kept += error == 0;
        checkpoints->damaged += error == -EBADMSG;
        below_stamp = first->stamp;
    }
    free_others(log);
    read_coverage(log, false);
}

/* ---- for the owner --------------------------------------------------------------------------------- */

bool seglog_checkpoint_found(const struct seglog *log)
{
    return log->checkpoints.kept[0].count > 0;
}

/* What comes behind the coverage goes to the owner. */
struct owners {
    uint64_t skip_bytes;
    int (*consume)(void *arg, const void *data, uint64_t bytes);
    void *arg;
};

static int consume_owners(void *arg, const void *data, uint64_t bytes)
{
    struct owners *owners = arg;
    uint64_t skipped = base_min(owners->skip_bytes, bytes);
    owners->skip_bytes -= skipped;
    return skipped == bytes ? 0
                            : owners->consume(owners->arg, (const uint8_t *)data + skipped, bytes - skipped);
}

int seglog_checkpoint_read(struct seglog *log, int (*consume)(void *arg, const void *data, uint64_t bytes),
                           void *arg)
{
    struct owners owners = {.skip_bytes = sizeof(struct seglog_coverage_format) + covers_bytes(log),
                            .consume = consume,
                            .arg = arg};
    base_assert(seglog_checkpoint_found(log));
    return read_chain(log, &log->checkpoints.kept[0], consume_owners, &owners);
}

int seglog_checkpoint_reject(struct seglog *log)
{
    base_assert(seglog_checkpoint_found(log) && !log->started);
    uncover(log);
    drop_newest(log, true);
    read_coverage(log, true);
    return seglog_recover_unknown(log);
}

bool seglog_is_covered(const struct seglog *log, uint64_t grain)
{
    if (seglog_stamp_at(log, grain) == 0)
        return false;
    uint32_t number = seglog_segment_of(log, grain);
    uint64_t begin = seglog_segment_offset(log, number) >> log->grain_shift;
    const struct seglog_segment *segment = &log->segments[number];
    return segment->state == SEGLOG_STATE_CLOSED && grain - begin < segment->covered_grain;
}

uint64_t seglog_uncovered_entries(const struct seglog *log, uint64_t *ret_all)
{
    uint64_t uncovered = 0;
    *ret_all = 0;
    for (uint32_t i = 0; i < log->superblock.segment_count; i++) {
        const struct seglog_segment *segment = &log->segments[i];
        if (segment->state != SEGLOG_STATE_CLOSED)
            continue;
        *ret_all += segment->entry_count;
        uncovered += segment->covered_grain == SEGLOG_COVERED_WHOLLY ? 0 : segment->entry_count;
    }
    return uncovered;
}

void seglog_doubt(struct seglog *log, uint64_t grain)
{
    log->segments[seglog_segment_of(log, grain)].doubted = true;
}
