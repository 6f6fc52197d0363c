/* For the tests of repair: a store with a key that is going to be lost, and what a repair tells. */
#ifndef DEPOT_REPAIR_TESTING_H
#define DEPOT_REPAIR_TESTING_H

#include "depot/check/testing.h"

#define OLD_TEXT "what was there first"
#define NEW_TEXT "what is there now"

/* What a repair has said. */
struct losses {
    struct depot_repair_report report;
    unsigned named;
    char key[64]; /* of the last that had a name */
};

/** @return as depot_repair() */
int testing_repair(struct testing_drive *drive, struct losses *losses);

/** Keys 0 to 99, and "lost" in the midst of them, twice. @param deleted  "lost", at the end */
struct testing_drive testing_losing_store(bool deleted);

/** Where a text stands on the drive; NULL: it does not. @param from  NULL: from the beginning */
uint8_t *testing_find_text(struct testing_drive *drive, const char *text, uint8_t *from);

/** A store after a repair: it is whole, its keys are there, and "lost" is not, whatever happens from now on.
 */
void testing_expect_repaired(struct testing_drive *drive);

#endif
