/* For drive_test.c: drives in memory that fail and wait when told to, and a test on one or two of them in a
 * thread and a task. */
#ifndef DRIVE_FAKE_TESTING_H
#define DRIVE_FAKE_TESTING_H

#include "drive/drive_internal.h"
#include "drive/testing.h"
#include <stdatomic.h>

#define FAKE_BYTES ((size_t)256 * 1024)
#define BLOCK      ((size_t)4096)
#define HELD_MAX   64

struct held {
    struct task_message message;
    struct drive_request *request;
    int32_t result;
};

struct fake;

/* The fake drives are "0" and so on: a stripe is made of two, all else works on the first. */
struct fake_drive {
    struct fake *fake;
    uint8_t memory[FAKE_BYTES];
};

struct fake {
    struct fake_drive drives[2];
    bool direct;
    _Atomic uint64_t posts;
    _Atomic uint64_t flushes;
    _Atomic uint64_t fail_at; /* the n-th request from now fails; 0: none */
    int32_t error;
    _Atomic bool hold; /* keep the requests of tasks until released */
    struct base_spin lock;
    struct held held[HELD_MAX];
    unsigned held_count;
    int32_t region; /* of the last transfer */
    _Atomic unsigned open;
};

/* Let the requests go that were held, on their schedulers. */
void fake_release(struct fake *fake);

unsigned fake_held(struct fake *fake);

extern const struct drive_provider fake_provider;

extern const struct drive_options no_options;

/* ---- one test, in a thread and in a task ------------------------------------------------------- */

struct context {
    struct fake fake;
    struct testing_log log;
    struct tarn_node *node;
    struct task_sched **scheds; /* NULL in a thread */
    struct drive *drive;
    uint32_t count; /* of drives: 2 are a stripe */
    void (*test)(struct context *context);
};

void run_both(void (*test)(struct context *), bool direct);

/* The same with a stripe. */
void run_both_everywhere(void (*test)(struct context *), bool direct);

void run_in_task_everywhere(void (*test)(struct context *), bool direct);

#endif
