/*
 * Does collection keep all that lives and lose all that does not, for ever; does space come back; and what if
 * the owner is quicker, records have expired, or cannot be read?
 */
#include "seglog/collect_internal.h"
#include "seglog/collect_testing.h"

static void overwrite(struct run *run, uint32_t value_bytes)
{
    struct base_random random;
    base_random_init(&random, 7);
    uint64_t written = 0, capacity = seglog_capacity(run->log);
    uint32_t keys = run_fill_to(run, 95, value_bytes);
    while (written < 10 * capacity) {
        assert_int_equal(run_put(run, base_random_below(&random, keys), value_bytes), 0);
        written += run_record_bytes(run, value_bytes);
    }
    assert_int_equal(run_check(run, keys), keys);
    run_expect_counted(run);
    assert_true(run_stats(run).collections > seglog_superblock(run->log)->segment_count);
    assert_true(run_stats(run).moved_bytes > 0);
    assert_int_equal(seglog_sync(run->log), 0);
    (void)run_expect_after_crash(run, false);
    run_restart(run);
    assert_int_equal(run_check(run, keys), keys);
    for (uint32_t i = 0; i < keys; i++)
        assert_int_equal(run_put(run, i, value_bytes), 0);
    assert_int_equal(run_check(run, keys), keys);
    run_expect_counted(run);
}

static void small_values(struct run *run)
{
    overwrite(run, 200);
}

static void middle_values(struct run *run)
{
    overwrite(run, 900);
}

static void large_values(struct run *run)
{
    overwrite(run, 5000);
}

static void huge_values(struct run *run)
{
    overwrite(run, 40000);
}

static void overwritten_ten_times(void **state)
{
    (void)state;
    run_in_a_thread(SEGLOG_DEVICE, SEGLOG_SEGMENTS_MIN, small_values);
    run_in_a_thread(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN, middle_values);
    run_in_a_thread(SEGLOG_ASYNC, SEGLOG_SEGMENTS_MIN, middle_values);
    run_in_a_thread(SEGLOG_DEVICE, 40, large_values);
    run_in_a_thread(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN, huge_values);
}

static void overwrite_in_a_task(struct run *run, struct task_testing *testing)
{
    (void)testing;
    overwrite(run, 900);
    assert_int_equal(run_stop(run), 0);
}

static void overwritten_by_a_task(void **state)
{
    (void)state;
    struct run *run = run_new(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN);
    run_in_tasks(run, overwrite_in_a_task);
    run_free(run);
}

/* ---- what it costs ------------------------------------------------------------------------------- */

/* Bytes that are moved for each byte that is written, once it has settled down, of records that fill their
 * blocks; so many per cent of the writes go to a tenth of the keys. */
static double moved_per_written(struct run *run, uint32_t hot_percent)
{
    struct base_random random;
    base_random_init(&random, 9);
    uint32_t value_bytes = SEGLOG_BLOCK_BYTES_MIN - (uint32_t)run_record_bytes(run, 0);
    uint32_t keys = run_fill_to(run, 92, value_bytes);
    uint64_t moved_before = 0;
    for (uint32_t i = 0; i < 12 * keys; i++) {
        bool hot = base_random_below(&random, 100) < hot_percent;
        uint32_t key = (uint32_t)base_random_below(&random, hot ? keys / 10 : keys);
        assert_int_equal(run_put(run, key, value_bytes), 0);
        if (i == 8 * keys)
            moved_before = run_stats(run).moved_bytes;
    }
    return (double)(run_stats(run).moved_bytes - moved_before) / (4.0 * keys * SEGLOG_BLOCK_BYTES_MIN);
}

static double uniform_moves; /* of the test before */

static void overwrite_uniformly(struct run *run, struct task_testing *testing)
{
    (void)testing;
    uniform_moves = moved_per_written(run, 0);
    assert_true(uniform_moves > 1 && uniform_moves < 3.5);
    assert_int_equal(run_stop(run), 0);
}

static void overwrite_what_is_hot(struct run *run, struct task_testing *testing)
{
    (void)testing;
    assert_true(moved_per_written(run, 90) < 0.75 * uniform_moves);
    assert_int_equal(run_stop(run), 0);
}

