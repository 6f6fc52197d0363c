/*
 * For the tests of this layer: stores on a drive in memory, what is put into them and what must be found, and
 * the fixture that most tests have.
 */
#ifndef DEPOT_TESTING_H
#define DEPOT_TESTING_H

#include "depot/depot.h"
#include "drive/memory_testing.h"
#include "seglog/seglog_format.h"

#define TESTING_STORE_BYTES (UINT64_C(2) << 20) /* some 15 segments */
#define TESTING_BLOCK_BYTES SEGLOG_BLOCK_BYTES_MIN

/* ---- stores ------------------------------------------------------------------------------------- */

/* A store on a node of its own. */
struct testing_store {
    struct tarn_node *node;
    struct tarn_depot *depot;
};

/** Open a store, without a hot tier unless the options ask for one, so that gets read the drive.
 * @return what the opening said; the node is closed again if that is not 0 */
int testing_try_open(struct testing_store *store, struct testing_drive *drive, struct testing_clock *clock,
                     const struct tarn_depot_options *options);

/** Open a store, made if there is none. */
void depot_testing_open(struct testing_store *store, struct testing_drive *drive, struct testing_clock *clock,
                        enum tarn_mode mode);

void depot_testing_close(struct testing_store *store);

/** Open a store and close it again. @return what the opening said */
int testing_try_once(struct testing_drive *drive, uint64_t create_bytes);

/**
 * Close a store. @param killed  as if its process had died instead
 *
 * @return its drive
 */
struct testing_drive depot_testing_end(struct testing_store *store, struct testing_drive *drive, bool killed);

/* ---- what is in them ---------------------------------------------------------------------------- */

int depot_testing_put(struct testing_store *store, const char *key, const char *value);

int testing_delete(struct testing_store *store, const char *key);

/** Expect a value, NULL for none. */
void depot_testing_expect(struct testing_store *store, const char *key, const char *value);

/** Store a value under the keys "BEGIN" to "END - 1". */
void testing_put_keys(struct testing_store *store, int begin, int end, const char *value);

void testing_expect_keys(struct testing_store *store, int begin, int end, const char *value);

/** A store with `keys` keys, after a clean end or not. */
struct testing_drive testing_made_store(int keys, enum tarn_mode mode, bool killed);

/** The superblock, from the drive's bytes. */
struct seglog_superblock_format depot_testing_superblock(const struct testing_drive *drive);

/* ---- the fixture -------------------------------------------------------------------------------- */

#define TESTING_BEGIN (UINT64_C(1700000000) * BASE_NS_PER_SECOND) /* what its clock says at first */

/* An open store. */
struct testing_fixture {
    struct testing_drive drive;
    struct testing_clock clock;
    struct testing_store store;
    enum tarn_mode mode;
};

/** Begin a fixture that is all zero. */
void testing_fixture_begin(struct testing_fixture *fixture, enum tarn_mode mode);

void testing_fixture_end(struct testing_fixture *fixture);

void testing_reopen(struct testing_fixture *fixture);

/** Before a test: a store in power mode is its state. */
int testing_setup(void **state);

/** After it. */
int testing_teardown(void **state);

#endif
