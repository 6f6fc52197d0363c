/*
 * Space: does whoever holds a reservation find room, whatever the others do; who waits for what, and is
 * nobody left waiting; do the counters add up?
 */
#include "base/testing.h"
#include "seglog/run_testing.h"

static struct seglog_segment_info info_of(struct run *run, uint32_t segment)
{
    struct seglog_segment_info info;
    seglog_segment_info(run->log, segment, &info);
    return info;
}

static uint32_t free_segments(struct run *run)
{
    struct seglog_stats stats;
    seglog_stats(run->log, &stats);
    return stats.segments_free;
}

static void run_in(uint64_t segments, uint32_t user_streams,
                   void (*test)(struct run *run, struct task_testing *testing))
{
    struct run *run = run_new(SEGLOG_DEVICE, segments);
    run->user_streams = user_streams;
    run_in_tasks(run, test);
    run_free(run);
}

static void wait_for(struct run *run, uint32_t waiting)
{
    while (atomic_load(&run->log->space_waiting) != waiting)
        task_yield();
}

/* ---- footprints and capacity -------------------------------------------------------------------- */

static void measures(struct run *run, struct task_testing *testing)
{
    (void)testing;
    const struct seglog_superblock_format *superblock = seglog_superblock(run->log);
    uint64_t before = 0;
    for (uint64_t bytes = 41; bytes <= superblock->record_bytes_max; bytes += 97) {
        uint64_t footprint = seglog_footprint(run->log, bytes);
        assert_true(footprint >= base_align_up(bytes, superblock->grain_bytes) + 48);
        assert_true(footprint >= before);
        assert_true(footprint <= superblock->segment_bytes);
        before = footprint;
    }
    uint64_t space = seglog_record_space(run->log);
    assert_int_equal(seglog_capacity(run->log), (SEGLOG_SEGMENTS_MIN - 2 - 3 - 1) * space / 100 * 93);

    /* as many records as footprints promise do fit in a segment, written one by one in one write */
    struct seglog_reservation room;
    struct seglog_place place = {.grain = 0};
    uint32_t count = 0, first = SEGLOG_NO_SEGMENT;
    static uint8_t value[1000];
    for (;; count++) {
        const struct seglog_draft draft = {.kind = SEGLOG_VALUE,
                                           .key_bytes = 8,
                                           .value_bytes = sizeof(value),
                                           .sequence = count + 1,
                                           .hash = run->hashes[1],
                                           .key = value,
                                           .value = value};
        assert_int_equal(seglog_reserve(run->log, SEGLOG_SPACE_DATA, 1048, &room), 0);
        assert_int_equal(seglog_append(run->log, &room, &draft, &place), 0);
        seglog_settle(run->log, &place, false);
        first = count == 0 ? place.segment : first;
        if (place.segment != first)
            break;
    }
    assert_true(count >= space / seglog_footprint(run->log, 1048));
    assert_int_equal(run_stop(run), 0);
}

static void footprints_and_capacity(void **state)
{
    (void)state;
    run_in(SEGLOG_SEGMENTS_MIN, 1, measures);
}

static void stream_counts(struct run *run, struct task_testing *testing)
{
    (void)testing;
    assert_int_equal(run->log->stream_count, 1 + base_min(base_max(run->user_streams, 1U), 5U));
    assert_int_equal(run_stop(run), 0);
}

static void streams_are_at_most_an_eighth(void **state)
{
    (void)state;
    run_in(40, 0, stream_counts);
    run_in(40, 3, stream_counts);
    run_in(40, 50, stream_counts);
}

/* ---- what is reserved is there ------------------------------------------------------------------ */

#define HELD_MAX 4000

struct held {
    struct seglog_reservation room;
    uint32_t value_bytes;
};

static uint32_t random_size(struct base_random *random, uint32_t round)
{
    switch (round % 4) {
    case 0: /* one that leaves nearly a half of a segment empty each time, and one that fits behind it */
        return base_random_below(random, 2) == 0 ? 80000 : 20000;
    case 1:
        return 100;
    case 2:
        return (uint32_t)base_random_below(random, 110000);
    default:
        return (uint32_t)base_random_below(random, 9000);
    }
}

/* Reserve until nothing is left, then write it all, in any order, without a segment becoming free meanwhile.
 */
