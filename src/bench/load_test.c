/* Does the load count what it should, and stop at every fault of a server? */
#include "bench/fake_server_testing.h"

#include "bench/testing.h"

#include "bench/load.h"
#include "task/task.h"

enum { KEYS = 1000, VALUE_BYTES = 200 };

#define DURATION_NS (60 * BASE_NS_PER_MS)

/* A load, the server that it is for, and what comes of it. */
struct fixture {
    struct base_account account;
    struct bench bench;
    char *err;
    size_t err_bytes;
    struct bench_values values;
    struct bench_keys keys;
    struct fake_server fake;
    struct bench_load load;
    struct bench_load_outcome outcome;
    struct base_histogram latency;
};

static int open_fixture(void **state)
{
    struct fixture *fixture = test_calloc(1, sizeof(*fixture));
    base_account_init(&fixture->account, BASE_ACCOUNT_UNLIMITED);
    fixture->bench = (struct bench){.program = &bench_program,
                                    .err = open_memstream(&fixture->err, &fixture->err_bytes),
                                    .account = &fixture->account,
                                    .verb = "memcache",
                                    .options = {.duration_ns = DURATION_NS}};
    bench_machine_read(&fixture->bench.machine);
    bench_keys_init(&fixture->keys, KEYS, 0);
    base_histogram_reset(&fixture->latency);
    fixture->outcome.latency = &fixture->latency;
    fixture->fake.values = &fixture->values;
    fixture->load = (struct bench_load){.bench = &fixture->bench,
                                        .name = "fake",
                                        .address = &fixture->fake.address,
                                        .values = &fixture->values,
                                        .keys = &fixture->keys,
                                        .connections = 5,
                                        .pipeline = 1,
                                        .keys_per_get = 1,
                                        .read_share = 0.75,
                                        .seed = 3};
    *state = fixture;
    return bench_values_open(&fixture->account, VALUE_BYTES, &fixture->values);
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    bench_values_close(&fixture->values);
    base_account_deinit(&fixture->account); /* nothing was left behind */
    (void)fclose(fixture->bench.err);
    free(fixture->err);
    test_free(fixture);
    return 0;
}

static int run(struct fixture *fixture)
{
    fixture->fake.protocol = fixture->load.protocol;
    fake_begin(&fixture->fake);
    int error = bench_load_run(&fixture->load, &fixture->outcome);
    fake_end(&fixture->fake);
    (void)fflush(fixture->bench.err);
    return error;
}

static void expect_error(struct fixture *fixture, int error, const char *reason)
{
    assert_int_equal(run(fixture), error);
    if (strstr(fixture->err, reason) == NULL)
        print_error("%s", fixture->err);
    assert_non_null(strstr(fixture->err, reason));
}

/* ---- runs that go well --------------------------------------------------------------------------- */

static void check_closed(struct fixture *fixture, uint32_t pipeline, uint32_t keys_per_get)
{
    const struct bench_load_outcome *outcome = &fixture->outcome;
    const struct fake_server *fake = &fixture->fake;
    fixture->load.pipeline = pipeline;
    fixture->load.keys_per_get = keys_per_get;
    assert_int_equal(run(fixture), 0);
    assert_int_equal(fake->wrong_sets, 0);
    assert_int_equal(fake->gets, outcome->gets);
    assert_int_equal(outcome->hits, outcome->gets);
    assert_int_equal(outcome->elapsed_ns, DURATION_NS);
    assert_int_equal(outcome->gets % keys_per_get, 0);
    uint64_t sets = outcome->all_keys - outcome->gets;
    assert_int_equal(fake->requests, sets + outcome->gets / keys_per_get);
    assert_true(outcome->hits > 0);
    assert_true(outcome->keys < outcome->all_keys); /* each connection's last answer comes after the end */
    if (fake->requests >= 200) /* three of four are gets; a machine that is busy may not get so far */
        assert_in_range(outcome->gets / keys_per_get, fake->requests * 6 / 10, fake->requests * 9 / 10);
    assert_true(fake->most_at_once <= pipeline);
    assert_true(pipeline == 1 || fake->most_at_once > 1);
    assert_true(base_histogram_count(&fixture->latency) < fake->requests);
    assert_true(outcome->busy_share >= 0 && outcome->busy_share <= 1);
    assert_int_equal(fixture->err_bytes, 0);
}

static void test_closed_loop(void **state)
{
    check_closed(*state, 1, 1);
}

static void test_pipeline_of_multigets(void **state)
{
    check_closed(*state, 7, 9);
}

static void test_redis(void **state)
{
    struct fixture *fixture = *state;
    fixture->load.protocol = BENCH_PROTOCOL_RESP;
    check_closed(fixture, 4, 1);
}

