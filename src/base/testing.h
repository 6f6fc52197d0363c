/* For tests only: cmocka with what it needs before it, and a check that something aborts. */
#ifndef BASE_TESTING_H
#define BASE_TESTING_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/define.h"

/* Whether memory that must not be touched can be told. */
#if defined(__SANITIZE_ADDRESS__)
#define TESTING_ADDRESS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TESTING_ADDRESS_SANITIZED 1
#endif
#endif

/* Sanitizers end the process when more memory is asked for than there can be. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TESTING_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TESTING_SANITIZED 1
#endif
#endif

/* Tests of one subject that several programs run. */
struct testing_suite {
    const struct CMUnitTest *tests;
    size_t count;
};

#define TESTING_SUITE(array)                                                                                 \
    {                                                                                                        \
        (array), base_array_count(array)                                                                     \
    }

/**
 * Run suites as one group of cmocka's.
 *
 * @param suites  ends with one that has no tests
 * @param only    beginnings of the names of those to run, NULL after the last; NULL: all
 * @return how many failed
 */
int testing_run_suites(const char *name, const struct testing_suite *suites, const char *const *only,
                       CMFixtureFunction setup, CMFixtureFunction teardown);

/**
 * Whether a function aborts, tried out in a process of its own whose standard error is closed.
 */
bool testing_aborts(void (*function)(void *arg), void *arg);

#endif
