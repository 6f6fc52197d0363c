/*
 * Scans: segment by segment, because all slots of a key lie in one. A segment is read until two readings agree that each slot is as it was, or has
 * another record of the same key; README, "Scans", tells why no key is skipped or shown twice then.
 */
#include "hash/hash_internal.h"

#define READINGS_MAX 100u
#define PUTS_MAX                                                                                             \
    5u /* changes of a word between two readings, at most, of which none can have brought another key there */

struct scan {
    struct hash *hash;
    tarn_scan_function *visit;
    void *arg;
    uint64_t timeout_ns; /* of each read */
    uint64_t
        slots; /* that are read together: those of a segment, and while the index grows those of its successors, too */
    uint64_t room;      /* slots that the arrays have room for */
    uint64_t *words[2]; /* of the last two readings */
    hash_key *keys;     /* of the records at the slots, as far as they were read … */
    bool *has_key;      /* … for the words of the last reading */
};

static uint64_t deadline_of(const struct scan *scan)
{
    return task_now() + scan->timeout_ns;
}

/* A part of an index. */
struct range {
    struct tarn_space_region *index;
    uint64_t first, count;
};

/* The ranges in which the keys of a part of all hashes may be. @param part, parts  which, of how many */
static uint32_t ranges_of(const struct hash *hash, uint64_t part, uint64_t parts, struct range ret_ranges[2])
{
    const uint32_t oldest = (uint32_t)(hash->view / 2), count = 1 + (uint32_t)(hash->view & 1);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t slots = hash_slots(&hash->shape, oldest + i);
        ret_ranges[i] = (struct range){
            .index = hash->indexes[oldest + i], .first = slots / parts * part, .count = slots / parts};
    }
    return count;
}

static int read_ranges(struct scan *scan, const struct range *ranges, uint32_t count, uint64_t *words)
{
    uint64_t at = 0;
    int error = 0;
    for (uint32_t i = 0; i < count && error == 0; i++) {
        error = hash_read_words(scan->hash, ranges[i].index, ranges[i].first * 8, words + at, ranges[i].count,
                                deadline_of(scan));
        at += ranges[i].count;
    }
    return error;
}

/* Read the record to which a word refers. @param ret_record  the caller's to free @return 0; -EAGAIN: it was replaced; errors */
static int read_record(struct scan *scan, uint64_t word, struct hash_record **ret_record, uint64_t *ret_bytes)
{
    struct hash *hash = scan->hash;
    const uint64_t address = hash_address_of(&hash->layout, word);
    uint64_t offset;
    if (hash_slot_bytes(hash, address) == 0 || hash_table_of(hash, address, &offset) == NULL) {
        int error = hash_slab_learn(hash, address, deadline_of(scan));
        if (error != 0)
            return error;
    }
    const uint64_t bytes = hash_slot_bytes(hash, address);
    struct tarn_space_region *table = hash_table_of(hash, address, &offset);
    if (bytes == 0 || table == NULL)
        return -EAGAIN;
    struct hash_record *record = base_alloc(&hash->node->memory, bytes);
    if (record == NULL)
        return -ENOMEM;
    int error = hash_read(table, offset, record, bytes, deadline_of(scan));
    if (error == 0 && !hash_record_fits(&hash->layout, record, word, bytes))
        error = -EAGAIN;
    if (error != 0) {
        if (error == -EAGAIN)
            hash->slab_classes[hash_slab_at_address(hash, address)] =
                0; /* its slots may have another size by now */
        base_free(&hash->node->memory, record, bytes);
        return error;
    }
    *ret_record = record;
    *ret_bytes = bytes;
    return 0;
}

/* ---- one part ----------------------------------------------------------------------------------- */

/* Records that were read, as they are shown at the end of a part. */
struct gathered {
    struct hash_record *record;
    uint64_t bytes;
    uint64_t slot;
};

struct part {
    struct gathered *records;
    uint64_t count, room;
};

