/* Copy-on-write regions: what readers see while versions are published, and what becomes of drafts that are not. */
#include "space/client.h"
#include "space/conformance_testing.h"

#define SOON TESTING_LATE

#define LONG_NS (60 * BASE_NS_PER_SECOND) /* a lease that no step outlasts, also on a busy machine */

enum { CHUNKS = 3, BYTES = CHUNKS * TESTING_CHUNK_BYTES };

/* ---- stamped versions --------------------------------------------------------------------------- */

static uint64_t stamp_of(uint64_t version, uint64_t word)
{
    return version << 32 | (word & 0xffffffff);
}

/* Write stamps into some chunks of a draft. @return as tarn_space_write_at() */
static int try_stamps(struct tarn_space_region *draft, uint32_t chunks, uint64_t version)
{
    uint64_t *words = test_malloc(TESTING_CHUNK_BYTES);
    int error = 0;
    for (uint32_t chunk = 0; chunk < chunks && error == 0; chunk++) {
        for (uint64_t i = 0; i < TESTING_CHUNK_BYTES / 8; i++)
            words[i] = stamp_of(version, i);
        error = tarn_space_write_at(draft, chunk * TESTING_CHUNK_BYTES, words, TESTING_CHUNK_BYTES, SOON);
    }
    test_free(words);
    return error;
}

static void write_stamps(struct tarn_space_region *draft, uint32_t chunks, uint64_t version)
{
    assert_int_equal(try_stamps(draft, chunks, version), 0);
}

/* Publish a version of some chunks. @return its draft, which is a part of the new version */
static struct tarn_space_region *publish_draft(struct tarn_space_region *region, uint32_t first,
                                               uint32_t chunks, uint64_t version)
{
    for (;;) {
        struct tarn_space_region *draft = space_testing_begin(region, first, chunks);
        write_stamps(draft, chunks, version);
        const int error = tarn_space_publish(draft, SOON);
        if (error == 0)
            return draft;
        assert_int_equal(error, -ETIME); /* this machine was too busy */
        tarn_space_drop(draft);
    }
}

static void publish_version(struct tarn_space_region *region, uint32_t first, uint32_t chunks,
                            uint64_t version)
{
    tarn_space_drop(publish_draft(region, first, chunks, version));
    assert_int_equal(tarn_space_refresh(region, SOON), 0);
}

/* Read a chunk, which is of one version throughout. @return which */
static uint64_t read_version(struct tarn_space_region *region, uint32_t chunk)
{
    uint64_t *words = test_malloc(TESTING_CHUNK_BYTES);
    assert_int_equal(
        tarn_space_read_at(region, chunk * TESTING_CHUNK_BYTES, words, TESTING_CHUNK_BYTES, SOON), 0);
    const uint64_t version = words[0] >> 32;
    for (uint64_t i = 0; i < TESTING_CHUNK_BYTES / 8; i++)
        assert_int_equal(words[i], stamp_of(version, i));
    test_free(words);
    return version;
}

static void expect_versions(struct tarn_space_region *region, const uint64_t *versions)
{
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
        assert_int_equal(read_version(region, chunk), versions[chunk]);
}

/* Make a copy-on-write region whose first version is 1 throughout. */
static struct tarn_space_region *make_region(struct tarn_space_namespace *of)
{
    const struct tarn_space_alloc_options options = {.name = "r", .copy_on_write = true};
    struct tarn_space_region *region;
    assert_int_equal(tarn_space_alloc(of, BYTES, &options, SOON, &region), 0);
    publish_version(region, 0, CHUNKS, 1);
    return region;
}

static void free_all(struct space_testing *self, struct tarn_space_namespace *of,
                     struct tarn_space_region *region)
{
    assert_int_equal(tarn_space_free(region, SOON), 0);
    tarn_space_drop(region);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

/* ---- readers ------------------------------------------------------------------------------------ */

/* Read all of a region by an operation that is posted. */
static void read_posted(struct tarn_space *space, struct tarn_space_region *region, uint64_t *words)
{
    const struct iovec iov = {.iov_base = words, .iov_len = BYTES};
    struct tarn_space_op op = {.kind = TARN_FABRIC_READ, .region = region, .iov = &iov, .iov_count = 1};
    tarn_space_post(space, &op, 1);
    assert_int_equal(tarn_space_wait(space, &op, 1, SOON), 0);
    assert_int_equal(op.bytes, BYTES);
}

static void see_versions(struct space_testing *self)
{
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 3 * CHUNKS), *joined;
    struct tarn_space_region *region = make_region(of), *held, *draft, *found;
    struct tarn_space_info before, after;
    uint64_t *words = test_malloc(BYTES);
    assert_int_equal(tarn_space_join_ns(other, "a", NULL, 0, SOON, &joined), 0);
    assert_int_equal(tarn_space_find(joined, "r", SOON, &held), 0);
    tarn_space_info(held, &before);
    assert_true(before.copy_on_write);
    expect_versions(held, (const uint64_t[]){1, 1, 1});
    assert_true(tarn_space_is_current(held));

