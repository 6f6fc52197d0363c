/* What every provider must do between processes, done by `tcp`; and a peer that is stopped. */
#include "fabric/process_testing.h"
#include "fabric/tcp_testing.h"

/* A process that is stopped says nothing: it is given up like one whose host is gone, and what is posted ends. */
static void a_stopped_peer_is_noticed(struct testing_fabric *testing)
{
    const uint64_t heartbeat_ns = 100 * BASE_NS_PER_MS,
                   slack_ns = 5 * BASE_NS_PER_SECOND; /* of a busy machine */
    struct testing_host host;
    struct tarn_fabric_message message;
    struct tarn_fabric_region *again;
    struct testing_child *child = &testing->children[0];
    struct tarn_fabric *usual = testing->fabric;
    uint8_t data[64];
    uint64_t word;
    assert_int_equal(tarn_fabric_open(testing->node, "tcp:heartbeat=100ms", &testing->fabric), 0);
    open_host(testing, &host);
    testing_order(child, testing->address, 0);
    assert_int_equal(accept_child(&host, TESTING_LATE), 0);
    assert_int_equal(tarn_fabric_receive(host.connection, data, sizeof(data), TESTING_LATE, &message), 0);
    assert_int_equal(tarn_fabric_read(host.connection, 0, &host.theirs, 0, &word, 8, TESTING_LATE), 0);
    assert_int_equal(word, 4711);
    assert_int_equal(kill(child->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(child->pid, NULL, WUNTRACED), child->pid);
    uint64_t begin_ns = task_now();
    assert_int_equal(tarn_fabric_read(host.connection, 0, &host.theirs, 0, &word, 8, TESTING_LATE),
                     -ECONNRESET);
    assert_true(task_now() - begin_ns <= 3 * heartbeat_ns + slack_ns);
    assert_int_equal(tarn_fabric_fence(host.connection, TESTING_SOON), 0);
    tarn_fabric_region_free(host.region); /* it goes to others at once, though the peer may wake */
    again = testing_region(host.domain, 65536, all_rights);
    assert_int_equal(kill(child->pid, SIGCONT), 0);
    (void)task_sleep(50 * BASE_NS_PER_MS);
    assert_true(base_is_zero(again->memory, 65536));
    assert_int_equal(kill(child->pid, SIGKILL), 0);
    assert_true(WIFSIGNALED(testing_reap(child)));
    tarn_fabric_disconnect(host.connection);
    host.region = again;
    close_host(&host);
    tarn_fabric_close(testing->fabric);
    testing->fabric = usual;
}

TESTING_WITH_CHILDREN(a_stopped_peer_is_noticed, be_stopped, 1)

int main(void)
{
    const struct CMUnitTest tests[] = {TESTING_UNITS(a_stopped_peer_is_noticed)};
    const struct testing_suite suites[] = {fabric_processes, TESTING_SUITE(tests), {0}};
    return testing_run_suites("tests", suites, NULL, tcp_testing_setup, NULL);
}
