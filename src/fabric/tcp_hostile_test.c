/*
 * Peers of `tcp` that keep to nothing: whatever they say, before they are let in and after, they touch no memory that
 * is not theirs, harm nobody else, and their connection is over. In plain threads: here the peer's sockets block.
 */
#include "base/random.h"
#include "fabric/tcp/wire.h"
#include "fabric/tcp_testing.h"

/* ---- before there is a connection ---------------------------------------------------------------- */

enum { STRANGERS = 300 };

static void rubbish_is_no_hello(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct base_random random;
    struct tcp_hello hello;
    uint8_t bytes[2 * TCP_HELLO_BYTES], answer[TCP_HELLO_BYTES];
    base_random_init(&random, 1);
    testing_pair_open(testing, &pair, NULL);
    for (unsigned i = 0; i < STRANGERS; i++) {
        int fd = tcp_testing_dial(testing->address);
        base_random_fill(&random, bytes, sizeof(bytes));
        size_t count = 1 + base_random_below(&random, sizeof(bytes));
        if (i % 2 == 0) { /* nearly a hello */
            const struct tarn_fabric_connect_options options = {.receive_count = 1, .receive_bytes = 1};
            hello = tcp_hello_make(TCP_HELLO, &options);
            tcp_hello_save(&hello, bytes);
            bytes[base_random_below(&random, TCP_HELLO_BYTES)] ^=
                (uint8_t)(1 + base_random_below(&random, 255));
            count = TCP_HELLO_BYTES;
        }
        tcp_testing_say(fd, bytes, count);
        if (count >= TCP_HELLO_BYTES) { /* it is told that it is refused, and nothing else */
            assert_true(tcp_testing_hear(fd, answer, sizeof(answer)));
            assert_int_equal(tcp_hello_load(answer, TCP_WELCOME, &hello), -EPROTO);
            assert_false(tcp_testing_hear(fd, answer, 1));
        }
        assert_int_equal(close(fd), 0);
    }
    testing_disconnect(&pair);
    testing_connect(&pair);
    testing_pair_close(&pair);
}

/* Hellos that are none, but whose checksum is right. */
static void hellos_have_bounds(struct testing_fabric *testing)
{
    (void)testing;
    const struct tarn_fabric_connect_options good = {.receive_count = 1, .receive_bytes = 1};
    const struct tcp_hello hello = tcp_hello_make(TCP_HELLO, &good);
    struct tcp_hello back;
    uint8_t bytes[TCP_HELLO_BYTES];
    const struct tcp_hello wrong[] = {
        {.kind = TCP_HELLO, .receive_count = 0, .receive_bytes = 1},
        {.kind = TCP_HELLO, .receive_count = 1, .receive_bytes = 0},
        {.kind = TCP_HELLO, .receive_count = TARN_FABRIC_RECEIVE_COUNT_MAX + 1, .receive_bytes = 1},
        {.kind = TCP_HELLO, .receive_count = 1, .receive_bytes = TARN_FABRIC_RECEIVE_BYTES_MAX + 1},
        {.kind = TCP_HELLO,
         .receive_count = 1,
         .receive_bytes = 1,
         .data_bytes = TARN_FABRIC_PRIVATE_BYTES_MAX + 1},
        {.kind = TCP_HELLO, .receive_count = 1, .receive_bytes = 1, .number = 8},
        {.kind = TCP_WELCOME, .receive_count = 1, .receive_bytes = 1},
        {.kind = TCP_REFUSAL, .number = 77},
    };
    tcp_hello_save(&hello, bytes);
    assert_int_equal(tcp_hello_load(bytes, TCP_HELLO, &back), 0);
    for (unsigned i = 0; i < base_array_count(wrong); i++) {
        tcp_hello_save(&wrong[i], bytes);
        assert_int_equal(tcp_hello_load(bytes, TCP_HELLO, &back), -EPROTO);
    }
}

