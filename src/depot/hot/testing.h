/* What the tests of the hot tier share: the proof of its invariants. */
#ifndef DEPOT_HOT_TESTING_H
#define DEPOT_HOT_TESTING_H

#include "depot/hot/hot.h"

/* Prove the invariants of a tier (README numbers them), with all of its locks held: fails the test with a sentence. */
void testing_hot_validate(struct depot_hot *hot);

#endif
