/* Calls as RFP measures them: how many operations each takes, and that equal options give equal runs. */
#include "lab/rfp_run.h"
#include "sim/testing.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define CARD "connectx3-40g"

enum { RUN_NS = 300000, KEYS = 2000 };

static struct lab_rfp_options small(void)
{
    return (struct lab_rfp_options){.card = sim_card_find(CARD),
                                    .costs = &sim_costs_rfp,
                                    .seed = 1,
                                    .way = TARN_RPC_FETCH,
                                    .workers = 2,
                                    .machines = 3,
                                    .clients = 12,
                                    .keys = KEYS,
                                    .value_bytes = 32,
                                    .get_percent = 100,
                                    .fetch_bytes = 32,
                                    .run_ns = RUN_NS};
}

static struct lab_rfp_result measure(const struct lab_rfp_options *options)
{
    struct lab_rfp_result result;
    base_assert(lab_rfp_measure(options, &result) == 0);
    base_assert(result.calls > 100);
    base_assert(result.hits <= result.gets && result.hits * 1000 >= result.gets * 999);
    base_assert(result.latency.count == result.calls);
    return result;
}

/* So many hundredths of an operation for each call; what is under way at both ends of the run makes some difference. */
static void expect(const char *what, uint64_t operations, uint64_t calls, uint64_t least, uint64_t most)
{
    if (operations * 100 >= calls * least && operations * 100 <= calls * most)
        return;
    (void)fprintf(stderr, "%s: %" PRIu64 " in %" PRIu64 " calls\n", what, operations, calls);
    base_assert(false);
}

static void expect_in_bound(const struct lab_rfp_result *result, uint64_t least, uint64_t most)
{
    const struct lab_rfp_operations *in = &result->in_bound;
    expect("WRITEs of requests", in->writes, result->calls, 98, 102);
    expect("READs of results", in->reads, result->calls, least, most);
    expect("messages of clients", in->sends, result->calls, 0, 2);
}

/* RFP §IV: a WRITE and a READ, both served by the server's card, which issues nothing. */
static void a_fetch_costs_a_write_and_a_read(void)
{
    const struct lab_rfp_options options = small();
    const struct lab_rfp_result result = measure(&options);
    expect_in_bound(&result, 98, 103);
    base_assert(result.out_bound.writes + result.out_bound.reads + result.out_bound.sends == 0);
    base_assert(result.stats.fetched == result.stats.calls && result.stats.replied == 0);
}

/* The paper's ServerReply: a WRITE each way. */
static void a_reply_costs_a_write_each_way(void)
{
    struct lab_rfp_options options = small();
    options.way = TARN_RPC_REPLY;
    options.clients = 6;
    const struct lab_rfp_result result = measure(&options);
    expect_in_bound(&result, 0, 2);
    expect("WRITEs of results", result.out_bound.writes, result.calls, 98, 102);
    base_assert(result.out_bound.reads + result.out_bound.sends == 0);
    base_assert(result.stats.replied == result.stats.calls);
}

/* RFP §V-D2: what is longer than the first READ takes another one; a PUT has no result that could be. */
static void a_long_result_costs_a_second_read(void)
{
    struct lab_rfp_options options = small();
    options.value_bytes = 64;
    const struct lab_rfp_result longer = measure(&options);
    expect_in_bound(&longer, 197, 204);
    options.get_percent = 0;
    const struct lab_rfp_result puts = measure(&options);
    expect_in_bound(&puts, 98, 103);
    options.get_percent = 100;
    options.fetch_bytes = 64;
    const struct lab_rfp_result enough = measure(&options);
    expect_in_bound(&enough, 98, 103);
}

/* More connections than a worker watches, all busy: those that are not watched notify, and it costs nothing more. */
static void many_busy_clients_cost_no_more(void)
{
    struct lab_rfp_options options = small();
    options.workers = 1;
    options.clients = 100;
    options.run_ns = 8 * (uint64_t)RUN_NS;
    const struct lab_rfp_result result = measure(&options);
    expect_in_bound(&result, 98, 105);
    expect("notified WRITEs", result.in_bound.notified, result.calls, 10, 60);
}

