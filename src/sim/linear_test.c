/* Tests of the search: histories that are linearizable, and others that are not. */
#include "sim/linear.h"
#include <errno.h>
#include <inttypes.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on

/*
 * A register: a number that is written and read, 0 at first, which stands for nothing. It is also removed,
 * which fails if there is nothing; stored if there is nothing; and exchanged if it is `expected`.
 */
enum kind { READ, WRITE, REMOVE, ADD, EXCHANGE };

struct action {
    enum kind kind;
    bool refused;
    uint64_t value;
    uint64_t expected;
};

struct history {
    struct base_account account;
    struct sim_linear_op ops[70];
    struct action actions[70];
    size_t count;
    uint64_t explained; /* values that were possible before the bad operation, as bits */
};

/* Whether it can have been carried out on this value, or have been refused. */
static bool can_happen(const struct action *action, uint64_t value)
{
    switch (action->kind) {
    case READ:
        return action->value == value;
    case REMOVE:
        return action->refused == (value == 0);
    case ADD:
        return action->refused == (value != 0);
    case EXCHANGE:
        return action->refused == (value != action->expected);
    default:
        return true;
    }
}

static uint32_t apply(void *arg, uint64_t number, const void *state, void *ret_states)
{
    const struct history *history = arg;
    const struct action *action = &history->actions[number];
    uint64_t value;
    memcpy(&value, state, sizeof(value));
    if (!can_happen(action, value))
        return 0;
    memcpy(ret_states, action->refused ? &value : &action->value, sizeof(value));
    return 1;
}

static void explain(void *arg, const void *state)
{
    uint64_t value;
    memcpy(&value, state, sizeof(value));
    ((struct history *)arg)->explained |= UINT64_C(1) << value;
}

static void history_init(struct history *history)
{
    memset(history, 0, sizeof(*history));
    base_account_init(&history->account, BASE_ACCOUNT_UNLIMITED);
}

static struct sim_linear_op *add(struct history *history, const struct action *action, uint64_t begin,
                                 uint64_t end)
{
    struct sim_linear_op *op = &history->ops[history->count];
    *op = (struct sim_linear_op){.begin_ns = begin,
                                 .end_ns = end,
                                 .number = history->count,
                                 .read = action->kind == READ || action->refused};
    history->actions[history->count++] = *action;
    return op;
}

static struct sim_linear_op *add_write(struct history *history, uint64_t value, uint64_t begin, uint64_t end)
{
    return add(history, &(struct action){.kind = WRITE, .value = value}, begin, end);
}

static struct sim_linear_op *add_read(struct history *history, uint64_t value, uint64_t begin, uint64_t end)
{
    return add(history, &(struct action){.kind = READ, .value = value}, begin, end);
}

static void add_remove(struct history *history, bool refused, uint64_t begin, uint64_t end)
{
    (void)add(history, &(struct action){.kind = REMOVE, .refused = refused}, begin, end);
}

static void add_add(struct history *history, uint64_t value, bool refused, uint64_t begin, uint64_t end)
{
    (void)add(history, &(struct action){.kind = ADD, .value = value, .refused = refused}, begin, end);
}

static void add_exchange(struct history *history, uint64_t expected, uint64_t value, bool refused,
                         uint64_t begin, uint64_t end)
{
    (void)add(history,
              &(struct action){.kind = EXCHANGE, .value = value, .expected = expected, .refused = refused},
              begin, end);
}

static int check(struct history *history, uint64_t *ret_number)
{
    const struct sim_linear_model model = {
        .state_bytes = sizeof(uint64_t), .apply = apply, .explain = explain, .arg = history};
    const uint64_t initial = 0;
    int result =
        sim_linear_check(&history->account, &model, history->ops, history->count, &initial, ret_number);
    base_account_deinit(&history->account); /* nothing is kept */
    return result;
}

static void expect_good(struct history *history)
{
    uint64_t number = 99;
    assert_int_equal(check(history, &number), 0);
    assert_int_equal(number, 99);
}

static void expect_bad(struct history *history, uint64_t expected)
{
    uint64_t number = 99;
    assert_int_equal(check(history, &number), -EINVAL);
    assert_int_equal(number, expected);
}

static void an_empty_history_is_good(void **state)
{
    (void)state;
    struct history history;
    history_init(&history);
    expect_good(&history);
}

static void a_read_finds_the_latest_write(void **state)
{
    (void)state;
    struct history history;
    history_init(&history);
    add_read(&history, 0, 1, 2);
    add_write(&history, 1, 3, 4);
    add_write(&history, 2, 5, 6);
    add_read(&history, 2, 7, 8);
    expect_good(&history);

    history_init(&history);
    add_write(&history, 1, 3, 4);
    add_write(&history, 2, 5, 6);
    add_read(&history, 1, 7, 8);
    expect_bad(&history, 2);
    assert_int_equal(history.explained, 1 << 2);
}

