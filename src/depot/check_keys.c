/*
 * Which records count: of each key the one with the highest sequence, of equal ones the tombstone. A table
 * remembers the best of each key while the summaries pass by; where it would be too large they pass by
 * several times, a part of the keys each time. The parts are chosen by a hash that nobody knows beforehand.
 */
#include "depot/check_internal.h"
#include <errno.h>
#include <inttypes.h>

#define TABLE_BYTES_MAX (UINT64_C(64) << 20)
#define TABLE_BYTES_MIN (UINT64_C(64) << 10)

/* The best record of a key so far; grain 0: none. */
struct best {
    uint64_t hash[2];
    uint64_t sequence;
    uint64_t grain;
    uint32_t segment;
    uint8_t kind;
    bool named; /* by the checkpoint: it, or an equal copy */
};

struct keys {
    struct depot_check *check;
    uint64_t seed;
    struct best *table;
    uint64_t slots;
    uint64_t used;
    uint64_t pass, passes;
    uint64_t met;           /* records of all keys */
    uint64_t gone_sequence; /* records with a lower one are gone */
    bool flush_due;         /* so is everything else, though the state does not say so yet */
    uint8_t *memory[2];     /* for comparing two records */
    size_t memory_bytes;
};

/* ---- copies ----------------------------------------------------------------------------------------- */

/* @param ret_record  the record in memory[place]; NULL: it is damaged, which was told already */
static int read_record(struct keys *keys, unsigned place, uint64_t grain, uint32_t segment,
                       struct seglog_record_format *ret_header, const uint8_t **ret_record)
{
    struct depot_check *check = keys->check;
    const struct seglog_superblock_format *superblock = check->superblock;
    uint64_t block = superblock->block_bytes, offset = grain * superblock->grain_bytes;
    uint64_t end = base_min(offset + superblock->record_bytes_max,
                            superblock->data_offset + (segment + UINT64_C(1)) * superblock->segment_bytes);
    uint64_t begin = base_align_down(offset, block), span = base_align_up(end, block) - begin;
    int error = drive_read(check->drive, begin, keys->memory[place], span);
    if (error != 0)
        return error;
    check->report.bytes_read += span;
    const uint8_t *record = keys->memory[place] + (offset - begin);
    uint64_t seed = seglog_record_seed(superblock->check_seed, check->stamps[segment]);
    bool good =
        seglog_record_parse(record, end - offset, seed, grain, superblock->record_bytes_max, ret_header) ==
            0 &&
        offset + seglog_record_bytes(ret_header->kind, ret_header->key_bytes, ret_header->value_bytes) <=
            end &&
        seglog_record_verify_body(record, ret_header, superblock->check_seed) == 0;
    *ret_record = good ? record : NULL;
    return 0;
}

/* Two values of one key with one sequence: one is the copy that the collector has made of the other. */
static int compare_copies(struct keys *keys, const struct best *best, uint64_t grain, uint32_t segment)
{
    struct seglog_record_format headers[2];
    const uint8_t *records[2];
    const size_t skipped = sizeof(headers[0].header_check); /* it says where the record lies */
    int error = read_record(keys, 0, best->grain, best->segment, &headers[0], &records[0]);
    if (error == 0)
        error = read_record(keys, 1, grain, segment, &headers[1], &records[1]);
    if (error != 0 || records[0] == NULL || records[1] == NULL)
        return error;
    uint64_t bytes = seglog_record_bytes(headers[0].kind, headers[0].key_bytes, headers[0].value_bytes);
    bool equal =
        bytes == seglog_record_bytes(headers[1].kind, headers[1].key_bytes, headers[1].value_bytes) &&
        memcmp(records[0] + skipped, records[1] + skipped, bytes - skipped) == 0;
    if (!equal)
        depot_check_fault(keys->check, DEPOT_INVARIANT_COPY,
                          "the values at grains %" PRIu64 " and %" PRIu64
                          " have one key, one sequence and differ",
                          best->grain, grain);
    return 0;
}

/* ---- the table -------------------------------------------------------------------------------------- */

/* @return the slot of a key; NULL: more keys fall into this part than chance allows */
static struct best *find(struct keys *keys, const uint64_t hash[2], uint64_t mixed)
{
    uint64_t slot = (uint64_t)(((unsigned __int128)mixed * keys->slots) >> 64);
    struct best *best = &keys->table[slot];
    while (best->grain != 0 && (best->hash[0] != hash[0] || best->hash[1] != hash[1])) {
        slot = slot + 1 == keys->slots ? 0 : slot + 1;
        best = &keys->table[slot];
    }
    if (best->grain != 0)
        return best;
    if (keys->used + keys->used / 8 >= keys->slots)
        return NULL;
    keys->used++;
    return best;
}

