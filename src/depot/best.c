/* Finding, of each key, the record that counts: a table of the best entries, filled in several passes. */
#include "depot/best.h"
#include <errno.h>
#include <sys/mman.h>

#define PARTS_MAX       64
#define PART_SLOTS_MIN  4096                /* parts differ a little */
#define UNLIMITED_BYTES (UINT64_C(1) << 30) /* of the table, where nobody has set a limit */
#define PASSES_MAX      1024
#define SLOTS_SPARE     1024 /* parts differ a little */
#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)

/* Number of entries that are prefetched before the first of them is looked at, so that they come from memory meanwhile. */
#define GROUP      16
#define TOLD_EVERY (UINT64_C(1) << 16) /* slots: from one word about the progress to the next */

/* A part of the slots, for a part of the keys. */
struct part {
    struct base_spin lock;
    uint64_t used;
    uint8_t apart[BASE_CACHE_LINE_BYTES]; /* from the next, which another thread is at */
};

struct table {
    struct seglog *log;
    const struct depot_best_ops *ops;
    void *arg;
    uint64_t seeds[2];
    uint32_t grain_shift;
    struct depot_best *slots;
    uint64_t slot_count; /* of all parts */
    uint64_t part_slots;
    uint32_t part_count;
    struct part parts[PARTS_MAX];
    uint32_t pass, passes;
};

static uint64_t table_bytes(const struct table *table)
{
    return base_align_up(table->slot_count * sizeof(*table->slots), (uint64_t)BASE_PAGE_BYTES);
}

/* Fresh zero pages; huge ones, since it is hit all over. @return false: there is no memory */
static bool map_table(struct table *table, struct base_account *account)
{
    bool is_huge = table_bytes(table) >= 2 * HUGE_PAGE_BYTES;
    table->slots = base_map(account, is_huge ? HUGE_PAGE_BYTES : BASE_PAGE_BYTES, table_bytes(table));
    if (table->slots != NULL && is_huge)
        (void)madvise(table->slots, table_bytes(table), MADV_HUGEPAGE);
    return table->slots != NULL;
}

/* The largest table that may be had, in as few passes as that needs. Half of what is left stays for summaries and
 * the index. */
static int take_table(struct table *table, struct base_account *account, uint64_t entries)
{
    const uint64_t left_bytes = base_account_left(account);
    const uint64_t most_bytes = left_bytes > BASE_ACCOUNT_UNLIMITED / 2 ? UNLIMITED_BYTES : left_bytes / 2;
    for (table->passes = 1; table->passes <= PASSES_MAX; table->passes += 1 + table->passes / 4) {
        uint64_t now = entries / table->passes, slots = now + now / 4 + SLOTS_SPARE;
        table->part_count =
            (uint32_t)base_max(base_min(slots / PART_SLOTS_MIN, (uint64_t)PARTS_MAX), (uint64_t)1);
        table->part_slots = slots / table->part_count + 1;
        table->slot_count = table->part_slots * table->part_count;
        if (table_bytes(table) <= most_bytes && map_table(table, account))
            return 0;
    }
    return -ENOMEM;
}

