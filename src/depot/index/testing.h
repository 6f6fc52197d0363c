/* What the index's tests share: an index of a few regions, and what every test does with it. */
#ifndef DEPOT_INDEX_TESTING_H
#define DEPOT_INDEX_TESTING_H

#include "base/base.h"
#include "base/testing.h"
#include "depot/index/index_internal.h"
#include <errno.h>

struct fixture {
    struct base_account account;
    struct depot_index index;
};

/* Tables of one region, two, or four; a directory of up to 2^17 tables. */
extern const struct depot_index_widths small;

extern const struct depot_index_widths medium;

extern const struct depot_index_widths large;

void open_index(struct fixture *fixture, const struct depot_index_widths *widths);

void validate(struct fixture *fixture);

void close_index(struct fixture *fixture);

uint64_t hash_of(const struct depot_index_widths *widths, uint64_t tag, uint64_t position);

void insert(struct fixture *fixture, uint64_t hash, uint64_t address, uint64_t grains);

uint32_t find_count(struct fixture *fixture, uint64_t hash);

void grow_all(struct fixture *fixture);

/* Fill with random keys until one finds no place. @return percent of the capacity */
uint64_t index_fill(struct fixture *fixture, const struct depot_index_widths *widths, uint64_t seed);

#endif