    draft = space_testing_begin(region, 1, 1);
    write_stamps(draft, 1, 2);
    expect_versions(held, (const uint64_t[]){1, 1, 1}); /* nothing is published */
    assert_true(tarn_space_is_current(held));
    assert_int_equal(tarn_space_publish(draft, SOON), 0);
    assert_int_equal(tarn_space_publish(draft, SOON), -EINVAL);
    assert_int_equal(read_version(held, 0), 1); /* that is the newest, too */
    assert_true(tarn_space_is_current(held));
    assert_int_equal(read_version(held, 1), 1);
    assert_false(tarn_space_is_current(held));
    expect_versions(held, (const uint64_t[]){1, 1, 1}); /* it may go on with the old one */
    assert_int_equal(read_version(draft, 0), 2);
    assert_true(tarn_space_is_current(draft));
    tarn_space_drop(draft);

    assert_int_equal(tarn_space_find(joined, "r", SOON, &found), 0);
    tarn_space_info(found, &after);
    assert_true(after.number > before.number && after.address == before.address &&
                after.bytes == before.bytes);
    expect_versions(found, (const uint64_t[]){1, 2, 1});
    assert_true(tarn_space_is_current(found));
    tarn_space_drop(found);
    assert_int_equal(tarn_space_refresh(held, SOON), 0);
    assert_true(tarn_space_is_current(held));
    read_posted(other, held, words);
    assert_int_equal(words[0] >> 32, 1);
    assert_int_equal(words[TESTING_CHUNK_BYTES / 8] >> 32, 2);
    assert_true(tarn_space_is_current(held));
    assert_int_equal(tarn_space_refresh(region, SOON), 0);
    publish_version(region, 2, 1, 3);
    read_posted(other, held, words);
    assert_int_equal(words[2 * TESTING_CHUNK_BYTES / 8] >> 32, 1);
    assert_false(tarn_space_is_current(held));
    test_free(words);
    tarn_space_drop(held);
    tarn_space_leave_ns(joined);
    tarn_space_disconnect(other);
    free_all(self, of, region);
}

static void what_is_published_is_seen(struct testing_fabric *testing)
{
    space_testing_run(testing, LONG_NS, see_versions);
}