static void test_redis_multigets(void **state)
{
    struct fixture *fixture = *state;
    fixture->load.protocol = BENCH_PROTOCOL_RESP;
    check_closed(fixture, 1, 100);
}

static void test_only_gets(void **state)
{
    struct fixture *fixture = *state;
    fixture->load.read_share = 1;
    assert_int_equal(run(fixture), 0);
    assert_int_equal(fixture->outcome.all_keys, fixture->outcome.gets);
}

static void test_only_sets(void **state)
{
    struct fixture *fixture = *state;
    fixture->load.read_share = 0;
    assert_int_equal(run(fixture), 0);
    assert_int_equal(fixture->outcome.gets, 0);
}

static void check_misses(struct fixture *fixture)
{
    fixture->fake.fault = FAKE_MISSES_ODD;
    fixture->load.read_share = 1;
    fixture->load.keys_per_get = 10;
    fixture->load.pipeline = 3;
    assert_int_equal(run(fixture), 0);
    assert_in_range(fixture->outcome.hits, fixture->outcome.gets * 4 / 10, fixture->outcome.gets * 6 / 10);
}

static void test_misses(void **state)
{
    check_misses(*state);
}

static void test_redis_misses(void **state)
{
    struct fixture *fixture = *state;
    fixture->load.protocol = BENCH_PROTOCOL_RESP;
    check_misses(fixture);
}

/* Each key is stored exactly once. */
static void check_fill(struct fixture *fixture, uint64_t keys, uint32_t value_bytes)
{
    struct fake_server *fake = &fixture->fake;
    bench_keys_init(&fixture->keys, keys, 0);
    bench_values_close(&fixture->values);
    assert_int_equal(bench_values_open(&fixture->account, value_bytes, &fixture->values), 0);
    fixture->load.keys_per_get = 50; /* is not for this */
    fake_begin(fake);
    assert_int_equal(bench_load_fill(&fixture->load), 0);
    fake_end(fake);
    assert_int_equal(fake->requests, keys);
    assert_int_equal(fake->wrong_sets, 0);
    for (uint64_t i = 0; i < FAKE_NUMBERS; i++)
        assert_int_equal(fake->sets[i], i < keys ? 1 : 0);
}

static void test_fill(void **state)
{
    check_fill(*state, KEYS, VALUE_BYTES);
}

/* The last keys are sent when the others have had their time. */
static void test_fill_at_a_rate(void **state)
{
    struct fixture *fixture = *state;
    const uint64_t begin_ns = task_now();
    fixture->load.fill_rate = 4 * KEYS;
    check_fill(fixture, KEYS, VALUE_BYTES);
    assert_true(task_now() >= begin_ns + BASE_NS_PER_SECOND / 8);
}

/* A Unix socket takes less than one such value at once. */
static void test_fill_with_large_values(void **state)
{
    struct fixture *fixture = *state;
    char path[] = "memcache-load-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(unlink(path), 0);
    fixture->fake.unix_path = path;
    check_fill(fixture, 100, 500000);
}

static void test_fill_with_fewer_keys_than_connections(void **state)
{
    check_fill(*state, 3, VALUE_BYTES);
}

/* ---- open loop ----------------------------------------------------------------------------------- */

/* A stall delays all that was to start during it, and counts in the latency of each. */
static void test_open_loop_counts_from_the_intended_start(void **state)
{
    struct fixture *fixture = *state;
    enum { RATE = 2000, DURATION_MS = 200, STALL_MS = 60 };
    fixture->bench.options.duration_ns = DURATION_MS * BASE_NS_PER_MS;
    fixture->load.rate = RATE;
    fixture->fake.fault = FAKE_STALLS;
    fixture->fake.fault_at = RATE * DURATION_MS / 1000 / 2;
    fixture->fake.stall_ms = STALL_MS;
    assert_int_equal(run(fixture), 0);
    assert_in_range(base_histogram_count(&fixture->latency), RATE * DURATION_MS / 1000 - 1,
                    RATE * DURATION_MS / 1000 + 1);
    /* 120 of 400 requests were to start during the stall: 80 of them 20 ms or more before its end */
    assert_true(base_histogram_max(&fixture->latency) >= (STALL_MS - 5) * BASE_NS_PER_MS);
    assert_true(base_histogram_percentile(&fixture->latency, 82) >= 20 * BASE_NS_PER_MS);
    const uint64_t total = RATE * (DURATION_MS + DURATION_MS / 10) / 1000;
    assert_true(fixture->fake.requests <= total + 1);
}

