/*
 * Damage of every kind: does a check tell it, is the store whole after a repair, has it lost what cannot be
 * read and nothing else, and does no older value come back?
 */
#include "depot/repair_testing.h"

/* Damages a store that testing_losing_store() has made. */
typedef void damage_function(struct testing_drive *drive);

/* What follows from it: so many faults at least, and of a repair's report these. */
struct damage {
    const char *name;
    damage_function *damage;
    bool deleted;
    unsigned invariant; /* of a fault that a check tells */
    unsigned lost, unnamed, tombstones, segments;
    bool unsure;
};

/* ---- damage of "lost" ----------------------------------------------------------------------------- */

static uint8_t *new_value(struct testing_drive *drive)
{
    uint8_t *value = testing_find_text(drive, NEW_TEXT, NULL);
    assert_non_null(value);
    return value;
}

static void damage_value(struct testing_drive *drive)
{
    new_value(drive)[2] ^= 1;
}

static void damage_header(struct testing_drive *drive)
{
    new_value(drive)[-4 - 24] ^= 1; /* its version: the key and the client's flags stand between */
}

static void damage_key(struct testing_drive *drive)
{
    new_value(drive)[-1] ^= 1;
}

static void damage_length_of_key(struct testing_drive *drive)
{
    new_value(drive)[-4 - 12] ^= 7;
    new_value(drive)[-4 - 11] ^= 7;
}

static void damage_all_of_it(struct testing_drive *drive)
{
    memset(new_value(drive) - 4 - 40, 0, 4 + 40 + strlen(NEW_TEXT));
}

static void damage_a_dead_value(struct testing_drive *drive)
{
    testing_find_text(drive, OLD_TEXT, NULL)[2] ^= 1;
    new_value(drive)[2] ^= 1;
}

static void damage_tombstone(struct testing_drive *drive)
{
    struct place place = find_records(drive, SEGLOG_TOMBSTONE);
    record_at(&place, entry_of(&place, SEGLOG_TOMBSTONE))[41] ^= 1;
}

/* The segment where "lost" lies. */
static struct place place_of_it(struct testing_drive *drive)
{
    const struct seglog_superblock_format superblock = depot_testing_superblock(drive);
    struct place place;
    uint64_t offset = (uint64_t)(new_value(drive) - drive->bytes) - superblock.data_offset;
    assert_true(
        look_at(drive, (uint32_t)(offset / superblock.segment_bytes), SEGLOG_SEGMENT_RECORDS, &place));
    return place;
}

static void damage_several(struct testing_drive *drive)
{
    place_of_it(drive).segment[40] ^= 1;
    damage_value(drive);
}

static void damage_several_segments(struct testing_drive *drive)
{
    damage_several(drive);
    damage_tombstone(drive);
}

static const struct damage damages_of_it[] = {
    {"value", damage_value, .invariant = 7, .lost = 1, .segments = 1},
    {"header", damage_header, .invariant = 7, .lost = 1, .segments = 1},
    {"key", damage_key, .invariant = 7, .lost = 1, .unnamed = 1, .segments = 1},
    {"length of its key", damage_length_of_key, .invariant = 7, .lost = 1, .unnamed = 1, .segments = 1},
    {"all of it", damage_all_of_it, .invariant = 7, .lost = 1, .unnamed = 1, .segments = 1},
    {"a dead value", damage_a_dead_value, .invariant = 7, .lost = 1, .segments = 2},
    {"tombstone", damage_tombstone, true, .invariant = 7, .tombstones = 1, .segments = 1},
    {"value and segment's header", damage_several, .invariant = 4, .lost = 1, .segments = 1},
    {"several segments", damage_several_segments, true, .invariant = 4, .tombstones = 1, .segments = 2},
};

