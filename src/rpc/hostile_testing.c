/*
 * Clients and servers that keep to no protocol hurt themselves alone: on every provider.
 */
#include "rpc/hostile_testing.h"

#define TESTING_ROOM (UINT64_C(64) << 10)

/* Somebody who speaks with a server by the fabric alone. */
struct testing_stranger {
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region;
    struct tarn_fabric_connection *connection;
    struct rpc_hello answer;
    struct rpc_geometry theirs; /* as the server sees it */
};

static const struct rpc_hello testing_hello = {.calls = 4, .request_bytes = 256, .result_bytes = 256};

static void testing_stranger_open(struct tarn_fabric *fabric, struct testing_stranger *stranger,
                                  uint64_t room)
{
    *stranger = (struct testing_stranger){.domain = testing_domain(fabric, 0, room)};
    stranger->region = testing_region(stranger->domain, room, TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE);
}

static void testing_stranger_close(struct testing_stranger *stranger)
{
    if (stranger->connection != NULL)
        tarn_fabric_disconnect(stranger->connection);
    tarn_fabric_region_free(stranger->region);
    tarn_fabric_domain_close(stranger->domain);
}

/** Say hello. @return as tarn_fabric_connect() */
static int testing_stranger_connect(struct testing_calls *calls, struct testing_stranger *stranger,
                                    struct rpc_hello hello)
{
    uint8_t bytes[RPC_HELLO_BYTES];
    const struct tarn_fabric_connect_options options = {.data = bytes, .data_bytes = sizeof(bytes)};
    const void *data;
    rpc_hello_save(&hello, bytes);
    int error = tarn_fabric_connect(stranger->domain, calls->testing->address, &options, TESTING_LATE,
                                    &stranger->connection);
    if (error != 0)
        return error;
    uint32_t count = tarn_fabric_peer_data(stranger->connection, &data);
    assert_int_equal(rpc_hello_load(data, count, &stranger->answer), 0);
    stranger->theirs = (struct rpc_geometry){.request_bytes = stranger->answer.request_bytes,
                                             .result_bytes = stranger->answer.result_bytes,
                                             .in = stranger->answer.calls,
                                             .out = stranger->answer.calls_back};
    return 0;
}

/** A stranger who is let in. */
static void testing_stranger_enter(struct testing_calls *calls, struct testing_stranger *stranger)
{
    struct rpc_hello hello = testing_hello;
    testing_stranger_open(testing_clients(calls->testing), stranger, TESTING_ROOM);
    hello.handle = stranger->region->handle;
    assert_int_equal(testing_stranger_connect(calls, stranger, hello), 0);
}

/** Have the worker look. @return as tarn_fabric_send() */
static int testing_poke(struct testing_stranger *stranger)
{
    return tarn_fabric_send(stranger->connection, 0, NULL, 0, TESTING_LATE);
}

/** WRITE somewhere into the server's region. @return as tarn_fabric_write() */
static int testing_scribble(struct testing_stranger *stranger, uint64_t offset, const void *bytes,
                            uint64_t count)
{
    return tarn_fabric_write(stranger->connection, 0, &stranger->answer.handle, offset, bytes, count,
                             TESTING_LATE);
}

/** The server has ended the stranger's connection, or does so soon. */
static void testing_expect_end(struct testing_stranger *stranger)
{
    struct tarn_fabric_message message;
    uint8_t room[4096];
    int error;
    do {
        error = tarn_fabric_receive(stranger->connection, room, sizeof(room), TESTING_LATE, &message);
    } while (error == 0);
    assert_true(error == -ECONNRESET || error == -EPIPE);
}

/* Words of chance, among them the number that is expected first. */
static void fill_with_rubbish(struct base_random *random, uint8_t *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i += 8)
        base_store_le64(bytes + i, base_random_below(random, 3) == 0 ? UINT64_C(1) : base_random_u64(random));
}

