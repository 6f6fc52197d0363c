/*
 * Does a store take what its drive has become larger by, closed or open, keep what is in it, and leave a drive
 * alone that is none? Growing is cut off at every write, with any of its sectors; of an open store everything that
 * it asks for fails once.
 */
#include "depot/check/testing.h"
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
    uint64_t before_bytes = depot_testing_superblock(drive).store_bytes;
    assert_int_equal(grow(drive, 0, &growth), 0);
    assert_int_equal(growth.before_bytes, before_bytes);
    assert_true(growth.after_bytes <= after_bytes);
    assert_true(growth.after_bytes + depot_testing_superblock(drive).segment_bytes > after_bytes);
    assert_int_equal(growth.after_bytes, depot_testing_superblock(drive).store_bytes);
}

/* Where new segments will be there are segments of this store already, as if it had been larger once. Their headers
 * have other numbers; their trailers fit. */
static void repeat_segments(struct testing_drive *drive, uint64_t bytes)
{
    const struct seglog_superblock_format superblock = depot_testing_superblock(drive);
    uint64_t offset = superblock.store_bytes;
    for (uint64_t i = 0; offset + superblock.segment_bytes <= bytes; i++, offset += superblock.segment_bytes)
        memcpy(drive->bytes + offset,
               drive->bytes + superblock.data_offset +
                   i % superblock.segment_count * superblock.segment_bytes,
               superblock.segment_bytes);
}

static void expect_whole(struct testing_drive *drive)
{
    struct told told;
    struct depot_check_report report = {.faults = 0};
    assert_int_equal(depot_testing_check(drive, NULL, &told, &report), 0);
    assert_string_equal(told.last, "");
}

