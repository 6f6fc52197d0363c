/*
 * Of a batch all records count, or none: where they lie when they are written, and what an opening makes of
 * batches in a segment that nothing proves, whatever is missing of them.
 */
#include "seglog/run_testing.h"

#define BATCH 5 /* records of one that is made by hand */

/* ---- made by hand ------------------------------------------------------------------------------- */

/* Sequences from `begin` on, as the records of a batch; the last commits it. @param what  the n-th says of it
 */
static void add_batch(struct testing_segment *segment, uint64_t begin, uint32_t count, uint32_t value_bytes)
{
    for (uint32_t number = 0; number < count; number++) {
        bool last = number + 1 == count;
        const struct seglog_batch_format batch = {.number = number, .count = last ? count : 0, .id = begin};
        (void)testing_segment_add_marked(segment, begin + number, value_bytes,
                                         SEGLOG_MARK_BATCH | (last ? SEGLOG_MARK_COMMIT : 0), &batch);
    }
}

/* One record that says of its batch what it likes. */
static void add_member(struct testing_segment *segment, uint64_t sequence, uint32_t number, uint32_t count,
                       uint64_t id)
{
    const struct seglog_batch_format batch = {.number = number, .count = count, .id = id};
    (void)testing_segment_add_marked(segment, sequence, 300,
                                     SEGLOG_MARK_BATCH | (count > 0 ? SEGLOG_MARK_COMMIT : 0), &batch);
}

/* A store whose segment 2 is open. */
static void begin_store(struct testing_drive *drive, struct testing_segment *segment)
{
    *drive = testing_bounded_store();
    testing_segment_begin(segment, drive, 2, 5);
}

/* @param end  sequences from 1 to below it are found, but for those from `gap_begin` to below `gap_end` */
static void expect(struct testing_drive *drive, uint64_t end, uint64_t gap_begin, uint64_t gap_end)
{
    static const bool read_only[] = {true, false, true};
    for (size_t i = 0; i < base_array_count(read_only); i++) {
        struct testing_found found;
        struct testing_log log;
        testing_log_open(&log, drive, read_only[i]);
        testing_find(log.log, &found);
        for (uint64_t sequence = 0; sequence < TESTING_SEQUENCES; sequence++) {
            bool in_gap = sequence >= gap_begin && sequence < gap_end;
            if (found.times[sequence] != (sequence >= 1 && sequence < end && !in_gap))
                print_error("sequence %llu\n", (unsigned long long)sequence);
            assert_int_equal(found.times[sequence], sequence >= 1 && sequence < end && !in_gap);
        }
        testing_log_close(&log);
    }
}

static void end_store(struct testing_drive *drive, struct testing_segment *segment)
{
    testing_segment_end(segment);
    testing_drive_free(drive);
}

static void whole_ones_count(void **state)
{
    (void)state;
    struct testing_segment segment;
    struct testing_drive drive;
    begin_store(&drive, &segment);
    testing_segment_fill(&segment, 1, 4, 700, 9);
    add_batch(&segment, 4, BATCH, 900);
    add_batch(&segment, 9, 2, 10);
    testing_segment_fill(&segment, 11, 13, 700, 2);
    add_batch(&segment, 13, 1, 10);
    add_batch(&segment, 14, 40, 600);
    expect(&drive, 54, 0, 0);
    end_store(&drive, &segment);
}

/* Any byte of any of its records is another one, with and without something behind it. */
static void one_with_a_damaged_record_does_not(void **state)
{
    (void)state;
    for (unsigned behind = 0; behind < 2; behind++) {
        struct testing_segment segment;
        struct testing_drive whole;
        begin_store(&whole, &segment);
        testing_segment_fill(&segment, 1, 4, 700, 9);
        uint64_t begin = segment.position;
        add_batch(&segment, 4, BATCH, 900);
        uint64_t end = segment.end;
        testing_segment_end_write(&segment);
        if (behind > 0)
            testing_segment_fill(&segment, 4 + BATCH, 12, 700, 2);
        uint64_t offset = (uint64_t)(segment.bytes - whole.bytes);
        for (uint64_t at = begin; at < end; at += 31) {
            uint64_t grain = at & 63;
            struct testing_drive drive = testing_drive_copy(&whole);
            drive.bytes[offset + at] ^= 0x40;
            bool padding = whole.bytes[offset + at] == 0 && grain >= 60;
            if (!padding)
                expect(&drive, behind > 0 ? 12 : 4, 4, 4 + BATCH);
            testing_drive_free(&drive);
        }
        end_store(&whole, &segment);
    }
}

