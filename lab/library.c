/* Loading other people's libraries, and finding their functions. */
#include "lab/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

int lab_library_open(const char *file, const char *const *names, size_t count, void *ret_calls, char *why,
                     size_t why_room)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)snprintf(why, why_room, "%s", dlerror());
        return -ELIBACC;
    }
    for (size_t i = 0; i < count; i++) {
        void *call = dlsym(library, names[i]);
        if (call == NULL) {
            (void)snprintf(why, why_room, "%s", dlerror());
            return -ELIBACC;
        }
        memcpy((uint8_t *)ret_calls + i * sizeof(call), &call, sizeof(call));
    }
    return 0;
}
