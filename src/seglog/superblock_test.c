/*
 * Which drives are stores, how does one become a store of the right shape, and is everything else left alone?
 * Making a store is cut off and fails at every point.
 */
#include "seglog/testing.h"

static const struct seglog_format_options depot_options = {.owner_kind = SEGLOG_OWNER_DEPOT};

/* ---- geometry ------------------------------------------------------------------------------------- */

/* What formatting makes of a drive; the areas fill it but for less than a segment. */
static struct seglog_superblock_format geometry(uint64_t drive_bytes, uint32_t physical_block_bytes,
                                                const struct seglog_format_options *options)
{
    struct testing_drive drive = {
        .size = drive_bytes, .exists = true, .physical_block_bytes = physical_block_bytes};
    drive.bytes = calloc(1, drive_bytes);
    assert_non_null(drive.bytes);
    assert_int_equal(testing_format(&drive, options), 0);
    struct seglog_superblock_format superblock = testing_superblock(&drive);
    assert_true(superblock.store_bytes <= drive_bytes);
    /* One segment more would not have fit, with its place in the state. */
    uint64_t more = superblock.state_offset +
                    4 * seglog_state_bytes(superblock.segment_count + UINT64_C(1), superblock.block_bytes) +
                    (superblock.segment_count + UINT64_C(1)) * superblock.segment_bytes;
    assert_true(more > drive_bytes);
    struct testing_log log;
    testing_log_open(&log, &drive, false);
    testing_log_close(&log);
    testing_drive_free(&drive);
    return superblock;
}

static int format_of(uint64_t drive_bytes, uint32_t physical_block_bytes,
                     const struct seglog_format_options *options, const char *why)
{
    struct testing_drive drive = testing_drive_new(drive_bytes);
    drive.physical_block_bytes = physical_block_bytes;
    struct testing_log log;
    testing_drive_start(&log, &drive);
    int error = seglog_format(log.node, log.drive, options);
    if (error != 0)
        assert_non_null(strstr(log.lines.error, why));
    testing_drive_stop(&log);
    for (uint64_t i = 0; error != 0 && i < drive_bytes; i++)
        assert_int_equal(drive.bytes[i], 0);
    testing_drive_free(&drive);
    return error;
}

static void the_smallest_store(void **state)
{
    (void)state;
    const uint64_t least = TESTING_STORE_BYTES;
    struct seglog_superblock_format superblock = geometry(least, 0, &depot_options);
    assert_int_equal(superblock.segment_count, SEGLOG_SEGMENTS_MIN);
    assert_int_equal(superblock.segment_bytes, SEGLOG_SEGMENT_BYTES_MIN);
    assert_int_equal(superblock.block_bytes, 4096);
    assert_int_equal(superblock.grain_bytes, SEGLOG_GRAIN_BYTES);
    assert_int_equal(superblock.store_bytes, least);
    assert_int_equal(superblock.record_bytes_max, SEGLOG_SEGMENT_BYTES_MIN - 64 - 4096);
    assert_int_equal(format_of(least - 4096, 0, &depot_options, "least=1560K"), -EINVAL);
    assert_int_equal(format_of(65536, 0, &depot_options, "least=1560K"), -EINVAL);
    const struct seglog_format_options large = {.segment_bytes = UINT64_C(1) << 20};
    assert_int_equal(format_of(UINT64_C(12) << 20, 0, &large, "least=12312K"), -EINVAL);
    assert_int_equal(format_of((UINT64_C(12) << 20) + 6 * 4096, 0, &large, ""), 0);
}

