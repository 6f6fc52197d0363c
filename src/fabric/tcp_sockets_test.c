/*
 * Several sockets of one connection: who may join, that all of it ends when one of them does, and that what is said
 * by turns is the same as what is said by one. In plain threads: here the others' sockets block.
 */
#include "base/random.h"
#include "fabric/tcp/connection.h"
#include "fabric/tcp_testing.h"

enum { SOCKETS = 3 };

/* Say hello by hand for so many sockets. @param ret_ticket  by which further ones join */
static int begin_to_meet(const struct testing_pair *pair, uint32_t count, struct tcp_hello *ret_ticket)
{
    const struct tarn_fabric_connect_options options = {.receive_count = 4, .receive_bytes = 64};
    struct tcp_hello hello = tcp_hello_make(TCP_HELLO, &options);
    hello.number = count - 1;
    int fd = tcp_testing_dial(pair->testing->address);
    tcp_testing_ask(fd, &hello);
    assert_int_equal(tcp_testing_hear_hello(fd, TCP_TICKET, ret_ticket), 0);
    return fd;
}

static int join(const struct testing_pair *pair, const struct tcp_hello *ticket, uint32_t number)
{
    struct tcp_hello hello = *ticket;
    int fd = tcp_testing_dial(pair->testing->address);
    hello.kind = TCP_JOIN;
    hello.number = number;
    tcp_testing_ask(fd, &hello);
    return fd;
}

/* Hear an answer, and then the end. */
static void expect_refusal(int fd, int error)
{
    struct tcp_hello answer;
    assert_int_equal(tcp_testing_hear_hello(fd, TCP_WELCOME, &answer), error);
    assert_true(tcp_testing_ends(fd));
    assert_int_equal(close(fd), 0);
}

/* Be let in with all sockets. */
static void meet_with(struct testing_pair *pair, int *ret_fds, uint32_t count)
{
    struct testing_job job;
    struct tcp_hello ticket, welcome;
    testing_start(pair->testing, &job, 0, testing_accept, pair);
    ret_fds[0] = begin_to_meet(pair, count, &ticket);
    for (uint32_t i = 1; i < count; i++)
        ret_fds[i] = join(pair, &ticket, i);
    assert_int_equal(tcp_testing_hear_hello(ret_fds[0], TCP_WELCOME, &welcome), 0);
    testing_join(&job);
}

/* A socket without a ticket, or for the place of another, is refused, and harms nobody. */
static void only_its_own_join(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct testing_job job;
    struct tcp_hello ticket, guess, welcome;
    int fds[SOCKETS];
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    testing_start(testing, &job, 0, testing_accept, &pair);
    fds[0] = begin_to_meet(&pair, SOCKETS, &ticket);
    guess = ticket;
    guess.ticket[TCP_TICKET_BYTES - 1] ^= 1;
    expect_refusal(join(&pair, &guess, 1), -ECONNREFUSED);        /* no ticket */
    expect_refusal(join(&pair, &ticket, SOCKETS), -ECONNREFUSED); /* there is no such place */
    expect_refusal(join(&pair, &ticket, 0), -EPROTO);
    expect_refusal(join(&pair, &ticket, TCP_SOCKETS_MAX), -EPROTO);
    fds[1] = join(&pair, &ticket, 1);
    expect_refusal(join(&pair, &ticket, 1), -ECONNREFUSED); /* taken */
    fds[2] = join(&pair, &ticket, 2);
    assert_int_equal(tcp_testing_hear_hello(fds[0], TCP_WELCOME, &welcome), 0);
    testing_join(&job);
    expect_refusal(join(&pair, &ticket, 2), -ECONNREFUSED); /* nobody waits any more */
    assert_int_equal(tarn_fabric_error(pair.server), 0);
    tcp_testing_end(&pair, fds, SOCKETS);
}

/* A client that promises sockets and does not bring them has no connection after a while; those that it brought are
 * refused. */
static void who_does_not_bring_them_all_is_given_up(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_incoming *incoming;
    struct tcp_hello ticket;
    struct tarn_fabric *usual = testing->fabric;
    assert_int_equal(tarn_fabric_open(testing->node, "tcp:heartbeat=100ms", &testing->fabric), 0);
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    unsigned descriptors = testing_descriptors();
    int first = begin_to_meet(&pair, SOCKETS, &ticket), joined = join(&pair, &ticket, 2);
    expect_refusal(first, -ECONNREFUSED);
    expect_refusal(joined, -ECONNREFUSED);
    assert_int_equal(tarn_fabric_listener_wait(pair.listener, task_now(), &incoming), -ETIMEDOUT);
    testing_expect_descriptors(descriptors);
    testing_pair_close(&pair);
    tarn_fabric_close(testing->fabric);
    testing->fabric = usual;
}

