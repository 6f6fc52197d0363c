/*
 * Acknowledged records that the drive has damaged, in segments that nothing proves or that are not found: the key that
 * is known answers with an error; where nobody can tell which keys are missing, the store is opened only for whoever
 * asks for that, and no older value comes back.
 */
#include "depot/repair_testing.h"

enum { KEPT = 20, BATCH_KEYS = 8 }; /* so few that their segment stays open */

static const struct tarn_depot_options usual = {.mode = TARN_MODE_POWER};
static const struct tarn_depot_options serving = {.mode = TARN_MODE_POWER, .serve_damaged = true};

static int get(struct testing_store *store, const char *key)
{
    char value[64];
    return tarn_depot_get(store->depot, key, strlen(key), value, sizeof(value), NULL);
}

/* Where a text stands that is on the drive once. */
static uint64_t place_of(struct testing_drive *drive, const char *text)
{
    uint8_t *found = testing_find_text(drive, text, NULL);
    assert_non_null(found);
    assert_null(testing_find_text(drive, text, found + 1));
    return (uint64_t)(found - drive->bytes);
}

static struct testing_drive killed_store(void)
{
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    testing_put_keys(&store, 0, 10, "value");
    assert_int_equal(depot_testing_put(&store, "lost", OLD_TEXT), 0);
    assert_int_equal(depot_testing_put(&store, "lost", NEW_TEXT), 0);
    testing_put_keys(&store, 10, KEPT, "value");
    return depot_testing_end(&store, &drive, true);
}

/* ---- one record ----------------------------------------------------------------------------------- */

/* Whatever is damaged of a record, its group's end names it: in this opening, and in the next. */
static void any_byte_of_an_acknowledged_record(void **state)
{
    (void)state;
    struct testing_drive whole = killed_store();
    const uint64_t value = place_of(&whole, NEW_TEXT),
                   begin = value - 4 - sizeof(struct seglog_record_format);
    for (uint64_t at = begin; at < value + strlen(NEW_TEXT); at++) {
        struct testing_drive drive = testing_drive_copy(&whole);
        struct testing_store store;
        drive.bytes[at] ^= 0x20;
        expect_only(&drive, 7);
        for (int opening = 0; opening < 2; opening++) {
            depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
            assert_int_equal(get(&store, "lost"), -EBADMSG);
            testing_expect_keys(&store, 0, KEPT, "value");
            drive = depot_testing_end(&store, &drive, opening == 0);
        }
        testing_drive_free(&drive);
    }
    testing_drive_free(&whole);
}