static void segments_are_as_large_as_leaves_enough(void **state)
{
    (void)state;
    const uint64_t segment = SEGLOG_SEGMENT_BYTES_MIN;
    /* Exact multiples, one block more, one block less: none is a special case. */
    for (uint64_t blocks = 0; blocks < 3; blocks++) {
        struct seglog_superblock_format superblock =
            geometry(32 * segment + (blocks - 1) * 4096, 0, &depot_options);
        assert_int_equal(superblock.segment_bytes, segment);
        assert_int_equal(superblock.segment_count, 31);
    }
    struct seglog_superblock_format superblock = geometry(32 * segment + 6 * 4096, 0, &depot_options);
    assert_int_equal(superblock.segment_count, 32);
    superblock = geometry(2 * SEGLOG_SEGMENTS_WANTED_SMALL * segment + 5 * 4096, 0, &depot_options);
    assert_int_equal(superblock.segment_bytes, segment);
    assert_int_equal(superblock.segment_count, 2 * SEGLOG_SEGMENTS_WANTED_SMALL - 1);
    superblock = geometry(2 * SEGLOG_SEGMENTS_WANTED_SMALL * segment + 6 * 4096, 0, &depot_options);
    assert_int_equal(superblock.segment_bytes, 2 * segment);
    assert_int_equal(superblock.segment_count, SEGLOG_SEGMENTS_WANTED_SMALL);
    const uint64_t small = SEGLOG_SEGMENT_BYTES_SMALL;
    superblock = geometry(SEGLOG_SEGMENTS_WANTED * 2 * small, 0, &depot_options);
    assert_int_equal(superblock.segment_bytes, small); /* one too few of the next size */
    superblock = geometry(SEGLOG_SEGMENTS_WANTED * 2 * small + small, 0, &depot_options);
    assert_int_equal(superblock.segment_bytes, 2 * small);
    assert_int_equal(superblock.segment_count, SEGLOG_SEGMENTS_WANTED);
    superblock = geometry(
        64 * segment, 0,
        &(struct seglog_format_options){.segment_bytes = 4 * segment, .owner_kind = SEGLOG_OWNER_DEPOT});
    assert_int_equal(superblock.segment_bytes, 4 * segment);
    assert_int_equal(superblock.segment_count, 15);
}

static void blocks_and_grains(void **state)
{
    (void)state;
    struct seglog_format_options options = depot_options;
    static const uint32_t grains[] = {32, 512};
    for (size_t i = 0; i < base_array_count(grains); i++) {
        options.grain_bytes = grains[i];
        struct seglog_superblock_format superblock = geometry(UINT64_C(4) << 20, 65536, &options);
        assert_int_equal(superblock.block_bytes, 65536);
        assert_int_equal(superblock.state_offset, 65536);
        assert_int_equal(superblock.state_bytes, 65536);
        assert_int_equal(superblock.grain_bytes, grains[i]);
        assert_int_equal(superblock.record_bytes_max,
                         SEGLOG_SEGMENT_BYTES_MIN - 65536 - base_max(UINT32_C(64), grains[i]));
    }
    options.grain_bytes = 16;
    assert_int_equal(format_of(TESTING_STORE_BYTES, 0, &options, "a grain is"), -EINVAL);
    options.grain_bytes = 96;
    assert_int_equal(format_of(TESTING_STORE_BYTES, 0, &options, "a grain is"), -EINVAL);
    options.grain_bytes = 1024;
    assert_int_equal(format_of(TESTING_STORE_BYTES, 0, &options, "a grain is"), -EINVAL);
    options = (struct seglog_format_options){.segment_bytes = 3 * SEGLOG_SEGMENT_BYTES_MIN};
    assert_int_equal(format_of(TESTING_STORE_BYTES, 0, &options, "a segment is"), -EINVAL);
    options.segment_bytes = UINT64_C(64) << 20;
    assert_int_equal(format_of(TESTING_STORE_BYTES, 0, &options, "a segment is"), -EINVAL);
    options.segment_bytes = UINT64_C(64) << 10;
    assert_int_equal(format_of(TESTING_STORE_BYTES, 0, &options, "a segment is"), -EINVAL);
    assert_int_equal(format_of(UINT64_C(4) << 20, 131072, &depot_options, "blocks are larger"), -EINVAL);
}

static int fill_owner(struct seglog_superblock_format *superblock)
{
    assert_true(superblock->record_bytes_max > 0 && superblock->store_bytes > 0);
    if (superblock->segment_count != SEGLOG_SEGMENTS_MIN)
        return -ERANGE;
    superblock->owner[0] = 0x42;
    return 0;
}

