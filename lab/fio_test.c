/* Tests of reading fio's results. */
#include "base/testing.h"

#include "base/base.h"
#include "lab/fio.h"

/* What fio prints, cut to what is read; %s is the job's error, then the bins. */
static const char *const output_format =
    "fio: a note that it makes\n"
    "{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : [\n    {\n      \"jobname\" : \"bench\",\n"
    "      \"error\" : %s,\n      \"usr_cpu\" : 10.000000,\n      \"sys_cpu\" : 30.000000,\n"
    "      \"read\" : { \"total_ios\" : 4000, \"runtime\" : 200,\n"
    "        \"lat_ns\" : { \"min\" : 90, \"bins\" : %s } },\n"
    "      \"write\" : { \"total_ios\" : 0, \"runtime\" : 0, \"lat_ns\" : { \"min\" : 0 } }\n"
    "    }\n  ]\n}\n";

static int read_output(const char *error, const char *bins, bool writes, struct bench_sample *sample)
{
    char text[2048];
    int len = snprintf(text, sizeof(text), output_format, error, bins);
    assert_in_range(len, 1, sizeof(text) - 1);
    return lab_fio_read(text, (size_t)len, writes, sample);
}

static void test_reads_rate_and_latencies(void **state)
{
    (void)state;
    struct base_histogram latency;
    base_histogram_reset(&latency);
    struct bench_sample sample = {.latency = &latency};
    assert_int_equal(read_output("0", "{ \"100\" : 3000, \"50000\" : 1000 }", false, &sample), 0);
    assert_int_equal(sample.operations, 4000);
    assert_int_equal(sample.elapsed_ns, 200 * BASE_NS_PER_MS);
    assert_true(sample.values[0] > 19999 && sample.values[0] < 20001); /* 40 % of 200 ms for 4,000 */
    assert_int_equal(base_histogram_count(&latency), 4000);
    assert_int_equal(base_histogram_percentile(&latency, 50), 100);
    assert_int_equal(base_histogram_max(&latency), 50000);
}

static void test_refuses_failures(void **state)
{
    (void)state;
    struct base_histogram latency;
    base_histogram_reset(&latency);
    struct bench_sample sample = {.latency = &latency};
    assert_int_equal(read_output("5", "{ \"100\" : 1 }", false, &sample), -EBADMSG);
    assert_int_equal(read_output("0", "{ \"100\" : 1 }", true, &sample), -EBADMSG); /* nothing was written */
    assert_int_equal(read_output("0", "{ \"100\" : -1 }", false, &sample), -EBADMSG);
    assert_int_equal(read_output("0", "{ \"1x\" : 1 }", false, &sample), -EBADMSG);
    assert_int_equal(read_output("0", "7", false, &sample), -EBADMSG);
    assert_int_equal(lab_fio_read("", 0, false, &sample), -EBADMSG);
    assert_int_equal(lab_fio_read("no job", 6, false, &sample), -EBADMSG);
    assert_int_equal(lab_fio_read("{\"jobs\":[]}", 11, false, &sample), -EBADMSG);
    assert_int_equal(lab_fio_read("{\"jobs\":[{", 10, false, &sample), -EBADMSG);
}

static void test_engine_of_the_same_kind(void **state)
{
    (void)state;
    assert_string_equal(lab_fio_engine(DRIVE_PROVIDER_URING), "io_uring");
    assert_string_equal(lab_fio_engine(DRIVE_PROVIDER_AIO), "libaio");
    assert_string_equal(lab_fio_engine(DRIVE_PROVIDER_SYNC), "psync");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_rate_and_latencies),
        cmocka_unit_test(test_refuses_failures),
        cmocka_unit_test(test_engine_of_the_same_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