/* It ends with each of its records. */
static void one_without_its_commit_does_not(void **state)
{
    (void)state;
    for (uint32_t there = 1; there < BATCH; there++) {
        struct testing_segment segment;
        struct testing_drive drive;
        begin_store(&drive, &segment);
        testing_segment_fill(&segment, 1, 4, 700, 9);
        for (uint32_t number = 0; number < there; number++)
            add_member(&segment, 4 + number, number, 0, 4);
        expect(&drive, 4, 0, 0);
        end_store(&drive, &segment);
    }
}

/* What its records say does not fit together: whatever stands behind it counts all the same. */
static void nonsense_does_not(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 8; kind++) {
        struct testing_segment segment;
        struct testing_drive drive;
        begin_store(&drive, &segment);
        testing_segment_fill(&segment, 1, 4, 700, 9);
        switch (kind) {
        case 0: /* a number is missing */
            add_member(&segment, 4, 0, 0, 4);
            add_member(&segment, 5, 2, 3, 4);
            break;
        case 1: /* the count is too high */
            add_member(&segment, 4, 0, 0, 4);
            add_member(&segment, 5, 1, 3, 4);
            break;
        case 2: /* the count is too low */
            add_member(&segment, 4, 0, 0, 4);
            add_member(&segment, 5, 1, 1, 4);
            break;
        case 3: /* of another batch */
            add_member(&segment, 4, 0, 0, 4);
            add_member(&segment, 5, 1, 2, 3);
            break;
        case 4: /* it begins in the middle */
            add_member(&segment, 4, 1, 0, 3);
            add_member(&segment, 5, 2, 3, 3);
            break;
        case 5: /* a number is another */
            add_member(&segment, 4, 0, 0, 4);
            add_member(&segment, 5, 5, 2, 4);
            break;
        case 6: /* the first is none */
            add_member(&segment, 4, 0, 0, 3);
            add_member(&segment, 5, 1, 2, 3);
            break;
        default: /* others stand in between, of which one is the end of it */
            add_member(&segment, 4, 0, 0, 4);
            testing_segment_fill(&segment, 6, 7, 700, 9);
            add_member(&segment, 5, 1, 2, 4);
            testing_segment_fill(&segment, 7, 8, 700, 9);
            break;
        }
        if (kind < 7)
            testing_segment_fill(&segment, 6, 8, 700, 9);
        expect(&drive, 8, 4, 6);
        end_store(&drive, &segment);
    }
}

/* One batch was cut off, and another follows, or the same one again. */
static void one_begins_where_another_was_cut_off(void **state)
{
    (void)state;
    struct testing_segment segment;
    struct testing_drive drive;
    begin_store(&drive, &segment);
    testing_segment_fill(&segment, 1, 2, 700, 9);
    add_member(&segment, 2, 0, 0, 2);
    add_member(&segment, 3, 1, 0, 2);
    add_batch(&segment, 4, BATCH, 900);
    add_member(&segment, 9, 0, 0, 9);
    expect(&drive, 9, 2, 4);
    end_store(&drive, &segment);
}

/* No release writes one that is longer than seglog_batch_bytes_max(). */
static void too_long_ones_do_not(void **state)
{
    (void)state;
    for (uint32_t longer = 0; longer < 2; longer++) {
        struct testing_segment segment;
        struct testing_drive drive;
        begin_store(&drive, &segment);
        struct testing_log log;
        testing_log_open(&log, &drive, true);
        uint64_t most = seglog_batch_bytes_max(log.log);
        uint64_t own = seglog_batch_bytes(log.log, seglog_record_bytes(SEGLOG_MARK_BATCH, 2, 900));
        testing_log_close(&log);
        uint32_t count = (uint32_t)(most / own) + longer;
        testing_segment_fill(&segment, 1, 10, 100, 9);
        add_batch(&segment, 10, count, 900);
        testing_segment_fill(&segment, 10 + count, 20 + count, 100, 3);
        expect(&drive, 20 + count, 10, longer == 0 ? 10 : 10 + count);
        end_store(&drive, &segment);
    }
}

