/*
 * Collection where things go wrong: records that cannot be read, crashes at any write.
 */
#include "seglog/collect_testing.h"

/* ---- what cannot be read ------------------------------------------------------------------------ */

static uint8_t *bytes_at(struct run *run, uint64_t grain)
{
    return run->drive.base.bytes + grain * seglog_superblock(run->log)->grain_bytes;
}

static void wait_until_closed(struct run *run, uint32_t segment)
{
    while (strcmp(run_state_of(run, segment), "closing") == 0)
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    assert_string_equal(run_state_of(run, segment), "closed");
}

/* Overwrite what is hot until the segments of the cold keys have been collected, or were tried. */
static void churn(struct run *run, uint32_t first, uint32_t keys, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        assert_int_equal(run_put(run, first + i % keys, 3000), 0);
}

/* One cold record among hot ones is damaged: its segment stays, all others go on. */
static void damage(struct run *run)
{
    assert_int_equal(run_put(run, 0, 500), 0);
    assert_int_equal(run_put(run, 1, 500), 0);
    churn(run, 100, 20, 60); /* the first segment is closed */
    uint64_t grain = atomic_load(&run->keys[0].grain);
    uint32_t segment = seglog_segment_of(run->log, grain);
    wait_until_closed(run, segment);
    bytes_at(run, grain)[200] ^= 1;
    churn(run, 100, 20, 2000);
    assert_string_equal(run_state_of(run, segment), "bad");
    assert_int_equal(run->lines.errors, 1);
    assert_non_null(strstr(run->lines.error, "cannot be collected"));
    assert_int_equal(atomic_load(&run->keys[0].grain), grain); /* not moved, not lost */
    assert_int_not_equal(seglog_segment_of(run->log, atomic_load(&run->keys[1].grain)), segment);
    assert_true(run_check_key(run, 1));
    assert_int_equal(run_stats(run).segments_bad, 1);
    bytes_at(run, grain)[200] ^= 1;
    assert_true(run_check_key(run, 0));
    (void)run_check(run, 200);
}

static void lose_summary(struct run *run)
{
    assert_int_equal(run_put(run, 0, 500), 0);
    churn(run, 100, 20, 60);
    uint64_t grain = atomic_load(&run->keys[0].grain);
    uint32_t segment = seglog_segment_of(run->log, grain);
    const struct seglog_superblock_format *superblock = seglog_superblock(run->log);
    wait_until_closed(run, segment);
    run->drive.base.bytes[superblock->data_offset + (segment + 1) * superblock->segment_bytes - 40] ^= 1;
    churn(run, 100, 20, 2000);
    assert_string_equal(run_state_of(run, segment), "bad");
    assert_int_equal(atomic_load(&run->keys[0].grain), grain);
    assert_int_equal(run->lines.errors, 1);
    assert_true(run_check_key(run, 0));
    run->drive.base.bytes[superblock->data_offset + (segment + 1) * superblock->segment_bytes - 40] ^= 1;
}

static void a_damaged_segment_stays(void **state)
{
    (void)state;
    run_in_a_thread(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN, damage);
    run_in_a_thread(SEGLOG_DEVICE, SEGLOG_SEGMENTS_MIN, lose_summary);
}

/* What an owner does who gives a segment up. */
static struct {
    _Atomic uint32_t segment; /* + 1; 0: none */
    _Atomic int result;       /* 1: not yet */
    bool lets_go;
    uint32_t gone, named;
} giving;

static bool note_gone(void *owner, const struct seglog_entry_format *entry, uint64_t grain, const void *key,
                      size_t key_bytes)
{
    const struct run *run = owner;
    assert_int_equal(atomic_load(&run->keys[run_number(run, entry)].grain), grain);
    assert_true(key == NULL || key_bytes == run->key_room);
    giving.gone++;
    giving.named += key != NULL;
    return giving.lets_go;
}

static void give_up_if_wanted(void *owner)
{
    struct run *run = owner;
    uint32_t segment = atomic_exchange(&giving.segment, 0);
    if (segment != 0)
        atomic_store(&giving.result, seglog_give_up(run->log, segment - 1));
    run_service(owner);
}