/* What calls say of regions that are not of this kind, and of ranges that are not whole chunks. */
static void refuse_calls(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 3 * CHUNKS);
    struct tarn_space_alloc_options options = {.copy_on_write = true, .memory_class = TARN_SPACE_WORDS};
    struct tarn_space_region *plain = space_testing_alloc(of, 8, TARN_SPACE_BULK), *region, *draft, *part;
    struct tarn_space_info info;
    uint64_t word = 1;
    const struct iovec iov = {.iov_base = &word, .iov_len = 8};
    assert_int_equal(tarn_space_alloc(of, BYTES, &options, SOON, &region), -EINVAL);
    options.memory_class = TARN_SPACE_BULK;
    assert_int_equal(tarn_space_alloc(of, 24577 * TESTING_CHUNK_BYTES, &options, SOON, &region), -EINVAL);
    assert_int_equal(tarn_space_alloc(of, BYTES - 8, &options, SOON, &region), 0);
    assert_int_equal(tarn_space_write_at(region, 0, &word, 8, SOON), -EROFS);
    struct tarn_space_op op = {.kind = TARN_FABRIC_WRITE, .region = region, .iov = &iov, .iov_count = 1};
    tarn_space_post(self->space, &op, 1);
    assert_int_equal(tarn_space_wait(self->space, &op, 1, SOON), -EROFS);
    assert_int_equal(tarn_space_begin(plain, 0, 8, SOON, &draft), -EINVAL);
    assert_int_equal(tarn_space_publish(plain, SOON), -EINVAL);
    assert_int_equal(tarn_space_refresh(plain, SOON), -EINVAL);
    assert_int_equal(tarn_space_begin(region, 8, TESTING_CHUNK_BYTES, SOON, &draft), -EINVAL);
    assert_int_equal(tarn_space_begin(region, 0, 8, SOON, &draft), -EINVAL);
    assert_int_equal(tarn_space_begin(region, 0, 0, SOON, &draft), -EINVAL);
    assert_int_equal(tarn_space_begin(region, 0, BYTES, SOON, &draft), -EINVAL);
    assert_int_equal(tarn_space_begin(region, UINT64_MAX - 7, BYTES, SOON, &draft), -EINVAL);
    tarn_space_info(region, &info);
    assert_int_equal(tarn_space_init(of, info.address + 8, TESTING_CHUNK_BYTES, SOON, &part), 0);
    assert_int_equal(tarn_space_begin(part, TESTING_CHUNK_BYTES - 8, 8, SOON, &draft),
                     -EINVAL); /* not all of it */
    tarn_space_drop(part);
    assert_int_equal(
        tarn_space_begin(region, TESTING_CHUNK_BYTES, BYTES - 8 - TESTING_CHUNK_BYTES, SOON, &draft), 0);
    tarn_space_info(draft, &info);
    assert_int_equal(info.bytes, BYTES - 8 - TESTING_CHUNK_BYTES);
    assert_int_equal(tarn_space_begin(draft, 0, info.bytes, SOON, &part), -EINVAL);
    assert_int_equal(tarn_space_refresh(draft, SOON), -EINVAL);
    tarn_space_drop(draft);
    tarn_space_drop(region);
    tarn_space_drop(plain);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void wrong_calls_are_refused(struct testing_fabric *testing)
{
    space_testing_run(testing, LONG_NS, refuse_calls);
}

/* Readers in another task, or thread, while versions are published, each of all chunks. */
struct reading {
    const struct space_testing *self;
    _Atomic bool ends;
};

static void read_on(void *arg)
{
    struct reading *reading = arg;
    struct tarn_space *space = space_testing_connect(reading->self);
    struct tarn_space_namespace *of;
    struct tarn_space_region *region;
    uint64_t last = 1;
    assert_int_equal(tarn_space_join_ns(space, "a", NULL, 0, SOON, &of), 0);
    assert_int_equal(tarn_space_find(of, "r", SOON, &region), 0);
    while (!atomic_load(&reading->ends)) {
        const uint64_t version = read_version(region, 0);
        expect_versions(region, (const uint64_t[]){version, version, version});
        assert_true(version >= last);
        last = version;
        assert_int_equal(tarn_space_refresh(region, SOON), 0);
    }
    tarn_space_drop(region);
    tarn_space_leave_ns(of);
    tarn_space_disconnect(space);
}

static void publish_to_readers(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 4 * CHUNKS);
    struct tarn_space_region *region = make_region(of);
    struct reading reading = {.self = self};
    struct testing_job jobs[2];
    for (unsigned i = 0; i < 2; i++)
        testing_start(self->testing, &jobs[i], 0, read_on, &reading);
    for (uint64_t version = 2; version < 2 + testing_times(self->testing, 40); version++)
        publish_version(region, 0, CHUNKS, version);
    atomic_store(&reading.ends, true);
    for (unsigned i = 0; i < 2; i++)
        testing_join(&jobs[i]);
    free_all(self, of, region);
}

static void readers_see_no_mixture(struct testing_fabric *testing)
{
    space_testing_run(testing, LONG_NS, publish_to_readers);
}

/* ---- writers ------------------------------------------------------------------------------------ */