/* A number that nobody can choose the keys for. */
static uint64_t mix(const struct table *table, const uint64_t hash[2])
{
    unsigned __int128 product = (unsigned __int128)(hash[0] ^ table->seeds[0]) * (hash[1] ^ table->seeds[1]);
    return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

/* Whether a key is of the pass that is under way: by the low bits, as the slot is by the high ones. */
static bool is_of_pass(const struct table *table, uint64_t mixed)
{
    return ((mixed & UINT32_MAX) * table->passes) >> 32 == table->pass;
}

/* Where the slot of a key is looked for: from `first` on, in its part. */
struct home {
    uint32_t part;
    uint64_t first;
};

static struct home home_of(const struct table *table, uint64_t mixed)
{
    unsigned __int128 part = (unsigned __int128)mixed * table->part_count;
    unsigned __int128 slot = (unsigned __int128)(uint64_t)part * table->part_slots;
    struct home home = {.part = (uint32_t)(part >> 64)};
    home.first = home.part * table->part_slots + (uint64_t)(slot >> 64);
    return home;
}

/* @return the slot of a key, or the empty one that it would get */
static struct depot_best *slot_of(struct table *table, const uint64_t hash[2], struct home home)
{
    const struct depot_best *end = &table->slots[(home.part + UINT64_C(1)) * table->part_slots];
    struct depot_best *best = &table->slots[home.first];
    while (best->grain != 0 && (best->hash[0] != hash[0] || best->hash[1] != hash[1])) {
        if (++best == end)
            best -= table->part_slots;
    }
    return best;
}

/* @return the slot of a key; NULL: more keys fall into this part than chance allows */
static struct depot_best *find(struct table *table, const uint64_t hash[2], struct home home)
{
    struct part *part = &table->parts[home.part];
    struct depot_best *best = slot_of(table, hash, home);
    if (best->grain != 0)
        return best;
    if (part->used + part->used / 8 >= table->part_slots)
        return NULL;
    part->used++;
    return best;
}

static bool is_better(const struct table *table, const struct depot_best *best,
                      const struct seglog_entry_format *entry, uint8_t kind, uint64_t grain, uint64_t stamp)
{
    if (best->grain == 0 || entry->sequence != best->sequence)
        return best->grain == 0 || entry->sequence > best->sequence;
    if (kind != best->kind)
        return kind == SEGLOG_TOMBSTONE;
    bool (*damaged)(void *arg, uint64_t grain) = table->ops->damaged;
    if (damaged != NULL && damaged(table->arg, best->grain) != damaged(table->arg, grain))
        return damaged(table->arg, best->grain);
    return stamp < seglog_stamp_at(table->log, best->grain);
}

/* The length class that the index will have. */
static uint32_t size_of(const struct table *table, const struct seglog_entry_format *entry)
{
    uint64_t grain_bytes = UINT64_C(1) << table->grain_shift;
    return seglog_length_class((entry->bytes + grain_bytes - 1) >> table->grain_shift);
}

static int meet(struct table *table, const struct seglog_entry_format *entry, uint64_t grain, uint64_t stamp,
                struct home home)
{
    uint8_t kind = entry->kind & SEGLOG_KIND_MASK;
    struct depot_best *best = find(table, entry->hash, home);
    if (best == NULL)
        return -ENOMEM;
    struct depot_best before = *best;
    if (is_better(table, best, entry, kind, grain, stamp))
        *best = (struct depot_best){
            .hash = {entry->hash[0], entry->hash[1]},
            .sequence = entry->sequence,
            .grain = grain & ((UINT64_C(1) << DEPOT_ADDRESS_BITS_MAX) - 1),
            .size = size_of(table, entry) & ((1U << DEPOT_SIZE_BITS) - 1),
            .kind = (unsigned)kind & SEGLOG_KIND_MASK,
            .big = entry->kind & SEGLOG_MARKS_PIECES,
            .marks = before.sequence == entry->sequence && before.kind == kind ? before.marks & 3 : 0,
            .seen = before.seen};
    return table->ops->meet == NULL ? 0 : table->ops->meet(table->arg, &before, best, entry, grain);
}

static int meet_alone(struct table *table, const struct seglog_entry_format *entry, uint64_t grain,
                      uint64_t stamp, struct home home)
{
    if (!table->ops->shared)
        return meet(table, entry, grain, stamp, home);
    base_spin_lock(&table->parts[home.part].lock);
    int error = meet(table, entry, grain, stamp, home);
    base_spin_unlock(&table->parts[home.part].lock);
    return error;
}

static int visit_group(struct table *table, uint32_t segment, uint64_t stamp,
                       const struct seglog_entry_format *entries, uint32_t count)
{
    struct home homes[GROUP];
    uint32_t mine[GROUP], mine_count = 0;
    int error = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t mixed = mix(table, entries[i].hash);
        if (!is_of_pass(table, mixed))
            continue;
        homes[mine_count] = home_of(table, mixed);
        __builtin_prefetch(&table->slots[homes[mine_count].first], 1);
        mine[mine_count++] = i;
    }
    for (uint32_t i = 0; error == 0 && i < mine_count; i++) {
        const struct seglog_entry_format *entry = &entries[mine[i]];
        error = meet_alone(table, entry, seglog_entry_grain(table->log, segment, entry), stamp, homes[i]);
    }
    return error;
}

