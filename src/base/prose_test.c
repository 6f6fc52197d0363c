/* Whether text fits its lines, and no word is lost. */
#include "base/prose.h"
#include "base/testing.h"
#include <stdlib.h>

static void expect(const char *text, const char *wanted)
{
    char *found = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&found, &bytes);
    base_prose_print(text, file);
    fclose(file);
    assert_string_equal(found, wanted);
    free(found);
}

static void paragraphs_are_filled(void **state)
{
    (void)state;
    expect("", "");
    expect("one\ntwo\n\nthree", "one two\n\nthree\n");
    expect("aaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbb cccccccccccccccccccc dddddddddddddd eee\nf\n",
           "aaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbb cccccccccccccccccccc dddddddddddddd\neee f\n");
}

static void rows_are_broken_below_their_second_column(void **state)
{
    (void)state;
    expect("Head:\n  name   what it is\n  other  more\n", "Head:\n  name   what it is\n  other  more\n");
    expect(
        "  name   aaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbb cccccccccccccccccccc dddddddddddddd\n",
        "  name   aaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbb cccccccccccccccccccc\n         dddddddddddddd\n");
    expect(
        "  a-row-of-one-column-that-is-longer-than-any-terminal-is-wide-goes-on-as-it-stands-to-its-end\n",
        "  a-row-of-one-column-that-is-longer-than-any-terminal-is-wide-goes-on-as-it-stands-to-its-end\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paragraphs_are_filled),
        cmocka_unit_test(rows_are_broken_below_their_second_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