/* A client that has said its hello and was not accepted when the listener closes is refused; one that had said nothing is dropped. */
static void who_waits_when_the_listener_closes_is_told(struct testing_fabric *testing)
{
    const struct tarn_fabric_connect_options options = {.receive_count = 1, .receive_bytes = 1};
    const struct tcp_hello hello = tcp_hello_make(TCP_HELLO, &options);
    struct testing_pair pair;
    struct tcp_hello answer;
    int error = -ECONNRESET;
    testing_pair_open(testing, &pair, NULL);
    for (uint64_t patience_ns = BASE_NS_PER_MS; error == -ECONNRESET; patience_ns *= 2) {
        assert_true(patience_ns < 10 * BASE_NS_PER_SECOND);
        int speaks = tcp_testing_dial(testing->address), silent = tcp_testing_dial(testing->address);
        tcp_testing_ask(speaks, &hello);
        (void)task_sleep(patience_ns); /* for the hello to be looked at; else it is dropped as well */
        tarn_fabric_listener_close(pair.listener);
        error = tcp_testing_hear_hello(speaks, TCP_WELCOME, &answer);
        assert_true(tcp_testing_ends(speaks) && tcp_testing_ends(silent));
        assert_int_equal(close(speaks), 0);
        assert_int_equal(close(silent), 0);
        assert_int_equal(tarn_fabric_listen(testing->fabric, testing->address, &pair.listener), 0);
    }
    assert_int_equal(error, -ECONNREFUSED);
    testing_pair_close(&pair);
}

/* A hello of another version is refused, and the log says why on both sides. */
static void other_versions_are_refused(struct testing_fabric *testing)
{
    const struct tarn_fabric_connect_options options = {.receive_count = 1, .receive_bytes = 1};
    const struct tcp_hello hello = tcp_hello_make(TCP_HELLO, &options);
    struct testing_pair pair;
    struct tcp_hello answer;
    uint8_t bytes[TCP_HELLO_BYTES];
    testing_pair_open(testing, &pair, NULL);
    for (uint16_t version = 0; version < 5; version++) {
        if (version == 3)
            continue;
        tcp_hello_save(&hello, bytes);
        base_store_le16(bytes + 4, version);
        base_store_le32(bytes + TCP_HELLO_BYTES - 4, base_crc32c(0, bytes, TCP_HELLO_BYTES - 4));
        assert_int_equal(tcp_hello_load(bytes, TCP_HELLO, &answer), -EPROTONOSUPPORT);
        int fd = tcp_testing_dial(testing->address);
        tcp_testing_say(fd, bytes, sizeof(bytes));
        assert_int_equal(tcp_testing_hear_hello(fd, TCP_WELCOME, &answer), -EPROTO);
        assert_true(tcp_testing_ends(fd));
        assert_int_equal(close(fd), 0);
    }
    testing_pair_close(&pair);
}

/* ---- requests ------------------------------------------------------------------------------------ */

/* The server's memory, with a region that is nobody's business: what must not change. */
static void expect_untouched(struct testing_pair *pair)
{
    static uint8_t zeros[TESTING_BYTES];
    testing_expect(pair->readable, 0, zeros, TESTING_BYTES);
}

/** Wait for the server's end of the connection. @return what it died of */
static int death_of_server(struct testing_pair *pair)
{
    struct tarn_fabric_message message;
    static uint8_t room[4096];
    int error = 0;
    while (error == 0)
        error = tarn_fabric_receive(pair->server, room, sizeof(room), TESTING_LATE, &message);
    tarn_fabric_disconnect(pair->server);
    pair->server = NULL;
    return error;
}

static struct tcp_frame request(const struct testing_pair *pair, enum tcp_frame_kind kind, uint64_t offset,
                                uint64_t length)
{
    const struct tarn_fabric_handle *handle = &pair->all->handle;
    return (struct tcp_frame){.kind = kind,
                              .last = true,
                              .domain = handle->domain,
                              .key = handle->key,
                              .offset = offset,
                              .length = length};
}

