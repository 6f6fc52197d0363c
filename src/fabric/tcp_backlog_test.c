/* Clients before they are let in: which of them give way and when, without sockets; and listeners' clients that stall. */
#include "fabric/tcp/backlog.h"
#include "fabric/tcp_testing.h"

enum { PATIENCE_NS = 1000, CLIENTS = TCP_STAGES * TCP_BACKLOG_PLACES };

/* A backlog, and clients that come one after the other. */
struct fixture {
    struct tcp_backlog backlog;
    struct tcp_waiting clients[CLIENTS];
    unsigned count;
};

static int open_fixture(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.count = 0};
    tcp_backlog_init(&fixture.backlog, PATIENCE_NS, TCP_BACKLOG_PLACES);
    *state = &fixture;
    return 0;
}

static struct tcp_waiting *new_client(struct fixture *fixture, uint64_t host)
{
    assert_true(fixture->count < CLIENTS);
    struct tcp_waiting *client = &fixture->clients[fixture->count++];
    client->host = host;
    return client;
}

/* One more comes. @return the client that gave way */
static struct tcp_waiting *come(struct fixture *fixture, uint64_t host, enum tcp_stage stage)
{
    return tcp_backlog_enter(&fixture->backlog, new_client(fixture, host), stage, fixture->count);
}

/* As many come as there are places, with room for all. */
static void fill_stage(struct fixture *fixture, uint64_t host, enum tcp_stage stage)
{
    for (unsigned i = 0; i < TCP_BACKLOG_PLACES; i++)
        assert_null(come(fixture, host, stage));
}

static void the_oldest_of_the_most_crowded_host_gives_way(void **state)
{
    struct fixture *fixture = *state;
    assert_null(come(fixture, 1, TCP_SILENT));
    assert_null(come(fixture, 2, TCP_SILENT));
    assert_null(come(fixture, 2, TCP_SILENT));
    for (unsigned i = 3; i < TCP_BACKLOG_PLACES; i++)
        assert_null(come(fixture, 100 + i, TCP_SILENT));
    assert_ptr_equal(come(fixture, 3, TCP_SILENT), &fixture->clients[1]); /* of host 2, which had two */
    tcp_backlog_leave(&fixture->backlog, &fixture->clients[2]);
    tcp_backlog_leave(&fixture->backlog, &fixture->clients[2]); /* it is out already */
    assert_null(come(fixture, 3, TCP_SILENT));
    assert_ptr_equal(come(fixture, 4, TCP_SILENT), &fixture->clients[TCP_BACKLOG_PLACES]); /* of host 3 */
    assert_ptr_equal(come(fixture, 5, TCP_SILENT), &fixture->clients[0]); /* all have one: the oldest */
}

/* One host never takes the last place of another, however many clients it has and however often they come. */
static void a_host_takes_no_place_from_another(void **state)
{
    struct fixture *fixture = *state;
    assert_null(come(fixture, 1, TCP_SPEAKING));
    for (unsigned i = 1; i < CLIENTS; i++) {
        const struct tcp_waiting *victim = come(fixture, 2, TCP_SPEAKING);
        assert_true(i < TCP_BACKLOG_PLACES ? victim == NULL : victim->host == 2);
    }
    assert_true(base_list_is_linked(&fixture->clients[0].link));
}

static void those_behind_push_out_none_ahead(void **state)
{
    struct fixture *fixture = *state;
    for (enum tcp_stage stage = TCP_SPEAKING; stage < TCP_STAGES; stage++) {
        assert_int_equal(open_fixture(state), 0);
        struct tcp_waiting *honest = new_client(fixture, 1);
        assert_null(tcp_backlog_enter(&fixture->backlog, honest, stage, 0));
        fill_stage(fixture, 1, stage - 1);
        for (unsigned i = 0; i < TCP_BACKLOG_PLACES; i++)
            assert_int_equal(come(fixture, 1, stage - 1)->stage, stage - 1);
        assert_true(base_list_is_linked(&honest->link));
    }
}

/* However many stall at any stage: one that comes goes through all stages. */
static void those_ahead_lock_out_none(void **state)
{
    struct fixture *fixture = *state;
    static struct tcp_waiting newcomer;
    newcomer = (struct tcp_waiting){.host = 1};
    for (enum tcp_stage stage = TCP_SILENT; stage < TCP_STAGES; stage++)
        fill_stage(fixture, 1, stage);
    for (enum tcp_stage stage = TCP_SILENT; stage < TCP_STAGES; stage++) {
        const struct tcp_waiting *victim = tcp_backlog_enter(&fixture->backlog, &newcomer, stage, 0);
        assert_ptr_equal(victim, &fixture->clients[stage * TCP_BACKLOG_PLACES]);
        assert_true(base_list_is_linked(&newcomer.link));
        assert_int_equal(fixture->backlog.stages[stage].count, TCP_BACKLOG_PLACES);
    }
}

