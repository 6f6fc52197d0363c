/* The model of a key of a cache: what may be missing, and what must not come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "sim/depot_model.h"

#define STATES_MAX 64

/* All that a key may hold, after some operations. */
struct possible {
    struct sim_model_state states[STATES_MAX];
    uint32_t count;
    uint64_t now_ns;
};

static void begin(struct possible *possible)
{
    *possible = (struct possible){.states = {sim_model_empty}, .count = 1};
}

/* @return whether it can have happened */
static bool happen(struct possible *possible, const struct sim_oracle_op *template, uint64_t number)
{
    struct possible before = *possible;
    struct sim_oracle_op op = *template;
    op.begin_ns = possible->now_ns + 1;
    op.end_ns = possible->now_ns + 2;
    op.ended = true;
    possible->now_ns += 3;
    possible->count = 0;
    for (uint32_t i = 0; i < before.count; i++) {
        assert_true(possible->count + SIM_LINEAR_SUCCESSORS_MAX <= STATES_MAX);
        uint32_t more = sim_model_apply(&op, number, &before.states[i], &possible->states[possible->count]);
        assert_true(more <= SIM_LINEAR_SUCCESSORS_MAX);
        possible->count += more;
    }
    if (possible->count > 0)
        return true;
    *possible = before;
    return false;
}

static bool put(struct possible *possible, uint64_t number, bool lossy, bool evicts)
{
    return happen(possible, &(struct sim_oracle_op){.kind = SIM_PUT, .lossy = lossy, .evicts = evicts},
                  number);
}

static bool found(struct possible *possible, uint32_t number, bool evicts)
{
    return happen(possible,
                  &(struct sim_oracle_op){
                      .kind = SIM_GET, .found = number, .error = number == 0 ? -ENOENT : 0, .evicts = evicts},
                  0);
}

static bool settled(struct possible *possible, enum sim_oracle_kind kind)
{
    return happen(possible, &(struct sim_oracle_op){.kind = kind}, 0);
}

static bool deleted(struct possible *possible, int error, bool evicts)
{
    return happen(possible, &(struct sim_oracle_op){.kind = SIM_DELETE, .error = error, .evicts = evicts}, 0);
}

static void only_a_cache_misses(void **state)
{
    struct possible possible;
    (void)state;
    begin(&possible);
    assert_true(put(&possible, 1, false, true));
    assert_true(found(&possible, 1, true));
    assert_false(found(&possible, 0, false));
    assert_true(found(&possible, 0, true));
    assert_false(found(&possible, 1, true)); /* for good */
    assert_true(settled(&possible, SIM_EVICTION));
    assert_false(found(&possible, 1, false));
    assert_true(put(&possible, 2, false, false));
    assert_false(found(&possible, 0, false));
    assert_true(found(&possible, 2, false));
}

static void nothing_old_is_found(void **state)
{
    struct possible possible;
    (void)state;
    begin(&possible);
    assert_true(put(&possible, 1, false, true));
    assert_true(put(&possible, 2, false, true));
    assert_false(found(&possible, 1, true));
    assert_true(deleted(&possible, -ENOENT, true)); /* evicted, then */
    assert_false(found(&possible, 2, true));
    assert_true(put(&possible, 3, false, true));
    assert_true(deleted(&possible, 0, true));
    assert_true(settled(&possible, SIM_EVICTION));
    for (uint32_t number = 1; number <= 3; number++)
        assert_false(found(&possible, number, true));
}

/* A condition holds of nothing, if the value may have been evicted. */
static void conditions_may_find_nothing(void **state)
{
    const struct sim_oracle_op add = {.kind = SIM_PUT, .condition = TARN_PUT_IF_ABSENT};
    struct sim_oracle_op evicting = add;
    struct possible possible;
    (void)state;
    evicting.evicts = true;
    begin(&possible);
    assert_true(put(&possible, 1, false, true));
    assert_false(happen(&possible, &add, 2));
    assert_true(happen(&possible, &evicting, 2));
    assert_false(found(&possible, 1, true));
    assert_true(found(&possible, 2, true));
}

/* At the end of a cache what is kept may go alone: it is older. What is lost then is not in its place. */
static void an_end_may_take_what_is_older(void **state)
{
    struct possible possible, other;
    (void)state;
    begin(&possible);
    assert_true(put(&possible, 1, false, true));
    assert_true(settled(&possible, SIM_DURABLE));
    assert_true(put(&possible, 2, true, true)); /* durable, or not yet */
    assert_true(settled(&possible, SIM_EVICTION));
    other = possible;
    assert_true(found(&other, 2, false)); /* no loss, and above the horizon */
    other = possible;
    assert_true(settled(&other, SIM_LOSS));
    possible = other;
    assert_true(found(&other, 0, false));
    assert_false(found(&other, 1, false));
    other = possible;
    assert_true(found(&other, 1, false)); /* that was kept, and the horizon is below */
    assert_false(found(&other, 2, false));
    assert_false(found(&other, 0, false));
}

/* What was evicted was durable, and what is kept is older: a loss brings neither back. */
static void a_loss_brings_nothing_evicted_back(void **state)
{
    struct possible possible;
    (void)state;
    begin(&possible);
    assert_true(put(&possible, 1, false, true));
    assert_true(settled(&possible, SIM_DURABLE));
    assert_true(put(&possible, 2, true, true));
    assert_true(found(&possible, 0, true));
    assert_true(settled(&possible, SIM_LOSS));
    assert_false(found(&possible, 1, false));
    assert_false(found(&possible, 2, false));
    assert_true(found(&possible, 0, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_cache_misses),
        cmocka_unit_test(nothing_old_is_found),
        cmocka_unit_test(conditions_may_find_nothing),
        cmocka_unit_test(an_end_may_take_what_is_older),
        cmocka_unit_test(a_loss_brings_nothing_evicted_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
