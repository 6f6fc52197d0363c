/*
 * What calls must do on every provider: run by the tests of each, in tasks and in plain threads.
 */
#include "rpc/conformance_testing.h"

/* ---- answers ------------------------------------------------------------------------------------ */

static void echo_all_lengths(struct testing_calls *calls)
{
    const bool is_slow = calls->testing->subject->is_slow;
    for (uint32_t bytes = 0; bytes <= 1024; bytes += is_slow ? 101 : bytes < 80 ? 1 : 13)
        testing_expect_echo(calls->connection, bytes % 3 == 0 ? ECHO_LATER : ECHO, bytes, bytes);
    testing_expect_echo(calls->connection, ECHO, 1024, 7);
}

static void calls_are_answered(struct testing_fabric *testing)
{
    testing_each_way(testing, echo_all_lengths);
}

static void expect_errors(struct testing_calls *calls)
{
    struct testing_call one;
    testing_call_init(&one, FAIL, 10, 1);
    assert_int_equal(tarn_rpc_call(calls->connection, &one.call), -ESTALE);
    assert_true(one.call.may_have_run);
    assert_int_equal(one.call.result_bytes, 9);
    assert_memory_equal(one.result, "ask there", 9);
    testing_call_init(&one, MISSING, 10, 1);
    assert_int_equal(tarn_rpc_call(calls->connection, &one.call), -ENOSYS);
    testing_call_init(&one, METHODS + 1000, 10, 1);
    assert_int_equal(tarn_rpc_call(calls->connection, &one.call), -ENOSYS);
    testing_call_init(&one, ECHO, 1000, 1);
    one.call.request_bytes = 1025;
    assert_int_equal(tarn_rpc_call(calls->connection, &one.call), -EMSGSIZE);
    assert_false(one.call.may_have_run);
    for (uint32_t room = 0; room < 1000; room += 111) {
        testing_call_init(&one, ECHO, 1000, 1);
        one.call.room = room;
        memset(one.result, 0xee, sizeof(one.result));
        assert_int_equal(tarn_rpc_call(calls->connection, &one.call), -EMSGSIZE);
        assert_int_equal(one.call.result_bytes, 1000);
        for (uint32_t i = room; i < sizeof(one.result); i++)
            assert_int_equal(one.result[i], 0xee);
    }
    testing_expect_echo(calls->connection, ECHO, 1000, 2);
}

static void errors_are_answers_too(struct testing_fabric *testing)
{
    testing_each_way(testing, expect_errors);
}

/* A call is counted when its answer is on its way. */
static void expect_method(const struct testing_calls *calls, uint32_t method, const char *name,
                          uint64_t answers, uint64_t errors)
{
    struct tarn_rpc_method_stats stats;
    for (unsigned i = 0; i < 10000; i++) {
        assert_true(tarn_rpc_method_stats(calls->server, method, &stats));
        if (stats.calls >= answers && stats.errors >= errors)
            break;
        (void)task_sleep(BASE_NS_PER_MS);
    }
    assert_string_equal(stats.name, name);
    assert_int_equal(stats.calls, answers);
    assert_int_equal(stats.errors, errors);
    assert_true(answers > 0 || stats.service_ns == 0);
}

static void count_methods(struct testing_calls *calls)
{
    struct tarn_rpc_method_stats stats;
    struct testing_call one;
    for (unsigned i = 0; i < 5; i++)
        testing_expect_echo(calls->connection, ECHO_LATER, 100, i);
    for (unsigned i = 0; i < 3; i++) {
        testing_call_init(&one, FAIL, 10, 1);
        assert_int_equal(tarn_rpc_call(calls->connection, &one.call), -ESTALE);
        testing_call_init(&one, MISSING, 10, 1);
        assert_int_equal(tarn_rpc_call(calls->connection, &one.call), -ENOSYS);
    }
    expect_method(calls, ECHO_LATER, "echo_later", 5, 0);
    expect_method(calls, FAIL, "fail", 3, 3);
    expect_method(calls, NAP, "nap", 0, 0);
    assert_false(tarn_rpc_method_stats(calls->server, MISSING, &stats));
    assert_false(tarn_rpc_method_stats(calls->server, METHODS, &stats));
}

static void methods_are_counted(struct testing_fabric *testing)
{
    testing_each_way(testing, count_methods);
}