static void overwrite_small_segments(void (*test)(struct run *run, struct task_testing *testing))
{
    struct run *run = run_new(SEGLOG_DEVICE, 130);
    run->segment_bytes = SEGLOG_SEGMENT_BYTES_MIN;
    run_in_tasks(run, test);
    run_free(run);
}

/* Whoever takes the segment with the least to move gains nothing from what is hot: his cold segments stay as
 * full as they are. */
static void what_is_cold_is_seldom_moved(void **state)
{
    (void)state;
    overwrite_small_segments(overwrite_uniformly);
    overwrite_small_segments(overwrite_what_is_hot);
}

/* ---- how fast ------------------------------------------------------------------------------------- */

/* What may be moved in a pause: two windows, what users have allowed for by writing before it, and 100 MB/s.
 * All at once would be two segments and more. */
static uint64_t most_moved(uint64_t elapsed_ns)
{
    return (UINT64_C(6) << 20) + elapsed_ns / 10;
}

static void write_and_pause(struct run *run)
{
    struct base_random random;
    base_random_init(&random, 10);
    const uint32_t value_bytes = 40000;
    uint32_t keys = run_fill_to(run, 85, value_bytes), pauses_with_moves = 0;
    for (uint32_t i = 0; i < 150; i++) {
        for (uint32_t written = 0; written < 1 << 20; written += value_bytes)
            assert_int_equal(run_put(run, base_random_below(&random, keys), value_bytes), 0);
        uint64_t begin_ns = task_now(), moved_before = run_stats(run).moved_bytes;
        assert_int_equal(task_sleep(10 * BASE_NS_PER_MS), 0);
        uint64_t moved = run_stats(run).moved_bytes - moved_before;
        assert_true(moved <= most_moved(task_now() - begin_ns));
        pauses_with_moves += moved > 0;
    }
    assert_true(pauses_with_moves > 10);
    run_expect_counted(run);
}

static void nobody_writes_and_it_takes_its_time(void **state)
{
    (void)state;
    struct run *run = run_new(SEGLOG_DEVICE, SEGLOG_SEGMENTS_MIN * 64);
    run->segment_bytes = 64 * SEGLOG_SEGMENT_BYTES_MIN;
    run_and_free(run, write_and_pause);
}

/* ---- all sizes, deletions ----------------------------------------------------------------------- */

static void mix(struct run *run)
{
    struct base_random random;
    base_random_init(&random, 8);
    const uint32_t cold = 60, keys = 150;
    for (uint32_t i = 0; i < cold; i++)
        assert_int_equal(run_put(run, i, 4000), 0);
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t key = cold + (uint32_t)base_random_below(&random, keys - cold);
        bool deletes = base_random_below(&random, 4) == 0;
        assert_int_equal(deletes ? run_delete(run, key)
                                 : run_put(run, key, (uint32_t)base_random_below(&random, 5000)),
                         0);
        if (i % 1000 == 999) {
            run_expect_counted(run);
            (void)run_check(run, keys);
            (void)run_expect_after_crash(run, false);
            assert_true(run_stats(run).collections > 10);
            run_restart(run);
        }
    }
}

static void cold_among_hot(void **state)
{
    (void)state;
    run_in_a_thread(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN, mix);
}

static void fill_and_empty(struct run *run, uint32_t value_bytes, uint32_t rounds)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t keys = run_fill_to(run, 100, value_bytes);
        least = base_min(least, keys);
        most = base_max(most, keys);
        assert_int_equal(run_check(run, keys), keys);
        for (uint32_t i = 0; i < keys; i++)
            assert_int_equal(run_delete(run, i), 0);
        assert_int_equal(run_check(run, keys), 0);
        if (round % 4 == 3) {
            (void)run_expect_after_crash(run, false);
            run_restart(run);
        }
    }
    assert_int_equal(least, most);
    struct seglog_stats stats = run_stats(run);
    run_expect_counted(run);
    assert_true(stats.tombstone_bytes < seglog_capacity(run->log)); /* of `rounds` times as many */
}

static void fill_and_empty_middle(struct run *run)
{
    fill_and_empty(run, 1000, 12);
}

