/* What becomes of namespaces, regions and chunks, also when masters, memory servers and clients go and come. */
#include "space/client.h"
#include "space/conformance_testing.h"

#define SOON TESTING_LATE

static void reserve_chunks(struct tarn_space_namespace *of, uint64_t count, int expected)
{
    assert_int_equal(tarn_space_reserve(of, count * TESTING_CHUNK_BYTES, SOON), expected);
}

static void release_chunks(struct tarn_space_namespace *of, uint64_t count, int expected)
{
    assert_int_equal(tarn_space_release(of, count * TESTING_CHUNK_BYTES, SOON), expected);
}

/* ---- namespaces --------------------------------------------------------------------------------- */

static void know_secrets(struct space_testing *self)
{
    struct tarn_space *space = self->space;
    struct tarn_space_namespace *of, *other;
    struct space_master_stats stats;
    char long_name[TARN_SPACE_NAME_MAX + 2];
    memset(long_name, 'a', sizeof(long_name));
    long_name[TARN_SPACE_NAME_MAX + 1] = '\0';
    assert_int_equal(tarn_space_create_ns(space, "a", "secret", 6, SOON, &of), 0);
    assert_int_equal(tarn_space_create_ns(space, "a", "secret", 6, SOON, &other), -EEXIST);
    static const char *const wrong[] = {"", "secreT", "secre", "secret1"};
    for (unsigned i = 0; i < base_array_count(wrong); i++)
        assert_int_equal(tarn_space_join_ns(space, "a", wrong[i], (uint32_t)strlen(wrong[i]), SOON, &other),
                         -EACCES);
    space_master_stats(self->master, &stats);
    assert_int_equal(stats.secrets_refused, base_array_count(wrong));
    assert_int_equal(tarn_space_join_ns(space, "A", "secret", 6, SOON, &other), -ENOENT);
    static const char *const bad[] = {"", "a b", "a/b", "\xc3\xa4"};
    for (unsigned i = 0; i < base_array_count(bad); i++)
        assert_int_equal(tarn_space_create_ns(space, bad[i], NULL, 0, SOON, &other), -EINVAL);
    assert_int_equal(tarn_space_create_ns(space, long_name, NULL, 0, SOON, &other), -EINVAL);
    assert_int_equal(tarn_space_create_ns(space, "b", long_name, TARN_SPACE_SECRET_MAX + 1, SOON, &other),
                     -EINVAL);
    long_name[TARN_SPACE_NAME_MAX] = '\0';
    assert_int_equal(tarn_space_create_ns(space, long_name, wrong, TARN_SPACE_SECRET_MAX / 2, SOON, &other),
                     0);
    space_testing_delete(other);
    assert_int_equal(tarn_space_join_ns(space, "a", "secret", 6, SOON, &other), 0);
    tarn_space_leave_ns(other);
    space_testing_delete(of);
    assert_int_equal(tarn_space_create_ns(space, "a", "another", 7, SOON, &of), 0);
    space_testing_delete(of);
}

static void secrets_are_known(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, know_secrets);
}

static void pass_chunks(struct space_testing *self)
{
    struct tarn_space_namespace *a = space_testing_namespace(self->space, "a", 0);
    struct tarn_space_namespace *b = space_testing_namespace(self->space, "b", 0);
    struct tarn_space_region *region;
    uint8_t *memory;
    const uint64_t bytes = TESTING_ALL_CHUNKS * TESTING_CHUNK_BYTES;
    reserve_chunks(a, TESTING_ALL_CHUNKS + 1, -ENOSPC);
    reserve_chunks(a, TESTING_ALL_CHUNKS - 1, 0);
    reserve_chunks(b, 2, -ENOSPC);
    space_testing_await_free(self, 1);
    reserve_chunks(a, 1, 0);
    assert_int_equal(tarn_space_alloc(b, 1, NULL, SOON, &region), -ENOSPC);
    region = space_testing_alloc(a, bytes, TARN_SPACE_BULK);
    release_chunks(a, 1, -ENOSPC);
    assert_int_equal(tarn_space_map(region, SOON, (void **)&memory), 0);
    memset(memory, 0xab, bytes);
    assert_int_equal(tarn_space_write(region, memory, bytes, SOON), 0);
    tarn_space_unmap(region);
    assert_int_equal(tarn_space_free(region, SOON), 0);
    tarn_space_drop(region);
    while (tarn_space_release(a, bytes, SOON) == -ENOSPC)
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0); /* what was dropped comes back before long */
    reserve_chunks(b, TESTING_ALL_CHUNKS, 0);
    region = space_testing_alloc(b, bytes, TARN_SPACE_BULK);
    assert_int_equal(tarn_space_map(region, SOON, (void **)&memory), 0);
    memset(memory, 0xff, bytes);
    assert_int_equal(tarn_space_read(region, memory, bytes, SOON), 0);
    for (uint64_t i = 0; i < bytes; i++)
        assert_true(memory[i] == 0); /* nothing of a's */
    tarn_space_unmap(region);
    tarn_space_drop(region);
    assert_int_equal(tarn_space_release(b, UINT64_MAX, SOON), 0); /* nothing is spare: the region is there */
    space_testing_delete(b);
    space_testing_delete(a);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void chunks_pass_between_namespaces(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, pass_chunks);
}