static void promises(struct run *run, struct task_testing *testing)
{
    (void)testing;
    struct held *held = calloc(HELD_MAX, sizeof(*held));
    struct base_random random;
    base_random_init(&random, 11);
    uint8_t *value = calloc(1, 1 << 17);
    for (uint32_t round = 0; round < 60; round++) {
        uint32_t count = 0;
        int error = 0;
        uintptr_t service =
            atomic_exchange(&run->log->service.worker.self, (uintptr_t)task_self()); /* never waits */
        while (error == 0 && count < HELD_MAX) {
            held[count].value_bytes = random_size(&random, round);
            error = seglog_reserve(run->log, SEGLOG_SPACE_DATA,
                                   run_record_bytes(run, held[count].value_bytes), &held[count].room);
            count += error == 0;
        }
        assert_int_equal(error, -ENOSPC);
        atomic_store(&run->log->service.worker.self, service);
        for (uint32_t i = 0; i < count;
             i++) { /* by plain appends: what they leave is the worst that can be */
            uint32_t other = i + (uint32_t)base_random_below(&random, count - i);
            struct held swap = held[i];
            held[i] = held[other];
            held[other] = swap;
            struct seglog_place place;
            const struct seglog_draft draft = {.kind = SEGLOG_VALUE,
                                               .key_bytes = 8,
                                               .value_bytes = held[i].value_bytes,
                                               .sequence = 1,
                                               .hash = run->hashes[1],
                                               .key = value,
                                               .value = value};
            assert_int_equal(seglog_append(run->log, &held[i].room, &draft, &place), 0);
            assert_true(run->log->free_count >= SEGLOG_KEPT_DATA);
            if (round % 2 == 0 || i % 10 == 0)
                assert_int_equal(seglog_wait(run->log, &place), 0);
            seglog_settle(run->log, &place, false);
        }
        assert_int_equal(run->log->streams[1].reserved_bytes, 0);
        while (free_segments(run) < 9)
            assert_int_equal(run_put(run, 7, 60000), 0); /* the collector has work again */
    }
    free(value);
    free(held);
    assert_int_equal(run_stop(run), 0);
}

static void whoever_has_a_reservation_finds_room(void **state)
{
    (void)state;
    run_in(SEGLOG_SEGMENTS_MIN, 1, promises);
}

/* ---- waiting ------------------------------------------------------------------------------------ */

struct waiting {
    struct run *run;
    enum seglog_space space;
    struct seglog_reservation room;
    int error;
    _Atomic bool done;
};

static void reserve_one(void *arg)
{
    struct waiting *waiting = arg;
    waiting->error = seglog_reserve(waiting->run->log, waiting->space, 20000, &waiting->room);
    atomic_store(&waiting->done, true);
}

/* Take all that data may have. @return how many reservations */
static uint32_t take_all(struct run *run, struct seglog_reservation *rooms, uint32_t max)
{
    uint32_t count = 0;
    uintptr_t service = atomic_exchange(&run->log->service.worker.self, (uintptr_t)task_self());
    while (count < max && seglog_reserve(run->log, SEGLOG_SPACE_DATA, 20000, &rooms[count]) == 0)
        count++;
    atomic_store(&run->log->service.worker.self, service);
    assert_true(count < max);
    return count;
}

/* Something may have died, or was unpinned, since the collector looked: what it saw then refuses nobody, but where it
 * has worked in vain. */
static void end_with_an_old_look(struct seglog *log, bool in_vain)
{
    seglog_space_chance(log);
    const struct seglog_exhaustion exhaustion = {.chances = atomic_load(&log->chances) - 1,
                                                 .until_ns = UINT64_MAX,
                                                 .pressed = true,
                                                 .in_vain = in_vain};
    base_spin_lock(&log->lock);
    const uint32_t free_count = log->free_count;
    log->free_count = 0; /* so that the waiter could not get its space if all others gave theirs back */
    base_spin_unlock(&log->lock);
    seglog_space_exhausted(log, &exhaustion, false);
    base_spin_lock(&log->lock);
    log->free_count += free_count;
    base_spin_unlock(&log->lock);
}

