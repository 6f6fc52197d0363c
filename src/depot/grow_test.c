/*
 * Does a store take what its drive has become larger by, keep what is in it, and leave a drive alone that is
 * none? Growing is cut off at every write, with any of its sectors.
 */
#include "depot/check_testing.h"
#include "depot/depot_format.h"
#include "seglog/seglog.h"
#include <errno.h>

#define LARGER_BYTES (3 * TESTING_STORE_BYTES)

static int grow(struct testing_drive *drive, uint64_t bytes, struct tarn_depot_growth *ret_growth)
{
    struct tarn_node *node = testing_node(drive, NULL);
    int error = tarn_depot_grow(node, "store", bytes, ret_growth);
    task_node_close(node);
    return error;
}

static void grow_to(struct testing_drive *drive, uint64_t after_bytes)
{
    struct tarn_depot_growth growth;
    uint64_t before_bytes = testing_superblock(drive).store_bytes;
    assert_int_equal(grow(drive, 0, &growth), 0);
    assert_int_equal(growth.before_bytes, before_bytes);
    assert_true(growth.after_bytes <= after_bytes);
    assert_true(growth.after_bytes + testing_superblock(drive).segment_bytes > after_bytes);
    assert_int_equal(growth.after_bytes, testing_superblock(drive).store_bytes);
}

static void expect_whole(struct testing_drive *drive)
{
    struct told told;
    struct depot_check_report report = {.faults = 0};
    assert_int_equal(testing_check(drive, NULL, &told, &report), 0);
    assert_string_equal(told.last, "");
}

static uint64_t open_and_expect(struct testing_drive *drive, int keys)
{
    struct testing_store store;
    struct tarn_depot_stats stats;
    testing_open(&store, drive, NULL, TARN_MODE_POWER);
    testing_expect_keys(&store, 0, keys, "value");
    tarn_depot_stats(store.depot, &stats);
    testing_close(&store);
    return stats.capacity_bytes;
}

/* Whatever the new bytes hold: zeros, noise, or what looks like this store. */
static void a_store_takes_the_rest_of_its_drive(void **state)
{
    (void)state;
    static const int fillings[] = {0, 0xee, -1};
    for (size_t i = 0; i < base_array_count(fillings); i++) {
        for (int killed = 0; killed < 2; killed++) {
            struct testing_drive drive = testing_made_store(KEYS, TARN_MODE_POWER, killed);
            uint64_t before = open_and_expect(&drive, KEYS);
            testing_drive_lengthen(&drive, LARGER_BYTES, fillings[i]);
            assert_int_equal(open_and_expect(&drive, KEYS), before); /* not by itself */
            grow_to(&drive, LARGER_BYTES);
            expect_whole(&drive);
            assert_true(open_and_expect(&drive, KEYS) > 3 * before);
            expect_whole(&drive);
            testing_drive_free(&drive);
        }
    }
}

/* More than fitted before, overwritten until all of it has been collected. */
static void what_is_new_is_used(void **state)
{
    (void)state;
    static uint8_t value[20000];
    struct testing_drive drive = testing_made_store(KEYS, TARN_MODE_POWER, false);
    struct testing_store store;
    testing_drive_lengthen(&drive, LARGER_BYTES, 0xee);
    grow_to(&drive, LARGER_BYTES);
    testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    for (uint32_t i = 0; i < 1000; i++) {
        char key[16];
        int key_len = snprintf(key, sizeof(key), "long %u", i % 150);
        memset(value, (int)i, sizeof(value));
        assert_int_equal(tarn_depot_put(store.depot, key, (size_t)key_len, value, sizeof(value), NULL, NULL),
                         0);
    }
    drive = testing_end(&store, &drive, true);
    expect_whole(&drive);
    testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    testing_expect_keys(&store, 0, KEYS, "value");
    for (uint32_t i = 850; i < 1000; i++) {
        static uint8_t found[sizeof(value)];
        char key[16];
        int key_len = snprintf(key, sizeof(key), "long %u", i % 150);
        memset(value, (int)i, sizeof(value));
        assert_int_equal(tarn_depot_get(store.depot, key, (size_t)key_len, found, sizeof(found), NULL), 0);
        assert_memory_equal(found, value, sizeof(value));
    }
    testing_close(&store);
    testing_drive_free(&drive);
}

static void there_may_be_nothing_to_take(void **state)
{
    (void)state;
    struct testing_drive drive = testing_made_store(KEYS, TARN_MODE_POWER, false);
    struct testing_drive before = testing_drive_copy(&drive);
    struct tarn_depot_growth growth;
    assert_int_equal(grow(&drive, 0, &growth), 0);
    assert_int_equal(growth.before_bytes, growth.after_bytes);
    assert_memory_equal(before.bytes, drive.bytes, drive.size);
    testing_drive_free(&before);
    testing_drive_free(&drive);
}

