/* Which way, and how much to fetch. */
#include "base/testing.h"
#include "rpc/adapt.h"

/* @return whether anything was changed */
static bool note_window(struct rpc_adapt *adapt, uint64_t service_ns, uint32_t result_bytes)
{
    bool changed = false;
    for (unsigned i = 0; i < RPC_ADAPT_WINDOW; i++)
        changed |= rpc_adapt_note(adapt, service_ns, result_bytes);
    return changed;
}

static void begin(struct rpc_adapt *adapt)
{
    rpc_adapt_init(adapt, TARN_RPC_ADAPTIVE, 64, 4096, false, false);
    for (unsigned i = 0; i < 100; i++)
        rpc_adapt_note_round_trip(adapt, 1000);
}

static void two_slow_windows_make_replies(void **state)
{
    (void)state;
    struct rpc_adapt adapt;
    begin(&adapt);
    assert_false(adapt.by_reply);
    (void)note_window(&adapt, 4001, 10);
    assert_false(adapt.by_reply);
    (void)note_window(&adapt, 3999, 10); /* not on end */
    (void)note_window(&adapt, 4001, 10);
    assert_false(adapt.by_reply);
    assert_true(note_window(&adapt, 4001, 10));
    assert_true(adapt.by_reply);
    assert_int_equal(adapt.changes, 1);
    (void)note_window(&adapt, 2801, 10); /* between the two bounds nothing changes */
    (void)note_window(&adapt, 3999, 10);
    assert_true(adapt.by_reply);
    (void)note_window(&adapt, 2799, 10);
    assert_false(adapt.by_reply);
    assert_int_equal(adapt.changes, 2);
}

static void who_asks_for_a_way_keeps_it(void **state)
{
    (void)state;
    struct rpc_adapt adapt;
    rpc_adapt_init(&adapt, TARN_RPC_FETCH, 64, 4096, false, false);
    rpc_adapt_note_round_trip(&adapt, 10);
    for (unsigned i = 0; i < 10; i++)
        (void)note_window(&adapt, 1000000, 10);
    assert_false(adapt.by_reply);
    rpc_adapt_init(&adapt, TARN_RPC_REPLY, 64, 4096, false, false);
    rpc_adapt_note_round_trip(&adapt, 1000000);
    for (unsigned i = 0; i < 10; i++)
        (void)note_window(&adapt, 1, 10);
    assert_true(adapt.by_reply);
    rpc_adapt_init(&adapt, TARN_RPC_ADAPTIVE, 0, 4096, true, false);
    assert_true(adapt.by_reply);
    assert_int_equal(adapt.changes, 0);
}

/* A READ that is a copy takes next to nothing; what takes a little more is no reason for a reply. */
static void a_copy_is_no_round_trip(void **state)
{
    (void)state;
    struct rpc_adapt adapt;
    rpc_adapt_init(&adapt, TARN_RPC_ADAPTIVE, 64, 4096, false, false);
    rpc_adapt_note_round_trip(&adapt, 30);
    for (unsigned i = 0; i < 10; i++)
        (void)note_window(&adapt, 3999, 10);
    assert_false(adapt.by_reply);
    for (unsigned i = 0; i < 2; i++)
        (void)note_window(&adapt, 4001, 10);
    assert_true(adapt.by_reply);
}

/* Nothing is known of a READ as long as there was none. */
static void without_a_round_trip_nothing_changes(void **state)
{
    (void)state;
    struct rpc_adapt adapt;
    rpc_adapt_init(&adapt, TARN_RPC_ADAPTIVE, 64, 4096, false, false);
    for (unsigned i = 0; i < 10; i++)
        (void)note_window(&adapt, 1000000, 10);
    assert_false(adapt.by_reply);
}

/* What READs of these sizes cost with that much fetched at first, by the README's reckoning. */
static uint64_t cost(const uint32_t *sizes, unsigned count, uint32_t fetch_bytes)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++) {
        sum += 1024 + fetch_bytes;
        if (sizes[i] > fetch_bytes)
            sum += 1024 + sizes[i] - fetch_bytes;
    }
    return sum;
}

/* The choice is at most an eighth dearer than the best: classes of sizes are that coarse. */
static void expect_good_choice(const uint32_t *sizes, unsigned count)
{
    struct rpc_adapt adapt;
    uint64_t best = UINT64_MAX;
    rpc_adapt_init(&adapt, TARN_RPC_ADAPTIVE, 0, 65536, false, false);
    for (unsigned i = 0; i < 20 * RPC_ADAPT_WINDOW; i++)
        (void)rpc_adapt_note(&adapt, 100, sizes[i % count]);
    for (uint32_t bytes = 0; bytes <= 65536; bytes++)
        best = base_min(best, cost(sizes, count, bytes));
    assert_true(cost(sizes, count, adapt.fetch_bytes) <= best + best / 8);
}

static void enough_is_fetched(void **state)
{
    (void)state;
    static const uint32_t one[] = {32}, two[] = {32, 32, 32, 4096}, half[] = {64, 2000}, none[] = {0},
                          mixed[] = {1, 20, 43, 50, 60, 120, 899, 30, 10, 7}, large[] = {60000, 60001, 10};
    expect_good_choice(one, base_array_count(one));
    expect_good_choice(two, base_array_count(two));
    expect_good_choice(half, base_array_count(half));
    expect_good_choice(none, base_array_count(none));
    expect_good_choice(mixed, base_array_count(mixed));
    expect_good_choice(large, base_array_count(large));
}

