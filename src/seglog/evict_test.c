/* Eviction: the order, the horizon, what is written again, and crashes at any write. */
#include "seglog/collect_testing.h"

#define VALUE_BYTES 1500

static struct seglog_points points_of(struct run *run)
{
    struct seglog_points points;
    seglog_points(run->log, &points);
    return points;
}

/* Run a test of a cache in this thread. */
static void run_cache(enum seglog_mode mode, void (*test)(struct run *run))
{
    struct run *run = run_new(mode, SEGLOG_SEGMENTS_MIN);
    run->cache = true;
    run_and_free(run, test);
}

static void run_cache_in_all_modes(void (*test)(struct run *run))
{
    static const enum seglog_mode modes[] = {SEGLOG_POWER, SEGLOG_DEVICE, SEGLOG_ASYNC};
    for (size_t i = 0; i < base_array_count(modes); i++)
        run_cache(modes[i], test);
}

static void put_all(struct run *run, uint32_t first, uint32_t end)
{
    for (uint32_t number = first; number < end; number++)
        assert_int_equal(run_put(run, number, VALUE_BYTES), 0);
}

/* The service evicts until some segments are free. */
static void wait_until_quiet(struct run *run)
{
    while (run_stats(run).segments_free <= SEGLOG_KEPT_DATA + 2) {
        seglog_poke(run->log); /* nobody waits for it */
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    }
}

/* ---- order -------------------------------------------------------------------------------------- */

static void oldest_first(struct run *run)
{
    put_all(run, 0, RUN_KEYS_MAX);
    wait_until_quiet(run);
    struct seglog_stats stats = run_stats(run);
    uint32_t living = 0, first = RUN_KEYS_MAX;
    for (uint32_t number = RUN_KEYS_MAX; number-- > 0;) {
        bool lives = run_check_key(run, number);
        living += lives;
        first = lives ? number : first;
    }
    assert_int_equal(living, RUN_KEYS_MAX - first); /* all the young ones, and no other */
    assert_int_equal(atomic_load(&run->evicted), first);
    assert_true(stats.evictions > 20 && stats.evictions == stats.collections);
    assert_int_equal(stats.horizon_sequence, atomic_load(&run->evicted_sequence) + 1);
    assert_int_equal(stats.horizon_sequence, run->keys[first].sequence);
    assert_int_equal(stats.moved_bytes, 0);
    run_expect_counted(run);
}

static void the_oldest_go_first(void **state)
{
    (void)state;
    run_cache_in_all_modes(oldest_first);
}

/* What holds nothing alive is freed before, and says nothing of a horizon. */
static void dead_first(struct run *run)
{
    put_all(run, 0, 40);
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(run_put(run, 100 + i % 25, VALUE_BYTES), 0);
    wait_until_quiet(run);
    struct seglog_stats stats = run_stats(run);
    assert_true(stats.collections > 10);
    assert_int_equal(stats.evictions, 0);
    assert_int_equal(points_of(run).horizon_sequence, 0);
    assert_int_equal(run_check(run, 200), 65);
}

static void what_is_dead_goes_first(void **state)
{
    (void)state;
    run_cache_in_all_modes(dead_first);
}

/* Tombstones die with their segments, which are evicted and not just freed. */
static void tombstones(struct run *run)
{
    for (uint32_t i = 0; i < 3000; i++) {
        assert_int_equal(run_put(run, i % 500, 100), 0);
        assert_int_equal(run_delete(run, i % 500), 0);
    }
    wait_until_quiet(run);
    struct seglog_stats stats = run_stats(run);
    assert_int_equal(stats.evictions, stats.collections);
    assert_true(stats.horizon_sequence > 0);
    assert_int_equal(run_check(run, 500), 0);
    assert_int_equal(run->live_bytes, 0);
}

static void tombstones_are_evicted(void **state)
{
    (void)state;
    run_cache(SEGLOG_POWER, tombstones);
    run_cache(SEGLOG_DEVICE, tombstones);
}

