/* What operations of the hash store cost, and how full its index gets. */
#include "lab/hash_costs.h"
#include "sim/testing.h"
#include <inttypes.h>
#include <stdlib.h>

static struct lab_hash_costs measure(uint32_t ranks, uint32_t filter_bits, uint32_t load_percent)
{
    const struct lab_hash_costs_options options = {
        .seed = 1, .ranks = ranks, .filter_bits = filter_bits, .load_percent = load_percent};
    struct lab_hash_costs costs;
    base_assert(lab_hash_costs_measure(&options, &costs) == 0);
    return costs;
}

/* So many hundredths of something for each operation, and at most so many more for what happens seldom: a slab that is taken, a
 * filter that lets another key's record through. */
static void expect(const char *what, uint64_t sum, const struct lab_hash_cost *cost, uint64_t hundredths,
                   uint64_t more)
{
    if (cost->count > 0 && sum * 100 >= hundredths * cost->count &&
        sum * 100 <= (hundredths + more) * cost->count)
        return;
    (void)fprintf(stderr, "%s: %" PRIu64 " of %" PRIu64 "\n", what, sum, cost->count);
    base_assert(false);
}

/* README of src/hash, "Protocol": the trips of each operation. */
static void trips_are_those_of_the_protocol(void)
{
    const struct lab_hash_costs costs = measure(3, 11, 50);
    const struct lab_hash_cost *kinds = costs.kinds;
    expect("GET, cached", kinds[LAB_HASH_GET_CACHED].trips, &kinds[LAB_HASH_GET_CACHED], 100, 0);
    expect("GET", kinds[LAB_HASH_GET].trips, &kinds[LAB_HASH_GET], 200, 0);
    expect("GET, miss", kinds[LAB_HASH_GET_MISS].trips, &kinds[LAB_HASH_GET_MISS], 200, 2);
    expect("PUT over", kinds[LAB_HASH_OVERWRITE].trips, &kinds[LAB_HASH_OVERWRITE], 300, 5);
    expect("DELETE", kinds[LAB_HASH_DELETE].trips, &kinds[LAB_HASH_DELETE], 300, 0);
    expect("PUT new", kinds[LAB_HASH_NEW].trips, &kinds[LAB_HASH_NEW], 600, 5);
    expect("a move", kinds[LAB_HASH_NEW + 1].trips, &kinds[LAB_HASH_NEW + 1], 2000, 50);
}

/* All slots of a key are read at once, and twice by a get that misses, with the view. */
static void reads_are_those_of_all_slots(void)
{
    for (uint32_t ranks = 2; ranks <= 4; ranks++) {
        const struct lab_hash_costs costs = measure(ranks, 11, 10);
        const struct lab_hash_cost *kinds = costs.kinds;
        expect("GET, cached", kinds[LAB_HASH_GET_CACHED].reads, &kinds[LAB_HASH_GET_CACHED],
               UINT64_C(100) * ranks, 0);
        expect("GET", kinds[LAB_HASH_GET].reads, &kinds[LAB_HASH_GET], UINT64_C(100) * (ranks + 1), 2);
        expect("GET, miss", kinds[LAB_HASH_GET_MISS].reads, &kinds[LAB_HASH_GET_MISS],
               UINT64_C(100) * (2 * ranks + 1), 2);
    }
}

/* Filter bits save reads of other keys' records. */
static void without_filter_other_records_are_read(void)
{
    const struct lab_hash_costs without = measure(3, 0, 50), with = measure(3, 11, 50);
    base_assert(without.kinds[LAB_HASH_GET].reads > with.kinds[LAB_HASH_GET].reads * 11 / 10);
    base_assert(without.kinds[LAB_HASH_GET_MISS].trips > with.kinds[LAB_HASH_GET_MISS].trips * 11 / 10);
}

static void equal_options_give_equal_counts(void)
{
    base_assert(measure(4, 4, 50).hash == measure(4, 4, 50).hash);
}

/* The index takes as many keys as there can be, nearly: 91.8 % with three slots for each, 97.7 % with four. */
static void three_slots_a_key_fill_nine_tenths(void)
{
    for (uint32_t ranks = 3; ranks <= 4; ranks++) {
        const struct lab_hash_load_options options = {.card = sim_card_find("roce-10g"),
                                                      .seed = 1,
                                                      .slots = 16384,
                                                      .ranks = ranks,
                                                      .filter_bits = 4,
                                                      .clients = 2};
        struct lab_hash_load load;
        base_assert(lab_hash_load_measure(&options, &load) == 0);
        base_assert(load.stored * 100 >= options.slots * 90);
        base_assert(load.growing_puts > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(trips_are_those_of_the_protocol),       SIM_TEST(reads_are_those_of_all_slots),
        SIM_TEST(without_filter_other_records_are_read), SIM_TEST(equal_options_give_equal_counts),
        SIM_TEST(three_slots_a_key_fill_nine_tenths),
    };
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return cmocka_run_group_tests_name("hash costs", tests, NULL, NULL);
}