/* Reserve with deadlines that pass at any point of what the master does for it: memory servers stay with the master. */
static void reserve_in_haste(struct space_testing *self)
{
    const uint64_t tries = testing_times(self->testing, 300);
    const uint64_t step_ns = 600000 / tries;
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 0);
    struct space_master_stats stats;
    for (uint64_t i = 0; i < tries; i++) {
        assert_true(tarn_space_reserve(of, TESTING_SERVERS * TESTING_CHUNK_BYTES, task_now() + i * step_ns) !=
                    -ENOSPC);
        space_master_stats(self->master, &stats);
        assert_int_equal(stats.servers, TESTING_SERVERS);
        assert_int_equal(tarn_space_release(of, UINT64_MAX, SOON), 0); /* also what was reserved too late */
    }
    reserve_chunks(of, TESTING_SERVERS, 0);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void haste_costs_no_server(struct testing_fabric *testing)
{
    space_testing_run(testing, 60 * BASE_NS_PER_SECOND,
                      reserve_in_haste); /* nor does a busy machine cost one */
}

/* ---- regions ------------------------------------------------------------------------------------ */

static void place_regions(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 6);
    struct tarn_space_alloc_options options = {
        .name = "one", .placement = TARN_SPACE_ON_NODE, .node = "node1"};
    struct tarn_space_region *one, *other;
    struct tarn_space_info info;
    assert_int_equal(tarn_space_alloc(of, 2 * TESTING_CHUNK_BYTES, &options, SOON, &one), 0);
    tarn_space_info(one, &info);
    assert_int_equal(info.servers, 1);
    assert_int_equal(tarn_space_alloc(of, 1, &options, SOON, &other), -EEXIST);
    options.name = "two";
    assert_int_equal(tarn_space_alloc(of, 1, &options, SOON, &other), -ENOSPC); /* node1 has given its two */
    options.node = "node7";
    assert_int_equal(tarn_space_alloc(of, 1, &options, SOON, &other), -ENOENT);
    options.node = NULL;
    assert_int_equal(tarn_space_alloc(of, 1, &options, SOON, &other), -EINVAL);
    assert_int_equal(tarn_space_alloc(of, 0, NULL, SOON, &other), -EINVAL);
    assert_int_equal(tarn_space_alloc(of, TARN_SPACE_BYTES_MAX + 1, NULL, SOON, &other), -EINVAL);
    assert_int_equal(tarn_space_alloc(of, TARN_SPACE_BYTES_MAX, NULL, SOON, &other), -ENOSPC);
    assert_int_equal(tarn_space_find(of, "two", SOON, &other), -ENOENT);
    assert_int_equal(tarn_space_find(of, "one", SOON, &other), 0);
    tarn_space_drop(other);
    tarn_space_drop(one);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void regions_are_placed(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, place_regions);
}

/* More regions one after the other than there are chunks: each needs those of the one before. */
static void come_and_go(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 4);
    uint32_t number = 0;
    uint64_t end = 0;
    for (unsigned i = 0; i < 30; i++) {
        struct tarn_space_region *region =
            space_testing_alloc(of, 4 * TESTING_CHUNK_BYTES, TARN_SPACE_BULK); /* of what was freed before */
        struct tarn_space_info info;
        tarn_space_info(region, &info);
        assert_true(info.number > number && info.address >= end);
        number = info.number;
        end = info.address + info.bytes;
        assert_int_equal(tarn_space_free(region, SOON), 0);
        tarn_space_drop(region);
    }
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void regions_come_and_go(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, come_and_go);
}