static void post_many(struct testing_calls *calls)
{
    static struct testing_call many[MANY];
    struct tarn_rpc_call posted[MANY];
    for (unsigned round = 0; round < testing_times(calls->testing, 30); round++) {
        for (unsigned i = 0; i < MANY; i++) {
            testing_call_init(&many[i], (i + round) % 2 == 0 ? ECHO : ECHO_LATER, (i * 37 + round) % 300,
                              round + i);
            posted[i] = many[i].call;
        }
        tarn_rpc_post(calls->connection, posted, MANY);
        assert_int_equal(tarn_rpc_wait(calls->connection, posted, MANY), 0);
        for (unsigned i = 0; i < MANY; i++) {
            many[i].call = posted[i];
            testing_call_check(&many[i]);
        }
    }
}

static void many_are_in_flight(struct testing_fabric *testing)
{
    testing_each_way(testing, post_many);
}

/* Several tasks of one connection, each with calls of its own. */
static void call_again_and_again(void *arg)
{
    struct testing_calls *calls = arg;
    for (unsigned i = 0; i < testing_times(calls->testing, 200); i++)
        testing_expect_echo(calls->connection, i % 5 == 0 ? ECHO_LATER : ECHO, i % 90, i);
}

static void share_connection(struct testing_calls *calls)
{
    struct testing_job jobs[8];
    for (unsigned i = 0; i < base_array_count(jobs); i++)
        testing_start(calls->testing, &jobs[i], 0, call_again_and_again, calls);
    for (unsigned i = 0; i < base_array_count(jobs); i++)
        testing_join(&jobs[i]);
}

static void share_each_way(struct testing_fabric *testing)
{
    testing_each_way(testing, share_connection);
}

static void tasks_share_a_connection_in_tasks(void **state)
{
    testing_run(state, share_each_way, true);
}

static void nap_once(void *arg)
{
    const struct testing_calls *calls = arg;
    struct tarn_rpc_call call;
    assert_int_equal(testing_plain_call(calls->connection, NAP, 0, &call), 0);
}

/* While no call is answered, each turn of the scheduler has one round for all tasks, which READs each result once. */
static void one_task_reads_for_all(struct testing_fabric *testing)
{
    enum { TASKS = 8, TURNS = 6 };
    const struct tarn_rpc_connect_options options = {.way = TARN_RPC_FETCH, .calls = TASKS};
    struct tarn_rpc_call_stats before, after;
    struct testing_job jobs[TASKS];
    struct testing_calls calls;
    testing_calls_open(testing, &calls, &options);
    calls.counts.nap_ns = BASE_NS_PER_MS / 10;
    calls.counts.nobody_wakes = true;
    for (unsigned i = 0; i < TASKS; i++)
        testing_start(testing, &jobs[i], 0, nap_once, &calls);
    while (calls.connection->caller.next <= TASKS)
        task_yield();
    tarn_rpc_call_stats(calls.connection, &before);
    for (unsigned i = 0; i < TURNS; i++)
        task_yield();
    tarn_rpc_call_stats(calls.connection, &after);
    assert_true(after.reads - before.reads <= TURNS * TASKS);
    calls.counts.nobody_wakes = false;
    for (unsigned i = 0; i < TASKS; i++)
        testing_join(&jobs[i]);
    testing_calls_close(&calls);
}

static void one_task_reads_for_all_in_tasks(void **state)
{
    testing_run(state, one_task_reads_for_all, true);
}

/* ---- deadlines ---------------------------------------------------------------------------------- */

static void let_deadlines_pass(struct testing_calls *calls)
{
    struct tarn_rpc_call call;
    unsigned timed_out = 0;
    unsigned may_have_run = 0;
    calls->counts.naps = 0;
    calls->counts.nap_ns = BASE_NS_PER_MS;
    calls->counts.nobody_wakes = true;
    /* on a busy machine three milliseconds may end before the request is sent */
    for (; timed_out < 5 || calls->counts.naps == 0; timed_out++) {
        assert_int_equal(testing_plain_call(calls->connection, NAP, task_now() + 3 * BASE_NS_PER_MS, &call),
                         -ETIMEDOUT);
        may_have_run += call.may_have_run;
        assert_int_equal(tarn_rpc_error(calls->connection), 0);
    }
    calls->counts.nobody_wakes = false;
    calls->counts.nap_ns = 0;
    testing_expect_echo(calls->connection, ECHO, 100, 1);
    assert_int_equal(testing_plain_call(calls->connection, NAP, TESTING_LATE, &call), 0);
    struct tarn_rpc_call_stats stats;
    tarn_rpc_call_stats(calls->connection, &stats);
    assert_int_equal(stats.timed_out, timed_out);
    assert_true(calls->counts.naps <= may_have_run + 1);
}