/** Post one operation, whatever it comes to. */
static void testing_try(struct tarn_fabric_connection *connection, struct tarn_fabric_op op)
{
    tarn_fabric_post(connection, &op, 1);
    int error = tarn_fabric_wait(&op, 1, TESTING_LATE);
    assert_true(error <= 0);
}

/* ---- clients ------------------------------------------------------------------------------------ */

/* All of the server's region, again and again, beside somebody who is honest. */
static void rubbish_hurts_nobody_else(struct testing_fabric *testing)
{
    static uint8_t rubbish[TESTING_ROOM];
    struct testing_stranger stranger;
    struct testing_calls calls;
    struct base_random random;
    const struct tarn_rpc_connect_options here = {.worker = 1};
    base_random_init(&random, 5);
    testing_serve(testing, &calls, NULL);
    calls.connection = testing_client(&calls, &here);
    struct rpc_hello hello = testing_hello;
    testing_stranger_open(testing_clients(testing), &stranger, TESTING_ROOM);
    hello.handle = stranger.region->handle;
    hello.worker = 0;
    assert_int_equal(testing_stranger_connect(&calls, &stranger, hello), 0);
    const uint64_t bytes = rpc_region_bytes(&stranger.theirs);
    for (unsigned round = 0; round < testing_times(testing, 50); round++) {
        fill_with_rubbish(&random, rubbish, bytes);
        if (tarn_fabric_error(stranger.connection) == 0 &&
            testing_scribble(&stranger, 0, rubbish, bytes) == 0)
            (void)testing_poke(&stranger);
        testing_expect_echo(calls.connection, ECHO, 100, round);
        testing_expect_echo(calls.connection, ECHO_LATER, 100, round);
    }
    assert_int_equal(calls.counts.echoes, 2 * testing_times(testing, 50));
    testing_stranger_close(&stranger);
    testing_calls_close(&calls);
}

static void write_request(struct testing_stranger *stranger, struct rpc_header header, const void *body)
{
    uint8_t bytes[RPC_HEADER_BYTES];
    rpc_header_save(&header, body, bytes);
    assert_int_equal(
        testing_scribble(stranger, rpc_request_offset(&stranger->theirs, 1), bytes, sizeof(bytes)), 0);
}

/* A header that is right, with a body that never comes: the connection ends. */
static void half_a_request_ends_its_connection(struct testing_fabric *testing)
{
    struct testing_stranger stranger;
    struct testing_calls calls;
    testing_serve(testing, &calls, NULL);
    testing_stranger_enter(&calls, &stranger);
    write_request(&stranger, (struct rpc_header){.sequence = 1, .bytes = 5, .word = ECHO}, "never");
    assert_int_equal(testing_poke(&stranger), 0);
    testing_expect_end(&stranger);
    assert_int_equal(calls.counts.echoes, 0);
    testing_stranger_close(&stranger);
    testing_calls_close(&calls);
}

/* A request of 8 bytes, in the slot of one number and with another. */
static void write_whole_request(struct testing_stranger *stranger, uint64_t slot, uint64_t number)
{
    uint8_t bytes[RPC_HEADER_BYTES + 8] = {0};
    const struct rpc_header header = {.sequence = number, .bytes = 8, .word = ECHO};
    rpc_header_save(&header, bytes + RPC_HEADER_BYTES, bytes);
    assert_int_equal(
        testing_scribble(stranger, rpc_request_offset(&stranger->theirs, slot), bytes, sizeof(bytes)), 0);
    assert_int_equal(testing_poke(stranger), 0);
}

/* Wait for the result of a number. */
static void expect_result(struct testing_stranger *stranger, uint64_t number)
{
    uint8_t bytes[RPC_MARK_BYTES + RPC_HEADER_BYTES];
    struct rpc_header header;
    do {
        assert_int_equal(tarn_fabric_read(stranger->connection, 0, &stranger->answer.handle,
                                          rpc_result_offset(&stranger->theirs, number), bytes, sizeof(bytes),
                                          TESTING_LATE),
                         0);
    } while (!rpc_header_load(bytes + RPC_MARK_BYTES, &header) || header.sequence != number);
    assert_int_equal(header.word, 0);
    assert_int_equal(header.bytes, 8);
}