/* A tombstone takes as much as what it removes. */
static void fill_and_empty_tiny(struct run *run)
{
    fill_and_empty(run, 150, 8);
}

static void filled_and_emptied_again_and_again(void **state)
{
    (void)state;
    run_in_a_thread(SEGLOG_DEVICE, SEGLOG_SEGMENTS_MIN, fill_and_empty_middle);
    run_in_a_thread(SEGLOG_DEVICE, SEGLOG_SEGMENTS_MIN, fill_and_empty_tiny);
    run_in_a_thread(SEGLOG_POWER, 30, fill_and_empty_middle);
}

/* Rounds that had dropped nothing say nothing any more when the old segment that was the reason has gone. */
static void reason_has_gone(struct run *run)
{
    run->log->collector->tombstone_floor = UINT64_MAX;
    run->log->collector->floor_stamp = 1; /* the first segment that there is, which will be collected */
    for (uint32_t round = 0; round < 12; round++) {
        uint32_t keys = run_fill_to(run, 100, 150);
        for (uint32_t i = 0; i < keys; i++)
            assert_int_equal(run_delete(run, i), 0);
    }
    assert_true(run_stats(run).tombstone_bytes < seglog_capacity(run->log) / 2);
}

/* A round waits for who has room reserved in the oldest segment, which is still open. */
static void reason_is_busy(struct run *run)
{
    struct seglog_collector *collector = run->log->collector;
    struct seglog_reservation room;
    assert_int_equal(run_put(run, 1, 100), 0);
    assert_int_equal(seglog_reserve(run->log, SEGLOG_SPACE_DATA, 200, &room), 0);
    collector->round_stamp = run->log->stamp;
    collector->round_tombstone_bytes = UINT64_MAX;
    collector->rounds_in_vain = 1;
    assert_int_equal(seglog_collect(run->log), -EAGAIN);
    assert_int_equal(collector->tombstone_floor, 0);
    assert_int_equal(collector->round_stamp, run->log->stamp);
    seglog_release(run->log, &room);
}

static void rounds_begin_again(void **state)
{
    (void)state;
    run_in_a_thread(SEGLOG_DEVICE, SEGLOG_SEGMENTS_MIN, reason_has_gone);
    run_in_a_thread(SEGLOG_DEVICE, SEGLOG_SEGMENTS_MIN, reason_is_busy);
}

/* ---- the owner is quicker ----------------------------------------------------------------------- */

static void lose(struct run *run)
{
    struct base_random random;
    base_random_init(&random, 9);
    uint32_t keys = run_fill_to(run, 80, 900);
    atomic_store(&run->lose_every, 3);
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t key = (uint32_t)base_random_below(&random, keys);
        assert_int_equal(run_put(run, key, 900), 0);
        if (i % 500 == 499)
            run_restart(run);
    }
    assert_true(atomic_load(&run->lost) > 20);
    atomic_store(&run->lose_every, 0);
    (void)run_check(run, keys);
    run_expect_counted(run);
    run_restart(run);
}

static void a_move_that_comes_too_late_is_buried(void **state)
{
    (void)state;
    run_in_a_thread(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN, lose);
    run_in_a_thread(SEGLOG_ASYNC, SEGLOG_SEGMENTS_MIN, lose);
}

/* ---- expiry ------------------------------------------------------------------------------------- */

static struct testing_clock expiry_clock;

/* A test with a clock of its own, in this thread. */
static void with_clock(void (*test)(struct run *run))
{
    const struct task_clock clock = testing_task_clock(&expiry_clock);
    struct run *run = run_new(SEGLOG_DEVICE, SEGLOG_SEGMENTS_MIN);
    struct task_node_options options = run_node_options(run);
    struct tarn_node *node;
    options.clock = &clock;
    atomic_store(&expiry_clock.wall_ns, UINT64_C(1700000000) * BASE_NS_PER_SECOND);
    assert_int_equal(task_node_open(&options, &node), 0);
    run_start(run, node);
    test(run);
    assert_int_equal(run_stop(run), 0);
    task_node_close(node);
    run_free(run);
}