static void repair_as_told(struct testing_drive *drive, const struct damage *damage)
{
    struct told told;
    struct depot_check_report report;
    struct losses losses;
    damage->damage(drive);
    assert_int_equal(depot_testing_check(drive, NULL, &told, &report), 0);
    assert_true(told.count[damage->invariant] > 0);
    assert_int_equal(report.segments_unsure, damage->unsure);
    assert_int_equal(testing_repair(drive, &losses), 0);
    if (losses.report.lost != damage->lost || losses.report.unnamed != damage->unnamed)
        print_error("damage of %s\n", damage->name);
    assert_int_equal(losses.report.lost, damage->lost);
    assert_int_equal(losses.report.unnamed, damage->unnamed);
    assert_int_equal(losses.report.tombstones, damage->tombstones);
    assert_int_equal(losses.report.segments, damage->segments);
    if (losses.named > 0)
        assert_string_equal(losses.key, "lost");
    bool nameless = (depot_testing_superblock(drive).incompatible & SEGLOG_FEATURE_NAMELESS) != 0;
    assert_int_equal(nameless, damage->unnamed + damage->tombstones > 0);
}

/* Another damage: what the first repair has written is moved, while what it hides stays where it is. */
static void move_tombstones(struct testing_drive *drive)
{
    struct place place;
    struct losses losses;
    unsigned damaged = 0;
    for (uint32_t i = 0; i < depot_testing_superblock(drive).segment_count; i++) {
        if (!look_at(drive, i, SEGLOG_SEGMENT_RECORDS, &place) || place.summary == NULL ||
            entry_of(&place, SEGLOG_TOMBSTONE) == place.trailer.entries)
            continue;
        record_at(&place, entry_of(&place, SEGLOG_TOMBSTONE))[41] ^= 1;
        damaged++;
    }
    assert_true(damaged > 0);
    assert_int_equal(testing_repair(drive, &losses), 0);
    assert_int_equal(losses.report.lost, 0);
    assert_int_equal(losses.report.tombstones, damaged);
    assert_int_equal(losses.report.segments, damaged);
    expect_sound(drive);
    (void)find_records(drive, SEGLOG_TOMBSTONE);
}

static void what_is_lost_is_gone_and_nothing_older_comes_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < base_array_count(damages_of_it); i++) {
        struct testing_drive drive = testing_losing_store(damages_of_it[i].deleted);
        repair_as_told(&drive, &damages_of_it[i]);
        move_tombstones(&drive);
        testing_expect_repaired(&drive);
        testing_drive_free(&drive);
    }
}

/* ---- damage that loses nothing -------------------------------------------------------------------- */

static void damage_segment_header(struct testing_drive *drive)
{
    place_of_it(drive).segment[40] ^= 1;
}

static void damage_summary(struct testing_drive *drive)
{
    place_of_it(drive).summary[0] ^= 1;
}

static void damage_trailer(struct testing_drive *drive)
{
    const struct place place = place_of_it(drive);
    place.segment[place.superblock.segment_bytes - 50] ^= 1; /* its magic */
}

static void damage_superblock(struct testing_drive *drive)
{
    drive->bytes[200] ^= 1;
}

static void damage_superblock_copy(struct testing_drive *drive)
{
    drive->bytes[SEGLOG_SUPERBLOCK_BYTES + 200] ^= 1;
}

static void damage_behind_superblock(struct testing_drive *drive)
{
    drive->bytes[SEGLOG_SUPERBLOCK_BYTES - 1] = 1;
}

static void damage_state(struct testing_drive *drive)
{
    state_at(drive, newest_slot(drive))->flush_sequence ^= 4;
}

static void damage_older_state(struct testing_drive *drive)
{
    state_at(drive, newest_slot(drive) ^ 2)->magic ^= 1;
}

static void damage_checkpoint(struct testing_drive *drive)
{
    const struct place place = find_checkpoint(drive);
    ((uint8_t *)(part_of(&place) + 1))[100] ^= 1;
}

static const struct damage harmless_damages[] = {
    {"segment's header", damage_segment_header, .invariant = 4},
    {"summary", damage_summary, .invariant = 6},
    {"trailer", damage_trailer, .invariant = 6, .unsure = true},
    {"superblock", damage_superblock, .invariant = 1},
    {"superblock's copy", damage_superblock_copy, .invariant = 1},
    {"what follows the superblock", damage_behind_superblock, .invariant = 1},
    {"state", damage_state, .invariant = 3},
    {"older state", damage_older_state, .invariant = 3},
    {"checkpoint", damage_checkpoint, .invariant = 12},
};

