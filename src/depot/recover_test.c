/*
 * Does a store come back right, whatever was on its way, and does it say so when it cannot? Superblocks,
 * torn tails, tails that were hidden once, damage in the middle and in single records.
 */
#include "depot/testing.h"

#define BLOCK TESTING_BLOCK_BYTES

/* Stores of a few keys "0", "1", …, each put in a group of its own: key i lies in block i of the log. */
static void put_keys(struct testing_store *store, int begin, int end, const char *value)
{
    for (int i = begin; i < end; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%d", i);
        assert_int_equal(testing_put(store, key, value), 0);
    }
}

static void expect_keys(struct testing_store *store, int begin, int end, const char *value)
{
    for (int i = begin; i < end; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%d", i);
        testing_expect(store, key, value);
    }
}

static uint8_t *log_block(struct testing_drive *drive, int block)
{
    return drive->bytes + TESTING_LOG_OFFSET + (uint64_t)block * BLOCK;
}

/* A store with `keys` keys, whose process died. */
static struct testing_drive killed_store(int keys, enum tarn_mode mode)
{
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    testing_open(&store, &drive, NULL, mode);
    put_keys(&store, 0, keys, "value");
    struct testing_drive copy = testing_drive_copy(&drive);
    testing_close(&store);
    testing_drive_free(&drive);
    return copy;
}

static int try_open(struct testing_drive *drive, uint64_t create_bytes)
{
    const struct tarn_depot_options options = {.create_bytes = create_bytes};
    struct testing_store store;
    int error = testing_try_open(&store, drive, NULL, &options);
    if (error == 0)
        testing_close(&store);
    return error;
}

/* ---- superblocks -------------------------------------------------------------------------------- */

/* A refusal must leave every byte as it was. */
static void expect_refusal(struct testing_drive *drive, int error)
{
    struct testing_drive before = testing_drive_copy(drive);
    assert_int_equal(try_open(drive, TESTING_STORE_BYTES), error);
    assert_int_equal(try_open(drive, 0), error);
    assert_memory_equal(drive->bytes, before.bytes, drive->size);
    testing_drive_free(&before);
}

static void what_is_no_store_is_left_alone(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    assert_int_equal(try_open(&drive, 0), -ENOENT);
    assert_int_equal(try_open(&drive, 100), -EINVAL);
    assert_false(drive.exists);
    struct testing_drive other = killed_store(1, TARN_MODE_POWER);
    memset(other.bytes, 0x5a, TESTING_LOG_OFFSET);
    expect_refusal(&other, -EUCLEAN);
    memset(other.bytes, 0, TESTING_LOG_OFFSET); /* superblocks wiped, a log behind them */
    expect_refusal(&other, -EUCLEAN);
    testing_drive_free(&other);
}

static void a_blank_file_is_formatted_a_device_is_not(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = TESTING_STORE_BYTES, .exists = true};
    drive.bytes = calloc(1, drive.size);
    assert_non_null(drive.bytes);
    assert_int_equal(try_open(&drive, 0), -EUCLEAN);
    drive.device = true;
    expect_refusal(&drive, -EUCLEAN);
    drive.device = false;
    drive.bytes[drive.size - 1] = 1; /* somebody's, after all */
    expect_refusal(&drive, -EUCLEAN);
    drive.bytes[drive.size - 1] = 0;
    assert_int_equal(try_open(&drive, TESTING_STORE_BYTES), 0); /* what an interrupted creation leaves */
    assert_int_equal(try_open(&drive, 0), 0);
    testing_drive_free(&drive);
}

static void one_good_superblock_is_enough(void **state)
{
    (void)state;
    for (uint32_t copy = 0; copy < DEPOT_SUPERBLOCK_COPIES; copy++) {
        struct testing_drive drive = killed_store(3, TARN_MODE_POWER);
        struct testing_store store;
        uint8_t *damaged = drive.bytes + copy * DEPOT_SUPERBLOCK_BYTES;
        damaged[20] ^= 1;
        uint8_t evidence = damaged[20];
        testing_open(&store, &drive, NULL, TARN_MODE_POWER);
        expect_keys(&store, 0, 3, "value");
        testing_close(&store);
        assert_int_equal(damaged[20], evidence);
        drive.bytes[(1 - copy) * DEPOT_SUPERBLOCK_BYTES + 20] ^= 1;
        expect_refusal(&drive, -EUCLEAN);
        testing_drive_free(&drive);
    }
}