static void waits(struct run *run, struct task_testing *testing)
{
    static struct seglog_reservation rooms[200];
    struct task_group group;
    task_group_init(&group);
    uint32_t count = take_all(run, rooms, 200);
    assert_true(count > 15);
    struct waiting data[2] = {{.run = run, .space = SEGLOG_SPACE_DATA},
                              {.run = run, .space = SEGLOG_SPACE_DATA}};
    struct waiting deletion = {.run = run, .space = SEGLOG_SPACE_DELETE};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(task_spawn(testing->scheds[0], &group, "data", reserve_one, &data[i]), 0);
        wait_for(run, (uint32_t)i + 1);
    }
    assert_int_equal(task_spawn(testing->scheds[0], &group, "delete", reserve_one, &deletion), 0);
    while (!atomic_load(&deletion.done)) /* it may have what data leave, and does not wait behind them */
        task_yield();
    assert_int_equal(deletion.error, 0);
    assert_false(atomic_load(&data[0].done));
    seglog_release(run->log, &deletion.room);
    assert_int_equal(deletion.room.cost_bytes, 0);
    seglog_release(run->log, &deletion.room); /* nothing any more */
    assert_int_equal(atomic_load(&run->log->space_waiting), 2);
    seglog_release(run->log, &rooms[--count]);
    assert_int_equal(atomic_load(&run->log->space_waiting), 1); /* let in at once */
    while (!atomic_load(&data[0].done))
        task_yield();
    assert_int_equal(data[0].error, 0);
    assert_false(atomic_load(&data[1].done)); /* in order */
    end_with_an_old_look(run->log, false);
    assert_int_equal(atomic_load(&run->log->space_waiting), 1);
    struct waiting third = {.run = run, .space = SEGLOG_SPACE_DATA};
    assert_int_equal(task_spawn(testing->scheds[0], &group, "data", reserve_one, &third), 0);
    wait_for(run, 2);
    end_with_an_old_look(run->log, true);
    assert_int_equal(atomic_load(&run->log->space_waiting), 0);
    while (!atomic_load(&third.done))
        task_yield();
    assert_int_equal(third.error, -ENOSPC);
    assert_int_equal(data[1].error, -ENOSPC);

    /* another one: nothing is ever given back, so it is told in the end */
    data[1] = (struct waiting){.run = run, .space = SEGLOG_SPACE_DATA};
    assert_int_equal(task_spawn(testing->scheds[0], &group, "data", reserve_one, &data[1]), 0);
    uint64_t begin_ns = task_now();
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    assert_int_equal(data[1].error, -ENOSPC);
    assert_true(task_now() - begin_ns < 60 * BASE_NS_PER_SECOND);
    seglog_release(run->log, &data[0].room);
    while (count > 0)
        seglog_release(run->log, &rooms[--count]);
    assert_int_equal(run->log->needed, 0);
    assert_int_equal(run_put(run, 1, 20000), 0);
    assert_int_equal(run_stop(run), 0);
}

static void waiting_for_what_others_hold(void **state)
{
    (void)state;
    run_in(SEGLOG_SEGMENTS_MIN, 1, waits);
}

static void fails(struct run *run, struct task_testing *testing)
{
    static struct seglog_reservation rooms[200];
    struct task_group group;
    task_group_init(&group);
    uint32_t count = take_all(run, rooms, 200);
    struct waiting data = {.run = run, .space = SEGLOG_SPACE_DATA};
    assert_int_equal(task_spawn(testing->scheds[0], &group, "data", reserve_one, &data), 0);
    wait_for(run, 1);
    testing_drive_fail_at(&run->drive.base, DRIVE_WRITE, 1, true);
    assert_int_equal(seglog_wall_note(run->log, UINT64_MAX / 2, UINT64_MAX / 2), -EIO);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    assert_int_equal(data.error, -EROFS);
    while (count > 0)
        seglog_release(run->log, &rooms[--count]);
    assert_int_not_equal(run_stop(run), 0);
}

static void a_failure_wakes_who_waits(void **state)
{
    (void)state;
    run_in(SEGLOG_SEGMENTS_MIN, 1, fails);
}

static void grows(struct run *run, struct task_testing *testing)
{
    static struct seglog_reservation rooms[200];
    const struct seglog_bound bound = {.bytes = UINT64_MAX};
    struct seglog_growth growth;
    struct task_group group;
    task_group_init(&group);
    uint32_t count = take_all(run, rooms, 200), before = free_segments(run);
    struct waiting data = {.run = run, .space = SEGLOG_SPACE_DATA};
    assert_int_equal(task_spawn(testing->scheds[0], &group, "data", reserve_one, &data), 0);
    wait_for(run, 1);
    run->drive.base.size += 3 * SEGLOG_SEGMENT_BYTES_MIN;
    assert_int_equal(seglog_extend(run->log, &bound, &growth), 0);
    assert_int_equal(growth.after_bytes - growth.before_bytes, 3 * SEGLOG_SEGMENT_BYTES_MIN);
    assert_int_equal(free_segments(run), before + 3);
    assert_int_equal(atomic_load(&run->log->space_waiting), 0); /* let in at once */
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    assert_int_equal(data.error, 0);
    seglog_release(run->log, &data.room);
    while (count > 0)
        seglog_release(run->log, &rooms[--count]);
    assert_int_equal(run_stop(run), 0);
}

