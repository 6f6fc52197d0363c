/* For the tests of the collector: logs that are filled, and what they count. */
#ifndef SEGLOG_COLLECT_TESTING_H
#define SEGLOG_COLLECT_TESTING_H

#include "base/testing.h"
#include "seglog/run_testing.h"

struct seglog_stats run_stats(struct run *run);

/* Run a test in this thread, on a log that is ready to be started; the service is another thread. */
void run_and_free(struct run *run, void (*test)(struct run *run));

void run_in_a_thread(enum seglog_mode mode, uint64_t segments, void (*test)(struct run *run));

/* Store values until so many per cent of the capacity live. @return keys */
uint32_t run_fill_to(struct run *run, uint32_t percent, uint32_t value_bytes);

/*
 * The log counts what the owner does. A thread may be held up between a death and telling it until the
 * segment is free again: then a record is missing for a while.
 */
void run_expect_counted(struct run *run);

const char *run_state_of(struct run *run, uint32_t segment);

#endif