/* ---- hits --------------------------------------------------------------------------------------- */

static void hits(struct run *run)
{
    put_all(run, 0, 60);
    for (uint32_t number = 0; number < RUN_KEYS_MAX; number++) {
        for (uint32_t hot = 0; number % 20 == 0 && hot < 20; hot++)
            atomic_store(&run->keys[hot].hit, true);
        if (number >= 60)
            assert_int_equal(run_put(run, number, VALUE_BYTES), 0);
    }
    wait_until_quiet(run);
    for (uint32_t number = 0; number < 60; number++)
        assert_int_equal(run_check_key(run, number), number < 20);
    assert_true(atomic_load(&run->renewed) >= 3 * 20); /* each time the log has gone round */
    (void)run_check(run, RUN_KEYS_MAX);
    run_expect_counted(run);
}

static void hits_are_written_again(void **state)
{
    (void)state;
    run_cache_in_all_modes(hits);
}

static void all_hit(struct run *run)
{
    for (uint32_t i = 0; i < 2 * RUN_KEYS_MAX; i++) {
        assert_int_equal(run_put(run, i % RUN_KEYS_MAX, VALUE_BYTES), 0);
        atomic_store(&run->keys[i % RUN_KEYS_MAX].hit, true);
    }
    wait_until_quiet(run);
    struct seglog_stats stats = run_stats(run);
    uint64_t footprint = seglog_footprint(run->log, run_record_bytes(run, VALUE_BYTES));
    assert_true(atomic_load(&run->renewed) > 0);
    /* no more than half of each */
    assert_true(atomic_load(&run->renewed) * footprint <=
                stats.evictions * seglog_record_space(run->log) / 2);
    (void)run_check(run, RUN_KEYS_MAX);
}

/* What was written again is durable before the segment that it was in is freed, in every mode. */
static void hits_in_a_cut(struct run *run, struct task_testing *testing)
{
    (void)testing;
    run_keep_stable(&run->drive);
    put_all(run, 0, 20);
    for (uint32_t number = 0; number < 20; number++)
        atomic_store(&run->keys[number].hit, true);
    for (uint32_t number = 20; atomic_load(&run->renewed) < 20 || run_stats(run).evictions == 0; number++)
        assert_int_equal(run_put(run, number % RUN_KEYS_MAX, VALUE_BYTES), 0);
    struct run_found *found = calloc(1, sizeof(*found));
    struct testing_drive cut = testing_drive_copy(&run->drive.base);
    struct testing_log log;
    struct seglog_points points;
    assert_non_null(found);
    memcpy(cut.bytes, run->drive.stable, cut.size);
    testing_log_open(&log, &cut, false);
    seglog_points(log.log, &points);
    assert_true(points.horizon_sequence > 0);
    found->run = run;
    found->log = log.log;
    assert_int_equal(seglog_visit(log.log, run_found_visit, found), 0);
    for (uint32_t number = 0; number < 20; number++)
        assert_true(found->sequence[number] >= points.horizon_sequence);
    testing_log_close(&log);
    testing_drive_free(&cut);
    free(found);
    assert_int_equal(run_stop(run), 0);
}

static void hits_survive_a_power_cut(void **state)
{
    static const enum seglog_mode modes[] = {SEGLOG_POWER, SEGLOG_DEVICE, SEGLOG_ASYNC};
    (void)state;
    for (size_t i = 0; i < base_array_count(modes); i++) {
        struct run *run = run_new(modes[i], SEGLOG_SEGMENTS_MIN);
        run->cache = true;
        run_in_tasks(run, hits_in_a_cut);
        run_free(run);
    }
}

static void everything_may_be_hit(void **state)
{
    (void)state;
    run_cache_in_all_modes(all_hit);
}

