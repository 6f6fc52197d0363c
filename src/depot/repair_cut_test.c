/*
 * A repair that is cut off at any of its writes, or meets a failure of any request: can the store be opened
 * as ever and repaired again, is nothing lost that can be read, and does nothing older come back?
 */
#include "depot/repair_testing.h"

enum { LONG = 150000 };

static void damage_piece(struct testing_drive *drive)
{
    struct place place;
    for (uint32_t i = 0; i < depot_testing_superblock(drive).segment_count; i++) {
        if (!look_at(drive, i, SEGLOG_SEGMENT_RECORDS, &place) || place.summary == NULL)
            continue;
        for (uint32_t entry = 0; entry < place.trailer.entries; entry++) {
            if ((place.entries[entry].kind & SEGLOG_MARK_PIECE) == 0 || place.entries[entry].number != 1)
                continue;
            record_at(&place, entry)[100] ^= 1;
            return;
        }
    }
    fail_msg("there is no such piece");
}

/* The key of one record is damaged, the value of another, a tombstone, and a piece of a long value. */
static struct testing_drive damaged_store(void)
{
    static char value[LONG];
    struct testing_drive drive = testing_losing_store(false);
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    assert_int_equal(depot_testing_put(&store, "named", OLD_TEXT "!"), 0);
    assert_int_equal(depot_testing_put(&store, "named", NEW_TEXT "!"), 0);
    assert_int_equal(depot_testing_put(&store, "deleted", "any"), 0);
    assert_int_equal(testing_delete(&store, "deleted"), 0);
    assert_int_equal(depot_testing_put(&store, "long", OLD_TEXT), 0);
    assert_int_equal(tarn_depot_put(store.depot, "long", 4, value, sizeof(value), NULL, NULL), 0);
    depot_testing_close(&store);
    damage_piece(&drive);
    testing_find_text(&drive, "lost" NEW_TEXT, NULL)[0] ^= 1;
    testing_find_text(&drive, "named" NEW_TEXT, NULL)[7] ^= 1;
    struct place place = find_records(&drive, SEGLOG_TOMBSTONE);
    record_at(&place, entry_of(&place, SEGLOG_TOMBSTONE))[41] ^= 1;
    return drive;
}

static void expect_none_or_damage(struct testing_store *store, const char *key)
{
    static char value[LONG];
    int error = tarn_depot_get(store->depot, key, strlen(key), value, sizeof(value), NULL);
    assert_true(error == -ENOENT || error == -EBADMSG);
}

/* Opened before it is repaired again, it serves what can be read. */
static void expect_served(struct testing_drive *drive)
{
    struct testing_store store;
    depot_testing_open(&store, drive, NULL, TARN_MODE_POWER);
    testing_expect_keys(&store, 0, 100, "value");
    expect_none_or_damage(&store, "lost");
    expect_none_or_damage(&store, "named");
    expect_none_or_damage(&store, "deleted");
    expect_none_or_damage(&store, "long");
    depot_testing_close(&store);
}

static void repair_again(struct testing_drive *drive)
{
    struct losses losses;
    struct testing_store store;
    assert_int_equal(testing_repair(drive, &losses), 0);
    assert_true(losses.report.lost <= 4 && losses.report.tombstones <= 1);
    expect_sound(drive);
    depot_testing_open(&store, drive, NULL, TARN_MODE_POWER);
    testing_expect_keys(&store, 0, 100, "value");
    depot_testing_expect(&store, "lost", NULL);
    depot_testing_expect(&store, "named", NULL);
    depot_testing_expect(&store, "deleted", NULL);
    depot_testing_expect(&store, "long", NULL);
    depot_testing_close(&store);
}

/* @param cut  the bytes of a drive whose power went */
static void try_cut(struct testing_drive *cut)
{
    for (int opened = 0; opened < 2; opened++) {
        struct testing_drive drive = testing_drive_copy(cut);
        if (opened)
            expect_served(&drive);
        repair_again(&drive);
        testing_drive_free(&drive);
    }
}

static void a_repair_may_be_cut_off_at_each_write(void **state)
{
    (void)state;
    struct testing_recording recording = {.count = 0};
    struct testing_drive drive = damaged_store(), replayed = testing_drive_copy(&drive);
    struct losses losses;
    struct base_random random;
    base_random_init(&random, 7);
    drive.recording = &recording;
    assert_int_equal(testing_repair(&drive, &losses), 0);
    assert_int_equal(losses.report.lost, 3);
    assert_int_equal(losses.report.unnamed, 1);
    assert_int_equal(losses.report.tombstones, 1);
    for (size_t i = 0; i < recording.count; i++) {
        struct testing_drive torn = testing_drive_copy(&replayed);
        testing_write_tear(&recording.writes[i], &torn, &random);
        try_cut(&torn);
        testing_drive_free(&torn);
        testing_write_play(&recording.writes[i], &replayed);
        try_cut(&replayed);
    }
    assert_true(recording.count > 10);
    testing_recording_free(&recording);
    testing_drive_free(&drive);
    testing_drive_free(&replayed);
}