static void the_owner_fills_its_part(void **state)
{
    (void)state;
    const struct seglog_format_options options = {.owner_kind = SEGLOG_OWNER_DEPOT, .fill_owner = fill_owner};
    struct testing_drive drive = testing_store_of(TESTING_STORE_BYTES, &options);
    assert_int_equal(testing_superblock(&drive).owner[0], 0x42);
    struct testing_log log;
    testing_log_open(&log, &drive, true);
    assert_int_equal(seglog_superblock(log.log)->owner[0], 0x42);
    testing_log_close(&log);
    testing_drive_free(&drive);
    drive = testing_drive_new(2 * TESTING_STORE_BYTES);
    assert_int_equal(testing_format(&drive, &options), -ERANGE);
    testing_drive_free(&drive);
}

static void every_store_has_its_own_seeds(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct seglog_superblock_format first = testing_superblock(&drive), second;
    assert_int_equal(testing_format(&drive, &depot_options), 0);
    second = testing_superblock(&drive);
    assert_true(first.identity[0] != second.identity[0] && first.identity[1] != second.identity[1]);
    assert_true(first.hash_seed != second.hash_seed && first.check_seed != second.check_seed);
    assert_true(first.hash_seed != first.check_seed && first.made_wall_ns > 0);
    testing_drive_free(&drive);
}

/* ---- looking ---------------------------------------------------------------------------------------- */

static enum seglog_found probe(struct testing_drive *drive, const char *why)
{
    struct testing_log log;
    enum seglog_found found = (enum seglog_found)77;
    const char *wrong = NULL;
    uint64_t writes = atomic_load(&drive->writes);
    bool healthy = atomic_load(&drive->fail_at) == 0;
    testing_drive_start(&log, drive);
    log.lines.infos = 0; /* of opening the drive */
    assert_int_equal(seglog_probe(log.node, log.drive, &found, &wrong), 0);
    assert_true(!healthy || log.lines.errors + log.lines.warns + log.lines.infos == 0);
    testing_drive_stop(&log);
    assert_int_equal(atomic_load(&drive->writes), writes);
    if (why == NULL)
        assert_null(wrong);
    else if (found == SEGLOG_FOUND_OTHER)
        assert_non_null(strstr(wrong, why));
    return found;
}

static bool is_blank(struct testing_drive *drive)
{
    struct testing_log log;
    bool blank = false;
    testing_drive_start(&log, drive);
    assert_int_equal(seglog_is_blank(log.node, log.drive, &blank), 0);
    testing_drive_stop(&log);
    return blank;
}

static void probing_tells_stores_from_the_rest(void **state)
{
    (void)state;
    struct testing_drive drive = testing_drive_new(TESTING_STORE_BYTES);
    assert_int_equal(probe(&drive, NULL), SEGLOG_FOUND_ZEROS);
    assert_true(is_blank(&drive));
    drive.bytes[drive.size - 1] = 1;
    assert_int_equal(probe(&drive, NULL), SEGLOG_FOUND_ZEROS);
    assert_false(is_blank(&drive));
    drive.bytes[4095] = 1;
    assert_int_equal(probe(&drive, "not a Tarn store"), SEGLOG_FOUND_OTHER);
    assert_int_equal(testing_format(&drive, &depot_options), 0);
    assert_int_equal(probe(&drive, NULL), SEGLOG_FOUND_STORE);
    assert_false(is_blank(&drive));
    drive.bytes[100] ^= 1;
    assert_int_equal(probe(&drive, NULL), SEGLOG_FOUND_STORE); /* by its copy */
    drive.bytes[4096 + 100] ^= 1;
    assert_int_equal(probe(&drive, "superblock is damaged"), SEGLOG_FOUND_OTHER);
    memset(drive.bytes, 0, 4096);
    assert_int_equal(probe(&drive, "superblock is damaged"), SEGLOG_FOUND_OTHER);
    testing_drive_free(&drive);
}

