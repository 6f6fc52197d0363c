/* Do stages add up, and does a new round empty them while readers look? */
#include "base/testing.h"

#include "base/stages.h"
#include <pthread.h>

enum { PARSE, WRITE, STAGES };

/* Stages of one owner, and what is counted in rounds. */
struct world {
    struct base_account account;
    struct base_stages stages;
    _Atomic uint64_t round;
};

static void open_world(struct world *world)
{
    base_account_init(&world->account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(base_stages_init(&world->stages, &world->account, STAGES), 0);
    atomic_init(&world->round, 1);
}

static void close_world(struct world *world)
{
    base_stages_deinit(&world->stages);
    base_account_deinit(&world->account);
}

static uint64_t counted(struct world *world, size_t stage)
{
    struct base_histogram histogram;
    base_histogram_reset(&histogram);
    assert_true(base_stages_read(&world->stages, stage, &world->round, &histogram));
    return base_histogram_count(&histogram);
}

static void test_owners_are_added_up(void **state base_unused)
{
    struct world world;
    struct base_stages other;
    struct base_histogram both;
    open_world(&world);
    assert_int_equal(base_stages_init(&other, &world.account, STAGES), 0);
    base_stages_add(&world.stages, PARSE, &world.round, 10);
    base_stages_add(&other, PARSE, &world.round, 20);
    base_stages_add(&other, WRITE, &world.round, 30);
    base_histogram_reset(&both);
    assert_true(base_stages_read(&world.stages, PARSE, &world.round, &both));
    assert_true(base_stages_read(&other, PARSE, &world.round, &both));
    assert_int_equal(base_histogram_count(&both), 2);
    assert_int_equal(base_histogram_min(&both), 10);
    assert_int_equal(base_histogram_max(&both), 20);
    assert_int_equal(counted(&world, WRITE), 0);
    base_stages_deinit(&other);
    close_world(&world);
}

static void test_another_round(void **state base_unused)
{
    struct world world;
    struct base_histogram histogram;
    open_world(&world);
    base_stages_add(&world.stages, PARSE, &world.round, 1000);
    base_stages_add(&world.stages, WRITE, &world.round, 1000);
    base_stages_forget(&world.round);
    assert_int_equal(counted(&world, PARSE), 0);
    assert_int_equal(counted(&world, WRITE), 0);
    base_stages_add(&world.stages, PARSE, &world.round, 5);
    assert_int_equal(counted(&world, PARSE), 1);
    assert_int_equal(counted(&world, WRITE), 0);
    base_histogram_reset(&histogram);
    assert_true(base_stages_read(&world.stages, PARSE, &world.round, &histogram));
    assert_int_equal(base_histogram_max(&histogram), 5);
    close_world(&world);
}

static void test_no_memory(void **state base_unused)
{
    struct base_account account;
    struct base_stages stages;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    base_account_fail_at(&account, 1);
    assert_int_equal(base_stages_init(&stages, &account, STAGES), -ENOMEM);
    base_account_deinit(&account);
}

static void add_to_unknown_stage(void *arg)
{
    struct world *world = arg;
    base_stages_add(&world->stages, STAGES, &world->round, 1);
}

static void test_unknown_stage_aborts(void **state base_unused)
{
    struct world world;
    open_world(&world);
    assert_true(testing_aborts(add_to_unknown_stage, &world));
    close_world(&world);
}

/* ---- readers beside the owner ----------------------------------------------------------------------- */

#define LIVE_ROUND 1000 /* values */
#define LIVE_LOOKS 3000

struct live {
    struct world world;
    _Atomic bool over;
};

/* Values of odd rounds are from 1,000 on, of even ones below 100. */
static void *own(void *arg)
{
    struct live *live = arg;
    for (uint64_t i = 1; !atomic_load_explicit(&live->over, memory_order_acquire); i++) {
        if (i % LIVE_ROUND == 0)
            base_stages_forget(&live->world.round);
        bool odd = atomic_load_explicit(&live->world.round, memory_order_relaxed) % 2 == 1;
        base_stages_add(&live->world.stages, PARSE, &live->world.round, odd ? 1000 + i % 100 : i % 100);
    }
    return NULL;
}

/* Values below 128 have buckets of their own. */
static uint64_t small_ones(const struct base_histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i < 128; i++)
        count += histogram->buckets[i];
    return count;
}

/* What is read is of one round: all its values are large or all are small. */
static void test_live_reading(void **state base_unused)
{
    struct live live = {.over = false};
    pthread_t owner;
    open_world(&live.world);
    assert_int_equal(pthread_create(&owner, NULL, own, &live), 0);
    for (int looks = 0; looks < LIVE_LOOKS;) {
        struct base_histogram histogram;
        base_histogram_reset(&histogram);
        if (!base_stages_read(&live.world.stages, PARSE, &live.world.round, &histogram) ||
            base_histogram_count(&histogram) == 0)
            continue;
        uint64_t count = base_histogram_count(&histogram), small = small_ones(&histogram);
        assert_true(small == 0 ? base_histogram_min(&histogram) >= 1000
                               : small == count && base_histogram_max(&histogram) < 100);
        looks++;
    }
    atomic_store_explicit(&live.over, true, memory_order_release);
    assert_int_equal(pthread_join(owner, NULL), 0);
    close_world(&live.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_owners_are_added_up), cmocka_unit_test(test_another_round),
        cmocka_unit_test(test_no_memory),           cmocka_unit_test(test_unknown_stage_aborts),
        cmocka_unit_test(test_live_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