/* A server that is too slow is not waited for without end; what it never came to counts all the same. */
static void test_open_loop_gives_up(void **state)
{
    struct fixture *fixture = *state;
    enum { RATE = 10000, DURATION_MS = 100 };
    fixture->bench.options.duration_ns = DURATION_MS * BASE_NS_PER_MS;
    fixture->load.rate = RATE;
    fixture->fake.fault = FAKE_SLOW;
    fixture->fake.stall_ms = 1;
    uint64_t begin_ns = task_now();
    assert_int_equal(run(fixture), 0);
    assert_true(task_now() - begin_ns < 60 * BASE_NS_PER_SECOND);
    assert_true(fixture->fake.requests < RATE * DURATION_MS / 1000 / 2);
    assert_in_range(base_histogram_count(&fixture->latency), RATE * DURATION_MS / 1000 - 1,
                    RATE * DURATION_MS / 1000 + 1);
    assert_true(base_histogram_max(&fixture->latency) >= DURATION_MS * BASE_NS_PER_MS);
    assert_true(fixture->outcome.keys < RATE * DURATION_MS / 1000 / 2);
}

/* ---- runs that do not ---------------------------------------------------------------------------- */

static void test_nobody_listens(void **state)
{
    struct fixture *fixture = *state;
    uint16_t port = find_free_port();
    fixture->fake.address = memcache_client_address_of_port(port);
    assert_int_equal(bench_load_run(&fixture->load, &fixture->outcome), -ECONNREFUSED);
    (void)fflush(fixture->bench.err);
    assert_non_null(strstr(fixture->err, "fake: connect (does it run"));
}

static void expect_fault(struct fixture *fixture, enum fake_fault fault, int error, const char *reason)
{
    fixture->fake.fault = fault;
    fixture->fake.fault_at = 10;
    fixture->bench.options.duration_ns = 20 * BASE_NS_PER_SECOND; /* it ends sooner */
    expect_error(fixture, error, reason);
}

static void test_server_closes(void **state)
{
    expect_fault(*state, FAKE_CLOSES, -EPIPE, "fake: it closed a connection");
}

static void test_server_error(void **state)
{
    expect_fault(*state, FAKE_ERROR, -EBADMSG, "was answered with 'SERVER_ERROR busy'");
}

static void test_wrong_value(void **state)
{
    expect_fault(*state, FAKE_OTHER, -EBADMSG, "has the value of another key");
}

static void test_two_answers(void **state)
{
    struct fixture *fixture = *state;
    fixture->load.read_share = 0; /* or it may be a wrong answer to the next */
    fixture->load.connections = 1;
    expect_fault(fixture, FAKE_TWICE, -EBADMSG, "sent what was not asked for");
}

static void test_silent_server(void **state)
{
    struct fixture *fixture = *state;
    fixture->load.patience_ns = 50 * BASE_NS_PER_MS;
    expect_fault(fixture, FAKE_SILENT, -ETIMEDOUT, "has not answered anything for a while");
}

static void test_silent_server_in_an_open_loop(void **state)
{
    struct fixture *fixture = *state;
    fixture->load.patience_ns = 50 * BASE_NS_PER_MS;
    fixture->load.rate = 1000;
    expect_fault(fixture, FAKE_SILENT, -ETIMEDOUT, "has not answered anything for a while");
}

/* Whichever allocation fails, the run ends with an error, and close_fixture() finds nothing left behind. */
static void test_without_memory(void **state)
{
    struct fixture *fixture = *state;
    uint64_t n = 1;
    fake_begin(&fixture->fake);
    for (;; n++) {
        base_account_fail_at(&fixture->account, n);
        int error = bench_load_fill(&fixture->load);
        if (error == 0)
            break;
        assert_int_equal(error, -ENOMEM);
    }
    base_account_fail_at(&fixture->account, 0);
    fake_end(&fixture->fake);
    assert_int_equal(n, 2 + 3 * 5 + 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_closed_loop),
        TEST(test_pipeline_of_multigets),
        TEST(test_redis),
        TEST(test_redis_multigets),
        TEST(test_only_gets),
        TEST(test_only_sets),
        TEST(test_misses),
        TEST(test_redis_misses),
        TEST(test_fill),
        TEST(test_fill_at_a_rate),
        TEST(test_fill_with_large_values),
        TEST(test_fill_with_fewer_keys_than_connections),
        TEST(test_open_loop_counts_from_the_intended_start),
        TEST(test_open_loop_gives_up),
        TEST(test_nobody_listens),
        TEST(test_server_closes),
        TEST(test_server_error),
        TEST(test_wrong_value),
        TEST(test_two_answers),
        TEST(test_silent_server),
        TEST(test_silent_server_in_an_open_loop),
        TEST(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
