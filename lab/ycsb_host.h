/*
 * The process that an engine lives in, with its threads and its memory. It is stopped (SIGSTOP) while others
 * are measured, so that what an engine does in the background costs its own time and nobody else's.
 */
#ifndef LAB_YCSB_HOST_H
#define LAB_YCSB_HOST_H

#include "lab/child.h"
#include "lab/memory_group.h"
#include "lab/ycsb_draw.h"
#include "lab/ycsb_engine.h"

enum { LAB_YCSB_LOAD = -1 }; /* instead of a workload */

/* What an engine is to do. */
struct lab_ycsb_job {
    int workload; /* in lab_ycsb_workloads, or LAB_YCSB_LOAD: records go into an empty store */
    bool sync;    /* each put is durable when it returns */
    uint32_t threads;
    uint64_t duration_ns; /* of a load: at most; 0: until all records are in */
    uint64_t seed;
};

/* What became of it. */
struct lab_ycsb_report {
    int error;
    uint64_t operations;
    uint64_t elapsed_ns;
    uint64_t processor_ns;  /* of all the process's threads, like what follows */
    uint64_t read_bytes;    /* from drives */
    uint64_t written_bytes; /* to drives, or to the page cache */
    uint64_t resident_bytes;
    struct base_histogram latency;
    char why[LAB_YCSB_WHY_ROOM]; /* of the error, in the engine's words; or "" */
};

struct lab_ycsb_host {
    struct bench *bench;
    const struct lab_ycsb_engine *engine;
    struct lab_ycsb_place place;
    uint64_t records;
    struct lab_memory_group group; /* or none */
    char folder[LAB_YCSB_PATH_ROOM];
    struct lab_child child; /* pid 0: it does not run */
};

/** Start the process; engine, place, records and folder are set, and the folder is there and empty. @return
 * 0; negative errno: said */
base_must_check int lab_ycsb_host_start(struct lab_ycsb_host *host);

/**
 * Do a job. Before the first one that is no load, and after loads that were cut short, what is missing of the
 * records is put in, without being measured. A quarter of the duration warms up.
 *
 * @return 0; -ELIBACC (its library is not here: ret_report->why); negative errno: said
 */
base_must_check int lab_ycsb_host_run(struct lab_ycsb_host *host, const struct lab_ycsb_job *job,
                                      struct lab_ycsb_report *ret_report);

/** End it, if it runs. @return 0; negative errno: said */
int lab_ycsb_host_stop(struct lab_ycsb_host *host);

/** Remove all files of a folder, which has no folders. @return 0; negative errno */
int lab_ycsb_empty_folder(const char *path);

#endif
