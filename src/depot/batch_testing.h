/* For the tests of batches: several keys that get a value together, and hold it together. */
#ifndef DEPOT_BATCH_TESTING_H
#define DEPOT_BATCH_TESTING_H

#include "depot/pieces/testing.h"

/** An item that stores. */
struct tarn_batch_item item_put(const char *key, const char *value);

/** An item that removes. */
struct tarn_batch_item item_remove(const char *key);

/** Store values of different lengths, made of one letter, under "member0" and so on. @return as the call */
int write_members(struct testing_fixture *fixture, uint32_t count, char letter, uint32_t bytes);

/** What one of them holds: its letter, 0 if it is not there. */
char member_letter(struct testing_fixture *fixture, uint32_t i, uint32_t bytes);

/** What all of them hold: the same. */
char members_letter(struct testing_fixture *fixture, uint32_t count, uint32_t bytes);

#endif
