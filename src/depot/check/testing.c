/* For the tests of check: stores to be checked, and what was told of them. */
#include "depot/check/testing.h"

void testing_tell(void *arg, unsigned invariant, const char *sentence)
{
    struct told *told = arg;
    assert_true(invariant > 0 && invariant < INVARIANTS);
    assert_true(strlen(sentence) > 0);
    told->count[invariant]++;
    told->all++;
    (void)snprintf(told->last, sizeof(told->last), "%u: %s", invariant, sentence);
}

void testing_progress(void *arg, uint64_t done, uint64_t all)
{
    struct told *told = arg;
    assert_true(done >= told->done && done <= all);
    told->done = done;
    told->of = all;
}

int depot_testing_check(struct testing_drive *drive, struct testing_clock *clock, struct told *told,
                        struct depot_check_report *report)
{
    struct tarn_node *node = testing_node(drive, clock);
    *told = (struct told){.all = 0};
    int error = depot_check(node, "store", false, testing_tell, testing_progress, told, report);
    task_node_close(node);
    return error;
}

void expect_fault(struct testing_drive *drive, unsigned invariant)
{
    struct told told;
    struct depot_check_report report = {.faults = 0};
    assert_int_equal(depot_testing_check(drive, NULL, &told, &report), 0);
    assert_int_equal(told.count[invariant], 1);
    assert_int_equal(report.faults, told.all);
}

void expect_only(struct testing_drive *drive, unsigned invariant)
{
    struct told told;
    struct depot_check_report report = {.faults = 0};
    assert_int_equal(depot_testing_check(drive, NULL, &told, &report), 0);
    assert_int_equal(told.count[invariant], 1);
    assert_int_equal(told.all, 1);
    assert_int_equal(report.faults, 1);
}

void expect_sound(struct testing_drive *drive)
{
    struct told told;
    struct depot_check_report report = {.faults = 0};
    assert_int_equal(depot_testing_check(drive, NULL, &told, &report), 0);
    if (told.all > 0)
        print_error("%s\n", told.last);
    assert_int_equal(told.all, 0);
    assert_int_equal(report.faults, 0);
}

void put_number(struct testing_store *store, int number, int version)
{
    char key[16], value[600];
    (void)snprintf(key, sizeof(key), "key%d", number);
    size_t len = (size_t)(number * 37 % 500);
    memset(value, 'a' + version % 26, sizeof(value));
    assert_int_equal(tarn_depot_put(store->depot, key, strlen(key), value, len, NULL, NULL), 0);
}

struct testing_drive made_store(bool killed)
{
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    for (int i = 0; i < KEYS; i++)
        put_number(&store, i, 0);
    for (int i = 0; i < OVERWRITTEN; i++)
        put_number(&store, i, 1);
    for (int i = 0; i < REMOVED; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "key%d", i);
        assert_int_equal(testing_delete(&store, key), 0);
    }
    return depot_testing_end(&store, &drive, killed);
}

/* ---- looking into the bytes ------------------------------------------------------------------------ */

struct seglog_state_format *state_at(struct testing_drive *drive, uint32_t slot)
{
    const struct seglog_superblock_format superblock = depot_testing_superblock(drive);
    return (void *)(drive->bytes + superblock.state_offset + slot * superblock.state_bytes);
}

uint32_t newest_slot(struct testing_drive *drive)
{
    const struct seglog_superblock_format superblock = depot_testing_superblock(drive);
    uint32_t newest = 0;
    for (uint32_t slot = 0; slot < SEGLOG_STATE_SLOTS; slot++) {
        if (seglog_state_verify(state_at(drive, slot), &superblock) == 0 &&
            state_at(drive, slot)->generation > state_at(drive, newest)->generation)
            newest = slot;
    }
    return newest;
}

uint32_t entry_of(const struct place *place, uint32_t kind)
{
    uint32_t i = 0;
    while (i < place->trailer.entries && (place->entries[i].kind & SEGLOG_KIND_MASK) != kind)
        i++;
    return i;
}

bool look_at(struct testing_drive *drive, uint32_t number, uint32_t kind, struct place *place)
{
    const struct seglog_state_format *state = state_at(drive, newest_slot(drive));
    *place = (struct place){.superblock = depot_testing_superblock(drive), .number = number};
    const struct seglog_superblock_format *superblock = &place->superblock;
    place->segment = drive->bytes + superblock->data_offset + number * superblock->segment_bytes;
    uint8_t *end = place->segment + superblock->segment_bytes;
    if (seglog_segment_parse(place->segment, superblock->check_seed, number, &place->header) != 0 ||
        place->header.kind != kind || place->header.stamp <= state->freed_stamps[number])
        return false;
    if (seglog_trailer_parse(end - sizeof(place->trailer), superblock, place->header.stamp,
                             &place->trailer) == 0) {
        place->summary = end - seglog_summary_bytes(place->trailer.entries, superblock->block_bytes);
        place->entries = (void *)place->summary;
    }
    return true;
}

uint8_t *record_at(const struct place *place, uint32_t entry)
{
    return place->segment + place->entries[entry].grain * (uint64_t)place->superblock.grain_bytes;
}

struct place find_records(struct testing_drive *drive, uint32_t kind)
{
    struct place place;
    uint32_t count = depot_testing_superblock(drive).segment_count, number = 0;
    while (number < count && (!look_at(drive, number, SEGLOG_SEGMENT_RECORDS, &place) ||
                              place.summary == NULL || entry_of(&place, kind) == place.trailer.entries))
        number++;
    assert_true(number < count);
    return place;
}

struct place find_checkpoint(struct testing_drive *drive)
{
    struct place place;
    uint32_t count = depot_testing_superblock(drive).segment_count, number = 0;
    while (number < count && (!look_at(drive, number, SEGLOG_SEGMENT_CHECKPOINT, &place) ||
                              place.header.checkpoint_stamp != place.header.stamp))
        number++;
    assert_true(number < count);
    return place;
}

struct seglog_part_format *part_of(const struct place *place)
{
    return (void *)(place->segment + place->superblock.block_bytes);
}
