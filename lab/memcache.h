/*
 * `tarn-lab memcache`: Tarn's server beside its peers, which are started here and filled.
 */
#ifndef LAB_MEMCACHE_H
#define LAB_MEMCACHE_H

#include "bench/contest.h"
#include "lab/drive_load.h"
#include "lab/memcache_server.h"
#include "lab/memory_group.h"

enum {
    LAB_MEMCACHE_EXT_THREADS_MAX = 4, /* numbers that are tried, each a subject */
    LAB_MEMCACHE_SERVE_ROOM = 256,
};

_Static_assert((int)LAB_MEMCACHE_EXT_THREADS_MAX <= (int)BENCH_SUBJECTS_MAX, "each is a subject");

struct lab_memcache_options {
    struct bench_options common;
    struct bench_contest_options load;
    struct base_setting_list paths;
    bool disk;
    bool force;
    uint64_t size_bytes;
    struct base_setting_list peers;
    struct base_setting_list ext_threads;
    const char *memory_group;
    uint64_t memory_bytes; /* of each, which may then keep values in it; 0: none does */
    uint64_t fill_rate;    /* keys a second; 0: as fast as they go */
    const char *program;
    struct base_setting_list serve;
    const char *disk_read_share;
};

struct lab_memcache_contest;
struct lab_memcache_contestant;

/* What may be measured. */
struct lab_memcache_kind {
    const char *name;
    const char *program; /* of a peer: has to be installed */
    bool on_disk;        /* is compared where Tarn's file is on a disk, else where it is in memory */
    bool serves;         /* else it reads the file of Tarn's store, in a closed loop alone */
    enum bench_protocol protocol;

    /** Make server.command. */
    void (*prepare)(struct lab_memcache_contestant *contestant, uint16_t port);

    /** Start it and store the keys, or set `skipped`. NULL: nothing to start. @return as prepare() */
    int (*start)(struct lab_memcache_contestant *contestant);

    /** As bench_subject.measure: the next functions, which are not called where `skipped` is set. */
    int (*measure)(struct lab_memcache_contestant *contestant, struct bench_sample *sample);
};

/* One that is measured. */
struct lab_memcache_contestant {
    struct lab_memcache_contest *contest;
    const struct lab_memcache_kind *kind;
    const char *skipped; /* why it is not measured, or NULL */
    struct lab_memcache_server server;
    struct lab_memory_group group; /* of its own, with options->memory_bytes */
};

/* extstore's values: in a file that is kept out of memory. */
struct lab_memcache_extstore {
    char path[LAB_MEMCACHE_PATH_ROOM];
    uint64_t threads;
    bool cools; /* there is a child that empties the page cache of the file */
    struct lab_child cooler;
};

struct lab_memcache_contest {
    struct bench_contest contest;
    struct bench *bench;
    const struct lab_memcache_options *options;
    const char *path; /* of Tarn's store */
    bool disk;
    char serve[LAB_MEMCACHE_SERVE_ROOM]; /* the further options, as they were given */
    struct lab_memcache_contestant contestants[BENCH_CONTESTANTS_MAX];
    struct lab_memcache_extstore extstore;
    struct lab_drive_job fio;
    struct base_histogram one_latency; /* of fio */
};

/** Whether servers keep values in their memory, beside a disk: else they read each from that. */
static inline bool lab_memcache_is_warm(const struct lab_memcache_contest *contest)
{
    return contest->disk && contest->options->memory_bytes > 0;
}

/* ---- memcache_peers.c ---------------------------------------------------------------------------- */

/** Look whether contest->path is in memory or on a disk, and say what is told of each. @return 0; negative errno: said */
base_must_check int lab_memcache_contest_look(struct lab_memcache_contest *contest);

/**
 * Say who is measured at contest->path; start all and store the keys.
 *
 * @return 0; negative errno: said. lab_memcache_contest_close() in any case
 */
base_must_check int lab_memcache_contest_open(struct lab_memcache_contest *contest);

/** Stop all, and remove what was made. @return `error`, or why one did not end well: said */
int lab_memcache_contest_close(struct lab_memcache_contest *contest, int error);

/** Start a server and store the keys: as lab_memcache_kind.start. */
base_must_check int lab_memcache_contestant_start(struct lab_memcache_contestant *contestant);

/** Add memcached's command line, with a port, up to what all of its kinds have. @param megabytes  for items */
void lab_memcache_add_tcp(struct lab_memcache_contestant *contestant, uint16_t port, uint64_t megabytes);

/* ---- memcache.c ----------------------------------------------------------------------------- */

/* The values of a sample, by their place. */
enum lab_memcache_value {
    LAB_MEMCACHE_SERVER_NS,    /* processor time of the server for a key */
    LAB_MEMCACHE_LOAD_PERCENT, /* of the time in which the load had something to do */
    LAB_MEMCACHE_BYTES,        /* of values a second; on disk: read from the drive for a key */
    LAB_MEMCACHE_FROM_MEMORY,  /* on disk: percent of gets that extstore answered from memory */
    LAB_MEMCACHE_HITS,         /* on disk: percent of gets that had a value */
};

/** Measure a server once: as lab_memcache_kind.measure. */
int lab_memcache_measure(struct lab_memcache_contestant *contestant, struct bench_sample *sample);

/** Measure fio once, on the file of Tarn's store: the same. */
int lab_memcache_measure_fio(struct lab_memcache_contestant *contestant, struct bench_sample *sample);

/** The load of the case under way. */
struct bench_load lab_memcache_load_of(struct lab_memcache_contestant *contestant);

/* ---- memcache_extstore.c ------------------------------------------------------------------------- */

/** Make the command of memcached with extstore: as lab_memcache_kind.prepare. */
void lab_memcache_extstore_prepare(struct lab_memcache_contestant *contestant, uint16_t port);

/** Measure it once, every get cold: as lab_memcache_kind.measure. */
int lab_memcache_extstore_measure(struct lab_memcache_contestant *contestant, struct bench_sample *sample);

/**
 * Percent of gets that were answered from memory: the larger of what its counters say, which take its write
 * buffer and the page cache for the disk, and what follows from the bytes that the kernel has read for it:
 * whole pages, an item lying somewhere in them.
 *
 * @param from_file  gets that it has looked up in its file
 */
double lab_memcache_from_memory_percent(uint64_t gets, uint64_t from_file, double read_bytes_per_get,
                                        uint32_t value_bytes);

/** Find the best number of threads, if there is more than one to try, and start it with that: as
 * lab_memcache_kind.start. */
base_must_check int lab_memcache_extstore_start(struct lab_memcache_contestant *contestant);

#endif
