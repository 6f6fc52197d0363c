/*
 * For the tests of the running side: a drive in memory that keeps a history of its requests, holds writes
 * back until it is told to let them go, and knows what a power cut would leave.
 */
#ifndef SEGLOG_RUN_DRIVE_TESTING_H
#define SEGLOG_RUN_DRIVE_TESTING_H

#include "seglog/testing.h"

#define RUN_EVENTS_MAX 8192
#define RUN_GATES      8

/* A request that was completed. */
struct run_event {
    enum drive_op op;
    bool durable;
    uint64_t offset, bytes;
};

struct run_drive {
    struct testing_drive base;
    bool fua;
    uint8_t *stable;       /* what a power cut leaves, if none of the rest survives; NULL: not kept */
    struct base_spin lock; /* of what follows */
    struct run_event events[RUN_EVENTS_MAX];
    uint32_t event_count;
    uint32_t held;    /* the next so many writes are held, each at the next gate */
    uint32_t arrived; /* so many are or were */
    struct task_semaphore gates[RUN_GATES];
};

/** Keep what a power cut leaves. */
void run_keep_stable(struct run_drive *drive);

extern const struct drive_provider run_provider;

/** Hold the next `count` writes. */
void run_hold(struct run_drive *drive, uint32_t count);

/** Let go the write at a gate, from 0. */
void run_let_go(struct run_drive *drive, uint32_t gate);

/** How many writes have come to a gate. */
uint32_t run_arrived(struct run_drive *drive);

/** Let others run until so many have. A task. */
void run_wait_for_arrivals(struct run_drive *drive, uint32_t count);

#endif