/* A summary that a recovery has written is damaged, but its end: it hides what stands behind, of a batch, too. */
static void what_was_hidden_of_one_stays_hidden(void **state)
{
    (void)state;
    struct testing_segment segment;
    struct testing_drive drive;
    begin_store(&drive, &segment);
    testing_segment_fill(&segment, 1, 4, 700, 9);
    for (uint32_t number = 0; number < BATCH; number++) {
        add_member(&segment, 4 + number, number, number + 1 == BATCH ? BATCH : 0, 4);
        if (number == 1)
            testing_segment_summarize(&segment, SEGLOG_SUMMARY_SEALED);
    }
    uint64_t entries = segment.superblock.segment_bytes - seglog_summary_bytes(5, TESTING_BLOCK_BYTES);
    segment.bytes[entries] ^= 1;
    expect(&drive, 4, 0, 0);
    end_store(&drive, &segment);
}

#define WINDOW_SEGMENT (UINT64_C(4) << 20) /* longer than the window in which it is read */

static struct testing_drive store_of_windows(void)
{
    static const struct seglog_format_options options = {.owner_kind = SEGLOG_OWNER_DEPOT,
                                                         .segment_bytes = WINDOW_SEGMENT};
    struct testing_drive drive =
        testing_store_of(UINT64_C(65536) + SEGLOG_SEGMENTS_MIN * WINDOW_SEGMENT, &options);
    testing_state_bound(&drive, TESTING_SEQUENCE_BOUND, TESTING_STAMP_BOUND);
    return drive;
}

/* What is accepted is written again, whatever was given up before it. @param offset  where some of that is */
static void expect_written_again(struct testing_drive *whole, uint64_t offset)
{
    struct testing_drive drive = testing_drive_copy(whole);
    struct testing_recording recording = {.count = 0};
    struct testing_log log;
    bool written = false;
    drive.recording = &recording;
    testing_log_open(&log, &drive, false);
    for (size_t i = 0; i < recording.count; i++) {
        const struct testing_write *write = &recording.writes[i];
        written = written || (write->offset <= offset && write->offset + write->bytes > offset);
    }
    assert_true(written);
    testing_log_close(&log);
    testing_recording_free(&recording);
    testing_drive_free(&drive);
}

/* Batches that go beyond the window in which a segment is read: they are decided as wholes. */
static void windows_do_not_cut_them(void **state)
{
    (void)state;
    enum { RECORDS = 30, BYTES = 33000, BATCHES = 4, BEHIND = 4 };
    for (uint32_t torn = 0; torn <= BATCHES; torn++) { /* BATCHES: none */
        struct testing_drive drive = store_of_windows();
        struct testing_segment segment;
        uint64_t sequence = 1, gap = 0;
        testing_segment_begin(&segment, &drive, 0, 1);
        for (uint32_t i = 0; i < BATCHES; i++, sequence += RECORDS) {
            add_batch(&segment, sequence, RECORDS, BYTES);
            if (i == torn) { /* its last record but one */
                gap = sequence;
                segment.bytes[segment.position - 2 * BYTES] ^= 1;
            }
            testing_segment_end_write(&segment);
        }
        uint64_t behind = (uint64_t)(segment.bytes - drive.bytes) + segment.position;
        testing_segment_fill(&segment, sequence, sequence + BEHIND, BYTES, 1);
        expect_written_again(&drive, behind);
        expect(&drive, sequence + BEHIND, gap, gap == 0 ? 0 : gap + RECORDS);
        end_store(&drive, &segment);
    }
}

/* Nothing follows the beginning of one for longer than the window. */
static void windows_do_not_wait_for_one_that_is_cut_off(void **state)
{
    (void)state;
    struct testing_drive drive = store_of_windows();
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 0, 1);
    add_member(&segment, 1, 0, 0, 1);
    add_member(&segment, 2, 1, 0, 1);
    segment.position = WINDOW_SEGMENT - (UINT64_C(64) << 10);
    add_batch(&segment, 3, BATCH, 300);
    expect(&drive, 3 + BATCH, 1, 3);
    end_store(&drive, &segment);
}

