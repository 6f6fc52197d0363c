/* Does checking a segment find every record that is not what its summary says, and only those? */
#include "seglog/testing.h"

struct checked {
    uint64_t good, bad, bad_sequence;
};

static void count_checked(void *arg, const struct seglog_entry_format *entry, uint64_t grain, int error,
                          const struct seglog_record_format *header, const uint8_t *record)
{
    struct checked *checked = arg;
    assert_true(grain > 0);
    if (error == 0) {
        assert_int_equal(header->sequence, entry->sequence);
        assert_memory_equal(record, header, sizeof(*header));
        checked->good++;
    } else {
        assert_int_equal(error, -EBADMSG);
        assert_null(header);
        checked->bad++;
        checked->bad_sequence = entry->sequence;
    }
}

static int check(struct testing_drive *drive, uint32_t segment, struct checked *ret_checked)
{
    struct testing_log log;
    *ret_checked = (struct checked){.good = 0};
    testing_log_open(&log, drive, true);
    int error = seglog_check_segment(log.log, segment, count_checked, ret_checked);
    testing_log_close(&log);
    return error;
}

static void checking_reads_every_record(void **state)
{
    (void)state;
    struct testing_drive drive = testing_bounded_store();
    struct testing_segment segment;
    testing_segment_begin(&segment, &drive, 1, 1);
    testing_segment_fill(&segment, 1, 50, 500, 7);
    uint64_t damaged = testing_segment_add(&segment, 50, 500);
    testing_segment_fill(&segment, 51, 60, 500, 7);
    struct checked checked;
    assert_int_equal(check(&drive, 1, &checked), 0); /* unsealed: from the summary in memory */
    assert_int_equal(checked.good, 59);
    testing_segment_summarize(&segment, 0);
    uint64_t sector = (uint64_t)(segment.bytes - drive.bytes) + base_align_down(damaged, DRIVE_SECTOR_BYTES);
    for (uint64_t lie = 0; lie < 3; lie++) { /* none, and one that is seen through */
        testing_drive_lie_at(&drive, TESTING_NOISE, lie, sector, sector + DRIVE_SECTOR_BYTES);
        assert_int_equal(check(&drive, 1, &checked), 0);
        assert_int_equal(checked.good, 59);
        assert_int_equal(checked.bad, 0);
    }
    testing_drive_lie_at(&drive, TESTING_NOISE, 0, 0, 0);
    assert_int_equal(check(&drive, 2, &checked), 0); /* free */
    assert_int_equal(checked.good, 0);
    segment.bytes[damaged + 100] ^= 1;
    assert_int_equal(check(&drive, 1, &checked), 0);
    assert_int_equal(checked.good, 58);
    assert_int_equal(checked.bad, 1);
    assert_int_equal(checked.bad_sequence, 50);
    segment.bytes[damaged + 100] ^= 1;
    testing_drive_fail_at(&drive, DRIVE_READ, 1, true); /* of all reads that touch just this */
    drive.fail_begin = (uint64_t)(segment.bytes - drive.bytes) + damaged + 100;
    drive.fail_end = drive.fail_begin + 1;
    assert_int_equal(check(&drive, 1, &checked), 0);
    assert_in_range(checked.bad, 1, 15); /* those in the same block */
    assert_int_equal(checked.good + checked.bad, 59);
    testing_drive_fail_at(&drive, DRIVE_READ, 0, false);
    segment.bytes[damaged + 100] ^= 1;
    segment.bytes[1] ^= 1;
    assert_int_equal(check(&drive, 1, &checked), -EUCLEAN); /* the header; the rest is read all the same */
    assert_int_equal(checked.good, 58);
    testing_segment_end(&segment);
    testing_drive_free(&drive);
}

/* A summary that names other records than there are. */
static void checking_compares_records_with_their_entries(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 5; wrong++) {
        struct testing_drive drive = testing_bounded_store();
        struct testing_segment segment;
        testing_segment_begin(&segment, &drive, 1, 1);
        testing_segment_fill(&segment, 1, 5, 500, 7);
        segment.entries[2].sequence += wrong == 0;
        segment.entries[2].hash[0] += wrong == 1;
        segment.entries[2].hash[1] += wrong == 2;
        segment.entries[2].expiry[4] = wrong == 3;
        segment.entries[2].bytes -= wrong == 4;
        testing_segment_summarize(&segment, 0);
        struct checked checked;
        assert_int_equal(check(&drive, 1, &checked), 0);
        assert_int_equal(checked.good, 3);
        assert_int_equal(checked.bad, 1);
        testing_segment_end(&segment);
        testing_drive_free(&drive);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checking_reads_every_record),
        cmocka_unit_test(checking_compares_records_with_their_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