static void concurrent_writes_come_in_any_order(void **state)
{
    (void)state;
    for (uint64_t last = 1; last <= 2; last++) {
        struct history history;
        history_init(&history);
        add_write(&history, 1, 1, 10);
        add_write(&history, 2, 2, 11);
        add_read(&history, last, 12, 13);
        add_read(&history, last, 14, 15);
        expect_good(&history);

        history_init(&history);
        add_write(&history, 1, 1, 10);
        add_write(&history, 2, 2, 11);
        add_read(&history, last, 12, 13);
        add_read(&history, 3 - last, 14, 15); /* but it stays */
        expect_bad(&history, 3);
        assert_int_equal(history.explained, 1 << last);
    }
}

static void a_read_may_run_ahead_of_an_end_but_not_back(void **state)
{
    (void)state;
    struct history history;
    history_init(&history);
    add_write(&history, 1, 1, 100);
    add_read(&history, 0, 2, 3);
    add_read(&history, 1, 4, 5);
    expect_good(&history);

    history_init(&history);
    add_write(&history, 1, 1, 100);
    add_read(&history, 1, 2, 3);
    add_read(&history, 0, 4, 5);
    expect_bad(&history, 2);
}

static void equal_times_are_concurrent(void **state)
{
    (void)state;
    struct history history;
    history_init(&history);
    add_write(&history, 1, 1, 2);
    add_read(&history, 0, 2, 3);
    expect_good(&history);
}

static void an_optional_write_happened_or_not(void **state)
{
    (void)state;
    for (uint64_t seen = 1; seen <= 2; seen++) {
        struct history history;
        history_init(&history);
        add_write(&history, 1, 1, 2);
        add_write(&history, 2, 3, 10)->optional = true;
        add_read(&history, seen, 11, 12);
        add_read(&history, seen, 13, 14);
        expect_good(&history);

        history_init(&history);
        add_write(&history, 1, 1, 2);
        add_write(&history, 2, 3, 10)->optional = true;
        add_read(&history, seen, 11, 12);
        add_read(&history, 3 - seen, 13, 14); /* but not later */
        expect_bad(&history, 3);
    }
}

static void what_is_not_optional_happened(void **state)
{
    (void)state;
    struct history history;
    history_init(&history);
    add_write(&history, 1, 1, 2);
    add_write(&history, 2, 3, 10);
    add_read(&history, 1, 11, 12);
    expect_bad(&history, 2);
}

static void what_is_removed_is_gone(void **state)
{
    (void)state;
    struct history history;
    history_init(&history);
    add_remove(&history, true, 1, 2);
    add_write(&history, 1, 3, 4);
    add_remove(&history, false, 5, 10);
    add_read(&history, 1, 6, 7);
    add_read(&history, 0, 8, 9);
    add_remove(&history, true, 11, 12);
    expect_good(&history);

    history_init(&history);
    add_write(&history, 1, 1, 2);
    add_remove(&history, false, 3, 4);
    add_read(&history, 1, 5, 6); /* it is back */
    expect_bad(&history, 2);

    history_init(&history);
    add_write(&history, 1, 1, 2);
    add_remove(&history, false, 3, 8);
    add_remove(&history, false, 4, 9); /* both found it */
    expect_bad(&history, 2);

    history_init(&history);
    add_write(&history, 1, 1, 2);
    add_remove(&history, true, 3, 4); /* it was there */
    expect_bad(&history, 1);
}

static void conditions_hold_when_it_happens(void **state)
{
    (void)state;
    struct history history;
    history_init(&history);
    add_add(&history, 1, false, 1, 5);
    add_add(&history, 2, true, 2, 6);
    add_exchange(&history, 1, 3, false, 7, 12);
    add_exchange(&history, 1, 4, true, 8, 13);
    add_read(&history, 3, 14, 15);
    expect_good(&history);

    history_init(&history);
    add_add(&history, 1, false, 1, 5);
    add_add(&history, 2, false, 2, 6); /* both found nothing */
    expect_bad(&history, 1);

    history_init(&history);
    add_write(&history, 1, 1, 2);
    add_exchange(&history, 1, 2, false, 3, 8);
    add_exchange(&history, 1, 3, false, 4, 9); /* both found the same: one write is lost */
    expect_bad(&history, 2);

    history_init(&history);
    add_write(&history, 1, 1, 2);
    add_exchange(&history, 1, 2, true, 3, 4); /* refused, although it held */
    expect_bad(&history, 1);

    history_init(&history);
    add_write(&history, 1, 1, 2);
    add_exchange(&history, 7, 2, true, 3, 4);
    add_read(&history, 2, 5, 6); /* what was refused was done */
    expect_bad(&history, 2);
}

static void too_many_at_once_are_not_judged(void **state)
{
    (void)state;
    struct history history;
    history_init(&history);
    uint64_t number;
    for (uint64_t i = 0; i < 65; i++)
        add_write(&history, i % 60, 1, 100 + i);
    assert_int_equal(check(&history, &number), -E2BIG);

    history_init(&history);
    for (uint64_t i = 0; i < 20; i++)
        add_write(&history, i, 1, 100 + i);
    add_read(&history, 7, 1, 200); /* any subset of the writes may have come before each other */
    assert_int_equal(check(&history, &number), -E2BIG);
}