/* Part of it would be allowed: nothing of it is done, and its initiator learns which request it was. */
static void nothing_is_done_of_what_is_refused(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tcp_frame frame;
    static uint8_t data[TCP_PAYLOAD_BYTES];
    const uint64_t two = 2;
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    int fd = tcp_testing_meet(&pair);
    frame = request(&pair, TCP_FAA, 8, 0);
    frame.bytes = 8;
    tcp_testing_send(fd, frame, &two);
    assert_true(tcp_testing_receive(fd, &frame, data)); /* of a dead connection it would not be answered */
    assert_int_equal(frame.kind, TCP_WORD);
    memset(data, 0xee, sizeof(data));
    frame = request(&pair, TCP_WRITE, TESTING_BYTES - TCP_PAYLOAD_BYTES, TCP_PAYLOAD_BYTES + 1);
    frame.bytes = TCP_PAYLOAD_BYTES;
    frame.last = false;
    tcp_testing_send(fd, frame, data);
    assert_true(tcp_testing_receive(fd, &frame, data));
    assert_int_equal(frame.kind, TCP_BYE);
    assert_int_equal(frame.value, TCP_REFUSES);
    assert_int_equal(frame.offset, 2);
    assert_int_equal(death_of_server(&pair), -ECONNRESET);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, 8), 2);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, TESTING_BYTES - TCP_PAYLOAD_BYTES), 0);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, TESTING_BYTES - 8), 0);
    tcp_testing_end(&pair, &fd, 1);
}

/* Each of these is against the rules of frames: the server gives up. */
static void broken_rules_end_the_connection(struct testing_fabric *testing)
{
    struct testing_pair pair;
    static uint8_t data[TCP_FRAME_BYTES];
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    const struct tcp_frame wrong[] = {
        {.kind = TCP_READ, .length = 8},                           /* not last */
        {.kind = TCP_READ, .last = true, .bytes = 8, .length = 8}, /* with a payload */
        {.kind = TCP_READ, .last = true, .length = TARN_FABRIC_BYTES_MAX + 1},
        {.kind = TCP_WRITE, .last = true, .bytes = 8, .length = 9},
        {.kind = TCP_WRITE, .bytes = 8, .length = 8},
        {.kind = TCP_WRITE, .last = true, .bytes = 9, .length = 8},
        {.kind = TCP_CAS, .last = true, .bytes = 8},
        {.kind = TCP_CAS, .last = true, .bytes = 16, .offset = 4},
        {.kind = TCP_FAA, .last = true, .bytes = 16},
        {.kind = TCP_FAA, .bytes = 8},
        {.kind = TCP_WRITE, .last = true, .bytes = TCP_PAYLOAD_BYTES + 8, .length = TCP_PAYLOAD_BYTES + 8},
        {.kind = TCP_READ, .last = true, .bulk = true, .length = 8}, /* bulk is for WRITEs */
        {.kind = TCP_SEND, .last = true, .bulk = true, .bytes = 8, .length = 8},
        {.kind = TCP_WORD, .last = true, .bulk = true, .bytes = 8},
        {.kind = TCP_SEND, .last = true, .bytes = 8, .length = 9},
        {.kind = TCP_SEND, .last = true, .bytes = 8, .offset = 8, .length = 16},
        {.kind = TCP_SEND, .bytes = 8, .length = 5000}, /* longer than it may be */
        {.kind = TCP_DATA, .last = true},               /* nobody has asked */
        {.kind = TCP_WORD, .last = true, .bytes = 8},
        {.kind = TCP_STATE, .done = 1}, /* nothing was sent */
        {.kind = TCP_STATE, .received = 1},
        {.kind = TCP_BYE, .value = 9},
        {.kind = TCP_BYE, .value = TCP_REFUSES, .offset = 1},
    };
    for (unsigned i = 0; i < base_array_count(wrong); i++) {
        struct tcp_frame frame = wrong[i];
        frame.domain = pair.all->handle.domain;
        frame.key = pair.all->handle.key;
        int fd = tcp_testing_meet(&pair);
        tcp_testing_send(fd, frame, data);
        assert_int_equal(death_of_server(&pair), -EPROTO);
        assert_int_equal(close(fd), 0);
    }
    assert_true(base_is_zero(pair.all->memory, TESTING_BYTES));
    testing_pair_close(&pair);
}