static void time_is_over_in_order(void **state)
{
    struct fixture *fixture = *state;
    struct tcp_backlog *backlog = &fixture->backlog;
    struct tcp_waiting *first = new_client(fixture, 1), *second = new_client(fixture, 1);
    assert_int_equal(tcp_backlog_deadline(backlog), UINT64_MAX);
    assert_null(tcp_backlog_enter(backlog, first, TCP_SILENT, 10));
    assert_null(tcp_backlog_enter(backlog, second, TCP_SILENT, 20));
    assert_int_equal(tcp_backlog_deadline(backlog), 10 + PATIENCE_NS);
    assert_null(tcp_backlog_enter(backlog, first, TCP_PROVED, 30)); /* begins anew */
    assert_int_equal(tcp_backlog_deadline(backlog), 20 + PATIENCE_NS);
    assert_null(tcp_backlog_expire(backlog, 20 + PATIENCE_NS - 1));
    assert_ptr_equal(tcp_backlog_expire(backlog, 20 + PATIENCE_NS), second);
    assert_null(tcp_backlog_expire(backlog, 20 + PATIENCE_NS));
    assert_ptr_equal(tcp_backlog_expire(backlog, UINT64_MAX), first);
    assert_int_equal(tcp_backlog_deadline(backlog), UINT64_MAX);
}

/* A backlog has as many places as its listener gives it. */
static void a_small_backlog_has_fewer_places(void **state)
{
    struct fixture *fixture = *state;
    tcp_backlog_init(&fixture->backlog, PATIENCE_NS, 2);
    assert_null(come(fixture, 1, TCP_SILENT));
    assert_null(come(fixture, 1, TCP_SILENT));
    assert_ptr_equal(come(fixture, 1, TCP_SILENT), &fixture->clients[0]);
    assert_int_equal(fixture->backlog.stages[TCP_SILENT].count, 2);
}

static void hosts_are_told_apart(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"192.0.2.1:1000", "192.0.2.1:2000"},
        {"[2001:db8::1]:1000", "[2001:db8::1]:2000"},
        {"[2001:db8::1]:1000", "[2001:db8::ffff:1]:1000"}, /* of one network */
        {"gone", "gone"},
    };
    static const char *const others[][2] = {
        {"192.0.2.1:1000", "192.0.2.2:1000"},
        {"[2001:db8:0:1::1]:1000", "[2001:db8:0:2::1]:1000"},
        {"[::ffff:192.0.2.1]:1000",
         "[::ffff:192.0.2.2]:1000"}, /* addresses of IPv4 behind a socket of IPv6 */
    };
    for (unsigned i = 0; i < base_array_count(same); i++)
        assert_int_equal(tcp_host_of(same[i][0]), tcp_host_of(same[i][1]));
    for (unsigned i = 0; i < base_array_count(others); i++)
        assert_int_not_equal(tcp_host_of(others[i][0]), tcp_host_of(others[i][1]));
}

/* ---- with sockets -------------------------------------------------------------------------------- */

#define PATIENT "tcp:heartbeat=1m"

enum { MANY = TCP_BACKLOG_PLACES + 6 };

/* A listener, and clients by hand. Heartbeats are so long that no client's time is over before the test is. */
struct crowd {
    struct testing_fabric *testing;
    struct tarn_fabric *usual;
    struct testing_pair pair;
    int fds[MANY];
};

static void open_crowd(struct crowd *crowd, struct testing_fabric *testing, const char *url)
{
    *crowd = (struct crowd){.testing = testing, .usual = testing->fabric};
    assert_int_equal(tarn_fabric_open(testing->node, url, &testing->fabric), 0);
    testing_pair_open(testing, &crowd->pair, NULL);
    testing_disconnect(&crowd->pair);
}

static void close_crowd(struct crowd *crowd)
{
    testing_pair_close(&crowd->pair);
    tarn_fabric_close(crowd->testing->fabric);
    crowd->testing->fabric = crowd->usual;
}

static int dial_from(const char *address, const char *own)
{
    const struct sockaddr_in where = tcp_testing_read(address);
    const struct timeval patience = {.tv_sec = 20};
    struct sockaddr_in from = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, own, &from.sin_addr), 1);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&where, sizeof(where)), 0);
    return fd;
}

