/*
 * What a check tells of each kind of damage: the invariant that does not hold. The damage is done to the
 * bytes of a store in memory, where need be with good checks.
 */
#include "depot/check/testing.h"

#include "depot/depot_format.h"

/* Give a changed record good checks, and the summary, too. */
static void seal(struct place *place, uint32_t entry)
{
    const struct seglog_superblock_format *superblock = &place->superblock;
    uint8_t *record = record_at(place, entry);
    struct seglog_record_format header;
    memcpy(&header, record, sizeof(header));
    uint64_t grain =
        place->entries[entry].grain +
        (superblock->data_offset + place->number * superblock->segment_bytes) / superblock->grain_bytes;
    size_t front_bytes = seglog_extension_bytes(header.kind) + (size_t)header.key_bytes;
    const uint8_t *front = record + sizeof(header);
    header.body_check = seglog_body_check(front, front_bytes, front + front_bytes, header.value_bytes,
                                          superblock->check_seed, header.sequence);
    seglog_record_seal(&header, seglog_record_seed(superblock->check_seed, place->header.stamp), grain);
    memcpy(record, &header, sizeof(header));
    seglog_summary_seal(place->summary, &place->trailer, superblock);
}

/* ---- damage ------------------------------------------------------------------------------------------ */

static void damaged_superblocks(void **state)
{
    (void)state;
    for (unsigned copy = 0; copy < SEGLOG_SUPERBLOCK_COPIES; copy++) {
        struct testing_drive drive = made_store(false);
        uint8_t *bytes = drive.bytes + copy * SEGLOG_SUPERBLOCK_BYTES;
        bytes[200] ^= 1;
        expect_only(&drive, 1);
        bytes[200] ^= 1;
        bytes[SEGLOG_SUPERBLOCK_BYTES - 1] = 1;
        expect_only(&drive, 1);
        testing_drive_free(&drive);
    }
}

/* Write other contents to the owner's part of both superblocks. */
static void set_owner(struct testing_drive *drive, size_t at, uint8_t byte)
{
    struct seglog_superblock_format superblock = depot_testing_superblock(drive);
    superblock.owner[at] = byte;
    seglog_superblock_seal(&superblock);
    for (unsigned copy = 0; copy < SEGLOG_SUPERBLOCK_COPIES; copy++)
        memcpy(drive->bytes + copy * SEGLOG_SUPERBLOCK_BYTES, &superblock, sizeof(superblock));
}

static void impossible_widths(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    uint8_t tag_bits = depot_testing_superblock(&drive).owner[offsetof(struct depot_owner_format, tag_bits)];
    set_owner(&drive, offsetof(struct depot_owner_format, tag_bits), 63);
    expect_only(&drive, 2);
    set_owner(&drive, offsetof(struct depot_owner_format, tag_bits), tag_bits);
    expect_sound(&drive);
    set_owner(&drive, SEGLOG_OWNER_BYTES - 1, 1);
    expect_only(&drive, 2);
    testing_drive_free(&drive);
}

static void damaged_states(void **state)
{
    (void)state;
    for (uint32_t slot = 0; slot < SEGLOG_STATE_SLOTS; slot++) {
        struct testing_drive drive = made_store(false);
        state_at(&drive, slot)->flush_sequence ^= 4;
        expect_only(&drive, 3);
        state_at(&drive, slot)->flush_sequence ^= 4;
        state_at(&drive, slot)->magic ^= 1;
        expect_only(&drive, 3);
        state_at(&drive, slot)->magic ^= 1;
        state_at(&drive, slot)->generation += 64;
        expect_only(&drive, 3);
        testing_drive_free(&drive);
    }
}

static void states_that_contradict_each_other(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    const struct seglog_superblock_format superblock = depot_testing_superblock(&drive);
    uint32_t newest = newest_slot(&drive);
    /* good, of the same generation, and different */
    state_at(&drive, newest)->wall_ns++;
    seglog_state_seal(state_at(&drive, newest), &superblock);
    expect_only(&drive, 3);
    /* in the wrong pair */
    memcpy(state_at(&drive, newest), state_at(&drive, newest ^ 1), superblock.state_bytes);
    memcpy(state_at(&drive, newest ^ 2), state_at(&drive, newest), superblock.state_bytes);
    expect_only(&drive, 3);
    testing_drive_free(&drive);
}

