/* `tarn-lab cache`: what is asked, and the command as a user runs it, with tiny durations. */
#include "lab/testing.h"

#include "bench/contest.h"
#include "lab/cache.h"
#include <errno.h>
#include <sys/stat.h>

/* ---- what is asked ------------------------------------------------------------------------------ */

struct fixture {
    struct base_account account;
    struct bench bench;
    struct lab_cache_job job;
};

static int make_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    base_account_init(&fixture->account, BASE_ACCOUNT_UNLIMITED);
    fixture->bench = (struct bench){.program = &lab_program,
                                    .out = stdout,
                                    .err = fopen("/dev/null", "we"),
                                    .account = &fixture->account,
                                    .verb = "cache",
                                    .options = {.duration_ns = BASE_NS_PER_MS, .seed = 7}};
    assert_non_null(fixture->bench.err);
    fixture->job =
        (struct lab_cache_job){.bench = &fixture->bench, .depth = 1, .per_get = 1, .read_share = 1};
    fixture->job.draws = base_alloc(&fixture->account, LAB_CACHE_DRAWS * sizeof(uint32_t));
    assert_non_null(fixture->job.draws);
    assert_int_equal(bench_values_open(&fixture->account, LAB_CACHE_VALUE_BYTES, &fixture->job.values), 0);
    bench_keys_init(&fixture->job.keys, 1000, 0);
    *state = fixture;
    return 0;
}

static int free_fixture(void **state)
{
    struct fixture *fixture = *state;
    bench_values_close(&fixture->job.values);
    base_free(&fixture->account, fixture->job.draws, LAB_CACHE_DRAWS * sizeof(uint32_t));
    base_account_deinit(&fixture->account);
    (void)fclose(fixture->bench.err);
    free(fixture);
    return 0;
}

static void test_share_of_puts(void **state)
{
    struct fixture *fixture = *state;
    static const double shares[] = {1, 0.95, 0};
    for (size_t i = 0; i < base_array_count(shares); i++) {
        uint32_t puts = 0;
        fixture->job.read_share = shares[i];
        lab_cache_job_draw(&fixture->job);
        for (uint32_t k = 0; k < LAB_CACHE_DRAWS; k++) {
            puts += (fixture->job.draws[k] & LAB_CACHE_PUT) != 0;
            assert_in_range(fixture->job.draws[k] & ~LAB_CACHE_PUT, 0, 999);
        }
        const double wanted = (1 - shares[i]) * LAB_CACHE_DRAWS;
        assert_in_range(puts, wanted * 0.98, wanted * 1.02);
    }
}

/* All keys of a request are gets, or it is one put; what is put is the key's value. */
static void test_requests(void **state)
{
    struct fixture *fixture = *state;
    struct lab_cache_load load;
    struct lab_cache_request request;
    uint64_t number, puts = 0;
    fixture->job.read_share = 0.5;
    fixture->job.per_get = 3;
    lab_cache_job_draw(&fixture->job);
    lab_cache_load_begin(&load, &fixture->job);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(lab_cache_load_next(&load, &request));
        assert_int_equal(request.count, request.is_put ? 1 : 3);
        for (uint32_t k = 0; k < request.count; k++) {
            assert_int_equal(bench_key_read(request.keys[k], sizeof(request.keys[k]), &number), 0);
            assert_int_equal(number, request.numbers[k]);
        }
        puts += request.is_put;
        if (request.is_put)
            assert_int_equal(
                lab_cache_load_take(&load, request.numbers[0], request.value, sizeof(request.value)), 0);
        load.gets = load.puts = 0; /* so that the time is never over */
    }
    assert_in_range(puts, 400, 600);
}

static void test_values_are_looked_at(void **state)
{
    struct fixture *fixture = *state;
    struct lab_cache_load load;
    uint8_t value[LAB_CACHE_VALUE_BYTES];
    lab_cache_load_begin(&load, &fixture->job);
    bench_value(&fixture->job.values, 5, 77, value);
    assert_int_equal(lab_cache_load_take(&load, 5, value, sizeof(value)), 0);
    assert_int_equal(lab_cache_load_take(&load, 6, value, sizeof(value)), -EBADMSG);
    assert_int_equal(lab_cache_load_take(&load, 5, value, sizeof(value) - 1), -EBADMSG);
    value[sizeof(value) - 1] ^= 1;
    assert_int_equal(lab_cache_load_take(&load, 5, value, sizeof(value)), -EBADMSG);
}

