/*
 * How long the stages of the work take (enum tarn_stage): histograms that each scheduler writes without a
 * lock and anybody reads. Of all requests some are measured, drawn at random, and those in all their stages:
 * a *trace* adds up how long a request was in which.
 */
#ifndef DEPOT_STAGE_H
#define DEPOT_STAGE_H

#include "base/base.h"
#include "task/task.h"
#include <stdatomic.h>
#include <tarn/depot.h>

/* What one scheduler has counted. */
struct depot_lane {
    struct base_stages stages;
    struct base_spin lock;     /* of the first lane: its owner is who has it */
    _Atomic int64_t countdown; /* requests until the next one that is measured, which has 1 */
    struct base_random random; /* used by the thread that counts down to 0 */
    uint8_t apart[64];         /* lanes share no cache line */
};

struct depot_stages {
    struct base_account *account;
    struct depot_lane *lanes; /* the first is that of plain threads and of schedulers that have none; then by
                               * their places in the node */
    uint32_t lane_count;
    _Atomic uint32_t interval; /* one request in this many is measured */
    _Atomic uint64_t round;    /* base_stages_add() */
};

/* A request, on its stack. */
struct depot_trace {
    uint64_t begin_ns; /* 0: it is not measured */
    uint64_t at_ns;    /* up to here its time is accounted for */
    uint32_t passed;   /* stages, a bit each */
    uint64_t ns[TARN_STAGE_COMMIT + 1];
};

/** @param sched_count  schedulers that get a lane @param interval  0: the default @return 0; -ENOMEM */
base_must_check int depot_stages_init(struct depot_stages *stages, struct base_account *account,
                                      uint32_t sched_count, uint32_t interval);

/** Free what it took. */
void depot_stages_deinit(struct depot_stages *stages);

/** Whether this is one of the requests that are measured. */
bool depot_stages_draw(struct depot_stages *stages);

/** Count the time of a stage. */
void depot_stages_add(struct depot_stages *stages, enum tarn_stage stage, uint64_t ns);

/** Add what all have counted of a stage to an empty histogram. */
void depot_stages_read(struct depot_stages *stages, enum tarn_stage stage, struct base_histogram *into);

/**
 * A request begins.
 *
 * @param begin_ns  when it was made; 0: now
 */
void depot_trace_begin(struct depot_stages *stages, struct depot_trace *trace, uint64_t begin_ns);

/** It ends: count its stages, and all of it. */
void depot_trace_end(struct depot_stages *stages, const struct depot_trace *trace, enum tarn_stage whole);

/** What has passed since the last mark belongs to a stage. @param trace  NULL: nobody's */
static inline void depot_trace_mark(struct depot_trace *trace, enum tarn_stage stage)
{
    if (base_likely(trace == NULL || trace->begin_ns == 0))
        return;
    uint64_t now_ns = task_now();
    trace->ns[stage] += now_ns - trace->at_ns;
    trace->at_ns = now_ns;
    trace->passed |= UINT32_C(1) << stage;
}

/** What has passed since the last mark belongs to none. */
static inline void depot_trace_skip(struct depot_trace *trace)
{
    if (base_unlikely(trace->begin_ns != 0))
        trace->at_ns = task_now();
}

#endif
