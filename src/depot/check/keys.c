/*
 * Which records count, and that copies of a record are equal: one is what the collector has made of the
 * other.
 */
#include "depot/best.h"
#include "depot/check/check_internal.h"
#include "depot/pieces/match.h"
#include <errno.h>
#include <inttypes.h>

struct keys {
    struct depot_check *check;
    uint64_t gone_sequence; /* records with a lower one are gone */
    bool flush_due;         /* so is everything else, though the state does not say so yet */
    uint8_t *memory[2];     /* for comparing two records */
    size_t memory_bytes;
    uint64_t met;               /* records of all keys */
    struct depot_bigs all;      /* entries of pieces and heads */
    struct depot_bigs counting; /* those that count under their hash: grain and `named` */
    bool matched;               /* the checkpoint says that it names no orphans */
};

/* ---- copies ----------------------------------------------------------------------------------------- */

/* @return the record in memory[place]; NULL: it is damaged, which was told already */
static const uint8_t *read_record(struct keys *keys, unsigned place, uint64_t grain,
                                  struct seglog_record_format *ret_header)
{
    struct depot_check *check = keys->check;
    const struct seglog_superblock_format *superblock = check->superblock;
    uint64_t block = superblock->block_bytes, offset = grain * superblock->grain_bytes;
    uint64_t segment = (offset - superblock->data_offset) / superblock->segment_bytes;
    uint64_t end = base_min(offset + superblock->record_bytes_max,
                            superblock->data_offset + (segment + 1) * superblock->segment_bytes);
    uint64_t begin = base_align_down(offset, block), span = base_align_up(end, block) - begin;
    if (drive_read(check->drive, begin, keys->memory[place], span) != 0)
        return NULL;
    check->report.bytes_read += span;
    const uint8_t *record = keys->memory[place] + (offset - begin);
    uint64_t seed = seglog_record_seed(superblock->check_seed, check->stamps[segment]);
    bool good = seglog_record_verify(record, end - offset, seed, grain, superblock, ret_header) == 0;
    return good ? record : NULL;
}

/*
 * Whether they are equal but for where they lie, which the checks say too; and but for the batch that one was
 * written in, of which its copy does not tell.
 */
static bool are_copies(const struct seglog_record_format headers[2], const uint8_t *const records[2])
{
    struct seglog_record_format alike[2];
    const uint8_t *rests[2];
    for (unsigned i = 0; i < 2; i++) {
        bool of_batch = (headers[i].kind & SEGLOG_MARKS_BATCH) != 0;
        rests[i] = records[i] + sizeof(headers[i]) + (of_batch ? sizeof(struct seglog_batch_format) : 0);
        alike[i] = headers[i];
        alike[i].header_check = alike[i].body_check = 0;
        alike[i].kind &= (uint8_t)~SEGLOG_MARKS_BATCH;
    }
    uint64_t rest_bytes = seglog_record_bytes(alike[0].kind, alike[0].key_bytes, alike[0].value_bytes) -
                          sizeof(struct seglog_record_format);
    return memcmp(&alike[0], &alike[1], sizeof(alike[0])) == 0 && memcmp(rests[0], rests[1], rest_bytes) == 0;
}

/* Two values of one key with one sequence. */
static void compare_copies(struct keys *keys, uint64_t one, uint64_t other)
{
    struct seglog_record_format headers[2];
    const uint8_t *records[2];
    records[0] = read_record(keys, 0, one, &headers[0]);
    records[1] = read_record(keys, 1, other, &headers[1]);
    if (records[0] == NULL || records[1] == NULL)
        return;
    if (!are_copies(headers, records))
        depot_check_fault(keys->check, DEPOT_INVARIANT_COPY,
                          "the values at grains %" PRIu64 " and %" PRIu64
                          " have one key, one sequence and differ",
                          one, other);
}

/* ---- what counts ------------------------------------------------------------------------------------ */

enum { SEEN_OFTEN = 2 }; /* more is not counted */

enum mark {
    MARK_NAMED = 1,     /* by the checkpoint, or an equal copy is */
    MARK_UNCOVERED = 2, /* the checkpoint is not about it, or about an equal copy */
};

static int meet(void *arg, const struct depot_best *before, struct depot_best *best,
                const struct seglog_entry_format *entry, uint64_t grain)
{
    struct keys *keys = arg;
    struct depot_check *check = keys->check;
    bool value = (entry->kind & SEGLOG_KIND_MASK) == SEGLOG_VALUE;
    bool named = value && depot_check_is_named(check, grain);
    keys->met++;
    int error = depot_bigs_add(&keys->all, entry, grain);
    if (error != 0)
        return error;
    check->names_met += named;
    if (named && best->seen < SEEN_OFTEN)
        best->seen++;
    if (best->sequence == entry->sequence) {
        best->marks |= named ? MARK_NAMED : 0;
        best->marks |= seglog_is_covered(check->log, grain) ? 0 : MARK_UNCOVERED;
    }
    bool copies =
        value && before->grain != 0 && before->kind == SEGLOG_VALUE && before->sequence == entry->sequence;
    if (copies)
        compare_copies(keys, before->grain, grain);
    return 0;
}

