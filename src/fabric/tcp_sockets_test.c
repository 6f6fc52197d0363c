/*
 * Several sockets of one connection: who may join, that all of it ends when one of them does, and that what is said
 * by turns is the same as what is said by one. In plain threads: here the others' sockets block.
 */
#include "base/random.h"
#include "fabric/tcp/connection.h"
#include "fabric/tcp/listener.h"
#include "fabric/tcp_testing.h"

enum { SOCKETS = 3 };

/* Say hello by hand for so many sockets, and be accepted. @param job  who accepts; to be joined */
static int begin_to_meet(struct testing_pair *pair, struct testing_job *job, void (*accept)(void *arg),
                         struct tcp_hello *ret_welcome)
{
    testing_start(pair->testing, job, 0, accept, pair);
    int fd = tcp_testing_dial(pair->testing->address);
    assert_int_equal(tcp_testing_greet_for(fd, SOCKETS - 1, ret_welcome), 0);
    return fd;
}

/* @return what the server makes of it, as tcp_testing_say_hello() */
static int join(const struct testing_pair *pair, const uint8_t *ticket, uint32_t number, int *ret_fd)
{
    struct tcp_hello hello = {.kind = TCP_JOIN, .number = number}, welcome;
    memcpy(hello.ticket, ticket, sizeof(hello.ticket));
    *ret_fd = tcp_testing_dial(pair->testing->address);
    return tcp_testing_say_hello(*ret_fd, &hello, &welcome);
}

/* Try to join, and fail. */
static void expect_no_place(const struct testing_pair *pair, const uint8_t *ticket, uint32_t number,
                            int error)
{
    int fd;
    assert_int_equal(join(pair, ticket, number, &fd), error);
    assert_int_equal(close(fd), 0);
}

/* Whoever has no ticket, or the place of somebody else, is refused, and harms nobody. */
static void only_its_own_join(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct testing_job job;
    struct tcp_hello welcome;
    uint8_t guess[TCP_TICKET_BYTES];
    int fds[SOCKETS];
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    fds[0] = begin_to_meet(&pair, &job, testing_accept, &welcome);
    memcpy(guess, welcome.ticket, sizeof(guess));
    guess[TCP_TICKET_BYTES - 1] ^= 1;
    expect_no_place(&pair, guess, 1, -ECONNREFUSED);                /* no ticket */
    expect_no_place(&pair, welcome.ticket, SOCKETS, -ECONNREFUSED); /* there is no such place */
    expect_no_place(&pair, welcome.ticket, 0, -EPROTO);
    expect_no_place(&pair, welcome.ticket, TCP_SOCKETS_MAX, -EPROTO);
    assert_int_equal(join(&pair, welcome.ticket, 1, &fds[1]), 0);
    expect_no_place(&pair, welcome.ticket, 1, -ECONNREFUSED); /* taken */
    assert_int_equal(join(&pair, welcome.ticket, 2, &fds[2]), 0);
    testing_join(&job);
    expect_no_place(&pair, welcome.ticket, 2, -ECONNREFUSED); /* nobody waits any more */
    assert_int_equal(tarn_fabric_error(pair.server), 0);
    tcp_testing_end(&pair, fds, SOCKETS);
}

static void expect_no_connection(void *arg)
{
    struct testing_pair *pair = arg;
    struct tarn_fabric_incoming *incoming;
    assert_int_equal(tarn_fabric_listener_wait(pair->listener, TESTING_SECONDS(60), &incoming), 0);
    assert_int_equal(tarn_fabric_accept(incoming, pair->server_domain, &pair->options, &pair->server),
                     -ECONNRESET);
}

/* Who promises sockets and does not bring them has no connection after a heartbeat; those he brought are closed. */
static void who_does_not_bring_them_all_is_given_up(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct testing_job job;
    struct tcp_hello welcome;
    struct tarn_fabric *usual = testing->fabric;
    int fds[2];
    assert_int_equal(tarn_fabric_open(testing->node, "tcp:heartbeat=100ms", &testing->fabric), 0);
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    unsigned descriptors = testing_descriptors();
    fds[0] = begin_to_meet(&pair, &job, expect_no_connection, &welcome);
    assert_int_equal(join(&pair, welcome.ticket, 2, &fds[1]), 0);
    testing_join(&job);
    for (unsigned i = 0; i < base_array_count(fds); i++) {
        assert_true(tcp_testing_ends(fds[i]));
        assert_int_equal(close(fds[i]), 0);
    }
    assert_int_equal(testing_descriptors(), descriptors);
    pair.server = NULL;
    testing_pair_close(&pair);
    tarn_fabric_close(testing->fabric);
    testing->fabric = usual;
}

