/* What other people's programs print. */
#include "base/testing.h"

#include "lab/fabric.h"
#include <errno.h>

static bool is_near(double number, double wanted)
{
    return number > wanted * 0.999999 && number < wanted * 1.000001;
}

static void test_reads_ucx(void **state)
{
    (void)state;
    static const char head[] =
        "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n";
    char text[512];
    (void)snprintf(text, sizeof(text), "%s20000,4.796,35.941,35.941,0.21,0.21,27820,27823\n", head);
    assert_true(is_near(lab_fabric_read_ucx(text), 27823));
    assert_true(
        is_near(lab_fabric_read_ucx(text) + lab_fabric_read_ucx(head) + lab_fabric_read_ucx(""), 27823));
    assert_true(is_near(lab_fabric_read_ucx("7\n1,2,3,4,5,6,7\n") + 1, 1)); /* cut off */
    assert_true(is_near(lab_fabric_read_ucx("1,2,3,4,5,6,7,-3\n") + 1, 1)); /* no rate */
    assert_true(is_near(lab_fabric_read_ucx("1,2,3,4,5,6,7,x\n") + 1, 1));
    assert_true(is_near(lab_fabric_read_ucx("1,2,3,4,5,6,7,8"), 8));
    assert_true(is_near(lab_fabric_read_ucx(" 100,4.110,26.939,26.939,0.28,0.28,37121,37121\n"), 37121));
}

static void test_reads_libfabric(void **state)
{
    (void)state;
    static const char head[] =
        "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n";
    char text[512];
    (void)snprintf(text, sizeof(text),
                   "%s8       100k    =100k    1.5m        1.76s      0.91       8.80       0.11\n", head);
    assert_true(is_near(lab_fabric_read_libfabric(text), 8.8));
    assert_true(is_near(lab_fabric_read_libfabric(head) + 1, 1));
    assert_true(is_near(lab_fabric_read_libfabric("8  100k =100k\n") + 1, 1));
}

static void test_reads_iperf3(void **state)
{
    (void)state;
    double bytes = 0, seconds = 0;
    static const char good[] = "{\"start\":{},\"end\":{\"sum_sent\":{\"bytes\":9,\"seconds\":9},"
                               "\"sum_received\":{\"start\":0,\"seconds\":1.25,\"bytes\":2964848640}}}\n";
    assert_int_equal(lab_fabric_read_iperf3(good, strlen(good), &bytes, &seconds), 0);
    assert_true(is_near(bytes, 2964848640.0) && is_near(seconds, 1.25));
    static const char *const wrong[] = {"",
                                        "{}",
                                        "{\"end\":{}}",
                                        "{\"end\":{\"sum_received\":{\"bytes\":1}}}",
                                        "{\"error\":\"unable to connect\"}",
                                        "{\"end\":{\"sum_received\":{\"bytes\":0,\"seconds\":1}}}"};
    for (size_t i = 0; i < base_array_count(wrong); i++)
        assert_int_equal(lab_fabric_read_iperf3(wrong[i], strlen(wrong[i]), &bytes, &seconds), -EBADMSG);
    assert_true(is_near(bytes, 2964848640.0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_ucx),
        cmocka_unit_test(test_reads_libfabric),
        cmocka_unit_test(test_reads_iperf3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
