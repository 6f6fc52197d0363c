/*
 * After any end of the process, and whatever the drive has of a batch's write: is all of it there, or
 * nothing; and what becomes of it when a record of it is damaged?
 */
#include "depot/batch_testing.h"

enum { COUNT = 7, BYTES = 500 };

/* What lies on the drive while the store is open: as if its process had died. */
static struct testing_fixture killed_with(struct testing_fixture *fixture, struct testing_drive *image)
{
    struct testing_fixture killed = {.mode = fixture->mode};
    killed.drive = testing_drive_copy(image);
    atomic_store(&killed.clock.wall_ns, TESTING_BEGIN);
    return killed;
}

/* Open what is left, twice, and prove it. @return the letter that all members hold */
static char letter_of(struct testing_fixture *fixture, struct testing_drive *image)
{
    struct testing_fixture killed = killed_with(fixture, image);
    char letters[2];
    expect_sound(&killed.drive);
    for (int i = 0; i < 2; i++) {
        depot_testing_open(&killed.store, &killed.drive, &killed.clock, killed.mode);
        letters[i] = members_letter(&killed, COUNT, BYTES);
        testing_expect_keys(&killed.store, 0, 10, "other");
        depot_testing_close(&killed.store);
        expect_sound(&killed.drive);
    }
    assert_int_equal(letters[0], letters[1]);
    testing_drive_free(&killed.drive);
    return letters[0];
}

/* An old batch and others, then the batch whose write is looked at. */
struct images {
    struct testing_drive before, after;
    uint64_t begin, end; /* of what differs, whole sectors */
};

static struct images write_one(struct testing_fixture *fixture)
{
    struct images images = {.begin = UINT64_MAX};
    assert_int_equal(write_members(fixture, COUNT, 'a', BYTES), 0);
    testing_put_keys(&fixture->store, 0, 10, "other");
    images.before = testing_drive_copy(&fixture->drive);
    assert_int_equal(write_members(fixture, COUNT, 'b', BYTES), 0);
    images.after = testing_drive_copy(&fixture->drive);
    for (uint64_t at = 0; at < images.after.size; at += DRIVE_SECTOR_BYTES) {
        if (memcmp(images.before.bytes + at, images.after.bytes + at, DRIVE_SECTOR_BYTES) == 0)
            continue;
        images.begin = base_min(images.begin, at);
        images.end = at + DRIVE_SECTOR_BYTES;
    }
    assert_true(images.end - images.begin > COUNT * BYTES && images.end - images.begin < 16384);
    return images;
}

static void free_images(struct images *images)
{
    testing_drive_free(&images->before);
    testing_drive_free(&images->after);
}

/* The first so many sectors are there; all but one; any of them. */
static void whatever_is_left_of_its_write(void **state)
{
    struct testing_fixture *fixture = *state;
    struct images images = write_one(fixture);
    struct base_random random;
    base_random_init(&random, 1);
    assert_int_equal(letter_of(fixture, &images.before), 'a');
    assert_int_equal(letter_of(fixture, &images.after), 'b');
    uint64_t sectors = (images.end - images.begin) / DRIVE_SECTOR_BYTES;
    for (uint64_t round = 0; round < 3 * sectors; round++) {
        struct testing_drive drive = testing_drive_copy(&images.before);
        uint64_t there = 0;
        for (uint64_t sector = 0; sector < sectors; sector++) {
            uint64_t at = images.begin + sector * DRIVE_SECTOR_BYTES, which = round % sectors;
            bool has = round < sectors       ? sector < which
                       : round < 2 * sectors ? sector != which
                                             : base_random_below(&random, 8) != 0;
            if (has)
                memcpy(drive.bytes + at, images.after.bytes + at, DRIVE_SECTOR_BYTES);
            there += has;
        }
        assert_int_equal(letter_of(fixture, &drive), there == sectors ? 'b' : 'a');
        testing_drive_free(&drive);
    }
    free_images(&images);
}

/* Where the group tells of its records. */
static uint64_t group_end(const struct images *images)
{
    uint64_t at = images->end - sizeof(struct seglog_group_end_format);
    while (memcmp(images->after.bytes + at + offsetof(struct seglog_group_end_format, magic), "Grup", 4) != 0)
        at--;
    assert_true(at > images->begin);
    return at;
}

