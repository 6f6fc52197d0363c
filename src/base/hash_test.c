#include "base/testing.h"

#include "base/hash.h"

/* The first 64-bit hash is XXH3's published value for no bytes and seed 0: files depend on it. */
static void test_known_values(void **state base_unused)
{
    assert_true(base_hash64(NULL, 0, 0) == UINT64_C(0x2d06800538d394c2));
    struct base_hash128 empty = base_hash128(NULL, 0, 0);
    assert_true(empty.high == UINT64_C(0x99aa06d3014798d8));
    assert_true(empty.low == UINT64_C(0x6001c324468d497f));
}

static void test_seed_and_bytes_matter(void **state base_unused)
{
    char bytes[300] = {0};
    for (size_t len = 1; len < sizeof(bytes); len += 13) {
        uint64_t hash = base_hash64(bytes, len, 7);
        struct base_hash128 wide = base_hash128(bytes, len, 7);
        assert_true(hash == base_hash64(bytes, len, 7));
        assert_true(hash != base_hash64(bytes, len, 8));
        assert_true(hash != base_hash64(bytes, len - 1, 7));
        bytes[len / 2] = 1;
        assert_true(hash != base_hash64(bytes, len, 7));
        struct base_hash128 other = base_hash128(bytes, len, 7);
        assert_true(wide.low != other.low && wide.high != other.high);
        bytes[len / 2] = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_seed_and_bytes_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
