/* Which bytes may be a name. */
#include "base/name.h"
#include <string.h>

bool base_name_is_good(const char *name, size_t len)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    for (size_t i = 0; i < len; i++) {
        if (name[i] == '\0' || strchr(good, name[i]) == NULL)
            return false;
    }
    return len > 0 && len <= BASE_NAME_MAX;
}