static void the_window_is_kept(struct testing_fabric *testing)
{
    struct testing_pair pair;
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    int fd = tcp_testing_meet(&pair);
    for (unsigned i = 0; i < TCP_WINDOW + 100; i++) { /* more than sockets hold the answers of */
        struct tcp_frame frame = request(&pair, TCP_READ, 0, TESTING_BYTES);
        uint8_t bytes[TCP_HEADER_BYTES];
        tcp_frame_seal(&frame, true, bytes);
        (void)send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
    }
    assert_int_equal(death_of_server(&pair), -EPROTO);
    tcp_testing_end(&pair, &fd, 1);
}

static void credit_is_kept(struct testing_fabric *testing)
{
    struct testing_pair pair;
    const struct tarn_fabric_connect_options few = {.receive_count = 2, .receive_bytes = 64};
    struct tarn_fabric_message message;
    uint8_t room[64];
    for (unsigned notify = 0; notify < 2; notify++) {
        testing_pair_open(testing, &pair, &few);
        testing_disconnect(&pair);
        int fd = tcp_testing_meet(&pair);
        for (unsigned i = 0; i < 3; i++)
            tcp_testing_send(fd, request(&pair, notify == 0 ? TCP_SEND : TCP_WRITE_NOTIFY, 0, 0), NULL);
        for (uint64_t until_ns = TESTING_LATE; tarn_fabric_error(pair.server) == 0 && task_now() < until_ns;)
            (void)task_sleep(1000000);
        assert_int_equal(tarn_fabric_error(pair.server), -EPROTO);
        for (unsigned i = 0; i < 2; i++) /* what there was room for is there */
            assert_int_equal(tarn_fabric_receive(pair.server, room, sizeof(room), TESTING_SOON, &message), 0);
        assert_int_equal(death_of_server(&pair), -EPROTO);
        tcp_testing_end(&pair, &fd, 1);
    }
}

/* A frame that says anything, with a right checksum. */
static struct tcp_frame any_frame(struct base_random *random, const struct testing_pair *pair,
                                  uint8_t *payload)
{
    const struct tarn_fabric_region *region = base_random_below(random, 3) == 0 ? pair->readable : pair->all;
    struct tcp_frame frame = {.kind = (enum tcp_frame_kind)(TCP_READ + base_random_below(random, TCP_BYE)),
                              .last = base_random_below(random, 4) != 0,
                              .probe = base_random_below(random, 4) == 0,
                              .bulk = base_random_below(random, 4) == 0,
                              .value = (uint32_t)base_random_below(random, 4),
                              .done = base_random_below(random, 16) == 0 ? base_random_u64(random) : 0,
                              .received = base_random_below(random, 16) == 0 ? base_random_u64(random) : 0,
                              .domain = region->handle.domain,
                              .key = region->handle.key,
                              .offset = base_random_below(random, TESTING_BYTES + 64),
                              .length = base_random_below(random, 200)};
    frame.bytes =
        base_random_below(random, 2) == 0 ? (uint32_t)frame.length : (uint32_t)base_random_below(random, 64);
    if (base_random_below(random, 8) == 0)
        frame.offset = base_random_u64(random);
    if (base_random_below(random, 8) == 0)
        frame.length = base_random_u64(random);
    if (base_random_below(random, 8) == 0)
        frame.key ^= UINT64_C(1) << base_random_below(random, 64);
    memset(payload, 0xee, frame.bytes);
    return frame;
}