/*
 * Of a key whose newest record the checkpoint is about it names just that one, or nothing if that is a
 * tombstone. Of another it may still name what was the newest then.
 */
static void check_naming(struct depot_check *check, const struct depot_best *best)
{
    bool value = best->kind == SEGLOG_VALUE;
    if ((best->marks & MARK_UNCOVERED) != 0) {
        check->misnamed += best->seen > 1;
        return;
    }
    bool named = (best->marks & MARK_NAMED) != 0;
    check->unnamed += value && !named;
    check->misnamed += best->seen > (value && named);
}

/* Whether it counts is known when all of them are. A head is named as any record, also one that is gone by
 * its id: it hides what is older. Of a piece it depends. */
static int take_big(struct keys *keys, const struct depot_best *best)
{
    struct depot_check *check = keys->check;
    const struct seglog_entry_format entry = {.kind = best->big};
    int error = depot_bigs_add(&keys->counting, &entry, best->grain);
    if (error != 0)
        return error;
    keys->counting.items[keys->counting.count - 1].named = best->marks != 0; /* or it need not be */
    if (check->named == NULL)
        return 0;
    if (best->big == SEGLOG_MARK_HEAD)
        check_naming(check, best);
    else
        check->misnamed += best->seen > (check->named_head.pieces > 0); /* 0: there are none, it says */
    return 0;
}

static void tell_big(void *arg, const struct depot_big *big, bool wanted, uint32_t pieces)
{
    const struct keys *keys = arg;
    struct depot_check *check = keys->check;
    check->unnamed += check->named != NULL && wanted && !big->head && !big->named;
    check->misnamed += keys->matched && !wanted && !big->head && big->named;
    check->report.orphans += !wanted && !big->head;
    check->report.pieces += wanted && !big->head && !keys->flush_due;
    check->report.records += wanted && big->head && !keys->flush_due;
    if (wanted && big->head && pieces != big->number)
        depot_check_fault(check, DEPOT_INVARIANT_PIECES,
                          "the value whose head is at grain %" PRIu64 " has %" PRIu32 " of its %" PRIu32
                          " pieces",
                          big->grain, pieces, (uint32_t)big->number);
}

/* Every head that counts has all its pieces; pieces without one are no damage. */
static void match_pieces(struct keys *keys)
{
    const struct depot_check *check = keys->check;
    uint64_t all;
    keys->matched = check->named != NULL && seglog_uncovered_entries(check->log, &all) == 0 &&
                    check->named_head.matched_sequence == keys->gone_sequence;
    depot_bigs_sort(&keys->all);
    depot_bigs_sort(&keys->counting);
    for (uint64_t i = 0, at = 0; i < keys->all.count && at < keys->counting.count; i++) {
        const struct depot_big *counting = &keys->counting.items[at];
        struct depot_big *big = &keys->all.items[i];
        big->counts = big->grain == counting->grain;
        big->named = big->counts && counting->named;
        at += big->counts;
    }
    depot_bigs_match(&keys->all, keys->gone_sequence, tell_big, keys);
}

static int take_entry(void *arg, const struct depot_best *best)
{
    struct keys *keys = arg;
    struct depot_check *check = keys->check;
    if (best->sequence < keys->gone_sequence)
        return 0;
    if (best->big != 0)
        return take_big(keys, best);
    bool value = best->kind == SEGLOG_VALUE;
    check->report.tombstones += !value && !keys->flush_due;
    check->report.records += value && !keys->flush_due;
    if (check->named != NULL)
        check_naming(check, best);
    return 0;
}

static void find_gone(struct keys *keys)
{
    struct seglog_points points;
    seglog_points(keys->check->log, &points);
    keys->gone_sequence = seglog_gone_sequence(keys->check->log);
    keys->flush_due = points.flush_when_ns != 0 && task_wall(keys->check->node) >= points.flush_when_ns;
}

int depot_check_keys(struct depot_check *check)
{
    struct base_account *account = &check->node->memory;
    const struct seglog_superblock_format *superblock = check->superblock;
    struct keys keys = {.check = check,
                        .all = {.account = account},
                        .counting = {.account = account},
                        .memory_bytes = superblock->record_bytes_max + UINT64_C(2) * superblock->block_bytes};
    find_gone(&keys);
    keys.memory[0] = drive_memory_alloc(check->node, check->drive, keys.memory_bytes);
    keys.memory[1] = drive_memory_alloc(check->node, check->drive, keys.memory_bytes);
    static const struct depot_best_ops ops = {.meet = meet, .take = take_entry};
    uint32_t passes;
    int error = keys.memory[0] == NULL || keys.memory[1] == NULL
                    ? -ENOMEM
                    : depot_best_find(check->node, check->log, check->entries, &ops, &keys, &passes);
    if (error == 0) {
        match_pieces(&keys);
        check->report.superseded = keys.met - check->report.records - check->report.tombstones -
                                   check->report.pieces - check->report.orphans;
    }
    depot_bigs_clear(&keys.all);
    depot_bigs_clear(&keys.counting);
    base_free(account, keys.memory[0], keys.memory_bytes);
    base_free(account, keys.memory[1], keys.memory_bytes);
    return error;
}
