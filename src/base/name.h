/* Names that people give to things, and that are part of URLs: stores, namespaces, regions, memory servers. */
#ifndef BASE_NAME_H
#define BASE_NAME_H

#include "base/define.h"

#define BASE_NAME_MAX 63 /* the most bytes of a name */

/**
 * Whether some bytes may be a name: 1 to BASE_NAME_MAX letters, digits, '-', '_' and '.'.
 */
bool base_name_is_good(const char *name, size_t len);

#endif