/* Numbers that were, that are not next, or of another slot: only the next one is taken, once, wherever else it stands. */
static void wrong_numbers_are_not_taken(struct testing_fabric *testing)
{
    static const uint64_t wrong[][2] = {{1, 0}, {1, 5}, {1, UINT64_MAX}, {3, 1}, {2, 1}, {4, 3}, {3, 3}};
    struct testing_stranger stranger;
    struct testing_calls calls;
    testing_serve(testing, &calls, NULL);
    testing_stranger_enter(&calls, &stranger);
    for (size_t i = 0; i < base_array_count(wrong); i++)
        write_whole_request(&stranger, wrong[i][0], wrong[i][1]);
    write_whole_request(&stranger, 1, 1);
    expect_result(&stranger, 1);
    write_whole_request(&stranger, 1, 1); /* again */
    write_whole_request(&stranger, 2, 2);
    expect_result(&stranger, 3); /* which was there already: its turn has come */
    write_whole_request(&stranger, 4, 4);
    expect_result(&stranger, 4);
    assert_int_equal(calls.counts.echoes, 4);
    assert_int_equal(tarn_fabric_error(stranger.connection), 0);
    testing_stranger_close(&stranger);
    testing_calls_close(&calls);
}

/* And one that says that its body is longer than a slot. */
static void a_length_that_lies_ends_its_connection(struct testing_fabric *testing)
{
    static const uint8_t zeros[1U << 16] = {0};
    struct testing_stranger stranger;
    struct testing_calls calls;
    testing_serve(testing, &calls, NULL);
    testing_stranger_enter(&calls, &stranger);
    write_request(&stranger, (struct rpc_header){.sequence = 1, .bytes = sizeof(zeros), .word = ECHO}, zeros);
    assert_int_equal(testing_poke(&stranger), 0);
    testing_expect_end(&stranger);
    assert_int_equal(calls.counts.echoes, 0);
    testing_stranger_close(&stranger);
    testing_calls_close(&calls);
}

/* Messages that mean nothing. */
static void wrong_messages_end_their_connection(struct testing_fabric *testing)
{
    static const uint32_t values[] = {0, 1, 2 << 16, 2 << 16 | 3, 3 << 16, 1 << 16 | 1, UINT32_MAX};
    struct testing_calls calls;
    testing_serve(testing, &calls, NULL);
    for (unsigned i = 0; i <= base_array_count(values); i++) {
        struct testing_stranger stranger;
        testing_stranger_enter(&calls, &stranger);
        if (i < base_array_count(values)) {
            testing_try(stranger.connection, (struct tarn_fabric_op){.kind = TARN_FABRIC_WRITE_NOTIFY,
                                                                     .handle = &stranger.answer.handle,
                                                                     .value = values[i]});
        } else {
            struct iovec iov = {.iov_base = (uint8_t[8]){1}, .iov_len = 8};
            testing_try(stranger.connection,
                        (struct tarn_fabric_op){.kind = TARN_FABRIC_SEND, .iov = &iov, .iov_count = 1});
        }
        testing_expect_end(&stranger);
        testing_stranger_close(&stranger);
    }
    testing_calls_close(&calls);
}

/* Who offers no room for what is written to it is refused. */
static void regions_that_are_too_small_are_refused(struct testing_fabric *testing)
{
    struct testing_calls calls;
    struct testing_stranger stranger;
    struct rpc_hello hello = testing_hello;
    testing_serve(testing, &calls, NULL);
    testing_stranger_open(testing_clients(testing), &stranger, TESTING_ROOM);
    hello.handle = stranger.region->handle;
    hello.handle.bytes = 256;
    assert_int_equal(testing_stranger_connect(&calls, &stranger, hello), -ECONNREFUSED);
    hello.handle = stranger.region->handle;
    hello.handle.rights = TARN_FABRIC_MAY_READ;
    assert_int_equal(testing_stranger_connect(&calls, &stranger, hello), -ECONNREFUSED);
    stranger.connection = NULL;
    testing_stranger_close(&stranger);
    testing_calls_close(&calls);
}

