/* The verbs of `tarn bench`, each of a file of its name. */
#ifndef BENCH_VERBS_H
#define BENCH_VERBS_H

#include "bench/bench.h"

extern const struct bench_verb bench_verb_kv;
extern const struct bench_verb bench_verb_memcache;

#endif
