/* Clients that lie, that fall silent, that reach for what is not theirs; and memory that runs out. */
#include "base/random.h"
#include "space/client.h"
#include "space/conformance_testing.h"
#include "space/server.h"

#define SOON TESTING_LATE

/* ---- what is not theirs ------------------------------------------------------------------------- */

/* Connect with a memory server as a client of some session would. */
static int connect_as(const struct space_testing *self, struct tarn_fabric_domain *domain,
                      const struct space_hello *hello, uint32_t bytes,
                      struct tarn_fabric_connection **ret_connection)
{
    uint8_t data[SPACE_HELLO_BYTES];
    const struct tarn_fabric_connect_options options = {.data = data, .data_bytes = bytes};
    space_hello_save(hello, data);
    return tarn_fabric_connect(domain, self->addresses[0], &options, SOON, ret_connection);
}

static void reach_for_others(struct space_testing *self)
{
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *mine = space_testing_namespace(self->space, "mine", 3);
    struct tarn_space_namespace *theirs = space_testing_namespace(other, "theirs", 3);
    struct tarn_space_region *region = space_testing_alloc(mine, 3 * TESTING_CHUNK_BYTES, TARN_SPACE_WORDS);
    struct tarn_space_region *other_region =
        space_testing_alloc(theirs, 3 * TESTING_CHUNK_BYTES, TARN_SPACE_WORDS);
    struct tarn_fabric_connection *connection;
    struct space_master_stats stats;
    struct space_server_stats server;
    uint64_t word = 9, before;
    assert_int_equal(tarn_space_faa(region, 0, 1, SOON, &before), 0);
    assert_int_equal(tarn_space_faa(other_region, 0, 1, SOON, &before), 0);

    /* a client that has a handle of another namespace's, and a connection of its own */
    for (unsigned i = 0; i < 3; i++) {
        const struct tarn_fabric_handle *handle = &region->targets[i].handle;
        assert_int_equal(tarn_space_faa(other_region, i * TESTING_CHUNK_BYTES, 1, SOON, &before), 0);
        assert_int_equal(
            tarn_fabric_read(other_region->targets[i].link->connection, 0, handle, 0, &word, 8, SOON),
            -EACCES);
        assert_true(word != 1); /* what is there; a READ that is refused may leave anything else */
        assert_int_equal(tarn_space_faa(other_region, i * TESTING_CHUNK_BYTES, 1, SOON, &before), 0);
        assert_int_equal(
            tarn_fabric_write(other_region->targets[i].link->connection, 0, handle, 0, &word, 8, SOON),
            -EACCES);
    }

    /* a stranger; a session that has not joined; rubbish; memory that is lost */
    struct space_hello hello = {.space_namespace = mine->number};
    memcpy(hello.identity, self->servers[0]->identity, SPACE_IDENTITY_BYTES);
    assert_int_equal(connect_as(self, other->domain, &hello, SPACE_HELLO_BYTES, &connection), -ECONNREFUSED);
    memcpy(hello.session, other->session, SPACE_SESSION_BYTES);
    assert_int_equal(connect_as(self, other->domain, &hello, SPACE_HELLO_BYTES, &connection), -ECONNREFUSED);
    hello.space_namespace = 12345;
    assert_int_equal(connect_as(self, other->domain, &hello, SPACE_HELLO_BYTES, &connection), -ECONNREFUSED);
    hello.space_namespace = theirs->number;
    assert_int_equal(connect_as(self, other->domain, &hello, SPACE_HELLO_BYTES - 1, &connection),
                     -ECONNREFUSED);
    assert_int_equal(connect_as(self, other->domain, &hello, 0, &connection), -ECONNREFUSED);
    hello.identity[0] ^= 1;
    assert_int_equal(connect_as(self, other->domain, &hello, SPACE_HELLO_BYTES, &connection), -ECONNREFUSED);
    hello.identity[0] ^= 1;
    space_master_stats(self->master, &stats);
    assert_int_equal(stats.sessions_refused, 3);
    space_server_stats(self->servers[0], &server);
    assert_int_equal(server.refused, 6);
    assert_int_equal(connect_as(self, other->domain, &hello, SPACE_HELLO_BYTES, &connection), 0);
    tarn_fabric_disconnect(connection);

    assert_int_equal(tarn_space_faa(region, 0, 1, SOON, &before), 0);
    assert_int_equal(before, 1);
    tarn_space_drop(other_region);
    space_testing_delete(theirs);
    tarn_space_disconnect(other);
    tarn_space_drop(region);
    space_testing_delete(mine);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void nobody_reaches_what_is_not_his(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, reach_for_others);
}

/* ---- those that fall silent --------------------------------------------------------------------- */

static void await_expired(const struct space_testing *self, uint64_t count)
{
    struct space_master_stats stats;
    do {
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        space_master_stats(self->master, &stats);
    } while (stats.expired < count);
}

