/* Memory servers that are closed in good order and opened again with what they had, and memory files that are not taken up. */
#include "space/client.h"
#include "space/conformance_testing.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOON TESTING_LATE

enum { BYTES = 3 * TESTING_CHUNK_BYTES };

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static bool is_successor_there(const struct space_testing *self, unsigned place)
{
    char path[96];
    (void)snprintf(path, sizeof(path), "%s.tmp", self->memory_files[place]);
    return is_there(path);
}

static void reopen_server(struct space_testing *self, unsigned place)
{
    assert_true(is_there(self->memory_files[place]) && !is_successor_there(self, place));
    space_testing_open_server(self, place);
    assert_false(is_there(self->memory_files[place]));
}

/* Open the servers anew, which have nothing yet, with memory files. */
static void give_files(struct space_testing *self)
{
    self->have_files = true;
    for (unsigned i = 0; i < TESTING_SERVERS; i++) {
        space_testing_close_server(self, i);
        space_testing_await_servers(self, TESTING_SERVERS - 1);
        space_testing_open_server(self, i);
        space_testing_await_servers(self, TESTING_SERVERS);
    }
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void remove_files(struct space_testing *self)
{
    for (unsigned i = 0; i < TESTING_SERVERS; i++) {
        space_testing_close_server(self, i);
        assert_int_equal(unlink(self->memory_files[i]), 0);
        assert_false(is_successor_there(self, i));
    }
}

/* Operations over connections that have ended fail; those that come later wait for the servers. */
static void read_surely(struct tarn_space_region *region, uint8_t *bytes)
{
    const uint64_t deadline_ns = SOON;
    int error;
    do
        error = tarn_space_read_at(region, 0, bytes, BYTES, deadline_ns);
    while (error == -EHOSTUNREACH && task_now() < deadline_ns);
    assert_int_equal(error, 0);
}

/* Until what was read is known to be of the newest version, as it is not where a lease has lapsed on a slow machine. */
static void read_newest(struct tarn_space_region *region, uint8_t *bytes)
{
    const uint64_t deadline_ns = SOON;
    read_surely(region, bytes);
    while (!tarn_space_is_current(region) && task_now() < deadline_ns) {
        assert_int_equal(tarn_space_refresh(region, deadline_ns), 0);
        read_surely(region, bytes);
    }
    assert_true(tarn_space_is_current(region));
}

static void write_surely(struct tarn_space_region *region, const uint8_t *bytes)
{
    const uint64_t deadline_ns = SOON;
    int error;
    do
        error = tarn_space_write_at(region, 0, bytes, BYTES, deadline_ns);
    while (error == -EHOSTUNREACH && task_now() < deadline_ns);
    assert_int_equal(error, 0);
}

/* Publish another middle chunk. @param bytes  what the region has then */
static void publish_middle(struct tarn_space_region *region, uint8_t *bytes, unsigned seed)
{
    int error;
    testing_fill(bytes + TESTING_CHUNK_BYTES, TESTING_CHUNK_BYTES, seed);
    do {
        struct tarn_space_region *draft = space_testing_begin(region, 1, 1);
        error = tarn_space_write_at(draft, 0, bytes + TESTING_CHUNK_BYTES, TESTING_CHUNK_BYTES, SOON);
        if (error == 0)
            error = tarn_space_publish(draft, SOON);
        tarn_space_drop(draft);
    } while (error == -ETIME || error == -EHOSTUNREACH); /* the machine was busy; a server comes only now */
    assert_int_equal(error, 0);
    assert_int_equal(tarn_space_refresh(region, SOON), 0);
}

/* ---- what comes back ---------------------------------------------------------------------------- */

struct regions {
    struct tarn_space_region *plain, *words, *versioned;
    struct tarn_space_region *same; /* the version before `versioned`, or that one */
    uint8_t plain_bytes[BYTES], versioned_bytes[BYTES], same_bytes[BYTES], found[BYTES];
    uint64_t count; /* what the words have */
    unsigned seed;
};

static void make_regions(struct tarn_space_namespace *of, struct regions *regions)
{
    const struct tarn_space_alloc_options options = {.copy_on_write = true, .name = "versioned"};
    regions->plain = space_testing_alloc(of, BYTES, TARN_SPACE_BULK);
    regions->words = space_testing_alloc(of, BYTES, TARN_SPACE_WORDS);
    assert_int_equal(tarn_space_alloc(of, BYTES, &options, SOON, &regions->versioned), 0);
    read_surely(regions->versioned, regions->versioned_bytes);
    read_surely(regions->words, regions->found);
    assert_int_equal(tarn_space_find(of, "versioned", SOON, &regions->same), 0);
    memcpy(regions->same_bytes, regions->versioned_bytes, BYTES);
}

/* Change all that is there. */
static void change_regions(struct regions *regions)
{
    uint64_t before;
    testing_fill(regions->plain_bytes, BYTES, ++regions->seed);
    write_surely(regions->plain, regions->plain_bytes);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(tarn_space_faa(regions->words, i * TESTING_CHUNK_BYTES, 1, SOON, &before), 0);
        assert_int_equal(before, regions->count);
    }
    regions->count++;
    assert_int_equal(tarn_space_refresh(regions->same, SOON), 0);
    memcpy(regions->same_bytes, regions->versioned_bytes, BYTES);
    read_newest(regions->same, regions->found);
    publish_middle(regions->versioned, regions->versioned_bytes, ++regions->seed);
    read_surely(regions->same, regions->found);
    assert_memory_equal(regions->found, regions->same_bytes, BYTES);
    assert_false(tarn_space_is_current(regions->same));
}