static void test_misses(void **state)
{
    struct fixture *fixture = *state;
    struct lab_cache_load load;
    struct lab_cache_request request;
    struct bench_sample sample = {0};
    uint8_t value[LAB_CACHE_VALUE_BYTES];
    lab_cache_job_draw(&fixture->job);
    lab_cache_load_begin(&load, &fixture->job);
    assert_int_equal(lab_cache_load_take(&load, 321, NULL, 0), 0);
    assert_true(lab_cache_load_next(&load, &request));
    assert_true(request.is_put && request.numbers[0] == 321);
    assert_true(lab_cache_load_next(&load, &request));
    assert_false(request.is_put);
    bench_value(&fixture->job.values, 5, 0, value);
    for (uint32_t i = 0; i < 999; i++)
        assert_int_equal(lab_cache_load_take(&load, 5, value, sizeof(value)), 0);
    assert_int_equal(lab_cache_load_end(&load, &sample), 0);
    assert_true(sample.values[LAB_CACHE_HIT_PERCENT] > 99.8 && sample.values[LAB_CACHE_HIT_PERCENT] < 100);
    for (uint32_t i = 0; i < 200; i++)
        assert_int_equal(lab_cache_load_take(&load, 5, NULL, 0), 0);
    assert_int_equal(lab_cache_load_end(&load, &sample), -ENODATA);
}

/* What begins before the load is warm, or ends after its time, does not count. */
static void test_time(void **state)
{
    struct fixture *fixture = *state;
    struct lab_cache_load load;
    struct lab_cache_request request;
    struct bench_sample sample = {0};
    lab_cache_job_draw(&fixture->job);
    lab_cache_load_begin(&load, &fixture->job);
    while (lab_cache_load_next(&load, &request))
        load.puts++;
    assert_int_equal(lab_cache_load_end(&load, &sample), 0);
    assert_in_range(sample.elapsed_ns, BASE_NS_PER_MS, UINT64_MAX);
    assert_in_range(sample.operations, 1, load.puts - 1);
    assert_false(lab_cache_load_next(&load, &request));
}

/* ---- the command -------------------------------------------------------------------------------- */

static void expect_usage(const char *option, const char *text)
{
    struct run run;
    LAB_RUN(&run, "cache", option);
    assert_int_equal(run.status, 2);
    assert_non_null(strstr(run.err, text));
    free_run(&run);
}

static void test_usage(void **state)
{
    (void)state;
    expect_usage("--pipeline=65", "--pipeline");
    expect_usage("--pipeline=1x65", "--pipeline");
    expect_usage("--pipeline=x", "--pipeline");
    expect_usage("--read-share=1.5", "--read-share");
    expect_usage("--zipf-exponent=1", "--zipf-exponent");
    expect_usage("--distribution=normal", "--distribution");
    expect_usage("--keys=0", "keys");
}

/* Of a subject: a median. @param group  "values" and a name in it; or NULL and "rate" */
static double median_of(struct base_json_value subject, const char *group, const char *name)
{
    struct base_json_value value;
    if (group != NULL)
        assert_int_equal(base_json_member(subject, group, &subject), 0);
    assert_int_equal(base_json_member(subject, name, &value), 0);
    return number_of(value, "median");
}

static void check_name(struct base_json_value subject, const char *name)
{
    struct base_json_value value;
    assert_int_equal(base_json_member(subject, "name", &value), 0);
    assert_int_equal((size_t)(value.end - value.begin), strlen(name) + 2);
    assert_memory_equal(value.begin + 1, name, strlen(name));
}