/* Read a segment once more, as beside a checkpoint that is about what lies before a place in it. */
static void read_beside(struct seglog *log, uint32_t number, uint64_t covered_bytes)
{
    struct seglog_segment *segment = &log->segments[number];
    base_free(&log->node->memory, segment->unsealed_entries,
              segment->entry_count * sizeof(*segment->unsealed_entries));
    segment->unsealed_entries = NULL;
    segment->summary_read = false;
    segment->covered_grain = (uint32_t)(covered_bytes >> log->grain_shift);
    assert_int_equal(seglog_recover_unknown(log), 0);
}

/* What a checkpoint is about was committed: of a batch that is damaged all but the damaged record is there. */
static void what_is_covered_is_committed(void **state)
{
    (void)state;
    for (unsigned covered = 0; covered < 2; covered++) {
        struct testing_segment segment;
        struct testing_drive drive;
        begin_store(&drive, &segment);
        testing_segment_fill(&segment, 1, 4, 700, 9);
        uint64_t begin = segment.position;
        add_batch(&segment, 4, BATCH, 900);
        uint64_t end = segment.position;
        segment.bytes[begin + 3 * 960 + 100] ^= 1;
        struct testing_found found;
        struct testing_log log;
        testing_log_open(&log, &drive, true);
        read_beside(log.log, 2, covered > 0 ? end : begin);
        testing_find(log.log, &found);
        for (uint64_t sequence = 0; sequence < TESTING_SEQUENCES; sequence++) {
            bool there = sequence >= 1 && sequence < (covered > 0 ? 4 + BATCH : 4);
            assert_int_equal(found.times[sequence], there && sequence != 4 + 3);
        }
        testing_log_close(&log);
        end_store(&drive, &segment);
    }
}

/* ---- written ------------------------------------------------------------------------------------ */

#define RECORDS_MAX 64

struct written {
    struct run *run;
    struct base_random random;
    struct seglog_draft drafts[RECORDS_MAX];
    struct seglog_place places[RECORDS_MAX];
    uint64_t numbers[RECORDS_MAX];
    uint8_t keys[RECORDS_MAX][8];
    uint32_t count;
};

static uint8_t written_value[1 << 15];

/* Draft tombstones and values of different keys, as many as a batch takes. @return what they take */
static uint64_t draft_some(struct written *written, uint32_t count, uint32_t value_bytes_max)
{
    struct run *run = written->run;
    uint64_t bytes = 0, first = base_random_below(&written->random, RUN_KEYS_MAX);
    written->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t number = (first + 7 * i) % RUN_KEYS_MAX, sequence;
        bool deletes = base_random_below(&written->random, 4) == 0;
        uint32_t value_bytes = deletes ? 0 : (uint32_t)base_random_below(&written->random, value_bytes_max);
        uint64_t own = seglog_batch_bytes(
            run->log, seglog_record_bytes(SEGLOG_MARK_BATCH, 8, deletes ? 8 : value_bytes));
        if (bytes + own > seglog_batch_bytes_max(run->log))
            break;
        bytes += own;
        assert_int_equal(seglog_sequence_draw(run->log, &sequence), 0);
        run_key_bytes(run, number, written->keys[i]);
        written->numbers[i] = number;
        written->drafts[i] = (struct seglog_draft){.kind = deletes ? SEGLOG_TOMBSTONE : SEGLOG_VALUE,
                                                   .key_bytes = 8,
                                                   .value_bytes = value_bytes,
                                                   .sequence = sequence,
                                                   .version = deletes ? 0 : sequence,
                                                   .hash = run->hashes[number],
                                                   .superseded = atomic_load(&run->keys[number].grain),
                                                   .key = written->keys[i],
                                                   .value = deletes ? NULL : written_value};
        written->count++;
    }
    return bytes;
}