static void expect_regions(struct regions *regions)
{
    read_surely(regions->plain, regions->found);
    assert_memory_equal(regions->found, regions->plain_bytes, BYTES);
    read_surely(regions->words, regions->found);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(base_load_le64(regions->found + i * TESTING_CHUNK_BYTES), regions->count);
    read_newest(regions->versioned, regions->found);
    assert_memory_equal(regions->found, regions->versioned_bytes, BYTES);
    read_surely(regions->same, regions->found);
    assert_memory_equal(regions->found, regions->same_bytes, BYTES);
    assert_false(tarn_space_is_current(regions->same));
}

static void restart_servers(struct space_testing *self)
{
    struct regions *regions = test_calloc(1, sizeof(*regions));
    give_files(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 15);
    make_regions(of, regions);
    change_regions(regions);
    for (unsigned i = 0; i < TESTING_SERVERS; i++) { /* one after the other */
        space_testing_close_server(self, i);
        reopen_server(self, i);
        expect_regions(regions);
        change_regions(regions);
    }
    for (unsigned round = 0; round < 2; round++) { /* all at once, and then with another master */
        for (unsigned i = 0; i < TESTING_SERVERS; i++)
            space_testing_close_server(self, i);
        if (round == 1) {
            space_testing_close_master(self);
            space_testing_open_master(self);
        }
        for (unsigned i = 0; i < TESTING_SERVERS; i++)
            reopen_server(self, i);
        space_testing_await_servers(self, TESTING_SERVERS);
        expect_regions(regions);
        change_regions(regions);
    }
    tarn_space_drop(regions->plain);
    tarn_space_drop(regions->words);
    tarn_space_drop(regions->versioned);
    tarn_space_drop(regions->same);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
    remove_files(self);
    test_free(regions);
}

static void a_restarted_server_has_what_it_had(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, restart_servers);
}

/* What a namespace gave back while its server was away is zeroed for the next; a file that is not there, as after a kill, has
 * nothing. */
static void delete_and_lose(struct space_testing *self)
{
    uint8_t *bytes = test_malloc(BYTES), *found = test_malloc(BYTES);
    void *memory;
    give_files(self);
    testing_fill(bytes, BYTES, 1);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", TESTING_ALL_CHUNKS);
    for (unsigned i = 0; i < TESTING_CHUNKS; i++) {
        struct tarn_space_region *region = space_testing_alloc(of, BYTES, TARN_SPACE_BULK);
        assert_int_equal(tarn_space_write_at(region, 0, bytes, BYTES, SOON), 0);
        assert_int_equal(tarn_space_free(region, SOON), 0);
        tarn_space_drop(region);
    }
    space_testing_close_server(self, 0);
    space_testing_delete(of);
    reopen_server(self, 0);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
    of = space_testing_namespace(self->space, "b", TESTING_ALL_CHUNKS);
    memset(bytes, 0, BYTES);
    struct tarn_space_region *region = NULL;
    for (unsigned i = 0; i < TESTING_CHUNKS; i++) {
        if (region != NULL)
            tarn_space_drop(region);
        region = space_testing_alloc(of, BYTES, TARN_SPACE_BULK);
        read_surely(region, found);
        assert_memory_equal(found, bytes, BYTES);
    }
    space_testing_close_server(self, 0);
    assert_int_equal(unlink(self->memory_files[0]), 0);
    space_testing_open_server(self, 0);
    space_testing_await_servers(self, TESTING_SERVERS);
    assert_int_equal(tarn_space_map(region, SOON, &memory), -ENODATA);
    tarn_space_drop(region);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
    remove_files(self);
    test_free(bytes);
    test_free(found);
}