/* The slots of another client are out of reach. */
static void slots_of_others_are_out_of_reach(struct testing_fabric *testing)
{
    struct testing_calls calls;
    struct testing_stranger one, other;
    uint8_t word[8];
    testing_serve(testing, &calls, NULL);
    testing_stranger_enter(&calls, &one);
    testing_stranger_enter(&calls, &other);
    assert_int_equal(tarn_fabric_read(one.connection, 0, &other.answer.handle, 0, word, 8, TESTING_LATE),
                     -EACCES);
    assert_int_equal(tarn_fabric_error(other.connection), 0);
    testing_stranger_close(&one);
    testing_stranger_close(&other);
    testing_calls_close(&calls);
}

/* ---- servers ------------------------------------------------------------------------------------ */

/* A server that answers with rubbish: calls end with an error, or at their deadline. */
struct testing_impostor {
    struct testing_fabric *testing;
    struct tarn_fabric_listener *listener;
    struct testing_stranger self;
    struct rpc_hello caller;
    _Atomic bool stop;
};

static void answer_rubbish(void *arg)
{
    static uint8_t rubbish[TESTING_ROOM];
    struct testing_impostor *impostor = arg;
    struct testing_stranger *self = &impostor->self;
    struct tarn_fabric_incoming *incoming;
    struct base_random random;
    uint8_t bytes[RPC_HELLO_BYTES];
    const void *data;
    base_random_init(&random, 11);
    assert_int_equal(tarn_fabric_listener_wait(impostor->listener, TESTING_LATE, &incoming), 0);
    uint32_t count = tarn_fabric_incoming_data(incoming, &data);
    assert_int_equal(rpc_hello_load(data, count, &impostor->caller), 0);
    struct rpc_hello hello = impostor->caller;
    hello.handle = self->region->handle;
    rpc_hello_save(&hello, bytes);
    const struct tarn_fabric_connect_options options = {.data = bytes, .data_bytes = sizeof(bytes)};
    assert_int_equal(tarn_fabric_accept(incoming, self->domain, &options, &self->connection), 0);
    while (!impostor->stop && tarn_fabric_error(self->connection) == 0) {
        fill_with_rubbish(&random, rubbish, sizeof(rubbish));
        tarn_fabric_mem_copy_in(self->region, 0, rubbish, sizeof(rubbish));
        struct iovec iov = {.iov_base = rubbish, .iov_len = 1024};
        struct tarn_fabric_op op = {.kind = TARN_FABRIC_WRITE_NOTIFY,
                                    .handle = &impostor->caller.handle,
                                    .iov = &iov,
                                    .iov_count = 1,
                                    .value = base_random_below(&random, 200) == 0 ? 2 << 16 | 1 : 1 << 16};
        if (base_random_below(&random, 100) == 0)
            testing_try(self->connection, op);
        (void)task_sleep(100000);
    }
    tarn_fabric_disconnect(self->connection); /* by its user */
    self->connection = NULL;
}