static void an_interrupted_formatting_is_finished(void **state)
{
    (void)state;
    for (uint32_t copy = 0; copy < DEPOT_SUPERBLOCK_COPIES; copy++) {
        struct testing_drive drive = killed_store(0, TARN_MODE_POWER);
        struct testing_drive whole = testing_drive_copy(&drive);
        memset(drive.bytes + copy * DEPOT_SUPERBLOCK_BYTES, 0, DEPOT_SUPERBLOCK_BYTES);
        assert_int_equal(try_open(&drive, 0), 0);
        assert_memory_equal(drive.bytes, whole.bytes, drive.size);
        testing_drive_free(&drive);
        testing_drive_free(&whole);
    }
}

static void geometry_must_fit(void **state)
{
    (void)state;
    struct testing_drive drive = killed_store(3, TARN_MODE_POWER);
    drive.size -= BLOCK;
    expect_refusal(&drive, -EUCLEAN);
    drive.size = BLOCK;
    expect_refusal(&drive, -EUCLEAN);
    drive.size = TESTING_STORE_BYTES;
    drive.physical_block_bytes = 2 * BLOCK;
    expect_refusal(&drive, -ENOTSUP);
    drive.physical_block_bytes = BLOCK;
    assert_int_equal(try_open(&drive, 0), 0);
    testing_drive_free(&drive);
}

static void superblocks_of_the_future_are_refused(void **state)
{
    (void)state;
    struct testing_drive drive = killed_store(0, TARN_MODE_POWER);
    struct depot_superblock_format superblock, wrong;
    const char *why = NULL;
    assert_int_equal(depot_superblock_parse(drive.bytes, &superblock, &why), 0);
    assert_null(why);
    const struct {
        size_t offset, bytes;
        uint64_t value;
    } changes[] = {
        {offsetof(struct depot_superblock_format, incompatible), 8, 1},
        {offsetof(struct depot_superblock_format, read_only_compatible), 8, 1},
        {offsetof(struct depot_superblock_format, block_bytes), 4, 3000},
        {offsetof(struct depot_superblock_format, block_bytes), 4, 512},
        {offsetof(struct depot_superblock_format, group_bytes), 4, 4096},
        {offsetof(struct depot_superblock_format, group_bytes), 4, 1u << 30},
        {offsetof(struct depot_superblock_format, log_offset), 8, 4096},
        {offsetof(struct depot_superblock_format, log_offset), 8, 1u << 30},
        {offsetof(struct depot_superblock_format, store_bytes), 8, 4096},
        {offsetof(struct depot_superblock_format, store_bytes), 8, UINT64_MAX},
    };
    for (size_t i = 0; i < base_array_count(changes); i++) {
        wrong = superblock;
        memcpy((uint8_t *)&wrong + changes[i].offset, &changes[i].value, changes[i].bytes);
        depot_superblock_seal(&wrong);
        memcpy(drive.bytes, &wrong, sizeof(wrong));
        memcpy(drive.bytes + DEPOT_SUPERBLOCK_BYTES, &wrong, sizeof(wrong));
        expect_refusal(&drive, -EUCLEAN);
        assert_non_null(depot_superblock_parse(&wrong, &wrong, &why) == -EUCLEAN ? why : NULL);
    }
    superblock.compatible = 1; /* may be unknown */
    depot_superblock_seal(&superblock);
    memcpy(drive.bytes, &superblock, sizeof(superblock));
    assert_int_equal(try_open(&drive, 0), 0);
    testing_drive_free(&drive);
}

/* ---- the end of the log -------------------------------------------------------------------------- */

static void a_killed_store_has_all(void **state)
{
    (void)state;
    struct testing_drive drive = killed_store(100, TARN_MODE_POWER);
    struct testing_store store;
    for (int round = 0; round < 3; round++) {
        testing_open(&store, &drive, NULL, TARN_MODE_POWER);
        expect_keys(&store, 0, 100, "value");
        testing_close(&store);
    }
    testing_drive_free(&drive);
}

