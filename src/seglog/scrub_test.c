/*
 * Does scrubbing find what stays damaged and still matters, and nothing else; does it hand it on, keep its
 * rate, end when it is told to, and leave everybody else alone?
 */
#include "seglog/collect_testing.h"

#define SEGMENTS 20
#define FAST     (UINT64_C(1) << 34) /* bytes a second */

/* ---- a log that is scrubbed over and over --------------------------------------------------------- */

struct scrubbed {
    enum seglog_mode mode;
    bool cache;
    uint64_t rate_bytes, interval_ns;
    const struct seglog_owner_ops *ops;
};

static void run_scrubbed(const struct scrubbed *how, void (*test)(struct run *run))
{
    struct run *run = run_new(how->mode, SEGMENTS);
    run->cache = how->cache;
    run->scrub_rate_bytes = how->rate_bytes == 0 ? FAST : how->rate_bytes;
    run->scrub_interval_ns = how->interval_ns == 0 ? BASE_NS_PER_MS : how->interval_ns;
    run->ops = how->ops;
    run_and_free(run, test);
}

static void run_store(void (*test)(struct run *run))
{
    static const enum seglog_mode modes[] = {SEGLOG_POWER, SEGLOG_DEVICE, SEGLOG_ASYNC};
    for (size_t i = 0; i < base_array_count(modes); i++)
        run_scrubbed(&(struct scrubbed){.mode = modes[i]}, test);
}

static struct seglog_scrub_stats scrub_stats(struct run *run)
{
    return run_stats(run).scrub;
}

static void nap(void)
{
    assert_int_equal(task_sleep(BASE_NS_PER_MS / 4), 0);
}

/* Until all of it was read once more. */
static void await_pass(struct run *run)
{
    uint64_t passes = scrub_stats(run).passes; /* one may be under way */
    while (scrub_stats(run).passes < passes + 2)
        nap();
}

static void await_state(struct run *run, uint32_t segment, const char *state)
{
    while (strcmp(run_state_of(run, segment), state) != 0)
        nap();
}

/* Damage two bytes at one moment, or mend them. */
static void flip_both(struct run *run, uint64_t offset, uint64_t other)
{
    base_spin_lock(&run->drive.base.lock);
    run->drive.base.bytes[offset] ^= 1;
    run->drive.base.bytes[other] ^= 1;
    base_spin_unlock(&run->drive.base.lock);
}

static void flip(struct run *run, uint64_t offset)
{
    base_spin_lock(&run->drive.base.lock);
    run->drive.base.bytes[offset] ^= 1;
    base_spin_unlock(&run->drive.base.lock);
}

static uint64_t offset_of(struct run *run, uint64_t key)
{
    return atomic_load(&run->keys[key].grain) * seglog_superblock(run->log)->grain_bytes;
}

static uint32_t segment_of(struct run *run, uint64_t key)
{
    return seglog_segment_of(run->log, atomic_load(&run->keys[key].grain));
}

static uint64_t end_of(struct run *run, uint32_t segment)
{
    const struct seglog_superblock_format *superblock = seglog_superblock(run->log);
    return superblock->data_offset + (segment + 1) * superblock->segment_bytes;
}

/* Keys 0 to 19 lie in a segment that is closed. @return its number */
static uint32_t store(struct run *run, uint32_t keys)
{
    for (uint32_t key = 0; key < keys; key++)
        assert_int_equal(run_put(run, key, 1000), 0);
    uint32_t segment = segment_of(run, 0);
    assert_int_equal(segment_of(run, 19), segment);
    await_state(run, segment, "closed");
    return segment;
}

static uint32_t store_some(struct run *run)
{
    return store(run, 150);
}

static void expect_nothing_found(struct run *run)
{
    assert_string_equal(run->lines.error, "");
    assert_int_equal(scrub_stats(run).damaged, 0);
    assert_int_equal(run_stats(run).segments_bad, 0);
}

/* ---- what is sound -------------------------------------------------------------------------------- */

