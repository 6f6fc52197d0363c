/* Values tell whose they are. */
#include "lab/testing.h"

#include "lab/depot_store.h"

enum { VALUE_BYTES = 104, OTHER_BYTES = 8 };

struct fixture {
    struct base_account account;
    struct bench bench;
    struct lab_depot_store store;
    uint8_t value[VALUE_BYTES];
};

static int make_fixture(void **state)
{
    struct fixture *fixture = test_calloc(1, sizeof(*fixture));
    base_account_init(&fixture->account, BASE_ACCOUNT_UNLIMITED);
    fixture->bench =
        (struct bench){.program = &lab_program, .account = &fixture->account, .options = {.seed = 7}};
    fixture->store.bench = &fixture->bench;
    *state = fixture;
    return lab_depot_set_value_bytes(&fixture->store, VALUE_BYTES);
}

static int free_fixture(void **state)
{
    struct fixture *fixture = *state;
    lab_depot_store_close(&fixture->store);
    base_account_deinit(&fixture->account);
    test_free(fixture);
    return 0;
}

static bool check(const struct fixture *fixture, uint64_t number, bool whole)
{
    return lab_depot_value_check(&fixture->store, number, fixture->value, VALUE_BYTES, whole);
}

static void test_value_tells_its_record(void **state)
{
    struct fixture *fixture = *state;
    lab_depot_value_init(&fixture->store, fixture->value);
    assert_false(check(fixture, 5, false));
    for (uint64_t generation = 0; generation < 3; generation++) {
        lab_depot_value_set(&fixture->store, 5, generation, fixture->value);
        assert_true(check(fixture, 5, true));
        assert_false(check(fixture, 4, false));
        assert_false(
            lab_depot_value_check(&fixture->store, 5, fixture->value, VALUE_BYTES - OTHER_BYTES, false));
    }
}

/* A change of the first 24 and the last 8 bytes is always seen, one in between when all is looked at. */
static void test_value_tells_damage(void **state)
{
    struct fixture *fixture = *state;
    lab_depot_value_init(&fixture->store, fixture->value);
    lab_depot_value_set(&fixture->store, 5, 1, fixture->value);
    for (size_t i = 0; i < VALUE_BYTES; i++) {
        bool end = i < LAB_DEPOT_KEY_BYTES + sizeof(uint64_t) || i >= VALUE_BYTES - sizeof(uint64_t);
        fixture->value[i] ^= 1;
        assert_false(check(fixture, 5, true));
        assert_int_equal(check(fixture, 5, false), !end);
        fixture->value[i] ^= 1;
    }
    assert_true(check(fixture, 5, true));
}

static void test_keys_differ(void **state)
{
    (void)state;
    uint8_t key[LAB_DEPOT_KEY_BYTES];
    uint8_t other[LAB_DEPOT_KEY_BYTES];
    lab_depot_key(0, key);
    lab_depot_key(1, other);
    for (size_t i = 0; i < LAB_DEPOT_KEY_BYTES; i += sizeof(uint64_t))
        assert_memory_not_equal(key + i, other + i, sizeof(uint64_t));
    lab_depot_key(0, other);
    assert_memory_equal(key, other, sizeof(key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_value_tells_its_record, make_fixture, free_fixture),
        cmocka_unit_test_setup_teardown(test_value_tells_damage, make_fixture, free_fixture),
        cmocka_unit_test(test_keys_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
