/*
 * `tarn bench memcache`: what its files share: options, and a contest, which is what is measured beside each
 * other: servers that were started here and filled, or one that was named.
 */
#ifndef BENCH_MEMCACHE_H
#define BENCH_MEMCACHE_H

#include "bench/case.h"
#include "bench/drive_load.h"
#include "bench/memcache_load.h"

enum {
    BENCH_MEMCACHE_CONTESTANTS_MAX = 3,
    BENCH_MEMCACHE_EXT_THREADS_MAX = 4, /* numbers that are tried, each a subject */
};

_Static_assert((int)BENCH_MEMCACHE_EXT_THREADS_MAX <= (int)BENCH_SUBJECTS_MAX, "each is a subject");

struct bench_memcache_options {
    struct bench_options common;
    const char *server;
    unsigned protocol; /* as enum bench_memcache_protocol */
    bool fill;
    struct base_setting_list paths;
    bool disk;
    bool force;
    uint64_t size_bytes;
    struct base_setting_list peers;
    struct base_setting_list ext_threads;
    const char *memory_group;
    const char *program;
    struct base_setting_list serve;
    uint64_t connections;
    struct base_setting_list pipelines;
    struct base_setting_list sizes;
    const char *read_share;
    const char *disk_read_share;
    uint64_t keys;
    struct base_setting_list distributions;
    const char *zipf_exponent;
    bool open_loop;
    uint64_t rate;
};

/* How a server is loaded: an item of --pipeline. */
struct bench_memcache_pattern {
    uint32_t pipeline;
    uint32_t keys_per_get;
};

/** Read "16" or "1x50". @return 0; -EINVAL */
base_must_check int bench_memcache_pattern_read(const char *text, struct bench_memcache_pattern *ret_pattern);

/** Check that every word of --pipeline is one. @param pipeline_max, keys_max  the most @return 0; -EINVAL: said in bench->err */
base_must_check int bench_memcache_patterns_check(struct bench *bench,
                                                  const struct base_setting_list *patterns,
                                                  uint32_t pipeline_max, uint32_t keys_max);

/** Check that every word of --read-share is a share. @return 0; -EINVAL: said in bench->err */
base_must_check int bench_memcache_shares_check(struct bench *bench, const struct base_setting_list *shares);

/** Read a number from 0 to 1, as "0.9". @return 0; -EINVAL */
base_must_check int bench_memcache_share_read(const char *text, double *ret_share);

struct bench_memcache_contest;
struct bench_memcache_contestant;

/* What may be measured. */
struct bench_memcache_kind {
    const char *name;
    const char *program; /* of a peer: has to be installed */
    bool serves;         /* else it reads the file of Tarn's store, in a closed loop alone */
    enum bench_memcache_protocol protocol;

    /** Make server.command. @return 0; negative errno: said */
    int (*prepare)(struct bench_memcache_contestant *contestant, uint16_t port);

    /** Start it and store the keys, or set `skipped`. NULL: nothing to start. @return as prepare() */
    int (*start)(struct bench_memcache_contestant *contestant);
    int (*measure)(void *arg, struct bench_sample *sample); /* as bench_subject.measure */
};

/* One that is measured. */
struct bench_memcache_contestant {
    struct bench_memcache_contest *contest;
    const struct bench_memcache_kind *kind;
    const char *skipped; /* why it is not measured, or NULL */
    struct bench_memcache_server server;
};

/* extstore's values: in a file that is kept out of memory. */
struct bench_memcache_extstore {
    char path[BENCH_MEMCACHE_PATH_ROOM];
    uint64_t threads;
    bool cools; /* there is a child that empties the page cache of the file */
    struct bench_child cooler;
};

struct bench_memcache_contest {
    struct bench *bench;
    const struct bench_memcache_options *options;
    const char *path; /* of Tarn's store; NULL: a named server alone */
    bool disk;
    struct bench_memcache_values values;
    struct bench_memcache_contestant contestants[BENCH_MEMCACHE_CONTESTANTS_MAX];
    size_t count;
    struct bench_memcache_extstore extstore;
    struct bench_drive_job fio;

    /* the case under way */
    struct bench_memcache_keys keys;
    struct bench_memcache_pattern pattern;
    double read_share;
    uint64_t rate;
    struct base_histogram one_latency;
    uint64_t measured; /* times so far, so that each has other random numbers */
};

/* ---- memcache_peers.c ---------------------------------------------------------------------------- */

/**
 * Say who is measured at contest->path, or that it is options->server; start all and store the keys.
 *
 * @return 0; negative errno: said. bench_memcache_contest_close() in any case
 */
base_must_check int bench_memcache_contest_open(struct bench_memcache_contest *contest);

/** Stop all, and remove what was made. @return `error`, or why one did not end well: said */
int bench_memcache_contest_close(struct bench_memcache_contest *contest, int error);

/** Start a server and store the keys: as bench_memcache_kind.start. */
base_must_check int bench_memcache_contestant_start(struct bench_memcache_contestant *contestant);

/** Add memcached's command line, with a port, up to what all of its kinds have. @param megabytes  for items */
void bench_memcache_add_tcp(struct bench_memcache_contestant *contestant, uint16_t port, uint64_t megabytes);

/* ---- memcache_case.c ----------------------------------------------------------------------------- */

/* The values of a sample, by their place. */
enum bench_memcache_value {
    BENCH_MEMCACHE_SERVER_NS,    /* processor time of the server for a key; of a named one: percent of hits */
    BENCH_MEMCACHE_LOAD_PERCENT, /* of the time in which the load had something to do */
    BENCH_MEMCACHE_BYTES,        /* of values a second; on disk: read from the drive for a key */
    BENCH_MEMCACHE_FROM_MEMORY,  /* on disk: percent of gets that extstore answered from memory */
};

/** Measure a server once: as bench_subject.measure; `arg` is a struct bench_memcache_contestant. */
int bench_memcache_measure(void *arg, struct bench_sample *sample);

/** Measure fio once, on the file of Tarn's store: the same. */
int bench_memcache_measure_fio(void *arg, struct bench_sample *sample);

/** All cases of a contest that is open. @return 0; negative errno: said */
base_must_check int bench_memcache_run_cases(struct bench_memcache_contest *contest);

/** The load of the case under way. */
struct bench_memcache_load bench_memcache_load_of(struct bench_memcache_contestant *contestant);

/* ---- memcache_extstore.c ------------------------------------------------------------------------- */

/** Make the command of memcached with extstore: as bench_memcache_kind.prepare. */
int bench_memcache_extstore_prepare(struct bench_memcache_contestant *contestant, uint16_t port);

/** Measure it once, every get cold: as bench_subject.measure. */
int bench_memcache_extstore_measure(void *arg, struct bench_sample *sample);

/**
 * Percent of gets that were answered from memory: the larger of what its counters say, which take its write
 * buffer and the page cache for the disk, and what follows from the bytes that the kernel has read for it:
 * whole pages, an item lying somewhere in them.
 *
 * @param from_file  gets that it has looked up in its file
 */
double bench_memcache_from_memory_percent(uint64_t gets, uint64_t from_file, double read_bytes_per_get,
                                          uint32_t value_bytes);

/** Find the best number of threads, if there is more than one to try, and start it with that: as
 * bench_memcache_kind.start. */
base_must_check int bench_memcache_extstore_start(struct bench_memcache_contestant *contestant);

#endif
