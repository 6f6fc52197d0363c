/*
 * For the tests of this layer: a drive in memory whose bytes can be looked at, copied and damaged, that
 * fails when it is told to and can keep a record of all writes; a civil clock that stands still; nodes on
 * both.
 */
#ifndef DEPOT_TESTING_H
#define DEPOT_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/spin.h"
#include "depot/depot.h"
#include "drive/drive.h"
#include "seglog/seglog_format.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Where everything takes some ten times as long, tests do less. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TESTING_SLOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TESTING_SLOW 1
#endif
#endif
#ifndef TESTING_SLOW
#define TESTING_SLOW 0
#endif

#define TESTING_STORE_BYTES (UINT64_C(2) << 20) /* some 15 segments */
#define TESTING_BLOCK_BYTES SEGLOG_BLOCK_BYTES_MIN

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
    struct base_spin lock;     /* of the bytes and the recording */
    _Atomic uint64_t requests; /* so far */
    _Atomic uint64_t fail_at;  /* the n-th request from now fails, and … */
    bool fail_on;              /* … all after it; or */
    bool lies;                 /* … it succeeds, a read with wrong bytes */
    enum drive_op fail_op;     /* only requests of this kind count */
    _Atomic uint64_t reads, writes, flushes, durable_writes;
    struct testing_recording *recording; /* NULL: none */
};

struct testing_clock {
    _Atomic uint64_t wall_ns;
};

/* ---- the drive ---------------------------------------------------------------------------------- */

static inline int testing_drive_open(struct tarn_node *node, void *arg, const char *path,
                                     const struct drive_options *options, struct drive_info *ret_info,
                                     void **ret_state)
{
    struct testing_drive *drive = arg;
    (void)node;
    (void)path;
    if (!drive->exists && options->create_bytes == 0)
        return -ENOENT;
    if (!drive->exists &&
        (options->create_bytes < DRIVE_BYTES_MIN || options->create_bytes % DRIVE_SECTOR_BYTES != 0))
        return -EINVAL;
    bool created = !drive->exists;
    if (created) {
        drive->size = options->create_bytes;
        drive->bytes = calloc(1, drive->size);
        assert_non_null(drive->bytes);
        drive->exists = true;
    }
    *ret_info = (struct drive_info){
        .provider = "testing",
        .bytes = drive->size,
        .logical_block_bytes = 512,
        .physical_block_bytes = drive->physical_block_bytes == 0 ? 512 : drive->physical_block_bytes,
        .memory_alignment_bytes = 512,
        .direct = true,
        .created = created,
        .device = drive->device,
    };
    *ret_state = drive;
    return 0;
}

static inline void testing_drive_close(void *state)
{
    (void)state;
}

static inline bool testing_drive_fails(struct testing_drive *drive, enum drive_op op)
{
    if (op != drive->fail_op || atomic_load(&drive->fail_at) == 0)
        return false;
    if (atomic_load(&drive->fail_at) == 1 && drive->fail_on)
        return true;
    return atomic_fetch_sub(&drive->fail_at, 1) == 1;
}

static inline void testing_record(struct testing_recording *recording, uint64_t offset, const void *data,
                                  uint64_t bytes)
{
    if (recording->count == recording->room) {
        recording->room = 2 * recording->room + 64;
        recording->writes = realloc(recording->writes, recording->room * sizeof(recording->writes[0]));
        base_assert(recording->writes != NULL);
    }
    struct testing_write *write = &recording->writes[recording->count++];
    *write = (struct testing_write){.offset = offset, .bytes = bytes, .mark = atomic_load(&recording->mark)};
    write->data = malloc(bytes);
    base_assert(write->data != NULL);
    memcpy(write->data, data, bytes);
}

static inline void testing_recording_free(struct testing_recording *recording)
{
    for (size_t i = 0; i < recording->count; i++)
        free(recording->writes[i].data);
    free(recording->writes);
}

static inline void testing_drive_transfer(struct testing_drive *drive, const struct drive_request *request)
{
    uint64_t offset = request->offset;
    for (uint32_t i = 0; i < request->iov_count; i++) {
        const struct iovec *iov = &request->iov[i];
        if (request->op == DRIVE_READ) {
            memcpy(iov->iov_base, drive->bytes + offset, iov->iov_len);
        } else {
            memcpy(drive->bytes + offset, iov->iov_base, iov->iov_len);
            if (drive->recording != NULL)
                testing_record(drive->recording, offset, iov->iov_base, iov->iov_len);
        }
        offset += iov->iov_len;
    }
}