/* What had been moved when a repair was cut off is there twice. If one of the two is damaged, too, it is the
 * other that counts. */
static void a_copy_takes_the_place_of_what_is_damaged(void **state)
{
    (void)state;
    static const char text[] = "found twice";
    struct testing_recording recording = {.count = 0};
    struct testing_drive drive = damaged_store();
    struct testing_store store;
    struct losses losses;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    assert_int_equal(depot_testing_put(&store, "twice", text), 0);
    assert_int_equal(depot_testing_put(&store, "other", "damaged beside it"), 0);
    depot_testing_close(&store);
    testing_find_text(&drive, "damaged beside it", NULL)[0] ^= 1; /* so it is moved */
    uint8_t *original = testing_find_text(&drive, text, NULL);
    const struct seglog_superblock_format superblock = depot_testing_superblock(&drive);
    uint64_t segment =
        ((uint64_t)(original - drive.bytes) - superblock.data_offset) / superblock.segment_bytes;
    struct testing_drive replayed = testing_drive_copy(&drive);
    drive.recording = &recording;
    assert_int_equal(testing_repair(&drive, &losses), 0);
    unsigned cuts = 0;
    for (size_t i = 0; i < recording.count; i++) {
        testing_write_play(&recording.writes[i], &replayed);
        uint8_t *first = testing_find_text(&replayed, text, NULL);
        uint8_t *second = testing_find_text(&replayed, text, first + 1);
        bool freed = state_at(&replayed, newest_slot(&replayed))->freed_stamps[segment] != 0;
        if (second == NULL || freed)
            continue;
        cuts++;
        for (int copy = 0; copy < 2; copy++) {
            struct testing_drive cut = testing_drive_copy(&replayed);
            cut.bytes[(copy == 0 ? first : second) - replayed.bytes] ^= 1;
            repair_again(&cut);
            depot_testing_open(&store, &cut, NULL, TARN_MODE_POWER);
            depot_testing_expect(&store, "twice", text);
            depot_testing_close(&store);
            testing_drive_free(&cut);
        }
    }
    assert_true(cuts > 0);
    testing_recording_free(&recording);
    testing_drive_free(&drive);
    testing_drive_free(&replayed);
}

/* The nth request of a kind fails, or all from then on, or the nth allocation. */
static void every_request_of_a_repair_may_fail(void **state)
{
    (void)state;
    const struct testing_drive original = damaged_store();
    static const enum drive_op ops[] = {DRIVE_WRITE, DRIVE_READ, DRIVE_FLUSH};
    for (size_t i = 0; i < 2 * base_array_count(ops); i++) {
        bool happened = true, fail_on = i >= base_array_count(ops);
        for (uint64_t n = 1; happened; n += TESTING_SLOW ? 9 : 1) {
            struct testing_drive source = original, drive = testing_drive_copy(&source);
            struct losses losses;
            testing_drive_fail_at(&drive, ops[i % base_array_count(ops)], n, fail_on);
            int error = testing_repair(&drive, &losses);
            assert_true(error == 0 || error == -EIO || error == -EROFS || error == -EBADMSG);
            uint64_t left = atomic_exchange(&drive.fail_at, 0);
            happened = fail_on ? left == 1 : left == 0;
            if (ops[i % base_array_count(ops)] == DRIVE_READ && fail_on && error == 0)
                happened = false; /* what cannot be read then is nothing that has to be */
            repair_again(&drive);
            testing_drive_free(&drive);
            assert_true(n < 2000);
        }
    }
    free(original.bytes);
}

static void every_allocation_of_a_repair_may_fail(void **state)
{
    (void)state;
    struct testing_drive original = damaged_store();
    int error = -ENOMEM;
    for (uint64_t n = 1; error != 0; n++) {
        struct testing_drive drive = testing_drive_copy(&original);
        struct depot_repair_report report;
        struct tarn_node *node = testing_node(&drive, NULL);
        base_account_fail_at(&node->memory, n);
        error = depot_repair(node, "store", false, NULL, NULL, NULL, &report);
        bool happened = atomic_load(&node->memory.fail_at) == 0;
        base_account_fail_at(&node->memory, 0);
        task_node_close(node);
        assert_true(error == 0 || error == -ENOMEM || error == -EIO);
        repair_again(&drive);
        testing_drive_free(&drive);
        error = happened ? -ENOMEM : error;
        assert_true(n < 1000);
    }
    testing_drive_free(&original);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repair_may_be_cut_off_at_each_write),
        cmocka_unit_test(a_copy_takes_the_place_of_what_is_damaged),
        cmocka_unit_test(every_request_of_a_repair_may_fail),
        cmocka_unit_test(every_allocation_of_a_repair_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