/* Where the last session did not end, a slot may be torn in any way. */
static void torn_states_are_no_faults(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(true);
    state_at(&drive, newest_slot(&drive))->flush_sequence ^= 4;
    expect_sound(&drive);
    testing_drive_free(&drive);
    drive = made_store(false);
    uint32_t newest = newest_slot(&drive);
    const uint64_t state_bytes = depot_testing_superblock(&drive).state_bytes;
    uint8_t *torn = (uint8_t *)state_at(&drive, newest ^ 1);
    torn[DRIVE_SECTOR_BYTES] ^= 1; /* not the first sector */
    expect_sound(&drive);
    torn[DRIVE_SECTOR_BYTES] ^= 1;
    struct seglog_state_format *other = state_at(&drive, newest ^ 2);
    other->generation += 2; /* the next one, whose write was cut */
    other->session++;
    memcpy(state_at(&drive, newest ^ 3), other, state_bytes);
    state_at(&drive, newest ^ 3)->session++;
    expect_sound(&drive);
    testing_drive_free(&drive);
}

static void damaged_headers(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    struct place place = find_records(&drive, SEGLOG_VALUE);
    struct told told;
    struct depot_check_report report;
    place.segment[40] ^= 1;
    expect_only(&drive, 4);
    assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
    assert_int_equal(report.records, KEYS - REMOVED);
    record_at(&place, 2)[41] ^= 1; /* what is in it is looked at all the same */
    assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
    assert_int_equal(told.count[4] + told.count[7], 2);
    assert_int_equal(told.all, 2);
    record_at(&place, 2)[41] ^= 1;
    /* good, and not the one that the summary is of */
    struct seglog_segment_format header = place.header;
    header.stamp--;
    seglog_segment_seal(&header, place.superblock.check_seed);
    memcpy(place.segment, &header, sizeof(header));
    expect_fault(&drive, 4);
    testing_drive_free(&drive);
}

/* A free segment may have what it had, under a header that was torn when it was opened again. */
static void torn_headers_are_no_faults(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    struct place place = find_records(&drive, SEGLOG_VALUE);
    uint32_t newest = newest_slot(&drive);
    struct told told;
    struct depot_check_report report;
    state_at(&drive, newest)->freed_stamps[place.number] = place.header.stamp;
    state_at(&drive, newest)->closed_count = 0;
    seglog_state_seal(state_at(&drive, newest), &place.superblock);
    memcpy(state_at(&drive, newest ^ 1), state_at(&drive, newest), place.superblock.state_bytes);
    assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
    uint32_t free_count = report.segments_free;
    place.segment[40] ^= 1;
    assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
    assert_int_equal(told.all, 0);
    assert_int_equal(report.segments_free, free_count);
    testing_drive_free(&drive);
}

static void seal_header(struct place *place, const struct seglog_segment_format *changed)
{
    struct seglog_segment_format header = *changed;
    seglog_segment_seal(&header, place->superblock.check_seed);
    memcpy(place->segment, &header, sizeof(header));
}

static void impossible_headers(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    struct place place = find_records(&drive, SEGLOG_VALUE);
    const struct seglog_state_format *newest = state_at(&drive, newest_slot(&drive));
    struct seglog_segment_format header = place.header;
    header.session = newest->session + 1;
    seal_header(&place, &header);
    expect_fault(&drive, 5);
    header.session = 0;
    seal_header(&place, &header);
    expect_fault(&drive, 5);
    header = place.header;
    header.first_sequence = newest->sequence_bound + 1;
    seal_header(&place, &header);
    expect_only(&drive, 8);
    testing_drive_free(&drive);
}

/* The log opens no store with these, so the check says what the opening would. */
static void numbers_that_the_log_refuses(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    struct place place = find_records(&drive, SEGLOG_VALUE);
    const struct seglog_state_format *newest = state_at(&drive, newest_slot(&drive));
    struct told told;
    struct depot_check_report report;
    struct seglog_segment_format header = place.header;
    header.stamp = newest->stamp_bound;
    seal_header(&place, &header);
    assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), -EUCLEAN);
    header.stamp = place.header.stamp + 1; /* another segment's */
    seal_header(&place, &header);
    assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), -EUCLEAN);
    seal_header(&place, &place.header);
    expect_sound(&drive);
    place.entries[0].sequence = newest->sequence_bound;
    seglog_summary_seal(place.summary, &place.trailer, &place.superblock);
    assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), -EUCLEAN);
    testing_drive_free(&drive);
}

static void damaged_summaries(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    struct place place = find_records(&drive, SEGLOG_VALUE);
    place.summary[100] ^= 1;
    expect_only(&drive, 6);
    place.summary[100] ^= 1;
    uint8_t *trailer = place.segment + place.superblock.segment_bytes - sizeof(place.trailer);
    trailer[30] ^= 1;
    expect_only(&drive, 6);
    testing_drive_free(&drive);
}

