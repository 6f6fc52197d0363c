/* The measurements of `tarn-lab task` that need no other process: as bench_subject.measure. */
#ifndef LAB_TASK_BASIC_H
#define LAB_TASK_BASIC_H

#include "bench/case.h"

/* What `arg` points to in all of them; each uses the fields that its comment names. */
struct lab_task_basic {
    struct bench *bench;
    uint32_t tasks;
    uint64_t spin_ns;
    bool same_code;
};

/**
 * `tasks` tasks yield to each other: with `same_code` all at one place in the program, else the first at
 * another than the rest. An operation is a switch.
 */
int lab_measure_switch(void *arg, struct bench_sample *sample);

/** A group of `tasks` is spawned and joined, over and over. An operation is a task. */
int lab_measure_spawn(void *arg, struct bench_sample *sample);

/** The same with threads of the system, each made and joined. */
int lab_measure_spawn_threads(void *arg, struct bench_sample *sample);

/** Two tasks answer each other through futures of one scheduler. An operation is there and back. */
int lab_measure_future(void *arg, struct bench_sample *sample);

/**
 * Two tasks on two schedulers, each on its core, answer each other through semaphores; an idle scheduler
 * spins for `spin_ns` before it sleeps. An operation is there and back.
 */
int lab_measure_wake(void *arg, struct bench_sample *sample);

/** The same with two threads and POSIX semaphores. */
int lab_measure_wake_threads(void *arg, struct bench_sample *sample);

/** `tasks` tasks sleep for up to 100 us each, so that there is always one to wake. An operation is a sleep.
 */
int lab_measure_timers(void *arg, struct bench_sample *sample);

/** `tasks` tasks sleep for 1 to 2 ms; the latency is how late they wake. An operation is a sleep. */
int lab_measure_lateness(void *arg, struct bench_sample *sample);

#endif