static void whatever_is_asked_keeps_within_rights(struct testing_fabric *testing)
{
    enum { ROUNDS = 300 };
    struct testing_pair pair;
    struct base_random random;
    static uint8_t bytes[TCP_FRAME_BYTES];
    base_random_init(&random, 2);
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    for (unsigned i = 0; i < ROUNDS; i++) {
        int fd = tcp_testing_meet(&pair);
        for (unsigned j = 0; j < 40; j++) {
            struct tcp_frame frame = any_frame(&random, &pair, bytes + TCP_HEADER_BYTES);
            tcp_frame_seal(&frame, true, bytes);
            size_t count = TCP_HEADER_BYTES + frame.bytes;
            if (base_random_below(&random, 32) == 0)
                bytes[base_random_below(&random, count)] ^= 1;
            if (send(fd, bytes, count, MSG_NOSIGNAL) < 0)
                break;
        }
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        int error = death_of_server(&pair);
        assert_true(error == -EPROTO || error == -ECONNRESET || error == -EPIPE);
        assert_int_equal(close(fd), 0);
        expect_untouched(&pair);
    }
    testing_connect(&pair); /* and others are served as ever */
    testing_pair_close(&pair);
}

/* ---- answers ------------------------------------------------------------------------------------- */

struct false_answer {
    enum tcp_frame_kind kind;
    bool last;
    uint32_t bytes;
    uint64_t done;
};

static void false_answers_are_not_taken(struct testing_fabric *testing)
{
    struct testing_pair pair;
    uint8_t memory[3][64];
    static uint8_t data[TCP_PAYLOAD_BYTES];
    const struct false_answer answers[] = {
        {.kind = TCP_DATA, .last = true, .bytes = 65, .done = 1}, /* too much */
        {.kind = TCP_DATA, .last = true, .bytes = 63, .done = 1}, /* too little, and that is all */
        {.kind = TCP_DATA, .last = false, .bytes = 64, .done = 1},
        {.kind = TCP_DATA, .last = true, .bytes = 64, .done = 2},
        {.kind = TCP_WORD, .last = true, .bytes = 8, .done = 1},
        {.kind = TCP_STATE, .last = false, .bytes = 0, .done = 1}, /* done, but where is it? */
    };
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    memset(data, 0xee, sizeof(data));
    for (unsigned i = 0; i < base_array_count(answers); i++) {
        struct tcp_frame frame;
        const struct iovec vector = {.iov_base = memory[1], .iov_len = sizeof(memory[1])};
        struct tarn_fabric_op op = {
            .kind = TARN_FABRIC_READ, .handle = &pair.all->handle, .iov = &vector, .iov_count = 1};
        int fd = tcp_testing_meet(&pair);
        memset(memory, 0, sizeof(memory));
        tarn_fabric_post(pair.server, &op, 1);
        assert_true(tcp_testing_receive(fd, &frame, NULL));
        assert_int_equal(frame.kind, TCP_READ);
        tcp_testing_send(fd,
                         (struct tcp_frame){.kind = answers[i].kind,
                                            .last = answers[i].last,
                                            .bytes = answers[i].bytes,
                                            .done = answers[i].done},
                         data);
        assert_int_equal(tarn_fabric_wait(&op, 1, TESTING_LATE), -EPROTO);
        assert_true(base_is_zero(memory[0], sizeof(memory[0])) && base_is_zero(memory[2], sizeof(memory[2])));
        tcp_testing_leave(&pair, &fd, 1);
    }
    testing_pair_close(&pair);
}

/* ---- the end ------------------------------------------------------------------------------------- */

