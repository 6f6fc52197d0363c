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

/* ---- transfers ------------------------------------------------------------------------------------ */

/* ---- discards and failures ------------------------------------------------------------------------- */

/* ---- locks ------------------------------------------------------------------------------------------- */

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
