/* Does the index agree with a plain array through inserts, removals and growth, also where homes collide? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "depot/index.h"
#include <errno.h>

#define KEYS 300

struct fixture {
    struct base_account account;
    struct depot_index index;
    struct depot_entry expected[KEYS]; /* address 0: absent */
};

static void reserve(struct fixture *fixture)
{
    struct depot_index larger;
    if (!depot_index_full(&fixture->index))
        return;
    assert_int_equal(depot_index_grow(&fixture->index, &fixture->account, &larger), 0);
    depot_index_clear(&fixture->index, &fixture->account);
    fixture->index = larger;
}

static void compare(const struct fixture *fixture, const struct base_hash128 *hashes)
{
    uint64_t count = 0;
    for (int key = 0; key < KEYS; key++) {
        const struct depot_entry *found = depot_index_find(&fixture->index, &hashes[key]);
        const struct depot_entry *expected = &fixture->expected[key];
        assert_int_equal(found != NULL, expected->address != 0);
        if (found != NULL)
            assert_memory_equal(found, expected, sizeof(*found));
        count += expected->address != 0;
    }
    assert_int_equal(fixture->index.count, count);
}

/* `homes`: how many different low halves there are; few of them make long runs. */
static void agree(uint64_t homes)
{
    struct fixture fixture = {.index = {.slots = NULL}};
    struct base_hash128 hashes[KEYS];
    struct base_random random;
    base_account_init(&fixture.account, BASE_ACCOUNT_UNLIMITED);
    base_random_init(&random, homes);
    for (uint64_t key = 0; key < KEYS; key++)
        hashes[key] =
            (struct base_hash128){.low = UINT64_MAX - base_random_below(&random, homes), .high = key};
    for (int step = 0; step < 20000; step++) {
        uint64_t key = base_random_below(&random, KEYS);
        struct depot_entry *expected = &fixture.expected[key];
        if (base_random_below(&random, 2) == 0) {
            reserve(&fixture);
            *expected =
                (struct depot_entry){.hash = hashes[key], .address = 1 + base_random_below(&random, 1000)};
            depot_index_put(&fixture.index, expected);
        } else if (expected->address != 0) {
            depot_index_remove(&fixture.index, depot_index_find(&fixture.index, &hashes[key]));
            expected->address = 0;
        }
        if (step % 16 == 0)
            compare(&fixture, hashes);
    }
    depot_index_clear(&fixture.index, &fixture.account);
    base_account_deinit(&fixture.account);
}

static void agrees_with_an_array(void **state)
{
    (void)state;
    agree(UINT64_MAX);
}

static void agrees_when_homes_collide(void **state)
{
    (void)state;
    agree(3);
    agree(40);
}

static void growth_fails_cleanly(void **state)
{
    (void)state;
    struct base_account account;
    base_account_init(&account, 100);
    struct depot_index index = {.slots = NULL}, larger = {.capacity = 77};
    assert_true(depot_index_full(&index));
    assert_int_equal(depot_index_grow(&index, &account, &larger), -ENOMEM);
    assert_int_equal(larger.capacity, 77);
    base_account_deinit(&account);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_an_array),
        cmocka_unit_test(agrees_when_homes_collide),
        cmocka_unit_test(growth_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
