/* Are exactly the bytes of names taken, and are lengths bounded on both sides? */
#include "base/testing.h"

#include "base/name.h"
#include <ctype.h>

static void test_letters_digits_and_three_marks(void **state base_unused)
{
    for (unsigned byte = 0; byte <= UINT8_MAX; byte++) {
        const char name[] = {'a', (char)byte, 'z'};
        const bool is_good = byte < 0x80 && (isalnum((int)byte) || byte == '-' || byte == '_' || byte == '.');
        assert_int_equal(base_name_is_good(name, sizeof(name)), is_good);
    }
}

static void test_1_to_63_bytes(void **state base_unused)
{
    char name[BASE_NAME_MAX + 1];
    memset(name, 'n', sizeof(name));
    assert_false(base_name_is_good(name, 0));
    assert_true(base_name_is_good(name, 1));
    assert_true(base_name_is_good(name, BASE_NAME_MAX));
    assert_false(base_name_is_good(name, BASE_NAME_MAX + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_letters_digits_and_three_marks),
        cmocka_unit_test(test_1_to_63_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
