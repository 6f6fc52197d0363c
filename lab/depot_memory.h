/* How much memory a store takes. */
#ifndef LAB_DEPOT_MEMORY_H
#define LAB_DEPOT_MEMORY_H

#include "lab/depot_store.h"

/**
 * Fill a new store with records of 100 bytes, and write what it then has in memory, part by part.
 *
 * @param path  a file that is made and removed
 * @return 0; negative errno: said in bench->err. Blocks.
 */
base_must_check int lab_depot_memory(struct bench *bench, const struct lab_depot_setup *setup,
                                     const char *path, uint64_t records);

#endif
