/* For tests only: a meganode in memory of this process. */
#ifndef TREE_TESTING_H
#define TREE_TESTING_H

#include "base/testing.h"
#include "tree/mega.h"

#define TREE_TESTING_REGION 9u

struct tree_testing {
    struct base_account account;
    struct tarn_fabric_region region, *regions[1];
    struct tree_memory memory;
    struct tree_mega *mega;
};

/** Open an empty meganode in memory that has had something else in it. */
void tree_testing_open(struct tree_testing *testing, uint32_t unit_bytes, uint64_t bytes);

/** Close it, and see that all memory was given back. */
void tree_testing_close(struct tree_testing *testing);

/** A value all of whose parts come from one number. */
struct tree_value tree_testing_value(uint64_t number);

/** See that a value is that of a number. */
void tree_testing_expect(struct tree_value value, uint64_t number);

#endif