static void nothing_comes_back_to_others(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, delete_and_lose);
}

/* A session ends while the server is away on which it holds a region that was freed. */
static void expire_meanwhile(struct space_testing *self)
{
    const struct tarn_space_alloc_options options = {
        .name = "r", .placement = TARN_SPACE_ON_NODE, .node = "node0"};
    struct tarn_space_namespace *of, *joined;
    struct tarn_space_region *region, *same, *next;
    struct space_master_stats stats;
    uint64_t word = 5;
    int error;
    give_files(self);
    of = space_testing_namespace(self->space, "a", 3);
    struct tarn_space *other = space_testing_connect(self);
    assert_int_equal(tarn_space_join_ns(other, "a", NULL, 0, SOON, &joined), 0);
    assert_int_equal(tarn_space_alloc(joined, 8, &options, SOON, &region), 0);
    assert_int_equal(tarn_space_write_at(region, 0, &word, 8, SOON), 0);
    assert_int_equal(tarn_space_free(region, SOON), 0);
    task_worker_stop(&other->keeper);
    space_testing_close_server(self, 0);
    do {
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        space_master_stats(self->master, &stats);
    } while (stats.expired == 0);
    reopen_server(self, 0);
    do
        error = tarn_space_alloc(of, 8, &options, SOON, &next);
    while (error == -ENOSPC && task_sleep(BASE_NS_PER_MS) == 0);
    assert_int_equal(error, 0);
    assert_int_equal(tarn_space_find(joined, "none", SOON, &same),
                     -ENOENT); /* it learns that its session is gone */
    assert_int_equal(tarn_space_write_at(region, 0, &word, 8, SOON), -ESTALE);
    tarn_space_drop(region);
    tarn_space_leave_ns(joined);
    tarn_space_disconnect(other);
    tarn_space_drop(next);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
    remove_files(self);
}

static void a_session_that_ended_meanwhile_is_fenced(struct testing_fabric *testing)
{
    space_testing_run(testing, 500 * BASE_NS_PER_MS, expire_meanwhile);
}

/* ---- files that are not taken up ---------------------------------------------------------------- */

enum { FILE_ROOM = 8192 + 4 * TESTING_CHUNK_BYTES, HEAD_BYTES = 4096, HEAD_USED = 120 + 2 * 16 };

static void write_file(const char *path, const uint8_t *bytes, size_t count)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && write(fd, bytes, count) == (ssize_t)count && close(fd) == 0);
}

static size_t read_file(const char *path, uint8_t *bytes)
{
    const int fd = open(path, O_RDONLY);
    const ssize_t count = fd < 0 ? -1 : read(fd, bytes, FILE_ROOM);
    assert_true(count >= 0 && close(fd) == 0);
    return (size_t)count;
}

static void expect_refused(struct space_testing *self, const struct space_server_options *options,
                           int expected)
{
    assert_int_equal(space_server_open(self->testing->node, options, &self->servers[0]), expected);
    self->servers[0] = NULL;
}

/* Have a file refused, which stays as it is. */
static void refuse_file(struct space_testing *self, const uint8_t *bytes, size_t count)
{
    static uint8_t found[FILE_ROOM];
    const struct space_server_options options = space_testing_server_options(self, 0);
    write_file(self->memory_files[0], bytes, count);
    expect_refused(self, &options, -EUCLEAN);
    assert_int_equal(read_file(self->memory_files[0], found), count);
    assert_memory_equal(found, bytes, count);
    assert_false(is_successor_there(self, 0));
}

/* Flip a bit of a byte. */
static void refuse_flipped(struct space_testing *self, uint8_t *bytes, size_t count, size_t at)
{
    bytes[at] ^= (uint8_t)(1 << at % 8);
    refuse_file(self, bytes, count);
    bytes[at] ^= (uint8_t)(1 << at % 8);
}

static void refuse_others(struct space_testing *self)
{
    struct space_server_options options = space_testing_server_options(self, 0);
    options.name = "node9";
    expect_refused(self, &options, -EINVAL);
    options = space_testing_server_options(self, 0);
    options.memory_bytes += TESTING_CHUNK_BYTES;
    expect_refused(self, &options, -EINVAL);
    options = space_testing_server_options(self, 0);
    options.chunk_bytes /= 2;
    options.memory_bytes /= 2;
    expect_refused(self, &options, -EINVAL);
}

