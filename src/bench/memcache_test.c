/* `tarn bench memcache` as a user runs it, on a server that is a thread of the test. */
#include "bench/fake_server_testing.h"

#include "bench/testing.h"

#define EXPECT(status, text, ...)                                                                            \
    expect_run(status, &bench_program, (const char *const[]){"memcache", __VA_ARGS__, NULL}, text)

/* ---- usage --------------------------------------------------------------------------------------- */

static void test_usage(void **state)
{
    (void)state;
    EXPECT(2, "--server=HOST:PORT", "--keys=1");
    EXPECT(2, "--pipeline: '0'", "--server=127.0.0.1:1", "--pipeline=0");
    EXPECT(2, "--pipeline: '16x0'", "--server=127.0.0.1:1", "--pipeline=1,16x0");
    EXPECT(2, "--pipeline: '1x101'", "--server=127.0.0.1:1", "--pipeline=1x101");
    EXPECT(2, "--pipeline: '1025'", "--server=127.0.0.1:1", "--pipeline=1025");
    EXPECT(2, "--pipeline: 'x5'", "--server=127.0.0.1:1", "--pipeline=x5");
    EXPECT(2, "--pipeline: '5x'", "--server=127.0.0.1:1", "--pipeline=5x");
    EXPECT(2, "--sizes: '31'", "--server=127.0.0.1:1", "--sizes=31");
    EXPECT(2, "--sizes: '1001K'", "--server=127.0.0.1:1", "--sizes=1001K");
    EXPECT(2, "--read-share: '1.1'", "--server=127.0.0.1:1", "--read-share=1.1");
    EXPECT(2, "--read-share: '-1'", "--server=127.0.0.1:1", "--read-share=-1");
    EXPECT(2, "--read-share: '1e-1'", "--server=127.0.0.1:1", "--read-share=1e-1");
    EXPECT(2, "--read-share: '0x1'", "--server=127.0.0.1:1", "--read-share=0x1");
    EXPECT(2, "--read-share: 'nan'", "--server=127.0.0.1:1", "--read-share=nan");
    EXPECT(2, "--read-share: '0.5.'", "--server=127.0.0.1:1", "--read-share=0.5.");
    EXPECT(2, "--zipf-exponent: '1'", "--server=127.0.0.1:1", "--zipf-exponent=1");
    EXPECT(2, "--zipf-exponent: '0'", "--server=127.0.0.1:1", "--zipf-exponent=0");
    EXPECT(2, "--distribution has no 'normal'", "--server=127.0.0.1:1", "--distribution=normal");
    EXPECT(2, "--server: 'localhost'", "--server=localhost");
    EXPECT(2, "--server: 'localhost:0'", "--server=localhost:0");
    EXPECT(2, "--server: ':11211'", "--server=:11211");
    EXPECT(2, "--server: 'localhost:http'", "--server=localhost:http");
    EXPECT(2, "--server: 'unix:'", "--server=unix:");
    EXPECT(0, "--server", "--help");
}

static void test_addresses(void **state)
{
    (void)state;
    struct memcache_client_address address;
    assert_int_equal(memcache_client_address_read("127.0.0.1:11211", &address), 0);
    const struct memcache_client_address expected = memcache_client_address_of_port(11211);
    assert_int_equal(address.bytes, expected.bytes);
    assert_memory_equal(&address.address, &expected.address, expected.bytes);
    assert_int_equal(memcache_client_address_read("[::1]:80", &address), 0);
    assert_int_equal(address.address.ss_family, AF_INET6);
    assert_int_equal(memcache_client_address_read("unix:/tmp/a:b", &address), 0);
    assert_int_equal(address.address.ss_family, AF_UNIX);
    assert_int_equal(memcache_client_address_read("[::1:80", &address), -ENOENT);
}

/* ---- a named server ------------------------------------------------------------------------------ */

struct named {
    struct base_account account;
    struct bench_values values;
    struct fake_server fake;
    char option[64];
};

static int open_named(void **state)
{
    struct named *named = test_calloc(1, sizeof(*named));
    base_account_init(&named->account, BASE_ACCOUNT_UNLIMITED);
    *state = named;
    if (bench_values_open(&named->account, 1024, &named->values) != 0)
        return -1;
    named->fake.values = &named->values;
    fake_begin(&named->fake);
    (void)snprintf(named->option, sizeof(named->option), "--server=127.0.0.1:%d", named->fake.port);
    return 0;
}

static int close_named(void **state)
{
    struct named *named = *state;
    bench_values_close(&named->values);
    base_account_deinit(&named->account);
    test_free(named);
    return 0;
}

/* Closed and open loop of each pattern; what --json says can be read. */
static void test_named_server(void **state)
{
    struct named *named = *state;
    struct run run;
    RUN(&run, "memcache", named->option, "--json", "--keys=500", "--connections=4", "--duration=200ms",
        "--repeats=2", "--pipeline=1,3x5", "--distribution=uniform,zipf", "--seed=7");
    fake_end(&named->fake);
    assert_success(&run);
    assert_int_equal(run.err_bytes, 0);
    assert_int_equal(count_of(run.out, "\n"), 8);
    assert_int_equal(count_of(run.out, "\"pipeline\":3,\"keys_per_get\":5,\"value_bytes\":1024"), 4);
    assert_int_equal(count_of(run.out, "\"distribution\":\"zipf-0.99\",\"loop\":\"open\",\"rate\":"), 2);
    assert_int_equal(count_of(run.out, "\"hit_percent\":{\"median\":100"), 8);
    assert_true(count_of(run.out, "\"p90\":") > 0);
    for (const char *line = run.out; *line != '\0'; line += strcspn(line, "\n") + 1) {
        struct base_json_value all;
        assert_int_equal(base_json_parse(line, strcspn(line, "\n"), &all), 0);
    }
    for (int i = 0; i < 500; i++)
        assert_true(named->fake.sets[i] >= 1);
    free_run(&run);
}

/* With a rate there is the open loop alone; without filling and sets nothing is stored. */
static void test_named_server_read_only(void **state)
{
    struct named *named = *state;
    struct run run;
    RUN(&run, "memcache", named->option, "--keys=500", "--connections=4", "--duration=50ms", "--repeats=1",
        "--pipeline=1", "--rate=1000", "--no-fill", "--read-share=1");
    fake_end(&named->fake);
    assert_success(&run);
    assert_int_equal(count_of(run.out, "loop=open rate=1000: keys/s"), 1);
    assert_int_equal(count_of(run.out, "keys/s"), 1);
    assert_int_equal(named->fake.gets, named->fake.requests);
    free_run(&run);
}

static void test_named_server_fails(void **state)
{
    struct named *named = *state;
    named->fake.fault_at = 600; /* set while nothing is connected: the thread looks at it when it answers */
    named->fake.fault = FAKE_ERROR;
    EXPECT(1, "SERVER_ERROR busy", named->option, "--keys=500", "--connections=4", "--duration=60s",
           "--repeats=1"); /* which the error ends */
    fake_end(&named->fake);
    EXPECT(1, "connect (does it run", named->option, "--keys=500", "--duration=50ms");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test_setup_teardown(test_named_server, open_named, close_named),
        cmocka_unit_test_setup_teardown(test_named_server_read_only, open_named, close_named),
        cmocka_unit_test_setup_teardown(test_named_server_fails, open_named, close_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
