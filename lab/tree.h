/*
 * `tarn-lab tree`: the structures that its files share. The tree alone, in memory, beside ordered stores that live in this process, too,
 * behind the interface that `tarn-lab ycsb` has.
 */
#ifndef LAB_TREE_H
#define LAB_TREE_H

#include "lab/ycsb.h"

/** Tarn's: one meganode and its extents behind a lock of readers and writers, as a store of one process has them, without
 * the depot. */
extern const struct lab_ycsb_engine lab_tree_tarn;

#endif