static void summaries_of_other_sessions(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    struct place place = find_records(&drive, SEGLOG_VALUE);
    struct seglog_trailer_format trailer = place.trailer;
    uint64_t session = state_at(&drive, newest_slot(&drive))->session;
    const struct {
        uint64_t session;
        uint32_t flags;
        bool sound;
    } cases[] = {{trailer.session, 0, true},
                 {trailer.session, SEGLOG_SUMMARY_SEALED, false},
                 {session + 1, SEGLOG_SUMMARY_SEALED, true},
                 {session + 1, 0, false},
                 {session + 2, SEGLOG_SUMMARY_SEALED, false},
                 {trailer.session - 1, 0, false}};
    for (size_t i = 0; i < base_array_count(cases); i++) {
        trailer.session = cases[i].session;
        trailer.flags = cases[i].flags;
        seglog_summary_seal(place.summary, &trailer, &place.superblock);
        if (cases[i].sound)
            expect_sound(&drive);
        else
            expect_only(&drive, 6);
    }
    testing_drive_free(&drive);
}

static void damaged_records(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    struct place place = find_records(&drive, SEGLOG_VALUE);
    for (uint32_t i = 0; i < place.trailer.entries; i += 7) {
        uint8_t *record = record_at(&place, i);
        const size_t at[] = {0, 5, 12, 30, 39, 41, place.entries[i].bytes - 1};
        for (size_t j = 0; j < base_array_count(at); j++) {
            record[at[j]] ^= 0x10;
            expect_only(&drive, 7);
            record[at[j]] ^= 0x10;
        }
    }
    testing_drive_free(&drive);
}

/* A summary with a good check that tells of a record what is not so. */
static void summaries_that_lie(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    struct place place = find_records(&drive, SEGLOG_VALUE);
    uint32_t entry = entry_of(&place, SEGLOG_VALUE);
    const struct seglog_entry_format before = place.entries[entry];
    for (unsigned field = 0; field < 5; field++) {
        struct seglog_entry_format *lie = &place.entries[entry];
        *lie = before;
        lie->hash[0] += field == 0;
        lie->hash[1] += field == 1;
        lie->sequence += field == 2;
        lie->bytes -= field == 3;
        lie->expiry[2] = (uint8_t)(lie->expiry[2] + (field == 4));
        seglog_summary_seal(place.summary, &place.trailer, &place.superblock);
        expect_fault(&drive, 7);
    }
    testing_drive_free(&drive);
}

static void numbers_that_were_never_issued(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    const struct seglog_state_format *newest = state_at(&drive, newest_slot(&drive));
    struct place place = find_records(&drive, SEGLOG_VALUE);
    uint32_t value = entry_of(&place, SEGLOG_VALUE);
    struct seglog_record_format *header = (void *)record_at(&place, value);
    const uint64_t version = header->version;
    header->version = 0;
    seal(&place, value);
    expect_only(&drive, 9);
    header->version = version;
    seal(&place, value);
    expect_sound(&drive);
    place = find_records(&drive, SEGLOG_TOMBSTONE);
    uint32_t tombstone = entry_of(&place, SEGLOG_TOMBSTONE);
    header = (void *)record_at(&place, tombstone);
    header->version = 1;
    seal(&place, tombstone);
    expect_only(&drive, 9);
    header->version = 0;
    uint8_t *birth = record_at(&place, tombstone) + place.entries[tombstone].bytes - SEGLOG_BIRTH_BYTES;
    base_store_le64(birth, newest->stamp_bound);
    seal(&place, tombstone);
    expect_only(&drive, 9);
    testing_drive_free(&drive);
}

static void superseded_places(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    struct place place = find_records(&drive, SEGLOG_VALUE);
    const struct seglog_superblock_format *superblock = &place.superblock;
    const struct {
        uint64_t grain;
        bool sound;
    } cases[] = {{0, true},
                 {1, false},
                 {superblock->data_offset / superblock->grain_bytes, true},
                 {superblock->data_offset / superblock->grain_bytes - 1, false},
                 {superblock->store_bytes / superblock->grain_bytes - 1, true},
                 {superblock->store_bytes / superblock->grain_bytes, false}};
    for (size_t i = 0; i < base_array_count(cases); i++) {
        place.entries[1].superseded = cases[i].grain;
        seglog_summary_seal(place.summary, &place.trailer, superblock);
        if (cases[i].sound)
            expect_sound(&drive);
        else
            expect_only(&drive, 10);
    }
    testing_drive_free(&drive);
}