static int meet(struct keys *keys, const struct seglog_entry_format *entry, uint64_t grain, uint32_t segment,
                uint64_t mixed)
{
    uint8_t kind = entry->kind & SEGLOG_KIND_MASK;
    struct best *best = find(keys, entry->hash, mixed);
    if (best == NULL)
        return -ENOMEM;
    bool equal = best->grain != 0 && entry->sequence == best->sequence;
    int error = 0;
    if (equal && kind == SEGLOG_VALUE && best->kind == SEGLOG_VALUE)
        error = compare_copies(keys, best, grain, segment);
    bool named = kind == SEGLOG_VALUE && depot_check_is_named(keys->check, grain);
    if (best->grain == 0 || entry->sequence > best->sequence || (equal && kind == SEGLOG_TOMBSTONE))
        *best = (struct best){.hash = {entry->hash[0], entry->hash[1]},
                              .sequence = entry->sequence,
                              .grain = grain,
                              .segment = segment,
                              .kind = kind,
                              .named = named};
    else if (equal && best->kind == SEGLOG_VALUE)
        best->named = best->named || named;
    return error;
}

static int visit(void *arg, uint32_t segment, uint64_t stamp, const struct seglog_entry_format *entries,
                 uint32_t count)
{
    struct keys *keys = arg;
    int error = 0;
    (void)stamp;
    keys->met += keys->pass == 0 ? count : 0;
    for (uint32_t i = 0; error == 0 && i < count; i++) {
        uint64_t mixed = base_hash64(entries[i].hash, sizeof(entries[i].hash), keys->seed);
        if (mixed % keys->passes == keys->pass)
            error = meet(keys, &entries[i], seglog_entry_grain(keys->check->log, segment, &entries[i]),
                         segment, mixed);
    }
    return error;
}

static void count_best(struct keys *keys)
{
    struct depot_check *check = keys->check;
    for (uint64_t slot = 0; slot < keys->slots; slot++) {
        const struct best *best = &keys->table[slot];
        if (best->grain == 0 || best->sequence < keys->gone_sequence)
            continue;
        bool value = best->kind == SEGLOG_VALUE;
        check->report.tombstones += !value && !keys->flush_due;
        check->report.records += value && !keys->flush_due;
        check->values += value;
        check->values_named += value && best->named;
    }
}

/* ---- all passes ------------------------------------------------------------------------------------- */

static int run_passes(struct keys *keys)
{
    int error = 0;
    for (keys->pass = 0; error == 0 && keys->pass < keys->passes; keys->pass++) {
        memset(keys->table, 0, keys->slots * sizeof(*keys->table));
        keys->used = 0;
        error = seglog_visit(keys->check->log, visit, keys);
        if (error == 0)
            count_best(keys);
    }
    return error;
}

/* As large as may be, and as is needed. */
static int take_table(struct keys *keys)
{
    uint64_t wanted = (keys->check->entries + keys->check->entries / 2) * sizeof(*keys->table);
    uint64_t bytes = base_min(base_max(wanted, TABLE_BYTES_MIN), TABLE_BYTES_MAX);
    do {
        keys->slots = bytes / sizeof(*keys->table);
        keys->table = base_alloc(&keys->check->node->memory, keys->slots * sizeof(*keys->table));
        bytes /= 2;
    } while (keys->table == NULL && bytes >= TABLE_BYTES_MIN);
    keys->passes = wanted / (keys->slots * sizeof(*keys->table)) + 1;
    return keys->table == NULL ? -ENOMEM : 0;
}

static void find_gone(struct keys *keys)
{
    struct seglog_points points;
    seglog_points(keys->check->log, &points);
    keys->gone_sequence = base_max(points.flush_sequence, points.horizon_sequence);
    keys->flush_due = points.flush_when_ns != 0 && task_wall(keys->check->node) >= points.flush_when_ns;
}

int depot_check_keys(struct depot_check *check)
{
    struct base_account *account = &check->node->memory;
    const struct seglog_superblock_format *superblock = check->superblock;
    struct keys keys = {.check = check,
                        .seed = task_rng(check->node),
                        .memory_bytes = superblock->record_bytes_max + UINT64_C(2) * superblock->block_bytes};
    find_gone(&keys);
    keys.memory[0] = depot_check_memory(check, keys.memory_bytes);
    keys.memory[1] = depot_check_memory(check, keys.memory_bytes);
    int error = keys.memory[0] == NULL || keys.memory[1] == NULL ? -ENOMEM : take_table(&keys);
    if (error == 0)
        error = run_passes(&keys);
    if (error == 0)
        check->report.superseded = keys.met - check->report.records - check->report.tombstones;
    base_free(account, keys.table, keys.slots * sizeof(*keys.table));
    base_free(account, keys.memory[0], keys.memory_bytes);
    base_free(account, keys.memory[1], keys.memory_bytes);
    return error;
}