static int visit(void *arg, uint32_t segment, uint64_t stamp, const struct seglog_entry_format *entries,
                 uint32_t count)
{
    struct table *table = arg;
    int error = 0;
    for (uint32_t i = 0; error == 0 && i < count; i += GROUP)
        error = visit_group(table, segment, stamp, entries + i, base_min(count - i, (uint32_t)GROUP));
    return error;
}

/* Entries of segments where a key may lie that has a later entry elsewhere. */
static int visit_doubted(void *arg, uint32_t segment, uint64_t stamp,
                         const struct seglog_entry_format *entries, uint32_t count)
{
    struct table *table = arg;
    (void)stamp;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t mixed = mix(table, entries[i].hash);
        if (!is_of_pass(table, mixed))
            continue;
        const struct depot_best *best = slot_of(table, entries[i].hash, home_of(table, mixed));
        /* a tombstone may have been moved, and be older than what is covered */
        if (best->grain != 0 && entries[i].sequence <= best->sequence)
            table->ops->stale(table->arg, &entries[i], seglog_entry_grain(table->log, segment, &entries[i]));
    }
    return 0;
}

static int clear_doubts(struct table *table)
{
    for (uint64_t slot = 0; slot < table->slot_count; slot++) {
        if (table->slots[slot].grain != 0)
            table->ops->look(table->arg, &table->slots[slot]);
    }
    return seglog_visit_doubted(table->log, visit_doubted, table);
}

static bool is_wanted(const struct table *table, uint64_t slot)
{
    const struct depot_best *best = &table->slots[slot];
    return best->grain != 0 && (table->ops->wants == NULL || table->ops->wants(table->arg, best));
}

static void expect(const struct table *table)
{
    uint64_t count = 0;
    for (uint64_t slot = 0; slot < table->slot_count; slot++)
        count += is_wanted(table, slot);
    table->ops->expect(table->arg, count * (table->passes - table->pass));
}

static int take_group(const struct table *table, uint64_t begin, uint64_t end)
{
    int error = 0;
    for (uint64_t slot = begin; table->ops->soon != NULL && slot < end; slot++) {
        if (is_wanted(table, slot))
            table->ops->soon(table->arg, &table->slots[slot]);
    }
    for (uint64_t slot = begin; error == 0 && slot < end; slot++) {
        if (is_wanted(table, slot))
            error = table->ops->take(table->arg, &table->slots[slot]);
    }
    return error;
}

static int run_pass(struct table *table)
{
    bool all = table->ops->look == NULL;
    int error;
    if (table->pass > 0)
        memset(table->slots, 0, table->slot_count * sizeof(*table->slots));
    for (uint32_t i = 0; i < table->part_count; i++)
        table->parts[i].used = 0;
    if (table->ops->shared)
        error = seglog_visit_shared(table->log, !all, visit, table);
    else
        error =
            all ? seglog_visit(table->log, visit, table) : seglog_visit_uncovered(table->log, visit, table);
    if (error == 0 && !all)
        error = clear_doubts(table);
    if (error == 0 && table->ops->expect != NULL)
        expect(table);
    for (uint64_t slot = 0; error == 0 && slot < table->slot_count; slot += GROUP) {
        if (slot % TOLD_EVERY == 0)
            seglog_progress(table->log, "choosing what counts", "places", slot, table->slot_count);
        error = take_group(table, slot, base_min(slot + GROUP, table->slot_count));
    }
    return error;
}

int depot_best_find(struct tarn_node *node, struct seglog *log, uint64_t entries,
                    const struct depot_best_ops *ops, void *arg, uint32_t *ret_passes)
{
    struct table table = {.log = log,
                          .ops = ops,
                          .arg = arg,
                          .seeds = {task_rng(node), task_rng(node)},
                          .grain_shift = (uint32_t)__builtin_ctz(seglog_superblock(log)->grain_bytes)};
    for (uint32_t i = 0; i < PARTS_MAX; i++)
        base_spin_init(&table.parts[i].lock);
    int error = take_table(&table, &node->memory, entries);
    *ret_passes = table.passes;
    for (table.pass = 0; error == 0 && table.pass < table.passes; table.pass++)
        error = run_pass(&table);
    base_unmap(&node->memory, table.slots, table_bytes(&table));
    return error;
}
