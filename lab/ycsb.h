/*
 * `tarn-lab ycsb`: YCSB's core workloads on engines that live in a process each, behind one interface. Records are
 * numbered in the order of their insertion; `lab_depot_key()` scatters their keys.
 *
 * Source: Cooper et al., Benchmarking Cloud Serving Systems with YCSB, SoCC 2010; its workload files a to f.
 */
#ifndef LAB_YCSB_H
#define LAB_YCSB_H

#include "lab/child.h"
#include "lab/depot_store.h"
#include "lab/memory_group.h"
#include <stdatomic.h>

#define LAB_YCSB_THREADS_MAX 64
#define LAB_YCSB_EXPONENT    0.99 /* of Zipf's distribution, as YCSB has it */

enum { LAB_YCSB_WHY_ROOM = 256, LAB_YCSB_PATH_ROOM = 4096 };

/* ---- engines ------------------------------------------------------------------------------------- */

/* Where an engine is, and what it may take. */
struct lab_ycsb_place {
    const char *folder; /* its own */
    struct base_account *account;
    uint64_t memory_bytes; /* all together, page cache included */
    uint64_t records_max;
    bool direct;    /* past the page cache, where the engine can */
    bool in_memory; /* all records stay in memory, and none is kept: the folder is in memory, too */
    uint32_t value_bytes;
    _Atomic bool said;
    char why[LAB_YCSB_WHY_ROOM]; /* the first error, in the engine's words */
};

/** Shows a record where it lies. */
typedef void lab_ycsb_show_function(void *arg, const void *key, size_t key_bytes, const void *value,
                                    size_t value_bytes);

/* Calls come from several threads at once, each with a session. An error but -ENOENT and -EBADMSG is said. */
struct lab_ycsb_engine {
    const char *name;
    const char *skipped; /* why it is not in this build, or NULL */

    /* Of other people's: the library, loaded before a store is opened, the names of functions, and the structure of as
     * many pointers to them, in the same order. The program needs no library to run. */
    const char *library;
    const char *const *names;
    size_t name_count;
    void *calls;

    size_t store_bytes;   /* of what open() fills in */
    size_t session_bytes; /* of what session_open() fills in; 0: the store is a session for all */

    /** Make what is in the folder an empty store. NULL: it is enough to remove all of it. @return 0; negative errno */
    int (*renew)(struct lab_ycsb_place *place);

    /**
     * Open what is in the folder, or make it if the folder is empty.
     *
     * @param sync   a put is durable when it returns
     * @param store  all zero
     * @return 0; negative errno: nothing is left open
     */
    int (*open)(struct lab_ycsb_place *place, bool sync, void *store);

    /** Sessions are closed. @return 0; negative errno */
    int (*close)(void *store);

    /** For one thread. @param session  all zero @return 0; negative errno: nothing is left open */
    int (*session_open)(void *store, void *session);
    void (*session_close)(void *session);

    /** @param value  value_bytes of room @return 0; -ENOENT; -EBADMSG (another length); negative errno */
    int (*get)(void *session, const void *key, size_t key_bytes, void *value);

    /** @param value  value_bytes @return 0; negative errno */
    int (*put)(void *session, const void *key, size_t key_bytes, const void *value);

    /** Show some records in the order of their keys, from the first that is not less than a key. NULL: not measured
     * @return 0; negative errno */
    int (*scan)(void *session, const void *key, size_t key_bytes, uint32_t count,
                lab_ycsb_show_function *show, void *arg);
};

extern const struct lab_ycsb_engine lab_ycsb_tarn;
extern const struct lab_ycsb_engine lab_ycsb_rocksdb;
extern const struct lab_ycsb_engine lab_ycsb_lmdb;
extern const struct lab_ycsb_engine lab_ycsb_wiredtiger;

/** Keep what an engine says of an error, unless there was one before. Any thread. @return `error` */
int lab_ycsb_say(struct lab_ycsb_place *place, int error, const char *format, ...) base_printf_like(3, 4);

/** Load an engine's library until the process ends, and look its functions up. @return 0; -ELIBACC: said */
base_must_check int lab_ycsb_library(struct lab_ycsb_place *place, const struct lab_ycsb_engine *engine);

#define LAB_YCSB_MEMBER(name) __typeof__(&(name)) name;
#define LAB_YCSB_NAME(name)   #name,

/* Of a file that calls one library, whose functions CALLS(X) lists: pointers to them, `calls`, and their `names`. */
#define LAB_YCSB_LIBRARY(CALLS)                                                                              \
    static struct {                                                                                          \
        CALLS(LAB_YCSB_MEMBER)                                                                               \
    } calls;                                                                                                 \
    static const char *const names[] = {CALLS(LAB_YCSB_NAME)};                                               \
    _Static_assert(sizeof(calls) == base_array_count(names) * sizeof(void *), "pointers to functions "       \
                                                                              "alone");