static void read_all(struct run *run)
{
    uint64_t begin_ns = task_wall(run->node);
    uint32_t segment = store_some(run);
    uint64_t reads = atomic_load(&run->drive.base.reads), bytes = scrub_stats(run).bytes;
    await_pass(run);
    struct seglog_scrub_stats stats = scrub_stats(run);
    assert_true(atomic_load(&run->drive.base.reads) > reads);
    assert_true(stats.bytes - bytes >= 50 * 1000);
    assert_true(stats.segments >= 2);
    assert_in_range(stats.ended_ns, begin_ns, task_wall(run->node));
    assert_string_equal(run_state_of(run, segment), "closed");
    expect_nothing_found(run);
    assert_int_equal(run_check(run, 150), 150);
}

static void a_sound_log_is_read_and_left_alone(void **state)
{
    (void)state;
    run_store(read_all);
    run_scrubbed(&(struct scrubbed){.mode = SEGLOG_DEVICE, .cache = true}, read_all);
}

static void read_none(struct run *run)
{
    (void)store_some(run);
    assert_null(run->log->scrub);
    assert_int_equal(scrub_stats(run).bytes, 0);
}

static void without_a_rate_nothing_is_read(void **state)
{
    (void)state;
    run_in_a_thread(SEGLOG_POWER, SEGMENTS, read_none);
}

/* ---- what stays damaged --------------------------------------------------------------------------- */

static void damage_record(struct run *run)
{
    uint32_t segment = store_some(run);
    uint64_t grain = atomic_load(&run->keys[7].grain);
    flip_both(run, offset_of(run, 7) + 500, offset_of(run, 8) + 3); /* a value, a header */
    await_state(run, segment, "bad");
    assert_int_equal(scrub_stats(run).damaged, 2);
    assert_int_equal(run->lines.errors, 1);
    assert_non_null(strstr(run->lines.error, "scrubbing has found a damaged segment"));
    assert_non_null(strstr(run->lines.error, "damaged=2"));
    assert_non_null(strstr(run->lines.error, "remedy=\"store or delete again"));
    for (uint32_t key = 0; key < 20; key++)
        assert_int_equal(segment_of(run, key) == segment, key == 7 || key == 8);
    assert_int_equal(atomic_load(&run->keys[7].grain), grain); /* not missing: reading it fails */
    await_pass(run);
    assert_int_equal(scrub_stats(run).damaged, 2); /* it is not looked at again */
    flip_both(run, offset_of(run, 7) + 500, offset_of(run, 8) + 3);
    assert_int_equal(run_check(run, 150), 150);
    run_expect_counted(run);
}

static void a_damaged_record_is_told_and_the_rest_moved(void **state)
{
    (void)state;
    run_store(damage_record);
}

/* Damage the first tombstone of a segment. */
static void damage_tombstone_of(struct run *run, uint32_t segment)
{
    const struct seglog_superblock_format *superblock = seglog_superblock(run->log);
    struct seglog_segment_info info;
    struct seglog_record_format header = {.kind = 0};
    seglog_segment_info(run->log, segment, &info);
    uint64_t seed = seglog_record_seed(superblock->check_seed, info.stamp);
    uint64_t at = end_of(run, segment) - superblock->segment_bytes;
    int error = -EBADMSG;
    base_spin_lock(&run->drive.base.lock);
    while (error != 0 || (header.kind & SEGLOG_KIND_MASK) != SEGLOG_TOMBSTONE) {
        at += superblock->grain_bytes;
        error = seglog_record_parse(run->drive.base.bytes + at, 4096, seed, at / superblock->grain_bytes,
                                    superblock->record_bytes_max, &header);
    }
    run->drive.base.bytes[at + sizeof(header) + 2] ^= 1; /* its key */
    base_spin_unlock(&run->drive.base.lock);
}

static bool is_closed_with_tombstones(struct run *run, uint32_t segment)
{
    struct seglog_segment_info info;
    seglog_segment_info(run->log, segment, &info);
    return strcmp(info.state, "closed") == 0 && info.tombstone_bytes > 0;
}