/* When sizes change, the choice follows within some windows; it never passes the longest result. */
static void the_choice_follows(void **state)
{
    (void)state;
    struct rpc_adapt adapt;
    rpc_adapt_init(&adapt, TARN_RPC_FETCH, 0, 2000, false, false);
    for (unsigned i = 0; i < 5; i++)
        (void)note_window(&adapt, 1, 32);
    assert_int_equal(adapt.fetch_bytes, 32);
    for (unsigned i = 0; i < 10; i++)
        (void)note_window(&adapt, 1, 2000);
    assert_int_equal(adapt.fetch_bytes, 2000);
    for (unsigned i = 0; i < 10; i++)
        (void)note_window(&adapt, 1, 8);
    assert_int_equal(adapt.fetch_bytes, 8);
    rpc_adapt_init(&adapt, TARN_RPC_FETCH, 100, 2000, false, false);
    for (unsigned i = 0; i < 5; i++)
        (void)note_window(&adapt, 1, 32);
    assert_int_equal(adapt.fetch_bytes, 100);
}

/* READs in vain that others pay for end sooner. */
static void a_card_is_spared(void **state)
{
    (void)state;
    struct rpc_adapt adapt;
    rpc_adapt_init(&adapt, TARN_RPC_ADAPTIVE, 64, 4096, false, true);
    rpc_adapt_note_round_trip(&adapt, 1000);
    (void)note_window(&adapt, 2000, 10);
    (void)note_window(&adapt, 2000, 10);
    assert_false(adapt.by_reply);
    (void)note_window(&adapt, 2001, 10);
    (void)note_window(&adapt, 2001, 10);
    assert_true(adapt.by_reply);
    (void)note_window(&adapt, 1400, 10);
    assert_true(adapt.by_reply);
    (void)note_window(&adapt, 1399, 10);
    assert_false(adapt.by_reply);
}

/* Where calls are rare a window has those of two milliseconds. */
static void a_window_of_few_calls_ends_in_time(void **state)
{
    (void)state;
    struct rpc_adapt adapt;
    uint64_t now_ns = 1;
    begin(&adapt);
    assert_false(rpc_adapt_note_time(&adapt, now_ns)); /* it begins */
    assert_false(
        rpc_adapt_note_time(&adapt, now_ns + RPC_ADAPT_WINDOW_NS)); /* without a call it does not end */
    assert_false(rpc_adapt_note(&adapt, 4001, 10));
    assert_false(rpc_adapt_note_time(&adapt, now_ns + RPC_ADAPT_WINDOW_NS - 1));
    (void)rpc_adapt_note_time(&adapt, now_ns += RPC_ADAPT_WINDOW_NS); /* one slow window */
    assert_false(rpc_adapt_note(&adapt, 4001, 10));
    assert_false(rpc_adapt_note_time(&adapt, ++now_ns));
    assert_false(adapt.by_reply);
    assert_true(rpc_adapt_note_time(&adapt, now_ns += RPC_ADAPT_WINDOW_NS));
    assert_true(adapt.by_reply);
    assert_int_equal(adapt.changes, 1);
}

/* Of one in four calls a READ finds nothing: bytes that are as many as that costs are not to be sent twice. */
static void what_is_not_there_is_not_fetched(void **state)
{
    (void)state;
    struct rpc_adapt adapt;
    rpc_adapt_init(&adapt, TARN_RPC_FETCH, 0, 65536, false, false);
    for (unsigned i = 0; i < 10; i++)
        (void)note_window(&adapt, 1, 8192);
    assert_true(adapt.fetch_bytes >= 8192);
    for (unsigned i = 0; i < 10 * RPC_ADAPT_WINDOW; i++) {
        if (i % 4 == 0)
            rpc_adapt_note_vain(&adapt);
        (void)rpc_adapt_note(&adapt, 1, 8192);
    }
    assert_int_equal(adapt.fetch_bytes, 0);
    for (unsigned i = 0; i < 10; i++)
        (void)note_window(&adapt, 1, 8192);
    assert_true(adapt.fetch_bytes >= 8192);
    for (unsigned i = 0; i < 10 * RPC_ADAPT_WINDOW; i++) {
        rpc_adapt_note_vain(&adapt);
        (void)rpc_adapt_note(&adapt, 1, 32); /* costs less than a READ */
    }
    assert_int_equal(adapt.fetch_bytes, 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_slow_windows_make_replies),
                                       cmocka_unit_test(who_asks_for_a_way_keeps_it),
                                       cmocka_unit_test(a_copy_is_no_round_trip),
                                       cmocka_unit_test(without_a_round_trip_nothing_changes),
                                       cmocka_unit_test(enough_is_fetched),
                                       cmocka_unit_test(the_choice_follows),
                                       cmocka_unit_test(a_window_of_few_calls_ends_in_time),
                                       cmocka_unit_test(a_card_is_spared),
                                       cmocka_unit_test(what_is_not_there_is_not_fetched)};
    return cmocka_run_group_tests_name("rpc/adapt", tests, NULL, NULL);
}
