/* A hash store as Nessie measures it: that equal options give equal runs, and what competing work takes from clients. */
#include "lab/nessie_run.h"
#include "sim/testing.h"
#include <stdlib.h>

static struct lab_nessie_options small(uint32_t workers)
{
    return (struct lab_nessie_options){.card = sim_card_find("roce-10g"),
                                       .seed = 1,
                                       .machines = 2,
                                       .workers = workers,
                                       .clients = 2,
                                       .ranks = 3,
                                       .filter_bits = 7,
                                       .slots = 2048,
                                       .keys = 400,
                                       .owns_bulk = true,
                                       .turn_ns = 50000};
}

/* Alone; with one other thread a core; and that with work of 20 us an operation, alone and not. */
static void measure(const struct lab_nessie_options *options, struct lab_nessie_result *results)
{
    struct lab_nessie_point points[4];
    for (uint32_t i = 0; i < base_array_count(points); i++)
        points[i] = (struct lab_nessie_point){.get_permille = 900,
                                              .cores = options->clients + options->workers,
                                              .others = i % 2 * options->clients,
                                              .are_reserved = options->workers > 0,
                                              .work_ns = i < 2 ? 0 : 20000,
                                              .lead_ns = 200000,
                                              .run_ns = 2000000};
    base_assert(lab_nessie_measure(options, points, base_array_count(points), results) == 0);
}

static void equal_options_give_equal_runs(void)
{
    struct lab_nessie_options options = small(0);
    struct lab_nessie_result first[4], second[4];
    measure(&options, first);
    measure(&options, second);
    base_assert(memcmp(first, second, sizeof(first)) == 0);
    options.seed++;
    measure(&options, second);
    base_assert(memcmp(first, second, sizeof(first)) != 0);
}

/* Clients that have half of their cores do half of their work, with workers on cores of their own, too. */
static void competing_work_takes_its_share(void)
{
    for (uint32_t workers = 0; workers < 2; workers++) {
        const struct lab_nessie_options options = small(workers);
        struct lab_nessie_result results[4];
        measure(&options, results);
        base_assert(results[0].operations > 1000);
        base_assert(results[2].operations * 45 <= results[3].operations * 100 &&
                    results[3].operations * 100 <= results[2].operations * 55);
    }
}

/* What a cache has is not read again. */
static void a_cache_saves_reads(void)
{
    struct lab_nessie_options options = small(0);
    struct lab_nessie_result without[4], with[4];
    measure(&options, without);
    options.cache_permille = 1200;
    measure(&options, with);
    base_assert(without[0].cached == 0 && with[0].cached * 2 > with[0].operations);
    base_assert(with[0].bytes * without[0].operations * 2 < without[0].bytes * with[0].operations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(equal_options_give_equal_runs),
        SIM_TEST(competing_work_takes_its_share),
        SIM_TEST(a_cache_saves_reads),
    };
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return cmocka_run_group_tests_name("nessie", tests, NULL, NULL);
}