/* The last group was cut off at any sector: what is before is there, and so is what is written after. */
static void torn_tails_are_cut_off(void **state)
{
    (void)state;
    char large[3000];
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    for (size_t sector = 0; sector < 6; sector++) {
        struct testing_drive drive = killed_store(5, TARN_MODE_POWER);
        struct testing_store store;
        testing_open(&store, &drive, NULL, TARN_MODE_POWER);
        put_keys(&store, 4, 5, large);
        struct testing_drive torn = testing_drive_copy(&drive);
        testing_close(&store);
        testing_drive_free(&drive);
        memset(log_block(&torn, 5) + sector * DRIVE_SECTOR_BYTES, 0, DRIVE_SECTOR_BYTES);
        testing_open(&store, &torn, NULL, TARN_MODE_POWER);
        expect_keys(&store, 0, 5, "value");
        put_keys(&store, 2, 3, "after");
        testing_close(&store);
        testing_open(&store, &torn, NULL, TARN_MODE_POWER);
        expect_keys(&store, 0, 2, "value");
        expect_keys(&store, 2, 3, "after");
        expect_keys(&store, 3, 5, "value");
        testing_close(&store);
        testing_drive_free(&torn);
    }
}

/*
 * In device mode a power cut may lose a group and keep those behind it. They are hidden, and stay so
 * when the log grows over the gap again, though they lie where the next groups would.
 */
static void what_was_hidden_stays_hidden(void **state)
{
    (void)state;
    struct testing_drive drive = killed_store(8, TARN_MODE_DEVICE);
    memset(log_block(&drive, 3), 0, BLOCK);
    struct testing_store store;
    for (int round = 0; round < 3; round++) {
        testing_open(&store, &drive, NULL, TARN_MODE_DEVICE);
        expect_keys(&store, 0, 3, "value");
        expect_keys(&store, 3, 8, NULL);
        assert_int_equal(testing_put(&store, "0", "value"), 0); /* of the same size as what lay there */
        struct testing_drive killed = testing_drive_copy(&drive);
        testing_close(&store);
        testing_drive_free(&drive);
        drive = killed;
    }
    testing_drive_free(&drive);
}

/* ---- damage -------------------------------------------------------------------------------------- */

/* Wherever a durable group is damaged while another lies behind it, the store does not open. */
static void damage_in_the_middle_is_no_end(void **state)
{
    (void)state;
    struct testing_drive drive = killed_store(6, TARN_MODE_POWER);
    const size_t used = sizeof(struct depot_group_format) + depot_record_bytes(1, 5);
    for (int block = 0; block < 5; block++) {
        for (size_t at = 0; at < used; at++) {
            if (at >= used - 2)
                continue; /* padding */
            log_block(&drive, block)[at] ^= 0x10;
            assert_int_equal(try_open(&drive, 0), -EBADMSG);
            log_block(&drive, block)[at] ^= 0x10;
        }
        uint8_t saved[BLOCK];
        memcpy(saved, log_block(&drive, block), BLOCK);
        memset(log_block(&drive, block), 0, BLOCK);
        expect_refusal(&drive, -EBADMSG);
        memcpy(log_block(&drive, block), saved, BLOCK);
    }
    assert_int_equal(try_open(&drive, 0), 0);
    testing_drive_free(&drive);
}

/* After a clean end the last group has another behind it as well, which says what was durable. */
static void damage_after_a_clean_end_is_seen(void **state)
{
    (void)state;
    enum tarn_mode modes[] = {TARN_MODE_POWER, TARN_MODE_DEVICE};
    for (size_t i = 0; i < base_array_count(modes); i++) {
        struct testing_drive drive = {.size = 0};
        struct testing_store store;
        testing_open(&store, &drive, NULL, modes[i]);
        put_keys(&store, 0, 3, "value");
        testing_close(&store);
        log_block(&drive, 2)[100] ^= 1;
        expect_refusal(&drive, -EBADMSG);
        log_block(&drive, 2)[100] ^= 1;
        log_block(&drive, 3)[8] ^= 1; /* the last group itself holds nothing */
        testing_open(&store, &drive, NULL, modes[i]);
        expect_keys(&store, 0, 3, "value");
        testing_close(&store);
        testing_drive_free(&drive);
    }
}

