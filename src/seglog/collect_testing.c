/* For the tests of the collector: logs that are filled, and what they count. */
#include "seglog/collect_testing.h"

struct seglog_stats run_stats(struct run *run)
{
    struct seglog_stats stats;
    seglog_stats(run->log, &stats);
    return stats;
}

void run_and_free(struct run *run, void (*test)(struct run *run))
{
    struct tarn_node *node = run_node(run);
    run_start(run, node);
    test(run);
    assert_int_equal(run_stop(run), 0);
    task_node_close(node);
    run_free(run);
}

void run_in_a_thread(enum seglog_mode mode, uint64_t segments, void (*test)(struct run *run))
{
    run_and_free(run_new(mode, segments), test);
}

uint32_t run_fill_to(struct run *run, uint32_t percent, uint32_t value_bytes)
{
    uint64_t capacity = seglog_capacity(run->log);
    uint64_t footprint = seglog_footprint(run->log, run_record_bytes(run, value_bytes));
    uint32_t keys = 0;
    while (run->live_bytes + footprint <= capacity / 100 * percent) {
        assert_true(keys < RUN_KEYS_MAX);
        assert_int_equal(run_put(run, keys++, value_bytes), 0);
    }
    return keys;
}

void run_expect_counted(struct run *run)
{
    for (int i = 0; i < 1000 && run_stats(run).live_bytes != run->live_bytes; i++)
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0); /* the collector is in the middle of a move */
    uint64_t slack = task_self() == NULL ? seglog_footprint(run->log, 8000) : 0;
    assert_in_range(run_stats(run).live_bytes + slack, run->live_bytes, run->live_bytes + slack);
}

const char *run_state_of(struct run *run, uint32_t segment)
{
    struct seglog_segment_info info;
    seglog_segment_info(run->log, segment, &info);
    return info.state;
}