static void damage_files(struct space_testing *self)
{
    static const size_t lengths[] = {
        0, 1, 8, 119, 120, HEAD_USED, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + TESTING_CHUNK_BYTES};
    const struct tarn_space_alloc_options place = {.placement = TARN_SPACE_ON_NODE, .node = "node0"};
    uint8_t *bytes = test_malloc(FILE_ROOM);
    struct tarn_space_region *region;
    uint64_t word = 77;
    give_files(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 6);
    assert_int_equal(tarn_space_alloc(of, 2 * TESTING_CHUNK_BYTES, &place, SOON, &region), 0);
    assert_int_equal(tarn_space_write_at(region, TESTING_CHUNK_BYTES, &word, 8, SOON), 0);
    space_testing_close_server(self, 0);
    const size_t count = read_file(self->memory_files[0], bytes);
    assert_int_equal(count, HEAD_BYTES + 2 * TESTING_CHUNK_BYTES);
    refuse_others(self);
    for (size_t at = 0; at < HEAD_USED; at++)
        refuse_flipped(self, bytes, count, at);
    for (size_t at = HEAD_USED; at < count; at += 4001)
        refuse_flipped(self, bytes, count, at);
    refuse_flipped(self, bytes, count, count - 1);
    for (unsigned i = 0; i < base_array_count(lengths); i++)
        refuse_file(self, bytes, lengths[i]);
    refuse_file(self, bytes, count - 1);
    refuse_file(self, bytes, count + 1);
    write_file(self->memory_files[0], bytes, count);
    reopen_server(self, 0);
    word = 0;
    int error;
    do
        error = tarn_space_read_at(region, TESTING_CHUNK_BYTES, &word, 8, SOON);
    while (error == -EHOSTUNREACH);
    assert_int_equal(error, 0);
    assert_int_equal(word, 77);
    tarn_space_drop(region);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
    remove_files(self);
    test_free(bytes);
}

static void damaged_files_are_refused(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, damage_files);
}

/* Close the first server where its contents cannot be saved. */
static void fail_to_save(struct space_testing *self)
{
    space_testing_close_server(self, 0);
    assert_false(is_there(self->memory_files[0]) || is_successor_there(self, 0));
}

static void save_badly(struct space_testing *self)
{
    struct space_server_options options;
    struct space_server *other;
    struct rlimit limit, small;
    char folder[64], successor[96];
    char *const path = self->memory_files[0];
    give_files(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 6);
    options = space_testing_server_options(self, 0);
    options.address = self->addresses[1];
    assert_int_equal(space_server_open(self->testing->node, &options, &other), -EBUSY);
    space_testing_close_master(self); /* whose file may grow */
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = HEAD_BYTES + 100; /* the disk is full in the midst of a chunk */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fail_to_save(self);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);

    (void)snprintf(folder, sizeof(folder), "%.63s", path);
    (void)snprintf(path, sizeof(self->memory_files[0]), "%s/file", folder);
    options = space_testing_server_options(self, 0);
    assert_int_equal(space_server_open(self->testing->node, &options, &self->servers[0]), -ENOENT);
    self->servers[0] = NULL;
    assert_int_equal(mkdir(folder, 0700), 0);
    space_testing_open_server(self, 0);
    (void)snprintf(successor, sizeof(successor), "%s.tmp", path);
    assert_true(unlink(successor) == 0 && rmdir(folder) == 0); /* there is nothing else */
    fail_to_save(self);
    (void)snprintf(path, sizeof(self->memory_files[0]), "%s", folder);
    space_testing_open_server(self, 0);
    space_testing_open_master(self);
    space_testing_await_servers(self, TESTING_SERVERS);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
    remove_files(self);
}

static void what_cannot_be_saved_is_lost(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, save_badly);
}

#define SUITE(EACH)                                                                                          \
    EACH(a_restarted_server_has_what_it_had)                                                                 \
    EACH(nothing_comes_back_to_others)                                                                       \
    EACH(a_session_that_ended_meanwhile_is_fenced)                                                           \
    EACH(damaged_files_are_refused)                                                                          \
    EACH(what_cannot_be_saved_is_lost)

SUITE(TESTING_BOTH)

static const struct CMUnitTest space_restart_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite space_restart = TESTING_SUITE(space_restart_tests);
