/* What opening makes of superblocks and states: good, damaged, of the future, cut off while they were made.
 */
#include "depot/depot_format.h"
#include "depot/testing.h"

#define BLOCK TESTING_BLOCK_BYTES

/* A refusal must leave every byte as it was. */
static void expect_refusal(struct testing_drive *drive, int error)
{
    struct testing_drive before = testing_drive_copy(drive);
    assert_int_equal(testing_try_once(drive, TESTING_STORE_BYTES), error);
    assert_int_equal(testing_try_once(drive, 0), error);
    assert_memory_equal(drive->bytes, before.bytes, drive->size);
    testing_drive_free(&before);
}

static void what_is_no_store_is_left_alone(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    assert_int_equal(testing_try_once(&drive, 0), -ENOENT);
    assert_int_equal(testing_try_once(&drive, 100), -EINVAL);
    assert_false(drive.exists);
    struct testing_drive other = testing_made_store(1, TARN_MODE_POWER, true);
    memset(other.bytes, 0x5a, 2 * SEGLOG_SUPERBLOCK_BYTES);
    expect_refusal(&other, -EUCLEAN);
    testing_drive_free(&other);
}

static void a_blank_file_is_formatted_a_device_is_not(void **state)
{
    (void)state;
    struct testing_drive drive = testing_drive_new(TESTING_STORE_BYTES);
    assert_int_equal(testing_try_once(&drive, 0), -EUCLEAN);
    drive.device = true;
    expect_refusal(&drive, -EUCLEAN);
    drive.device = false;
    drive.bytes[drive.size - 1] = 1; /* somebody's, after all */
    expect_refusal(&drive, -EUCLEAN);
    drive.bytes[drive.size - 1] = 0;
    assert_int_equal(testing_try_once(&drive, TESTING_STORE_BYTES),
                     0); /* what an interrupted creation leaves */
    assert_int_equal(testing_try_once(&drive, 0), 0);
    testing_drive_free(&drive);
}

/* The end of the process at every write of making a store leaves none, or a whole one. */
static void making_a_store_may_be_cut_off(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_recording recording = {.count = 0};
    struct testing_store store;
    drive.recording = &recording;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    depot_testing_close(&store);
    for (size_t count = 0; count <= recording.count; count++) {
        struct testing_drive end = testing_drive_new(drive.size);
        for (size_t i = 0; i < count; i++)
            testing_write_play(&recording.writes[i], &end);
        assert_int_equal(testing_try_once(&end, TESTING_STORE_BYTES), 0);
        depot_testing_open(&store, &end, NULL, TARN_MODE_POWER);
        testing_put_keys(&store, 0, 3, "value");
        depot_testing_close(&store);
        testing_drive_free(&end);
    }
    testing_recording_free(&recording);
    testing_drive_free(&drive);
}

static void one_good_superblock_is_enough(void **state)
{
    (void)state;
    for (uint32_t copy = 0; copy < SEGLOG_SUPERBLOCK_COPIES; copy++) {
        struct testing_drive drive = testing_made_store(3, TARN_MODE_POWER, true);
        struct testing_store store;
        drive.bytes[copy * SEGLOG_SUPERBLOCK_BYTES + 20] ^= 1;
        depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
        testing_expect_keys(&store, 0, 3, "value");
        depot_testing_close(&store);
        drive.bytes[copy * SEGLOG_SUPERBLOCK_BYTES + 30] ^= 1;
        drive.bytes[(1 - copy) * SEGLOG_SUPERBLOCK_BYTES + 20] ^= 1;
        expect_refusal(&drive, -EUCLEAN);
        testing_drive_free(&drive);
    }
}

static void geometry_must_fit(void **state)
{
    (void)state;
    struct testing_drive drive = testing_made_store(3, TARN_MODE_POWER, true);
    struct seglog_superblock_format superblock = depot_testing_superblock(&drive);
    drive.size = superblock.store_bytes - BLOCK;
    expect_refusal(&drive, -EUCLEAN);
    drive.size = 16 * BLOCK;
    expect_refusal(&drive, -EUCLEAN);
    drive.size = TESTING_STORE_BYTES;
    drive.physical_block_bytes = 2 * BLOCK;
    expect_refusal(&drive, -ENOTSUP);
    drive.physical_block_bytes = BLOCK;
    assert_int_equal(testing_try_once(&drive, 0), 0);
    testing_drive_free(&drive);
}

static void store_superblock(struct testing_drive *drive, const struct seglog_superblock_format *superblock)
{
    for (uint32_t copy = 0; copy < SEGLOG_SUPERBLOCK_COPIES; copy++)
        memcpy(drive->bytes + copy * SEGLOG_SUPERBLOCK_BYTES, superblock, sizeof(*superblock));
}