static void free_part(struct scan *scan, struct part *part)
{
    struct base_account *account = &scan->hash->node->memory;
    for (uint64_t i = 0; i < part->count; i++)
        base_free(account, part->records[i].record, part->records[i].bytes);
    base_free(account, part->records, part->room * sizeof(part->records[0]));
    *part = (struct part){.records = NULL};
}

static int gather_record(struct scan *scan, struct part *part, struct hash_record *record, uint64_t bytes,
                         uint64_t slot)
{
    if (part->count == part->room) {
        const uint64_t room = part->room == 0 ? 256 : 2 * part->room;
        void *longer = base_realloc(&scan->hash->node->memory, part->records,
                                    part->room * sizeof(part->records[0]), room * sizeof(part->records[0]));
        if (longer == NULL)
            return -ENOMEM;
        part->records = longer;
        part->room = room;
    }
    part->records[part->count++] = (struct gathered){.record = record, .bytes = bytes, .slot = slot};
    return 0;
}

/* Whether the slot has, for all that is known, had one key all the time between two readings. */
static bool is_steady(const struct scan *scan, uint64_t slot, const struct hash_record *record)
{
    const struct hash_layout *layout = &scan->hash->layout;
    const uint64_t before = scan->words[0][slot], now = scan->words[1][slot];
    const uint64_t changes = (hash_version_of(layout, now) - hash_version_of(layout, before)) &
                             ((UINT64_C(1) << layout->version_bits) - 1);
    return hash_has_record(before) && scan->has_key[slot] && hash_key_equals(scan->keys[slot], record->key) &&
           changes <= PUTS_MAX;
}

/* Read the records of the second reading. @param ret_is_steady  both readings agree @return 0; errors */
static int read_part(struct scan *scan, struct part *part, bool *ret_is_steady)
{
    *ret_is_steady = true;
    for (uint64_t slot = 0; slot < scan->slots; slot++) {
        const uint64_t word = scan->words[1][slot];
        bool is_same = word == scan->words[0][slot];
        struct hash_record *record;
        uint64_t bytes;
        if (!hash_has_record(word)) {
            scan->has_key[slot] = false;
            *ret_is_steady = *ret_is_steady && is_same;
            continue;
        }
        int error = read_record(scan, word, &record, &bytes);
        if (error == -EAGAIN) {
            scan->has_key[slot] = false;
            *ret_is_steady = false;
            continue;
        }
        if (error != 0)
            return error;
        *ret_is_steady = *ret_is_steady && (is_same || is_steady(scan, slot, record));
        scan->keys[slot] = record->key;
        scan->has_key[slot] = true;
        error = gather_record(scan, part, record, bytes, slot);
        if (error != 0) {
            base_free(&scan->hash->node->memory, record, bytes);
            return error;
        }
    }
    return 0;
}

/* Show what a part has. A key that is being moved is at two slots, of which the first is as good. */
static int show_part(struct scan *scan, const struct part *part)
{
    const uint64_t now_ns = task_wall(scan->hash->node);
    int outcome = 0;
    for (uint64_t i = 0; i < part->count && outcome == 0; i++) {
        const struct hash_record *record = part->records[i].record;
        const uint8_t *key = (const uint8_t *)(record + 1);
        const struct tarn_record_info info = hash_record_info(record);
        bool is_shown = false;
        if (hash_state_of(scan->words[1][part->records[i].slot]) == HASH_FROZEN) {
            for (uint64_t j = 0; j < part->count && !is_shown; j++)
                is_shown = j != i && hash_key_equals(part->records[j].record->key, record->key) &&
                           (j < i || hash_state_of(scan->words[1][part->records[j].slot]) != HASH_FROZEN);
        }
        if (!is_shown && (record->expiry_ns == 0 || record->expiry_ns > now_ns))
            outcome = scan->visit(scan->arg, key, record->key_bytes, key + record->key_bytes, &info);
    }
    return outcome;
}