static int put_for_a_while(struct run *run, uint32_t number, uint64_t while_ns)
{
    uint64_t expiry_ns = atomic_load(&expiry_clock.wall_ns) + while_ns;
    return run_change(run, number, SEGLOG_SPACE_DATA, 4000, expiry_ns);
}

/* Fifty live at any time, each fills a block; what has expired is never deleted, and is room all the same. */
static void expire_one_by_one(struct run *run)
{
    const uint32_t kept = 50;
    for (uint32_t i = 0; i < kept; i++)
        assert_int_equal(run_put(run, i, 4000), 0);
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t key = kept + i % (RUN_KEYS_MAX - kept);
        assert_int_equal(put_for_a_while(run, key, BASE_NS_PER_SECOND / 2), 0);
        atomic_fetch_add(&expiry_clock.wall_ns, BASE_NS_PER_SECOND / 100);
        if (i == 1500)
            run_restart(run);
    }
    assert_true(atomic_load(&run->ended) > 2000);
    assert_int_equal(run_check(run, kept), kept);
    run_restart(run);
}

/* All at once, in a log that was opened since: what it has is read to find out when that expires. */
static void expire_all_at_once(struct run *run)
{
    int error = 0;
    uint32_t keys = 0;
    while (error == 0) {
        error = put_for_a_while(run, keys, BASE_NS_PER_SECOND * 3600);
        keys += error == 0;
    }
    assert_int_equal(error, -ENOSPC);
    run_restart(run);
    assert_int_equal(put_for_a_while(run, keys, BASE_NS_PER_SECOND), -ENOSPC);
    assert_int_equal(run_check(run, keys), keys);
    atomic_fetch_add(&expiry_clock.wall_ns, BASE_NS_PER_SECOND * 3700);
    for (uint32_t i = 0; i < keys / 2; i++) /* though nothing has happened but that time has passed */
        assert_int_equal(run_put(run, keys + i, 4000), 0);
    for (uint32_t i = 0; i < keys / 2; i++)
        assert_true(run_check_key(run, keys + i));
}

static void expired_records_are_room(void **state)
{
    (void)state;
    with_clock(expire_one_by_one);
    with_clock(expire_all_at_once);
}

/* ---- tombstones --------------------------------------------------------------------------------- */

/* Store a key through another stream than the caller's, as a task of another scheduler would. @return its
 * segment */
static uint32_t put_elsewhere(struct run *run, uint32_t stream, uint32_t number)
{
    struct seglog *log = run->log;
    struct seglog_reservation room;
    uint8_t value[100];
    uint64_t sequence;
    assert_int_equal(seglog_reserve(log, SEGLOG_SPACE_DATA, 200, &room), 0);
    base_spin_lock(&log->lock);
    log->streams[room.stream].reserved_bytes -= room.cost_bytes;
    log->streams[stream].reserved_bytes += room.cost_bytes;
    base_spin_unlock(&log->lock);
    room.stream = stream;
    assert_int_equal(seglog_sequence_draw(log, &sequence), 0);
    run_fill(value, number, sequence, sizeof(value));
    assert_int_equal(run_write(run, number, &room, value, sizeof(value), sequence, 0), 0);
    uint32_t segment = seglog_segment_of(log, atomic_load(&run->keys[number].grain));
    assert_string_equal(run_state_of(run, segment), "open");
    return segment;
}

/* A stream that nobody writes to any more has an old segment open: it must not keep tombstones for ever. */
static void idle_stream(struct run *run)
{
    assert_int_equal(run->log->stream_count, 4);
    (void)put_elsewhere(run, 3, 4000);
    uint64_t grain = atomic_load(&run->keys[4000].grain);
    for (int i = 0; atomic_load(&run->keys[4000].grain) == grain; i++) {
        assert_true(i < 20); /* once is enough, unless threads are held up */
        fill_and_empty(run, 1000, 8);
    }
    assert_true(run_check_key(run, 4000));
}