static void deadlines_pass(struct testing_fabric *testing)
{
    testing_each_way(testing, let_deadlines_pass);
}

/* A method waits for its turn behind one that is busy for longer than its deadline; now and then it was quicker. The
 * caller looks only when the busy one has ended: so it is often the callee who says that it was too late. */
static void what_is_too_late_does_not_run(struct testing_fabric *testing)
{
    struct testing_calls calls;
    struct tarn_rpc_stats stats = {0};
    struct tarn_rpc_call_stats call_stats;
    unsigned rounds = 0, timed_out = 0;
    testing_calls_open(testing, &calls, &testing_ways[0]);
    calls.counts.nap_ns = 10 * BASE_NS_PER_MS;
    while (stats.late < 5) {
        struct tarn_rpc_call posted[2] = {
            {.method = NAP, .deadline_ns = task_now() + calls.counts.nap_ns / 2}, {.method = BUSY}};
        tarn_rpc_post(calls.connection, posted, 2);
        assert_int_equal(tarn_rpc_wait(calls.connection, &posted[1], 1), 0);
        const int error = tarn_rpc_wait(calls.connection, &posted[0], 1);
        assert_true(error == 0 || error == -ETIMEDOUT);
        timed_out += error == -ETIMEDOUT;
        assert_true(++rounds < 1000);
        while (calls.counts.naps + stats.late < rounds) {
            (void)task_sleep(BASE_NS_PER_MS);
            tarn_rpc_server_stats(calls.server, &stats);
        }
    }
    assert_int_equal(calls.counts.naps + stats.late, rounds);
    tarn_rpc_call_stats(calls.connection, &call_stats);
    assert_int_equal(call_stats.timed_out, timed_out);
    testing_calls_close(&calls);
}

static void echo_until_cancelled(void *arg)
{
    struct tarn_rpc_call call;
    assert_int_equal(testing_plain_call(arg, ECHO, TASK_FOREVER, &call), -ECANCELED);
}

/* In the middle of a round, whose operations are then in flight. */
static void cancel_a_call(struct tarn_rpc_connection *connection)
{
    struct task_group group;
    task_group_init(&group);
    assert_int_equal(task_spawn(NULL, &group, "echo", echo_until_cancelled, connection), 0);
    assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    task_group_cancel(&group);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    assert_int_equal(tarn_rpc_error(connection), 0);
}

/* Calls end at their deadlines while the worker serves nothing at all, and when it goes on so do the connections. */
static void wait_for_stuck_worker(struct testing_calls *calls)
{
    const uint64_t short_ns = 3 * BASE_NS_PER_MS;
    struct tarn_rpc_limits limits;
    tarn_rpc_limits(calls->connection, &limits);
    const struct tarn_rpc_connect_options same = {.worker = limits.worker};
    struct tarn_rpc_connection *other = testing_client(calls, &same);
    struct tarn_rpc_call call;
    uint32_t timed_out = 0;
    calls->counts.nobody_wakes = true;
    for (; calls->counts.stuck == 0; timed_out++)
        assert_int_equal(testing_plain_call(calls->connection, STUCK, task_now() + short_ns, &call),
                         -ETIMEDOUT);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(testing_plain_call(other, ECHO, task_now() + short_ns, &call), -ETIMEDOUT);
        assert_int_equal(testing_plain_call(calls->connection, ECHO, task_now() + short_ns, &call),
                         -ETIMEDOUT);
        timed_out++;
    }
    if (!task_is_thread())
        cancel_a_call(other);
    assert_int_equal(calls->counts.stuck, 1);
    calls->counts.nobody_wakes = false;
    testing_expect_echo(other, ECHO, 100, 1);
    testing_expect_echo(calls->connection, ECHO, 100, 2);
    assert_int_equal(tarn_rpc_error(calls->connection), 0);
    struct tarn_rpc_call_stats stats;
    tarn_rpc_call_stats(calls->connection, &stats);
    assert_int_equal(stats.timed_out, timed_out);
    tarn_rpc_disconnect(other);
}

