/* Regions with several copies, and memory servers that are drained: what is published stays readable, whatever server goes. */
#include "space/client.h"
#include "space/conformance_testing.h"

#define SOON TESTING_LATE

enum { CHUNKS = 3, COPIES = 2, BYTES = CHUNKS * TESTING_CHUNK_BYTES };

/* ---- stamped contents --------------------------------------------------------------------------- */

static uint64_t stamp_of(uint64_t version, uint64_t word)
{
    return version << 32 | word;
}

static int try_stamps(struct tarn_space_region *region, uint64_t version)
{
    uint64_t *words = test_malloc(BYTES);
    for (uint64_t i = 0; i < BYTES / 8; i++)
        words[i] = stamp_of(version, i);
    const int error = tarn_space_write_at(region, 0, words, BYTES, SOON);
    test_free(words);
    return error;
}

static void expect_stamps(struct tarn_space_region *region, uint64_t version)
{
    uint64_t *words = test_malloc(BYTES);
    assert_int_equal(tarn_space_read_at(region, 0, words, BYTES, SOON), 0);
    for (uint64_t i = 0; i < BYTES / 8; i++)
        assert_int_equal(words[i], stamp_of(version, i));
    test_free(words);
}

/* Publish a version of all of a region. @param disturb  called between BEGIN and the WRITEs; NULL: nothing */
static void publish(struct space_testing *self, struct tarn_space_region *region, uint64_t version,
                    void (*disturb)(struct space_testing *self))
{
    int error;
    do {
        struct tarn_space_region *draft;
        assert_int_equal(tarn_space_refresh(region, SOON), 0);
        error = tarn_space_begin(region, 0, BYTES, SOON, &draft);
        if (error != 0) { /* chunks of earlier versions come back before long, and the master replaces some */
            assert_true(error == -ENOSPC || error == -EAGAIN || error == -EBUSY);
            assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
            continue;
        }
        if (disturb != NULL)
            disturb(self);
        assert_int_equal(try_stamps(draft, version), 0);
        error = tarn_space_publish(draft, SOON);
        assert_true(error == 0 || error == -ETIME); /* this machine was too busy */
        tarn_space_drop(draft);
    } while (error != 0);
    assert_int_equal(tarn_space_refresh(region, SOON), 0);
}

static struct tarn_space_region *make_region(struct space_testing *self, struct tarn_space_namespace *of)
{
    const struct tarn_space_alloc_options options = {.name = "r", .copy_on_write = true, .copies = COPIES};
    struct tarn_space_region *region;
    struct tarn_space_info info;
    assert_int_equal(tarn_space_alloc(of, BYTES, &options, SOON, &region), 0);
    publish(self, region, 1, NULL);
    tarn_space_info(region, &info);
    assert_int_equal(info.copies, COPIES);
    assert_true(info.servers >= COPIES);
    return region;
}

/* Wait until the newest version of a region has all copies, on servers that are there. */
static void await_copies(struct tarn_space_region *region)
{
    const uint64_t deadline_ns = SOON;
    uint32_t count;
    do {
        assert_true(task_now() < deadline_ns);
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        assert_int_equal(tarn_space_refresh(region, SOON), 0);
        count = 0;
        for (uint32_t i = 0; i < region->target_count; i++)
            count += region->targets[i].link != NULL && region->targets[i].handle.key != 0;
    } while (count < region->target_count);
}

static void close_server(struct space_testing *self, unsigned place)
{
    space_testing_close_server(self, place);
    space_testing_await_servers(self, TESTING_SERVERS - 1);
}

static void reopen_server(struct space_testing *self, unsigned place)
{
    space_testing_open_server(self, place); /* of the same name, and empty */
    space_testing_await_servers(self, TESTING_SERVERS);
}

/* ---- servers that go ---------------------------------------------------------------------------- */