/* Say the first half of a hello. */
static void say_half(int fd)
{
    const struct tarn_fabric_connect_options options = {.receive_count = 1, .receive_bytes = 1};
    const struct tcp_hello hello = tcp_hello_make(TCP_HELLO, &options);
    uint8_t bytes[TCP_HELLO_BYTES];
    tcp_hello_save(&hello, bytes);
    tcp_testing_say(fd, bytes, sizeof(bytes) / 2);
}

static void dial_many(struct crowd *crowd, const char *own)
{
    for (unsigned i = 0; i < MANY; i++) {
        crowd->fds[i] = dial_from(crowd->testing->address, own);
        if (i % 2 == 1)
            say_half(crowd->fds[i]);
    }
}

static void close_many(const struct crowd *crowd)
{
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(close(crowd->fds[i]), 0);
}

/* Clients that say nothing, or stop in the middle of a hello, take no place from those that go on. */
static void the_silent_make_room(struct testing_fabric *testing)
{
    struct crowd crowd;
    open_crowd(&crowd, testing, PATIENT);
    dial_many(&crowd, "127.0.0.1");
    testing_connect(&crowd.pair);
    assert_true(tcp_testing_ends(crowd.fds[0])); /* the oldest was dropped */
    close_many(&crowd);
    close_crowd(&crowd);
}

/* The silent clients of one host push out no silent one of another. */
static void the_silent_push_out_no_other_host(struct testing_fabric *testing)
{
    struct crowd crowd;
    struct testing_job job;
    open_crowd(&crowd, testing, PATIENT);
    int slow = tcp_testing_dial(testing->address);
    dial_many(&crowd, "127.0.0.2");
    assert_true(tcp_testing_ends(crowd.fds[0]));
    testing_start(testing, &job, 0, testing_accept, &crowd.pair);
    assert_int_equal(tcp_testing_greet(slow), 0);
    testing_join(&job);
    tcp_testing_leave(&crowd.pair, &slow, 1);
    close_many(&crowd);
    close_crowd(&crowd);
}

/* A client that says nothing, or stops half-way, goes even where no other wants its place; not before its time. */
static void nobody_waits_for_ever(struct testing_fabric *testing)
{
    struct crowd crowd;
    open_crowd(&crowd, testing, "tcp:heartbeat=300ms");
    testing_connect(&crowd.pair);
    const uint64_t begin_ns = task_now();
    int silent = tcp_testing_dial(testing->address), speaks = tcp_testing_dial(testing->address);
    say_half(speaks);
    assert_true(tcp_testing_ends(silent));
    assert_true(tcp_testing_ends(speaks));
    assert_true(task_now() - begin_ns >= 4 * 300 * BASE_NS_PER_MS);
    assert_int_equal(tarn_fabric_error(crowd.pair.client), 0); /* let in, it has no such deadline */
    assert_int_equal(close(silent), 0);
    assert_int_equal(close(speaks), 0);
    close_crowd(&crowd);
}

#define IN_THREADS(test)                                                                                     \
    static void test##_in_threads(void **state)                                                              \
    {                                                                                                        \
        testing_run(state, test, false);                                                                     \
    }

IN_THREADS(the_silent_make_room)
IN_THREADS(the_silent_push_out_no_other_host)
IN_THREADS(nobody_waits_for_ever)

int main(void)
{
    tcp_testing_allow_sockets();
    const struct CMUnitTest alone[] = {
        cmocka_unit_test_setup(the_oldest_of_the_most_crowded_host_gives_way, open_fixture),
        cmocka_unit_test_setup(a_host_takes_no_place_from_another, open_fixture),
        cmocka_unit_test_setup(those_behind_push_out_none_ahead, open_fixture),
        cmocka_unit_test_setup(those_ahead_lock_out_none, open_fixture),
        cmocka_unit_test_setup(time_is_over_in_order, open_fixture),
        cmocka_unit_test_setup(a_small_backlog_has_fewer_places, open_fixture),
        cmocka_unit_test(hosts_are_told_apart),
    };
    const struct CMUnitTest sockets[] = {
        cmocka_unit_test(the_silent_make_room_in_threads),
        cmocka_unit_test(the_silent_push_out_no_other_host_in_threads),
        cmocka_unit_test(nobody_waits_for_ever_in_threads),
    };
    int failed = cmocka_run_group_tests(alone, NULL, NULL);
    return failed + cmocka_run_group_tests(sockets, tcp_testing_setup, NULL);
}
