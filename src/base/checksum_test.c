/* Do checksums agree with known values, however the data is cut? */
#include "base/testing.h"

#include "base/checksum.h"
#include "base/random.h"

static void test_check_values(void **state base_unused)
{
    assert_int_equal(base_crc32c(0, "123456789", 9), 0xe3069283);
    assert_true(base_crc64(0, "123456789", 9) == UINT64_C(0x995dc9bbdf1939fa));
    assert_int_equal(base_crc32c(0, NULL, 0), 0);
    assert_true(base_crc64(0, NULL, 0) == 0);
    /* RFC 3720, B.4: 32 bytes of zeros, of ones, and counting up. */
    uint8_t bytes[32] = {0};
    assert_int_equal(base_crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, 32);
    assert_int_equal(base_crc32c(0, bytes, 32), 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++)
        bytes[i] = i;
    assert_int_equal(base_crc32c(0, bytes, 32), 0x46dd794e);
}

/* The definition, bit by bit. */
static uint64_t slow_crc(uint64_t polynomial, uint64_t ones, const uint8_t *data, size_t len)
{
    uint64_t crc = ones;
    for (size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
    }
    return crc ^ ones;
}

static void test_against_definition_in_any_pieces(void **state base_unused)
{
    uint8_t bytes[3000];
    struct base_random random;
    base_random_init(&random, 1);
    base_random_fill(&random, bytes, sizeof(bytes));
    for (int round = 0; round < 300; round++) {
        size_t begin = base_random_below(&random, 64);
        size_t len = base_random_below(&random, sizeof(bytes) - begin + 1);
        size_t cut = base_random_below(&random, len + 1);
        const uint8_t *data = bytes + begin;
        uint64_t expected32 = slow_crc(0x82f63b78, UINT32_MAX, data, len);
        assert_true(base_crc32c(0, data, len) == expected32);
        assert_true(base_crc32c(base_crc32c(0, data, cut), data + cut, len - cut) == expected32);
        uint64_t expected64 = slow_crc(UINT64_C(0xc96c5795d7870f42), UINT64_MAX, data, len);
        assert_true(base_crc64(0, data, len) == expected64);
        assert_true(base_crc64(base_crc64(0, data, cut), data + cut, len - cut) == expected64);
    }
}

/* Short ones take another way than long ones: each length on its own, at each offset. */
static void test_short_ones(void **state base_unused)
{
    uint8_t bytes[600];
    struct base_random random;
    base_random_init(&random, 2);
    base_random_fill(&random, bytes, sizeof(bytes));
    for (size_t begin = 0; begin < 9; begin++) {
        for (size_t len = 0; len <= 300; len++) {
            const uint64_t expected = slow_crc(0x82f63b78, UINT32_MAX, bytes + begin, len);
            assert_true(base_crc32c(0, bytes + begin, len) == expected);
            assert_true(base_crc32c_long(0, bytes + begin, len) ==
                        expected); /* as where there are no steps */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_values),
        cmocka_unit_test(test_against_definition_in_any_pieces),
        cmocka_unit_test(test_short_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