/* One behind the other in one segment, with what each says of the batch. */
static void expect_together(const struct written *written)
{
    const struct seglog *log = written->run->log;
    for (uint32_t i = 0; i < written->count; i++) {
        const struct seglog_place *place = &written->places[i];
        assert_int_equal(place->segment, written->places[0].segment);
        if (i > 0)
            assert_int_equal(place->grain,
                             written->places[i - 1].grain +
                                 (seglog_padded(log, written->places[i - 1].bytes) >> log->grain_shift));
        const uint8_t *record = written->run->drive.base.bytes + (place->grain << log->grain_shift);
        struct seglog_record_format header;
        struct seglog_batch_format batch;
        uint64_t seed = seglog_record_seed(log->superblock.check_seed, seglog_stamp_at(log, place->grain));
        assert_int_equal(
            seglog_record_verify(record, place->bytes, seed, place->grain, &log->superblock, &header), 0);
        assert_int_equal(header.sequence, written->drafts[i].sequence);
        if (written->count == 1) {
            assert_int_equal(header.kind, written->drafts[0].kind);
            continue;
        }
        bool last = i + 1 == written->count;
        memcpy(&batch, record + sizeof(header), sizeof(batch));
        assert_int_equal(header.kind,
                         written->drafts[i].kind | SEGLOG_MARK_BATCH | (last ? SEGLOG_MARK_COMMIT : 0));
        assert_int_equal(batch.number, i);
        assert_int_equal(batch.count, last ? written->count : 0);
        assert_int_equal(batch.id, written->drafts[0].sequence);
    }
}

static void write_some(struct written *written, uint32_t count, uint32_t value_bytes_max)
{
    struct run *run = written->run;
    struct seglog_reservation room = {.cost_bytes = 0};
    uint64_t bytes = draft_some(written, count, value_bytes_max);
    assert_int_equal(seglog_reserve_batch(run->log, SEGLOG_SPACE_DATA, bytes, &room), 0);
    assert_int_equal(seglog_append_batch(run->log, &room, written->drafts, written->count, written->places),
                     0);
    assert_int_equal(room.cost_bytes, 0);
    assert_int_equal(seglog_wait(run->log, &written->places[written->count - 1]), 0);
    expect_together(written);
    for (uint32_t i = 0; i < written->count; i++)
        run_publish(run, written->numbers[i], written->drafts[i].sequence, &written->places[i],
                    written->drafts[i].value_bytes);
}

/* Around ring and segments, with records between them, and collected. */
static void write_many(struct run *run, struct task_testing *testing)
{
    (void)testing;
    struct written *written = calloc(1, sizeof(*written));
    struct seglog_reservation room;
    assert_non_null(written);
    written->run = run;
    base_random_init(&written->random, 4);
    assert_int_equal(
        seglog_reserve_batch(run->log, SEGLOG_SPACE_DATA, seglog_batch_bytes_max(run->log) + 1, &room),
        -EMSGSIZE);
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t count = 1 + (uint32_t)base_random_below(&written->random, RECORDS_MAX);
        uint32_t longest = 1U << (1 + base_random_below(&written->random, 14));
        write_some(written, count, longest);
        if (i % 3 == 0)
            assert_int_equal(run_put(run, i, longest % 5000), 0);
    }
    struct seglog_stats stats;
    seglog_stats(run->log, &stats);
    assert_true(stats.collections > 10);
    free(written);
    assert_int_equal(run_stop(run), 0);
}

static void they_lie_together(void **state)
{
    (void)state;
    static const enum seglog_mode modes[] = {SEGLOG_POWER, SEGLOG_DEVICE};
    for (size_t mode = 0; mode < base_array_count(modes); mode++) {
        struct run *run = run_new(modes[mode], 24);
        run_in_tasks(run, write_many);
        run_free(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_ones_count),
        cmocka_unit_test(one_with_a_damaged_record_does_not),
        cmocka_unit_test(one_without_its_commit_does_not),
        cmocka_unit_test(nonsense_does_not),
        cmocka_unit_test(one_begins_where_another_was_cut_off),
        cmocka_unit_test(too_long_ones_do_not),
        cmocka_unit_test(what_was_hidden_of_one_stays_hidden),
        cmocka_unit_test(windows_do_not_cut_them),
        cmocka_unit_test(windows_do_not_wait_for_one_that_is_cut_off),
        cmocka_unit_test(what_is_covered_is_committed),
        cmocka_unit_test(they_lie_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