static inline void testing_drive_post(void *state, struct drive_request *request)
{
    struct testing_drive *drive = state;
    atomic_fetch_add(&drive->requests, 1);
    bool fails = testing_drive_fails(drive, request->op);
    if (fails && !drive->lies) {
        drive_finish_now(request, -EIO);
        return;
    }
    if (task_self() != NULL && request->op != DRIVE_FLUSH)
        task_yield(); /* a drive takes its time, and others run meanwhile */
    base_spin_lock(&drive->lock);
    testing_drive_transfer(drive, request);
    base_spin_unlock(&drive->lock);
    if (fails)
        memset(request->iov[0].iov_base, 0xdb, request->iov[0].iov_len);
    atomic_fetch_add(request->op == DRIVE_READ    ? &drive->reads
                     : request->op == DRIVE_WRITE ? &drive->writes
                                                  : &drive->flushes,
                     1);
    if (request->op == DRIVE_WRITE && request->durable)
        atomic_fetch_add(&drive->durable_writes, 1);
    drive_finish_now(request, 0);
}

static const struct drive_provider testing_provider = {
    .name = "testing", .open = testing_drive_open, .close = testing_drive_close, .post = testing_drive_post};

/** Another drive with the same bytes: what is there if the process dies now. */
static inline struct testing_drive testing_drive_copy(struct testing_drive *drive)
{
    struct testing_drive copy = {.size = drive->size, .exists = drive->exists, .device = drive->device};
    copy.bytes = malloc(drive->size);
    assert_non_null(copy.bytes);
    base_spin_lock(&drive->lock);
    memcpy(copy.bytes, drive->bytes, drive->size);
    base_spin_unlock(&drive->lock);
    return copy;
}

static inline void testing_drive_free(struct testing_drive *drive)
{
    free(drive->bytes);
    *drive = (struct testing_drive){.size = 0};
}

/* ---- nodes and stores --------------------------------------------------------------------------- */

static inline uint64_t testing_wall(void *arg)
{
    struct testing_clock *clock = arg;
    return atomic_load(&clock->wall_ns);
}

static inline uint64_t testing_monotonic(void *arg)
{
    struct timespec now;
    (void)arg;
    base_assert(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * BASE_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static inline void testing_quiet(void *arg, enum base_log_level level, const char *line, size_t len)
{
    (void)arg;
    (void)level;
    (void)line;
    (void)len;
}

/** A node on a drive in memory. @param clock  NULL: the machine's */
static inline struct tarn_node *testing_node(struct testing_drive *drive, struct testing_clock *clock)
{
    const struct task_clock task_clock = {.monotonic = testing_monotonic, .wall = testing_wall, .arg = clock};
    const struct task_node_options options = {
        .clock = clock == NULL ? NULL : &task_clock,
        .drives = &testing_provider,
        .drives_arg = drive,
        .log_level = BASE_LOG_DEBUG,
        .log_sink = testing_quiet,
    };
    struct tarn_node *node;
    assert_int_equal(task_node_open(&options, &node), 0);
    return node;
}

/* A store on a node of its own. */
struct testing_store {
    struct tarn_node *node;
    struct tarn_depot *depot;
};

/** @return what the opening said; the node is closed again if that is not 0 */
static inline int testing_try_open(struct testing_store *store, struct testing_drive *drive,
                                   struct testing_clock *clock, const struct tarn_depot_options *options)
{
    store->node = testing_node(drive, clock);
    store->depot = NULL;
    int error = tarn_depot_open(store->node, "store", options, &store->depot);
    if (error != 0)
        task_node_close(store->node);
    return error;
}

/** Open a store, made if there is none. */
static inline void testing_open(struct testing_store *store, struct testing_drive *drive,
                                struct testing_clock *clock, enum tarn_mode mode)
{
    const struct tarn_depot_options options = {.create_bytes = TESTING_STORE_BYTES, .mode = mode};
    assert_int_equal(testing_try_open(store, drive, clock, &options), 0);
}

static inline void testing_close(struct testing_store *store)
{
    assert_int_equal(tarn_depot_close(store->depot), 0);
    task_node_close(store->node);
}

static inline int testing_put(struct testing_store *store, const char *key, const char *value)
{
    return tarn_depot_put(store->depot, key, strlen(key), value, strlen(value), NULL, NULL);
}

static inline int testing_delete(struct testing_store *store, const char *key)
{
    return tarn_depot_delete(store->depot, key, strlen(key));
}

/** Expect a value, NULL for none. */
static inline void testing_expect(struct testing_store *store, const char *key, const char *value)
{
    char found[4096];
    struct tarn_record_info info;
    int error = tarn_depot_get(store->depot, key, strlen(key), found, sizeof(found), &info);
    if (value == NULL) {
        assert_int_equal(error, -ENOENT);
        return;
    }
    assert_int_equal(error, 0);
    assert_int_equal(info.value_bytes, strlen(value));
    assert_memory_equal(found, value, info.value_bytes);
}

#endif
