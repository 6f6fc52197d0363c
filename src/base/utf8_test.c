/* Are exactly the characters of UTF-8 taken for characters? */
#include "base/testing.h"

#include "base/utf8.h"

/* Encode without asking whether it may be: 4 forms for each number, most of them wrong. */
static void encode(uint32_t number, size_t bytes, uint8_t *to)
{
    static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = bytes; i-- > 1; number >>= 6)
        to[i] = (uint8_t)(0x80 | (number & 0x3f));
    to[0] = (uint8_t)(marks[bytes] | number);
}

static void test_every_form_of_every_number(void **state base_unused)
{
    static const uint32_t ends[] = {0, 0x80, 0x800, 0x10000, 0x200000};
    for (size_t bytes = 1; bytes <= 4; bytes++) {
        for (uint32_t number = 0; number < ends[bytes]; number++) {
            uint8_t text[4];
            encode(number, bytes, text);
            bool shortest = number >= ends[bytes - 1];
            bool surrogate = number >= 0xd800 && number < 0xe000;
            size_t expected = shortest && !surrogate && number <= 0x10ffff ? bytes : 0;
            if (base_utf8_char_bytes(text, 4) != expected || base_utf8_char_bytes(text, bytes) != expected)
                fail_msg("U+%06x in %zu bytes", number, bytes);
            if (bytes > 1 && base_utf8_char_bytes(text, bytes - 1) != 0)
                fail_msg("U+%06x cut", number);
        }
    }
}

static void test_broken_bytes(void **state base_unused)
{
    static const char *const wrong[] = {
        "\x80", "\xbf",     "\xc0\x80", "\xc3(", "\xe2\x82(", "\xf0\x9f\x98(", "\xf8\x88\x80\x80\x80",
        "\xff", "\xe2(\xac"};
    for (size_t i = 0; i < base_array_count(wrong); i++)
        assert_int_equal(base_utf8_char_bytes((const uint8_t *)wrong[i], strlen(wrong[i])), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_form_of_every_number),
        cmocka_unit_test(test_broken_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
