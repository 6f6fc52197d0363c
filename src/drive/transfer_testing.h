/* For the tests of providers: what every one of them must do alike. Requests from tasks and threads at once;
 * writers that are killed. */
#ifndef DRIVE_TRANSFER_TESTING_H
#define DRIVE_TRANSFER_TESTING_H

#include "drive/testing.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define TRANSFER_PAGE ((size_t)BASE_PAGE_BYTES)

/* ---- transfers --------------------------------------------------------------------------------- */

#define TRANSFER_REQUESTS ((size_t)64)
#define TRANSFER_WORKERS  6

struct transfers {
    struct drive *drive;
    struct testing_folder *folder;
    enum task_engine_choice engine;
    _Atomic unsigned failures;
};

struct worker {
    struct transfers *transfers;
    uint64_t number;
};

/* Many requests at once over a part of its own, of two vectors each, then all of it in one list. */
void transfer(void *arg);

/* Tasks of all schedulers and a plain thread at once. */
void transfer_together(struct transfers *transfers, struct task_sched **scheds);

const char *engine_of(enum task_engine_choice choice);

/* The engine that works here: io_uring may be forbidden. */
bool engine_works(enum task_engine_choice choice);

/* ---- writers that are killed ------------------------------------------------------------------- */

#define TRANSFER_MIB (UINT64_C(1) << 20)

/* A file of a mebibyte, or a device; who is killed may have it for as long as its writes take. */
extern const struct drive_options transfer_mib;

/* Processes that write are killed: the next may have the drive at once. */
void transfer_kill_writers(struct tarn_node *node, char *path);

#endif