static void lost_ones_are_judged_however_many(void **state)
{
    (void)state;
    for (uint64_t seen = 0; seen <= 1; seen++) {
        struct history history;
        history_init(&history);
        for (uint64_t i = 0; i < 40; i++) { /* writes and removals whose outcome nobody knows */
            struct sim_linear_op *op = add(
                &history, &(struct action){.kind = i % 2 == 0 ? WRITE : REMOVE, .value = i % 2 == 0 ? 9 : 0},
                1 + i, UINT64_MAX);
            op->optional = true;
            op->same = 1 + i % 2;
        }
        for (uint64_t i = 0; i < 21; i++)
            add_add(&history, 1, false, 100 + 2 * i,
                    101 + 2 * i); /* but the first needs a removal of its own */
        if (seen == 1)
            add_add(&history, 1, false, 200, 201);
        uint64_t number = 99;
        assert_int_equal(check(&history, &number), seen == 0 ? 0 : -EINVAL);
        assert_int_equal(number, seen == 0 ? 99 : 61);
    }
}

/* ---- against trying all orders ------------------------------------------------------------------ */

/* @param done  operations that have happened, or never will, as bits */
static bool has_order(const struct history *history, uint32_t done, uint64_t value)
{
    if (done == (1u << history->count) - 1)
        return true;
    for (uint32_t i = 0; i < history->count; i++) {
        bool is_next = (done >> i & 1) == 0;
        for (uint32_t j = 0; j < history->count; j++) /* what must have happened before it has */
            is_next = is_next && ((done >> j & 1) != 0 || history->ops[j].end_ns >= history->ops[i].begin_ns);
        if (!is_next)
            continue;
        const struct action *action = &history->actions[i];
        if (history->ops[i].optional && has_order(history, done | 1u << i, value))
            return true;
        if (can_happen(action, value) &&
            has_order(history, done | 1u << i, action->refused ? value : action->value))
            return true;
    }
    return false;
}

static void draw_op(struct history *history, struct base_random *random, uint64_t begin)
{
    static const enum kind kinds[] = {READ, READ, WRITE, REMOVE, ADD, EXCHANGE};
    const enum kind kind = kinds[base_random_below(random, base_array_count(kinds))];
    const struct action action = {.kind = kind,
                                  .refused = kind > WRITE && base_random_below(random, 3) == 0,
                                  .value = kind == REMOVE ? 0 : base_random_below(random, 3) + (kind != READ),
                                  .expected = base_random_below(random, 3)};
    struct sim_linear_op *op = add(history, &action, begin, begin + base_random_below(random, 8));
    if (kind == READ || action.refused || base_random_below(random, 3) > 0)
        return;
    op->optional = true;
    op->end_ns = base_random_below(random, 3) == 0 ? op->end_ns : UINT64_MAX;
    if (op->end_ns == UINT64_MAX && kind != EXCHANGE)
        op->same = (uint32_t)kind * 4 + (uint32_t)action.value;
}

static void the_search_agrees_with_trying_all_orders(void **state)
{
    (void)state;
    struct base_random random;
    uint64_t good = 0;
    base_random_init(&random, 1);
    for (uint32_t round = 0; round < 20000; round++) {
        struct history history;
        history_init(&history);
        const uint64_t count = 2 + base_random_below(&random, 6);
        for (uint64_t i = 0, begin = 1; i < count; i++, begin += base_random_below(&random, 5))
            draw_op(&history, &random, begin);
        const bool is_good = has_order(&history, 0, 0);
        uint64_t number;
        good += is_good;
        assert_int_equal(check(&history, &number), is_good ? 0 : -EINVAL);
    }
    assert_in_range(good, 2000, 18000);
}

static void memory_may_end(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 5; n++) {
        struct history history;
        history_init(&history);
        add_write(&history, 1, 1, 2);
        base_account_fail_at(&history.account, n);
        uint64_t number;
        assert_int_equal(check(&history, &number), -ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_history_is_good),
        cmocka_unit_test(a_read_finds_the_latest_write),
        cmocka_unit_test(concurrent_writes_come_in_any_order),
        cmocka_unit_test(a_read_may_run_ahead_of_an_end_but_not_back),
        cmocka_unit_test(equal_times_are_concurrent),
        cmocka_unit_test(an_optional_write_happened_or_not),
        cmocka_unit_test(what_is_not_optional_happened),
        cmocka_unit_test(what_is_removed_is_gone),
        cmocka_unit_test(conditions_hold_when_it_happens),
        cmocka_unit_test(too_many_at_once_are_not_judged),
        cmocka_unit_test(lost_ones_are_judged_however_many),
        cmocka_unit_test(the_search_agrees_with_trying_all_orders),
        cmocka_unit_test(memory_may_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
