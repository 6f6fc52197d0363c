/*
 * The laboratory: `tarn-lab` measures parts of Tarn beside what one would use instead, and draws the figures of papers.
 * What its verbs share beyond "bench/bench.h".
 */
#ifndef LAB_LAB_H
#define LAB_LAB_H

#include "bench/bench.h"
#include "lab/lab.h"
#include "lab/usage.h"

extern const struct bench_program lab_program;

extern const char *const lab_directs[]; /* as enum drive_direct */

/* The settings of verbs that use files and have fio beside them: members direct, spin_ns, fio. */
#define LAB_FILE_SETTINGS(options_type)                                                                      \
    {.name = "direct",                                                                                       \
     .type = BASE_SETTING_ENUM,                                                                              \
     .choices = lab_directs,                                                                                 \
     .default_text = "auto",                                                                                 \
     .help = "Whether to go past the page cache; fio does as Tarn does.",                                    \
     .offset = offsetof(options_type, direct)},                                                              \
        {.name = "spin",                                                                                     \
         .type = BASE_SETTING_DURATION,                                                                      \
         .default_text = "0",                                                                                \
         .help = "How long Tarn's scheduler looks for work before it sleeps.",                               \
         .offset = offsetof(options_type, spin_ns)},                                                         \
    {                                                                                                        \
        .name = "fio", .type = BASE_SETTING_BOOL, .default_text = "yes", .help = "Measure fio beside it.",   \
        .offset = offsetof(options_type, fio)                                                                \
    }

#endif