static void hold_on(struct space_testing *self)
{
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 3), *joined;
    const struct tarn_space_alloc_options options = {.name = "r"};
    struct tarn_space_region *region, *same, *next;
    uint64_t word = 5;
    int error;
    assert_int_equal(tarn_space_alloc(of, 3 * TESTING_CHUNK_BYTES, &options, SOON, &region), 0);
    assert_int_equal(tarn_space_write_at(region, 100, &word, 8, SOON), 0);
    assert_int_equal(tarn_space_join_ns(other, "a", NULL, 0, SOON, &joined), 0);
    assert_int_equal(tarn_space_find(joined, "r", SOON, &same), 0);
    assert_int_equal(tarn_space_free(region, SOON), 0);
    tarn_space_drop(region);
    assert_int_equal(tarn_space_find(joined, "r", SOON, &next), -ENOENT);
    for (unsigned i = 0; i < 20; i++) { /* it is held: its chunks are not given to others */
        assert_int_equal(tarn_space_alloc(of, 1, &options, SOON, &next), -ENOSPC);
        word = 0;
        assert_int_equal(tarn_space_read_at(same, 100, &word, 8, SOON), 0);
        assert_int_equal(word, 5);
    }
    assert_int_equal(tarn_space_delete_ns(of, SOON), 0);
    assert_int_equal(tarn_space_read_at(same, 100, &word, 8, SOON), 0);
    assert_int_equal(word, 5);
    assert_int_equal(tarn_space_alloc(joined, 1, NULL, SOON, &next), -ENOENT);
    tarn_space_drop(same);
    tarn_space_leave_ns(joined);
    tarn_space_disconnect(other);
    tarn_space_leave_ns(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
    error = tarn_space_create_ns(self->space, "a", NULL, 0, SOON, &of);
    assert_int_equal(error, 0);
    space_testing_delete(of);
}

static void what_is_held_lives(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, hold_on);
}

/* ---- masters and memory servers that go and come ------------------------------------------------ */

static void restart_master(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 8), *gone;
    const struct tarn_space_alloc_options options = {.name = "r"};
    struct tarn_space_region *region, *found, *freed;
    struct tarn_space_info before, after;
    uint64_t word = 77;
    gone = space_testing_namespace(self->space, "gone", 1);
    space_testing_delete(gone);
    assert_int_equal(tarn_space_alloc(of, 3 * TESTING_CHUNK_BYTES, &options, SOON, &region), 0);
    freed = space_testing_alloc(of, TESTING_CHUNK_BYTES, TARN_SPACE_BULK);
    assert_int_equal(tarn_space_write_at(region, 2 * TESTING_CHUNK_BYTES, &word, 8, SOON), 0);
    assert_int_equal(tarn_space_write_at(freed, 0, &word, 8, SOON), 0);
    assert_int_equal(tarn_space_free(freed, SOON), 0);
    tarn_space_info(region, &before);
    for (unsigned i = 0; i < 2; i++) {
        space_testing_close_master(self);
        space_testing_open_master(self);
        word = 0;
        assert_int_equal(tarn_space_read_at(region, 2 * TESTING_CHUNK_BYTES, &word, 8, SOON), 0);
        assert_int_equal(word, 77);
        assert_int_equal(tarn_space_find(of, "r", SOON, &found), 0);
        tarn_space_info(found, &after);
        assert_true(after.number == before.number && after.address == before.address &&
                    after.bytes == before.bytes && after.servers == before.servers);
        word = 0;
        assert_int_equal(tarn_space_read_at(found, 2 * TESTING_CHUNK_BYTES, &word, 8, SOON), 0);
        assert_int_equal(word, 77);
        tarn_space_drop(found);
        word = 0;
        assert_int_equal(tarn_space_read_at(freed, 0, &word, 8, SOON), 0); /* held on */
        assert_int_equal(word, 77);
        assert_int_equal(tarn_space_join_ns(self->space, "gone", NULL, 0, SOON, &gone), -ENOENT);
        assert_int_equal(tarn_space_alloc(of, 5 * TESTING_CHUNK_BYTES, NULL, SOON, &found), -ENOSPC);
        assert_int_equal(tarn_space_alloc(of, 4 * TESTING_CHUNK_BYTES, NULL, SOON, &found), 0);
        tarn_space_info(found, &after);
        assert_true(after.number > before.number && after.address >= before.address + before.bytes);
        assert_int_equal(tarn_space_free(found, SOON), 0);
        tarn_space_drop(found);
        space_testing_await_servers(self, TESTING_SERVERS);
        space_testing_await_free(self, TESTING_ALL_CHUNKS - 8);
    }
    tarn_space_drop(freed);
    tarn_space_drop(region);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

/* A client that makes no call tells a new master what it holds, and its connections stay. */
static void hold_silently(struct space_testing *self)
{
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 1), *theirs;
    struct tarn_space_region *region = space_testing_alloc(of, 8, TARN_SPACE_BULK);
    uint64_t word = 5;
    uint8_t session[SPACE_SESSION_BYTES];
    assert_int_equal(tarn_space_write_at(region, 0, &word, 8, SOON), 0);
    assert_int_equal(tarn_space_free(region, SOON), 0);
    const struct tarn_fabric_connection *connection = region->targets[0].link->connection;
    memcpy(session, self->space->session, sizeof(session));
    space_testing_close_master(self);
    space_testing_open_master(self);
    /* a call that is repeated where its connection was lost, unlike the next */
    assert_int_equal(tarn_space_join_ns(other, "b", NULL, 0, SOON, &theirs), -ENOENT);
    assert_int_equal(tarn_space_create_ns(other, "b", NULL, 0, SOON, &theirs), 0);
    assert_int_equal(tarn_space_reserve(theirs, 1, SOON), 0); /* all that is not held is given back by now */
    word = 0;
    const int error = tarn_space_read_at(region, 0, &word, 8, SOON);
    if (memcmp(session, self->space->session, sizeof(session)) == 0) {
        assert_int_equal(error, 0);
        assert_int_equal(word, 5);
        assert_ptr_equal(region->targets[0].link->connection, connection);
    } else {
        assert_null(self->testing->drive); /* else the machine was too busy */
    }
    tarn_space_drop(region);
    space_testing_delete(of);
    space_testing_delete(theirs);
    tarn_space_disconnect(other);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void what_is_held_silently_lives(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, hold_silently);
}

