/*
 * For the tests of the running side: a log on such a drive with an owner whose index is an array; writers;
 * what must be found after a restart.
 */
#ifndef SEGLOG_RUN_TESTING_H
#define SEGLOG_RUN_TESTING_H

#include "seglog/run_drive_testing.h"
#include "task/testing.h"

#define RUN_KEYS_MAX 4096

/* ---- a log -------------------------------------------------------------------------------------- */

/* What the owner has of a key. */
struct run_key {
    struct task_mutex lock;
    _Atomic uint64_t grain; /* 0: nothing */
    uint64_t bytes, sequence, version;
    uint32_t value_bytes;
    _Atomic bool hit;
    bool renewing; /* it was written again, or was about to be */
};

struct run {
    struct run_drive drive;
    struct tarn_node *node;
    struct drive *opened;
    struct seglog *log;
    enum seglog_mode mode;
    bool unsettled;      /* it may still refer to what is free */
    bool keep_discarded; /* what is free is not discarded */
    bool cache;
    uint32_t user_streams;
    uint64_t scrub_rate_bytes, scrub_interval_ns;
    uint64_t checkpoint_rate_bytes, checkpoint_every_bytes;
    const struct seglog_owner_ops *ops; /* NULL: run_ops */
    uint32_t key_room;                  /* keys are made this long, at least 8 */
    uint64_t segment_bytes;             /* 0: the default */
    uint32_t record_bytes_max;          /* written into the superblock; 0: as it was made */
    struct run_key keys[RUN_KEYS_MAX];
    struct base_hash128 hashes[RUN_KEYS_MAX];
    uint16_t by_hash[4 * RUN_KEYS_MAX]; /* numbers + 1, open addressing */
    _Atomic uint64_t live_bytes;
    _Atomic uint64_t services;
    _Atomic uint64_t lose_every; /* every n-th move finds that somebody was quicker; 0: none */
    _Atomic uint64_t moves, lost, ended;
    _Atomic uint64_t renewed, evicted;
    _Atomic uint64_t evicted_sequence; /* the highest */
    uint64_t in_doubt;                 /* the key whose change has failed, + 1: it may have happened */
    struct testing_lines lines;
    void (*test)(struct run *run, struct task_testing *testing);
};

void run_key_bytes(const struct run *run, uint64_t number, uint8_t *key);

/** Which key an entry is of. */
uint64_t run_number(const struct run *run, const struct seglog_entry_format *entry);

struct run *run_new(enum seglog_mode mode, uint64_t segments);

void run_free(struct run *run);

struct task_node_options run_node_options(struct run *run);

enum seglog_verdict run_judge(void *owner, const struct seglog_entry_format *entry, uint64_t grain);

void run_service(void *owner);

extern const struct seglog_owner_ops run_ops;

void run_open_drive(struct run *run, struct tarn_node *node);

void run_open_log(struct run *run);

/** Format the drive, open and start the log. */
void run_start(struct run *run, struct tarn_node *node);

/** Stop and close it. @return what seglog_close() said, which knows what seglog_stop() said */
int run_stop(struct run *run);

/** Run a test in a task of a node with schedulers; it ends with run_stop(). */
void run_in_tasks(struct run *run, void (*test)(struct run *run, struct task_testing *testing));

/** A node without schedulers: for tests of plain threads. */
struct tarn_node *run_node(struct run *run);

/* ---- writing and reading ------------------------------------------------------------------------ */

void run_fill(uint8_t *data, uint64_t number, uint64_t sequence, uint64_t bytes);

uint64_t run_record_bytes(const struct run *run, uint32_t value_bytes);

/* Publish a record of a key that is locked, or forget it. */
void run_publish(struct run *run, uint64_t number, uint64_t sequence, const struct seglog_place *place,
                 uint32_t value_bytes);

/** Append with a reservation, wait, publish. @param value  NULL: a tombstone */
int run_write(struct run *run, uint64_t number, struct seglog_reservation *room, const uint8_t *value,
              uint32_t value_bytes, uint64_t sequence, uint64_t expiry_ns);

int run_change(struct run *run, uint64_t number, enum seglog_space space, uint32_t value_bytes,
               uint64_t expiry_ns);

int run_put(struct run *run, uint64_t number, uint32_t value_bytes);

int run_delete(struct run *run, uint64_t number);

/** Check the record of a key where the index says it is. Nobody writes it. @return whether there is one */
bool run_check_key(struct run *run, uint64_t number);

/** Check all keys. @return how many live */
uint32_t run_check(struct run *run, uint32_t keys);

/* ---- writers ------------------------------------------------------------------------------------ */

/* Tasks of one scheduler that each do one change. */
struct run_writer {
    struct run *run;
    uint32_t number;
    uint32_t value_bytes;
    int error;
    _Atomic bool done;
};

#define RUN_WRITERS_MAX 400

struct run_writers {
    struct task_group group;
    struct run_writer writers[RUN_WRITERS_MAX];
};

struct run_writer *run_spawn_writer(struct run *run, struct task_testing *testing,
                                    struct run_writers *writers, uint32_t number, uint32_t value_bytes);

void run_join(struct run_writers *writers);

void run_in_one(enum seglog_mode mode, bool device, bool fua,
                void (*test)(struct run *run, struct task_testing *testing));

/* ---- after a restart ---------------------------------------------------------------------------- */

/* The best record of each key that summaries have: highest sequence, of equal ones the tombstone. */
struct run_found {
    struct run *run;
    struct seglog *log;
    uint64_t sequence[RUN_KEYS_MAX];
    uint64_t grain[RUN_KEYS_MAX];
    uint64_t bytes[RUN_KEYS_MAX];
    bool tombstone[RUN_KEYS_MAX];
    uint64_t records, tombstones;
};

int run_found_visit(void *arg, uint32_t segment, uint64_t stamp, const struct seglog_entry_format *entries,
                    uint32_t count);

/** What a log that is open and not started would make of its keys must be what the owner has. @return
 * tombstones */
uint64_t run_expect_found(struct run *run, struct seglog *log);

/**
 * Open what the drive holds now as after a crash, on a node of its own, and compare. Nobody writes.
 *
 * @param cut  what was not durable is lost
 * @return tombstones that it has
 */
uint64_t run_expect_after_crash(struct run *run, bool cut);

/** Stop, open again with an index from the summaries, start. */
void run_restart(struct run *run);

#endif