static void read_copies(struct space_testing *self)
{
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 8 * CHUNKS), *joined;
    struct tarn_space_region *region = make_region(self, of), *held;
    assert_int_equal(tarn_space_join_ns(other, "a", NULL, 0, SOON, &joined), 0);
    assert_int_equal(tarn_space_find(joined, "r", SOON, &held), 0);
    expect_stamps(held, 1);
    for (unsigned place = 0; place < TESTING_SERVERS; place++) {
        close_server(self, place);
        expect_stamps(held, 1);   /* of one that was connected with it */
        expect_stamps(region, 1); /* and of one that was not, perhaps */
        reopen_server(self, place);
        await_copies(held); /* what was lost has been made again */
        assert_int_equal(tarn_space_refresh(region, SOON), 0);
    }
    expect_stamps(held, 1);
    assert_int_equal(tarn_space_reserve(of, (uint64_t)COPIES * BYTES, SOON),
                     0); /* that was lost with the servers */
    publish(self, region, 2, NULL);
    expect_stamps(held, 1);
    assert_int_equal(tarn_space_refresh(held, SOON), 0);
    expect_stamps(held, 2);
    tarn_space_drop(held);
    tarn_space_leave_ns(joined);
    tarn_space_disconnect(other);
    assert_int_equal(tarn_space_free(region, SOON), 0);
    tarn_space_drop(region);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void copies_survive_a_server(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, read_copies);
}

static void close_first(struct space_testing *self)
{
    if (self->servers[0] == NULL)
        return;
    close_server(self, 0);
}

static void replace_second(struct space_testing *self)
{
    close_server(self, 1);
    reopen_server(self, 1);
}

/* A server goes while a version is written: it is published with the copies that there are. */
static void write_copies(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 8 * CHUNKS);
    struct tarn_space_region *region = make_region(self, of);
    publish(self, region, 2, close_first);
    expect_stamps(region, 2);
    publish(self, region, 3, NULL); /* with fewer servers than before */
    expect_stamps(region, 3);
    reopen_server(self, 0);
    await_copies(region);
    expect_stamps(region, 3);
    publish(self, region, 4, replace_second); /* it is there again, and does not have the chunks */
    await_copies(region);
    space_testing_close_master(self);
    space_testing_close_server(self, 2);
    space_testing_open_server(self, 2);
    space_testing_open_master(self); /* which finds out by itself */
    space_testing_await_servers(self, TESTING_SERVERS);
    await_copies(region);
    expect_stamps(region, 4);
    assert_int_equal(tarn_space_free(region, SOON), 0);
    tarn_space_drop(region);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void versions_are_written_while_servers_go(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, write_copies);
}

/* ---- draining ----------------------------------------------------------------------------------- */

struct usage {
    const char *name;
    uint64_t used_bytes;
    bool is_there, is_draining;
};

static int look_at_usage(void *arg, const struct tarn_space_server_row *server)
{
    struct usage *usage = arg;
    if (strcmp(server->name, usage->name) != 0)
        return 0;
    usage->is_there = true;
    usage->is_draining = server->is_draining;
    usage->used_bytes = server->used_bytes;
    return 0;
}

static struct usage usage_of(struct tarn_space *space, const char *name)
{
    struct usage usage = {.name = name};
    assert_int_equal(tarn_space_list_servers(space, look_at_usage, &usage, SOON), 0);
    return usage;
}

/* Wait until a server has no more than some bytes. @param region  held, and refreshed until then */
static void await_drained(struct tarn_space *space, const char *name, struct tarn_space_region *region,
                          uint64_t bytes)
{
    const uint64_t deadline_ns = SOON;
    struct usage usage;
    do {
        assert_true(task_now() < deadline_ns);
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        if (region != NULL)
            assert_int_equal(tarn_space_refresh(region, SOON), 0);
        usage = usage_of(space, name);
        assert_true(usage.is_there && usage.is_draining);
    } while (usage.used_bytes != bytes);
}

static int drain(struct tarn_space *space, const char *name, bool is_draining)
{
    return tarn_space_drain(space, name, NULL, 0, is_draining, SOON);
}