static void damage_tombstone(struct run *run)
{
    uint32_t segment = 0;
    (void)store_some(run);
    for (uint32_t key = 0; key < 60; key++)
        assert_int_equal(run_delete(run, key), 0);
    for (uint32_t key = 200; key < 350; key++)
        assert_int_equal(run_put(run, key, 1000), 0);
    while (!is_closed_with_tombstones(run, segment))
        segment = (segment + 1) % seglog_superblock(run->log)->segment_count;
    damage_tombstone_of(run, segment);
    if (run->cache) {
        await_pass(run);
        expect_nothing_found(run);
        return;
    }
    await_state(run, segment, "bad");
    assert_int_equal(scrub_stats(run).damaged, 1);
    assert_int_equal(run_check(run, 60), 0);
    assert_int_equal(run_check(run, 350), 90 + 150);
}

static void tombstones_are_read_where_they_are_kept(void **state)
{
    (void)state;
    run_scrubbed(&(struct scrubbed){.mode = SEGLOG_POWER}, damage_tombstone);
    run_scrubbed(&(struct scrubbed){.mode = SEGLOG_POWER, .cache = true}, damage_tombstone);
}

static void damage_summary(struct run *run)
{
    uint32_t segment = store_some(run);
    uint64_t at = end_of(run, segment) - 40;
    flip(run, at);
    await_state(run, segment, "bad");
    assert_int_equal(scrub_stats(run).damaged, 1);
    assert_int_equal(run->lines.errors, 1);
    assert_non_null(strstr(run->lines.error, "restart soon"));
    assert_int_equal(run_check(run, 150), 150); /* all is where it was */
    assert_int_equal(segment_of(run, 0), segment);
    if (!run->cache) { /* as its remedy says */
        run_restart(run);
        assert_int_equal(run_check(run, 150), 150);
        assert_string_equal(run_state_of(run, segment), "closed");
        await_pass(run);
        assert_int_equal(run_stats(run).segments_bad, 0);
        assert_int_equal(scrub_stats(run).damaged, 0);
    }
}

static void a_damaged_summary_is_told(void **state)
{
    (void)state;
    run_store(damage_summary);
    run_scrubbed(&(struct scrubbed){.mode = SEGLOG_POWER, .cache = true}, damage_summary);
}

static void damage_header(struct run *run)
{
    uint32_t segment = store_some(run);
    flip(run, end_of(run, segment) - seglog_superblock(run->log)->segment_bytes + 9);
    while (scrub_stats(run).damaged == 0)
        nap();
    while (!run->cache && segment_of(run, 0) == segment)
        nap();
    assert_non_null(strstr(run->lines.error, "its header is damaged"));
    assert_int_equal(run_check(run, 150), 150);
    await_pass(run);
    assert_int_equal(run_stats(run).segments_bad, 0);
    assert_int_equal(segment_of(run, 0) == segment, run->cache);
    assert_true(run->cache || scrub_stats(run).damaged == 1);
}

static void behind_a_damaged_header_all_is_moved(void **state)
{
    (void)state;
    run_store(damage_header);
    run_scrubbed(&(struct scrubbed){.mode = SEGLOG_POWER, .cache = true}, damage_header);
}

static void lose_sector(struct run *run)
{
    uint32_t segment = store(run, 45); /* the only one that is closed */
    struct testing_drive *drive = &run->drive.base;
    await_pass(run); /* what was read then is still in the scrubber's memory, and not believed */
    uint64_t begin = offset_of(run, 7);
    testing_drive_fail_at(drive, DRIVE_READ, 0, true);
    drive->fail_begin = begin;
    drive->fail_end = begin + 1000;
    atomic_store(&drive->fail_at, 1);
    await_state(run, segment, "bad");
    assert_int_equal(segment_of(run, 7), segment);
    assert_int_not_equal(segment_of(run, 19), segment);
    atomic_store(&drive->fail_at, 0);
    assert_int_equal(run_check(run, 45), 45);
}