static void write_one_at_a_time(struct space_testing *self)
{
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 3 * CHUNKS), *joined;
    struct tarn_space_region *region = make_region(of), *same, *draft, *second;
    assert_int_equal(tarn_space_join_ns(other, "a", NULL, 0, SOON, &joined), 0);
    assert_int_equal(tarn_space_find(joined, "r", SOON, &same), 0);
    draft = space_testing_begin(region, 0, 1);
    assert_int_equal(tarn_space_begin(same, 0, TESTING_CHUNK_BYTES, SOON, &second), -EBUSY);
    assert_int_equal(tarn_space_begin(region, 2 * TESTING_CHUNK_BYTES, TESTING_CHUNK_BYTES, SOON, &second),
                     -EBUSY);
    tarn_space_drop(draft); /* it gives up */
    second = space_testing_begin(same, 2, 1);
    write_stamps(second, 1, 2);
    assert_int_equal(tarn_space_publish(second, SOON), 0);
    tarn_space_drop(second);
    assert_int_equal(tarn_space_begin(region, 0, TESTING_CHUNK_BYTES, SOON, &second), -EAGAIN);
    expect_versions(region, (const uint64_t[]){1, 1, 1});
    assert_int_equal(tarn_space_refresh(same, SOON), 0);
    publish_version(same, 0, 1, 3);
    assert_int_equal(tarn_space_refresh(region, SOON), 0);
    expect_versions(region, (const uint64_t[]){3, 1, 2});
    assert_int_equal(tarn_space_refresh(region, SOON), 0); /* nothing is newer */
    expect_versions(region, (const uint64_t[]){3, 1, 2});
    assert_true(tarn_space_is_current(region));

    /* a region that is freed under a draft */
    draft = space_testing_begin(region, 0, CHUNKS);
    assert_int_equal(tarn_space_free(same, SOON), 0);
    assert_int_equal(tarn_space_free(region, SOON), -ENOENT);
    assert_int_equal(tarn_space_publish(draft, SOON), -ENOENT);
    tarn_space_drop(draft);
    assert_int_equal(tarn_space_begin(region, 0, BYTES, SOON, &draft), -ENOENT);
    assert_int_equal(tarn_space_refresh(region, SOON), -ENOENT);
    expect_versions(region, (const uint64_t[]){3, 1, 2});
    tarn_space_drop(same);
    tarn_space_leave_ns(joined);
    tarn_space_disconnect(other);
    tarn_space_drop(region);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void one_writes_at_a_time(struct testing_fabric *testing)
{
    space_testing_run(testing, LONG_NS, write_one_at_a_time);
}

