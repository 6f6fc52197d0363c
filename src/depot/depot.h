/*
 * depot: what other layers of Tarn may ask of a store besides <tarn/depot.h>, whose rules hold here.
 */
#ifndef DEPOT_DEPOT_H
#define DEPOT_DEPOT_H

#include "base/base.h"
#include <tarn/depot.h>

struct drive_info;

/**
 * Open a store with choices of how the drive is used that the public options do not offer.
 *
 * @param direct        enum drive_direct; overrules options->direct_off
 * @param lock_wait_ns  how long to wait for who has the drive open to be gone; 0: the drive's default
 * @return as tarn_depot_open()
 *
 * Yields.
 */
base_must_check int depot_open(struct tarn_node *node, const char *path,
                               const struct tarn_depot_options *options, unsigned direct,
                               uint64_t lock_wait_ns, struct tarn_depot **ret_depot);

/** What the store's drive is. Valid until the store is closed. */
const struct drive_info *depot_drive_info(const struct tarn_depot *depot);

/** Whether a write failed, so that the store takes no more. Any thread or task. */
bool depot_failed(struct tarn_depot *depot);

/**
 * Measure from now on how long each stage of the work takes. Once for a store.
 *
 * @return 0; -ENOMEM
 */
base_must_check int depot_measure(struct tarn_depot *depot);

/**
 * Write the histograms of the stages as a JSON object, empty if nothing is measured.
 *
 * @param key  name of the object in its parent, or NULL
 * @return 0; -ENOMEM. Any thread or task.
 */
base_must_check int depot_write_stages(struct tarn_depot *depot, struct base_json *json, const char *key);

#endif