/* Scan the keys of a part of all hashes. @return 0; -EAGAIN: the view has changed; what `visit` returns; errors */
static int scan_part(struct scan *scan, uint64_t part_number, uint64_t parts)
{
    struct range ranges[2];
    const uint64_t view = scan->hash->view;
    const uint32_t count = ranges_of(scan->hash, part_number, parts, ranges);
    bool is_steady = false;
    int error = read_ranges(scan, ranges, count, scan->words[0]);
    memset(scan->has_key, 0, scan->slots);
    for (uint32_t i = 0; i < READINGS_MAX && error == 0 && !is_steady; i++) {
        struct part part = {.records = NULL};
        error = read_ranges(scan, ranges, count, scan->words[1]);
        if (error == 0)
            error = read_part(scan, &part, &is_steady);
        if (error == 0)
            error = hash_learn_view(scan->hash, deadline_of(scan));
        if (error == 0 && scan->hash->view != view)
            error = -EAGAIN;
        if (error == 0 && is_steady)
            error = show_part(scan, &part);
        free_part(scan, &part);
        uint64_t *last = scan->words[0];
        scan->words[0] = scan->words[1];
        scan->words[1] = last;
        task_yield();
    }
    return error == 0 && !is_steady ? -EBUSY : error;
}

/* ---- all of them -------------------------------------------------------------------------------- */

/* In how many parts the keys are scanned: as many as the oldest index has segments. */
static uint64_t parts_of(const struct hash *hash)
{
    const uint64_t slots = hash_slots(&hash->shape, (uint32_t)(hash->view / 2));
    return slots / base_min(slots, (uint64_t)HASH_SEGMENT_SLOTS);
}

static void free_scan(struct scan *scan)
{
    struct base_account *account = &scan->hash->node->memory;
    base_free(account, scan->words[0], scan->room * sizeof(uint64_t));
    base_free(account, scan->words[1], scan->room * sizeof(uint64_t));
    base_free(account, scan->keys, scan->room * sizeof(hash_key));
    base_free(account, scan->has_key, scan->room * sizeof(bool));
}

/* Have room for the slots of a part. */
static int make_room(struct scan *scan)
{
    struct base_account *account = &scan->hash->node->memory;
    if (scan->slots <= scan->room)
        return 0;
    free_scan(scan);
    scan->room = scan->slots;
    scan->words[0] = base_alloc(account, scan->room * sizeof(uint64_t));
    scan->words[1] = base_alloc(account, scan->room * sizeof(uint64_t));
    scan->keys = base_alloc(account, scan->room * sizeof(hash_key));
    scan->has_key = base_alloc(account, scan->room * sizeof(bool));
    return scan->words[0] != NULL && scan->words[1] != NULL && scan->keys != NULL && scan->has_key != NULL
               ? 0
               : -ENOMEM;
}

int hash_scan(struct hash *hash, tarn_scan_function *visit, void *arg, uint64_t timeout_ns)
{
    struct scan scan = {.hash = hash, .visit = visit, .arg = arg, .timeout_ns = timeout_ns};
    int error = hash_enter(hash, deadline_of(&scan));
    if (error == 0)
        error = hash_learn_view(hash, deadline_of(&scan));
    uint64_t
        done = 0,
        parts = parts_of(
            hash); /* parts are powers of two, so what is done is a number of parts also when there are more */
    while (error == 0 && done < parts) {
        done *= parts_of(hash) / parts;
        parts = parts_of(hash);
        scan.slots = hash_slots(&hash->shape, (uint32_t)(hash->view / 2)) / parts;
        scan.slots += (hash->view & 1) != 0 ? 2 * scan.slots : 0;
        error = make_room(&scan);
        if (error == 0)
            error = scan_part(&scan, done, parts);
        done += error == 0;
        if (error == -ESTALE) /* an index that was replaced is gone with a session */
            error = hash_learn_view(hash, deadline_of(&scan));
        error = error == -EAGAIN ? 0 : error;
    }
    free_scan(&scan);
    return error;
}