/* An old version's holder frees the region, and a deleted namespace ends drafts. */
static void free_by_old_name(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 3 * CHUNKS);
    struct tarn_space_region *region = make_region(of), *old, *draft;
    assert_int_equal(tarn_space_find(of, "r", SOON, &old), 0);
    publish_version(region, 0, 1, 2);
    assert_int_equal(tarn_space_free(old, SOON), 0);
    expect_versions(old, (const uint64_t[]){1, 1, 1});
    expect_versions(region, (const uint64_t[]){2, 1, 1});
    tarn_space_drop(old);
    tarn_space_drop(region);
    space_testing_await_free(self, TESTING_ALL_CHUNKS - 3 * CHUNKS);
    do { /* until the chunks are back */
        const struct tarn_space_alloc_options options = {.copy_on_write = true};
        const int error = tarn_space_alloc(of, BYTES, &options, SOON, &region);
        assert_true(error == 0 || error == -ENOSPC);
        if (error == 0)
            break;
    } while (task_sleep(BASE_NS_PER_MS) == 0);
    draft = space_testing_begin(region, 0, CHUNKS);
    assert_int_equal(tarn_space_delete_ns(of, SOON), 0);
    assert_int_equal(tarn_space_publish(draft, SOON), -ENOENT);
    tarn_space_drop(draft);
    tarn_space_drop(region);
    tarn_space_leave_ns(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void old_versions_free_the_region(struct testing_fabric *testing)
{
    space_testing_run(testing, LONG_NS, free_by_old_name);
}

/* ---- short leases ------------------------------------------------------------------------------- */

/* Publish a version where leases are short, and this machine may be too busy for any of them. */
static void publish_surely(struct tarn_space_region *region, uint64_t version)
{
    uint64_t *words = test_malloc(BYTES);
    int error;
    for (uint64_t i = 0; i < BYTES / 8; i++)
        words[i] = stamp_of(version, i % (TESTING_CHUNK_BYTES / 8));
    do {
        struct tarn_space_region *draft;
        error = tarn_space_begin(region, 0, BYTES, SOON, &draft);
        if (error != 0) {
            assert_true(error == -ENOSPC || error == -EBUSY || error == -EAGAIN || error == -ESTALE);
            assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        } else {
            error = tarn_space_write_at(draft, 0, words, BYTES, SOON);
            if (error == 0)
                error = tarn_space_publish(draft, SOON);
            tarn_space_drop(draft);
        }
        assert_int_equal(tarn_space_refresh(region, SOON), 0);
    } while (error != 0);
    test_free(words);
}

/* The version of a region that has one throughout. */
static uint64_t read_newest(struct tarn_space_region *region)
{
    uint64_t *words = test_malloc(BYTES);
    int error;
    do {
        assert_int_equal(tarn_space_refresh(region, SOON), 0);
        error = tarn_space_read_at(region, 0, words, BYTES, SOON);
    } while (error == -ESTALE);
    assert_int_equal(error, 0);
    const uint64_t version = words[0] >> 32;
    for (uint64_t i = 0; i < BYTES / 8; i++)
        assert_int_equal(words[i], stamp_of(version, i % (TESTING_CHUNK_BYTES / 8)));
    test_free(words);
    return version;
}

static struct tarn_space_region *make_short_region(struct tarn_space_namespace *of)
{
    const struct tarn_space_alloc_options options = {.name = "r", .copy_on_write = true};
    struct tarn_space_region *region;
    assert_int_equal(tarn_space_alloc(of, BYTES, &options, SOON, &region), 0);
    publish_surely(region, 1);
    return region;
}

/* Let a client go as one that is killed: it says nothing, and its connections end. */
static void kill_client(struct tarn_space *space)
{
    task_worker_stop(&space->keeper);
    task_mutex_lock_firmly(&space->control);
    client_give_up_session(space);
    task_mutex_unlock(&space->control);
}

/* A writer dies after each of its steps: the last version stays, and its chunks come back. */
static void die_between_steps(struct space_testing *self)
{
    enum { BEGUN, WRITTEN, PUBLISHED, STEPS };
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 2 * CHUNKS);
    struct tarn_space_region *region = make_short_region(of);
    uint64_t version = 1, *words = test_calloc(1, BYTES);
    for (unsigned step = BEGUN; step < STEPS; step++) {
        struct tarn_space *other = space_testing_connect(self);
        struct tarn_space_namespace *joined;
        struct tarn_space_region *same, *draft = NULL;
        assert_int_equal(tarn_space_join_ns(other, "a", NULL, 0, SOON, &joined), 0);
        assert_int_equal(tarn_space_find(joined, "r", SOON, &same), 0);
        int error;
        do
            error = tarn_space_begin(same, 0, BYTES, SOON, &draft);
        while (error == -ENOSPC && task_sleep(BASE_NS_PER_MS) == 0);
        for (uint64_t i = 0; i < BYTES / 8; i++)
            words[i] = stamp_of(version + 1, i % (TESTING_CHUNK_BYTES / 8));
        if (error == 0 && step >= WRITTEN)
            error = tarn_space_write_at(draft, 0, words, BYTES, SOON);
        if (error == 0 && step >= PUBLISHED)
            error = tarn_space_publish(draft, SOON);
        kill_client(other);
        const uint64_t newest = read_newest(region);
        assert_true(newest == version || (newest == version + 1 && step >= PUBLISHED));
        assert_true(step < PUBLISHED || error != 0 || newest == version + 1);
        if (draft != NULL)
            tarn_space_drop(draft);
        tarn_space_drop(same);
        tarn_space_leave_ns(joined);
        tarn_space_disconnect(other);
        version = newest + 1;
        publish_surely(region, version); /* which takes the dead writer's chunks */
    }
    test_free(words);
    free_all(self, of, region);
}

static void dead_writers_leave_the_last_version(struct testing_fabric *testing)
{
    space_testing_run(testing, 500 * BASE_NS_PER_MS, die_between_steps);
}

/* A writer's lease ends, and its session lives: what it writes late meets nobody's chunks. */
static void outlast_lease(struct space_testing *self)
{
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 3 * CHUNKS), *joined;
    struct tarn_space_region *region = make_short_region(of), *same, *draft, *next;
    struct space_master_stats stats;
    uint64_t *words = test_calloc(1, BYTES);
    int error;
    assert_int_equal(tarn_space_join_ns(other, "a", NULL, 0, SOON, &joined), 0);
    assert_int_equal(tarn_space_find(joined, "r", SOON, &same), 0);
    do
        error = tarn_space_begin(same, 0, BYTES, SOON, &draft);
    while (error == -ENOSPC && task_sleep(BASE_NS_PER_MS) == 0);
    assert_int_equal(error, 0);
    assert_int_equal(task_sleep(self->lease_ns), 0);
    publish_surely(region, 2); /* in the chunks that no version has and this draft has not */
    assert_int_equal(tarn_space_refresh(same, SOON), 0);
    error = tarn_space_alloc(of, 2 * BYTES, NULL, SOON, &next);
    space_master_stats(self->master, &stats);
    if (error == 0 || stats.expired > 0) { /* this machine was too busy, and the session has expired */
        if (error == 0) {
            assert_int_equal(tarn_space_free(next, SOON), 0);
            tarn_space_drop(next);
        }
    } else {
        assert_int_equal(error, -ENOSPC); /* the late writer's chunks are its own */
    }
    (void)!tarn_space_write_at(draft, 0, words, BYTES, SOON);
    error = tarn_space_publish(draft, SOON);
    assert_true(error == -ETIME || error == -ESTALE || error == -EIO);
    assert_int_equal(read_newest(region), 2);
    tarn_space_drop(draft);
    do
        error = tarn_space_alloc(of, 2 * BYTES, NULL, SOON, &next);
    while (error == -ENOSPC && task_sleep(BASE_NS_PER_MS) == 0);
    assert_int_equal(error, 0);
    assert_int_equal(read_newest(region), 2);
    tarn_space_drop(next);
    tarn_space_drop(same);
    tarn_space_leave_ns(joined);
    tarn_space_disconnect(other);
    test_free(words);
    free_all(self, of, region);
}