static void rubbish_is_no_result(struct testing_fabric *testing)
{
    for (unsigned i = 0; i < base_array_count(testing_ways); i++) {
        struct testing_impostor impostor = {.testing = testing};
        struct tarn_rpc_connection *connection;
        struct testing_job job;
        struct tarn_rpc_connect_options options = testing_ways[i];
        options.calls = 4;
        testing_stranger_open(testing->fabric, &impostor.self, TESTING_ROOM);
        assert_int_equal(tarn_fabric_listen(testing->fabric, testing->address, &impostor.listener), 0);
        testing_start(testing, &job, 1, answer_rubbish, &impostor);
        assert_int_equal(
            tarn_rpc_connect(testing_clients(testing), testing->address, &options, TESTING_LATE, &connection),
            0);
        for (unsigned round = 0; round < 6; round++) {
            struct testing_call one;
            testing_call_init(&one, ECHO, 50, round);
            one.call.deadline_ns = task_now() + 5 * BASE_NS_PER_MS;
            assert_int_not_equal(tarn_rpc_call(connection, &one.call), 0);
        }
        impostor.stop = true;
        testing_join(&job);
        tarn_rpc_disconnect(connection);
        tarn_fabric_listener_close(impostor.listener);
        testing_stranger_close(&impostor.self);
    }
}

/* ---- those who ask for much ---------------------------------------------------------------------- */

enum { GREEDY = 10, CALLS_WANTED = 64, LONGEST = 1 << 15, MEMORY = 4 << 20 };

static uint64_t connections_of(const struct testing_calls *calls)
{
    struct tarn_rpc_stats stats;
    tarn_rpc_server_stats(calls->server, &stats);
    return stats.connections;
}

/* Whoever comes gets what it needs for one call, whatever others have taken before. */
static void expect_newcomers(struct testing_calls *calls)
{
    static const struct tarn_rpc_connect_options modest = {
        .calls = 16, .request_bytes = 512, .result_bytes = 512};
    for (unsigned i = 0; i < 3; i++) {
        struct tarn_rpc_limits limits;
        struct tarn_rpc_connection *newcomer = testing_client(calls, &modest);
        tarn_rpc_limits(newcomer, &limits);
        assert_true(limits.calls >= 1 && limits.request_bytes == 512 && limits.result_bytes == 512);
        testing_expect_echo(newcomer, ECHO, 500, i);
        const uint64_t connections = connections_of(calls);
        tarn_rpc_disconnect(newcomer);
        while (connections_of(calls) >= connections) /* until its share is there again */
            (void)task_sleep(BASE_NS_PER_MS);
    }
}

/* Peers that ask for all that a hello can ask for: they get some of what is spare, and nobody is kept out. */
static void the_greedy_keep_nobody_out(struct testing_fabric *testing)
{
    static const struct tarn_rpc_serve_options most = {.calls_max = CALLS_WANTED,
                                                       .request_bytes_max = LONGEST,
                                                       .result_bytes_max = LONGEST,
                                                       .memory_bytes = MEMORY};
    struct testing_stranger greedy[GREEDY];
    struct testing_calls calls;
    struct tarn_rpc_stats stats;
    unsigned refused = 0;
    testing_serve(testing, &calls, &most);
    for (unsigned i = 0; i < GREEDY; i++) {
        struct rpc_hello hello = {.worker = RPC_ANY_WORKER,
                                  .calls = CALLS_WANTED,
                                  .calls_back = CALLS_WANTED,
                                  .request_bytes = LONGEST,
                                  .result_bytes = LONGEST};
        testing_stranger_open(testing_clients(testing), &greedy[i], MEMORY);
        hello.handle = greedy[i].region->handle;
        int error = testing_stranger_connect(&calls, &greedy[i], hello);
        assert_true(error == 0 || error == -ENOBUFS);
        refused += error != 0;
        expect_newcomers(&calls);
    }
    tarn_rpc_server_stats(calls.server, &stats);
    print_message("# %u peers that ask for %u calls each way of %u bytes: %u refused, %.1f of %.1f MiB\n",
                  GREEDY, CALLS_WANTED, LONGEST, refused, (double)stats.memory_bytes / (1 << 20),
                  (double)MEMORY / (1 << 20));
    assert_true(stats.memory_bytes <= MEMORY / 2);
    for (unsigned i = 0; i < GREEDY; i++)
        testing_stranger_close(&greedy[i]);
    testing_calls_close(&calls);
}

