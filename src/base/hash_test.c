/* Do hashes agree with known values, so that formats that use them stay readable? */
#include "base/testing.h"

#include "base/hash.h"
#include "base/random.h"

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

/* Of all lengths around the pieces, to parts of all kinds. */
static void test_copies(void **state base_unused)
{
    enum { ROOM = 20000 };
    static uint8_t from[ROOM], to[ROOM + 1];
    static const size_t lengths[] = {0, 1, 100, 240, 241, 4095, 4096, 4097, 8192, 8193, 12288, 19999, ROOM};
    struct base_random random;
    base_random_init(&random, 3);
    base_random_fill(&random, from, ROOM);
    for (size_t i = 0; i < base_array_count(lengths); i++) {
        for (int round = 0; round < 50; round++) {
            size_t len = lengths[i], first = round == 0   ? 0
                                             : round == 1 ? len
                                                          : base_random_below(&random, len + 1);
            size_t second = round == 2 ? 0 : base_random_below(&random, len - first + 1);
            const struct iovec parts[] = {{.iov_base = to, .iov_len = first},
                                          {.iov_base = to + first, .iov_len = second},
                                          {.iov_base = to + first + second, .iov_len = len - first - second}};
            uint64_t seed = base_random_u64(&random);
            memset(to, 0xa5, sizeof(to));
            assert_true(base_hash64_copy(parts, from, len, seed) == base_hash64(from, len, seed));
            assert_memory_equal(to, from, len);
            assert_int_equal(to[len], 0xa5);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_seed_and_bytes_matter),
        cmocka_unit_test(test_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