static void superblocks_of_the_future_are_refused(void **state)
{
    (void)state;
    struct testing_drive drive = testing_made_store(0, TARN_MODE_POWER, true);
    const struct seglog_superblock_format superblock = depot_testing_superblock(&drive);
    const struct {
        size_t offset, bytes;
        uint64_t value;
        int error;
    } changes[] = {
        {offsetof(struct seglog_superblock_format, incompatible), 8, SEGLOG_FEATURES + 1, -ENOTSUP},
        {offsetof(struct seglog_superblock_format, read_only_compatible), 8, 1, -ENOTSUP},
        {offsetof(struct seglog_superblock_format, owner_kind), 4, 2, 0},
        {offsetof(struct seglog_superblock_format, block_bytes), 4, 3000, -EUCLEAN},
        {offsetof(struct seglog_superblock_format, block_bytes), 4, 512, -EUCLEAN},
        {offsetof(struct seglog_superblock_format, grain_bytes), 4, 0, -EUCLEAN},
        {offsetof(struct seglog_superblock_format, grain_bytes), 4, 48, -EUCLEAN},
        {offsetof(struct seglog_superblock_format, segment_bytes), 8, 4096, -EUCLEAN},
        {offsetof(struct seglog_superblock_format, segment_count), 4, 1, -EUCLEAN},
        {offsetof(struct seglog_superblock_format, segment_count), 4, UINT32_MAX, -EUCLEAN},
        {offsetof(struct seglog_superblock_format, data_offset), 8, 4096, -EUCLEAN},
        {offsetof(struct seglog_superblock_format, state_offset), 8, 1, -EUCLEAN},
        {offsetof(struct seglog_superblock_format, state_bytes), 8, 0, -EUCLEAN},
        {offsetof(struct seglog_superblock_format, store_bytes), 8, 4096, -EUCLEAN},
        {offsetof(struct seglog_superblock_format, store_bytes), 8, UINT64_MAX, -EUCLEAN},
        {offsetof(struct seglog_superblock_format, record_bytes_max), 4, UINT32_MAX, -EUCLEAN},
    };
    for (size_t i = 0; i < base_array_count(changes); i++) {
        struct seglog_superblock_format wrong = superblock;
        memcpy((uint8_t *)&wrong + changes[i].offset, &changes[i].value, changes[i].bytes);
        seglog_superblock_seal(&wrong);
        store_superblock(&drive, &wrong);
        int error = testing_try_once(&drive, 0);
        assert_true(changes[i].error == 0 ? error == -ENOTSUP || error == -EUCLEAN
                                          : error == changes[i].error);
        expect_refusal(&drive, error);
    }
    struct seglog_superblock_format newer = superblock;
    newer.compatible = 1; /* may be unknown */
    seglog_superblock_seal(&newer);
    store_superblock(&drive, &newer);
    assert_int_equal(testing_try_once(&drive, 0), 0);
    testing_drive_free(&drive);
}

/* Of the four slots any good one of the newest generation is enough; without any nothing is touched. */
static void one_good_state_is_enough(void **state)
{
    (void)state;
    for (uint32_t good = 0; good < 3; good++) {
        struct testing_drive drive = testing_made_store(3, TARN_MODE_POWER, true);
        struct seglog_superblock_format superblock = depot_testing_superblock(&drive);
        uint64_t newest = 0;
        for (uint32_t slot = 0; slot < SEGLOG_STATE_SLOTS; slot++) {
            const struct seglog_state_format *at =
                (const void *)(drive.bytes + superblock.state_offset + slot * superblock.state_bytes);
            newest = base_max(newest, at->generation);
        }
        for (uint32_t slot = 0, copies = 0; slot < SEGLOG_STATE_SLOTS; slot++) {
            struct seglog_state_format *at =
                (void *)(drive.bytes + superblock.state_offset + slot * superblock.state_bytes);
            bool is_newest = at->generation == newest;
            if (good == 2 || (is_newest && copies != good))
                at->flags ^= 1;
            copies += is_newest;
        }
        if (good == 2) {
            expect_refusal(&drive, -EUCLEAN);
        } else {
            struct testing_store store;
            depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
            testing_expect_keys(&store, 0, 3, "value");
            depot_testing_close(&store);
        }
        testing_drive_free(&drive);
    }
}

/* Addresses have room for four times the store, or twice, where that costs little; and are possible for it. */
static void widths_have_room_to_grow(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        uint32_t grain_bytes;
        uint8_t address_bits, table_bits;
    } expected[] = {
        {UINT64_C(2) << 20, 64, 20, 13},          {(UINT64_C(64) << 20) - 64, 64, 22, 13},
        {(UINT64_C(16) << 30) - 64, 64, 30, 18},  {(UINT64_C(64) << 30) - 64, 64, 32, 22},
        {UINT64_C(65) << 30, 64, 32, 22},         {(UINT64_C(256) << 30) - 64, 64, 33, 24},
        {UINT64_C(257) << 30, 64, 33, 24},        {(UINT64_C(1) << 40) - 64, 64, 34, 26},
        {(UINT64_C(1) << 40) - 512, 512, 33, 24},
    };
    for (size_t i = 0; i < base_array_count(expected); i++) {
        struct seglog_superblock_format superblock = {.grain_bytes = expected[i].grain_bytes,
                                                      .store_bytes = expected[i].bytes};
        struct depot_index_widths widths;
        assert_int_equal(depot_owner_fill(&superblock), 0);
        assert_int_equal(depot_owner_parse(&superblock, &widths), 0);
        assert_int_equal(widths.address_bits, expected[i].address_bits);
        assert_int_equal(widths.table_bits, expected[i].table_bits);
        const uint64_t most = depot_index_grains_most(&widths);
        assert_true(depot_index_widths_valid(&widths, most));
        assert_false(depot_index_widths_valid(&widths, most + 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_store_is_left_alone),
        cmocka_unit_test(a_blank_file_is_formatted_a_device_is_not),
        cmocka_unit_test(making_a_store_may_be_cut_off),
        cmocka_unit_test(one_good_superblock_is_enough),
        cmocka_unit_test(geometry_must_fit),
        cmocka_unit_test(superblocks_of_the_future_are_refused),
        cmocka_unit_test(one_good_state_is_enough),
        cmocka_unit_test(widths_have_room_to_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
