/* How long each stage of the work on a store takes: histograms of all callers together. */
#ifndef DEPOT_STAGE_H
#define DEPOT_STAGE_H

#include "base/base.h"
#include "base/stages.h"
#include <stdatomic.h>

/* Stages of the work that may be measured. */
enum depot_stage {
    DEPOT_STAGE_INDEX,  /* hash, key lock, looking up and reading what is there, condition */
    DEPOT_STAGE_APPEND, /* place in the log, copy, check */
    DEPOT_STAGE_COMMIT, /* from there until it is as durable as the mode asks */
    DEPOT_STAGE_READ,   /* a record from the drive */
    DEPOT_STAGE_VERIFY, /* check and key of what was read */
    DEPOT_STAGE_COUNT,
};

/* Histograms of all stages, shared by all callers. */
struct depot_stages {
    struct base_spin lock;
    _Atomic bool enabled;
    struct base_stages stages;
};

/** The moment when a stage begins: 0 without looking at a clock while nothing is measured. */
uint64_t depot_stage_begin(struct depot_stages *stages);

/** Count a stage that began at a moment, and give the moment when the next one begins. */
uint64_t depot_stage_end(struct depot_stages *stages, enum depot_stage stage, uint64_t begin_ns);

#endif