/* Each byte of it, changed. */
static void whatever_byte_of_it_is_wrong(void **state)
{
    struct testing_fixture *fixture = *state;
    struct images images = write_one(fixture);
    uint32_t lost = 0;
    for (uint64_t at = images.begin; at < images.end; at += TESTING_SLOW ? 97 : 29) {
        struct testing_drive drive = testing_drive_copy(&images.after);
        drive.bytes[at] ^= 0x10;
        char letter =
            letter_of(fixture, &drive); /* padding may be anything, and so may what follows the batch */
        assert_true(letter == 'a' ||
                    (letter == 'b' && (images.after.bytes[at] == 0 || at >= group_end(&images))));
        lost += letter == 'a';
        testing_drive_free(&drive);
    }
    assert_true(lost > (TESTING_SLOW ? 20 : 80));
    free_images(&images);
}

/* Its write fails, after some of it: nobody sees it until the store is opened again. */
static void whatever_fails_of_its_write(void **state)
{
    struct testing_fixture *fixture = *state;
    uint64_t whole = 0;
    for (uint64_t sectors = 0; sectors < 16; sectors++) {
        assert_int_equal(write_members(fixture, COUNT, 'a', BYTES), 0);
        testing_put_keys(&fixture->store, 0, 10, "other");
        testing_drive_fail_at(&fixture->drive, DRIVE_WRITE, 1, true);
        fixture->drive.partial_bytes = sectors * DRIVE_SECTOR_BYTES;
        int error = write_members(fixture, COUNT, 'b', BYTES);
        assert_true(error == -EIO || error == -EROFS); /* the service may have been the first to fail */
        assert_int_equal(members_letter(fixture, COUNT, BYTES), 'a');
        assert_int_equal(write_members(fixture, COUNT, 'c', BYTES), -EROFS);
        testing_drive_fail_at(&fixture->drive, DRIVE_WRITE, 0, false);
        assert_true(tarn_depot_close(depot_of(fixture)) != 0);
        task_node_close(fixture->store.node);
        char letter = letter_of(fixture, &fixture->drive);
        assert_true(letter == 'a' || letter == 'b');
        whole += letter == 'b';
        depot_testing_open(&fixture->store, &fixture->drive, &fixture->clock, fixture->mode);
    }
    assert_true(whole > 0 && whole < 16);
}

/* The collector moves a key's old record, to where it cannot be read. */
static void move_away(void *arg)
{
    struct testing_fixture *fixture = arg;
    struct tarn_depot *depot = depot_of(fixture);
    const struct seglog_superblock_format *superblock = seglog_superblock(depot->log);
    const struct depot_key key = depot_key_of(depot, "member3", 7);
    struct depot_index_view view;
    uint64_t nowhere = (superblock->store_bytes - superblock->segment_bytes / 2) >> depot->grain_shift;
    depot_index_find(&depot->index, key.hash.low, &view);
    assert_int_equal(view.count, 1);
    assert_true(depot_index_replace(&depot->index, key.hash.low,
                                    depot_index_address(&depot->index, view.words[0]), nowhere, 9));
}

/* One key cannot be published: nobody may go on from what it held before, which the batch has hidden. */
static void whoever_cannot_be_found_again(void **state)
{
    struct testing_fixture *fixture = *state;
    assert_int_equal(write_members(fixture, COUNT, 'a', BYTES), 0);
    testing_put_keys(&fixture->store, 0, 10, "other");
    testing_drive_do_in_write(&fixture->drive, move_away, fixture);
    assert_int_equal(write_members(fixture, COUNT, 'b', BYTES), -EIO);
    assert_true(depot_failed(depot_of(fixture)));
    assert_int_equal(member_letter(fixture, 2, BYTES), 'b');
    assert_int_equal(tarn_depot_touch(depot_of(fixture), "member2", 7, 0), -EROFS);
    assert_true(tarn_depot_close(depot_of(fixture)) != 0);
    task_node_close(fixture->store.node);
    assert_int_equal(letter_of(fixture, &fixture->drive), 'b');
    depot_testing_open(&fixture->store, &fixture->drive, &fixture->clock, fixture->mode);
}