static void a_lease_that_has_passed_publishes_nothing(struct testing_fabric *testing)
{
    space_testing_run(testing, 500 * BASE_NS_PER_MS, outlast_lease);
}

/* ---- masters and memory servers that go and come ------------------------------------------------ */

static void restart_master(struct space_testing *self)
{
    space_testing_close_master(self);
    space_testing_open_master(self);
    space_testing_await_servers(self, TESTING_SERVERS);
}

/* Read a chunk until its word is known: servers that have come to another master are marked before long. */
static void await_current(struct tarn_space_region *region, uint32_t chunk)
{
    do {
        assert_int_equal(tarn_space_refresh(region, SOON), 0);
        (void)read_version(region, chunk);
    } while (!tarn_space_is_current(region));
}

static void restart_between_steps(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 3 * CHUNKS);
    struct tarn_space_region *region = make_region(of), *old, *draft;
    assert_int_equal(tarn_space_find(of, "r", SOON, &old), 0);
    draft = space_testing_begin(region, 0, CHUNKS);
    restart_master(self);
    assert_int_equal(tarn_space_publish(draft, SOON), -ESTALE);
    tarn_space_drop(draft);
    await_current(region, 1);
    expect_versions(region, (const uint64_t[]){1, 1, 1});

    draft = space_testing_begin(region, 0, 2);
    write_stamps(draft, 2, 2);
    restart_master(self);
    assert_int_equal(tarn_space_publish(draft, SOON), -ESTALE);
    tarn_space_drop(draft);
    expect_versions(region, (const uint64_t[]){1, 1, 1});

    draft = publish_draft(region, 0, 2, 3);
    restart_master(self);
    assert_int_equal(tarn_space_refresh(region, SOON), 0);
    assert_int_equal(read_version(draft, 1), 3);
    tarn_space_drop(draft);
    expect_versions(region, (const uint64_t[]){3, 3, 1});
    expect_versions(old, (const uint64_t[]){1, 1, 1}); /* held on, across masters */
    assert_false(tarn_space_is_current(old));
    await_current(region, 0);
    await_current(region, 2);
    publish_version(region, 2, 1, 4);
    expect_versions(old, (const uint64_t[]){1, 1, 1});
    expect_versions(region, (const uint64_t[]){3, 3, 4});
    tarn_space_drop(old);
    free_all(self, of, region);
}

static void drafts_end_with_their_master(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, restart_between_steps);
}

/* A server of the testing space that is looked for by its number. */
struct search {
    uint32_t number;
    unsigned place;
};

static int look_at_server(void *arg, const struct tarn_space_server_row *server)
{
    struct search *search = arg;
    if (server->number == search->number)
        search->place = (unsigned)(server->name[4] - '0');
    return 0;
}

/* Publish a draft, and drop it. @return true: its lease had ended, because this machine was too busy */
static bool retry_publishing(struct tarn_space_region *draft)
{
    const int error = tarn_space_publish(draft, SOON);
    assert_true(error == 0 || error == -ETIME);
    tarn_space_drop(draft);
    return error != 0;
}

/* The place of the server that has a copy of a chunk. */
static unsigned server_of(struct tarn_space *space, const struct tarn_space_region *region, uint32_t target)
{
    struct search search = {.number = region->targets[target].link->server, .place = TESTING_SERVERS};
    assert_int_equal(tarn_space_list_servers(space, look_at_server, &search, SOON), 0);
    assert_true(search.place < TESTING_SERVERS);
    return search.place;
}