static void what_cannot_be_read_is_damaged(void **state)
{
    (void)state;
    run_scrubbed(&(struct scrubbed){.mode = SEGLOG_POWER}, lose_sector);
}

static void damage_in_cache(struct run *run)
{
    for (uint32_t key = 0; key < 300; key++) /* several segments */
        assert_int_equal(run_put(run, key, 1000), 0);
    uint32_t key = 150, segment = segment_of(run, key);
    await_state(run, segment, "closed");
    uint64_t sequence = run->keys[key].sequence;
    flip(run, offset_of(run, key) + 500);
    while (atomic_load(&run->keys[key].grain) != 0)
        nap();
    struct seglog_points points;
    seglog_points(run->log, &points);
    assert_true(points.horizon_sequence > sequence);
    assert_int_equal(scrub_stats(run).damaged, 1);
    assert_int_equal(run->lines.errors, 1);
    assert_int_equal(run_stats(run).segments_bad, 0);
    assert_true(run_check_key(run, 0)); /* older, and there as long as the log is open */
    assert_true(run_check(run, 300) >= 300 - 2 * 32);
}

static void a_cache_evicts_what_is_damaged(void **state)
{
    (void)state;
    run_scrubbed(&(struct scrubbed){.mode = SEGLOG_POWER, .cache = true}, damage_in_cache);
    run_scrubbed(&(struct scrubbed){.mode = SEGLOG_DEVICE, .cache = true}, damage_in_cache);
}

/* ---- what is no damage ---------------------------------------------------------------------------- */

static enum testing_lie lie;

/* A reading of a header, a summary, a record that is wrong once. */
static void lie_once(struct run *run)
{
    uint32_t segment = store_some(run);
    uint64_t begin = end_of(run, segment) - seglog_superblock(run->log)->segment_bytes;
    const uint64_t places[] = {begin, end_of(run, segment) - 512, offset_of(run, 7), offset_of(run, 19)};
    for (size_t i = 0; i < base_array_count(places); i++) {
        testing_drive_lie_at(&run->drive.base, lie, 1, places[i], places[i] + 512);
        while (atomic_load(&run->drive.base.fail_at) != 0)
            nap();
        await_pass(run);
    }
    assert_int_equal(scrub_stats(run).damaged, 0);
    assert_string_equal(run_state_of(run, segment), "closed");
    assert_int_equal(segment_of(run, 7), segment);
    assert_true(lie == TESTING_TRUTH || run->lines.errors == 0); /* the drive's own */
}

static void what_is_right_the_second_time_is_not_damaged(void **state)
{
    (void)state;
    for (lie = TESTING_TRUTH; lie <= TESTING_CHANGING; lie++)
        run_scrubbed(&(struct scrubbed){.mode = SEGLOG_POWER}, lie_once);
}

static void damage_dead(struct run *run)
{
    uint32_t segment = store_some(run);
    uint64_t offset = offset_of(run, 7);
    assert_int_equal(run_put(run, 7, 1000), 0);
    flip(run, offset + 500);
    await_pass(run);
    await_pass(run);
    assert_string_equal(run_state_of(run, segment), "closed");
    expect_nothing_found(run);
}

static void what_nobody_refers_to_may_be_damaged(void **state)
{
    (void)state;
    run_store(damage_dead);
}

static _Atomic bool armed;
static _Atomic uint64_t asked; /* about key 7, since then */

/* When the scrubber has decided to read key 7, its record is damaged, and it is deleted. */
static enum seglog_verdict judge_and_delete(void *owner, const struct seglog_entry_format *entry,
                                            uint64_t grain)
{
    struct run *run = owner;
    enum seglog_verdict verdict = run_judge(owner, entry, grain);
    if (run_number(run, entry) != 7 || !atomic_load(&armed) || atomic_fetch_add(&asked, 1) > 0)
        return verdict;
    flip(run, offset_of(run, 7) + 500);
    atomic_store(&run->keys[7].grain, 0);
    atomic_fetch_sub(&run->live_bytes, seglog_footprint(run->log, entry->bytes));
    seglog_live_remove(run->log, grain, entry->bytes);
    return verdict;
}