static int give_up(struct run *run, uint32_t segment)
{
    atomic_store(&giving.result, 1);
    atomic_store(&giving.segment, segment + 1);
    seglog_poke(run->log);
    while (atomic_load(&giving.result) == 1)
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    return atomic_load(&giving.result);
}

/* Two records of a segment are damaged, one of them where its key is. */
static void let_go(struct run *run)
{
    for (uint64_t number = 0; number < 3; number++)
        assert_int_equal(run_put(run, number, 500), 0);
    churn(run, 100, 20, 60);
    uint32_t segment = seglog_segment_of(run->log, atomic_load(&run->keys[0].grain));
    wait_until_closed(run, segment);
    bytes_at(run, atomic_load(&run->keys[0].grain))[200] ^= 1;
    bytes_at(run, atomic_load(&run->keys[1].grain))[sizeof(struct seglog_record_format)] ^= 1;
    assert_int_equal(give_up(run, segment), giving.lets_go ? 0 : -EBADMSG);
    assert_string_equal(run_state_of(run, segment), giving.lets_go ? "free" : "bad");
    assert_int_equal(giving.gone, 2);
    assert_int_equal(giving.named, 1);
    assert_int_equal(run_stats(run).tombstone_bytes > 0, giving.lets_go);
    for (uint64_t number = 0; number < 2; number++)
        assert_int_equal(atomic_load(&run->keys[number].grain) != 0, !giving.lets_go);
    bool nameless = (seglog_superblock(run->log)->incompatible & SEGLOG_FEATURE_NAMELESS) != 0;
    assert_int_equal(nameless, giving.lets_go);
    assert_true(run_check_key(run, 2));
    assert_int_equal(give_up(run, segment), giving.lets_go ? -EAGAIN : -EBADMSG);
    churn(run, 100, 20, 2000); /* the tombstones are moved, and dropped */
    assert_true(run_check_key(run, 2));
}

static void a_segment_is_given_up_if_its_owner_lets_go(void **state)
{
    (void)state;
    static struct seglog_owner_ops ops;
    ops = run_ops;
    ops.gone = note_gone;
    ops.service = give_up_if_wanted;
    for (int lets_go = 0; lets_go < 2; lets_go++) {
        struct run *run = run_new(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN);
        memset(&giving, 0, sizeof(giving));
        giving.lets_go = lets_go != 0;
        run->ops = &ops;
        run_and_free(run, let_go);
    }
}

static enum testing_lie read_lie;

/* A read that fails, or lies, once: the record is read again. */
static void read_again(struct run *run)
{
    assert_int_equal(run_put(run, 0, 500), 0);
    assert_int_equal(run_put(run, 1, 500), 0);
    churn(run, 100, 20, 60);
    uint64_t grain = atomic_load(&run->keys[0].grain);
    uint64_t begin = grain * seglog_superblock(run->log)->grain_bytes;
    testing_drive_lie_at(&run->drive.base, read_lie, 1, begin, begin + 500);
    churn(run, 100, 20, 2000);
    assert_int_equal(atomic_load(&run->drive.base.fail_at), 0);
    assert_int_equal(run->lines.errors, read_lie == TESTING_TRUTH); /* the drive's own */
    assert_int_not_equal(atomic_load(&run->keys[0].grain), grain);
    (void)run_check(run, 200);
    assert_int_equal(run_stats(run).segments_bad, 0);
}

static void a_read_that_fails_once_is_tried_again(void **state)
{
    (void)state;
    for (read_lie = TESTING_TRUTH; read_lie <= TESTING_ZEROS; read_lie++)
        run_in_a_thread(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN, read_again);
}

/* ---- crashes ------------------------------------------------------------------------------------ */

static uint64_t crash_at;
static bool crash_reached;