static void a_stuck_worker_holds_up_nobody(struct testing_fabric *testing)
{
    testing_each_way(testing, wait_for_stuck_worker);
}

/* ---- sleeping ----------------------------------------------------------------------------------- */

static void call_after_rests(struct testing_calls *calls)
{
    struct tarn_rpc_stats stats;
    const unsigned times = testing_times(calls->testing, 200);
    for (unsigned i = 0; i < times; i++) {
        testing_expect_echo(calls->connection, ECHO, 64, i);
        (void)task_sleep(i % 16 * UINT64_C(10000)); /* about as long as a worker looks */
    }
    tarn_rpc_server_stats(calls->server, &stats);
    assert_true(stats.sleeps > 0 && stats.notified > 0);
}

static void workers_sleep_and_are_woken(struct testing_fabric *testing)
{
    testing_each_way(testing, call_after_rests);
}

/* More than a worker watches. */
enum { CROWD = 2 * RPC_WATCHED_MAX + 30 };

static void a_crowd_is_served(struct testing_fabric *testing)
{
    const struct tarn_rpc_connect_options small = {
        .worker = 1, .calls = 2, .request_bytes = 64, .result_bytes = 64};
    const unsigned count = testing->subject->is_slow ? RPC_WATCHED_MAX + 6 : CROWD;
    struct tarn_rpc_connection *crowd[CROWD];
    struct testing_calls calls;
    struct tarn_rpc_stats stats;
    testing_serve(testing, &calls, NULL);
    for (unsigned i = 0; i < count; i++)
        crowd[i] = testing_client(&calls, &small);
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < count; i++)
            testing_expect_echo(crowd[i], ECHO, 30, i);
    }
    for (unsigned round = 0; round < 100; round++) /* a few */
        testing_expect_echo(crowd[count - 1 - round % 4], ECHO, 30, round);
    do { /* a worker counts a request after it was answered */
        (void)task_sleep(BASE_NS_PER_MS);
        tarn_rpc_server_stats(calls.server, &stats);
    } while (stats.requests < 4 * count + 100);
    assert_int_equal(stats.connections, count);
    const bool watches = tarn_fabric_info(testing->fabric)->served_by != TARN_FABRIC_SERVED_BY_PEER;
    assert_int_equal(stats.watched, watches ? RPC_WATCHED_MAX : 0);
    assert_int_equal(stats.requests, 4 * count + 100);
    struct tarn_rpc_call_stats one;
    tarn_rpc_call_stats(crowd[count - 1], &one);
    assert_true(watches ? one.notified < one.calls : one.notified == one.calls); /* it was promoted */
    for (unsigned i = 0; i < count; i++)
        tarn_rpc_disconnect(crowd[i]);
    testing_calls_close(&calls);
}

/* ---- ends --------------------------------------------------------------------------------------- */

static void close_soon(void *arg)
{
    struct testing_calls *calls = arg;
    while (calls->counts.naps == 0)
        (void)task_sleep(100000);
    tarn_rpc_server_close(calls->server);
}

static void end_server(struct testing_calls *calls)
{
    struct tarn_rpc_call posted[40];
    struct testing_job job;
    unsigned unknown = 0;
    calls->counts.nap_ns = 10 * BASE_NS_PER_MS;
    for (unsigned i = 0; i < base_array_count(posted); i++)
        posted[i] = (struct tarn_rpc_call){.method = NAP};
    testing_start(calls->testing, &job, 0, close_soon, calls);
    tarn_rpc_post(calls->connection, posted, base_array_count(posted));
    int error = tarn_rpc_wait(calls->connection, posted, base_array_count(posted));
    testing_join(&job);
    assert_true(error == -ECONNRESET || error == -EPIPE || error == 0);
    for (unsigned i = 0; i < base_array_count(posted); i++) {
        assert_true(posted[i].finished);
        if (posted[i].error != 0 && posted[i].may_have_run)
            unknown++;
    }
    assert_true(calls->counts.naps <= base_array_count(posted));
    struct tarn_rpc_call call;
    error = testing_plain_call(calls->connection, ECHO, TESTING_LATE, &call);
    assert_true(error == -ECONNRESET || error == -EPIPE);
    tarn_rpc_disconnect(calls->connection);
}

