/*
 * For the targets that have a store: a drive in memory, a civil clock that stands still, a node on both.
 * There is no cmocka here, so this is not drive/memory_testing.h.
 */
#ifndef FUZZ_TESTING_H
#define FUZZ_TESTING_H

#include "base/base.h"
#include "drive/drive.h"
#include "task/node.h"
#include "task/sched.h"
#include <time.h>

#define FUZZ_WALL_NS (UINT64_C(1700000000) * BASE_NS_PER_SECOND)

/* ---- a drive in memory -------------------------------------------------------------------------- */

struct fuzz_drive {
    uint8_t *bytes;
    uint64_t size;
    bool yields; /* it takes its time, and other requests run meanwhile */
};

/* ---- nodes -------------------------------------------------------------------------------------- */

extern const struct task_clock fuzz_clock;

void fuzz_sink(void *arg, enum base_log_level level, const char *line, size_t len);

/** Open a node, and a scheduler that the target steps or runs. @param memory_bytes  0: as much as it likes */
void fuzz_begin(struct fuzz_drive *drive, uint64_t memory_bytes, enum base_log_level log_level,
                struct tarn_node **ret_node, struct task_sched **ret_sched);

/** Run the scheduler until it has been stopped, and free both. Nothing is left over: that is asserted. */
void fuzz_end(struct tarn_node *node, struct task_sched *sched);

#endif
