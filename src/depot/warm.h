/*
 * Warming: after a clean restart the hot tier gets back what was asked for most. Closing marks the places of these records
 * in the checkpoint, by the index's hit bits; opening reads them in the background, at a rate. README, "The hot tier".
 */
#ifndef DEPOT_WARM_H
#define DEPOT_WARM_H

#include "depot/index/index.h"

struct tarn_depot;
struct depot_warming;

/**
 * Begin to read the marked records.
 *
 * @param rate_bytes  a second at most; 0: nothing is read, nor marked when the store is closed
 * @return 0; -ENOMEM; pthread_create's error
 */
base_must_check int depot_warming_start(struct tarn_depot *depot, uint64_t rate_bytes);

/** End it, if it is not at its end. Yields. */
void depot_warming_stop(struct tarn_depot *depot);

/** Wait until it has come to its end, if it was started. Yields. */
void depot_warming_wait(struct tarn_depot *depot);

/** Number of records that it has read. Any thread or task. */
uint64_t depot_warming_records(const struct tarn_depot *depot);

/** Mark those of some entries, on their way into the last checkpoint, whose records are hot, and no others. */
void depot_warming_mark(struct tarn_depot *depot, struct depot_index_item *items, uint32_t count);

/** Free its memory. The store is closed. */
void depot_warming_deinit(struct tarn_depot *depot);

#endif
