/* Keys: different for ever, and not in any order. */
#include "base/testing.h"
#include "fabric/key.h"
#include <stdlib.h>

enum { KEYS = 1 << 18, SLOTS = 7 };

static int compare(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

static void keys_are_different_and_in_no_order(void **state)
{
    (void)state;
    static uint64_t made[KEYS];
    struct fabric_keys keys, others;
    unsigned ascending = 0, equal = 0;
    assert_int_equal(fabric_keys_init(&keys), 0);
    assert_int_equal(fabric_keys_init(&others), 0);
    for (unsigned i = 0; i < KEYS; i++) {
        made[i] = fabric_keys_next(&keys, i % SLOTS);
        assert_int_equal(fabric_key_slot(made[i]), i % SLOTS);
        assert_true(made[i] != 0);
        equal += made[i] == fabric_keys_next(&others, i % SLOTS);
        ascending += i > 0 && made[i] > made[i - 1];
    }
    assert_true(equal < 3); /* another domain's */
    assert_true(ascending > KEYS / 2 - KEYS / 16 && ascending < KEYS / 2 + KEYS / 16);
    for (unsigned bit = FABRIC_KEY_SLOT_BITS; bit < 64; bit++) { /* each bit is set in half of them */
        unsigned set = 0;
        for (unsigned i = 0; i < KEYS; i++)
            set += (unsigned)(made[i] >> bit) & 1;
        assert_true(set > KEYS / 2 - KEYS / 16 && set < KEYS / 2 + KEYS / 16);
    }
    qsort(made, KEYS, sizeof(made[0]), compare);
    for (unsigned i = 1; i < KEYS; i++)
        assert_true(made[i] != made[i - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_are_different_and_in_no_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
