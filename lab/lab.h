/*
 * The laboratory: `tarn-lab` measures parts of Tarn beside what one would use instead, and draws the figures of papers.
 * What its verbs share beyond "bench/bench.h".
 */
#ifndef LAB_LAB_H
#define LAB_LAB_H

#include "bench/bench.h"
#include "lab/usage.h"

extern const struct bench_program lab_program;

extern const char *const lab_directs[]; /* as enum drive_direct */

/* The settings of verbs that use files and have fio beside them: members direct, spin_ns, fio. */
#define LAB_FILE_SETTINGS(options_type)                                                                      \
    BENCH_SETTING(options_type, ENUM, "direct", direct,                                                      \
                  "Whether to go past the page cache; fio does as Tarn does.", .choices = lab_directs,       \
                  .default_text = "auto"),                                                                   \
        BENCH_SETTING(options_type, DURATION, "spin", spin_ns,                                               \
                      "How long Tarn's scheduler looks for work before it sleeps.", .default_text = "0"),    \
        BENCH_SETTING(options_type, BOOL, "fio", fio, "Measure fio beside it.", .default_text = "yes")

/** Check that a file is not there, or may be overwritten. @return 0; -EINVAL: said in bench->err */
base_must_check int lab_check_new_file(struct bench *bench, const char *path, bool force);

#endif