static uint64_t open_and_expect(struct testing_drive *drive, int keys)
{
    struct testing_store store;
    struct tarn_depot_stats stats;
    depot_testing_open(&store, drive, NULL, TARN_MODE_POWER);
    testing_expect_keys(&store, 0, keys, "value");
    tarn_depot_stats(store.depot, &stats);
    depot_testing_close(&store);
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
            if (fillings[i] < 0)
                repeat_segments(&drive, LARGER_BYTES);
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
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    for (uint32_t i = 0; i < 1000; i++) {
        char key[16];
        int key_len = snprintf(key, sizeof(key), "long %u", i % 150);
        memset(value, (int)i, sizeof(value));
        assert_int_equal(tarn_depot_put(store.depot, key, (size_t)key_len, value, sizeof(value), NULL, NULL),
                         0);
    }
    drive = depot_testing_end(&store, &drive, true);
    expect_whole(&drive);
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    testing_expect_keys(&store, 0, KEYS, "value");
    for (uint32_t i = 850; i < 1000; i++) {
        static uint8_t found[sizeof(value)];
        char key[16];
        int key_len = snprintf(key, sizeof(key), "long %u", i % 150);
        memset(value, (int)i, sizeof(value));
        assert_int_equal(tarn_depot_get(store.depot, key, (size_t)key_len, found, sizeof(found), NULL), 0);
        assert_memory_equal(found, value, sizeof(value));
    }
    depot_testing_close(&store);
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

/* Let a store grow that nobody has open, as long as writes succeed. */
static int grow_closed(struct testing_drive *drive, uint64_t write)
{
    struct tarn_depot_growth growth;
    testing_drive_fail_at(drive, DRIVE_WRITE, write, true);
    int error = grow(drive, 0, &growth);
    testing_drive_fail_at(drive, DRIVE_WRITE, 0, true);
    return error;
}

/* Let a store grow that was opened when its drive was shorter, likewise; then its process dies. */
static int grow_opened(struct testing_drive *drive, uint64_t write)
{
    struct tarn_depot_growth growth;
    struct testing_store store;
    const uint64_t longer = drive->size;
    drive->size = depot_testing_superblock(drive).store_bytes;
    depot_testing_open(&store, drive, NULL, TARN_MODE_POWER);
    drive->size = longer;
    const uint64_t partial_bytes = drive->partial_bytes;
    testing_drive_fail_at(drive, DRIVE_WRITE, write, true);
    drive->partial_bytes = partial_bytes;
    int error = tarn_depot_extend(store.depot, &growth);
    testing_drive_fail_at(drive, DRIVE_WRITE, 0, true);
    depot_testing_expect(&store, "1", "value"); /* read it can be in any case */
    struct testing_drive killed = testing_drive_copy(drive);
    int put_error = depot_testing_put(&store, "new", "value");
    assert_int_equal(put_error, depot_failed(store.depot) ? -EROFS : 0);
    assert_true(error != 0 || put_error == 0);
    (void)tarn_depot_close(store.depot);
    task_node_close(store.node);
    testing_drive_free(drive);
    *drive = killed;
    return error;
}

typedef int (*grow_function)(struct testing_drive *drive, uint64_t write);

/* @return whether it was cut */
static bool cut_and_go_on(struct testing_drive *old, grow_function grow_it, uint64_t write, uint64_t sectors,
                          int keys)
{
    struct testing_drive drive = testing_drive_copy(old), killed;
    struct tarn_depot_growth growth;
    drive.partial_bytes = sectors * DRIVE_SECTOR_BYTES;
    int error = grow_it(&drive, write);
    assert_true(error == 0 || error == -EIO);
    expect_whole(&drive); /* also where it was cut off */
    const struct seglog_superblock_format superblock = depot_testing_superblock(&drive);
    for (uint64_t slot = 0; slot < SEGLOG_STATE_SLOTS && error == 0; slot++) { /* of its length now */
        const uint8_t *at = drive.bytes + seglog_state_slot_offset(&superblock, slot);
        assert_int_equal(seglog_state_verify((const void *)at, &superblock), 0);
    }
    killed = testing_drive_copy(&drive);
    (void)open_and_expect(&drive, keys); /* as it is */
    expect_whole(&drive);
    assert_int_equal(grow(&drive, 0, &growth), 0);
    assert_int_equal(grow(&killed, 0, &growth), 0); /* again at once */
    assert_int_equal(depot_testing_superblock(&killed).segment_count,
                     depot_testing_superblock(&drive).segment_count);
    expect_whole(&killed);
    (void)open_and_expect(&killed, keys);
    (void)open_and_expect(&drive, keys);
    testing_drive_free(&killed);
    testing_drive_free(&drive);
    return error != 0;
}

static const grow_function ways[] = {grow_closed, grow_opened};

static void growing_may_be_cut_off(void **state)
{
    (void)state;
    struct testing_drive old = testing_made_store(KEYS, TARN_MODE_POWER, true);
    testing_drive_lengthen(&old, LARGER_BYTES, -1);
    repeat_segments(&old, LARGER_BYTES);
    for (size_t way = 0; way < base_array_count(ways); way++) {
        bool cut = true;
        for (uint64_t write = 1; cut; write += TESTING_SLOW ? 3 : 1) {
            for (uint64_t sectors = 0; sectors < 9; sectors += TESTING_SLOW ? 4 : 1)
                cut = cut_and_go_on(&old, ways[way], write, sectors, KEYS);
        }
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
    assert_int_equal(depot_testing_superblock(&drive).segment_count, many);
    assert_int_equal(depot_testing_superblock(&drive).state_bytes, 4096);
    for (int i = 0; i < 3; i++) { /* so that both pairs hold a state */
        depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
        testing_put_keys(&store, 0, 10, "value");
        drive = depot_testing_end(&store, &drive, i % 2 == 0);
    }
    testing_drive_lengthen(&drive, before_bytes + more * segment_bytes, 0);
    static const uint64_t sectors[] = {9, 0, 1, 8, 16, 17, 31};
    const size_t tried = TESTING_SLOW ? 1 : base_array_count(sectors);
    for (size_t way = 0; way < base_array_count(ways); way++) {
        bool cut = true;
        for (uint64_t write = 1; cut; write += TESTING_SLOW ? 3 : 1) {
            for (size_t i = 0; i < tried; i++)
                cut = cut_and_go_on(&drive, ways[way], write, sectors[i], 10);
        }
    }
    grow_to(&drive, drive.size);
    assert_int_equal(depot_testing_superblock(&drive).state_bytes, 8192);
    expect_whole(&drive);
    testing_drive_free(&drive);
}

/* ---- while it is open -------------------------------------------------------------------------------- */

/* A store in the first part of a drive that is longer. @param filling  what the rest of the drive is */
static void open_in_longer(struct testing_store *store, struct testing_drive *drive, int filling)
{
    *drive = testing_made_store(KEYS, TARN_MODE_POWER, false);
    testing_drive_keep_room(drive, LARGER_BYTES, filling);
    if (filling < 0)
        repeat_segments(drive, LARGER_BYTES);
    depot_testing_open(store, drive, NULL, TARN_MODE_POWER);
}

static uint64_t capacity_of(struct testing_store *store)
{
    struct tarn_depot_stats stats;
    tarn_depot_stats(store->depot, &stats);
    return stats.capacity_bytes;
}

/* Put long values until there is no room. @return the number behind the last */
static int fill(struct testing_store *store, int from)
{
    static char value[20000];
    int number = from, error = 0;
    memset(value, 'v', sizeof(value));
    for (; error == 0; number++) {
        char key[16];
        int key_len = snprintf(key, sizeof(key), "fill %d", number);
        error = tarn_depot_put(store->depot, key, (size_t)key_len, value, sizeof(value), NULL, NULL);
    }
    assert_int_equal(error, -ENOSPC);
    return number - 1;
}

static void expect_filled(struct testing_store *store, int count)
{
    for (int number = 0; number < count; number++) {
        char key[16];
        struct tarn_record_info info;
        static char value[20000];
        int key_len = snprintf(key, sizeof(key), "fill %d", number);
        assert_int_equal(tarn_depot_get(store->depot, key, (size_t)key_len, value, sizeof(value), &info), 0);
        assert_int_equal(info.value_bytes, sizeof(value));
    }
}

/* Not by itself; when it is asked to, at once, and it stays so. */
static void a_full_store_takes_more_while_it_is_open(void **state)
{
    (void)state;
    static const int fillings[] = {0, 0xee, -1};
    for (size_t i = 0; i < base_array_count(fillings); i++) {
        struct testing_drive drive;
        struct testing_store store;
        struct tarn_depot_growth growth;
        open_in_longer(&store, &drive, fillings[i]);
        const uint64_t before = capacity_of(&store);
        int filled = fill(&store, 0);
        assert_int_equal(tarn_depot_extend(store.depot, &growth), 0);
        assert_int_equal(growth.after_bytes, growth.before_bytes);
        drive.size = LARGER_BYTES;
        assert_int_equal(depot_testing_put(&store, "one more", "value"), 0); /* small */
        assert_int_equal(fill(&store, filled), filled);
        assert_int_equal(tarn_depot_extend(store.depot, &growth), 0);
        assert_int_equal(growth.after_bytes, depot_testing_superblock(&drive).store_bytes);
        assert_true(growth.after_bytes > 2 * growth.before_bytes);
        assert_true(capacity_of(&store) > 3 * before);
        filled = fill(&store, filled);
        assert_true((uint64_t)filled * 20000 > 2 * before);
        expect_filled(&store, filled);
        drive = depot_testing_end(&store, &drive, i == 0);
        expect_whole(&drive);
        depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
        assert_true(capacity_of(&store) > 3 * before);
        expect_filled(&store, filled);
        testing_expect_keys(&store, 0, KEYS, "value");
        depot_testing_close(&store);
        expect_whole(&drive);
        testing_drive_free(&drive);
    }
}

static void who_only_reads_lets_nothing_grow(void **state)
{
    (void)state;
    struct testing_drive drive = testing_made_store(KEYS, TARN_MODE_POWER, false);
    struct testing_store store;
    struct tarn_depot_growth growth;
    testing_drive_keep_room(&drive, LARGER_BYTES, 0);
    assert_int_equal(testing_try_open(&store, &drive, NULL, &(struct tarn_depot_options){.read_only = true}),
                     0);
    drive.size = LARGER_BYTES;
    assert_int_equal(tarn_depot_extend(store.depot, &growth), -EROFS);
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

/* What fails before anything was written leaves it as it was, and it can be asked again. */
static void expect_unchanged(struct testing_store *store, struct testing_drive *drive, uint64_t capacity)
{
    assert_int_equal(capacity_of(store), capacity);
    assert_true(depot_testing_superblock(drive).store_bytes <= TESTING_STORE_BYTES);
    assert_int_equal(depot_testing_put(store, "again", "value"), 0);
    depot_testing_expect(store, "again", "value");
}

static void too_little_memory_changes_nothing(void **state)
{
    (void)state;
    struct testing_drive drive;
    struct testing_store store;
    struct tarn_depot_growth growth;
    open_in_longer(&store, &drive, 0xee);
    const uint64_t capacity = capacity_of(&store), used = base_account_used(&store.node->memory);
    drive.size = LARGER_BYTES;
    int error = -ENOMEM, failures = -1;
    for (uint64_t n = 1; error == -ENOMEM; n++, failures++) {
        expect_unchanged(&store, &drive, capacity);
        assert_int_equal(base_account_used(&store.node->memory), used);
        base_account_fail_at(&store.node->memory, n);
        error = tarn_depot_extend(store.depot, &growth);
        base_account_fail_at(&store.node->memory, 0);
    }
    assert_int_equal(error, 0);
    assert_in_range(failures, 2, 10);
    assert_true(capacity_of(&store) > 3 * capacity);
    depot_testing_close(&store);
    expect_whole(&drive);
    testing_drive_free(&drive);
}

static void a_failed_read_changes_nothing(void **state)
{
    (void)state;
    struct testing_drive drive;
    struct testing_store store;
    struct tarn_depot_growth growth;
    open_in_longer(&store, &drive, 0xee);
    const uint64_t capacity = capacity_of(&store);
    drive.size = LARGER_BYTES;
    for (uint64_t n = 1; n <= 2 * 20; n += 13) {
        testing_drive_fail_at(&drive, DRIVE_READ, n, true);
        assert_int_equal(tarn_depot_extend(store.depot, &growth), -EIO);
        testing_drive_fail_at(&drive, DRIVE_READ, 0, true);
        expect_unchanged(&store, &drive, capacity);
    }
    /* the zeros that earlier attempts have written are not durable yet */
    const uint64_t flushes = atomic_load(&drive.flushes);
    assert_int_equal(tarn_depot_extend(store.depot, &growth), 0);
    assert_true(atomic_load(&drive.flushes) > flushes);
    depot_testing_close(&store);
    expect_whole(&drive);
    testing_drive_free(&drive);
}

/* It is the one of what new segments begin and end with, and of the drive's length. */
static void a_failed_flush_ends_all_writing(void **state)
{
    (void)state;
    struct testing_drive drive;
    struct testing_store store;
    struct tarn_depot_growth growth;
    open_in_longer(&store, &drive, 0xee);
    drive.size = LARGER_BYTES;
    testing_drive_fail_at(&drive, DRIVE_FLUSH, 1, true);
    assert_int_equal(tarn_depot_extend(store.depot, &growth), -EIO);
    testing_drive_fail_at(&drive, DRIVE_FLUSH, 0, true);
    assert_int_equal(depot_testing_put(&store, "a", "b"), -EROFS);
    assert_int_equal(tarn_depot_extend(store.depot, &growth), -EROFS);
    testing_expect_keys(&store, 0, KEYS, "value");
    assert_int_not_equal(tarn_depot_close(store.depot), 0);
    task_node_close(store.node);
    (void)open_and_expect(&drive, KEYS);
    expect_whole(&drive);
    testing_drive_free(&drive);
}

/* The log's last line of a kind has a text. */
static void expect_line(const char *line, const char *text)
{
    if (strstr(line, text) == NULL)
        fail_msg("there is no \"%s\" in: %s", text, line);
}

#define HUGE_BYTES (UINT64_C(70) << 20)

/* Grains of 32 bytes: 20 bits of address are 32 MiB. The state has room for some 62 MiB. */
static void addresses_and_the_state_set_limits(void **state)
{
    (void)state;
    struct testing_drive drive = testing_drive_new(TESTING_STORE_BYTES);
    static struct testing_lines lines;
    struct tarn_node *node = testing_node_with_lines(&drive, NULL, &lines);
    struct tarn_depot *depot;
    struct tarn_depot_growth growth;
    assert_int_equal(tarn_depot_format(node, "store", &(struct tarn_format_options){.grain_bytes = 32}), 0);
    testing_drive_keep_room(&drive, HUGE_BYTES, 0);
    assert_int_equal(tarn_depot_open(node, "store", NULL, &depot), 0);
    drive.size = HUGE_BYTES;
    assert_int_equal(tarn_depot_extend(depot, &growth), 0); /* as far as it goes */
    assert_in_range(growth.after_bytes, UINT64_C(31) << 20, UINT64_C(32) << 20);
    expect_line(lines.warn, "tarn grow");
    assert_int_equal(tarn_depot_extend(depot, &growth), -EFBIG);
    assert_int_equal(tarn_depot_put(depot, "a", 1, "b", 1, NULL, NULL), 0);
    assert_int_equal(tarn_depot_close(depot), 0);
    expect_whole(&drive);
    assert_int_equal(tarn_depot_grow(node, "store", 0, &growth), 0);
    assert_in_range(growth.after_bytes, UINT64_C(61) << 20, UINT64_C(63) << 20);
    assert_int_equal(tarn_depot_open(node, "store", NULL, &depot), 0);
    assert_int_equal(tarn_depot_extend(depot, &growth), -EFBIG);
    expect_line(lines.warn, "as large as it can become");
    char found;
    assert_int_equal(tarn_depot_get(depot, "a", 1, &found, 1, NULL), 0);
    assert_int_equal(tarn_depot_close(depot), 0);
    expect_whole(&drive);
    task_node_close(node);
    testing_drive_free(&drive);
}

static uint32_t checkpoints_for_a_start(struct testing_drive *killed)
{
    struct testing_store store;
    struct tarn_depot_stats stats;
    depot_testing_open(&store, killed, NULL, TARN_MODE_POWER);
    tarn_depot_stats(store.depot, &stats);
    testing_expect_keys(&store, 0, KEYS, "value");
    depot_testing_close(&store);
    testing_drive_free(killed);
    return stats.checkpoints_kept;
}

/* Those that there are are void; one is made soon, though nothing is written. */
static void a_checkpoint_follows(void **state)
{
    (void)state;
    struct testing_drive drive = testing_made_store(KEYS, TARN_MODE_POWER, false), killed;
    struct testing_store store;
    struct tarn_depot_growth growth;
    struct tarn_depot_stats stats;
    testing_drive_keep_room(&drive, LARGER_BYTES, 0);
    assert_int_equal(testing_try_open(&store, &drive, NULL,
                                      &(struct tarn_depot_options){.checkpoint_rate_bytes = 1U << 30}),
                     0);
    drive.size = LARGER_BYTES;
    tarn_depot_stats(store.depot, &stats);
    assert_int_equal(stats.checkpoints, 0);
    assert_int_equal(stats.checkpoints_kept, 1);
    assert_int_equal(tarn_depot_extend(store.depot, &growth), 0);
    while (stats.checkpoints == 0) {
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        tarn_depot_stats(store.depot, &stats);
    }
    killed = testing_drive_copy(&drive);
    depot_testing_close(&store);
    assert_true(checkpoints_for_a_start(&killed) > 0);
    testing_drive_free(&drive);

    drive = testing_made_store(KEYS, TARN_MODE_POWER, false);
    testing_drive_keep_room(&drive, LARGER_BYTES, 0);
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER); /* which makes none while it runs */
    drive.size = LARGER_BYTES;
    assert_int_equal(tarn_depot_extend(store.depot, &growth), 0);
    killed = testing_drive_copy(&drive);
    depot_testing_close(&store);
    assert_int_equal(checkpoints_for_a_start(&killed), 0);
    assert_true(checkpoints_for_a_start(&drive) > 0); /* it was closed in good order, and has changed */
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
        cmocka_unit_test(a_full_store_takes_more_while_it_is_open),
        cmocka_unit_test(who_only_reads_lets_nothing_grow),
        cmocka_unit_test(too_little_memory_changes_nothing),
        cmocka_unit_test(a_failed_read_changes_nothing),
        cmocka_unit_test(a_failed_flush_ends_all_writing),
        cmocka_unit_test(addresses_and_the_state_set_limits),
        cmocka_unit_test(a_checkpoint_follows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
