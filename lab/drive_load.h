/*
 * Load on a drive: as many tasks of one scheduler as the depth, each reading or writing one block after the
 * other; and the file that is loaded.
 */
#ifndef LAB_DRIVE_LOAD_H
#define LAB_DRIVE_LOAD_H

#include "bench/case.h"
#include "drive/drive.h"

enum lab_drive_op {
    LAB_DRIVE_RANDREAD,
    LAB_DRIVE_RANDWRITE,
    LAB_DRIVE_READ,
    LAB_DRIVE_WRITE,
};

/* One way of loading a file; both Tarn and fio are given it. */
struct lab_drive_job {
    struct bench *bench;
    const char *path;
    enum drive_provider_choice provider;
    enum drive_direct direct_choice;
    enum lab_drive_op op;
    uint32_t block_bytes;
    uint32_t depth;
    uint64_t rate; /* requests a second in an open loop; 0: closed loop, each task goes on when it can */
    uint64_t spin_ns;
    bool flush_each; /* fio alone: each write is flushed before the next begins */

    /* what Tarn's drive says when it is opened, for fio */
    bool opened;
    bool direct;
    uint64_t bytes;
};

/** "randread" and so on, as fio says too. */
const char *lab_drive_op_name(enum lab_drive_op op);

/** Whether it changes the file. */
bool lab_drive_op_writes(enum lab_drive_op op);

/**
 * Measure Tarn once: as bench_subject.measure; `arg` is a struct lab_drive_job. Skipped where the provider
 * is not to be had. An operation is a request; the first value is the thread's processor time for one, ns.
 */
int lab_drive_measure(void *arg, struct bench_sample *sample);

/* A file to load. */
struct lab_drive_file {
    const char *path;
    bool created; /* by us: removed when it is closed */
    bool memory;  /* tmpfs */
};

/**
 * Make a file full of random bytes, so that no hole is read; one that is there stays as it is.
 *
 * @param path  borrowed until it is closed
 * @param bytes of a new file
 * @return 0; negative errno: said in bench->err
 */
base_must_check int lab_drive_file_open(struct bench *bench, const char *path, uint64_t bytes,
                                        struct lab_drive_file *ret_file);

/** Remove the file, if it was made for this. */
void lab_drive_file_close(struct lab_drive_file *file);

#endif