/* What lies in a segment that is still open may be what a tombstone hides. */
static void open_segment(struct run *run)
{
    assert_int_equal(run_put(run, 1, 100), 0);
    uint32_t first = seglog_segment_of(run->log, atomic_load(&run->keys[1].grain));
    uint64_t stamp = seglog_stamp_at(run->log, atomic_load(&run->keys[1].grain));
    uint32_t open = put_elsewhere(run, 3, 4000);
    assert_int_equal(run_delete(run, 4000), 0); /* in the first segment, which is older */
    for (uint32_t i = 0; run->log->segments[first].stamp == stamp; i++)
        assert_int_equal(run_put(run, i % 20, 3000), 0);
    assert_string_equal(run_state_of(run, open), "open");
    run_restart(run);
}

static void move_by_hand(struct run *run, uint32_t number)
{
    uint8_t key[8], value[4000];
    struct seglog_place place;
    uint64_t sequence;
    assert_int_equal(seglog_sequence_draw(run->log, &sequence), 0);
    run_key_bytes(run, number, key);
    run_fill(value, number, sequence, sizeof(value));
    const struct seglog_draft draft = {.kind = SEGLOG_VALUE,
                                       .key_bytes = 8,
                                       .value_bytes = sizeof(value),
                                       .sequence = sequence,
                                       .version = sequence,
                                       .hash = run->hashes[number],
                                       .key = key,
                                       .value = value};
    assert_int_equal(seglog_append_to(&run->log->streams[SEGLOG_RELOCATION], 0, &draft, 1, &place), 0);
    assert_int_equal(seglog_wait(run->log, &place), 0);
    run_publish(run, number, sequence, &place, sizeof(value));
}

/* A copy in a segment that is younger than the tombstone of the original. @param crash  before it was buried;
 * else it was published, and taken out of the index by who has written the tombstone */
static void leave_copy(struct run *run, bool crash)
{
    struct seglog *log = run->log;
    struct seglog_reservation room;
    struct seglog_place place;
    uint8_t key[8], value[100] = "";
    run_key_bytes(run, 4000, key);
    assert_int_equal(run_put(run, 1, 100), 0);
    uint32_t first = seglog_segment_of(log, atomic_load(&run->keys[1].grain));
    uint64_t stamp = seglog_stamp_at(log, atomic_load(&run->keys[1].grain));
    struct seglog_draft draft = {.kind = SEGLOG_TOMBSTONE,
                                 .key_bytes = 8,
                                 .value_bytes = SEGLOG_BIRTH_BYTES,
                                 .sequence = 1000,
                                 .hash = run->hashes[4000],
                                 .key = key,
                                 .value = &stamp};
    assert_int_equal(seglog_reserve(log, SEGLOG_SPACE_DELETE, 56, &room), 0);
    assert_int_equal(seglog_append(log, &room, &draft, &place), 0);
    assert_int_equal(place.segment, first);
    const struct seglog_place tombstone = place;
    draft.kind = SEGLOG_VALUE;
    draft.sequence = 999;
    draft.value = value;
    draft.value_bytes = sizeof(value);
    assert_int_equal(seglog_append_to(&log->streams[SEGLOG_RELOCATION], 0, &draft, 1, &place), 0);
    assert_true(seglog_stamp_at(log, place.grain) > stamp);
    seglog_settle(log, &place, false);
    assert_int_equal(seglog_wait(log, &tombstone), 0);
    seglog_settle(log, &tombstone, true);
    for (uint32_t i = 0; i < 25; i++) /* so much lives beside it that nobody collects it soon */
        move_by_hand(run, 3000 + i);
    if (crash)
        run_restart(run);
    for (uint32_t i = 0; run->log->segments[first].stamp == stamp; i++)
        assert_int_equal(run_put(run, i % 20, 3000), 0);
    run_restart(run);
}

static void unburied(struct run *run)
{
    leave_copy(run, true);
}

static void deleted_while_moved(struct run *run)
{
    leave_copy(run, false);
}

static void with_streams(void (*test)(struct run *run))
{
    struct run *run = run_new(SEGLOG_DEVICE, 24);
    run->user_streams = 3;
    run_and_free(run, test);
}

static void tombstones_are_kept_as_long_as_needed(void **state)
{
    (void)state;
    with_streams(idle_stream);
    with_streams(open_segment);
    with_streams(unburied);
    with_streams(deleted_while_moved);
}

