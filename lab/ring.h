/*
 * Rings of bare stacks: each member switches to the next and the last to the first, with no scheduler. What
 * the task switch is compared to.
 */
#ifndef LAB_RING_H
#define LAB_RING_H

#include "bench/case.h"

/* How a case of `tarn-lab task` is measured: each subject looks at what it is about. */
struct lab_basic {
    struct bench *bench;
    uint32_t tasks;   /* of a ring: its members, 2 or more; the first is the calling thread's own stack */
    bool same_code;   /* all switch at one place in the program, else the first at another than the rest */
    uint64_t spin_ns; /* of an idle scheduler, before it sleeps */
    uint64_t sleep_us_min, sleep_us_max; /* of tasks that sleep */
};

/** With context.h. As bench_subject.measure; `arg` is a struct lab_basic. */
int lab_ring_context(void *arg, struct bench_sample *sample);

/** With swapcontext() of the C library, which also saves the signal mask. The same. */
int lab_ring_swapcontext(void *arg, struct bench_sample *sample);

/** With jump_fcontext() of boost; skipped if boost was not there when this was built. The same. */
int lab_ring_boost(void *arg, struct bench_sample *sample);

#endif
