/* Adaptive calls against the better way, in virtual time: docs/papers/rfp.md has the whole grid. */
#include "lab/rfp_adaptive.h"
#include "sim/testing.h"
#include <inttypes.h>
#include <stdlib.h>

enum { GOOD_PERMILLE = 950, LOOKED_AT_NS = 6000000 };

static const struct lab_adaptive_place place = {.workers = 2, .clients = 14, .seed = 1};

static struct lab_adaptive_rates measure(uint64_t server_ns, uint32_t result_bytes)
{
    struct lab_adaptive_rates rates;
    base_assert(lab_adaptive_measure(&place, server_ns, result_bytes, &rates) == 0);
    if (lab_adaptive_permille(&rates) < GOOD_PERMILLE) {
        (void)fprintf(stderr,
                      "%" PRIu64 " ns, %" PRIu32 " bytes: fetch %" PRIu64 ", reply %" PRIu64
                      ", adaptive %" PRIu64 "\n",
                      server_ns, result_bytes, rates.kops[TARN_RPC_FETCH], rates.kops[TARN_RPC_REPLY],
                      rates.kops[TARN_RPC_ADAPTIVE]);
        base_assert(false);
    }
    return rates;
}

/* The server's card issues fewer operations than it serves. */
static void short_calls_are_fetched(void)
{
    const struct lab_adaptive_rates rates = measure(200, 32);
    base_assert(rates.kops[TARN_RPC_FETCH] * 2 > rates.kops[TARN_RPC_REPLY] * 3 &&
                rates.replied_permille == 0);
}

/* Of READs in vain others have less. */
static void long_calls_are_replied_to(void)
{
    const struct lab_adaptive_rates rates = measure(30000, 32);
    base_assert(rates.replied_permille > 500);
    base_assert(rates.vain[TARN_RPC_ADAPTIVE] * 2 < rates.vain[TARN_RPC_FETCH]);
}

/* What is there at the first look is fetched with it, also if it is long. */
static void long_results_are_fetched_at_once(void)
{
    const struct lab_adaptive_rates rates = measure(200, 2048);
    base_assert(rates.fetch_bytes[TARN_RPC_ADAPTIVE] == 2048);
}

/* What is not would be fetched again and again. */
static void nothing_is_fetched_in_vain(void)
{
    const struct lab_adaptive_rates rates = measure(10000, 32768);
    base_assert(rates.fetch_bytes[TARN_RPC_FETCH] == 0);
}

static void a_change_is_met_in_time(void)
{
    const struct lab_rfp_phase slow = {.server_ns = 30000, .result_bytes = 32},
                               brief = {.for_ns = 2 * LOOKED_AT_NS, .server_ns = 500, .result_bytes = 32};
    struct lab_adaptive_rates rates;
    base_assert(lab_adaptive_change(&place, &slow, &brief, &rates) == 0);
    base_assert(rates.replied_permille > 0 &&
                rates.kops[TARN_RPC_FETCH] * 2 > rates.kops[TARN_RPC_REPLY] * 3);
    base_assert(rates.settled_ns <= LOOKED_AT_NS);
}

/* 16 clients among 1,024 connections, of which a worker watches 64. */
static void idle_connections_cost_nothing(void)
{
    const struct lab_adaptive_place one = {.workers = 1, .clients = 16, .seed = 1};
    struct lab_rfp_result alone, among;
    base_assert(lab_adaptive_idle(&one, TARN_RPC_FETCH, 0, &alone) == 0);
    base_assert(lab_adaptive_idle(&one, TARN_RPC_FETCH, 63, &among) == 0);
    base_assert(alone.connections == 16 && alone.watched == 16);
    base_assert(among.connections == 1024 && among.watched == 64);
    base_assert(among.kops * 10 >= alone.kops * 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(short_calls_are_fetched),          SIM_TEST(long_calls_are_replied_to),
        SIM_TEST(long_results_are_fetched_at_once), SIM_TEST(nothing_is_fetched_in_vain),
        SIM_TEST(a_change_is_met_in_time),          SIM_TEST(idle_connections_cost_nothing),
    };
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return cmocka_run_group_tests_name("adaptive", tests, NULL, NULL);
}