/* Keeps its scheduler from running anything else. */
struct holder {
    _Atomic bool holds, over;
};

static void hold(void *arg)
{
    struct holder *holder = arg;
    atomic_store(&holder->holds, true);
    while (!atomic_load(&holder->over))
        continue;
}

/* Until so many have joined whom nobody has taken. */
static void await_joined(const struct testing_pair *pair, unsigned count)
{
    struct tcp *tcp = pair->testing->fabric->state;
    unsigned joined = 0;
    for (uint64_t until_ns = TESTING_SECONDS(20); joined < count && task_now() < until_ns; joined = 0) {
        tcp_gate_lock(&tcp->gate);
        const struct tcp_party *party =
            base_container_of(base_list_first(&tcp->parties), struct tcp_party, link);
        for (unsigned i = 0; i < TCP_SOCKETS_MAX; i++)
            joined += party->joined[i] != NULL;
        tcp_gate_unlock(&tcp->gate);
        if (joined == count)
            return;
        task_yield();
    }
    fail();
}

/*
 * Who has joined, and whom nobody takes any more, because another socket of the connection has failed before: he is told
 * so, also if the listener is closed by then. While the scheduler of who accepts is held, two join; the first to be taken
 * has gone.
 */
static void leave_one_untaken(struct testing_pair *pair, bool listener_closes)
{
    const struct linger at_once = {.l_onoff = 1};
    struct testing_job job, holding;
    struct holder holder = {0};
    struct tcp_hello welcome, answer;
    int fds[SOCKETS];
    testing_start(pair->testing, &job, 1, expect_no_connection, pair);
    fds[0] = tcp_testing_dial(pair->testing->address);
    assert_int_equal(tcp_testing_greet_for(fds[0], SOCKETS - 1, &welcome), 0);
    testing_start(pair->testing, &holding, 1, hold, &holder);
    while (!atomic_load(&holder.holds))
        task_yield();
    for (uint32_t i = 1; i < SOCKETS; i++) {
        struct tcp_hello hello = {.kind = TCP_JOIN, .number = i};
        memcpy(hello.ticket, welcome.ticket, sizeof(hello.ticket));
        fds[i] = tcp_testing_dial(pair->testing->address);
        tcp_testing_ask(fds[i], &hello);
    }
    await_joined(pair, SOCKETS - 1);
    if (listener_closes)
        tarn_fabric_listener_close(pair->listener);
    assert_int_equal(setsockopt(fds[SOCKETS - 1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    assert_int_equal(close(fds[SOCKETS - 1]), 0);
    atomic_store(&holder.over, true);
    testing_join(&holding);
    testing_join(&job);
    assert_int_equal(tcp_testing_hear_welcome(fds[1], &answer), -ECONNREFUSED);
    for (unsigned i = 0; i < SOCKETS - 1; i++) {
        assert_true(tcp_testing_ends(fds[i]));
        assert_int_equal(close(fds[i]), 0);
    }
    if (listener_closes)
        assert_int_equal(tarn_fabric_listen(pair->testing->fabric, pair->testing->address, &pair->listener),
                         0);
}

static void refuse_the_untaken(struct testing_fabric *testing)
{
    struct testing_pair pair;
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    leave_one_untaken(&pair, false);
    leave_one_untaken(&pair, true);
    testing_connect(&pair);
    testing_pair_close(&pair);
}

static void who_has_joined_and_is_not_taken_is_refused(void **state)
{
    testing_run(state, refuse_the_untaken, true);
}

/* A frame goes by the socket whose turn it is; by another it waits, and nothing of it is done before. */
static void what_comes_before_its_turn_waits(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct testing_job job;
    struct tcp_hello welcome;
    static uint8_t data[TCP_PAYLOAD_BYTES];
    const uint64_t one = 1, two = 2;
    int fds[SOCKETS];
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    fds[0] = begin_to_meet(&pair, &job, testing_accept, &welcome);
    assert_int_equal(join(&pair, welcome.ticket, 1, &fds[1]), 0);
    assert_int_equal(join(&pair, welcome.ticket, 2, &fds[2]), 0);
    testing_join(&job);
    struct tcp_frame frame = {.kind = TCP_WRITE,
                              .last = true,
                              .bytes = 8,
                              .domain = pair.all->handle.domain,
                              .key = pair.all->handle.key,
                              .offset = 0,
                              .length = 8};
    tcp_testing_send(fds[1], frame, &two); /* too early */
    struct tcp_frame large = frame;
    large.bytes = TCP_PAYLOAD_BYTES;
    large.length = TCP_PAYLOAD_BYTES;
    large.offset = 4096;
    for (unsigned i = 0; i < 8; i++) /* more than is kept */
        tcp_testing_send(fds[2], large, data);
    frame.offset = 8;
    tcp_testing_send(fds[0], frame, &one);
    assert_int_equal(testing_await_word(pair.all, 8, 0), one);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, 0), 0);
    tcp_testing_send(fds[0], large, data); /* the turn is the second's */
    assert_int_equal(testing_await_word(pair.all, 0, 0), two);
    assert_int_equal(tarn_fabric_error(pair.server), 0);
    tcp_testing_end(&pair, fds, SOCKETS);
}

/* The server's task: until a word has come. */
static void accept_and_wait(void *arg)
{
    struct testing_pair *pair = arg;
    testing_accept(pair);
    (void)testing_await_word(pair->all, 0, 0);
    tarn_fabric_disconnect(pair->server);
    pair->server = NULL;
}

/* However much has come before its turn, it keeps none of the buffers that the one needs whose turn it is. */
static void keep_buffers(struct testing_fabric *testing)
{
    enum { MOST = 1 << 20 };
    struct testing_pair pair;
    struct testing_job job;
    struct tcp_hello welcome;
    static uint8_t rubbish[1 << 16];
    const uint64_t one = 1;
    int fds[TCP_SOCKETS_MAX];
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    testing_start(testing, &job, 1, accept_and_wait,
                  &pair); /* this scheduler is blocked by what is said by hand */
    fds[0] = tcp_testing_dial(testing->address);
    assert_int_equal(tcp_testing_greet_for(fds[0], TCP_SOCKETS_MAX - 1, &welcome), 0);
    for (uint32_t i = 1; i < TCP_SOCKETS_MAX; i++)
        assert_int_equal(join(&pair, welcome.ticket, i, &fds[i]), 0);
    for (uint32_t i = 1; i < TCP_SOCKETS_MAX; i++) {
        ssize_t sent = 1;
        for (size_t all = 0; all < MOST && sent > 0; all += (size_t)sent)
            sent = send(fds[i], rubbish, sizeof(rubbish), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    (void)task_sleep(50 * BASE_NS_PER_MS); /* so that they have what they would keep */
    const struct tcp_frame frame = {.kind = TCP_WRITE,
                                    .last = true,
                                    .bytes = 8,
                                    .domain = pair.all->handle.domain,
                                    .key = pair.all->handle.key,
                                    .length = 8};
    tcp_testing_send(fds[0], frame, &one);
    testing_join(&job);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, 0), one);
    tcp_testing_end(&pair, fds, TCP_SOCKETS_MAX);
}

static void who_waits_for_his_turn_keeps_no_buffers(void **state)
{
    const struct task_sched_options few = {.buffers_count = 16};
    struct testing_fabric testing = {.subject = *state, .test = keep_buffers};
    task_testing_run(NULL, &few, testing_main, &testing);
}

/* When one of them ends, whichever it is, all do, and the connection dies once. */
static void all_end_when_one_does(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_message message;
    static uint8_t room[4096];
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    for (unsigned which = 0; which < SOCKETS; which++) {
        struct testing_job job;
        struct tcp_hello welcome;
        int fds[SOCKETS];
        fds[0] = begin_to_meet(&pair, &job, testing_accept, &welcome);
        assert_int_equal(join(&pair, welcome.ticket, 1, &fds[1]), 0);
        assert_int_equal(join(&pair, welcome.ticket, 2, &fds[2]), 0);
        testing_join(&job);
        assert_int_equal(close(fds[which]), 0);
        assert_int_equal(tarn_fabric_receive(pair.server, room, sizeof(room), TESTING_SECONDS(20), &message),
                         -ECONNRESET);
        for (unsigned i = 0; i < SOCKETS; i++) {
            if (i == which)
                continue;
            assert_true(tcp_testing_ends(fds[i]));
            assert_int_equal(close(fds[i]), 0);
        }
        tarn_fabric_disconnect(pair.server);
        pair.server = NULL;
    }
    testing_connect(&pair);
    testing_pair_close(&pair);
}

/* Both sides of several sockets, each with much in flight in both directions at once. */
static void much_goes_both_ways(struct testing_fabric *testing)
{
    enum { OPS = 24, BYTES = 60000 };
    struct testing_pair pair;
    struct tarn_fabric *usual = testing->fabric;
    struct tarn_fabric_op ops[2][OPS];
    struct iovec vectors[2][OPS];
    assert_int_equal(tarn_fabric_open(testing->node, "tcp:sockets=8", &testing->fabric), 0);
    testing_pair_open(testing, &pair, NULL);
    struct tarn_fabric_connection *const sides[] = {pair.client, pair.server};
    struct tarn_fabric_region *region =
        testing_region(pair.client_domain, TESTING_BYTES, TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE);
    const struct tarn_fabric_handle *const handles[] = {&pair.all->handle, &region->handle};
    for (unsigned side = 0; side < 2; side++) {
        for (unsigned i = 0; i < OPS; i++) {
            uint64_t bytes = i % 3 == 0 ? 8 : BYTES;
            uint8_t *memory = malloc(bytes);
            assert_non_null(memory);
            testing_fill(memory, bytes, i / 8);
            vectors[side][i] = (struct iovec){.iov_base = memory, .iov_len = bytes};
            ops[side][i] = (struct tarn_fabric_op){.kind = i < OPS / 2 ? TARN_FABRIC_WRITE : TARN_FABRIC_READ,
                                                   .fence = i == OPS / 2,
                                                   .handle = handles[side],
                                                   .offset = i % 4 * BYTES,
                                                   .iov = &vectors[side][i],
                                                   .iov_count = 1};
        }
        tarn_fabric_post(sides[side], ops[side], OPS);
    }
    for (unsigned side = 0; side < 2; side++) {
        assert_int_equal(tarn_fabric_wait(ops[side], OPS, TESTING_SECONDS(20)), 0);
        for (unsigned i = OPS / 2; i < OPS;
             i++) { /* in the end the last that was written there, or a part of it */
            const struct tarn_fabric_region *at = side == 0 ? pair.all : region;
            testing_expect(at, ops[side][i].offset, vectors[side][i].iov_base, vectors[side][i].iov_len);
        }
        for (unsigned i = 0; i < OPS; i++)
            free(vectors[side][i].iov_base);
    }
    tarn_fabric_region_free(region);
    testing_pair_close(&pair);
    tarn_fabric_close(testing->fabric);
    testing->fabric = usual;
}

#define IN_THREADS(test)                                                                                     \
    static void test##_in_threads(void **state)                                                              \
    {                                                                                                        \
        testing_run(state, test, false);                                                                     \
    }

IN_THREADS(only_its_own_join)
IN_THREADS(who_does_not_bring_them_all_is_given_up)
IN_THREADS(what_comes_before_its_turn_waits)
IN_THREADS(all_end_when_one_does)
TESTING_BOTH(much_goes_both_ways)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_its_own_join_in_threads),
        cmocka_unit_test(who_does_not_bring_them_all_is_given_up_in_threads),
        cmocka_unit_test(who_has_joined_and_is_not_taken_is_refused),
        cmocka_unit_test(what_comes_before_its_turn_waits_in_threads),
        cmocka_unit_test(who_waits_for_his_turn_keeps_no_buffers),
        cmocka_unit_test(all_end_when_one_does_in_threads),
        TESTING_UNITS(much_goes_both_ways),
    };
    return cmocka_run_group_tests(tests, tcp_testing_setup, NULL);
}
