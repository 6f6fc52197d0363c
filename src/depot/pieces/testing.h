/* For the tests of values in pieces: what is stored, and that it comes back. */
#ifndef DEPOT_PIECES_TESTING_H
#define DEPOT_PIECES_TESTING_H

#include "depot/check/testing.h"
#include "depot/depot_internal.h"

#define ROOM (UINT64_C(1) << 20)

extern uint8_t given[ROOM], found[ROOM];

struct tarn_depot *depot_of(struct testing_fixture *fixture);

struct tarn_depot_stats stats_of(struct testing_fixture *fixture);

/* No two places look alike. */
void fill(uint32_t seed, size_t bytes);

int put_long(struct testing_fixture *fixture, const char *key, uint32_t seed, size_t bytes);

void expect_long(struct testing_fixture *fixture, const char *key, uint32_t seed, size_t bytes);

/* The store ends, in good order or not, is proven, and opened again. */
void restart(struct testing_fixture *fixture, bool killed);

/* Of the value of "k". @param bytes  that shall come, or TARN_LENGTH_UNKNOWN */
struct tarn_depot_writer *open_writer(struct testing_fixture *fixture, uint64_t bytes);

#endif
