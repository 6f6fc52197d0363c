/*
 * Do the copies copy what they should, at all places and lengths, and each aligned word whole? Plain C without a
 * framework, so that it can also be built for another processor and run under an emulator (tests/aarch64).
 */
#include "fabric/lanes.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { PLACES = 24, BYTES_MAX = 300, AROUND = 32, ROOM = PLACES + BYTES_MAX + 2 * AROUND };

typedef void copy_function(void *to, const void *from, uint64_t bytes);

static void check_copy(copy_function *copy, unsigned to_place, unsigned from_place, unsigned bytes)
{
    static _Alignas(64) uint8_t from[ROOM], to[ROOM];
    for (unsigned i = 0; i < ROOM; i++) {
        from[i] = (uint8_t)(i * 7 + bytes);
        to[i] = (uint8_t)(i * 3 + 1);
    }
    copy(to + AROUND + to_place, from + AROUND + from_place, bytes);
    base_assert(memcmp(to + AROUND + to_place, from + AROUND + from_place, bytes) == 0);
    for (unsigned i = 0; i < ROOM; i++) {
        if (i < AROUND + to_place || i >= AROUND + to_place + bytes)
            base_assert(to[i] == (uint8_t)(i * 3 + 1));
    }
}

static void check_copies(void)
{
    for (unsigned to = 0; to < PLACES; to++) {
        for (unsigned from = 0; from < PLACES; from++) {
            for (unsigned bytes = 0; bytes <= BYTES_MAX; bytes += to == 0 || from == 0 ? 1 : 13) {
                check_copy(fabric_lanes_load, to, from, bytes);
                check_copy(fabric_lanes_store, to, from, bytes);
            }
        }
    }
}

/* ---- whole words -------------------------------------------------------------------------------- */

enum { WORDS = 33, FIRST = 1, ROUNDS = 1000000 };

struct shared {
    _Alignas(64) uint64_t words[WORDS];
    _Atomic bool over;
};

/* Words that have eight equal bytes, of which each round has others. */
static void *store_on(void *arg)
{
    struct shared *shared = arg;
    uint64_t words[WORDS - FIRST];
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < WORDS - FIRST; i++)
            words[i] = (round + i) % 256 * UINT64_C(0x0101010101010101);
        fabric_lanes_store(&shared->words[FIRST], words, sizeof(words));
    }
    atomic_store(&shared->over, true);
    return NULL;
}

static uint64_t count_torn(const struct shared *shared)
{
    static uint8_t copy[WORDS * 8 + 1];
    uint64_t torn = 0;
    fabric_lanes_load(copy + 1, shared->words, sizeof(shared->words));
    for (unsigned i = 0; i < WORDS; i++) {
        uint64_t word;
        memcpy(&word, copy + 1 + i * 8, sizeof(word));
        torn += word != (word & 255) * UINT64_C(0x0101010101010101);
    }
    return torn;
}

static void check_words(void)
{
    static struct shared shared;
    pthread_t thread;
    uint64_t looks = 0;
    base_assert(pthread_create(&thread, NULL, store_on, &shared) == 0);
    while (!atomic_load(&shared.over)) {
        base_assert(count_torn(&shared) == 0);
        looks++;
    }
    base_assert(pthread_join(thread, NULL) == 0);
    base_assert(count_torn(&shared) == 0 && shared.words[WORDS - 1] != 0);
    (void)printf("%u rounds, %llu looks: each word whole\n", (unsigned)ROUNDS, (unsigned long long)looks);
}

int main(void)
{
    check_copies();
    check_words();
    return 0;
}
