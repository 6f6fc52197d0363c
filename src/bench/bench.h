/*
 * bench: `tarn bench`: how fast, beside what a user would pick instead, in one run. README.md says how to
 * read the results.
 *
 * Threading: call it from a plain thread of a process that has no other, because it forks what loads and
 * what is loaded.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdio.h>

/**
 * Run `tarn bench VERB`.
 *
 * @param argc, argv  the verb and its options, without "tarn bench"; borrowed until return
 * @param out         results: a JSON object a line with --json, else tables; the text of --help
 * @param err         errors and progress
 * @return the exit status: 0; 1 (something failed); 2 (usage)
 *
 * Blocks. Plain threads only.
 */
int bench_main(int argc, char *const *argv, FILE *out, FILE *err);

/** Print the verbs of `tarn bench`, a line each. */
void bench_print_verbs(FILE *file);

#endif
