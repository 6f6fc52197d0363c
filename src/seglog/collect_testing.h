/* For the tests of the collector: logs that are filled, and what they count. */
#ifndef SEGLOG_COLLECT_TESTING_H
#define SEGLOG_COLLECT_TESTING_H

#include "base/testing.h"
#include "seglog/run_testing.h"

static inline struct seglog_stats run_stats(struct run *run)
{
    struct seglog_stats stats;
    seglog_stats(run->log, &stats);
    return stats;
}

/* Run a test in this thread, on a log that is ready to be started; the service is another thread. */
static inline void run_and_free(struct run *run, void (*test)(struct run *run))
{
    struct tarn_node *node = run_node(run);
    run_start(run, node);
    test(run);
    assert_int_equal(run_stop(run), 0);
    task_node_close(node);
    run_free(run);
}

static inline void run_in_a_thread(enum seglog_mode mode, uint64_t segments, void (*test)(struct run *run))
{
    run_and_free(run_new(mode, segments), test);
}

/* Store values until so many per cent of the capacity live. @return keys */
static inline uint32_t run_fill_to(struct run *run, uint32_t percent, uint32_t value_bytes)
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

/*
 * The log counts what the owner does. A thread may be held up between a death and telling it until the
 * segment is free again: then a record is missing for a while.
 */
static inline void run_expect_counted(struct run *run)
{
    for (int i = 0; i < 1000 && run_stats(run).live_bytes != run->live_bytes; i++)
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0); /* the collector is in the middle of a move */
    uint64_t slack = task_self() == NULL ? seglog_footprint(run->log, 8000) : 0;
    assert_in_range(run_stats(run).live_bytes + slack, run->live_bytes, run->live_bytes + slack);
}

static inline const char *run_state_of(struct run *run, uint32_t segment)
{
    struct seglog_segment_info info;
    seglog_segment_info(run->log, segment, &info);
    return info.state;
}

#endif
