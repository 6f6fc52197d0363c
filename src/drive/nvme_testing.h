/* For nvme_test.c: what the provider does on a device. */
#ifndef DRIVE_NVME_TESTING_H
#define DRIVE_NVME_TESTING_H

#include "drive/nvme/nvme.h"
#include "drive/transfer_testing.h"
#include <sys/mman.h>

/* What all of these tests are about. */
struct device {
    char *path;
    const char *carrier; /* of its commands, as the log has it */
    struct nvme_sibling sibling;
};

/* ---- what it says of itself ---------------------------------------------------------------------- */

void test_description(void **state);

/* ---- transfers ------------------------------------------------------------------------------------ */

/* With schedulers of either engine: the rings are the drive's own. */
void test_transfers(void **state);

/* More commands than a ring has entries, all posted at once, and requests that wait while some have begun. */
void check_many(void *arg);

void test_many(void **state);

/* ---- discards and failures ------------------------------------------------------------------------- */

void test_discard(void **state);

void test_failures(void **state);

void test_extend(void **state);

void check_read_only(void *arg);

void test_read_only(void **state);

/* ---- locks ------------------------------------------------------------------------------------------- */

/* Whoever holds either node keeps others from both. */
void test_locks(void **state);

void test_killed_writer(void **state);

/* A scheduler that has ended keeps its ring until it is closed; a drive that outlives it does no harm. */
struct ended {
    const struct device *device;
    struct drive *drive;
    struct task_sched *sched;
    bool close;
};

/** Run all of these. @return how many failed */
int nvme_testing_device(char *path, const char *carrier);

#endif