static void damage_dying(struct run *run)
{
    uint32_t segment = store_some(run);
    atomic_store(&asked, 0);
    atomic_store(&armed, true);
    while (atomic_load(&asked) < 2) /* again, after it was found damaged */
        nap();
    await_pass(run);
    atomic_store(&armed, false);
    assert_int_equal(atomic_load(&run->keys[7].grain), 0);
    assert_string_equal(run_state_of(run, segment), "closed");
    expect_nothing_found(run);
}

static void what_is_deleted_while_it_is_read_may_be_damaged(void **state)
{
    (void)state;
    struct seglog_owner_ops ops = run_ops;
    ops.judge = judge_and_delete;
    run_scrubbed(&(struct scrubbed){.mode = SEGLOG_POWER, .ops = &ops}, damage_dying);
}

/* ---- beside others -------------------------------------------------------------------------------- */

/* Overwrite at random, so that the collector is at work all the time; a read lies now and then, but never two
 * of one visit to a segment. */
static void churn(struct run *run)
{
    struct base_random random;
    base_random_init(&random, 1);
    uint64_t passes = 0;
    uint32_t keys = run_fill_to(run, 80, 1500);
    for (uint32_t i = 0; i < 6000; i++) {
        assert_int_equal(run_put(run, (uint32_t)base_random_below(&random, keys), 1500), 0);
        if (atomic_load(&run->drive.base.fail_at) != 0) {
            passes = scrub_stats(run).passes;
        } else if (scrub_stats(run).passes >= passes + 2) {
            testing_drive_lie_at(&run->drive.base, TESTING_NOISE, 1 + i % 7, 0, 0);
            passes = scrub_stats(run).passes;
        }
    }
    atomic_store(&run->drive.base.fail_at, 0);
    await_pass(run);
    assert_true(scrub_stats(run).segments > 0);
    expect_nothing_found(run);
    assert_int_equal(run_check(run, keys), keys);
    run_expect_counted(run);
}

static void churn_in_task(struct run *run, struct task_testing *testing)
{
    (void)testing;
    churn(run);
    assert_int_equal(run_stop(run), 0);
}

static void scrubbing_and_collecting_do_not_mind_each_other(void **state)
{
    (void)state;
    run_store(churn);
    struct run *run = run_new(SEGLOG_DEVICE, SEGMENTS);
    run->scrub_rate_bytes = FAST;
    run->scrub_interval_ns = 1;
    run_in_tasks(run, churn_in_task);
    run_free(run);
}

/* A scrubber that is so slow that segments are freed and used again between its reads, and while it sleeps.
 */
static void churn_past(struct run *run)
{
    struct base_random random;
    base_random_init(&random, 1);
    uint32_t keys = 300;
    (void)store(run, keys);
    uint64_t passes = scrub_stats(run).passes;
    while (scrub_stats(run).passes < passes + 3) {
        uint32_t key = (uint32_t)base_random_below(&random, keys);
        if (base_random_below(&random, 3) == 0)
            assert_int_equal(run_delete(run, key), 0);
        else
            assert_int_equal(run_put(run, key, 1500), 0);
    }
    expect_nothing_found(run);
    (void)run_check(run, keys);
}

static void what_is_reused_while_it_is_scrubbed_is_left(void **state)
{
    (void)state;
    run_scrubbed(&(struct scrubbed){.mode = SEGLOG_DEVICE, .rate_bytes = UINT64_C(8) << 20}, churn_past);
    run_scrubbed(&(struct scrubbed){.mode = SEGLOG_DEVICE, .cache = true, .rate_bytes = UINT64_C(8) << 20},
                 churn_past);
}

