/*
 * For the tests of the layers above: a drive in memory whose bytes can be looked at, copied and damaged, that
 * fails or lies when it is told to and can keep a record of all writes; a civil clock that stands still;
 * nodes on both.
 */
#ifndef DRIVE_MEMORY_TESTING_H
#define DRIVE_MEMORY_TESTING_H

#include "base/testing.h"

#include "base/base.h"
#include "base/random.h"
#include "base/spin.h"
#include "base/testing_slow.h"
#include "drive/drive.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* What a failing request does besides. */
enum testing_lie {
    TESTING_TRUTH,    /* it returns -EIO; a write has written `partial_bytes` before */
    TESTING_NOISE,    /* a read succeeds, with wrong bytes */
    TESTING_ZEROS,    /* a read succeeds, with zeros */
    TESTING_CHANGING, /* a read succeeds, with wrong bytes that are others each time */
};

/* A write as it reached a drive. */
struct testing_write {
    uint64_t offset;
    uint64_t bytes;
    uint64_t mark; /* the recording's, when the write was done */
    uint8_t *data;
};

/* All writes since it was given to a drive, in the order in which they took effect. */
struct testing_recording {
    struct testing_write *writes;
    size_t count;
    size_t room;
    _Atomic uint64_t mark; /* the test's: how far it has come */
};

struct testing_drive {
    uint8_t *bytes;
    uint64_t size;
    uint32_t physical_block_bytes; /* 0: 512 */
    bool exists;                   /* was made before */
    bool device;
    bool discards;            /* it takes discards, and leaves noise */
    struct base_spin lock;    /* of the bytes and the recording, so that a copy is of one moment */
    _Atomic uint64_t fail_at; /* the n-th request from now fails, and … */
    bool fail_on;             /* … all after it; or */
    enum testing_lie lie;     /* … it lies */
    enum drive_op fail_op;    /* only requests of this kind count */
    uint64_t fail_begin;      /* only those that touch these bytes; both 0: all */
    uint64_t fail_end;
    uint64_t partial_bytes;
    void (*in_write)(void *arg); /* called while a write is on its way, once */
    void *in_write_arg;
    _Atomic uint64_t reads, writes, flushes, durable_writes;
    _Atomic uint64_t read_bytes;
    _Atomic uint64_t discard_requests, discarded_bytes;
    struct testing_recording *recording; /* NULL: none */
};

struct testing_clock {
    _Atomic uint64_t wall_ns;
};

/* Counts lines, and keeps the last of each kind. */
struct testing_lines {
    struct base_spin lock;
    unsigned errors, warns, infos;
    char error[BASE_LOG_LINE_BYTES];
    char warn[BASE_LOG_LINE_BYTES];
    char info[BASE_LOG_LINE_BYTES];
};

/* ---- recordings --------------------------------------------------------------------------------- */

void testing_recording_free(struct testing_recording *recording);

/** Do a recorded write. */
void testing_write_play(const struct testing_write *write, struct testing_drive *drive);

/** Do what any of the sectors of a write that did not complete leave. */
void testing_write_tear(const struct testing_write *write, struct testing_drive *drive,
                        struct base_random *random);

/* ---- the drive ---------------------------------------------------------------------------------- */

int testing_drive_open(struct tarn_node *node, void *arg, const char *path,
                       const struct drive_options *options, struct drive_info *ret_info, void **ret_state);

void testing_drive_close(void *state);

/* Read or write at most so many bytes. The lock is held. */
void testing_drive_move_locked(struct testing_drive *drive, const struct drive_request *request,
                               uint64_t bytes_max);

void testing_drive_post(void *state, struct drive_request *request);

/* It may have become longer while it is open: testing_drive_keep_room(). */
int testing_drive_extend(void *state, uint64_t *inout_bytes);

extern const struct drive_provider testing_provider;

/** A drive of zeros. */
struct testing_drive testing_drive_new(uint64_t bytes);

/** Another drive with the same bytes: what is there if the process dies now. */
struct testing_drive testing_drive_copy(struct testing_drive *drive);

/** Make a drive longer. @param filling  what the new bytes are; the drive's own repeat there if it is < 0 */
void testing_drive_lengthen(struct testing_drive *drive, uint64_t bytes, int filling);

/** Give a drive that nobody has open memory for so many bytes: `size` may be raised up to that while somebody has.
 * @param filling  what comes later is */
void testing_drive_keep_room(struct testing_drive *drive, uint64_t bytes, int filling);

void testing_drive_free(struct testing_drive *drive);

/** Have something done while the next write is on its way. */
void testing_drive_do_in_write(struct testing_drive *drive, void (*in_write)(void *arg), void *arg);

/** Record all writes from now on. @param recording  NULL: none */
void testing_drive_record(struct testing_drive *drive, struct testing_recording *recording);

/** Have the n-th request of a kind from now fail. @param n  0: none */
void testing_drive_fail_at(struct testing_drive *drive, enum drive_op op, uint64_t n, bool fail_on);

/** Have the n-th read from now that touches some bytes return others for them. */
void testing_drive_lie_at(struct testing_drive *drive, enum testing_lie lie, uint64_t n, uint64_t begin,
                          uint64_t end);

/* ---- nodes -------------------------------------------------------------------------------------- */

/** The hands of a clock. */
struct task_clock testing_task_clock(struct testing_clock *clock);

/* @param arg  the lines; NULL: nobody listens */
void testing_sink(void *arg, enum base_log_level level, const char *line, size_t len);

/** A node on a drive in memory. @param clock  NULL: the machine's @param lines  may be NULL */
struct tarn_node *testing_node_with_lines(struct testing_drive *drive, struct testing_clock *clock,
                                          struct testing_lines *lines);

/** A node on a drive in memory that nobody listens to. @param clock  NULL: the machine's */
struct tarn_node *testing_node(struct testing_drive *drive, struct testing_clock *clock);

#endif