/* Whoever has a key locked is not waited for. */
static void locked(struct run *run)
{
    put_all(run, 0, 10);
    for (uint32_t number = 0; number < 10; number++)
        atomic_store(&run->keys[number].hit, true);
    task_mutex_lock_firmly(&run->keys[4].lock);
    for (uint32_t number = 10; atomic_load(&run->keys[4].grain) != 0; number++)
        assert_int_equal(run_put(run, number, VALUE_BYTES), 0);
    wait_until_quiet(run);
    task_mutex_unlock(&run->keys[4].lock);
    for (uint32_t number = 0; number < 10; number++)
        assert_int_equal(atomic_load(&run->keys[number].grain) != 0, number != 4);
    assert_int_equal(atomic_load(&run->renewed), 9);
}

static void a_locked_key_is_evicted(void **state)
{
    (void)state;
    run_cache(SEGLOG_DEVICE, locked);
}

/* What was hit and is damaged goes; a segment whose summary is damaged stays, and others go on. */
static void damaged(struct run *run)
{
    const struct seglog_superblock_format *superblock = seglog_superblock(run->log);
    put_all(run, 0, 120);
    for (uint32_t number = 0; number < 10; number++)
        atomic_store(&run->keys[number].hit, true);
    run->drive.base.bytes[atomic_load(&run->keys[4].grain) * superblock->grain_bytes + 200] ^= 1;
    uint32_t segment = seglog_segment_of(run->log, atomic_load(&run->keys[119].grain)) - 1;
    uint64_t end = superblock->data_offset + (segment + 1) * superblock->segment_bytes;
    while (strcmp(run_state_of(run, segment), "closed") != 0)
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    run->drive.base.bytes[end - 40] ^= 1;
    for (uint32_t number = 120; number < 2500; number++) {
        assert_int_equal(run_put(run, number, VALUE_BYTES), 0);
        for (uint32_t hot = 0; number % 20 == 0 && hot < 10; hot++)
            atomic_store(&run->keys[hot].hit, true);
    }
    wait_until_quiet(run);
    assert_string_equal(run_state_of(run, segment), "bad");
    assert_int_equal(run_stats(run).segments_bad, 1);
    assert_int_equal(run->lines.errors, 1);
    for (uint32_t number = 0; number < 10; number++)
        assert_int_equal(run_check_key(run, number), number != 4);
    assert_true(run_check(run, 120) > 10); /* those of the bad segment */
    run->drive.base.bytes[end - 40] ^= 1;
}

static void damage_is_left_behind(void **state)
{
    (void)state;
    run_cache(SEGLOG_POWER, damaged);
}

/* ---- on demand ----------------------------------------------------------------------------------- */

/* Evict once what was put last is pending no more. */
static int evict(struct run *run)
{
    int error;
    while ((error = seglog_evict(run->log)) == -EAGAIN)
        (void)task_sleep(BASE_NS_PER_MS);
    return error;
}

static void demand(struct run *run)
{
    assert_int_equal(evict(run), -ENOSPC); /* nothing is there */
    put_all(run, 0, 10);
    assert_int_equal(evict(run), 0); /* the open segment */
    assert_int_equal(atomic_load(&run->evicted), 10);
    assert_int_equal(points_of(run).horizon_sequence, run->keys[9].sequence + 1);
    assert_int_equal(evict(run), -ENOSPC);
    put_all(run, 0, 200);
    struct seglog_reservation room;
    assert_int_equal(seglog_reserve(run->log, SEGLOG_SPACE_DATA, 5000, &room), 0);
    for (int i = 0; run->live_bytes > 0; i++) { /* the open one last, though somebody has reserved room */
        assert_true(i < 10);
        assert_int_equal(evict(run), 0);
    }
    seglog_release(run->log, &room);
    put_all(run, 0, 100);
    assert_int_equal(run_check(run, 300), 100);
    run_expect_counted(run);
}

static void evictions_may_be_asked_for(void **state)
{
    (void)state;
    run_cache_in_all_modes(demand);
}

