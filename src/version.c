/*
 * version: tarn_version(). Meson passes the project's version as a string and as numbers, which must be
 * those of the public header.
 */
#include <tarn/tarn.h>

_Static_assert(TARN_VERSION_MAJOR == PROJECT_MAJOR, "include/tarn/tarn.h and meson.build differ");
_Static_assert(TARN_VERSION_MINOR == PROJECT_MINOR, "include/tarn/tarn.h and meson.build differ");
_Static_assert(TARN_VERSION_PATCH == PROJECT_PATCH, "include/tarn/tarn.h and meson.build differ");

const char *tarn_version(void)
{
    return PROJECT_VERSION;
}