static void what_can_be_told_from_elsewhere_is_not_lost(void **state)
{
    (void)state;
    for (size_t i = 0; i < base_array_count(harmless_damages); i++) {
        struct testing_drive drive = testing_losing_store(false);
        repair_as_told(&drive, &harmless_damages[i]);
        expect_sound(&drive);
        struct testing_store store;
        depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
        testing_expect_keys(&store, 0, 100, "value");
        depot_testing_expect(&store, "lost", NEW_TEXT);
        depot_testing_close(&store);
        testing_drive_free(&drive);
    }
}

/* What the summary would have told the end of the record's group tells. */
static void a_summary_and_a_record_of_it_bring_back_nothing_older(void **state)
{
    (void)state;
    struct testing_drive drive = testing_losing_store(false);
    struct losses losses;
    struct told told;
    struct depot_check_report report;
    damage_summary(&drive);
    damage_value(&drive);
    assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
    assert_int_equal(told.count[6] + told.count[7], 2);
    assert_int_equal(report.segments_unsure, 0);
    assert_int_equal(testing_repair(&drive, &losses), 0);
    assert_int_equal(losses.report.lost, 1);
    testing_expect_repaired(&drive);
    testing_drive_free(&drive);
}

static void a_store_that_is_sound_loses_nothing(void **state)
{
    (void)state;
    struct testing_drive drive = testing_losing_store(false);
    struct losses losses;
    assert_int_equal(testing_repair(&drive, &losses), 0);
    assert_int_equal(losses.report.lost + losses.report.tombstones + losses.report.segments, 0);
    expect_sound(&drive);
    testing_drive_free(&drive);
}

static void what_no_opening_takes_is_not_repaired(void **state)
{
    (void)state;
    struct testing_drive drive = testing_losing_store(false);
    struct losses losses;
    for (uint32_t slot = 0; slot < SEGLOG_STATE_SLOTS; slot++)
        state_at(&drive, slot)->check ^= 1;
    assert_int_equal(testing_repair(&drive, &losses), -EUCLEAN);
    testing_drive_free(&drive);
}

/* ---- places that cannot be read ------------------------------------------------------------------- */

/* A block in the midst of a value, which the drive does not return any more. */
static void what_cannot_be_read_is_lost_as_well(void **state)
{
    (void)state;
    static char value[20000];
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    struct losses losses;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    testing_put_keys(&store, 0, 50, "value");
    assert_int_equal(depot_testing_put(&store, "lost", OLD_TEXT), 0);
    memset(value, 'x', sizeof(value));
    (void)memcpy(value + 9000, NEW_TEXT, strlen(NEW_TEXT));
    assert_int_equal(tarn_depot_put(store.depot, "lost", 4, value, sizeof(value), NULL, NULL), 0);
    testing_put_keys(&store, 50, 100, "value");
    depot_testing_close(&store);
    uint64_t begin = (uint64_t)(new_value(&drive) - drive.bytes);
    testing_drive_fail_at(&drive, DRIVE_READ, 1, true);
    drive.fail_begin = begin;
    drive.fail_end = begin + 1;
    expect_only(&drive, 7);
    assert_int_equal(testing_repair(&drive, &losses), 0);
    assert_int_equal(losses.report.lost, 1);
    testing_drive_fail_at(&drive, DRIVE_READ, 0, false);
    testing_expect_repaired(&drive);
    testing_drive_free(&drive);
}

/* ---- values in pieces ----------------------------------------------------------------------------- */

enum { LONG = 200000 };

static uint8_t long_value[LONG], found_value[LONG];

/* "lost" was a short value, and is a long one; "kept" is long, too. */
static struct testing_drive store_with_long_values(void)
{
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    struct base_random random;
    base_random_init(&random, 1);
    for (size_t i = 0; i < LONG; i++)
        long_value[i] = (uint8_t)base_random_u64(&random);
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    testing_put_keys(&store, 0, 100, "value");
    assert_int_equal(depot_testing_put(&store, "lost", OLD_TEXT), 0);
    assert_int_equal(tarn_depot_put(store.depot, "lost", 4, long_value, LONG, NULL, NULL), 0);
    assert_int_equal(tarn_depot_put(store.depot, "kept", 4, long_value, LONG, NULL, NULL), 0);
    depot_testing_close(&store);
    return drive;
}