/* A memory server that has replaced chunks is not there, and then it is lost: versions are published, and readers learn of them. */
static void lose_server(struct space_testing *self)
{
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 3 * CHUNKS), *joined;
    struct tarn_space_region *region = make_region(of), *draft, *held;
    const uint32_t lost = 0, kept = 1; /* chunks, which are on servers in turn */
    const unsigned place = server_of(self->space, region, lost);
    assert_true(region->targets[kept].link != region->targets[lost].link);
    assert_int_equal(tarn_space_join_ns(other, "a", NULL, 0, SOON, &joined), 0);
    assert_int_equal(tarn_space_find(joined, "r", SOON, &held), 0);
    assert_int_equal(read_version(held, kept), 1);
    assert_true(tarn_space_is_current(held));
    draft = space_testing_begin(region, lost, 1); /* where the chunk is that it replaces */
    write_stamps(draft, 1, 2);
    space_testing_close_server(self, place);
    space_testing_await_servers(self, TESTING_SERVERS - 1);
    const int unreached = tarn_space_publish(draft, SOON);
    assert_true(unreached == -EHOSTUNREACH || unreached == -ETIME);
    tarn_space_drop(draft);
    do {
        draft = space_testing_begin(region, lost, 1); /* elsewhere */
        write_stamps(draft, 1, 2);
    } while (retry_publishing(draft));
    assert_int_equal(read_version(held, kept), 1);
    assert_false(tarn_space_is_current(held)); /* no word has told */
    assert_int_equal(tarn_space_refresh(held, SOON), 0);
    assert_int_equal(read_version(held, kept), 1);
    assert_true(tarn_space_is_current(held));
    space_testing_open_server(self, place); /* of the same name, and empty */
    space_testing_await_servers(self, TESTING_SERVERS);
    assert_int_equal(tarn_space_refresh(region, SOON), 0);
    do {
        draft = space_testing_begin(region, lost, 1);
        write_stamps(draft, 1, 3);
    } while (retry_publishing(draft));
    assert_int_equal(read_version(held, lost), 2);
    assert_false(tarn_space_is_current(held));
    assert_int_equal(tarn_space_refresh(region, SOON), 0);
    expect_versions(region, (const uint64_t[]){3, 1, 1});
    tarn_space_drop(held);
    tarn_space_leave_ns(joined);
    tarn_space_disconnect(other);
    assert_int_equal(tarn_space_free(region, SOON), 0);
    tarn_space_drop(region);
    space_testing_delete(of);
}

static void a_lost_server_holds_nothing_up(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, lose_server);
}

/* ---- those that lie ----------------------------------------------------------------------------- */

/* Ask the master with numbers behind the session. */
static int ask_with(struct tarn_space *space, enum space_method method, const uint32_t *numbers,
                    unsigned count)
{
    uint8_t request[SPACE_REQUEST_MAX], result[SPACE_RESULT_MAX];
    struct space_cursor end = client_begin(request);
    uint32_t bytes;
    for (unsigned i = 0; i < count; i++)
        space_put(&end, numbers[i], 4);
    return client_ask(space, method, request, &end, result, sizeof(result), SOON, &bytes);
}

