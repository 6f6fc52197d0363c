/* The verbs of `tarn-lab`, each of a file of its name. */
#ifndef LAB_VERBS_H
#define LAB_VERBS_H

#include "bench/bench.h"

extern const struct bench_verb lab_verb_amplification;
extern const struct bench_verb lab_verb_cache;
extern const struct bench_verb lab_verb_depot;
extern const struct bench_verb lab_verb_drive;
extern const struct bench_verb lab_verb_fabric;
extern const struct bench_verb lab_verb_growth;
extern const struct bench_verb lab_verb_hot;
extern const struct bench_verb lab_verb_index;
extern const struct bench_verb lab_verb_memcache;
extern const struct bench_verb lab_verb_nessie;
extern const struct bench_verb lab_verb_restart;
extern const struct bench_verb lab_verb_rfp;
extern const struct bench_verb lab_verb_rpc;
extern const struct bench_verb lab_verb_rstore;
extern const struct bench_verb lab_verb_space;
extern const struct bench_verb lab_verb_hash;
extern const struct bench_verb lab_verb_tree;
extern const struct bench_verb lab_verb_speed;
extern const struct bench_verb lab_verb_task;
extern const struct bench_verb lab_verb_ycsb;

#endif