static void growth_lets_in_who_waits(void **state)
{
    (void)state;
    struct run *run = run_new(SEGLOG_DEVICE, SEGLOG_SEGMENTS_MIN);
    testing_drive_keep_room(&run->drive.base, 2 * run->drive.base.size, 0xee);
    run_in_tasks(run, grows);
    run_free(run);
}

struct appending {
    struct run *run;
    struct seglog_reservation room;
    uint32_t value_bytes;
};

static void append_one(void *arg)
{
    static uint8_t value[1 << 17];
    struct appending *appending = arg;
    struct seglog_place place;
    const struct seglog_draft draft = {.kind = SEGLOG_VALUE,
                                       .key_bytes = 8,
                                       .value_bytes = appending->value_bytes,
                                       .sequence = 1,
                                       .hash = appending->run->hashes[1],
                                       .key = value,
                                       .value = value};
    assert_int_equal(seglog_append(appending->run->log, &appending->room, &draft, &place), 0);
    seglog_settle(appending->run->log, &place, false);
}

/* While a stream is between two segments nothing more is promised than before. */
static void between(struct run *run, struct task_testing *testing)
{
    static struct seglog_reservation rooms[200];
    struct seglog_reservation more;
    struct seglog_summary *summaries[4];
    struct appending first = {.run = run, .value_bytes = 60000};
    struct task_group group;
    task_group_init(&group);
    assert_int_equal(run_put(run, 1, 80000), 0);
    assert_int_equal(
        seglog_reserve(run->log, SEGLOG_SPACE_DATA, run_record_bytes(run, first.value_bytes), &first.room),
        0);
    uint32_t count = take_all(run, rooms, 200), spare = 0;
    while (!base_list_empty(&run->log->summaries_free))
        assert_int_equal(seglog_summary_take(run->log, &summaries[spare++]), 0);
    run_hold(&run->drive, 1);
    assert_int_equal(task_spawn(testing->scheds[0], &group, "first", append_one, &first), 0);
    run_wait_for_arrivals(&run->drive, 1); /* the summary of the segment that has ended */
    assert_true(run->log->streams[1].making);
    assert_null(run->log->streams[1].open_summary);
    uintptr_t service = atomic_exchange(&run->log->service.worker.self, (uintptr_t)task_self());
    assert_int_equal(seglog_reserve(run->log, SEGLOG_SPACE_DATA, 20000, &more), -ENOSPC);
    atomic_store(&run->log->service.worker.self, service);
    run_let_go(&run->drive, 0);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    while (spare > 0)
        seglog_summary_give(run->log, summaries[--spare]);
    for (uint32_t i = 0; i < count; i++) {
        struct appending next = {.run = run, .room = rooms[i], .value_bytes = 19900};
        append_one(&next);
        assert_true(run->log->free_count >= SEGLOG_KEPT_DATA);
    }
    assert_int_equal(run->log->needed, 0);
    assert_int_equal(run_stop(run), 0);
}

static void nothing_is_promised_between_segments(void **state)
{
    (void)state;
    run_in(SEGLOG_SEGMENTS_MIN, 1, between);
}

/* ---- full --------------------------------------------------------------------------------------- */

/* More than the capacity, since nobody asks here: at some point there is nothing left to gain. */
static void fill(struct run *run, struct task_testing *testing)
{
    (void)testing;
    for (int round = 0; round < 3; round++) {
        uint32_t keys = 0;
        int error = 0;
        while (error == 0 && keys < RUN_KEYS_MAX) {
            error = run_put(run, keys, 3000);
            keys += error == 0;
        }
        assert_int_equal(error, -ENOSPC);
        assert_true(run->live_bytes > seglog_capacity(run->log));
        uint64_t services = atomic_load(&run->services);
        for (int i = 0; i < 100; i++)
            assert_int_equal(run_put(run, keys, 3000), -ENOSPC);
        /* nothing has changed: nothing is looked for */
        assert_true(atomic_load(&run->services) <= services + 2);
        assert_int_equal(run_check(run, keys), keys);
        assert_int_equal(run_put(run, 0, 110000), -ENOSPC);
        for (uint32_t i = 0; i < keys; i += 2)
            assert_int_equal(run_delete(run, i), 0);
        for (uint32_t i = 0; i < keys / 4; i++)
            assert_int_equal(run_put(run, 2 * i, 3000), 0);
        for (uint32_t i = 0; i < keys; i++)
            assert_int_equal(run_delete(run, i), 0);
        assert_int_equal(run->live_bytes, 0);
    }
    assert_int_equal(run_stop(run), 0);
}