/* Damage the nth record of a kind with a mark, in the order of sequences. */
static void damage_marked(struct testing_drive *drive, uint8_t mark, bool header)
{
    struct place place;
    uint8_t *first = NULL;
    uint64_t lowest = UINT64_MAX;
    for (uint32_t number = 0; number < depot_testing_superblock(drive).segment_count; number++) {
        if (!look_at(drive, number, SEGLOG_SEGMENT_RECORDS, &place) || place.summary == NULL)
            continue;
        for (uint32_t i = 0; i < place.trailer.entries; i++) {
            if ((place.entries[i].kind & mark) == 0 || place.entries[i].sequence > lowest)
                continue;
            lowest = place.entries[i].sequence;
            first = record_at(&place, i) + (header ? 16 : place.entries[i].bytes - 1);
        }
    }
    assert_non_null(first);
    *first ^= 1;
}

static void expect_kept(struct testing_drive *drive)
{
    struct testing_store store;
    struct tarn_record_info info;
    depot_testing_open(&store, drive, NULL, TARN_MODE_POWER);
    assert_int_equal(tarn_depot_get(store.depot, "kept", 4, found_value, LONG, &info), 0);
    assert_int_equal(info.value_bytes, LONG);
    assert_memory_equal(found_value, long_value, LONG);
    assert_int_equal(tarn_depot_delete(store.depot, "kept", 4), 0); /* there is room to churn */
    depot_testing_close(&store);
}

static void a_long_value_ends_with_any_of_its_pieces(void **state)
{
    (void)state;
    static const uint8_t marks[] = {SEGLOG_MARK_PIECE, SEGLOG_MARK_HEAD};
    for (int i = 0; i < 4; i++) {
        struct testing_drive drive = store_with_long_values();
        struct losses losses;
        damage_marked(&drive, marks[i % 2], i < 2);
        expect_only(&drive, 7);
        assert_int_equal(testing_repair(&drive, &losses), 0);
        assert_int_equal(losses.report.lost, 1);
        /* of a head without its last byte the key is not known */
        assert_int_equal(losses.report.unnamed, i == 3);
        struct told told;
        struct depot_check_report report;
        assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
        assert_int_equal(report.faults, 0);
        expect_kept(&drive);
        testing_expect_repaired(&drive);
        testing_drive_free(&drive);
    }
}

/* ---- the tail ------------------------------------------------------------------------------------- */

/* In a segment that was open when the process died, what later groups say was acknowledged is damaged, not cut off. */
static void damage_of_the_open_segment_is_told(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    struct losses losses;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    testing_put_keys(&store, 0, 97, "value");
    assert_int_equal(depot_testing_put(&store, "lost", OLD_TEXT), 0);
    assert_int_equal(depot_testing_put(&store, "lost", NEW_TEXT), 0);
    testing_put_keys(&store, 97, 100, "value");
    drive = depot_testing_end(&store, &drive, true);
    assert_null(place_of_it(&drive).summary);
    damage_value(&drive);
    expect_only(&drive, 7);
    assert_int_equal(testing_repair(&drive, &losses), 0);
    assert_int_equal(losses.report.lost, 1);
    testing_expect_repaired(&drive);
    testing_drive_free(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_lost_is_gone_and_nothing_older_comes_back),
        cmocka_unit_test(what_can_be_told_from_elsewhere_is_not_lost),
        cmocka_unit_test(a_summary_and_a_record_of_it_bring_back_nothing_older),
        cmocka_unit_test(a_store_that_is_sound_loses_nothing),
        cmocka_unit_test(what_no_opening_takes_is_not_repaired),
        cmocka_unit_test(what_cannot_be_read_is_lost_as_well),
        cmocka_unit_test(a_long_value_ends_with_any_of_its_pieces),
        cmocka_unit_test(damage_of_the_open_segment_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