/* Nothing tells that the last group was acknowledged, so its damage is a write that was cut off. */
static void the_last_group_may_have_been_cut_off(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    testing_put_keys(&store, 0, KEPT, "value");
    assert_int_equal(depot_testing_put(&store, "lost", NEW_TEXT), 0);
    drive = depot_testing_end(&store, &drive, true);
    drive.bytes[place_of(&drive, NEW_TEXT)] ^= 1;
    expect_sound(&drive);
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    depot_testing_expect(&store, "lost", NULL);
    testing_expect_keys(&store, 0, KEPT, "value");
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

/* What tells of a group is damaged, and all its records are there: nothing is missing. */
static void the_end_of_a_group_alone(void **state)
{
    (void)state;
    struct testing_drive whole = killed_store();
    const uint64_t value = place_of(&whole, NEW_TEXT);
    const uint64_t block = base_align_down(value, (uint64_t)TESTING_BLOCK_BYTES);
    const uint8_t *end = memmem(whole.bytes + block, TESTING_BLOCK_BYTES, "Grup", 4);
    assert_non_null(end);
    for (uint64_t at = 0; at < sizeof(struct seglog_group_end_format); at++) {
        struct testing_drive drive = testing_drive_copy(&whole);
        struct testing_store store;
        drive.bytes[(uint64_t)(end - whole.bytes) - 8 + at] ^= 1;
        expect_sound(&drive);
        depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
        depot_testing_expect(&store, "lost", NEW_TEXT);
        testing_expect_keys(&store, 0, KEPT, "value");
        depot_testing_close(&store);
        testing_drive_free(&drive);
    }
    testing_drive_free(&whole);
}

/* The header of a segment that is open: its copy tells the same, and is put back. */
static void the_header_of_an_open_segment(void **state)
{
    (void)state;
    struct testing_drive drive = killed_store();
    struct testing_store store;
    const struct seglog_superblock_format superblock = depot_testing_superblock(&drive);
    const uint64_t segment_begin =
        base_align_down(place_of(&drive, NEW_TEXT) - superblock.data_offset, superblock.segment_bytes) +
        superblock.data_offset;
    struct seglog_segment_format header;
    memcpy(&header, drive.bytes + segment_begin, sizeof(header));
    memset(drive.bytes + segment_begin, 0, sizeof(header));
    expect_only(&drive, 4);
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    struct seglog_segment_format mended;
    memcpy(&mended, drive.bytes + segment_begin, sizeof(mended));
    assert_int_equal(mended.stamp, header.stamp);
    assert_memory_equal(&mended, &header, sizeof(header));
    depot_testing_expect(&store, "lost", NEW_TEXT);
    testing_expect_keys(&store, 0, KEPT, "value");
    depot_testing_close(&store);
    expect_sound(&drive);
    testing_drive_free(&drive);
}

/* ---- records of which nobody can tell the keys ------------------------------------------------------ */

static struct testing_drive store_that_lacks_two(bool cache)
{
    static const char *const keys[BATCH_KEYS] = {"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"};
    const struct tarn_depot_options options = {
        .create_bytes = TESTING_STORE_BYTES, .mode = TARN_MODE_POWER, .cache = cache};
    struct tarn_batch_item items[BATCH_KEYS] = {{.key = NULL}};
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    assert_int_equal(testing_try_open(&store, &drive, NULL, &options), 0);
    testing_put_keys(&store, 0, KEPT, "value");
    for (int i = 0; i < BATCH_KEYS; i++) {
        assert_int_equal(depot_testing_put(&store, keys[i], OLD_TEXT), 0);
        items[i].key = keys[i];
        items[i].key_len = 2;
        items[i].value = NEW_TEXT;
        items[i].value_len = strlen(NEW_TEXT);
    }
    assert_int_equal(tarn_depot_write_batch(store.depot, items, BATCH_KEYS), 0);
    testing_put_keys(&store, 0, 1, "value");
    drive = depot_testing_end(&store, &drive, true);
    testing_find_text(&drive, "b2" NEW_TEXT, NULL)[0] ^= 1;
    testing_find_text(&drive, "b5" NEW_TEXT, NULL)[0] ^= 1;
    return drive;
}

static int visit_nothing(void *arg, const void *key, size_t key_len, const void *value,
                         const struct tarn_record_info *info)
{
    (void)arg;
    (void)key;
    (void)key_len;
    (void)value;
    (void)info;
    return 0;
}

static void nothing_is_answered_that_may_be_old(void **state)
{
    (void)state;
    struct testing_drive drive = store_that_lacks_two(false);
    struct testing_store store;
    const struct tarn_put_options if_absent = {.condition = TARN_PUT_IF_ABSENT};
    struct tarn_get gets[2] = {{.key = "0", .key_len = 1}, {.key = "none", .key_len = 4}};
    char value[64];
    assert_int_equal(testing_try_open(&store, &drive, NULL, &usual), -EUCLEAN);
    expect_only(&drive, 16);
    assert_int_equal(testing_try_open(&store, &drive, NULL, &serving), 0);
    assert_int_equal(get(&store, "b2"), -EBADMSG);
    assert_int_equal(get(&store, "b5"), -EBADMSG);
    assert_int_equal(get(&store, "0"), -EBADMSG);
    assert_int_equal(get(&store, "none"), -EBADMSG);
    for (int i = 0; i < 2; i++) {
        gets[i].value = value;
        gets[i].value_room = sizeof(value);
    }
    tarn_depot_get_many(store.depot, gets, 2);
    assert_int_equal(gets[0].error, -EBADMSG);
    assert_int_equal(gets[1].error, -EBADMSG);
    assert_int_equal(tarn_depot_put(store.depot, "b2", 2, "x", 1, &if_absent, NULL), -EBADMSG);
    assert_int_equal(tarn_depot_put(store.depot, "none", 4, "x", 1, &if_absent, NULL), -EBADMSG);
    assert_int_equal(tarn_depot_touch(store.depot, "1", 1, 0), -EBADMSG);
    assert_int_equal(testing_delete(&store, "none"), -EBADMSG);
    assert_int_equal(tarn_depot_scan(store.depot, visit_nothing, NULL), -EBADMSG);
    assert_int_equal(depot_testing_put(&store, "b5", "anew"), 0);
    depot_testing_expect(&store, "b5", "anew");
    depot_testing_close(&store);
    /* it is remembered, although the segments are sealed now */
    assert_int_equal(testing_try_open(&store, &drive, NULL, &usual), -EUCLEAN);
    assert_int_equal(testing_try_open(&store, &drive, NULL, &serving), 0);
    depot_testing_expect(&store, "b5", "anew");
    assert_int_equal(get(&store, "b2"), -EBADMSG);
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

static void a_flush_ends_it(void **state)
{
    (void)state;
    struct testing_drive drive = store_that_lacks_two(false);
    struct testing_store store;
    assert_int_equal(testing_try_open(&store, &drive, NULL, &serving), 0);
    assert_int_equal(tarn_depot_flush_all(store.depot, 0), 0);
    depot_testing_expect(&store, "b2", NULL);
    drive = depot_testing_end(&store, &drive, true);
    assert_int_equal(testing_try_open(&store, &drive, NULL, &usual), 0);
    depot_testing_expect(&store, "b2", NULL);
    depot_testing_close(&store);
    expect_sound(&drive);
    testing_drive_free(&drive);
}

static void a_repair_ends_it(void **state)
{
    (void)state;
    struct testing_drive drive = store_that_lacks_two(false);
    struct testing_store store;
    struct losses losses;
    assert_int_equal(testing_repair(&drive, &losses), 0);
    expect_sound(&drive);
    assert_int_equal(testing_try_open(&store, &drive, NULL, &usual), 0);
    testing_expect_keys(&store, 0, KEPT, "value");
    depot_testing_expect(&store, "b3", NEW_TEXT);
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

/* A cache may forget: it gives up all, and asks nobody. */
static void a_cache_forgets(void **state)
{
    (void)state;
    struct testing_drive drive = store_that_lacks_two(true);
    struct testing_store store;
    const struct tarn_depot_options cache = {.mode = TARN_MODE_POWER, .cache = true};
    for (int opening = 0; opening < 3; opening++) {
        assert_int_equal(testing_try_open(&store, &drive, NULL, &cache), 0);
        depot_testing_expect(&store, "b2", NULL);
        depot_testing_expect(&store, "b3", NULL);
        depot_testing_expect(&store, "none", opening > 0 ? "new" : NULL);
        assert_int_equal(depot_testing_put(&store, "none", "new"), 0);
        drive = depot_testing_end(&store, &drive, opening == 0);
    }
    testing_drive_free(&drive);
}

/* ---- writes that have no room for a group end ------------------------------------------------------- */

enum {
    FULL_WRITES = 120, /* some 4 segments */
    FULL_PARTS = 3,    /* records of a write, which fill a block together */
};

/* A killed store, and one of its segments with the writes in it, and the stream's next segment. */
struct full_segment {
    struct testing_drive drive;
    uint64_t begin, bytes, next;
    int first_write, last_write;
};

static void name_part(char key[8], int write, int part)
{
    assert_true(snprintf(key, 8, "w%03d.%d", write, part) < 8);
}

/* Where a part's new record begins, by its key, behind which its value is. */
static uint64_t place_of_part(struct testing_drive *drive, int write, int part)
{
    char key[8], text[32];
    name_part(key, write, part);
    assert_true(snprintf(text, sizeof(text), "%s" NEW_TEXT, key) < (int)sizeof(text));
    return place_of(drive, text) - sizeof(struct seglog_record_format) - sizeof(struct seglog_batch_format);
}

static void write_full_block(struct testing_store *store, int write)
{
    static const size_t footprints[FULL_PARTS] = {1024, 2048, 1024};
    char keys[FULL_PARTS][8], value[2048] = NEW_TEXT;
    struct tarn_batch_item items[FULL_PARTS] = {{.key = NULL}};
    for (int i = 0; i < FULL_PARTS; i++) {
        name_part(keys[i], write, i);
        items[i].key = keys[i];
        items[i].key_len = strlen(keys[i]);
        items[i].value = value;
        items[i].value_len = footprints[i] - sizeof(struct seglog_record_format) -
                             sizeof(struct seglog_batch_format) - items[i].key_len;
    }
    assert_int_equal(tarn_depot_write_batch(store->depot, items, FULL_PARTS), 0);
}

static void write_full_blocks(struct testing_store *store)
{
    char keys[FULL_WRITES][8];
    struct tarn_batch_item items[FULL_WRITES] = {{.key = NULL}};
    for (int write = 0; write < FULL_WRITES; write++) {
        name_part(keys[write], write, 0);
        items[write].key = keys[write];
        items[write].key_len = strlen(keys[write]);
        items[write].value = OLD_TEXT;
        items[write].value_len = strlen(OLD_TEXT);
    }
    assert_int_equal(tarn_depot_write_batch(store->depot, items, FULL_WRITES), 0);
    for (int write = 0; write < FULL_WRITES; write++)
        write_full_block(store, write);
}

static uint64_t segment_of_write(struct full_segment *full, int write)
{
    const struct seglog_superblock_format superblock = depot_testing_superblock(&full->drive);
    const uint64_t place = place_of_part(&full->drive, write, 0) - superblock.data_offset;
    return base_align_down(place, (uint64_t)superblock.segment_bytes) + superblock.data_offset;
}

/* The trailer of a segment's summary. @return NULL: it is not written yet */
static uint8_t *trailer_of(struct full_segment *full, uint64_t segment)
{
    uint8_t *trailer = full->drive.bytes + segment + full->bytes - sizeof(struct seglog_trailer_format);
    return memcmp(trailer + offsetof(struct seglog_trailer_format, magic), "TarnSumm", 8) == 0 ? trailer
                                                                                               : NULL;
}

/* Find a segment that only such writes have filled, and the one behind it.
 * @return whether both have a summary, which is written some time after they have ended */
static bool find_full_segment(struct full_segment *full)
{
    uint64_t segment = segment_of_write(full, 0);
    int begun = 0;
    for (int write = 0; begun < 2; write++) {
        const uint64_t next = segment_of_write(full, write);
        if (next == segment)
            continue;
        *(begun == 0 ? &full->begin : &full->next) = segment = next;
        *(begun == 0 ? &full->first_write : &full->last_write) = write - begun;
        begun++;
    }
    return trailer_of(full, full->begin) != NULL && trailer_of(full, full->next) != NULL;
}

/* It was killed when the segment had no summary yet. @param both  nor the one behind it */
static struct full_segment made_full_segment(bool both)
{
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    write_full_blocks(&store);
    struct full_segment full = {.drive = testing_drive_copy(&drive)};
    full.bytes = depot_testing_superblock(&full.drive).segment_bytes;
    while (!find_full_segment(&full)) {
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        testing_drive_free(&full.drive);
        full.drive = testing_drive_copy(&drive);
    }
    depot_testing_close(&store);
    testing_drive_free(&drive);
    memset(trailer_of(&full, full.begin), 0, sizeof(struct seglog_trailer_format));
    if (both)
        memset(trailer_of(&full, full.next), 0, sizeof(struct seglog_trailer_format));
    return full;
}

/* It is known to be missing, of whatever keys, and no older value is shown. */
static void expect_missing(struct full_segment *full, int write, int part, uint64_t byte)
{
    struct testing_drive drive = testing_drive_copy(&full->drive);
    struct testing_store store;
    char key[8];
    name_part(key, write, part);
    drive.bytes[place_of_part(&drive, write, part) + byte] ^= 1;
    assert_int_equal(testing_try_open(&store, &drive, NULL, &usual), -EUCLEAN);
    expect_only(&drive, 16);
    assert_int_equal(testing_try_open(&store, &drive, NULL, &serving), 0);
    assert_int_equal(get(&store, key), -EBADMSG);
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

/* What fills its blocks has no end of a group behind it; but its stream has gone on, so that it was acknowledged. */
static void a_record_of_a_write_without_an_end(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        struct full_segment full = made_full_segment(both != 0);
        expect_sound(&full.drive);
        assert_true(full.last_write > full.first_write + 20);
        for (int part = 0; part < FULL_PARTS; part++) {
            const uint64_t in_value = 100;
            expect_missing(&full, full.last_write, part, 8);
            expect_missing(&full, full.last_write, part, in_value);
            expect_missing(&full, full.last_write - 1, part, 8);
            expect_missing(&full, full.first_write + 1, part, in_value);
        }
        testing_drive_free(&full.drive);
    }
}

/* The first write begins behind the header, so that it is the only one with room for an end: that is damaged. */
static void the_only_end_in_a_segment(void **state)
{
    (void)state;
    struct full_segment full = made_full_segment(true);
    uint8_t *begin = full.drive.bytes + full.begin;
    uint8_t *end = memmem(begin, full.bytes, "Grup", 4); /* 8 bytes behind its beginning */
    assert_non_null(end);
    assert_null(memmem(end + 4, full.bytes - (size_t)(end + 4 - begin), "Grup", 4));
    for (int at = 0; at < (int)sizeof(struct seglog_group_end_format); at++) {
        end[at - 8] ^= 0x10;
        expect_sound(&full.drive);
        end[at - 8] ^= 0x10;
    }
    testing_drive_free(&full.drive);
}

/* ---- segments and states that are not found --------------------------------------------------------- */

/* @param checkpoint  it is damaged, too: then only the state tells how many segments there were */
static void lose_a_segment(bool checkpoint)
{
    struct testing_drive drive = testing_losing_store(false);
    struct testing_store store;
    struct place place = find_records(&drive, SEGLOG_VALUE);
    memset(place.segment, 0, sizeof(place.header));
    memset(place.segment + place.superblock.segment_bytes - DRIVE_SECTOR_BYTES, 0, DRIVE_SECTOR_BYTES);
    if (checkpoint)
        memset(find_checkpoint(&drive).segment, 0, sizeof(place.header));
    expect_fault(&drive, checkpoint ? 16 : 4);
    assert_int_equal(testing_try_open(&store, &drive, NULL, &usual), -EUCLEAN);
    for (int opening = 0; opening < 2; opening++) {
        assert_int_equal(testing_try_open(&store, &drive, NULL, &serving), 0);
        int error = get(&store, "lost");
        assert_int_equal(error, checkpoint ? -EBADMSG : 0);
        if (!checkpoint)
            depot_testing_expect(&store, "lost", NEW_TEXT);
        depot_testing_close(&store);
    }
    testing_drive_free(&drive);
}

static void a_segment_that_a_checkpoint_knows(void **state)
{
    (void)state;
    lose_a_segment(false);
}

static void a_segment_that_the_state_counted(void **state)
{
    (void)state;
    lose_a_segment(true);
}

/* Both copies of the newest state: what was written since tells that it was durable. */
static void an_older_state_is_not_believed(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    assert_int_equal(depot_testing_put(&store, "lost", OLD_TEXT), 0);
    assert_int_equal(tarn_depot_flush_all(store.depot, 0), 0);
    testing_put_keys(&store, 0, KEPT, "value");
    drive = depot_testing_end(&store, &drive, true);
    const uint32_t newest = newest_slot(&drive);
    state_at(&drive, newest)->check ^= 1;
    state_at(&drive, newest ^ 1)->check ^= 1;
    assert_int_equal(testing_try_open(&store, &drive, NULL, &usual), -EUCLEAN);
    testing_drive_free(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_byte_of_an_acknowledged_record),
        cmocka_unit_test(the_last_group_may_have_been_cut_off),
        cmocka_unit_test(the_end_of_a_group_alone),
        cmocka_unit_test(the_header_of_an_open_segment),
        cmocka_unit_test(nothing_is_answered_that_may_be_old),
        cmocka_unit_test(a_flush_ends_it),
        cmocka_unit_test(a_repair_ends_it),
        cmocka_unit_test(a_cache_forgets),
        cmocka_unit_test(a_record_of_a_write_without_an_end),
        cmocka_unit_test(the_only_end_in_a_segment),
        cmocka_unit_test(a_segment_that_a_checkpoint_knows),
        cmocka_unit_test(a_segment_that_the_state_counted),
        cmocka_unit_test(an_older_state_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