static void the_server_ends(struct testing_fabric *testing)
{
    for (unsigned i = 0; i < base_array_count(testing_ways); i++) {
        struct testing_calls calls;
        testing_calls_open(testing, &calls, &testing_ways[i]);
        end_server(&calls);
    }
}

/* Methods run on when their caller has gone, and nothing is left behind (the node's end asserts that). */
static void clients_leave(struct testing_fabric *testing)
{
    struct testing_calls calls;
    struct tarn_rpc_call call;
    struct tarn_rpc_stats stats;
    testing_serve(testing, &calls, NULL);
    calls.counts.nap_ns = BASE_NS_PER_MS;
    for (unsigned i = 0; i < testing_times(testing, 20); i++) {
        calls.counts.nobody_wakes = true;
        struct tarn_rpc_connection *connection =
            testing_client(&calls, &testing_ways[i % base_array_count(testing_ways)]);
        assert_int_equal(testing_plain_call(connection, NAP, task_now() + BASE_NS_PER_MS, &call), -ETIMEDOUT);
        tarn_rpc_disconnect(connection);
        calls.counts.nobody_wakes = false;
    }
    do {
        (void)task_sleep(BASE_NS_PER_MS);
        tarn_rpc_server_stats(calls.server, &stats);
    } while (stats.connections > 0);
    assert_int_equal(stats.memory_bytes, 0);
    testing_calls_close(&calls);
}

/* ---- both ways ---------------------------------------------------------------------------------- */

static void call_back(struct testing_fabric *testing)
{
    struct testing_calls calls;
    testing_serve(testing, &calls, NULL);
    for (unsigned i = 0; i < base_array_count(testing_ways); i++) {
        struct tarn_rpc_connect_options options = testing_ways[i];
        options.calls_back = 2;
        options.service = &calls.service;
        struct tarn_rpc_connection *connection = testing_client(&calls, &options);
        for (unsigned round = 0; round < 50; round++) {
            struct testing_call one;
            testing_call_init(&one, CALL_BACK, round * 20, round);
            assert_int_equal(tarn_rpc_call(connection, &one.call), 0);
            assert_int_equal(one.call.result_bytes, round * 20);
            for (uint32_t k = 0; k < round * 20; k++)
                assert_int_equal(one.result[k], (uint8_t)(one.request[k] + 1));
        }
        tarn_rpc_disconnect(connection);
    }
    testing_calls_close(&calls);
}

static void servers_call_clients_in_tasks(void **state)
{
    testing_run(state, call_back, true);
}

/* ---- cancelled ---------------------------------------------------------------------------------- */

/* Sleep until cancelled, and disconnect then: that waits for tasks of the connection's all the same. */
static void disconnect_when_cancelled(void *arg)
{
    assert_int_equal(task_sleep_until(TASK_FOREVER), -ECANCELED);
    tarn_rpc_disconnect(arg);
}

static void cancel_and_disconnect(struct testing_fabric *testing)
{
    struct testing_calls calls;
    struct task_group group;
    testing_calls_open(testing, &calls, NULL);
    testing_expect_echo(calls.connection, ECHO, 10, 1);
    task_group_init(&group);
    assert_int_equal(task_spawn(NULL, &group, "leaver", disconnect_when_cancelled, calls.connection), 0);
    task_yield();
    task_group_cancel(&group);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    calls.connection = NULL;
    testing_calls_close(&calls);
}

static void a_cancelled_task_disconnects_in_tasks(void **state)
{
    testing_run(state, cancel_and_disconnect, true);
}

/* ---- refusals ----------------------------------------------------------------------------------- */

static void strangers_are_refused(struct testing_fabric *testing)
{
    const struct tarn_rpc_serve_options few = {.connections_max = 2};
    struct tarn_rpc_connection *connections[3];
    struct tarn_fabric_connection *raw;
    struct testing_calls calls;
    struct tarn_fabric_domain *domain;
    testing_serve(testing, &calls, &few);
    assert_int_equal(tarn_fabric_domain_open(testing_clients(testing), NULL, &domain), 0);
    assert_int_equal(tarn_fabric_connect(domain, testing->address, NULL, TESTING_LATE, &raw), -ECONNREFUSED);
    tarn_fabric_domain_close(domain);
    const struct tarn_rpc_connect_options nobody = {.worker = 200}, endless = {.request_bytes = UINT32_MAX};
    assert_int_equal(
        tarn_rpc_connect(testing_clients(testing), testing->address, &endless, TESTING_LATE, &connections[0]),
        -EINVAL);
    assert_int_equal(
        tarn_rpc_connect(testing_clients(testing), testing->address, &nobody, TESTING_LATE, &connections[0]),
        -ECONNREFUSED);
    for (unsigned i = 0; i < 2; i++)
        connections[i] = testing_client(&calls, NULL);
    assert_int_equal(
        tarn_rpc_connect(testing_clients(testing), testing->address, NULL, TESTING_LATE, &connections[2]),
        -ECONNREFUSED);
    for (unsigned i = 0; i < 2; i++) {
        testing_expect_echo(connections[i], ECHO, 20, i);
        tarn_rpc_disconnect(connections[i]);
    }
    testing_calls_close(&calls);
}