/* The server's card serves what its in-bound rate allows. */
static void the_card_limits_the_rate(void)
{
    struct lab_rfp_options options = small();
    options.machines = 7;
    options.clients = 28;
    const struct lab_rfp_result result = measure(&options);
    expect("half of the in-bound rate", result.kops, options.card->in_kops, 47, 51);
}

/* So does a processor, if it is slow. */
static void a_worker_takes_the_time_that_it_is_charged(void)
{
    struct lab_rfp_options options = small();
    struct sim_costs costs = {.server_ns = 2000};
    options.costs = &costs;
    options.workers = 1;
    const struct lab_rfp_result result = measure(&options);
    expect("a call each 2 us", result.kops, 500, 96, 104);
    costs = (struct sim_costs){.client_ns = 20000};
    const struct lab_rfp_result slow = measure(&options);
    base_assert(slow.kops <= options.clients * UINT64_C(50) &&
                base_histogram_mean(&slow.latency) > (double)costs.client_ns);
}

/* What a method leaves is there when its time is over, not when it begins. */
static void a_result_is_fetched_when_it_is_ready(void)
{
    struct lab_rfp_options options = small();
    const struct sim_costs costs = {.server_ns = 10000, .client_ns = 20000};
    options.costs = &costs;
    options.clients = 1;
    options.workers = 1;
    options.machines = 1;
    options.run_ns = 20 * (uint64_t)RUN_NS;
    const struct lab_rfp_result result = measure(&options);
    base_assert(base_histogram_mean(&result.latency) > (double)(30000 + options.card->round_trip_ns / 2));
}

static void skewed_and_mixed_values_are_right(void)
{
    struct lab_rfp_options options = small();
    options.value_bytes = 0;
    options.get_percent = 50;
    options.fetch_bytes = 508;
    const struct lab_rfp_result result = measure(&options);
    expect_in_bound(&result, 98, 104);
    expect("gets", result.gets, result.calls, 40, 60);
    base_assert(result.got_bytes > 35 * result.hits && result.got_bytes < 51 * result.hits);
    options.is_skewed = true;
    const struct lab_rfp_result skewed = measure(&options);
    base_assert(skewed.hash != result.hash);
}

static void equal_options_give_equal_runs(void)
{
    struct lab_rfp_options options = small();
    const struct lab_rfp_result first = measure(&options), second = measure(&options);
    base_assert(first.hash == second.hash && first.calls == second.calls);
    options.seed++;
    const struct lab_rfp_result other = measure(&options);
    base_assert(other.hash != first.hash);
}

static void refuse(struct lab_rfp_options options)
{
    struct lab_rfp_result result;
    base_assert(lab_rfp_measure(&options, &result) == -EINVAL);
}

static void nonsense_is_refused(void)
{
    struct lab_rfp_options options = small();
    options.workers = LAB_RFP_WORKERS_MAX + 1;
    refuse(options);
    options = small();
    options.clients = 0;
    refuse(options);
    options = small();
    options.value_bytes = LAB_RFP_VALUE_MAX + 1;
    refuse(options);
    options = small();
    options.card = NULL;
    refuse(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(a_fetch_costs_a_write_and_a_read),
        SIM_TEST(a_reply_costs_a_write_each_way),
        SIM_TEST(a_long_result_costs_a_second_read),
        SIM_TEST(many_busy_clients_cost_no_more),
        SIM_TEST(the_card_limits_the_rate),
        SIM_TEST(a_worker_takes_the_time_that_it_is_charged),
        SIM_TEST(a_result_is_fetched_when_it_is_ready),
        SIM_TEST(skewed_and_mixed_values_are_right),
        SIM_TEST(equal_options_give_equal_runs),
        SIM_TEST(nonsense_is_refused),
    };
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return cmocka_run_group_tests_name("rfp", tests, NULL, NULL);
}