static void what_is_no_store_does_not_grow(void **state)
{
    (void)state;
    struct testing_drive drive = testing_drive_new(LARGER_BYTES), before = testing_drive_new(LARGER_BYTES);
    struct tarn_depot_growth growth;
    assert_int_equal(grow(&drive, 0, &growth), -EUCLEAN);
    assert_int_equal(grow(&drive, 2 * LARGER_BYTES, &growth), -EUCLEAN);
    assert_memory_equal(before.bytes, drive.bytes, drive.size);
    testing_drive_free(&before);
    testing_drive_free(&drive);
}

/* So that it never looks as if it could take a drive that it can never use. */
static void the_state_sets_a_limit(void **state)
{
    (void)state;
    struct testing_drive drive = testing_made_store(KEYS, TARN_MODE_POWER, false);
    struct tarn_depot_growth growth;
    assert_int_equal(grow(&drive, UINT64_C(1) << 40, &growth), -EFBIG);
    testing_drive_free(&drive);
}

/* ---- cut off --------------------------------------------------------------------------------------- */

/* @return whether it was cut */
static bool cut_and_go_on(struct testing_drive *old, uint64_t write, uint64_t sectors, int keys)
{
    struct testing_drive drive = testing_drive_copy(old), killed;
    struct tarn_depot_growth growth;
    testing_drive_fail_at(&drive, DRIVE_WRITE, write, true);
    drive.partial_bytes = sectors * DRIVE_SECTOR_BYTES;
    int error = grow(&drive, 0, &growth);
    assert_true(error == 0 || error == -EIO);
    testing_drive_fail_at(&drive, DRIVE_WRITE, 0, true);
    killed = testing_drive_copy(&drive);
    (void)open_and_expect(&drive, keys); /* as it is */
    expect_whole(&drive);
    assert_int_equal(grow(&drive, 0, &growth), 0);
    assert_int_equal(grow(&killed, 0, &growth), 0); /* again at once */
    assert_int_equal(testing_superblock(&killed).segment_count, testing_superblock(&drive).segment_count);
    expect_whole(&killed);
    (void)open_and_expect(&killed, keys);
    (void)open_and_expect(&drive, keys);
    testing_drive_free(&killed);
    testing_drive_free(&drive);
    return error != 0;
}

static void growing_may_be_cut_off(void **state)
{
    (void)state;
    struct testing_drive old = testing_made_store(KEYS, TARN_MODE_POWER, true);
    testing_drive_lengthen(&old, LARGER_BYTES, -1);
    bool cut = true;
    for (uint64_t write = 1; cut; write++) {
        for (uint64_t sectors = 0; sectors < 9; sectors += TESTING_SLOW ? 4 : 1)
            cut = cut_and_go_on(&old, write, sectors, KEYS);
    }
    testing_drive_free(&old);
}

/* 490 segments, whose freed stamps take a block, become 510, whose take two. */
static void the_state_becomes_longer(void **state)
{
    (void)state;
    const uint64_t segment_bytes = SEGLOG_SEGMENT_BYTES_MIN, many = 490, more = 510;
    const uint64_t before_bytes = 2 * 4096 + 4 * seglog_state_bytes(SEGLOG_GROWTH_TIMES * many, 4096);
    struct testing_drive drive = testing_drive_new(before_bytes + many * segment_bytes);
    struct testing_store store;
    struct tarn_node *node = testing_node(&drive, NULL);
    struct drive *opened;
    const struct seglog_format_options options = {
        .segment_bytes = segment_bytes, .owner_kind = SEGLOG_OWNER_DEPOT, .fill_owner = depot_owner_fill};
    assert_int_equal(drive_open(node, "store", &(struct drive_options){.direct = DRIVE_DIRECT_AUTO}, &opened),
                     0);
    assert_int_equal(seglog_format(node, opened, &options), 0);
    drive_close(opened);
    task_node_close(node);
    assert_int_equal(testing_superblock(&drive).segment_count, many);
    assert_int_equal(testing_superblock(&drive).state_bytes, 4096);
    for (int i = 0; i < 3; i++) { /* so that both pairs hold a state */
        testing_open(&store, &drive, NULL, TARN_MODE_POWER);
        testing_put_keys(&store, 0, 10, "value");
        drive = testing_end(&store, &drive, i % 2 == 0);
    }
    testing_drive_lengthen(&drive, before_bytes + more * segment_bytes, 0);
    static const uint64_t sectors[] = {9, 0, 1, 8, 16, 17, 31};
    const size_t tried = TESTING_SLOW ? 1 : base_array_count(sectors);
    bool cut = true;
    for (uint64_t write = 1; cut; write++) {
        for (size_t i = 0; i < tried; i++)
            cut = cut_and_go_on(&drive, write, sectors[i], 10);
    }
    grow_to(&drive, drive.size);
    assert_int_equal(testing_superblock(&drive).state_bytes, 8192);
    expect_whole(&drive);
    testing_drive_free(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_takes_the_rest_of_its_drive),
        cmocka_unit_test(what_is_new_is_used),
        cmocka_unit_test(there_may_be_nothing_to_take),
        cmocka_unit_test(what_is_no_store_does_not_grow),
        cmocka_unit_test(the_state_sets_a_limit),
        cmocka_unit_test(growing_may_be_cut_off),
        cmocka_unit_test(the_state_becomes_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