static void a_master_comes_back(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, restart_master);
}

static void lose_server(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 6);
    struct tarn_space_region *striped = space_testing_alloc(of, 3 * TESTING_CHUNK_BYTES, TARN_SPACE_BULK),
                             *next;
    uint64_t words[4] = {1, 2, 3, 4}, found[4];
    void *memory;
    unsigned lost = 0;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(tarn_space_write_at(striped, i * TESTING_CHUNK_BYTES, words, sizeof(words), SOON),
                         0);
    space_testing_close_server(self, 1);
    for (unsigned i = 0; i < 3; i++) {
        int error = tarn_space_read_at(striped, i * TESTING_CHUNK_BYTES, found, sizeof(found),
                                       task_now() + 300 * BASE_NS_PER_MS);
        if (error != 0)
            assert_int_equal(error, -EHOSTUNREACH);
        lost += error != 0;
    }
    assert_int_equal(lost, 1);
    space_testing_await_servers(self, TESTING_SERVERS - 1);
    assert_int_equal(tarn_space_map(striped, task_now() + 100 * BASE_NS_PER_MS, &memory), -EHOSTUNREACH);
    space_testing_open_server(self, 1); /* of the same name, and empty */
    space_testing_await_servers(self, TESTING_SERVERS);
    assert_int_equal(tarn_space_map(striped, SOON, &memory), -ENODATA);
    assert_int_equal(tarn_space_free(striped, SOON), 0);
    tarn_space_drop(striped);
    space_testing_await_free(self, TESTING_ALL_CHUNKS - 4);
    reserve_chunks(of, 2, 0);
    next = space_testing_alloc(of, 3 * TESTING_CHUNK_BYTES, TARN_SPACE_BULK);
    assert_int_equal(tarn_space_map(next, SOON, &memory), 0);
    tarn_space_unmap(next);
    tarn_space_drop(next);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void a_lost_server_is_told(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, lose_server);
}

/* A WRITE whose end is not known may still arrive: what it was meant for is not used again before that cannot be. */
static void drop_in_doubt(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "doubt", 1);
    struct tarn_space_region *region = space_testing_alloc(of, TESTING_CHUNK_BYTES, TARN_SPACE_BULK);
    struct space_master_stats stats;
    uint8_t *bytes = test_malloc(TESTING_CHUNK_BYTES);
    memset(bytes, 1, TESTING_CHUNK_BYTES);
    assert_int_equal(tarn_space_write_at(region, 0, bytes, TESTING_CHUNK_BYTES, SOON), 0);
    const int error = tarn_space_write_at(region, 0, bytes, TESTING_CHUNK_BYTES, task_now());
    assert_int_equal(tarn_space_free(region, SOON), 0);
    tarn_space_drop(region);
    do {
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        space_master_stats(self->master, &stats);
    } while (stats.regions > 0);
    assert_int_equal(stats.expired,
                     error != 0); /* some providers are done before the deadline is looked at */
    test_free(bytes);
    space_testing_delete(of);
}

static void a_write_in_doubt_is_fenced(struct testing_fabric *testing)
{
    space_testing_run(testing, 100 * BASE_NS_PER_MS, drop_in_doubt);
}

#define SUITE(EACH)                                                                                          \
    EACH(secrets_are_known)                                                                                  \
    EACH(chunks_pass_between_namespaces)                                                                     \
    EACH(haste_costs_no_server)                                                                              \
    EACH(regions_are_placed)                                                                                 \
    EACH(regions_come_and_go)                                                                                \
    EACH(what_is_held_lives)                                                                                 \
    EACH(a_master_comes_back)                                                                                \
    EACH(what_is_held_silently_lives)                                                                        \
    EACH(a_lost_server_is_told)                                                                              \
    EACH(a_write_in_doubt_is_fenced)

SUITE(TESTING_BOTH)

static const struct CMUnitTest space_lifecycle_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite space_lifecycle = TESTING_SUITE(space_lifecycle_tests);