/* A client that does not bring its sockets holds up no other: accepting does not wait for it. */
static void accepting_goes_on_meanwhile(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tcp_hello ticket;
    struct tarn_fabric *usual = testing->fabric;
    assert_int_equal(tarn_fabric_open(testing->node, "tcp:heartbeat=1m", &testing->fabric), 0);
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    int first = begin_to_meet(&pair, SOCKETS, &ticket), joined = join(&pair, &ticket, 2);
    for (unsigned i = 0; i < 3; i++) {
        testing_connect(&pair);
        testing_disconnect(&pair);
    }
    tarn_fabric_listener_close(pair.listener); /* now there is nothing that it could wait for */
    expect_refusal(first, -ECONNREFUSED);
    expect_refusal(joined, -ECONNREFUSED);
    assert_int_equal(tarn_fabric_listen(testing->fabric, testing->address, &pair.listener), 0);
    testing_pair_close(&pair);
    tarn_fabric_close(testing->fabric);
    testing->fabric = usual;
}

/* A client with all its sockets that is rejected learns it; its other sockets do, too. */
static void all_are_refused_when_one_is(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_incoming *incoming;
    struct tcp_hello ticket;
    int fds[SOCKETS];
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    fds[0] = begin_to_meet(&pair, SOCKETS, &ticket);
    for (uint32_t i = 1; i < SOCKETS; i++)
        fds[i] = join(&pair, &ticket, i);
    assert_int_equal(tarn_fabric_listener_wait(pair.listener, TESTING_LATE, &incoming), 0);
    tarn_fabric_reject(incoming, -ENOMEM);
    for (uint32_t i = 0; i < SOCKETS; i++)
        expect_refusal(fds[i], -ENOBUFS);
    testing_pair_close(&pair);
}

/* A frame goes by the socket whose turn it is; by another it waits, and nothing of it is done before. */
static void what_comes_before_its_turn_waits(struct testing_fabric *testing)
{
    struct testing_pair pair;
    static uint8_t data[TCP_PAYLOAD_BYTES];
    const uint64_t one = 1, two = 2;
    int fds[SOCKETS];
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    meet_with(&pair, fds, SOCKETS);
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
    struct tcp_hello ticket, welcome;
    static uint8_t rubbish[1 << 16];
    const uint64_t one = 1;
    int fds[TCP_SOCKETS_MAX];
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    testing_start(testing, &job, 1, accept_and_wait,
                  &pair); /* this scheduler is blocked by what is said by hand */
    fds[0] = begin_to_meet(&pair, TCP_SOCKETS_MAX, &ticket);
    for (uint32_t i = 1; i < TCP_SOCKETS_MAX; i++)
        fds[i] = join(&pair, &ticket, i);
    assert_int_equal(tcp_testing_hear_hello(fds[0], TCP_WELCOME, &welcome), 0);
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
        int fds[SOCKETS];
        meet_with(&pair, fds, SOCKETS);
        assert_int_equal(close(fds[which]), 0);
        assert_int_equal(tarn_fabric_receive(pair.server, room, sizeof(room), TESTING_LATE, &message),
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
        assert_int_equal(tarn_fabric_wait(ops[side], OPS, TESTING_LATE), 0);
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
IN_THREADS(accepting_goes_on_meanwhile)
IN_THREADS(all_are_refused_when_one_is)
IN_THREADS(what_comes_before_its_turn_waits)
IN_THREADS(all_end_when_one_does)
TESTING_BOTH(much_goes_both_ways)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_its_own_join_in_threads),
        cmocka_unit_test(who_does_not_bring_them_all_is_given_up_in_threads),
        cmocka_unit_test(accepting_goes_on_meanwhile_in_threads),
        cmocka_unit_test(all_are_refused_when_one_is_in_threads),
        cmocka_unit_test(what_comes_before_its_turn_waits_in_threads),
        cmocka_unit_test(who_waits_for_his_turn_keeps_no_buffers),
        cmocka_unit_test(all_end_when_one_does_in_threads),
        TESTING_UNITS(much_goes_both_ways),
    };
    return cmocka_run_group_tests(tests, tcp_testing_setup, NULL);
}
