/* Tests of command lines: quoting, failures, output. */
#include "base/testing.h"

#include <string.h>

#include "lab/command.h"

static void test_arguments_are_in_order(void **state)
{
    (void)state;
    struct lab_command command = {.count = 0};
    lab_command_add(&command, "%s", "fio");
    lab_command_add(&command, "--depth=%d", 128);
    lab_command_add(&command, "%s", "");
    assert_false(command.full);
    assert_int_equal(command.count, 3);
    assert_string_equal(command.arguments[0], "fio");
    assert_string_equal(command.arguments[1], "--depth=128");
    assert_string_equal(command.arguments[2], "");
    assert_null(command.arguments[3]);
}

static void test_too_many_arguments(void **state)
{
    (void)state;
    struct lab_command command = {.count = 0};
    for (int i = 0; i < LAB_COMMAND_ARGUMENTS_MAX; i++)
        lab_command_add(&command, "%d", i);
    assert_false(command.full);
    lab_command_add(&command, "one more");
    assert_true(command.full);
    assert_int_equal(command.count, LAB_COMMAND_ARGUMENTS_MAX);
    assert_null(command.arguments[LAB_COMMAND_ARGUMENTS_MAX]);
}

/* Once something was left out it stays said, though what comes next would fit. */
static void test_too_long_an_argument(void **state)
{
    (void)state;
    static char text[LAB_COMMAND_TEXT_ROOM + 1];
    memset(text, 'x', LAB_COMMAND_TEXT_ROOM);
    struct lab_command command = {.count = 0};
    lab_command_add(&command, "%s", text);
    lab_command_add(&command, "short");
    assert_true(command.full);
    assert_int_equal(command.count, 0);
    assert_null(command.arguments[0]);
    command = (struct lab_command){.count = 0};
    lab_command_add(&command, "%s", text + 1); /* with its zero it is as long as there is room */
    assert_false(command.full);
    assert_int_equal(strlen(command.arguments[0]), LAB_COMMAND_TEXT_ROOM - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments_are_in_order),
        cmocka_unit_test(test_too_many_arguments),
        cmocka_unit_test(test_too_long_an_argument),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