static void a_damaged_record_is_an_error_of_its_key(void **state)
{
    (void)state;
    struct testing_drive drive = killed_store(3, TARN_MODE_POWER);
    struct testing_store store;
    char value[16];
    testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    uint8_t *byte =
        log_block(&drive, 1) + sizeof(struct depot_group_format) + sizeof(struct depot_record_format) + 2;
    *byte ^= 1;
    memset(value, 7, sizeof(value));
    assert_int_equal(tarn_depot_get(store.depot, "1", 1, value, sizeof(value), NULL), -EBADMSG);
    expect_keys(&store, 0, 1, "value");
    expect_keys(&store, 2, 3, "value");
    *byte ^= 1;
    expect_keys(&store, 0, 3, "value");
    testing_close(&store);
    testing_drive_free(&drive);
}

/* A log longer than what is read at a time, with groups across those borders. */
static void long_logs_are_read_piece_by_piece(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    char value[2900];
    testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    for (int i = 0; i < 120; i++) {
        memset(value, 'a' + i % 26, sizeof(value) - 1);
        value[100 + (i * 977) % 2700] = '\0'; /* one or two blocks */
        put_keys(&store, i, i + 1, value);
    }
    char *large = malloc(50000);
    assert_non_null(large);
    memset(large, 'L', 49999);
    large[49999] = '\0';
    for (int i = 120; i < 124; i++)
        put_keys(&store, i, i + 1, large);
    struct tarn_depot_stats stats;
    tarn_depot_stats(store.depot, &stats);
    assert_true(stats.used_bytes > 5 * DEPOT_GROUP_BYTES_MIN);
    struct testing_drive copy = testing_drive_copy(&drive);
    testing_close(&store);
    testing_open(&store, &copy, NULL, TARN_MODE_POWER);
    for (int i = 0; i < 120; i++) {
        memset(value, 'a' + i % 26, sizeof(value) - 1);
        value[100 + (i * 977) % 2700] = '\0';
        expect_keys(&store, i, i + 1, value);
    }
    char *found = malloc(50000);
    assert_non_null(found);
    assert_int_equal(tarn_depot_get(store.depot, "123", 3, found, 50000, NULL), 0);
    assert_memory_equal(found, large, 49999);
    testing_close(&store);
    free(found);
    free(large);
    testing_drive_free(&copy);
    testing_drive_free(&drive);
}

/* A read that fails once is an error, one that lies once an error or nothing: keys are never missing. */
static void one_bad_read(int keys, bool lies)
{
    struct testing_drive drive = killed_store(keys, TARN_MODE_POWER);
    struct testing_store store;
    const struct tarn_depot_options existing = {.mode = TARN_MODE_POWER};
    drive.fail_op = DRIVE_READ;
    drive.lies = lies;
    for (uint64_t n = 1, left = 0; left == 0; n++) {
        atomic_store(&drive.fail_at, n);
        int error = testing_try_open(&store, &drive, NULL, &existing);
        left = atomic_exchange(&drive.fail_at, 0);
        if (error == 0) {
            expect_keys(&store, 0, keys, "value");
            testing_close(&store);
        }
        assert_true(left == 0 || error == 0);
        assert_true(left == 0 || n > 4); /* so many reads there are */
        if (left == 0)
            assert_true(lies ? error == 0 || error == -EUCLEAN || error == -EBADMSG : error == -EIO);
    }
    testing_drive_free(&drive);
}

static void one_bad_read_loses_nothing(void **state)
{
    (void)state;
    const int keys[] = {1, 2, 10};
    for (size_t i = 0; i < base_array_count(keys); i++) {
        one_bad_read(keys[i], false);
        one_bad_read(keys[i], true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_store_is_left_alone),
        cmocka_unit_test(a_blank_file_is_formatted_a_device_is_not),
        cmocka_unit_test(one_good_superblock_is_enough),
        cmocka_unit_test(an_interrupted_formatting_is_finished),
        cmocka_unit_test(geometry_must_fit),
        cmocka_unit_test(superblocks_of_the_future_are_refused),
        cmocka_unit_test(a_killed_store_has_all),
        cmocka_unit_test(torn_tails_are_cut_off),
        cmocka_unit_test(what_was_hidden_stays_hidden),
        cmocka_unit_test(damage_in_the_middle_is_no_end),
        cmocka_unit_test(damage_after_a_clean_end_is_seen),
        cmocka_unit_test(a_damaged_record_is_an_error_of_its_key),
        cmocka_unit_test(long_logs_are_read_piece_by_piece),
        cmocka_unit_test(one_bad_read_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