/* Two puts of one length: the second becomes a copy of the first, or something that cannot be. */
static void copies(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    assert_int_equal(depot_testing_put(&store, "a", "value"), 0);
    assert_int_equal(depot_testing_put(&store, "b", "other"), 0);
    depot_testing_close(&store);
    struct place place = find_records(&drive, SEGLOG_VALUE);
    uint32_t grain = place.entries[1].grain;
    memcpy(record_at(&place, 1), record_at(&place, 0), place.entries[0].bytes);
    place.entries[1] = place.entries[0];
    place.entries[1].grain = grain;
    seal(&place, 1);
    struct told told;
    struct depot_check_report report;
    assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
    assert_int_equal(told.count[11], 0);
    assert_int_equal(told.count[13], 1); /* one record is gone that the checkpoint has */
    assert_int_equal(report.records, 1);
    assert_int_equal(report.superseded, 1);
    record_at(&place, 1)[place.entries[1].bytes - 1] ^= 1;
    seal(&place, 1);
    expect_fault(&drive, 11);
    /* a tombstone of its sequence is what the collector leaves of a value that has ended */
    for (uint32_t entry = 2; entry-- > 0;) {
        struct seglog_record_format *header = (void *)record_at(&place, entry);
        uint8_t value[64];
        const uint32_t bytes = place.entries[entry].bytes;
        memcpy(value, header, bytes);
        header->kind = place.entries[entry].kind = SEGLOG_TOMBSTONE;
        header->version = 0;
        header->value_bytes = SEGLOG_BIRTH_BYTES;
        memset(record_at(&place, entry) + sizeof(*header) + 1, 0, SEGLOG_BIRTH_BYTES);
        place.entries[entry].bytes = sizeof(*header) + 1 + SEGLOG_BIRTH_BYTES;
        seal(&place, entry);
        assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
        assert_int_equal(told.count[11], 0);
        assert_int_equal(report.records, 0);
        assert_int_equal(report.tombstones, 1);
        memcpy(record_at(&place, entry), value, bytes);
        place.entries[entry].kind = SEGLOG_VALUE;
        place.entries[entry].bytes = bytes;
    }
    testing_drive_free(&drive);
}

/* Another checkpoint with a good check: so many bytes of it. */
static void rewrite_checkpoint(struct testing_drive *drive, uint32_t bytes)
{
    const struct place place = find_checkpoint(drive);
    part_of(&place)->bytes = bytes;
    seglog_part_seal(part_of(&place), place.superblock.check_seed);
}

/* Append a copy of a record to its segment, as the collector does to another. @return its grain in the
 * segment */
static uint32_t append_copy(struct place *place, uint32_t entry)
{
    const struct seglog_superblock_format *superblock = &place->superblock;
    uint32_t copy = place->trailer.entries++, bytes = place->entries[entry].bytes;
    assert_true(place->trailer.entries * sizeof(*place->entries) + sizeof(place->trailer) <=
                superblock->block_bytes);
    uint32_t begin = (uint32_t)base_align_up(place->trailer.end, superblock->grain_bytes);
    place->entries[copy] = place->entries[entry];
    place->entries[copy].grain = begin / superblock->grain_bytes;
    place->trailer.end = begin + bytes;
    memcpy(place->segment + begin, record_at(place, entry), bytes);
    seal(place, copy);
    return place->entries[copy].grain;
}

/* Have the checkpoint name another address of a value. */
static void rename_in_checkpoint(struct testing_drive *drive, uint64_t grain, uint64_t new_grain)
{
    enum { ADDRESS_SHIFT = 16 };
    const struct place place = find_checkpoint(drive);
    uint32_t bytes = part_of(&place)->bytes;
    uint64_t mask =
        (UINT64_C(1) << place.superblock.owner[offsetof(struct depot_owner_format, address_bits)]) - 1;
    uint8_t *end = (uint8_t *)(part_of(&place) + 1) + bytes;
    uint8_t *word = end - sizeof(uint64_t);
    while ((base_load_le64(word) >> ADDRESS_SHIFT & mask) != grain)
        word -= sizeof(struct depot_checkpoint_entry_format);
    base_store_le64(word, base_load_le64(word) + ((new_grain - grain) << ADDRESS_SHIFT));
    rewrite_checkpoint(drive, bytes);
}