/* What is too much is cut, and said. */
static void limits_are_granted(struct testing_fabric *testing)
{
    const struct tarn_rpc_serve_options options = {
        .calls_max = 5, .request_bytes_max = 100, .result_bytes_max = 200};
    const struct tarn_rpc_connect_options greedy = {
        .calls = 1000, .request_bytes = 10000, .result_bytes = 9999};
    struct testing_calls calls;
    struct tarn_rpc_limits limits;
    testing_serve(testing, &calls, &options);
    calls.connection = testing_client(&calls, &greedy);
    tarn_rpc_limits(calls.connection, &limits);
    assert_int_equal(limits.calls, 8);
    assert_int_equal(limits.request_bytes, 104);
    assert_int_equal(limits.result_bytes, 200);
    assert_in_range(limits.worker, 1, limits.workers);
    for (uint32_t bytes = 0; bytes <= 104; bytes++)
        testing_expect_echo(calls.connection, ECHO, bytes, bytes);
    testing_calls_close(&calls);
}

/* ---- adapting ----------------------------------------------------------------------------------- */

static void slow_methods_are_answered_by_reply(struct testing_fabric *testing)
{
    struct testing_calls calls;
    struct tarn_rpc_call posted[16];
    struct tarn_rpc_call_stats stats;
    struct tarn_rpc_stats served;
    testing_calls_open(testing, &calls, NULL);
    tarn_rpc_call_stats(calls.connection, &stats);
    const bool starts_by_reply = stats.way == TARN_RPC_REPLY;                     /* tcp: it stays so */
    calls.counts.nap_ns = (testing->subject->is_slow ? 100 : 5) * BASE_NS_PER_MS; /* many round trips */
    for (unsigned i = 0; i < 3 * RPC_ADAPT_WINDOW; i += base_array_count(posted)) {
        for (unsigned k = 0; k < base_array_count(posted); k++)
            posted[k] = (struct tarn_rpc_call){.method = NAP};
        tarn_rpc_post(calls.connection, posted, base_array_count(posted));
        assert_int_equal(tarn_rpc_wait(calls.connection, posted, base_array_count(posted)), 0);
    }
    tarn_rpc_call_stats(calls.connection, &stats);
    assert_int_equal(stats.way, TARN_RPC_REPLY);
    assert_int_equal(stats.changes, starts_by_reply ? 0 : 1);
    /* within two windows; later where the worker loses its processor within a call of each */
    const unsigned windows = starts_by_reply ? 2 : 100;
    for (unsigned i = 0; i < windows * RPC_ADAPT_WINDOW && stats.way == TARN_RPC_REPLY; i++) {
        testing_expect_echo(calls.connection, ECHO, 30, i);
        tarn_rpc_call_stats(calls.connection, &stats);
    }
    assert_int_equal(stats.way, starts_by_reply ? TARN_RPC_REPLY : TARN_RPC_FETCH);
    testing_expect_echo(calls.connection, ECHO, 30,
                        0); /* tells the server of the last change, and makes none */
    tarn_rpc_server_stats(calls.server, &served);
    assert_int_equal(served.changes, stats.changes);
    assert_int_equal(served.changes > 0, !starts_by_reply);
    testing_calls_close(&calls);
}

/* ---- several connections ------------------------------------------------------------------------ */

enum { CONNECTIONS = base_array_count(testing_ways) };

static void wake_when_all_nap(void *arg)
{
    struct testing_service *service = arg;
    const uint64_t deadline_ns = TESTING_LATE;
    while (service->naps < CONNECTIONS && task_now() < deadline_ns)
        (void)task_sleep(BASE_NS_PER_MS / 10);
    assert_int_equal(service->naps, CONNECTIONS);
    service->nobody_wakes = false;
}