static struct tarn_space_region *alloc_at_last(struct tarn_space_namespace *of)
{
    struct tarn_space_region *region;
    int error;
    do
        error = tarn_space_alloc(of, 8, NULL, SOON, &region);
    while (error == -ENOSPC && task_sleep(BASE_NS_PER_MS) == 0);
    assert_int_equal(error, 0);
    return region;
}

/* No chunk is to be had, unless a session has expired meanwhile, on a busy machine. */
static void expect_none_before_expiry(const struct space_testing *self, struct tarn_space_namespace *of)
{
    struct tarn_space_region *region;
    struct space_master_stats stats;
    int error = tarn_space_alloc(of, 8, NULL, SOON, &region);
    space_master_stats(self->master, &stats);
    if (error == 0 && stats.expired > 0) {
        assert_int_equal(tarn_space_free(region, SOON), 0);
        tarn_space_drop(region);
    } else {
        assert_int_equal(error, -ENOSPC);
    }
}

/* Write a word where the writer's own lease is short, too. */
static void write_surely(struct tarn_space_region *region, const uint64_t *word)
{
    int error;
    do
        error = tarn_space_write_at(region, 0, word, 8, SOON);
    while (error == -ESTALE && region->error == 0);
    assert_int_equal(error, 0);
}

/* A client is silent for longer than its lease, as if its process stood still. Its region was freed meanwhile, and the
 * chunk is another's. */
static void be_silent(struct space_testing *self)
{
    const bool fences_alone = self->testing->subject->fences_alone;
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 1), *joined;
    const struct tarn_space_alloc_options options = {.name = "r"};
    struct tarn_space_region *region, *same, *next;
    uint64_t word = 5;
    assert_int_equal(tarn_space_alloc(of, 8, &options, SOON, &region), 0);
    assert_int_equal(tarn_space_join_ns(other, "a", NULL, 0, SOON, &joined), 0);
    assert_int_equal(tarn_space_find(joined, "r", SOON, &same), 0);
    write_surely(same, &word);
    struct tarn_fabric_connection *old = same->targets[0].link->connection;
    const struct tarn_fabric_handle handle = same->targets[0].handle;
    assert_int_equal(tarn_space_free(region, SOON), 0);
    tarn_space_drop(region);
    task_worker_stop(&other->keeper);
    expect_none_before_expiry(self, of); /* it may still write there */
    await_expired(self, 1);
    assert_true(tarn_space_write_at(same, 0, &word, 8, task_now() + 20 * BASE_NS_PER_MS) != 0);
    if (fences_alone) {
        next = alloc_at_last(of);
        word = 6;
        write_surely(next, &word);
        word = 7; /* past all checks of the lease: the fence holds */
        assert_true(tarn_fabric_write(old, 0, &handle, 0, &word, 8, SOON) != 0);
        assert_int_equal(tarn_space_read_at(next, 0, &word, 8, SOON), 0);
        assert_int_equal(word, 6);
    } else { /* it has the memory mapped */
        assert_int_equal(tarn_space_alloc(of, 8, NULL, SOON, &next), -ENOSPC);
    }
    /* now it learns that its session is gone; where its region could not be given back, it holds that again */
    assert_int_equal(tarn_space_find(joined, "r", SOON, &region), -ENOENT);
    if (fences_alone)
        assert_int_equal(tarn_space_write_at(same, 0, &word, 8, SOON), -ESTALE);
    tarn_space_drop(same);
    if (!fences_alone)
        next = alloc_at_last(of);
    tarn_space_leave_ns(joined);
    tarn_space_disconnect(other);
    tarn_space_drop(next);
    space_testing_delete(of);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void the_silent_corrupt_nothing(struct testing_fabric *testing)
{
    space_testing_run(testing, 500 * BASE_NS_PER_MS, be_silent);
}

