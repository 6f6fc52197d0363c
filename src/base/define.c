#include "base/define.h"

#include <stdio.h>
#include <stdlib.h>

void base_assert_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
    fflush(stderr);
    abort();
}
