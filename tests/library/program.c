/*
 * program: a user's program in its smallest form, with all headers; tests/library/installed compiles it.
 */
#include <stdio.h>
#include <string.h>
#include <tarn/depot.h>
#include <tarn/fabric.h>
#include <tarn/tarn.h>

int main(void)
{
    char header[64];

    snprintf(header, sizeof(header), "%d.%d.%d", TARN_VERSION_MAJOR, TARN_VERSION_MINOR, TARN_VERSION_PATCH);
    puts(tarn_version());
    return strcmp(header, tarn_version()) != 0;
}
