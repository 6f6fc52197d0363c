/* `tarn bench kv`: the command as a user runs it, with tiny durations, on stores in this process. */
#include "bench/testing.h"

#include <errno.h>
#include <tarn/depot.h>
#include <tarn/kv.h>
#include <tarn/tarn.h>

static void expect_usage(const char *option, const char *text)
{
    struct run run;
    RUN(&run, "kv", option);
    assert_int_equal(run.status, 2);
    assert_non_null(strstr(run.err, text));
    free_run(&run);
}

static void test_usage(void **state)
{
    (void)state;
    expect_usage("--pipeline=1025", "--pipeline");
    expect_usage("--pipeline=1x65", "--pipeline");
    expect_usage("--read-share=1.5", "--read-share");
    expect_usage("--zipf-exponent=1", "--zipf-exponent");
    expect_usage("--sizes=24", "--sizes");
    expect_usage("--sizes=33", "--sizes");
    expect_usage("--sizes=2M", "--sizes");
    expect_usage("--keys=0", "keys");
}

static void test_stores_that_are_not_there(void **state)
{
    static const char *const urls[] = {"--store=file:/there/is/none", "--beside=unix:/there/is/none/s",
                                       "--store=pigeon:"};
    (void)state;
    for (size_t i = 0; i < base_array_count(urls); i++) {
        struct run run;
        RUN(&run, "kv", urls[i], "--keys=10", "--duration=1ms");
        assert_int_equal(run.status, 1);
        assert_non_null(strstr(run.err, strchr(urls[i], '=') + 1));
        free_run(&run);
    }
}

/* Each subject was measured, and has found all. @return how many there are */
static size_t check_line(const char *line, size_t len)
{
    struct base_json_value all, subjects, one, member;
    size_t count = 0;
    assert_int_equal(base_json_parse(line, len, &all), 0);
    assert_int_equal(base_json_member(all, "subjects", &subjects), 0);
    for (; base_json_element(subjects, count, &one) == 0; count++) {
        assert_int_equal(base_json_member(one, "rate", &member), 0);
        assert_true(number_of(member, "min") > 0);
        assert_int_equal(base_json_member(one, "values", &member), 0);
        assert_int_equal(base_json_member(member, "hit_percent", &member), 0);
        assert_true(number_of(member, "min") > 99.9999);
        assert_int_equal(base_json_member(one, "latency_ns", &member), 0);
        assert_true(number_of(member, "count") > 0);
    }
    return count;
}

static size_t check_lines(const struct run *run, size_t subjects)
{
    size_t lines = 0;
    for (const char *line = run->out; *line != '\0'; line += strcspn(line, "\n") + 1, lines++)
        assert_int_equal(check_line(line, strcspn(line, "\n")), subjects);
    return lines;
}

/* Gets, many at once, both kinds, and puts; many at once of puts alone are none. */
static void test_two_caches(void **state)
{
    struct run run;
    (void)state;
    RUN(&run, "kv", "--json", "--duration=1ms", "--repeats=2", "--keys=500", "--sizes=32,64K",
        "--pipeline=1,7,2x3", "--read-share=1,0.5,0", "--zipf-exponent=0.9", "--store=cache:memory=200M",
        "--beside=cache:memory=200M,partitions=2", "--seed=7");
    assert_success(&run);
    assert_int_equal(check_lines(&run, 2), 2 * (3 + 3 + 2));
    free_run(&run);
}

/* ---- a depot ------------------------------------------------------------------------------------ */

static int count_record(void *arg, const void *key, size_t key_len, const void *value,
                        const struct tarn_record_info *info)
{
    (void)key;
    (void)key_len;
    (void)value;
    (void)info;
    ++*(unsigned *)arg;
    return 0;
}

/* Open the store, put a key into it or not, and close it. @return how many records it has */
static unsigned open_and_count(const char *url, const char *key)
{
    const struct tarn_depot_options depot = {.create_bytes = 64 << 20};
    const struct tarn_kv_options options = {.depot = &depot};
    struct tarn_node *node;
    struct tarn_kv *kv;
    unsigned count = 0;
    assert_int_equal(tarn_node_open(NULL, &node), 0);
    assert_int_equal(tarn_kv_open(node, url, &options, &kv), 0);
    if (key != NULL)
        assert_int_equal(tarn_kv_put(kv, key, strlen(key), "value", 5, NULL, NULL), 0);
    assert_int_equal(tarn_kv_scan(kv, count_record, &count), 0);
    assert_int_equal(tarn_kv_close(kv), 0);
    tarn_node_close(node);
    return count;
}

static void test_a_depot_keeps_what_it_had(void **state)
{
    struct folder folder;
    struct run run;
    char url[128], option[160];
    (void)state;
    assert_int_equal(make_folder_in(&folder, in_memory(), "store"), 0);
    (void)snprintf(url, sizeof(url), "file:%s", folder.file);
    (void)snprintf(option, sizeof(option), "--store=%s", url);
    assert_int_equal(open_and_count(url, "mine"), 1);
    RUN(&run, "kv", "--json", "--duration=10ms", "--repeats=1", "--keys=300", "--sizes=104", option,
        "--seed=7");
    assert_success(&run);
    assert_int_equal(check_lines(&run, 1), 3 + 3 + 2);
    free_run(&run);
    assert_int_equal(open_and_count(url, NULL), 1);
    assert_int_equal(unlink(folder.file), 0);
    assert_int_equal(rmdir(folder.path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_stores_that_are_not_there),
        cmocka_unit_test(test_two_caches),
        cmocka_unit_test(test_a_depot_keeps_what_it_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
