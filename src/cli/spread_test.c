/* Does the spread of what lives over segments say what they are? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cli/spread.h"

#define SEGMENT_BYTES UINT64_C(1000)

static struct cli_spread reckon(struct cli_spread_segment *segments, uint32_t count)
{
    struct cli_spread spread = {.segment_bytes = SEGMENT_BYTES, .segments = count};
    cli_spread_reckon(&spread, segments);
    return spread;
}

static void nothing_is_spread_over_nothing(void **state)
{
    (void)state;
    struct cli_spread_segment none;
    struct cli_spread spread = reckon(&none, 0);
    assert_int_equal(spread.live_bytes, 0);
    for (uint32_t part = 0; part < CLI_SPREAD_PARTS; part++) {
        assert_int_equal(spread.by_share[part], 0);
        assert_int_equal(spread.by_age[part].segments, 0);
    }
}

static void shares_have_their_edges(void **state)
{
    (void)state;
    const uint64_t lives[] = {0, 99, 100, 199, 500, 899, 900, 1000};
    const uint32_t wanted[CLI_SPREAD_PARTS] = {2, 2, 0, 0, 0, 1, 0, 0, 1, 2};
    struct cli_spread_segment segments[base_array_count(lives)];
    for (uint32_t i = 0; i < base_array_count(lives); i++)
        segments[i] = (struct cli_spread_segment){.stamp = 1 + i, .session = 1, .live_bytes = lives[i]};
    struct cli_spread spread = reckon(segments, base_array_count(lives));
    assert_memory_equal(spread.by_share, wanted, sizeof(wanted));
    assert_int_equal(spread.live_bytes, 0 + 99 + 100 + 199 + 500 + 899 + 900 + 1000);
}

static void ages_are_tenths_from_the_newest(void **state)
{
    (void)state;
    struct cli_spread_segment segments[25];
    for (uint32_t i = 0; i < 25; i++) { /* in no order; the last session has ten, and began far ahead */
        uint32_t age = i * 7 % 25;
        segments[i] = (struct cli_spread_segment){
            .stamp = age < 10 ? 70000 - age : 100 - age, .session = age < 10 ? 4 : 2, .live_bytes = age};
    }
    struct cli_spread spread = reckon(segments, 25);
    uint32_t counted = 0, live = 0;
    for (uint32_t part = 0; part < CLI_SPREAD_PARTS; part++) {
        const struct cli_spread_age *age = &spread.by_age[part];
        assert_in_range(age->segments, 2, 3);
        uint64_t sum = 0;
        for (uint32_t i = 0; i < age->segments; i++)
            sum += counted + i;
        counted += age->segments;
        live += (uint32_t)age->live_bytes;
        assert_int_equal(age->live_bytes, sum);
        uint32_t oldest = counted - 1;
        assert_int_equal(age->stamps_back, oldest < 10 ? oldest : 70000 - (100 - oldest));
        assert_int_equal(age->sessions_back, oldest < 10 ? 0 : 2);
    }
    assert_int_equal(counted, 25);
    assert_int_equal(live, spread.live_bytes);
}

/* Fewer than tenths: each segment is in one. */
static void few_segments_have_an_age_each(void **state)
{
    (void)state;
    struct cli_spread_segment segments[3] = {{.stamp = 5, .session = 3, .live_bytes = 1},
                                             {.stamp = 9, .session = 9, .live_bytes = 2},
                                             {.stamp = 7, .session = 10, .live_bytes = 3}};
    struct cli_spread spread = reckon(segments, 3);
    assert_int_equal(spread.by_age[0].live_bytes, 2);
    assert_int_equal(spread.by_age[3].live_bytes, 3);
    assert_int_equal(spread.by_age[3].stamps_back, 2);
    assert_int_equal(spread.by_age[3].sessions_back, 0); /* sealed by a session that wrote none */
    assert_int_equal(spread.by_age[6].live_bytes, 1);
    assert_int_equal(spread.by_age[6].sessions_back, 6);
    assert_int_equal(spread.by_age[9].segments, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_spread_over_nothing),
        cmocka_unit_test(shares_have_their_edges),
        cmocka_unit_test(ages_are_tenths_from_the_newest),
        cmocka_unit_test(few_segments_have_an_age_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