/* What ends with each batch, in all modes, of many that fill segments and are collected. */
static void whenever_it_ends(void **state)
{
    struct testing_fixture *fixture = *state;
    static const enum tarn_mode modes[] = {TARN_MODE_POWER, TARN_MODE_DEVICE, TARN_MODE_ASYNC};
    for (uint32_t round = 0; round < 120; round++) {
        char letter = (char)('a' + round % 26);
        assert_int_equal(write_members(fixture, COUNT, letter, BYTES + 100 * (round % 7) * 5), 0);
        if (round % 5 != 0)
            continue;
        restart(fixture, fixture->mode != TARN_MODE_ASYNC && round % 2 == 0);
        assert_int_equal(members_letter(fixture, COUNT, BYTES + 100 * (round % 7) * 5), letter);
        fixture->mode = modes[round / 5 % 3];
        testing_reopen(fixture);
    }
    testing_put_keys(&fixture->store, 0, 10, "other");
}

enum { ROUNDS = 240, LAST_ROUND = 80, EVERY = TESTING_SLOW ? 41 : 3 };

/* Batches, and what has them collected. */
static void write_rounds(struct testing_fixture *fixture, struct testing_recording *recording)
{
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        if (round % 4 == 0 && round <= LAST_ROUND)
            assert_int_equal(write_members(fixture, COUNT, (char)('a' + round / 4 % 26), BYTES), 0);
        atomic_store(&recording->mark, round);
        fill(round, 9000);
        assert_int_equal(put_long(fixture, round % 7 == 0 ? "stays" : "turns", round, 5000 + 17 * round), 0);
    }
    assert_true(stats_of(fixture).moved_bytes > 0);
}

/* @param round  that was over */
static void expect_round(struct testing_fixture *fixture, struct testing_drive *image, uint64_t round)
{
    struct testing_fixture killed = killed_with(fixture, image);
    expect_sound(&killed.drive);
    depot_testing_open(&killed.store, &killed.drive, &killed.clock, killed.mode);
    bool next = (round + 1) % 4 == 0 && round < LAST_ROUND;
    round = base_min(round, (uint64_t)LAST_ROUND);
    char letter = members_letter(&killed, COUNT, BYTES), last = (char)('a' + round / 4 % 26);
    next = next && letter == (char)('a' + (round + 1) / 4 % 26);
    assert_true(next || letter == (round < 4 ? 0 : last));
    depot_testing_close(&killed.store);
    expect_sound(&killed.drive);
    testing_drive_free(&killed.drive);
}

/* The power goes with any write, after any of its sectors: also of those that move and free what lay there.
 */
static void wherever_it_is_cut_off(void **state)
{
    struct testing_fixture *fixture = *state;
    struct testing_drive replayed = testing_drive_copy(&fixture->drive);
    struct testing_recording recording = {.count = 0};
    struct base_random random;
    base_random_init(&random, 5);
    testing_drive_record(&fixture->drive, &recording);
    write_rounds(fixture, &recording);
    testing_drive_record(&fixture->drive, NULL);
    for (size_t i = 0; i < recording.count; i++) {
        const struct testing_write *write = &recording.writes[i];
        if (i % EVERY == 0) {
            struct testing_drive torn = testing_drive_copy(&replayed);
            testing_write_tear(write, &torn, &random);
            expect_round(fixture, &torn, write->mark);
            testing_drive_free(&torn);
        }
        testing_write_play(write, &replayed);
    }
    assert_true(recording.count > ROUNDS);
    testing_recording_free(&recording);
    testing_drive_free(&replayed);
}

/* ---- damaged -------------------------------------------------------------------------------- */

/* Where a member lies. */
static uint64_t offset_of(struct testing_fixture *fixture, const char *name)
{
    struct depot_key key = depot_key_of(depot_of(fixture), name, strlen(name));
    struct depot_record record;
    assert_int_equal(depot_find(depot_of(fixture), &key, DEPOT_WANT_KEY, false, &record), 0);
    depot_record_release(&record);
    return record.grain << depot_of(fixture)->grain_shift;
}

/* In a segment that is proven one that is damaged is told, and nothing else. */
static void check_tells_what_is_damaged(void **state)
{
    struct testing_fixture *fixture = *state;
    struct images images = write_one(fixture);
    uint64_t offset = offset_of(fixture, "member3");
    depot_testing_close(&fixture->store);
    expect_sound(&fixture->drive);
    fixture->drive.bytes[offset + 300] ^= 1;
    expect_only(&fixture->drive, 7);
    fixture->drive.bytes[offset + 300] ^= 1;
    depot_testing_open(&fixture->store, &fixture->drive, &fixture->clock, fixture->mode);
    free_images(&images);
}