/* ---- what is drawn: the same for all engines, from the same seed ------------------------------------ */

enum lab_ycsb_op {
    LAB_YCSB_READ,
    LAB_YCSB_UPDATE, /* all of the record is written */
    LAB_YCSB_INSERT,
    LAB_YCSB_MODIFY, /* a read, then an update of the same record */
    LAB_YCSB_OP_COUNT,
};

struct lab_ycsb_workload {
    const char *name;
    uint8_t percent[LAB_YCSB_OP_COUNT]; /* of each operation: together 100 */
    bool latest;                        /* what was inserted last is the most popular; else any may be */
};

/* All but the load, in the order in which they are run: the one that adds records is the last. */
enum { LAB_YCSB_WORKLOADS = 5, LAB_YCSB_LOAD = -1 /* instead of a workload */ };
extern const struct lab_ycsb_workload lab_ycsb_workloads[LAB_YCSB_WORKLOADS];

/** Draw an operation. */
enum lab_ycsb_op lab_ycsb_draw_op(const struct lab_ycsb_workload *workload, struct base_random *random);

/* Which records there are, while several threads insert. */
struct lab_ycsb_numbers {
    _Atomic uint64_t next;                            /* to insert */
    _Atomic uint64_t inserting[LAB_YCSB_THREADS_MAX]; /* by thread: a bound from below; or UINT64_MAX */
};

/** Records 0 to count - 1 are there. */
void lab_ycsb_numbers_init(struct lab_ycsb_numbers *numbers, uint64_t count);

/** The number of the record that a thread is to insert; lab_ycsb_inserted() must follow. */
uint64_t lab_ycsb_insert(struct lab_ycsb_numbers *numbers, uint32_t thread);

/** It is there. */
void lab_ycsb_inserted(struct lab_ycsb_numbers *numbers, uint32_t thread);

/** Number of records that are present, from number 0 on: none of them is still being inserted. Any thread. */
uint64_t lab_ycsb_present(struct lab_ycsb_numbers *numbers);

/**
 * Draw a record that is there.
 *
 * @param zipf     over the records that were there in the beginning
 * @param present  lab_ycsb_present(): zipf->items or more
 */
uint64_t lab_ycsb_draw_number(const struct lab_ycsb_workload *workload, const struct base_random_zipf *zipf,
                              uint64_t present, struct base_random *random);

/** Open a session of an engine, or have the store for one. @param ret_session  for the engine's calls, until
 * lab_ycsb_session_close() @return 0; negative errno: said */
base_must_check int lab_ycsb_session_open(struct lab_ycsb_place *place, const struct lab_ycsb_engine *engine,
                                          void *store, void **ret_session);

/** Close a session. */
void lab_ycsb_session_close(struct lab_ycsb_place *place, const struct lab_ycsb_engine *engine,
                            void *session);

/** Run threads, each with a worker of its own. @param workers  `count`, to LAB_YCSB_THREADS_MAX, of `bytes` each @param
 * run  returns 0 or negative errno @return 0; the first error */
base_must_check int lab_ycsb_threads_run(void *workers, size_t bytes, uint32_t count,
                                         int (*run)(void *worker));

/* ---- in an engine's process ------------------------------------------------------------------------- */

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

/* The load of an engine: threads that do what a job says. */
struct lab_ycsb_load {
    const struct lab_ycsb_engine *engine;
    struct lab_ycsb_place *place;
    bool settled;                 /* nothing of a load is left to be done */
    bool made;                    /* there is a store */
    void *store;                  /* open, or NULL */
    bool sync;                    /* it was opened with */
    uint64_t records;             /* that a load puts in */
    struct base_random_zipf zipf; /* over them */
    struct lab_ycsb_numbers numbers;
    struct lab_depot_store values; /* only those of its functions that make and check values */
};

/**
 * Run a job's workload for a time, or until there are place->records_max; or insert what is missing of the records.
 *
 * @param workload     NULL: insert
 * @param duration_ns  at most; 0: however long it takes
 * @return 0; negative errno
 */
base_must_check int lab_ycsb_run(struct lab_ycsb_load *load, const struct lab_ycsb_job *job,
                                 const struct lab_ycsb_workload *workload, uint64_t duration_ns,
                                 struct lab_ycsb_report *report);

/* ---- its parent ------------------------------------------------------------------------------------- */

/* An engine's process. It is stopped (SIGSTOP) while others are measured, so that what an engine does in the background
 * costs its own time and nobody else's. */
struct lab_ycsb_host {
    struct bench *bench;
    const struct lab_ycsb_engine *engine;
    struct lab_ycsb_place place;
    uint64_t records;
    struct lab_memory_group group; /* or none */
    char folder[LAB_YCSB_PATH_ROOM];
    struct lab_child child; /* pid 0: it does not run */
};

/** Start the process; all but the child is set, and the folder is there and empty. @return 0; negative errno: said */
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
