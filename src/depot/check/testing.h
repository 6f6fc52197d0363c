/* For the tests of check: stores to be checked, and what was told of them. */
#ifndef DEPOT_CHECK_TESTING_H
#define DEPOT_CHECK_TESTING_H

#include "depot/testing.h"

enum {
    KEYS = 60,
    REMOVED = 10,
    OVERWRITTEN = 20,
    INVARIANTS = 17,
};

struct told {
    unsigned count[INVARIANTS];
    unsigned all;
    char last[256]; /* sentence */
    uint64_t done, of;
};

/** Counts. */
void testing_tell(void *arg, unsigned invariant, const char *sentence);

/** Expects it to grow. */
void testing_progress(void *arg, uint64_t done, uint64_t all);

/** Check a store. @return as depot_check() */
int depot_testing_check(struct testing_drive *drive, struct testing_clock *clock, struct told *told,
                        struct depot_check_report *report);

/** One of a kind, and perhaps what follows from it. */
void expect_fault(struct testing_drive *drive, unsigned invariant);

/** One fault, and nothing else. */
void expect_only(struct testing_drive *drive, unsigned invariant);

/** No fault. */
void expect_sound(struct testing_drive *drive);

/** Store a value of a length that the number says. */
void put_number(struct testing_store *store, int number, int version);

/** A store with values, values that were superseded, and tombstones. */
struct testing_drive made_store(bool killed);

/* ---- looking into the bytes ------------------------------------------------------------------------ */

/** A slot of the state. */
struct seglog_state_format *state_at(struct testing_drive *drive, uint32_t slot);

/** The first good slot of the newest state. */
uint32_t newest_slot(struct testing_drive *drive);

/* A segment that lives, by its insides. */
struct place {
    struct seglog_superblock_format superblock;
    struct seglog_segment_format header;
    uint8_t *segment;
    uint8_t *summary; /* NULL: there is none */
    uint32_t number;
    struct seglog_trailer_format trailer;
    struct seglog_entry_format *entries;
};

/** The first entry of a kind; none: how many there are. */
uint32_t entry_of(const struct place *place, uint32_t kind);

/** Look at a segment. @return whether it lives and is of a kind, with its insides in *place */
bool look_at(struct testing_drive *drive, uint32_t number, uint32_t kind, struct place *place);

/** The record of an entry. */
uint8_t *record_at(const struct place *place, uint32_t entry);

/** The first segment that has a record of a kind. */
struct place find_records(struct testing_drive *drive, uint32_t kind);

/** The first segment of the only checkpoint. */
struct place find_checkpoint(struct testing_drive *drive);

/** Its first part, with the bytes behind it. */
struct seglog_part_format *part_of(const struct place *place);

#endif
