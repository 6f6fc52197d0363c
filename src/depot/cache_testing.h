/* For the tests of cache mode: caches, numbered keys with numbered values. */
#ifndef DEPOT_CACHE_TESTING_H
#define DEPOT_CACHE_TESTING_H

#include "depot/check/testing.h"
#include "depot/depot_internal.h"

void open_as(struct testing_store *store, struct testing_drive *drive, struct testing_clock *clock,
             enum tarn_mode mode, bool cache);

struct tarn_depot_stats cache_stats_of(struct testing_store *store);

void key_of(uint32_t number, char key[16]);

int numbered_put(struct testing_store *store, uint32_t number, uint32_t value, size_t bytes);

/* @return the value; 0: none */
uint32_t numbered_get(struct testing_store *store, uint32_t number);

int numbered_delete(struct testing_store *store, uint32_t number);

/* Puts that fill a store more than once. @return the next key */
uint32_t flood(struct testing_store *store, uint32_t first, uint32_t times);

/* The service evicts until some segments are free. */
void wait_until_quiet(struct testing_store *store);

void expect_proven(struct testing_drive *drive, struct testing_clock *clock);

#endif
