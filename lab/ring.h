/*
 * Rings of bare stacks: each member switches to the next and the last to the first, with no scheduler. What
 * the task switch is compared to.
 */
#ifndef LAB_RING_H
#define LAB_RING_H

#include "bench/case.h"

struct lab_ring {
    struct bench *bench;
    uint32_t members; /* 2 or more; the first is the calling thread's own stack */
    bool same_code;   /* all switch at one place in the program, else the first at another than the rest */
};

/** With context.h. As bench_subject.measure; `arg` is a struct lab_ring. */
int lab_ring_context(void *arg, struct bench_sample *sample);

/** With swapcontext() of the C library, which also saves the signal mask. The same. */
int lab_ring_swapcontext(void *arg, struct bench_sample *sample);

/** With jump_fcontext() of boost; skipped if boost was not there when this was built. The same. */
int lab_ring_boost(void *arg, struct bench_sample *sample);

#endif
