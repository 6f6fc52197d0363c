/*
 * `tarn-lab tree`: the structures that its files share. The tree alone, in memory, beside ordered stores that live in this process, too,
 * behind the interface that `tarn-lab ycsb` has.
 */
#ifndef LAB_TREE_H
#define LAB_TREE_H

#include "lab/ycsb.h"

enum {
    LAB_TREE_KEY_MIN = 8,
    LAB_TREE_KEY_MAX = 64,
    LAB_TREE_VALUE_BYTES = 8,
    LAB_TREE_THREADS_MAX = 64,
};

/** Tarn's: one meganode and its extents behind a lock of readers and writers, as a store of one process has them, without
 * the depot. */
extern const struct lab_ycsb_engine lab_tree_tarn;

/** The key of a record, of any length from LAB_TREE_KEY_MIN to _MAX and in no order: no two numbers have the same. @param
 * key  LAB_TREE_KEY_MAX bytes of room @return its length */
size_t lab_tree_key(uint64_t number, uint8_t *key);

#endif