static void crash(struct run *run, struct task_testing *testing)
{
    (void)testing;
    struct base_random random;
    base_random_init(&random, crash_at);
    uint32_t keys = 0;
    int error = 0;
    run_keep_stable(&run->drive);
    testing_drive_fail_at(&run->drive.base, DRIVE_WRITE, crash_at, true);
    while (error == 0 && run->live_bytes < seglog_capacity(run->log) / 100 * 85)
        error = run_put(run, keys++, 1500);
    for (uint32_t i = 0; i < 1500 && error == 0; i++) {
        uint32_t key = (uint32_t)base_random_below(&random, keys);
        error = base_random_below(&random, 3) == 0 ? run_delete(run, key) : run_put(run, key, 1500);
    }
    assert_true(error == 0 || error == -EIO || error == -EROFS);
    crash_reached = run_stop(run) != 0;
    assert_true(error == 0 || crash_reached);
}

/* The drive dies at the n-th write: what was acknowledged is there, what was deleted is not, whether all else
 * that was written is there or only what was durable. */
static void nothing_is_lost_in_a_crash(void **state)
{
    (void)state;
    crash_at = 30;
    do {
        struct run *run = run_new(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN);
        run_in_tasks(run, crash);
        struct tarn_node *node = run_node(run);
        run_open_drive(run, node);
        (void)run_expect_after_crash(run, false);
        (void)run_expect_after_crash(run, true);
        drive_close(run->opened);
        task_node_close(node);
        run_free(run);
        crash_at += 37;
    } while (crash_reached);
    assert_true(crash_at > 1000);
}

/* Overwrites that are not durable may be lost in a power cut, but never with what they have replaced. */
static void crash_undurably(struct run *run, struct task_testing *testing)
{
    (void)testing;
    struct base_random random;
    base_random_init(&random, crash_at);
    uint32_t keys = run_fill_to(run, 85, 1500);
    assert_int_equal(seglog_sync(run->log), 0);
    run_keep_stable(&run->drive);
    testing_drive_fail_at(&run->drive.base, DRIVE_WRITE, crash_at, true);
    int error = 0;
    for (uint32_t i = 0; i < 1500 && error == 0; i++)
        error = run_put(run, (uint32_t)base_random_below(&random, keys), 1500);
    run->in_doubt = keys;
    crash_reached = run_stop(run) != 0;
}

/* @param random  draws which sectors of what is not durable are on the medium; NULL: none is */
static void expect_all_keys(struct run *run, struct base_random *random)
{
    struct run_found *found = calloc(1, sizeof(*found));
    struct testing_drive copy = testing_drive_copy(&run->drive.base);
    struct testing_log log;
    for (uint64_t at = 0; at < copy.size; at += DRIVE_SECTOR_BYTES) {
        if (random == NULL || base_random_below(random, 2) == 0)
            memcpy(copy.bytes + at, run->drive.stable + at, DRIVE_SECTOR_BYTES);
    }
    testing_log_open(&log, &copy, false);
    found->run = run;
    found->log = log.log;
    assert_int_equal(seglog_visit(log.log, run_found_visit, found), 0);
    for (uint32_t i = 0; i < run->in_doubt; i++)
        assert_true(found->sequence[i] != 0 && !found->tombstone[i]);
    testing_log_close(&log);
    testing_drive_free(&copy);
    free(found);
}

static void nothing_durable_is_freed_for_what_is_not(void **state)
{
    (void)state;
    static const enum seglog_mode modes[] = {SEGLOG_DEVICE, SEGLOG_ASYNC};
    for (size_t i = 0; i < base_array_count(modes); i++) {
        crash_at = 40;
        do {
            struct run *run = run_new(modes[i], SEGLOG_SEGMENTS_MIN);
            run_in_tasks(run, crash_undurably);
            struct base_random random;
            base_random_init(&random, crash_at);
            expect_all_keys(run, NULL);
            for (int draw = 0; draw < 4; draw++)
                expect_all_keys(run, &random);
            run_free(run);
            crash_at += TESTING_SLOW ? 131 : 41;
        } while (crash_reached);
        assert_true(crash_at > 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_segment_stays),
        cmocka_unit_test(a_segment_is_given_up_if_its_owner_lets_go),
        cmocka_unit_test(a_read_that_fails_once_is_tried_again),
        cmocka_unit_test(nothing_is_lost_in_a_crash),
        cmocka_unit_test(nothing_durable_is_freed_for_what_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