static void fail_on_demand(struct run *run, struct task_testing *testing)
{
    (void)testing;
    put_all(run, 0, 60);
    testing_drive_fail_at(&run->drive.base, DRIVE_WRITE, 1, true);
    assert_int_equal(seglog_evict(run->log), -EIO);
    assert_int_equal(seglog_evict(run->log), -EROFS);
    assert_int_equal(atomic_load(&run->evicted), 0); /* nothing is gone that may come back */
    assert_int_equal(run_check(run, 60), 60);
    assert_int_not_equal(run_stop(run), 0);
}

static void a_failed_eviction_drops_nothing(void **state)
{
    (void)state;
    struct run *run = run_new(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN);
    run->cache = true;
    run_in_tasks(run, fail_on_demand);
    run_free(run);
}

/* ---- crashes ------------------------------------------------------------------------------------ */

static uint64_t crash_at;
static bool crash_reached;
static uint64_t crash_evictions;

static void crash(struct run *run, struct task_testing *testing)
{
    (void)testing;
    struct base_random random;
    base_random_init(&random, crash_at);
    int error = 0;
    run_keep_stable(&run->drive);
    testing_drive_fail_at(&run->drive.base, DRIVE_WRITE, crash_at, true);
    for (uint32_t i = 0; i < 3000 && error == 0; i++) {
        uint32_t key = (uint32_t)base_random_below(&random, 1500);
        uint64_t choice = base_random_below(&random, 8);
        if (choice == 0)
            error = run_delete(run, key);
        else if (choice < 3)
            atomic_store(&run->keys[key].hit, true);
        else
            error = run_put(run, key, VALUE_BYTES);
    }
    assert_true(error == 0 || error == -EIO || error == -EROFS);
    crash_evictions += run_stats(run).evictions;
    crash_reached = run_stop(run) != 0;
    assert_true(error == 0 || crash_reached);
}

/* What lies above the horizon is what the owner has; what the owner has not is not there. */
static void expect_no_ghosts(struct run *run, bool cut)
{
    struct run_found *found = calloc(1, sizeof(*found));
    struct testing_drive copy = testing_drive_copy(&run->drive.base);
    struct testing_log log;
    struct seglog_points points;
    assert_non_null(found);
    if (cut)
        memcpy(copy.bytes, run->drive.stable, copy.size);
    testing_log_open(&log, &copy, false);
    seglog_points(log.log, &points);
    found->run = run;
    found->log = log.log;
    assert_int_equal(seglog_visit(log.log, run_found_visit, found), 0);
    for (uint32_t i = 0; i < RUN_KEYS_MAX; i++) {
        const struct run_key *key = &run->keys[i];
        bool lives = atomic_load(&key->grain) != 0;
        bool there =
            found->sequence[i] >= points.horizon_sequence && found->sequence[i] != 0 && !found->tombstone[i];
        if (run->in_doubt == i + 1 || !there)
            continue;
        assert_true(lives);
        /* one that is written again has a sequence of which its owner has not heard */
        assert_true(found->sequence[i] == key->sequence || key->sequence == 0 || key->renewing);
    }
    testing_log_close(&log);
    testing_drive_free(&copy);
    free(found);
}

static void nothing_comes_back_after_a_crash(void **state)
{
    (void)state;
    crash_at = 60;
    crash_evictions = 0;
    do {
        struct run *run = run_new(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN);
        run->cache = true;
        run_in_tasks(run, crash);
        expect_no_ghosts(run, false);
        expect_no_ghosts(run, true);
        run_free(run);
        crash_at += 23;
    } while (crash_reached);
    assert_true(crash_evictions > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_go_first),
        cmocka_unit_test(what_is_dead_goes_first),
        cmocka_unit_test(tombstones_are_evicted),
        cmocka_unit_test(hits_are_written_again),
        cmocka_unit_test(hits_survive_a_power_cut),
        cmocka_unit_test(everything_may_be_hit),
        cmocka_unit_test(a_locked_key_is_evicted),
        cmocka_unit_test(damage_is_left_behind),
        cmocka_unit_test(evictions_may_be_asked_for),
        cmocka_unit_test(a_failed_eviction_drops_nothing),
        cmocka_unit_test(nothing_comes_back_after_a_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