static void lies_and_failures_of_one_read_do_not_matter(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    static const enum testing_lie lies[] = {TESTING_NOISE, TESTING_ZEROS};
    for (size_t i = 0; i < base_array_count(lies); i++) {
        testing_drive_lie_at(&drive, lies[i], 1, 0, 8192);
        assert_int_equal(probe(&drive, NULL), SEGLOG_FOUND_STORE);
    }
    testing_drive_fail_at(&drive, DRIVE_READ, 1, false);
    assert_int_equal(probe(&drive, NULL), SEGLOG_FOUND_STORE);
    struct testing_log log;
    enum seglog_found found;
    const char *wrong;
    bool blank;
    testing_drive_fail_at(&drive, DRIVE_READ, 1, true);
    testing_drive_start(&log, &drive);
    assert_int_equal(seglog_probe(log.node, log.drive, &found, &wrong), -EIO);
    assert_int_equal(seglog_is_blank(log.node, log.drive, &blank), -EIO);
    base_account_fail_at(&log.node->memory, 1);
    assert_int_equal(seglog_probe(log.node, log.drive, &found, &wrong), -ENOMEM);
    base_account_fail_at(&log.node->memory, 1);
    assert_int_equal(seglog_is_blank(log.node, log.drive, &blank), -ENOMEM);
    testing_drive_stop(&log);
    testing_drive_free(&drive);
}

/* ---- opening ---------------------------------------------------------------------------------------- */

/* A refusal leaves every byte as it was. */
static void expect_refusal(struct testing_drive *drive, bool read_only, int error, const char *why)
{
    struct testing_drive before = testing_drive_copy(drive);
    struct testing_log log;
    assert_int_equal(testing_log_try_open(&log, drive, read_only), error);
    assert_non_null(strstr(log.lines.error, why));
    assert_memory_equal(before.bytes, drive->bytes, drive->size);
    testing_drive_free(&before);
}

static void expect_opens(struct testing_drive *drive, bool read_only, unsigned warns)
{
    struct testing_log log;
    testing_log_open(&log, drive, read_only);
    assert_int_equal(log.lines.warns, warns);
    testing_log_close(&log);
}

static void change_superblock(struct testing_drive *drive,
                              void (*change)(struct seglog_superblock_format *superblock))
{
    struct seglog_superblock_format superblock = testing_superblock(drive);
    change(&superblock);
    seglog_superblock_seal(&superblock);
    for (uint64_t copy = 0; copy < 2; copy++)
        memcpy(drive->bytes + copy * SEGLOG_SUPERBLOCK_BYTES, &superblock, sizeof(superblock));
}

static void what_is_no_store_is_refused(void **state)
{
    (void)state;
    struct testing_drive drive = testing_drive_new(TESTING_STORE_BYTES);
    expect_refusal(&drive, false, -EUCLEAN, "not a Tarn store");
    expect_refusal(&drive, true, -EUCLEAN, "not a Tarn store");
    memset(drive.bytes, 0x5a, drive.size);
    expect_refusal(&drive, false, -EUCLEAN, "not a Tarn store");
    for (uint64_t copy = 0; copy < SEGLOG_SUPERBLOCK_COPIES; copy++)
        memcpy(drive.bytes + copy * SEGLOG_SUPERBLOCK_BYTES, "TarnStrp", 8);
    expect_refusal(&drive, true, -EUCLEAN, "one drive of a stripe: name all its drives");
    testing_drive_free(&drive);
    drive = testing_drive_new(DRIVE_BYTES_MIN);
    expect_refusal(&drive, false, -EUCLEAN, "not a Tarn store");
    testing_drive_free(&drive);
}

static void one_good_superblock_is_enough(void **state)
{
    (void)state;
    for (uint64_t copy = 0; copy < 2; copy++) {
        struct testing_drive drive = testing_store();
        struct testing_log log;
        testing_log_start(&log, &drive); /* after the first session it is evidence */
        testing_log_stop(&log);
        uint8_t *damaged = drive.bytes + copy * SEGLOG_SUPERBLOCK_BYTES;
        damaged[20] ^= 1;
        struct testing_drive before = testing_drive_copy(&drive);
        expect_opens(&drive, true, 1);
        expect_opens(&drive, false, 1);
        assert_memory_equal(before.bytes, drive.bytes, 2 * SEGLOG_SUPERBLOCK_BYTES);
        drive.bytes[(1 - copy) * SEGLOG_SUPERBLOCK_BYTES + 20] ^= 1;
        expect_refusal(&drive, false, -EUCLEAN, "superblock is damaged");
        testing_drive_free(&drive);
        testing_drive_free(&before);
    }
}