/* What a flush point has made void is not moved, tombstones included. */
static void flushed(struct run *run)
{
    uint32_t keys = run_fill_to(run, 100, 1000);
    for (uint32_t i = 0; i < keys / 2; i++)
        assert_int_equal(run_delete(run, i), 0);
    run_restart(run); /* so that nothing new comes into the same segments */
    assert_true(run_stats(run).tombstone_bytes > 20000);
    assert_int_equal(seglog_flush_point_set(run->log, seglog_sequence_next(run->log), 0), 0);
    for (uint32_t i = 0; i < RUN_KEYS_MAX; i++)
        atomic_store(&run->keys[i].grain, 0); /* the owner forgets all, and tells nobody what it was */
    atomic_store(&run->live_bytes, 0);
    keys = run_fill_to(run, 100, 900); /* though what lived before is still counted */
    for (uint32_t i = 0; run_stats(run).tombstone_bytes > 0 || run_stats(run).live_bytes != run->live_bytes;
         i++) {
        assert_true(i < 4 * keys);
        assert_int_equal(run_put(run, i % keys, 900), 0);
    }
    assert_int_equal(run_check(run, keys), keys);
    run_expect_counted(run);
}

/* What was counted and never told to be dead is not counted any more when its segment is free. */
static void miscounted(struct run *run)
{
    for (uint32_t i = 0; i < 60; i++)
        assert_int_equal(run_put(run, i % 20, 3000), 0);
    uint64_t grain = atomic_load(&run->keys[0].grain);
    uint32_t first = seglog_segment_of(run->log, grain);
    for (uint32_t i = 0; i < 60; i++)
        assert_int_equal(run_put(run, i % 20, 3000), 0);
    seglog_live_add(run->log, grain, 40000, false);
    for (uint32_t i = 0; strcmp(run_state_of(run, first), "free") != 0; i++)
        assert_int_equal(run_put(run, i % 20, 3000), 0);
    run_expect_counted(run);
}

static void what_was_flushed_is_not_moved(void **state)
{
    (void)state;
    run_in_a_thread(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN, miscounted);
    run_in_a_thread(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN, flushed);
}

/* ---- the longest keys --------------------------------------------------------------------------- */

/* A record of the largest size with nothing but a key: a tombstone of it would be too large. */
static void longest(struct run *run)
{
    assert_int_equal(run_record_bytes(run, 0), run->record_bytes_max);
    assert_int_equal(run_change(run, 0, SEGLOG_SPACE_DATA, 0, 1), 0); /* has expired when it is written */
    assert_int_equal(run_delete(run, 1), -EMSGSIZE);
    for (uint32_t i = 0; i < 1500; i++)
        assert_int_equal(run_put(run, 100 + i % 20, 0), 0);
    assert_true(run_stats(run).collections > 20);
    assert_int_equal(atomic_load(&run->ended), 0);
    assert_true(run_check_key(run, 0));
    for (uint32_t i = 0; i < 3000; i++)
        assert_int_equal(run_put(run, 100 + i * 7 % 300, 0), 0); /* moves that come too late are no matter */
    assert_int_equal(run_stats(run).segments_bad, 0);
    run_restart(run);
    (void)run_check(run, 400);
}

static void keys_that_have_no_tombstone(void **state)
{
    (void)state;
    struct run *run = run_new(SEGLOG_DEVICE, 24);
    run->record_bytes_max = SEGLOG_BLOCK_BYTES_MIN;
    run->key_room = SEGLOG_BLOCK_BYTES_MIN - (uint32_t)sizeof(struct seglog_record_format);
    run_and_free(run, longest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overwritten_ten_times),
        cmocka_unit_test(overwritten_by_a_task),
        cmocka_unit_test(what_is_cold_is_seldom_moved),
        cmocka_unit_test(nobody_writes_and_it_takes_its_time),
        cmocka_unit_test(cold_among_hot),
        cmocka_unit_test(filled_and_emptied_again_and_again),
        cmocka_unit_test(rounds_begin_again),
        cmocka_unit_test(a_move_that_comes_too_late_is_buried),
        cmocka_unit_test(expired_records_are_room),
        cmocka_unit_test(tombstones_are_kept_as_long_as_needed),
        cmocka_unit_test(what_was_flushed_is_not_moved),
        cmocka_unit_test(keys_that_have_no_tombstone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
