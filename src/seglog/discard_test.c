/* Is what is free discarded, only that, and in nobody's way? */
#include "seglog/collect_testing.h"

#define SEGMENTS 40
#define KEYS     40

/* The service discards one segment after the other, when it has nothing else to do. */
static void let_discard(struct run *run, uint64_t discards)
{
    for (int i = 0; i < 10000 && atomic_load(&run->drive.base.discard_requests) < discards; i++) {
        seglog_poke(run->log);
        assert_int_equal(task_sleep(BASE_NS_PER_MS / 10), 0);
    }
}

/* Replace a few keys until many segments were collected. */
static void churn(struct run *run)
{
    uint64_t collections = run_stats(run).collections;
    for (uint32_t i = 0; run_stats(run).collections < collections + SEGMENTS; i++)
        assert_int_equal(run_put(run, i % KEYS, 20000), 0);
}

static void discarded(struct run *run, struct task_testing *testing)
{
    (void)testing;
    churn(run);
    let_discard(run, 10);
    uint64_t discards = atomic_load(&run->drive.base.discard_requests);
    assert_true(discards >= 10);
    const struct seglog_superblock_format *superblock = seglog_superblock(run->log);
    assert_int_equal(run_stats(run).discarded_bytes,
                     discards * (superblock->segment_bytes - superblock->block_bytes));
    assert_int_equal(run_check(run, KEYS), KEYS);
    assert_int_equal(run->log->discarding, 0);
    churn(run); /* what was discarded is written again */
    assert_int_equal(run_check(run, KEYS), KEYS);
    assert_int_equal(run_stop(run), 0);
}

static struct run *new_run(bool discards, bool wanted)
{
    struct run *run = run_new(SEGLOG_DEVICE, SEGMENTS);
    run->drive.base.discards = discards;
    run->keep_discarded = !wanted;
    return run;
}

static void what_is_free_is_discarded(void **state)
{
    (void)state;
    struct run *run = new_run(true, true);
    run_in_tasks(run, discarded);
    run_free(run);
}

static void quiet(struct run *run, struct task_testing *testing)
{
    (void)testing;
    churn(run);
    for (int i = 0; i < 100; i++)
        task_yield();
    assert_int_equal(atomic_load(&run->drive.base.discard_requests), 0);
    assert_int_equal(run_stats(run).discarded_bytes, 0);
    assert_int_equal(run_stop(run), 0);
}

static void nothing_is_discarded_that_must_not_be(void **state)
{
    (void)state;
    struct run *run = new_run(true, false); /* it is not wanted */
    run_in_tasks(run, quiet);
    run_free(run);
    run = new_run(false, true); /* the drive cannot */
    run_in_tasks(run, quiet);
    run_free(run);
}

/* It does no harm, and is not tried again. */
static void fail_one(struct run *run, struct task_testing *testing)
{
    (void)testing;
    testing_drive_fail_at(&run->drive.base, DRIVE_DISCARD, 1, true);
    churn(run);
    for (int i = 0; i < 1000 && atomic_load(&run->log->discards); i++) {
        seglog_poke(run->log);
        assert_int_equal(task_sleep(BASE_NS_PER_MS / 10), 0);
    }
    assert_false(atomic_load(&run->log->discards));
    assert_false(seglog_failed(run->log));
    churn(run);
    assert_int_equal(run_stats(run).discarded_bytes, 0);
    assert_int_equal(run_check(run, KEYS), KEYS);
    assert_int_equal(run_stop(run), 0);
}

static void a_discard_that_fails_is_the_last(void **state)
{
    (void)state;
    struct run *run = new_run(true, true);
    run_in_tasks(run, fail_one);
    run_free(run);
}

/* Whether a segment could be taken to be discarded; it is given back at once. */
static bool takes(struct run *run)
{
    uint32_t segment;
    bool taken = seglog_discard_take(run->log, &segment);
    if (taken)
        seglog_discarded(run->log, segment, false);
    return taken;
}

/* Few free segments are left alone, and whatever reservations count on. */
static void keep(struct run *run, struct task_testing *testing)
{
    (void)testing;
    churn(run);
    uint32_t before = run_stats(run).segments_free;
    assert_true(takes(run));
    assert_int_equal(run_stats(run).segments_free, before);
    uint32_t segment;
    assert_true(seglog_discard_take(run->log, &segment));
    assert_int_equal(run_stats(run).segments_free, before); /* it still counts, and is not handed out */
    base_list_for_each(item, &run->log->free)
        assert_ptr_not_equal(base_container_of(item, struct seglog_segment, link),
                             &run->log->segments[segment]);
    seglog_discarded(run->log, segment, true);
    assert_ptr_equal(base_list_first(&run->log->free), &run->log->segments[segment].link);
    base_spin_lock(&run->log->lock);
    uint64_t needed = run->log->needed;
    run->log->needed = run->log->free_count - SEGLOG_KEPT_DATA - 1;
    base_spin_unlock(&run->log->lock);
    assert_false(takes(run));
    base_spin_lock(&run->log->lock);
    run->log->needed--;
    base_spin_unlock(&run->log->lock);
    assert_true(takes(run));
    base_spin_lock(&run->log->lock);
    run->log->needed = needed;
    base_spin_unlock(&run->log->lock);
    assert_int_equal(run_stop(run), 0);
}

static void few_free_segments_are_left_alone(void **state)
{
    (void)state;
    struct run *run = new_run(true, false);
    run_in_tasks(run, keep);
    run_free(run);
}

/* What the owner may still refer to is kept. */
static bool is_settled(void *owner)
{
    struct run *run = owner;
    return !run->unsettled;
}

static void wait_for_owner(struct run *run, struct task_testing *testing)
{
    (void)testing;
    struct seglog_owner_ops ops = run_ops;
    ops.settled = is_settled;
    run->log->ops = &ops;
    run->unsettled = true;
    churn(run);
    uint32_t segments_free = run_stats(run).segments_free;
    assert_int_equal(atomic_load(&run->drive.base.discard_requests), 0);
    run->unsettled = false;
    let_discard(run, 1);
    assert_true(atomic_load(&run->drive.base.discard_requests) >= 1);
    assert_int_equal(run_stats(run).segments_free, segments_free);
    assert_int_equal(run_stop(run), 0);
}

static void what_is_unsettled_waits(void **state)
{
    (void)state;
    struct run *run = new_run(true, true);
    run_in_tasks(run, wait_for_owner);
    run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_free_is_discarded),
        cmocka_unit_test(nothing_is_discarded_that_must_not_be),
        cmocka_unit_test(a_discard_that_fails_is_the_last),
        cmocka_unit_test(few_free_segments_are_left_alone),
        cmocka_unit_test(what_is_unsettled_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