/* A full log has no room to move what is in a damaged segment: that waits until there is some. */
static void damage_full(struct run *run)
{
    (void)store_some(run);
    uint32_t keys = 150;
    while (run_put(run, keys, 1000) == 0)
        keys++;
    uint32_t segment = segment_of(run, 7);
    flip(run, offset_of(run, 7) + 500);
    while (scrub_stats(run).damaged == 0)
        nap();
    await_pass(run);
    assert_int_equal(scrub_stats(run).damaged, 1);
    assert_string_equal(run_state_of(run, segment), "closed");
    for (uint32_t key = 1000; key < keys; key++)
        assert_int_equal(run_delete(run, key), 0);
    for (uint32_t i = 0; strcmp(run_state_of(run, segment), "bad") != 0; i++)
        assert_int_equal(run_put(run, 1000 + i % 100, 1000), 0); /* so that the collector makes room */
    assert_int_equal(segment_of(run, 7), segment);
    assert_int_not_equal(segment_of(run, 0), segment);
    flip(run, offset_of(run, 7) + 500);
    assert_true(run_check(run, 1000) == 1000);
}

static void what_is_damaged_waits_for_room(void **state)
{
    (void)state;
    run_scrubbed(&(struct scrubbed){.mode = SEGLOG_DEVICE}, damage_full);
}

/* ---- rate and end --------------------------------------------------------------------------------- */

#define SLOW (UINT64_C(1) << 20)

static void read_slowly(struct run *run)
{
    uint64_t begin_ns = task_now();
    (void)store_some(run);
    assert_int_equal(task_sleep(50 * BASE_NS_PER_MS), 0);
    uint64_t bytes = scrub_stats(run).bytes, now_ns = task_now();
    /* it began a little before */
    uint64_t most = SLOW * (now_ns - begin_ns + BASE_NS_PER_SECOND) / BASE_NS_PER_SECOND;
    assert_true(bytes <= most + (UINT64_C(256) << 10));
}

static void the_rate_is_a_most(void **state)
{
    (void)state;
    run_scrubbed(&(struct scrubbed){.mode = SEGLOG_DEVICE, .rate_bytes = SLOW}, read_slowly);
}

/* At a byte a second the first read is paid for in minutes, and yet the log stops at once. */
static void stop_early(struct run *run)
{
    (void)store_some(run);
    while (scrub_stats(run).bytes == 0)
        nap();
    uint64_t passes = scrub_stats(run).passes; /* when there was nothing to be read */
    nap();
    assert_int_equal(scrub_stats(run).passes, passes);
}

static void stop_early_in_task(struct run *run, struct task_testing *testing)
{
    (void)testing;
    (void)store_some(run);
    while (scrub_stats(run).bytes == 0)
        task_yield();
    assert_int_equal(run_stop(run), 0);
}

static void it_stops_in_the_middle(void **state)
{
    (void)state;
    run_scrubbed(&(struct scrubbed){.mode = SEGLOG_DEVICE, .rate_bytes = 1, .interval_ns = 1}, stop_early);
    struct run *run = run_new(SEGLOG_POWER, SEGMENTS);
    run->scrub_rate_bytes = 1;
    run->scrub_interval_ns = 1;
    run_in_tasks(run, stop_early_in_task);
    run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_log_is_read_and_left_alone),
        cmocka_unit_test(without_a_rate_nothing_is_read),
        cmocka_unit_test(a_damaged_record_is_told_and_the_rest_moved),
        cmocka_unit_test(tombstones_are_read_where_they_are_kept),
        cmocka_unit_test(a_damaged_summary_is_told),
        cmocka_unit_test(behind_a_damaged_header_all_is_moved),
        cmocka_unit_test(what_cannot_be_read_is_damaged),
        cmocka_unit_test(a_cache_evicts_what_is_damaged),
        cmocka_unit_test(what_is_right_the_second_time_is_not_damaged),
        cmocka_unit_test(what_nobody_refers_to_may_be_damaged),
        cmocka_unit_test(what_is_deleted_while_it_is_read_may_be_damaged),
        cmocka_unit_test(scrubbing_and_collecting_do_not_mind_each_other),
        cmocka_unit_test(what_is_reused_while_it_is_scrubbed_is_left),
        cmocka_unit_test(what_is_damaged_waits_for_room),
        cmocka_unit_test(the_rate_is_a_most),
        cmocka_unit_test(it_stops_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