/* None of the naps ends before all have begun: so the calls of the last connection were sent before one of the first was
 * answered. Behind each is an echo, where there is one slot waiting for it, and a request that is too long. */
static void several_connections_are_waited_for(struct testing_fabric *testing)
{
    static uint8_t request[5000], results[CONNECTIONS][16];
    struct tarn_rpc_call made[CONNECTIONS][3];
    struct rpc_calls some[CONNECTIONS];
    struct testing_calls calls;
    struct testing_job job;
    testing_serve(testing, &calls, NULL);
    calls.counts.nap_ns = BASE_NS_PER_MS / 10;
    calls.counts.nobody_wakes = true;
    testing_start(testing, &job, 0, wake_when_all_nap, &calls.counts);
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        made[i][0] = (struct tarn_rpc_call){.method = NAP};
        made[i][1] = (struct tarn_rpc_call){
            .method = ECHO, .request = request, .request_bytes = 16, .result = results[i], .room = 16};
        made[i][2] =
            (struct tarn_rpc_call){.method = ECHO, .request = request, .request_bytes = sizeof(request)};
        some[i] = (struct rpc_calls){testing_client(&calls, &testing_ways[i]), made[i], 3};
        tarn_rpc_post(some[i].connection, made[i], 3);
    }
    rpc_wait_many(some, CONNECTIONS);
    assert_int_equal(calls.counts.naps, CONNECTIONS);
    assert_false(calls.counts.nobody_wakes);
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        assert_int_equal(made[i][0].error, 0);
        assert_int_equal(made[i][1].error, 0);
        assert_int_equal(results[i][15], 1);
        assert_int_equal(made[i][2].error, -EMSGSIZE);
        tarn_rpc_disconnect(some[i].connection);
    }
    testing_join(&job);
    rpc_wait_many(NULL, 0);
    testing_calls_close(&calls);
}

/* Simulated time stands still while somebody is busy. */
static void run_unless_simulated(void **state, void (*test)(struct testing_fabric *testing), bool in_tasks)
{
    const struct testing_subject *subject = *state;
    if (subject->run != NULL)
        skip();
    testing_run(state, test, in_tasks);
}

static void what_is_too_late_does_not_run_in_tasks(void **state)
{
    run_unless_simulated(state, what_is_too_late_does_not_run, true);
}

static void what_is_too_late_does_not_run_in_threads(void **state)
{
    run_unless_simulated(state, what_is_too_late_does_not_run, false);
}

static void a_stuck_worker_holds_up_nobody_in_tasks(void **state)
{
    run_unless_simulated(state, a_stuck_worker_holds_up_nobody, true);
}

static void a_stuck_worker_holds_up_nobody_in_threads(void **state)
{
    run_unless_simulated(state, a_stuck_worker_holds_up_nobody, false);
}

#define SUITE(EACH)                                                                                          \
    EACH(calls_are_answered)                                                                                 \
    EACH(errors_are_answers_too)                                                                             \
    EACH(methods_are_counted)                                                                                \
    EACH(many_are_in_flight)                                                                                 \
    EACH(deadlines_pass)                                                                                     \
    EACH(workers_sleep_and_are_woken)                                                                        \
    EACH(a_crowd_is_served)                                                                                  \
    EACH(the_server_ends)                                                                                    \
    EACH(clients_leave)                                                                                      \
    EACH(strangers_are_refused)                                                                              \
    EACH(limits_are_granted)                                                                                 \
    EACH(slow_methods_are_answered_by_reply)                                                                 \
    EACH(several_connections_are_waited_for)

SUITE(TESTING_BOTH)

static const struct CMUnitTest rpc_conformance_tests[] = {
    SUITE(TESTING_EACH) cmocka_unit_test(tasks_share_a_connection_in_tasks),
    cmocka_unit_test(one_task_reads_for_all_in_tasks),
    TESTING_UNITS(what_is_too_late_does_not_run),
    TESTING_UNITS(a_stuck_worker_holds_up_nobody),
    cmocka_unit_test(servers_call_clients_in_tasks),
    cmocka_unit_test(a_cancelled_task_disconnects_in_tasks)};

const struct testing_suite rpc_conformance = TESTING_SUITE(rpc_conformance_tests);
