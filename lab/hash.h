/*
 * `tarn-lab hash`: the structures that its files share: what is asked, and the stores that are asked.
 */
#ifndef LAB_HASH_H
#define LAB_HASH_H

#include "bench/case.h"
#include "bench/keys.h"

enum { LAB_HASH_BATCH_MAX = 64, LAB_HASH_DRAWS = 1 << 20 };

/* What is asked in the case under way, by all alike. */
struct lab_hash_job {
    struct bench *bench;
    struct bench_values values;
    struct bench_keys keys; /* all are stored before */
    uint32_t *draws;        /* LAB_HASH_DRAWS numbers of keys, which come again and again */
    uint32_t batch;         /* records of a get */
    bool is_put;            /* of one record, which is there */
    uint64_t generation;    /* of the next value */
};

/* A store that this process calls. */
struct lab_hash_store {
    struct lab_hash_job *job;
    const char *name;
    const char *skipped; /* why it is not measured, or NULL */
    uint64_t slots;      /* of Tarn's index, when it is made; 0: as many as it needs */

    /** Make it, and open it, or set `skipped`. @return 0; negative errno. close() in any case */
    int (*open)(struct lab_hash_store *store);

    /** Get some records. @param values  as many values @return 0; -ENOENT; negative errno */
    int (*get)(struct lab_hash_store *store, const char (*keys)[BENCH_KEY_BYTES], uint32_t count,
               uint8_t *values);

    /** Store some records. @return 0; negative errno */
    int (*put)(struct lab_hash_store *store, const char (*keys)[BENCH_KEY_BYTES], uint32_t count,
               const uint8_t *values);

    /** What it takes up, memory of other processes with it. */
    uint64_t (*bytes)(struct lab_hash_store *store);

    /** Processor time that others have used for it so far, ns. NULL: there are no others */
    uint64_t (*others_ns)(struct lab_hash_store *store);

    void (*close)(struct lab_hash_store *store);
    void *state; /* the store's own */
};

/* The values of a sample, by their place. */
enum lab_hash_value {
    LAB_HASH_RECORD_BYTES, /* of memory, for a record */
    LAB_HASH_OTHERS_SHARE, /* of a processor, that another process has used meanwhile, percent */
};

/** Open a store and put all records into it. @return 0; negative errno: said */
base_must_check int lab_hash_store_fill(struct lab_hash_store *store);

/** Measure it once, as bench_subject.measure; `arg` is a struct lab_hash_store. */
int lab_hash_measure(void *arg, struct bench_sample *sample);

/** Make it anew, measure how long each record takes that is stored in it, one after the other, and close it; as bench_subject.measure. */
int lab_hash_measure_inserts(void *arg, struct bench_sample *sample);

/* ---- those that there are ------------------------------------------------------------------------ */

/** Tarn's, of which another process has the memory. */
extern const struct lab_hash_store lab_hash_tarn;
/** Its floor: what a get must read at the least, by plain loads: N words of an index, and then the record. */
extern const struct lab_hash_store lab_hash_floor;
/** The same table behind a mutex that processes share. */
extern const struct lab_hash_store lab_hash_mutex;
/** LMDB, in a file in memory. */
extern const struct lab_hash_store lab_hash_lmdb;

/* One behind a Unix socket. */
struct lab_hash_peer;

enum { LAB_HASH_PEERS = 2 };

/** Start memcached or Redis, and store the records. @return 0; negative errno: said. lab_hash_peer_stop() in any case */
base_must_check int lab_hash_peer_start(struct lab_hash_job *job, unsigned number,
                                        struct lab_hash_peer **ret_peer);

/** End it. @param peer  NULL: nothing @return 0; -ECHILD: said */
int lab_hash_peer_stop(struct lab_hash_peer *peer);

/** Add it to a case. */
void lab_hash_peer_add(struct lab_hash_peer *peer, struct bench_case *self);

#endif