static void a_full_log_says_so_and_takes_deletions(void **state)
{
    (void)state;
    run_in(SEGLOG_SEGMENTS_MIN, 1, fill);
}

/* ---- counters ----------------------------------------------------------------------------------- */

static void counts(struct run *run, struct task_testing *testing)
{
    (void)testing;
    struct seglog_stats stats;
    assert_int_equal(run_put(run, 1, 1000), 0);
    assert_int_equal(run_put(run, 2, 3000), 0);
    assert_int_equal(run_put(run, 1, 2000), 0);
    assert_int_equal(run_delete(run, 1), 0);
    seglog_stats(run->log, &stats);
    uint64_t value = seglog_footprint(run->log, run_record_bytes(run, 3000));
    uint64_t tombstone = seglog_footprint(run->log, run_record_bytes(run, 8));
    assert_int_equal(stats.live_bytes, value);
    assert_int_equal(stats.tombstone_bytes, tombstone);
    assert_int_equal(stats.appended_bytes, 1088 + 3072 + 2048 + 64);
    assert_int_equal(stats.segments_open, 1);
    uint64_t grain = atomic_load(&run->keys[2].grain);
    uint32_t segment = seglog_segment_of(run->log, grain);
    assert_int_equal(info_of(run, segment).live_bytes, value);
    assert_int_equal(info_of(run, segment).tombstone_bytes, tombstone);
    assert_int_equal(info_of(run, segment).stream, 1);
    assert_int_equal(seglog_stamp_at(run->log, grain), info_of(run, segment).stamp);
    assert_int_equal(seglog_stamp_at(run->log, 0), 0);
    assert_int_equal(seglog_stamp_at(run->log, UINT64_MAX), 0);
    assert_int_equal(
        seglog_stamp_at(run->log, seglog_superblock(run->log)->store_bytes >> run->log->grain_shift), 0);
    seglog_live_clear(run->log);
    seglog_stats(run->log, &stats);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(info_of(run, segment).live_bytes, 0);
    assert_int_equal(stats.tombstone_bytes, tombstone);
    seglog_live_add(run->log, grain, 100, false);
    seglog_live_add(run->log, grain, 100, true);
    seglog_stats(run->log, &stats);
    assert_int_equal(stats.live_bytes, seglog_footprint(run->log, 100));
    assert_int_equal(stats.tombstone_bytes, tombstone + seglog_footprint(run->log, 100));
    assert_int_equal(run_stop(run), 0);
}

static void counters_add_up(void **state)
{
    (void)state;
    run_in(SEGLOG_SEGMENTS_MIN, 1, counts);
}

/* Stamps run out: the next are made durable first. */
static void stamps(struct run *run, struct task_testing *testing)
{
    (void)testing;
    assert_int_equal(run_put(run, 1, 100), 0);
    base_spin_lock(&run->log->lock);
    run->log->stamp = run->log->stamp_bound - 2;
    base_spin_unlock(&run->log->lock);
    for (int i = 0; i < 6; i++) { /* before the service has looked */
        assert_int_equal(run_put(run, 1, 100000), 0);
        assert_true(seglog_stamp_at(run->log, atomic_load(&run->keys[1].grain)) <
                    testing_state(&run->drive.base)->stamp_bound);
    }
    /* sequences: the service raises their bound before it is reached */
    uint64_t bound = atomic_load(&run->log->sequence_bound);
    atomic_store(&run->log->sequence,
                 base_align_down(bound - SEGLOG_SEQUENCE_BLOCK / 3, SEGLOG_SEQUENCE_BLOCK / 8));
    assert_int_equal(run_put(run, 1, 100), 0);
    for (int i = 0; i < 20; i++)
        task_yield();
    assert_true(atomic_load(&run->log->sequence_bound) > bound);
    assert_int_equal(run_stop(run), 0);
}

static void bounds_are_raised(void **state)
{
    (void)state;
    run_in(SEGLOG_SEGMENTS_MIN, 1, stamps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(footprints_and_capacity),
        cmocka_unit_test(streams_are_at_most_an_eighth),
        cmocka_unit_test(whoever_has_a_reservation_finds_room),
        cmocka_unit_test(waiting_for_what_others_hold),
        cmocka_unit_test(a_failure_wakes_who_waits),
        cmocka_unit_test(growth_lets_in_who_waits),
        cmocka_unit_test(nothing_is_promised_between_segments),
        cmocka_unit_test(a_full_log_says_so_and_takes_deletions),
        cmocka_unit_test(counters_add_up),
        cmocka_unit_test(bounds_are_raised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