/* Have a member say something else of its batch, with good checks. */
static void say(struct testing_drive *drive, struct place *place, uint32_t entry, uint32_t number,
                uint32_t count)
{
    const struct seglog_superblock_format *superblock = &place->superblock;
    uint8_t *record = place->segment + place->entries[entry].grain * (uint64_t)superblock->grain_bytes;
    struct seglog_record_format header;
    struct seglog_batch_format batch;
    memcpy(&header, record, sizeof(header));
    memcpy(&batch, record + sizeof(header), sizeof(batch));
    batch.number = number;
    batch.count = count;
    memcpy(record + sizeof(header), &batch, sizeof(batch));
    size_t front_bytes = sizeof(batch) + header.key_bytes;
    const uint8_t *front = record + sizeof(header);
    header.body_check = seglog_body_check(front, front_bytes, front + front_bytes, header.value_bytes,
                                          superblock->check_seed, header.sequence);
    seglog_record_seal(&header, seglog_record_seed(superblock->check_seed, place->header.stamp),
                       (uint64_t)(record - drive->bytes) / superblock->grain_bytes);
    memcpy(record, &header, sizeof(header));
}

/* All that counts is in its place. */
static void check_tells_what_is_not_whole(void **state)
{
    struct testing_fixture *fixture = *state;
    assert_int_equal(write_members(fixture, COUNT, 'a', BYTES), 0);
    assert_int_equal(write_members(fixture, COUNT, 'b', BYTES), 0);
    assert_int_equal(depot_testing_put(&fixture->store, "other", "1"), 0);
    depot_testing_close(&fixture->store);
    struct testing_drive whole = testing_drive_copy(&fixture->drive);
    static const struct {
        uint32_t entry, number, count;
    } lies[] = {{3, 4, 0}, {COUNT - 1, COUNT - 1, COUNT + 1}, {COUNT - 1, COUNT - 1, 0}, {0, 1, 0}};
    for (size_t i = 0; i < base_array_count(lies); i++) {
        struct place place = find_records(&whole, SEGLOG_VALUE);
        struct testing_drive drive = testing_drive_copy(&whole);
        place = find_records(&drive, SEGLOG_VALUE);
        say(&drive, &place, lies[i].entry, lies[i].number, lies[i].count);
        struct told told;
        struct depot_check_report report;
        assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
        assert_true(told.count[15] > 0);
        assert_int_equal(told.count[15], told.all);
        testing_drive_free(&drive);
    }
    /* its end is missing, and so is what follows it */
    for (uint32_t behind = 0; behind < 2; behind++) {
        struct testing_drive drive = testing_drive_copy(&whole);
        struct place place = find_records(&drive, SEGLOG_VALUE);
        uint32_t kept = COUNT - 1;
        if (behind > 0)
            place.entries[kept] = place.entries[place.trailer.entries - 1];
        place.trailer.entries = kept + behind;
        uint8_t *end = place.segment + place.superblock.segment_bytes;
        uint8_t *summary = end - seglog_summary_bytes(kept + behind, TESTING_BLOCK_BYTES);
        memmove(summary, place.entries, (kept + behind) * sizeof(*place.entries));
        seglog_summary_seal(summary, &place.trailer, &place.superblock);
        struct told told;
        struct depot_check_report report;
        assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
        assert_int_equal(told.count[15], 1);
        testing_drive_free(&drive);
    }
    testing_drive_free(&whole);
    depot_testing_open(&fixture->store, &fixture->drive, &fixture->clock, fixture->mode);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, testing_setup, testing_teardown)
    const struct CMUnitTest tests[] = {
        TEST(whatever_is_left_of_its_write),
        TEST(whatever_byte_of_it_is_wrong),
        TEST(whatever_fails_of_its_write),
        TEST(whoever_cannot_be_found_again),
        TEST(whenever_it_ends),
        TEST(wherever_it_is_cut_off),
        TEST(check_tells_what_is_damaged),
        TEST(check_tells_what_is_not_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