/* A connection that another has to give something back for. */
struct wish {
    struct testing_calls *calls;
    const struct tarn_rpc_connect_options *options;
};

/* Connect, which takes a moment, and make a call. */
static void fulfil(void *arg)
{
    struct wish *wish = arg;
    struct tarn_rpc_connection *connection;
    unsigned refused = 0;
    int error;
    while ((error = tarn_rpc_connect(testing_clients(wish->calls->testing), wish->calls->testing->address,
                                     wish->options, TESTING_LATE, &connection)) != 0) {
        assert_int_equal(error, -ENOBUFS);
        refused++;
        (void)task_sleep(20 * BASE_NS_PER_MS);
    }
    assert_true(refused > 0);
    testing_expect_echo(connection, ECHO, 100, 2);
    tarn_rpc_disconnect(connection);
}

/* What one has, another needs: a client gives it back with its last call, a stranger loses its connection. */
static void what_others_need_is_given_back(struct testing_fabric *testing)
{
    static const struct tarn_rpc_serve_options most = {.request_bytes_max = LONGEST,
                                                       .result_bytes_max = LONGEST,
                                                       .memory_bytes = 8 * LONGEST + 4 * TASK_STACK_BYTES};
    static const struct tarn_rpc_connect_options wide = {
        .calls = 1, .request_bytes = LONGEST, .result_bytes = LONGEST};
    struct testing_stranger stranger;
    struct testing_calls calls;
    struct wish wish = {.calls = &calls, .options = &wide};
    struct testing_job job;
    uint64_t done = 0, perhaps = 0;
    struct rpc_hello hello = {
        .worker = RPC_ANY_WORKER, .calls = 1, .request_bytes = LONGEST, .result_bytes = LONGEST};
    testing_serve(testing, &calls, &most);
    struct tarn_rpc_connection *first = testing_client(&calls, &wide);
    testing_expect_echo(first, ECHO, 100, 1);
    testing_start(testing, &job, 1, fulfil, &wish);
    for (int error = 0; error == 0;) { /* until it has left */
        struct testing_call one;
        testing_call_init(&one, ECHO, 100, done);
        error = tarn_rpc_call(first, &one.call);
        done += error == 0;
        perhaps += error != 0 && one.call.may_have_run;
        assert_true(error == 0 || error == -ECONNRESET || error == -EPIPE);
    }
    testing_join(&job);
    assert_true(calls.counts.echoes >= 2 + done && calls.counts.echoes <= 2 + done + perhaps);
    tarn_rpc_disconnect(first);
    testing_stranger_open(testing_clients(testing), &stranger, 4 * LONGEST);
    hello.handle = stranger.region->handle;
    for (int error = -ENOBUFS; error != 0;) { /* until the server has noticed that they have left */
        error = testing_stranger_connect(&calls, &stranger, hello);
        assert_true(error == 0 || error == -ENOBUFS);
    }
    fulfil(&wish);
    testing_expect_end(&stranger);
    testing_stranger_close(&stranger);
    testing_calls_close(&calls);
}

#define SUITE(EACH)                                                                                          \
    EACH(rubbish_hurts_nobody_else)                                                                          \
    EACH(half_a_request_ends_its_connection)                                                                 \
    EACH(a_length_that_lies_ends_its_connection)                                                             \
    EACH(wrong_numbers_are_not_taken)                                                                        \
    EACH(wrong_messages_end_their_connection)                                                                \
    EACH(regions_that_are_too_small_are_refused)                                                             \
    EACH(slots_of_others_are_out_of_reach)                                                                   \
    EACH(rubbish_is_no_result)                                                                               \
    EACH(the_greedy_keep_nobody_out)                                                                         \
    EACH(what_others_need_is_given_back)

SUITE(TESTING_BOTH)

static const struct CMUnitTest rpc_hostile_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite rpc_hostile = TESTING_SUITE(rpc_hostile_tests);