static void two_superblocks_that_differ_are_told(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct testing_drive other = testing_store();
    memcpy(drive.bytes + SEGLOG_SUPERBLOCK_BYTES, other.bytes, SEGLOG_SUPERBLOCK_BYTES);
    expect_opens(&drive, false, 1); /* the first counts, and the state is its own */
    testing_drive_free(&drive);
    testing_drive_free(&other);
}

static void an_interrupted_formatting_is_finished(void **state)
{
    (void)state;
    for (uint64_t copy = 0; copy < 2; copy++) {
        struct testing_drive drive = testing_store();
        struct testing_drive whole = testing_drive_copy(&drive);
        memset(drive.bytes + copy * SEGLOG_SUPERBLOCK_BYTES, 0, SEGLOG_SUPERBLOCK_BYTES);
        struct testing_drive before = testing_drive_copy(&drive);
        expect_opens(&drive, true, 0);
        assert_memory_equal(before.bytes, drive.bytes, drive.size);
        testing_drive_fail_at(&drive, DRIVE_WRITE, 1, true);
        struct testing_log log;
        assert_int_equal(testing_log_try_open(&log, &drive, false), -EIO);
        testing_drive_fail_at(&drive, DRIVE_WRITE, 0, true);
        expect_opens(&drive, false, 0);
        assert_memory_equal(drive.bytes, whole.bytes, 2 * SEGLOG_SUPERBLOCK_BYTES);
        testing_drive_free(&drive);
        testing_drive_free(&whole);
        testing_drive_free(&before);
    }
}

/* Nothing is finished where the state is gone: perhaps it is another's superblock. */
static void nothing_is_written_before_the_state_is_good(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    memset(drive.bytes, 0, SEGLOG_SUPERBLOCK_BYTES);
    memset(drive.bytes + 8192, 0, 4 * 4096);
    expect_refusal(&drive, false, -EUCLEAN, "copies of its state are damaged");
    testing_drive_free(&drive);
}

static void geometry_must_fit(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    drive.size -= 4096;
    expect_refusal(&drive, false, -EUCLEAN, "its end is missing");
    testing_drive_free(&drive);
    drive = testing_store_of(UINT64_C(2) << 20, NULL);
    drive.physical_block_bytes = 8192;
    expect_refusal(&drive, false, -ENOTSUP, "blocks are larger");
    drive.physical_block_bytes = 4096;
    expect_opens(&drive, false, 0);
    uint8_t *longer = realloc(drive.bytes, UINT64_C(8) << 20); /* a device that grew */
    assert_non_null(longer);
    drive.bytes = longer;
    memset(drive.bytes + drive.size, 0xff, (UINT64_C(8) << 20) - drive.size);
    drive.size = UINT64_C(8) << 20;
    expect_opens(&drive, false, 0);
    testing_drive_free(&drive);
}

static void set_incompatible(struct seglog_superblock_format *superblock)
{
    superblock->incompatible = SEGLOG_FEATURES + 1;
}

static void set_read_only_compatible(struct seglog_superblock_format *superblock)
{
    superblock->read_only_compatible = 4;
}

static void set_compatible(struct seglog_superblock_format *superblock)
{
    superblock->compatible = 4;
}

static void set_owner(struct seglog_superblock_format *superblock)
{
    superblock->owner_kind = 2;
}

static void set_reserved(struct seglog_superblock_format *superblock)
{
    superblock->one = 2;
}