/* What was fenced writes no more, not even with a key that was its own. */
static void after_a_fence_nothing_is_written(struct testing_fabric *testing)
{
    struct testing_pair pair;
    uint64_t word = UINT64_MAX;
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    int fd = tcp_testing_meet(&pair);
    struct tcp_frame frame = request(&pair, TCP_WRITE, 0, 8);
    frame.bytes = 8;
    tcp_testing_send(fd, frame, &word);
    assert_int_equal(testing_await_word(pair.all, 0, 0), word);
    assert_int_equal(tarn_fabric_fence(pair.server, TESTING_SOON), 0);
    tarn_fabric_mem_store64(pair.all, 0, 0);
    for (unsigned i = 0; i < 100; i++) {
        tcp_testing_send(fd, frame, &word);
        assert_int_equal(tarn_fabric_mem_load64(pair.all, 0), 0);
    }
    (void)task_sleep(20000000);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, 0), 0);
    tcp_testing_end(&pair, &fd, 1);
}

/* Who takes nothing that is sent to it does not keep its peer from leaving. */
static void who_reads_nothing_is_left(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric *usual = testing->fabric;
    assert_int_equal(tarn_fabric_open(testing->node, "tcp:heartbeat=100ms", &testing->fabric), 0);
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    int fd = tcp_testing_meet(&pair);
    for (unsigned i = 0; i < 100; i++)
        tcp_testing_send(fd, request(&pair, TCP_READ, 0, TESTING_BYTES), NULL);
    (void)task_sleep(20000000);
    uint64_t begin_ns = task_now();
    tarn_fabric_disconnect(pair.server);
    assert_true(task_now() - begin_ns < 30 * BASE_NS_PER_SECOND);
    pair.server = NULL;
    tcp_testing_end(&pair, &fd, 1);
    tarn_fabric_close(testing->fabric);
    testing->fabric = usual;
}

/* ---- heartbeats ---------------------------------------------------------------------------------- */

#define HEARTBEAT_NS (200 * BASE_NS_PER_MS)

/* A peer that says nothing any more: its host is gone, or a cable. */
static void the_silent_are_given_up(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric *usual = testing->fabric;
    uint8_t probe[TCP_HEADER_BYTES];
    struct tcp_frame frame;
    assert_int_equal(tarn_fabric_open(testing->node, "tcp:heartbeat=200ms", &testing->fabric), 0);
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    uint64_t begin_ns = task_now();
    int fd = tcp_testing_meet(&pair);
    assert_int_equal(death_of_server(&pair), -ECONNRESET);
    assert_true(task_now() - begin_ns >= 2 * HEARTBEAT_NS); /* and less than three, on an idle machine */
    assert_true(tcp_testing_hear(fd, probe, sizeof(probe)));
    assert_int_equal(tcp_frame_open(probe, &frame), 0);
    assert_true(frame.kind == TCP_STATE && frame.probe);
    assert_int_equal(close(fd), 0);

    testing_connect(&pair); /* those who have nothing to say are no such */
    (void)task_sleep(6 * HEARTBEAT_NS);
    assert_int_equal(tarn_fabric_error(pair.client), 0);
    assert_int_equal(tarn_fabric_error(pair.server), 0);
    testing_pair_close(&pair);
    tarn_fabric_close(testing->fabric);
    testing->fabric = usual;
}

/* ---- URLs and addresses -------------------------------------------------------------------------- */

static void it_stays_on_this_machine(struct testing_fabric *testing)
{
    static const char *const beyond[] = {"0.0.0.0:0", "[::]:0", "192.0.2.1:9", "localhost:0", ""};
    struct tarn_fabric_listener *listener;
    struct tarn_fabric_connection *connection;
    struct tarn_fabric_domain *domain = testing_domain(testing->fabric, 0, 4096);
    for (unsigned i = 0; i < base_array_count(beyond); i++) {
        assert_int_equal(tarn_fabric_listen(testing->fabric, beyond[i], &listener), -EPERM);
        assert_int_equal(tarn_fabric_connect(domain, beyond[i], NULL, TESTING_SOON, &connection), -EPERM);
    }
    assert_int_equal(tarn_fabric_listen(testing->fabric, "unix:/tmp/x", &listener), -EINVAL);
    assert_int_equal(tarn_fabric_listen(testing->fabric, "127.0.0.1", &listener), -EINVAL);
    assert_int_equal(tarn_fabric_listen(testing->fabric, "127.0.0.1:70000", &listener), -EINVAL);
    tarn_fabric_domain_close(domain);
    static const char *const able[] = {"insecure", "secret=file", "tls,cert=c,key=k,ca=a"};
    for (unsigned i = 0; i < base_array_count(able) * base_array_count(beyond); i++) {
        struct tcp told = {.node = testing->node};
        assert_int_equal(
            tcp_options_read(&testing->node->log, able[i % base_array_count(able)], &told.options), 0);
        assert_int_equal(tcp_check_address(&told, beyond[i / base_array_count(able)]), 0);
    }
}

