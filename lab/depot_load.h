/*
 * Load on a store, and on a drive by fio beside it: as many tasks of each scheduler as the depth, or as many
 * threads, each in a loop of one call.
 */
#ifndef LAB_DEPOT_LOAD_H
#define LAB_DEPOT_LOAD_H

#include "lab/depot_store.h"

enum lab_depot_op {
    LAB_DEPOT_GET,       /* random records that are there */
    LAB_DEPOT_OVERWRITE, /* puts of random records that are there */
    LAB_DEPOT_INSERT,    /* puts of new records into a store that is empty in the beginning */
};

/* The values of a sample, by their place. The second and third depend on the operation. */
enum lab_depot_value {
    LAB_DEPOT_THREAD_NS, /* processor time for an operation */
    LAB_DEPOT_P50_NS,    /* gets: the median latency */
    LAB_DEPOT_READS,     /* gets: reads from the drive for one */

    LAB_DEPOT_PER_WRITE = LAB_DEPOT_P50_NS, /* puts: how many a write to the drive carries */
    LAB_DEPOT_WRITTEN = LAB_DEPOT_READS,    /* puts: bytes written for each byte of records */
};

/* One way of loading a store. */
struct lab_depot_job {
    struct lab_depot_store *store;
    enum lab_depot_op op;
    enum tarn_mode mode; /* of puts */
    uint32_t depth;      /* tasks of each scheduler, or threads */
    uint32_t scheds;     /* each on a core of its own; threads have none */
    bool threads;
    bool stages; /* measure them, and write them after the last repeat */

    size_t measured;        /* times so far */
    char stages_text[8192]; /* of the last: a JSON object */
};

/**
 * Measure the store once: as bench_subject.measure; `arg` is a struct lab_depot_job. It is opened for that,
 * and closed. An operation is a call; one that fails, or finds another value than was stored, is an error.
 */
int lab_depot_measure(void *arg, struct bench_sample *sample);

/* fio, on the drive below a store or on a file beside it. */
struct lab_depot_peer {
    struct lab_drive_job drive;
    uint32_t factor; /* factor by which its rate is multiplied for the comparison */
};

/* What fio does beside a store. */
enum lab_depot_peer_kind {
    LAB_DEPOT_PEER_READ, /* read at random what the store has used of its drive, in blocks like its mean read */
    LAB_DEPOT_PEER_READ_SYNC, /* the same by plain calls */
    LAB_DEPOT_PEER_WRITE,     /* write at random, as many bytes and as deep as the job */
    LAB_DEPOT_PEER_SEQUENTIAL, /* write one block behind the other, as deep; bytes are counted as puts of as many */
    LAB_DEPOT_PEER_FLUSH, /* one writer that flushes after each block, counted as often as the job has writers */
};

/** @param file, file_bytes  to write to */
void lab_depot_peer_init(struct lab_depot_peer *peer, enum lab_depot_peer_kind kind,
                         const struct lab_depot_job *job, const struct lab_drive_file *file,
                         uint64_t file_bytes);

/** Its name as a subject: what it is, and with which engine. */
const char *lab_depot_peer_name(const struct lab_depot_peer *peer, char *buffer, size_t room);

/** Measure it once: as bench_subject.measure; `arg` is a struct lab_depot_peer. */
int lab_depot_peer_measure(void *arg, struct bench_sample *sample);

/* ---- depot_memory.c -------------------------------------------------------------------------------- */

/**
 * Fill a new store with records of 100 bytes, and write what it then has in memory, part by part.
 *
 * @param path  a file that is made and removed
 * @return 0; negative errno: said in bench->err. Blocks.
 */
base_must_check int lab_depot_memory(struct bench *bench, const struct lab_depot_setup *setup,
                                     const char *path, uint64_t records);

#endif