/* A client is silent while the master is another, and has a server's memory mapped: namespaces of others go on. */
static void be_silent_in_between(struct space_testing *self)
{
    enum {
        NAMESPACES = TESTING_ALL_CHUNKS / 2 / TESTING_SERVERS
    }; /* many connections are taken down at once, at its end */
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of[NAMESPACES], *mine;
    struct tarn_space_region *regions[NAMESPACES], *next;
    uint64_t word = 5;
    for (unsigned i = 0; i < NAMESPACES; i++) {
        const char name[] = {'a', (char)('0' + i), '\0'};
        of[i] = space_testing_namespace(other, name, TESTING_SERVERS);
        regions[i] = space_testing_alloc(of[i], TESTING_SERVERS * TESTING_CHUNK_BYTES, TARN_SPACE_BULK);
        for (unsigned chunk = 0; chunk < TESTING_SERVERS; chunk++)
            assert_int_equal(tarn_space_write_at(regions[i], chunk * TESTING_CHUNK_BYTES, &word, 8, SOON), 0);
    }
    task_worker_stop(&other->keeper);
    space_testing_close_master(self);
    space_testing_open_master(self);
    /* a call that is repeated where its connection was lost, unlike the next */
    assert_int_equal(tarn_space_join_ns(self->space, "b", NULL, 0, SOON, &mine), -ENOENT);
    mine = space_testing_namespace(self->space, "b", TESTING_ALL_CHUNKS / 2);
    next = space_testing_alloc(mine, TESTING_ALL_CHUNKS / 2 * TESTING_CHUNK_BYTES, TARN_SPACE_BULK);
    assert_int_equal(tarn_space_write_at(next, 0, &word, 8, SOON), 0);
    tarn_space_drop(next);
    space_testing_delete(mine);
    space_testing_await_free(self, TESTING_ALL_CHUNKS / 2);
    for (unsigned i = 0; i < NAMESPACES; i++) { /* it begins its session again, and holds its regions */
        assert_int_equal(tarn_space_free(regions[i], SOON), 0);
        tarn_space_drop(regions[i]);
        space_testing_delete(of[i]);
    }
    tarn_space_disconnect(other);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void the_silent_hold_up_nobody_else(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, be_silent_in_between);
}

/* More sessions than one order to fence has room for: those that live are not fenced when one expires. */
static void crowd_sessions(struct space_testing *self)
{
    enum { CROWD = 1200 };
    const struct tarn_rpc_connect_options options = {.request_bytes = 64, .result_bytes = 64};
    struct tarn_rpc_connection *connection;
    uint8_t request[SPACE_SESSION_BYTES + 20] = {1}, result[64];
    struct tarn_rpc_call call = {.method = SPACE_HELLO,
                                 .request = request,
                                 .request_bytes = sizeof(request),
                                 .result = result,
                                 .room = sizeof(result),
                                 .deadline_ns = SOON};
    uint64_t word = 1;
    assert_int_equal(
        tarn_rpc_connect(testing_clients(self->testing), self->masters[0], &options, SOON, &connection), 0);
    assert_int_equal(tarn_rpc_call(connection, &call), 0); /* the first to expire */
    assert_int_equal(task_sleep(self->lease_ns / 2), 0);
    for (uint32_t i = 1; i <= CROWD; i++) {
        base_store_le32(request + 4, i);
        assert_int_equal(tarn_rpc_call(connection, &call), 0);
    }
    struct tarn_space *late = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(late, "a", 1);
    struct tarn_space_region *region = space_testing_alloc(of, 8, TARN_SPACE_BULK);
    assert_int_equal(tarn_space_write_at(region, 0, &word, 8, SOON), 0);
    const struct tarn_fabric_connection *connected = region->targets[0].link->connection;
    uint8_t session[SPACE_SESSION_BYTES];
    memcpy(session, late->session, sizeof(session));
    await_expired(self, 1);
    for (unsigned i = 0; i < 50; i++) { /* while the order comes */
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        assert_int_equal(tarn_space_read_at(region, 0, &word, 8, SOON), 0);
        const bool is_same = memcmp(session, late->session, sizeof(session)) == 0;
        assert_true(region->targets[0].link->connection == connected ||
                    !is_same); /* or this machine was too busy */
    }
    tarn_rpc_disconnect(connection);
    tarn_space_drop(region);
    space_testing_delete(of);
    tarn_space_disconnect(late);
}

static void the_living_are_not_fenced(struct testing_fabric *testing)
{
    if (!testing->subject->is_slow) /* so many sessions would end before the last has begun */
        space_testing_run(testing, 2 * BASE_NS_PER_SECOND, crowd_sessions);
}

/* The lease ends after operations were posted, and before their completions are taken. */
static void take_too_late(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 3);
    struct tarn_space_region *region = space_testing_alloc(of, 3 * TESTING_CHUNK_BYTES, TARN_SPACE_BULK);
    static uint8_t memory[3 * TESTING_CHUNK_BYTES];
    const struct iovec iov = {.iov_base = memory, .iov_len = sizeof(memory)};
    struct tarn_space_op op = {.kind = TARN_FABRIC_READ, .region = region, .iov = &iov, .iov_count = 1};
    void *mapped;
    assert_int_equal(tarn_space_map(region, SOON, &mapped), 0);
    task_worker_stop(&self->space->keeper); /* it would renew the lease at any moment */
    for (unsigned i = 0; i < 10; i++) {
        tarn_space_post(self->space, &op, 1);
        atomic_store(&self->space->held_until_ns, 0);
        int error = tarn_space_wait(self->space, &op, 1, SOON);
        atomic_store(&self->space->held_until_ns, SOON);
        assert_int_equal(error, -ESTALE);
    }
    assert_int_equal(tarn_space_read(region, mapped, 100, SOON), 0);
    tarn_space_unmap(region);
    tarn_space_drop(region);
    space_testing_delete(of);
}

