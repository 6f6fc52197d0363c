/*
 * Other people's libraries, loaded when a benchmark needs them: so the program runs without them, and its
 * package needs none. What their headers declare is called through pointers:
 *
 *   #define CALLS(X) X(foo_open) X(foo_close)
 *   LAB_LIBRARY_CALLS(CALLS)
 *   struct calls calls;
 *   lab_library_open("libfoo.so.1", names, base_array_count(names), &calls, ...)
 */
#ifndef LAB_LIBRARY_H
#define LAB_LIBRARY_H

#include "base/base.h"

#define LAB_LIBRARY_MEMBER(name) __typeof__(&(name)) name;
#define LAB_LIBRARY_NAME(name)   #name,

/* Of a file that calls one library: `struct calls`, pointers to its functions, and their `names`. */
#define LAB_LIBRARY_CALLS(CALLS)                                                                             \
    struct calls {                                                                                           \
        CALLS(LAB_LIBRARY_MEMBER)                                                                            \
    };                                                                                                       \
    static const char *const names[] = {CALLS(LAB_LIBRARY_NAME)};                                            \
    _Static_assert(sizeof(struct calls) == base_array_count(names) * sizeof(void *),                         \
                   "pointers to functions alone");

/**
 * Load a library and look its functions up. It stays loaded until the process ends.
 *
 * @param file        as the linker names it, with the version of the headers
 * @param names       of functions
 * @param ret_calls   a structure of as many pointers to functions, in the same order
 * @return 0; -ELIBACC (there is none, or it lacks one)
 * @param why         receives a sentence on failure
 */
base_must_check int lab_library_open(const char *file, const char *const *names, size_t count,
                                     void *ret_calls, char *why, size_t why_room);

#endif