static void urls_are_checked(struct testing_fabric *testing)
{
    static const char *const wrong[] = {"tcp:127.0.0.1",     "tcp:insecure=yes", "tcp:secret=",
                                        "tcp:heartbeat=",    "tcp:heartbeat=5",  "tcp:heartbeat=19ms",
                                        "tcp:heartbeat=61m", "tcp:insecure;",    "tcp: insecure",
                                        "tcp:sockets=",      "tcp:sockets=0",    "tcp:sockets=9"};
    static const char *const right[] = {"tcp:", "tcp:heartbeat=20ms", "tcp:insecure,heartbeat=1h",
                                        "tcp:sockets=8"};
    struct tarn_fabric *fabric;
    for (unsigned i = 0; i < base_array_count(wrong); i++)
        assert_int_equal(tarn_fabric_open(testing->node, wrong[i], &fabric), -EINVAL);
    for (unsigned i = 0; i < base_array_count(right); i++) {
        assert_int_equal(tarn_fabric_open(testing->node, right[i], &fabric), 0);
        tarn_fabric_close(fabric);
    }
}

/* ---- in plain threads ---------------------------------------------------------------------------- */

#define IN_THREADS(test)                                                                                     \
    static void test##_in_threads(void **state)                                                              \
    {                                                                                                        \
        testing_run(state, test, false);                                                                     \
    }

IN_THREADS(rubbish_is_no_hello)
IN_THREADS(hellos_have_bounds)
IN_THREADS(who_waits_when_the_listener_closes_is_told)
IN_THREADS(other_versions_are_refused)
IN_THREADS(nothing_is_done_of_what_is_refused)
IN_THREADS(broken_rules_end_the_connection)
IN_THREADS(the_window_is_kept)
IN_THREADS(credit_is_kept)
IN_THREADS(whatever_is_asked_keeps_within_rights)
IN_THREADS(false_answers_are_not_taken)
IN_THREADS(after_a_fence_nothing_is_written)
IN_THREADS(who_reads_nothing_is_left)
IN_THREADS(the_silent_are_given_up)
IN_THREADS(it_stays_on_this_machine)
IN_THREADS(urls_are_checked)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rubbish_is_no_hello_in_threads),
        cmocka_unit_test(hellos_have_bounds_in_threads),
        cmocka_unit_test(who_waits_when_the_listener_closes_is_told_in_threads),
        cmocka_unit_test(other_versions_are_refused_in_threads),
        cmocka_unit_test(nothing_is_done_of_what_is_refused_in_threads),
        cmocka_unit_test(broken_rules_end_the_connection_in_threads),
        cmocka_unit_test(the_window_is_kept_in_threads),
        cmocka_unit_test(credit_is_kept_in_threads),
        cmocka_unit_test(whatever_is_asked_keeps_within_rights_in_threads),
        cmocka_unit_test(false_answers_are_not_taken_in_threads),
        cmocka_unit_test(after_a_fence_nothing_is_written_in_threads),
        cmocka_unit_test(who_reads_nothing_is_left_in_threads),
        cmocka_unit_test(the_silent_are_given_up_in_threads),
        cmocka_unit_test(it_stays_on_this_machine_in_threads),
        cmocka_unit_test(urls_are_checked_in_threads),
    };
    return cmocka_run_group_tests(tests, tcp_testing_setup, NULL);
}