static void what_is_taken_too_late_does_not_count(struct testing_fabric *testing)
{
    space_testing_run(testing, 60 * BASE_NS_PER_SECOND, take_too_late);
}

/* ---- those that lie ----------------------------------------------------------------------------- */

/* Requests of any bytes for every method, of a session that there is. */
static void send_rubbish(struct space_testing *self)
{
    const struct tarn_rpc_connect_options options = {.request_bytes = SPACE_REQUEST_MAX,
                                                     .result_bytes = SPACE_RESULT_MAX};
    struct tarn_rpc_connection *connection;
    static uint8_t result[SPACE_RESULT_MAX];
    uint8_t request[SPACE_REQUEST_MAX];
    struct base_random random;
    struct tarn_space *victim = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 3);
    base_random_init(&random, 3);
    assert_int_equal(
        tarn_rpc_connect(testing_clients(self->testing), self->masters[0], &options, SOON, &connection), 0);
    for (unsigned i = 0; i < testing_times(self->testing, 3000); i++) {
        const uint32_t method = (uint32_t)base_random_below(&random, SPACE_METHODS);
        struct tarn_rpc_call call = {.method = method == SPACE_BYE ? SPACE_LIST : method,
                                     .request = request,
                                     .request_bytes = (uint32_t)base_random_below(&random, 96),
                                     .result = result,
                                     .room = sizeof(result),
                                     .deadline_ns = SOON};
        base_random_fill(&random, request, sizeof(request));
        if (i % 4 != 0)
            memcpy(request, victim->session, SPACE_SESSION_BYTES);
        for (unsigned k = SPACE_SESSION_BYTES; k < 64 && i % 3 != 0; k++)
            request[k] =
                (uint8_t)(k % 4 == 0 ? base_random_below(&random, 4) : 0); /* so that some are right */
        int error = tarn_rpc_call(connection, &call);
        assert_true(error <= 0 && error != -ETIMEDOUT && error != -ECONNRESET);
    }
    tarn_rpc_disconnect(connection);
    struct tarn_space_region *region = space_testing_alloc(of, 3 * TESTING_CHUNK_BYTES, TARN_SPACE_BULK);
    tarn_space_drop(region);
    space_testing_delete(of);
    tarn_space_disconnect(victim);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
}

static void liars_do_no_harm(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, send_rubbish);
}

/* ---- memory that runs out ----------------------------------------------------------------------- */

/* The n-th piece of memory that anybody takes is refused, in the client, the master or a memory server. */
static void run_out_of_memory(struct space_testing *self)
{
    struct tarn_space_namespace *of;
    struct tarn_space_region *region;
    for (uint64_t n = 1; n < 40; n++) {
        bool is_made, is_reserved, is_allocated;
        uint64_t word = n;
        base_account_fail_at(&self->testing->node->memory, n);
        do { /* the test's own part of what can fail: each step is left out if the one before failed */
            is_made = tarn_space_create_ns(self->space, "a", "s", 1, SOON, &of) == 0;
            is_reserved = is_made && tarn_space_reserve(of, 2 * TESTING_CHUNK_BYTES, SOON) == 0;
            is_allocated =
                is_reserved && tarn_space_alloc(of, 2 * TESTING_CHUNK_BYTES, NULL, SOON, &region) == 0;
            if (is_allocated && tarn_space_write_at(region, TESTING_CHUNK_BYTES - 4, &word, 8, SOON) == 0)
                assert_int_equal(tarn_space_read_at(region, TESTING_CHUNK_BYTES - 4, &word, 8, SOON), 0);
            assert_int_equal(word, n);
        } while (0);
        base_account_fail_at(&self->testing->node->memory, 0);
        if (is_allocated)
            tarn_space_drop(region);
        if (is_made)
            space_testing_delete(of);
        space_testing_await_free(self, TESTING_ALL_CHUNKS);
    }
}

static void memory_runs_out(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, run_out_of_memory);
}

#define SUITE(EACH)                                                                                          \
    EACH(nobody_reaches_what_is_not_his)                                                                     \
    EACH(the_silent_corrupt_nothing)                                                                         \
    EACH(the_silent_hold_up_nobody_else)                                                                     \
    EACH(the_living_are_not_fenced)                                                                          \
    EACH(what_is_taken_too_late_does_not_count)                                                              \
    EACH(liars_do_no_harm)                                                                                   \
    EACH(memory_runs_out)

SUITE(TESTING_BOTH)

static const struct CMUnitTest space_hostile_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite space_hostile = TESTING_SUITE(space_hostile_tests);