/* A moved record may be there twice, and the index may name either place. */
static void moved_records_are_sound(void **state)
{
    (void)state;
    for (uint32_t later = 0; later < 2; later++) {
        struct testing_drive drive = {.size = 0};
        struct testing_store store;
        depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
        assert_int_equal(depot_testing_put(&store, "a", "value"), 0);
        assert_int_equal(depot_testing_put(&store, "b", "value"), 0);
        assert_int_equal(testing_delete(&store, "b"), 0);
        depot_testing_close(&store);
        struct place place = find_records(&drive, SEGLOG_TOMBSTONE);
        uint64_t first = (uint64_t)(place.segment - drive.bytes) / place.superblock.grain_bytes;
        uint32_t copy = append_copy(&place, 0);
        (void)append_copy(&place, entry_of(&place, SEGLOG_TOMBSTONE));
        struct told told;
        struct depot_check_report report;
        assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), 0);
        assert_int_equal(told.all, 0);
        assert_int_equal(report.records, 1);
        assert_int_equal(report.tombstones, 1);
        assert_int_equal(report.superseded, 3);
        if (later)
            rename_in_checkpoint(&drive, first + place.entries[0].grain, first + copy);
        expect_sound(&drive);
        testing_drive_free(&drive);
    }
}

static void damaged_checkpoints(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    struct place place = find_checkpoint(&drive);
    uint8_t *payload = (uint8_t *)(part_of(&place) + 1);
    payload[100] ^= 1;
    expect_only(&drive, 12);
    payload[100] ^= 1;
    place.header.part_count++;
    seal_header(&place, &place.header);
    expect_only(&drive, 12);
    place.header.part_count += 10; /* more than there are segments for */
    seal_header(&place, &place.header);
    expect_only(&drive, 12);
    place.segment[40] ^= 1; /* as if it had not been written to its end */
    expect_sound(&drive);
    testing_drive_free(&drive);
}

static void checkpoints_that_lie(void **state)
{
    (void)state;
    struct testing_drive drive = made_store(false);
    const struct place place = find_checkpoint(&drive);
    uint32_t bytes = part_of(&place)->bytes;
    rewrite_checkpoint(&drive, bytes);
    expect_sound(&drive);
    uint8_t *word = (uint8_t *)(part_of(&place) + 1) + bytes - sizeof(uint64_t);
    uint64_t right = base_load_le64(word);
    base_store_le64(word, right ^ UINT64_C(1) << 20); /* another address */
    rewrite_checkpoint(&drive, bytes);
    expect_only(&drive, 13);
    base_store_le64(word, UINT64_MAX); /* none at all */
    rewrite_checkpoint(&drive, bytes);
    expect_only(&drive, 12);
    memcpy(word - 8, word - 24, 16); /* one twice */
    rewrite_checkpoint(&drive, bytes);
    expect_only(&drive, 12);
    base_store_le64(word, right);
    rewrite_checkpoint(&drive, bytes - (uint32_t)sizeof(struct depot_checkpoint_entry_format));
    expect_only(&drive, 13);
    rewrite_checkpoint(&drive, bytes - 1);
    expect_only(&drive, 12);
    rewrite_checkpoint(&drive, 16);
    expect_only(&drive, 12);
    testing_drive_free(&drive);
}

static void what_is_no_store_is_not_checked(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct told told;
    struct depot_check_report report = {.faults = 77};
    assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), -ENOENT);
    drive = (struct testing_drive){.size = TESTING_STORE_BYTES, .exists = true};
    drive.bytes = calloc(1, drive.size);
    assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), -EUCLEAN);
    assert_int_equal(report.faults, 77);
    testing_drive_free(&drive);
    drive = made_store(false);
    for (uint32_t slot = 0; slot < SEGLOG_STATE_SLOTS; slot++)
        state_at(&drive, slot)->check ^= 1;
    assert_int_equal(depot_testing_check(&drive, NULL, &told, &report), -EUCLEAN);
    assert_int_equal(report.faults, 77);
    testing_drive_free(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_store_is_not_checked),
        cmocka_unit_test(damaged_superblocks),
        cmocka_unit_test(impossible_widths),
        cmocka_unit_test(damaged_states),
        cmocka_unit_test(states_that_contradict_each_other),
        cmocka_unit_test(torn_states_are_no_faults),
        cmocka_unit_test(damaged_headers),
        cmocka_unit_test(torn_headers_are_no_faults),
        cmocka_unit_test(impossible_headers),
        cmocka_unit_test(numbers_that_the_log_refuses),
        cmocka_unit_test(damaged_summaries),
        cmocka_unit_test(summaries_of_other_sessions),
        cmocka_unit_test(damaged_records),
        cmocka_unit_test(summaries_that_lie),
        cmocka_unit_test(numbers_that_were_never_issued),
        cmocka_unit_test(superseded_places),
        cmocka_unit_test(copies),
        cmocka_unit_test(moved_records_are_sound),
        cmocka_unit_test(damaged_checkpoints),
        cmocka_unit_test(checkpoints_that_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