static void drain_server(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 8 * CHUNKS);
    struct tarn_space_region *region = make_region(self, of), *words, *held;
    const struct tarn_space_alloc_options plain = {.name = "w", .memory_class = TARN_SPACE_WORDS};
    assert_int_equal(tarn_space_alloc(of, BYTES, &plain, SOON, &words), 0);
    assert_int_equal(try_stamps(words, 7), 0);
    const uint64_t held_bytes = TESTING_CHUNK_BYTES; /* a chunk on each server */
    assert_int_equal(drain(self->space, "node0", true), 0);
    assert_int_equal(drain(self->space, "node0", true), 0);
    await_drained(self->space, "node0", region, held_bytes);
    expect_stamps(words, 7); /* it is held, and stays */
    assert_int_equal(tarn_space_find(of, "w", SOON, &held), 0);
    tarn_space_drop(words);
    expect_stamps(held, 7);
    tarn_space_drop(held);
    await_drained(self->space, "node0", NULL, 0);
    space_testing_close_server(self, 0);
    assert_int_equal(tarn_space_find(of, "w", SOON, &words), 0);
    expect_stamps(words, 7);
    expect_stamps(region, 1);
    publish(self, region, 2, NULL);
    space_testing_close_master(self);
    space_testing_open_master(self); /* which knows that it was drained */
    space_testing_await_servers(self, TESTING_SERVERS - 1);
    expect_stamps(region, 2);
    expect_stamps(words, 7);
    assert_true(usage_of(self->space, "node0").is_draining);
    assert_int_equal(tarn_space_free(words, SOON), 0);
    tarn_space_drop(words);
    assert_int_equal(tarn_space_free(region, SOON), 0);
    tarn_space_drop(region);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS - TESTING_CHUNKS);
}

static void a_drained_server_takes_nothing_along(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, drain_server);
}

static void drain_wrongly(struct space_testing *self)
{
    struct tarn_space_alloc_options options = {.copy_on_write = true, .copies = TARN_SPACE_COPIES_MAX + 1};
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", TESTING_ALL_CHUNKS - 4);
    struct tarn_space_region *region;
    assert_int_equal(drain(self->space, "node7", true), -ENOENT);
    assert_int_equal(drain(self->space, "no name", true), -EINVAL);
    assert_int_equal(tarn_space_drain(self->space, "node0", "secret", 6, true, SOON), -EACCES);
    assert_int_equal(drain(self->space, "node0", true), -ENOSPC);
    assert_false(usage_of(self->space, "node0").is_draining);
    assert_int_equal(tarn_space_release(of, 2 * TESTING_CHUNKS * TESTING_CHUNK_BYTES, SOON), 0);
    space_testing_await_free(self, 2 * TESTING_CHUNKS + 4);
    assert_int_equal(drain(self->space, "node0", true), 0);
    await_drained(self->space, "node0", NULL, 0); /* what was reserved there is reserved elsewhere */
    assert_int_equal(drain(self->space, "node0", false), 0);
    assert_false(usage_of(self->space, "node0").is_draining);
    assert_int_equal(tarn_space_alloc(of, BYTES, &options, SOON, &region), -EINVAL);
    options.copies = TARN_SPACE_COPIES_MAX; /* more than there are servers */
    assert_int_equal(tarn_space_alloc(of, TESTING_CHUNK_BYTES, &options, SOON, &region), -ENOSPC);
    options.copies = COPIES;
    options.copy_on_write = false;
    assert_int_equal(tarn_space_alloc(of, TESTING_CHUNK_BYTES, &options, SOON, &region), -EINVAL);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void what_cannot_be_drained_is_told(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, drain_wrongly);
}

#define SUITE(EACH)                                                                                          \
    EACH(copies_survive_a_server)                                                                            \
    EACH(versions_are_written_while_servers_go)                                                              \
    EACH(a_drained_server_takes_nothing_along)                                                               \
    EACH(what_cannot_be_drained_is_told)

SUITE(TESTING_BOTH)

static const struct CMUnitTest space_copies_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite space_copies = TESTING_SUITE(space_copies_tests);