static void features_decide(void **state)
{
    (void)state;
    static const struct {
        void (*change)(struct seglog_superblock_format *superblock);
        int read_error;
        int write_error;
        const char *why;
    } cases[] = {
        {set_incompatible, -ENOTSUP, -ENOTSUP, "newer version"},
        {set_read_only_compatible, 0, -ENOTSUP, "only read"},
        {set_compatible, 0, 0, ""},
        {set_owner, -ENOTSUP, -ENOTSUP, "another kind"},
        {set_reserved, -ENOTSUP, -ENOTSUP, "newer version"},
    };
    for (size_t i = 0; i < base_array_count(cases); i++) {
        struct testing_drive drive = testing_store();
        change_superblock(&drive, cases[i].change);
        if (cases[i].read_error != 0)
            expect_refusal(&drive, true, cases[i].read_error, cases[i].why);
        else
            expect_opens(&drive, true, 0);
        if (cases[i].write_error != 0)
            expect_refusal(&drive, false, cases[i].write_error, cases[i].why);
        else
            expect_opens(&drive, false, 0);
        testing_drive_free(&drive);
    }
}

/* A newer release has changed one copy, and was cut off before the other. */
static void one_copy_of_the_future_is_enough_to_refuse(void **state)
{
    (void)state;
    for (uint64_t copy = 0; copy < 2; copy++) {
        struct testing_drive drive = testing_store();
        struct seglog_superblock_format superblock = testing_superblock(&drive);
        superblock.incompatible = SEGLOG_FEATURES + 1;
        seglog_superblock_seal(&superblock);
        memcpy(drive.bytes + copy * SEGLOG_SUPERBLOCK_BYTES, &superblock, sizeof(superblock));
        expect_refusal(&drive, false, -ENOTSUP, "newer version");
        drive.bytes[(1 - copy) * SEGLOG_SUPERBLOCK_BYTES + 30] ^= 1; /* that the other is damaged says less */
        expect_refusal(&drive, true, -ENOTSUP, "newer version");
        testing_drive_free(&drive);
    }
}

/* Until a session has begun, what is read may be a killed formatting's, in a cache: it is written again. */
static void young_superblocks_are_written_again(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    struct testing_log log;
    uint64_t writes[2];
    for (int begun = 0; begun < 2; begun++) {
        atomic_store(&drive.durable_writes, 0);
        testing_log_open(&log, &drive, false);
        writes[begun] = atomic_load(&drive.durable_writes);
        assert_int_equal(seglog_start(log.log, &testing_ops, NULL), 0);
        testing_log_stop(&log);
    }
    assert_int_equal(writes[0], writes[1] + SEGLOG_SUPERBLOCK_COPIES);
    testing_drive_free(&drive);
}

static bool copy_has(const struct testing_drive *drive, uint64_t copy, uint64_t feature)
{
    struct seglog_superblock_format superblock;
    const char *wrong;
    assert_int_equal(
        seglog_superblock_parse(drive->bytes + copy * SEGLOG_SUPERBLOCK_BYTES, &superblock, &wrong), 0);
    return (superblock.incompatible & feature) != 0;
}

/* Cut at each of its writes: it is noted or it is not, and what was cut off is made up for. */
static void a_feature_is_noted_in_both_copies(void **state)
{
    (void)state;
    for (uint64_t fails_at = 1; fails_at <= 3; fails_at++) {
        struct testing_drive drive = testing_store();
        struct testing_log log;
        testing_log_open(&log, &drive, false);
        testing_drive_fail_at(&drive, DRIVE_WRITE, fails_at, true);
        int error = seglog_feature_note(log.log, SEGLOG_FEATURE_PIECES);
        assert_int_equal(error, fails_at == 3 ? 0 : -EIO);
        assert_int_equal(seglog_feature_note(log.log, SEGLOG_FEATURE_PIECES), error == 0 ? 0 : -EROFS);
        testing_drive_fail_at(&drive, DRIVE_WRITE, 0, false);
        testing_log_close(&log); /* it was not started: nothing is left to write */
        bool noted = copy_has(&drive, 1, SEGLOG_FEATURE_PIECES);
        assert_int_equal(noted, fails_at > 1);
        assert_int_equal(copy_has(&drive, 0, SEGLOG_FEATURE_PIECES), fails_at == 3);
        expect_opens(&drive, true, 0);
        expect_opens(&drive, false, 0);
        assert_int_equal(copy_has(&drive, 0, SEGLOG_FEATURE_PIECES), noted);
        testing_drive_free(&drive);
    }
}

/* ---- making a store goes wrong ----------------------------------------------------------------------- */