/* Whoever is there has been measured, and has found all where nothing is put. @return how many there are */
static size_t check_line(const char *line, size_t len, const char *const *names)
{
    struct base_json_value all, subjects, one, value;
    const bool all_read = memmem(line, len, "\"read_share\":\"1\"", 16) != NULL;
    size_t count = 0;
    assert_int_equal(base_json_parse(line, len, &all), 0);
    assert_int_equal(base_json_member(all, "subjects", &subjects), 0);
    for (; base_json_element(subjects, count, &one) == 0; count++) {
        check_name(one, names[count]);
        if (base_json_member(one, "skipped", &value) == 0)
            continue;
        assert_true(median_of(one, NULL, "rate") > 0);
        const double hits = median_of(one, "values", "hit_percent");
        const double reads = median_of(one, "values", "reads_per_key");
        if (all_read)
            assert_true(hits > 99.9999);
        if (all_read && strcmp(names[count], "bypass") == 0)
            assert_true(reads > 1.99 && reads < 3); /* bucket and record */
        if (strcmp(names[count], "fetch") == 0)
            assert_true(reads > 0);
    }
    return count;
}

static size_t check_lines(const struct run *run, const char *const *names, size_t subjects)
{
    size_t lines = 0;
    for (const char *line = run->out; *line != '\0'; line += strcspn(line, "\n") + 1, lines++)
        assert_int_equal(check_line(line, strcspn(line, "\n"), names), subjects);
    return lines;
}

static bool has_two_cores(void)
{
    struct bench_machine machine;
    bench_machine_read(&machine);
    return bench_has_two_cores(&machine);
}

static void test_results(void **state)
{
    static const char *const names[] = {"tarn", "fetch", "reply", "bypass"};
    struct run run;
    (void)state;
    LAB_RUN(&run, "cache", "--json", "--duration=1ms", "--repeats=2", "--pipeline=1,5,2x3",
            "--read-share=1,0.5", "--keys=1000", "--no-peers", "--seed=7");
    assert_success(&run);
    assert_int_equal(check_lines(&run, names, base_array_count(names)), has_two_cores() ? 12 : 0);
    free_run(&run);
}

/* In place of `tarn serve`, at the socket that it is told. */
static const char server_script[] = "#!/bin/sh\nfor option; do case $option in\n"
                                    "--unix=*) path=${option#--unix=};;\nesac; done\n"
                                    "user=; test $(id -u) = 0 && user='-u root'\n"
                                    "exec memcached $user -s $path -t 1 -m 64\n";

static int make_program(void **state)
{
    struct folder *folder = test_calloc(1, sizeof(*folder));
    *state = folder;
    if (make_folder_in(folder, "", "program") != 0)
        return -1;
    (void)snprintf(folder->option, sizeof(folder->option), "--program=./%s", folder->file);
    FILE *file = fopen(folder->file, "we");
    return file == NULL || fputs(server_script, file) < 0 || fclose(file) != 0 ||
           chmod(folder->file, 0700) != 0;
}

static int remove_program(void **state)
{
    struct folder *folder = *state;
    (void)unlink(folder->file);
    int error = rmdir(folder->path);
    test_free(folder);
    return error;
}

static void test_beside_peers(void **state)
{
    static const char *const names[] = {"tarn",   "fetch",         "reply",     "bypass",
                                        "socket", "socket-single", "memcached", "memcached-single",
                                        "redis",  "redis-single"};
    const struct folder *folder = *state;
    struct run run;
    if (!lab_memcache_is_installed("memcached"))
        skip();
    LAB_RUN(&run, "cache", folder->option, "--json", "--duration=150ms", "--repeats=1", "--pipeline=3",
            "--read-share=0.9", "--distribution=zipf", "--keys=200",
            "--seed=7"); /* long enough to be served on a busy machine */
    assert_success(&run);
    assert_int_equal(check_lines(&run, names, base_array_count(names)), has_two_cores() ? 1 : 0);
    free_run(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_share_of_puts, make_fixture, free_fixture),
        cmocka_unit_test_setup_teardown(test_requests, make_fixture, free_fixture),
        cmocka_unit_test_setup_teardown(test_values_are_looked_at, make_fixture, free_fixture),
        cmocka_unit_test_setup_teardown(test_misses, make_fixture, free_fixture),
        cmocka_unit_test_setup_teardown(test_time, make_fixture, free_fixture),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_results),
        cmocka_unit_test_setup_teardown(test_beside_peers, make_program, remove_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
