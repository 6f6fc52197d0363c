/* For the tests: with a sanitizer everything takes some ten times as long, and they do less. */
#ifndef BASE_TESTING_SLOW_H
#define BASE_TESTING_SLOW_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TESTING_SLOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TESTING_SLOW 1
#endif
#endif
#ifndef TESTING_SLOW
#define TESTING_SLOW 0
#endif

#endif
