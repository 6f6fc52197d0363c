/* Does what is pinned stay where it is, as long as it is said to be; and does it give way before writers do?
 */
#include "seglog/collect_internal.h"
#include "seglog/collect_testing.h"

#define VALUE_BYTES 900
#define ROOM_BYTES  (8 * SEGLOG_SEGMENT_BYTES_MIN)

static struct {
    uint64_t grain, stamp; /* of each key when it was pinned; grain 0: it was not there */
} pinned[RUN_KEYS_MAX];

static void pin(struct run *run)
{
    seglog_pin(run->log);
    for (uint32_t i = 0; i < RUN_KEYS_MAX; i++) {
        pinned[i].grain = atomic_load(&run->keys[i].grain);
        pinned[i].stamp = seglog_stamp_at(run->log, pinned[i].grain);
    }
    seglog_pin_end(run->log);
}

/* @return whether it is still pinned; then all of it lies where it lay */
static bool holds(struct run *run)
{
    uint32_t changed = 0;
    for (uint32_t i = 0; i < RUN_KEYS_MAX; i++) {
        uint32_t segment = pinned[i].grain == 0 ? 0 : seglog_segment_of(run->log, pinned[i].grain);
        changed += pinned[i].grain != 0 && (seglog_stamp_at(run->log, pinned[i].grain) != pinned[i].stamp ||
                                            strcmp(run_state_of(run, segment), "free") == 0);
    }
    bool is_pinned = seglog_is_pinned(run->log);
    assert_true(changed == 0 || !is_pinned);
    return is_pinned;
}

/* Whatever the collector was about to do when it was pinned. */
static void pinned_at_any_time(struct run *run)
{
    struct base_random random;
    base_random_init(&random, 3);
    uint32_t keys = run_fill_to(run, 60, VALUE_BYTES), held = 0;
    for (int times = 0; times < 300; times++) {
        for (uint64_t i = base_random_below(&random, 100); i > 0; i--)
            assert_int_equal(run_put(run, base_random_below(&random, keys), VALUE_BYTES), 0);
        pin(run);
        for (uint64_t i = base_random_below(&random, 60); i > 0; i--)
            assert_int_equal(run_put(run, base_random_below(&random, keys), VALUE_BYTES), 0);
        held += holds(run);
        seglog_unpin(run->log);
    }
    assert_true(held > 100);
    assert_true(run_stats(run).collections > 50);
    assert_int_equal(run_check(run, keys), keys);
    run_expect_counted(run);
}

static void nothing_is_freed(void **state)
{
    (void)state;
    run_in_a_thread(SEGLOG_DEVICE, 40, pinned_at_any_time);
    run_in_a_thread(SEGLOG_ASYNC, 40, pinned_at_any_time);
}

/* A store that is written over and over: nobody is refused, and what was pinned goes at last. */
static void written_over(struct run *run)
{
    struct base_random random;
    base_random_init(&random, 4);
    uint32_t keys = run_fill_to(run, 50, VALUE_BYTES), written = 0;
    uint32_t before = run_stats(run).segments_free;
    seglog_room_make(run->log, ROOM_BYTES);
    uint32_t made = run_stats(run).segments_free;
    assert_true(made > before && made >= ROOM_BYTES / SEGLOG_SEGMENT_BYTES_MIN);
    pin(run);
    while (holds(run)) {
        assert_int_equal(run_put(run, base_random_below(&random, keys), VALUE_BYTES), 0);
        written++;
    }
    assert_true(written > (made - 4) * (SEGLOG_SEGMENT_BYTES_MIN / SEGLOG_BLOCK_BYTES_MIN - 2));
    for (uint32_t i = 0; i < 10 * keys; i++)
        assert_int_equal(run_put(run, base_random_below(&random, keys), VALUE_BYTES), 0);
    assert_int_equal(run_check(run, keys), keys);
    run_expect_counted(run);
}

static void it_gives_way_to_writers(void **state)
{
    (void)state;
    run_in_a_thread(SEGLOG_POWER, 40, written_over);
}

/* As the collector leaves it that has looked while somebody waited, and found nothing because of what is pinned. */
static void mark_exhausted(struct seglog *log)
{
    base_spin_lock(&log->lock);
    log->no_space_at = atomic_load(&log->chances) + 1;
    log->no_space_until_ns = UINT64_MAX;
    base_spin_unlock(&log->lock);
}

/* A pin is given up before a writer is refused, also when nobody waits at the moment that the collector ends. */
static void written_while_exhausted(struct run *run)
{
    uint32_t keys = run_fill_to(run, 50, VALUE_BYTES);
    seglog_room_make(run->log, ROOM_BYTES);
    pin(run);
    for (uint32_t i = 0; seglog_is_pinned(run->log); i++) {
        mark_exhausted(run->log);
        assert_int_equal(run_put(run, i % keys, VALUE_BYTES), 0);
    }
}

static void no_writer_is_refused_because_of_it(void **state)
{
    (void)state;
    run_in_a_thread(SEGLOG_POWER, 40, written_while_exhausted);
}

/* What is written after the moment dies, and is collected, while what was before stays. */
static void few_keys_written_over(struct run *run)
{
    uint32_t keys = run_fill_to(run, 50, VALUE_BYTES);
    seglog_room_make(run->log, ROOM_BYTES);
    pin(run);
    uint64_t collections = run_stats(run).collections;
    for (uint32_t i = 0; i < 20 * keys; i++)
        assert_int_equal(run_put(run, i % 8, VALUE_BYTES), 0);
    assert_true(holds(run));
    assert_true(run_stats(run).collections > collections + 40);
    seglog_unpin(run->log);
    assert_false(seglog_is_pinned(run->log));
}

static void what_comes_later_is_collected(void **state)
{
    (void)state;
    run_in_a_thread(SEGLOG_POWER, 40, few_keys_written_over);
}

static void fill_a_cache(struct run *run)
{
    uint32_t next = 0;
    while (run_stats(run).evictions == 0) {
        if (next == 100)
            pin(run);
        assert_int_equal(run_put(run, next++ % RUN_KEYS_MAX, VALUE_BYTES), 0);
        assert_true(next <= 100 || next > 150 || holds(run));
    }
    assert_false(seglog_is_pinned(run->log));
}

static void a_cache_evicts_all_the_same(void **state)
{
    (void)state;
    struct run *run = run_new(SEGLOG_DEVICE, 40);
    run->cache = true;
    run_and_free(run, fill_a_cache);
}

static void pin_an_empty_log(struct run *run)
{
    pin(run);
    assert_true(seglog_is_pinned(run->log));
    assert_int_equal(run_put(run, 0, VALUE_BYTES), 0);
    assert_true(holds(run));
    seglog_unpin(run->log);
}

static void an_empty_log_is_pinned(void **state)
{
    (void)state;
    run_in_a_thread(SEGLOG_POWER, SEGLOG_SEGMENTS_MIN, pin_an_empty_log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_freed),
        cmocka_unit_test(it_gives_way_to_writers),
        cmocka_unit_test(no_writer_is_refused_because_of_it),
        cmocka_unit_test(what_comes_later_is_collected),
        cmocka_unit_test(a_cache_evicts_all_the_same),
        cmocka_unit_test(an_empty_log_is_pinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