static void reach_for_drafts(struct space_testing *self)
{
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 3 * CHUNKS), *joined;
    struct tarn_space_region *region = make_region(of), *same, *draft;
    assert_int_equal(tarn_space_join_ns(other, "a", NULL, 0, SOON, &joined), 0);
    assert_int_equal(tarn_space_find(joined, "r", SOON, &same), 0);
    const uint32_t space = of->number, number = region->number;
    static const uint32_t ranges[][2] = {{0, 0}, {CHUNKS, 1}, {1, CHUNKS}, {0, UINT32_MAX}, {UINT32_MAX, 2}};
    for (unsigned i = 0; i < base_array_count(ranges); i++)
        assert_int_equal(
            ask_with(other, SPACE_BEGIN, (const uint32_t[]){space, number, ranges[i][0], ranges[i][1]}, 4),
            -EINVAL);
    assert_int_equal(ask_with(other, SPACE_BEGIN, (const uint32_t[]){space, number, 0}, 3), -EINVAL);
    assert_int_equal(ask_with(other, SPACE_PUBLISH, (const uint32_t[]){space, number, 1}, 3), -EINVAL);

    draft = space_testing_begin(region, 0, 1);
    write_stamps(draft, 1, 2);
    /* another's draft, and one of the future */
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t wrong[] = {space, draft->number + i, 0, 1};
        assert_int_equal(ask_with(other, SPACE_PUBLISH, wrong, 3), -ENOENT);
        assert_int_equal(ask_with(other, SPACE_HOLD, wrong, 2), -ENOENT);
        assert_int_equal(ask_with(other, SPACE_DROP, wrong, 2), -ENOENT);
        assert_int_equal(ask_with(other, SPACE_FREE, wrong, 2), -ENOENT);
        assert_int_equal(ask_with(other, SPACE_BEGIN, wrong, 4), -ENOENT);
        assert_int_equal(ask_with(other, SPACE_PLACES, (const uint32_t[]){space, wrong[1], 0, 0}, 4),
                         -ENOENT);
    }
    assert_int_equal(ask_with(self->space, SPACE_HOLD, (const uint32_t[]){space, draft->number}, 2), -ENOENT);
    assert_int_equal(ask_with(self->space, SPACE_FREE, (const uint32_t[]){space, draft->number}, 2), -ENOENT);
    assert_int_equal(ask_with(self->space, SPACE_BEGIN, (const uint32_t[]){space, draft->number, 0, 1}, 4),
                     -ENOENT);

    /* a version word is for reading, whoever has its handle */
    const struct client_target *target = &same->targets[0];
    const struct tarn_fabric_handle handle = {.domain = target->words.domain,
                                              .key = target->words.key,
                                              .bytes = BASE_PAGE_BYTES,
                                              .rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE};
    uint64_t word = 0;
    assert_int_equal(read_version(same, 0), 1); /* which connects */
    assert_int_equal(
        tarn_fabric_write(target->link->connection, 0, &handle, target->chunk * sizeof(word), &word, 8, SOON),
        -EACCES);
    assert_int_equal(read_version(region, 0), 1);
    assert_true(tarn_space_is_current(region));
    assert_int_equal(tarn_space_publish(draft, SOON), 0);
    tarn_space_drop(draft);
    assert_int_equal(tarn_space_refresh(region, SOON), 0);
    expect_versions(region, (const uint64_t[]){2, 1, 1});
    tarn_space_drop(same);
    tarn_space_leave_ns(joined);
    tarn_space_disconnect(other);
    free_all(self, of, region);
}

static void drafts_are_their_writers_alone(struct testing_fabric *testing)
{
    space_testing_run(testing, LONG_NS, reach_for_drafts);
}

/* The n-th piece of memory that anybody takes is refused while a version is made. */
static void run_out_of_memory(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 3 * CHUNKS);
    struct tarn_space_region *region = make_region(of);
    uint64_t version = 1;
    for (uint64_t n = 1; n < 30; n++) {
        struct tarn_space_region *draft = NULL;
        base_account_fail_at(&self->testing->node->memory, n);
        int error = tarn_space_begin(region, 0, BYTES, SOON, &draft);
        base_account_fail_at(&self->testing->node->memory, error == 0 ? n : 0);
        if (error == 0) {
            error = try_stamps(draft, CHUNKS, version + 1);
            const int published = tarn_space_publish(draft, SOON);
            assert_true(error == 0 || published != 0); /* nothing that was not written */
            error = published;
        }
        base_account_fail_at(&self->testing->node->memory, 0);
        if (draft != NULL)
            tarn_space_drop(draft);
        version += error == 0;
        do
            error = tarn_space_refresh(region, SOON);
        while (error == -ENOMEM);
        assert_int_equal(error, 0);
        expect_versions(region, (const uint64_t[]){version, version, version});
    }
    free_all(self, of, region);
}

static void memory_runs_out_for_versions(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, run_out_of_memory);
}

#define SUITE(EACH)                                                                                          \
    EACH(what_is_published_is_seen)                                                                          \
    EACH(wrong_calls_are_refused)                                                                            \
    EACH(readers_see_no_mixture)                                                                             \
    EACH(one_writes_at_a_time)                                                                               \
    EACH(old_versions_free_the_region)                                                                       \
    EACH(dead_writers_leave_the_last_version)                                                                \
    EACH(a_lease_that_has_passed_publishes_nothing)                                                          \
    EACH(drafts_end_with_their_master)                                                                       \
    EACH(a_lost_server_holds_nothing_up)                                                                     \
    EACH(drafts_are_their_writers_alone)                                                                     \
    EACH(memory_runs_out_for_versions)

SUITE(TESTING_BOTH)

static const struct CMUnitTest space_versions_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite space_versions = TESTING_SUITE(space_versions_tests);