/* Over nothing, and over another store. A cut leaves no store, or one of the two, whole. */
static void formatting_may_be_cut_off(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        struct testing_drive old = over == 0 ? testing_drive_new(TESTING_STORE_BYTES) : testing_store();
        bool cut = true;
        for (uint64_t n = 1; cut; n++) {
            for (uint64_t sectors = 0; sectors < 17; sectors++) {
                struct testing_drive drive = testing_drive_copy(&old);
                testing_drive_fail_at(&drive, DRIVE_WRITE, n, true);
                drive.partial_bytes = sectors * DRIVE_SECTOR_BYTES;
                int error = testing_format(&drive, &depot_options);
                cut = error != 0;
                assert_true(error == 0 || error == -EIO);
                testing_drive_fail_at(&drive, DRIVE_WRITE, 0, true);
                struct testing_log log;
                error = testing_log_try_open(&log, &drive, false);
                if (error == 0)
                    testing_log_close(&log);
                else
                    assert_int_equal(error, -EUCLEAN);
                enum seglog_found found = probe(&drive, error == 0 ? NULL : "");
                assert_int_equal(found == SEGLOG_FOUND_STORE, error == 0);
                if (error != 0 && over == 0)
                    assert_true(is_blank(&drive)); /* whoever makes a store of a new file may go on */
                assert_int_equal(testing_format(&drive, &depot_options), 0);
                testing_drive_free(&drive);
            }
        }
        testing_drive_free(&old);
    }
}

static void formatting_fails_cleanly(void **state)
{
    (void)state;
    struct testing_drive drive = testing_drive_new(TESTING_STORE_BYTES);
    struct testing_log log;
    testing_drive_start(&log, &drive);
    base_account_fail_at(&log.node->memory, 1);
    assert_int_equal(seglog_format(log.node, log.drive, &depot_options), -ENOMEM);
    testing_drive_stop(&log);
    assert_true(is_blank(&drive));
    testing_drive_free(&drive);
}

/* Only what a formatting leaves is as good as nothing. */
static void blank_is_what_a_formatting_leaves(void **state)
{
    (void)state;
    struct testing_drive drive = testing_store();
    memset(drive.bytes, 0, 2 * SEGLOG_SUPERBLOCK_BYTES);
    assert_true(is_blank(&drive));
    uint8_t *slot = drive.bytes + 8192 + UINT64_C(2) * 4096;
    static const size_t places[] = {9, 16, 24, 32, 40, 48, 56, 64, 88, 120, 128, 511, 512, 4095};
    for (size_t i = 0; i < base_array_count(places); i++) {
        slot[places[i]] ^= 2;
        assert_false(is_blank(&drive));
        slot[places[i]] ^= 2;
    }
    memmove(slot + 512, slot, 512);
    memset(slot, 0, 512);
    assert_false(is_blank(&drive));
    testing_drive_free(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_store),
        cmocka_unit_test(segments_are_as_large_as_leaves_enough),
        cmocka_unit_test(blocks_and_grains),
        cmocka_unit_test(the_owner_fills_its_part),
        cmocka_unit_test(every_store_has_its_own_seeds),
        cmocka_unit_test(probing_tells_stores_from_the_rest),
        cmocka_unit_test(lies_and_failures_of_one_read_do_not_matter),
        cmocka_unit_test(what_is_no_store_is_refused),
        cmocka_unit_test(one_good_superblock_is_enough),
        cmocka_unit_test(two_superblocks_that_differ_are_told),
        cmocka_unit_test(an_interrupted_formatting_is_finished),
        cmocka_unit_test(nothing_is_written_before_the_state_is_good),
        cmocka_unit_test(geometry_must_fit),
        cmocka_unit_test(features_decide),
        cmocka_unit_test(one_copy_of_the_future_is_enough_to_refuse),
        cmocka_unit_test(young_superblocks_are_written_again),
        cmocka_unit_test(a_feature_is_noted_in_both_copies),
        cmocka_unit_test(formatting_may_be_cut_off),
        cmocka_unit_test(formatting_fails_cleanly),
        cmocka_unit_test(blank_is_what_a_formatting_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
