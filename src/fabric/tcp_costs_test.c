/* What connections of `tcp` cost: their memory while they are idle, and that many may be made at once. */
#include "fabric/tcp/backlog.h"
#include "fabric/tcp_testing.h"

/* Connections that are open at the same time, each with both of its sides. */
enum { IDLE = 8, AT_ONCE = TCP_BACKLOG_PLACES };

static const struct tarn_fabric_connect_options small = {.receive_count = 1, .receive_bytes = 64};

/* Move bytes there and back, so that the connection has used all that it uses. */
static void work(const struct testing_pair *pair)
{
    static uint8_t data[TESTING_BYTES];
    const struct tarn_fabric_handle *handle = &pair->all->handle;
    assert_int_equal(tarn_fabric_write(pair->client, 0, handle, 0, data, sizeof(data), TESTING_LATE), 0);
    assert_int_equal(tarn_fabric_read(pair->client, 0, handle, 0, data, sizeof(data), TESTING_LATE), 0);
}

/* Buffers go back when bytes are through: connections share a few, however many there are. */
static void idle_connections_have_no_buffers(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_connection *clients[IDLE], *servers[IDLE];
    testing_pair_open(testing, &pair, &small);
    work(&pair);
    const uint64_t before = testing_memory(testing);
    for (unsigned i = 0; i < IDLE; i++) {
        clients[i] = pair.client;
        servers[i] = pair.server;
        testing_connect(&pair);
        work(&pair);
    }
    assert_true(testing_memory(testing) - before < (uint64_t)IDLE * TCP_BUFFER_BYTES);
    for (unsigned i = 0; i < IDLE; i++) {
        tarn_fabric_disconnect(clients[i]);
        tarn_fabric_disconnect(servers[i]);
    }
    testing_pair_close(&pair);
}

struct crowd {
    struct testing_pair pair;
    struct tarn_fabric_connection *clients[AT_ONCE], *servers[AT_ONCE];
    unsigned count;
};

static void connect_one(void *arg)
{
    struct crowd *crowd = arg;
    assert_int_equal(tarn_fabric_connect(crowd->pair.client_domain, crowd->pair.testing->address, &small,
                                         TESTING_LATE, &crowd->clients[crowd->count++]),
                     0);
}

/* All of one host that come at the same moment are let in. */
static void many_connect_at_once(struct testing_fabric *testing)
{
    static struct crowd crowd;
    struct tarn_fabric_incoming *incoming;
    struct task_group group;
    crowd = (struct crowd){.count = 0};
    testing_pair_open(testing, &crowd.pair, &small);
    task_group_init(&group);
    for (unsigned i = 0; i < AT_ONCE; i++)
        assert_int_equal(task_spawn(NULL, &group, "connect", connect_one, &crowd), 0);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        assert_int_equal(tarn_fabric_listener_wait(crowd.pair.listener, TESTING_LATE, &incoming), 0);
        assert_int_equal(tarn_fabric_accept(incoming, crowd.pair.server_domain, &small, &crowd.servers[i]),
                         0);
    }
    assert_int_equal(task_group_join(&group, TESTING_LATE), 0);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        tarn_fabric_disconnect(crowd.clients[i]);
        tarn_fabric_disconnect(crowd.servers[i]);
    }
    testing_pair_close(&crowd.pair);
}

static void many_connect_at_once_in_tasks(void **state)
{
    testing_run(state, many_connect_at_once, true);
}

TESTING_BOTH(idle_connections_have_no_buffers)

int main(void)
{
    tcp_testing_allow_sockets();
    const struct CMUnitTest tests[] = {
        TESTING_UNITS(idle_connections_have_no_buffers),
        cmocka_unit_test(many_connect_at_once_in_tasks),
    };
    return cmocka_run_group_tests(tests, tcp_testing_setup, NULL);
}
