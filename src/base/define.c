/* What define.h leaves to a function: a failed assertion, and looking whether memory is all zero. */
#include "base/define.h"

#include <stdio.h>
#include <stdlib.h>

bool base_is_zero(const void *bytes, size_t len)
{
    const uint8_t *first = bytes;
    return len == 0 || (first[0] == 0 && memcmp(first, first + 1, len - 1) == 0);
}

void base_assert_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
    fflush(stderr);
    abort();
}
